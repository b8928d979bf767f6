//! Processes arbitrary bytes as a connection processes a message of Version Two: the header, its
//! operation and the properties in it, and the engine's validation. It decodes only one type for
//! each, so that a minute covers as many inputs as possible.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::both;
use rpcrdma_proto::chunk::{ChunkLimits, Piece, ReadList, ReadPlan, WriteChunk, check_returned};
use rpcrdma_proto::error::RefusalAction;
use rpcrdma_proto::header::{self, Chunks, Header};
use rpcrdma_proto::v2::properties::{Connprop, OptInfo, Property, Resprop, Updprop};
use rpcrdma_proto::v2::{self, Body, XprtHdr};
use rpcrdma_proto::version::Version;
use xdrgen_runtime::{Array, Decode, Encode};

fuzz_target!(|bytes: &[u8]| {
    engine(bytes);
    both::<v2::owned::XprtHdr>(bytes);
    let Ok((header, _)) = XprtHdr::from_prefix(bytes) else {
        return;
    };
    match header.body {
        Body::Msg(chunks) | Body::Nomsg(chunks) => walk(&chunks),
        Body::Optional(optional) => {
            let Ok(operation) = OptInfo::of(&optional) else {
                return;
            };
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

/// Parses a message as the engine does before it knows the connection: a header with plans, or a
/// rejection with its answer.
fn engine(bytes: &[u8]) {
    match Header::parse(bytes, Version::Two) {
        Ok(header) => {
            if let header::HeaderBody::Message {
                chunks, payload, ..
            } = header.body
            {
                plans(&chunks, Some(payload.len()));
            } else if let header::HeaderBody::Long { chunks, .. } = header.body {
                plans(&chunks, None);
            }
        }
        Err(refusal) => {
            if let RefusalAction::Answer(error) = refusal.action(false, Version::One, Version::Two)
            {
                let mut answer = [0; 28];
                let used = refusal
                    .write_error(error, 1, &mut answer)
                    .expect("room for any answer");
                let again = Header::parse(&answer[..used], Version::Two);
                assert!(
                    again.is_ok() || refusal.vers > 2 || refusal.vers == 0,
                    "{refusal} {again:?}"
                );
            }
        }
    }
}

/// The pieces of a call are contiguous up to its end, and a filled chunk returns what was offered.
fn plans(chunks: &Chunks<'_>, inline: Option<usize>) {
    let reads = match *chunks {
        Chunks::V1 { reads, .. } => ReadList::from(reads),
        Chunks::V2 { reads, .. } => ReadList::from(reads),
    };
    let plan = match inline {
        Some(length) => ReadPlan::inline(reads, length, &ChunkLimits::DEFAULT),
        None => ReadPlan::long(reads, &ChunkLimits::DEFAULT),
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
        Chunks::V1 { reply, .. } => {
            reply.map(|target| WriteChunk::v1(target, &ChunkLimits::DEFAULT))
        }
        Chunks::V2 { reply, .. } => {
            reply.map(|target| WriteChunk::v2(target, &ChunkLimits::DEFAULT))
        }
    };
    if let Some(Ok(chunk)) = reply {
        let half = chunk.capacity() / 2;
        assert_eq!(check_returned(chunk.segments(), chunk.fill(half)), Ok(half));
    }
}

/// Visits every element by iteration and by index.
fn walk(chunks: &v2::ChunkLists<'_>) {
    for (at, read) in chunks.reads.iter().enumerate().take(64) {
        assert_eq!(chunks.reads.get(at), Some(read));
    }
    for chunk in chunks.writes.iter().chain(chunks.reply) {
        let segments: Vec<_> = chunk.target.iter().collect();
        assert_eq!(segments.len(), chunk.target.len());
        let mut copies = vec![
            v2::Segment {
                handle: 0,
                length: 0,
                offset: 0
            };
            segments.len()
        ];
        assert_eq!(
            (chunk.target.copy_to_slice(&mut copies), &copies),
            (segments.len(), &segments)
        );
        assert_eq!(
            chunk.target.get(segments.len().wrapping_sub(1)),
            segments.last().copied()
        );
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
