//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813, sections 3.3.8 to 3.3.11).
//!
//! An object is created as its caller under the lock of the directory, gets its remaining
//! attributes (`setting`, which checks them before the creation), and is reported after the
//! directory is on stable storage (`finish`). A file that exists gets its new size under its own
//! lock, too (`resize`). The times of a file store the verifier of an exclusive create, also over a
//! restart. Work in place must call `takes_long` before it creates the object: its repetition on a
//! worker would find the object.

use std::os::fd::OwnedFd;

use oncrpc::xdr::Item;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, futimens, linkat, makedev,
    mkdirat, mknodat, openat, symlinkat,
};
use rustix::io::Errno;

use super::attributes::size;
use super::errno::{lookup_status, status, status_without_perm};
use super::in_place::takes_long;
use super::tree::{ObjectFd, Tree};
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::handle::{FileHandle, Object};
use crate::nfs3::{
    Createhow3, Ftype3, Mknoddata3, Nfsstat3, Sattr3, SetMode3, SetSize3, Specdata3,
};
use crate::special_objects::{check_link_target, special_file};
use crate::wcc::Wcc;

/// The maximum attempts of CREATE while other processes create and remove the name.
const MAX_TRIES: usize = 8;
/// The maximum numbers of a device: the kernel has 12 and 20 bits for them, and ignores others.
const MAX_MAJOR: u32 = (1 << 12) - 1;
const MAX_MINOR: u32 = (1 << 20) - 1;

/// A new file with a name. It is open for reading, whatever its mode is: the server keeps it open,
/// and the host cannot execute a file that is open for writing.
const CREATE: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::RDONLY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A new file without a name.
const WITHOUT_NAME: OFlags = OFlags::TMPFILE.union(OFlags::WRONLY).union(OFlags::CLOEXEC);

/// Returns the NFS error for a new file: only the directory itself can be missing.
fn create_status(errno: Errno) -> Nfsstat3 {
    match errno {
        Errno::NOENT => Nfsstat3::Stale,
        other => status_without_perm(other),
    }
}

/// Returns the verifier of an exclusive create as the seconds of the access and modification times.
/// File systems keep at least 32 bits of them, with a sign.
fn verifier_times(verifier: [u8; 8]) -> Timestamps {
    let (access, modification) = verifier.split_at(4);
    let seconds = |half: &[u8]| half.iter().fold(0, |n, byte| n << 8 | i32::from(*byte));
    let time = |half| Timespec {
        tv_sec: seconds(half).into(),
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time(access),
        last_modification: time(modification),
    }
}

/// Returns true if a file was created with this verifier and has not been written since.
fn has_verifier(stat: &Stat, verifier: [u8; 8]) -> bool {
    let times = verifier_times(verifier);
    let seconds = (times.last_access.tv_sec, times.last_modification.tv_sec);
    (stat.st_atime, stat.st_mtime) == seconds
        && (stat.st_atime_nsec, stat.st_mtime_nsec) == (0, 0)
        && size(stat) == 0
}

/// What a CREATE did under the lock of the directory.
enum Made {
    Object(Object),
    /// Nothing: the file exists, and its size is set under its own lock, too.
    ToResize {
        dir: ObjectFd,
        file: ObjectFd,
        size: u64,
    },
}

fn mode_or(new: &Sattr3, default: u32) -> Mode {
    let mode = match new.mode {
        SetMode3::True(mode) => mode & 0o7777,
        SetMode3::False => default,
    };
    Mode::from_raw_mode(mode)
}

fn file_type(kind: Ftype3) -> FileType {
    match kind {
        Ftype3::Chr => FileType::CharacterDevice,
        Ftype3::Blk => FileType::BlockDevice,
        Ftype3::Sock => FileType::Socket,
        _ => FileType::Fifo,
    }
}

impl Tree {
    /// Creates an object in a directory, as its caller, with attributes. `create` creates and
    /// returns the object.
    fn create_in(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        wcc: &mut Wcc,
        (kind, new): (FileType, &Sattr3),
        create: impl FnOnce(&ObjectFd) -> Result<ObjectFd, Errno>,
    ) -> FsResult<Object> {
        self.change(dir, wcc, |dir| {
            dir.check_directory()?;
            let changes = self.check_new(caller, kind, new)?;
            let made = self.identity.run_as(caller, || create(dir))?;
            let made = made.map_err(status_without_perm)?;
            let made = self.apply_to_new(caller, made, changes)?;
            self.finish(caller, dir, &made)
        })
    }

