//! Version Two: headers with and without chunks, properties, and a request with placement.

use std::hint::black_box;

use rpcrdma_proto::v2::properties::{self, Connprop, OptInfo, Property, Propval};
use rpcrdma_proto::v2::rtr::{
    self, Loc, LocTbsn, Mitem, Rsditem, Rsdloc, RsdlocBysize, Rsdrange, Rsdset,
};
use rpcrdma_proto::v2::{
    Body, ChunkLists, MsgType, Optional, ReadSegment, Segment, WriteChunk, XprtHdr, owned,
};
use xdrgen_runtime::{Decode, Encode, Error, ErrorKind, List};

use super::encoded;
use crate::codec::Codec;
use crate::hand::{self, chunks, placement};
use crate::message::Message;

const XID: u32 = 0x5ca1_ab1e;
const CREDITS: u32 = 32;

const fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment {
        handle,
        length,
        offset,
    }
}

/// Four segments, of which the last is short.
pub(super) const SEGMENTS: [Segment; 4] = [
    segment(0x11, 0x400, 0x1111_1111_1111_1000),
    segment(0x22, 0x400, 0x2222_2222_2222_2000),
    segment(0x33, 0x400, 0x3333_3333_3333_3000),
    segment(0x44, 0xff, 0x4444_4444_4444_4000),
];
static READ: [ReadSegment; 1] = [ReadSegment {
    position: 40,
    target: segment(0x0bad_f00d, 0x1000, 0x10000),
}];
/// The Position-Zero Read chunk of a long call, with two segments.
static CALL: [ReadSegment; 2] = [
    ReadSegment {
        position: 0,
        target: segment(0x51, 0x1000, 0x51000),
    },
    ReadSegment {
        position: 0,
        target: segment(0x52, 0x800, 0x52000),
    },
];

pub(super) fn all() -> Vec<Message> {
    vec![
        header("v2-msg", Body::Msg, 0, &[], &[], None),
        header("v2-msg-chunks", Body::Msg, 0, &READ, &[&SEGMENTS], None),
        header(
            "v2-long-call",
            Body::Nomsg,
            1,
            &CALL,
            &[],
            Some(&SEGMENTS[..2]),
        ),
        connprop(),
        xmtreq(),
    ]
}

fn header(
    name: &'static str,
    body: fn(ChunkLists<'static>) -> Body<'static>,
    procedure: u32,
    reads: &'static [ReadSegment],
    writes: &'static [&'static [Segment]],
    reply: Option<&'static [Segment]>,
) -> Message {
    let chunks: Vec<_> = writes
        .iter()
        .map(|target| WriteChunk {
            target: (*target).into(),
        })
        .collect();
    let chunk_lists = ChunkLists {
        direction: MsgType::Call,
        reads: reads.into(),
        writes: List::from(&*chunks.leak()),
        reply: reply.map(|target| WriteChunk {
            target: target.into(),
        }),
    };
    let value = XprtHdr {
        xid: XID,
        vers: 2,
        credit: CREDITS,
        body: body(chunk_lists),
    };
    let by_hand = chunks::Header {
        fixed: [XID, 2, CREDITS, procedure],
        direction: 0,
        reads,
        writes,
        reply,
    };
    let message = Message::new(name, move |buffer| encoded(&value, buffer))
        .encode(Codec::Hand, move |buffer| {
            chunks::encode::<2>(&by_hand, buffer)
        })
        .decode(Codec::Generated, XprtHdr::from_bytes)
        .decode(Codec::Owned, owned::XprtHdr::from_bytes)
        .decode(Codec::Hand, chunks::visit::<2>)
        .decode(Codec::Locating, chunks::locate::<2, false>)
        .decode(Codec::Limited, chunks::locate::<2, true>)
        .visit(Codec::Generated, |bytes| {
            Some(sum(&XprtHdr::from_bytes(bytes).ok()?))
        })
        .visit(Codec::Hand, chunks::visit::<2>)
        .length(Codec::Generated, move || value.encoded_len().ok());
    again::<XprtHdr<'static>>(message)
}

/// Adds the job of encoding a decoded value.
pub(super) fn again<T: Decode<'static> + Encode + 'static>(message: Message) -> Message {
    let Ok(decoded) = T::from_bytes(message.bytes) else {
        return message;
    };
    message.encode(Codec::Reencode, move |buffer| {
        decoded.encode_to_slice(buffer).ok()
    })
}

