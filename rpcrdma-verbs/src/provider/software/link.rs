//! Two queue pairs and what is between them: the order in which work requests are done.

mod work;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arrayvec::ArrayVec;

use super::Fabric;
use super::completion::{Entry, Shared as Completions};
use super::latency::{Latency, Time};
use super::manager::Notices;
use super::memory::{self, Domain, Reading};
use crate::provider::{
    Capabilities, Cause, Completion, ConnectionEvent, Operation, QueuePairConfig, Receive, Result, Slice, Status,
    VerbError, WorkRequest,
};

/// Slices of one work request.
pub(super) const SLICES: usize = 16;

/// What connects two queue pairs.
#[derive(Debug)]
pub(super) struct Link {
    fabric: Arc<Fabric>,
    me: Weak<Self>,
    /// The domains of both, as soon as they are there: here, so that whoever reads their tables need not count himself.
    domains: [OnceLock<Arc<Domain>>; 2],
    pair: Mutex<Pair>,
    /// The number of the first queue pair.
    number: u32,
}

#[derive(Debug)]
struct Pair {
    ends: [Option<End>; 2],
    /// When the fabric is to look at it, as it was told last.
    scheduled: Option<Time>,
}

/// One queue pair.
#[derive(Debug)]
pub(super) struct End {
    pub(super) number: u32,
    pub(super) state: State,
    pub(super) domain: Arc<Domain>,
    capabilities: Arc<Capabilities>,
    completions: Arc<Completions>,
    /// Completions that are not in their queue yet: they go there together, before the lock of the link is let go.
    told: VecDeque<Entry>,
    /// Whether its end is to be told, after them.
    ended: bool,
    receives: Receives,
    /// Whether the peer's Sends wait for a receive.
    rnr_retry: bool,
    notices: Arc<Notices>,
    /// Work requests that were posted, and those of them whose places are free again.
    posted: u32,
    retired: Arc<AtomicU32>,
    most: u32,
    /// Requests without a completion of their own, since the last that has one.
    unsignaled: u32,
    /// Requests that are under way, or that a fault delays, with what is left of the delay; or that wait for a receive of the
    /// peer's.
    delayed: VecDeque<Delayed>,
    /// Completions that the peer's acknowledgements have yet to bring, and when they do.
    unacknowledged: VecDeque<(Time, Entry)>,
    /// When the last of all acknowledgements comes, of requests without a completion, too.
    acknowledged_by: Option<Time>,
}

/// How far a queue pair is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It is not connected yet: only receives can be posted.
    Connecting,
    /// Work can be posted.
    Ready,
    /// It has failed: what is posted is flushed.
    Failed,
}

#[derive(Debug)]
struct Delayed {
    /// When it is at the peer; none if it is already, or is nothing to the peer.
    arrives: Option<Time>,
    polls: u32,
    /// Whether it has found no receive.
    waits: bool,
    request: WorkRequest,
    slices: ArrayVec<Slice, SLICES>,
    /// What an inline request has taken along: its one slice is this.
    _taken: Option<Vec<u8>>,
}

impl Delayed {
    /// A request that is to be done later, with its slices, or what it takes along.
    fn new(request: &WorkRequest, slices: &[Slice], (arrives, polls, waits): (Option<Time>, u32, bool)) -> Self {
        // SAFETY: the request is being posted.
        #[allow(unsafe_code, reason = "the promise of `post`")]
        let mut taken = request.inline.then(|| unsafe { memory::take(slices) });
        let slices = match &mut taken {
            Some(taken) => [memory::whole(taken)].into_iter().collect(),
            None => slices.iter().copied().collect(),
        };
        Self { arrives, polls, waits, request: request.clone(), slices, _taken: taken }
    }
}

/// A receive that was posted.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    id: u64,
    slices: Few,
}

/// Slices of a receive: one or two, as most have, or more.
#[derive(Clone, Debug)]
enum Few {
    One(Slice),
    Two([Slice; 2]),
    More(Box<[Slice]>),
}

impl Few {
    fn of(slices: &[Slice]) -> Self {
        match *slices {
            [one] => Self::One(one),
            [one, two] => Self::Two([one, two]),
            _ => Self::More(slices.into()),
        }
    }

