use super::*;
use crate::Error;
use crate::ErrorKind::*;
use crate::testing::{
    Segment, Tree, assert_consistent, assert_rejected, assert_round_trip, encoded, explain,
    structure, trees, words, xdr_like,
};
use crate::{Array, Limits, List, Opaque, Text, TooLong};
use proptest::prelude::*;
use std::{cell::Cell, format, string::ToString, vec};

/// The owned shape of [`Tree`].
#[derive(Clone, PartialEq, Debug, Default)]
struct TreeBuf {
    value: u32,
    left: Option<Box<TreeBuf>>,
    kids: Vec<TreeBuf>,
    more: ListBuf<TreeBuf>,
}
structure!(TreeBuf {
    value: u32, left: Option<Box<TreeBuf>>, kids: Vec<TreeBuf>, more: ListBuf<TreeBuf>
} 16);

impl Owned for TreeBuf {
    type Borrowed<'a> = Tree<'a>;
}

#[test]
fn bounds_are_checked_by_constructors_and_decoders() {
    let too_long = TooLong { len: 3, max: 2 };
    assert_eq!(OpaqueBuf::<2>::new(vec![0; 3]), Err(too_long));
    assert_eq!(OpaqueBuf::<2>::try_from(vec![0; 3]), Err(too_long));
    assert_eq!(TextBuf::<2>::new("abc".to_string()), Err(too_long));
    assert_eq!(TextBuf::<2>::try_from("abc".to_string()), Err(too_long));
    assert_eq!(TextBuf::<2>::from_bytes(vec![0; 3]), Err(too_long));
    assert_eq!(ArrayBuf::<u32, 2>::new(vec![0; 3]), Err(too_long));
    assert_eq!(ArrayBuf::<u32, 2>::try_from(vec![0; 3]), Err(too_long));
    let mut array = ArrayBuf::<u32, 2>::new(vec![1]).unwrap();
    assert_eq!((array.push(2), array.push(3)), (Ok(()), Err(too_long)));
    array[0] = 7;
    assert_eq!(array.into_inner(), [7, 2]);
    assert_rejected::<OpaqueBuf<2>>(&words(&[3, 0]), TooLong, 0);
    assert_rejected::<TextBuf<2>>(&words(&[3, 0]), TooLong, 0);
    assert_rejected::<ArrayBuf<u32, 2>>(&words(&[3, 0, 0, 0]), TooLong, 0);
}

#[test]
fn bytes_are_checked() {
    assert_rejected::<Vec<u8>>(&words(&[1, 1]), InvalidPadding, 5);
    assert_rejected::<Vec<u8>>(&words(&[u32::MAX, 1]), UnexpectedEnd, 4);
    assert_rejected::<TextBuf>(&words(&[1, 1]), InvalidPadding, 5);
    assert_rejected::<OpaqueBuf<9>>(&words(&[5, 1]), UnexpectedEnd, 4);
    assert_rejected::<Vec<bool>>(&words(&[2, 1, 2]), InvalidBool, 8);
    assert_rejected::<ListBuf<bool>>(&words(&[1, 1, 1, 2, 0]), InvalidBool, 12);
    assert_rejected::<ListBuf<u32>>(&words(&[1, 1, 2]), InvalidBool, 8);
    assert_rejected::<Vec<u32>>(&words(&[u32::MAX]), ElementLimit, 4);
    let limits = Limits {
        elements: 1,
        ..Limits::DEFAULT
    };
    let bytes = words(&[1, 1, 1, 1, 0]);
    let error = ListBuf::<u32>::from_bytes_with(&bytes, &limits).unwrap_err();
    assert_eq!(error, Error::new(ElementLimit, 12));
}

