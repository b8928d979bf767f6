//! Limits of a decode.

use crate::{Error, ErrorKind, Result};

/// Limits of one decode, against input whose cost is out of proportion to its size.
///
/// Memory needs no limit: nothing is allocated for a count that the rest of the input cannot
/// contain (see [`Decoder::reserve_bytes`](crate::Decoder::reserve_bytes)).
///
/// ```
/// use xdrgen_runtime::{Array, Decode, ErrorKind, Limits};
///
/// let two = [0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8];
/// let limits = Limits { elements: 1, ..Limits::DEFAULT };
/// let error = Array::<u32>::from_bytes_with(&two, &limits).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::ElementLimit);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// The maximum number of open levels. A level is a recursive type ([`Nested`](crate::Nested),
    /// `Box`, or [`Decoder::nested`](crate::Decoder::nested) in generated code), or an element of a
    /// variable-length sequence that is not [`PLAIN`](crate::Wire::PLAIN), because a type may
    /// contain a sequence of itself. This bounds the stack, and the time to walk nested lazy
    /// sequences, which walk each inner level again on access.
    pub depth: u32,
    /// The maximum total number of elements of variable-length arrays and linked lists in one
    /// decode. Bytes of opaques and strings are not elements. In addition, an array of elements
    /// with an encoded size of zero has at most 65,536.
    pub elements: u32,
    /// The maximum length of the input in bytes, including data after a prefix.
    pub bytes: u32,
}

impl Limits {
    /// 64 levels, 16,777,216 elements, and any input whose offsets fit in 32 bits.
    pub const DEFAULT: Self = Self {
        depth: 64,
        elements: 1 << 24,
        bytes: u32::MAX,
    };
}

impl Limits {
    /// Checks the length of the input.
    #[inline(always)]
    pub(crate) fn check_len(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.bytes as usize {
            return Err(Error::new(ErrorKind::SizeLimit, self.bytes));
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
