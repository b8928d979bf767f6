//! The served directory, and the objects below it.
//!
//! An object is opened with O_PATH, by its handle or by one name in an open directory. So no path
//! is walked that another process can change at the same time, and no object is opened for its
//! content before its type is known.
//!
//! Every store of descriptors must be part of `forget`, `kept` and, if its descriptors expire,
//! `tidy`. `child`, `stat_child`, `reopen` and `may` act as the user of the thread: they must be
//! called within `Identity::run_as` or `run_as_server`, which `assert_chosen` checks in debug
//! builds alone.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, accessat, fstat,
    fstatfs, fstatvfs, openat, openat2, statat,
};
use rustix::io::Errno;
use rustix::path::DecInt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::attributes;
use super::errno::{lookup_status, status};
use super::handles::{HandleContent, Handles};
use super::identity::{self, Identity};
use super::in_place::LongWork;
use super::key::HandleKey;
use super::locks::Locks;
use super::open_files::OpenFiles;
use super::recent::RecentCache;
use super::stability::{Stability, random_u64};
use super::sys::{self, KernelHandle};
use super::table::{Id, ROOT, Table};
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::handle::{FileHandle, Object};
use crate::nfs3::{Fattr3, Nfsstat3};
use crate::wcc::Wcc;

/// The maximum directories between an object and the root.
const MAX_DEPTH: usize = 4096;
/// The limit on descriptors beyond which the table does not grow: it keeps at most half as many
/// objects open.
const MAX_TABLE: u64 = 1 << 20;
/// The maximum descriptors of one kind that stay open after their use.
const MAX_RECENT: usize = 4096;
/// Each lookup resolves a single name, which cannot lead elsewhere.
const ONE_NAME: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// The flags with which an object is first opened.
const BY_PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directory that is served, with what its operations need.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    root_id: Id,
    /// `/proc/self/fd`: an open object is reopened by its number there.
    descriptors: OwnedFd,
    handles: Handles,
    pub(super) table: Table,
    /// Objects by their kernel handles.
    objects: RecentCache<FileHandle, (Arc<OwnedFd>, Id)>,
    pub(super) open_files: OpenFiles,
    /// Whether kernel handles can be opened.
    pub(super) opens_handles: bool,
    pub(super) identity: Identity,
    pub(super) stability: Stability,
    pub(super) locks: Locks,
    /// The maximum bytes of a file.
    pub(super) max_size: u64,
    /// Whether `d_off` of the file system can be used as a cookie.
    pub(super) has_cookies: bool,
    /// Whether a change of names or attributes is on stable storage before its reply.
    pub(super) syncs_changes: bool,
    /// Whether the threads that ask may execute operations.
    pub(super) in_place: bool,
    pub(super) long_work: LongWork,
}

/// An object that is open with O_PATH, and its attributes at the time of the open.
#[derive(Clone, Debug)]
pub(super) struct ObjectFd {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) stat: Stat,
}

