//! Bounded strings.

use alloc::{string::String, vec::Vec};
use core::{fmt, str::Utf8Error};

use super::vec::decode_copy;
use crate::opaque::decode_octets;
use crate::wire::opaque_max;
use crate::{Decode, Decoder, Encode, Result, Sink, Text, TooLong, Trace, Wire};

/// `string<MAX>`: at most `MAX` octets which XDR calls a string, owned; any octets, as in [`Text`] (RFC 4506, section
/// 4.11).
///
/// ```
/// use xdrgen_runtime::TextBuf;
///
/// let name = TextBuf::<255>::new("a.txt".to_string())?;
/// assert_eq!(name.to_str()?, "a.txt");
/// assert_eq!(TextBuf::<255>::from(name.as_borrowed()), name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TextBuf<const MAX: u32 = { u32::MAX }>(Vec<u8>);

impl<const MAX: u32> TextBuf<MAX> {
    /// This string.
    ///
    /// # Errors
    /// [`TooLong`] if it has more than `MAX` octets.
    pub fn new(text: String) -> Result<Self, TooLong> {
        Self::from_bytes(text.into_bytes())
    }

    /// A string of these octets, whatever they are. (Decoding from XDR is [`Decode::from_bytes`].)
    ///
    /// # Errors
    /// [`TooLong`] if they are more than `MAX`.
    pub fn from_bytes(octets: Vec<u8>) -> Result<Self, TooLong> {
        TooLong::check(octets.len(), MAX)?;
        Ok(Self(octets))
    }

    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The string, if it is UTF-8.
    ///
    /// # Errors
    /// Where it is not.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(&self.0)
    }

    /// The octets, given away.
    pub fn into_inner(self) -> Vec<u8> {
        self.0
    }

    /// The same in the borrowed shape.
    pub fn as_borrowed(&self) -> Text<'_, MAX> {
        Text { octets: &self.0 }
    }
}

impl<const MAX: u32> AsRef<[u8]> for TextBuf<MAX> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: u32> TryFrom<String> for TextBuf<MAX> {
    type Error = TooLong;

    fn try_from(text: String) -> Result<Self, TooLong> {
        Self::new(text)
    }
}

impl<const MAX: u32> From<Text<'_, MAX>> for TextBuf<MAX> {
    fn from(text: Text<'_, MAX>) -> Self {
        Self(text.octets.to_vec())
    }
}

impl<const MAX: u32> fmt::Display for TextBuf<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_borrowed(), f)
    }
}

impl<const MAX: u32> fmt::Debug for TextBuf<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_borrowed(), f)
    }
}

impl<const MAX: u32> Wire for TextBuf<MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = opaque_max(MAX);
    const PLAIN: bool = false;
}

impl<'a, const MAX: u32> Decode<'a> for TextBuf<MAX> {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_copy(d, MAX).map(Self)
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_octets(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for TextBuf<MAX> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(&self.0)
    }
}
