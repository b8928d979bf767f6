//! The numbers of a device's queue pairs. Windows are bound to a number, and sockets are watched by
//! it, so that no two queue pairs may have the same: after a wrap, those in use are skipped.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The numbers of a device.
#[derive(Debug)]
pub(super) struct Numbers(Mutex<State>);

#[derive(Debug)]
struct State {
    next: u32,
    used: BTreeSet<u32>,
}

/// The number of a queue pair, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Number {
    number: u32,
    numbers: Arc<Numbers>,
}

impl Numbers {
    pub(super) fn new() -> Arc<Self> {
        Self::from(1)
    }

    fn from(next: u32) -> Arc<Self> {
        let used = BTreeSet::new();
        Arc::new(Self(Mutex::new(State { next, used })))
    }

    /// Returns a number that is not in use. It is not reused before 32 bits have wrapped.
    pub(super) fn take(self: &Arc<Self>) -> Number {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Queue pairs take memory: there are fewer than numbers.
        let number = loop {
            let number = state.next;
            state.next = number.wrapping_add(1);
            if state.used.insert(number) {
                break number;
            }
        };
        Number {
            number,
            numbers: self.clone(),
        }
    }
}

impl Number {
    pub(super) const fn get(&self) -> u32 {
        self.number
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let state = self.numbers.0.lock();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.used.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_use_are_skipped() {
        let numbers = Numbers::from(u32::MAX);
        let last = numbers.take();
        let [first, second, third] = [(); 3].map(|()| numbers.take());
        let taken = [&last, &first, &second, &third].map(Number::get);
        assert_eq!(taken, [u32::MAX, 0, 1, 2]);
        drop(second);
        numbers.0.lock().unwrap().next = u32::MAX;
        let again = [(); 2].map(|()| numbers.take());
        assert_eq!(again.each_ref().map(Number::get), [1, 3]);
    }
}
