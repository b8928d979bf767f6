//! The times at which queue pairs of a completion queue must continue without an event of their
//! sockets. A queue pair has at most one time, the earliest that was set. `completion` arms its
//! timer when `set` returns true, and after each expiry: an expired time is gone, and the queue
//! pair sets the next one itself.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::number_map::NumberMap;

/// The next time of each queue pair.
#[derive(Default, Debug)]
pub(super) struct Timers {
    by_time: BTreeSet<(Instant, u32)>,
    by_queue_pair: NumberMap<u32, Instant>,
}

impl Timers {
    /// Sets the time of a queue pair, unless it has an earlier one. Returns true if it is now the
    /// first of all times.
    pub(super) fn set(&mut self, queue_pair: u32, at: Instant) -> bool {
        if self
            .by_queue_pair
            .get(&queue_pair)
            .is_some_and(|known| *known <= at)
        {
            return false;
        }
        self.remove(queue_pair);
        self.by_queue_pair.insert(queue_pair, at);
        self.by_time.insert((at, queue_pair));
        self.by_time.first() == Some(&(at, queue_pair))
    }

    pub(super) fn remove(&mut self, queue_pair: u32) {
        if let Some(at) = self.by_queue_pair.remove(&queue_pair) {
            self.by_time.remove(&(at, queue_pair));
        }
    }

    /// Removes a queue pair whose time has come, and returns it.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<u32> {
        let (_, queue_pair) = *self.by_time.first().filter(|(at, _)| *at <= now)?;
        self.remove(queue_pair);
        Some(queue_pair)
    }

    /// Returns the first of all times.
    pub(super) fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_queue_pair_has_its_first_time() {
        let (mut timers, begin) = (Timers::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(timers.set(1, at(10)));
        assert!(!timers.set(2, at(20)) && !timers.set(2, at(30)));
        assert!(!timers.set(3, at(15)));
        assert!(timers.set(2, at(5)));
        timers.remove(3);
        assert_eq!(timers.first(), Some(at(5)));
        assert_eq!(timers.take_expired(at(4)), None);
        let expired: Vec<_> = std::iter::from_fn(|| timers.take_expired(at(12))).collect();
        assert_eq!(expired, [2, 1]);
        assert_eq!(timers.first(), None);
        // An expired time counts no more.
        assert!(timers.set(2, at(40)));
        assert!(timers.by_queue_pair.len() == 1 && timers.by_time.len() == 1);
    }
}
