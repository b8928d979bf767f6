//! Locks of objects, which make an operation and the attributes before and after it atomic for the
//! clients of the server.
//!
//! `Tree::change` and `Tree::change_both` take these locks, and WRITE shares that of its file with
//! other WRITEs while it writes: results of other changes of the file have the attributes before.
//! Work under a lock must take no other one: `with_both` locks the lower identity first, and any
//! other order can deadlock. In place, work fails before any change if another thread has the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::in_place;
use super::table::Id;
use crate::file_system::FsResult;

/// The locks that are held or waited for: not more than threads.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<Vec<(Id, Arc<RwLock<()>>)>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Locks {
    /// Runs work with exclusive access to an object. Fails in place, if another thread has access.
    pub(super) fn with<T>(&self, id: Id, work: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        self.use_of(id, |rwlock| {
            in_place::lock(rwlock).and_then(|_guard| work())
        })
    }

    /// Runs work beside other such work for an object, but not beside work with exclusive access.
    /// Fails in place, if another thread has exclusive access.
    pub(super) fn with_shared<T>(&self, id: Id, work: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        self.use_of(id, |rwlock| {
            in_place::lock_shared(rwlock).and_then(|_guard| work())
        })
    }

    /// Uses the lock of an object.
    fn use_of<T>(&self, id: Id, work: impl FnOnce(&RwLock<()>) -> T) -> T {
        let rwlock = self.of(id);
        let done = work(&rwlock);
        let mut all = lock(&self.0);
        // One reference is here and one in the list, which is locked: no other thread has or gets
        // one.
        if Arc::strong_count(&rwlock) == 2
            && let Some(at) = all.iter().position(|(of, _)| *of == id)
        {
            all.swap_remove(at);
        }
        done
    }

    /// Returns the lock of an object.
    fn of(&self, id: Id) -> Arc<RwLock<()>> {
        let mut all = lock(&self.0);
        if let Some((_, rwlock)) = all.iter().find(|(of, _)| *of == id) {
            return rwlock.clone();
        }
        let rwlock = Arc::<RwLock<()>>::default();
        all.push((id, rwlock.clone()));
        rwlock
    }

    /// Returns true if work waits for exclusive access to an object that other work has.
    #[cfg(test)]
    pub(super) fn is_awaited(&self, id: Id) -> bool {
        // The list has one reference, and each work has one.
        let is_awaited = |(of, rwlock): &(Id, Arc<_>)| *of == id && Arc::strong_count(rwlock) > 2;
        lock(&self.0).iter().any(is_awaited)
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
