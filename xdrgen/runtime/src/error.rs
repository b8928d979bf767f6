//! What can be wrong with octets or with a value, and where.

use core::{fmt, num::NonZeroU64};

/// The result of decoding or encoding; with another error than [`Error`] it is the usual one.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// What was wrong, and at which octet.
///
/// Small (8 bytes) and without any allocation, so that returning it costs the hot path nothing. The path of the field
/// which was wrong comes from [`Decode::explain`](crate::Decode::explain), a second and slower pass.
///
/// ```
/// use xdrgen_runtime::{Decode, ErrorKind};
///
/// let error = u32::from_bytes(&[0, 0]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::UnexpectedEnd);
/// assert_eq!(error.to_string(), "unexpected end of input at octet 0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error {
    /// The kind in the lowest octet, the offset in the upper 32 bits. One number and not two fields: in a `Result`, an error
    /// shares its place with the value, and the compiler splits a value's fields where those of the error end.
    bits: NonZeroU64,
}

const _: () = assert!(size_of::<Result<()>>() == 8, "an error must fit in one register");

impl Error {
    /// An error of `kind` at `offset` octets from the beginning of the input or output.
    pub const fn new(kind: ErrorKind, offset: u32) -> Self {
        let bits = NonZeroU64::MIN.saturating_add(kind as u64);
        Self { bits: bits.saturating_add((offset as u64) << 32) }
    }

    /// The same for an offset in `usize`; one beyond `u32::MAX` is told as `u32::MAX`.
    ///
    /// Cold, never inlined, and given numbers instead of the decoder: handing out the decoder's address here would keep
    /// its fields in memory on the hot path.
    #[cold]
    #[inline(never)]
    pub(crate) fn at(kind: ErrorKind, offset: usize) -> Self {
        Self::new(kind, u32::try_from(offset).unwrap_or(u32::MAX))
    }

    /// A default arm holds a discriminant that has an arm of its own; for generated code.
    #[doc(hidden)]
    pub fn arm_mismatch(offset: usize) -> Self {
        Self::at(ErrorKind::ArmMismatch, offset)
    }

    /// What was wrong.
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::ALL[(self.bits.get() & 0xff) as usize - 1]
    }

    /// Where: octets from the beginning of the input (decoding) or of the output (encoding).
    pub const fn offset(&self) -> usize {
        (self.bits.get() >> 32) as usize
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.kind()).field("offset", &self.offset()).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at octet {}", self.kind(), self.offset())
    }
}

impl core::error::Error for Error {}

/// The kinds of [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Input ends before the item which begins at the offset.
    UnexpectedEnd,
    /// A boolean which is neither 0 nor 1 (RFC 4506, section 4.4).
    InvalidBool,
    /// A number which the enumeration does not name (RFC 4506, section 4.3).
    InvalidEnum,
    /// A discriminant for which the union has no arm (RFC 4506, section 4.15).
    InvalidDiscriminant,
    /// An octet of padding which is not zero (RFC 4506, section 3).
    InvalidPadding,
    /// More elements or octets than the bound in the XDR, or than a count of 32 bits can say (RFC 4506, sections 4.10 to
    /// 4.13).
    TooLong,
    /// Octets after the end of the value.
    TrailingBytes,
    /// Deeper nesting than [`Limits::depth`](crate::Limits::depth).
    DepthLimit,
    /// More elements than [`Limits::elements`](crate::Limits::elements).
    ElementLimit,
    /// Longer input than [`Limits::octets`](crate::Limits::octets), or a value for which there is no memory.
    SizeLimit,
    /// Encoding: the caller's buffer ends before the item which begins at the offset.
    BufferFull,
    /// Encoding as a gather list: no place for what is too long to be copied.
    ListFull,
    /// Encoding: the default arm of a union holds a discriminant which has an arm of its own.
    ArmMismatch,
}

impl ErrorKind {
    /// Every kind, in the order of its definition.
    pub const ALL: [Self; 13] = [
        Self::UnexpectedEnd,
        Self::InvalidBool,
        Self::InvalidEnum,
        Self::InvalidDiscriminant,
        Self::InvalidPadding,
        Self::TooLong,
        Self::TrailingBytes,
        Self::DepthLimit,
        Self::ElementLimit,
        Self::SizeLimit,
        Self::BufferFull,
        Self::ListFull,
        Self::ArmMismatch,
    ];
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "unexpected end of input",
            Self::InvalidBool => "boolean is neither 0 nor 1",
            Self::InvalidEnum => "unknown value of an enumeration",
            Self::InvalidDiscriminant => "discriminant without an arm",
            Self::InvalidPadding => "padding is not zero",
            Self::TooLong => "length exceeds its bound",
            Self::TrailingBytes => "trailing octets after the value",
            Self::DepthLimit => "nesting exceeds the depth limit",
            Self::ElementLimit => "sequences exceed the element limit",
            Self::SizeLimit => "size exceeds the limit",
            Self::BufferFull => "buffer is full",
            Self::ListFull => "gather list is full",
            Self::ArmMismatch => "default arm holds the discriminant of another arm",
        })
    }
}

/// A value longer than its bound in the XDR, refused when it was constructed.
///
/// ```
/// use xdrgen_runtime::Opaque;
///
/// let refused = Opaque::<4>::new(&[0; 5]).unwrap_err();
/// assert_eq!((refused.len, refused.max), (5, 4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TooLong {
    /// What was given, in elements, or in octets of an opaque or string.
    pub len: usize,
    /// The bound, in the same unit.
    pub max: u32,
}

impl TooLong {
    /// Refuses a `len` above `max`.
    pub(crate) const fn check(len: usize, max: u32) -> core::result::Result<(), Self> {
        if len > max as usize {
            return Err(Self { len, max });
        }
        Ok(())
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "length {} exceeds the bound {}", self.len, self.max)
    }
}

impl core::error::Error for TooLong {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn result_of_unit_stays_small() {
        assert!(size_of::<Result<()>>() <= 8);
        assert!(size_of::<Result<u64>>() <= 16);
    }

    #[test]
    fn kind_and_offset_come_back() {
        for kind in ErrorKind::ALL {
            for offset in [0, 1, 255, 256, u32::MAX] {
                let error = Error::new(kind, offset);
                assert_eq!((error.kind(), error.offset()), (kind, offset as usize));
            }
        }
        let error = Error::new(ErrorKind::TooLong, 7);
        assert_eq!(std::format!("{error:?}"), "Error { kind: TooLong, offset: 7 }");
    }

    #[test]
    fn says_what_and_where() {
        let error = Error::new(ErrorKind::UnexpectedEnd, 44);
        assert_eq!(error.to_string(), "unexpected end of input at octet 44");
        let error = TooLong { len: 65, max: 64 };
        assert_eq!(error.to_string(), "length 65 exceeds the bound 64");
    }

    #[test]
    fn offset_saturates() {
        assert_eq!(Error::at(ErrorKind::SizeLimit, 7).offset(), 7);
        let far = Error::at(ErrorKind::SizeLimit, usize::MAX);
        assert_eq!(far.offset(), u32::MAX as usize);
    }

    #[test]
    fn every_kind_has_its_own_words() {
        let words: std::collections::HashSet<_> = ErrorKind::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), ErrorKind::ALL.len());
    }
}
