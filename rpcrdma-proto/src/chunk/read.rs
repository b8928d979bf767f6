//! The Read list: items that were taken out of a call, and where they belong.

use super::{Fault, Limits, Segment, padded};
use crate::xdr::{Iter, List};
use crate::{v1, v2};

/// A segment of the Read list, the same in both versions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadSegment {
    /// Where in the unreduced Payload stream the chunk of this segment belongs, in octets from its beginning.
    pub position: u32,
    /// The memory to read.
    pub target: Segment,
}

impl From<v1::ReadChunk> for ReadSegment {
    #[inline]
    fn from(segment: v1::ReadChunk) -> Self {
        Self { position: segment.position, target: segment.target.into() }
    }
}

impl From<v2::ReadSegment> for ReadSegment {
    #[inline]
    fn from(segment: v2::ReadSegment) -> Self {
        Self { position: segment.position, target: segment.target.into() }
    }
}

/// The Read list as it came, of either version.
#[derive(Clone, Copy, Debug)]
pub enum Reads<'a> {
    /// Of Version One.
    V1(List<'a, v1::ReadChunk>),
    /// Of Version Two.
    V2(List<'a, v2::ReadSegment>),
}

impl<'a> From<List<'a, v1::ReadChunk>> for Reads<'a> {
    #[inline]
    fn from(list: List<'a, v1::ReadChunk>) -> Self {
        Self::V1(list)
    }
}

impl<'a> From<List<'a, v2::ReadSegment>> for Reads<'a> {
    #[inline]
    fn from(list: List<'a, v2::ReadSegment>) -> Self {
        Self::V2(list)
    }
}

impl<'a> Reads<'a> {
    /// How many segments there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::V1(list) => list.len(),
            Self::V2(list) => list.len(),
        }
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The segments in the order of the list.
    #[must_use]
    pub fn iter(&self) -> Segments<'a> {
        match self {
            Self::V1(list) => Segments::V1(list.iter()),
            Self::V2(list) => Segments::V2(list.iter()),
        }
    }
}

/// The segments of [`Reads`].
#[derive(Clone, Debug)]
pub enum Segments<'a> {
    /// Of Version One.
    V1(Iter<'a, v1::ReadChunk>),
    /// Of Version Two.
    V2(Iter<'a, v2::ReadSegment>),
}

impl Iterator for Segments<'_> {
    type Item = ReadSegment;

    #[inline]
    fn next(&mut self) -> Option<ReadSegment> {
        match self {
            Self::V1(list) => list.next().map(ReadSegment::from),
            Self::V2(list) => list.next().map(ReadSegment::from),
        }
    }
}

/// How a call is put together: which octets of it were sent inline, and which are to be read from the requester's memory.
///
/// Validated: positions are multiples of four, in order, within the message and not overlapping, no sum overflows, and the
/// whole is within the [`Limits`].
///
/// ```
/// use rpcrdma_proto::chunk::{Limits, Piece, ReadPlan};
/// use rpcrdma_proto::v2::{ReadSegment, Segment};
/// use rpcrdma_proto::xdr::List;
///
/// // An item of 10 octets was taken out of a call after its first 40 octets, and 8 follow it.
/// let target = Segment { handle: 7, length: 10, offset: 4096 };
/// let list = [ReadSegment { position: 40, target }];
/// let plan = ReadPlan::inline(List::from(&list).into(), 48, &Limits::DEFAULT)?;
/// assert_eq!(plan.len(), 40 + 12 + 8);
/// let pieces: Vec<Piece> = plan.pieces().collect();
/// assert_eq!(pieces, [
///     Piece::Inline { at: 0, from: 0, length: 40 },
///     Piece::Read { at: 40, from: target.into() },
///     Piece::Padding { at: 50, length: 2 },
///     Piece::Inline { at: 52, from: 40, length: 8 },
/// ]);
/// # Ok::<(), rpcrdma_proto::chunk::Fault>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadPlan<'a> {
    reads: Reads<'a>,
    /// Octets of the Payload stream that came inline; none if it is a chunk itself.
    inline: Option<u32>,
    /// Octets of the whole message.
    length: u32,
}

impl<'a> ReadPlan<'a> {
    /// Of a message whose Payload stream, without what the chunks hold, is `inline` octets behind the header: an
    /// `RDMA_MSG` or `RDMA2_MSG`.
    ///
    /// # Errors
    /// The list is no valid one for such a message.
    pub fn inline(reads: Reads<'a>, inline: usize, limits: &Limits) -> Result<Self, Fault> {
        within(&reads, limits)?;
        let inline = u32::try_from(inline).map_err(|_| Fault::TooLong)?;
        if reads.iter().any(|segment| segment.position == 0) {
            return Err(Fault::PositionZeroInline);
        }
        Self { reads, inline: Some(inline), length: 0 }.validated(0, u64::from(inline), limits)
    }

    /// Of a message whose Payload stream is itself a chunk, that at Position zero: an `RDMA_NOMSG` or `RDMA2_NOMSG`.
    ///
    /// # Errors
    /// The list is no valid one for such a message.
    pub fn long(reads: Reads<'a>, limits: &Limits) -> Result<Self, Fault> {
        within(&reads, limits)?;
        let (mut segments, mut stream) = (0, 0u64);
        for segment in reads.iter().take_while(|segment| segment.position == 0) {
            segments += 1;
            stream = stream.saturating_add(u64::from(segment.target.validated()?.length));
        }
        if stream == 0 {
            return Err(Fault::NoPayload);
        }
        Self { reads, inline: None, length: 0 }.validated(segments, stream, limits)
    }

