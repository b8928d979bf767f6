//! The NFSv4.1 client with the kernel's NFS server over RDMA. Results are compared with the
//! server's disk, and the kernel calls the client back.
//!
//! Run as root in a dedicated machine. `RPCRDMA_DEVICE` names an RDMA device, `RPCRDMA_NFSD` the
//! RDMA address of the kernel's NFS server, `RPCRDMA_NFSD_TCP` its TCP address, `RPCRDMA_MOUNTD`
//! that of its mountd, and
//! `RPCRDMA_EXPORT` the directory that it exports as the root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use oncrpc::xdr::Item;
use oncrpc::{AuthSys, CallOptions, Channel, tcp};
use rpcrdma_nfs::client::{Client, mount};
use rpcrdma_nfs::nfs3::{Nfsstat3, Sattr3, SetMode3};
use rpcrdma_nfs::nfs4::owned::{NfsFh4, NfsResop4, Read4res};
use rpcrdma_nfs::nfs4::{
    NfsOpnum4, Nfsstat4, OPEN4_SHARE_ACCESS_BOTH, SEQ4_STATUS_CB_PATH_DOWN, StableHow4, Stateid4,
};
use rpcrdma_nfs::nfs4_client::{
    Nfs4Callbacks, Nfs4Client, Nfs4Compound, Nfs4Config, Nfs4Open, Nfs4OpenFile, Nfs4Recall,
    Nfs4Results, Nfs4Session,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{ClientConfig, connect_with_services};

/// A client, and the disk of its server.
struct Exported {
    callbacks: Nfs4Callbacks,
    nfs: Nfs4Client<Channel>,
    disk: PathBuf,
}

/// The timeout of each step. Linux replies NFS4ERR_DELAY for 2 s after a recall got this status.
const LIMIT: Duration = Duration::from_secs(20);

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        println!("{name} is missing: there is nothing to run this on");
    }
    value
}

fn options() -> CallOptions {
    let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
    options.timeout(LIMIT)
}

/// Returns true before Linux 6.12, whose server takes several Read chunks and grants write
/// delegations.
fn is_before_6_12() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = release.split('.').map(|part| part.parse::<u32>());
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        panic!("{release} is no release of Linux")
    };
    (major, minor) < (6, 12)
}

/// Connects over RDMA, with a way back.
fn connect(callbacks: &Nfs4Callbacks) -> Channel {
    let device = AnyDevice::open(&variable("RPCRDMA_DEVICE").unwrap()).unwrap();
    let server = variable("RPCRDMA_NFSD").unwrap();
    let protocol = Config {
        backward_v1: true,
        max_read_chunks: if is_before_6_12() { 1 } else { u32::MAX },
        ..Config::client()
    };
    let config = ClientConfig::new().protocol(protocol);
    connect_with_services(&device, server, config, callbacks.router()).unwrap()
}

/// Returns a client over TCP.
async fn client_over_tcp(owner: &str) -> (Nfs4Callbacks, Nfs4Client<Channel>) {
    let callbacks = Nfs4Callbacks::new();
    let address = variable("RPCRDMA_NFSD_TCP").unwrap();
    let config = tcp::ClientConfig::new();
    let channel = tcp::connect_with_services(&address, config, callbacks.router());
    let config = Nfs4Config::new(owner, *b"verifier");
    let session = Nfs4Session::new(channel.await.unwrap(), options(), &config, &callbacks);
    let nfs = Nfs4Client::new(session.await.unwrap()).await.unwrap();
    (callbacks, nfs)
}

/// Returns a client with its own client id.
async fn client(owner: &str, slots: u32) -> (Nfs4Callbacks, Nfs4Client<Channel>) {
    let callbacks = Nfs4Callbacks::new();
    let config = Nfs4Config::new(owner, *b"verifier").slots(slots);
    let session = Nfs4Session::new(connect(&callbacks), options(), &config, &callbacks);
    let nfs = Nfs4Client::new(session.await.unwrap()).await.unwrap();
    (callbacks, nfs)
}

