use crate::ErrorKind::*;
use crate::testing::{Chunk, Header, Segment, Tree, explain, refused, round_trip, same_verdicts, words, xdr_like};
use crate::{Decode, Error, Limits, List, Text};
use proptest::prelude::*;

#[test]
fn prefix_leaves_the_payload() {
    let octets = [0, 0, 0, 7, 1, 2];
    assert_eq!(u32::from_prefix(&octets), Ok((7, &octets[4..])));
    assert_eq!(u32::from_bytes(&octets), Err(Error::new(TrailingBytes, 4)));
    let limits = Limits { octets: 5, ..Limits::DEFAULT };
    let too_long = Err(Error::new(SizeLimit, 5));
    assert_eq!(u32::from_prefix_with(&octets, &limits), too_long);
    assert_eq!(u32::from_bytes_with(&octets, &limits), Err(Error::new(SizeLimit, 5)));
    let explained = u32::explain(&octets, &limits).unwrap();
    assert_eq!(explained.error(), Error::new(SizeLimit, 5));
    assert!(explained.path().is_empty());
}

#[test]
fn explanations_name_the_field() {
    // xid, one read, one write of two segments, a name.
    let good = [1, /* 4 */ 1, 7, 0, 1, 0, /* 24 */ 1, 2, 7, 0, 1, 7, 0, 1, 0, /* 60 */ 2, 0x61620000];
    let cases: &[(usize, u32, &str)] = &[
        (16, 0, "accepted"),
        (1, 2, "reads: boolean is neither 0 nor 1 at octet 4"),
        (6, 3, "writes: boolean is neither 0 nor 1 at octet 24"),
        (7, 5, "writes[0].target: length exceeds its bound at octet 28"),
        (7, 4, "writes[0].target[3].handle: unexpected end of input at octet 68"),
        (14, 2, "writes: boolean is neither 0 nor 1 at octet 56"),
        (15, 9, "name: length exceeds its bound at octet 60"),
        (15, 5, "name: unexpected end of input at octet 64"),
        (16, 0x61620001, "name: padding is not zero at octet 66"),
    ];
    for &(at, word, expected) in cases {
        let mut octets = good;
        octets[at] = word;
        assert_eq!(explain::<Header<'_>>(&words(&octets)), expected);
    }
    let mut octets = words(&good);
    octets.push(0);
    assert_eq!(explain::<Header<'_>>(&octets), "trailing octets after the value at octet 68");
    let cut = explain::<Header<'_>>(&octets[..18]);
    assert_eq!(cut, "reads[0].offset: unexpected end of input at octet 12");
    refused::<Header<'_>>(&octets[..18], UnexpectedEnd, 8);
}

#[test]
fn explanations_name_the_limit() {
    let octets = words(&[1, 0, 1, 0, 1, 0, 0, 0]);
    let limits = Limits { elements: 1, ..Limits::DEFAULT };
    let explained = Header::explain(&octets, &limits).unwrap();
    assert_eq!(explained.error(), Error::new(ElementLimit, 20));
    let limits = Limits { depth: 0, ..Limits::DEFAULT };
    let explained = Header::explain(&octets, &limits).unwrap();
    assert_eq!(explained.error(), Error::new(DepthLimit, 12));
    assert_eq!(Header::from_bytes_with(&octets, &limits), Err(explained.error()));
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
        round_trip(&header);
    }

    #[test]
    fn skip_accepts_what_decode_accepts(octets in xdr_like()) {
        same_verdicts::<Header<'_>>(&octets);
        same_verdicts::<Tree<'_>>(&octets);
        same_verdicts::<List<'_, Chunk<'_>>>(&octets);
        same_verdicts::<Segment>(&octets);
    }

    #[test]
    fn no_octets_make_a_panic(octets: std::vec::Vec<u8>) {
        same_verdicts::<Header<'_>>(&octets);
        same_verdicts::<Tree<'_>>(&octets);
    }
}
