//! What a call of the peer's offers.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::chunk::Fault;
use crate::travel::Direction;
use crate::v2;

/// Write chunks that one call may offer: more than any binding to NFS has.
pub(in crate::connection) const WRITES: usize = 16;

/// The chunks of a call, or what it directs about its results: most have none. Memory for it is on the heap, and stays with the
/// place of the first call that needs it.
#[derive(Debug)]
pub(super) struct Offered {
    lists: Option<Box<Lists>>,
    /// Whether the present call has any of it.
    used: bool,
}

/// What there is, in the order of the header.
#[derive(Default, Debug)]
pub(super) struct Lists {
    pub(super) reads: Vec<v2::ReadSegment>,
    /// The segments of its Write chunks, and then of its Reply chunk: all of them, and each chunk's counted.
    pub(super) segments: Vec<v2::Segment>,
    pub(super) writes: ArrayVec<u16, WRITES>,
    pub(super) reply: Option<u16>,
    /// What a call of rtrext-02 directs about its results.
    pub(super) directions: Vec<Direction>,
}

impl Lists {
    /// Counts the segments of another Write chunk.
    pub(super) fn count(&mut self, segments: usize) -> Result<(), Fault> {
        let count = u16::try_from(segments).map_err(|_| Fault::TooManySegments)?;
        self.writes.try_push(count).map_err(|_| Fault::TooManySegments)
    }

    /// Its Write chunks, each with its number, then its Reply chunk.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (Option<usize>, &[v2::Segment])> {
        let writes = self.writes.iter().enumerate().map(|(at, count)| (Some(at), *count));
        let mut rest = self.segments.as_slice();
        writes.chain(self.reply.map(|count| (None, count))).map(move |(at, count)| {
            let (mine, after) = rest.split_at_checked(usize::from(count)).unwrap_or((rest, &[]));
            rest = after;
            (at, mine)
        })
    }
}

impl Offered {
    pub(super) const NOTHING: Self = Self { lists: None, used: false };

    /// Another call begins, with nothing so far.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.used = false;
    }

    /// The lists, to be filled: they are empty if they were of another call.
    pub(super) fn fill(&mut self) -> &mut Lists {
        let lists = self.lists.get_or_insert_default();
        if !self.used {
            self.used = true;
            let Lists { reads, segments, writes, reply, directions } = &mut **lists;
            reads.clear();
            segments.clear();
            writes.clear();
            *reply = None;
            directions.clear();
        }
        lists
    }

    #[inline]
    pub(super) fn lists(&self) -> Option<&Lists> {
        self.lists.as_deref().filter(|_| self.used)
    }

    #[inline]
    pub(super) fn lists_mut(&mut self) -> Option<&mut Lists> {
        self.lists.as_deref_mut().filter(|_| self.used)
    }

    #[inline]
    pub(super) fn reads(&self) -> &[v2::ReadSegment] {
        self.lists().map_or(&[], |lists| &lists.reads)
    }

    #[inline]
    pub(super) fn directions(&self) -> &[Direction] {
        self.lists().map_or(&[], |lists| &lists.directions)
    }

    /// Its Write chunks and its Reply chunk.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (Option<usize>, &[v2::Segment])> {
        self.lists().into_iter().flat_map(Lists::chunks)
    }

    /// Whether it has offered memory for its reply.
    #[inline]
    pub(super) fn has_memory(&self) -> bool {
        self.lists().is_some_and(|lists| !lists.writes.is_empty() || lists.reply.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::Offered;
    use crate::v2::Segment;

    #[test]
    fn nothing_is_left_of_an_earlier_call() {
        let segment = Segment { handle: 1, length: 2, offset: 3 };
        let mut offered = Offered::NOTHING;
        assert!(!offered.has_memory() && offered.chunks().next().is_none());
        let lists = offered.fill();
        lists.segments.extend([segment; 3]);
        lists.count(2).unwrap();
        lists.reply = Some(1);
        let counts =
            |offered: &Offered| offered.chunks().map(|(at, mine)| (at, mine.len())).collect::<alloc::vec::Vec<_>>();
        assert_eq!(counts(&offered), [(Some(0), 2), (None, 1)]);
        offered.begin();
        assert!(!offered.has_memory() && counts(&offered).is_empty() && offered.reads().is_empty());
        offered.fill();
        assert!(!offered.has_memory() && counts(&offered).is_empty());
    }
}
