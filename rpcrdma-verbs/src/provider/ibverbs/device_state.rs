//! The shared state of a device: its tables, and the dispatch of completions and events.
//!
//! # Locks
//!
//! Any thread may use a device and the objects that are created on it. A thread takes these locks
//! in this order, and never two of one line:
//!
//! 1. `QpInner::state`: a queue pair. It is locked while requests are posted, while the connection
//!    changes its state, and while the queue pair ends, including the verbs of these steps. A
//!    thread that posts to the queue pair or ends it at the same time waits for its end.
//! 2. `Queue::lifecycle`: the creation and the destruction of queue pairs on a completion queue.
//! 3. `Queue::state`: a completion queue, with the outstanding requests of its queue pairs. It is
//!    locked while completions are taken.
//! 4. `Tables`.
//! 5. `ReceiveIds`, the ids of a shared receive queue.
//! 6. Locks under which none of 1. to 6. is taken: `DeviceState::queues`, `pairs` and `failing`,
//!    the two of `EventQueue`, `Connection::phase`, and those of the objects in `sys`, which are
//!    locked while they end.
//! 7. `Context::pending_events`, which is locked while events are read and acknowledged.
//!
//! Posting a list takes the lock of the queue pair, briefly that of its completion queue, and that
//! of the tables if the list binds, invalidates, or is short enough to be inline. Posting shared
//! receives takes the locks of the ids and of the queue. Polling a batch takes the lock of the
//! completion queue, that of the tables if a message has invalidated a key, and that of the ids for
//! each shared receive.
//!
//! A destruction waits until the events of its object are acknowledged. So no destruction is called
//! under a lock that a thread takes between an event and its acknowledgement: in between, no lock
//! is taken, and only 7. is held, under which nothing is destroyed. No verb is called under a lock
//! of 4. or 5., with two exceptions that do not wait: a list that binds is posted under the lock of
//! the tables, and completions are polled under it after one of the batch has invalidated a key.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::completion_queue::{Pending, Queue};
use super::ids::Kind;
use super::number_map::NumberMap;
use super::outstanding::{CompletionTarget, Outstanding};
use super::status::status;
use super::sys::{AsyncEvent, Context, ProtectionDomain, QueuePair, RawCompletion};
use super::tables::{LazyTables, Tables};
use crate::provider::common::traffic_class::TrafficClass;
use crate::provider::{Capabilities, Completion, ProtectionDomainId, Result, Status};

/// The state of a device.
pub(super) struct DeviceState {
    // Fields are dropped in declaration order: earlier ones use later ones.
    pub(super) tables: Tables,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) domain_id: ProtectionDomainId,
    pub(super) context: Arc<Context>,
    pub(super) capabilities: Capabilities,
    pub(super) quirks: Quirks,
    pub(super) traffic_class: TrafficClass,
    /// The queue pairs by the numbers that this provider assigned.
    pairs: Mutex<NumberMap<Arc<dyn CompletionTarget>>>,
    queues: Mutex<Vec<Weak<Queue>>>,
    /// Queue pairs that have failed and must be ended.
    failing: Mutex<Vec<Arc<dyn CompletionTarget>>>,
    /// False if there are none. Checking this is cheaper than the lock.
    has_failing: AtomicBool,
    numbers: AtomicU32,
    /// Increases when a completion queue is acknowledged, which a thread does after it waited.
    /// Managers then check their descriptors.
    attention: AtomicU32,
}

/// Properties of a device that are not in its capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Quirks {
    pub(super) iwarp: bool,
    /// The first active port.
    pub(super) port: u8,
    /// The completion flags that indicate an invalidated key.
    pub(super) invalidated: u32,
}