fn with_nfsd(name: &str, test: impl AsyncFn(&mut Exported)) {
    let Some(export) = variable("RPCRDMA_EXPORT") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (callbacks, nfs) = client(name, 4).await;
        let disk = PathBuf::from(&export);
        let mut exported = Exported {
            callbacks,
            nfs,
            disk,
        };
        test(&mut exported).await;
        exported.nfs.into_session().destroy().await.unwrap();
    });
}

impl Exported {
    /// Creates a file, and returns the delegation that Linux may give with it: the test itself
    /// opens the file on the disk.
    async fn create(&self, name: &str) -> Nfs4OpenFile {
        let nfs = &self.nfs;
        let how = Nfs4Open::create(0o640);
        let mut file = nfs.open(nfs.root(), name.as_bytes(), how).await.unwrap();
        if let Some(held) = file.delegation.take() {
            let returned = nfs.return_delegation(&file.handle, held.stateid);
            returned.await.unwrap();
        }
        file
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.join(name)
    }

    /// Opens new files for reading until the server grants a delegation.
    async fn delegated(&self, name: &str) -> (String, Nfs4OpenFile) {
        self.opened_with_delegation(name, Nfs4Open::READ).await
    }

    /// Opens new files until the server grants a delegation: after its start it grants none while
    /// lockd waits for its clients.
    async fn opened_with_delegation(&self, name: &str, how: Nfs4Open) -> (String, Nfs4OpenFile) {
        let start = Instant::now();
        for number in 0.. {
            let name = format!("{name}-{number}");
            fs::write(self.path(&name), "content").unwrap();
            let root = self.nfs.root();
            let file = self.nfs.open(root, name.as_bytes(), how).await;
            let file = file.unwrap();
            if file.delegation.is_some() {
                return (name, file);
            }
            self.nfs.close(&file).await.unwrap();
            assert!(start.elapsed() < LIMIT, "the server gives no delegation");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        unreachable!()
    }

    /// Waits for the recall of a file's delegation.
    async fn recalled(&self, file: &Nfs4OpenFile) -> Stateid4 {
        let recall = tokio::time::timeout(LIMIT, self.callbacks.next_recall());
        let Nfs4Recall::Delegation {
            stateid, handle, ..
        } = recall.await.expect("no recall")
        else {
            panic!("another recall")
        };
        assert_eq!(handle, file.handle);
        assert_eq!(stateid.other, file.delegation.unwrap().stateid.other);
        stateid
    }

    /// Causes a conflict on the server's disk, and returns the delegation that the server recalls.
    async fn recall_by_local_open(&self, name: &str) {
        let (name, file) = self.delegated(name).await;
        let path = self.path(&name);
        let start = Instant::now();
        let open = thread::spawn(move || {
            OpenOptions::new().write(true).open(path).unwrap();
            start.elapsed()
        });
        let stateid = self.recalled(&file).await;
        println!("the recall of {name} came after {:?}", start.elapsed());
        let returned = self.nfs.return_delegation(&file.handle, stateid);
        returned.await.unwrap();
        let opened = tokio::task::spawn_blocking(|| open.join().unwrap()).await;
        println!("the conflicting open took {:?}", opened.unwrap());
        self.nfs.close(&file).await.unwrap();
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..=250).cycle().skip(seed % 251).take(len).collect()
}

const ANONYMOUS: Stateid4 = Stateid4 {
    seqid: 0,
    other: [0; 12],
};

#[test]
fn data_match_the_disk() {
    with_nfsd("data", async |exported| {
        let nfs = &exported.nfs;
        let most = nfs.max_write() as usize;
        assert!(nfs.max_read() >= 65_536 && most >= 65_536);
        let file = exported.create("data").await;
        let around = [1, 4, 1024, 4096, 65_536, most];
        let lengths = around.iter().flat_map(|at| at - 1..=at + 1);
        for (seed, len) in lengths.enumerate() {
            // Emulated machines take seconds for a megabyte.
            let offsets = if len < 100_000 {
                &[0, 1, 4093_usize][..]
            } else {
                &[3]
            };
            for offset in offsets.iter().copied() {
                let data = pattern(len, seed);
                // A chunk of their own, or the whole call in one.
                let bytes = match offset {
                    1 => Item::from(&data[..]),
                    _ => in_chunk(nfs, &data),
                };
                nfs.write_all(&file.handle, file.stateid, offset as u64, bytes)
                    .await
                    .unwrap();
                let disk = fs::read(exported.disk.join("data")).unwrap();
                // A write of no bytes does not extend the file.
                let on_disk = disk.get(offset..).unwrap_or_default();
                assert!(on_disk.get(..len) == Some(&data), "{len} at {offset}");
                let mut into = vec![0; len + 3];
                let read = nfs.read_into(&file.handle, file.stateid, offset as u64, &mut into);
                let count = read.await.unwrap();
                let end = disk.len().min(offset + len + 3);
                let expected = disk.get(offset..end).unwrap_or_default();
                assert!(into[..count] == *expected, "{len} at {offset}");
            }
        }
        let unstable = nfs.write(&file.handle, file.stateid, 0, b"end", StableHow4::Unstable4);
        let unstable = unstable.await.unwrap();
        let verifier = nfs.commit(&file.handle, 0, 0).await.unwrap();
        assert_eq!(verifier, unstable.verifier);
        assert_eq!(&fs::read(exported.disk.join("data")).unwrap()[..3], b"end");
        exported.nfs.close(&file).await.unwrap();
        nfs.remove(nfs.root(), b"data").await.unwrap();
        assert!(!exported.disk.join("data").exists());
        let gone = nfs.lookup(nfs.root(), b"data").await.unwrap_err();
        assert_eq!(gone.status(), Some(Nfsstat4::Noent));
    });
}

/// Data in memory of the transport, which have a Read chunk of their own.
fn in_chunk(nfs: &Nfs4Client<Channel>, data: &[u8]) -> Item<'static> {
    let mut buf = nfs.session().stubs().transport().item_buf(data.len());
    buf.copy_from_slice(data);
    buf.into_item(data.len())
}

