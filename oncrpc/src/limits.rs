//! The limits of a server.
//!
//! This module has the numbers alone: `current_limits` has those in force, and must store each
//! field of [`ServerLimits`] in `replace`, too; `control` and `permit` enforce them. The counters
//! of `permit` and `control` take a [`Limit`] as index: [`Limit::ALL`] has every variant, in the
//! order of their declaration. `docs/limits.md` and `docs/metrics.md` have the names and the texts.

use std::fmt;
use std::time::Duration;

/// The limits of a server, over every transport.
///
/// When a limit of calls or bytes is reached, the server reads no further call from the connections
/// concerned until there is room again. A *peer* is an address without its port.
/// [`ServerStats::reached`](crate::ServerStats::reached) counts how often each was reached.
///
/// Beyond these limits, each connection may have one call in flight and 96 KiB of memory, so that
/// no peer can block others. The results of a handler are kept even without room for them, and no
/// further call is read then. Over TCP, a call that is larger than a limit of bytes is read when
/// nothing else uses the limit, and calls are read beyond the limits, as far as those of a
/// connection allow, while the client owes an answer to a call of the server.
///
/// ```
/// use std::time::Duration;
/// use oncrpc::ServerLimits;
///
/// let limits = ServerLimits::new()
///     .max_connections_per_peer(16)
///     .max_bytes(1 << 30)
///     .handler_time(Some(Duration::from_secs(10)));
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    pub(crate) connections: usize,
    pub(crate) connections_per_peer: usize,
    pub(crate) waiting_connections: usize,
    pub(crate) calls: usize,
    pub(crate) calls_per_peer: usize,
    pub(crate) calls_per_connection: usize,
    pub(crate) bytes: usize,
    pub(crate) bytes_per_peer: usize,
    pub(crate) bytes_per_connection: usize,
    pub(crate) handler_time: Option<Duration>,
    pub(crate) transfer_time: Option<Duration>,
}

