//! The cases of the client with another NFS server on the same machine, over RDMA and TCP. Results
//! are compared with the server's disk.
//!
//! `RPCRDMA_DEVICE` names an RDMA device, `RPCRDMA_NFSD` the RDMA address of the server,
//! `RPCRDMA_NFSD_TCP` and `RPCRDMA_MOUNTD` its TCP address and that of its mountd, and
//! `RPCRDMA_EXPORT` the directory that it exports.

pub(crate) mod cases;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncrpc::{AuthSys, CallOptions, Channel, tcp};
use rpcrdma_nfs::client::{Client, mount};
use rpcrdma_nfs::nfs3::{Createhow3, Sattr3, SetMode3};
use rpcrdma_nfs::{FileHandle, Object};
use rpcrdma_verbs::ClientConfig;
use rpcrdma_verbs::provider::any::AnyDevice;

type Nfs = Client<Channel>;

/// A directory of the server: its handle at the client, and its path on the server's disk.
pub(crate) struct Exported {
    pub(crate) nfs: Nfs,
    pub(crate) dir: FileHandle,
    pub(crate) disk: PathBuf,
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        println!("{name} is missing: there is nothing to run this on");
    }
    value
}

async fn connect(over_rdma: bool) -> Channel {
    if !over_rdma {
        return tcp::connect(&variable("RPCRDMA_NFSD_TCP").unwrap())
            .await
            .unwrap();
    }
    let device = AnyDevice::open(&variable("RPCRDMA_DEVICE").unwrap()).unwrap();
    let server = variable("RPCRDMA_NFSD").unwrap();
    rpcrdma_verbs::connect(&device, server, ClientConfig::new()).unwrap()
}

/// Mounts the export, and makes a directory in it.
pub(crate) async fn exported(name: &str, over_rdma: bool) -> Exported {
    let [mountd, export] = ["RPCRDMA_MOUNTD", "RPCRDMA_EXPORT"].map(|name| variable(name).unwrap());
    let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
    let options = options.timeout(Duration::from_secs(20));
    let mounting = tcp::connect(&mountd).await.unwrap();
    let root = mount(mounting, &options, &export).await.unwrap();
    let nfs = Client::new(connect(over_rdma).await, options, root);
    let nfs = nfs.await.unwrap();
    let name = format!("{name}-{over_rdma}");
    let dir = nfs.make_dir(&root, &name, &mode(0o755)).await.unwrap();
    let dir = dir.handle;
    let disk = Path::new(&export).join(name);
    Exported { nfs, dir, disk }
}

/// Runs a test, if there is a server.
pub(crate) fn run(test: impl AsyncFnOnce()) {
    if variable("RPCRDMA_NFSD").is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test());
}

/// Runs a test over RDMA and over TCP, each time in a new directory.
pub(crate) fn with_server(name: &str, test: impl AsyncFn(&Exported)) {
    run(async || {
        for over_rdma in [true, false] {
            test(&exported(name, over_rdma).await).await;
        }
    });
}

pub(crate) fn mode(bits: u32) -> Sattr3 {
    Sattr3 {
        mode: SetMode3::True(bits),
        ..Sattr3::UNSET
    }
}

impl Exported {
    pub(crate) async fn create(&self, name: &str) -> Object {
        let how = Createhow3::Guarded(mode(0o644));
        self.nfs.create(&self.dir, name, &how).await.unwrap()
    }

    /// Returns the content of a file on the server's disk.
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.disk.join(name)).unwrap()
    }

    /// The tested lengths: around 4 bytes, a page, 64 KiB, and the maximum transfer size.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        let limits = self.nfs.limits();
        let (read, write) = (limits.read as usize, limits.write as usize);
        let around = [4, 4096, 65_536, read, write];
        let mut lengths: Vec<usize> = around.iter().flat_map(|at| at - 1..=at + 1).collect();
        lengths.extend([0, 1, 77, 3 * write + 5]);
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }
}

pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..=250).cycle().skip(seed % 251).take(len).collect()
}