/// Growth would leave unused capacity: 5 is not a power of two.
#[test]
fn each_sequence_is_one_exact_allocation() {
    let five = words(&[5, 1, 0, 1, 0, 1]);
    assert_eq!(Vec::<u32>::from_bytes(&five).unwrap().capacity(), 5);
    assert_eq!(
        ArrayBuf::<bool, 9>::from_bytes(&five)
            .unwrap()
            .into_inner()
            .capacity(),
        5
    );
    let list = words(&[1, 5, 1, 6, 1, 7, 1, 8, 1, 9, 0]);
    assert_eq!(ListBuf::<u32>::from_bytes(&list).unwrap().capacity(), 5);
    let bytes = [0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0];
    assert_eq!(Vec::<u8>::from_bytes(&bytes).unwrap().capacity(), 5);
    assert_eq!(
        OpaqueBuf::<9>::from_bytes(&bytes)
            .unwrap()
            .into_inner()
            .capacity(),
        5
    );
    let encoded = vec![true; 5].encode_to_vec().unwrap();
    assert_eq!((encoded.len(), encoded.capacity()), (24, 24));

    let items: Vec<u32> = Array::from(&[1u32, 2, 3, 4, 5]).into();
    assert_eq!(items.capacity(), 5);
    let items: Vec<u32> = Array::from(&[1u32, 2, 3]).into();
    assert_eq!(items.capacity(), 3);
    let items = ListBuf::<u64>::from(List::from(&[1u32, 2, 3, 4, 5]));
    assert_eq!((items.capacity(), &items[..]), (5, &[1, 2, 3, 4, 5][..]));
}

std::thread_local! {
    static BEGUN: Cell<u32> = const { Cell::new(0) };
}

/// An element that takes more memory than bytes of input, and counts its decodes.
#[derive(Debug)]
struct Probe(#[expect(dead_code, reason = "it is there for its size")] [u64; 16]);

impl Wire for Probe {
    const MIN: usize = 4;
    const MAX: Option<usize> = Some(4);
    const PLAIN: bool = false;
}

impl<'a> Decode<'a> for Probe {
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        BEGUN.set(BEGUN.get() + 1);
        d.u32().map(|n| Self([n.into(); 16]))
    }

    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        d.advance(4)
    }
}

#[test]
fn counts_beyond_the_input_allocate_nothing() {
    // Allocation for this count would need 2 TiB.
    let limits = Limits {
        elements: u32::MAX,
        ..Limits::DEFAULT
    };
    let bytes = words(&[u32::MAX, 1, 2, 3]);
    let error = Vec::<Probe>::from_bytes_with(&bytes, &limits).unwrap_err();
    assert_eq!((error, BEGUN.get()), (Error::new(UnexpectedEnd, 4), 0));
    let error = Vec::<Probe>::from_bytes(&words(&[4, 1, 2, 3])).unwrap_err();
    assert_eq!((error, BEGUN.get()), (Error::new(UnexpectedEnd, 4), 0));
    assert_eq!(
        Vec::<Probe>::from_bytes(&words(&[3, 1, 2, 3]))
            .unwrap()
            .len(),
        3
    );
    assert_eq!(BEGUN.get(), 3);
}

#[test]
fn counts_in_counts_cannot_multiply() {
    type Cube = Vec<Vec<Vec<Probe>>>;
    // Each count alone fits in the 1000 bytes after it. The second does not fit beside the first,
    // whose other elements need 4 * 199 of these bytes.
    let mut bytes = vec![0; 1000];
    bytes[..12].copy_from_slice(&words(&[200, 200, 200]));
    assert_eq!(
        Cube::from_bytes(&bytes).unwrap_err(),
        Error::new(UnexpectedEnd, 8)
    );
    // The first two leave room for 4 * 8 bytes, and the third claims 9 elements.
    bytes[..12].copy_from_slice(&words(&[200, 40, 9]));
    bytes.truncate(12 + 4 * (199 + 39 + 8));
    assert_eq!(
        Cube::from_bytes(&bytes).unwrap_err(),
        Error::new(UnexpectedEnd, 12)
    );
    bytes[11] = 8;
    assert!(Cube::from_bytes(&bytes).is_ok());
}

#[test]
fn lists_reserve_their_elements() {
    // An array of 3 lists reserves 8 bytes for the other two lists while the first, of one element,
    // is decoded.
    let bytes = words(&[3, 1, 7, 0]);
    assert_eq!(
        Vec::<ListBuf<u32>>::from_bytes(&bytes).unwrap_err(),
        Error::new(UnexpectedEnd, 4)
    );
    let bytes = words(&[3, 1, 7, 0, 0, 0]);
    assert_eq!(Vec::<ListBuf<u32>>::from_bytes(&bytes).unwrap().len(), 3);
}

