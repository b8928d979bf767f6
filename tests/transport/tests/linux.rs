//! Linux as the peer: this crate's client with the kernel's NFS server, the kernel's NFS client
//! with this crate's server, and malformed messages.
//!
//! Run as root in a dedicated machine. `RPCRDMA_DEVICE` names an RDMA device, `RPCRDMA_ADDRESS` one
//! of its addresses, and `RPCRDMA_NFSD` the RDMA address and port of the kernel's NFS server. The
//! tests mount NFS, which is expected to fail. `docs/linux.md` lists the results.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "linux/cases.rs"]
mod cases;
#[path = "linux/client.rs"]
mod client;
#[path = "linux/malformed.rs"]
mod malformed;
#[path = "linux/peer.rs"]
mod peer;
#[path = "linux/server.rs"]
mod server;
#[path = "linux/wire.rs"]
#[allow(dead_code, reason = "it is shared with the peer of rping")]
mod wire;

const NFS: u32 = 100_003;

/// Converts words to bytes.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns a word of a message by its index.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[4 * at..][..4].try_into().unwrap())
}

/// A NULL call of NFS without credentials.
fn null_call(xid: u32, version: u32) -> [u32; 10] {
    [xid, 0, 2, NFS, version, 0, 0, 0, 0, 0]
}
