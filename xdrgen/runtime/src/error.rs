//! Errors of decoding and encoding. [`Error`] must stay one register of 8 bytes, because every
//! decoder returns it; the assertions below check that and the numbers of the kinds.
//! `value::DecodeErrorKind` in `xdrgen-build` repeats the names and messages of the kinds of
//! decoding.

use core::{fmt, num::NonZeroU64};

/// The result of decoding or encoding.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The error of decoding or encoding: a kind and an offset.
///
/// It has 8 bytes and no allocation, so that returning it costs the hot path nothing.
/// [`Decode::explain`](crate::Decode::explain) finds the path of the field in a second, slower
/// pass.
///
/// ```
/// use xdrgen_runtime::{Decode, ErrorKind};
///
/// let error = u32::from_bytes(&[0, 0]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::UnexpectedEnd);
/// assert_eq!(error.to_string(), "unexpected end of input at byte 0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error {
    /// The kind in the lowest byte, the offset in the upper 32 bits. One number instead of two
    /// fields: in a `Result`, error and value share memory, and the compiler would split the
    /// value's fields at the boundaries of the error's.
    bits: NonZeroU64,
}

const _: () = assert!(
    size_of::<Result<()>>() == 8,
    "an error must fit in one register"
);
const _: () = assert!(
    ErrorKind::ALL.len() == ErrorKind::ArmMismatch as usize + 1,
    "the last kind must be the last of all"
);

impl Error {
    /// Creates an error at an offset, in bytes, from the start of the input or output.
    pub const fn new(kind: ErrorKind, offset: u32) -> Self {
        let bits = NonZeroU64::MIN.saturating_add(kind as u64);
        Self {
            bits: bits.saturating_add((offset as u64) << 32),
        }
    }

    /// Creates an error at an offset of type `usize`. An offset beyond `u32::MAX` becomes
    /// `u32::MAX`.
    ///
    /// It is cold, never inlined, and takes numbers instead of the decoder: the decoder's address
    /// would keep its fields in memory on the hot path.
    #[cold]
    #[inline(never)]
    pub(crate) fn at(kind: ErrorKind, offset: usize) -> Self {
        Self::new(kind, u32::try_from(offset).unwrap_or(u32::MAX))
    }

    /// Creates the error for a default arm with the discriminant of another arm. For generated
    /// code.
    #[doc(hidden)]
    pub fn arm_mismatch(offset: usize) -> Self {
        Self::at(ErrorKind::ArmMismatch, offset)
    }

    /// Returns the kind of error.
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::ALL[(self.bits.get() & 0xff) as usize - 1]
    }

    /// Returns the offset in bytes from the start of the input (decoding) or of the output
    /// (encoding).
    pub const fn offset(&self) -> usize {
        (self.bits.get() >> 32) as usize
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("offset", &self.offset())
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind(), self.offset())
    }
}

impl core::error::Error for Error {}

/// The kinds of [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input ends before the end of the item at the offset.
    UnexpectedEnd,
    /// A boolean is neither 0 nor 1 (RFC 4506, section 4.4).
    InvalidBool,
    /// A number is not a member of the enumeration (RFC 4506, section 4.3).
    InvalidEnum,
    /// The union has no arm for the discriminant (RFC 4506, section 4.15).
    InvalidDiscriminant,
    /// A byte of padding is not zero (RFC 4506, section 3).
    InvalidPadding,
    /// The number of elements or bytes exceeds the bound in the XDR, or 32 bits (RFC 4506, sections
    /// 4.10 to 4.13).
    TooLong,
    /// Bytes follow the end of the value.
    TrailingBytes,
    /// The nesting exceeds [`Limits::depth`](crate::Limits::depth).
    DepthLimit,
    /// The number of elements exceeds [`Limits::elements`](crate::Limits::elements).
    ElementLimit,
    /// The input exceeds [`Limits::bytes`](crate::Limits::bytes), or an allocation failed.
    SizeLimit,
    /// Encoding: the caller's buffer ends before the end of the item at the offset.
    BufferFull,
    /// Encoding as a gather list: no entry is left for an item that is too long to copy.
    ListFull,
    /// Encoding: the default arm of a union has a discriminant that belongs to another arm.
    ArmMismatch,
}

impl ErrorKind {
    /// All kinds, in order of definition. [`Error::kind`] indexes this list by the number of the
    /// kind, so each kind must be in it.
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
            Self::TrailingBytes => "trailing bytes after the value",
            Self::DepthLimit => "nesting exceeds the depth limit",
            Self::ElementLimit => "sequences exceed the element limit",
            Self::SizeLimit => "size exceeds the limit",
            Self::BufferFull => "buffer is full",
            Self::ListFull => "gather list is full",
            Self::ArmMismatch => "default arm holds the discriminant of another arm",
        })
    }
}

/// The error for a value that exceeds its bound in the XDR. Constructors return it.
///
/// ```
/// use xdrgen_runtime::Opaque;
///
/// let error = Opaque::<4>::new(&[0; 5]).unwrap_err();
/// assert_eq!((error.len, error.max), (5, 4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TooLong {
    /// The length, in elements, or in bytes for an opaque or a string.
    pub len: usize,
    /// The bound, in the same unit.
    pub max: u32,
}

impl TooLong {
    /// Checks that `len` is at most `max`.
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
    fn kind_and_offset_round_trip() {
        for kind in ErrorKind::ALL {
            for offset in [0, 1, 255, 256, u32::MAX] {
                let error = Error::new(kind, offset);
                assert_eq!((error.kind(), error.offset()), (kind, offset as usize));
            }
        }
        let error = Error::new(ErrorKind::TooLong, 7);
        assert_eq!(
            std::format!("{error:?}"),
            "Error { kind: TooLong, offset: 7 }"
        );
    }

    #[test]
    fn messages_have_kind_and_offset() {
        let error = Error::new(ErrorKind::UnexpectedEnd, 44);
        assert_eq!(error.to_string(), "unexpected end of input at byte 44");
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
    fn every_kind_has_its_own_message() {
        let words: std::collections::HashSet<_> =
            ErrorKind::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), ErrorKind::ALL.len());
    }
}
