//! Copies of file data in user space between RDMA and a directory of the host: none. The transport
//! counts what it copies into and out of its buffers, and the allocator what a copy elsewhere would
//! need.
//!
//! There is one recorder of metrics in a process: one test.
#![cfg(all(feature = "host", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "backends/mod.rs"]
mod backends;

use std::alloc::System;
use std::time::{Duration, Instant};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use oncrpc::xdr::{Opaque, SharedBytes, Text};
use oncrpc::{AuthSys, CallOptions, Channel};
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3::Client;
use rpcrdma_nfs::nfs3::owned::{Create3res, PostOpFh3, Read3res, Write3res};
use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Diropargs3, NfsFh3, Read3args, Sattr3, StableHow, Write3args,
};
use rpcrdma_nfs::{FileSystem, MemoryFileSystem, router};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerConfig, connect, serve};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use backends::Offer;
use backends::host::HostDir;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LEN: u32 = 1 << 20;
const ROUNDS: u64 = 50;
/// The bytes of one call and its reply that are not file data: headers, handles, attributes, and
/// what tasks allocate.
const OTHER_BYTES: u64 = 16 << 10;

fn fh(handle: &[u8]) -> NfsFh3<'_> {
    NfsFh3 {
        data: Opaque::new(handle).unwrap(),
    }
}

/// A client, and a file with nothing in it.
struct File {
    channel: Channel,
    nfs: Client<Channel>,
    handle: Vec<u8>,
}

impl File {
    async fn create(channel: Channel, root: &[u8]) -> Self {
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
        let nfs = Client::new(channel.clone()).with_options(options);
        let args = Create3args {
            r#where: Diropargs3 {
                dir: fh(root),
                name: Text::new("file").unwrap(),
            },
            how: Createhow3::Guarded(Sattr3::UNSET),
        };
        let Create3res::Ok(created) = nfs.create(&args).await.unwrap() else {
            panic!("not created");
        };
        let PostOpFh3::True(handle) = created.obj else {
            panic!("no handle");
        };
        let handle = handle.data.into_inner();
        Self {
            channel,
            nfs,
            handle,
        }
    }

    /// Returns bytes in the memory of the transport.
    fn registered(&self, len: usize) -> SharedBytes {
        let mut buf = self.channel.item_buf(len);
        for (byte, value) in buf.iter_mut().zip((0..251).cycle()) {
            *byte = value;
        }
        buf.into_shared(len)
    }

    async fn write(&self, data: SharedBytes, stable: StableHow) {
        let count = u32::try_from(data.len()).unwrap();
        let args = Write3args {
            file: fh(&self.handle),
            offset: 0,
            count,
            stable,
            data: data.into(),
        };
        let Write3res::Ok(written) = self.nfs.write(&args).await.unwrap() else {
            panic!("not written");
        };
        assert_eq!(written.count, count);
    }

    async fn read(&self, expected: &[u8]) {
        let args = Read3args {
            file: fh(&self.handle),
            offset: 0,
            count: LEN,
        };
        let Read3res::Ok(read) = self.nfs.read(&args).await.unwrap() else {
            panic!("not read");
        };
        assert!(read.data.get(..) == Some(expected), "other bytes");
    }

    /// Writes and reads, a MiB each time.
    async fn move_data(&self, rounds: u64) {
        let data = self.registered(LEN as usize);
        for _ in 0..rounds {
            self.write(data.clone(), StableHow::Unstable).await;
            self.read(&data).await;
        }
    }
}

/// Returns how many bytes the server's transport has copied since its start. It says so once a
/// second.
fn copied_by_transport(snapshotter: &Snapshotter) -> u64 {
    let take = || {
        let all = snapshotter.snapshot().into_vec();
        all.into_iter().find_map(|(key, _, _, value)| match value {
            DebugValue::Counter(bytes) if key.key().name() == "rdma_copied_bytes_total" => {
                Some(bytes)
            }
            _ => None,
        })
    };
    // What was published before is taken away.
    take();
    let began = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        match take() {
            Some(bytes) if bytes > 0 => return bytes,
            _ => assert!(began.elapsed() < Duration::from_secs(60), "no metrics"),
        }
    }
}

/// What WRITEs and READs of a MiB took on the server, and on the client.
#[derive(Debug)]
struct Cost {
    copied_by_transport: u64,
    allocated: u64,
}

fn cost(file_system: impl FileSystem, snapshotter: &Snapshotter) -> Cost {
    let root = file_system.root().as_bytes().to_vec();
    let services = router(Offer::OPEN.export(file_system));
    let fabric = Fabric::new();
    let address = "127.0.0.1:0".parse().unwrap();
    let config = ServerConfig::new().publish_metrics("server");
    let server = serve(&fabric.device(), address, config, move || services).unwrap();
    let address = server.local_addr();
    let channel = connect(&fabric.device(), address, ClientConfig::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let file = runtime.block_on(File::create(channel, &root));
    // Buffers grow.
    runtime.block_on(file.move_data(10));
    let copied = copied_by_transport(snapshotter);
    let region = Region::new(ALLOCATOR);
    runtime.block_on(file.move_data(ROUNDS));
    let allocated = region.change().bytes_allocated as u64;
    let copied_by_transport = copied_by_transport(snapshotter) - copied;
    drop(file);
    server.drain().unwrap();
    Cost {
        copied_by_transport,
        allocated,
    }
}

#[test]
fn no_file_data_is_copied_in_user_space() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let dir = HostDir::new(0o777);
    let host = cost(dir.open(), &snapshotter);
    println!("{ROUNDS} WRITEs and READs of a MiB: {host:?}");
    let limit = 2 * ROUNDS * OTHER_BYTES;
    assert!(host.copied_by_transport < limit, "{host:?}");
    assert!(host.allocated < limit, "{host:?}");
    // The headers of replies are copied, and counted.
    assert!(host.copied_by_transport > 2 * ROUNDS * 64, "{host:?}");

    // A file in memory is read into one piece, and this is counted.
    let memory = MemoryFileSystem::new(64 << 20).root_owner(0, 0, 0o777);
    let memory = cost(memory, &snapshotter);
    assert!(memory.allocated > ROUNDS * u64::from(LEN), "{memory:?}");
}
