//! Variable-length arrays, borrowed.

use core::{fmt, mem};

use crate::sequence::{Iter, Repr, sequence, skip_elements};
use crate::wire::array_max;
use crate::{Decode, Decoder, Encode, NoTrace, Result, Sink, TooLong, Trace, Wire};

/// `T name<MAX>`: a variable-length array of at most `MAX` elements, borrowed (RFC 4506, section 4.13).
///
/// Either octets of input, validated once and decoded when its elements are taken, or a slice of the caller's. The two
/// compare equal if their elements do.
///
/// ```
/// use xdrgen_runtime::{Array, Decode, Encode};
///
/// let octets = [0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8];
/// let array = Array::<u32, 4>::from_bytes(&octets)?;
/// assert_eq!(array.iter().sum::<u32>(), 15);
/// assert_eq!(array.get(1), Some(8));
///
/// let mut buf = [0; 12];
/// Array::from(&[7u32, 8]).encode_to_slice(&mut buf)?;
/// assert_eq!(buf, octets);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub struct Array<'a, T, const MAX: u32 = { u32::MAX }>(Repr<'a, T>);

impl<'a, T, const MAX: u32> Array<'a, T, MAX> {
    /// An array of these elements.
    ///
    /// # Errors
    /// [`TooLong`] if they are more than `MAX`.
    #[inline]
    pub const fn new(items: &'a [T]) -> Result<Self, TooLong> {
        match TooLong::check(items.len(), MAX) {
            Ok(()) => Ok(Self(Repr::Slice(items))),
            Err(error) => Err(error),
        }
    }
}

impl<'a, T: Decode<'a> + Clone, const MAX: u32> Array<'a, T, MAX> {
    /// The elements.
    #[inline]
    pub fn iter(&self) -> Iter<'a, T> {
        self.0.iter(0)
    }

    /// The element at `i` from 0. At once if it is of a slice or its type is [`PLAIN`](Wire::PLAIN); otherwise the
    /// elements before it are walked through, so that [`iter`](Self::iter) is the way to visit them all.
    #[inline]
    pub fn get(&self, i: usize) -> Option<T> {
        match self.0 {
            Repr::Slice(items) => items.get(i).cloned(),
            Repr::Wire { bytes, count } if i < count as usize => {
                let mut d = Decoder::validated(bytes);
                if T::PLAIN {
                    d.advance(i.checked_mul(T::MIN)?).ok()?;
                } else {
                    (0..i).try_for_each(|_| T::skip(&mut d, &mut NoTrace)).ok()?;
                }
                T::decode(&mut d).ok()
            }
            Repr::Wire { .. } => None,
        }
    }

    /// Copies the elements to the beginning of `out`, as many as it has room for, and returns how many. Elements of fixed
    /// size are copied in a loop that the compiler can vectorize, where [`iter`](Self::iter) takes them one by one.
    ///
    /// ```
    /// use xdrgen_runtime::{Array, Decode};
    ///
    /// let array = Array::<u32>::from_bytes(&[0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8])?;
    /// let mut out = [0; 3];
    /// assert_eq!(array.copy_to_slice(&mut out), 2);
    /// assert_eq!(out, [7, 8, 0]);
    /// # Ok::<(), xdrgen_runtime::Error>(())
    /// ```
    #[inline]
    pub fn copy_to_slice(&self, out: &mut [T]) -> usize {
        let count = self.len().min(out.len());
        let mut slots = Slots(out.get_mut(..count).unwrap_or_default());
        match self.0 {
            Repr::Slice(items) => slots.extend(items.iter().take(count).cloned()),
            Repr::Wire { bytes, .. } => {
                // No more than 32 bits can count, since the array's own count has them.
                let wanted = u32::try_from(count).unwrap_or(u32::MAX);
                let copied = T::decode_all(&mut Decoder::validated(bytes), wanted, &mut slots);
                debug_assert!(copied.is_ok(), "skip accepted what decode refuses");
            }
        }
        count - slots.0.len()
    }
}

/// Fills places of a slice, one after the other.
struct Slots<'o, T>(&'o mut [T]);

impl<T> Extend<T> for Slots<'_, T> {
    #[inline(always)]
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        let items = items.into_iter();
        let slots = mem::take(&mut self.0);
        let (least, most) = items.size_hint();
        if most == Some(least) && least <= slots.len() {
            // Of a known number, in a loop that the compiler can vectorize.
            let (filled, free) = slots.split_at_mut(least);
            filled.iter_mut().zip(items).for_each(|(slot, item)| *slot = item);
            self.0 = free;
        } else {
            let mut free = slots.iter_mut();
            items.zip(&mut free).for_each(|(item, slot)| *slot = item);
            self.0 = free.into_slice();
        }
    }
}

sequence!(Array [, const MAX: u32] [, MAX]);

impl<'a, T> From<&'a [T]> for Array<'a, T> {
    #[inline]
    fn from(items: &'a [T]) -> Self {
        Self(Repr::Slice(items))
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Array<'a, T> {
    #[inline]
    fn from(items: &'a [T; N]) -> Self {
        Self(Repr::Slice(items))
    }
}

impl<T: Wire, const MAX: u32> Wire for Array<'_, T, MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = array_max(MAX, T::MAX);
    const PLAIN: bool = false;
}

impl<'a, T: Decode<'a>, const MAX: u32> Decode<'a> for Array<'a, T, MAX> {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        let count = d.length(MAX)?;
        let start = d.remaining();
        skip_elements::<T, _>(d, count, &mut NoTrace)?;
        let bytes = d.passed_since(start);
        Ok(Self(Repr::Wire { bytes, count }))
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        let count = d.length(MAX)?;
        skip_elements::<T, _>(d, count, trace)
    }
}

impl<T: Encode, const MAX: u32> Encode for Array<'_, T, MAX> {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.length(self.len())?;
        match self.0 {
            Repr::Wire { bytes, .. } => sink.raw(bytes),
            Repr::Slice(items) => T::encode_all(items, sink),
        }
    }
}

#[cfg(test)]
mod tests;
