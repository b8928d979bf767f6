//! Any octets through what a connection does with each message of Version Two: its header, the operation in it, and the
//! properties in that; and what the engine makes of it. One type for each, so that a minute tries as many inputs as can be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::both;
use rpcrdma_proto::chunk::{Limits, Piece, ReadPlan, Reads, WriteChunk, returned};
use rpcrdma_proto::error::Outcome;
use rpcrdma_proto::header::{self, Chunks, Header};
use rpcrdma_proto::v2::properties::{Connprop, OptInfo, Property, Resprop, Updprop};
use rpcrdma_proto::v2::{self, Body, XprtHdr};
use rpcrdma_proto::version::Version;
use xdrgen_runtime::{Array, Decode, Encode};

fuzz_target!(|octets: &[u8]| {
    engine(octets);
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

/// What the engine makes of a message before it knows the connection: a header with plans, or a refusal with its answer.
fn engine(octets: &[u8]) {
    match Header::parse(octets, Version::Two) {
        Ok(header) => {
            if let header::Body::Message { chunks, payload, .. } = header.body {
                plans(&chunks, Some(payload.len()));
            } else if let header::Body::Long { chunks, .. } = header.body {
                plans(&chunks, None);
            }
        }
        Err(refusal) => {
            if let Outcome::Answer(error) = refusal.outcome(false, Version::One, Version::Two) {
                let mut answer = [0; 28];
                let used = refusal.answer(error, 1, &mut answer).expect("room for any answer");
                let again = Header::parse(&answer[..used], Version::Two);
                assert!(again.is_ok() || refusal.vers > 2 || refusal.vers == 0, "{refusal} {again:?}");
            }
        }
    }
}

/// The pieces of a call follow each other to its end, and a filled chunk is what was offered.
fn plans(chunks: &Chunks<'_>, inline: Option<usize>) {
    let reads = match *chunks {
        Chunks::V1 { reads, .. } => Reads::from(reads),
        Chunks::V2 { reads, .. } => Reads::from(reads),
    };
    let plan = match inline {
        Some(length) => ReadPlan::inline(reads, length, &Limits::DEFAULT),
        None => ReadPlan::long(reads, &Limits::DEFAULT),
    };
    if let Ok(plan) = plan {
        let end = plan.pieces().fold(0, |end, piece| {
            let (at, length) = match piece {
                Piece::Inline { at, length, .. } | Piece::Padding { at, length } => (at, length),
                Piece::Read { at, from } => (at, from.length),
            };
            assert_eq!(at, end);
            end + length
        });
        assert_eq!(end, plan.len());
    }
    let reply = match *chunks {
        Chunks::V1 { reply, .. } => reply.map(|target| WriteChunk::v1(target, &Limits::DEFAULT)),
        Chunks::V2 { reply, .. } => reply.map(|target| WriteChunk::v2(target, &Limits::DEFAULT)),
    };
    if let Some(Ok(chunk)) = reply {
        let half = chunk.capacity() / 2;
        assert_eq!(returned(chunk.segments(), chunk.fill(half)), Ok(half));
    }
}

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
