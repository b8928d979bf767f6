//! All exports of a server, and the list of mounts.
//!
//! An [`ExportTable`] decides which export serves a call: `find` by the handle, for `service`, and
//! `find_path` by the path, for `mount`. `Export::admits` decides whether a client may use an
//! export. `replace` exchanges all exports at once, and a call keeps the export that it has found.
//! No lock is held while an export is dropped or a file system works. `mount` alone changes the
//! list of mounts, and limits its size.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use oncrpc::Context;

use crate::export::Export;
use crate::file_system::{FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::nfs3::Nfsstat3;

/// The exports of a server, which can be replaced while it runs.
///
/// Clones share one table: each transport and thread of a server has a clone.
///
/// A client mounts the export with the longest path that is a prefix of the requested path. Several
/// exports can have one path, for different networks: the client gets the first one that admits it.
/// Later calls find their export by the file handle ([`FileSystem::owns`]) and the client's
/// address: the server uses the first export of the file system that admits the client.
///
/// ```
/// use rpcrdma_nfs::{Export, ExportTable, MemoryFileSystem, router};
///
/// let [a, b] = ["/a", "/b"].map(|path| Export::new(MemoryFileSystem::new(1 << 30)).path(path));
/// let exports = ExportTable::new([a.clone(), b]);
/// let [tcp, rdma] = [(); 2].map(|()| router(exports.clone()));
///
/// // While the server runs: `/a` becomes read-only, and `/b` is no longer offered.
/// exports.replace([a.read_only(true)]);
/// ```
#[derive(Debug)]
pub struct ExportTable<F>(Arc<Shared<F>>);

/// The current exports.
type Current<F> = Arc<[Arc<Export<F>>]>;

/// A client's host, and a path that the client has mounted.
pub(crate) type Mount = (String, Vec<u8>);

#[derive(Debug)]
struct Shared<F> {
    exports: RwLock<Current<F>>,
    mounts: Mutex<BTreeSet<Mount>>,
}

impl<F> Clone for ExportTable<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A table of one export.
impl<F: FileSystem> From<Export<F>> for ExportTable<F> {
    fn from(export: Export<F>) -> Self {
        Self::new([export])
    }
}

/// A table of one export.
impl<F: FileSystem> From<Arc<Export<F>>> for ExportTable<F> {
    fn from(export: Arc<Export<F>>) -> Self {
        Self::of(Arc::new([export]))
    }
}

fn collect<F>(exports: impl IntoIterator<Item = Export<F>>) -> Current<F> {
    exports.into_iter().map(Arc::new).collect()
}

/// Returns the address of a client, if its transport has addresses.
fn address(cx: &Context) -> Option<IpAddr> {
    cx.peer().address.map(|address| address.ip())
}

/// Returns the components of a path, without `.` and empty ones.
pub(crate) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = path.split(|byte| *byte == b'/');
    all.filter(|name| !name.is_empty() && *name != b".")
}

/// Returns the number of components of an export's path, if another path begins with it.
fn begins_with(path: &[u8], export: &[u8]) -> Option<usize> {
    let mut rest = components(path);
    let mut len = 0;
    for name in components(export) {
        if rest.next() != Some(name) {
            return None;
        }
        len += 1;
    }
    Some(len)
}

impl<F: FileSystem> ExportTable<F> {
    /// Creates a table.
    pub fn new(exports: impl IntoIterator<Item = Export<F>>) -> Self {
        Self::of(collect(exports))
    }

    fn of(exports: Current<F>) -> Self {
        Self(Arc::new(Shared {
            exports: RwLock::new(exports),
            mounts: Mutex::default(),
        }))
    }

    /// Replaces all exports. Calls in progress continue with the export that they have found.
    /// Handles of a file system that is no longer offered become stale; handles of one that is
    /// offered again ([`Export::of_shared`]) remain valid.
    pub fn replace(&self, exports: impl IntoIterator<Item = Export<F>>) {
        let new = collect(exports);
        // Dropping the old exports may close file systems, which must not happen under the lock.
        let _old = {
            let exports = self.0.exports.write();
            let mut exports = exports.unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *exports, new)
        };
    }

    /// Returns the current exports.
    #[must_use]
    pub fn exports(&self) -> Vec<Arc<Export<F>>> {
        self.current().to_vec()
    }

    pub(crate) fn current(&self) -> Current<F> {
        let exports = self.0.exports.read();
        exports.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds the export of a handle for a caller: the first one that admits the caller and whose
    /// file system owns the handle. If no file system owns the handle, returns the first export
    /// that admits the caller; its file system reports the error. Returns NFS3ERR_STALE if no
    /// export admits the caller.
    pub(crate) fn find(&self, cx: &Context, handle: &FileHandle) -> FsResult<Arc<Export<F>>> {
        let (client, exports) = (address(cx), self.current());
        let mut admitted = exports.iter().filter(|export| export.admits(client));
        let first = admitted.next().ok_or(Nfsstat3::Stale)?;
        // To ask a file system for a handle takes time, and the only one gets every handle.
        let Some(second) = admitted.next() else {
            return Ok(first.clone());
        };
        let owner = [first, second]
            .into_iter()
            .chain(admitted)
            .find(|export| export.file_system.owns(handle));
        Ok(owner.unwrap_or(first).clone())
    }

    /// Finds the export of a path for a caller, and the number of the export's components.
    pub(crate) fn find_path(&self, cx: &Context, path: &[u8]) -> FsResult<(Arc<Export<F>>, usize)> {
        let exports = self.current();
        let len = |export: &Export<F>| begins_with(path, export.settings().path.as_bytes());
        let longest = exports.iter().filter_map(|export| len(export)).max();
        let longest = longest.ok_or(Nfsstat3::Noent)?;
        let client = address(cx);
        let mut of_path = exports.iter().filter(|export| len(export) == Some(longest));
        let found = of_path.find(|export| export.admits(client));
        Ok((found.ok_or(Nfsstat3::Acces)?.clone(), longest))
    }

    /// Returns the list of mounts.
    pub(crate) fn mounts(&self) -> MutexGuard<'_, BTreeSet<Mount>> {
        let mounts = self.0.mounts.lock();
        mounts.unwrap_or_else(PoisonError::into_inner)
    }
}
