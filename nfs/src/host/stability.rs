//! The write verifier, and the files with bytes that are not on stable storage yet.
//!
//! A file with uncommitted bytes stays open from before its first write until its commit: the
//! kernel reports a writeback failure once to each descriptor that was open at that time. So the
//! server sees a failure even if another process sees it first, or if the kernel evicts the inode
//! in between. After a failure the write verifier changes, and clients write their uncommitted
//! bytes again (RFC 1813, section 3.3.21).

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

/// The number of files that are kept open. Beyond it, the oldest one that is not being written is
/// synchronized and closed; if all are being written, more are open.
const MAX_FILES: usize = 1024;

/// The write verifier, and the files with uncommitted bytes.
#[derive(Debug)]
pub(super) struct Stability {
    verifier: AtomicU64,
    /// The file system is in memory, and ends with the machine.
    is_volatile: bool,
    files: Mutex<Files>,
    /// The number of synchronizations that fail, for tests.
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
    shared: Arc<SharedFile>,
    age: u64,
    /// The number of writes in progress, and the number of writes begun.
    writing: usize,
    begun: u64,
}

/// A descriptor, and the lock of its synchronization: after a failure, the verifier must change
/// before the next synchronization can succeed.
#[derive(Debug)]
struct SharedFile {
    file: Arc<OwnedFd>,
    sync_lock: Mutex<()>,
}

impl Files {
    fn remove(&mut self, id: Id) {
        // It is empty unless clients write without stability.
        if self.by_id.is_empty() {
            return;
        }
        if let Some(file) = self.by_id.remove(&id) {
            self.by_age.remove(&file.age);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a random number of the kernel's.
pub(super) fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    if getrandom(&mut bytes, GetRandomFlags::empty())? != bytes.len() {
        return Err(io::Error::other("the kernel gives too few random bytes"));
    }
    Ok(u64::from_be_bytes(bytes))
}

/// A write in progress whose bytes are not stable.
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
    pub(super) fn new(is_volatile: bool) -> io::Result<Self> {
        Ok(Self {
            verifier: AtomicU64::new(random_u64()?),
            is_volatile,
            files: Mutex::default(),
            #[cfg(test)]
            failures: AtomicU64::new(0),
        })
    }

    /// Returns true if the file system is in memory: there is no stable storage, and synchronizing
    /// does nothing.
    pub(super) fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    /// Returns the write verifier. A WRITE takes it before it writes, and a COMMIT after it
    /// synchronizes, so that a failure in between gives them different verifiers.
    pub(super) fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    /// Counts a write whose bytes are not stable. `open` opens a file that is not open yet, for
    /// reading if it can: nobody could execute a file that is open for writing.
    pub(super) fn begin(
        &self,
        id: Id,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<Writing<'_>, Errno> {
        let mut files = lock(&self.files);
        if !files.by_id.contains_key(&id) {
            drop(files);
            // The lock is not held while the file is opened.
            let file = open()?;
            self.make_room();
            files = lock(&self.files);
            let age = files.next;
            let shared = Arc::new(SharedFile {
                file: Arc::new(file),
                sync_lock: Mutex::default(),
            });
            if !files.by_id.contains_key(&id) {
                files.next += 1;
                files.by_age.insert(age, id);
                let file = File {
                    shared,
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

    /// Synchronizes the oldest file if there are too many. The verifier reports a failure to the
    /// clients of that file.
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
            // The verifier reports a failure.
            let _ = self.commit(id);
        }
    }

    /// Synchronizes the unstable bytes of a file. Returns `None` if the file is not kept open: the
    /// caller must then synchronize a descriptor of its own.
    pub(super) fn commit(&self, id: Id) -> Option<FsResult<()>> {
        let (shared, begun) = {
            let files = lock(&self.files);
            let file = files.by_id.get(&id)?;
            (file.shared.clone(), file.begun)
        };
        let guard = lock(&shared.sync_lock);
        let synced = self.sync(&shared.file);
        let mut files = lock(&self.files);
        let unchanged = |file: &File| file.writing == 0 && file.begun == begun;
        if files.by_id.get(&id).is_some_and(unchanged) {
            files.remove(id);
        }
        drop(guard);
        Some(synced)
    }

    /// Returns the descriptor of a file with uncommitted bytes.
    pub(super) fn of(&self, id: Id) -> Option<Arc<OwnedFd>> {
        let files = lock(&self.files);
        let file = files.by_id.get(&id)?;
        Some(file.shared.file.clone())
    }

    /// Closes a removed file.
    pub(super) fn forget(&self, id: Id) {
        lock(&self.files).remove(id);
    }

    /// Brings the bytes and the attributes of a file to stable storage.
    pub(super) fn sync(&self, file: &OwnedFd) -> FsResult<()> {
        self.checked(|| fsync(file))
    }

    /// Synchronizes as [`sync`](Self::sync) does. Returns `None` for a descriptor with O_PATH.
    pub(super) fn sync_unless_path(&self, object: &OwnedFd) -> Option<FsResult<()>> {
        match fsync(object) {
            Err(Errno::BADF) => None,
            done => Some(self.checked(|| done)),
        }
    }

    /// Returns true if a file has uncommitted bytes.
    pub(super) fn is_uncommitted(&self, id: Id) -> bool {
        lock(&self.files).by_id.contains_key(&id)
    }

    /// Brings the bytes of a file to stable storage, with the attributes that are needed to read
    /// them.
    pub(super) fn sync_data(&self, file: &OwnedFd) -> FsResult<()> {
        self.checked(|| fdatasync(file))
    }

    /// Brings all of a file system to stable storage.
    pub(super) fn sync_all(&self, any: &OwnedFd) -> FsResult<()> {
        self.checked(|| syncfs(any))
    }

    /// Synchronizes, and changes the verifier after a failure. Every failure is NFS3ERR_IO.
    fn checked(&self, sync: impl FnOnce() -> Result<(), Errno>) -> FsResult<()> {
        let done = if self.is_volatile { Ok(()) } else { sync() };
        #[cfg(test)]
        let done = done.and_then(|()| self.fail());
        done.map_err(|error| {
            tracing::error!(%error, "synchronizing failed: clients write uncommitted data again");
            // The increment is odd: no two of 2^64 changes give the same verifier.
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
        let stability = Stability::new(false).unwrap();
        let before = stability.verifier();
        drop(stability.begin((0, 1), open).unwrap());
        stability.failures.store(1, Ordering::SeqCst);
        assert_eq!(stability.commit((0, 1)), Some(Err(Nfsstat3::Io)));
        assert_ne!(stability.verifier(), before);
        assert_eq!(stability.commit((0, 1)), None);
    }

    #[test]
    fn a_file_stays_open_while_it_is_written() {
        let stability = Stability::new(false).unwrap();
        let writing = stability.begin((0, 1), open).unwrap();
        assert_eq!(stability.commit((0, 1)), Some(Ok(())));
        drop(writing);
        // Data written after the first synchronization are not stable yet.
        assert_eq!(stability.commit((0, 1)), Some(Ok(())));
        assert_eq!(stability.commit((0, 1)), None);
    }

    #[test]
    fn an_evicted_file_reports_its_failure() {
        let stability = Stability::new(false).unwrap();
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
