//! Receive queues of the providers `software` and `iwarp`: of one queue pair, or shared.
//!
//! This module owns the posted receives of both kinds, and the connections that wait for a receive
//! of a shared queue. Each waits at most once, and a post notifies as many as there are receives.
//! A receive is not reserved for the connection that is notified: another one may take it.
//!
//! **Order.** A queue pair takes its own receives in the order in which they were posted. A shared
//! queue has no order.
//!
//! **Locks.** A connection calls `take` and `give_up` with its own lock held, so the lock of a
//! connection comes before the lock of a queue. `receive_posted` is called without the lock of the
//! queue, but in `give_up` with the lock of one connection: in `iwarp`, which alone uses `give_up`,
//! `receive_posted` must not lock a connection. In `software` it does: there, the callers of `post`
//! hold no lock of a connection.
//!
//! A provider checks `is_of` before a queue pair uses a shared queue.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::domain::Domain;
use crate::provider::{Cause, Receive, Result, Sge, VerbError};

/// A posted receive.
#[derive(Clone, Debug)]
pub(in crate::provider) struct PostedReceive {
    pub(in crate::provider) id: u64,
    pub(in crate::provider) slices: SgList,
}

/// The entries of a receive. One or two, the usual numbers, need no allocation.
#[derive(Clone, Debug)]
pub(in crate::provider) enum SgList {
    One(Sge),
    Two([Sge; 2]),
    More(Box<[Sge]>),
}

impl SgList {
    pub(in crate::provider) fn of(slices: &[Sge]) -> Self {
        match *slices {
            [one] => Self::One(one),
            [one, two] => Self::Two([one, two]),
            _ => Self::More(slices.into()),
        }
    }

    pub(in crate::provider) fn all(&self) -> &[Sge] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Two(two) => two,
            Self::More(more) => more,
        }
    }
}

/// A connection that may wait for a receive of a shared queue.
pub(in crate::provider) trait ReceiveWaiter {
    /// Continues, because receives were posted. Another connection may have taken them since.
    ///
    /// Returns true if the connection takes its receive after this call: then one receive less is
    /// left for the connections that are notified next. Returns false if the connection has already
    /// tried to take it.
    fn receive_posted(&self) -> bool;
}

/// The receive queue of a queue pair: its own or a shared one.
#[derive(Debug)]
pub(in crate::provider) enum ReceiveQueue<W> {
    Own {
        queue: VecDeque<PostedReceive>,
        most: usize,
    },
    Shared(SharedQueue<W>),
}

/// A shared receive queue. Its users are connections `W`. Clones refer to the same queue.
#[derive(Debug)]
pub(in crate::provider) struct SharedQueue<W> {
    queue: Arc<Mutex<SharedReceiveState<W>>>,
    domain: Arc<Domain>,
    max_receives: usize,
    /// The maximum entries of a receive.
    max_sge: usize,
}

impl<W> Clone for SharedQueue<W> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            domain: self.domain.clone(),
            max_receives: self.max_receives,
            max_sge: self.max_sge,
        }
    }
}

#[derive(Debug)]
struct SharedReceiveState<W> {
    posted: VecDeque<PostedReceive>,
    /// The connections that wait for a receive, in order. Some have given up or ended since.
    waiting: VecDeque<Weak<W>>,
    /// The memory addresses of the connections that have not given up, so that each waits once. An
    /// address is not reused while its `Weak` is in `waiting`.
    registered: HashSet<usize>,
    /// Whether the queue has ended, by the first call of `end_once`; `None` before it.
    ended: Option<bool>,
}

impl<W> SharedReceiveState<W> {
    /// Adds a connection at the end, unless it waits already.
    fn add_waiter(&mut self, waiter: &Weak<W>) {
        if !self.registered.insert(waiter.as_ptr().addr()) {
            return;
        }
        // Connections that have given up or ended are removed before the list grows.
        if self.waiting.len() == self.waiting.capacity() {
            let registered = &mut self.registered;
            self.waiting.retain(|waiter| {
                let address = waiter.as_ptr().addr();
                if waiter.strong_count() == 0 {
                    registered.remove(&address);
                }
                registered.contains(&address)
            });
            // As many connections are added before the next search.
            self.waiting.reserve(self.waiting.len() + 1);
        }
        self.waiting.push_back(waiter.clone());
    }
}

impl<W: ReceiveWaiter> SharedQueue<W> {
    /// Creates a queue for at most `max_receives`, each with at most `max_sge` entries.
    pub(in crate::provider) fn new(domain: Arc<Domain>, max_receives: u32, max_sge: usize) -> Self {
        let max_receives = max_receives as usize;
        let state = SharedReceiveState {
            posted: VecDeque::with_capacity(max_receives),
            waiting: VecDeque::new(),
            registered: HashSet::new(),
            ended: None,
        };
        Self {
            queue: Arc::new(Mutex::new(state)),
            domain,
            max_receives,
            max_sge,
        }
    }

