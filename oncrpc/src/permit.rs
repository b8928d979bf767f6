//! A connection's share of the server's budgets.
//!
//! Each connection has a fixed minimum. When it needs more, it takes calls and bytes from its
//! peer's budget and from the server's, and returns them as soon as it has no use for them. So a
//! short call whose handler does not wait touches no shared state, while the messages in flight of
//! its connection fit the minimum. Beyond the first, each call whose handler waits takes one from
//! both budgets and returns it, and each message beyond the minimum does so with units.
//! `budget` has the budgets. Only `ready` and `wait` wait: what was read or is to be sent counts at
//! once, even beyond the limits. The transports (`tcp::connection`, `admission` of
//! `rpcrdma-verbs`) must poll these futures again when a call has ended or a reply was sent, since
//! neither wakes them, and must drop a future that they poll no more: it may be the first in a
//! queue, and others wait behind it.
//!
//! **No connections wait for each other.** A connection holds only what it uses: every decrease is
//! made by `update`, which returns the rest. So each call that is taken from a budget is in flight,
//! and each unit has bytes. What has them ends without the budgets:
//!
//! - a call in flight ends with its handler;
//! - a reply is sent, or its transport closes the connection after the transfer time;
//! - the same holds for a record that is being read: it takes all of its units before its bytes.
//!   A connection that drains may read no further, and then ends with its handlers;
//! - a received call that has not begun (`received`) waits for units only while its connection has
//!   fewer units than its calls in flight and replies need. All units are those of the latter then.
//!   It waits for calls only while other calls are in flight, and never for the record behind it.
//!
//! A wait begins at the peer's budget, and goes on at the server's. Each budget serves its waits in
//! order, and only the first holds a part of what it waits for. A wait at the peer's budget holds
//! nothing of the server's. So what the server's budget has passed on is in use, or is held by its
//! first wait: that comes to its end, the others after it, and then those of each peer. No wait is
//! for more than the budget, or for what only the connection itself has (`Lack::Own`).
//!
//! **Nothing spins.** A wait is polled when its permits are there, when limits are replaced, and
//! when its connection has changed. It begins anew only after the second, or if the third let it
//! lack something else. What a wait returns wakes another only if it completes that.
//!
//! **Received calls stay within the limits.** The bytes of a record count from the moment at which
//! their units are taken (`Step::Reserve`), and units return only when bytes end. These exceed the
//! limits: the fixed minimum of each connection, with one short record more; a record that is
//! larger than a budget, while its connection has nothing else, and no other has units of the
//! budget; replies; records that are read since a reply of the client may follow them (`exceed`);
//! and over RDMA, whose calls are in memory of the device before `ready`, the last call of each
//! connection.

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::budget::{Budget, PlacePermit, Pool, UNIT};
use crate::current_limits::CurrentLimits;
use crate::limits::{Limit, ServerLimits};
use crate::service::HandlerDeadline;

/// The fixed minimum of bytes in flight of a connection: a buffer of replies, which counts as a
/// whole, and short calls. With buffers, state and a short call, a connection takes at most 96 KiB.
const OWN_BYTES: usize = 32 << 10;

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
    state: Mutex<State>,
    /// Taken from the budgets of the peer and of the server. They include the fixed minimum, which
    /// handlers may use after the connection has ended.
    _places: [PlacePermit; 2],
}

#[derive(Default)]
struct State {
    has_ended: bool,
    /// The calls in flight, and their bytes.
    calls: usize,
    call_bytes: usize,
    /// The bytes of received calls that have not begun.
    received: usize,
    /// The bytes of the message that is being read.
    arriving: usize,
    /// The bytes of unsent replies.
    outgoing: usize,
    /// The calls and the units of memory that are taken from both budgets.
    taken_calls: usize,
    taken_units: usize,
}

impl State {
    fn bytes(&self) -> usize {
        self.active_bytes() + self.arriving + self.received
    }

    /// Returns the bytes that end without the budgets and without the peer's next bytes.
    fn active_bytes(&self) -> usize {
        self.call_bytes + self.outgoing
    }

    /// Removes the calls and units that have no use, and returns their numbers.
    fn take_spare(&mut self) -> [usize; 2] {
        let calls = self.taken_calls.saturating_sub(self.calls);
        let units = self.taken_units.saturating_sub(units(self.bytes()));
        self.taken_calls -= calls;
        self.taken_units -= units;
        [calls, units]
    }
}

