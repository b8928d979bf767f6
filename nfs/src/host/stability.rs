//! Which bytes are on stable storage.
//!
//! A file with bytes that were written and not committed stays open from before the first of them
//! was written until they are committed: the kernel reports a failure to write them back to each
//! descriptor that was open then, once. So a failure is seen, even if another process sees it
//! first or the kernel forgets the inode meanwhile. After a failure the write verifier is another
//! one, and clients write again what they have not committed (RFC 1813, section 3.3.21).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{fdatasync, fsync, syncfs};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::table::Id;
use crate::file_system::FsResult;
use crate::nfs3::Nfsstat3;

/// The most files that are kept open. Beyond them the oldest one is synchronized.
const MAX_FILES: usize = 1024;

/// The write verifier, and the files with uncommitted bytes.
#[derive(Debug)]
pub(super) struct Stability {
    verifier: AtomicU64,
    files: Mutex<Files>,
    /// How many synchronizations fail.
    #[cfg(test)]
    pub(super) failures: AtomicU64,
}

#[derive(Debug, Default)]
struct Files {
    by_id: HashMap<Id, File>,
    by_age: BTreeMap<u64, Id>,
    next: u64,
}

#[derive(Debug)]
struct File {
    kept: Arc<Kept>,
    age: u64,
    /// How many writes are in progress, and how many have begun.
    writing: usize,
    begun: u64,
}

/// A descriptor, and who synchronizes it: the verifier changes before the next one may.
#[derive(Debug)]
struct Kept {
    file: OwnedFd,
    turn: Mutex<()>,
}

