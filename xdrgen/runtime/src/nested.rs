//! Recursive values, borrowed. `Box` (`owned`) is the owned shape, and counts as the same level.
//!
//! `decode` validates the bytes through `T::skip`, and [`Nested::get`] decodes them without limits,
//! so that both must accept the same input. One macro implements [`Nested`] and [`DdpNested`],
//! which differ only in that the second keeps the items of the message.

use core::fmt;

use crate::sequence::{Beside, WithItems, encode_received};
use crate::{Decode, Decoder, Encode, NoTrace, Result, Sink, Trace, Wire};

/// A value inside a value of the same type, borrowed. (A recursion at the end of a structure is a
/// [`List`](crate::List).)
///
/// It refers either to the bytes of the value, which [`Decoder::nested`] validated and
/// [`get`](Self::get) decodes, or to a value of the caller. Each call of `get` walks through the
/// bytes again; the depth limit of the decode bounds this cost and the stack.
///
/// ```
/// use xdrgen_runtime::{Decode, Decoder, Encode, Nested, NoTrace, Result, Sink, Trace, Wire};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// enum Expr<'a> { Number(u32), Not(Nested<'a, Expr<'a>>) }
///
/// impl Wire for Expr<'_> {
///     const MIN: usize = 8;
///     const MAX: Option<usize> = None;
///     const PLAIN: bool = false;
/// }
/// impl<'a> Decode<'a> for Expr<'a> {
///     fn decode(d: &mut Decoder<'a>) -> Result<Self> {
///         Ok(if d.bool()? { Self::Not(Nested::decode(d)?) } else { Self::Number(d.u32()?) })
///     }
///     fn skip<T: Trace>(d: &mut Decoder<'a>, trace: &mut T) -> Result<()> {
///         if d.bool()? { Nested::<Self>::skip(d, trace) } else { u32::skip(d, trace) }
///     }
/// }
///
/// let expr = Expr::from_bytes(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7])?;
/// let Expr::Not(inner) = expr else { panic!() };
/// assert_eq!(inner.get(), Ok(Expr::Number(7)));
/// assert_eq!(inner, Nested::new(&Expr::Number(7)));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub struct Nested<'a, T>(Source<'a, T, ()>);

/// A [`Nested`] value that may contain [items](crate::Item). That of a received message finds the
/// items that are not in its stream.
pub struct DdpNested<'a, T>(Source<'a, T, WithItems<'a>>);

enum Source<'a, T, B> {
    /// Bytes that `T::skip` accepted.
    Wire {
        bytes: &'a [u8],
        items: B,
    },
    Ref(&'a T),
}

impl<T, B: Copy> Clone for Source<'_, T, B> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, B: Copy> Copy for Source<'_, T, B> {}

/// The methods and traits of both.
macro_rules! nested {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            /// Creates a reference to a value.
            #[inline]
            pub const fn new(value: &'a T) -> Self {
                Self(Source::Ref(value))
            }
        }

        impl<'a, T: Decode<'a> + Clone> $name<'a, T> {
            /// Returns the value, decoded or cloned.
            ///
            /// # Errors
            /// Returns no error for a type whose `skip` accepts only the input that its `decode`
            /// accepts, as [`Decode`] requires. The compiler cannot check this, and this function
            /// does not panic.
            #[inline]
            pub fn get(&self) -> Result<T> {
                match self.0 {
                    Source::Wire { bytes, items } => {
                        T::decode(&mut Decoder::validated(bytes, items.items()))
                    }
                    Source::Ref(value) => Ok(value.clone()),
                }
            }
        }

        impl<T> Clone for $name<'_, T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<'a, T: Decode<'a> + Clone + PartialEq> PartialEq for $name<'a, T> {
            fn eq(&self, other: &Self) -> bool {
                self.get() == other.get()
            }
        }

        impl<'a, T: Decode<'a> + Clone + Eq> Eq for $name<'a, T> {}

        impl<'a, T: Decode<'a> + Clone + core::hash::Hash> core::hash::Hash for $name<'a, T> {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.get().hash(state);
            }
        }

        impl<'a, T: Decode<'a> + Clone + fmt::Debug> fmt::Debug for $name<'a, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.get() {
                    Ok(value) => value.fmt(f),
                    Err(error) => error.fmt(f),
                }
            }
        }

        /// The sizes of `T`, but unbounded and never plain, because levels must be counted.
        impl<T: Wire> Wire for $name<'_, T> {
            const MIN: usize = T::MIN;
            const MAX: Option<usize> = None;
            const PLAIN: bool = false;
        }

        impl<'a, T: Decode<'a>> Decode<'a> for $name<'a, T> {
            #[inline(always)]
            fn decode(d: &mut Decoder<'a>) -> Result<Self> {
                let start = d.remaining();
                Self::skip(d, &mut NoTrace)?;
                Ok(Self(Source::Wire {
                    bytes: d.consumed_since(start),
                    items: Beside::of(d),
                }))
            }

            #[inline]
            fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
                d.nested(|d| T::skip(d, trace))
            }
        }

        impl<T: Encode> Encode for $name<'_, T> {
            #[inline(always)]
            fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
                match self.0 {
                    Source::Wire { bytes, items } => encode_received(bytes, items.items(), sink),
                    Source::Ref(value) => value.encode(sink),
                }
            }
        }
    };
}
nested!(Nested);
nested!(DdpNested);

#[cfg(test)]
mod tests;
