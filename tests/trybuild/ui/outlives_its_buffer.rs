//! A borrowed value, an element of it, and what a buffer was lent for, live no longer than the octets.

use rpcrdma_proto::v2::{self, XprtHdr};
use xdrgen_fixtures::kinds;
use xdrgen_runtime::{Decode, Owned, Result};

fn received() -> Vec<u8> {
    vec![0; 64]
}

fn header() -> Result<XprtHdr<'static>> {
    let octets = received();
    XprtHdr::from_bytes(&octets)
}

fn element() -> Option<v2::WriteChunk<'static>> {
    let octets = received();
    let lists = v2::ChunkLists::from_bytes(&octets).ok()?;
    lists.writes.iter().next()
}

fn reused() {
    let mut octets = received();
    let header = XprtHdr::from_bytes(&octets).unwrap();
    octets.clear();
    drop(header.body);
}

fn lent(list: &kinds::owned::Lists) -> usize {
    let borrowed = {
        let mut buf = Vec::new();
        list.borrow_in(&mut buf).unwrap()
    };
    borrowed.names.len()
}

fn main() {
    let _ = (header(), element(), reused(), lent);
}
