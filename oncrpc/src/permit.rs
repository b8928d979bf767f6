//! A connection's share of the server's budgets.
//!
//! Each connection has a fixed minimum. When it needs more, it takes calls and bytes from its
//! peer's budget and from the server's, and returns them later. So a connection with short messages
//! and handlers that do not wait touches no shared state per call. A connection takes from its
//! peer's budget first: while it waits for that, it holds nothing of the server's. `budget` has the
//! budgets. Only `ready` and `reserve` wait: what was read
//! already counts even beyond the limits. The transports (`tcp::connection`, `admission` of
//! `rpcrdma-verbs`) must poll these futures again and call `trim` when a call has ended or a reply
//! was sent, since neither wakes them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::budget::{Budget, PlacePermit, Pool, UNIT};
use crate::current_limits::CurrentLimits;
use crate::limits::{Limit, ServerLimits};
use crate::service::HandlerDeadline;

/// The fixed minimum of bytes in flight of a connection. With buffers, state and a short call, a
/// connection takes at most 96 KiB.
const OWN_BYTES: usize = 16 << 10;
/// The reserve that a connection keeps, so that not every call changes the budgets.
const KEPT_CALLS: usize = 8;
const KEPT_UNITS: usize = 16;

/// The counters of a server over all of its connections.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    /// Calls of connections that have ended.
    pub(crate) ended_calls: AtomicU64,
    /// The greatest number of calls, of open and ended connections, that was returned.
    pub(crate) max_calls: AtomicU64,
    reached: [AtomicU64; Limit::ALL.len()],
}

impl Counters {
    pub(crate) fn reach(&self, limit: Limit) {
        self.reached[limit as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn reached(&self) -> [u64; Limit::ALL.len()] {
        std::array::from_fn(|number| self.reached[number].load(Relaxed))
    }
}

/// The permit of a connection, with its share of the server's calls and bytes.
/// [`ServerControl::admit`](crate::ServerControl::admit) returns it. The connection counts until
/// the permit and those of its calls are dropped.
pub struct ConnectionPermit(Arc<PermitState>);

pub(crate) struct PermitState {
    address: SocketAddr,
    limits: Arc<CurrentLimits>,
    /// Taken from the budgets of the peer and of the server.
    budgets: [Arc<Budget>; 2],
    counters: Arc<Counters>,
    /// The number of calls begun.
    begun: AtomicU64,
    /// The number of bytes of the arriving call.
    arriving: AtomicUsize,
    /// The number of bytes of unsent replies.
    outgoing: AtomicUsize,
    state: Mutex<State>,
    /// Taken from the budgets of the peer and of the server. They include the fixed minimum, which
    /// handlers may use after the connection has ended.
    _places: [PlacePermit; 2],
}

#[derive(Default)]
struct State {
    has_ended: bool,
    calls: usize,
    /// Bytes of the calls in flight.
    call_bytes: usize,
    /// The calls and the units of memory that are taken from both budgets.
    taken_calls: usize,
    taken_units: usize,
}

/// The calls and bytes that a connection lacks before it may read.
enum Lack {
    Calls(usize),
    Units(usize),
}

impl PermitState {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reached(&self, limit: Limit) {
        self.counters.reach(limit);
        tracing::debug!(peer = %self.address, reason = %limit, "limit reached");
    }

    fn bytes_of(&self, state: &State) -> usize {
        let moving = self.arriving.load(Relaxed) + self.outgoing.load(Relaxed);
        moving + state.call_bytes
    }

    /// Returns what is lacking for one more call and `more` bytes.
    fn lack(&self, more: usize) -> Option<Lack> {
        let state = self.lock();
        let units = units(self.bytes_of(&state).saturating_add(more));
        let most =
            |of: fn(&Budget) -> &Pool| self.budgets.iter().map(|budget| of(budget).max()).min();
        // A message larger than the budget takes all of it.
        let units = units.min(most(|budget| &budget.units).unwrap_or(0));
        if units > state.taken_units {
            return Some(Lack::Units(units - state.taken_units));
        }
        if state.calls > state.taken_calls {
            let max = most(|budget| &budget.calls).unwrap_or(0);
            return Some(Lack::Calls(
                state.calls.min(max) - state.taken_calls.min(max),
            ));
        }
        None
    }

    /// Waits for what is lacking, and takes it from the budgets.
    async fn take(&self, lack: Lack) {
        let (count, pool): (usize, fn(&Budget) -> &Pool) = match lack {
            Lack::Calls(count) => (count, |budget| &budget.calls),
            Lack::Units(count) => (count, |budget| &budget.units),
        };
        if count == 0 {
            // The connection has the maximum, and waits for its own calls.
            self.reached(pool(&self.budgets[0]).limit);
            return std::future::pending().await;
        }
        let [peer, all] = &self.budgets;
        let reached = |limit| self.reached(limit);
        // The budgets are never closed.
        let Some(of_peer) = pool(peer).take(count, reached).await else {
            return;
        };
        let Some(of_all) = pool(all).take(count, reached).await else {
            return;
        };
        let mut state = self.lock();
        match lack {
            Lack::Calls(_) => state.taken_calls += count,
            Lack::Units(_) => state.taken_units += count,
        }
        of_peer.forget();
        of_all.forget();
    }

    /// Returns what the connection does not need.
    fn trim(&self, state: &mut State) {
        let needed = [state.calls, units(self.bytes_of(state))];
        let is_idle = state.has_ended || needed == [0, 0];
        let kept = if is_idle {
            [0; 2]
        } else {
            [KEPT_CALLS, KEPT_UNITS]
        };
        let excess = |taken: usize, number: usize| {
            let spare = taken.saturating_sub(needed[number]);
            if spare > 2 * kept[number] {
                spare - kept[number]
            } else {
                0
            }
        };
        let (calls, units) = (excess(state.taken_calls, 0), excess(state.taken_units, 1));
        state.taken_calls -= calls;
        state.taken_units -= units;
        for budget in self.budgets.iter().filter(|_| calls > 0) {
            budget.calls.give_back(calls);
        }
        for budget in self.budgets.iter().filter(|_| units > 0) {
            budget.units.give_back(units);
        }
    }

    /// Returns whether the connection is open, and its calls in flight and bytes.
    pub(crate) fn usage(&self) -> (bool, usize, usize) {
        let state = self.lock();
        (!state.has_ended, state.calls, self.bytes_of(&state))
    }

    pub(crate) fn calls_begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }
}

impl Drop for PermitState {
    fn drop(&mut self) {
        let calls = self.calls_begun();
        self.counters.ended_calls.fetch_add(calls, Relaxed);
    }
}

/// Returns the number of budget units for this number of bytes of a connection.
fn units(bytes: usize) -> usize {
    bytes.saturating_sub(OWN_BYTES).div_ceil(UNIT)
}

impl ConnectionPermit {
    pub(crate) fn new(
        address: SocketAddr,
        limits: Arc<CurrentLimits>,
        budgets: [Arc<Budget>; 2],
        counters: Arc<Counters>,
        places: [PlacePermit; 2],
    ) -> Self {
        Self(Arc::new(PermitState {
            address,
            limits,
            budgets,
            counters,
            begun: AtomicU64::new(0),
            arriving: AtomicUsize::new(0),
            outgoing: AtomicUsize::new(0),
            state: Mutex::default(),
            _places: places,
        }))
    }

