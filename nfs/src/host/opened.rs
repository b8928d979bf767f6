//! Files that are open for the READs and WRITEs of their callers.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, Stat};

use super::recent::Recent;
use super::table::Id;
use super::tree::{Found, Tree};
use crate::caller::Caller;
use crate::file_system::FsResult;

/// How long a caller goes on without being checked again, if the file has changed meanwhile in
/// another way than by its mode and its owners. An ACL may have changed so, or the content.
const UNCHECKED: Duration = Duration::from_secs(1);

/// A file with the caller as whom it was opened.
type Key = (Id, Caller);

/// A file that a caller may use.
#[derive(Clone, Debug)]
struct Opened {
    file: Arc<OwnedFd>,
    /// The attributes by which the caller was checked, and when.
    checked: Rights,
    at: Instant,
}

/// What permissions depend on.
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
            // Every change of an ACL changes it.
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }
}

impl Opened {
    /// Returns whether the caller need not be checked again.
    fn is_good(&self, stat: &Stat) -> bool {
        let (then, now) = (self.checked, Rights::of(stat));
        let same = (then.mode, then.owner) == (now.mode, now.owner);
        same && (then.changed == now.changed || self.at.elapsed() < UNCHECKED)
    }
}

/// Files that are open, for reading and for writing.
#[derive(Debug)]
pub(super) struct OpenFiles {
    readers: Recent<Key, Opened>,
    /// The first write of a caller leaves a mark alone, since the host cannot execute a file that
    /// is open for writing: a file that one WRITE makes is closed at once.
    writers: Recent<Key, Option<Opened>>,
}

impl OpenFiles {
    /// Creates a store of at most so many files of each kind.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            readers: Recent::new(limit),
            writers: Recent::new(limit),
        }
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

    /// Closes what was not used for some time.
    pub(super) fn sweep(&self, at: Instant) {
        self.readers.sweep(at);
        self.writers.sweep(at);
    }
}

impl Tree {
    /// Opens a file anew for a caller.
    fn open_anew(&self, caller: &Caller, file: &Found, flags: OFlags) -> FsResult<Opened> {
        Ok(Opened {
            file: Arc::new(self.open_file(caller, file, flags)?),
            checked: Rights::of(&file.stat),
            at: Instant::now(),
        })
    }

    /// Returns a file that is open for the READs of a caller, who may read it.
    pub(super) fn reader(&self, caller: &Caller, file: &Found) -> FsResult<Arc<OwnedFd>> {
        let key = (file.id(), caller.clone());
        let known = self.open_files.readers.get(&key);
        if let Some(opened) = known.filter(|opened| opened.is_good(&file.stat)) {
            return Ok(opened.file);
        }
        let opened = self.open_anew(caller, file, OFlags::RDONLY)?;
        let shared = opened.file.clone();
        self.open_files.readers.insert(key, file.id(), opened);
        Ok(shared)
    }

    /// Returns a file that is open for the WRITEs of a caller, who may write it.
    pub(super) fn writer(&self, caller: &Caller, file: &Found) -> FsResult<Arc<OwnedFd>> {
        let key = (file.id(), caller.clone());
        let known = self.open_files.writers.get(&key);
        let is_again = known.is_some();
        let good = known.flatten().filter(|opened| opened.is_good(&file.stat));
        if let Some(opened) = good {
            return Ok(opened.file);
        }
        let opened = self.open_anew(caller, file, OFlags::WRONLY)?;
        let shared = opened.file.clone();
        let kept = is_again.then_some(opened);
        self.open_files.writers.insert(key, file.id(), kept);
        Ok(shared)
    }
}
