//! A queue that is written in place.

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;

/// A queue, first in, first out.
///
/// To a `VecDeque` itself a value is moved, from where it was made: as its memory might not grow, and the value be dropped then.
/// A move right after it was made waits for all of its parts, which takes longer than to make it. Here nothing is dropped by a
/// push that fails: so the compiler makes it where it belongs.
pub(crate) struct Fifo<T>(VecDeque<ManuallyDrop<T>>);

impl<T> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        self.0.push_back(ManuallyDrop::new(value));
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front().map(ManuallyDrop::into_inner)
    }

    /// What is taken next.
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.front().map(|value| &**value)
    }

    /// What came last.
    pub(crate) fn last(&self) -> Option<&T> {
        self.0.back().map(|value| &**value)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes what came last.
    pub(crate) fn pop_last(&mut self) -> Option<T> {
        self.0.pop_back().map(ManuallyDrop::into_inner)
    }
}

impl<T> Drop for Fifo<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T: fmt::Debug> fmt::Debug for Fifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|value| &**value)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::Fifo;

    #[test]
    fn what_is_left_is_dropped() {
        let value = Rc::new(());
        let mut fifo = Fifo::new();
        (0..5).for_each(|number| fifo.push((number, value.clone())));
        assert_eq!((fifo.pop().map(|(number, _)| number), Rc::strong_count(&value)), (Some(0), 5));
        assert_eq!(fifo.pop_last().map(|(number, _)| number), Some(4));
        assert_eq!((fifo.len(), Rc::strong_count(&value)), (3, 4));
        assert_eq!(fifo.pop().map(|(number, _)| number), Some(1));
        drop(fifo);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
