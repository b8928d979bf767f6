use crate::ErrorKind::*;
use crate::testing::{
    Chunk, Header, Segment, Tree, assert_consistent, assert_rejected, assert_round_trip, explain,
    words, xdr_like,
};
use crate::{Decode, Error, Limits, List, Text};
use proptest::prelude::*;

#[test]
fn a_payload_may_follow_a_prefix() {
    let bytes = [0, 0, 0, 7, 1, 2];
    assert_eq!(u32::from_prefix(&bytes), Ok((7, &bytes[4..])));
    assert_eq!(u32::from_bytes(&bytes), Err(Error::new(TrailingBytes, 4)));
    let limits = Limits {
        bytes: 5,
        ..Limits::DEFAULT
    };
    let too_long = Err(Error::new(SizeLimit, 5));
    assert_eq!(u32::from_prefix_with(&bytes, &limits), too_long);
    assert_eq!(
        u32::from_bytes_with(&bytes, &limits),
        Err(Error::new(SizeLimit, 5))
    );
    let explained = u32::explain(&bytes, &limits).unwrap();
    assert_eq!(explained.error(), Error::new(SizeLimit, 5));
    assert!(explained.path().is_empty());
}

#[test]
fn explanations_name_the_field() {
    // xid, one read, one write of two segments, a name.
    let good = [
        1, /* 4 */ 1, 7, 0, 1, 0, /* 24 */ 1, 2, 7, 0, 1, 7, 0, 1, 0, /* 60 */ 2,
        0x61620000,
    ];
    let cases: &[(usize, u32, &str)] = &[
        (16, 0, "accepted"),
        (1, 2, "reads: boolean is neither 0 nor 1 at byte 4"),
        (6, 3, "writes: boolean is neither 0 nor 1 at byte 24"),
        (
            7,
            5,
            "writes[0].target: length exceeds its bound at byte 28",
        ),
        (
            7,
            4,
            "writes[0].target[3].handle: unexpected end of input at byte 68",
        ),
        (14, 2, "writes: boolean is neither 0 nor 1 at byte 56"),
        (15, 9, "name: length exceeds its bound at byte 60"),
        (15, 5, "name: unexpected end of input at byte 64"),
        (16, 0x61620001, "name: padding is not zero at byte 66"),
    ];
    for &(at, word, expected) in cases {
        let mut bytes = good;
        bytes[at] = word;
        assert_eq!(explain::<Header<'_>>(&words(&bytes)), expected);
    }
    let mut bytes = words(&good);
    bytes.push(0);
    assert_eq!(
        explain::<Header<'_>>(&bytes),
        "trailing bytes after the value at byte 68"
    );
    let cut = explain::<Header<'_>>(&bytes[..18]);
    assert_eq!(cut, "reads[0].offset: unexpected end of input at byte 12");
    assert_rejected::<Header<'_>>(&bytes[..18], UnexpectedEnd, 8);
}

#[test]
fn explanations_name_the_limit() {
    let bytes = words(&[1, 0, 1, 0, 1, 0, 0, 0]);
    let limits = Limits {
        elements: 1,
        ..Limits::DEFAULT
    };
    let explained = Header::explain(&bytes, &limits).unwrap();
    assert_eq!(explained.error(), Error::new(ElementLimit, 20));
    let limits = Limits {
        depth: 0,
        ..Limits::DEFAULT
    };
    let explained = Header::explain(&bytes, &limits).unwrap();
    assert_eq!(explained.error(), Error::new(DepthLimit, 12));
    assert_eq!(
        Header::from_bytes_with(&bytes, &limits),
        Err(explained.error())
    );
}

proptest! {
    #[test]
    fn round_trips(xid: u32, handles: [u32; 3], n in 0usize..=3, len in 0usize..=8) {
        let segments = handles.map(|handle| Segment { handle, offset: handle.into() });
        let chunk = Chunk { target: crate::Array::new(&segments[..n]).unwrap() };
        let writes = [chunk, Chunk::default(), chunk];
        let header = Header {
            xid,
            reads: List::from(&segments[n..]),
            writes: List::from(&writes[n..]),
            name: Text::from_bytes(&b"\xff\0abcdef"[..len]).unwrap(),
        };
        assert_round_trip(&header);
    }

    #[test]
    fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
        assert_consistent::<Header<'_>>(&bytes);
        assert_consistent::<Tree<'_>>(&bytes);
        assert_consistent::<List<'_, Chunk<'_>>>(&bytes);
        assert_consistent::<Segment>(&bytes);
    }

    #[test]
    fn no_input_causes_a_panic(bytes: std::vec::Vec<u8>) {
        assert_consistent::<Header<'_>>(&bytes);
        assert_consistent::<Tree<'_>>(&bytes);
    }
}
