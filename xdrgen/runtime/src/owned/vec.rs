//! `Vec`: unbounded arrays and opaques.

use alloc::vec::Vec;

use super::reserve;
use crate::opaque::decode_bytes;
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
        decode_bytes(d, u32::MAX).map(|_| ())
    }
}

impl Encode for Vec<u8> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(self)
    }
}

/// Copies the bytes of an opaque or string. The allocation happens after the bytes are known to
/// exist.
pub(super) fn decode_copy(d: &mut Decoder<'_>, max: u32) -> Result<Vec<u8>> {
    let bytes = decode_bytes(d, max)?;
    let mut copy = reserve(d, bytes.len())?;
    copy.extend_from_slice(bytes);
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

/// Decodes the elements of an array of at most `max`, with one exact allocation.
pub(super) fn decode_elements<'a, T: Decode<'a>>(d: &mut Decoder<'a>, max: u32) -> Result<Vec<T>> {
    // Without bytes for each element, only the element limit would bound the memory.
    const {
        assert!(
            T::MIN > 0 || size_of::<T>() == 0,
            "elements with a size in memory and an encoded size of zero"
        );
    }
    let count = d.length(max)?;
    d.charge_array::<T>(count)?;
    d.reserve_bytes(count, T::MIN)?;
    let mut items = reserve(d, count as usize)?;
    T::decode_all(d, count, &mut items)?;
    Ok(items)
}

/// Encodes the elements of an array.
#[inline]
pub(super) fn encode_elements<'s, T: Encode, S: Sink<'s>>(
    items: &'s [T],
    sink: &mut S,
) -> Result<()> {
    sink.length(items.len())?;
    T::encode_all(items, sink)
}

/// Converts the elements to the owned shape, with one exact allocation.
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
