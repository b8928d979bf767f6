//! NFS version 3 and the MOUNT protocol (RFC 1813).
//!
//! - [`nfs3`] and [`mount3`] contain the types, and clients and the traits of services for any
//!   transport of `oncrpc`.
//! - A [`client::Client`] reads, writes and lists the files of a server: this one's, Linux's, or any
//!   other.
//! - A [`FileSystem`] is what a server offers. [`MemoryFileSystem`] is one in memory, and with the
//!   feature `host` on Linux `HostFileSystem` is a directory of the host.
//! - An [`Export`] says how it is offered. [`router`] makes the services of an export, for
//!   `oncrpc::tcp::Server` and, with the feature `rdma`, for `rpcrdma_verbs::serve`.
// `host::sys` alone allows it.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod caller;
pub mod client;
mod directory;
mod export;
mod file_system;
mod handle;
#[cfg(all(feature = "host", target_os = "linux"))]
mod host;
mod memory;
mod mount;
mod name;
mod new_object;
#[cfg(feature = "nfs4")]
pub mod nfs4_client;
mod protocol;
mod sattr;
mod service;
mod wcc;

pub use caller::{Caller, Squash};
pub use directory::{DirEntry, DirList};
pub use export::Export;
pub use file_system::{
    DirEnd, DirOp, FileSystem, FsInfo, FsResult, FsStat, PathConf, ReadData, Written,
};
pub use handle::{FileHandle, Object};
#[cfg(all(feature = "host", target_os = "linux"))]
pub use host::{HandleKey, HostConfig, HostFileSystem};
pub use memory::MemoryFileSystem;
pub use mount::MountService;
pub use name::Name;
#[cfg(feature = "nfs4")]
pub use protocol::version4::nfs4;
pub use protocol::{mount3, nfs3};
pub use service::NfsService;
pub use wcc::Wcc;

pub use oncrpc;
#[cfg(feature = "rdma")]
pub use rpcrdma_verbs;

use std::sync::Arc;

use mount3::mount_program::mount_v3;
use nfs3::nfs_program::nfs_v3;
use oncrpc::Router;

/// The services of an export.
pub type NfsRouter<F> = Router<(
    mount_v3::Server<MountService<F>>,
    (nfs_v3::Server<NfsService<F>>, ()),
)>;

/// Returns the services of an export: NFSv3, and MOUNT version 3.
///
/// An export that is offered over several transports has a router for each:
///
/// ```
/// use std::sync::Arc;
///
/// use rpcrdma_nfs::{Export, MemoryFileSystem, router};
///
/// let export = Arc::new(Export::new(MemoryFileSystem::new(1 << 30)));
/// let [tcp, rdma] = [(); 2].map(|()| router(export.clone()));
/// ```
///
/// Each has a list of mounts of its own.
pub fn router<F: FileSystem>(export: impl Into<Arc<Export<F>>>) -> NfsRouter<F> {
    let export = export.into();
    Router::new()
        .add_service(nfs_v3::serve(NfsService::new(export.clone())))
        .add_service(mount_v3::serve(MountService::new(export)))
}

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "host", target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
