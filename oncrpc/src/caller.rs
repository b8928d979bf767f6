//! The backward direction: calls from a server to a client over the client's connection.
//!
//! The state only advances: a handler, on any thread, takes the caller; then the transport notices
//! it. `dispatcher` of `rpcrdma-verbs` calls `begin_readiness` after it has polled a handler, and
//! sends no backward call before; `tcp::backward` only reads `is_taken`. A handler may keep the
//! channel: the transport must close it, or drop its [`Submissions`], when the connection ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::channel::{Channel, Submissions};
use crate::error::CallErrorKind;
use crate::item_buf::ItemMemory;

/// The backward direction of a connection. A transport that supports it creates one for each
/// connection, for its [`Peer`](crate::Peer).
///
/// A transport sends no backward call before a handler takes the caller, which states that the
/// client is ready for calls (RFC 8167, section 6).
///
/// ```
/// use oncrpc::CallerChannel;
///
/// let (caller, submissions) = CallerChannel::new(7, "rdma", None);
/// assert!(!caller.is_ready() && !caller.begin_readiness());
/// # drop(submissions);
/// ```
#[derive(Debug)]
pub struct CallerChannel {
    channel: Channel,
    connection: u64,
    state: AtomicU8,
}

/// No handler has taken the caller.
const NOT_TAKEN: u8 = 0;
/// A handler has taken the caller, and the transport has not noticed yet.
const TAKEN: u8 = 1;
/// The transport has noticed.
const READY: u8 = 2;

impl CallerChannel {
    /// Creates the backward direction of a connection with this number, and the transport's end of
    /// it.
    #[must_use]
    pub fn new(
        connection: u64,
        peer: impl Into<Arc<str>>,
        memory: Option<Arc<dyn ItemMemory>>,
    ) -> (Arc<Self>, Submissions) {
        let (channel, submissions) = Channel::new(peer);
        let channel = match memory {
            Some(memory) => channel.with_memory(memory),
            None => channel,
        };
        let caller = Self {
            channel,
            connection,
            state: AtomicU8::new(NOT_TAKEN),
        };
        (Arc::new(caller), submissions)
    }

    /// Returns the number of the connection.
    #[must_use]
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Ends the channel, because the connection has ended: the transport's end gets
    /// [`ChannelEvent::Shutdown`](crate::ChannelEvent::Shutdown), and calls fail for this reason.
    pub fn close(&self, reason: CallErrorKind) {
        self.channel.close(reason);
    }

    /// States that the client is ready for calls, and returns the channel to it.
    pub(crate) fn take(&self) -> Channel {
        // The caller was taken before.
        let _ = self.exchange(NOT_TAKEN, TAKEN);
        self.channel.clone()
    }

    /// Returns true if a handler has taken the caller. Before that, no channel to the client
    /// exists.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_taken(&self) -> bool {
        self.state.load(Ordering::Acquire) != NOT_TAKEN
    }

    /// Returns true once after a handler has taken the caller, so that the transport notices it.
    pub fn begin_readiness(&self) -> bool {
        self.state.load(Ordering::Relaxed) == TAKEN && self.exchange(TAKEN, READY)
    }

    /// Returns true if the transport has noticed that the client is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READY
    }

    fn exchange(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let exchanged = self.state.compare_exchange(from, to, success, failure);
        exchanged.is_ok()
    }
}