    /// Returns true if the queue was created in this domain.
    pub(in crate::provider) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    fn lock(&self) -> MutexGuard<'_, SharedReceiveState<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts all receives, or none. `sges` has the entries of all of them.
    pub(in crate::provider) fn post(&self, receives: &[Receive], sges: &[Sge]) -> Result<()> {
        enqueue(
            &mut self.lock().posted,
            (self.max_receives, self.max_sge),
            receives,
            sges,
        )?;
        self.notify();
        Ok(())
    }

    /// Notifies as many connections as there are receives.
    fn notify(&self) {
        // They are counted once: a connection that is notified may take its receive on another
        // thread, during this loop, and that one would count twice.
        let mut receives = self.lock().posted.len();
        while receives > 0
            && let Some(waiter) = self.next_waiting()
        {
            receives -= usize::from(waiter.receive_posted());
        }
    }

    /// Ends the wait of a connection that takes no more receives. If it was notified already, its
    /// receive is left: another connection is notified.
    #[cfg(feature = "iwarp")]
    pub(in crate::provider) fn give_up(&self, waiter: &Weak<W>) {
        self.lock().registered.remove(&waiter.as_ptr().addr());
        self.notify();
    }

    /// Ends the queue, and drops its receives. Returns false if the device refuses. The first
    /// answer stands: later calls return it.
    pub(in crate::provider) fn end_once(&self) -> bool {
        let SharedReceiveState { posted, ended, .. } = &mut *self.lock();
        *ended.get_or_insert_with(|| self.domain.end_unless_refused(|| posted.clear()))
    }

    /// Removes and returns the next connection that waits, while there are receives.
    fn next_waiting(&self) -> Option<Arc<W>> {
        let mut state = self.lock();
        while !state.posted.is_empty() {
            let waiter = state.waiting.pop_front()?;
            let still_waits = state.registered.remove(&waiter.as_ptr().addr());
            // The `Arc` goes to the caller, without the lock: dropping the last one of a connection
            // may need this lock.
            if still_waits && let Some(waiter) = waiter.upgrade() {
                return Some(waiter);
            }
        }
        None
    }

    /// Takes a receive. If there is none, and a `waiter` is given, it waits for the next one.
    pub(in crate::provider) fn take(&self, waiter: Option<&Weak<W>>) -> Option<PostedReceive> {
        let mut state = self.lock();
        // The memory of the receive that was posted last may still be in the caches.
        let posted = state.posted.pop_back();
        if let (None, Some(waiter)) = (&posted, waiter) {
            state.add_waiter(waiter);
        }
        posted
    }
}

/// Returns the entries of a request: `count` ones from the position `from` of the table that was
/// posted with it.
pub(in crate::provider) fn sges_of<'a>(
    (from, count): (u32, u32),
    table: &'a [Sge],
    verb: &'static str,
) -> Result<&'a [Sge]> {
    let (from, count) = (from as usize, count as usize);
    let range = from.checked_add(count).map(|end| from..end);
    match range.and_then(|range| table.get(range)) {
        Some(sges) => Ok(sges),
        None => Err(VerbError {
            verb,
            cause: Cause::Limit,
        }),
    }
}

