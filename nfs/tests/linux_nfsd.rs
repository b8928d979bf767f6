//! The client with the kernel's NFS server over RDMA and TCP.
//!
//! Run as root in a dedicated machine, with the environment of `servers`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod servers;

use std::fs;

use oncrpc::CallErrorKind;
use oncrpc::xdr::Opaque;
use rpcrdma_nfs::nfs3::{NfsFh3, StableHow, Write3args};
use servers::{cases, exported, pattern, run, with_server};

#[test]
fn writes_reach_the_disk() {
    with_server("write", cases::writes);
}

#[test]
fn one_write_respects_the_servers_limit() {
    with_server("limit", cases::one_write);
}

#[test]
fn reads_match_the_disk() {
    with_server("read", async |exported| {
        cases::reads(exported, |len| len).await;
    });
}

#[test]
fn one_read_reports_the_end_of_file() {
    with_server("eof", async |exported| {
        let parts = [(0, 0), (0, 10_000), (0, 10_001), (9_999, 1), (9_999, 7)];
        cases::end_of_file(exported, &parts).await;
    });
}

#[test]
fn symbolic_links_match_the_disk() {
    with_server("readlink", async |exported| {
        let lengths = [1, 3, 4, 100, 1000, 1023, 1024, 1025, 3000, 4095];
        cases::links(exported, &lengths).await;
    });
}

#[test]
fn directories_match_the_disk() {
    with_server("readdir", async |exported| {
        cases::directories(exported, &[0, 1, 40, 3000]).await;
    });
}

#[test]
fn names_and_attributes_match_the_disk() {
    with_server("names", async |exported| {
        cases::names(exported, 255).await;
    });
}

/// A WRITE of more bytes than a call may have fails alone: the connection continues.
#[test]
fn a_write_above_the_maximum_fails_alone() {
    run(async || {
        let exported = exported("above", true).await;
        let file = exported.create("file").await.handle;
        let len = 2 * exported.nfs.limits().write;
        let stubs = exported.nfs.stubs();
        let mut buf = stubs.transport().item_buf(len as usize);
        buf.copy_from_slice(&pattern(len as usize, 0));
        let args = Write3args {
            file: NfsFh3 {
                data: Opaque::new(file.as_bytes()).unwrap(),
            },
            offset: 0,
            count: len,
            stable: StableHow::Unstable,
            data: buf.into_item(len as usize),
        };
        let error = stubs.write(&args).await.unwrap_err();
        println!("{error}");
        assert!(
            matches!(error.kind(), CallErrorKind::Transport(_)),
            "{error:?}"
        );
        assert_eq!(exported.content("file"), []);
        let written = exported.nfs.write(&file, 0, b"after", StableHow::Unstable);
        written.await.unwrap();
        assert_eq!(exported.content("file"), b"after");
    });
}

/// Returns how many RDMA Writes the kernel's servers have posted.
fn server_writes() -> u64 {
    let count = fs::read_to_string("/proc/sys/sunrpc/svc_rdma/rdma_stat_write");
    count.unwrap().trim().parse().unwrap()
}

/// The reply to READDIRPLUS arrives in the Reply chunk: the call has no other chunk. Linux uses
/// each Reply chunk that a call offers.
#[test]
fn a_listing_arrives_in_the_reply_chunk() {
    const FILES: usize = 100;
    run(async || {
        let exported = exported("long", true).await;
        for number in 0..FILES {
            fs::write(exported.disk.join(number.to_string()), "").unwrap();
        }
        let before = server_writes();
        exported.nfs.lookup(&exported.dir, "1").await.unwrap();
        assert_eq!(server_writes(), before);
        let (mut stream, mut entries) = (exported.nfs.read_dir_plus(&exported.dir), 0);
        while let Some(part) = stream.next().await.unwrap() {
            entries += part.len();
        }
        assert_eq!(entries, FILES + 2);
        assert!(server_writes() > before);
    });
}
