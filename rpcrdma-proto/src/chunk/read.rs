//! The Read list: items that were taken out of a call, and where they belong (RFC 8166, section
//! 3.4.5).
//!
//! [`ReadPlan`] validates a list, and [`Pieces`] then computes without checks: `validated` must
//! reject each list on which a sum of `Pieces` could exceed its type. A plan needs the segments in
//! the order of their Positions, by which `connection::responder` sorts those of a call. It stores
//! the segments, and plans the list again in `Session::pieces`.

use super::{ChunkError, ChunkLimits, Segment, padded};
use crate::xdr::{Iter, List};
use crate::{v1, v2};

/// A segment of the Read list, the same in both versions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadSegment {
    /// Where in the unreduced Payload stream the chunk of this segment belongs, in bytes from its
    /// beginning.
    pub position: u32,
    /// The memory to read.
    pub target: Segment,
}

impl From<v1::ReadChunk> for ReadSegment {
    #[inline]
    fn from(segment: v1::ReadChunk) -> Self {
        Self {
            position: segment.position,
            target: segment.target.into(),
        }
    }
}

impl From<v2::ReadSegment> for ReadSegment {
    #[inline]
    fn from(segment: v2::ReadSegment) -> Self {
        Self {
            position: segment.position,
            target: segment.target.into(),
        }
    }
}

/// A received Read list of either version.
#[derive(Clone, Copy, Debug)]
pub enum ReadList<'a> {
    /// Of Version One.
    V1(List<'a, v1::ReadChunk>),
    /// Of Version Two.
    V2(List<'a, v2::ReadSegment>),
}

impl<'a> From<List<'a, v1::ReadChunk>> for ReadList<'a> {
    #[inline]
    fn from(list: List<'a, v1::ReadChunk>) -> Self {
        Self::V1(list)
    }
}

impl<'a> From<List<'a, v2::ReadSegment>> for ReadList<'a> {
    #[inline]
    fn from(list: List<'a, v2::ReadSegment>) -> Self {
        Self::V2(list)
    }
}

impl<'a> ReadList<'a> {
    /// Returns the number of segments.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::V1(list) => list.len(),
            Self::V2(list) => list.len(),
        }
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the segments in the order of the list.
    #[must_use]
    pub fn iter(&self) -> ReadSegments<'a> {
        match self {
            Self::V1(list) => ReadSegments::V1(list.iter()),
            Self::V2(list) => ReadSegments::V2(list.iter()),
        }
    }
}

/// The segments of [`ReadList`].
#[derive(Clone, Debug)]
pub enum ReadSegments<'a> {
    /// Of Version One.
    V1(Iter<'a, v1::ReadChunk>),
    /// Of Version Two.
    V2(Iter<'a, v2::ReadSegment>),
}

impl Iterator for ReadSegments<'_> {
    type Item = ReadSegment;

    #[inline]
    fn next(&mut self) -> Option<ReadSegment> {
        match self {
            Self::V1(list) => list.next().map(ReadSegment::from),
            Self::V2(list) => list.next().map(ReadSegment::from),
        }
    }
}

/// The assembly of a call: which bytes arrived inline, and which the responder reads from the
/// requester's memory.
///
/// Validated: positions are multiples of four, in order, within the message and not overlapping, no
/// sum overflows, and the whole is within the [`ChunkLimits`]. A peer may send a list in another
/// order, which must be sorted by position before, without changing the order within a chunk.
///
/// ```
/// use rpcrdma_proto::chunk::{ChunkLimits, Piece, ReadPlan};
/// use rpcrdma_proto::v2::{ReadSegment, Segment};
/// use rpcrdma_proto::xdr::List;
///
/// // An item of 10 bytes was taken out of a call after its first 40 bytes, and 8 follow it.
/// let target = Segment { handle: 7, length: 10, offset: 4096 };
/// let list = [ReadSegment { position: 40, target }];
/// let plan = ReadPlan::inline(List::from(&list).into(), 48, &ChunkLimits::DEFAULT)?;
/// assert_eq!(plan.len(), 40 + 12 + 8);
/// let pieces: Vec<Piece> = plan.pieces().collect();
/// assert_eq!(pieces, [
///     Piece::Inline { at: 0, from: 0, length: 40 },
///     Piece::Read { at: 40, from: target.into() },
///     Piece::Padding { at: 50, length: 2 },
///     Piece::Inline { at: 52, from: 40, length: 8 },
/// ]);
/// # Ok::<(), rpcrdma_proto::chunk::ChunkError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadPlan<'a> {
    reads: ReadList<'a>,
    /// The number of inline bytes of the Payload stream; `None` if the stream is itself a chunk.
    inline: Option<u32>,
    /// Bytes of the whole message.
    length: u32,
}