fn sum(header: &XprtHdr<'_>) -> u64 {
    let fixed = u64::from(header.xid) + u64::from(header.vers) + u64::from(header.credit);
    let (Body::Msg(lists) | Body::Nomsg(lists)) = &header.body else {
        return fixed;
    };
    let reads = lists
        .reads
        .iter()
        .map(|read| u64::from(read.position).wrapping_add(segment_sum(&read.target)));
    let writes = lists
        .writes
        .iter()
        .chain(lists.reply)
        .flat_map(|chunk| chunk.target.iter());
    reads
        .chain(writes.map(|segment| segment_sum(&segment)))
        .fold(fixed, u64::wrapping_add)
}

pub(super) fn segment_sum(segment: &Segment) -> u64 {
    (u64::from(segment.handle) + u64::from(segment.length)).wrapping_add(segment.offset)
}

/// Encodes a header of `RDMA2_OPTIONAL`, and returns its length.
fn optional(opttype: u32, optinfo: &[u8], buffer: &mut [u8]) -> usize {
    let body = Body::Optional(Optional {
        optdir: MsgType::Call,
        opttype,
        optinfo,
    });
    encoded(
        &XprtHdr {
            xid: XID,
            vers: 2,
            credit: CREDITS,
            body,
        },
        buffer,
    )
}

/// A header of `RDMA2_OPTIONAL` and its operation.
struct Operation<'a> {
    header: XprtHdr<'a>,
    info: OptInfo<'a>,
}

fn operation(bytes: &'static [u8]) -> Result<Operation<'static>, Error> {
    let header = XprtHdr::from_bytes(bytes)?;
    let Body::Optional(optional) = header.body else {
        return Err(Error::new(ErrorKind::InvalidDiscriminant, 12));
    };
    Ok(Operation {
        header,
        info: OptInfo::of(&optional)?,
    })
}

impl Operation<'_> {
    fn sum(&self) -> u64 {
        u64::from(self.header.xid) + u64::from(self.header.vers) + u64::from(self.header.credit)
    }
}

