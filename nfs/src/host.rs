//! A directory of the host.
//!
//! This module implements [`FileSystem`]: it makes owned copies of arguments, and decides where an
//! operation executes. Short work may execute on the calling thread (`in_place`); all other work
//! executes on `workers`, as READDIR, COMMIT, LOOKUP of `..`, large transfers and new sizes do.
//! Short work that gives up in place begins again on a worker, so `run_short` takes a closure that
//! can run twice. `Tree` and the child modules make the system calls, and only within these
//! closures: a future of an operation must not block its thread otherwise.

mod attributes;
mod creating;
mod data;
mod errno;
mod handles;
mod identity;
mod in_place;
mod information;
mod key;
mod listing;
mod locks;
mod naming;
mod open_files;
mod opened;
mod recent;
mod setting;
mod stability;
mod sys;
mod table;
mod tree;
mod workers;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use oncrpc::ItemAllocator;
use oncrpc::xdr::Item;
use rustix::fs::AtFlags;

use crate::caller::Caller;
use crate::directory::DirList;
use crate::file_system::{
    DirEnd, DirOp, FileSystem, FsInfo, FsResult, FsStat, PathConf, ReadData, Written,
};
use crate::handle::{FileHandle, Object};
use crate::nfs3::{
    Createhow3, FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Fattr3, Mknoddata3,
    Nfstime3, Sattr3, SetSize3, StableHow,
};
use crate::wcc::Wcc;
pub use key::HandleKey;
use tree::Tree;
use workers::{Objects, Running, Workers};

/// The maximum bytes of a READ and of a WRITE.
const TRANSFER: u32 = 1 << 20;
/// The maximum bytes of a READ and of a WRITE that are short.
const SHORT: u32 = 32 << 10;

/// The configuration of a served host directory.
#[derive(Clone, Debug)]
pub struct HostConfig {
    key: HandleKey,
    kernel_handles: bool,
    sync: bool,
    in_place: bool,
}

impl HostConfig {
    /// Creates a configuration with the key of the file handles.
    #[must_use]
    pub fn new(key: HandleKey) -> Self {
        Self {
            key,
            kernel_handles: true,
            sync: true,
            in_place: false,
        }
    }

    /// Sets whether file handles contain the kernel's handles (default: if the server may open
    /// them). Otherwise they contain numbers of a table.
    #[must_use]
    pub fn kernel_handles(self, kernel_handles: bool) -> Self {
        Self {
            kernel_handles,
            ..self
        }
    }

    /// Sets whether changes of names and attributes are on stable storage before the server replies
    /// (default true), as RFC 1813, section 4.7, requires. With false, a crash of the host may undo
    /// changes that were confirmed to clients. Committed file data are on stable storage in any
    /// case.
    #[must_use]
    pub fn sync(self, sync: bool) -> Self {
        Self { sync, ..self }
    }

    /// Sets whether short operations of a file system in memory (tmpfs, ramfs) execute on the
    /// threads that serve, in place of worker threads (default false).
    ///
    /// This takes two wake-ups less for each call. It applies to callers who are the server's user:
    /// to user 0 without root squash, and to all callers of a server that cannot act as others.
    ///
    /// Threads that serve get a umask of 0, which threads that they start share: let them do
    /// nothing else that creates files. Nothing on the host may delay the file system for long, as
    /// swapping, fanotify and leases can do it.
    #[must_use]
    pub fn in_place(self, in_place: bool) -> Self {
        Self { in_place, ..self }
    }
}

