//! Version One (RFC 8166): the same headers without a direction.

use rpcrdma_proto::v1::{Body, Header, HeaderNomsg, Msg, ReadChunk, Segment, WriteChunk, owned};
use rpcrdma_proto::v2;
use xdrgen_runtime::{Decode, Encode, List};

use super::encoded;
use super::version_two::{SEGMENTS, again};
use crate::codec::Codec;
use crate::hand::chunks;
use crate::message::Message;

const XID: u32 = 0x5ca1_ab1e;
const CREDITS: u32 = 32;

const fn segment(from: v2::Segment) -> Segment {
    Segment {
        handle: from.handle,
        length: from.length,
        offset: from.offset,
    }
}

/// The segments of Version Two, in the type of Version One.
static TARGET: [Segment; 4] = [
    segment(SEGMENTS[0]),
    segment(SEGMENTS[1]),
    segment(SEGMENTS[2]),
    segment(SEGMENTS[3]),
];
static READ: [v2::ReadSegment; 1] = [v2::ReadSegment {
    position: 40,
    target: SEGMENTS[3],
}];
static CALL: [v2::ReadSegment; 2] = [
    v2::ReadSegment {
        position: 0,
        target: SEGMENTS[0],
    },
    v2::ReadSegment {
        position: 0,
        target: SEGMENTS[1],
    },
];

pub(super) fn all() -> Vec<Message> {
    vec![
        message("v1-msg", 0, &[], &[], None),
        message("v1-msg-chunks", 0, &READ, &[&SEGMENTS], None),
        message("v1-long-call", 1, &CALL, &[], Some(&SEGMENTS)),
    ]
}

fn message(
    name: &'static str,
    procedure: u32,
    reads: &'static [v2::ReadSegment],
    writes: &'static [&'static [v2::Segment]],
    reply: Option<&'static [v2::Segment]>,
) -> Message {
    let chunk = || WriteChunk {
        target: (&TARGET).into(),
    };
    let own: Vec<_> = reads
        .iter()
        .map(|read| ReadChunk {
            position: read.position,
            target: segment(read.target),
        })
        .collect();
    let chunks: Vec<_> = writes.iter().map(|_| chunk()).collect();
    let (own, chunks) = (List::from(&*own.leak()), List::from(&*chunks.leak()));
    let reply_chunk = reply.map(|_| chunk());
    let body = match procedure {
        0 => Body::Msg(Header {
            reads: own,
            writes: chunks,
            reply: reply_chunk,
        }),
        _ => Body::Nomsg(HeaderNomsg {
            reads: own,
            writes: chunks,
            reply: reply_chunk,
        }),
    };
    let value = Msg {
        xid: XID,
        vers: 1,
        credit: CREDITS,
        body,
    };
    let by_hand = chunks::Header {
        fixed: [XID, 1, CREDITS, procedure],
        direction: 0,
        reads,
        writes,
        reply,
    };
    let message = Message::new(name, move |buffer| encoded(&value, buffer))
        .encode(Codec::Hand, move |buffer| {
            chunks::encode::<1>(&by_hand, buffer)
        })
        .decode(Codec::Generated, Msg::from_bytes)
        .decode(Codec::Owned, owned::Msg::from_bytes)
        .decode(Codec::Hand, chunks::visit::<1>)
        .decode(Codec::Locating, chunks::locate::<1, false>)
        .decode(Codec::Limited, chunks::locate::<1, true>)
        .visit(Codec::Generated, |bytes| sum(&Msg::from_bytes(bytes).ok()?))
        .visit(Codec::Hand, chunks::visit::<1>)
        .length(Codec::Generated, move || value.encoded_len().ok());
    again::<Msg<'static>>(message)
}

fn sum(message: &Msg<'_>) -> Option<u64> {
    let fixed = u64::from(message.xid) + u64::from(message.vers) + u64::from(message.credit);
    let (reads, writes, reply) = match message.body {
        Body::Msg(header) => (header.reads, header.writes, header.reply),
        Body::Nomsg(header) => (header.reads, header.writes, header.reply),
        _ => return None,
    };
    let sum_of = |segment: &Segment| {
        (u64::from(segment.handle) + u64::from(segment.length)).wrapping_add(segment.offset)
    };
    let reads = reads
        .iter()
        .map(|read| u64::from(read.position).wrapping_add(sum_of(&read.target)));
    let writes = writes
        .iter()
        .chain(reply)
        .flat_map(|chunk| chunk.target.iter());
    Some(
        reads
            .chain(writes.map(|segment| sum_of(&segment)))
            .fold(fixed, u64::wrapping_add),
    )
}
