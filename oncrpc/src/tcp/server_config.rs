//! The settings of a server's connections.

use std::time::Duration;

use super::{KEEPALIVE, MAX_RECORD};

/// Settings of a server's connections. [`ServerLimits`](crate::ServerLimits) has the limits.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(super) max_record: usize,
    pub(super) max_backward_calls: usize,
    pub(super) keepalive: Option<Duration>,
}

impl ServerConfig {
    /// Returns the default settings: messages of up to 4 MiB, 64 backward calls in flight at each
    /// connection, and a keep-alive after 60 quiet seconds.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_record: MAX_RECORD,
            max_backward_calls: 64,
            keepalive: Some(KEEPALIVE),
        }
    }

    /// Sets the maximum size in bytes of a call and of a reply to a backward call, with its header,
    /// and of a backward call. A larger call is answered with GARBAGE_ARGS, and is not executed. A
    /// larger backward call is not sent, and a larger reply to one is discarded: the call fails.
    #[must_use]
    pub const fn max_record(self, max_record: usize) -> Self {
        Self { max_record, ..self }
    }

    /// Sets the maximum number of backward calls to one client in flight ([`Context::caller`]). Up
    /// to 128 more are queued, and further calls fail. It must not exceed the client's maximum
    /// ([`ClientConfig::max_served`](super::ClientConfig::max_served)).
    ///
    /// [`Context::caller`]: crate::Context::caller
    #[must_use]
    pub const fn max_backward_calls(self, max_backward_calls: usize) -> Self {
        Self {
            max_backward_calls,
            ..self
        }
    }

    /// Sets the idle time before a connection is probed; `None` disables probes. It is lost after
    /// four probes without an answer, 15 seconds apart.
    #[must_use]
    pub const fn keepalive(self, keepalive: Option<Duration>) -> Self {
        Self { keepalive, ..self }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self::new()
    }
}
