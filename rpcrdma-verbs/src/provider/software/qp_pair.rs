//! Two connected queue pairs, and the order in which their requests are executed. `execute` does
//! the work of one request.
//!
//! One lock covers both ends, so that a request changes both at once. Each change goes through
//! `LockedQpPair`: its drop moves completions to their queues before it reports a disconnection,
//! and the order of both must stay. Requests of a side execute in order: while `delayed` is not
//! empty, new ones are queued behind it. `post` checks all requests before it executes the first:
//! all are posted, or none. `leave` removes an end with all that it has posted: `QueuePair::end`
//! relies on it, and the memory is freed afterwards. A thread locks at most one connection, before
//! all other locks (see `software`).

mod connect_request;
mod execute;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arrayvec::ArrayVec;
pub use connect_request::SoftwareConnectRequest;

use super::Fabric;
use super::completion::CompletionState as Completions;
use super::latency::{Latency, Progress, Time};
use crate::provider::common::completions::CompletionEntry as Entry;
use crate::provider::common::domain::{self, Domain, ReadLocks};
use crate::provider::common::events::EventQueue;
use crate::provider::common::receives::{
    PostedReceive, ReceiveQueue, ReceiveWaiter, enqueue, sges_of,
};
use crate::provider::{
    Capabilities, Cause, Completion, ConnectionEvent, Operation, QueuePairConfig, Receive, Result,
    Sge, Status, VerbError, WorkRequest,
};

/// The maximum number of scatter/gather entries of a work request.
pub(super) const MAX_SGE: usize = 16;

/// Two connected queue pairs.
#[derive(Debug)]
pub(super) struct QpPair {
    fabric: Arc<Fabric>,
    me: Weak<Self>,
    /// The domains of both, once known. They are outside of the lock, so that reading their tables
    /// needs no reference count.
    domains: [OnceLock<Arc<Domain>>; 2],
    pair: Mutex<QpPairState>,
    /// The number of the first queue pair.
    number: u32,
}

#[derive(Debug)]
struct QpPairState {
    ends: [Option<QpState>; 2],
    /// The last time that was passed to the fabric.
    scheduled: Option<Time>,
}

/// The state of one queue pair.
#[derive(Debug)]
pub(super) struct QpState {
    pub(super) number: u32,
    pub(super) state: QpPhase,
    pub(super) domain: Arc<Domain>,
    capabilities: Arc<Capabilities>,
    completions: Arc<Completions>,
    /// Completions that are not in their queue yet. They are moved there together before the lock
    /// is released.
    completed: VecDeque<Entry>,
    /// True if the disconnection must be reported after them.
    is_disconnected: bool,
    receives: ReceiveQueue<QpPair>,
    /// True if Sends of the peer wait for a receive.
    rnr_retry: bool,
    events: Arc<EventQueue<SoftwareConnectRequest>>,
    /// The number of posted work requests, and of those whose entries are free again.
    posted: u32,
    retired: Arc<AtomicU32>,
    send_depth: u32,
    /// The number of requests without completion since the last completion.
    unsignaled: u32,
    /// Requests that are in flight, delayed by a fault, or waiting for a receive of the peer.
    delayed: VecDeque<DelayedRequest>,
    /// Completions that wait for the acknowledgement of the peer, with its time.
    unacknowledged: VecDeque<(Time, Entry)>,
    /// The time of the latest acknowledgement, including those of unsignaled requests.
    acknowledged_by: Option<Time>,
}

/// The state of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QpPhase {
    /// Not connected: only receives can be posted.
    Connecting,
    /// Connected.
    Ready,
    /// Failed: posted requests are flushed.
    Failed,
}

#[derive(Debug)]
struct DelayedRequest {
    /// The time of arrival, or `None` if it has arrived or does not involve the peer.
    arrives: Option<Time>,
    polls: u32,
    /// True if it has found no receive.
    waits_for_receive: bool,
    request: WorkRequest,
    slices: ArrayVec<Sge, MAX_SGE>,
    /// The bytes of an inline request, to which its only entry refers.
    _inline_data: Option<Vec<u8>>,
}

