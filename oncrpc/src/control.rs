//! The control of a server: admission of peers, limits and counters.
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

use crate::current_limits::CurrentLimits;
use crate::limits::{Limit, ServerLimits};
use crate::permit::{Budget, ConnectionPermit, Counters, PermitState};

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
            calls: counters.calls.load(Relaxed),
            reached: counters.reached(),
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
    /// The number of received calls.
    pub calls: u64,
    /// The number of calls in flight: received, and not answered yet.
    pub calls_in_flight: usize,
    /// The number of bytes in flight, as [`ServerLimits::max_bytes`] counts them: arriving calls,
    /// calls in flight, and unsent replies.
    pub bytes: usize,
    reached: [u64; Limit::ALL.len()],
}

impl ServerStats {
    /// Returns how often a limit was reached. [`Limit`] says what happens then: a connection is
    /// rejected, closed, or read later, or a handler is dropped.
    #[must_use]
    pub fn reached(&self, limit: Limit) -> u64 {
        self.reached[limit as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn request(host: u8, port: u16) -> ConnectRequest<'static> {
        ConnectRequest::new(([127, 0, 0, host], port).into(), "tcp", &[])
    }

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
        polled == Poll::Ready(())
    }

    #[test]
    fn connections_are_limited_in_all_and_per_peer() {
        let limits = ServerLimits::new();
        let limits = limits.max_connections(3).max_connections_per_peer(2);
        let control = ServerControl::new(limits);
        let admit = |host| control.admit(&request(host, 700));
        let (first, second, other) = (admit(1).unwrap(), admit(1).unwrap(), admit(2).unwrap());
        assert_eq!(
            admit(3).unwrap_err(),
            RejectReason::Limit(Limit::Connections)
        );
        drop(other);
        let of_peer = RejectReason::Limit(Limit::ConnectionsPerPeer);
        assert_eq!(admit(1).unwrap_err(), of_peer);
        drop(first);
        let third = admit(1).unwrap();
        let stats = control.stats();
        assert_eq!(
            (stats.connections, stats.accepted, stats.rejected),
            (2, 4, 2)
        );
        assert_eq!(stats.reached(Limit::Connections), 1);
        assert_eq!(stats.reached(Limit::ConnectionsPerPeer), 1);
        drop((second, third));
        assert_eq!(control.stats().connections, 0);
    }

    #[test]
    fn hook_sees_the_peer_and_its_reason_is_returned() {
        let control = ServerControl::with_hook(ServerLimits::new(), |request| {
            match (request.address.port(), request.private_data) {
                (700, []) => Ok(()),
                (port, _) => Err(format!("port {port}").into()),
            }
        });
        assert!(control.admit(&request(1, 700)).is_ok());
        let error = control.admit(&request(1, 701)).unwrap_err();
        assert_eq!(error.to_string(), "port 701");
        assert_eq!(control.stats().rejected, 1);
    }

    #[test]
    fn hook_sees_ipv4_addresses_as_such() {
        let control = ServerControl::with_hook(ServerLimits::new(), |request| {
            let is_loopback = request.address.ip().is_loopback();
            is_loopback.then_some(()).ok_or_else(|| "no".into())
        });
        let admit = |ip: &str| {
            let address = SocketAddr::new(ip.parse().unwrap(), 700);
            control.admit(&ConnectRequest::new(address, "tcp", &[]))
        };
        assert!(admit("::ffff:127.0.0.1").is_ok());
        assert!(admit("::1").is_ok());
        assert!(admit("::ffff:192.0.2.1").is_err());
    }

    /// A subscriber that asks for the counters at each event.
    struct Asking(ServerControl, Arc<Wakes>);

    impl tracing::Subscriber for Asking {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            // `stats` takes the lock.
            assert_eq!(self.0.stats().accepted, 0);
            self.1.0.fetch_add(1, Relaxed);
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn subscribers_may_ask_for_the_counters() {
        let control = ServerControl::new(ServerLimits::new().max_connections(0));
        let events = Arc::new(Wakes::default());
        let subscriber = Asking(control.clone(), events.clone());
        tracing::subscriber::with_default(subscriber, || {
            assert!(control.admit(&request(1, 700)).is_err());
            assert!(control.admit(&request(1, 700)).is_err());
        });
        assert_eq!(events.0.load(Relaxed), 2);
    }

