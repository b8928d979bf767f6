//! Settings of clients and servers.

use std::time::Duration;

use oncrpc::ServerControl;
use rpcrdma_proto::connection::Config;

use super::message::MAX_UNBOUNDED_REPLY;
use crate::driver::DEFAULT_SPIN;

/// Returns a time in microseconds, saturated at the maximum.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Settings of a channel over RDMA.
///
/// ```
/// use rpcrdma_verbs::ClientConfig;
/// use std::time::Duration;
///
/// let config = ClientConfig::new()
///     .max_calls(64)
///     .memory(128 << 20)
///     .connect_timeout(Duration::from_secs(3))
///     .reconnect_delay(Duration::from_millis(10), Duration::from_secs(1));
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub(super) protocol: Config,
    pub(super) memory: usize,
    pub(super) completions: u32,
    pub(super) max_unbounded_reply: u32,
    pub(super) connect_timeout: Duration,
    pub(super) spin: Duration,
}

impl ClientConfig {
    /// Returns the default settings: those of [`Config::client`], 64 MiB of registered memory,
    /// replies of at most 64 KiB if the schema has no bound, and 10 s to connect.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            protocol: Config::client(),
            memory: 64 << 20,
            completions: 4096,
            max_unbounded_reply: MAX_UNBOUNDED_REPLY,
            connect_timeout: Duration::from_secs(10),
            spin: DEFAULT_SPIN,
        }
    }

    /// Sets the settings of the protocol.
    #[must_use]
    pub fn protocol(self, protocol: Config) -> Self {
        Self { protocol, ..self }
    }

    /// Sets the maximum number of calls in flight. Further calls are queued.
    #[must_use]
    pub fn max_calls(mut self, calls: u16) -> Self {
        (self.protocol.max_calls, self.protocol.credits) = (calls, calls.into());
        self
    }

    /// Sets the initial and the maximum delay between attempts to connect. The delay doubles after
    /// each failure.
    #[must_use]
    pub fn reconnect_delay(mut self, first: Duration, most: Duration) -> Self {
        self.protocol.reconnect_delay = micros(first);
        self.protocol.max_reconnect_delay = micros(most);
        self
    }

    /// Sets the time after which a server that does not answer counts as dead; see
    /// [`Config::unresponsive_timeout`].
    #[must_use]
    pub fn unresponsive_timeout(mut self, timeout: Duration) -> Self {
        self.protocol.unresponsive_timeout = micros(timeout);
        self
    }

    /// Sets the maximum amount of registered memory in bytes.
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        Self { memory, ..self }
    }

    /// Sets the maximum size in bytes of a reply without a bound in the schema or by the caller. It
    /// does not include items with a bound, which have their own memory.
    #[must_use]
    pub fn max_unbounded_reply(self, max_unbounded_reply: u32) -> Self {
        Self {
            max_unbounded_reply,
            ..self
        }
    }

    /// Sets the time after which calls fail without a connection. It begins with the first such
    /// call. The runner continues to try.
    #[must_use]
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            ..self
        }
    }

    /// Sets how long the runner polls for work before it sleeps
    /// ([`Driver::set_spin`](crate::driver::Driver::set_spin)).
    #[must_use]
    pub fn spin(self, longest: Duration) -> Self {
        Self {
            spin: longest,
            ..self
        }
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Settings of a server over RDMA.
///
/// ```
/// use rpcrdma_verbs::ServerConfig;
///
/// let config = ServerConfig::new().max_calls(64).receive_size(8192).memory(512 << 20);
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(super) protocol: Config,
    pub(super) memory: usize,
    pub(super) completions: u32,
    pub(super) control: Option<ServerControl>,
    pub(super) spin: Duration,
    pub(super) metrics_name: Option<String>,
}

impl ServerConfig {
    /// Returns the default settings: those of [`Config::server`], 256 MiB of registered memory, and
    /// the default limits of [`ServerLimits`](oncrpc::ServerLimits).
    #[must_use]
    pub const fn new() -> Self {
        Self {
            protocol: Config::server(),
            memory: 256 << 20,
            completions: 16384,
            control: None,
            spin: DEFAULT_SPIN,
            metrics_name: None,
        }
    }

    /// Sets the settings of the protocol.
    #[must_use]
    pub fn protocol(self, protocol: Config) -> Self {
        Self { protocol, ..self }
    }

    /// Sets the maximum number of calls of one client in flight, which is the maximum grant of
    /// credits.
    #[must_use]
    pub fn max_calls(mut self, calls: u16) -> Self {
        self.protocol.max_served = calls;
        self
    }

    /// Sets the size of each receive buffer in bytes, at least 4096: the maximum size of a message
    /// without chunks.
    #[must_use]
    pub fn receive_size(mut self, bytes: u32) -> Self {
        self.protocol.receive_size = bytes;
        self
    }

    /// Sets the maximum amount of registered memory in bytes.
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        Self { memory, ..self }
    }

    /// Sets the control: the admission of peers, and the limits. A rejected peer receives the
    /// reason. A server over TCP with the same control shares the limits.
    #[must_use]
    pub fn control(self, control: &ServerControl) -> Self {
        Self {
            control: Some(control.clone()),
            ..self
        }
    }

    /// Sets how long the server polls for work before it sleeps
    /// ([`Driver::set_spin`](crate::driver::Driver::set_spin)).
    #[must_use]
    pub fn spin(self, longest: Duration) -> Self {
        Self {
            spin: longest,
            ..self
        }
    }
}

#[cfg(feature = "metrics")]
impl ServerConfig {
    /// Publishes the metrics of the server's drivers
    /// ([`Driver::publish_metrics`](crate::driver::Driver::publish_metrics)) once a second, each
    /// with this name and the number of its thread as the label `driver`: `nfs-0`.
    #[must_use]
    pub fn publish_metrics(self, name: &str) -> Self {
        Self {
            metrics_name: Some(name.to_owned()),
            ..self
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self::new()
    }
}
