//! Bounded arrays. All ways to create or extend one check `MAX`, and only a slice can be changed in
//! place: encoding relies on this, and does not check the length.

use alloc::vec::{self, Vec};
use core::ops::{Deref, DerefMut};
use core::slice;

use super::vec::{convert, decode_elements, encode_elements};
use crate::sequence::skip_elements;
use crate::wire::array_max;
use crate::{Array, DdpArray, Decode, Decoder, Encode, Result, Sink, TooLong, Trace, Wire};

/// `T name<MAX>`: a variable-length array of at most `MAX` elements, owned (RFC 4506, section
/// 4.13).
///
/// ```
/// use xdrgen_runtime::{ArrayBuf, Decode};
///
/// let mut array = ArrayBuf::<u32, 2>::from_bytes(&[0, 0, 0, 1, 0, 0, 0, 7])?;
/// assert!(array.push(8).is_ok());
/// assert!(array.push(9).is_err());
/// assert_eq!(array[..], [7, 8]);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArrayBuf<T, const MAX: u32>(Vec<T>);

impl<T, const MAX: u32> ArrayBuf<T, MAX> {
    /// Creates an array.
    ///
    /// # Errors
    /// Returns [`TooLong`] if there are more than `MAX` elements.
    pub fn new(items: Vec<T>) -> Result<Self, TooLong> {
        TooLong::check(items.len(), MAX)?;
        Ok(Self(items))
    }

    /// Converts a borrowed array; `own` converts each element.
    pub fn from_array<'a, B: Decode<'a> + Clone>(
        array: Array<'a, B, MAX>,
        own: impl FnMut(B) -> T,
    ) -> Self {
        let mut items = Vec::with_capacity(array.len());
        items.extend(array.iter().map(own));
        Self(items)
    }

    /// Converts a borrowed array whose elements may contain items; `own` converts each element.
    pub fn from_ddp_array<'a, B: Decode<'a> + Clone>(
        array: DdpArray<'a, B, MAX>,
        own: impl FnMut(B) -> T,
    ) -> Self {
        let mut items = Vec::with_capacity(array.len());
        items.extend(array.iter().map(own));
        Self(items)
    }

    /// Returns the elements.
    pub fn into_inner(self) -> Vec<T> {
        self.0
    }

    /// Appends an element.
    ///
    /// # Errors
    /// Returns [`TooLong`] if there are `MAX` elements; the new element is dropped.
    pub fn push(&mut self, item: T) -> Result<(), TooLong> {
        TooLong::check(self.0.len().saturating_add(1), MAX)?;
        self.0.push(item);
        Ok(())
    }
}

impl<T, const MAX: u32> Default for ArrayBuf<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: u32> Deref for ArrayBuf<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Elements can be changed, but not their number.
impl<T, const MAX: u32> DerefMut for ArrayBuf<T, MAX> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T, const MAX: u32> TryFrom<Vec<T>> for ArrayBuf<T, MAX> {
    type Error = TooLong;

    fn try_from(items: Vec<T>) -> Result<Self, TooLong> {
        Self::new(items)
    }
}

impl<T: Clone, const MAX: u32> TryFrom<&[T]> for ArrayBuf<T, MAX> {
    type Error = TooLong;

    fn try_from(items: &[T]) -> Result<Self, TooLong> {
        TooLong::check(items.len(), MAX)?;
        Ok(Self(items.to_vec()))
    }
}

impl<T, const N: usize, const MAX: u32> TryFrom<[T; N]> for ArrayBuf<T, MAX> {
    type Error = TooLong;

    fn try_from(items: [T; N]) -> Result<Self, TooLong> {
        Self::new(Vec::from(items))
    }
}

impl<'a, T: Decode<'a> + Clone, U: From<T>, const MAX: u32> From<Array<'a, T, MAX>>
    for ArrayBuf<U, MAX>
{
    fn from(array: Array<'a, T, MAX>) -> Self {
        Self(convert(array.iter()))
    }
}

impl<T, const MAX: u32> IntoIterator for ArrayBuf<T, MAX> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'s, T, const MAX: u32> IntoIterator for &'s ArrayBuf<T, MAX> {
    type Item = &'s T;
    type IntoIter = slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Wire, const MAX: u32> Wire for ArrayBuf<T, MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = array_max(MAX, T::MAX);
    const PLAIN: bool = false;
}

impl<'a, T: Decode<'a>, const MAX: u32> Decode<'a> for ArrayBuf<T, MAX> {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_elements(d, MAX).map(Self)
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        let count = d.length(MAX)?;
        skip_elements::<T, _>(d, count, trace)
    }
}

impl<T: Encode, const MAX: u32> Encode for ArrayBuf<T, MAX> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        encode_elements(self, sink)
    }
}
