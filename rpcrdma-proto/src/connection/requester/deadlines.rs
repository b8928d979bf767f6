//! The deadlines of calls.
//!
//! An entry names a time at which `Requester::expire` examines a call. A call may have two entries:
//! its deadline and, after the loss of its connection, the end of the time for its retransmission.
//! `expire` decides from the call itself whether the call fails. Each such time of an outstanding
//! call needs an entry: `Session::poll_timeout` returns the earliest.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::NO_DEADLINE;

/// A heap of deadlines. The entry of a call that has ended stays until it reaches the top or the
/// heap is full, so the end of a call takes no time here.
#[derive(Default, Debug)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// The number of entries that were removed or examined.
    #[cfg(test)]
    pub(super) steps: usize,
}

impl Deadlines {
    /// Returns a lower bound of the deadlines of all outstanding calls.
    #[inline]
    pub(super) fn earliest(&self) -> u64 {
        self.heap
            .peek()
            .map_or(NO_DEADLINE, |Reverse((deadline, _))| *deadline)
    }

    /// Adds the deadline of a call; `open` calls are open, with this one. `is_outstanding` returns
    /// whether the call of another entry has not ended.
    ///
    /// There is room for twice as many entries as calls were ever open at once. So at least half of
    /// a full heap belongs to calls that have ended, and an insertion takes a constant number of
    /// steps on average, besides those of the heap itself.
    #[inline]
    pub(super) fn push(
        &mut self,
        xid: u32,
        deadline: u64,
        open: usize,
        is_outstanding: impl Fn(u32) -> bool,
    ) {
        if self.heap.len() == self.heap.capacity() || self.heap.capacity() < 2 * open {
            self.make_room(open, is_outstanding);
        }
        self.heap.push(Reverse((deadline, xid)));
    }

    #[cold]
    fn make_room(&mut self, open: usize, is_outstanding: impl Fn(u32) -> bool) {
        self.count(self.heap.len());
        self.heap.retain(|Reverse((_, xid))| is_outstanding(*xid));
        if self.heap.capacity() < 2 * open {
            self.heap.reserve(4 * open - self.heap.len());
        }
    }

    /// Removes an entry whose deadline has passed, and returns its call, which may have ended.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<u32> {
        if now < self.earliest() {
            return None;
        }
        self.count(1);
        self.heap.pop().map(|Reverse((_, xid))| xid)
    }

    /// Removes entries from the top until one belongs to a call that has not ended.
    pub(super) fn skip_ended(&mut self, is_outstanding: impl Fn(u32) -> bool) {
        while let Some(Reverse((_, xid))) = self.heap.peek()
            && !is_outstanding(*xid)
        {
            self.heap.pop();
            self.count(1);
        }
    }

    /// Returns the number of entries that there is room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.heap.capacity()
    }

    #[cfg(test)]
    fn count(&mut self, steps: usize) {
        self.steps += steps;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests count")]
    const fn count(&mut self, _steps: usize) {}
}
