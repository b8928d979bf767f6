//! A file system in memory.
//!
//! [`MemoryFileSystem`] owns the lock of the tree, and implements [`FileSystem`] for the server: it
//! resolves handles, and records attributes before and after a change under one lock. The objects,
//! their names, permissions and the budget are in the child modules. An operation of the tree must
//! check everything before it changes anything, and must not panic in between. No lock is held
//! across an `await`.

mod budget;
mod data;
mod naming;
mod node;
mod setting;
mod tree;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use oncrpc::ItemAllocator;
use oncrpc::xdr::Item;

use crate::caller::Caller;
use crate::directory::DirList;
use crate::file_system::{
    DirEnd, DirOp, FileSystem, FsInfo, FsResult, FsStat, PathConf, ReadData, Written,
};
use crate::handle::{FileHandle, Object};
use crate::name::Name;
use crate::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    Createhow3, FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Fattr3, Mknoddata3,
    Nfsstat3, Nfstime3, Sattr3, StableHow,
};
use crate::special_objects::{check_link_target, special_file};
use crate::wcc::Wcc;
use naming::LINK_MAX;
use node::{Content, EXECUTE, Node, READ, WRITE};
use setting::MAX_SIZE;
use tree::{ROOT, Tree};

/// The maximum bytes of a READ, and of a WRITE, which the server cuts to `wtmax`.
const TRANSFER: u32 = 1 << 20;
/// The free bytes for which FSSTAT reports one free file.
const BYTES_PER_FILE: u64 = 1024;

/// A file system in memory, of files of up to 2^40 bytes, directories, symbolic links and special
/// files.
///
/// Its memory is bounded: beyond the limit, operations fail with NFS3ERR_NOSPC, and a WRITE may be
/// short. Each object counts 512 bytes beyond its content, each name 192 and twice its length, each
/// page of a file 64. Pages that were never written take no memory.
///
/// All content is lost when the file system is dropped, and a new one rejects its handles as stale.
/// Only SETATTR changes access times. Removing the last name of an object destroys it, even if a
/// client has it open: a client must rename a file that it has open instead, as Linux does.
#[derive(Debug)]
pub struct MemoryFileSystem {
    tree: RwLock<Tree>,
    root: FileHandle,
    verifier: [u8; 8],
}

