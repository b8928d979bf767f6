//! Files that are open for the READs and WRITEs of their callers.
//!
//! `opened` fills this store, and `Tree::forget` empties it. The permissions of a file were checked
//! when it was opened, so a file may be used only for the caller in its key and while `is_good`
//! returns true. `UNCHECKED` limits how long a caller keeps access that a new ACL denies.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::Stat;

use super::attributes::size;
use super::recent::RecentCache;
use super::table::Id;
use crate::caller::Caller;

/// How long a caller is not checked again after a change of the file other than of its mode and
/// owners. The change may be of an ACL or of the content.
const UNCHECKED: Duration = Duration::from_secs(1);

/// A file, and the caller as whom it was opened.
pub(super) type Key = (Id, Caller);

/// An open file that a caller may use.
#[derive(Clone, Debug)]
pub(super) struct OpenedFile {
    pub(super) file: Arc<OwnedFd>,
    /// The attributes with which the caller was checked, and the time of the check.
    checked: Rights,
    at: Instant,
    /// The size when it was last seen, which may have changed since.
    seen_size: Arc<AtomicU64>,
}

/// The attributes that permissions depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rights {
    mode: u32,
    owner: (u32, u32),
    changed: (i64, i64),
}

impl Rights {
    fn of(stat: &Stat) -> Self {
        Self {
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            // Every change of an ACL changes the ctime.
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }
}

impl OpenedFile {
    /// A file that was just opened for a caller who was checked with these attributes.
    pub(super) fn new(file: OwnedFd, stat: &Stat) -> Self {
        Self {
            file: Arc::new(file),
            checked: Rights::of(stat),
            at: Instant::now(),
            seen_size: Arc::new(AtomicU64::new(size(stat))),
        }
    }

    /// Returns the size when it was last seen.
    pub(super) fn seen_size(&self) -> u64 {
        self.seen_size.load(Relaxed)
    }

    /// Records the size.
    pub(super) fn see_size(&self, stat: &Stat) {
        self.seen_size.store(size(stat), Relaxed);
    }

    /// Returns true if the caller need not be checked again.
    pub(super) fn is_good(&self, stat: &Stat) -> bool {
        let (then, now) = (self.checked, Rights::of(stat));
        let same = (then.mode, then.owner) == (now.mode, now.owner);
        same && (then.changed == now.changed || self.at.elapsed() < UNCHECKED)
    }
}

/// Files that are open, for reading and for writing.
#[derive(Debug)]
pub(super) struct OpenFiles {
    pub(super) readers: RecentCache<Key, OpenedFile>,
    /// The first write of a caller stores only a mark, since the host cannot execute a file that is
    /// open for writing: a file that is written by one WRITE is closed at once.
    pub(super) writers: RecentCache<Key, Option<OpenedFile>>,
}

impl OpenFiles {
    /// Creates a store of at most `limit` files of each kind.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            readers: RecentCache::new(limit),
            writers: RecentCache::new(limit),
        }
    }

    /// Returns a descriptor of a file.
    pub(super) fn of(&self, id: Id) -> Option<Arc<OwnedFd>> {
        let writer = || self.writers.of(id).flatten();
        let opened = self.readers.of(id).or_else(writer)?;
        Some(opened.file)
    }

    /// Closes a file.
    pub(super) fn forget(&self, id: Id) {
        self.readers.forget(id);
        self.writers.forget(id);
    }

    /// Closes a file for writing.
    pub(super) fn end_writing(&self, id: Id) {
        self.writers.forget(id);
    }

    /// Closes files that were not used for some time.
    pub(super) fn sweep(&self, at: Instant) {
        self.readers.sweep(at);
        self.writers.sweep(at);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty()
    }
}
