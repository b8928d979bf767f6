//! The chunks and directions that an incoming call offers.
//!
//! Only validated segments may be stored, because the RDMA Writes of the reply rely on it:
//! `offered` in `responder`, or `rtr::reassembly`, validates them. `segments` has one run for each
//! Write chunk or direction, then one for the Reply chunk: `chunks` assigns segments by the counts
//! alone.

use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::chunk::ChunkError;
use crate::connection::config::MAX_WRITE_CHUNKS;
use crate::connection::optional_lists::{Clear, OptionalLists};
use crate::transfer::ResultDirection;
use crate::v2;

/// The chunks of a call, or its directions about the results. Most calls have none.
#[derive(Debug)]
pub(super) struct OfferedChunks(OptionalLists<OfferedLists>);

/// The lists of a call, in the order of the header.
#[derive(Default, Debug)]
pub(super) struct OfferedLists {
    pub(super) reads: Vec<v2::ReadSegment>,
    /// The segments of the Write chunks, then those of the Reply chunk.
    pub(super) segments: Vec<v2::Segment>,
    /// The number of segments of each Write chunk, and of the Reply chunk.
    pub(super) writes: ArrayVec<usize, MAX_WRITE_CHUNKS>,
    pub(super) reply: Option<usize>,
    /// The directions about the results of a call of rtrext-02.
    pub(super) directions: Vec<ResultDirection>,
}

impl Clear for OfferedLists {
    fn clear(&mut self) {
        let Self {
            reads,
            segments,
            writes,
            reply,
            directions,
        } = self;
        reads.clear();
        segments.clear();
        writes.clear();
        *reply = None;
        directions.clear();
    }
}

impl OfferedLists {
    /// Adds a Write chunk with this number of segments.
    ///
    /// # Errors
    /// There are too many chunks.
    pub(super) fn count(&mut self, segments: usize) -> Result<(), ChunkError> {
        self.writes
            .try_push(segments)
            .map_err(|_| ChunkError::TooManySegments)
    }

    /// Returns the Write chunks, each with its number, then the Reply chunk.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (Option<usize>, &[v2::Segment])> {
        let writes = self
            .writes
            .iter()
            .enumerate()
            .map(|(at, count)| (Some(at), *count));
        let mut rest = self.segments.as_slice();
        writes
            .chain(self.reply.map(|count| (None, count)))
            .map(move |(at, count)| {
                let (mine, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
                rest = after;
                (at, mine)
            })
    }
}

impl OfferedChunks {
    pub(super) const EMPTY: Self = Self(OptionalLists::EMPTY);

    /// Begins another call, which offers nothing so far.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.0.begin();
    }

    /// Returns the lists, to be filled.
    pub(super) fn fill(&mut self) -> &mut OfferedLists {
        self.0.fill()
    }

    #[inline]
    pub(super) fn lists_mut(&mut self) -> Option<&mut OfferedLists> {
        self.0.get_mut()
    }

    #[inline]
    pub(super) fn reads(&self) -> &[v2::ReadSegment] {
        self.0.get().map_or(&[], |lists| &lists.reads)
    }

    #[inline]
    pub(super) fn directions(&self) -> &[ResultDirection] {
        self.0.get().map_or(&[], |lists| &lists.directions)
    }

    /// Returns the Write chunks, each with its number, then the Reply chunk.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (Option<usize>, &[v2::Segment])> {
        self.0.get().into_iter().flat_map(OfferedLists::chunks)
    }

    /// Returns whether the call offers memory for its reply.
    #[inline]
    pub(super) fn has_memory(&self) -> bool {
        self.0
            .get()
            .is_some_and(|lists| !lists.writes.is_empty() || lists.reply.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::OfferedChunks;
    use crate::v2::Segment;

    #[test]
    fn lists_of_an_earlier_call_are_cleared() {
        let segment = Segment {
            handle: 1,
            length: 2,
            offset: 3,
        };
        let mut offered = OfferedChunks::EMPTY;
        assert!(!offered.has_memory() && offered.chunks().next().is_none());
        let lists = offered.fill();
        lists.segments.extend([segment; 3]);
        lists.count(2).unwrap();
        lists.reply = Some(1);
        let counts = |offered: &OfferedChunks| {
            offered
                .chunks()
                .map(|(at, mine)| (at, mine.len()))
                .collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(counts(&offered), [(Some(0), 2), (None, 1)]);
        offered.begin();
        assert!(offered.lists_mut().is_none());
        assert!(!offered.has_memory() && counts(&offered).is_empty() && offered.reads().is_empty());
        offered.fill();
        assert!(!offered.has_memory() && counts(&offered).is_empty());
    }
}
