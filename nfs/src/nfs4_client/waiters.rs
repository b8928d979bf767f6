//! Tasks that wait for a change of a locked state.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// The wakers of waiting tasks. They are few: those of one task are stored once.
#[derive(Debug, Default)]
pub(super) struct Waiters(Vec<Waker>);

impl Waiters {
    /// Registers the task of a context for the next change.
    pub(super) fn add(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Wakes all tasks. Each of them checks the state again.
    pub(super) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

/// Locks a state. A poisoned lock is ignored: every change of a state is a single step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
