//! The sizes of header parts, computed from the types that encode them.
//!
//! `crate::transfer` chooses the transfer method by these sizes, and the engine adds them up to
//! compare a message with the inline threshold. Each size must be the number of bytes that the
//! encoder writes.

use crate::v2::{Body, ChunkLists, MsgType, Optional, Proc, ReadSegment, WriteChunk, XprtHdr};
use crate::xdr::Wire;

/// Returns the length in bytes of a type without its lists: its length if it has none.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the sizes of types are small"
)]
pub(crate) const fn of<T: Wire>() -> u32 {
    T::MIN as u32
}

/// The flag before an optional or an entry of a list, and the count of an array.
pub(crate) const WORD: u32 = of::<u32>();
/// The fixed fields of a header, with the discriminant of its body.
const FIXED: u32 = of::<XprtHdr<'_>>() - of::<Body<'_>>() + of::<Proc>();
/// The header of an RPC message without chunks.
pub(crate) const V2_HEADER: u32 = FIXED + of::<ChunkLists<'_>>();
/// The header of Version One has no direction.
pub(crate) const V1_HEADER: u32 = V2_HEADER - of::<MsgType>();
/// The header of an operation without content.
pub(crate) const OPERATION: u32 = FIXED + of::<Optional<'_>>();
/// A segment of a Write chunk.
pub(crate) const SEGMENT: u32 = of::<crate::v2::Segment>();
/// A segment of the Read list.
pub(crate) const READ_SEGMENT: u32 = WORD + of::<ReadSegment>();
/// A Write chunk without its segments.
pub(crate) const WRITE_CHUNK: u32 = WORD + of::<WriteChunk<'_>>();
/// The number of bytes that a Reply chunk adds to a header, without its segments.
pub(crate) const REPLY_CHUNK: u32 = of::<WriteChunk<'_>>();
