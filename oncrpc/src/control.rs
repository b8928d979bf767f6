//! The control of a server: admission of peers, limits and counters.
//!
//! The budgets of one peer (`of_peer`) and of all peers together (`of_all`) are in `budget`, and
//! the numbers of the limits in `current_limits`. Transports admit connections, and anyone with a
//! handle may replace the limits.
//!
//! The lock of the table is held only to read and change the table: the hook, subscribers of
//! `tracing` and the last owners of connections run without it, as they may call this module.
//! Budgets are owned by permits and calls alone, because a peer's entry is removed if nothing else
//! owns its budget.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::current_limits::CurrentLimits;
use crate::limits::{Limit, ServerLimits};
use crate::permit::{ConnectionPermit, Counters, PermitState};

/// A peer that wants to connect.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConnectRequest<'a> {
    /// The peer's address, with its port. An IPv4 address that a socket of IPv6 has as
    /// `::ffff:192.0.2.1` is `192.0.2.1`.
    pub address: SocketAddr,
    /// The name of the transport, as in [`Peer`](crate::Peer).
    pub transport: &'static str,
    /// The private data of the request; empty over TCP.
    pub private_data: &'a [u8],
}

impl<'a> ConnectRequest<'a> {
    /// Creates a request.
    #[must_use]
    pub fn new(address: SocketAddr, transport: &'static str, private_data: &'a [u8]) -> Self {
        let ip = address.ip().to_canonical();
        Self {
            address: if ip == address.ip() {
                address
            } else {
                SocketAddr::new(ip, address.port())
            },
            transport,
            private_data,
        }
    }
}

/// Describes why a peer may not connect. The server logs it. Over RDMA the client gets this text
/// with the rejection; over TCP the connection is only closed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// A limit of the server is reached.
    Limit(Limit),
    /// The hook of the server rejects the peer.
    Hook(Cow<'static, str>),
}

impl From<&'static str> for RejectReason {
    fn from(reason: &'static str) -> Self {
        Self::Hook(reason.into())
    }
}

