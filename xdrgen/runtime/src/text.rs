//! Strings, borrowed.

use core::{fmt, str, str::Utf8Error};

use crate::opaque::decode_bytes;
use crate::wire::opaque_max;
use crate::{Decode, Decoder, Encode, Result, Sink, TooLong, Trace, Wire};

/// `string<MAX>`: a string of at most `MAX` bytes, borrowed (RFC 4506, section 4.11).
///
/// The RFC requires ASCII. Names of files and hosts in practice are often UTF-8, but not always.
/// Therefore every byte is accepted: [`to_str`](Self::to_str) checks for UTF-8, and `Display` shows
/// U+FFFD in place of invalid UTF-8.
///
/// ```
/// use xdrgen_runtime::{Decode, Text};
///
/// let name = Text::<255>::from_bytes(b"a.txt")?;
/// assert_eq!(name.to_str()?, "a.txt");
/// let latin: Text<'_> = Text::from_bytes(b"caf\xe9")?;
/// assert!(latin.to_str().is_err());
/// assert_eq!(latin.to_string(), "caf\u{fffd}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text<'a, const MAX: u32 = { u32::MAX }> {
    pub(crate) bytes: &'a [u8],
}

impl<'a, const MAX: u32> Text<'a, MAX> {
    /// Creates a string.
    ///
    /// # Errors
    /// Returns [`TooLong`] if it has more than `MAX` bytes.
    #[inline]
    pub const fn new(text: &'a str) -> Result<Self, TooLong> {
        Self::from_bytes(text.as_bytes())
    }

    /// Creates a string from arbitrary bytes. ([`Decode::from_bytes`] decodes XDR.)
    ///
    /// # Errors
    /// Returns [`TooLong`] if there are more than `MAX` bytes.
    #[inline]
    pub const fn from_bytes(bytes: &'a [u8]) -> Result<Self, TooLong> {
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

    /// Returns the string if it is UTF-8.
    ///
    /// # Errors
    /// Returns the position of the first invalid byte.
    pub const fn to_str(&self) -> Result<&'a str, Utf8Error> {
        str::from_utf8(self.bytes)
    }
}

impl<const MAX: u32> AsRef<[u8]> for Text<'_, MAX> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl<'a, const MAX: u32> TryFrom<&'a str> for Text<'a, MAX> {
    type Error = TooLong;

    #[inline]
    fn try_from(text: &'a str) -> Result<Self, TooLong> {
        Self::new(text)
    }
}

impl<const MAX: u32> fmt::Display for Text<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

impl<const MAX: u32> fmt::Debug for Text<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for chunk in self.bytes.utf8_chunks() {
            let (valid, invalid) = (chunk.valid(), chunk.invalid());
            write!(f, "{}{}", valid.escape_debug(), invalid.escape_ascii())?;
        }
        f.write_str("\"")
    }
}

impl<const MAX: u32> Wire for Text<'_, MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = opaque_max(MAX);
    const PLAIN: bool = false;
}

impl<'a, const MAX: u32> Decode<'a> for Text<'a, MAX> {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_bytes(d, MAX).map(|bytes| Self { bytes })
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_bytes(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for Text<'_, MAX> {
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
    use std::{format, string::ToString};

    #[test]
    fn bound_is_in_bytes() {
        assert!(Text::<3>::new("a€").is_err());
        assert!(Text::<4>::new("a€").is_ok());
        assert_eq!(
            Text::<1>::from_bytes(b"ab"),
            Err(TooLong { len: 2, max: 1 })
        );
        assert!(Text::<1>::try_from("ab").is_err());
        assert_rejected::<Text<'_, 1>>(&[0, 0, 0, 2, b'a', b'b', 0, 0], TooLong, 0);
        assert_rejected::<Text<'_>>(&[0, 0, 0, 2, b'a', b'b', 1, 0], InvalidPadding, 6);
        assert_rejected::<Text<'_>>(&[0, 0, 0, 2, b'a'], UnexpectedEnd, 4);
    }

    #[test]
    fn invalid_utf8_is_shown() {
        let text: Text<'_> = Text::from_bytes(b"a\n\"\xffz\xf0\x9f").unwrap();
        assert_eq!(text.to_string(), "a\n\"\u{fffd}z\u{fffd}");
        assert_eq!(format!("{text:?}"), r#""a\n\"\xffz\xf0\x9f""#);
        assert_eq!(encoded(&text).len(), 12);
    }

    proptest! {
        #[test]
        fn round_trips(bytes: [u8; 12], len in 0usize..=12) {
            assert_round_trip(&Text::<12>::from_bytes(&bytes[..len]).unwrap());
        }

        #[test]
        fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
            assert_consistent::<Text<'_, 3>>(&bytes);
        }
    }
}