impl ObjectFd {
    pub(super) fn new(fd: impl Into<Arc<OwnedFd>>) -> Result<Self, Errno> {
        let fd = fd.into();
        let stat = fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    pub(super) fn id(&self) -> Id {
        attributes::id(&self.stat)
    }

    pub(super) fn kind(&self) -> FileType {
        attributes::kind(&self.stat)
    }

    /// Returns an error if the object is no directory.
    pub(super) fn check_directory(&self) -> FsResult<()> {
        match self.kind() {
            FileType::Directory => Ok(()),
            _ => Err(Nfsstat3::Notdir),
        }
    }

    /// Returns the directory, or an error if the object is none.
    pub(super) fn directory(self) -> FsResult<Self> {
        self.check_directory().map(|()| self)
    }

    /// Returns an error if the object is no regular file.
    pub(super) fn file(self) -> FsResult<Self> {
        match self.kind() {
            FileType::RegularFile => Ok(self),
            _ => Err(Nfsstat3::Inval),
        }
    }

    pub(super) fn is_owner(&self, caller: &Caller) -> bool {
        caller.is_root() || caller.uid == self.stat.st_uid
    }
}

/// Returns true for file systems whose `d_off` finds the next entry in spite of additions and
/// removals: ext2 to ext4, XFS and Btrfs.
fn has_cookies(root: &OwnedFd) -> Result<bool, Errno> {
    let magic = u64::try_from(fstatfs(root)?.f_type).unwrap_or(0);
    Ok([0xef53, 0x5846_5342, 0x9123_683e].contains(&magic))
}

/// Returns true for file systems in memory: tmpfs and ramfs.
fn is_volatile(root: &OwnedFd) -> Result<bool, Errno> {
    let magic = u64::try_from(fstatfs(root)?.f_type).unwrap_or(0);
    Ok([0x0102_1994, 0x8584_58f6].contains(&magic))
}

/// Returns how many descriptors of one kind stay open after their use. All kinds together take less
/// than half of the limit.
fn recent_limit(limit: u64) -> usize {
    usize::try_from(limit / 8).map_or(MAX_RECENT, |limit| limit.min(MAX_RECENT))
}

/// Raises the limit on descriptors to the maximum. Returns the limit, and how many the table may
/// keep.
fn descriptor_limits() -> (u64, usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // If this fails, the old limit gives a smaller table.
    let _ = setrlimit(Resource::Nofile, raised);
    let now = getrlimit(Resource::Nofile).current.unwrap_or(MAX_TABLE);
    (now, usize::try_from(now.min(MAX_TABLE) / 2).unwrap_or(0))
}

/// Opens `/proc/self/fd`.
fn open_descriptors() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fds = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
    if fstatfs(&fds)?.f_type != PROC_SUPER_MAGIC {
        return Err(io::Error::other("/proc is not mounted"));
    }
    Ok(fds)
}

