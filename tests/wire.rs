//! Exact octets of real messages, written by hand from the drafts and RFCs, in both shapes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use rpcrdma_proto::v2::{self, characteristics, properties, rtr};
use rpcrdma_proto::{rpc, v1};
use xdrgen_runtime::{Decode, Encode, ErrorKind, Limits, Owned};

/// The octets of hexadecimal digits; what follows a `#` on a line is a remark.
fn hex(text: &str) -> &'static [u8] {
    let digits: String = text.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half an octet");
    let octets = digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap());
    octets.collect::<Vec<u8>>().leak()
}

/// The value of these octets, which encodes to them, and to which no prefix of them and nothing longer decodes.
fn exact<'a, T: Decode<'a> + Encode + Debug + PartialEq>(octets: &'a [u8]) -> T {
    let value = T::from_bytes(octets).unwrap_or_else(|_| panic!("{:?}", T::explain(octets, &Limits::DEFAULT)));
    assert_eq!(value.encoded_len(), Ok(octets.len()));
    assert_eq!(value.encode_to_vec().unwrap(), octets);
    assert!(T::MIN <= octets.len() && T::MAX.is_none_or(|max| octets.len() <= max));
    assert_eq!(T::explain(octets, &Limits::DEFAULT), None);
    for end in 0..octets.len() {
        let error = T::from_bytes(&octets[..end]).expect_err("a prefix was accepted");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEnd);
        assert!(error.offset() <= end);
        let explained = T::explain(&octets[..end], &Limits::DEFAULT).unwrap().error();
        assert_eq!(explained.kind(), ErrorKind::UnexpectedEnd);
        assert!((error.offset()..=end).contains(&explained.offset()));
    }
    for extra in 1..8 {
        let longer: &'static [u8] = [octets, &[0; 8][..extra]].concat().leak();
        let error = T::from_bytes(longer).expect_err("trailing octets were accepted");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::TrailingBytes, octets.len()));
        let (prefix, rest) = T::from_prefix(longer).unwrap();
        assert_eq!((prefix, rest.len()), (T::from_bytes(octets).unwrap(), extra));
    }
    value
}

