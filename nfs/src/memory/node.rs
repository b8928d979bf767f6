//! Objects, and the permissions of callers.
//!
//! A [`Directory`] owns the cookies of its names: a cookie rises with each name and is never
//! reused, so that READDIR continues after any change, without a verifier. `permissions` follows
//! the mode alone; `memory` and `setting` add the exceptions for owners. `naming` keeps `nlink` and
//! the names consistent.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use oncrpc::xdr::SharedBytes;

use super::budget::shrink;
use super::data::Data;
use crate::caller::Caller;
use crate::nfs3::{Fattr3, Ftype3, Nfsstat3, Nfstime3, Specdata3};

/// The permission to read, in the mode bits of others.
pub(super) const READ: u32 = 4;
/// The permission to write.
pub(super) const WRITE: u32 = 2;
/// The permission to execute a file, or to search a directory.
pub(super) const EXECUTE: u32 = 1;
/// Only owners may remove names from a directory with this bit.
pub(super) const STICKY: u32 = 0o1000;
pub(super) const SET_GID: u32 = 0o2000;
const SET_UID: u32 = 0o4000;
const GROUP_EXECUTE: u32 = 0o10;

/// The cookie of the first name. `.` and `..` have the cookies before.
const FIRST_COOKIE: u64 = 3;

/// An object of the file system.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) mode: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime: Nfstime3,
    pub(super) mtime: Nfstime3,
    pub(super) ctime: Nfstime3,
    pub(super) content: Content,
}

/// The type-specific content of an object.
#[derive(Debug)]
pub(super) enum Content {
    /// A regular file, with the verifier of the exclusive create that made it.
    File(Data, Option<[u8; 8]>),
    Directory(Directory),
    Symlink(SharedBytes),
    /// A device, a socket or a pipe.
    Special(Ftype3, Specdata3),
}

/// The names of a directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) parent: u64,
    by_name: HashMap<Arc<[u8]>, u64>,
    /// The names in the order of their cookies. The cookie of a name is never reused.
    by_cookie: BTreeMap<u64, (Arc<[u8]>, u64)>,
    next_cookie: u64,
}

impl Directory {
    pub(super) fn new(parent: u64) -> Self {
        Self {
            parent,
            by_name: HashMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
        }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u64> {
        let cookie = self.by_name.get(name)?;
        self.by_cookie.get(cookie).map(|(_, id)| *id)
    }

    /// Adds a name, or replaces the object of an existing name.
    pub(super) fn insert(&mut self, name: &[u8], id: u64) {
        if let Some(cookie) = self.by_name.get(name) {
            if let Some(entry) = self.by_cookie.get_mut(cookie) {
                entry.1 = id;
            }
            return;
        }
        let name: Arc<[u8]> = name.into();
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.by_name.insert(name.clone(), cookie);
        self.by_cookie.insert(cookie, (name, id));
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.by_name.remove(name) {
            self.by_cookie.remove(&cookie);
            shrink(&mut self.by_name);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the names after a cookie.
    pub(super) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], u64)> {
        let entries = self.by_cookie.range(cookie.saturating_add(1)..);
        entries.map(|(cookie, (name, id))| (*cookie, &**name, *id))
    }

    /// Returns true if a cookie may have been issued.
    pub(super) fn knows(&self, cookie: u64) -> bool {
        cookie < self.next_cookie
    }
}

impl Node {
    pub(super) fn directory(&self) -> Result<&Directory, Nfsstat3> {
        match &self.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Nfsstat3::Notdir),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.content, Content::Directory(_))
    }

    fn kind(&self) -> Ftype3 {
        match &self.content {
            Content::File(..) => Ftype3::Reg,
            Content::Directory(_) => Ftype3::Dir,
            Content::Symlink(_) => Ftype3::Lnk,
            Content::Special(kind, _) => *kind,
        }
    }

    /// Returns the size, and the bytes that the content takes.
    fn sizes(&self) -> (u64, u64) {
        match &self.content {
            Content::File(data, _) => (data.size(), data.allocated()),
            Content::Directory(directory) => {
                let size = 4096 + 32 * directory.len() as u64;
                (size, size)
            }
            Content::Symlink(path) => (path.len() as u64, 0),
            Content::Special(..) => (0, 0),
        }
    }

    pub(super) fn attributes(&self, fsid: u64, fileid: u64) -> Fattr3 {
        let (size, used) = self.sizes();
        Fattr3 {
            r#type: self.kind(),
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size,
            used,
            rdev: match self.content {
                Content::Special(_, rdev) => rdev,
                _ => Specdata3 {
                    specdata1: 0,
                    specdata2: 0,
                },
            },
            fsid,
            fileid,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    pub(super) fn is_owner(&self, caller: &Caller) -> bool {
        caller.is_root() || caller.uid == self.uid
    }

    /// Returns the bits of the mode that end when a caller changes the owner or the content of a
    /// file, as with Linux. Without group-execute permission the set-group-ID bit makes no program
    /// run as the group, so it stays, unless the caller is not in the group.
    pub(super) fn id_bits_to_clear(&self, caller: &Caller) -> u32 {
        let is_member = caller.is_root() || caller.is_in(self.gid);
        if self.mode & GROUP_EXECUTE != 0 || !is_member {
            SET_UID | SET_GID
        } else {
            SET_UID
        }
    }

    /// Returns the permissions of a caller: [`READ`], [`WRITE`] and [`EXECUTE`].
    pub(super) fn permissions(&self, caller: &Caller) -> u32 {
        if caller.is_root() {
            let executes = self.is_directory() || self.mode & 0o111 != 0;
            return READ | WRITE | if executes { EXECUTE } else { 0 };
        }
        let shift = match () {
            () if caller.uid == self.uid => 6,
            () if caller.is_in(self.gid) => 3,
            () => 0,
        };
        self.mode >> shift & 7
    }

    /// Checks that a caller has all of these permissions.
    pub(super) fn check(&self, caller: &Caller, permissions: u32) -> Result<(), Nfsstat3> {
        if self.permissions(caller) & permissions == permissions {
            return Ok(());
        }
        Err(Nfsstat3::Acces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_names_free_their_memory() {
        let mut directory = Directory::new(1);
        let names = || (0..10_000_u64).map(|number| (number.to_be_bytes(), number));
        names().for_each(|(name, id)| directory.insert(&name, id));
        names().for_each(|(name, _)| directory.remove(&name));
        let capacity = directory.by_name.capacity();
        assert!(capacity < 1000, "{capacity}");
    }
}
