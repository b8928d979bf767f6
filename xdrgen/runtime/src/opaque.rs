//! Variable-length opaque data, borrowed.

use core::{fmt, ops::Deref};

use crate::wire::opaque_max;
use crate::{Decode, Decoder, Encode, Result, Sink, TooLong, Trace, Wire};

/// `opaque<>` without a bound (RFC 4506, section 4.10).
impl Wire for &[u8] {
    const MIN: usize = 4;
    const MAX: Option<usize> = None;
    const PLAIN: bool = false;
}

impl<'a> Decode<'a> for &'a [u8] {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_bytes(d, u32::MAX)
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_bytes(d, u32::MAX).map(|_| ())
    }
}

/// `opaque<>`, and through references `&[u8]`.
impl Encode for [u8] {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(self)
    }
}

/// Decodes the bytes of an opaque or a string.
#[inline(always)]
pub(crate) fn decode_bytes<'a>(d: &mut Decoder<'a>, max: u32) -> Result<&'a [u8]> {
    let len = d.length(max)?;
    d.padded(len as usize)
}

/// `opaque<MAX>`: at most `MAX` bytes, borrowed (RFC 4506, section 4.10).
///
/// ```
/// use xdrgen_runtime::{Decode, Opaque};
///
/// let cookie = Opaque::<8>::from_bytes(&[0, 0, 0, 2, 7, 9, 0, 0])?;
/// assert_eq!(cookie[..], [7, 9]);
/// assert!(Opaque::<8>::new(&[0; 9]).is_err());
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Opaque<'a, const MAX: u32> {
    pub(crate) bytes: &'a [u8],
}

impl<'a, const MAX: u32> Opaque<'a, MAX> {
    /// Creates an opaque from bytes.
    ///
    /// # Errors
    /// Returns [`TooLong`] if there are more than `MAX` bytes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Result<Self, TooLong> {
        match TooLong::check(bytes.len(), MAX) {
            Ok(()) => Ok(Self { bytes }),
            Err(error) => Err(error),
        }
    }

    /// Returns the bytes, with the lifetime of the input or value that they come from.
    #[inline(always)]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<const MAX: u32> Deref for Opaque<'_, MAX> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl<const MAX: u32> AsRef<[u8]> for Opaque<'_, MAX> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl<'a, const MAX: u32> TryFrom<&'a [u8]> for Opaque<'a, MAX> {
    type Error = TooLong;

    #[inline]
    fn try_from(bytes: &'a [u8]) -> Result<Self, TooLong> {
        Self::new(bytes)
    }
}

impl<const MAX: u32> fmt::Debug for Opaque<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(self.bytes, f)
    }
}

/// Formats bytes as a Rust byte string.
pub(crate) fn write_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "b\"{}\"", bytes.escape_ascii())
}

impl<const MAX: u32> Wire for Opaque<'_, MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = opaque_max(MAX);
    const PLAIN: bool = false;
}

impl<'a, const MAX: u32> Decode<'a> for Opaque<'a, MAX> {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_bytes(d, MAX).map(|bytes| Self { bytes })
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_bytes(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for Opaque<'_, MAX> {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        assert_consistent, assert_rejected, assert_round_trip, encoded, xdr_like,
    };
    use crate::{ErrorKind::*, TooLong};
    use proptest::prelude::*;
    use std::format;

    #[test]
    fn bounds_are_checked_by_constructors_and_decoders() {
        assert!(Opaque::<4>::new(&[0; 4]).is_ok());
        assert_eq!(Opaque::<4>::new(&[0; 5]), Err(TooLong { len: 5, max: 4 }));
        assert!(Opaque::<4>::try_from(&[0u8; 5][..]).is_err());
        assert_rejected::<Opaque<'_, 4>>(&[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], TooLong, 0);
        assert_rejected::<(u32, Opaque<'_, 4>)>(&[0, 0, 0, 0, 0, 0, 0, 5], TooLong, 4);
    }

    #[test]
    fn ends_and_padding_are_checked() {
        assert_eq!(encoded(&b"ab"[..]), [0, 0, 0, 2, b'a', b'b', 0, 0]);
        assert_rejected::<&[u8]>(&[0, 0, 0], UnexpectedEnd, 0);
        assert_rejected::<&[u8]>(&[255, 255, 255, 255, 0, 0, 0, 0], UnexpectedEnd, 4);
        assert_rejected::<&[u8]>(&[0, 0, 0, 2, 1, 2, 0], UnexpectedEnd, 6);
        assert_rejected::<&[u8]>(&[0, 0, 0, 2, 1, 2, 0, 1], InvalidPadding, 6);
        assert_rejected::<Opaque<'_, 9>>(&[0, 0, 0, 1, 1, 1, 0, 0], InvalidPadding, 5);
    }

    #[test]
    fn debug_shows_bytes() {
        let opaque = Opaque::<4>::new(b"a\"\xff").unwrap();
        assert_eq!(format!("{opaque:?}"), r#"b"a\"\xff""#);
        assert!(Opaque::<4>::default().is_empty());
    }

    proptest! {
        #[test]
        fn round_trips(bytes: [u8; 12], len in 0usize..=12) {
            assert_round_trip(&&bytes[..len]);
            assert_round_trip(&Opaque::<12>::new(&bytes[..len]).unwrap());
        }

        #[test]
        fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
            assert_consistent::<&[u8]>(&bytes);
            assert_consistent::<Opaque<'_, 2>>(&bytes);
        }
    }
}
