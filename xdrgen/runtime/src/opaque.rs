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
        decode_octets(d, u32::MAX)
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_octets(d, u32::MAX).map(|_| ())
    }
}

/// `opaque<>`, and through references `&[u8]`.
impl Encode for [u8] {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(self)
    }
}

/// The octets of an opaque or string.
#[inline(always)]
pub(crate) fn decode_octets<'a>(d: &mut Decoder<'a>, max: u32) -> Result<&'a [u8]> {
    let len = d.length(max)?;
    d.padded(len as usize)
}

/// `opaque<MAX>`: at most `MAX` octets, borrowed (RFC 4506, section 4.10).
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
    pub(crate) octets: &'a [u8],
}

impl<'a, const MAX: u32> Opaque<'a, MAX> {
    /// These octets.
    ///
    /// # Errors
    /// [`TooLong`] if they are more than `MAX`.
    #[inline]
    pub const fn new(octets: &'a [u8]) -> Result<Self, TooLong> {
        match TooLong::check(octets.len(), MAX) {
            Ok(()) => Ok(Self { octets }),
            Err(error) => Err(error),
        }
    }

    /// The octets, for as long as the input or value from which they come.
    #[inline(always)]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.octets
    }
}

impl<const MAX: u32> Deref for Opaque<'_, MAX> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.octets
    }
}

impl<const MAX: u32> AsRef<[u8]> for Opaque<'_, MAX> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.octets
    }
}

impl<'a, const MAX: u32> TryFrom<&'a [u8]> for Opaque<'a, MAX> {
    type Error = TooLong;

    #[inline]
    fn try_from(octets: &'a [u8]) -> Result<Self, TooLong> {
        Self::new(octets)
    }
}

impl<const MAX: u32> fmt::Debug for Opaque<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_octets(self.octets, f)
    }
}

/// Octets as a byte string of Rust.
pub(crate) fn write_octets(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "b\"{}\"", octets.escape_ascii())
}

impl<const MAX: u32> Wire for Opaque<'_, MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = opaque_max(MAX);
    const PLAIN: bool = false;
}

impl<'a, const MAX: u32> Decode<'a> for Opaque<'a, MAX> {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_octets(d, MAX).map(|octets| Self { octets })
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_octets(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for Opaque<'_, MAX> {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(self.octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{octets_of, refused, round_trip, same_verdicts, xdr_like};
    use crate::{ErrorKind::*, TooLong};
    use proptest::prelude::*;
    use std::format;

    #[test]
    fn bound_holds_both_ways() {
        assert!(Opaque::<4>::new(&[0; 4]).is_ok());
        assert_eq!(Opaque::<4>::new(&[0; 5]), Err(TooLong { len: 5, max: 4 }));
        assert!(Opaque::<4>::try_from(&[0u8; 5][..]).is_err());
        refused::<Opaque<'_, 4>>(&[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], TooLong, 0);
        refused::<(u32, Opaque<'_, 4>)>(&[0, 0, 0, 0, 0, 0, 0, 5], TooLong, 4);
    }

    #[test]
    fn ends_and_padding_are_checked() {
        assert_eq!(octets_of(&b"ab"[..]), [0, 0, 0, 2, b'a', b'b', 0, 0]);
        refused::<&[u8]>(&[0, 0, 0], UnexpectedEnd, 0);
        refused::<&[u8]>(&[255, 255, 255, 255, 0, 0, 0, 0], UnexpectedEnd, 4);
        refused::<&[u8]>(&[0, 0, 0, 2, 1, 2, 0], UnexpectedEnd, 6);
        refused::<&[u8]>(&[0, 0, 0, 2, 1, 2, 0, 1], InvalidPadding, 6);
        refused::<Opaque<'_, 9>>(&[0, 0, 0, 1, 1, 1, 0, 0], InvalidPadding, 5);
    }

    #[test]
    fn shows_octets() {
        let opaque = Opaque::<4>::new(b"a\"\xff").unwrap();
        assert_eq!(format!("{opaque:?}"), r#"b"a\"\xff""#);
        assert!(Opaque::<4>::default().is_empty());
    }

    proptest! {
        #[test]
        fn round_trips(octets: [u8; 12], len in 0usize..=12) {
            round_trip(&&octets[..len]);
            round_trip(&Opaque::<12>::new(&octets[..len]).unwrap());
        }

        #[test]
        fn skip_accepts_what_decode_accepts(octets in xdr_like()) {
            same_verdicts::<&[u8]>(&octets);
            same_verdicts::<Opaque<'_, 2>>(&octets);
        }
    }
}