/// [`exact`] in both shapes, which convert into each other.
fn both<'a, O>(octets: &'a [u8]) -> (O::Borrowed<'a>, O)
where
    O: Owned + Decode<'a> + Debug + PartialEq + From<O::Borrowed<'a>>,
    O::Borrowed<'a>: Encode + Debug + PartialEq + Copy,
{
    let (borrowed, owned) = (exact::<O::Borrowed<'a>>(octets), exact::<O>(octets));
    assert_eq!(O::from(borrowed), owned);
    let buf: &'static mut Vec<u8> = Box::leak(Box::default());
    assert_eq!(owned.borrow_in(buf).unwrap(), borrowed);
    (borrowed, owned)
}

/// Why octets are refused, with the path of the field.
fn why<'a, T: Decode<'a>>(octets: &'a [u8]) -> String {
    T::explain(octets, &Limits::DEFAULT).map_or("accepted".to_owned(), |explanation| explanation.to_string())
}

mod version_two {
    use super::*;
    use v2::{Body, Errcode, MsgType, Proc};

    /// version-two-01, section 4.2: a call with one Read segment at position 40 and one Write chunk of four segments.
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
        let octets = hex(MSG);
        let (header, owned) = both::<v2::owned::XprtHdr>(octets);
        assert_eq!((header.xid, header.vers, header.credit), (0x5ca1_ab1e, 2, 32));
        assert_eq!(header.body.proc(), Proc::Msg);
        let Body::Msg(chunks) = header.body else { panic!("{header:?}") };
        assert_eq!(chunks.direction, MsgType::Call);
        let read = chunks.reads.first().unwrap();
        assert_eq!((chunks.reads.len(), read.position), (1, 40));
        assert_eq!(read.target, v2::Segment { handle: 0x0bad_f00d, length: 4096, offset: 0x10000 });
        assert_eq!(chunks.writes.len(), 1);
        let segments = chunks.writes.first().unwrap().target;
        assert_eq!(segments.iter().map(|segment| segment.handle).collect::<Vec<_>>(), [0x11, 0x22, 0x33, 0x44]);
        assert_eq!(segments.get(3).unwrap(), v2::Segment { handle: 0x44, length: 255, offset: 0x4444_4444_4444_4000 });
        assert_eq!(chunks.reply, None);

        let v2::owned::Body::Msg(chunks) = owned.body else { panic!("{owned:?}") };
        assert_eq!(chunks.writes[0].target[1].offset, 0x2222_2222_2222_2000);
        assert_eq!(chunks.reads[0], read);
    }

    /// The same, built from values instead of octets: the caller's slices, without any allocation.
    #[test]
    fn msg_from_slices() {
        let segment = |handle, length, offset| v2::Segment { handle, length, offset };
        let reads = [v2::ReadSegment { position: 40, target: segment(0x0bad_f00d, 4096, 0x10000) }];
        let target = [
            segment(0x11, 0x400, 0x1111_1111_1111_1000),
            segment(0x22, 0x400, 0x2222_2222_2222_2000),
            segment(0x33, 0x400, 0x3333_3333_3333_3000),
            segment(0x44, 0xff, 0x4444_4444_4444_4000),
        ];
        let writes = [v2::WriteChunk { target: target[..].into() }];
        let chunks = v2::ChunkLists {
            direction: MsgType::Call,
            reads: reads[..].into(),
            writes: writes[..].into(),
            reply: None,
        };
        let header = v2::XprtHdr { xid: 0x5ca1_ab1e, vers: 2, credit: 32, body: Body::Msg(chunks) };
        let mut buf = [0xee; 256];
        let used = header.encode_to_slice(&mut buf).unwrap();
        assert_eq!(buf[..used], *hex(MSG));
        assert_eq!(v2::XprtHdr::from_bytes(hex(MSG)), Ok(header));
    }

    #[test]
    fn nomsg() {
        let (header, _) = both::<v2::owned::XprtHdr>(hex(NOMSG));
        let Body::Nomsg(chunks) = header.body else { panic!("{header:?}") };
        assert_eq!((chunks.direction, chunks.reads.len(), chunks.writes.len()), (MsgType::Reply, 0, 0));
        let reply = chunks.reply.unwrap().target;
        assert_eq!(reply.iter().map(|segment| segment.length).sum::<u32>(), 0x180);
    }

    #[test]
    fn errors() {
        let cases = [
            ("00000001 00000001 00000002", v2::Error::Vers(v2::ErrVers { vers_low: 1, vers_high: 2 }), Errcode::Vers),
            ("00000002", v2::Error::BadHeader, Errcode::BadHeader),
            ("00000003", v2::Error::InvalOption, Errcode::InvalOption),
        ];
        for (content, error, code) in cases {
            let octets = hex(&format!("00000007 00000002 00000001 00000004 {content}"));
            let (header, owned) = both::<v2::owned::XprtHdr>(octets);
            assert_eq!((header.xid, header.body, error.err()), (7, Body::Error(error), code));
            assert_eq!(owned.body, v2::owned::Body::Error(error));
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        // Two words from the third segment's end.
        let octets = hex(MSG);
        assert_eq!(
            why::<v2::XprtHdr<'_>>(&octets[..100]),
            "rdma_body.rdma_chunks.rdma_writes[0].rdma_target[2].rdma_offset: unexpected end of input at octet 96"
        );
        assert_eq!(why::<v2::owned::XprtHdr>(&octets[..100]), why::<v2::XprtHdr<'_>>(&octets[..100]));
        let at = |at: usize, word: u32| {
            let mut octets = octets.to_vec();
            octets[at..at + 4].copy_from_slice(&word.to_be_bytes());
            (why::<v2::XprtHdr<'_>>(&octets), why::<v2::owned::XprtHdr>(&octets))
        };
        let same = |text: &str| (text.to_owned(), text.to_owned());
        // 2 and 3 are RDMA_MSGP and RDMA_DONE of Version One, which Version Two has no more.
        assert_eq!(at(12, 2), same("rdma_body: discriminant without an arm at octet 12"));
        assert_eq!(at(12, 6), same("rdma_body: discriminant without an arm at octet 12"));
        let chunks = "rdma_body.rdma_chunks.rdma";
        assert_eq!(at(16, 2), same(&format!("{chunks}_direction: unknown value of an enumeration at octet 16")));
        assert_eq!(at(20, 2), same(&format!("{chunks}_reads: boolean is neither 0 nor 1 at octet 20")));
        assert_eq!(at(44, 0x100), same(&format!("{chunks}_reads: boolean is neither 0 nor 1 at octet 44")));
        let counted = format!("{chunks}_writes[0].rdma_target[4].rdma_offset: unexpected end of input at octet 128");
        assert_eq!(at(52, 99), same(&counted));
        let least = format!("{chunks}_writes[0].rdma_target: sequences exceed the element limit at octet 56");
        assert_eq!(at(52, u32::MAX), same(&least));
    }

    /// A header stands before a payload.
    #[test]
    fn payload_follows() {
        let octets = [hex(MSG), b"payload"].concat();
        let (header, payload) = v2::XprtHdr::from_prefix(&octets).unwrap();
        assert_eq!((header.xid, payload), (0x5ca1_ab1e, &b"payload"[..]));
        let error = v2::XprtHdr::from_bytes(&octets).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::TrailingBytes, hex(MSG).len()));
    }
}

/// A header of RDMA2_OPTIONAL with this operation and content, in the direction of a call.
fn optional(code: &str, content: &str) -> &'static [u8] {
    let content = hex(content);
    let mut octets = hex(&format!("0000002a 00000002 00000004 00000005 00000000 {code}")).to_vec();
    octets.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    octets.extend(content);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets.leak()
}

/// The `rdma_optional` of a message of it, in both shapes.
fn carrier(octets: &'static [u8]) -> (v2::Optional<'static>, v2::owned::Optional) {
    let (header, owned) = both::<v2::owned::XprtHdr>(octets);
    let (v2::Body::Optional(carrier), v2::owned::Body::Optional(owned)) = (header.body, owned.body) else {
        panic!("{header:?}")
    };
    assert_eq!((header.xid, carrier.optdir), (42, v2::MsgType::Call));
    (carrier, *owned)
}

/// The content of an operation, in both shapes, encoded again to the same octets.
fn operation(code: &str, content: &str) -> (properties::OptInfo<'static>, properties::owned::OptInfo) {
    let (carrier, owned) = carrier(optional(code, content));
    let info = properties::OptInfo::of(&carrier).unwrap();
    let info_owned = properties::owned::OptInfo::of(&owned).unwrap();
    assert_eq!((info.code(), info_owned.code()), (carrier.opttype, carrier.opttype));
    assert_eq!(info.encode_to_vec().unwrap(), carrier.optinfo);
    assert_eq!(info_owned.encode_to_vec().unwrap(), carrier.optinfo);
    for end in 0..carrier.optinfo.len() {
        let cut = properties::OptInfo::decode(carrier.opttype, &carrier.optinfo[..end]);
        let cut_owned = properties::owned::OptInfo::decode(carrier.opttype, &carrier.optinfo[..end]);
        assert_eq!(cut.unwrap_err().kind(), ErrorKind::UnexpectedEnd);
        assert_eq!(cut_owned.unwrap_err().kind(), ErrorKind::UnexpectedEnd);
    }
    let longer: &'static [u8] = [carrier.optinfo, &[0; 4]].concat().leak();
    let error = properties::OptInfo::decode(carrier.opttype, longer).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::TrailingBytes, carrier.optinfo.len()));
    (info, info_owned)
}

