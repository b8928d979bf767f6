//! LOOKUP, REMOVE, RMDIR, RENAME and LINK (RFC 1813, sections 3.3.3 and 3.3.12 to 3.3.15).
//!
//! Changes run as their caller under the locks of the directories. `service` has rejected `.` and
//! `..` except in LOOKUP. After the last name of an object is removed or replaced, `forget_if_gone`
//! must close all descriptors that `Tree` keeps of the object, or its blocks stay allocated.

use rustix::fs::{Access, AtFlags, FileType, Stat, fstat, linkat, renameat, unlinkat};
use rustix::io::Errno;

use super::attributes;
use super::errno::{lookup_status, status_without_perm};
use super::in_place::Long;
use super::tree::{ObjectFd, Tree};
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::handle::{FileHandle, Object};
use crate::nfs3::{Fattr3, Nfsstat3};
use crate::wcc::Wcc;

/// Returns the NFS error for RENAME: NFS3ERR_EXIST if the target is not compatible. Both parents
/// have been checked to be directories.
fn rename_status(errno: Errno) -> Nfsstat3 {
    match errno {
        Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR => Nfsstat3::Exist,
        other => status_without_perm(other),
    }
}

/// Returns the error of NFS for REMOVE and RMDIR.
fn remove_status(errno: Errno) -> Nfsstat3 {
    match errno {
        // Some file systems return this error.
        Errno::EXIST => Nfsstat3::Notempty,
        other => status_without_perm(other),
    }
}

impl Tree {
    pub(super) fn lookup(
        &self,
        caller: &Caller,
        (dir, name): (&FileHandle, &[u8]),
        dir_attributes: &mut Option<Fattr3>,
    ) -> FsResult<Object> {
        let dir = self.resolve(dir)?;
        // From before the lookup: if the directory changes meanwhile, the client looks again.
        *dir_attributes = Some(self.attributes(&dir.stat));
        let dir = dir.directory()?;
        let found = match name {
            b"." => {
                let may = || self.may(&dir, Access::EXEC_OK);
                if !self.identity.run_as(caller, may)? {
                    return Err(Nfsstat3::Acces);
                }
                dir
            }
            b".." => self.parent(caller, &dir)?,
            name => {
                let found = self.identity.run_as(caller, || self.child(&dir, name))?;
                found.map_err(lookup_status)?
            }
        };
        self.object_to_use(&found)
    }

    /// Closes the descriptors of an object one of whose names was removed, unless it has another
    /// name.
    fn forget_if_gone(&self, removed: &Stat) {
        let id = attributes::id(removed);
        let has_name = |kept| fstat(kept).is_ok_and(|stat| stat.st_nlink > 0);
        let is_directory = attributes::kind(removed) == FileType::Directory;
        let had_another = removed.st_nlink > 1 && !is_directory;
        if had_another && self.kept(id).is_some_and(has_name) {
            return;
        }
        // If the file got another name meanwhile, these are opened again.
        self.close(id);
        let is_gone = |kept| is_directory || !has_name(kept);
        if self.needed(id).is_some_and(is_gone) {
            self.forget_needed(id);
        }
    }

    /// Returns the attributes of an object whose name is to be removed. The descriptors that are
    /// kept open of it are closed before the returned [`Long`] is dropped.
    fn to_remove(
        &self,
        caller: &Caller,
        dir: &ObjectFd,
        name: &[u8],
    ) -> FsResult<(Option<Long<'_>>, Option<Stat>)> {
        let stat = || self.stat_child(dir, name);
        let found = self.identity.run_as(caller, stat)?.ok();
        let long = found.map(|stat| self.long_work.begin_freeing(&stat));
        Ok((long.transpose()?.flatten(), found))
    }

    pub(super) fn remove(
        &self,
        caller: &Caller,
        (dir, name): (&FileHandle, &[u8]),
        flags: AtFlags,
        wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.change(dir, wcc, |dir| {
            dir.check_directory()?;
            let (_long, found) = self.to_remove(caller, dir, name)?;
            let unlink = || unlinkat(&dir.fd, name, flags);
            let removed = self.identity.run_as(caller, unlink)?;
            removed.map_err(remove_status)?;
            found.iter().for_each(|found| self.forget_if_gone(found));
            self.sync_change(caller, dir)
        })
    }

    pub(super) fn rename(
        &self,
        caller: &Caller,
        (from, old): (&FileHandle, &[u8]),
        (to, new): (&FileHandle, &[u8]),
        (from_wcc, to_wcc): (&mut Wcc, &mut Wcc),
    ) -> FsResult<()> {
        let (from, to) = (self.resolve(from), self.resolve(to));
        let sides = [(&from, &mut *from_wcc), (&to, &mut *to_wcc)];
        for (found, wcc) in sides {
            if let Ok(found) = found {
                self.set_after(found, wcc);
            }
        }
        let (from, to) = (from?.directory()?, to?.directory()?);
        self.change_both((&from, from_wcc), (&to, to_wcc), || {
            let (_long, replaced) = self.to_remove(caller, &to, new)?;
            let rename = || renameat(&from.fd, old, &to.fd, new);
            let renamed = self.identity.run_as(caller, rename)?;
            renamed.map_err(rename_status)?;
            self.forget_if_replaced(&to, new, replaced);
            // The target first: if the machine fails in between, a file with two names is better
            // than one without.
            self.sync_change(caller, &to)?;
            if from.id() == to.id() {
                return Ok(());
            }
            self.sync_change(caller, &from)
        })
    }

    /// Closes the descriptors of the object whose name now belongs to another object.
    fn forget_if_replaced(&self, dir: &ObjectFd, name: &[u8], replaced: Option<Stat>) {
        let Some(replaced) = replaced else { return };
        let stat = || self.stat_child(dir, name);
        let id = attributes::id(&replaced);
        let is_same =
            matches!(self.identity.run_as_server(stat), Ok(Ok(now)) if attributes::id(&now) == id);
        if !is_same {
            self.forget_if_gone(&replaced);
        }
    }

    pub(super) fn link(
        &self,
        caller: &Caller,
        file: &FileHandle,
        (dir, name): (&FileHandle, &[u8]),
        wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.change(dir, wcc, |dir| {
            dir.check_directory()?;
            let file = self.resolve(file)?;
            if file.kind() == FileType::Directory {
                return Err(Nfsstat3::Inval);
            }
            let (descriptors, number) = self.path(&file);
            let linked = self.identity.run_as(caller, || {
                let flags = AtFlags::SYMLINK_FOLLOW;
                linkat(descriptors, number, &dir.fd, name, flags)
            })?;
            linked.map_err(status_without_perm)?;
            self.sync_change(caller, dir)
        })
    }
}
