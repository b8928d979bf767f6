//! Variable-length arrays, borrowed. `sequence` has the representation and the walks; `owned` has
//! the owned shape.
//!
//! `decode`, `skip`, `decode_each` and `visit_each` must accept the same input and charge the same
//! elements and levels, because `Iter` decodes their bytes without limits. One macro implements
//! [`Array`] and [`DdpArray`], which differ only in that the second keeps the items of the message.

use core::{fmt, mem};

use crate::sequence::{
    Beside, Iter, Repr, WithItems, encode_received, pass_on, sequence, skip_elements,
    visit_elements,
};
use crate::wire::array_max;
use crate::{Decode, Decoder, Encode, NoTrace, Result, Sink, TooLong, Trace, Visit, Wire};

/// `T name<MAX>`: a variable-length array of at most `MAX` elements, borrowed (RFC 4506, section
/// 4.13).
///
/// It refers either to bytes of the input, which are validated once and decoded on access, or to a
/// slice of the caller. Two arrays are equal if their elements are.
///
/// ```
/// use xdrgen_runtime::{Array, Decode, Encode};
///
/// let bytes = [0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8];
/// let array = Array::<u32, 4>::from_bytes(&bytes)?;
/// assert_eq!(array.iter().sum::<u32>(), 15);
/// assert_eq!(array.get(1), Some(8));
///
/// let mut buf = [0; 12];
/// Array::from(&[7u32, 8]).encode_to_slice(&mut buf)?;
/// assert_eq!(buf, bytes);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub struct Array<'a, T, const MAX: u32 = { u32::MAX }>(Repr<'a, T>);

/// An [`Array`] whose elements may contain [items](crate::Item). The elements of a received message
/// find the items that are not in its stream.
///
/// ```
/// use xdrgen_runtime::{Array, DdpArray, Decode};
///
/// let bytes = [0, 0, 0, 1, 0, 0, 0, 7];
/// let (with, without) = (DdpArray::<u32>::from_bytes(&bytes)?, Array::<u32>::from_bytes(&bytes)?);
/// assert!(with.iter().eq(without.iter()));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub struct DdpArray<'a, T, const MAX: u32 = { u32::MAX }>(Repr<'a, T, WithItems<'a>>);

