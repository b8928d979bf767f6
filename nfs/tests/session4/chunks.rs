//! The chunks of COMPOUNDs (RFC 8267, section 5): data in memory of the transport have a Read chunk
//! each, and the data of each READ a Write chunk. The replies to READLINK have a Reply chunk.

use oncrpc::xdr::Item;
use rpcrdma_nfs::nfs4::StableHow4;
use rpcrdma_nfs::nfs4::owned::{NfsFh4, NfsResop4, Read4res};
use rpcrdma_nfs::nfs4_client::{Nfs4Compound, Nfs4Results};

use crate::chunk_counts::{self, reads_and_writes, record, row};
use crate::session4::{ALL, Carrier, NOBODY, RDMA, World, run};

impl World {
    /// Data in memory of the transport.
    fn registered(&self, data: &[u8]) -> Item<'static> {
        let channel = self.nfs.session().stubs().transport();
        let mut buf = channel.item_buf(data.len());
        buf.copy_from_slice(data);
        buf.into_item(data.len())
    }
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

type Row = chunk_counts::Row<World>;

async fn find(world: &World, name: &[u8]) -> NfsFh4 {
    let nfs = &world.nfs;
    nfs.lookup(nfs.root(), name).await.unwrap().0
}

/// A row of the READ of a file that has this many bytes.
fn read(name: &'static str, moved: [u64; 2], len: usize) -> Row {
    row(name, moved, move |world: &World| {
        Box::pin(async move {
            world.server.add_file("file", &vec![5; len]);
            let file = find(world, b"file").await;
            let part = world.nfs.read(&file, NOBODY, 0, 16_384).await.unwrap();
            assert_eq!(part.data.len(), len);
        })
    })
}

/// A row of the WRITE of data, which are in memory of the transport or elsewhere.
fn write(name: &'static str, moved: [u64; 2], data: &'static [u8], is_registered: bool) -> Row {
    row(name, moved, move |world: &World| {
        Box::pin(async move {
            let file = find(world, b"empty").await;
            let item = match is_registered {
                true => world.registered(data),
                false => data.into(),
            };
            let stable = StableHow4::FileSync4;
            let written = world.nfs.write(&file, NOBODY, 0, item, stable).await;
            assert_eq!(written.unwrap().count as usize, data.len());
        })
    })
}

/// A row of READLINK. The server returns the content of a file as a path.
fn read_link(name: &'static str, moved: [u64; 2], len: usize) -> Row {
    row(name, moved, move |world: &World| {
        Box::pin(async move {
            world.server.add_file("link", &vec![b'p'; len]);
            let link = find(world, b"link").await;
            assert_eq!(world.nfs.read_link(&link).await.unwrap().len(), len);
        })
    })
}

fn rows() -> Vec<Row> {
    vec![
        read("READ of 100 bytes", [0, 0], 100),
        read("READ of 16,384 bytes", [0, 1], 16_384),
        read("READ of an empty file", [0, 0], 0),
        write("WRITE of 100 bytes", [0, 0], &FIRST[..100], true),
        write("WRITE of registered data", [1, 0], &FIRST, true).with_rtr([0, 0]),
        write("WRITE of other data", [1, 0], &FIRST, false).with_rtr([0, 0]),
        read_link("READLINK of 100 bytes", [0, 0], 100),
        read_link("READLINK by a Reply chunk", [0, 1], 4096).with_rtr([0, 0]),
        row("two WRITEs, and two READs", [2, 2], |world: &World| {
            Box::pin(async {
                let data = [world.registered(&FIRST), world.registered(&SECOND)];
                write_and_read(world, data).await;
            })
        }),
        row("WRITE and READ in one COMPOUND", [1, 1], |world: &World| {
            Box::pin(async {
                let file = find(world, b"empty").await;
                let mut request = Nfs4Compound::new();
                let data = world.registered(&FIRST);
                request
                    .put_handle(file.as_borrowed())
                    .write(NOBODY, 0, StableHow4::FileSync4, data)
                    .read(NOBODY, 0, 20_000);
                let results = world.nfs.session().compound(request).await.unwrap();
                assert_eq!(lengths(results), [FIRST.len()]);
            })
        })
        .with_rtr([0, 1]),
    ]
}

#[test]
fn data_and_long_replies_have_their_chunks() {
    record();
    run(async {
        let rows = rows();
        let (mut worlds, mut names, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for carrier in RDMA {
            for row in &rows {
                let world = carrier.world(4).await;
                world.server.add_file("empty", &[]);
                world.server.add_file("file", &[]);
                names.push(world.name.clone());
                worlds.push(world);
                let moved = match carrier {
                    Carrier::WithRtr => row.with_rtr,
                    _ => row.moved,
                };
                expected.push((row.name, carrier, moved));
            }
        }
        let calls = async {
            for (world, row) in worlds.iter().zip(rows.iter().cycle()) {
                (row.calls)(world).await;
            }
        };
        let moved = reads_and_writes(&names, calls).await;
        let found = expected.iter().zip(moved);
        let found: Vec<_> = found
            .map(|(&(name, carrier, _), moved)| (name, carrier, moved))
            .collect();
        assert_eq!(found, expected);
    });
}
