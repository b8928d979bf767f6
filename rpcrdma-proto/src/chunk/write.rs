//! Write chunks and the Reply chunk: memory for results, and how it is filled and returned (RFC
//! 8166, sections 3.4.6 and 4.3).
//!
//! Each segment is filled before the next, and the returned segments are those offered, with new
//! lengths. The engine fills chunks by this rule in `connection::responder::call`, not by `fill`.
//! `connection::requester` takes the lengths of results from `check_returned`.

use super::{ChunkError, ChunkLimits, Segment};
use crate::xdr::{Array, Iter};
use crate::{v1, v2};

/// A Write chunk, or the Reply chunk, as the requester offered it: of either version, validated.
///
/// ```
/// use rpcrdma_proto::chunk::{ChunkLimits, Segment, WriteChunk};
/// use rpcrdma_proto::v2;
///
/// let offered = [v2::Segment { handle: 1, length: 4096, offset: 0 }, v2::Segment { handle: 2, length: 4096, offset: 0 }];
/// let chunk = WriteChunk::v2((&offered).into(), &ChunkLimits::DEFAULT)?;
/// assert_eq!(chunk.capacity(), 8192);
/// let lengths: Vec<u32> = chunk.fill(5000).map(|segment| segment.length).collect();
/// assert_eq!(lengths, [4096, 904]);
/// # Ok::<(), rpcrdma_proto::chunk::ChunkError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WriteChunk<'a> {
    targets: Targets<'a>,
    capacity: u32,
}

#[derive(Clone, Copy, Debug)]
enum Targets<'a> {
    V1(Array<'a, v1::Segment>),
    V2(Array<'a, v2::Segment>),
}

impl<'a> WriteChunk<'a> {
    /// Reads a chunk of Version One.
    ///
    /// # Errors
    /// Its numbers overflow, or exceed the limits.
    pub fn v1(target: Array<'a, v1::Segment>, limits: &ChunkLimits) -> Result<Self, ChunkError> {
        Self::validated(Targets::V1(target), limits)
    }

    /// Reads a chunk of Version Two.
    ///
    /// # Errors
    /// As [`Self::v1`].
    pub fn v2(target: Array<'a, v2::Segment>, limits: &ChunkLimits) -> Result<Self, ChunkError> {
        Self::validated(Targets::V2(target), limits)
    }

    fn validated(targets: Targets<'a>, limits: &ChunkLimits) -> Result<Self, ChunkError> {
        let chunk = Self {
            targets,
            capacity: 0,
        };
        if chunk.len() > limits.max_segments as usize {
            return Err(ChunkError::TooManySegments);
        }
        let mut capacity = 0u64;
        for segment in chunk.segments() {
            capacity = capacity.saturating_add(u64::from(segment.validated()?.length));
        }
        // A chunk may be larger than any result. The part beyond the limit is not used.
        let capacity = u32::try_from(capacity)
            .unwrap_or(u32::MAX)
            .min(limits.max_bytes);
        Ok(Self { capacity, ..chunk })
    }

    /// Returns the number of segments. A chunk without segments requests its result inline (RFC
    /// 8166, section 4.3.2.3).
    #[must_use]
    pub fn len(&self) -> usize {
        match self.targets {
            Targets::V1(target) => target.len(),
            Targets::V2(target) => target.len(),
        }
    }

    /// Returns whether the chunk has no segments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes that the chunk can take.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the segments as they were offered.
    #[must_use]
    pub fn segments(&self) -> WriteSegments<'a> {
        match self.targets {
            Targets::V1(target) => WriteSegments::V1(target.iter()),
            Targets::V2(target) => WriteSegments::V2(target.iter()),
        }
    }

    /// Returns all segments, each with the number of bytes of a result of `length` bytes that it
    /// takes. These are the RDMA Writes to post, and the segments that the reply returns (RFC 8166,
    /// section 3.4.6). Bytes beyond the [`capacity`](Self::capacity) are left out.
    #[must_use]
    pub fn fill(&self, length: u32) -> FilledSegments<'a> {
        FilledSegments {
            offered: self.segments(),
            left: length.min(self.capacity),
        }
    }
}

/// The segments of a [`WriteChunk`].
#[derive(Clone, Debug)]
pub enum WriteSegments<'a> {
    /// Of Version One.
    V1(Iter<'a, v1::Segment>),
    /// Of Version Two.
    V2(Iter<'a, v2::Segment>),
}

impl Iterator for WriteSegments<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        match self {
            Self::V1(target) => target.next().map(Segment::from),
            Self::V2(target) => target.next().map(Segment::from),
        }
    }
}

/// The segments of a [`WriteChunk`] that a result fills, and the empty ones after it.
#[derive(Clone, Debug)]
pub struct FilledSegments<'a> {
    offered: WriteSegments<'a>,
    left: u32,
}

impl Iterator for FilledSegments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let offered = self.offered.next()?;
        let length = offered.length.min(self.left);
        self.left -= length;
        Some(Segment { length, ..offered })
    }
}

/// Returns the number of bytes that a responder returned in a chunk. A requester checks with it
/// that the returned segments are those that it offered.
///
/// # Errors
/// `NotAsOffered` if the segments differ from the offered ones; `ReturnedTooMuch` if they are
/// longer, or are not filled in order.
pub fn check_returned(
    offered: impl IntoIterator<Item = Segment>,
    returned: impl IntoIterator<Item = Segment>,
) -> Result<u32, ChunkError> {
    let (mut returned, mut bytes, mut full) = (returned.into_iter(), 0u32, true);
    for offered in offered {
        let Some(found) = returned.next() else {
            return Err(ChunkError::NotAsOffered);
        };
        if (found.handle, found.offset) != (offered.handle, offered.offset) {
            return Err(ChunkError::NotAsOffered);
        }
        if found.length > offered.length || (!full && found.length > 0) {
            return Err(ChunkError::ReturnedTooMuch);
        }
        full = found.length == offered.length;
        bytes = bytes
            .checked_add(found.length)
            .ok_or(ChunkError::ReturnedTooMuch)?;
    }
    if returned.next().is_some() {
        Err(ChunkError::NotAsOffered)
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