    fn all(&self) -> &[Slice] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Two(two) => two,
            Self::More(more) => more,
        }
    }
}

/// A receive queue, of one queue pair or shared.
#[derive(Clone, Debug)]
pub(super) enum Receives {
    Own { queue: VecDeque<Posted>, most: usize },
    Shared(SharedReceives),
}

/// A receive queue of the software fabric that several queue pairs share.
#[derive(Clone, Debug)]
pub struct SharedReceives {
    queue: Arc<Mutex<SharedState>>,
    pub(super) domain: Arc<Domain>,
    most: usize,
    slices: usize,
}

#[derive(Debug)]
struct SharedState {
    posted: VecDeque<Posted>,
    /// Links with a Send that waits for a receive.
    waiting: VecDeque<Weak<Link>>,
}

impl SharedReceives {
    pub(super) fn new(domain: Arc<Domain>, most: u32, slices: usize) -> Self {
        let most = most as usize;
        let state = SharedState { posted: VecDeque::with_capacity(most), waiting: VecDeque::new() };
        Self { queue: Arc::new(Mutex::new(state)), domain, most, slices }
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn post(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        enqueue(&mut self.lock().posted, (self.most, self.slices), receives, slices)?;
        while let Some(link) = self.next_waiting() {
            link.progress();
        }
        Ok(())
    }

    /// A link with a Send that can go on. The lock is not held then: links have their own, which come first.
    fn next_waiting(&self) -> Option<Arc<Link>> {
        let mut state = self.lock();
        while !state.posted.is_empty() {
            if let Some(link) = state.waiting.pop_front()?.upgrade() {
                return Some(link);
            }
        }
        None
    }

    /// Takes a receive; if there is none, and the link wants to wait, it is told of the next.
    fn take(&self, waits: Option<&Weak<Link>>) -> Option<Posted> {
        let mut state = self.lock();
        // What was posted last, which may still be in the caches: a shared queue has no order.
        let posted = state.posted.pop_back();
        if let (None, Some(link)) = (&posted, waits) {
            state.waiting.push_back(link.clone());
        }
        posted
    }
}

/// The slices of a request in the table that was posted with it.
fn of<'a>((from, count): (u32, u32), slices: &'a [Slice], verb: &'static str) -> Result<&'a [Slice]> {
    let from = from as usize;
    match slices.get(from..from + count as usize) {
        Some(slices) => Ok(slices),
        None => Err(VerbError { verb, cause: Cause::Limit }),
    }
}

/// Adds all receives to a queue, or none: it has so many places, and each of them so many slices.
fn enqueue(
    queue: &mut VecDeque<Posted>,
    (most, each): (usize, usize),
    receives: &[Receive],
    slices: &[Slice],
) -> Result<()> {
    let verb = "post_receives";
    if queue.len() + receives.len() > most {
        return Err(VerbError { verb, cause: Cause::Full });
    }
    for receive in receives {
        if of(receive.slices, slices, verb)?.len() > each {
            return Err(VerbError { verb, cause: Cause::Limit });
        }
    }
    for receive in receives {
        queue.push_back(Posted { id: receive.id, slices: Few::of(of(receive.slices, slices, verb)?) });
    }
    Ok(())
}

impl End {
    pub(super) fn new(
        number: u32,
        (domain, capabilities): (Arc<Domain>, Arc<Capabilities>),
        completions: Arc<Completions>,
        receives: Receives,
        notices: Arc<Notices>,
        config: &QueuePairConfig,
    ) -> Self {
        Self {
            number,
            state: State::Connecting,
            domain,
            capabilities,
            completions,
            told: VecDeque::new(),
            ended: false,
            receives,
            rnr_retry: config.rnr_retry,
            notices,
            posted: 0,
            retired: Arc::default(),
            most: config.sends,
            unsignaled: 0,
            delayed: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            acknowledged_by: None,
        }
    }

