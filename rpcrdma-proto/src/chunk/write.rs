//! Write chunks and the Reply chunk: memory for results, and how it is filled and returned.

use super::{Fault, Limits, Segment};
use crate::xdr::{Array, Iter};
use crate::{v1, v2};

/// A Write chunk, or the Reply chunk, as the requester offered it: of either version, validated.
///
/// ```
/// use rpcrdma_proto::chunk::{Limits, Segment, WriteChunk};
/// use rpcrdma_proto::v2;
///
/// let offered = [v2::Segment { handle: 1, length: 4096, offset: 0 }, v2::Segment { handle: 2, length: 4096, offset: 0 }];
/// let chunk = WriteChunk::v2((&offered).into(), &Limits::DEFAULT)?;
/// assert_eq!(chunk.capacity(), 8192);
/// let lengths: Vec<u32> = chunk.fill(5000).map(|segment| segment.length).collect();
/// assert_eq!(lengths, [4096, 904]);
/// # Ok::<(), rpcrdma_proto::chunk::Fault>(())
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
    /// A chunk of Version One.
    ///
    /// # Errors
    /// Its numbers overflow, or exceed the limits.
    pub fn v1(target: Array<'a, v1::Segment>, limits: &Limits) -> Result<Self, Fault> {
        Self::validated(Targets::V1(target), limits)
    }

    /// A chunk of Version Two.
    ///
    /// # Errors
    /// As [`Self::v1`].
    pub fn v2(target: Array<'a, v2::Segment>, limits: &Limits) -> Result<Self, Fault> {
        Self::validated(Targets::V2(target), limits)
    }

    fn validated(targets: Targets<'a>, limits: &Limits) -> Result<Self, Fault> {
        let chunk = Self { targets, capacity: 0 };
        if chunk.len() > limits.segments as usize {
            return Err(Fault::TooManySegments);
        }
        let mut capacity = 0u64;
        for segment in chunk.segments() {
            capacity = capacity.saturating_add(u64::from(segment.validated()?.length));
        }
        // A chunk may be larger than any result: what is over the limit is not used.
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX).min(limits.octets);
        Ok(Self { capacity, ..chunk })
    }

    /// How many segments it has. One with none asks for its result inline (RFC 8166, section 4.3.2.3).
    #[must_use]
    pub fn len(&self) -> usize {
        match self.targets {
            Targets::V1(target) => target.len(),
            Targets::V2(target) => target.len(),
        }
    }

    /// Whether it has no segments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets that it can take.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The segments as they were offered.
    #[must_use]
    pub fn segments(&self) -> Offered<'a> {
        match self.targets {
            Targets::V1(target) => Offered::V1(target.iter()),
            Targets::V2(target) => Offered::V2(target.iter()),
        }
    }

    /// All segments, each with the octets of a result of `length` that it takes: what is written, and what the reply returns
    /// (RFC 8166, section 3.4.6). Of what is above the [`capacity`](Self::capacity) nothing is told.
    #[must_use]
    pub fn fill(&self, length: u32) -> Filled<'a> {
        Filled { offered: self.segments(), left: length.min(self.capacity) }
    }
}

/// The segments of a [`WriteChunk`].
#[derive(Clone, Debug)]
pub enum Offered<'a> {
    /// Of Version One.
    V1(Iter<'a, v1::Segment>),
    /// Of Version Two.
    V2(Iter<'a, v2::Segment>),
}

impl Iterator for Offered<'_> {
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
pub struct Filled<'a> {
    offered: Offered<'a>,
    left: u32,
}

impl Iterator for Filled<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let offered = self.offered.next()?;
        let length = offered.length.min(self.left);
        self.left -= length;
        Some(Segment { length, ..offered })
    }
}

/// How many octets a responder returned in a chunk: the requester's check that they are in the memory which it offered.
///
/// # Errors
/// `NotAsOffered` if the segments are others, `ReturnedTooMuch` if they are longer, or not filled one after the other.
pub fn returned(
    offered: impl IntoIterator<Item = Segment>,
    returned: impl IntoIterator<Item = Segment>,
) -> Result<u32, Fault> {
    let (mut returned, mut octets, mut full) = (returned.into_iter(), 0u32, true);
    for offered in offered {
        let Some(found) = returned.next() else { return Err(Fault::NotAsOffered) };
        if (found.handle, found.offset) != (offered.handle, offered.offset) {
            return Err(Fault::NotAsOffered);
        }
        if found.length > offered.length || (!full && found.length > 0) {
            return Err(Fault::ReturnedTooMuch);
        }
        full = found.length == offered.length;
        octets = octets.checked_add(found.length).ok_or(Fault::ReturnedTooMuch)?;
    }
    if returned.next().is_some() { Err(Fault::NotAsOffered) } else { Ok(octets) }
}

#[cfg(test)]
mod tests;
