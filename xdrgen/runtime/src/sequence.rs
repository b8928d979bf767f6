//! The common part of [`Array`](crate::Array) and [`List`](crate::List): validated bytes, or a
//! slice of the caller.
//!
//! `Repr::Wire` must contain only bytes that a walk has accepted within the limits of its decode.
//! [`Iter`] decodes them again without limits, and ends early where `decode` rejects what the walk
//! has accepted. The bytes are a part of the stream itself, because `item_list` finds items by
//! address.

use core::{fmt, iter::FusedIterator, slice};

use crate::decoder::Items;
use crate::{Decode, Decoder, Result, Sink, Trace, Visit};

/// What a received sequence keeps to find the items of its elements that are not in the stream.
pub(crate) trait Beside<'a>: Copy {
    fn of(d: &Decoder<'a>) -> Self;
    fn items(self) -> Items<'a>;
}

/// Elements without items need nothing.
impl<'a> Beside<'a> for () {
    #[inline(always)]
    fn of(_: &Decoder<'a>) -> Self {}

    #[inline(always)]
    fn items(self) -> Items<'a> {
        Items::default()
    }
}

/// The items of the message.
#[derive(Clone, Copy)]
pub(crate) struct WithItems<'a>(Items<'a>);

impl<'a> Beside<'a> for WithItems<'a> {
    #[inline(always)]
    fn of(d: &Decoder<'a>) -> Self {
        Self(d.items())
    }

    #[inline(always)]
    fn items(self) -> Items<'a> {
        self.0
    }
}

/// The elements of a borrowed sequence.
pub(crate) enum Repr<'a, T, B = ()> {
    /// Bytes of `count` elements, which `T::skip` accepted.
    Wire {
        bytes: &'a [u8],
        count: u32,
        items: B,
    },
    /// A slice of the caller.
    Slice(&'a [T]),
}

// Not derived: a copy of the reference does not require elements to be `Copy`.
impl<T, B: Copy> Clone for Repr<'_, T, B> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, B: Copy> Copy for Repr<'_, T, B> {}

impl<'a, T, B: Beside<'a>> Repr<'a, T, B> {
    /// Creates a sequence of the bytes that `d` has consumed since `start` remained.
    #[inline(always)]
    pub(crate) fn wire(d: &Decoder<'a>, start: &'a [u8], count: u32) -> Self {
        Self::Wire {
            bytes: d.consumed_since(start),
            count,
            items: B::of(d),
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Wire { count, .. } => *count as usize,
            Self::Slice(items) => items.len(),
        }
    }

    /// Returns an iterator over the elements. In encoded input, `tag` bytes precede each.
    #[inline(always)]
    pub(crate) fn iter(&self, tag: usize) -> Iter<'a, T> {
        Iter(match *self {
            Self::Wire {
                bytes,
                count,
                items,
            } => Source::Wire {
                d: Decoder::validated(bytes, items.items()),
                left: count,
                tag,
            },
            Self::Slice(items) => Source::Slice(items.iter()),
        })
    }
}

/// Encodes a received part of a stream, with its items in place.
#[inline(always)]
pub(crate) fn encode_received<'s, S: Sink<'s>>(
    bytes: &'s [u8],
    items: Items<'_>,
    sink: &mut S,
) -> Result<()> {
    #[cfg(feature = "alloc")]
    if let Some(items) = items.filter(|items| items.has_separate_items()) {
        return items.encode(bytes, sink);
    }
    #[cfg(not(feature = "alloc"))]
    let _ = items;
    sink.raw(bytes)
}

/// Decodes `count` elements of a sequence for a visitor.
#[inline(always)]
pub(crate) fn visit_elements<'a, T: Visit<'a, V>, V: ?Sized>(
    d: &mut Decoder<'a>,
    count: u32,
    visitor: &mut V,
) -> Result<()> {
    let before = d.enter::<T>(count)?;
    for _ in 0..count {
        T::visit(d, visitor)?;
    }
    d.leave(before);
    Ok(())
}

/// Advances past `count` elements of an array.
#[inline(always)]
pub(crate) fn skip_elements<'a, T: Decode<'a>, Tr: Trace>(
    d: &mut Decoder<'a>,
    count: u32,
    trace: &mut Tr,
) -> Result<()> {
    d.charge_array::<T>(count)?;
    if T::PLAIN && !Tr::VISITS_PLAIN {
        // A product that overflows `usize` exceeds any input.
        return d.advance((count as usize).saturating_mul(T::MIN));
    }
    // An element that is too deep is part of the path.
    if Tr::VISITS_PLAIN {
        for i in 0..count {
            trace.index(i);
            d.element::<T, _>(|d| T::skip(d, trace))?;
            trace.leave();
        }
        return Ok(());
    }
    d.elements::<T>(count, |d| T::skip(d, trace))
}