    /// Slices that a request may have.
    fn slices_of(&self, operation: &Operation) -> usize {
        match operation {
            Operation::Send { .. } | Operation::Write { .. } => self.capabilities.slices.min(SLICES),
            Operation::Read { .. } => self.capabilities.read_slices.min(SLICES),
            Operation::Bind { .. } => 1,
            Operation::Invalidate { .. } => 0,
        }
    }

    /// Whether a request may take its octets along.
    fn takes_along(&self, request: &WorkRequest, slices: &[Slice]) -> bool {
        let sends = matches!(request.operation, Operation::Send { .. });
        sends && memory::total(slices) <= self.capabilities.inline.into()
    }

    pub(super) fn notices(&self) -> &Notices {
        &self.notices
    }

    fn take_receive(&mut self, link: &Weak<Link>) -> Option<Posted> {
        match &mut self.receives {
            Receives::Own { queue, .. } => queue.pop_front(),
            Receives::Shared(shared) => shared.take(self.rnr_retry.then_some(link)),
        }
    }

    /// Tells what became of a request of ours: at a time, if one is given, and after all before it.
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
        let completion = Completion { id: request.id, queue_pair: self.number, status, length: 0, invalidated: None };
        let entry = Entry { completion, retires };
        match self.acknowledged_by {
            Some(at) => self.tell_later(at, entry),
            None => self.told.push_back(entry),
        }
    }

    // Out of the way of those without a delay.
    #[cold]
    fn tell_later(&mut self, at: Time, entry: Entry) {
        self.unacknowledged.push_back((at, entry));
    }

    /// Tells what the peer has acknowledged by now.
    fn acknowledge(&mut self, now: Option<Time>) {
        while self.unacknowledged.front().is_some_and(|(at, _)| Some(*at) <= now) {
            self.told.extend(self.unacknowledged.pop_front().map(|(_, entry)| entry));
        }
    }

    /// When something of it is to be done for no other reason than that it is time.
    fn due(&self) -> Option<Time> {
        let first = self.delayed.front().filter(|first| !first.waits && first.polls == 0);
        let acknowledged = self.unacknowledged.front().map(|(at, _)| *at);
        first.and_then(|first| first.arrives).into_iter().chain(acknowledged).min()
    }

    fn received(&mut self, id: u64, status: Status, length: u32, invalidated: Option<u32>) {
        let completion = Completion { id, queue_pair: self.number, status, length, invalidated };
        self.told.push_back(Entry { completion, retires: None });
    }

    /// Fails, and flushes all that was posted. Shared receives stay for the others.
    fn fail(&mut self) {
        if self.state == State::Failed {
            return;
        }
        let was_ready = self.state == State::Ready;
        self.state = State::Failed;
        while let Some(delayed) = self.delayed.pop_front() {
            self.complete(&delayed.request, Status::Flushed, None);
        }
        if let Receives::Own { queue, .. } = &mut self.receives {
            for posted in std::mem::take(queue) {
                self.received(posted.id, Status::Flushed, 0, None);
            }
        }
        self.ended = was_ready;
    }
}

/// Both queue pairs, locked. What has completed is in its queue when the lock is let go, and the fabric knows when there is
/// something to do next.
struct Ends<'a> {
    pair: MutexGuard<'a, Pair>,
    link: &'a Link,
}

impl Deref for Ends<'_> {
    type Target = [Option<End>; 2];

    fn deref(&self) -> &Self::Target {
        &self.pair.ends
    }
}

impl DerefMut for Ends<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.pair.ends
    }
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        for end in self.pair.ends.iter_mut().flatten() {
            end.completions.extend(&mut end.told);
            if std::mem::take(&mut end.ended) {
                end.notices.tell(ConnectionEvent::Disconnected { queue_pair: end.number });
            }
        }
        if let Some(latency) = &self.link.fabric.latency {
            self.schedule(latency);
        }
    }
}

impl Ends<'_> {
    // Out of the way of those without a delay.
    #[cold]
    fn schedule(&mut self, latency: &Latency) {
        let due = self.pair.ends.iter().flatten().filter_map(End::due).min();
        let was = std::mem::replace(&mut self.pair.scheduled, due);
        if was != due {
            latency.reschedule((self.link.number, &self.link.me), was, due);
        }
    }
}

