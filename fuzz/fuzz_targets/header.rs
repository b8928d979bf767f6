//! Any octets through what a connection does with each message of Version Two: its header, the operation in it, and the
//! properties in that. One type for each, so that a minute tries as many inputs as can be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::both;
use rpcrdma_proto::v2::properties::{Connprop, OptInfo, Property, Resprop, Updprop};
use rpcrdma_proto::v2::{self, Body, XprtHdr};
use xdrgen_runtime::{Array, Decode, Encode};

fuzz_target!(|octets: &[u8]| {
    both::<v2::owned::XprtHdr>(octets);
    let Ok((header, _)) = XprtHdr::from_prefix(octets) else { return };
    match header.body {
        Body::Msg(chunks) | Body::Nomsg(chunks) => walk(&chunks),
        Body::Optional(optional) => {
            let Ok(operation) = OptInfo::of(&optional) else { return };
            assert_eq!(operation.encode_to_vec().as_deref(), Ok(optional.optinfo));
            match operation {
                OptInfo::Connprop(Connprop { start: set, .. })
                | OptInfo::Resprop(Resprop { other: set, .. })
                | OptInfo::Updprop(Updprop { now: set }) => properties(&set),
                _ => {}
            }
        }
        Body::Error(_) => {}
    }
});

/// Every element, one by one and by its place.
fn walk(chunks: &v2::ChunkLists<'_>) {
    for (at, read) in chunks.reads.iter().enumerate().take(64) {
        assert_eq!(chunks.reads.get(at), Some(read));
    }
    for chunk in chunks.writes.iter().chain(chunks.reply) {
        let segments: Vec<_> = chunk.target.iter().collect();
        assert_eq!(segments.len(), chunk.target.len());
        let mut copies = vec![v2::Segment { handle: 0, length: 0, offset: 0 }; segments.len()];
        assert_eq!((chunk.target.copy_to_slice(&mut copies), &copies), (segments.len(), &segments));
        assert_eq!(chunk.target.get(segments.len().wrapping_sub(1)), segments.last().copied());
    }
}

fn properties(set: &Array<'_, v2::properties::Propval<'_>>) {
    for property in set {
        if let Ok(known) = Property::of(&property) {
            assert_eq!(known.code(), property.which);
            assert_eq!(known.encode_to_vec().as_deref(), Ok(property.data));
        }
    }
}
