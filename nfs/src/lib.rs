//! NFS version 3 and the MOUNT protocol (RFC 1813).
//!
//! - [`nfs3`] and [`mount3`] contain the types, clients and service traits for any transport of
//!   `oncrpc`.
//! - [`rpcb`] and [`pmap`] contain the same for RPCBIND, versions 2 to 4 (RFC 1833). An [`Rpcbind`]
//!   registers a server.
//! - A [`client::Client`] reads, writes and lists the files of any NFSv3 server.
//! - A [`FileSystem`] is served to clients. [`MemoryFileSystem`] is in memory. With the feature
//!   `host` on Linux, `HostFileSystem` is a directory of the host.
//! - An [`Export`] offers a file system to clients, and an [`ExportTable`] contains all exports of
//!   a server. [`router`] creates their services, for `oncrpc::tcp::Server` and, with the feature
//!   `rdma`, for `rpcrdma_verbs::serve`.
//!
//! ```no_run
//! use rpcrdma_nfs::oncrpc::tcp::Server;
//! use rpcrdma_nfs::{Export, MemoryFileSystem, router};
//!
//! # #[tokio::main]
//! # async fn main() -> std::io::Result<()> {
//! let export = Export::new(MemoryFileSystem::new(1 << 30));
//! Server::bind("127.0.0.1:2049", router(export)).await?.run().await;
//! # Ok(())
//! # }
//! ```
// Only `host::sys` allows it.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod caller;
pub mod client;
mod directory;
mod export;
mod export_table;
mod file_system;
mod handle;
#[cfg(all(feature = "host", target_os = "linux"))]
mod host;
mod memory;
mod mount;
mod name;
mod network;
#[cfg(feature = "nfs4")]
pub mod nfs4_client;
mod protocol;
mod rpcbind;
mod sattr;
mod service;
mod special_objects;
mod wcc;

pub use caller::{Caller, Squash};
pub use directory::{DirEntry, DirList};
pub use export::{Export, ExportSettings};
pub use export_table::ExportTable;
pub use file_system::{
    DirEnd, DirOp, FileSystem, FsInfo, FsResult, FsStat, PathConf, ReadData, Written,
};
pub use handle::{FileHandle, Object};
#[cfg(all(feature = "host", target_os = "linux"))]
pub use host::{HandleKey, HostConfig, HostFileSystem};
pub use memory::MemoryFileSystem;
pub use mount::MountService;
pub use name::Name;
pub use network::{Network, NetworkError};
#[cfg(feature = "nfs4")]
pub use protocol::version4::nfs4;
pub use protocol::{mount3, nfs3, pmap, rpcb};
pub use rpcbind::{Rpcbind, RpcbindEntry, RpcbindError, RpcbindTransport};
pub use service::NfsService;
pub use wcc::Wcc;

pub use oncrpc;
#[cfg(feature = "rdma")]
pub use rpcrdma_verbs;

use mount3::mount_program::mount_v3;
use nfs3::nfs_program::nfs_v3;
use oncrpc::Router;

/// The services of the exports of a server.
pub type NfsRouter<F> = Router<(
    mount_v3::Server<MountService<F>>,
    (nfs_v3::Server<NfsService<F>>, ()),
)>;

/// Returns the services of an [`Export`], or of all exports of an [`ExportTable`]: NFSv3, and MOUNT
/// version 3.
///
/// Exports that are offered over several transports need a router for each:
///
/// ```
/// use rpcrdma_nfs::{Export, ExportTable, MemoryFileSystem, router};
///
/// let exports = ExportTable::from(Export::new(MemoryFileSystem::new(1 << 30)));
/// let [tcp, rdma] = [(); 2].map(|()| router(exports.clone()));
/// ```
///
/// The routers of one table share one list of mounts.
///
/// Calls take as long as the file system needs ([`Router::without_handler_time`]): a slow disk
/// delays replies, and does not make them fail.
pub fn router<F: FileSystem>(exports: impl Into<ExportTable<F>>) -> NfsRouter<F> {
    let exports = exports.into();
    Router::new()
        .without_handler_time()
        .add_service(nfs_v3::serve(NfsService::new(exports.clone())))
        .add_service(mount_v3::serve(MountService::new(exports)))
}

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "host", target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