impl ServerLimits {
    /// Returns the default limits:
    ///
    /// | | in all | of a peer | of a connection |
    /// |---|---|---|---|
    /// | connections | 1,024 | 256 | |
    /// | calls in flight | 8,192 | 1,024 | 128 |
    /// | bytes in flight | 256 MiB | 64 MiB | 8 MiB |
    ///
    /// and 4,096 connections that wait for a thread, and 60 seconds for a handler, and for a call
    /// or a reply to be transferred.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            connections: 1024,
            connections_per_peer: 256,
            waiting_connections: 4096,
            calls: 8192,
            calls_per_peer: 1024,
            calls_per_connection: 128,
            bytes: 256 << 20,
            bytes_per_peer: 64 << 20,
            bytes_per_connection: 8 << 20,
            handler_time: Some(Duration::from_secs(60)),
            transfer_time: Some(Duration::from_secs(60)),
        }
    }

    /// Sets the maximum number of connections. Further connections are rejected. A connection
    /// counts until its handlers have ended.
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the maximum number of connections of one peer. Further connections are rejected.
    #[must_use]
    pub const fn max_connections_per_peer(mut self, connections: usize) -> Self {
        self.connections_per_peer = connections;
        self
    }

    /// Sets the maximum number of requests to connect that wait for one thread of a server over
    /// RDMA, before the other limits and the hook decide about them. Further requests are passed to
    /// another thread; if they are too many for each, they are rejected. Over TCP, the system's
    /// backlog bounds such requests.
    #[must_use]
    pub const fn max_waiting_connections(mut self, connections: usize) -> Self {
        self.waiting_connections = connections;
        self
    }

    /// Sets the maximum number of calls in flight. A call is in flight while its handler waits.
    #[must_use]
    pub const fn max_calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// Sets the maximum number of calls of one peer in flight.
    #[must_use]
    pub const fn max_calls_per_peer(mut self, calls: usize) -> Self {
        self.calls_per_peer = calls;
        self
    }

    /// Sets the maximum number of calls of one connection in flight.
    #[must_use]
    pub const fn max_calls_per_connection(mut self, calls: usize) -> Self {
        self.calls_per_connection = calls;
        self
    }

    /// Sets the maximum memory in bytes of arriving calls, calls in flight and unsent replies. It
    /// is rounded up to 4 KiB, and to at least that.
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the maximum of this memory for one peer.
    #[must_use]
    pub const fn max_bytes_per_peer(mut self, bytes: usize) -> Self {
        self.bytes_per_peer = bytes;
        self
    }

    /// Sets the amount of this memory at which no further call is read from a connection.
    #[must_use]
    pub const fn max_bytes_per_connection(mut self, bytes: usize) -> Self {
        self.bytes_per_connection = bytes;
        self
    }

    /// Sets the maximum time of a handler; `None` for no limit. When it passes, the handler is
    /// dropped where it waits, and the call is answered with SYSTEM_ERR. A handler finds its
    /// deadline in [`Context::deadline`](crate::Context::deadline). A handler that does not wait
    /// cannot be stopped. A router may be
    /// [without this limit](crate::Router::without_handler_time).
    #[must_use]
    pub const fn handler_time(mut self, time: Option<Duration>) -> Self {
        self.handler_time = time;
        self
    }

    /// Sets the maximum time for a call to arrive, from its first byte to its last, and for a reply
    /// to be sent; `None` for no limit. When it passes, the connection is closed. Time in which the
    /// server itself delays a call does not count. Over RDMA, this holds for calls with Read
    /// chunks, and for replies of more than 4 KiB.
    #[must_use]
    pub const fn transfer_time(mut self, time: Option<Duration>) -> Self {
        self.transfer_time = time;
        self
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// Names a limit of [`ServerLimits`]. As an error, it is the reason why a connection was rejected
/// or closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// [`ServerLimits::max_connections`].
    Connections,
    /// [`ServerLimits::max_connections_per_peer`].
    ConnectionsPerPeer,
    /// [`ServerLimits::max_waiting_connections`].
    WaitingConnections,
    /// [`ServerLimits::max_calls`].
    Calls,
    /// [`ServerLimits::max_calls_per_peer`].
    CallsPerPeer,
    /// [`ServerLimits::max_calls_per_connection`].
    CallsPerConnection,
    /// [`ServerLimits::max_bytes`].
    Bytes,
    /// [`ServerLimits::max_bytes_per_peer`].
    BytesPerPeer,
    /// [`ServerLimits::max_bytes_per_connection`].
    BytesPerConnection,
    /// [`ServerLimits::handler_time`].
    HandlerTime,
    /// [`ServerLimits::transfer_time`].
    TransferTime,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 11] = [
        Self::Connections,
        Self::ConnectionsPerPeer,
        Self::WaitingConnections,
        Self::Calls,
        Self::CallsPerPeer,
        Self::CallsPerConnection,
        Self::Bytes,
        Self::BytesPerPeer,
        Self::BytesPerConnection,
        Self::HandlerTime,
        Self::TransferTime,
    ];

    /// Returns the name of the setting in [`ServerLimits`], which is also the label in metrics.
    ///
    /// ```
    /// assert_eq!(oncrpc::Limit::CallsPerPeer.name(), "max_calls_per_peer");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "max_connections",
            Self::ConnectionsPerPeer => "max_connections_per_peer",
            Self::WaitingConnections => "max_waiting_connections",
            Self::Calls => "max_calls",
            Self::CallsPerPeer => "max_calls_per_peer",
            Self::CallsPerConnection => "max_calls_per_connection",
            Self::Bytes => "max_bytes",
            Self::BytesPerPeer => "max_bytes_per_peer",
            Self::BytesPerConnection => "max_bytes_per_connection",
            Self::HandlerTime => "handler_time",
            Self::TransferTime => "transfer_time",
        }
    }
}

impl std::error::Error for Limit {}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "too many connections",
            Self::ConnectionsPerPeer => "too many connections of the peer",
            Self::WaitingConnections => "too many connections wait to be accepted",
            Self::Calls => "too many calls in flight",
            Self::CallsPerPeer => "too many calls of the peer in flight",
            Self::CallsPerConnection => "too many calls of the connection in flight",
            Self::Bytes => "too many bytes in flight",
            Self::BytesPerPeer => "too many bytes of the peer in flight",
            Self::BytesPerConnection => "too many bytes of the connection in flight",
            Self::HandlerTime => "a handler took too long",
            Self::TransferTime => "a call or a reply took too long to be transferred",
        })
    }
}