impl Files {
    fn remove(&mut self, id: Id) {
        if let Some(file) = self.by_id.remove(&id) {
            self.by_age.remove(&file.age);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A write in progress, whose bytes are not stable.
pub(super) struct Writing<'a> {
    stability: &'a Stability,
    id: Id,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(file) = lock(&self.stability.files).by_id.get_mut(&self.id) {
            file.writing = file.writing.saturating_sub(1);
        }
    }
}

impl Stability {
    pub(super) fn random() -> io::Result<[u8; 8]> {
        let mut bytes = [0; 8];
        if getrandom(&mut bytes, GetRandomFlags::empty())? != bytes.len() {
            return Err(io::Error::other("the kernel gives too few random bytes"));
        }
        Ok(bytes)
    }

    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            verifier: AtomicU64::new(u64::from_be_bytes(Self::random()?)),
            files: Mutex::default(),
            #[cfg(test)]
            failures: AtomicU64::new(0),
        })
    }

    /// Returns the write verifier. A WRITE takes it before it writes, and a COMMIT after it has
    /// synchronized: then a failure between them gives them different ones.
    pub(super) fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    /// Counts a write whose bytes are not stable. `open` opens a file that is not kept yet.
    pub(super) fn begin(
        &self,
        id: Id,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<Writing<'_>, Errno> {
        let mut files = lock(&self.files);
        if !files.by_id.contains_key(&id) {
            drop(files);
            // The lock is free meanwhile.
            let file = open()?;
            self.make_room();
            files = lock(&self.files);
            let age = files.next;
            let kept = Arc::new(Kept {
                file,
                turn: Mutex::default(),
            });
            if !files.by_id.contains_key(&id) {
                files.next += 1;
                files.by_age.insert(age, id);
                let file = File {
                    kept,
                    age,
                    writing: 0,
                    begun: 0,
                };
                files.by_id.insert(id, file);
            }
        }
        if let Some(file) = files.by_id.get_mut(&id) {
            file.writing += 1;
            file.begun += 1;
        }
        drop(files);
        let stability = self;
        Ok(Writing { stability, id })
    }

    /// Synchronizes the oldest file if there are too many. A failure is one of its clients, who
    /// learn of it by the verifier.
    fn make_room(&self) {
        let oldest = {
            let files = lock(&self.files);
            let is_full = files.by_id.len() >= MAX_FILES;
            let mut idle = files.by_age.values().filter(|id| {
                let file = files.by_id.get(id);
                file.is_some_and(|file| file.writing == 0)
            });
            idle.next().copied().filter(|_| is_full)
        };
        if let Some(id) = oldest {
            // The verifier says it.
            let _ = self.commit(id);
        }
    }

    /// Synchronizes the bytes of a file that are not stable. Returns `None` if there are none that
    /// this server has written.
    pub(super) fn commit(&self, id: Id) -> Option<FsResult<()>> {
        let (kept, begun) = {
            let files = lock(&self.files);
            let file = files.by_id.get(&id)?;
            (file.kept.clone(), file.begun)
        };
        let turn = lock(&kept.turn);
        let synced = self.sync(&kept.file);
        let mut files = lock(&self.files);
        let unchanged = |file: &File| file.writing == 0 && file.begun == begun;
        if files.by_id.get(&id).is_some_and(unchanged) {
            files.remove(id);
        }
        drop(turn);
        Some(synced)
    }

    /// Closes a file that is gone.
    pub(super) fn forget(&self, id: Id) {
        lock(&self.files).remove(id);
    }

    /// Brings the bytes and the attributes of a file to stable storage.
    pub(super) fn sync(&self, file: &OwnedFd) -> FsResult<()> {
        self.checked(fsync(file))
    }

    /// Brings the bytes of a file to stable storage, and the attributes that are needed to read
    /// them.
    pub(super) fn sync_data(&self, file: &OwnedFd) -> FsResult<()> {
        self.checked(fdatasync(file))
    }

    /// Brings all of a file system to stable storage.
    pub(super) fn sync_all(&self, any: &OwnedFd) -> FsResult<()> {
        self.checked(syncfs(any))
    }

    /// Changes the verifier after a failure, which is always NFS3ERR_IO.
    fn checked(&self, done: Result<(), Errno>) -> FsResult<()> {
        #[cfg(test)]
        let done = done.and_then(|()| self.fail());
        done.map_err(|_| {
            // An odd number: no two of 2^64 changes give the same verifier.
            self.verifier
                .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            Nfsstat3::Io
        })
    }

    #[cfg(test)]
    fn fail(&self) -> Result<(), Errno> {
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        let less = |left: u64| left.checked_sub(1);
        match self.failures.fetch_update(set, fetch, less) {
            Ok(_) => Err(Errno::IO),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Result<OwnedFd, Errno> {
        Ok(tempfile::tempfile().unwrap().into())
    }

    #[test]
    fn a_failure_changes_the_verifier_and_is_an_io_error() {
        let stability = Stability::new().unwrap();
        let before = stability.verifier();
        drop(stability.begin((0, 1), open).unwrap());
        stability.failures.store(1, Ordering::SeqCst);
        assert_eq!(stability.commit((0, 1)), Some(Err(Nfsstat3::Io)));
        assert_ne!(stability.verifier(), before);
        assert_eq!(stability.commit((0, 1)), None);
    }

    #[test]
    fn a_file_stays_open_while_it_is_written() {
        let stability = Stability::new().unwrap();
        let writing = stability.begin((0, 1), open).unwrap();
        assert_eq!(stability.commit((0, 1)), Some(Ok(())));
        drop(writing);
        // What was written after the first synchronization is not stable yet.
        assert_eq!(stability.commit((0, 1)), Some(Ok(())));
        assert_eq!(stability.commit((0, 1)), None);
    }

    #[test]
    fn the_oldest_file_makes_room_and_its_failure_shows() {
        let stability = Stability::new().unwrap();
        let before = stability.verifier();
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        for ino in 0..MAX_FILES as u64 {
            let open = || rustix::io::dup(&file);
            drop(stability.begin((0, ino), open).unwrap());
        }
        assert_eq!(stability.verifier(), before);
        stability.failures.store(1, Ordering::SeqCst);
        drop(stability.begin((1, 0), open).unwrap());
        assert_ne!(stability.verifier(), before);
        assert_eq!(stability.commit((0, 0)), None);
        assert_eq!(stability.commit((0, 1)), Some(Ok(())));
    }
}
