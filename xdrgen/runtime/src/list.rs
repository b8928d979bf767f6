//! Linked lists, borrowed. `sequence` has the representation, and `owned::list_buf` the owned
//! shape.
//!
//! `decode`, `skip`, `decode_each` and `visit_each` must accept the same input and charge the same
//! elements and levels, because `Iter` decodes their bytes without limits. One macro implements
//! [`List`] and [`DdpList`], which differ only in that the second keeps the items of the message.

use core::fmt;

use crate::sequence::{
    Beside, Iter, Repr, WithItems, encode_received, pass_on, sequence, visit_elements,
};
use crate::{Decode, Decoder, Encode, NoTrace, Result, Sink, TooLong, Trace, Visit, Wire};

/// The number of bytes before each element: the TRUE of the pointer to it.
pub(crate) const TAG: usize = 4;

/// A linked list, borrowed: `struct T { ...; T *next; }` and `T *head` in XDR (RFC 4506, section
/// 4.19).
///
/// `T` is the structure without its pointer to the next. In the encoding, TRUE precedes each
/// element and FALSE ends the list. A list refers either to bytes of the input, which are validated
/// once and decoded on access, or to a slice of the caller. It is never recursive.
///
/// ```
/// use xdrgen_runtime::{Decode, Encode, List};
///
/// let bytes = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0];
/// let list = List::<u32>::from_bytes(&bytes)?;
/// assert_eq!(list, List::from(&[7, 8]));
///
/// let mut buf = [0; 20];
/// List::from(&[7u32, 8]).encode_to_slice(&mut buf)?;
/// assert_eq!(buf, bytes);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub struct List<'a, T>(Repr<'a, T>);

/// A [`List`] whose elements may contain [items](crate::Item). The elements of a received message
/// find the items that are not in its stream.
pub struct DdpList<'a, T>(Repr<'a, T, WithItems<'a>>);

/// The methods and traits of both.
macro_rules! list {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            /// Creates a list from a slice. `From` does the same without a check.
            ///
            /// # Errors
            /// Returns [`TooLong`] if the number of elements does not fit in 32 bits: no decoder
            /// would accept the list.
            #[inline]
            pub const fn new(items: &'a [T]) -> Result<Self, TooLong> {
                match TooLong::check(items.len(), u32::MAX) {
                    Ok(()) => Ok(Self(Repr::Slice(items))),
                    Err(error) => Err(error),
                }
            }
        }

        impl<'a, T: Decode<'a>> $name<'a, T> {
            /// Decodes a list, and passes each element to a function as soon as it is decoded. This
            /// is one pass, where [`decode`](Decode::decode) and [`iter`](Self::iter) are two. The
            /// function also gets the elements before an invalid one.
            ///
            /// # Errors
            /// Fails where [`decode`](Decode::decode) fails. If the input is too short, the errors
            /// can have other kinds and offsets: each rejects other runs of fields as a whole.
            #[inline(always)]
            pub fn decode_each(d: &mut Decoder<'a>, mut each: impl FnMut(&T)) -> Result<Self> {
                let start = d.remaining();
                let mut count = 0u32;
                while d.bool()? {
                    d.charge_elements(1)?;
                    d.element::<T, _>(|d| pass_on(d, &mut each))?;
                    count = count.wrapping_add(1);
                }
                Ok(Self(Repr::wire(d, start, count)))
            }

            /// Decodes a list, and passes the content of each element to a visitor. As
            /// [`decode_each`](Self::decode_each), without building the elements.
            ///
            /// # Errors
            /// As [`decode_each`](Self::decode_each).
            #[inline(always)]
            pub fn visit_each<V: ?Sized>(d: &mut Decoder<'a>, visitor: &mut V) -> Result<Self>
            where
                T: Visit<'a, V>,
            {
                let start = d.remaining();
                let mut count = 0u32;
                while d.bool()? {
                    d.charge_elements(1)?;
                    visit_elements::<T, V>(d, 1, visitor)?;
                    count = count.wrapping_add(1);
                }
                Ok(Self(Repr::wire(d, start, count)))
            }
        }

        impl<'a, T: Decode<'a> + Clone> $name<'a, T> {
            /// Returns an iterator over the elements.
            #[inline]
            pub fn iter(&self) -> Iter<'a, T> {
                self.0.iter(TAG)
            }

            /// Returns the element at index `i`. This takes constant time for a slice; otherwise it
            /// walks through the elements before it.
            #[inline]
            pub fn get(&self, i: usize) -> Option<T> {
                match self.0 {
                    Repr::Slice(items) => items.get(i).cloned(),
                    Repr::Wire { .. } => self.iter().nth(i),
                }
            }
        }

        sequence!($name [] []);

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

        impl<T> Wire for $name<'_, T> {
            const MIN: usize = 4;
            const MAX: Option<usize> = None;
            const PLAIN: bool = false;
        }

        impl<'a, T: Decode<'a>> Decode<'a> for $name<'a, T> {
            #[inline(always)]
            fn decode(d: &mut Decoder<'a>) -> Result<Self> {
                let start = d.remaining();
                let count = skip_list::<T, _>(d, &mut NoTrace)?;
                Ok(Self(Repr::wire(d, start, count)))
            }

            #[inline]
            fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
                skip_list::<T, _>(d, trace).map(|_| ())
            }
        }

        impl<T: Encode> Encode for $name<'_, T> {
            #[inline(always)]
            fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
                match self.0 {
                    Repr::Wire { bytes, items, .. } => encode_received(bytes, items.items(), sink),
                    Repr::Slice(items) => encode_list(items, sink),
                }
            }
        }
    };
}
list!(List);
list!(DdpList);

/// Advances past a list with its end, and returns the number of elements.
#[inline(always)]
pub(crate) fn skip_list<'a, T: Decode<'a>, Tr: Trace>(
    d: &mut Decoder<'a>,
    trace: &mut Tr,
) -> Result<u32> {
    let mut count = 0u32;
    while d.bool()? {
        d.charge_elements(1)?;
        trace.index(count);
        d.element::<T, _>(|d| T::skip(d, trace))?;
        trace.leave();
        // Never wraps: the budget of elements has 32 bits too.
        count = count.wrapping_add(1);
    }
    Ok(count)
}

/// Encodes the elements as a list.
#[inline(always)]
pub(crate) fn encode_list<'s, T: Encode, S: Sink<'s>>(items: &'s [T], sink: &mut S) -> Result<()> {
    for item in items {
        sink.bool(true)?;
        item.encode(sink)?;
    }
    sink.bool(false)
}

#[cfg(test)]
mod tests;