impl<'a> ReadPlan<'a> {
    /// Plans the assembly of an `RDMA_MSG` or `RDMA2_MSG`. Its Payload stream, without the chunks,
    /// has `inline` bytes after the header.
    ///
    /// # Errors
    /// The list is invalid for such a message.
    pub fn inline(
        reads: ReadList<'a>,
        inline: usize,
        limits: &ChunkLimits,
    ) -> Result<Self, ChunkError> {
        within(&reads, limits)?;
        let inline = u32::try_from(inline).map_err(|_| ChunkError::TooLong)?;
        if reads.iter().any(|segment| segment.position == 0) {
            return Err(ChunkError::PositionZeroInline);
        }
        Self {
            reads,
            inline: Some(inline),
            length: 0,
        }
        .validated(0, u64::from(inline), limits)
    }

    /// Plans the assembly of an `RDMA_NOMSG` or `RDMA2_NOMSG`. Its Payload stream is the chunk at
    /// Position zero.
    ///
    /// # Errors
    /// The list is invalid for such a message.
    // spec: rfc8166-3.5.3-b, rfc8166-3.5.3-c
    pub fn long(reads: ReadList<'a>, limits: &ChunkLimits) -> Result<Self, ChunkError> {
        within(&reads, limits)?;
        let (mut segments, mut stream) = (0, 0u64);
        for segment in reads.iter().take_while(|segment| segment.position == 0) {
            segments += 1;
            stream = stream.saturating_add(u64::from(segment.target.validated()?.length));
        }
        if stream == 0 {
            return Err(ChunkError::NoPayload);
        }
        Self {
            reads,
            inline: None,
            length: 0,
        }
        .validated(segments, stream, limits)
    }

    /// Computes the length. The Payload stream has `stream` bytes without the contents of the
    /// chunks. If it is not inline, the first `skip` segments contain it.
    // spec: rfc8166-3.4.5-a, rfc8166-3.4.5-b
    fn validated(self, skip: usize, stream: u64, limits: &ChunkLimits) -> Result<Self, ChunkError> {
        // Bytes of the unreduced message that are accounted for, those of them that chunks hold,
        // and the chunk that is being summed up.
        let (mut end, mut reduced) = (0u64, 0u64);
        let mut chunk: Option<(u64, u64)> = None;
        for segment in self.reads.iter().skip(skip) {
            let (position, length) = (
                u64::from(segment.position),
                u64::from(segment.target.validated()?.length),
            );
            if position % 4 != 0 {
                return Err(ChunkError::MisalignedPosition);
            }
            match &mut chunk {
                Some((at, sum)) if *at == position => *sum = sum.saturating_add(length),
                _ => {
                    (end, reduced) = close(chunk, end, reduced);
                    if position < end {
                        return Err(ChunkError::OverlappingPosition);
                    }
                    if position - reduced > stream {
                        return Err(ChunkError::PositionBeyondMessage);
                    }
                    chunk = Some((position, length));
                }
            }
        }
        let (_, reduced) = close(chunk, end, reduced);
        let whole = stream.saturating_add(reduced);
        match u32::try_from(whole) {
            Ok(length) if length <= limits.max_bytes => Ok(Self { length, ..self }),
            _ => Err(ChunkError::TooLong),
        }
    }

    /// Returns the length of the assembled message in bytes.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns whether the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns whether the whole message is inline.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.inline.is_some() && self.reads.is_empty()
    }

    /// Returns the pieces of the message in order.
    #[must_use]
    pub fn pieces(&self) -> Pieces<'a> {
        let stream = match self.inline {
            Some(left) => Stream::Inline { from: 0, left },
            None => Stream::Remote {
                segments: self.reads.iter(),
                rest: Segment::default(),
            },
        };
        let mut chunks = self.reads.iter();
        let mut waiting = chunks.next();
        while waiting.is_some_and(|segment| segment.position == 0) {
            waiting = chunks.next();
        }
        Pieces {
            stream,
            chunks,
            waiting,
            chunk: None,
            at: 0,
        }
    }
}

