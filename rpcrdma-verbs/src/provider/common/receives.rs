//! Receive queues of `software` and `iwarp`, of one queue pair or shared.
//!
//! A queue pair takes its own receives in order; a shared queue has no order. `SharedQueue::take`
//! is called under the lock of a connection, which comes before the lock of the queue. So
//! `SharedQueue::post` calls waiters without the lock of the queue, and its callers hold no lock of
//! a connection. A provider checks `is_of` before a queue pair uses a shared queue.

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

/// The entries of a receive: one, two, or, rarely, more.
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

/// A connection that waits for a receive of a shared queue. Another waiter may take the receive
/// first, so that `receive_posted` may find none.
pub(in crate::provider) trait ReceiveWaiter {
    /// Continues: there is a receive. Returns true if the connection takes it later.
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

/// A shared receive queue. `W` waits for receives.
#[derive(Debug)]
pub(in crate::provider) struct SharedQueue<W> {
    queue: Arc<Mutex<SharedReceiveState<W>>>,
    domain: Arc<Domain>,
    most: usize,
    slices: usize,
}

impl<W> Clone for SharedQueue<W> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            domain: self.domain.clone(),
            most: self.most,
            slices: self.slices,
        }
    }
}

#[derive(Debug)]
struct SharedReceiveState<W> {
    posted: VecDeque<PostedReceive>,
    /// Connections with a Send that waits for a receive.
    waiting: VecDeque<Weak<W>>,
    /// The addresses of those that still wait, so that each waits once. The `Weak` keeps its address
    /// in use.
    addresses: HashSet<usize>,
    /// The device's answer to the request to end the queue; `None` before the request.
    ended: Option<bool>,
}

impl<W: ReceiveWaiter> SharedQueue<W> {
    pub(in crate::provider) fn new(domain: Arc<Domain>, most: u32, slices: usize) -> Self {
        let most = most as usize;
        let state = SharedReceiveState {
            posted: VecDeque::with_capacity(most),
            waiting: VecDeque::new(),
            addresses: HashSet::new(),
            ended: None,
        };
        Self {
            queue: Arc::new(Mutex::new(state)),
            domain,
            most,
            slices,
        }
    }

    /// Returns true if the queue was created in this domain.
    pub(in crate::provider) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    fn lock(&self) -> MutexGuard<'_, SharedReceiveState<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::provider) fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        enqueue(
            &mut self.lock().posted,
            (self.most, self.slices),
            receives,
            slices,
        )?;
        self.notify();
        Ok(())
    }

    /// Lets as many connections continue as there are receives.
    fn notify(&self) {
        // Counted before the first connection continues: another thread may take the receive of a
        // connection before the next one continues.
        let mut receives = self.lock().posted.len();
        while receives > 0
            && let Some(waiter) = self.next_waiting()
        {
            receives -= usize::from(waiter.receive_posted());
        }
    }

    /// Ends the wait of a connection that takes no more receives. Another one gets the receive that
    /// it was to take.
    #[cfg(feature = "iwarp")]
    pub(in crate::provider) fn give_up(&self, waits: &Weak<W>) {
        self.lock().addresses.remove(&waits.as_ptr().addr());
        self.notify();
    }

    pub(in crate::provider) fn end_once(&self) -> bool {
        let SharedReceiveState { posted, ended, .. } = &mut *self.lock();
        *ended.get_or_insert_with(|| self.domain.end_unless_refused(|| posted.clear()))
    }

    /// Returns a connection with a Send that can continue, if there is a receive. The lock is
    /// released, because the locks of connections come first.
    fn next_waiting(&self) -> Option<Arc<W>> {
        let mut state = self.lock();
        while !state.posted.is_empty() {
            let waiter = state.waiting.pop_front()?;
            let still_waits = state.addresses.remove(&waiter.as_ptr().addr());
            // No reference to another connection is dropped here, which could need the lock.
            if still_waits && let Some(waiter) = waiter.upgrade() {
                return Some(waiter);
            }
        }
        None
    }

    /// Takes a receive. If there is none, a later post notifies `waits` once.
    pub(in crate::provider) fn take(&self, waits: Option<&Weak<W>>) -> Option<PostedReceive> {
        let mut state = self.lock();
        // The receive that was posted last may still be in the caches. A shared queue has no order.
        let posted = state.posted.pop_back();
        if let (None, Some(waiter)) = (&posted, waits)
            && state.addresses.insert(waiter.as_ptr().addr())
        {
            state.waiting.push_back(waiter.clone());
        }
        posted
    }
}

/// Returns the entries of a request in the table that was posted with it.
pub(in crate::provider) fn entries<'a>(
    (from, count): (u32, u32),
    slices: &'a [Sge],
    verb: &'static str,
) -> Result<&'a [Sge]> {
    let from = from as usize;
    match slices.get(from..from + count as usize) {
        Some(slices) => Ok(slices),
        None => Err(VerbError {
            verb,
            cause: Cause::Limit,
        }),
    }
}

/// Adds all receives to a queue, or none. The queue has room for `most` receives of `each` entries.
pub(in crate::provider) fn enqueue(
    queue: &mut VecDeque<PostedReceive>,
    (most, each): (usize, usize),
    receives: &[Receive],
    slices: &[Sge],
) -> Result<()> {
    let verb = "post_receives";
    if queue.len() + receives.len() > most {
        return Err(VerbError {
            verb,
            cause: Cause::Full,
        });
    }
    for receive in receives {
        if entries(receive.slices, slices, verb)?.len() > each {
            return Err(VerbError {
                verb,
                cause: Cause::Limit,
            });
        }
    }
    for receive in receives {
        queue.push_back(PostedReceive {
            id: receive.id,
            slices: SgList::of(entries(receive.slices, slices, verb)?),
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