/// The methods and traits of both.
macro_rules! array {
    ($name:ident) => {
        impl<'a, T, const MAX: u32> $name<'a, T, MAX> {
            /// Creates an array from a slice.
            ///
            /// # Errors
            /// Returns [`TooLong`] if there are more than `MAX` elements.
            #[inline]
            pub const fn new(items: &'a [T]) -> Result<Self, TooLong> {
                match TooLong::check(items.len(), MAX) {
                    Ok(()) => Ok(Self(Repr::Slice(items))),
                    Err(error) => Err(error),
                }
            }
        }

        impl<'a, T: Decode<'a>, const MAX: u32> $name<'a, T, MAX> {
            /// Decodes an array, and passes each element to a function as soon as it is decoded.
            /// This is one pass, where [`decode`](Decode::decode) and [`iter`](Self::iter) are two.
            /// The function also gets the elements before an invalid one.
            ///
            /// ```
            /// use xdrgen_runtime::{Array, Decoder, Text};
            ///
            /// let mut bytes = Decoder::new(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, b'x', 0, 0, 0]);
            /// let mut lengths = Vec::new();
            /// let array = Array::<Text<'_>>::decode_each(&mut bytes, |text| {
            ///     lengths.push(text.as_bytes().len());
            /// })?;
            /// assert_eq!((array.len(), &lengths[..]), (2, &[0, 1][..]));
            /// # Ok::<(), xdrgen_runtime::Error>(())
            /// ```
            ///
            /// # Errors
            /// Fails where [`decode`](Decode::decode) fails. If the input is too short, the errors
            /// can have other kinds and offsets: each rejects other runs of fields as a whole.
            #[inline(always)]
            pub fn decode_each(d: &mut Decoder<'a>, mut each: impl FnMut(&T)) -> Result<Self> {
                let count = d.length(MAX)?;
                let start = d.remaining();
                d.charge_array::<T>(count)?;
                d.elements::<T>(count, |d| pass_on(d, &mut each))?;
                Ok(Self(Repr::wire(d, start, count)))
            }

            /// Decodes an array, and passes the content of each element to a visitor. As
            /// [`decode_each`](Self::decode_each), without building the elements.
            ///
            /// # Errors
            /// As [`decode_each`](Self::decode_each).
            #[inline(always)]
            pub fn visit_each<V: ?Sized>(d: &mut Decoder<'a>, visitor: &mut V) -> Result<Self>
            where
                T: Visit<'a, V>,
            {
                let count = d.length(MAX)?;
                let start = d.remaining();
                d.charge_array::<T>(count)?;
                visit_elements::<T, V>(d, count, visitor)?;
                Ok(Self(Repr::wire(d, start, count)))
            }
        }

        impl<'a, T: Decode<'a> + Clone, const MAX: u32> $name<'a, T, MAX> {
            /// Returns an iterator over the elements.
            #[inline]
            pub fn iter(&self) -> Iter<'a, T> {
                self.0.iter(0)
            }

            /// Returns the element at index `i`. This takes constant time for a slice and for a
            /// [`PLAIN`](Wire::PLAIN) type. Otherwise it walks through the elements before it; use
            /// [`iter`](Self::iter) to visit all elements.
            #[inline]
            pub fn get(&self, i: usize) -> Option<T> {
                match self.0 {
                    Repr::Slice(items) => items.get(i).cloned(),
                    Repr::Wire {
                        bytes,
                        count,
                        items,
                    } if i < count as usize => {
                        let mut d = Decoder::validated(bytes, items.items());
                        if T::PLAIN {
                            d.advance(i.checked_mul(T::MIN)?).ok()?;
                        } else {
                            (0..i)
                                .try_for_each(|_| T::skip(&mut d, &mut NoTrace))
                                .ok()?;
                        }
                        T::decode(&mut d).ok()
                    }
                    Repr::Wire { .. } => None,
                }
            }

            /// Copies elements to the start of `out`, up to its length, and returns their number.
            /// For elements of a fixed size the compiler can vectorize the loop, which it cannot
            /// for [`iter`](Self::iter).
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
                let mut slots = SliceFiller(out.get_mut(..count).unwrap_or_default());
                match self.0 {
                    Repr::Slice(items) => slots.extend(items.iter().take(count).cloned()),
                    Repr::Wire { bytes, items, .. } => {
                        // `count` fits in 32 bits, because the array's own count does.
                        let limit = u32::try_from(count).unwrap_or(u32::MAX);
                        let mut decoder = Decoder::validated(bytes, items.items());
                        let copied = T::decode_all(&mut decoder, limit, &mut slots);
                        debug_assert!(copied.is_ok(), "skip accepted input that decode rejects");
                    }
                }
                count - slots.0.len()
            }
        }

        sequence!($name [, const MAX: u32] [, MAX]);

        /// [`new`](Self::new) takes a slice.
        #[cfg(feature = "alloc")]
        impl<'a, T, const MAX: u32> TryFrom<&'a alloc::vec::Vec<T>> for $name<'a, T, MAX> {
            type Error = TooLong;

            #[inline]
            fn try_from(items: &'a alloc::vec::Vec<T>) -> Result<Self, TooLong> {
                Self::new(items)
            }
        }

        impl<'a, T> From<&'a [T]> for $name<'a, T> {
            #[inline]
            fn from(items: &'a [T]) -> Self {
                Self(Repr::Slice(items))
            }
        }

        impl<'a, T, const N: usize> From<&'a [T; N]> for $name<'a, T> {
            #[inline]
            fn from(items: &'a [T; N]) -> Self {
                Self(Repr::Slice(items))
            }
        }

        impl<T: Wire, const MAX: u32> Wire for $name<'_, T, MAX> {
            const MIN: usize = 4;
            const MAX: Option<usize> = array_max(MAX, T::MAX);
            const PLAIN: bool = false;
        }

        impl<'a, T: Decode<'a>, const MAX: u32> Decode<'a> for $name<'a, T, MAX> {
            #[inline(always)]
            fn decode(d: &mut Decoder<'a>) -> Result<Self> {
                let count = d.length(MAX)?;
                let start = d.remaining();
                skip_elements::<T, _>(d, count, &mut NoTrace)?;
                Ok(Self(Repr::wire(d, start, count)))
            }

            #[inline]
            fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
                let count = d.length(MAX)?;
                skip_elements::<T, _>(d, count, trace)
            }
        }

        impl<T: Encode, const MAX: u32> Encode for $name<'_, T, MAX> {
            #[inline(always)]
            fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
                sink.length(self.len())?;
                match self.0 {
                    Repr::Wire { bytes, items, .. } => encode_received(bytes, items.items(), sink),
                    Repr::Slice(items) => T::encode_all(items, sink),
                }
            }
        }
    };
}
array!(Array);
array!(DdpArray);

/// Fills a slice from its start.
struct SliceFiller<'o, T>(&'o mut [T]);

impl<T> Extend<T> for SliceFiller<'_, T> {
    #[inline(always)]
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        let items = items.into_iter();
        let slots = mem::take(&mut self.0);
        let (least, most) = items.size_hint();
        if most == Some(least) && least <= slots.len() {
            // The number of items is known, so the compiler can vectorize the loop.
            let (filled, free) = slots.split_at_mut(least);
            filled
                .iter_mut()
                .zip(items)
                .for_each(|(slot, item)| *slot = item);
            self.0 = free;
        } else {
            let mut free = slots.iter_mut();
            items.zip(&mut free).for_each(|(item, slot)| *slot = item);
            self.0 = free.into_slice();
        }
    }
}

#[cfg(test)]
mod tests;
