//! The reducible parts and the exposed memory of an outgoing call.
//!
//! The regions and their segments are in the order of `Request::exposures`: `Request::regions`
//! assigns segments to regions by the counts alone. `withdraw` keeps the items and results, because
//! a call that is retransmitted is planned again from them.

use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::chunk::Segment;
use crate::connection::optional_lists::{Clear, OptionalLists};
use crate::transfer::{DataItem, MAX_ITEMS, MAX_RESULTS, ResultSpec};

/// The maximum number of regions of one call: items, results, the call itself and its reply.
const MAX_REGIONS: usize = MAX_ITEMS + MAX_RESULTS + 2;

/// The reducible items and results of a call, and the segments that are exposed for it. Most calls
/// have none.
#[derive(Debug)]
pub(super) struct CallChunks(OptionalLists<CallLists>);

#[derive(Default, Debug)]
struct CallLists {
    items: ArrayVec<DataItem, MAX_ITEMS>,
    results: ArrayVec<ResultSpec, MAX_RESULTS>,
    /// The number of segments of each exposed region.
    exposed: ArrayVec<u16, MAX_REGIONS>,
    /// The segments of all regions, in order.
    segments: Vec<Segment>,
}

impl Clear for CallLists {
    fn clear(&mut self) {
        let Self {
            items,
            results,
            exposed,
            segments,
        } = self;
        items.clear();
        results.clear();
        exposed.clear();
        segments.clear();
    }
}

impl CallChunks {
    pub(super) const EMPTY: Self = Self(OptionalLists::EMPTY);

    /// Begins another call with these items and results.
    #[inline]
    pub(super) fn begin(&mut self, items: &[DataItem], results: &[ResultSpec]) {
        self.0.begin();
        if !items.is_empty() || !results.is_empty() {
            let lists = self.0.fill();
            lists.items.extend(items.iter().copied().take(MAX_ITEMS));
            lists
                .results
                .extend(results.iter().copied().take(MAX_RESULTS));
        }
    }

    #[inline]
    pub(super) fn items(&self) -> &[DataItem] {
        self.0.get().map_or(&[], |lists| &lists.items)
    }

    #[inline]
    pub(super) fn results(&self) -> &[ResultSpec] {
        self.0.get().map_or(&[], |lists| &lists.results)
    }

    /// Returns the number of segments of each exposed region.
    #[inline]
    pub(super) fn segment_counts(&self) -> &[u16] {
        self.0.get().map_or(&[], |lists| &lists.exposed)
    }

    /// Returns the segments of all exposed regions.
    #[inline]
    pub(super) fn segments(&self) -> &[Segment] {
        self.0.get().map_or(&[], |lists| &lists.segments)
    }

    /// Records the segments of each exposed region, unless some are recorded already. Returns false
    /// if there are more than `most`.
    pub(super) fn expose<'a>(
        &mut self,
        regions: impl Iterator<Item = &'a [Segment]>,
        most: usize,
    ) -> bool {
        let lists = self.0.fill();
        for region in regions {
            if lists.segments.len() + region.len() > most {
                return false;
            }
            lists.segments.extend_from_slice(region);
            // The maximum number of segments has 16 bits.
            let counted = lists
                .exposed
                .try_push(u16::try_from(region.len()).unwrap_or(u16::MAX));
            debug_assert!(counted.is_ok(), "more regions than a call has");
        }
        true
    }

    /// Records that nothing is exposed any more.
    pub(super) fn withdraw(&mut self) {
        if let Some(lists) = self.0.get_mut() {
            lists.exposed.clear();
            lists.segments.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CallChunks;
    use crate::chunk::Segment;
    use crate::transfer::DataItem;

    #[test]
    fn lists_of_an_earlier_call_are_cleared() {
        let (item, segment) = (
            DataItem {
                position: 4,
                length: 8,
            },
            Segment {
                length: 8,
                ..Segment::default()
            },
        );
        let mut chunks = CallChunks::EMPTY;
        let seen = |chunks: &CallChunks| {
            (
                chunks.items().len(),
                chunks.segment_counts().to_vec(),
                chunks.segments().len(),
            )
        };
        chunks.begin(&[item], &[]);
        assert!(chunks.expose([[segment, segment].as_slice(), &[segment]].into_iter(), 3));
        assert_eq!(seen(&chunks), (1, [2, 1].to_vec(), 3));
        assert!(
            !chunks.expose([[segment; 4].as_slice()].into_iter(), 3),
            "they are too many"
        );
        chunks.withdraw();
        assert_eq!(
            seen(&chunks),
            (1, [].to_vec(), 0),
            "the items are still its own"
        );
        chunks.begin(&[], &[]);
        assert_eq!(seen(&chunks), (0, [].to_vec(), 0));
        assert!(chunks.expose([[segment].as_slice()].into_iter(), 3));
        assert_eq!(
            seen(&chunks),
            (0, [1].to_vec(), 1),
            "and no items of the earlier one"
        );
    }
}
