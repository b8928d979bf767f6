//! The client with NFS-Ganesha over RDMA and TCP: the cases of `linux_nfsd`, without the calls that
//! Ganesha does not survive, or whose replies it encodes wrongly over RDMA (docs/nfs.md).
//!
//! Run as root in a dedicated machine, with the environment of `servers`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod servers;

use rpcrdma_nfs::client::ClientError;
use servers::{cases, exported, pattern, run, with_server};

#[test]
fn writes_reach_the_disk() {
    with_server("write", cases::writes);
}

#[test]
fn one_write_respects_the_servers_limit() {
    with_server("limit", cases::one_write);
}

/// A READ of 0 bytes ends Ganesha. The client offers a Write chunk for a page, so that the data are
/// not in the reply.
#[test]
fn reads_match_the_disk() {
    with_server("read", async |exported| {
        cases::reads(exported, |len| len.max(1).next_multiple_of(4096)).await;
    });
}

#[test]
fn one_read_reports_the_end_of_file() {
    with_server("eof", async |exported| {
        let parts = [(0, 10_000), (0, 10_001), (9_999, 4096), (10_001, 4096)];
        cases::end_of_file(exported, &parts).await;
    });
}

/// Ganesha sends a path in the reply although the client offers a Write chunk, and a reply of more
/// than 4096 bytes ends the connection.
#[test]
fn symbolic_links_match_the_disk() {
    with_server("readlink", async |exported| {
        let lengths = [1, 3, 4, 100, 1000, 1023, 1024, 1025, 3000, 3900];
        cases::links(exported, &lengths).await;
    });
}

#[test]
fn directories_match_the_disk() {
    with_server("readdir", async |exported| {
        cases::directories(exported, &[0, 1, 40, 1000]).await;
    });
}

#[test]
fn names_and_attributes_match_the_disk() {
    with_server("names", async |exported| {
        cases::names(exported, 1024).await;
    });
}

/// After data in the reply, Ganesha pads by the remainder of their length instead of up to a
/// multiple of 4.
#[test]
fn wrong_padding_fails_the_call_alone() {
    run(async || {
        let exported = exported("padding", true).await;
        let nfs = &exported.nfs;
        let file = exported.create("file").await.handle;
        std::fs::write(exported.disk.join("file"), pattern(80, 0)).unwrap();
        for (count, right) in [(76, true), (77, false), (78, true), (79, false), (80, true)] {
            match nfs.read(&file, 0, count).await {
                Ok(part) => {
                    assert!(right, "{count}");
                    assert_eq!(part.data.as_bytes(), pattern(count as usize, 0));
                }
                Err(error) => {
                    assert!(!right, "{count}: {error}");
                    assert!(matches!(error, ClientError::Rpc(_)), "{error}");
                }
            }
        }
    });
}
