//! Headers of Version Two (version-two-01).

use super::*;
use v2::{Body, Errcode, MsgType, Proc};

/// version-two-01, section 4.2: a call with one Read segment at position 40 and one Write chunk
/// of four segments.
const MSG: &str = "
        5ca1ab1e  # rdma_xid
        00000002  # rdma_vers
        00000020  # rdma_credit
        00000000  # RDMA2_MSG
        00000000  # CALL
        00000001 00000028 0badf00d 00001000 0000000000010000  # a Read segment: position, handle, length, offset
        00000000  # end of the Read list
        00000001  # a Write chunk
        00000004  # of four segments
        00000011 00000400 1111111111111000
        00000022 00000400 2222222222222000
        00000033 00000400 3333333333333000
        00000044 000000ff 4444444444444000
        00000000  # end of the Write list
        00000000  # no Reply chunk
    ";

/// A reply in a Reply chunk of two segments, without any Payload stream.
const NOMSG: &str = "
        00000001 00000002 00000001
        00000001  # RDMA2_NOMSG
        00000001  # REPLY
        00000000 00000000  # neither Read nor Write list
        00000001 00000002  # a Reply chunk of two segments
        000000aa 00000100 00000000ffff0000
        000000bb 00000080 00000001ffff0000
    ";

#[test]
fn msg() {
    let bytes = hex(MSG);
    let (header, owned) = both::<v2::owned::XprtHdr>(bytes);
    assert_eq!(
        (header.xid, header.vers, header.credit),
        (0x5ca1_ab1e, 2, 32)
    );
    assert_eq!(header.body.proc(), Proc::Msg);
    let Body::Msg(chunks) = header.body else {
        panic!("{header:?}")
    };
    assert_eq!(chunks.direction, MsgType::Call);
    let read = chunks.reads.first().unwrap();
    assert_eq!((chunks.reads.len(), read.position), (1, 40));
    assert_eq!(
        read.target,
        v2::Segment {
            handle: 0x0bad_f00d,
            length: 4096,
            offset: 0x10000
        }
    );
    assert_eq!(chunks.writes.len(), 1);
    let segments = chunks.writes.first().unwrap().target;
    assert_eq!(
        segments
            .iter()
            .map(|segment| segment.handle)
            .collect::<Vec<_>>(),
        [0x11, 0x22, 0x33, 0x44]
    );
    assert_eq!(
        segments.get(3).unwrap(),
        v2::Segment {
            handle: 0x44,
            length: 255,
            offset: 0x4444_4444_4444_4000
        }
    );
    assert_eq!(chunks.reply, None);

    let v2::owned::Body::Msg(chunks) = owned.body else {
        panic!("{owned:?}")
    };
    assert_eq!(chunks.writes[0].target[1].offset, 0x2222_2222_2222_2000);
    assert_eq!(chunks.reads[0], read);
}

/// The same, built from values instead of bytes: the caller's slices, without any allocation.
#[test]
fn msg_from_slices() {
    let segment = |handle, length, offset| v2::Segment {
        handle,
        length,
        offset,
    };
    let reads = [v2::ReadSegment {
        position: 40,
        target: segment(0x0bad_f00d, 4096, 0x10000),
    }];
    let target = [
        segment(0x11, 0x400, 0x1111_1111_1111_1000),
        segment(0x22, 0x400, 0x2222_2222_2222_2000),
        segment(0x33, 0x400, 0x3333_3333_3333_3000),
        segment(0x44, 0xff, 0x4444_4444_4444_4000),
    ];
    let writes = [v2::WriteChunk {
        target: target[..].into(),
    }];
    let chunks = v2::ChunkLists {
        direction: MsgType::Call,
        reads: reads[..].into(),
        writes: writes[..].into(),
        reply: None,
    };
    let header = v2::XprtHdr {
        xid: 0x5ca1_ab1e,
        vers: 2,
        credit: 32,
        body: Body::Msg(chunks),
    };
    let mut buf = [0xee; 256];
    let used = header.encode_to_slice(&mut buf).unwrap();
    assert_eq!(buf[..used], *hex(MSG));
    assert_eq!(v2::XprtHdr::from_bytes(hex(MSG)), Ok(header));
}

