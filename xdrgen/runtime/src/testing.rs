//! Test helpers: types that resemble generated types, and checks of the laws that hold for all
//! types.

use core::fmt::Debug;
use proptest::prelude::*;
use std::{
    string::{String, ToString},
    vec,
    vec::Vec,
};

use crate::{
    Array, Counter, Decode, Decoder, Encode, Encoder, Error, ErrorKind, Fixed, Limits, List,
    Nested, NoTrace, Result, Sink, Text, Trace, Wire, part, part_mut,
};

/// Encodes `value`. Checks that the counter agrees, and that no shorter buffer is accepted.
pub(crate) fn encoded<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut counter = Counter::new();
    value.encode(&mut counter).unwrap();
    let mut bytes = vec![0xee; counter.position()];
    let mut encoder = Encoder::new(&mut bytes);
    value.encode(&mut encoder).unwrap();
    assert_eq!(
        encoder.finish(),
        counter.position(),
        "counter and encoder differ"
    );
    for short in 0..bytes.len() {
        let error = value.encode_to_slice(&mut vec![0; short]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BufferFull);
        assert!(error.offset() <= short);
    }
    bytes
}

/// Checks that the value round-trips within its sizes, and that no prefix of its encoding is
/// accepted.
pub(crate) fn assert_round_trip<'a, T: Decode<'a> + Encode + PartialEq + Debug>(value: &T) {
    let bytes: &'static [u8] = encoded(value).leak();
    assert_eq!(T::from_bytes(bytes).as_ref(), Ok(value));
    assert_eq!(encoded(&T::from_bytes(bytes).unwrap()), bytes);
    assert!(T::MIN <= bytes.len() && T::MAX.is_none_or(|max| bytes.len() <= max));
    assert!(!T::PLAIN || T::MAX == Some(T::MIN));
    for end in 0..bytes.len() {
        let error = T::from_bytes(&bytes[..end]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEnd);
    }
    assert_consistent::<T>(bytes);
}

/// Checks that `decode`, `skip` and `explain` accept the same input under several limits, and that
/// decoded values encode to that input.
pub(crate) fn assert_consistent<'a, T: Decode<'a> + Encode + Debug>(bytes: &'a [u8]) {
    let budgets = [
        (64, 1 << 24),
        (64, 2),
        (1, 64),
        (0, 64),
        (u32::MAX, u32::MAX),
    ];
    for (depth, elements) in budgets {
        let limits = Limits {
            depth,
            elements,
            bytes: u32::MAX,
        };
        let d = Decoder::with_limits(bytes, &limits).unwrap();
        let (mut decoding, mut skipping) = (d.clone(), d);
        let (decoded, skipped) = (
            T::decode(&mut decoding),
            T::skip(&mut skipping, &mut NoTrace),
        );
        assert_eq!(decoded.is_ok(), skipped.is_ok(), "{decoded:?} {skipped:?}");
        if let Ok(value) = decoded {
            assert_eq!(decoding.offset(), skipping.offset());
            assert_eq!(encoded(&value), bytes[..decoding.offset()]);
        }
        let explained = T::explain(bytes, &limits);
        assert_eq!(
            T::from_bytes_with(bytes, &limits).is_err(),
            explained.is_some()
        );
    }
}

/// Checks the error of a decode, and that the explanation has the same kind.
pub(crate) fn assert_rejected<'a, T: Decode<'a> + Debug>(
    bytes: &'a [u8],
    kind: ErrorKind,
    offset: u32,
) {
    assert_eq!(T::from_bytes(bytes).unwrap_err(), Error::new(kind, offset));
    let explained = T::explain(bytes, &Limits::DEFAULT).unwrap().error();
    assert_eq!(explained.kind(), kind);
    assert!(explained.offset() >= offset as usize);
}

/// Returns the explanation for rejected input.
pub(crate) fn explain<'a, T: Decode<'a>>(bytes: &'a [u8]) -> String {
    let explanation = T::explain(bytes, &Limits::DEFAULT);
    explanation.map_or("accepted".to_string(), |e| e.to_string())
}

/// Encodes big-endian words.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Generates input that is likely to be accepted: mostly small words, sometimes truncated.
pub(crate) fn xdr_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![8 => 0u32..3, 1 => any::<u32>()];
    (proptest::collection::vec(word, 0..24), 0usize..4).prop_map(|(items, cut)| {
        let mut bytes = words(&items);
        bytes.truncate(bytes.len().saturating_sub(cut / 3));
        bytes
    })
}

