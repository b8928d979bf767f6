//! The MOUNT service, version 3 (RFC 1813, section 5).
//!
//! MNT finds the export by `export_table`, and looks up the remaining names as the squashed caller.
//! `..` gets MNT3ERR_ACCES, so that no path leaves its export. The maximum numbers of mounts bound
//! the memory that clients can occupy. MNT, UMNT and UMNTALL must derive the host and the path of
//! an entry alike (`host`, `listed`), or an entry cannot be removed.

use std::collections::BTreeSet;

use oncrpc::protocol::AuthFlavor;
use oncrpc::xdr::{ListBuf, OpaqueBuf, TextBuf};
use oncrpc::{Context, Credentials, RpcError};

use crate::caller::{self, Caller};
use crate::export::Export;
use crate::export_table::{ExportTable, Mount, components};
use crate::file_system::{DirOp, FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::mount3::mount_program::mount_v3::{self, DumpResults, ExportResults, MntResults};
use crate::mount3::{Dirpath, Mountres3, Mountstat3, owned};
use crate::name::Name;
use crate::nfs3::{Ftype3, Nfsstat3};

/// The maximum entries of the list of mounts, in total and of one host. The list is informational:
/// the server makes no decision based on it.
const MAX_MOUNTS: usize = 1024;
const MAX_OF_HOST: usize = 64;

/// The MOUNT service of a table of exports. It returns the handles of their roots, and of
/// directories below them.
#[derive(Debug)]
pub struct MountService<F> {
    exports: ExportTable<F>,
}

impl<F> Clone for MountService<F> {
    fn clone(&self) -> Self {
        Self {
            exports: self.exports.clone(),
        }
    }
}

/// Returns the name of a caller's host: its address, its AUTH_SYS name, or its transport.
fn host(cx: &Context) -> String {
    match (cx.peer().address, cx.credentials()) {
        (Some(address), _) => address.ip().to_canonical().to_string(),
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

/// Returns a path in its canonical form for the list of mounts.
fn listed(path: &[u8]) -> Vec<u8> {
    let mut listed = Vec::with_capacity(path.len());
    for name in components(path) {
        listed.push(b'/');
        listed.extend_from_slice(name);
    }
    if listed.is_empty() {
        listed.push(b'/');
    }
    listed
}

/// Adds an entry to the list of mounts, if there is room.
fn add(mounts: &mut BTreeSet<Mount>, mount: Mount) {
    let of_host = mounts.range((mount.0.clone(), Vec::new())..);
    let of_host = of_host.take_while(|(host, _)| *host == mount.0).count();
    if mounts.len() < MAX_MOUNTS && of_host < MAX_OF_HOST {
        mounts.insert(mount);
    }
}

/// Finds the directory of a path below an export. `..` is never found, so that no path leaves the
/// export.
async fn find<F: FileSystem>(
    export: &Export<F>,
    caller: &Caller,
    names: impl Iterator<Item = &[u8]>,
) -> FsResult<FileHandle> {
    let fs = export.file_system();
    let mut dir = fs.root();
    for name in names {
        let name = Name::new(name)?.or_if_dots(Nfsstat3::Acces)?;
        let op = DirOp { dir: &dir, name };
        dir = fs.lookup(caller, op, &mut None).await?.handle;
    }
    match fs.attributes(&dir).await?.r#type {
        Ftype3::Dir => Ok(dir),
        _ => Err(Nfsstat3::Notdir),
    }
}

impl<F: FileSystem> MountService<F> {
    /// Serves exports.
    #[must_use]
    pub fn new(exports: impl Into<ExportTable<F>>) -> Self {
        Self {
            exports: exports.into(),
        }
    }

    /// Finds the directory of a path.
    async fn mount(&self, cx: &Context, path: &[u8]) -> Result<FsResult<FileHandle>, RpcError> {
        let (export, skipped) = match self.exports.find_path(cx, path) {
            Ok(found) if path.starts_with(b"/") => found,
            Ok(_) => return Ok(Err(Nfsstat3::Noent)),
            Err(status) => return Ok(Err(status)),
        };
        let caller = export.caller(cx)?;
        Ok(find(&export, &caller, components(path).skip(skipped)).await)
    }
}

/// MNT, UMNT and UMNTALL need AUTH_SYS credentials.
impl<F: FileSystem> mount_v3::Service for MountService<F> {
    async fn mnt(&self, cx: &Context, path: Dirpath<'_>) -> Result<MntResults<'_>, RpcError> {
        caller::user(cx.credentials())?;
        Ok(match self.mount(cx, path.as_bytes()).await? {
            Ok(handle) => {
                let mount = (host(cx), listed(path.as_bytes()));
                add(&mut self.exports.mounts(), mount);
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
        let mounts = self.exports.mounts().clone();
        let bodies = mounts.into_iter().map(|(host, path)| owned::MountbodyItem {
            hostname: TextBuf::new(host).unwrap_or_default(),
            directory: TextBuf::from_bytes(path).unwrap_or_default(),
        });
        Ok(bodies.collect::<ListBuf<_>>().into())
    }

    async fn umnt(&self, cx: &Context, path: Dirpath<'_>) -> Result<(), RpcError> {
        caller::user(cx.credentials())?;
        let mount = (host(cx), listed(path.as_bytes()));
        self.exports.mounts().remove(&mount);
        Ok(())
    }

    async fn umntall(&self, cx: &Context) -> Result<(), RpcError> {
        caller::user(cx.credentials())?;
        let caller = host(cx);
        self.exports.mounts().retain(|(host, _)| *host != caller);
        Ok(())
    }

    async fn export(&self, _: &Context) -> Result<ExportResults<'_>, RpcError> {
        let exports = self.exports.current();
        let nodes = exports.iter().map(|export| {
            let settings = export.settings();
            // An empty list of groups means every client.
            let groups = settings
                .networks
                .iter()
                .map(|network| TextBuf::new(network.to_string()).unwrap_or_default());
            owned::ExportnodeItem {
                dir: TextBuf::new(settings.path.clone()).unwrap_or_default(),
                groups: groups.collect(),
            }
        });
        Ok(nodes.collect::<ListBuf<_>>().into())
    }
}