impl DelayedRequest {
    /// Stores a request for later, with its entries or its inline bytes.
    fn new(
        request: &WorkRequest,
        slices: &[Sge],
        (arrives, polls, waits): (Option<Time>, u32, bool),
    ) -> Self {
        #[allow(unsafe_code, reason = "covered by the contract of `post`")]
        let mut taken = request.inline.then(|| {
            // SAFETY: the request is being posted: the caller of `post` promises that its entries
            // are memory that can be read until `post` returns.
            unsafe { domain::copy_inline(slices) }
        });
        let slices = match &mut taken {
            Some(taken) => [domain::inline_entry(taken)].into_iter().collect(),
            None => slices.iter().copied().collect(),
        };
        Self {
            arrives,
            polls,
            waits_for_receive: waits,
            request: request.clone(),
            slices,
            _inline_data: taken,
        }
    }
}

impl QpState {
    pub(super) fn new(
        number: u32,
        (domain, capabilities): (Arc<Domain>, Arc<Capabilities>),
        completions: Arc<Completions>,
        receives: ReceiveQueue<QpPair>,
        events: Arc<EventQueue<SoftwareConnectRequest>>,
        config: &QueuePairConfig,
    ) -> Self {
        Self {
            number,
            state: QpPhase::Connecting,
            domain,
            capabilities,
            completions,
            completed: VecDeque::new(),
            is_disconnected: false,
            receives,
            rnr_retry: config.rnr_retry,
            events,
            posted: 0,
            retired: Arc::default(),
            send_depth: config.sends,
            unsignaled: 0,
            delayed: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            acknowledged_by: None,
        }
    }

    /// Returns the maximum number of entries of a request.
    fn max_sge_of(&self, operation: &Operation) -> usize {
        match operation {
            Operation::Send { .. } | Operation::Write { .. } => {
                self.capabilities.max_sge.min(MAX_SGE)
            }
            Operation::Read { .. } => self.capabilities.max_read_sge.min(MAX_SGE),
            Operation::Bind { .. } => 1,
            Operation::Invalidate { .. } => 0,
        }
    }

    /// Returns true if a request may be inline.
    fn fits_inline(&self, request: &WorkRequest, slices: &[Sge]) -> bool {
        let sends = matches!(request.operation, Operation::Send { .. });
        sends && domain::total_length(slices) <= self.capabilities.max_inline.into()
    }

    pub(super) fn push_event(&self, event: ConnectionEvent<SoftwareConnectRequest>) {
        self.events.push(event);
    }

    fn take_receive(&mut self, link: &Weak<QpPair>) -> Option<PostedReceive> {
        match &mut self.receives {
            ReceiveQueue::Own { queue, .. } => queue.pop_front(),
            ReceiveQueue::Shared(shared) => shared.take(self.rnr_retry.then_some(link)),
        }
    }

    /// Queues the completion of a request of this side: at a time, if one is given, and after all
    /// earlier ones.
    #[inline]
    fn complete(&mut self, request: &WorkRequest, status: Status, at: Option<Time>) {
        self.unsignaled += 1;
        if at.is_some() {
            self.acknowledged_by = self.acknowledged_by.max(at);
        }
        if !request.signaled && status == Status::Success {
            return;
        }
        let retires = Some((self.retired.clone(), std::mem::take(&mut self.unsignaled)));
        let completion = Completion {
            id: request.id,
            queue_pair: self.number,
            status,
            length: 0,
            invalidated: None,
        };
        let entry = Entry {
            completion,
            retires,
        };
        match self.acknowledged_by {
            Some(at) => self.complete_later(at, entry),
            None => self.completed.push_back(entry),
        }
    }

    // Out of line: connections without a delay do not need it.
    #[cold]
    fn complete_later(&mut self, at: Time, entry: Entry) {
        self.unacknowledged.push_back((at, entry));
    }

    /// Queues the completions that the peer has acknowledged by now.
    fn acknowledge(&mut self, now: Option<Time>) {
        while self
            .unacknowledged
            .front()
            .is_some_and(|(at, _)| Some(*at) <= now)
        {
            self.completed
                .extend(self.unacknowledged.pop_front().map(|(_, entry)| entry));
        }
    }