mod transport_properties {
    use super::*;
    use properties::{Bkreqsup, OptInfo, Property, Propval, owned};

    /// xcharext-03, section 4.1: receive buffer size, remote invalidation, requests backwards.
    const CONNPROP: &str = "
        00000003
        00000001 00000004 00001000  # PROP_RBSIZ: 4096
        00000002 00000004 00000001  # PROP_REQREMINV: TRUE
        00000003 00000004 00000002  # PROP_BRS: BKREQSUP_GENL
        00000002 00000001 00000003  # of which two will not change
    ";

    #[test]
    fn connprop() {
        let (info, own) = operation("00000001", CONNPROP);
        let OptInfo::Connprop(connprop) = info else { panic!("{info:?}") };
        let found: Vec<Property<'_>> = connprop.start.iter().map(|value| Property::of(&value).unwrap()).collect();
        assert_eq!(found, [Property::Rbsiz(4096), Property::Reqreminv(true), Property::Brs(Bkreqsup::Genl)]);
        assert_eq!(connprop.nochg.iter().collect::<Vec<_>>(), [1, 3]);
        let owned::OptInfo::Connprop(connprop) = own else { panic!("{own:?}") };
        let found: Vec<owned::Property> =
            connprop.start.iter().map(|value| owned::Property::of(value).unwrap()).collect();
        let expected =
            [owned::Property::Rbsiz(4096), owned::Property::Reqreminv(true), owned::Property::Brs(Bkreqsup::Genl)];
        assert_eq!(found, expected);
        assert_eq!(connprop.nochg, [1, 3]);
    }

