//! Bounded strings.

use alloc::{string::String, vec::Vec};
use core::{fmt, str::Utf8Error};

use super::vec::decode_copy;
use crate::opaque::decode_bytes;
use crate::wire::opaque_max;
use crate::{Decode, Decoder, Encode, Result, Sink, Text, TooLong, Trace, Wire};

/// `string<MAX>`: a string of at most `MAX` bytes, owned. It may contain any bytes, as [`Text`] may
/// (RFC 4506, section 4.11).
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
    /// Creates a string.
    ///
    /// # Errors
    /// Returns [`TooLong`] if it has more than `MAX` bytes.
    pub fn new(text: String) -> Result<Self, TooLong> {
        Self::from_bytes(text.into_bytes())
    }

    /// Creates a string from arbitrary bytes. ([`Decode::from_bytes`] decodes XDR.)
    ///
    /// # Errors
    /// Returns [`TooLong`] if there are more than `MAX` bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, TooLong> {
        TooLong::check(bytes.len(), MAX)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the string if it is UTF-8.
    ///
    /// # Errors
    /// Returns the position of the first invalid byte.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(&self.0)
    }

    /// Returns the bytes as a vector.
    pub fn into_inner(self) -> Vec<u8> {
        self.0
    }

    /// Returns the borrowed shape.
    pub fn as_borrowed(&self) -> Text<'_, MAX> {
        Text { bytes: &self.0 }
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

impl<const MAX: u32> TryFrom<&str> for TextBuf<MAX> {
    type Error = TooLong;

    fn try_from(text: &str) -> Result<Self, TooLong> {
        TooLong::check(text.len(), MAX)?;
        Ok(Self(text.as_bytes().to_vec()))
    }
}

impl<const MAX: u32> From<Text<'_, MAX>> for TextBuf<MAX> {
    fn from(text: Text<'_, MAX>) -> Self {
        Self(text.bytes.to_vec())
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
        decode_bytes(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for TextBuf<MAX> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(&self.0)
    }
}