/// Returns the data of the READs.
fn read_data(results: Nfs4Results) -> Vec<Vec<u8>> {
    let data = results.filter_map(|result| match result {
        NfsResop4::Read(Read4res::Ok(ok)) => Some(ok.data.as_bytes().to_vec()),
        _ => None,
    });
    data.collect()
}

#[test]
fn a_compound_may_have_two_chunks() {
    with_nfsd("chunks", async |exported| {
        let nfs = &exported.nfs;
        let file = exported.create("chunks").await;
        let handle = || file.handle.as_borrowed();
        let (first, second) = (pattern(8192, 1), pattern(20_000, 2));
        let write = |request: &mut Nfs4Compound<'_>, offset, data: &[u8]| {
            let data = in_chunk(nfs, data);
            request.write(file.stateid, offset, StableHow4::FileSync4, data);
        };
        let mut request = Nfs4Compound::new();
        write(request.put_handle(handle()), 0, &first);
        nfs.session().compound(request).await.unwrap();
        // A Read chunk and a Write chunk.
        let mut request = Nfs4Compound::new();
        write(request.put_handle(handle()), 8192, &second);
        request.read(file.stateid, 0, 28_192);
        let results = nfs.session().compound(request).await.unwrap();
        let disk = fs::read(exported.path("chunks")).unwrap();
        assert!(disk == [&first[..], &second[..]].concat());
        assert!(read_data(results) == [&disk[..]]);
        // Two Write chunks, and a READ that has none. Linux 6.12 returns wrong data for the second
        // READ with data, over TCP, too.
        let reads = async |nfs: &Nfs4Client<Channel>| {
            let mut request = Nfs4Compound::new();
            request
                .put_handle(handle())
                .read(ANONYMOUS, 0, 0)
                .read(ANONYMOUS, 3, 10_001)
                .read(ANONYMOUS, 10_004, 50_000);
            read_data(nfs.session().compound(request).await.unwrap())
        };
        let wanted = [&[], &disk[3..10_004], &disk[10_004..]];
        let found = reads(nfs).await;
        assert_eq!(found[..2], wanted[..2]);
        assert_eq!((found.len(), found[2].len()), (3, wanted[2].len()));
        if found[2] != wanted[2] {
            let (_callbacks, other) = client_over_tcp("tcp").await;
            let over_tcp = reads(&other).await;
            other.into_session().destroy().await.unwrap();
            println!("the data of the second READ are wrong");
            assert!(over_tcp[2] != wanted[2], "over RDMA alone");
        }
        exported.nfs.close(&file).await.unwrap();
    });
}