    /// Section 2.1: no octets are the default value; what is not known is kept as it came.
    #[test]
    fn reqprop_with_a_default_and_an_unknown() {
        let content = "
            00000002
            00000001 00000000                    # PROP_RBSIZ, by default
            ffffff42 00000005 0102030405 000000  # of the range for experiments
        ";
        let (info, _) = operation("00000002", content);
        let OptInfo::Reqprop(reqprop) = info else { panic!("{info:?}") };
        let found: Vec<Property<'_>> = reqprop.want.iter().map(|value| Property::of(&value).unwrap()).collect();
        let unknown = Property::Unknown { code: 0xffff_ff42, data: &[1, 2, 3, 4, 5] };
        assert_eq!(found, [Property::Default { code: 1 }, unknown]);
        assert_eq!((found[0].code(), found[1].code()), (1, 0xffff_ff42));
        assert_eq!((found[0].encode_to_vec().unwrap().len(), found[1].encode_to_vec().unwrap().len()), (0, 5));
    }

    #[test]
    fn resprop() {
        let content = "
            00000001 00000001                      # done
            00000001 00000002                      # rejected
            00000001 00000003 00000004 00000001    # otherwise: PROP_BRS: BKREQSUP_INLINE
        ";
        let (info, own) = operation("00000003", content);
        let OptInfo::Resprop(resprop) = info else { panic!("{info:?}") };
        assert_eq!((resprop.done.first(), resprop.rej.first()), (Some(1), Some(2)));
        assert_eq!(Property::of(&resprop.other.first().unwrap()), Ok(Property::Brs(Bkreqsup::Inline)));
        let owned::OptInfo::Resprop(resprop) = own else { panic!("{own:?}") };
        assert_eq!((&resprop.done[..], &resprop.rej[..], resprop.other.len()), (&[1][..], &[2][..], 1));
    }

    /// rtrext-02, section 8.2: the structure of receive buffers, among the properties.
    #[test]
    fn updprop() {
        let content = "
            00000004
            00000004 00000018 00001000 00000001 00000002 00000400 00000200 00000001  # XPROP_RBSTRUCT
            ffffff03 00000004 00000005  # XPROP_RTRSUPP: RTRS_XREQ and RTRS_XCONT
            00000005 00000004 00010000  # XPROP_REQRXLIM
            00000006 00000004 00020000  # XPROP_RESPSXLIM
        ";
        let (info, own) = operation("00000004", content);
        let OptInfo::Updprop(updprop) = info else { panic!("{info:?}") };
        let found: Vec<Property<'_>> = updprop.now.iter().map(|value| Property::of(&value).unwrap()).collect();
        let Property::Rbstruct(buffers) = found[0] else { panic!("{found:?}") };
        let group = buffers.groups.first().unwrap();
        assert_eq!((buffers.length, group.count, group.info.length), (4096, 2, 1024));
        assert_eq!(group.info, rtr::Seg { length: 1024, align: 512, flags: rtr::XMRSFLAG_PLT });
        let limits = [Property::Rtrsupp(5), Property::Reqrxlim(0x10000), Property::Respsxlim(0x20000)];
        assert_eq!(found[1..], limits);
        let owned::OptInfo::Updprop(updprop) = own else { panic!("{own:?}") };
        let owned::Property::Rbstruct(owned) = owned::Property::of(&updprop.now[0]).unwrap() else { panic!() };
        assert_eq!(owned.groups[..], [group]);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let of = |which, data| Property::of(&Propval { which, data }).map_err(|error| (error.kind(), error.offset()));
        let end = |offset| Err((ErrorKind::UnexpectedEnd, offset));
        assert_eq!(of(1, &[0; 3]), end(0));
        assert_eq!(of(1, &[0; 5]), Err((ErrorKind::TrailingBytes, 4)));
        assert_eq!(of(1, &[0; 8]), Err((ErrorKind::TrailingBytes, 4)));
        assert_eq!(of(2, &[0, 0, 0, 2]), Err((ErrorKind::InvalidBool, 0)));
        assert_eq!(of(3, &[0, 0, 0, 3]), Err((ErrorKind::InvalidEnum, 0)));
        assert_eq!(of(4, &[0; 7]), end(4));
        assert_eq!(of(4, &[0, 0, 0, 0, 0, 0, 0, 1]), end(8));
        assert_eq!(of(7, &[0; 3]), Ok(Property::Unknown { code: 7, data: &[0; 3] }));
        // An unknown code has no default: no octets are what came.
        assert_eq!(of(7, &[]), Ok(Property::Unknown { code: 7, data: &[] }));
        // An operation has no default either.
        assert_eq!(OptInfo::decode(1, &[]).unwrap_err().kind(), ErrorKind::UnexpectedEnd);
    }

