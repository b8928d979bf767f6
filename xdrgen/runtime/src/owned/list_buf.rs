//! Linked lists.

use alloc::vec::{self, Vec};
use core::ops::{Deref, DerefMut};
use core::slice;

use super::reserve;
use super::vec::convert;
use crate::list::{TAG, encode_list, skip_list};
use crate::{Decode, Decoder, Encode, List, NoTrace, Result, Sink, Trace, Wire};

/// A linked list, owned as a vector: see [`List`]. It is decoded, encoded and dropped without
/// recursion.
///
/// ```
/// use xdrgen_runtime::{Decode, ListBuf};
///
/// let mut list = ListBuf::<u32>::from_bytes(&[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0])?;
/// list.push(8);
/// assert_eq!(*list, [7, 8]);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListBuf<T>(Vec<T>);

impl<T> ListBuf<T> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the elements.
    pub fn into_inner(self) -> Vec<T> {
        self.0
    }
}

impl<T> Default for ListBuf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for ListBuf<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for ListBuf<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> From<Vec<T>> for ListBuf<T> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}

impl<T> FromIterator<T> for ListBuf<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl<'a, T: Decode<'a> + Clone, U: From<T>> From<List<'a, T>> for ListBuf<U> {
    fn from(list: List<'a, T>) -> Self {
        Self(convert(list.iter()))
    }
}

impl<T> IntoIterator for ListBuf<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'s, T> IntoIterator for &'s ListBuf<T> {
    type Item = &'s T;
    type IntoIter = slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> Wire for ListBuf<T> {
    const MIN: usize = 4;
    const MAX: Option<usize> = None;
    const PLAIN: bool = false;
}

impl<'a, T: Decode<'a>> Decode<'a> for ListBuf<T> {
    /// The first pass counts the elements, so that there is one exact allocation; the second
    /// decodes them. The depth limit bounds the repeated passes over a list in a list.
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        let count = skip_list::<T, _>(&mut d.clone(), &mut NoTrace)?;
        let least = T::MIN.saturating_add(TAG);
        d.reserve_bytes(count, least)?;
        let mut items = reserve(d, count as usize)?;
        for _ in 0..count {
            d.release_bytes(least);
            d.charge_elements(1)?;
            d.advance(TAG)?;
            items.push(d.element::<T, _>(T::decode)?);
        }
        d.advance(TAG)?;
        Ok(Self(items))
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        skip_list::<T, _>(d, trace).map(|_| ())
    }
}

impl<T: Encode> Encode for ListBuf<T> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        encode_list(self, sink)
    }
}