    pub(crate) fn shared(&self) -> &Arc<PermitState> {
        &self.0
    }

    /// Returns the limits of the server that are in force.
    #[must_use]
    pub fn limits(&self) -> ServerLimits {
        self.0.limits.get()
    }

    /// Returns how long a call or a reply may take to be transferred; `None` if there is no limit.
    #[must_use]
    pub fn transfer_time(&self) -> Option<Duration> {
        self.0.limits.transfer_time()
    }

    /// Counts that a limit was reached at this connection.
    pub fn reached(&self, limit: Limit) {
        self.0.reached(limit);
    }

    /// Returns a counter of the limits that the calls of the connection reach.
    #[must_use]
    pub fn limit_counter(&self) -> LimitCounter {
        LimitCounter(self.0.clone())
    }

    /// Counts bytes of the peer's calls and replies in memory that a transport has for all peers,
    /// such as the registered memory into which a device reads a call. Returns false, and counts
    /// nothing, if that memory is scarce and the peer would have more than
    /// [`ServerLimits::max_bytes_per_peer`] of it. Bytes that were counted are given back by
    /// [`release`](Self::release).
    #[must_use]
    pub fn hold(&self, bytes: usize, is_scarce: bool) -> bool {
        let [peer, _] = &self.0.budgets;
        let max = peer.units.max().saturating_mul(UNIT);
        let more = |held: usize| {
            let held = held.saturating_add(bytes);
            (!is_scarce || held <= max).then_some(held)
        };
        let is_held = peer.held.fetch_update(Relaxed, Relaxed, more).is_ok();
        if !is_held {
            self.0.reached(Limit::BytesPerPeer);
        }
        is_held
    }

    /// Counts bytes no more that [`hold`](Self::hold) has counted.
    pub fn release(&self, bytes: usize) {
        self.0.budgets[0].held.fetch_sub(bytes, Relaxed);
    }

    /// Waits until one more call may be read from the connection. Poll the future again whenever a
    /// call of the connection ends or a reply is sent.
    pub async fn ready(&self) {
        if let Some(limit) = self.full() {
            self.0.reached(limit);
            self.room().await;
        }
        self.cover(0).await;
    }

    /// Returns true if one more call may be read from the connection now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.full().is_none() && self.0.lack(0).is_none()
    }