    #[test]
    fn unknown_operations_are_kept() {
        let (carrier, own) = carrier(optional("00000063", "01020304 05"));
        let info = OptInfo::of(&carrier).unwrap();
        assert_eq!(info, OptInfo::Unknown { code: 99, data: &[1, 2, 3, 4, 5] });
        assert_eq!(info.encode_to_vec().unwrap(), [1, 2, 3, 4, 5]);
        let info = owned::OptInfo::of(&own).unwrap();
        assert_eq!(info, owned::OptInfo::Unknown { code: 99, data: vec![1, 2, 3, 4, 5] });
    }

    #[test]
    fn limits_reach_into_contents() {
        let content = hex(CONNPROP);
        let limits = Limits { elements: 4, ..Limits::DEFAULT };
        assert_eq!(OptInfo::decode_with(1, content, &limits).unwrap_err().kind(), ErrorKind::ElementLimit);
        let limits = Limits { octets: 40, ..Limits::DEFAULT };
        assert_eq!(OptInfo::decode_with(1, content, &limits).unwrap_err().kind(), ErrorKind::SizeLimit);
    }
}

mod continuation {
    use super::*;
    use properties::{OptInfo, owned};
    use rtr::{Loc, OptrInfo, Rsdloc};

    /// rtrext-02, sections 7 and 9.2: placement by explicit RDMA, by transfer buffers, and of an item too short for it.
    #[test]
    fn xmtreq_with_placement() {
        let content = "
            00000003                                                      # optxrq_dp: three items
            00000010 00001000 00000001 00000001 00000077 00001000 0000000000abc000  # XMPTYPE_EXRW: one segment
            00000020 00000800 00000002 00000040 00000003 00000001 00000002 00000003  # XMPTYPE_TBSN: offset, 3 segments
            00000030 00000004 00000005                                    # XMPTYPE_TOOSHORT
            00000001                                                      # optxrq_rsd: one set
            00000008 00000100                                             # its range
            00000003                                                      # three items
            00000200 00000004 00000400 00000001 00000088 00002000 0000000000def000  # XMPTYPE_BYSIZE
            00000300 00000002                                             # XMPTYPE_TBSN
            00000400 00000003 00000000                                    # XMPTYPE_CHOICE, without segments
            00000002 00000001 00000190                                    # optxrq_count, optxrq_rsbuf, optxrq_pslen
        ";
        let (info, own) = operation("00000005", content);
        let OptInfo::Xmtreq(request) = info else { panic!("{info:?}") };
        assert_eq!((request.count, request.rsbuf, request.pslen), (2, 1, 400));
        let items: Vec<_> = request.dp.iter().collect();
        assert_eq!(
            items.iter().map(|item| (item.disp, item.length)).collect::<Vec<_>>(),
            [(16, 4096), (32, 2048), (48, 4)]
        );
        let Loc::Exrw(segments) = items[0].r#where else { panic!("{items:?}") };
        assert_eq!(segments.first(), Some(v2::Segment { handle: 0x77, length: 4096, offset: 0xabc000 }));
        let Loc::Tbsn(buffers) = items[1].r#where else { panic!("{items:?}") };
        assert_eq!((buffers.offset, buffers.bsnum.iter().collect::<Vec<_>>()), (64, vec![1, 2, 3]));
        assert_eq!(items[2].r#where, Loc::Tooshort);
        let set = request.rsd.first().unwrap();
        assert_eq!(set.range, rtr::Rsdrange { begin: 8, end: 256 });
        let items: Vec<_> = set.items.iter().collect();
        let Rsdloc::Bysize(sized) = items[0].loc else { panic!("{items:?}") };
        assert_eq!((sized.dsdov, sized.bsex.len()), (0x400, 1));
        assert_eq!((items[1].minlen, items[1].loc), (0x300, Rsdloc::Tbsn));
        assert_eq!(items[2].loc.r#type(), rtr::Type::Choice);

        let owned::OptInfo::Xmtreq(request) = own else { panic!("{own:?}") };
        assert_eq!((request.dp.len(), request.rsd[0].items.len()), (3, 3));
        // XMPTYPE_BYSIZE is no place of an item that was sent.
        let moved = hex(&content.replacen("00000030 00000004 00000005", "00000030 00000004 00000004", 1));
        assert_eq!(OptInfo::decode(5, moved).unwrap_err().kind(), ErrorKind::InvalidDiscriminant);
        assert_eq!(why::<rtr::Req<'_>>(moved), "optxrq_dp[2].xmdmi_where: discriminant without an arm at octet 76");
    }

    #[test]
    fn xmtresp() {
        let content = "00000001 00000000 00000000 00000006 00000003 00000200";
        let (info, own) = operation("00000006", content);
        let OptInfo::Xmtresp(response) = info else { panic!("{info:?}") };
        assert_eq!((response.count, response.pslen), (3, 512));
        assert_eq!(response.dp.first().unwrap().r#where, Loc::Noitem);
        let owned::OptInfo::Xmtresp(response) = own else { panic!("{own:?}") };
        assert_eq!(response.dp[0].r#where, rtr::owned::Loc::Noitem);
    }

    #[test]
    fn xmtcont() {
        let (info, own) = operation("00000007", "00000002 00000005 00000300");
        let cont = rtr::Cont { xnum: 2, itype: 5, pslen: 768 };
        assert_eq!((info, own), (OptInfo::Xmtcont(cont), owned::OptInfo::Xmtcont(cont)));
    }

    #[test]
    fn repterr() {
        let bad = rtr::Id { xid: 42, dir: v2::MsgType::Reply, seq: 3 };
        let cases = [
            (
                "00000000 00000001 00000002 00000005",
                None,
                OptrInfo::Badhmt(rtr::OptrInfoMismatch { expect: 2, current: 5 }),
            ),
            ("00000000 00000003", None, OptrInfo::Badcont),
            (
                "00000001 0000002b 00000000 00000001 00000007 00000009 00000001 00000004",
                Some(rtr::Id { xid: 43, dir: v2::MsgType::Call, seq: 1 }),
                OptrInfo::Badtbsn(rtr::OptrInfoRange { value: 9, min: 1, max: 4 }),
            ),
        ];
        for (content, lead, info) in cases {
            let (found, own) = operation("00000008", &format!("0000002a 00000001 00000003 {content}"));
            let expected = rtr::OptreptErr { bad, lead, info };
            assert_eq!(found, OptInfo::Repterr(expected));
            assert!(matches!(own, owned::OptInfo::Repterr(error) if *error == expected));
        }
    }
}

mod transport_characteristics {
    use super::*;
    use characteristics::{Bkreqsup, Characteristic, OptInfo, owned};

    fn operation(code: &str, content: &str) -> (OptInfo<'static>, owned::OptInfo) {
        let (carrier, own) = carrier(optional(code, content));
        let (info, own) = (OptInfo::of(&carrier).unwrap(), owned::OptInfo::of(&own).unwrap());
        assert_eq!(info.encode_to_vec().unwrap(), carrier.optinfo);
        assert_eq!(own.encode_to_vec().unwrap(), carrier.optinfo);
        (info, own)
    }

    /// xcharext-02, section 4.1.
    #[test]
    fn initxch() {
        let content = "
            00000003
            00000001 00000004 00002000  # XCHAR_RBSIZ: 8192
            00000002 00000004 00000000  # XCHAR_REQREMINV: FALSE
            00000003 00000004 00000001  # XCHAR_BRS: BKREQSUP_INLINE
            00000001 00000001           # one that will not change
        ";
        let (info, own) = operation("00000001", content);
        let OptInfo::Initxch(init) = info else { panic!("{info:?}") };
        let found: Vec<_> = init.start.iter().map(|value| Characteristic::of(&value).unwrap()).collect();
        let expected =
            [Characteristic::Rbsiz(8192), Characteristic::Reqreminv(false), Characteristic::Brs(Bkreqsup::Inline)];
        assert_eq!(found, expected);
        assert_eq!(init.nochg.first(), Some(1));
        assert!(matches!(own, owned::OptInfo::Initxch(init) if init.start.len() == 3));
    }

    #[test]
    fn reqxch_and_respxch() {
        let (info, _) = operation("00000002", "00000001 00000001 00000004 00000400");
        assert!(matches!(info, OptInfo::Reqxch(request) if request.want.len() == 1));
        let (info, own) = operation("00000003", "00000001 00000001 00000000 00000002 00000002 00000003");
        let OptInfo::Respxch(response) = info else { panic!("{info:?}") };
        assert_eq!((response.done.len(), response.rej.len(), response.pend.len()), (1, 0, 2));
        assert!(matches!(own, owned::OptInfo::Respxch(response) if response.pend == [2, 3]));
    }

    /// One characteristic, not a set, and a boolean after it: where xcharext-03 has another shape for the same code.
    #[test]
    fn updxch() {
        let content = "00000001 00000004 00000800 00000001";
        let (info, _) = operation("00000004", content);
        let OptInfo::Updxch(update) = info else { panic!("{info:?}") };
        assert_eq!((Characteristic::of(&update.now), update.pendclr), (Ok(Characteristic::Rbsiz(2048)), true));
        assert!(properties::OptInfo::decode(4, hex(content)).is_err());
        // No rule of xcharext-02 gives no octets a meaning.
        let empty = characteristics::Xcharval { which: 1, data: &[] };
        assert_eq!(Characteristic::of(&empty).unwrap_err().kind(), ErrorKind::UnexpectedEnd);
    }
}

mod version_one {
    use super::*;
    use v1::{Body, Proc};

    /// RFC 8166, section 4.3: a Position-Zero Read chunk of two segments, a Write chunk, a Reply chunk.
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
        assert_eq!((header.xid, header.vers, header.credit), (0xdead_beef, v1::RPCRDMA_VERSION_ONE, 64));
        let Body::Msg(lists) = header.body else { panic!("{header:?}") };
        assert_eq!(lists.reads.iter().map(|read| read.target.handle).collect::<Vec<_>>(), [0xa1, 0xa2]);
        assert_eq!(lists.writes.iter().map(|chunk| chunk.target.len()).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(lists.reply.unwrap().target.first().unwrap().length, 1024);
        assert!(matches!(own.body, v1::owned::Body::Msg(lists) if lists.writes.len() == 2));

        let (header, _) = message("00000001", LISTS);
        assert!(matches!(header.body, Body::Nomsg(lists) if lists.reads.len() == 2));
        let (header, _) = message("00000000", "00000000 00000000 00000000");
        assert!(matches!(header.body, Body::Msg(lists) if lists.reads.is_empty() && lists.reply.is_none()));
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
        assert_eq!(header.body, Body::Error(v1::Error::Vers(v1::Errvers { vers_low: 1, vers_high: 1 })));
        let (header, own) = message("00000004", "00000002");
        assert_eq!(header.body, Body::Error(v1::Error::Chunk));
        assert_eq!(own.body, v1::owned::Body::Error(v1::Error::Chunk));
        // RDMA2_ERR_INVAL_OPTION is no error of Version One.
        let other = hex("deadbeef 00000001 00000040 00000004 00000003");
        assert_eq!(why::<v1::Msg<'_>>(other), "rdma_body.rdma_error: discriminant without an arm at octet 16");
        let other = hex("deadbeef 00000001 00000040 00000005");
        assert_eq!(why::<v1::Msg<'_>>(other), "rdma_body: discriminant without an arm at octet 12");
    }
}

mod onc_rpc {
    use super::*;
    use rpc::{
        AcceptStat, AcceptedReplyData, AuthFlavor, AuthStat, MismatchInfo, RejectedReply, ReplyBody, RpcMsgBody,
    };

    /// RFC 5531, section 9 and appendix A: NFSv3 GETATTR with AUTH_SYS.
    const CALL: &str = "
        00000100 00000000  # xid, CALL
        00000002 000186a3 00000003 00000001  # rpcvers, prog, vers, proc
        00000001 00000024  # AUTH_SYS, 36 octets
        00000099                       # stamp
        00000006 636c69656e74 0000     # machinename
        000003e8 00000064              # uid, gid
        00000002 0000000a 00000014     # gids
        00000000 00000000  # AUTH_NONE, empty
    ";

    #[test]
    fn call_with_auth_sys() {
        let octets = hex(CALL);
        let (message, own) = both::<rpc::owned::RpcMsg>(octets);
        let RpcMsgBody::Call(call) = message.body else { panic!("{message:?}") };
        assert_eq!((message.xid, call.rpcvers), (256, rpc::RPC_VERSION));
        assert_eq!((call.prog, call.vers, call.proc), (100_003, 3, 1));
        assert_eq!((call.cred.flavor, call.verf.flavor), (AuthFlavor::AuthSys as u32, AuthFlavor::AuthNone as u32));
        let (parameters, _) = both::<rpc::owned::AuthsysParms>(call.cred.body.as_bytes());
        assert_eq!((parameters.stamp, parameters.uid, parameters.gid), (0x99, 1000, 100));
        assert_eq!(parameters.machinename.to_str(), Ok("client"));
        assert_eq!(parameters.gids.iter().collect::<Vec<_>>(), [10, 20]);
        assert!(matches!(own.body, rpc::owned::RpcMsgBody::Call(call) if call.cred.body.len() == 36));
        let arguments = [octets, &[0, 0, 0, 4, 1, 2, 3, 4]].concat();
        assert_eq!(rpc::RpcMsg::from_prefix(&arguments).unwrap().1, [0, 0, 0, 4, 1, 2, 3, 4]);
    }

    #[test]
    fn bounds_of_authentication() {
        let mut long = hex(CALL).to_vec();
        long[28..32].copy_from_slice(&401u32.to_be_bytes());
        assert_eq!(why::<rpc::RpcMsg<'_>>(&long), "body.cbody.cred.body: length exceeds its bound at octet 28");
        let seventeen = [&[0; 16][..], &17u32.to_be_bytes(), &[0; 68]].concat();
        assert_eq!(why::<rpc::AuthsysParms<'_>>(&seventeen), "gids: length exceeds its bound at octet 16");
        let padded = hex("00000099 00000001 41000001");
        assert_eq!(why::<rpc::AuthsysParms<'_>>(padded), "machinename: padding is not zero at octet 9");
    }

    fn accepted(content: &str) -> AcceptedReplyData {
        let octets = hex(&format!("00000100 00000001 00000000 00000000 00000000 {content}"));
        let (message, _) = both::<rpc::owned::RpcMsg>(octets);
        let RpcMsgBody::Reply(ReplyBody::Accepted(reply)) = message.body else { panic!("{message:?}") };
        assert_eq!((reply.verf.flavor, reply.verf.body.len()), (0, 0));
        reply.reply_data
    }

    #[test]
    fn accepted_replies() {
        assert_eq!(accepted("00000000"), AcceptedReplyData::Success);
        assert_eq!(accepted("00000001"), AcceptedReplyData::ProgUnavail);
        let mismatch = MismatchInfo { low: 2, high: 4 };
        assert_eq!(accepted("00000002 00000002 00000004"), AcceptedReplyData::ProgMismatch(mismatch));
        assert_eq!(accepted("00000003"), AcceptedReplyData::ProcUnavail);
        assert_eq!(accepted("00000004"), AcceptedReplyData::GarbageArgs);
        assert_eq!(accepted("00000005").stat(), AcceptStat::SystemErr);
        let other = hex("00000100 00000001 00000000 00000000 00000000 00000006");
        assert_eq!(
            why::<rpc::RpcMsg<'_>>(other),
            "body.rbody.areply.reply_data: discriminant without an arm at octet 20"
        );
    }

    #[test]
    fn denied_replies() {
        let denied = |content: &str| {
            let (message, _) = both::<rpc::owned::RpcMsg>(hex(&format!("00000100 00000001 00000001 {content}")));
            let RpcMsgBody::Reply(ReplyBody::Denied(reply)) = message.body else { panic!("{message:?}") };
            reply
        };
        let range = MismatchInfo { low: 2, high: 2 };
        assert_eq!(denied("00000000 00000002 00000002"), RejectedReply::RpcMismatch(range));
        assert_eq!(denied("00000001 00000005"), RejectedReply::AuthError(AuthStat::AuthTooweak));
        assert_eq!(denied("00000001 0000000e"), RejectedReply::AuthError(AuthStat::RpcsecGssCtxproblem));
        let other = hex("00000100 00000001 00000001 00000001 0000000f");
        assert_eq!(why::<rpc::RpcMsg<'_>>(other), "body.rbody.rreply.why: unknown value of an enumeration at octet 16");
    }
}