/// Decodes an element and passes it to a function. It stays where `decode` has built it.
#[inline(always)]
pub(crate) fn pass_on<'a, T: Decode<'a>>(
    d: &mut Decoder<'a>,
    each: &mut impl FnMut(&T),
) -> Result<()> {
    match &T::decode(d) {
        Ok(element) => {
            each(element);
            Ok(())
        }
        Err(error) => Err(*error),
    }
}

/// An iterator over the elements of an [`Array`](crate::Array) or a [`List`](crate::List). It
/// decodes each element, or clones it from a slice.
pub struct Iter<'a, T>(Source<'a, T>);

enum Source<'a, T> {
    Wire {
        d: Decoder<'a>,
        left: u32,
        tag: usize,
    },
    Slice(slice::Iter<'a, T>),
}

impl<'a, T: Decode<'a> + Clone> Iterator for Iter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let (d, left, tag) = match &mut self.0 {
            Source::Slice(items) => return items.next().cloned(),
            Source::Wire { d, left, tag } => (d, left, *tag),
        };
        *left = left.checked_sub(1)?;
        // `T::skip` accepted these bytes, and accepts only the input that `T::decode` accepts,
        // under budgets that were no higher than this decoder's. If an implementation of `Decode`
        // violates this, the sequence ends early.
        let item = d.advance(tag).and_then(|()| T::decode(d));
        debug_assert!(item.is_ok(), "skip accepted input that decode rejects");
        if item.is_err() {
            *left = 0;
        }
        item.ok()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Source::Slice(items) => items.len(),
            Source::Wire { left, .. } => *left as usize,
        };
        (left, Some(left))
    }
}

impl<'a, T: Decode<'a> + Clone> ExactSizeIterator for Iter<'a, T> {}

impl<'a, T: Decode<'a> + Clone> FusedIterator for Iter<'a, T> {}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Source::Slice(items) => Source::Slice(items.clone()),
            Source::Wire { d, left, tag } => Source::Wire {
                d: d.clone(),
                left: *left,
                tag: *tag,
            },
        })
    }
}

impl<'a, T: Decode<'a> + Clone + fmt::Debug> fmt::Debug for Iter<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// The common methods and traits of an array and a list.
macro_rules! sequence {
    ($name:ident [$($max:tt)*] [$($max_of:tt)*]) => {
        impl<T $($max)*> Clone for $name<'_, T $($max_of)*> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T $($max)*> Copy for $name<'_, T $($max_of)*> {}

        impl<T $($max)*> Default for $name<'_, T $($max_of)*> {
            fn default() -> Self {
                Self(Repr::Slice(&[]))
            }
        }

        impl<'a, T $($max)*> $name<'a, T $($max_of)*> {
            /// Returns the number of elements.
            #[inline(always)]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Returns true if there are no elements.
            #[inline(always)]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl<'a, T: Decode<'a> + Clone $($max)*> $name<'a, T $($max_of)*> {
            /// Returns the first element.
            #[inline]
            pub fn first(&self) -> Option<T> {
                self.iter().next()
            }
        }

        impl<'a, T: Decode<'a> + Clone $($max)*> IntoIterator for $name<'a, T $($max_of)*> {
            type Item = T;
            type IntoIter = Iter<'a, T>;

            #[inline]
            fn into_iter(self) -> Iter<'a, T> {
                self.iter()
            }
        }

        impl<'a, T: Decode<'a> + Clone $($max)*> IntoIterator for &$name<'a, T $($max_of)*> {
            type Item = T;
            type IntoIter = Iter<'a, T>;

            #[inline]
            fn into_iter(self) -> Iter<'a, T> {
                self.iter()
            }
        }

        impl<'a, T: Decode<'a> + Clone + PartialEq $($max)*> PartialEq
            for $name<'a, T $($max_of)*>
        {
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().eq(other.iter())
            }
        }

        impl<'a, T: Decode<'a> + Clone + Eq $($max)*> Eq for $name<'a, T $($max_of)*> {}

        impl<'a, T: Decode<'a> + Clone + core::hash::Hash $($max)*> core::hash::Hash
            for $name<'a, T $($max_of)*>
        {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.len().hash(state);
                self.iter().for_each(|item| item.hash(state));
            }
        }

        impl<'a, T: Decode<'a> + Clone + fmt::Debug $($max)*> fmt::Debug
            for $name<'a, T $($max_of)*>
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }
    };
}
pub(crate) use sequence;
