//! Messages in several transmissions (rtrext-02).

use super::*;
use properties::{OptInfo, owned};
use rtr::{Loc, OptrInfo, Rsdloc};

/// rtrext-02, sections 7 and 9.2: placement by explicit RDMA, by transfer buffers, and of an
/// item too short for it.
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
    let OptInfo::Xmtreq(request) = info else {
        panic!("{info:?}")
    };
    assert_eq!((request.count, request.rsbuf, request.pslen), (2, 1, 400));
    let items: Vec<_> = request.dp.iter().collect();
    assert_eq!(
        items
            .iter()
            .map(|item| (item.disp, item.length))
            .collect::<Vec<_>>(),
        [(16, 4096), (32, 2048), (48, 4)]
    );
    let Loc::Exrw(segments) = items[0].r#where else {
        panic!("{items:?}")
    };
    assert_eq!(
        segments.first(),
        Some(v2::Segment {
            handle: 0x77,
            length: 4096,
            offset: 0xabc000
        })
    );
    let Loc::Tbsn(buffers) = items[1].r#where else {
        panic!("{items:?}")
    };
    assert_eq!(
        (buffers.offset, buffers.bsnum.iter().collect::<Vec<_>>()),
        (64, vec![1, 2, 3])
    );
    assert_eq!(items[2].r#where, Loc::Tooshort);
    let set = request.rsd.first().unwrap();
    assert_eq!(set.range, rtr::Rsdrange { begin: 8, end: 256 });
    let items: Vec<_> = set.items.iter().collect();
    let Rsdloc::Bysize(sized) = items[0].loc else {
        panic!("{items:?}")
    };
    assert_eq!((sized.dsdov, sized.bsex.len()), (0x400, 1));
    assert_eq!((items[1].minlen, items[1].loc), (0x300, Rsdloc::Tbsn));
    assert_eq!(items[2].loc.r#type(), rtr::Type::Choice);

    let owned::OptInfo::Xmtreq(request) = own else {
        panic!("{own:?}")
    };
    assert_eq!((request.dp.len(), request.rsd[0].items.len()), (3, 3));
    // XMPTYPE_BYSIZE is no place of an item that was sent.
    let moved = hex(&content.replacen(
        "00000030 00000004 00000005",
        "00000030 00000004 00000004",
        1,
    ));
    assert_eq!(
        OptInfo::decode(5, moved).unwrap_err().kind(),
        ErrorKind::InvalidDiscriminant
    );
    assert_eq!(
        why::<rtr::Req<'_>>(moved),
        "optxrq_dp[2].xmdmi_where: discriminant without an arm at byte 76"
    );
}

#[test]
fn xmtresp() {
    let content = "00000001 00000000 00000000 00000006 00000003 00000200";
    let (info, own) = operation("00000006", content);
    let OptInfo::Xmtresp(response) = info else {
        panic!("{info:?}")
    };
    assert_eq!((response.count, response.pslen), (3, 512));
    assert_eq!(response.dp.first().unwrap().r#where, Loc::Noitem);
    let owned::OptInfo::Xmtresp(response) = own else {
        panic!("{own:?}")
    };
    assert_eq!(response.dp[0].r#where, rtr::owned::Loc::Noitem);
}

#[test]
fn xmtcont() {
    let (info, own) = operation("00000007", "00000002 00000005 00000300");
    let cont = rtr::Cont {
        xnum: 2,
        itype: 5,
        pslen: 768,
    };
    assert_eq!(
        (info, own),
        (OptInfo::Xmtcont(cont), owned::OptInfo::Xmtcont(cont))
    );
}

#[test]
fn repterr() {
    let bad = rtr::Id {
        xid: 42,
        dir: v2::MsgType::Reply,
        seq: 3,
    };
    let cases = [
        (
            "00000000 00000001 00000002 00000005",
            None,
            OptrInfo::Badhmt(rtr::OptrInfoMismatch {
                expect: 2,
                current: 5,
            }),
        ),
        ("00000000 00000003", None, OptrInfo::Badcont),
        (
            "00000001 0000002b 00000000 00000001 00000007 00000009 00000001 00000004",
            Some(rtr::Id {
                xid: 43,
                dir: v2::MsgType::Call,
                seq: 1,
            }),
            OptrInfo::Badtbsn(rtr::OptrInfoRange {
                value: 9,
                min: 1,
                max: 4,
            }),
        ),
    ];
    for (content, lead, info) in cases {
        let (found, own) = operation("00000008", &format!("0000002a 00000001 00000003 {content}"));
        let expected = rtr::OptreptErr { bad, lead, info };
        assert_eq!(found, OptInfo::Repterr(expected));
        assert!(matches!(own, owned::OptInfo::Repterr(error) if *error == expected));
    }
}
