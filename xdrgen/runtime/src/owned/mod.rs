//! The owned shape: values which keep what they hold.

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

use crate::{Decode, Decoder, Encode, Error, ErrorKind, Result, Sink, Trace, Wire};

/// Encodes to `octets` from its beginning, with at most one allocation, an exact one.
pub(crate) fn encode_to<E: Encode + ?Sized>(value: &E, octets: &mut Vec<u8>) -> Result<()> {
    let len = value.encoded_len()?;
    octets.clear();
    octets.try_reserve_exact(len).map_err(|_| Error::at(ErrorKind::SizeLimit, len))?;
    octets.resize(len, 0);
    value.encode_to_slice(octets).map(|_| ())
}

/// An empty vector with room for exactly `count` items.
fn reserve<T>(d: &Decoder<'_>, count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    match items.try_reserve_exact(count) {
        Ok(()) => Ok(items),
        Err(_) => Err(d.error(ErrorKind::SizeLimit)),
    }
}

/// A box is nothing on the wire; in a decode it is one level of nesting, because only recursive types need it.
///
/// Sizes as of `T`, but without a greatest, and never plain: levels must be counted.
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

/// An optional whose value is boxed for its size alone, and so counts no level; for generated code.
///
/// # Errors
/// As [`Decode::decode`].
#[doc(hidden)]
#[inline]
pub fn boxed<'a, T: Decode<'a>>(decoder: &mut Decoder<'a>) -> Result<Option<Box<T>>> {
    Ok(if decoder.bool()? { Some(Box::new(T::decode(decoder)?)) } else { None })
}

#[cfg(test)]
mod tests;
