//! The ends of calls, and the buffers that they return to the consumer.
//!
//! `released` must be called once for each message that the session has returned for transmission:
//! otherwise the session does not end the call, and does not drain. `end_call` must precede the
//! event of the end, since the consumer takes the buffers when it takes the event. The session
//! decides when a call ends; the buffers are in `driver::connection::slots`.

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CallFailure, SendOwner, ServedCallId};
use rpcrdma_proto::transfer::MAX_RESULTS;
use tracing::debug;
use tracing::field::display;

use super::Connection;
use crate::driver::events::{CallBuffers, DriverEvent};
use crate::memory::Buf;
use crate::provider::Device;

impl<D: Device> Connection<D> {
    /// Informs the session that no request refers to the memory of a message any more.
    #[inline]
    pub(super) fn released(&mut self, what: SendOwner) {
        if self.session.released(what)
            && let SendOwner::Reply { call } = what
        {
            self.end_served_call(call);
        }
    }

    /// Releases the memory of a call of the peer that has ended.
    #[inline]
    pub(super) fn end_served_call(&mut self, call: ServedCallId) {
        if let Some(incoming) = self.slots.incoming_mut(self.session.served_slot(call)) {
            incoming.end();
        }
    }

    #[cold]
    pub(super) fn call_failed(&mut self, xid: u32, error: CallFailure, sent: bool) {
        if let Some(outgoing) = self.slots.outgoing(self.session.call_slot(xid)) {
            outgoing.span.record("status", display(error));
            debug!(parent: &outgoing.span, %error, "failed");
        }
        self.end_call(xid, &[]);
        self.events
            .push(DriverEvent::CallFailed { xid, error, sent });
    }

    /// Ends a call. Its buffers, with the length of each result, wait for `take_buffers`.
    pub(super) fn end_call(&mut self, xid: u32, written: &[u32]) {
        if let Some(outgoing) = self.slots.outgoing_mut(self.session.call_slot(xid)) {
            outgoing.end(xid, written);
        }
    }

    /// Returns the buffers of a call that has ended, or none if another call uses its slot.
    pub(crate) fn take_buffers(&mut self, xid: u32) -> CallBuffers {
        self.slots
            .outgoing_mut(self.session.call_slot(xid))
            .and_then(|outgoing| outgoing.take_buffers(xid))
            .unwrap_or_default()
    }

    /// Returns the results of a call that has ended, if there are buffers for any, and drops its
    /// items.
    #[inline]
    pub(crate) fn take_results(&mut self, xid: u32) -> Option<ArrayVec<Buf, MAX_RESULTS>> {
        self.slots
            .outgoing_mut(self.session.call_slot(xid))?
            .take_results(xid)
    }
}