impl Tree {
    pub(super) fn open(dir: &Path, key: HandleKey, by_kernel: bool) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, flags, Mode::empty())?;
        let kernels = sys::name_to_handle(root.as_fd()).ok().filter(|handle| {
            let opened = sys::open_by_handle(root.as_fd(), handle);
            by_kernel && opened.is_ok()
        });
        let mut export = fstatvfs(&root)?.f_fsid.to_be_bytes().to_vec();
        export.extend(kernels.iter().flat_map(KernelHandle::as_bytes));
        let start = random_u64()?;
        let limits = descriptor_limits();
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Ok(Self {
            root_id: attributes::id(&fstat(&root)?),
            descriptors: open_descriptors()?,
            handles: Handles {
                export: match kernels {
                    Some(_) => key.code(&export),
                    None => start,
                },
                key,
                start,
            },
            objects: RecentCache::new(recent_limit(limits.0)),
            open_files: OpenFiles::new(recent_limit(limits.0)),
            table: Table::new(limits.1),
            opens_handles: kernels.is_some(),
            identity: Identity::of_thread()?,
            stability: Stability::new(is_volatile(&root)?)?,
            locks: Locks::default(),
            // Beyond this limit, the kernel would kill the server with SIGXFSZ.
            max_size: limit.min(i64::MAX.cast_unsigned()),
            has_cookies: has_cookies(&root)?,
            syncs_changes: true,
            in_place: false,
            long_work: LongWork::default(),
            root,
        })
    }

    /// Opens the root.
    pub(super) fn root(&self) -> Result<ObjectFd, Errno> {
        ObjectFd::new(openat(&self.root, ".", BY_PATH, Mode::empty())?)
    }

    pub(super) fn is_root(&self, found: &ObjectFd) -> bool {
        found.id() == self.root_id
    }

    /// Returns true if a handle belongs to this export.
    pub(super) fn owns(&self, handle: &FileHandle) -> bool {
        self.handles.decode(handle).is_ok()
    }

    /// Opens the object of a handle.
    pub(super) fn resolve(&self, handle: &FileHandle) -> FsResult<ObjectFd> {
        // A cached handle was decoded before.
        if let Some((fd, _)) = self.objects.get(handle) {
            return self.examine(handle, fd);
        }
        let found = self.examine(handle, self.open_handle(handle)?)?;
        self.keep(handle, &found);
        Ok(found)
    }

    /// Returns the identity of the object of a handle, if the object is kept open.
    pub(super) fn known_id(&self, handle: &FileHandle) -> Option<Id> {
        self.objects.get(handle).map(|(_, id)| id)
    }

    /// Returns the open object of a handle with its current attributes. The handle of an object
    /// without a name is stale.
    fn examine(&self, handle: &FileHandle, fd: Arc<OwnedFd>) -> FsResult<ObjectFd> {
        let found = ObjectFd::new(fd).map_err(|errno| {
            self.objects.remove(handle);
            status(errno)
        })?;
        if found.stat.st_nlink == 0 {
            let _long = self.long_work.begin_freeing(&found.stat)?;
            self.objects.remove(handle);
            self.forget(found.id());
            drop(found);
            return Err(Nfsstat3::Stale);
        }
        Ok(found)
    }

    /// Opens the object of a handle that is not cached.
    fn open_handle(&self, handle: &FileHandle) -> FsResult<Arc<OwnedFd>> {
        match self.handles.decode(handle)? {
            HandleContent::Kernel(inner) => {
                let open = || sys::open_by_handle(self.root.as_fd(), &inner);
                let opened = self.identity.run_as_server(open)?;
                opened.map(Arc::new).map_err(|error| open_status(&error))
            }
            HandleContent::Number(ROOT) => {
                let root = self.identity.run_as_server(|| self.root())?;
                Ok(root.map_err(status)?.fd)
            }
            HandleContent::Number(number) => self.table.get(number).ok_or(Nfsstat3::Stale),
        }
    }

    /// Keeps an object open that is likely to be used again. Numbered objects are in the table.
    fn keep(&self, handle: &FileHandle, found: &ObjectFd) {
        if self.opens_handles && Handles::is_of_kernel(handle) {
            let (id, fd) = (found.id(), found.fd.clone());
            self.objects.insert(*handle, id, (fd, id));
        }
    }

    /// Closes descriptors that were not used for some time, and makes this thread, which is idle,
    /// the server's user again. Returns true if descriptors are left.
    pub(super) fn tidy(&self) -> bool {
        self.identity.leave();
        let now = Instant::now();
        self.objects.sweep(now);
        self.open_files.sweep(now);
        !self.objects.is_empty() || !self.open_files.is_empty()
    }

    /// Closes the descriptors of a removed object.
    pub(super) fn forget(&self, gone: Id) {
        self.close(gone);
        self.forget_needed(gone);
    }

    /// Closes those descriptors of an object that can be opened again.
    pub(super) fn close(&self, object: Id) {
        self.objects.forget(object);
        self.open_files.forget(object);
    }

    /// Closes the other descriptors of a removed object.
    pub(super) fn forget_needed(&self, gone: Id) {
        self.table.forget(gone);
        self.stability.forget(gone);
    }

    /// Returns a descriptor of an object that is needed as long as the object has a name: its
    /// handle or errors of its uncommitted bytes would be lost.
    pub(super) fn needed(&self, object: Id) -> Option<Arc<OwnedFd>> {
        let of_table = self.table.of(object);
        of_table.or_else(|| self.stability.of(object))
    }

    /// Returns a descriptor that is kept open of an object.
    pub(super) fn kept(&self, object: Id) -> Option<Arc<OwnedFd>> {
        let known = self.objects.of(object).map(|(fd, _)| fd);
        known
            .or_else(|| self.needed(object))
            .or_else(|| self.open_files.of(object))
    }

    pub(super) fn attributes(&self, stat: &Stat) -> Fattr3 {
        let (export, device) = (self.handles.export, attributes::id(stat).0);
        let fsid = if device == self.root_id.0 {
            export
        } else {
            // This is a subvolume, in which inode numbers start again.
            export ^ self.handles.key.code(&device.to_be_bytes())
        };
        attributes::attributes(stat, fsid)
    }

    /// Returns the hash of a name, which is its position in a directory without cookies.
    pub(super) fn code(&self, name: &[u8]) -> u64 {
        self.handles.key.code_of_name(name)
    }

    /// Returns the handle of an object.
    pub(super) fn handle(&self, found: &ObjectFd) -> FsResult<FileHandle> {
        let inner = if self.opens_handles {
            sys::name_to_handle(found.fd.as_fd()).ok()
        } else {
            None
        };
        let handle = inner.and_then(|inner| self.handles.encode(&HandleContent::Kernel(inner)));
        handle.map_or_else(
            || {
                let number = if self.is_root(found) {
                    ROOT
                } else {
                    self.table.number(found.id(), &found.fd)
                };
                let handle = self.handles.encode(&HandleContent::Number(number));
                handle.ok_or(Nfsstat3::Serverfault)
            },
            Ok,
        )
    }

    pub(super) fn object(&self, found: &ObjectFd) -> FsResult<Object> {
        Ok(Object {
            handle: self.handle(found)?,
            attributes: self.attributes(&found.stat),
        })
    }

    /// Returns an object that its client is likely to use next.
    pub(super) fn object_to_use(&self, found: &ObjectFd) -> FsResult<Object> {
        let object = self.object(found)?;
        self.keep(&object.handle, found);
        Ok(object)
    }

    /// Opens an object by its name in a directory. The name is neither `.` nor `..`.
    pub(super) fn child(&self, dir: &ObjectFd, name: &[u8]) -> Result<ObjectFd, Errno> {
        identity::assert_chosen();
        ObjectFd::new(openat2(&dir.fd, name, BY_PATH, Mode::empty(), ONE_NAME)?)
    }

    /// Returns the attributes of an object by its name in a directory.
    pub(super) fn stat_child(&self, dir: &ObjectFd, name: &[u8]) -> Result<Stat, Errno> {
        identity::assert_chosen();
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        statat(&dir.fd, name, flags)
    }

    /// Opens the parent of a directory. The parent of the root is the root.
    pub(super) fn parent(&self, caller: &Caller, dir: &ObjectFd) -> FsResult<ObjectFd> {
        let above = |found: &ObjectFd| {
            let no_mount = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
            ObjectFd::new(openat2(&found.fd, "..", BY_PATH, Mode::empty(), no_mount)?)
        };
        if self.is_root(dir) {
            return Ok(dir.clone());
        }
        let parent = self.identity.run_as(caller, || above(dir))?;
        let parent = parent.map_err(lookup_status)?;
        // Another process may have moved the directory out of the export.
        let is_below = self.identity.run_as_server(|| {
            let mut at = parent.clone();
            for _ in 0..MAX_DEPTH {
                if self.is_root(&at) {
                    return Ok(true);
                }
                let next = above(&at)?;
                if next.id() == at.id() {
                    break;
                }
                at = next;
            }
            Ok(false)
        })?;
        if is_below.map_err(lookup_status)? {
            Ok(parent)
        } else {
            Err(Nfsstat3::Stale)
        }
    }

    /// Opens an object again, to access its content.
    pub(super) fn reopen(&self, found: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        identity::assert_chosen();
        // Without NONBLOCK the open would wait for another process to release a lease.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let number = DecInt::from_fd(found);
        openat(&self.descriptors, number, flags, Mode::empty())
    }

    /// Returns the path of an open object, for system calls that need a path.
    pub(super) fn path(&self, found: &ObjectFd) -> (&OwnedFd, DecInt) {
        self.descriptor(&found.fd)
    }

    /// Returns the path of a descriptor.
    pub(super) fn descriptor(&self, of: &OwnedFd) -> (&OwnedFd, DecInt) {
        (&self.descriptors, DecInt::from_fd(of))
    }

    /// Returns true if this thread's user has access to an object.
    pub(super) fn may(&self, found: &ObjectFd, access: Access) -> bool {
        identity::assert_chosen();
        let (dir, number) = self.path(found);
        accessat(dir, number, access, AtFlags::EACCESS).is_ok()
    }

    /// Changes the object of a handle, and records its attributes before and after. No other client
    /// changes it in between.
    pub(super) fn change<T>(
        &self,
        handle: &FileHandle,
        wcc: &mut Wcc,
        change: impl FnOnce(&ObjectFd) -> FsResult<T>,
    ) -> FsResult<T> {
        let (fd, id) = match self.objects.get(handle) {
            Some(open) => open,
            None => {
                let found = self.resolve(handle)?;
                let id = found.id();
                (found.fd, id)
            }
        };
        self.locks.with(id, || {
            let object = self.examine(handle, fd)?;
            wcc.set_before(&self.attributes(&object.stat));
            let result = change(&object);
            self.set_after(&object, wcc);
            result
        })
    }

    /// Changes two objects, and records their attributes before and after.
    pub(super) fn change_both<T>(
        &self,
        (one, one_wcc): (&ObjectFd, &mut Wcc),
        (other, other_wcc): (&ObjectFd, &mut Wcc),
        change: impl FnOnce() -> FsResult<T>,
    ) -> FsResult<T> {
        self.locks.with_both(one.id(), other.id(), || {
            self.set_before(one, one_wcc);
            self.set_before(other, other_wcc);
            let result = change();
            self.set_after(one, one_wcc);
            self.set_after(other, other_wcc);
            result
        })
    }

    fn set_before(&self, object: &ObjectFd, wcc: &mut Wcc) {
        if let Ok(stat) = fstat(&object.fd) {
            wcc.set_before(&self.attributes(&stat));
        }
    }

    pub(super) fn set_after(&self, object: &ObjectFd, wcc: &mut Wcc) {
        if let Ok(stat) = fstat(&object.fd) {
            wcc.set_after(&self.attributes(&stat));
        }
    }

    /// Returns true if a change of names or attributes has to be on stable storage before its reply
    /// (RFC 1813, section 4.7).
    fn needs_sync(&self) -> bool {
        self.syncs_changes && !self.stability.is_volatile()
    }

    /// Brings a change of an open file's attributes to stable storage.
    pub(super) fn sync_opened(&self, opened: &OwnedFd) -> FsResult<()> {
        if self.needs_sync() {
            self.stability.sync(opened)
        } else {
            Ok(())
        }
    }

    /// Brings a change of names or attributes that a caller made to stable storage.
    pub(super) fn sync_change(&self, caller: &Caller, object: &ObjectFd) -> FsResult<()> {
        if !self.needs_sync() {
            return Ok(());
        }
        let is_file = object.kind() == FileType::RegularFile;
        if is_file || object.kind() == FileType::Directory {
            let sync = || self.sync_object(object);
            // Uncommitted bytes are written as the server's user, whose rights to space that is
            // reserved apply. Otherwise this thread is the caller's user already, and to change it
            // takes long.
            let as_server = is_file && self.stability.is_uncommitted(object.id());
            let synced = match as_server {
                true => None,
                false => self.identity.run_as(caller, sync)?,
            };
            let synced = match synced {
                None => self.identity.run_as_server(sync)?,
                synced => synced,
            };
            if let Some(synced) = synced {
                return synced;
            }
        }
        // An object that cannot be opened is synchronized with the whole file system.
        self.stability.sync_all(&self.root)
    }

    /// Synchronizes an object. Returns `None` if its descriptor has O_PATH, and this thread's user
    /// may not open it otherwise.
    fn sync_object(&self, object: &ObjectFd) -> Option<FsResult<()>> {
        let synced = self.stability.sync_unless_path(&object.fd);
        synced.or_else(|| {
            let opened = self.reopen(&object.fd, OFlags::RDONLY).ok()?;
            let (id, opened) = (object.id(), Arc::new(opened));
            let synced = self.stability.sync(&opened);
            // The next change of the object does not open it again.
            self.objects.replace(id, &(opened.clone(), id));
            self.table.replace(id, &opened);
            Some(synced)
        })
    }
}

/// Returns the NFS error for a handle that cannot be opened.
fn open_status(error: &io::Error) -> Nfsstat3 {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::STALE | Errno::NOENT | Errno::INVAL) => Nfsstat3::Stale,
        Some(errno) => status(errno),
        None => Nfsstat3::Serverfault,
    }
}