/// Returns the end of a chunk in the message, and the number of bytes that all chunks so far hold,
/// with padding.
// spec: rfc8166-3.4.5.2-b
fn close(chunk: Option<(u64, u64)>, end: u64, reduced: u64) -> (u64, u64) {
    match chunk {
        Some((position, length)) => {
            let bytes = padded(length);
            (
                position.saturating_add(bytes),
                reduced.saturating_add(bytes),
            )
        }
        None => (end, reduced),
    }
}

fn within(reads: &ReadList<'_>, limits: &ChunkLimits) -> Result<(), ChunkError> {
    if reads.len() > limits.max_segments as usize {
        return Err(ChunkError::TooManySegments);
    }
    Ok(())
}

/// Bytes of a message, and where they come from. `at` is where they belong, in bytes from the
/// message's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// `length` bytes of the inline Payload stream, from `from` on.
    Inline {
        /// Where they belong.
        at: u32,
        /// Where they are in the inline stream.
        from: u32,
        /// How many.
        length: u32,
    },
    /// The data of an RDMA Read of this segment.
    Read {
        /// Where it belongs.
        at: u32,
        /// The memory to read.
        from: Segment,
    },
    /// Padding that the requester left out (RFC 8166, section 3.4.5.2): zeros.
    Padding {
        /// Where it belongs.
        at: u32,
        /// How many bytes: up to three.
        length: u32,
    },
}

/// The pieces of a [`ReadPlan`]. It was validated, so that no number here can leave its 32 bits.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// The Payload stream without the contents of the chunks.
    stream: Stream<'a>,
    /// The remaining segments of chunks, without the pending one.
    chunks: ReadSegments<'a>,
    waiting: Option<ReadSegment>,
    /// The chunk that was begun: its Position, and its bytes so far.
    chunk: Option<(u32, u32)>,
    /// The number of bytes that were returned.
    at: u32,
}

/// The rest of a Payload stream without the contents of the chunks.
#[derive(Clone, Debug)]
enum Stream<'a> {
    Inline {
        from: u32,
        left: u32,
    },
    /// The chunk at Position zero: the rest of one segment, and the segments after it.
    Remote {
        segments: ReadSegments<'a>,
        rest: Segment,
    },
}

impl Stream<'_> {
    /// Returns the next piece, of at most `most` bytes.
    fn next(&mut self, at: u32, most: u32) -> Option<(Piece, u32)> {
        match self {
            Self::Inline { from, left } => {
                let length = most.min(*left);
                let piece = Piece::Inline {
                    at,
                    from: *from,
                    length,
                };
                (*from, *left) = (*from + length, *left - length);
                (length > 0).then_some((piece, length))
            }
            Self::Remote { segments, rest } => {
                while rest.length == 0 {
                    *rest = segments
                        .next()
                        .filter(|segment| segment.position == 0)?
                        .target;
                }
                let length = most.min(rest.length);
                let piece = Piece::Read {
                    at,
                    from: Segment { length, ..*rest },
                };
                *rest = Segment {
                    length: rest.length - length,
                    offset: rest.offset + u64::from(length),
                    ..*rest
                };
                (length > 0).then_some((piece, length))
            }
        }
    }
}

impl Pieces<'_> {
    /// Returns the padding of the current chunk, or the bytes of the Payload stream before
    /// `position`.
    fn before(&mut self, position: u32) -> Option<Piece> {
        let padding = self
            .chunk
            .take()
            .map_or(0, |(_, bytes)| bytes.wrapping_neg() & 3);
        let (piece, length) = match padding {
            0 => self.stream.next(self.at, position - self.at)?,
            length => (
                Piece::Padding {
                    at: self.at,
                    length,
                },
                length,
            ),
        };
        self.at += length;
        Some(piece)
    }

    /// Returns the next piece of the current segment.
    fn read(&mut self, segment: ReadSegment) -> Option<Piece> {
        let (length, bytes) = (
            segment.target.length,
            self.chunk.map_or(0, |(_, bytes)| bytes),
        );
        self.chunk = Some((segment.position, bytes + length));
        let piece = Piece::Read {
            at: self.at,
            from: segment.target,
        };
        self.at += length;
        (length > 0).then_some(piece)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while let Some(segment) = self.waiting {
            let begun = self
                .chunk
                .is_some_and(|(position, _)| position == segment.position);
            if !begun && let Some(piece) = self.before(segment.position) {
                return Some(piece);
            }
            self.waiting = self.chunks.next();
            if let Some(piece) = self.read(segment) {
                return Some(piece);
            }
        }
        self.before(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