    /// Fills in the length. The Payload stream without what the chunks hold has `stream` octets; the first `skip` segments
    /// hold it, if it is not inline.
    fn validated(self, skip: usize, stream: u64, limits: &Limits) -> Result<Self, Fault> {
        // Octets of the unreduced message that are accounted for, those of them that chunks hold, and the chunk that is
        // being summed up.
        let (mut end, mut moved) = (0u64, 0u64);
        let mut chunk: Option<(u64, u64)> = None;
        for segment in self.reads.iter().skip(skip) {
            let (position, length) = (u64::from(segment.position), u64::from(segment.target.validated()?.length));
            if position % 4 != 0 {
                return Err(Fault::MisalignedPosition);
            }
            match &mut chunk {
                Some((at, sum)) if *at == position => *sum = sum.saturating_add(length),
                _ => {
                    (end, moved) = close(chunk, end, moved);
                    if position < end {
                        return Err(Fault::OverlappingPosition);
                    }
                    if position - moved > stream {
                        return Err(Fault::PositionBeyondMessage);
                    }
                    chunk = Some((position, length));
                }
            }
        }
        let (_, moved) = close(chunk, end, moved);
        let whole = stream.saturating_add(moved);
        match u32::try_from(whole) {
            Ok(length) if length <= limits.octets => Ok(Self { length, ..self }),
            _ => Err(Fault::TooLong),
        }
    }

    /// Octets of the whole message, after all has been put back.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether the message has no octets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether all of the message is inline.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.inline.is_some() && self.reads.is_empty()
    }

    /// The message's octets in their order, piece by piece.
    #[must_use]
    pub fn pieces(&self) -> Pieces<'a> {
        let stream = match self.inline {
            Some(left) => Stream::Inline { from: 0, left },
            None => Stream::Remote { segments: self.reads.iter(), rest: Segment::default() },
        };
        let mut chunks = self.reads.iter();
        let mut waiting = chunks.next();
        while waiting.is_some_and(|segment| segment.position == 0) {
            waiting = chunks.next();
        }
        Pieces { stream, chunks, waiting, chunk: None, at: 0 }
    }
}

/// Where a chunk ends in the message, and what all chunks so far hold, padding included.
fn close(chunk: Option<(u64, u64)>, end: u64, moved: u64) -> (u64, u64) {
    match chunk {
        Some((position, length)) => {
            let octets = padded(length);
            (position.saturating_add(octets), moved.saturating_add(octets))
        }
        None => (end, moved),
    }
}

fn within(reads: &Reads<'_>, limits: &Limits) -> Result<(), Fault> {
    if reads.len() > limits.segments as usize {
        return Err(Fault::TooManySegments);
    }
    Ok(())
}

/// Octets of a message, and where they come from. `at` is where they belong, in octets from the message's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// `length` octets of the inline Payload stream, from `from` on.
    Inline {
        /// Where they belong.
        at: u32,
        /// Where they are in the inline stream.
        from: u32,
        /// How many.
        length: u32,
    },
    /// What an RDMA Read of this segment brings.
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
        /// How many octets: up to three.
        length: u32,
    },
}

/// The pieces of a [`ReadPlan`]. It was validated, so that no number here can leave its 32 bits.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// The Payload stream without what the chunks hold.
    stream: Stream<'a>,
    /// Segments of chunks still to come, but for the one that waits.
    chunks: Segments<'a>,
    waiting: Option<ReadSegment>,
    /// The chunk that was begun: its Position, and its octets so far.
    chunk: Option<(u32, u32)>,
    /// Octets of the message that were told.
    at: u32,
}

/// What is left of a Payload stream without what the chunks hold.
#[derive(Clone, Debug)]
enum Stream<'a> {
    Inline {
        from: u32,
        left: u32,
    },
    /// The chunk at Position zero: the rest of one segment, and those after it.
    Remote {
        segments: Segments<'a>,
        rest: Segment,
    },
}

impl Stream<'_> {
    /// The next piece, of no more than `most` octets.
    fn next(&mut self, at: u32, most: u32) -> Option<(Piece, u32)> {
        match self {
            Self::Inline { from, left } => {
                let length = most.min(*left);
                let piece = Piece::Inline { at, from: *from, length };
                (*from, *left) = (*from + length, *left - length);
                (length > 0).then_some((piece, length))
            }
            Self::Remote { segments, rest } => {
                while rest.length == 0 {
                    *rest = segments.next().filter(|segment| segment.position == 0)?.target;
                }
                let length = most.min(rest.length);
                let piece = Piece::Read { at, from: Segment { length, ..*rest } };
                *rest = Segment { length: rest.length - length, offset: rest.offset + u64::from(length), ..*rest };
                (length > 0).then_some((piece, length))
            }
        }
    }
}

impl Pieces<'_> {
    /// The padding of the chunk that was begun, or what of the Payload stream comes before `position`.
    fn before(&mut self, position: u32) -> Option<Piece> {
        let padding = self.chunk.take().map_or(0, |(_, octets)| octets.wrapping_neg() & 3);
        let (piece, length) = match padding {
            0 => self.stream.next(self.at, position - self.at)?,
            length => (Piece::Padding { at: self.at, length }, length),
        };
        self.at += length;
        Some(piece)
    }

    /// A segment of the chunk that the message has come to.
    fn read(&mut self, segment: ReadSegment) -> Option<Piece> {
        let (length, octets) = (segment.target.length, self.chunk.map_or(0, |(_, octets)| octets));
        self.chunk = Some((segment.position, octets + length));
        let piece = Piece::Read { at: self.at, from: segment.target };
        self.at += length;
        (length > 0).then_some(piece)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while let Some(segment) = self.waiting {
            let begun = self.chunk.is_some_and(|(position, _)| position == segment.position);
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