impl MemoryFileSystem {
    /// Creates a file system that takes at most this many bytes of memory, as counted above. Its
    /// root belongs to user 0, with mode 0755.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let random = || RandomState::new().hash_one(0);
        let tree = Tree::new(bytes, random());
        Self {
            root: tree.handle(ROOT),
            tree: RwLock::new(tree),
            verifier: random().to_be_bytes(),
        }
    }

    /// Sets the owner and the mode of the root.
    #[must_use]
    pub fn root_owner(self, uid: u32, gid: u32, mode: u32) -> Self {
        if let Ok(root) = self.write_lock().node_mut(ROOT) {
            (root.uid, root.gid, root.mode) = (uid, gid, mode & 0o7777);
        }
        self
    }

    /// Locks the tree, even if the lock is poisoned: the tree is consistent, since an operation
    /// checks before it changes anything, and does not panic in between.
    fn read_lock(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes an object, and records its attributes before and after. `change` must not destroy
    /// the object itself, or its success would become an error.
    fn change<T>(
        &self,
        object: &FileHandle,
        wcc: &mut Wcc,
        change: impl FnOnce(&mut Tree, u64) -> FsResult<T>,
    ) -> FsResult<T> {
        let mut tree = self.write_lock();
        let id = tree.resolve(object)?;
        wcc.set_before(&tree.attributes(id)?);
        let result = change(&mut tree, id);
        wcc.set_after(&tree.attributes(id)?);
        result
    }

    /// Changes a directory, and returns the new object in it.
    fn create_in(
        &self,
        place: DirOp<'_>,
        wcc: &mut Wcc,
        create: impl FnOnce(&mut Tree, u64, Name<'_>) -> FsResult<u64>,
    ) -> FsResult<Object> {
        self.change(place.dir, wcc, |tree, dir| {
            let id = create(tree, dir, place.name)?;
            tree.object(id)
        })
    }
}

/// Returns the ACCESS bits of a caller (RFC 1813, section 3.3.4). They follow the mode alone, as a
/// client's check at open does. READ and WRITE also admit the owner, who may have opened the file
/// before.
fn access_bits(node: &Node, caller: &Caller) -> u32 {
    let permissions = node.permissions(caller);
    let (on_execute, on_write) = if node.is_directory() {
        (
            ACCESS3_LOOKUP,
            ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE,
        )
    } else {
        (ACCESS3_EXECUTE, ACCESS3_MODIFY | ACCESS3_EXTEND)
    };
    [
        (READ, ACCESS3_READ),
        (WRITE, on_write),
        (EXECUTE, on_execute),
    ]
    .into_iter()
    .filter(|(permission, _)| permissions & permission != 0)
    .fold(0, |all, (_, bits)| all | bits)
}

/// Writes to a regular file. Its owner always may, whatever the mode is, because the client has
/// opened the file before.
fn write(tree: &mut Tree, caller: &Caller, id: u64, offset: u64, bytes: &[u8]) -> FsResult<u32> {
    let now = tree.now();
    let (node, budget) = tree.node_and_budget(id)?;
    if !matches!(node.content, Content::File(..)) {
        return Err(Nfsstat3::Inval);
    }
    if !node.is_owner(caller) {
        node.check(caller, WRITE)?;
    }
    let end = offset.checked_add(bytes.len() as u64);
    if end.is_none_or(|end| end > MAX_SIZE) {
        return Err(Nfsstat3::Fbig);
    }
    let Content::File(data, _) = &mut node.content else {
        return Err(Nfsstat3::Inval);
    };
    let written = data.write(offset, bytes, budget)?;
    if written > 0 {
        (node.mtime, node.ctime) = (now, now);
        if !caller.is_root() {
            node.mode &= !node.id_bits_to_clear(caller);
        }
    }
    u32::try_from(written).map_err(|_| Nfsstat3::Serverfault)
}

impl FileSystem for MemoryFileSystem {
    fn root(&self) -> FileHandle {
        self.root
    }

    fn owns(&self, object: &FileHandle) -> bool {
        self.read_lock().owns(object)
    }

    async fn attributes(&self, object: &FileHandle) -> FsResult<Fattr3> {
        let tree = self.read_lock();
        tree.attributes(tree.resolve(object)?)
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
        wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.change(object, wcc, |tree, id| {
            tree.set_attributes(caller, id, new, guard)
        })
    }

    async fn lookup(
        &self,
        caller: &Caller,
        what: DirOp<'_>,
        dir_attributes: &mut Option<Fattr3>,
    ) -> FsResult<Object> {
        let tree = self.read_lock();
        let dir = tree.resolve(what.dir)?;
        *dir_attributes = Some(tree.attributes(dir)?);
        tree.object(tree.lookup(caller, dir, what.name)?)
    }

    async fn access(
        &self,
        caller: &Caller,
        object: &FileHandle,
        access: u32,
    ) -> FsResult<(u32, Fattr3)> {
        let tree = self.read_lock();
        let id = tree.resolve(object)?;
        let granted = access_bits(tree.node(id)?, caller) & access;
        Ok((granted, tree.attributes(id)?))
    }

    async fn read_link(&self, _: &Caller, symlink: &FileHandle) -> FsResult<Item<'static>> {
        let tree = self.read_lock();
        match &tree.node(tree.resolve(symlink)?)?.content {
            Content::Symlink(path) => Ok(path.clone().into()),
            _ => Err(Nfsstat3::Inval),
        }
    }

    async fn read(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        count: u32,
        _: &ItemAllocator,
    ) -> FsResult<ReadData> {
        let tree = self.read_lock();
        let id = tree.resolve(file)?;
        let node = tree.node(id)?;
        let Content::File(data, _) = &node.content else {
            return Err(Nfsstat3::Inval);
        };
        // A client reads a file to execute it.
        if !node.is_owner(caller) && node.permissions(caller) & (READ | EXECUTE) == 0 {
            return Err(Nfsstat3::Acces);
        }
        let bytes = data.read(offset, count.min(TRANSFER));
        Ok(ReadData {
            eof: offset.saturating_add(bytes.len() as u64) >= data.size(),
            data: bytes,
            attributes: tree.attributes(id)?,
        })
    }

    async fn write(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        data: Item<'_>,
        _: StableHow,
        wcc: &mut Wcc,
    ) -> FsResult<Written> {
        let count = self.change(file, wcc, |tree, id| write(tree, caller, id, offset, &data))?;
        // All levels of stability are the same for memory.
        Ok(Written {
            count,
            committed: StableHow::FileSync,
            verifier: self.verifier,
        })
    }

    async fn create(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        how: &Createhow3,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        self.create_in(place, dir_wcc, |tree, dir, name| {
            tree.create(caller, dir, name, how)
        })
    }

    async fn make_dir(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        attributes: &Sattr3,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        self.create_in(place, dir_wcc, |tree, dir, name| {
            tree.make_dir(caller, dir, name, attributes)
        })
    }

    async fn symlink(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        attributes: &Sattr3,
        path: Item<'_>,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        self.create_in(place, dir_wcc, |tree, dir, name| {
            check_link_target(&path)?;
            let content = Content::Symlink(path.to_vec().into());
            tree.create_other(caller, dir, name, attributes, content)
        })
    }

    async fn make_node(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        what: &Mknoddata3,
        dir_wcc: &mut Wcc,
    ) -> FsResult<Object> {
        self.create_in(place, dir_wcc, |tree, dir, name| {
            let (kind, rdev, attributes) = special_file(what)?;
            let is_device = matches!(what, Mknoddata3::Chr(_) | Mknoddata3::Blk(_));
            if is_device && !caller.is_root() {
                return Err(Nfsstat3::Acces);
            }
            let content = Content::Special(kind, rdev);
            tree.create_other(caller, dir, name, attributes, content)
        })
    }

    async fn remove(&self, caller: &Caller, object: DirOp<'_>, dir_wcc: &mut Wcc) -> FsResult<()> {
        self.change(object.dir, dir_wcc, |tree, dir| {
            tree.remove(caller, dir, object.name)
        })
    }

    async fn remove_dir(
        &self,
        caller: &Caller,
        object: DirOp<'_>,
        dir_wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.change(object.dir, dir_wcc, |tree, dir| {
            tree.remove_dir(caller, dir, object.name)
        })
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: DirOp<'_>,
        to: DirOp<'_>,
        from_wcc: &mut Wcc,
        to_wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.change(from.dir, from_wcc, |tree, dir| {
            let target = tree.resolve(to.dir)?;
            to_wcc.set_before(&tree.attributes(target)?);
            let result = tree.rename(caller, (dir, from.name), (target, to.name));
            to_wcc.set_after(&tree.attributes(target)?);
            result
        })
    }

    async fn link(
        &self,
        caller: &Caller,
        file: &FileHandle,
        link: DirOp<'_>,
        dir_wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.change(link.dir, dir_wcc, |tree, dir| {
            let id = tree.resolve(file)?;
            tree.link(caller, id, dir, link.name)
        })
    }

    async fn read_dir(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        cookie: u64,
        verifier: [u8; 8],
        list: &mut DirList,
    ) -> FsResult<DirEnd> {
        let tree = self.read_lock();
        let id = tree.resolve(dir)?;
        // Cookies are valid as long as the directory exists, so that the verifier is always zero.
        tree.node(id)?.directory()?;
        if cookie != 0 && verifier != [0; 8] {
            return Err(Nfsstat3::BadCookie);
        }
        Ok(DirEnd {
            eof: tree.read_dir(caller, id, cookie, list)?,
            verifier: [0; 8],
            attributes: tree.attributes(id)?,
        })
    }

    async fn fs_stat(&self, object: &FileHandle) -> FsResult<FsStat> {
        let tree = self.read_lock();
        tree.resolve(object)?;
        let (total, free) = (tree.budget.limit(), tree.budget.free());
        let free_files = free / BYTES_PER_FILE;
        Ok(FsStat {
            tbytes: total,
            fbytes: free,
            abytes: free,
            tfiles: tree.len() + free_files,
            ffiles: free_files,
            afiles: free_files,
            invarsec: 0,
        })
    }

    fn fs_info(&self) -> FsInfo {
        FsInfo {
            rtmax: TRANSFER,
            wtmax: TRANSFER,
            dtpref: 64 << 10,
            maxfilesize: MAX_SIZE,
            time_delta: Nfstime3 {
                seconds: 0,
                nseconds: 1,
            },
            properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        }
    }

    async fn path_conf(&self, object: &FileHandle) -> FsResult<PathConf> {
        let tree = self.read_lock();
        tree.resolve(object)?;
        Ok(PathConf {
            linkmax: LINK_MAX,
            // As `Name::MAX`.
            name_max: 255,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    }

    async fn commit(
        &self,
        _: &Caller,
        file: &FileHandle,
        _: u64,
        _: u32,
        wcc: &mut Wcc,
    ) -> FsResult<[u8; 8]> {
        // There are no uncommitted bytes.
        self.change(file, wcc, |_, _| Ok(self.verifier))
    }
}
