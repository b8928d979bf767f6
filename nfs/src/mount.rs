//! The MOUNT service, version 3 (RFC 1813, section 5).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncrpc::protocol::AuthFlavor;
use oncrpc::xdr::{ListBuf, OpaqueBuf, TextBuf};
use oncrpc::{Context, Credentials, RpcError};

use crate::caller::Caller;
use crate::export::Export;
use crate::file_system::{DirOp, FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::mount3::mount_program::mount_v3::{self, DumpResults, ExportResults, MntResults};
use crate::mount3::{Dirpath, Mountres3, Mountstat3, owned};
use crate::name::Name;
use crate::nfs3::{Ftype3, Nfsstat3};

/// The most entries of the list of mounts. It informs people and decides nothing.
const MAX_MOUNTS: usize = 1024;

/// A client's host, and a path that it has mounted.
type Mount = (String, Vec<u8>);

/// The MOUNT service of an export: it gives out the handles of the export's root and of
/// directories below it.
#[derive(Debug)]
pub struct MountService<F> {
    export: Arc<Export<F>>,
    mounts: Arc<Mutex<BTreeSet<Mount>>>,
}

/// Clones have the same list of mounts.
impl<F> Clone for MountService<F> {
    fn clone(&self) -> Self {
        Self {
            export: self.export.clone(),
            mounts: self.mounts.clone(),
        }
    }
}

/// Returns the name of a caller's host: its address, or what it calls itself.
fn host(cx: &Context) -> String {
    match (cx.peer().address, cx.credentials()) {
        (Some(address), _) => address.ip().to_string(),
        (None, Credentials::Sys(user)) => user.machine.clone(),
        (None, _) => cx.peer().transport.to_owned(),
    }
}

/// Returns the status of MNT for an error of the file system.
fn mount_status(status: Nfsstat3) -> Mountstat3 {
    match status {
        Nfsstat3::Perm => Mountstat3::Perm,
        Nfsstat3::Noent | Nfsstat3::Stale => Mountstat3::Noent,
        Nfsstat3::Io => Mountstat3::Io,
        Nfsstat3::Acces => Mountstat3::Acces,
        Nfsstat3::Notdir => Mountstat3::Notdir,
        Nfsstat3::Inval => Mountstat3::Inval,
        Nfsstat3::Nametoolong => Mountstat3::Nametoolong,
        Nfsstat3::Notsupp => Mountstat3::Notsupp,
        _ => Mountstat3::Serverfault,
    }
}

/// Returns the components of a path; `.` and empty ones count for nothing.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = path.split(|byte| *byte == b'/');
    all.filter(|name| !name.is_empty() && *name != b".")
}

/// Returns what is left of a path below an export; `None` if it is not below.
fn below<'p>(path: &'p [u8], export: &[u8]) -> Option<impl Iterator<Item = &'p [u8]>> {
    let mut rest = components(path);
    for name in components(export) {
        if rest.next() != Some(name) {
            return None;
        }
    }
    Some(rest)
}

impl<F: FileSystem> MountService<F> {
    /// Serves an export.
    #[must_use]
    pub fn new(export: Arc<Export<F>>) -> Self {
        Self {
            export,
            mounts: Arc::default(),
        }
    }

    fn mounts(&self) -> MutexGuard<'_, BTreeSet<Mount>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the directory of a path. `..` leads nowhere, so that no path leaves the export.
    async fn find(&self, caller: &Caller, path: &[u8]) -> FsResult<FileHandle> {
        let fs = &self.export.file_system;
        let names = below(path, self.export.path.as_bytes()).ok_or(Nfsstat3::Noent)?;
        if !path.starts_with(b"/") {
            return Err(Nfsstat3::Noent);
        }
        let mut dir = fs.root();
        for name in names {
            let name = Name::new(name)?.or_if_dots(Nfsstat3::Acces)?;
            dir = fs.lookup(caller, DirOp { dir: &dir, name }).await?.handle;
        }
        match fs.attributes(&dir).await?.r#type {
            Ftype3::Dir => Ok(dir),
            _ => Err(Nfsstat3::Notdir),
        }
    }

    /// Adds an entry to the list of mounts, if there is room.
    fn add_mount(&self, cx: &Context, path: &[u8]) {
        let mut mounts = self.mounts();
        if mounts.len() < MAX_MOUNTS {
            mounts.insert((host(cx), path.to_vec()));
        }
    }
}

/// MNT, UMNT and UMNTALL need credentials of AUTH_SYS.
impl<F: FileSystem> mount_v3::Service for MountService<F> {
    async fn mnt(&self, cx: &Context, path: Dirpath<'_>) -> Result<MntResults<'_>, RpcError> {
        let caller = self.export.caller(cx)?;
        Ok(match self.find(&caller, path.as_bytes()).await {
            Ok(handle) => {
                self.add_mount(cx, path.as_bytes());
                let ok = owned::Mountres3Ok {
                    fhandle: OpaqueBuf::new(handle.as_bytes().to_vec())?,
                    auth_flavors: vec![AuthFlavor::AuthSys.value()],
                };
                owned::Mountres3::Ok(ok.into()).into()
            }
            Err(status) => Mountres3::Default(mount_status(status)).into(),
        })
    }

    async fn dump(&self, _: &Context) -> Result<DumpResults<'_>, RpcError> {
        let mounts = self.mounts().clone();
        let bodies = mounts.into_iter().map(|(host, path)| owned::MountbodyItem {
            hostname: TextBuf::new(host).unwrap_or_default(),
            directory: TextBuf::from_bytes(path).unwrap_or_default(),
        });
        Ok(bodies.collect::<ListBuf<_>>().into())
    }

    async fn umnt(&self, cx: &Context, path: Dirpath<'_>) -> Result<(), RpcError> {
        self.export.caller(cx)?;
        self.mounts().remove(&(host(cx), path.as_bytes().to_vec()));
        Ok(())
    }

    async fn umntall(&self, cx: &Context) -> Result<(), RpcError> {
        self.export.caller(cx)?;
        let caller = host(cx);
        self.mounts().retain(|(host, _)| *host != caller);
        Ok(())
    }

    async fn export(&self, _: &Context) -> Result<ExportResults<'_>, RpcError> {
        // An empty list of groups stands for everybody.
        let export = owned::ExportnodeItem {
            dir: TextBuf::new(self.export.path.clone()).unwrap_or_default(),
            groups: ListBuf::new(),
        };
        Ok(ListBuf::from(vec![export]).into())
    }
}
