use super::SliceFiller;
use crate::ErrorKind::*;
use crate::testing::{
    Chunk, Segment, Tree, assert_consistent, assert_rejected, assert_round_trip, explain, trees,
    words, xdr_like,
};
use crate::{Array, Decode, Decoder, Encode, Error, Limits, TooLong, Wire};
use proptest::prelude::*;
use std::{format, vec::Vec};

#[test]
fn bounds_are_checked_by_constructors_and_decoders() {
    assert!(Array::<u32, 2>::new(&[1, 2]).is_ok());
    assert_eq!(
        Array::<u32, 2>::new(&[1, 2, 3]),
        Err(TooLong { len: 3, max: 2 })
    );
    assert_rejected::<Array<'_, u32, 2>>(&words(&[3, 1, 2, 3]), TooLong, 0);
    assert_rejected::<(u32, Array<'_, bool, 2>)>(&words(&[0, 3, 1, 1, 1]), TooLong, 4);
    assert_eq!(<Array<'_, u64, 3>>::MAX, Some(28));
    assert_eq!(<Array<'_, u64>>::MAX, None);
}

#[test]
fn elements_are_validated_once() {
    assert_rejected::<Array<'_, u32>>(&words(&[2, 1]), UnexpectedEnd, 4);
    assert_rejected::<Array<'_, bool>>(&words(&[2, 1, 2]), InvalidBool, 8);
    assert_rejected::<Array<'_, u64>>(&words(&[0xff_ffff, 1]), UnexpectedEnd, 4);
    assert_rejected::<Array<'_, u32>>(&words(&[u32::MAX]), ElementLimit, 4);
    assert_eq!(
        explain::<Array<'_, Segment>>(&words(&[2, 1, 1, 1, 1, 1])),
        "[1].offset: unexpected end of input at byte 20"
    );
}

#[test]
fn elements_are_limited_over_all_arrays() {
    let bytes = words(&[2, 1, 1, 0, 5, 2, 1, 0, 6, 1, 0, 7]);
    let exact = Limits {
        elements: 5,
        ..Limits::DEFAULT
    };
    let array = Array::<Chunk<'_>>::from_bytes_with(&bytes, &exact).unwrap();
    assert_eq!(
        array.iter().map(|chunk| chunk.target.len()).sum::<usize>(),
        3
    );
    let fewer = Limits {
        elements: 4,
        ..Limits::DEFAULT
    };
    let error = Array::<Chunk<'_>>::from_bytes_with(&bytes, &fewer).unwrap_err();
    assert_eq!(error, Error::new(ElementLimit, 24));
}

/// An inner element has fewer bytes than the input that was validated.
#[test]
fn elements_without_bytes_are_decoded_from_a_part_of_the_input() {
    let bytes = words(&[2, 9, 3, 0]);
    let (arrays, rest) = Array::<Array<'_, ()>>::from_prefix(&bytes).unwrap();
    assert_eq!(
        arrays.iter().map(|units| units.len()).collect::<Vec<_>>(),
        [9, 3]
    );
    assert_eq!((arrays.get(0).unwrap().iter().count(), rest.len()), (9, 4));
}

#[test]
fn elements_are_decoded_or_taken_from_a_slice() {
    let bytes = words(&[3, 1, 0, 0]);
    let wire = Array::<bool>::from_bytes(&bytes).unwrap();
    let slice = Array::from(&[true, false, false]);
    assert_eq!(wire, slice);
    assert_ne!(wire, Array::from(&[true, false]));
    assert_ne!(wire, Array::from(&[true, false, true]));
    for array in [wire, slice] {
        assert_eq!((array.len(), array.iter().len()), (3, 3));
        assert_eq!(array.into_iter().collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(
            (array.get(0), array.get(2), array.get(3)),
            (Some(true), Some(false), None)
        );
        assert_eq!((array.get(usize::MAX), array.first()), (None, Some(true)));
        assert_eq!(
            format!("{array:?} {:?}", array.iter()),
            "[true, false, false] [true, false, false]"
        );
    }
    assert!(Array::<bool, 0>::default().is_empty());
    assert_eq!(Array::<bool>::default().first(), None);
}

#[test]
fn plain_elements_are_found_by_index() {
    let bytes = words(&[3, 7, 8, 9]);
    let array = Array::<u32>::from_bytes(&bytes).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|i| array.get(i)),
        [Some(7), Some(8), Some(9), None]
    );
    let bytes = words(&[4]);
    let units = Array::<()>::from_bytes(&bytes).unwrap();
    assert_eq!((units.get(3), units.get(4)), (Some(()), None));
}

#[test]
fn elements_without_bytes_have_a_bound_of_their_own() {
    assert!(Array::<()>::from_bytes(&words(&[0x1_0000])).is_ok());
    let error = Array::<()>::from_bytes(&words(&[0x1_0001])).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ElementLimit, 4));
}

#[test]
fn iterators_are_fused_and_exact() {
    let bytes = words(&[2, 1, 0]);
    let mut items = Array::<bool>::from_bytes(&bytes).unwrap().iter();
    let copy = items.clone();
    assert_eq!((items.next(), items.len()), (Some(true), 1));
    assert_eq!((items.next(), items.len()), (Some(false), 0));
    assert_eq!((items.next(), items.next()), (None, None));
    assert_eq!(copy.len(), 2);
}