/// A directory of the host and everything below it on the same mount (Linux 5.8 and later).
///
/// ```
/// use rpcrdma_nfs::{Export, HandleKey, HostConfig, HostFileSystem, router};
///
/// # fn main() -> std::io::Result<()> {
/// let dir = tempfile::tempdir()?;
/// let config = HostConfig::new(HandleKey::random()?);
/// let host = HostFileSystem::open(dir.path(), config)?;
/// if !host.acts_as_callers() {
///     eprintln!("every client acts as the user of the server");
/// }
/// let services = router(Export::new(host));
/// # Ok(())
/// # }
/// ```
///
/// # Users
///
/// A server with CAP_SETUID and CAP_SETGID executes each call as its caller, and the kernel checks
/// permissions. The owner of a file may always read and write it, and a user with execute
/// permission may read it, as with Linux's own server. Without these capabilities every caller acts
/// as the user of the server.
///
/// # Handles
///
/// A file handle contains the kernel's handle of the object (`name_to_handle_at`) and a code from a
/// [`HandleKey`]. Such handles stay valid over a restart of the server, and after any rename. They
/// need CAP_DAC_READ_SEARCH and a file system with handles. Otherwise a handle contains a number,
/// which is valid until the server ends. For these numbers the server keeps a descriptor of each
/// object that it has returned: up to half the limit on open files, and up to 524288. At the limit,
/// the least recently used object becomes stale.
///
/// # Names
///
/// No symbolic link is followed, and no mount below the directory is entered: names of mounts get
/// NFS3ERR_ACCES. If a process of the host moves an object out of the directory, existing handles
/// still reach it.
///
/// # Consistency
///
/// For the clients of this object, a change of a directory or of attributes is atomic with the
/// attributes before and after it. A process of the host can change the same object in between: a
/// client then takes that change for its own, and does not see it until the next one. The results
/// of WRITE and COMMIT have no attributes before.
///
/// # Stability
///
/// COMMIT synchronizes the whole file. If that fails, the result is NFS3ERR_IO, an error is logged
/// and the write verifier changes, so that clients write uncommitted data again. The verifier also
/// changes at each start.
///
/// SETATTR of an object without content (a symbolic link, FIFO, socket or device) synchronizes the
/// whole file system: Linux has no call for such an object alone.
///
/// # Clients on the same host
///
/// While clients on the server's host have many pages to write, Linux delays the writes of all
/// processes, and so of the server that these pages wait for. With CAP_SYS_RESOURCE, and since
/// Linux 5.6, the server is exempt from that, as Linux's own server is.
pub struct HostFileSystem {
    tree: Arc<Tree>,
    workers: Workers,
    root: FileHandle,
}

impl fmt::Debug for HostFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFileSystem")
            .field("root", &self.root)
            .field("acts_as_callers", &self.acts_as_callers())
            .field("keeps_handles", &self.keeps_handles())
            .finish_non_exhaustive()
    }
}

/// Lets the threads end.
impl Drop for HostFileSystem {
    fn drop(&mut self) {
        self.workers.end();
    }
}

impl HostFileSystem {
    /// Opens a directory. Its path may have symbolic links.
    ///
    /// Raises the process's limit on open files to the maximum.
    ///
    /// # Errors
    /// Returns the kernel's error if the directory cannot be opened for reading, if `/proc` is not
    /// mounted, or if threads cannot have their own umask (`unshare` is forbidden).
    pub fn open(dir: impl AsRef<Path>, config: HostConfig) -> io::Result<Self> {
        let mut tree = Tree::open(dir.as_ref(), config.key, config.kernel_handles)?;
        tree.syncs_changes = config.sync;
        tree.in_place = config.in_place && tree.stability.is_volatile();
        let try_umask = std::thread::Builder::new().spawn(sys::clear_umask_of_thread)?;
        let tried = try_umask.join();
        tried.unwrap_or_else(|_| Err(io::Error::other("a thread has failed")))?;
        let root = tree.root()?;
        let root = tree.handle(&root).map_err(|status| {
            io::Error::other(format!("the directory has no handle: {}", status.name()))
        })?;
        let tree = Arc::new(tree);
        let swept = Arc::downgrade(&tree);
        Ok(Self {
            tree,
            workers: Workers::new(move || swept.upgrade().is_some_and(|tree| tree.tidy())),
            root,
        })
    }