/// Whether an operation is nothing to the peer.
const fn is_local(operation: &Operation) -> bool {
    matches!(operation, Operation::Bind { .. } | Operation::Invalidate { .. })
}

/// What is the other side of a side.
const fn other(side: usize) -> usize {
    1 - side
}

impl Link {
    pub(super) fn new(fabric: Arc<Fabric>, first: End) -> Arc<Self> {
        let (number, domains) = (first.number, [first.domain.clone().into(), OnceLock::new()]);
        let pair = Mutex::new(Pair { ends: [Some(first), None], scheduled: None });
        Arc::new_cyclic(|me| Self { fabric, me: me.clone(), domains, pair, number })
    }

    /// The domains of a side, which is or was there, and of the other; the same again if there was none.
    fn domains(&self, side: usize) -> Option<[&Arc<Domain>; 2]> {
        let ours = self.domains[side].get()?;
        Some([ours, self.domains[other(side)].get().unwrap_or(ours)])
    }

    fn lock(&self) -> Ends<'_> {
        Ends { pair: self.pair.lock().unwrap_or_else(PoisonError::into_inner), link: self }
    }

    /// The same, after all that is due has been done: so that what is done now does not overtake it.
    fn lock_now(&self) -> Ends<'_> {
        let mut ends = self.lock();
        if self.fabric.latency.is_some() {
            self.catch_up(&mut ends);
        }
        ends
    }

    /// Adds the second queue pair; false if the first is gone, or there is or was a second one of another device.
    pub(super) fn join(&self, second: End) -> bool {
        let mut ends = self.lock();
        let alone = ends[1].is_none() && ends[0].as_ref().is_some_and(|first| first.state == State::Connecting);
        // One that came before, and left, has told its domain.
        let joins = alone && Arc::ptr_eq(self.domains[1].get_or_init(|| second.domain.clone()), &second.domain);
        if joins {
            ends[1] = Some(second);
        }
        joins
    }

    /// Both can work now; false if either is gone. `tell` tells both while nothing can happen.
    pub(super) fn establish(&self, tell: impl FnOnce(&End, &End)) -> bool {
        let mut ends = self.lock();
        let [Some(first), Some(second)] = &mut *ends else { return false };
        if first.state != State::Connecting || second.state != State::Connecting {
            return false;
        }
        (first.state, second.state) = (State::Ready, State::Ready);
        tell(first, second);
        true
    }

    /// The first queue pair will not be connected.
    pub(super) fn refuse(&self, tell: impl FnOnce(&End)) {
        if let Some(first) = self.lock()[0].as_mut().filter(|first| first.state == State::Connecting) {
            first.fail();
            tell(first);
        }
    }

    /// Fails both; but one that is not connected yet fails alone: the other is told when its request is answered.
    pub(super) fn disconnect(&self, side: usize) {
        let mut ends = self.lock_now();
        let Some(end) = &mut ends[side] else { return };
        let was_ready = end.state == State::Ready;
        end.fail();
        if let Some(end) = ends[other(side)].as_mut().filter(|_| was_ready) {
            end.fail();
        }
    }

    /// One queue pair is no more: nothing of what it has posted is touched from now on, or told.
    pub(super) fn leave(&self, side: usize) {
        let mut ends = self.lock_now();
        // What has lost its power takes leave of nobody.
        if ends[side].take().is_none() {
            return;
        }
        if let Some(end) = ends[other(side)].as_mut().filter(|end| end.state == State::Ready) {
            end.fail();
        }
    }

    /// The queue pairs of a domain are no more, and nobody is told.
    pub(super) fn lose_power(&self, domain: &Arc<Domain>) {
        for end in &mut *self.lock_now() {
            end.take_if(|end| Arc::ptr_eq(&end.domain, domain));
        }
    }

    pub(super) fn post_receives(&self, side: usize, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        let mut ends = self.lock_now();
        let gone = VerbError { verb: "post_receives", cause: Cause::State };
        let Some(end) = &mut ends[side] else { return Err(gone) };
        if end.state == State::Failed {
            receives.iter().for_each(|receive| end.received(receive.id, Status::Flushed, 0, None));
            return Ok(());
        }
        let Receives::Own { queue, most } = &mut end.receives else { return Err(gone) };
        enqueue(queue, (*most, end.capabilities.slices), receives, slices)?;
        if end.rnr_retry {
            self.advance(&mut ends, other(side), self.fabric.now());
        }
        Ok(())
    }

    pub(super) fn post(&self, side: usize, requests: &[WorkRequest], slices: &[Slice]) -> Result<()> {
        let verb = "post";
        let mut ends = self.lock_now();
        let Some(end) = &mut ends[side] else { return Err(VerbError { verb, cause: Cause::State }) };
        if end.state == State::Connecting {
            return Err(VerbError { verb, cause: Cause::State });
        }
        let used = end.posted.wrapping_sub(end.retired.load(Ordering::Relaxed)) as usize;
        if used + requests.len() > end.most as usize {
            return Err(VerbError { verb, cause: Cause::Full });
        }
        for request in requests {
            let mine = of(request.slices, slices, verb)?;
            if mine.len() > end.slices_of(&request.operation) || (request.inline && !end.takes_along(request, mine)) {
                return Err(VerbError { verb, cause: Cause::Limit });
            }
        }
        // No more than the queue has places, of 32 bits.
        end.posted = end.posted.wrapping_add(u32::try_from(requests.len()).unwrap_or(u32::MAX));
        let Some(domains) = self.domains(side) else { return Ok(()) };
        let mut reading = Reading::new(domains);
        let arrives = self.fabric.arrival();
        for request in requests {
            let mine = of(request.slices, slices, verb)?;
            self.begin(&mut ends, side, &mut reading, (request, mine), arrives);
        }
        Ok(())
    }

    /// Does a request, or lets it wait: for its way to the peer, or where faults are on.
    fn begin(
        &self,
        ends: &mut [Option<End>; 2],
        side: usize,
        reading: &mut Reading<'_>,
        (request, slices): (&WorkRequest, &[Slice]),
        arrives: Option<Time>,
    ) {
        let Some(end) = &mut ends[side] else { return };
        let polls = self.fabric.delay();
        let arrives = arrives.filter(|_| !is_local(&request.operation));
        let is_later = polls > 0 || arrives.is_some() || !end.delayed.is_empty();
        let is_now = !is_later || end.state != State::Ready;
        if is_now && self.execute(ends, side, reading, (request, slices), None) {
            return;
        }
        if let Some(end) = &mut ends[side] {
            end.delayed.push_back(Delayed::new(request, slices, (arrives, polls, is_now)));
        }
    }

    pub(super) fn has_delayed(&self) -> bool {
        self.lock().iter().flatten().any(|end| !end.delayed.is_empty())
    }

    /// Lets a poll's worth of time pass for what was delayed.
    pub(super) fn progress(&self) {
        self.catch_up(&mut self.lock());
    }

    // Out of the way of those without a delay.
    #[cold]
    fn catch_up(&self, ends: &mut [Option<End>; 2]) {
        let now = self.fabric.now();
        for side in 0..2 {
            self.advance(ends, side, now);
        }
        ends.iter_mut().flatten().for_each(|end| end.acknowledge(now));
    }

    /// Does what was delayed on one side and can be done now.
    fn advance(&self, ends: &mut [Option<End>; 2], side: usize, now: Option<Time>) {
        let Some(domains) = self.domains(side) else { return };
        let mut reading = Reading::new(domains);
        while let Some(end) = &mut ends[side] {
            let Some(first) = end.delayed.front_mut().filter(|first| first.arrives <= now) else { break };
            if first.polls > 0 {
                first.polls -= 1;
                break;
            }
            let Some(mut delayed) = end.delayed.pop_front() else { break };
            // What has waited is taken now, and not when it came.
            let taken = if delayed.waits { delayed.arrives.and(now) } else { delayed.arrives };
            if !self.execute(ends, side, &mut reading, (&delayed.request, &delayed.slices), taken) {
                delayed.waits = true;
                if let Some(end) = &mut ends[side] {
                    end.delayed.push_front(delayed);
                }
                break;
            }
        }
    }
}
