//! Tasks that wait for a change of a locked state.
//!
//! The slots of a session and the callbacks each have [`Waiters`] within the state that they lock.
//! A task must register under the lock under which it has checked the state, and each change that
//! a task may wait for must call `wake`: else a task sleeps forever.

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