    /// Returns true if each call is executed as its caller, and false if all are executed as the
    /// server's user.
    #[must_use]
    pub fn acts_as_callers(&self) -> bool {
        self.tree.identity.switches()
    }

    /// Returns true if file handles stay valid over a restart of the server with the same key.
    #[must_use]
    pub fn keeps_handles(&self) -> bool {
        self.tree.opens_handles
    }

    /// Runs work for objects on a worker thread, which may block.
    fn run<T: Send + 'static>(
        &self,
        objects: impl Into<Objects>,
        work: impl FnOnce(&Tree) -> FsResult<T> + Send + 'static,
    ) -> Running<T> {
        let tree = self.tree.clone();
        self.workers.run(objects.into(), move || work(&tree))
    }

    /// Runs work of a caller for objects that takes a short time, unless it waits for a disk.
    fn run_short<T: Send + 'static>(
        &self,
        caller: Option<&Caller>,
        objects: impl Into<Objects>,
        work: impl Fn(&Tree) -> FsResult<T> + Send + 'static,
    ) -> Running<T> {
        let tree = &self.tree;
        let is_server = caller.is_none_or(|caller| tree.identity.is(caller));
        let in_place = tree.in_place && is_server && !tree.long_work.is_any();
        let done = in_place.then(|| in_place::run(|| work(tree)));
        match done.flatten() {
            Some(done) => {
                self.workers.start_tidying();
                Running::done(done)
            }
            None => self.run(objects, work),
        }
    }

    /// Runs work that sets the attributes of an object before and after it. It has a caller if it
    /// is short.
    fn change<T: Send + 'static>(
        &self,
        of: Option<&Caller>,
        objects: impl Into<Objects>,
        wcc: &mut Wcc,
        work: impl Fn(&Tree, &mut Wcc) -> FsResult<T> + Send + 'static,
    ) -> impl Future<Output = FsResult<T>> + Send {
        let work = move |tree: &Tree| {
            let mut wcc = Wcc::default();
            let result = work(tree, &mut wcc);
            Ok((result, wcc))
        };
        let running = match of {
            Some(caller) => self.run_short(Some(caller), objects, work),
            None => self.run(objects, work),
        };
        async move {
            let (result, set) = running.await?;
            *wcc = set;
            result
        }
    }

    /// Runs work that changes a name in a directory.
    fn change_dir<T: Send + 'static>(
        &self,
        caller: &Caller,
        op: DirOp<'_>,
        wcc: &mut Wcc,
        work: impl Fn(&Tree, (&FileHandle, &[u8]), &mut Wcc) -> FsResult<T> + Send + 'static,
    ) -> impl Future<Output = FsResult<T>> + Send {
        let (dir, name) = (*op.dir, op.name.as_bytes().to_vec());
        self.change(Some(caller), dir, wcc, move |tree, wcc| {
            work(tree, (&dir, &name), wcc)
        })
    }
}

/// Every operation runs on a thread of the file system, at most 64 in total and 8 per object
/// (RENAME counts for both directories); or in place, if [`HostConfig::in_place`] permits it. An
/// operation that has begun is completed, even if its future is dropped.
impl FileSystem for HostFileSystem {
    fn root(&self) -> FileHandle {
        self.root
    }

    fn owns(&self, object: &FileHandle) -> bool {
        self.tree.owns(object)
    }

    async fn attributes(&self, object: &FileHandle) -> FsResult<Fattr3> {
        let of = *object;
        self.run_short(None, *object, move |tree| tree.get_attributes(&of))
            .await
    }

    async fn set_attributes(
        &self,
        by: &Caller,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
        wcc: &mut Wcc,
    ) -> FsResult<()> {
        let (caller, of, new) = (by.clone(), *object, *new);
        let is_short = new.size == SetSize3::False;
        let by = is_short.then_some(by);
        self.change(by, *object, wcc, move |tree, wcc| {
            tree.set_attributes(&caller, &of, &new, guard, wcc)
        })
        .await
    }

