//! The error of the decoder. The kinds repeat the names and messages of the kinds of decoding in
//! `xdrgen_runtime::ErrorKind`, and have `ExternalType` in addition.

use std::fmt;

/// The error for bytes that are not a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The kind of error.
    pub kind: DecodeErrorKind,
    /// The offset, in bytes from the start of the input, of the item that is wrong.
    pub offset: usize,
    /// The path of the field or element, by XDR names:
    /// `rdma_body.rdma_chunks.rdma_reads[2].rdma_position`. Empty for the whole value.
    pub path: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// The kinds of [`DecodeError`]. They have the names of the runtime's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input ends before the end of the item.
    UnexpectedEnd,
    /// A boolean is neither 0 nor 1 (RFC 4506, section 4.4).
    InvalidBool,
    /// A number is not a member of the enum (section 4.3).
    InvalidEnum,
    /// The union has no arm for the discriminant (section 4.15).
    InvalidDiscriminant,
    /// Padding is not zero (section 3).
    InvalidPadding,
    /// The number of bytes or elements exceeds the bound (sections 4.10 to 4.13).
    TooLong,
    /// Bytes follow the end of the value.
    TrailingBytes,
    /// The nesting exceeds [`Limits::depth`](super::Limits::depth) or
    /// [`MAX_TREE_DEPTH`](super::MAX_TREE_DEPTH).
    DepthLimit,
    /// The configuration supplies the type, whose encoding is not known
    /// ([`TypeDef::external`](crate::ir::TypeDef::external)).
    ExternalType,
    /// The number of elements exceeds [`Limits::elements`](super::Limits::elements).
    ElementLimit,
    /// The length of the input exceeds [`Limits::bytes`](super::Limits::bytes).
    SizeLimit,
}

impl fmt::Display for DecodeErrorKind {
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
            Self::ExternalType => "a type that the configuration supplies",
            Self::ElementLimit => "sequences exceed the element limit",
            Self::SizeLimit => "size exceeds the limit",
        })
    }
}
