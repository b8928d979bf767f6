//! The queues of calls.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

/// A queue of the XIDs of calls. A call may end while it is queued.
///
/// The entry of an ended call stays until it reaches the front, or until more than half of all
/// entries belong to ended calls. So the end of a call takes a constant number of steps on average.
#[derive(Default, Debug)]
pub(super) struct CallQueue {
    /// Calls that precede the others, by rank.
    ranked: BinaryHeap<Reverse<(Rank, u32)>>,
    /// The other calls, first in, first out.
    fifo: VecDeque<u32>,
    /// The number of entries of ended calls. Neither front is one of them.
    gone: usize,
    /// The number of entries that were examined to remove others.
    #[cfg(test)]
    pub(super) steps: usize,
}

/// The lowest rank is first: property requests precede RPC calls, which are ordered by age.
pub(super) type Rank = (bool, u64);

/// The number of entries of ended calls that may stay in any case.
const SCAN_LIMIT: usize = 16;

impl CallQueue {
    /// Returns the number of entries.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.fifo.len() + self.ranked.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Returns the next call.
    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        if self.ranked.is_empty() {
            self.fifo.front().copied()
        } else {
            self.first_ranked()
        }
    }

    #[cold]
    fn first_ranked(&self) -> Option<u32> {
        self.ranked.peek().map(|Reverse((_, xid))| *xid)
    }

    #[inline]
    pub(super) fn push(&mut self, xid: u32) {
        self.fifo.push_back(xid);
    }

    /// Queues a call before all that were pushed without a rank, and among the others by its rank.
    #[cold]
    pub(super) fn push_ranked(&mut self, rank: Rank, xid: u32) {
        self.ranked.push(Reverse((rank, xid)));
    }

    /// Removes the next call. `is_queued` returns whether the call of an entry has not ended.
    #[inline]
    pub(super) fn pop(&mut self, is_queued: impl Fn(u32) -> bool) {
        if self.ranked.is_empty() {
            self.fifo.pop_front();
        } else {
            self.ranked.pop();
        }
        if self.gone > 0 {
            self.skip(is_queued);
        }
    }

    /// Records that a queued call has ended, for which `is_queued` returns false already.
    #[cold]
    pub(super) fn end(&mut self, is_queued: impl Fn(u32) -> bool) {
        self.gone += 1;
        self.skip(&is_queued);
        let all = self.entries();
        if self.gone > SCAN_LIMIT && self.gone > all / 2 {
            self.count(all);
            self.fifo.retain(|xid| is_queued(*xid));
            self.ranked.retain(|Reverse((_, xid))| is_queued(*xid));
            self.gone = 0;
        }
    }

    /// Removes the entries of ended calls from both fronts.
    #[cold]
    fn skip(&mut self, is_queued: impl Fn(u32) -> bool) {
        while self.gone > 0 && self.first_ranked().is_some_and(|xid| !is_queued(xid)) {
            self.ranked.pop();
            self.gone -= 1;
            self.count(1);
        }
        while self.gone > 0 && self.fifo.front().is_some_and(|xid| !is_queued(*xid)) {
            self.fifo.pop_front();
            self.gone -= 1;
            self.count(1);
        }
    }

    #[cfg(test)]
    fn count(&mut self, steps: usize) {
        self.steps += steps;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests count")]
    const fn count(&mut self, _steps: usize) {}
}