#[test]
fn recursion_is_counted() {
    for (place, per_level) in [(0, 8), (1, 12), (2, 16)] {
        assert!(TreeBuf::from_bytes(&trees(64, place)).is_ok());
        assert_rejected::<TreeBuf>(&trees(65, place), DepthLimit, 65 * per_level);
        assert_rejected::<TreeBuf>(&trees(100_000, place), DepthLimit, 65 * per_level);
    }
    let limits = Limits {
        depth: 0,
        ..Limits::DEFAULT
    };
    let error = Box::<u32>::from_bytes_with(&[0; 4], &limits).unwrap_err();
    assert_eq!(error, Error::new(DepthLimit, 0));
    const { assert!(!<Box<u32>>::PLAIN) };
    let bytes = words(&[7, 0, 1, 9, 0, 0, 1, 8, 0, 3]);
    assert_eq!(
        explain::<TreeBuf>(&bytes),
        "kids[0].more[0].kids[0].value: unexpected end of input at byte 40"
    );
}

#[test]
fn shapes_convert() {
    let opaque = Opaque::<4>::new(b"abc").unwrap();
    assert_eq!(OpaqueBuf::from(opaque).as_borrowed(), opaque);
    let text = Text::<4>::from_bytes(b"a\xff").unwrap();
    let owned = TextBuf::from(text);
    assert_eq!(
        (owned.as_borrowed(), owned.to_string()),
        (text, "a\u{fffd}".to_string())
    );
    assert_eq!(
        format!("{owned:?} {:?}", OpaqueBuf::from(opaque)),
        r#""a\xff" b"abc""#
    );
    assert!(owned.to_str().is_err());
    let array = Array::<u32, 3>::new(&[1, 2]).unwrap();
    assert_eq!(ArrayBuf::<u64, 3>::from(array)[..], [1, 2]);
    let list: ListBuf<u32> = [1, 2].into_iter().collect();
    assert_eq!((&list).into_iter().sum::<u32>(), list.into_iter().sum());
}

#[test]
fn owned_values_can_be_borrowed_beyond_the_limits() {
    let mut tree = TreeBuf::default();
    for value in 0..200 {
        tree = TreeBuf {
            value,
            left: Some(Box::new(tree)),
            ..TreeBuf::default()
        };
    }
    tree.kids = vec![TreeBuf::default(); 3];
    let mut buf = vec![1, 2, 3];
    let borrowed = tree.borrow_in(&mut buf).unwrap();
    assert_eq!((borrowed.value, borrowed.kids.len()), (199, 3));
    assert_eq!(encoded(&borrowed), encoded(&tree));
    assert_eq!(buf.capacity(), encoded(&tree).len());
}

fn tree() -> impl Strategy<Value = TreeBuf> {
    let leaf = any::<u32>().prop_map(|value| TreeBuf {
        value,
        ..TreeBuf::default()
    });
    leaf.prop_recursive(4, 24, 3, |inner| {
        let some = proptest::collection::vec(inner.clone(), 0..3);
        let parts = (
            any::<u32>(),
            proptest::option::of(inner),
            some.clone(),
            some,
        );
        parts.prop_map(|(value, left, kids, more)| TreeBuf {
            value,
            left: left.map(Box::new),
            kids,
            more: more.into(),
        })
    })
}

proptest! {
    #[test]
    fn round_trips(bytes: Vec<u8>, numbers: Vec<u64>, flags: Vec<bool>, tree in tree()) {
        assert_round_trip(&bytes);
        assert_round_trip(&numbers);
        assert_round_trip(&OpaqueBuf::<200>::new(bytes.clone()).unwrap());
        assert_round_trip(&TextBuf::<200>::from_bytes(bytes).unwrap());
        assert_round_trip(&ArrayBuf::<u64, 200>::new(numbers).unwrap());
        assert_round_trip(&ListBuf::from(flags));
        assert_round_trip(&tree);
    }

    #[test]
    fn shapes_accept_the_same(bytes in xdr_like()) {
        prop_assert_eq!(TreeBuf::from_bytes(&bytes).is_ok(), Tree::from_bytes(&bytes).is_ok());
        let owned = Vec::<ArrayBuf<Option<u32>, 2>>::from_bytes(&bytes);
        let borrowed = Array::<Array<'_, Option<u32>, 2>>::from_bytes(&bytes);
        prop_assert_eq!(owned.is_ok(), borrowed.is_ok());
    }

    #[test]
    fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
        assert_consistent::<TreeBuf>(&bytes);
        assert_consistent::<Vec<u8>>(&bytes);
        assert_consistent::<OpaqueBuf<2>>(&bytes);
        assert_consistent::<TextBuf<2>>(&bytes);
        assert_consistent::<Vec<Vec<Vec<bool>>>>(&bytes);
        assert_consistent::<ArrayBuf<Segment, 2>>(&bytes);
        assert_consistent::<ListBuf<ListBuf<Option<u32>>>>(&bytes);
    }
}
