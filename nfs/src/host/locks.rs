//! Locks of objects, which make an operation and the attributes before and after it atomic for the
//! clients of the server.
//!
//! `Tree::change` and `Tree::change_both` alone take these locks. Work under a lock must take no
//! other one: `with_both` locks the lower identity first, and any other order can deadlock. WRITE
//! and COMMIT take no lock. In place, `with` fails before any change if another thread has the
//! lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::in_place;
use super::table::Id;
use crate::file_system::FsResult;

/// The locks that are held or waited for.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<HashMap<Id, Arc<Mutex<()>>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Locks {
    /// Runs work with exclusive access to an object. Fails in place, if another thread has it.
    pub(super) fn with<T>(&self, id: Id, work: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        let mutex = lock(&self.0).entry(id).or_default().clone();
        let done = in_place::lock(&mutex).and_then(|_guard| work());
        let mut all = lock(&self.0);
        // One reference is here and one in the map, which is locked: no other thread has or gets
        // one.
        if Arc::strong_count(&mutex) == 2 {
            all.remove(&id);
        }
        done
    }

    /// Returns true if work waits for exclusive access to an object that other work has.
    #[cfg(test)]
    pub(super) fn is_awaited(&self, id: Id) -> bool {
        let all = lock(&self.0);
        // The map has one reference, and each work has one.
        all.get(&id)
            .is_some_and(|mutex| Arc::strong_count(mutex) > 2)
    }

    /// Runs work with exclusive access to two objects.
    pub(super) fn with_both<T>(
        &self,
        one: Id,
        other: Id,
        work: impl FnOnce() -> FsResult<T>,
    ) -> FsResult<T> {
        if one == other {
            return self.with(one, work);
        }
        // All threads take the lower one first.
        self.with(one.min(other), || self.with(one.max(other), work))
    }
}
