//! COMPOUNDs with more than one chunk. The server's transport counts its RDMA Reads and Writes: a
//! chunk here is one of either, and data in the message are none.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use oncrpc::xdr::Item;
use rpcrdma_nfs::nfs4::StableHow4;
use rpcrdma_nfs::nfs4::owned::{NfsResop4, Read4res};
use rpcrdma_nfs::nfs4_client::{Nfs4Compound, Nfs4Results};

use crate::{ALL, NOBODY, RDMA, World, run};

impl World {
    /// Data in memory of the transport.
    fn registered(&self, data: &[u8]) -> Item<'static> {
        let channel = self.nfs.session().stubs().transport();
        let mut buf = channel.item_buf(data.len());
        buf.copy_from_slice(data);
        buf.into_item(data.len())
    }

    /// Returns the RDMA Reads and Writes of the server since its start. It publishes them once a
    /// second.
    async fn reads_and_writes(&self) -> [u64; 2] {
        // What was published before is taken away.
        self.published();
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Some(counts) = self.published() {
                return counts;
            }
        }
    }

    fn published(&self) -> Option<[u64; 2]> {
        let label = format!("{}-0", self.name);
        let (mut counts, mut sends) = ([0; 2], 0);
        for (key, _, _, value) in recorded().snapshot().into_vec() {
            let key = key.key();
            let is_ours = key.labels().any(|found| found.value() == label);
            if let (true, DebugValue::Counter(count)) = (is_ours, value) {
                match key.name() {
                    "rdma_reads_total" => counts[0] = count,
                    "rdma_writes_total" => counts[1] = count,
                    "rdma_sends_total" => sends = count,
                    _ => {}
                }
            }
        }
        (sends > 0).then_some(counts)
    }
}

/// There is one recorder in a process, and one test takes what it recorded.
fn recorded() -> &'static Snapshotter {
    static RECORDED: OnceLock<Snapshotter> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        snapshotter
    })
}

const FIRST: [u8; 16_384] = [5; 16_384];
static SECOND: [u8; 40_001] = [6; 40_001];

fn lengths(results: Nfs4Results) -> Vec<usize> {
    let lengths = results.filter_map(|result| match result {
        NfsResop4::Read(Read4res::Ok(ok)) => Some(ok.data.len()),
        _ => None,
    });
    lengths.collect()
}

/// Writes with two WRITEs, and reads with two READs and one at the end of the file.
async fn write_and_read(world: &World, data: [Item<'_>; 2]) {
    let nfs = &world.nfs;
    let (file, _) = nfs.lookup(nfs.root(), b"file").await.unwrap();
    let [first, second] = data;
    let after = FIRST.len() as u64;
    let mut request = Nfs4Compound::new();
    request
        .put_handle(file.as_borrowed())
        .write(NOBODY, 0, StableHow4::FileSync4, first)
        .write(NOBODY, after, StableHow4::FileSync4, second);
    let results = nfs.session().compound(request).await.unwrap();
    assert_eq!(results.count(), 3);
    let content = world.server.file("file").unwrap();
    assert!(content == [&FIRST[..], &SECOND[..]].concat());
    let mut request = Nfs4Compound::new();
    request
        .put_handle(file.as_borrowed())
        .read(NOBODY, 1 << 20, 100)
        .read(NOBODY, 1, 16_383)
        .read(NOBODY, after, 50_000);
    let results = nfs.session().compound(request).await.unwrap();
    assert_eq!(lengths(results), [0, 16_383, 40_001]);
}

#[test]
fn a_compound_may_have_several_writes_and_reads() {
    run(async {
        for carrier in ALL {
            let world = carrier.world(4).await;
            world.server.add_file("file", &[]);
            write_and_read(&world, [(&FIRST[..]).into(), (&SECOND[..]).into()]).await;
        }
    });
}

/// Data in memory of the transport have a Read chunk each, and the data of each READ a Write chunk
/// (RFC 8267, section 5).
#[test]
fn each_write_and_read_has_its_chunk() {
    recorded();
    run(async {
        for carrier in RDMA {
            let world = carrier.world(4).await;
            world.server.add_file("file", &[]);
            let data = [world.registered(&FIRST), world.registered(&SECOND)];
            let before = world.reads_and_writes().await;
            write_and_read(&world, data).await;
            let after = world.reads_and_writes().await;
            let moved = [after[0] - before[0], after[1] - before[1]];
            assert_eq!(moved, [2, 2], "{carrier:?}");
        }
    });
}
