//! A borrowed value, an element of it, and a value borrowed in a buffer do not outlive the bytes.

use rpcrdma_proto::v2::{self, XprtHdr};
use xdrgen_fixtures::kinds;
use xdrgen_runtime::{Decode, Owned, Result};

fn received() -> Vec<u8> {
    vec![0; 64]
}

fn header() -> Result<XprtHdr<'static>> {
    let bytes = received();
    XprtHdr::from_bytes(&bytes)
}

fn element() -> Option<v2::WriteChunk<'static>> {
    let bytes = received();
    let lists = v2::ChunkLists::from_bytes(&bytes).ok()?;
    lists.writes.iter().next()
}

fn reused() {
    let mut bytes = received();
    let header = XprtHdr::from_bytes(&bytes).unwrap();
    bytes.clear();
    drop(header.body);
}

fn borrowed_in(list: &kinds::owned::Lists) -> usize {
    let borrowed = {
        let mut buf = Vec::new();
        list.borrow_in(&mut buf).unwrap()
    };
    borrowed.names.len()
}

fn main() {
    let _ = (header(), element(), reused(), borrowed_in);
}
