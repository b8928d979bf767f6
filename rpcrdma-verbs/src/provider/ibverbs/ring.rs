//! The outstanding requests of a queue, in order.
//!
//! `outstanding` has one ring for the sends of each queue pair, and one for its receives unless
//! they are shared: those complete in any order (`ReceiveIds`). A ring never grows: callers check
//! `room` before `push`. A queue completes its requests in order, so that one completion ends all
//! earlier requests, too (`done`): unsignaled requests rely on this.

/// Outstanding requests, with a fixed capacity. Their numbers are consecutive.
#[derive(Debug)]
pub(super) struct Ring {
    ids: Box<[u64]>,
    /// The numbers of the oldest outstanding request and of the next request.
    first: u32,
    next: u32,
    most: u32,
}

impl Ring {
    pub(super) fn new(most: u32) -> Self {
        let places = most.max(1).next_power_of_two() as usize;
        Self {
            ids: vec![0; places].into(),
            first: 0,
            next: 0,
            most,
        }
    }

    /// Returns the number of free entries.
    pub(super) fn room(&self) -> usize {
        (self.most - self.next.wrapping_sub(self.first)) as usize
    }

    /// Returns the number of the next request.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Returns the number of the oldest outstanding request, or of the next one if there is none.
    pub(super) fn oldest(&self) -> u32 {
        self.first
    }

    fn place(&mut self, number: u32) -> &mut u64 {
        let at = number as usize & (self.ids.len() - 1);
        &mut self.ids[at]
    }

    /// Adds a request, for which there must be room, and returns its number.
    pub(super) fn push(&mut self, id: u64) -> u32 {
        debug_assert!(self.room() > 0, "the caller checks for room");
        let number = self.next;
        *self.place(number) = id;
        self.next = number.wrapping_add(1);
        number
    }

    /// Returns true if the request is outstanding.
    fn has(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.next.wrapping_sub(self.first)
    }

    /// Removes the requests from this number on.
    pub(super) fn truncate(&mut self, number: u32) {
        if self.has(number) {
            self.next = number;
        }
    }

    /// Removes this request and all before it. Returns its id, or `None` if it is not outstanding.
    pub(super) fn done(&mut self, number: u32) -> Option<u64> {
        if !self.has(number) {
            return None;
        }
        self.first = number.wrapping_add(1);
        Some(*self.place(number))
    }

    /// Removes the oldest request, and returns its number and id.
    pub(super) fn pop(&mut self) -> Option<(u32, u64)> {
        let number = self.first;
        self.done(number).map(|id| (number, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_completion_completes_earlier_requests() {
        let mut ring = Ring::new(3);
        let numbers = [10, 11, 12].map(|id| ring.push(id));
        assert_eq!((ring.room(), ring.has(numbers[1])), (0, true));
        assert_eq!(
            (ring.done(numbers[1]), ring.has(numbers[1])),
            (Some(11), false)
        );
        assert_eq!(
            (ring.room(), ring.done(numbers[1]), ring.done(numbers[0])),
            (2, None, None)
        );
        assert_eq!(ring.pop(), Some((numbers[2], 12)));
        assert_eq!((ring.pop(), ring.room()), (None, 3));
    }

    #[test]
    fn rejected_requests_are_removed() {
        let mut ring = Ring::new(4);
        ring.push(1);
        let from = ring.push(2);
        ring.push(3);
        ring.truncate(from);
        assert_eq!(
            (ring.room(), ring.pop(), ring.pop()),
            (3, Some((0, 1)), None)
        );
        ring.truncate(from);
        assert_eq!(ring.room(), 4);
    }

    #[test]
    fn numbers_wrap() {
        let mut ring = Ring::new(2);
        (ring.first, ring.next) = (u32::MAX, u32::MAX);
        let numbers = [5, 6].map(|id| ring.push(id));
        assert_eq!(numbers, [u32::MAX, 0]);
        assert_eq!((ring.room(), ring.done(numbers[1])), (0, Some(6)));
    }
}
