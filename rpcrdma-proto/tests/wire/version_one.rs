//! Headers of Version One (RFC 8166).

use super::*;
use v1::{Body, Proc};

/// RFC 8166, section 4.3: a Position-Zero Read chunk of two segments, a Write chunk, a Reply
/// chunk.
const LISTS: &str = "
        00000001 00000000 000000a1 00000100 0000000000001000
        00000001 00000000 000000a2 00000100 0000000000002000
        00000000
        00000001 00000001 000000b1 00001000 0000000000003000
        00000001 00000000  # a Write chunk without segments: none was wanted
        00000000
        00000001 00000001 000000c1 00000400 0000000000004000
    ";

fn message(proc: &str, content: &str) -> (v1::Msg<'static>, v1::owned::Msg) {
    both::<v1::owned::Msg>(hex(&format!("deadbeef 00000001 00000040 {proc} {content}")))
}

#[test]
fn msg_and_nomsg() {
    let (header, own) = message("00000000", LISTS);
    assert_eq!(
        (header.xid, header.vers, header.credit),
        (0xdead_beef, v1::RPCRDMA_VERSION_ONE, 64)
    );
    let Body::Msg(lists) = header.body else {
        panic!("{header:?}")
    };
    assert_eq!(
        lists
            .reads
            .iter()
            .map(|read| read.target.handle)
            .collect::<Vec<_>>(),
        [0xa1, 0xa2]
    );
    assert_eq!(
        lists
            .writes
            .iter()
            .map(|chunk| chunk.target.len())
            .collect::<Vec<_>>(),
        [1, 0]
    );
    assert_eq!(lists.reply.unwrap().target.first().unwrap().length, 1024);
    assert!(matches!(own.body, v1::owned::Body::Msg(lists) if lists.writes.len() == 2));

    let (header, _) = message("00000001", LISTS);
    assert!(matches!(header.body, Body::Nomsg(lists) if lists.reads.len() == 2));
    let (header, _) = message("00000000", "00000000 00000000 00000000");
    assert!(
        matches!(header.body, Body::Msg(lists) if lists.reads.is_empty() && lists.reply.is_none())
    );
}

#[test]
fn msgp_and_done() {
    let (header, _) = message("00000002", &format!("00000008 00000200 {LISTS}"));
    assert!(matches!(header.body, Body::Msgp(padded) if (padded.align, padded.thresh) == (8, 512)));
    let (header, _) = message("00000003", "");
    assert_eq!((header.body, header.body.proc()), (Body::Done, Proc::Done));
}

#[test]
fn errors() {
    let (header, _) = message("00000004", "00000001 00000001 00000001");
    assert_eq!(
        header.body,
        Body::Error(v1::Error::Vers(v1::Errvers {
            vers_low: 1,
            vers_high: 1
        }))
    );
    let (header, own) = message("00000004", "00000002");
    assert_eq!(header.body, Body::Error(v1::Error::Chunk));
    assert_eq!(own.body, v1::owned::Body::Error(v1::Error::Chunk));
    // RDMA2_ERR_INVAL_OPTION is no error of Version One.
    let other = hex("deadbeef 00000001 00000040 00000004 00000003");
    assert_eq!(
        why::<v1::Msg<'_>>(other),
        "rdma_body.rdma_error: discriminant without an arm at byte 16"
    );
    let other = hex("deadbeef 00000001 00000040 00000005");
    assert_eq!(
        why::<v1::Msg<'_>>(other),
        "rdma_body: discriminant without an arm at byte 12"
    );
}
