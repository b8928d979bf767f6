//! `Vec`: unbounded arrays and opaques.

use alloc::vec::Vec;

use super::reserve;
use crate::opaque::decode_octets;
use crate::sequence::{Iter, skip_elements};
use crate::{Array, Decode, Decoder, Encode, Result, Sink, Trace, Wire};

/// `opaque<>`, owned (RFC 4506, section 4.10).
impl Wire for Vec<u8> {
    const MIN: usize = 4;
    const MAX: Option<usize> = None;
    const PLAIN: bool = false;
}

impl<'a> Decode<'a> for Vec<u8> {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_copy(d, u32::MAX)
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_octets(d, u32::MAX).map(|_| ())
    }
}

impl Encode for Vec<u8> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(self)
    }
}

/// A copy of the octets of an opaque or string; memory is reserved once they are known to be there.
pub(super) fn decode_copy(d: &mut Decoder<'_>, max: u32) -> Result<Vec<u8>> {
    let octets = decode_octets(d, max)?;
    let mut copy = reserve(d, octets.len())?;
    copy.extend_from_slice(octets);
    Ok(copy)
}

/// `T name<>`, owned (RFC 4506, section 4.13).
impl<T: Wire> Wire for Vec<T> {
    const MIN: usize = 4;
    const MAX: Option<usize> = None;
    const PLAIN: bool = false;
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_elements(d, u32::MAX)
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        let count = d.length(u32::MAX)?;
        skip_elements::<T, _>(d, count, trace)
    }
}

impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        encode_elements(self, sink)
    }
}

/// The elements of an array of at most `max`, in one exact allocation.
pub(super) fn decode_elements<'a, T: Decode<'a>>(d: &mut Decoder<'a>, max: u32) -> Result<Vec<T>> {
    // Without octets to pay for them, nothing but the element limit would bound their memory.
    const {
        assert!(T::MIN > 0 || size_of::<T>() == 0, "elements which take memory, but no octets");
    }
    let count = d.length(max)?;
    d.array_of::<T>(count)?;
    d.owe(count, T::MIN)?;
    let mut items = reserve(d, count as usize)?;
    T::decode_all(d, count, &mut items)?;
    Ok(items)
}

/// Encodes an array of these elements.
#[inline]
pub(super) fn encode_elements<'s, T: Encode, S: Sink<'s>>(items: &'s [T], sink: &mut S) -> Result<()> {
    sink.length(items.len())?;
    T::encode_all(items, sink)
}

/// The elements in the other shape, in one exact allocation.
pub(super) fn convert<'a, T: Decode<'a> + Clone, U: From<T>>(items: Iter<'a, T>) -> Vec<U> {
    let mut converted = Vec::with_capacity(items.len());
    converted.extend(items.map(U::from));
    converted
}

impl<'a, T: Decode<'a> + Clone, U: From<T>> From<Array<'a, T>> for Vec<U> {
    fn from(array: Array<'a, T>) -> Self {
        convert(array.iter())
    }
}
