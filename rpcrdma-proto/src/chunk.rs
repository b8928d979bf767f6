//! Chunks: the requester's memory that a header offers, validated (RFC 8166, sections 3.4 and 4.3;
//! Version Two has the same).
//!
//! A peer sends lists of numbers. This module converts them to a [`ReadPlan`] or a [`WriteChunk`],
//! whose arithmetic cannot overflow, or to a [`ChunkError`]. No memory is accessed. The engine uses
//! a segment of a peer only after this module has validated it, and then adds to its offset without
//! a check. `connection::rtr::reassembly` applies `Segment::validated` to the segments of
//! rtrext-02.
//!
//! ```
//! use rpcrdma_proto::chunk::{ChunkError, ChunkLimits, WriteChunk};
//! use rpcrdma_proto::v2::Segment;
//!
//! // A responder returns 5,000 bytes in the two segments that a call offers.
//! let offered = [(1, 4096), (2, 4096)].map(|(handle, length)| Segment { handle, length, offset: 0 });
//! let chunk = WriteChunk::v2((&offered).into(), &ChunkLimits::DEFAULT)?;
//! let filled: Vec<u32> = chunk.fill(5000).map(|segment| segment.length).collect();
//! assert_eq!((chunk.capacity(), filled), (8192, vec![4096, 904]));
//!
//! // A segment beyond the end of the address space is rejected.
//! let beyond = [Segment { handle: 1, length: 2, offset: u64::MAX }];
//! let rejected = WriteChunk::v2((&beyond).into(), &ChunkLimits::DEFAULT);
//! assert_eq!(rejected.err(), Some(ChunkError::OffsetOverflow));
//! # Ok::<(), ChunkError>(())
//! ```

mod read;
mod write;

use core::fmt;

pub use read::{Piece, Pieces, ReadList, ReadPlan, ReadSegment, ReadSegments};
pub use write::{FilledSegments, WriteChunk, WriteSegments, check_returned};

/// Memory of the requester's (RFC 8166, section 3.4.3), the same in both versions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Segment {
    /// The steering tag or `R_key` of the registration.
    pub handle: u32,
    /// Bytes.
    pub length: u32,
    /// Where it begins: an address, or an offset into the registration.
    pub offset: u64,
}

impl Segment {
    /// Returns the segment if it ends within the address space.
    pub(crate) fn validated(self) -> Result<Self, ChunkError> {
        match self.offset.checked_add(u64::from(self.length)) {
            Some(_) => Ok(self),
            None => Err(ChunkError::OffsetOverflow),
        }
    }
}

macro_rules! segments {
    ($($version:ident)*) => {$(
        impl From<crate::$version::Segment> for Segment {
            #[inline]
            fn from(segment: crate::$version::Segment) -> Self {
                Self { handle: segment.handle, length: segment.length, offset: segment.offset }
            }
        }

        impl From<Segment> for crate::$version::Segment {
            #[inline]
            fn from(segment: Segment) -> Self {
                Self { handle: segment.handle, length: segment.length, offset: segment.offset }
            }
        }
    )*};
}
segments! { v1 v2 }

/// The limits on the chunks of one message.
///
/// ```
/// use rpcrdma_proto::chunk::ChunkLimits;
///
/// let limits = ChunkLimits { max_segments: 16, ..ChunkLimits::DEFAULT };
/// assert_eq!(limits.max_bytes, 1 << 24);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkLimits {
    /// The maximum number of segments in one list.
    pub max_segments: u32,
    /// The maximum length in bytes of a whole message with its reduced data, and the maximum
    /// capacity of one Write chunk. A larger Write chunk is valid, and its rest is not used.
    pub max_bytes: u32,
}

impl ChunkLimits {
    /// 64 segments, which is the maximum of an outgoing call and more than Linux offers, and 16
    /// MiB.
    pub const DEFAULT: Self = Self {
        max_segments: 64,
        max_bytes: 1 << 24,
    };
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Describes why chunks are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ChunkError {
    /// A segment ends beyond the address space.
    OffsetOverflow,
    /// More segments than [`ChunkLimits::max_segments`].
    TooManySegments,
    /// A message of more bytes than [`ChunkLimits::max_bytes`], or a direction of rtrext-02 that
    /// offers memory of more than 32 bits.
    TooLong,
    /// A Position that is no multiple of four (RFC 8166, section 3.4.5).
    MisalignedPosition,
    /// A Position lies before the end of the preceding chunk: chunks are out of order, or overlap.
    OverlappingPosition,
    /// A Position beyond the end of the Payload stream.
    PositionBeyondMessage,
    /// A Position of zero where the Payload stream is inline (RFC 8166, section 3.5.3).
    PositionZeroInline,
    /// No Position-Zero chunk where no Payload stream is inline (RFC 8166, section 4.2.4).
    NoPayload,
    /// Returned segments that are not those offered.
    NotAsOffered,
    /// A returned length exceeds the offered one, or follows a segment that is not filled.
    ReturnedTooMuch,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OffsetOverflow => "a segment ends beyond the address space",
            Self::TooManySegments => "too many segments",
            Self::TooLong => "too many bytes",
            Self::MisalignedPosition => "a Position is no multiple of four",
            Self::OverlappingPosition => "Read chunks overlap or are out of order",
            Self::PositionBeyondMessage => "a Position is beyond the message",
            Self::PositionZeroInline => "a Position-Zero chunk beside an inline message",
            Self::NoPayload => "neither an inline message nor a Position-Zero chunk",
            Self::NotAsOffered => "returned segments are not those offered",
            Self::ReturnedTooMuch => "more was returned than was offered",
        })
    }
}

impl core::error::Error for ChunkError {}

/// Returns the length of an item in XDR, with padding (RFC 4506, section 4.9).
fn padded(length: u64) -> u64 {
    length.next_multiple_of(4)
}