    /// Brings a new name to stable storage, and returns the object.
    fn finish(&self, caller: &Caller, dir: &ObjectFd, made: &ObjectFd) -> FsResult<Object> {
        self.sync_change(caller, dir)?;
        self.object_to_use(made)
    }

    pub(super) fn create(
        &self,
        caller: &Caller,
        (dir, name): (&FileHandle, &[u8]),
        how: &Createhow3,
        wcc: &mut Wcc,
    ) -> FsResult<Object> {
        if let Createhow3::Unchecked(new) | Createhow3::Guarded(new) = how
            && matches!(new.size, SetSize3::True(1..))
        {
            // The size is set after the creation, which must not happen again.
            takes_long()?;
        }
        for _ in 0..MAX_TRIES {
            let made = self.change(dir, wcc, |dir| {
                dir.check_directory()?;
                self.create_one(caller, (dir, name), how)
            });
            let made = match made {
                Ok(Made::Object(object)) => Ok(object),
                Ok(Made::ToResize { dir, file, size }) => {
                    self.resize(caller, (&dir, name), (&file, size), wcc)
                }
                Err(error) => Err(error),
            };
            match made {
                // The object existed, and its name was removed or replaced in between.
                Err(Nfsstat3::Noent) => {}
                made => return made,
            }
        }
        Err(Nfsstat3::Jukebox)
    }

    /// Creates a file under the lock of its directory.
    fn create_one(
        &self,
        caller: &Caller,
        (dir, name): (&ObjectFd, &[u8]),
        how: &Createhow3,
    ) -> FsResult<Made> {
        let made = match how {
            Createhow3::Unchecked(new) => match self.create_new(caller, dir, name, new) {
                Err(Nfsstat3::Exist) => {
                    let file = self.existing(caller, dir, name)?;
                    let file = file.file().map_err(|_| Nfsstat3::Exist)?;
                    if let SetSize3::True(size) = new.size {
                        let dir = dir.clone();
                        return Ok(Made::ToResize { dir, file, size });
                    }
                    file
                }
                made => made?,
            },
            Createhow3::Guarded(new) => self.create_new(caller, dir, name, new)?,
            Createhow3::Exclusive(verifier) => {
                self.create_exclusive(caller, dir, name, *verifier)?
            }
        };
        self.finish(caller, dir, &made).map(Made::Object)
    }

    /// Sets the size of the file that a name in a directory belongs to, under the locks of both.
    /// Fails with NFS3ERR_NOENT if the name belongs to another object now.
    fn resize(
        &self,
        caller: &Caller,
        (dir, name): (&ObjectFd, &[u8]),
        (file, size): (&ObjectFd, u64),
        wcc: &mut Wcc,
    ) -> FsResult<Object> {
        // The results have no place for the attributes of the file before the change.
        let mut of_file = Wcc::default();
        self.change_both((dir, wcc), (file, &mut of_file), || {
            let found = self.existing(caller, dir, name)?;
            if found.id() != file.id() {
                return Err(Nfsstat3::Noent);
            }
            if size > self.max_size {
                return Err(Nfsstat3::Fbig);
            }
            self.set_size(caller, file, size)?;
            self.sync_change(caller, file)?;
            let resized = ObjectFd::new(file.fd.clone()).map_err(status)?;
            self.finish(caller, dir, &resized)
        })
    }