/// Linux writes the data of a second WRITE from the start of their page in its memory on: what
/// precedes them in the message comes first. A server without that defect passes, too.
async fn second_write(exported: &Exported, name: &str, second: &[u8], in_chunks: bool) {
    let file = exported.create(name).await;
    let first = pattern(8192, 1);
    let mut request = Nfs4Compound::new();
    request.put_handle(file.handle.as_borrowed());
    for (offset, data) in [(0, &first[..]), (8192, second)] {
        let bytes = match in_chunks {
            true => in_chunk(&exported.nfs, data),
            false => Item::from(data),
        };
        request.write(file.stateid, offset, StableHow4::FileSync4, bytes);
    }
    let session = exported.nfs.session();
    session.compound(request).await.unwrap();
    let disk = fs::read(exported.path(name)).unwrap();
    assert!(disk[..8192] == first && disk.len() == 8192 + second.len());
    let before = (0..4096).find(|before| disk[8192 + before..] == second[..second.len() - before]);
    println!("{before:?} bytes precede the data of the second WRITE");
    assert!(before.is_some());
    exported.nfs.close(&file).await.unwrap();
}

#[test]
fn a_second_write_may_be_written_from_the_start_of_its_page() {
    with_nfsd("second", async |exported| {
        let second = pattern(20_000, 2);
        second_write(exported, "second", &second, false).await;
        // One Read chunk each.
        if !is_before_6_12() {
            second_write(exported, "second-in-chunks", &second, true).await;
        }
    });
}

#[test]
fn links_match_the_disk() {
    with_nfsd("links", async |exported| {
        let nfs = &exported.nfs;
        for len in [1, 100, 1024, 3000, 4095] {
            let (name, path) = (format!("link-{len}"), "p".repeat(len));
            std::os::unix::fs::symlink(&path, exported.path(&name)).unwrap();
            let (link, _) = nfs.lookup(nfs.root(), name.as_bytes()).await.unwrap();
            assert!(nfs.read_link(&link).await.unwrap() == path.as_bytes());
        }
        fs::create_dir_all(exported.path("one/two")).unwrap();
        fs::write(exported.path("one/two/three"), "12345").unwrap();
        let found = nfs.lookup_path(nfs.root(), "one/two/three").await.unwrap();
        assert_eq!(found.1.size, Some(5));
    });
}

#[test]
fn a_local_open_for_writing_recalls_a_delegation() {
    with_nfsd("local", async |exported| {
        exported.recall_by_local_open("local").await;
        exported.recall_by_local_open("again").await;
    });
}

/// NFSv3 also uses the connection of the session.
#[test]
fn setattr_of_version_3_recalls_a_delegation() {
    with_nfsd("setattr", async |exported| {
        let (name, file) = exported.delegated("setattr").await;
        let address = variable("RPCRDMA_MOUNTD").unwrap();
        let mountd = tcp::connect(&address);
        let export = exported.disk.to_str().unwrap();
        let root = mount(mountd.await.unwrap(), &options(), export).await;
        let channel = exported.nfs.session().stubs().transport().clone();
        let version3 = Client::new(channel, options(), root.unwrap())
            .await
            .unwrap();
        let object = version3.lookup(version3.root(), &name).await.unwrap();
        let new = Sattr3 {
            mode: SetMode3::True(0o600),
            ..Sattr3::UNSET
        };
        let refused = version3.set_attributes(&object.handle, &new, None).await;
        assert_eq!(refused.unwrap_err().status(), Some(Nfsstat3::Jukebox));
        let stateid = exported.recalled(&file).await;
        let returned = exported.nfs.return_delegation(&file.handle, stateid);
        returned.await.unwrap();
        version3
            .set_attributes(&object.handle, &new, None)
            .await
            .unwrap();
        exported.nfs.close(&file).await.unwrap();
    });
}