fn connprop() -> Message {
    const NOCHG: [u32; 2] = [5, 6];
    const VALUES: [(Property<'_>, hand::properties::Property); 3] = [
        (
            Property::Rbsiz(8192),
            hand::properties::Property::BufferSize(8192),
        ),
        (
            Property::Reqreminv(true),
            hand::properties::Property::RemoteInvalidation(true),
        ),
        (
            Property::Brs(properties::Bkreqsup::Genl),
            hand::properties::Property::BackwardSupport(2),
        ),
    ];
    let encode = |buffer: &mut [u8]| {
        let mut room = [[0; 4]; 3];
        let mut values = [Propval {
            which: 0,
            data: &[],
        }; 3];
        for ((value, room), (property, _)) in
            values.iter_mut().zip(&mut room).zip(black_box(&VALUES))
        {
            let Ok((which, data)) = property.encode_fields(room) else {
                return 0;
            };
            *value = Propval { which, data };
        }
        let operation = OptInfo::Connprop(Connprop {
            start: (&values).into(),
            nochg: black_box(&NOCHG).into(),
        });
        let mut room = [0; 64];
        operation
            .encode_fields(&mut room)
            .map_or(0, |(code, info)| optional(code, info, buffer))
    };
    let by_hand = VALUES.map(|(_, property)| property);
    Message::new("connprop", encode)
        .encode(Codec::Hand, move |buffer| {
            hand::properties::encode(
                [XID, 2, CREDITS],
                black_box(&by_hand),
                black_box(&NOCHG),
                buffer,
            )
        })
        .decode(Codec::Generated, operation)
        .decode(Codec::Hand, hand::properties::visit)
        .decode(Codec::Locating, hand::properties::locate)
        .visit(Codec::Generated, connprop_sum)
        .visit(Codec::Hand, hand::properties::visit)
}

fn connprop_sum(bytes: &'static [u8]) -> Option<u64> {
    let operation = operation(bytes).ok()?;
    let OptInfo::Connprop(connprop) = operation.info else {
        return None;
    };
    let mut sum = operation.sum();
    for property in &connprop.start {
        let value = match Property::of(&property).ok()? {
            Property::Rbsiz(size) => size,
            Property::Reqreminv(on) => u32::from(on),
            Property::Brs(support) => support.value().cast_unsigned(),
            _ => return None,
        };
        sum += u64::from(property.which) + u64::from(value);
    }
    Some(
        connprop
            .nochg
            .iter()
            .fold(sum, |sum, which| sum + u64::from(which)),
    )
}

fn xmtreq() -> Message {
    const NUMBERS: [u32; 3] = [1, 2, 3];
    const EXPLICIT: &[Segment] = SEGMENTS.split_at(1).0;
    static ITEMS: [(u32, u32, placement::Place<'_>); 3] = [
        (16, 4096, placement::Place::Explicit(EXPLICIT)),
        (32, 2048, placement::Place::Buffers(64, &NUMBERS)),
        (48, 4, placement::Place::TooShort),
    ];
    static RESULTS: [placement::Result<'_>; 2] = [
        (512, placement::Place::BySize(1024, EXPLICIT)),
        (768, placement::Place::AnyBuffer),
    ];
    static SETS: [placement::Set<'_>; 1] = [(8, 256, &RESULTS)];
    let encode = |buffer: &mut [u8]| {
        let dp = [
            Mitem {
                disp: 16,
                length: 4096,
                r#where: Loc::Exrw(EXPLICIT.into()),
            },
            Mitem {
                disp: 32,
                length: 2048,
                r#where: Loc::Tbsn(LocTbsn {
                    offset: 64,
                    bsnum: (&NUMBERS).into(),
                }),
            },
            Mitem {
                disp: 48,
                length: 4,
                r#where: Loc::Tooshort,
            },
        ];
        let bysize = Rsdloc::Bysize(RsdlocBysize {
            dsdov: 1024,
            bsex: EXPLICIT.into(),
        });
        let items = [
            Rsditem {
                minlen: 512,
                loc: bysize,
            },
            Rsditem {
                minlen: 768,
                loc: Rsdloc::Tbsn,
            },
        ];
        let rsd = [Rsdset {
            range: Rsdrange { begin: 8, end: 256 },
            items: (&items).into(),
        }];
        let request = rtr::Req {
            dp: (&dp).into(),
            rsd: (&rsd).into(),
            count: 2,
            rsbuf: 1,
            pslen: 400,
        };
        let mut room = [0; 256];
        OptInfo::Xmtreq(black_box(request))
            .encode_fields(&mut room)
            .map_or(0, |(code, info)| optional(code, info, buffer))
    };
    let by_hand = placement::Request {
        fixed: [XID, 2, CREDITS],
        items: &ITEMS,
        sets: &SETS,
        tail: [2, 1, 400],
    };
    Message::new("xmtreq", encode)
        .encode(Codec::Hand, move |buffer| {
            placement::encode(black_box(&by_hand), buffer)
        })
        .decode(Codec::Generated, operation)
        .decode(Codec::Hand, placement::visit)
        .decode(Codec::Locating, placement::locate)
        .visit(Codec::Generated, xmtreq_sum)
        .visit(Codec::Hand, placement::visit)
}

fn xmtreq_sum(bytes: &'static [u8]) -> Option<u64> {
    let operation = operation(bytes).ok()?;
    let OptInfo::Xmtreq(request) = operation.info else {
        return None;
    };
    let segments = |segments: xdrgen_runtime::Array<'_, Segment>| {
        segments
            .iter()
            .map(|segment| segment_sum(&segment))
            .fold(0, u64::wrapping_add)
    };
    let mut sum = [request.count, request.rsbuf, request.pslen]
        .map(u64::from)
        .iter()
        .sum::<u64>()
        + operation.sum();
    for item in &request.dp {
        sum += u64::from(item.disp) + u64::from(item.length);
        sum = sum.wrapping_add(match item.r#where {
            Loc::Exrw(target) => segments(target),
            Loc::Tbsn(buffers) => {
                u64::from(buffers.offset) + buffers.bsnum.iter().map(u64::from).sum::<u64>()
            }
            Loc::Tooshort | Loc::Noitem => 0,
        });
    }
    for set in &request.rsd {
        sum += u64::from(set.range.begin) + u64::from(set.range.end);
        for item in &set.items {
            sum = sum
                .wrapping_add(u64::from(item.minlen))
                .wrapping_add(match item.loc {
                    Rsdloc::Exrw(target) | Rsdloc::Choice(target) => segments(target),
                    Rsdloc::Bysize(sized) => {
                        segments(sized.bsex).wrapping_add(u64::from(sized.dsdov))
                    }
                    Rsdloc::Tbsn => 0,
                });
        }
    }
    Some(sum)
}