    /// Returns the time of the next work that waits only for time to pass.
    fn due(&self) -> Option<Time> {
        let first = self
            .delayed
            .front()
            .filter(|first| !first.waits_for_receive && first.polls == 0);
        let acknowledged = self.unacknowledged.front().map(|(at, _)| *at);
        first
            .and_then(|first| first.arrives)
            .into_iter()
            .chain(acknowledged)
            .min()
    }

    fn received(&mut self, id: u64, status: Status, length: u32, invalidated: Option<u32>) {
        let completion = Completion {
            id,
            queue_pair: self.number,
            status,
            length,
            invalidated,
        };
        self.completed.push_back(Entry {
            completion,
            retires: None,
        });
    }

    /// Fails the queue pair, and flushes posted requests. Shared receives remain.
    fn fail(&mut self) {
        if self.state == QpPhase::Failed {
            return;
        }
        let was_ready = self.state == QpPhase::Ready;
        self.state = QpPhase::Failed;
        while let Some(delayed) = self.delayed.pop_front() {
            self.complete(&delayed.request, Status::Flushed, None);
        }
        if let ReceiveQueue::Own { queue, .. } = &mut self.receives {
            for posted in std::mem::take(queue) {
                self.received(posted.id, Status::Flushed, 0, None);
            }
        }
        self.is_disconnected = was_ready;
    }
}

/// Both queue pairs, locked. Releasing the lock moves completions to their queues, and passes the
/// time of the next due work to the fabric.
struct LockedQpPair<'a> {
    pair: MutexGuard<'a, QpPairState>,
    link: &'a QpPair,
}

impl Deref for LockedQpPair<'_> {
    type Target = [Option<QpState>; 2];

    fn deref(&self) -> &Self::Target {
        &self.pair.ends
    }
}

impl DerefMut for LockedQpPair<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.pair.ends
    }
}

impl Drop for LockedQpPair<'_> {
    fn drop(&mut self) {
        for end in self.pair.ends.iter_mut().flatten() {
            end.completions.extend(&mut end.completed);
            if std::mem::take(&mut end.is_disconnected) {
                end.events.push(ConnectionEvent::Disconnected {
                    queue_pair: end.number,
                });
            }
        }
        if let Some(latency) = &self.link.fabric.latency {
            self.schedule(latency);
        }
    }
}

impl LockedQpPair<'_> {
    // Out of line: connections without a delay do not need it.
    #[cold]
    fn schedule(&mut self, latency: &Latency) {
        let due = self
            .pair
            .ends
            .iter()
            .flatten()
            .filter_map(QpState::due)
            .min();
        let was = std::mem::replace(&mut self.pair.scheduled, due);
        if was != due {
            let link: Weak<QpPair> = self.link.me.clone();
            latency.reschedule((self.link.number, link), was, due);
        }
    }
}

impl Progress for QpPair {
    fn progress(&self) {
        self.catch_up(&mut self.lock());
    }
}

impl ReceiveWaiter for QpPair {
    fn receive_posted(&self) -> bool {
        self.progress();
        false
    }
}

/// Returns true if an operation does not involve the peer.
const fn is_local(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Bind { .. } | Operation::Invalidate { .. }
    )
}

/// Returns the opposite side.
const fn other(side: usize) -> usize {
    1 - side
}

impl QpPair {
    pub(super) fn new(fabric: Arc<Fabric>, first: QpState) -> Arc<Self> {
        let (number, domains) = (first.number, [first.domain.clone().into(), OnceLock::new()]);
        let pair = Mutex::new(QpPairState {
            ends: [Some(first), None],
            scheduled: None,
        });
        Arc::new_cyclic(|me| Self {
            fabric,
            me: me.clone(),
            domains,
            pair,
            number,
        })
    }

    /// Returns the domains of this side and of the other. If there was never another, the first one
    /// is repeated.
    fn domains(&self, side: usize) -> Option<[&Arc<Domain>; 2]> {
        let ours = self.domains[side].get()?;
        Some([ours, self.domains[other(side)].get().unwrap_or(ours)])
    }

