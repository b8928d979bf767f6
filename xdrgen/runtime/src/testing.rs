//! What the tests share: types in the shape of generated ones, and the laws which all types must keep.

use core::fmt::Debug;
use proptest::prelude::*;
use std::{
    string::{String, ToString},
    vec,
    vec::Vec,
};

use crate::{
    Array, Counter, Decode, Decoder, Encode, Encoder, Error, ErrorKind, Fixed, Limits, List, Nested, NoTrace, Result,
    Sink, Text, Trace, Wire, part, part_mut,
};

/// The octets of `value`: as many as counted, and no buffer shorter than that will do.
pub(crate) fn octets_of<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut counter = Counter::new();
    value.encode(&mut counter).unwrap();
    let mut octets = vec![0xee; counter.position()];
    let mut encoder = Encoder::new(&mut octets);
    value.encode(&mut encoder).unwrap();
    assert_eq!(encoder.finish(), counter.position(), "counter and encoder differ");
    for short in 0..octets.len() {
        let error = value.encode_to_slice(&mut vec![0; short]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BufferFull);
        assert!(error.offset() <= short);
    }
    octets
}

/// The value comes back from its octets, within its sizes, and from no fewer octets.
pub(crate) fn round_trip<'a, T: Decode<'a> + Encode + PartialEq + Debug>(value: &T) {
    let octets: &'static [u8] = octets_of(value).leak();
    assert_eq!(T::from_bytes(octets).as_ref(), Ok(value));
    assert_eq!(octets_of(&T::from_bytes(octets).unwrap()), octets);
    assert!(T::MIN <= octets.len() && T::MAX.is_none_or(|max| octets.len() <= max));
    assert!(!T::PLAIN || T::MAX == Some(T::MIN));
    for end in 0..octets.len() {
        let error = T::from_bytes(&octets[..end]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEnd);
    }
    same_verdicts::<T>(octets);
}

/// `decode`, `skip` and `explain` accept the same octets, under whatever limits; what is accepted encodes to the same.
pub(crate) fn same_verdicts<'a, T: Decode<'a> + Encode + Debug>(octets: &'a [u8]) {
    let budgets = [(64, 1 << 24), (64, 2), (1, 64), (0, 64), (u32::MAX, u32::MAX)];
    for (depth, elements) in budgets {
        let limits = Limits { depth, elements, octets: u32::MAX };
        let d = Decoder::with_limits(octets, &limits).unwrap();
        let (mut decoding, mut skipping) = (d.clone(), d);
        let (decoded, skipped) = (T::decode(&mut decoding), T::skip(&mut skipping, &mut NoTrace));
        assert_eq!(decoded.is_ok(), skipped.is_ok(), "{decoded:?} {skipped:?}");
        if let Ok(value) = decoded {
            assert_eq!(decoding.offset(), skipping.offset());
            assert_eq!(octets_of(&value), octets[..decoding.offset()]);
        }
        let explained = T::explain(octets, &limits);
        assert_eq!(T::from_bytes_with(octets, &limits).is_err(), explained.is_some());
    }
}

/// `octets` are refused, for this reason and there; and the explanation agrees on the reason.
pub(crate) fn refused<'a, T: Decode<'a> + Debug>(octets: &'a [u8], kind: ErrorKind, offset: u32) {
    assert_eq!(T::from_bytes(octets).unwrap_err(), Error::new(kind, offset));
    let explained = T::explain(octets, &Limits::DEFAULT).unwrap().error();
    assert_eq!(explained.kind(), kind);
    assert!(explained.offset() >= offset as usize);
}

/// The explanation of why `octets` are refused.
pub(crate) fn explain<'a, T: Decode<'a>>(octets: &'a [u8]) -> String {
    let explanation = T::explain(octets, &Limits::DEFAULT);
    explanation.map_or("accepted".to_string(), |e| e.to_string())
}

/// These words, big-endian.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Octets which have a chance to be accepted: mostly small words, sometimes cut.
pub(crate) fn xdr_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![8 => 0u32..3, 1 => any::<u32>()];
    (proptest::collection::vec(word, 0..24), 0usize..4).prop_map(|(items, cut)| {
        let mut octets = words(&items);
        octets.truncate(octets.len().saturating_sub(cut / 3));
        octets
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
        Self { handle: Fixed::read(part::<12, 0, 4>(b)), offset: Fixed::read(part::<12, 4, 8>(b)) }
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
        sink.many(items, <Self as Fixed<12>>::write)
    }
}

/// Decodes, skips and encodes a structure field by field, as generated code does.
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

/// An element which is not plain.
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

/// Recursion in all its places.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Tree<'a> {
    pub(crate) value: u32,
    pub(crate) left: Option<Nested<'a, Tree<'a>>>,
    pub(crate) kids: Array<'a, Tree<'a>>,
    pub(crate) more: List<'a, Tree<'a>>,
}
structure!(Tree {
    value: u32, left: Option<Nested<'a, Tree<'a>>>, kids: Array<'a, Tree<'a>>, more: List<'a, Tree<'a>>
} 16 'a);

/// The words of trees in trees, `levels` deep: 1 at the bottom has no level, `place` is where each hangs (0 left, 1
/// kids, 2 more).
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