    async fn lookup(
        &self,
        by: &Caller,
        what: DirOp<'_>,
        dir_attributes: &mut Option<Fattr3>,
    ) -> FsResult<Object> {
        let (caller, dir) = (by.clone(), *what.dir);
        let name = what.name.as_bytes().to_vec();
        // To find `..` may take a walk to the root.
        let is_short = name != b"..";
        let lookup = move |tree: &Tree| {
            let mut attributes = None;
            let found = tree.lookup(&caller, (&dir, &name), &mut attributes);
            Ok((found, attributes))
        };
        let running = if is_short {
            self.run_short(Some(by), *what.dir, lookup)
        } else {
            self.run(*what.dir, lookup)
        };
        let (found, attributes) = running.await?;
        *dir_attributes = attributes;
        found
    }

    async fn access(
        &self,
        by: &Caller,
        object: &FileHandle,
        access: u32,
    ) -> FsResult<(u32, Fattr3)> {
        let (caller, of) = (by.clone(), *object);
        self.run_short(Some(by), *object, move |tree| {
            tree.access(&caller, &of, access)
        })
        .await
    }

    async fn read_link(&self, _: &Caller, symlink: &FileHandle) -> FsResult<Item<'static>> {
        let of = *symlink;
        let read = move |tree: &Tree| tree.read_link(&of);
        let path = self.run_short(None, *symlink, read).await?;
        Ok(path.into())
    }

    async fn read(
        &self,
        by: &Caller,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffers: &ItemAllocator,
    ) -> FsResult<ReadData> {
        let (caller, of, buffers) = (by.clone(), *file, buffers.clone());
        let part = (offset, count.min(TRANSFER));
        let read = move |tree: &Tree| tree.read(&caller, &of, part, &buffers);
        if count <= SHORT {
            self.run_short(Some(by), *file, read).await
        } else {
            self.run(*file, read).await
        }
    }

    async fn write(
        &self,
        by: &Caller,
        file: &FileHandle,
        offset: u64,
        data: Item<'_>,
        stable: StableHow,
        wcc: &mut Wcc,
    ) -> FsResult<Written> {
        // A shared item of a transport is not copied.
        let (caller, of, data) = (by.clone(), *file, data.into_shared());
        let is_short = data.len() <= SHORT as usize;
        let by = is_short.then_some(by);
        self.change(by, *file, wcc, move |tree, wcc| {
            tree.write(&caller, &of, (offset, data.as_bytes()), stable, wcc)
        })
        .await
    }

    async fn create(
        &self,
        by: &Caller,
        place: DirOp<'_>,
        how: &Createhow3,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        let (caller, how) = (by.clone(), *how);
        self.change_dir(by, place, dir_wcc, move |tree, place, wcc| {
            tree.create(&caller, place, &how, wcc)
        })
        .await
    }

    async fn make_dir(
        &self,
        by: &Caller,
        place: DirOp<'_>,
        attributes: &Sattr3,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        let (caller, new) = (by.clone(), *attributes);
        self.change_dir(by, place, dir_wcc, move |tree, place, wcc| {
            tree.make_dir(&caller, place, &new, wcc)
        })
        .await
    }

    async fn symlink(
        &self,
        by: &Caller,
        place: DirOp<'_>,
        attributes: &Sattr3,
        path: Item<'_>,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        let (caller, new, path) = (by.clone(), *attributes, path.to_static());
        self.change_dir(by, place, dir_wcc, move |tree, place, wcc| {
            tree.symlink(&caller, place, &new, &path, wcc)
        })
        .await
    }

    async fn make_node(
        &self,
        by: &Caller,
        place: DirOp<'_>,
        what: &Mknoddata3,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        let (caller, what) = (by.clone(), *what);
        self.change_dir(by, place, dir_wcc, move |tree, place, wcc| {
            tree.make_node(&caller, place, &what, wcc)
        })
        .await
    }

    async fn remove(&self, by: &Caller, object: DirOp<'_>, dir_wcc: &mut Wcc) -> FsResult<()> {
        let caller = by.clone();
        self.change_dir(by, object, dir_wcc, move |tree, object, wcc| {
            tree.remove(&caller, object, AtFlags::empty(), wcc)
        })
        .await
    }

    async fn remove_dir(&self, by: &Caller, object: DirOp<'_>, dir_wcc: &mut Wcc) -> FsResult<()> {
        let caller = by.clone();
        self.change_dir(by, object, dir_wcc, move |tree, object, wcc| {
            tree.remove(&caller, object, AtFlags::REMOVEDIR, wcc)
        })
        .await
    }

    async fn rename(
        &self,
        by: &Caller,
        from: DirOp<'_>,
        to: DirOp<'_>,
        from_wcc: &mut Wcc,
        to_wcc: &mut Wcc,
    ) -> FsResult<()> {
        let (caller, source, target) = (by.clone(), *from.dir, *to.dir);
        let (old, new) = (from.name.as_bytes().to_vec(), to.name.as_bytes().to_vec());
        let both = Objects::both(source, target);
        let done = self.change(Some(by), both, from_wcc, move |tree, wcc| {
            let mut set = Wcc::default();
            let (from, to) = ((&source, old.as_slice()), (&target, new.as_slice()));
            let result = tree.rename(&caller, from, to, (wcc, &mut set));
            Ok((result, set))
        });
        let (result, set) = done.await?;
        *to_wcc = set;
        result
    }

    async fn link(
        &self,
        by: &Caller,
        file: &FileHandle,
        link: DirOp<'_>,
        dir_wcc: &mut Wcc,
    ) -> FsResult<()> {
        let (caller, file) = (by.clone(), *file);
        self.change_dir(by, link, dir_wcc, move |tree, link, wcc| {
            tree.link(&caller, &file, link, wcc)
        })
        .await
    }

    async fn read_dir(
        &self,
        by: &Caller,
        dir: &FileHandle,
        cookie: u64,
        verifier: [u8; 8],
        list: &mut DirList,
    ) -> FsResult<DirEnd> {
        let (caller, of) = (by.clone(), *dir);
        let mut taken = std::mem::replace(list, DirList::new(0));
        let done = self.run(*dir, move |tree| {
            let result = tree.read_dir(&caller, &of, (cookie, verifier), &mut taken);
            Ok((result, taken))
        });
        let (result, taken) = done.await?;
        *list = taken;
        result
    }

    async fn fs_stat(&self, object: &FileHandle) -> FsResult<FsStat> {
        let of = *object;
        self.run_short(None, *object, move |tree| tree.fs_stat(&of))
            .await
    }

    fn fs_info(&self) -> FsInfo {
        FsInfo {
            rtmax: TRANSFER,
            wtmax: TRANSFER,
            dtpref: 64 << 10,
            maxfilesize: self.tree.max_size,
            time_delta: Nfstime3 {
                seconds: 0,
                nseconds: 1,
            },
            properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        }
    }

    async fn path_conf(&self, object: &FileHandle) -> FsResult<PathConf> {
        let of = *object;
        self.run_short(None, *object, move |tree| tree.path_conf(&of))
            .await
    }

    async fn commit(
        &self,
        by: &Caller,
        file: &FileHandle,
        _: u64,
        _: u32,
        wcc: &mut Wcc,
    ) -> FsResult<[u8; 8]> {
        let (caller, of) = (by.clone(), *file);
        self.change(None, *file, wcc, move |tree, wcc| {
            tree.commit(&caller, &of, wcc)
        })
        .await
    }
}
