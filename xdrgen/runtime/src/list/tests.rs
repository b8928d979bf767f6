use crate::ErrorKind::*;
use crate::testing::{
    Chunk, Segment, Tree, assert_consistent, assert_rejected, assert_round_trip, explain, trees,
    words, xdr_like,
};
use crate::{Decode, Decoder, Error, Limits, List};
use proptest::prelude::*;
use std::{format, vec::Vec};

#[test]
fn tags_and_elements_are_checked() {
    assert_rejected::<List<'_, u32>>(&[], UnexpectedEnd, 0);
    assert_rejected::<List<'_, u32>>(&words(&[1, 7]), UnexpectedEnd, 8);
    assert_rejected::<List<'_, u32>>(&words(&[1, 7, 2]), InvalidBool, 8);
    assert_rejected::<List<'_, bool>>(&words(&[1, 7, 0]), InvalidBool, 4);
    assert_rejected::<List<'_, u32>>(&words(&[0, 0]), TrailingBytes, 4);
    let cut = words(&[1, 7, 7, 7, 1, 7, 7]);
    assert_eq!(
        explain::<List<'_, Segment>>(&cut),
        "[1].offset: unexpected end of input at byte 24"
    );
}

#[test]
fn elements_are_decoded_or_taken_from_a_slice() {
    let bytes = words(&[1, 7, 1, 8, 0]);
    let wire = List::<u32>::from_bytes(&bytes).unwrap();
    let slice = List::new(&[7, 8]).unwrap();
    assert_eq!(wire, slice);
    assert_ne!(wire, List::from(&[7]));
    for list in [wire, slice] {
        assert_eq!((list.len(), list.iter().len()), (2, 2));
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [7, 8]);
        assert_eq!(
            (list.first(), list.get(1), list.get(2)),
            (Some(7), Some(8), None)
        );
        assert_eq!(format!("{list:?}"), "[7, 8]");
    }
    assert!(List::<u32>::default().is_empty());
    assert!(!wire.is_empty());
}

#[test]
fn elements_are_limited_one_by_one() {
    let bytes = words(&[1, 7, 1, 8, 0]);
    let limits = Limits {
        elements: 2,
        ..Limits::DEFAULT
    };
    assert!(List::<u32>::from_bytes_with(&bytes, &limits).is_ok());
    let limits = Limits {
        elements: 1,
        ..Limits::DEFAULT
    };
    let error = List::<u32>::from_bytes_with(&bytes, &limits).unwrap_err();
    assert_eq!(error, Error::new(ElementLimit, 12));
}

#[test]
fn long_lists_do_not_recurse_and_deep_lists_are_rejected() {
    let mut long = words(&[1, 9, 0, 0, 0]).repeat(100_000);
    long.extend(words(&[0]));
    let limits = Limits {
        depth: 1,
        ..Limits::DEFAULT
    };
    let list = List::<Tree<'_>>::from_bytes_with(&long, &limits).unwrap();
    assert_eq!(list.iter().filter(|tree| tree.value == 9).count(), 100_000);

    assert!(Tree::from_bytes(&trees(64, 2)).is_ok());
    assert_rejected::<Tree<'_>>(&trees(65, 2), DepthLimit, 65 * 16);
    assert_rejected::<Tree<'_>>(&trees(100_000, 2), DepthLimit, 65 * 16);
}

proptest! {
    #[test]
    fn round_trips(numbers: Vec<u32>, flags: Vec<bool>) {
        assert_round_trip(&List::from(&numbers[..]));
        assert_round_trip(&List::from(&flags[..]));
        let chunks = [Chunk::default(); 3];
        assert_round_trip(&List::from(&chunks));
    }

    #[test]
    fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
        assert_consistent::<List<'_, u32>>(&bytes);
        assert_consistent::<List<'_, List<'_, bool>>>(&bytes);
    }
}

#[test]
fn one_pass_lends_the_elements_of_two() {
    let cases: [(&[u32], &[u32]); 4] = [
        (&[0], &[]),
        (&[1, 7, 1, 8, 0], &[7, 8]),
        (&[1, 7, 1], &[7]),
        (&[1, 7, 2], &[7]),
    ];
    for (message, expected) in cases {
        let bytes = words(message);
        let mut lent = Vec::new();
        let one = List::<u32>::decode_each(&mut Decoder::new(&bytes), |x| lent.push(*x));
        assert_eq!(one, List::<u32>::from_bytes(&bytes));
        assert_eq!(lent, expected);
    }
}
