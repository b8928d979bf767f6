//! Strings, borrowed.

use core::{fmt, str, str::Utf8Error};

use crate::opaque::decode_octets;
use crate::wire::opaque_max;
use crate::{Decode, Decoder, Encode, Result, Sink, TooLong, Trace, Wire};

/// `string<MAX>`: at most `MAX` octets which XDR calls a string, borrowed (RFC 4506, section 4.11).
///
/// The RFC says ASCII; names of files and hosts in the field are often UTF-8, and not always that. So no octet is
/// refused: [`to_str`](Self::to_str) checks, and `Display` shows what is not UTF-8 as U+FFFD.
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
    pub(crate) octets: &'a [u8],
}

impl<'a, const MAX: u32> Text<'a, MAX> {
    /// This string.
    ///
    /// # Errors
    /// [`TooLong`] if it has more than `MAX` octets.
    #[inline]
    pub const fn new(text: &'a str) -> Result<Self, TooLong> {
        Self::from_bytes(text.as_bytes())
    }

    /// A string of these octets, whatever they are. (Decoding from XDR is [`Decode::from_bytes`].)
    ///
    /// # Errors
    /// [`TooLong`] if they are more than `MAX`.
    #[inline]
    pub const fn from_bytes(octets: &'a [u8]) -> Result<Self, TooLong> {
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

    /// The string, if it is UTF-8.
    ///
    /// # Errors
    /// Where it is not.
    pub const fn to_str(&self) -> Result<&'a str, Utf8Error> {
        str::from_utf8(self.octets)
    }
}

impl<const MAX: u32> AsRef<[u8]> for Text<'_, MAX> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.octets
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
        for chunk in self.octets.utf8_chunks() {
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
        for chunk in self.octets.utf8_chunks() {
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
        decode_octets(d, MAX).map(|octets| Self { octets })
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_octets(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for Text<'_, MAX> {
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
    use std::{format, string::ToString};

    #[test]
    fn bound_is_in_octets() {
        assert!(Text::<3>::new("a€").is_err());
        assert!(Text::<4>::new("a€").is_ok());
        assert_eq!(Text::<1>::from_bytes(b"ab"), Err(TooLong { len: 2, max: 1 }));
        assert!(Text::<1>::try_from("ab").is_err());
        refused::<Text<'_, 1>>(&[0, 0, 0, 2, b'a', b'b', 0, 0], TooLong, 0);
        refused::<Text<'_>>(&[0, 0, 0, 2, b'a', b'b', 1, 0], InvalidPadding, 6);
        refused::<Text<'_>>(&[0, 0, 0, 2, b'a'], UnexpectedEnd, 4);
    }

    #[test]
    fn shows_what_is_not_utf8() {
        let text: Text<'_> = Text::from_bytes(b"a\n\"\xffz\xf0\x9f").unwrap();
        assert_eq!(text.to_string(), "a\n\"\u{fffd}z\u{fffd}");
        assert_eq!(format!("{text:?}"), r#""a\n\"\xffz\xf0\x9f""#);
        assert_eq!(octets_of(&text).len(), 12);
    }

    proptest! {
        #[test]
        fn round_trips(octets: [u8; 12], len in 0usize..=12) {
            round_trip(&Text::<12>::from_bytes(&octets[..len]).unwrap());
        }

        #[test]
        fn skip_accepts_what_decode_accepts(octets in xdr_like()) {
            same_verdicts::<Text<'_, 3>>(&octets);
        }
    }
}
