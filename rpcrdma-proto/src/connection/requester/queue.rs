//! A queue of XIDs whose calls may end while queued.
//!
//! An XID must not be queued again while its dead entry is in the same queue, because that entry
//! would be live again. `Requester` ensures this. A waiting call that ends is not queued again. A
//! ready call is queued again only if it was at the front, or if its connection is lost: then all
//! ready calls end together, which empties their queue. `Calls` gives an XID to another call only
//! after all other XIDs were used.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

/// A queue of the XIDs of calls.
///
/// The entry of an ended call is dead. It stays until it reaches the front, or until there are more
/// than `SCAN_LIMIT` dead entries and they are more than half of all: then a scan removes them all.
/// So the end of a call takes a constant number of steps on average.
#[derive(Default, Debug)]
pub(super) struct CallQueue {
    /// Calls that precede the others, by rank.
    ranked: BinaryHeap<Reverse<(Rank, u32)>>,
    /// The other calls, first in, first out.
    fifo: VecDeque<u32>,
    /// The number of dead entries. Neither front is one of them.
    dead: usize,
    /// The number of entries that were examined to remove others.
    #[cfg(test)]
    pub(super) steps: usize,
}

/// The order of calls: the lowest rank is first. Property requests precede RPC calls, and the older
/// of one kind precedes the younger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank {
    pub(super) is_rpc: bool,
    /// The number of calls that began earlier.
    pub(super) sequence: u64,
}

/// Up to this many dead entries, no scan is made.
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

    /// Removes the next call. `is_live` returns whether an entry is not dead.
    #[inline]
    pub(super) fn pop(&mut self, is_live: impl Fn(u32) -> bool) {
        if self.ranked.is_empty() {
            self.fifo.pop_front();
        } else {
            self.ranked.pop();
        }
        if self.dead > 0 {
            self.skip(is_live);
        }
    }

    /// Records that a queued call has ended, for which `is_live` returns false already.
    #[cold]
    pub(super) fn note_ended(&mut self, is_live: impl Fn(u32) -> bool) {
        self.dead += 1;
        self.skip(&is_live);
        let all = self.entries();
        if self.dead > SCAN_LIMIT && self.dead > all / 2 {
            self.count(all);
            self.fifo.retain(|xid| is_live(*xid));
            self.ranked.retain(|Reverse((_, xid))| is_live(*xid));
            self.dead = 0;
        }
    }

    /// Removes the dead entries from both fronts.
    #[cold]
    fn skip(&mut self, is_live: impl Fn(u32) -> bool) {
        while self.dead > 0 && self.first_ranked().is_some_and(|xid| !is_live(xid)) {
            self.ranked.pop();
            self.dead -= 1;
            self.count(1);
        }
        while self.dead > 0 && self.fifo.front().is_some_and(|xid| !is_live(*xid)) {
            self.fifo.pop_front();
            self.dead -= 1;
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