#[test]
fn nomsg() {
    let (header, _) = both::<v2::owned::XprtHdr>(hex(NOMSG));
    let Body::Nomsg(chunks) = header.body else {
        panic!("{header:?}")
    };
    assert_eq!(
        (chunks.direction, chunks.reads.len(), chunks.writes.len()),
        (MsgType::Reply, 0, 0)
    );
    let reply = chunks.reply.unwrap().target;
    assert_eq!(
        reply.iter().map(|segment| segment.length).sum::<u32>(),
        0x180
    );
}

#[test]
fn errors() {
    let cases = [
        (
            "00000001 00000001 00000002",
            v2::Error::Vers(v2::ErrVers {
                vers_low: 1,
                vers_high: 2,
            }),
            Errcode::Vers,
        ),
        ("00000002", v2::Error::BadHeader, Errcode::BadHeader),
        ("00000003", v2::Error::InvalOption, Errcode::InvalOption),
    ];
    for (content, error, code) in cases {
        let bytes = hex(&format!("00000007 00000002 00000001 00000004 {content}"));
        let (header, owned) = both::<v2::owned::XprtHdr>(bytes);
        assert_eq!(
            (header.xid, header.body, error.err()),
            (7, Body::Error(error), code)
        );
        assert_eq!(owned.body, v2::owned::Body::Error(error));
    }
}

#[test]
fn refused_messages_have_a_reason() {
    // Two words from the third segment's end.
    let bytes = hex(MSG);
    assert_eq!(
        why::<v2::XprtHdr<'_>>(&bytes[..100]),
        "rdma_body.rdma_chunks.rdma_writes[0].rdma_target[2].rdma_offset: unexpected end of input \
        at byte 96"
    );
    assert_eq!(
        why::<v2::owned::XprtHdr>(&bytes[..100]),
        why::<v2::XprtHdr<'_>>(&bytes[..100])
    );
    let at = |at: usize, word: u32| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        (
            why::<v2::XprtHdr<'_>>(&bytes),
            why::<v2::owned::XprtHdr>(&bytes),
        )
    };
    let same = |text: &str| (text.to_owned(), text.to_owned());
    // 2 and 3 are RDMA_MSGP and RDMA_DONE of Version One, which Version Two has no more.
    assert_eq!(
        at(12, 2),
        same("rdma_body: discriminant without an arm at byte 12")
    );
    assert_eq!(
        at(12, 6),
        same("rdma_body: discriminant without an arm at byte 12")
    );
    let chunks = "rdma_body.rdma_chunks.rdma";
    assert_eq!(
        at(16, 2),
        same(&format!(
            "{chunks}_direction: unknown value of an enumeration at byte 16"
        ))
    );
    assert_eq!(
        at(20, 2),
        same(&format!(
            "{chunks}_reads: boolean is neither 0 nor 1 at byte 20"
        ))
    );
    assert_eq!(
        at(44, 0x100),
        same(&format!(
            "{chunks}_reads: boolean is neither 0 nor 1 at byte 44"
        ))
    );
    let counted = format!(
        "{chunks}_writes[0].rdma_target[4].rdma_offset: unexpected end of input at byte 128"
    );
    assert_eq!(at(52, 99), same(&counted));
    let least =
        format!("{chunks}_writes[0].rdma_target: sequences exceed the element limit at byte 56");
    assert_eq!(at(52, u32::MAX), same(&least));
}

/// A header stands before a payload.
#[test]
fn payload_follows() {
    let bytes = [hex(MSG), b"payload"].concat();
    let (header, payload) = v2::XprtHdr::from_prefix(&bytes).unwrap();
    assert_eq!((header.xid, payload), (0x5ca1_ab1e, &b"payload"[..]));
    let error = v2::XprtHdr::from_bytes(&bytes).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::TrailingBytes, hex(MSG).len())
    );
}
