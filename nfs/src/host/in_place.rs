//! Operations on the thread that asks for them.
//!
//! To wake a worker, and to be woken by it, takes longer than most operations of a file system in
//! memory, which waits for no disk. Such an operation runs on the thread that asks, unless it takes
//! long or would wait for a lock that a worker holds: then it begins again on a worker.
//!
//! Work on a worker that may hold the kernel's locks of an object for long is counted: meanwhile no
//! work runs in place.
//!
//! Such a thread never acts as another user: the kernel refuses commands to an RDMA device from a
//! thread whose credentials have changed since the device was opened, even if they were changed
//! back.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{
    LockResult, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};

use rustix::fs::Stat;

use super::sys;
use crate::file_system::FsResult;
use crate::nfs3::Nfsstat3;

thread_local! {
    /// Whether this thread has a umask of its own, once it was tried.
    static PREPARED: Cell<Option<bool>> = const { Cell::new(None) };
    static STATE: Cell<State> = const { Cell::new(State::MayWait) };
}

/// What the work of this thread may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It runs on a worker.
    MayWait,
    /// It runs in place.
    InPlace,
    /// It runs in place, and has given up before it changed anything.
    GaveUp,
}

fn is_prepared() -> bool {
    PREPARED.get().unwrap_or_else(|| {
        let prepared = sys::clear_umask_of_thread().is_ok();
        PREPARED.set(Some(prepared));
        prepared
    })
}

/// Work in place, until it is dropped.
struct InPlace;

impl Drop for InPlace {
    fn drop(&mut self) {
        STATE.set(State::MayWait);
    }
}

/// Runs work of the server's user on this thread. Returns `None` if it has to run on a worker:
/// nothing was changed.
pub(super) fn run<T>(work: impl FnOnce() -> FsResult<T>) -> Option<FsResult<T>> {
    if !is_prepared() {
        return None;
    }
    let _in_place = InPlace;
    STATE.set(State::InPlace);
    let done = work();
    (STATE.get() == State::InPlace).then_some(done)
}

/// Returns true within work in place.
pub(super) fn is_running() -> bool {
    STATE.get() != State::MayWait
}

/// The blocks of 512 bytes of an object from which on it takes long to free them.
const LONG_TO_FREE: i64 = 1 << 15;

/// Work that takes long, on workers.
#[derive(Default, Debug)]
pub(super) struct LongWork(AtomicUsize);

/// Work that takes long, until it is dropped.
pub(super) struct Long<'a>(&'a LongWork);

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl LongWork {
    /// Begins work that takes long, as [`takes_long`] does.
    pub(super) fn begin(&self) -> FsResult<Long<'_>> {
        takes_long()?;
        self.0.fetch_add(1, Ordering::Acquire);
        Ok(Long(self))
    }

    /// Begins work that frees an object with these attributes, if that takes long.
    pub(super) fn begin_freeing(&self, stat: &Stat) -> FsResult<Option<Long<'_>>> {
        let is_last = stat.st_nlink <= 1 && stat.st_blocks > LONG_TO_FREE;
        is_last.then(|| self.begin()).transpose()
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Notes that the work would take long from here on. Fails in place. Nothing was changed before.
pub(super) fn takes_long() -> FsResult<()> {
    if STATE.get() == State::MayWait {
        return Ok(());
    }
    STATE.set(State::GaveUp);
    Err(Nfsstat3::Jukebox)
}

/// Locks what changes of an object exclude each other by, before they change anything. Fails in
/// place, if it is locked.
pub(super) fn lock(rwlock: &RwLock<()>) -> FsResult<RwLockWriteGuard<'_, ()>> {
    wait(rwlock.try_write(), || rwlock.write())
}

/// Locks it for a change that excludes only those which [`lock`] it, as [`lock`] does.
pub(super) fn lock_shared(rwlock: &RwLock<()>) -> FsResult<RwLockReadGuard<'_, ()>> {
    wait(rwlock.try_read(), || rwlock.read())
}

/// Returns the guard of a lock that was tried. Waits for it if it is locked; fails in place.
fn wait<G>(tried: TryLockResult<G>, lock: impl FnOnce() -> LockResult<G>) -> FsResult<G> {
    match tried {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            takes_long()?;
            Ok(lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_would_wait_does_not_run_in_place() {
        let rwlock = RwLock::new(());
        let locks = || lock(&rwlock).map(drop);
        let shares = || lock_shared(&rwlock).map(drop);
        assert_eq!((run(locks), run(shares)), (Some(Ok(())), Some(Ok(()))));
        let guard = rwlock.read().unwrap();
        assert_eq!((run(locks), run(shares)), (None, Some(Ok(()))));
        drop(guard);
        let guard = rwlock.write().unwrap();
        assert_eq!((run(locks), run(shares)), (None, None));
        drop(guard);
        assert_eq!((run(locks), run(shares)), (Some(Ok(())), Some(Ok(()))));
        assert_eq!(run(takes_long), None);
        assert_eq!((locks(), takes_long()), (Ok(()), Ok(())));
        let long = LongWork::default();
        assert!(run(|| long.begin().map(drop)).is_none() && !long.is_any());
        let begun = long.begin();
        assert!(long.is_any());
        drop(begun);
        assert!(!long.is_any());
    }
}