    /// Opens a file that does not exist, without permissions and with these times.
    fn open_with_times(
        &self,
        (dir, name): (&ObjectFd, &[u8]),
        times: &Timestamps,
    ) -> Result<OwnedFd, Errno> {
        let opened = match openat(&dir.fd, ".", WITHOUT_NAME, Mode::empty()) {
            // The file system has no files without names.
            Err(Errno::OPNOTSUPP) => {
                let opened = openat(&dir.fd, name, CREATE, Mode::empty())?;
                futimens(&opened, times)?;
                return Ok(opened);
            }
            opened => opened?,
        };
        futimens(&opened, times)?;
        // The file gets its name when it is complete: otherwise a server that is killed would leave
        // a file that it does not know as its own.
        let (descriptors, number) = self.descriptor(&opened);
        linkat(descriptors, number, &dir.fd, name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(opened)
    }

    fn create_new(
        &self,
        caller: &Caller,
        dir: &ObjectFd,
        name: &[u8],
        new: &Sattr3,
    ) -> FsResult<ObjectFd> {
        let changes = self.check_new(caller, FileType::RegularFile, new)?;
        let mode = mode_or(new, 0o600);
        let create = || ObjectFd::new(openat(&dir.fd, name, CREATE, mode)?);
        let made = self.identity.run_as(caller, create)?;
        self.apply_to_new(caller, made.map_err(create_status)?, changes)
    }

    /// Opens the existing object with the name of a file to create.
    fn existing(&self, caller: &Caller, dir: &ObjectFd, name: &[u8]) -> FsResult<ObjectFd> {
        let found = self.identity.run_as(caller, || self.child(dir, name))?;
        found.map_err(lookup_status)
    }

    fn create_exclusive(
        &self,
        caller: &Caller,
        dir: &ObjectFd,
        name: &[u8],
        verifier: [u8; 8],
    ) -> FsResult<ObjectFd> {
        let times = verifier_times(verifier);
        let made = self.identity.run_as(caller, || {
            let opened = self.open_with_times((dir, name), &times)?;
            let object = ObjectFd::new(self.reopen(&opened, OFlags::PATH)?)?;
            Ok((object, opened))
        })?;
        match made.map_err(create_status) {
            Ok((made, opened)) => {
                // Its mode does not let every server open it again.
                self.sync_opened(&opened)?;
                return Ok(made);
            }
            Err(Nfsstat3::Exist) => {}
            Err(error) => return Err(error),
        }
        let found = self.existing(caller, dir, name)?;
        match found.kind() {
            FileType::RegularFile if has_verifier(&found.stat, verifier) => Ok(found),
            _ => Err(Nfsstat3::Exist),
        }
    }

    pub(super) fn make_dir(
        &self,
        caller: &Caller,
        (dir, name): (&FileHandle, &[u8]),
        new: &Sattr3,
        wcc: &mut Wcc,
    ) -> FsResult<Object> {
        let mode = mode_or(new, 0o700);
        self.create_in(caller, dir, wcc, (FileType::Directory, new), |dir| {
            mkdirat(&dir.fd, name, mode)?;
            self.child(dir, name)
        })
    }

    pub(super) fn symlink(
        &self,
        caller: &Caller,
        (dir, name): (&FileHandle, &[u8]),
        new: &Sattr3,
        path: &Item<'_>,
        wcc: &mut Wcc,
    ) -> FsResult<Object> {
        // A symbolic link has no mode.
        let new = Sattr3 {
            mode: SetMode3::False,
            ..*new
        };
        let well_formed = check_link_target(path);
        self.create_in(caller, dir, wcc, (FileType::Symlink, &new), |dir| {
            match well_formed {
                Ok(()) => symlinkat(path.as_bytes(), &dir.fd, name)?,
                Err(Nfsstat3::Nametoolong) => return Err(Errno::NAMETOOLONG),
                Err(_) => return Err(Errno::ACCESS),
            }
            self.child(dir, name)
        })
    }

    pub(super) fn make_node(
        &self,
        caller: &Caller,
        (dir, name): (&FileHandle, &[u8]),
        what: &Mknoddata3,
        wcc: &mut Wcc,
    ) -> FsResult<Object> {
        let (kind, spec, new) = special_file(what)?;
        let is_device = matches!(kind, Ftype3::Chr | Ftype3::Blk);
        if is_device && !caller.is_root() {
            return Err(Nfsstat3::Acces);
        }
        if is_device && (spec.specdata1 > MAX_MAJOR || spec.specdata2 > MAX_MINOR) {
            return Err(Nfsstat3::Inval);
        }
        let (
            mode,
            Specdata3 {
                specdata1,
                specdata2,
            },
        ) = (mode_or(new, 0o600), spec);
        let kind = file_type(kind);
        self.create_in(caller, dir, wcc, (kind, new), |dir| {
            let device = makedev(specdata1, specdata2);
            mknodat(&dir.fd, name, kind, mode, device)?;
            self.child(dir, name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_verifier_is_compared() {
        let times = |verifier| {
            let times = verifier_times(verifier);
            (times.last_access.tv_sec, times.last_modification.tv_sec)
        };
        let zero = times([0; 8]);
        for at in 0..8 {
            for bit in 0..8 {
                let mut verifier = [0; 8];
                verifier[at] = 1 << bit;
                let (access, modification) = times(verifier);
                assert_ne!((access, modification), zero);
                let range = i64::from(i32::MIN)..=i64::from(i32::MAX);
                assert!(range.contains(&access) && range.contains(&modification));
            }
        }
        assert_eq!(times([0xff; 8]), (-1, -1));
    }
}