    #[test]
    fn limits_of_connections_are_replaced_while_the_server_runs() {
        let limits = |all, peer| {
            let limits = ServerLimits::new().max_connections(all);
            limits.max_connections_per_peer(peer)
        };
        let control = ServerControl::new(limits(3, 3));
        let admit = |host| control.admit(&request(host, 700));
        let (first, second, third) = (admit(1).unwrap(), admit(1).unwrap(), admit(1).unwrap());
        // Lower limits end nothing.
        control.set_limits(limits(2, 1));
        assert_eq!(control.stats().connections, 3);
        let of_all = RejectReason::Limit(Limit::Connections);
        let of_peer = RejectReason::Limit(Limit::ConnectionsPerPeer);
        drop(first);
        assert_eq!(admit(2).unwrap_err(), of_all);
        drop(second);
        assert_eq!(admit(1).unwrap_err(), of_peer);
        let other = admit(2).unwrap();
        assert_eq!(admit(3).unwrap_err(), of_all);
        control.set_limits(limits(4, 2));
        let (fourth, fifth) = (admit(1).unwrap(), admit(2).unwrap());
        assert_eq!(admit(3).unwrap_err(), of_all);
        drop((third, other, fourth, fifth));
        assert_eq!(control.stats().connections, 0);
        assert_eq!(control.limits(), limits(4, 2));
    }

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Wakes(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_wait_ends_where_limits_are_raised() {
        let limits = ServerLimits::new().max_calls_per_connection(1);
        let control = ServerControl::new(limits);
        let connection = control.admit(&request(1, 700)).unwrap();
        let call = connection.call(0);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut ready = pin!(connection.ready());
        let mut poll = || ready.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Pending);
        control.set_limits(limits.max_calls_per_connection(2));
        assert_eq!(wakes.0.load(Relaxed), 1);
        assert_eq!(poll(), Poll::Ready(()));
        drop(call);
    }

    /// Calls and bytes beyond lowered limits end when they come back, and who waits for more than
    /// there can ever be waits for less.
    #[test]
    fn budgets_shrink_as_they_are_given_back() {
        const MIB: usize = 1 << 20;
        let limits = ServerLimits::new().max_bytes(8 * MIB);
        let limits = limits.max_bytes_per_peer(8 * MIB);
        let control = ServerControl::new(limits);
        let admit = |host| control.admit(&request(host, 700)).unwrap();
        let (one, two) = (admit(1), admit(2));
        assert!(is_ready(one.reserve(6 * MIB)));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut large = Box::pin(two.reserve(7 * MIB));
        let mut poll = || large.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Pending);
        control.set_limits(limits.max_bytes(2 * MIB));
        assert_eq!(wakes.0.load(Relaxed), 1);
        assert_eq!(poll(), Poll::Pending);
        one.arrived();
        one.trim();
        // A message may take the whole budget, which is smaller now.
        assert!(wakes.0.load(Relaxed) > 1);
        assert_eq!(poll(), Poll::Ready(()));
        drop(large);
        assert!(!is_ready(one.reserve(MIB)));
        two.arrived();
        two.trim();
        assert!(is_ready(one.reserve(MIB)));
        one.arrived();
        one.trim();
        // Raised again, all of it is there.
        control.set_limits(limits);
        assert!(is_ready(two.reserve(8 * MIB)));
        assert!(!is_ready(one.reserve(MIB)));
    }

    #[test]
    fn ended_connections_take_no_memory() {
        let control = ServerControl::default();
        for number in 0..10_000u16 {
            let [high, low] = number.to_be_bytes();
            let address = ([10, 0, high, low], 700).into();
            control
                .admit(&ConnectRequest::new(address, "tcp", &[]))
                .unwrap();
        }
        let table = control.lock();
        assert!(table.peers.len() <= 64 && table.connections.len() <= 64);
    }