/// Adds all receives to a queue, or none. The queue has room for `max_receives`, each with at most
/// `max_sge` entries.
pub(in crate::provider) fn enqueue(
    queue: &mut VecDeque<PostedReceive>,
    (max_receives, max_sge): (usize, usize),
    receives: &[Receive],
    sges: &[Sge],
) -> Result<()> {
    let verb = "post_receives";
    if queue.len() + receives.len() > max_receives {
        return Err(VerbError {
            verb,
            cause: Cause::Full,
        });
    }
    for receive in receives {
        if sges_of(receive.slices, sges, verb)?.len() > max_sge {
            return Err(VerbError {
                verb,
                cause: Cause::Limit,
            });
        }
    }
    for receive in receives {
        queue.push_back(PostedReceive {
            id: receive.id,
            slices: SgList::of(sges_of(receive.slices, sges, verb)?),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[derive(Debug, Default)]
    struct Waiter(AtomicU32);

    impl ReceiveWaiter for Waiter {
        fn receive_posted(&self) -> bool {
            self.0.fetch_add(1, Relaxed);
            true
        }
    }

    /// However often a connection tries to take a receive, it waits once.
    #[test]
    fn a_waiter_is_registered_once() {
        let queue = SharedQueue::new(Domain::new(1), 4, 1);
        let waiter = Arc::new(Waiter::default());
        let receive = [Receive {
            id: 7,
            slices: (0, 0),
        }];
        for notified in 1..=2 {
            for _ in 0..100 {
                assert!(queue.take(Some(&Arc::downgrade(&waiter))).is_none());
            }
            assert_eq!(queue.lock().waiting.len(), 1);
            queue.post(&receive, &[]).unwrap();
            assert_eq!(waiter.0.load(Relaxed), notified);
            assert_eq!(queue.take(None).map(|posted| posted.id), Some(7));
        }
    }

    /// Peers can connect, wait and leave while no receive is posted.
    #[test]
    fn connections_that_have_ended_take_no_memory() {
        let queue = SharedQueue::new(Domain::new(1), 4, 1);
        let waiters: [_; 3] = std::array::from_fn(|_| Arc::new(Waiter::default()));
        for waiter in &waiters {
            assert!(queue.take(Some(&Arc::downgrade(waiter))).is_none());
        }
        for _ in 0..10_000 {
            let ended = Arc::new(Waiter::default());
            assert!(queue.take(Some(&Arc::downgrade(&ended))).is_none());
        }
        let lengths = |queue: &SharedQueue<Waiter>| {
            let state = queue.lock();
            (state.waiting.len(), state.registered.len())
        };
        let (waiting, registered) = lengths(&queue);
        assert!(waiting < 64 && registered < 64, "{waiting}, {registered}");
        let receives = [1, 2, 3].map(|id| Receive { id, slices: (0, 0) });
        queue.post(&receives, &[]).unwrap();
        assert_eq!(waiters.map(|waiter| waiter.0.load(Relaxed)), [1, 1, 1]);
    }

    /// The receive of a connection that is notified and then ends goes to the next one.
    #[cfg(feature = "iwarp")]
    #[test]
    fn a_receive_that_is_given_up_notifies_another_waiter() {
        let queue = SharedQueue::new(Domain::new(1), 4, 1);
        let waiters: [_; 3] = std::array::from_fn(|_| Arc::new(Waiter::default()));
        let [first, second, third] = waiters.each_ref().map(Arc::downgrade);
        for waiter in [&first, &second, &third] {
            assert!(queue.take(Some(waiter)).is_none());
        }
        let notified = || waiters.each_ref().map(|waiter| waiter.0.load(Relaxed));
        // The second one leaves before there is a receive, and the first one after it.
        queue.give_up(&second);
        assert_eq!(notified(), [0, 0, 0]);
        let receive = [Receive {
            id: 7,
            slices: (0, 0),
        }];
        queue.post(&receive, &[]).unwrap();
        assert_eq!(notified(), [1, 0, 0]);
        queue.give_up(&first);
        assert_eq!(notified(), [1, 0, 1]);
        assert!(queue.take(None).is_some());
    }

    #[test]
    fn a_refusal_to_end_stands() {
        let domain = Domain::new(1);
        let queue = SharedQueue::<Waiter>::new(domain.clone(), 4, 1);
        domain.refuse_ends(true);
        assert!(!queue.end_once());
        domain.refuse_ends(false);
        assert!(!queue.end_once());
    }

    #[test]
    fn entries_outside_of_the_table_are_rejected() {
        let queue = SharedQueue::<Waiter>::new(Domain::new(1), 4, 1);
        for slices in [(0, 1), (1, 0), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
            let receives = [(0, 0), slices].map(|slices| Receive { id: 7, slices });
            assert!(queue.post(&receives, &[]).is_err());
            assert!(queue.take(None).is_none());
        }
    }

    /// A receive for one of many connections does not make all of them try.
    #[test]
    fn a_receive_notifies_one_waiter() {
        let queue = SharedQueue::new(Domain::new(1), 4, 1);
        let waiters: [_; 3] = std::array::from_fn(|_| Arc::new(Waiter::default()));
        for waiter in &waiters {
            assert!(queue.take(Some(&Arc::downgrade(waiter))).is_none());
        }
        let notified = || waiters.each_ref().map(|waiter| waiter.0.load(Relaxed));
        let receive = [Receive {
            id: 7,
            slices: (0, 0),
        }];
        queue.post(&receive, &[]).unwrap();
        assert_eq!(notified(), [1, 0, 0]);
        // The first has not taken it yet.
        queue.post(&receive, &[]).unwrap();
        assert_eq!(notified().iter().sum::<u32>(), 3);
    }

    /// A connection whose thread takes the receive before the post goes on to the next one.
    struct Quick {
        queue: Arc<SharedQueue<Self>>,
        taken: AtomicU32,
    }

    impl ReceiveWaiter for Quick {
        fn receive_posted(&self) -> bool {
            self.taken
                .fetch_add(self.queue.take(None).is_some().into(), Relaxed);
            true
        }
    }

    #[test]
    fn each_receive_notifies_a_waiter_although_others_take_theirs_meanwhile() {
        let queue = Arc::new(SharedQueue::new(Domain::new(1), 4, 1));
        let waiters: [_; 4] = std::array::from_fn(|_| {
            Arc::new(Quick {
                queue: queue.clone(),
                taken: AtomicU32::new(0),
            })
        });
        for waiter in &waiters {
            assert!(queue.take(Some(&Arc::downgrade(waiter))).is_none());
        }
        let receives = [7, 8, 9].map(|id| Receive { id, slices: (0, 0) });
        queue.post(&receives, &[]).unwrap();
        let taken = waiters.each_ref().map(|waiter| waiter.taken.load(Relaxed));
        assert_eq!(taken, [1, 1, 1, 0]);
    }
}