#[test]
fn nested_arrays_are_levels() {
    assert!(Tree::from_bytes(&trees(64, 1)).is_ok());
    assert_rejected::<Tree<'_>>(&trees(65, 1), DepthLimit, 65 * 12);
    assert_rejected::<Tree<'_>>(&trees(100_000, 1), DepthLimit, 65 * 12);
}

/// Borrowed sequences are covariant: one with a longer lifetime is accepted for a shorter one.
#[test]
fn lifetimes_shrink() {
    fn same<'s>(a: Array<'s, Chunk<'s>>, _: &'s u32) -> Array<'s, Chunk<'s>> {
        a
    }
    static CHUNKS: [Chunk<'static>; 0] = [];
    assert!(same(Array::from(&CHUNKS), &7).is_empty());
}

proptest! {
    #[test]
    fn round_trips(numbers: Vec<u32>, flags: Vec<bool>, handles: [u32; 4], n in 0usize..=4) {
        assert_round_trip(&Array::<u32>::from(&numbers[..]));
        assert_round_trip(&Array::<bool>::from(&flags[..]));
        let segments = handles.map(|handle| Segment { handle, offset: 3 });
        assert_round_trip(&Array::<Segment, 4>::new(&segments[..n]).unwrap());
        let chunks = [Chunk { target: Array::new(&segments[..n]).unwrap() }; 4];
        assert_round_trip(&Array::<Chunk<'_>>::from(&chunks[n..]));
        prop_assert_eq!(Array::<u32>::from(&numbers[..]).encoded_len(), Ok(4 + 4 * numbers.len()));
    }

    #[test]
    fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
        assert_consistent::<Array<'_, u32, 2>>(&bytes);
        assert_consistent::<Array<'_, bool>>(&bytes);
        assert_consistent::<Array<'_, Array<'_, Option<u32>>, 3>>(&bytes);
    }
}

/// A source of known length and one of unknown length fill the same slice.
#[test]
fn fillers_accept_any_source() {
    let mut out = [0; 5];
    let mut filler = SliceFiller(&mut out);
    filler.extend([1, 2]);
    filler.extend((3..9).map_while(|n| (n < 5).then_some(n)));
    filler.extend([7, 8, 9]);
    assert!(filler.0.is_empty());
    assert_eq!(out, [1, 2, 3, 4, 7]);

    let bytes = [0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8];
    let mut out = [9u32; 3];
    assert_eq!(
        Array::<u32>::from_bytes(&bytes)
            .unwrap()
            .copy_to_slice(&mut out[..1]),
        1
    );
    assert_eq!(out, [7, 9, 9]);
    assert_eq!(Array::<u32>::from(&[5, 6]).copy_to_slice(&mut out), 2);
    assert_eq!(out, [5, 6, 9]);
}

/// What one pass over an array lends, and what it returns.
fn each<'a, T: Decode<'a> + Clone + 'a>(bytes: &'a [u8]) -> (Vec<T>, Result<Vec<T>, Error>) {
    let mut lent = Vec::new();
    let mut d = Decoder::new(bytes);
    let array = Array::<T>::decode_each(&mut d, |element| lent.push(element.clone()));
    let array = array.and_then(|array| d.finish().map(|()| array.iter().collect()));
    (lent, array)
}

#[test]
fn one_pass_lends_the_elements_of_two() {
    let bytes = words(&[2, 1, 1, 0, 5, 2, 1, 0, 6, 1, 0, 7]);
    let array = Array::<Chunk<'_>>::from_bytes(&bytes).unwrap();
    let elements: Vec<Chunk<'_>> = array.iter().collect();
    assert_eq!(elements.len(), 2);
    assert_eq!(each(&bytes), (elements.clone(), Ok(elements)));
    assert_eq!(each::<u32>(&words(&[0])), (Vec::new(), Ok(Vec::new())));
}

#[test]
fn one_pass_lends_the_elements_before_an_invalid_one() {
    let bytes = words(&[3, 1, 0, 2]);
    let error = Array::<bool>::from_bytes(&bytes).unwrap_err();
    assert_eq!(each(&bytes), (Vec::from([true, false]), Err(error)));
    for bytes in [words(&[u32::MAX]), words(&[1, 7, 9])] {
        let error = Array::<u32>::from_bytes(&bytes).unwrap_err();
        assert_eq!(each::<u32>(&bytes).1, Err(error), "{bytes:?}");
    }
    let cut = words(&[2, 1]);
    assert_rejected::<Array<'_, u32>>(&cut, UnexpectedEnd, 4);
    assert_eq!(
        each::<u32>(&cut),
        (Vec::from([1]), Err(Error::new(UnexpectedEnd, 8)))
    );
}

#[test]
fn one_pass_has_the_same_limits() {
    let bytes = words(&[2, 1, 1, 0, 5, 2, 1, 0, 6, 1, 0, 7]);
    for limits in [
        Limits {
            elements: 4,
            ..Limits::DEFAULT
        },
        Limits {
            elements: 5,
            ..Limits::DEFAULT
        },
        Limits {
            depth: 0,
            ..Limits::DEFAULT
        },
        Limits {
            depth: 1,
            ..Limits::DEFAULT
        },
    ] {
        let two = Array::<Chunk<'_>>::from_bytes_with(&bytes, &limits).map(|array| array.len());
        let mut d = Decoder::with_limits(&bytes, &limits).unwrap();
        let one = Array::<Chunk<'_>>::decode_each(&mut d, |_| {}).map(|array| array.len());
        assert_eq!(one, two, "{limits:?}");
    }
}
