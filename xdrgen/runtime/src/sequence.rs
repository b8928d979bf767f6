//! What [`Array`](crate::Array) and [`List`](crate::List) share: octets validated once, or a slice of the caller's.

use core::{fmt, iter::FusedIterator, slice};

use crate::{Decode, Decoder, Result, Trace};

/// The elements of a borrowed sequence.
pub(crate) enum Repr<'a, T> {
    /// Octets which `T::skip` has accepted, for `count` elements.
    Wire { bytes: &'a [u8], count: u32 },
    /// The caller's own.
    Slice(&'a [T]),
}

// By hand, because elements need not be `Copy` for a reference to be.
impl<T> Clone for Repr<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Repr<'_, T> {}

impl<'a, T> Repr<'a, T> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Wire { count, .. } => *count as usize,
            Self::Slice(items) => items.len(),
        }
    }

    /// The elements; on the wire, `tag` octets stand before each.
    #[inline(always)]
    pub(crate) fn iter(&self, tag: usize) -> Iter<'a, T> {
        Iter(match *self {
            Self::Wire { bytes, count } => Source::Wire { d: Decoder::validated(bytes), left: count, tag },
            Self::Slice(items) => Source::Slice(items.iter()),
        })
    }
}

/// Passes `count` elements of an array.
#[inline(always)]
pub(crate) fn skip_elements<'a, T: Decode<'a>, Tr: Trace>(
    d: &mut Decoder<'a>,
    count: u32,
    trace: &mut Tr,
) -> Result<()> {
    d.array_of::<T>(count)?;
    if T::PLAIN && !Tr::WALKS {
        // A product beyond `usize` is beyond any input, too.
        return d.advance((count as usize).saturating_mul(T::MIN));
    }
    for i in 0..count {
        trace.index(i);
        d.element::<T, _>(|d| T::skip(d, trace))?;
        trace.leave();
    }
    Ok(())
}

/// The elements of an [`Array`](crate::Array) or a [`List`](crate::List), decoded one by one, or cloned from a slice.
pub struct Iter<'a, T>(Source<'a, T>);

enum Source<'a, T> {
    Wire { d: Decoder<'a>, left: u32, tag: usize },
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
        // `T::skip` has accepted these octets, and accepts only what `T::decode` accepts, under budgets which were no
        // higher than the decoder's here. Should a `Decode` of someone's break that, the sequence ends early.
        let item = d.advance(tag).and_then(|()| T::decode(d));
        debug_assert!(item.is_ok(), "skip accepted what decode refuses");
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
            Source::Wire { d, left, tag } => Source::Wire { d: d.clone(), left: *left, tag: *tag },
        })
    }
}

impl<'a, T: Decode<'a> + Clone + fmt::Debug> fmt::Debug for Iter<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// What an array and a list do alike.
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
            /// How many elements there are.
            #[inline(always)]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there are no elements.
            #[inline(always)]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl<'a, T: Decode<'a> + Clone $($max)*> $name<'a, T $($max_of)*> {
            /// The first element.
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

        impl<'a, T: Decode<'a> + Clone + PartialEq $($max)*> PartialEq for $name<'a, T $($max_of)*> {
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().eq(other.iter())
            }
        }

        impl<'a, T: Decode<'a> + Clone + Eq $($max)*> Eq for $name<'a, T $($max_of)*> {}

        impl<'a, T: Decode<'a> + Clone + fmt::Debug $($max)*> fmt::Debug for $name<'a, T $($max_of)*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }
    };
}
pub(crate) use sequence;
