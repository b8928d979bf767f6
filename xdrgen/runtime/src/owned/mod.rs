//! The owned shape: values that own their content, and the helpers of generated code for boxes.
//!
//! An owned type must accept the input that its borrowed type accepts, because generated `skip`
//! calls that of the borrowed type. A sequence reserves input bytes ([`Decoder::reserve_bytes`])
//! before it allocates, so that a count cannot claim more memory than the input justifies. A `Box`
//! counts as a level; [`boxed`] does not.

mod array_buf;
mod borrow;
mod list_buf;
mod opaque_buf;
mod text_buf;
mod vec;

pub use array_buf::ArrayBuf;
pub use borrow::Owned;
pub use list_buf::ListBuf;
pub use opaque_buf::OpaqueBuf;
pub use text_buf::TextBuf;

use alloc::{boxed::Box, vec::Vec};

use crate::{DdpNested, Decode, Decoder, Encode, ErrorKind, Nested, Result, Sink, Trace, Wire};

/// Allocates an empty vector with capacity for exactly `count` items.
fn reserve<T>(d: &Decoder<'_>, count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    match items.try_reserve_exact(count) {
        Ok(()) => Ok(items),
        Err(_) => Err(d.error(ErrorKind::SizeLimit)),
    }
}

/// A box has the encoding of its content. Decoding counts it as one level of nesting, because only
/// recursive types need it.
///
/// It is unbounded and never plain, because levels must be counted.
impl<T: Wire> Wire for Box<T> {
    const MIN: usize = T::MIN;
    const MAX: Option<usize> = None;
    const PLAIN: bool = false;
}

impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        d.nested(T::decode).map(Self::new)
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        d.nested(|d| T::skip(d, trace))
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        (**self).encode(sink)
    }
}

/// Decodes an optional whose value is boxed only for its size, and so is not a level. For generated
/// code.
///
/// # Errors
/// As [`Decode::decode`].
#[doc(hidden)]
#[inline]
pub fn boxed<'a, T: Decode<'a>>(decoder: &mut Decoder<'a>) -> Result<Option<Box<T>>> {
    Ok(if decoder.bool()? {
        Some(Box::new(T::decode(decoder)?))
    } else {
        None
    })
}

/// Converts a nested value to the owned shape. For generated code.
///
/// # Panics
/// Panics if the `decode` of `T` rejects what its `skip` accepted, which generated code does not.
#[doc(hidden)]
pub fn nested<'a, T: Decode<'a> + Clone, O>(
    value: Nested<'a, T>,
    to_owned: impl FnOnce(T) -> O,
) -> Box<O> {
    boxed_value(value.get(), to_owned)
}

/// Converts a nested value with items to the owned shape. For generated code.
///
/// # Panics
/// As [`nested`].
#[doc(hidden)]
pub fn ddp_nested<'a, T: Decode<'a> + Clone, O>(
    value: DdpNested<'a, T>,
    to_owned: impl FnOnce(T) -> O,
) -> Box<O> {
    boxed_value(value.get(), to_owned)
}

fn boxed_value<T, O>(value: Result<T>, to_owned: impl FnOnce(T) -> O) -> Box<O> {
    match value {
        Ok(value) => Box::new(to_owned(value)),
        Err(error) => unreachable!("a validated value is not accepted again: {error}"),
    }
}

#[cfg(test)]
mod tests;
