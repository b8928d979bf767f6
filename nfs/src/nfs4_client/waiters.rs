//! Tasks that wait for a change of a state that has a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// The wakers of tasks that wait. They are few: those of one task count once.
#[derive(Debug, Default)]
pub(super) struct Waiters(Vec<Waker>);

impl Waiters {
    /// Wakes the task of a context at the next change.
    pub(super) fn add(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Wakes all of them: each looks at the state again.
    pub(super) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

/// Locks a state. A panic of another thread changes nothing: no state is changed in two steps.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
