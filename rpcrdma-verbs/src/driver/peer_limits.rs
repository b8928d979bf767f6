//! Limits of the transfers of one peer: of their share of the registered memory, and of their time.
//!
//! `rpc_transport::admission` implements the limits, `rpc_transport::connections` sets them for
//! each accepted connection, and `driver::connection::transfers` applies them. Each successful
//! `PeerLimits::hold` must be followed by one `release`, as `HeldMemory` does. `hold_reply` must
//! precede the allocation of the memory for a reply.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_proto::connection::ServedCallId;

use super::{ConnectionId, Driver};
use crate::provider::Device;

/// Counts the memory of a peer's calls, over all of its connections, and limits the time of their
/// transfers.
pub(crate) trait PeerLimits: fmt::Debug + Send + Sync {
    /// Counts bytes. Returns false, and counts nothing, if memory is scarce (more than half of the
    /// budget is used) and the peer would have too many.
    fn hold(&self, bytes: usize, is_scarce: bool) -> bool;

    /// Gives back bytes that were counted.
    fn release(&self, bytes: usize);

    /// Returns how long a call or a reply may take to be transferred.
    fn transfer_time(&self) -> Option<Duration>;

    /// Counts a transfer that took too long.
    fn timed_out(&self);
}

/// The state of the transfer of a call or a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transfer {
    /// It has begun, at a time that nobody has looked up yet.
    Begun,
    /// It must end by this time of the driver in microseconds.
    Due(u64),
    /// It has ended, or has no limit.
    Ended,
}

/// Bytes that a call of a peer has until this is dropped.
#[derive(Debug)]
pub(super) struct HeldMemory {
    limits: Arc<dyn PeerLimits>,
    bytes: usize,
    pub(super) transfer: Transfer,
}

impl HeldMemory {
    /// Counts bytes for a transfer that begins, unless the peer would have too many.
    pub(super) fn new(limits: &Arc<dyn PeerLimits>, bytes: usize, is_scarce: bool) -> Option<Self> {
        limits.hold(bytes, is_scarce).then(|| Self {
            limits: limits.clone(),
            bytes,
            transfer: Transfer::Begun,
        })
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.limits.release(self.bytes);
    }
}

impl<D: Device> Driver<D> {
    /// Limits what the calls of a connection's peer have.
    pub(crate) fn limit_peer(&mut self, id: ConnectionId, limits: Arc<dyn PeerLimits>) {
        if let Some(connection) = self.get_mut(id) {
            connection.limit_peer(limits);
        }
    }

    /// Counts the memory of the reply to a call, before it is taken. Returns false if the
    /// connection is closed, because its peer has too much.
    #[inline]
    pub(crate) fn hold_reply(
        &mut self,
        id: ConnectionId,
        call: ServedCallId,
        bytes: usize,
    ) -> bool {
        self.touch_mut(id)
            .is_some_and(|connection| connection.hold_reply(call, bytes))
    }
}
