//! The outstanding requests of a completion queue: those of its queue pairs, by their device
//! numbers, and the receives of shared queues.
//!
//! `Queue::state` of `completion_queue` locks `Outstanding`, and `device_state` looks up each
//! completion in it. The device reuses the number of a queue pair after its destruction: its rings
//! are removed before `Queue::lifecycle` is unlocked. A shared queue has its own lock, since
//! several completion queues take its receives in any order; an id is stored before its receive is
//! posted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::number_map::NumberMap;
use super::ring::Ring;

/// A queue pair as the target of completions and events. Only `end` takes the lock of the queue
/// pair.
pub(super) trait CompletionTarget: Send + Sync {
    fn completes_on(&self, queue: u32) -> bool;
    /// Ends the queue pair, or waits for the thread that ends it.
    fn end(&self);
    /// Handles a message that arrived before the connection was established.
    fn message_before_established(&self);
    /// Handles the end of the last receive that the queue pair has taken from a shared queue.
    fn last_receive_done(&self);
}

/// A queue pair with its outstanding requests.
pub(super) struct PairRings {
    pub(super) target: Arc<dyn CompletionTarget>,
    /// The number that this provider assigned, not the device.
    pub(super) number: u32,
    pub(super) sends: Ring,
    /// `None` with a shared queue.
    pub(super) receives: Option<Ring>,
    /// True after a request has failed.
    pub(super) has_failed: bool,
}

/// The outstanding requests of a completion queue.
#[derive(Default)]
pub(super) struct Outstanding {
    /// The queue pairs by their device numbers.
    pub(super) pairs: NumberMap<PairRings>,
    /// The shared receive queues by the numbers that this provider assigned.
    pub(super) shared: NumberMap<Arc<ReceiveIds>>,
}

/// The ids of the receives of a shared queue.
pub(super) struct ReceiveIds(Mutex<Ids>);

struct Ids {
    ids: Vec<u64>,
    free: Vec<u32>,
}

impl ReceiveIds {
    pub(super) fn new(most: u32) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Ids {
            ids: vec![0; most as usize],
            free: (0..most).rev().collect(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores ids, and appends their indices to `places`. Returns false if there is no room for all
    /// of them.
    pub(super) fn insert(
        &self,
        ids: impl ExactSizeIterator<Item = u64>,
        places: &mut Vec<u32>,
    ) -> bool {
        let mut state = self.lock();
        let Some(from) = state.free.len().checked_sub(ids.len()) else {
            return false;
        };
        let begin = places.len();
        places.extend(state.free.drain(from..).rev());
        for (at, id) in places.iter().skip(begin).zip(ids) {
            if let Some(place) = state.ids.get_mut(*at as usize) {
                *place = id;
            }
        }
        true
    }

    /// Removes the ids that were inserted last, in the same order.
    pub(super) fn take_back(&self, places: &[u32]) {
        let mut state = self.lock();
        if !state.ids.is_empty() {
            state.free.extend(places.iter().rev());
        }
    }

    /// Removes an id. Returns `None` if there is none, or after [`Self::close`].
    pub(super) fn take(&self, at: u32) -> Option<u64> {
        let mut state = self.lock();
        let id = state.ids.get(at as usize).copied()?;
        state.free.push(at);
        Some(id)
    }

    /// Removes all ids of a destroyed queue.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        (state.ids, state.free) = (Vec::new(), Vec::new());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_places() {
        let ids = ReceiveIds::new(3);
        let mut places = Vec::new();
        assert!(ids.insert([10, 11].into_iter(), &mut places));
        assert!(
            !ids.insert([12, 13].into_iter(), &mut places),
            "room for one"
        );
        assert_eq!(
            (ids.take(places[0]), ids.take(places[1])),
            (Some(10), Some(11))
        );
        places.clear();
        assert!(ids.insert([12, 13, 14].into_iter(), &mut places));
        ids.take_back(&places);
        places.clear();
        assert!(ids.insert([15, 16, 17].into_iter(), &mut places));
        assert_eq!(ids.take(3), None);
        ids.close();
        assert!(ids.is_closed());
        assert_eq!(ids.take(places[0]), None, "the queue is gone");
    }
}