    /// The limits count calls beyond the first of a connection, and are shared by connections.
    #[test]
    fn calls_wait_for_the_budgets_of_peer_and_server() {
        let limits = ServerLimits::new().max_calls(3).max_calls_per_peer(2);
        let control = ServerControl::new(limits);
        let [one, two, other] =
            [(1, 700), (1, 701), (2, 700)].map(|(host, port)| request(host, port));
        let [one, two, other] = [one, two, other].map(|request| control.admit(&request).unwrap());
        let mut calls = Vec::new();
        for (connection, reached) in [
            (&one, None),
            (&one, None),
            (&two, None),
            (&one, None),
            (&one, Some(Limit::CallsPerPeer)),
            (&two, Some(Limit::CallsPerPeer)),
            (&other, None),
            (&other, None),
            (&other, Some(Limit::Calls)),
        ] {
            let before = reached.map(|limit| control.stats().reached(limit));
            assert_eq!(
                is_ready(connection.ready()),
                reached.is_none(),
                "{reached:?}"
            );
            if let (Some(limit), Some(before)) = (reached, before) {
                assert_eq!(control.stats().reached(limit), before + 1);
                continue;
            }
            calls.push(connection.call(0));
        }
        assert_eq!(control.stats().calls_in_flight, 6);

        // A closed connection returns what its handlers do not need.
        drop(one);
        assert!(!is_ready(two.ready()));
        calls.clear();
        assert!(is_ready(two.ready()));
        assert!(is_ready(other.ready()));
        assert_eq!(control.stats().calls_in_flight, 0);
    }

    #[test]
    fn bytes_wait_for_the_budget_and_a_cancelled_wait_takes_none() {
        const MIB: usize = 1 << 20;
        let limits = ServerLimits::new();
        let limits = limits.max_bytes(5 * MIB).max_bytes_per_peer(4 * MIB);
        let control = ServerControl::new(limits);
        let admit = |host| control.admit(&request(host, 700)).unwrap();
        let (one, two, other) = (admit(1), admit(1), admit(2));
        assert!(is_ready(one.reserve(3 * MIB)));
        assert!(!is_ready(two.reserve(2 * MIB)));
        assert_eq!(control.stats().reached(Limit::BytesPerPeer), 1);
        assert!(is_ready(two.reserve(MIB)));
        assert!(!is_ready(other.reserve(2 * MIB)));
        assert_eq!(control.stats().reached(Limit::Bytes), 1);
        assert!(is_ready(other.reserve(MIB)));
        assert_eq!(control.stats().bytes, 5 * MIB);
        // Short messages continue.
        assert!(is_ready(admit(3).ready()));

        // A call that has arrived counts until its handler ends, on an open connection or not.
        let call = one.call(3 * MIB);
        one.arrived();
        drop(one);
        assert_eq!(control.stats().bytes, 5 * MIB);
        assert!(!is_ready(two.reserve(MIB)));
        drop(call);
        assert!(is_ready(two.reserve(MIB)));
        assert_eq!(control.stats().bytes, 3 * MIB);
    }

    /// A message that is larger than the budget gets all of it.
    #[test]
    fn a_message_that_is_larger_than_the_budget_is_not_refused_for_ever() {
        let limits = ServerLimits::new().max_bytes(1 << 20);
        let control = ServerControl::new(limits);
        let admit = |host| control.admit(&request(host, 700)).unwrap();
        let (one, other) = (admit(1), admit(2));
        assert!(is_ready(one.reserve(4 << 20)));
        assert!(!is_ready(other.reserve(1 << 20)));
        one.arrived();
        one.trim();
        assert!(is_ready(other.reserve(1 << 20)));
    }

    /// Unread results block only their own connection.
    #[test]
    fn a_connection_is_full_of_its_own_replies() {
        let control = ServerControl::default();
        let admit = |host| control.admit(&request(host, 700)).unwrap();
        let (one, other) = (admit(1), admit(1));
        one.set_outgoing(8 << 20);
        assert!(!is_ready(one.ready()) && is_ready(other.ready()));
        assert_eq!(control.stats().reached(Limit::BytesPerConnection), 1);
        one.set_outgoing(0);
        assert!(is_ready(one.ready()));
    }
}
