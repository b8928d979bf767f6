//! Transport properties of Version Two (xcharext-03).

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
    let OptInfo::Connprop(connprop) = info else {
        panic!("{info:?}")
    };
    let found: Vec<Property<'_>> = connprop
        .start
        .iter()
        .map(|value| Property::of(&value).unwrap())
        .collect();
    assert_eq!(
        found,
        [
            Property::Rbsiz(4096),
            Property::Reqreminv(true),
            Property::Brs(Bkreqsup::Genl)
        ]
    );
    assert_eq!(connprop.nochg.iter().collect::<Vec<_>>(), [1, 3]);
    let owned::OptInfo::Connprop(connprop) = own else {
        panic!("{own:?}")
    };
    let found: Vec<owned::Property> = connprop
        .start
        .iter()
        .map(|value| owned::Property::of(value).unwrap())
        .collect();
    let expected = [
        owned::Property::Rbsiz(4096),
        owned::Property::Reqreminv(true),
        owned::Property::Brs(Bkreqsup::Genl),
    ];
    assert_eq!(found, expected);
    assert_eq!(connprop.nochg, [1, 3]);
}

/// Section 2.1: an empty value is the default, and unknown values are kept as received.
#[test]
fn reqprop_with_a_default_and_an_unknown() {
    let content = "
            00000002
            00000001 00000000                    # PROP_RBSIZ, by default
            ffffff42 00000005 0102030405 000000  # of the range for experiments
        ";
    let (info, _) = operation("00000002", content);
    let OptInfo::Reqprop(reqprop) = info else {
        panic!("{info:?}")
    };
    let found: Vec<Property<'_>> = reqprop
        .want
        .iter()
        .map(|value| Property::of(&value).unwrap())
        .collect();
    let unknown = Property::Unknown {
        code: 0xffff_ff42,
        data: &[1, 2, 3, 4, 5],
    };
    assert_eq!(found, [Property::Default { code: 1 }, unknown]);
    assert_eq!((found[0].code(), found[1].code()), (1, 0xffff_ff42));
    assert_eq!(
        (
            found[0].encode_to_vec().unwrap().len(),
            found[1].encode_to_vec().unwrap().len()
        ),
        (0, 5)
    );
}

#[test]
fn resprop() {
    let content = "
            00000001 00000001                      # done
            00000001 00000002                      # rejected
            00000001 00000003 00000004 00000001    # otherwise: PROP_BRS: BKREQSUP_INLINE
        ";
    let (info, own) = operation("00000003", content);
    let OptInfo::Resprop(resprop) = info else {
        panic!("{info:?}")
    };
    assert_eq!(
        (resprop.done.first(), resprop.rej.first()),
        (Some(1), Some(2))
    );
    assert_eq!(
        Property::of(&resprop.other.first().unwrap()),
        Ok(Property::Brs(Bkreqsup::Inline))
    );
    let owned::OptInfo::Resprop(resprop) = own else {
        panic!("{own:?}")
    };
    assert_eq!(
        (&resprop.done[..], &resprop.rej[..], resprop.other.len()),
        (&[1][..], &[2][..], 1)
    );
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
    let OptInfo::Updprop(updprop) = info else {
        panic!("{info:?}")
    };
    let found: Vec<Property<'_>> = updprop
        .now
        .iter()
        .map(|value| Property::of(&value).unwrap())
        .collect();
    let Property::Rbstruct(buffers) = found[0] else {
        panic!("{found:?}")
    };
    let group = buffers.groups.first().unwrap();
    assert_eq!(
        (buffers.length, group.count, group.info.length),
        (4096, 2, 1024)
    );
    assert_eq!(
        group.info,
        rtr::Seg {
            length: 1024,
            align: 512,
            flags: rtr::XMRSFLAG_PLT
        }
    );
    let limits = [
        Property::Rtrsupp(5),
        Property::Reqrxlim(0x10000),
        Property::Respsxlim(0x20000),
    ];
    assert_eq!(found[1..], limits);
    let owned::OptInfo::Updprop(updprop) = own else {
        panic!("{own:?}")
    };
    let owned::Property::Rbstruct(owned) = owned::Property::of(&updprop.now[0]).unwrap() else {
        panic!()
    };
    assert_eq!(owned.groups[..], [group]);
}

#[test]
fn wrong_lengths_are_refused() {
    let of = |which, data| {
        Property::of(&Propval { which, data }).map_err(|error| (error.kind(), error.offset()))
    };
    let end = |offset| Err((ErrorKind::UnexpectedEnd, offset));
    assert_eq!(of(1, &[0; 3]), end(0));
    assert_eq!(of(1, &[0; 5]), Err((ErrorKind::TrailingBytes, 4)));
    assert_eq!(of(1, &[0; 8]), Err((ErrorKind::TrailingBytes, 4)));
    assert_eq!(of(2, &[0, 0, 0, 2]), Err((ErrorKind::InvalidBool, 0)));
    assert_eq!(of(3, &[0, 0, 0, 3]), Err((ErrorKind::InvalidEnum, 0)));
    assert_eq!(of(4, &[0; 7]), end(4));
    assert_eq!(of(4, &[0, 0, 0, 0, 0, 0, 0, 1]), end(8));
    assert_eq!(
        of(7, &[0; 3]),
        Ok(Property::Unknown {
            code: 7,
            data: &[0; 3]
        })
    );
    // An unknown code has no default, so an empty value stays empty.
    assert_eq!(of(7, &[]), Ok(Property::Unknown { code: 7, data: &[] }));
    // An operation has no default either.
    assert_eq!(
        OptInfo::decode(1, &[]).unwrap_err().kind(),
        ErrorKind::UnexpectedEnd
    );
}

#[test]
fn unknown_operations_are_kept() {
    let (carrier, own) = carrier(optional("00000063", "01020304 05"));
    let info = OptInfo::of(&carrier).unwrap();
    assert_eq!(
        info,
        OptInfo::Unknown {
            code: 99,
            data: &[1, 2, 3, 4, 5]
        }
    );
    assert_eq!(info.encode_to_vec().unwrap(), [1, 2, 3, 4, 5]);
    let info = owned::OptInfo::of(&own).unwrap();
    assert_eq!(
        info,
        owned::OptInfo::Unknown {
            code: 99,
            data: vec![1, 2, 3, 4, 5]
        }
    );
}

#[test]
fn limits_reach_into_contents() {
    let content = hex(CONNPROP);
    let limits = Limits {
        elements: 4,
        ..Limits::DEFAULT
    };
    assert_eq!(
        OptInfo::decode_with(1, content, &limits)
            .unwrap_err()
            .kind(),
        ErrorKind::ElementLimit
    );
    let limits = Limits {
        bytes: 40,
        ..Limits::DEFAULT
    };
    assert_eq!(
        OptInfo::decode_with(1, content, &limits)
            .unwrap_err()
            .kind(),
        ErrorKind::SizeLimit
    );
}