/// What a connection does next, if the limits allow it.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Begin a call that was received.
    Begin,
    /// Read a message, after the received calls have begun.
    Read,
    /// Read this number of further bytes of a message.
    Reserve(usize),
}

/// What a connection lacks for a step.
enum Lack {
    /// Its own calls must begin or end first, or their replies be sent, at this limit.
    Own(Option<Limit>),
    Calls(usize),
    Units(usize),
}

impl PermitState {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and returns to the budgets what has no use then.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let [calls, units] = state.take_spare();
        // Wakers run without the lock.
        drop(state);
        for budget in self.budgets.iter().filter(|_| calls > 0) {
            budget.calls.give_back(calls);
        }
        for budget in self.budgets.iter().filter(|_| units > 0) {
            budget.units.give_back(units);
        }
        result
    }

    fn reached(&self, limit: Limit) {
        self.counters.reach(limit);
        tracing::debug!(peer = %self.address, reason = %limit, "limit reached");
    }

    /// Takes a step if the limits allow it. Otherwise it returns what is lacking.
    fn attempt(&self, step: Step) -> Result<(), Lack> {
        let mut state = self.lock();
        let lack = match step {
            Step::Begin => self.lack_to_begin(&state),
            // Received calls come first. A wait for this message would hold their units.
            Step::Read | Step::Reserve(_) if state.received > 0 => Some(Lack::Own(None)),
            Step::Read => self.lack_to_begin(&state),
            Step::Reserve(more) => {
                let active = state.active_bytes() + state.arriving;
                self.lack_of_units(&state, (active, more))
            }
        };
        match (lack, step) {
            (Some(lack), _) => Err(lack),
            (None, Step::Reserve(more)) => {
                state.arriving += more;
                Ok(())
            }
            (None, Step::Begin | Step::Read) => Ok(()),
        }
    }

    fn lack_to_begin(&self, state: &State) -> Option<Lack> {
        let limits = &self.limits;
        if state.calls >= limits.calls_per_connection().max(1) {
            return Some(Lack::Own(Some(Limit::CallsPerConnection)));
        }
        let active = state.active_bytes();
        if active >= limits.bytes_per_connection().max(OWN_BYTES) {
            return Some(Lack::Own(Some(Limit::BytesPerConnection)));
        }
        let lack = self.lack_of_units(state, (active, 0));
        lack.or_else(|| self.lack_of_calls(state))
    }

    fn lack_of_units(&self, state: &State, (active, more): (usize, usize)) -> Option<Lack> {
        let needed = units(active.saturating_add(more));
        if needed <= state.taken_units {
            return None;
        }
        let (max, limit) = self.least(|budget| &budget.units);
        Some(if needed <= max {
            Lack::Units(needed - state.taken_units)
        } else if units(active) > 0 {
            Lack::Own(Some(limit))
        } else {
            // A message larger than the budget takes all of it.
            Lack::Units(max)
        })
    }

    fn lack_of_calls(&self, state: &State) -> Option<Lack> {
        if state.calls <= state.taken_calls {
            return None;
        }
        let (max, limit) = self.least(|budget| &budget.calls);
        Some(if state.calls <= max {
            Lack::Calls(state.calls - state.taken_calls)
        } else {
            Lack::Own(Some(limit))
        })
    }

    /// Returns the lesser maximum of both budgets, with its limit.
    fn least(&self, pool: fn(&Budget) -> &Pool) -> (usize, Limit) {
        let [peer, all] = self.budgets.each_ref().map(|budget| pool(budget));
        if peer.max() <= all.max() {
            (peer.max(), peer.limit)
        } else {
            (all.max(), all.limit)
        }
    }

    /// Waits until the limits allow a step, and takes it.
    async fn wait(&self, step: Step) {
        if self.attempt(step).is_ok() {
            return;
        }
        while !self.wait_for_change(step).await {}
    }

    /// Waits until the step is taken, or until something else is lacking. Returns true if the step
    /// is taken.
    async fn wait_for_change(&self, step: Step) -> bool {
        // Before the lack is looked at, so that no change is missed.
        let mut replaced = pin!(self.limits.replaced.notified());
        let lack = match self.attempt(step) {
            Ok(()) => return true,
            Err(lack) => lack,
        };
        if let Lack::Own(Some(limit)) = lack {
            self.reached(limit);
        }
        let mut taking = pin!(self.take(&lack, step));
        poll_fn(|cx| match (self.attempt(step), &lack) {
            (Ok(()), _) => Poll::Ready(true),
            (Err(_), _) if replaced.as_mut().poll(cx).is_ready() => Poll::Ready(false),
            (Err(Lack::Own(_)), Lack::Own(_)) => Poll::Pending,
            (Err(_), Lack::Own(_)) => Poll::Ready(false),
            (Err(_), _) => taking.as_mut().poll(cx),
        })
        .await
    }

    /// Waits for what is lacking, and takes it from the budgets. Returns true if that was the step.
    async fn take(&self, lack: &Lack, step: Step) -> bool {
        let (count, pool): (usize, fn(&Budget) -> &Pool) = match lack {
            Lack::Own(_) => return false,
            Lack::Calls(count) => (*count, |budget| &budget.calls),
            Lack::Units(count) => (*count, |budget| &budget.units),
        };
        let [peer, all] = &self.budgets;
        let reached = |limit| self.reached(limit);
        let of_peer = pool(peer).take(count, reached).await;
        let of_all = pool(all).take(count, reached).await;
        of_peer.forget();
        of_all.forget();
        self.update(|state| {
            match lack {
                Lack::Calls(_) => state.taken_calls += count,
                Lack::Own(_) | Lack::Units(_) => state.taken_units += count,
            }
            let Step::Reserve(more) = step else {
                return false;
            };
            state.arriving += more;
            true
        })
    }

    /// Returns whether the connection is open, and its calls in flight and bytes.
    pub(crate) fn usage(&self) -> (bool, usize, usize) {
        let state = self.lock();
        (!state.has_ended, state.calls, state.bytes())
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

    /// Waits until one more call may begin. Poll the future again whenever a call of the connection
    /// ends or a reply is sent. A future that is polled no more must be dropped: others wait behind
    /// it.
    pub async fn ready(&self) {
        self.wait(Step::Begin).await;
    }

    /// Returns true if one more call may begin now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.attempt(Step::Begin)
    }

    /// Waits until a step is allowed, as [`ready`](Self::ready) does.
    pub(crate) async fn wait(&self, step: Step) {
        self.0.wait(step).await;
    }

    /// Takes a step if it is allowed now, and returns true then.
    pub(crate) fn attempt(&self, step: Step) -> bool {
        self.0.attempt(step).is_ok()
    }

    /// Counts further bytes of a message that is being read, even beyond the limits.
    pub(crate) fn exceed(&self, bytes: usize) {
        self.0.lock().arriving += bytes;
    }

    /// Counts the message that was being read, which has this number of bytes, as received.
    pub(crate) fn arrived(&self, bytes: usize) -> CallPermit {
        self.0.update(|state| {
            state.arriving = 0;
            state.received += bytes;
        });
        CallPermit {
            connection: self.0.clone(),
            bytes,
            is_in_flight: false,
        }
    }

    /// Counts the bytes of replies that are to be sent.
    pub fn set_outgoing(&self, bytes: usize) {
        self.0.update(|state| state.outgoing = bytes);
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
            is_in_flight: true,
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
        self.0.update(|state| {
            state.arriving = 0;
            state.outgoing = 0;
            state.has_ended = true;
        });
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

/// Counts a call until it is dropped. It may outlive the permit of its connection.
pub struct CallPermit {
    connection: Arc<PermitState>,
    bytes: usize,
    is_in_flight: bool,
}

impl CallPermit {
    /// Counts a received call as in flight.
    #[must_use]
    pub(crate) fn begin(mut self) -> Self {
        if !self.is_in_flight {
            self.is_in_flight = true;
            // The units of a received call are those of the call in flight.
            let mut state = self.connection.lock();
            state.received -= self.bytes;
            state.calls += 1;
            state.call_bytes += self.bytes;
        }
        self
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.connection.update(|state| {
            if self.is_in_flight {
                state.calls -= 1;
                state.call_bytes -= self.bytes;
            } else {
                state.received -= self.bytes;
            }
        });
    }
}

impl fmt::Debug for CallPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallPermit({} bytes)", self.bytes)
    }
}