    fn lock(&self) -> LockedQpPair<'_> {
        LockedQpPair {
            pair: self.pair.lock().unwrap_or_else(PoisonError::into_inner),
            link: self,
        }
    }

    /// Locks, and executes due work, so that new work does not overtake it.
    fn lock_current(&self) -> LockedQpPair<'_> {
        let mut ends = self.lock();
        if self.fabric.latency.is_some() {
            self.catch_up(&mut ends);
        }
        ends
    }

    /// Adds the second queue pair. Returns false if the first one is gone, if there is a second one
    /// already, or if an earlier second one belonged to another device.
    pub(super) fn join(&self, second: QpState) -> bool {
        let mut ends = self.lock();
        let alone = ends[1].is_none()
            && ends[0]
                .as_ref()
                .is_some_and(|first| first.state == QpPhase::Connecting);
        // An earlier second queue pair that has left has set the domain.
        let joins = alone
            && Arc::ptr_eq(
                self.domains[1].get_or_init(|| second.domain.clone()),
                &second.domain,
            );
        if joins {
            ends[1] = Some(second);
        }
        joins
    }

    /// Makes both queue pairs ready, and calls `tell` under the lock. Returns false if either is
    /// dropped.
    pub(super) fn establish(&self, tell: impl FnOnce(&QpState, &QpState)) -> bool {
        let mut ends = self.lock();
        let [Some(first), Some(second)] = &mut *ends else {
            return false;
        };
        if first.state != QpPhase::Connecting || second.state != QpPhase::Connecting {
            return false;
        }
        (first.state, second.state) = (QpPhase::Ready, QpPhase::Ready);
        tell(first, second);
        true
    }

    /// Fails the first queue pair, which will not be connected.
    pub(super) fn refuse(&self, tell: impl FnOnce(&QpState)) {
        if let Some(first) = self.lock()[0]
            .as_mut()
            .filter(|first| first.state == QpPhase::Connecting)
        {
            first.fail();
            tell(first);
        }
    }

    /// Informs the first queue pair that the listener rejects the connection.
    fn reject(&self, private_data: &[u8]) {
        self.refuse(|first| first.refused(private_data));
    }

    /// Fails both queue pairs. Before the connection is established only this one fails: the other
    /// is informed when its request is answered.
    pub(super) fn disconnect(&self, side: usize) {
        let mut ends = self.lock_current();
        let Some(end) = &mut ends[side] else { return };
        let was_ready = end.state == QpPhase::Ready;
        end.fail();
        if let Some(end) = ends[other(side)].as_mut().filter(|_| was_ready) {
            end.fail();
        }
    }

    /// Removes a queue pair. Nothing that it has posted is accessed or reported any more.
    pub(super) fn leave(&self, side: usize) {
        let mut ends = self.lock_current();
        // After a loss of power the peer is not informed.
        if ends[side].take().is_none() {
            return;
        }
        if let Some(end) = ends[other(side)]
            .as_mut()
            .filter(|end| end.state == QpPhase::Ready)
        {
            end.fail();
        }
    }

    /// Removes the queue pairs of a domain, without informing the peers.
    pub(super) fn lose_power(&self, domain: &Arc<Domain>) {
        for end in &mut *self.lock_current() {
            end.take_if(|end| Arc::ptr_eq(&end.domain, domain));
        }
    }

    pub(super) fn post_receives(
        &self,
        side: usize,
        receives: &[Receive],
        slices: &[Sge],
    ) -> Result<()> {
        let mut ends = self.lock_current();
        let gone = VerbError {
            verb: "post_receives",
            cause: Cause::State,
        };
        let Some(end) = &mut ends[side] else {
            return Err(gone);
        };
        if end.state == QpPhase::Failed {
            receives
                .iter()
                .for_each(|receive| end.received(receive.id, Status::Flushed, 0, None));
            return Ok(());
        }
        let ReceiveQueue::Own { queue, most } = &mut end.receives else {
            return Err(gone);
        };
        enqueue(queue, (*most, end.capabilities.max_sge), receives, slices)?;
        if end.rnr_retry {
            self.advance(&mut ends, other(side), self.fabric.now());
        }
        Ok(())
    }

    pub(super) fn post(&self, side: usize, requests: &[WorkRequest], slices: &[Sge]) -> Result<()> {
        let verb = "post";
        let mut ends = self.lock_current();
        let Some(end) = &mut ends[side] else {
            return Err(VerbError {
                verb,
                cause: Cause::State,
            });
        };
        if end.state == QpPhase::Connecting {
            return Err(VerbError {
                verb,
                cause: Cause::State,
            });
        }
        let used = end.posted.wrapping_sub(end.retired.load(Ordering::Relaxed)) as usize;
        if used + requests.len() > end.send_depth as usize {
            return Err(VerbError {
                verb,
                cause: Cause::Full,
            });
        }
        for request in requests {
            let mine = sges_of(request.slices, slices, verb)?;
            if mine.len() > end.max_sge_of(&request.operation)
                || (request.inline && !end.fits_inline(request, mine))
            {
                return Err(VerbError {
                    verb,
                    cause: Cause::Limit,
                });
            }
        }
        // It is at most the depth of the queue, which has 32 bits.
        end.posted = end
            .posted
            .wrapping_add(u32::try_from(requests.len()).unwrap_or(u32::MAX));
        let Some(domains) = self.domains(side) else {
            return Ok(());
        };
        let mut read_locks = ReadLocks::new(domains);
        let arrives = self.fabric.arrival();
        for request in requests {
            let mine = sges_of(request.slices, slices, verb)?;
            self.execute_or_delay(&mut ends, side, &mut read_locks, (request, mine), arrives);
        }
        Ok(())
    }

    /// Executes a request, or queues it: for its delay, or because of a fault.
    fn execute_or_delay(
        &self,
        ends: &mut [Option<QpState>; 2],
        side: usize,
        read_locks: &mut ReadLocks<'_>,
        (request, slices): (&WorkRequest, &[Sge]),
        arrives: Option<Time>,
    ) {
        let Some(end) = &mut ends[side] else { return };
        let polls = self.fabric.delay();
        let arrives = arrives.filter(|_| !is_local(&request.operation));
        let is_later = polls > 0 || arrives.is_some() || !end.delayed.is_empty();
        let is_now = !is_later || end.state != QpPhase::Ready;
        if is_now && self.execute(ends, side, read_locks, (request, slices), None) {
            return;
        }
        if let Some(end) = &mut ends[side] {
            end.delayed.push_back(DelayedRequest::new(
                request,
                slices,
                (arrives, polls, is_now),
            ));
        }
    }

    pub(super) fn has_delayed(&self) -> bool {
        self.lock()
            .iter()
            .flatten()
            .any(|end| !end.delayed.is_empty())
    }

    // Out of line: connections without a delay do not need it.
    #[cold]
    fn catch_up(&self, ends: &mut [Option<QpState>; 2]) {
        let now = self.fabric.now();
        for side in 0..2 {
            self.advance(ends, side, now);
        }
        ends.iter_mut()
            .flatten()
            .for_each(|end| end.acknowledge(now));
    }

    /// Executes the delayed requests of one side that are due.
    fn advance(&self, ends: &mut [Option<QpState>; 2], side: usize, now: Option<Time>) {
        let Some(domains) = self.domains(side) else {
            return;
        };
        let mut read_locks = ReadLocks::new(domains);
        while let Some(end) = &mut ends[side] {
            let Some(first) = end.delayed.front_mut().filter(|first| first.arrives <= now) else {
                break;
            };
            if first.polls > 0 {
                first.polls -= 1;
                break;
            }
            let Some(mut delayed) = end.delayed.pop_front() else {
                break;
            };
            // A request that waited for a receive is executed now, not at its arrival time.
            let arrived_at = if delayed.waits_for_receive {
                delayed.arrives.and(now)
            } else {
                delayed.arrives
            };
            if !self.execute(
                ends,
                side,
                &mut read_locks,
                (&delayed.request, &delayed.slices),
                arrived_at,
            ) {
                delayed.waits_for_receive = true;
                if let Some(end) = &mut ends[side] {
                    end.delayed.push_front(delayed);
                }
                break;
            }
        }
    }
}