#[test]
fn the_open_of_another_client_recalls_a_delegation() {
    with_nfsd("first", async |exported| {
        let (name, file) = exported.delegated("shared").await;
        let (_callbacks, other) = client("second", 4).await;
        let open = async || {
            let name = name.as_bytes();
            other.open(other.root(), name, Nfs4Open::WRITE).await
        };
        let refused = open().await.unwrap_err();
        assert!(refused.is_temporary(), "{refused}");
        let stateid = exported.recalled(&file).await;
        let returned = exported.nfs.return_delegation(&file.handle, stateid);
        returned.await.unwrap();
        let opened = loop {
            match open().await {
                Err(error) if error.is_temporary() => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                result => break result.unwrap(),
            }
        };
        other.close(&opened).await.unwrap();
        exported.nfs.close(&file).await.unwrap();
        other.into_session().destroy().await.unwrap();
    });
}

/// The server asks the holder of a write delegation for the size of the file, and tells another
/// client the size of data that the holder keeps (RFC 8881, section 10.4.3). Linux waits for the
/// reply for some milliseconds, and then recalls the delegation.
#[test]
fn the_getattr_of_another_client_asks_the_holder() {
    const SIZE: u64 = 12_345;
    if is_before_6_12() {
        println!("this server grants no write delegations");
        return;
    }
    with_nfsd("holder", async |exported| {
        let (_callbacks, other) = client("asks", 4).await;
        let how = Nfs4Open {
            access: OPEN4_SHARE_ACCESS_BOTH,
            ..Nfs4Open::READ
        };
        let start = Instant::now();
        loop {
            let (name, file) = exported.opened_with_delegation("held", how).await;
            let delegation = file.delegation.unwrap();
            assert!(delegation.is_write);
            assert!(exported.nfs.record_change(&delegation.stateid, SIZE));
            let asked = other.lookup(other.root(), name.as_bytes()).await;
            let on_disk = fs::metadata(exported.path(&name)).unwrap().len();
            let returned = exported
                .nfs
                .return_delegation(&file.handle, delegation.stateid);
            returned.await.unwrap();
            exported.nfs.close(&file).await.unwrap();
            match asked {
                Ok((_, attributes)) => {
                    assert_eq!((attributes.size, on_disk), (Some(SIZE), 7));
                    break;
                }
                Err(error) => assert!(error.is_temporary(), "{error}"),
            }
            assert!(start.elapsed() < LIMIT, "the server does not wait");
        }
        other.into_session().destroy().await.unwrap();
    });
}

/// The session continues over another connection: calls with lost replies are resolved, and the
/// kernel calls back over the new connection.
#[test]
fn a_delegation_is_recalled_after_the_connection_was_cut() {
    with_nfsd("cut", async |exported| {
        exported.recall_by_local_open("before").await;
        let (_, kept) = exported.delegated("kept").await;
        for round in 1..=3 {
            // Calls in flight whose replies the client never receives.
            let root = exported.nfs.root().clone();
            let calls = (0..3).map(|_| exported.nfs.attributes(&root));
            for call in calls {
                let _ = tokio::time::timeout(Duration::from_micros(50), call).await;
            }
            let channel = connect(&exported.callbacks);
            exported.nfs.session_mut().replace_transport(channel);
            exported.nfs.session().bind().await.unwrap();
            assert_eq!(exported.nfs.session().binds(), round);
            // A call in each slot at once: also in those whose last reply was lost.
            assert_eq!(exported.nfs.session().limits().slots, 4);
            for _ in 0..3 {
                let call = || exported.nfs.attributes(&root);
                let results = tokio::join!(call(), call(), call(), call());
                for result in <[_; 4]>::from(results) {
                    result.unwrap();
                }
            }
            exported
                .recall_by_local_open(&format!("after-{round}"))
                .await;
        }
        // Nothing was lost: the earlier delegation is still held.
        let held = kept.delegation.unwrap().stateid;
        let codes = exported.nfs.test_state(&[held]).await.unwrap();
        assert_eq!(codes, [Nfsstat4::Ok]);
        exported
            .nfs
            .return_delegation(&kept.handle, held)
            .await
            .unwrap();
        exported.nfs.close(&kept).await.unwrap();
    });
}

