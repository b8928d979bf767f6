//! Sends a server of NFSv3 and MOUNT, with a file system in memory, what a client likes to send.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::nfs::{Client, Input};
use rpcrdma_nfs::{Export, MemoryFileSystem};

/// Bytes that the file system takes.
const MEMORY: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    Client::new(Export::new(MemoryFileSystem::new(MEMORY))).calls(Input(bytes));
});
