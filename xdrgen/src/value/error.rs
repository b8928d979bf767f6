//! What is wrong with octets.

use std::fmt;

/// Why octets are no value of a type, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The octet at which the item begins that is wrong, counted from the beginning of the input.
    pub offset: usize,
    /// The field or element, from the outermost inwards, by names in XDR: `rdma_body.rdma_chunks.rdma_reads[2].rdma_position`. Empty
    /// for the whole value.
    pub path: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} at octet {}", self.kind, self.offset)
    }
}

impl std::error::Error for Error {}

/// The kinds of [`Error`], called as the runtime calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input ends before the item.
    UnexpectedEnd,
    /// A boolean that is neither 0 nor 1 (RFC 4506, section 4.4).
    InvalidBool,
    /// A number that the enum does not name (section 4.3).
    InvalidEnum,
    /// A discriminant for which the union has no arm (section 4.15).
    InvalidDiscriminant,
    /// Padding that is not zero (section 3).
    InvalidPadding,
    /// More octets or elements than the bound (sections 4.10 to 4.13).
    TooLong,
    /// Octets after the end of the value.
    TrailingBytes,
    /// More levels than [`Limits::depth`](super::Limits::depth), or a tree deeper than [`MOST_NESTED`](super::MOST_NESTED).
    DepthLimit,
    /// More elements than [`Limits::elements`](super::Limits::elements).
    ElementLimit,
    /// A longer input than [`Limits::octets`](super::Limits::octets).
    SizeLimit,
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
        })
    }
}
