//! The client with the kernel's NFS server over RDMA and TCP.
//!
//! Run as root in a dedicated machine, with the environment of `servers`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod servers;

use servers::{cases, with_server};

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