/// A plain structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) handle: u32,
    pub(crate) offset: u64,
}

impl Fixed<12> for Segment {
    fn read(b: &[u8; 12]) -> Self {
        Self {
            handle: Fixed::read(part::<12, 0, 4>(b)),
            offset: Fixed::read(part::<12, 4, 8>(b)),
        }
    }

    fn write(&self, b: &mut [u8; 12]) {
        self.handle.write(part_mut::<12, 0, 4>(b));
        self.offset.write(part_mut::<12, 4, 8>(b));
    }
}

impl Wire for Segment {
    const MIN: usize = 12;
    const MAX: Option<usize> = Some(12);
    const PLAIN: bool = true;
}

impl<'a> Decode<'a> for Segment {
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        d.fixed().map(Fixed::<12>::read)
    }

    fn skip<T: Trace>(d: &mut Decoder<'a>, trace: &mut T) -> Result<()> {
        trace.run(d, &[("handle", 4), ("offset", 8)], 12)
    }

    fn decode_all(d: &mut Decoder<'a>, count: u32, items: &mut impl Extend<Self>) -> Result<()> {
        d.fixed_all(count, items)
    }
}

impl Encode for Segment {
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.fixed::<12>(|b| self.write(b))
    }

    fn encode_all<'s, S: Sink<'s>>(items: &'s [Self], sink: &mut S) -> Result<()> {
        sink.fixed_all(items, <Self as Fixed<12>>::write)
    }
}

/// Implements decoding, skipping and encoding field by field, as generated code does.
macro_rules! structure {
    ($name:ident { $($field:ident: $type:ty),* } $min:literal $($life:lifetime)?) => {
        impl $(<$life>)? Wire for $name $(<$life>)? {
            const MIN: usize = $min;
            const MAX: Option<usize> = None;
            const PLAIN: bool = false;
        }

        impl<'a> Decode<'a> for $name $(<$life>)? {
            fn decode(d: &mut Decoder<'a>) -> Result<Self> {
                Ok(Self { $($field: Decode::decode(d)?),* })
            }

            fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
                $(
                    trace.enter(stringify!($field));
                    <$type as Decode<'_>>::skip(d, trace)?;
                    trace.leave();
                )*
                Ok(())
            }
        }

        impl $(<$life>)? Encode for $name $(<$life>)? {
            fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
                $(self.$field.encode(sink)?;)*
                Ok(())
            }
        }
    };
}
#[cfg(feature = "alloc")]
pub(crate) use structure;

/// An element that is not plain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Chunk<'a> {
    pub(crate) target: Array<'a, Segment, 4>,
}
structure!(Chunk { target: Array<'a, Segment, 4> } 4 'a);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header<'a> {
    pub(crate) xid: u32,
    pub(crate) reads: List<'a, Segment>,
    pub(crate) writes: List<'a, Chunk<'a>>,
    pub(crate) name: Text<'a, 8>,
}
structure!(Header {
    xid: u32, reads: List<'a, Segment>, writes: List<'a, Chunk<'a>>, name: Text<'a, 8>
} 16 'a);

/// Recursion through each kind of container.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Tree<'a> {
    pub(crate) value: u32,
    pub(crate) left: Option<Nested<'a, Tree<'a>>>,
    pub(crate) kids: Array<'a, Tree<'a>>,
    pub(crate) more: List<'a, Tree<'a>>,
}
structure!(Tree {
    value: u32,
    left: Option<Nested<'a, Tree<'a>>>,
    kids: Array<'a, Tree<'a>>,
    more: List<'a, Tree<'a>>
} 16 'a);

/// Returns the words of nested trees with `levels` levels; the innermost tree is not a level.
/// `place` selects the container: 0 for left, 1 for kids, 2 for more.
pub(crate) fn trees(levels: usize, place: usize) -> Vec<u8> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..levels {
        let (head, tail): (&[u32], &[u32]) = match place {
            0 => (&[7, 1], &[0, 0]),
            1 => (&[7, 0, 1], &[0]),
            _ => (&[7, 0, 0, 1], &[0]),
        };
        before.extend_from_slice(head);
        after.extend_from_slice(tail);
    }
    before.extend_from_slice(&[9, 0, 0, 0]);
    before.extend_from_slice(&after);
    words(&before)
}