/// The connection is cut near the time at which the server recalls a delegation, so that the recall
/// or its reply may be lost. The delegation can be returned, the conflict ends, and the session
/// gets the next recall: Linux 6.1 may send it by the number of the one whose reply was lost, and
/// sends it again when the client delays it.
#[test]
fn recalls_continue_after_a_cut_near_one() {
    with_nfsd("pending", async |exported| {
        for (round, delay) in [0, 1, 4, 16, 0, 2, 0, 1].into_iter().enumerate() {
            let (name, file) = exported.delegated(&format!("pending-{round}")).await;
            let path = exported.path(&name);
            let open = thread::spawn(move || OpenOptions::new().write(true).open(path).map(drop));
            let delay = Duration::from_millis(delay);
            let early = tokio::time::timeout(delay, exported.callbacks.next_recall()).await;
            let channel = connect(&exported.callbacks);
            exported.nfs.session_mut().replace_transport(channel);
            exported.nfs.session().bind().await.unwrap();
            let order = if early.is_ok() { "after" } else { "before" };
            println!("the connection was cut {order} the recall");
            let held = file.delegation.unwrap().stateid;
            let returned = exported.nfs.return_delegation(&file.handle, held);
            returned.await.unwrap();
            let opened = tokio::task::spawn_blocking(|| open.join().unwrap()).await;
            opened.unwrap().unwrap();
            exported.nfs.close(&file).await.unwrap();
            exported.nfs.session().renew().await.unwrap();
            exported
                .recall_by_local_open(&format!("then-{round}"))
                .await;
        }
    });
}

/// The client does not bind the new connection: the server reports that its back channel is down,
/// and the session binds the connection.
#[test]
fn a_lost_back_channel_is_restored() {
    with_nfsd("missed", async |exported| {
        exported.nfs.session().renew().await.unwrap();
        let channel = connect(&exported.callbacks);
        exported.nfs.session_mut().replace_transport(channel);
        let start = Instant::now();
        while exported.nfs.session().binds() == 0 {
            exported.nfs.session().renew().await.unwrap();
            assert!(start.elapsed() < LIMIT, "the server misses nothing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("bound again after {:?}", start.elapsed());
        exported.nfs.session().renew().await.unwrap();
        let flags = exported.nfs.session().status_flags();
        assert_eq!(flags & SEQ4_STATUS_CB_PATH_DOWN, 0);
        exported.recall_by_local_open("restored").await;
    });
}

#[test]
fn errors_name_their_operation() {
    with_nfsd("errors", async |exported| {
        let nfs = &exported.nfs;
        let stale = NfsFh4::new(vec![1; 12]).unwrap();
        let error = nfs.attributes(&stale).await.unwrap_err();
        assert!(error.to_string().contains("PUTFH"), "{error}");
        let error = nfs.read(nfs.root(), ANONYMOUS, 0, 10).await.unwrap_err();
        assert_eq!(error.status(), Some(Nfsstat4::Isdir));
        let error = nfs.read_link(nfs.root()).await.unwrap_err();
        assert!(
            error.to_string().contains(NfsOpnum4::Readlink.name()),
            "{error}"
        );
    });
}
