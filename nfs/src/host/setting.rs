//! SETATTR, and the attributes of new objects (RFC 1813, sections 2.5.3 and 3.3.2).
//!
//! The kernel has no call for several attributes, so `check` tests everything that it can before
//! `apply` makes the first change. `apply` must keep its order: a new owner clears bits of the
//! mode, and a new size sets the time of modification. `creating` uses `set_size` and
//! `apply_to_new`.

use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
    chmodat, chownat, ftruncate, utimensat,
};
use rustix::io::Errno;

use super::attributes::{ctime, mode};
use super::errno::status;
use super::tree::{ObjectFd, Tree};
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::handle::FileHandle;
use crate::nfs3::{Nfsstat3, Nfstime3, Sattr3};
use crate::sattr::{Changes, NewTime};
use crate::wcc::Wcc;

/// The bits of a mode other than the permissions.
const SPECIAL: u32 = 0o7000;

fn timespec(new: Option<NewTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match new {
        None => (0, UTIME_OMIT),
        Some(NewTime::Server) => (0, UTIME_NOW),
        Some(NewTime::Client(time)) => (time.seconds.into(), time.nseconds.into()),
    };
    Timespec { tv_sec, tv_nsec }
}

impl Changes {
    fn set_times(&self, object: &ObjectFd) -> Result<(), Errno> {
        let times = Timestamps {
            last_access: timespec(self.atime),
            last_modification: timespec(self.mtime),
        };
        utimensat(&object.fd, "", &times, AtFlags::EMPTY_PATH)
    }

    /// Sets the owners. `check_values` has rejected -1, which would leave an owner as it is.
    fn set_owner(&self, object: &ObjectFd) -> Result<(), Errno> {
        let (uid, gid) = (self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
        chownat(&object.fd, "", uid, gid, AtFlags::EMPTY_PATH)
    }

    fn sets_times(&self) -> bool {
        self.atime.is_some() || self.mtime.is_some()
    }

    fn is_empty(&self) -> bool {
        let numbers = self.mode.or(self.uid).or(self.gid);
        numbers.is_none() && self.size.is_none() && !self.sets_times()
    }
}

impl Tree {
    pub(super) fn set_attributes(
        &self,
        caller: &Caller,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
        wcc: &mut Wcc,
    ) -> FsResult<()> {
        let mut changes = Changes::from(new);
        self.change(object, wcc, |found| {
            if guard.is_some_and(|guard| guard != ctime(&found.stat)) {
                return Err(Nfsstat3::NotSync);
            }
            self.check(caller, found, &changes)?;
            if found.kind() == FileType::Symlink {
                // The kernel refuses it, and clients copy it from symbolic links that have one.
                changes.mode = None;
            }
            self.apply(caller, found, &changes)
        })
    }

    /// Checks new values, before anything is changed or created.
    fn check_values(&self, changes: &Changes) -> FsResult<()> {
        let none = Some(u32::MAX);
        changes.check_times()?;
        if changes.uid == none || changes.gid == none {
            return Err(Nfsstat3::Inval);
        }
        if changes.size.is_some_and(|size| size > self.max_size) {
            return Err(Nfsstat3::Fbig);
        }
        Ok(())
    }

    /// Checks everything that can be checked before a change.
    fn check(&self, caller: &Caller, object: &ObjectFd, changes: &Changes) -> FsResult<()> {
        if changes.size.is_some() && object.kind() != FileType::RegularFile {
            return Err(Nfsstat3::Inval);
        }
        self.check_values(changes)?;
        let is_owner = object.is_owner(caller) || !self.identity.switches();
        if changes.needs_owner() && !is_owner {
            return Err(Nfsstat3::Perm);
        }
        Ok(())
    }

    /// Applies changes one after the other: the kernel has no call for all of them.
    fn apply(&self, caller: &Caller, object: &ObjectFd, changes: &Changes) -> FsResult<()> {
        if changes.is_empty() {
            return Ok(());
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            let set = self.identity.run_as(caller, || changes.set_owner(object))?;
            set.map_err(status)?;
        }
        if let Some(size) = changes.size {
            self.set_size(caller, object, size)?;
        }
        if let Some(mode) = changes.mode {
            self.set_mode(caller, object, mode)?;
        }
        if changes.sets_times() {
            self.set_times(caller, object, changes)?;
        }
        self.sync_change(caller, object)
    }

    pub(super) fn set_size(&self, caller: &Caller, file: &ObjectFd, size: u64) -> FsResult<()> {
        let _long = self.long_work.begin()?;
        let opened = self.open_file(caller, file, OFlags::WRONLY)?;
        let set = self.identity.run_as(caller, || ftruncate(&opened, size))?;
        set.map_err(status)
    }

    fn set_mode(&self, caller: &Caller, object: &ObjectFd, mode: u32) -> FsResult<()> {
        let (dir, number) = self.path(object);
        let set = self.identity.run_as(caller, || {
            chmodat(dir, number, Mode::from_raw_mode(mode), AtFlags::empty())
        })?;
        set.map_err(status)
    }

    /// Sets times. A user with write permission may set one of them to the server's time, too; the
    /// kernel would only allow this user to set both.
    fn set_times(&self, caller: &Caller, object: &ObjectFd, changes: &Changes) -> FsResult<()> {
        if object.is_owner(caller) || changes.needs_owner() || !self.identity.switches() {
            let set = self.identity.run_as(caller, || changes.set_times(object))?;
            return set.map_err(status);
        }
        let may = || self.may(object, Access::WRITE_OK);
        if !self.identity.run_as(caller, may)? {
            return Err(Nfsstat3::Acces);
        }
        let set = || changes.set_times(object);
        self.identity.run_as_server(set)?.map_err(status)
    }

    /// Returns the attributes of an object to create, after a check of their values: a failure
    /// after the creation would leave the object behind. Only user 0 sets owner and group, and only
    /// a file has a size.
    pub(super) fn check_new(
        &self,
        caller: &Caller,
        kind: FileType,
        new: &Sattr3,
    ) -> FsResult<Changes> {
        let mut changes = Changes::from(new);
        if !caller.is_root() {
            (changes.uid, changes.gid) = (None, None);
        }
        // A new file is empty.
        if kind != FileType::RegularFile || changes.size == Some(0) {
            changes.size = None;
        }
        self.check_values(&changes)?;
        Ok(changes)
    }

    /// Sets those attributes of a new object that its creation did not set, and returns it with its
    /// current attributes.
    pub(super) fn apply_to_new(
        &self,
        caller: &Caller,
        object: ObjectFd,
        mut changes: Changes,
    ) -> FsResult<ObjectFd> {
        // The permissions are set already, and a default ACL may have reduced them.
        let now = mode(&object.stat);
        // A new owner clears bits that the creation has set.
        let has_new_owner = changes.uid.or(changes.gid).is_some();
        let kept = if has_new_owner { 0 } else { now };
        let missing = changes.mode.unwrap_or(0) & SPECIAL & !kept;
        changes.mode = (missing != 0).then_some(now | missing);
        if changes.is_empty() {
            return Ok(object);
        }
        self.check(caller, &object, &changes)?;
        self.apply(caller, &object, &changes)?;
        ObjectFd::new(object.fd).map_err(status)
    }
}