    /// Waits for room for this number of further bytes of the arriving call, and counts them. Poll
    /// the future as that of [`ready`](Self::ready).
    pub async fn reserve(&self, bytes: usize) {
        self.cover(bytes).await;
        self.0.arriving.fetch_add(bytes, Relaxed);
    }

    /// Stops counting the bytes of the arriving call, which is complete.
    pub fn arrived(&self) {
        self.0.arriving.store(0, Relaxed);
    }

    /// Waits until the connection has room within its own limits.
    async fn room(&self) {
        while self.full().is_some() {
            let mut replaced = pin!(self.0.limits.replaced.notified());
            poll_fn(|cx| match self.full() {
                None => Poll::Ready(()),
                Some(_) => replaced.as_mut().poll(cx),
            })
            .await;
        }
    }

    async fn cover(&self, more: usize) {
        while self.0.lack(more).is_some() {
            // Before the lack is looked at, so that no change is missed.
            let mut replaced = pin!(self.0.limits.replaced.notified());
            let Some(lack) = self.0.lack(more) else {
                return;
            };
            let mut taking = pin!(self.0.take(lack));
            poll_fn(|cx| match self.0.lack(more) {
                None => Poll::Ready(()),
                Some(_) if replaced.as_mut().poll(cx).is_ready() => Poll::Ready(()),
                Some(_) => taking.as_mut().poll(cx),
            })
            .await;
        }
    }

    /// Returns the limit of the connection itself that it has reached.
    fn full(&self) -> Option<Limit> {
        let (limits, state) = (&self.0.limits, self.0.lock());
        if state.calls >= limits.calls_per_connection().max(1) {
            return Some(Limit::CallsPerConnection);
        }
        let max = limits.bytes_per_connection().max(OWN_BYTES);
        (self.0.bytes_of(&state) >= max).then_some(Limit::BytesPerConnection)
    }

    /// Counts the bytes of replies that are to be sent.
    pub fn set_outgoing(&self, bytes: usize) {
        self.0.outgoing.store(bytes, Relaxed);
    }

    /// Counts a call that is served.
    pub fn count_call(&self) {
        self.0.begun.fetch_add(1, Relaxed);
    }

    /// Counts a call of this number of bytes as in flight until the permit is dropped.
    #[must_use]
    pub fn call(&self, bytes: usize) -> CallPermit {
        let mut state = self.0.lock();
        state.calls += 1;
        state.call_bytes += bytes;
        drop(state);
        CallPermit {
            connection: self.0.clone(),
            bytes,
        }
    }

    /// Returns to the budgets what the connection no longer needs. A transport calls this after a
    /// call has ended or a reply was sent.
    pub fn trim(&self) {
        let mut state = self.0.lock();
        if state.taken_calls > 0 || state.taken_units > 0 {
            self.0.trim(&mut state);
        }
    }

    /// Returns the deadline of a handler that begins now, with its timer.
    pub fn handler_deadline(&self) -> HandlerDeadline<impl Future<Output = ()> + Send + use<>> {
        let at = self.handler_due();
        HandlerDeadline::new(at, self.handler_time(at))
    }

    /// Returns the deadline of a handler that begins now; `None` if there is no limit.
    #[must_use]
    pub fn handler_due(&self) -> Option<Instant> {
        let limit = self.0.limits.handler_time();
        limit.and_then(|time| Instant::now().checked_add(time))
    }

    /// Returns a future that ends at the deadline of a handler, and counts the timeout.
    pub fn handler_time(&self, at: Option<Instant>) -> impl Future<Output = ()> + Send + use<> {
        let at = at.map(|at| (at, self.0.clone()));
        async move {
            match at {
                None => std::future::pending().await,
                Some((at, shared)) => {
                    tokio::time::sleep_until(at.into()).await;
                    shared.reached(Limit::HandlerTime);
                }
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.arrived();
        self.set_outgoing(0);
        let mut state = self.0.lock();
        state.has_ended = true;
        self.0.trim(&mut state);
    }
}

impl fmt::Debug for ConnectionPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, calls, bytes) = self.0.usage();
        write!(f, "ConnectionPermit({calls} calls, {bytes} bytes)")
    }
}

/// Counts limits that the calls of a connection reach. It does not keep the connection open.
pub struct LimitCounter(Arc<PermitState>);

impl LimitCounter {
    /// Counts that a limit was reached.
    pub fn reached(&self, limit: Limit) {
        self.0.reached(limit);
    }
}

impl fmt::Debug for LimitCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitCounter")
    }
}

/// Counts a call as in flight until it is dropped. It may outlive the permit of its connection.
pub struct CallPermit {
    connection: Arc<PermitState>,
    bytes: usize,
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.calls -= 1;
        state.call_bytes -= self.bytes;
        // An open connection returns what it does not need when it is idle.
        if state.has_ended {
            self.connection.trim(&mut state);
        }
    }
}

impl fmt::Debug for CallPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallPermit({} bytes)", self.bytes)
    }
}
