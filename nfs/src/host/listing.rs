//! READDIR and READDIRPLUS (RFC 1813, sections 3.3.16 and 3.3.17).
//!
//! If the kernel's position of the next entry (`d_off`) stays valid while the directory changes, it
//! is the cookie. On other file systems, such as tmpfs, the position of an entry is a hash of its
//! name, and entries are listed in the order of their hashes. So an entry keeps its position, and
//! the server keeps no state between calls.

use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, RawDir, SeekFrom, fstat, seek};
use rustix::io::Errno;

use super::errno::{status, status_without_perm};
use super::tree::{ObjectFd, Tree};
use crate::caller::Caller;
use crate::directory::{DirEntry, DirList};
use crate::file_system::{DirEnd, FsResult};
use crate::handle::{FileHandle, Object};
use crate::nfs3::Nfsstat3;

/// The bytes of entries that are read from the kernel at once.
const BATCH: usize = 32 << 10;

/// The highest hash: clients expect a positive 64-bit number.
const MAX_CODE: u64 = i64::MAX.cast_unsigned();

/// An entry, with the position after it.
struct Entry {
    cookie: u64,
    fileid: u64,
    name: Vec<u8>,
}

/// A directory that is listed.
struct Listing<'a> {
    tree: &'a Tree,
    dir: &'a ObjectFd,
    opened: OwnedFd,
    /// The object of `..`, if its attributes are needed.
    parent: Option<ObjectFd>,
}

impl Tree {
    pub(super) fn read_dir(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        (cookie, verifier): (u64, [u8; 8]),
        list: &mut DirList,
    ) -> FsResult<DirEnd> {
        let dir = self.resolve(dir)?.directory()?;
        // Cookies are valid as long as the directory exists, so that the verifier is always zero.
        if cookie != 0 && verifier != [0; 8] {
            return Err(Nfsstat3::BadCookie);
        }
        let wants_parent = list.wants_objects();
        let parent = wants_parent.then(|| self.parent(caller, &dir));
        let opened = self.identity.run_as(caller, || {
            self.reopen(&dir.fd, OFlags::RDONLY | OFlags::DIRECTORY)
        })?;
        let listing = Listing {
            tree: self,
            dir: &dir,
            opened: opened.map_err(status_without_perm)?,
            parent: parent.and_then(Result::ok),
        };
        let eof = self.identity.run_as(caller, || {
            if self.has_cookies {
                listing.list_by_position(cookie, list)
            } else {
                listing.list_by_code(cookie, list)
            }
        })??;
        let stat = fstat(&listing.opened).map_err(status)?;
        Ok(DirEnd {
            eof,
            verifier: [0; 8],
            attributes: self.attributes(&stat),
        })
    }
}

impl Listing<'_> {
    /// Calls `each` for the entries from the descriptor's position, until it returns false. Returns
    /// true if it never did.
    fn each(&self, mut each: impl FnMut(Entry) -> FsResult<bool>) -> FsResult<bool> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut entries = RawDir::new(&self.opened, batch.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(status)?;
            let more = each(Entry {
                cookie: entry.next_entry_cookie(),
                fileid: entry.ino(),
                name: entry.file_name().to_bytes().to_vec(),
            })?;
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn list_by_position(&self, cookie: u64, list: &mut DirList) -> FsResult<bool> {
        match seek(&self.opened, SeekFrom::Start(cookie)) {
            Ok(_) => self.each(|entry| self.push(entry, list)),
            Err(Errno::INVAL | Errno::OVERFLOW) => Err(Nfsstat3::BadCookie),
            Err(error) => Err(status(error)),
        }
    }

    fn list_by_code(&self, cookie: u64, list: &mut DirList) -> FsResult<bool> {
        if cookie > MAX_CODE {
            return Err(Nfsstat3::BadCookie);
        }
        // One more than can fit shows that there are more.
        let kept = list.max_entries() + 1;
        let (mut entries, mut is_cut) = (Vec::new(), false);
        self.each(|entry| {
            let cookie_of_entry = self.position(&entry.name);
            if cookie_of_entry > cookie {
                entries.push(Entry {
                    cookie: cookie_of_entry,
                    ..entry
                });
            }
            // Entries that do not fit are dropped now and then, which takes linear time in total.
            if entries.len() >= 2 * kept {
                entries.select_nth_unstable_by_key(kept, |entry| entry.cookie);
                entries.truncate(kept);
                is_cut = true;
            }
            Ok(true)
        })?;
        entries.sort_unstable_by_key(|entry| entry.cookie);
        for entry in entries {
            if !self.push(entry, list)? {
                return Ok(false);
            }
        }
        Ok(!is_cut)
    }

    /// Returns the position of a name.
    fn position(&self, name: &[u8]) -> u64 {
        match name {
            b"." => 1,
            b".." => 2,
            name => (self.tree.code(name) & MAX_CODE).max(3),
        }
    }

    /// Adds an entry to the reply. Returns true if there was room.
    fn push(&self, entry: Entry, list: &mut DirList) -> FsResult<bool> {
        let is_above_root = entry.name == b".." && self.tree.is_root(self.dir);
        let fileid = if is_above_root {
            self.dir.id().1
        } else {
            entry.fileid
        };
        let object = if list.wants_objects() {
            self.object(&entry.name)
        } else {
            None
        };
        Ok(list.push(DirEntry {
            // A mount hides an object with another number.
            fileid: object.map_or(fileid, |object| object.attributes.fileid),
            name: entry.name,
            cookie: entry.cookie,
            object,
        }))
    }

    /// Returns the object of an entry, if it still exists and is served.
    fn object(&self, name: &[u8]) -> Option<Object> {
        let found = match name {
            b"." => self.dir.clone(),
            b".." => self.parent.clone()?,
            name => self.tree.child(self.dir, name).ok()?,
        };
        self.tree.object(&found).ok()
    }
}
