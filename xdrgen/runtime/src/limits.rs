//! What a decoder accepts before it gives up.

use crate::{Error, ErrorKind, Result};

/// Limits of one decode, against input which is made to cost more than it weighs.
///
/// Memory needs no limit of its own: nothing is reserved for a count which the rest of the input could not hold (see
/// [`Decoder::owe`](crate::Decoder::owe)).
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
    /// How many levels of nesting may be open at once. A level is a recursive type entered ([`Nested`](crate::Nested),
    /// `Box`, or what generated code puts in [`Decoder::nested`](crate::Decoder::nested)), or an element of a
    /// variable-length sequence which is not [`PLAIN`](crate::Wire::PLAIN): elements count because a type may hold a
    /// sequence of itself. It bounds the stack, and the time for walking nested lazy sequences, each level of which is walked again
    /// when its elements are taken.
    pub depth: u32,
    /// How many elements all variable-length arrays and linked lists of one decode may have together. Octets of opaques
    /// and strings are not elements. An array of elements that may take no octets has no more than 65,536.
    pub elements: u32,
    /// The longest input accepted, in octets, including what follows a prefix.
    pub octets: u32,
}

impl Limits {
    /// 64 levels, 16,777,216 elements, and any input whose offsets fit in 32 bits.
    pub const DEFAULT: Self = Self { depth: 64, elements: 1 << 24, octets: u32::MAX };
}

impl Limits {
    /// Refuses octets which are too many.
    #[inline(always)]
    pub(crate) fn admit(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.octets as usize {
            return Err(Error::new(ErrorKind::SizeLimit, self.octets));
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
