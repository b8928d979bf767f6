//! Locks of objects, by which an operation and the attributes around it are one step for every
//! client of the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::table::Id;

/// The locks that are used or waited for.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<HashMap<Id, Arc<Mutex<()>>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Locks {
    /// Does work while no other work is done for an object.
    pub(super) fn with<T>(&self, id: Id, work: impl FnOnce() -> T) -> T {
        let mutex = lock(&self.0).entry(id).or_default().clone();
        let guard = lock(&mutex);
        let done = work();
        drop(guard);
        let mut all = lock(&self.0);
        // One share is here, and one in the map: nobody else has or gets one meanwhile.
        if Arc::strong_count(&mutex) == 2 {
            all.remove(&id);
        }
        done
    }

    /// Does work while no other work is done for either of two objects.
    pub(super) fn with_both<T>(&self, one: Id, other: Id, work: impl FnOnce() -> T) -> T {
        if one == other {
            return self.with(one, work);
        }
        // Everybody takes the lower one first.
        self.with(one.min(other), || self.with(one.max(other), work))
    }
}
