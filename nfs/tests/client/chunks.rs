//! The chunks of the client's calls (RFC 8267, section 4): data of READ, READLINK, WRITE and
//! SYMLINK that are more than a few, and replies that are longer than a receive buffer.

use std::time::Duration;

use oncrpc::{Channel, loopback};
use rpcrdma_nfs::client::{Client, TransferLimits, mount};
use rpcrdma_nfs::nfs3::{Sattr3, StableHow};
use rpcrdma_nfs::{ExportTable, FileHandle, MemoryFileSystem, router};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, RunningServer, ServerConfig, connect, serve};

use crate::backends::Offer;
use crate::chunk_counts::{self, reads_and_writes, record, row};
use crate::client::support::{Nfs, file, mode, options, pattern};

type Row = chunk_counts::Row<Nfs>;

async fn find(nfs: &Nfs, name: &str) -> FileHandle {
    nfs.lookup(nfs.root(), name).await.unwrap().handle
}

/// A row of READs of the file of 300,000 bytes.
fn read(name: &'static str, moved: [u64; 2], at: usize, len: usize) -> Row {
    row(name, moved, move |nfs| {
        Box::pin(async move {
            let mut into = vec![0; len];
            let file = find(nfs, "file").await;
            let count = nfs.read_into(&file, at as u64, &mut into).await.unwrap();
            assert_eq!(count, len.min(300_000 - at));
        })
    })
}

/// A row of WRITEs to another file.
fn write(name: &'static str, moved: [u64; 2], len: usize) -> Row {
    row(name, moved, move |nfs| {
        Box::pin(async move {
            let file = find(nfs, "written").await;
            let data = pattern(len, 1);
            let written = nfs.write_all(&file, 7, &data[..], StableHow::Unstable);
            written.await.unwrap();
        })
    })
}

fn read_link(name: &'static str, moved: [u64; 2], len: usize) -> Row {
    row(name, moved, move |nfs| {
        Box::pin(async move {
            let link = find(nfs, &format!("link-{len}")).await;
            assert_eq!(nfs.read_link(&link).await.unwrap().len(), len);
        })
    })
}

/// A row of READDIR or READDIRPLUS of the directory of 42 entries.
fn list(name: &'static str, moved: [u64; 2], is_plus: bool) -> Row {
    row(name, moved, move |nfs| {
        Box::pin(async move {
            let dir = find(nfs, "dir").await;
            let mut stream = match is_plus {
                true => nfs.read_dir_plus(&dir),
                false => nfs.read_dir(&dir),
            };
            let mut entries = 0;
            while let Some(part) = stream.next().await.unwrap() {
                entries += part.len();
            }
            assert_eq!(entries, 42);
        })
    })
}

fn rows() -> Vec<Row> {
    vec![
        read("READ of 100 bytes", [0, 0], 0, 100),
        read("READ of 5,000 bytes", [0, 1], 3, 5000),
        read("READ at the end", [0, 0], 300_000, 5000),
        read("three READs", [0, 3], 0, 300_000),
        write("WRITE of 100 bytes", [0, 0], 100),
        write("WRITE of 5,000 bytes", [1, 0], 5000),
        write("three WRITEs", [3, 0], 300_000),
        read_link("READLINK of 100 bytes", [0, 0], 100),
        read_link("READLINK of 4,000 bytes", [0, 1], 4000),
        list("READDIR", [0, 0], false),
        list("READDIRPLUS by a Reply chunk", [0, 1], true),
        row("SYMLINK of 4,000 bytes", [1, 0], |nfs: &Nfs| {
            Box::pin(async {
                let (root, path) = (nfs.root(), pattern(4000, 1));
                let made = nfs.make_symlink(root, "other", &path, &Sattr3::UNSET);
                made.await.unwrap();
                nfs.remove(root, "other").await.unwrap();
            })
        }),
    ]
}

/// The file system of all servers.
type Exports = ExportTable<MemoryFileSystem>;

/// A server, and its client.
struct World {
    nfs: Nfs,
    _server: RunningServer,
}

async fn client(channel: Channel) -> Nfs {
    let root = mount(&channel, &options(), "/").await.unwrap();
    let mut limits = TransferLimits::DEFAULT;
    (limits.read, limits.write) = (100_000, 100_000);
    let nfs = Client::with_limits(channel, options(), root, limits);
    nfs.await.unwrap()
}

impl World {
    /// Serves over RDMA. The server's metrics have the name.
    async fn new(name: &str, exports: Exports, max_version: Version) -> Self {
        let (fabric, any) = (Fabric::new(), "127.0.0.1:0".parse().unwrap());
        let version = |config| Config {
            max_version,
            ..config
        };
        let config = ServerConfig::new().protocol(version(Config::server()));
        let config = config.publish_metrics(name);
        let server = serve(&fabric.device(), any, config, move || router(exports)).unwrap();
        let config = ClientConfig::new().protocol(version(Config::client()));
        let channel = connect(&fabric.device(), server.local_addr(), config).unwrap();
        Self {
            nfs: client(channel).await,
            _server: server,
        }
    }
}

async fn files(nfs: &Nfs) {
    let root = nfs.root();
    file(nfs, root, "written").await;
    let made = file(nfs, root, "file").await;
    let data = pattern(300_000, 0);
    let written = nfs.write_all(&made.handle, 0, &data[..], StableHow::Unstable);
    written.await.unwrap();
    for len in [100, 4000] {
        let path = pattern(len, 1);
        let made = nfs.make_symlink(root, format!("link-{len}"), &path, &Sattr3::UNSET);
        made.await.unwrap();
    }
    let dir = nfs.make_dir(root, "dir", &mode(0o755)).await.unwrap();
    for number in 0..40 {
        file(nfs, &dir.handle, &number.to_string()).await;
    }
}

#[test]
fn data_and_long_replies_have_their_chunks() {
    record();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let test = async {
        let memory = MemoryFileSystem::new(8 << 20).root_owner(0, 0, 0o777);
        let exports = ExportTable::from(Offer::OPEN.export(memory));
        let (channel, runner) = loopback(router(exports.clone()));
        tokio::spawn(runner);
        files(&client(channel).await).await;
        let (rows, mut worlds, mut names) = (rows(), Vec::new(), Vec::new());
        for version in [Version::One, Version::Two] {
            for row in &rows {
                let name = format!("{} over Version {version:?}", row.name);
                worlds.push(World::new(&name, exports.clone(), version).await);
                names.push(name);
            }
        }
        let calls = async {
            for (world, row) in worlds.iter().zip(rows.iter().cycle()) {
                (row.calls)(&world.nfs).await;
            }
        };
        let moved = reads_and_writes(&names, calls).await;
        let expected = rows.iter().cycle().map(|row| row.moved);
        let found: Vec<_> = names.iter().zip(moved).collect();
        let expected: Vec<_> = names.iter().zip(expected).collect();
        assert_eq!(found, expected);
    };
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("hangs") });
}