/// The timeout for the last shared receive of a queue pair.
const LAST_RECEIVE_TIMEOUT: Duration = Duration::from_millis(2);

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic can occur between two changes.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceState {
    pub(super) fn new(
        (context, domain): (Arc<Context>, Arc<ProtectionDomain>),
        capabilities: Capabilities,
        quirks: Quirks,
    ) -> Arc<Self> {
        Arc::new(Self {
            tables: Tables::default(),
            domain,
            domain_id: ProtectionDomainId::unique(),
            context,
            capabilities,
            quirks,
            traffic_class: TrafficClass::default(),
            pairs: Mutex::default(),
            queues: Mutex::default(),
            failing: Mutex::default(),
            has_failing: AtomicBool::new(false),
            numbers: AtomicU32::new(1),
            attention: AtomicU32::new(0),
        })
    }

    pub(super) fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn attention(&self) -> u32 {
        self.attention.load(Ordering::Acquire)
    }

    /// Requests a check of the descriptors: a thread was woken.
    pub(super) fn request_attention(&self) {
        self.attention.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn add_queue(&self, queue: &Arc<Queue>) {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    pub(super) fn add_pair(&self, number: u32, pair: Arc<dyn CompletionTarget>) {
        let gone = lock(&self.pairs).insert(number, pair);
        drop(gone);
    }

    pub(super) fn remove_pair(&self, number: u32) {
        let gone = lock(&self.pairs).remove(&number);
        drop(gone);
    }

    /// Converts a completion of the device. Returns `None` if the request is unknown or has no
    /// completion. The completion queue is locked.
    fn completed(
        &self,
        outstanding: &mut Outstanding,
        tables: &mut LazyTables<'_>,
        taken: &RawCompletion,
    ) -> Option<Pending> {
        let (kind, number) = Kind::of(taken.id);
        let mut pair = outstanding.pairs.get_mut(&taken.pair);
        let id = match kind {
            Kind::Shared(queue) => outstanding.shared.get(&queue)?.take(number)?,
            Kind::Receive => pair.as_mut()?.receives.as_mut()?.done(number)?,
            Kind::Send | Kind::Quiet => pair.as_mut()?.sends.done(number)?,
        };
        let status = status(taken.status.0, taken.status.1);
        let queue_pair = pair.as_ref().map_or(0, |pair| pair.number);
        if let Some(pair) = pair.filter(|pair| status != Status::Success && !pair.has_failed) {
            pair.has_failed = true;
            self.mark_failed([pair.target.clone()]);
        }
        if status == Status::Success && kind == Kind::Quiet {
            return None;
        }
        let received = status == Status::Success && matches!(kind, Kind::Receive | Kind::Shared(_));
        let invalidated =
            (received && taken.flags & self.quirks.invalidated != 0).then_some(taken.key);
        if let Some(key) = invalidated {
            tables.get().unbound(key);
        }
        let completion = Completion {
            id,
            queue_pair,
            status,
            length: if received { taken.bytes } else { 0 },
            invalidated,
        };
        Some(Pending {
            completion,
            shared: matches!(kind, Kind::Shared(_)),
        })
    }

    /// Takes completions of a queue, at most `most`. Returns the number of those that are reported,
    /// and the number of all that were taken.
    pub(super) fn poll(
        &self,
        queue: &Queue,
        completions: &mut Vec<Completion>,
        most: usize,
    ) -> Result<(usize, usize)> {
        let mut tables = self.tables.lazy();
        queue.poll(completions, most, |outstanding, taken| {
            self.completed(outstanding, &mut tables, taken)
        })
    }

    /// Takes all completions of the device from a queue, and stores them.
    pub(super) fn drain(&self, queue: &Queue) {
        let mut tables = self.tables.lazy();
        queue.drain(|outstanding, taken| self.completed(outstanding, &mut tables, taken));
    }

    /// Destroys a queue pair that was removed from its completion queue.
    pub(super) fn destroy_forgotten(&self, pair: QueuePair, queue: &Queue) {
        let lifecycle = queue.lock_lifecycle();
        drop(pair);
        self.drain(queue);
        drop(lifecycle);
    }

    /// Marks queue pairs as failed. [`Self::end_failed`] ends them.
    fn mark_failed(&self, pairs: impl IntoIterator<Item = Arc<dyn CompletionTarget>>) {
        let mut failing = lock(&self.failing);
        failing.extend(pairs);
        self.has_failing
            .store(!failing.is_empty(), Ordering::Release);
    }

    fn next_failed(&self) -> Option<Arc<dyn CompletionTarget>> {
        if !self.has_failing.load(Ordering::Acquire) {
            return None;
        }
        let mut failing = lock(&self.failing);
        let next = failing.pop();
        self.has_failing
            .store(!failing.is_empty(), Ordering::Release);
        next
    }

    /// Ends the queue pairs that have failed. The caller holds no lock.
    pub(super) fn end_failed(&self) {
        // These events were read while an object was ended: no descriptor shows them to other
        // threads.
        loop {
            while self.context.has_pending_events() {
                self.note_event();
            }
            let Some(pair) = self.next_failed() else {
                return;
            };
            pair.end();
        }
    }

    /// Processes the asynchronous events of the device. The caller holds no lock.
    pub(super) fn take_events(&self) {
        self.note_events();
        self.end_failed();
    }

    fn note_events(&self) {
        while self.note_event() {}
    }

    /// Processes an event. Returns false if there is none. The lock of a queue pair may be held.
    fn note_event(&self) -> bool {
        let Some(event) = self.context.event() else {
            return false;
        };
        tracing::debug!(?event, "of the device");
        match event {
            AsyncEvent::QueueFailed(number) => self.queue_overrun(number),
            AsyncEvent::PairFailed(number) => self.mark_failed(self.pair(number)),
            AsyncEvent::MessageBeforeEstablished(number) => {
                if let Some(pair) = self.pair(number) {
                    pair.message_before_established();
                }
            }
            AsyncEvent::Fatal => self.mark_failed(self.pairs()),
            AsyncEvent::Drained(number) => {
                if let Some(pair) = self.pair(number) {
                    pair.last_receive_done();
                }
            }
            AsyncEvent::Other(_) => {}
        }
        true
    }

    /// Waits until a failed queue pair has finished the receives that it took from its shared
    /// queue. `is_done` is set by the event for this, which soft-RoCE of Linux 6.1 and soft-iWARP
    /// do not report.
    pub(super) fn await_last_receive(&self, is_done: &AtomicBool) {
        let began = Instant::now();
        while !is_done.load(Ordering::Acquire) && began.elapsed() < LAST_RECEIVE_TIMEOUT {
            self.note_events();
            std::thread::yield_now();
        }
    }

    fn pair(&self, number: u32) -> Option<Arc<dyn CompletionTarget>> {
        lock(&self.pairs).get(&number).cloned()
    }

    fn pairs(&self) -> Vec<Arc<dyn CompletionTarget>> {
        lock(&self.pairs).values().cloned().collect()
    }

    fn queue_overrun(&self, number: u32) {
        // They are dropped after the lock is released: another thread may have dropped its own
        // reference.
        let queues: Vec<Arc<Queue>> = lock(&self.queues)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        if let Some(queue) = queues.iter().find(|queue| queue.number == number) {
            queue.overruns();
            // Completions of its queue pairs would be lost.
            let mut using = self.pairs();
            using.retain(|pair| pair.completes_on(number));
            self.mark_failed(using);
        }
    }
}