impl From<String> for RejectReason {
    fn from(reason: String) -> Self {
        Self::Hook(reason.into())
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => limit.fmt(f),
            Self::Hook(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RejectReason {}

/// The control of a server: its limits, the admission of peers, and the counters.
///
/// Clones are handles to the same control. Servers over several transports with the same control
/// share the limits.
///
/// ```
/// use oncrpc::{Router, ServerControl, ServerLimits, tcp};
///
/// # async fn example() -> std::io::Result<()> {
/// let limits = ServerLimits::new().max_connections(100);
/// let control = ServerControl::with_hook(limits, |request| {
///     if request.address.ip().is_loopback() {
///         Ok(())
///     } else {
///         Err("only peers of this host".into())
///     }
/// });
/// let server = tcp::Server::bind("127.0.0.1:0", Router::new()).await?.control(&control);
/// tokio::spawn(server.run());
/// assert_eq!(control.stats().connections, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServerControl(Arc<Inner>);

type Hook = dyn Fn(&ConnectRequest<'_>) -> Result<(), RejectReason> + Send + Sync;

struct Inner {
    limits: Arc<CurrentLimits>,
    hook: Option<Box<Hook>>,
    budget: Arc<Budget>,
    counters: Arc<Counters>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The budgets of peers. When the map has doubled, budgets of peers without connections and
    /// calls are removed.
    peers: HashMap<IpAddr, Arc<Budget>>,
    connections: Vec<Weak<PermitState>>,
    /// The number of peers at which unused budgets are removed.
    sweep_peers_at: usize,
    /// The number of connections at which ended ones are removed.
    sweep_connections_at: usize,
    last_warning: Option<Instant>,
}

/// The minimum time between two warnings about rejected peers.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);

impl ServerControl {
    /// Creates a control that lets every peer connect, within the limits.
    #[must_use]
    pub fn new(limits: ServerLimits) -> Self {
        Self::create(limits, None)
    }

    /// Creates a control with a function that decides which peers may connect. It is called if the
    /// limits allow the connection, on the thread or task that accepts connections, which waits for
    /// it: it should not block.
    #[must_use]
    pub fn with_hook(
        limits: ServerLimits,
        hook: impl Fn(&ConnectRequest<'_>) -> Result<(), RejectReason> + Send + Sync + 'static,
    ) -> Self {
        Self::create(limits, Some(Box::new(hook)))
    }

    fn create(limits: ServerLimits, hook: Option<Box<Hook>>) -> Self {
        Self(Arc::new(Inner {
            limits: Arc::new(CurrentLimits::new(&limits)),
            hook,
            budget: Arc::new(Budget::of_all(&limits)),
            counters: Arc::default(),
            table: Mutex::default(),
        }))
    }

    /// Returns the limits that are in force.
    #[must_use]
    pub fn limits(&self) -> ServerLimits {
        self.0.limits.get()
    }

    /// Replaces the limits of a running server. Lower limits end nothing: connections stay open,
    /// and calls in flight continue, but no others are accepted until there is room again. A
    /// handler has the [time](ServerLimits::handler_time) that was in force when its call arrived.
    ///
    /// ```
    /// use oncrpc::{ServerControl, ServerLimits};
    ///
    /// let control = ServerControl::default();
    /// control.set_limits(ServerLimits::new().max_connections(10));
    /// assert_eq!(control.limits(), ServerLimits::new().max_connections(10));
    /// ```
    pub fn set_limits(&self, limits: ServerLimits) {
        let Inner {
            limits: current,
            budget,
            ..
        } = &*self.0;
        // The budget of a peer that connects meanwhile is created under this lock, from the new
        // limits.
        let table = self.lock();
        current.replace(&limits);
        budget.replace_of_all(&limits);
        for peer in table.peers.values() {
            peer.replace_of_peer(&limits);
        }
        drop(table);
        // Connections that wait for room look again.
        current.replaced.notify_waiters();
    }

    /// Admits a connection. A transport calls this, and keeps the permit while the connection is
    /// open.
    ///
    /// # Errors
    /// A limit is reached, or the hook rejects the peer. The rejection is counted and logged.
    pub fn admit(&self, request: &ConnectRequest<'_>) -> Result<ConnectionPermit, RejectReason> {
        let admitted = self.try_admit(request);
        match &admitted {
            Ok(_) => {
                self.0.counters.accepted.fetch_add(1, Relaxed);
            }
            Err(reason) => self.rejected(request, reason),
        }
        admitted
    }

    /// Returns the index of the first queue with room for one more request to connect. A transport
    /// with several threads calls this: `lengths` are those of the threads' queues, in which
    /// requests wait to be admitted.
    ///
    /// # Errors
    /// Each queue has reached the limit. The rejection is counted and logged.
    pub fn select_queue(
        &self,
        request: &ConnectRequest<'_>,
        lengths: impl IntoIterator<Item = usize>,
    ) -> Result<usize, RejectReason> {
        let max = self.0.limits.waiting_connections();
        let with_room = lengths.into_iter().position(|length| length < max);
        with_room.ok_or_else(|| {
            let reason = RejectReason::Limit(Limit::WaitingConnections);
            self.rejected(request, &reason);
            reason
        })
    }

    /// Counts and logs a rejection.
    fn rejected(&self, request: &ConnectRequest<'_>, reason: &RejectReason) {
        if let RejectReason::Limit(limit) = reason {
            self.0.counters.reach(*limit);
        }
        self.log(request, reason);
        self.0.counters.rejected.fetch_add(1, Relaxed);
    }

    fn try_admit(&self, request: &ConnectRequest<'_>) -> Result<ConnectionPermit, RejectReason> {
        let Inner {
            limits,
            budget,
            counters,
            ..
        } = &*self.0;
        // If a later check fails, the places are free again as they are dropped.
        let of_all = budget.place().map_err(RejectReason::Limit)?;
        let peer = self.peer_budget(request.address.ip());
        let of_peer = peer.place().map_err(RejectReason::Limit)?;
        if let Some(hook) = &self.0.hook {
            hook(request)?;
        }
        let permit = ConnectionPermit::new(
            request.address,
            limits.clone(),
            [peer, budget.clone()],
            counters.clone(),
            [of_peer, of_all],
        );
        self.lock().add(&permit);
        Ok(permit)
    }

    fn peer_budget(&self, address: IpAddr) -> Arc<Budget> {
        let mut table = self.lock();
        if table.peers.len() >= table.sweep_peers_at {
            table
                .peers
                .retain(|_, budget| Arc::strong_count(budget) > 1);
            table.sweep_peers_at = 2 * table.peers.len() + 64;
        }
        let new = || Arc::new(Budget::of_peer(&self.0.limits.get()));
        table.peers.entry(address).or_insert_with(new).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A thread that panicked under the lock left the table valid: nothing that may panic comes
        // between two steps of a change.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs why a peer is rejected, at `warn` with a limited rate, otherwise at `debug`.
    fn log(&self, request: &ConnectRequest<'_>, reason: &RejectReason) {
        let ConnectRequest {
            address, transport, ..
        } = request;
        if self.lock().may_warn(Instant::now()) {
            tracing::warn!(peer = %address, transport, %reason, "connection rejected");
        } else {
            tracing::debug!(peer = %address, transport, %reason, "connection rejected");
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        let counters = &self.0.counters;
        let mut stats = ServerStats {
            accepted: counters.accepted.load(Relaxed),
            rejected: counters.rejected.load(Relaxed),
            calls: counters.ended_calls.load(Relaxed),
            reached: ReachedLimits(counters.reached()),
            ..ServerStats::default()
        };
        // An upgraded connection may be dropped here, which must not happen under the lock.
        let connections = self.lock().connections.clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            let (is_open, calls, bytes) = connection.usage();
            stats.connections += usize::from(is_open);
            stats.calls += connection.calls_begun();
            stats.calls_in_flight += calls;
            stats.bytes += bytes;
        }
        // A connection that ended meanwhile is in neither sum.
        let earlier = counters.max_calls.fetch_max(stats.calls, Relaxed);
        stats.calls = stats.calls.max(earlier);
        stats
    }
}

impl Table {
    fn add(&mut self, permit: &ConnectionPermit) {
        if self.connections.len() >= self.sweep_connections_at {
            self.connections
                .retain(|connection| connection.strong_count() > 0);
            self.sweep_connections_at = 2 * self.connections.len() + 64;
        }
        self.connections.push(Arc::downgrade(permit.shared()));
    }

    /// Returns true if the last warning is old enough for another one, which is then the last.
    fn may_warn(&mut self, now: Instant) -> bool {
        let last = self.last_warning;
        let may = last.is_none_or(|last| now.duration_since(last) >= WARNING_INTERVAL);
        if may {
            self.last_warning = Some(now);
        }
        may
    }
}

impl Default for ServerControl {
    fn default() -> Self {
        Self::new(ServerLimits::new())
    }
}

impl fmt::Debug for ServerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerControl").field(&self.stats()).finish()
    }
}

/// The counters of a server.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ServerStats {
    /// The number of open connections.
    pub connections: usize,
    /// The number of accepted connections.
    pub accepted: u64,
    /// The number of connections that the hook or a limit rejected.
    pub rejected: u64,
    /// The number of received calls. It never decreases, and may lack the calls of a connection
    /// that has just ended.
    pub calls: u64,
    /// The number of calls in flight: received, and not answered yet.
    pub calls_in_flight: usize,
    /// The number of bytes in flight, as [`ServerLimits::max_bytes`] counts them: arriving calls,
    /// calls in flight, and unsent replies.
    pub bytes: usize,
    reached: ReachedLimits,
}

/// How often each limit was reached.
#[derive(Clone, PartialEq, Eq, Default)]
struct ReachedLimits([u64; Limit::ALL.len()]);

/// Shows the limits that were reached, by the names of their settings.
impl fmt::Debug for ReachedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Limit::ALL.iter().zip(&self.0);
        let reached = all.filter(|(_, count)| **count > 0);
        let mut map = f.debug_map();
        for (limit, count) in reached {
            map.key(&format_args!("{}", limit.name())).value(count);
        }
        map.finish()
    }
}

impl ServerStats {
    /// Returns how often a limit was reached. [`Limit`] says what happens then: a connection is
    /// rejected, closed, or read later, or a handler is dropped.
    #[must_use]
    pub fn reached(&self, limit: Limit) -> u64 {
        self.reached.0[limit as usize]
    }
}

#[cfg(test)]
mod tests;
