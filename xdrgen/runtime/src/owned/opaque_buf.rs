//! Bounded opaque data.

use alloc::vec::Vec;
use core::{fmt, ops::Deref};

use super::vec::decode_copy;
use crate::opaque::{decode_bytes, write_bytes};
use crate::wire::opaque_max;
use crate::{Decode, Decoder, Encode, Opaque, Result, Sink, TooLong, Trace, Wire};

/// `opaque<MAX>`: at most `MAX` bytes, owned (RFC 4506, section 4.10).
///
/// ```
/// use xdrgen_runtime::{Encode, OpaqueBuf};
///
/// let handle = OpaqueBuf::<64>::new(vec![1, 2, 3])?;
/// assert_eq!(handle.encode_to_vec()?, [0, 0, 0, 3, 1, 2, 3, 0]);
/// assert!(OpaqueBuf::<64>::new(vec![0; 65]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpaqueBuf<const MAX: u32>(Vec<u8>);

impl<const MAX: u32> OpaqueBuf<MAX> {
    /// Creates an opaque from bytes.
    ///
    /// # Errors
    /// Returns [`TooLong`] if there are more than `MAX` bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, TooLong> {
        TooLong::check(bytes.len(), MAX)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes as a vector.
    pub fn into_inner(self) -> Vec<u8> {
        self.0
    }

    /// Returns the borrowed shape.
    pub fn as_borrowed(&self) -> Opaque<'_, MAX> {
        Opaque { bytes: &self.0 }
    }
}

impl<const MAX: u32> Deref for OpaqueBuf<MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: u32> AsRef<[u8]> for OpaqueBuf<MAX> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: u32> TryFrom<Vec<u8>> for OpaqueBuf<MAX> {
    type Error = TooLong;

    fn try_from(bytes: Vec<u8>) -> Result<Self, TooLong> {
        Self::new(bytes)
    }
}

impl<const MAX: u32> TryFrom<&[u8]> for OpaqueBuf<MAX> {
    type Error = TooLong;

    fn try_from(bytes: &[u8]) -> Result<Self, TooLong> {
        TooLong::check(bytes.len(), MAX)?;
        Ok(Self(bytes.to_vec()))
    }
}

impl<const N: usize, const MAX: u32> TryFrom<[u8; N]> for OpaqueBuf<MAX> {
    type Error = TooLong;

    fn try_from(bytes: [u8; N]) -> Result<Self, TooLong> {
        Self::try_from(&bytes[..])
    }
}

impl<const MAX: u32> From<Opaque<'_, MAX>> for OpaqueBuf<MAX> {
    fn from(opaque: Opaque<'_, MAX>) -> Self {
        Self(opaque.bytes.to_vec())
    }
}

impl<const MAX: u32> fmt::Debug for OpaqueBuf<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(&self.0, f)
    }
}

impl<const MAX: u32> Wire for OpaqueBuf<MAX> {
    const MIN: usize = 4;
    const MAX: Option<usize> = opaque_max(MAX);
    const PLAIN: bool = false;
}

impl<'a, const MAX: u32> Decode<'a> for OpaqueBuf<MAX> {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        decode_copy(d, MAX).map(Self)
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        decode_bytes(d, MAX).map(|_| ())
    }
}

impl<const MAX: u32> Encode for OpaqueBuf<MAX> {
    #[inline]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.opaque(&self.0)
    }
}
