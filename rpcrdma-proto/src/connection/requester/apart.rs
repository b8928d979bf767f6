//! What of a call of ours is moved apart.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::chunk::Segment;
use crate::travel::{ITEMS, Item, RESULTS, Wanted};

/// Regions of one call: its items or the whole of it, its results, and its reply.
const REGIONS: usize = ITEMS + RESULTS + 2;

/// What of a call may be moved apart, and what is exposed for it: of most calls nothing. Memory for it is on the heap, and stays
/// with the place of the first call that needs it.
#[derive(Debug)]
pub(super) struct Apart {
    lists: Option<Box<Lists>>,
    /// Whether the present call has any of it.
    used: bool,
}

#[derive(Default, Debug)]
struct Lists {
    items: ArrayVec<Item, ITEMS>,
    results: ArrayVec<Wanted, RESULTS>,
    /// The segments of each region that is exposed, counted, and all of them.
    exposed: ArrayVec<u16, REGIONS>,
    segments: Vec<Segment>,
}

impl Apart {
    pub(super) const NOTHING: Self = Self { lists: None, used: false };

    /// Another call begins, with these.
    #[inline]
    pub(super) fn begin(&mut self, items: &[Item], results: &[Wanted]) {
        self.used = false;
        if !items.is_empty() || !results.is_empty() {
            let lists = self.use_lists();
            lists.items.extend(items.iter().copied().take(ITEMS));
            lists.results.extend(results.iter().copied().take(RESULTS));
        }
    }

    /// The lists, which are empty if they were of another call.
    fn use_lists(&mut self) -> &mut Lists {
        let lists = self.lists.get_or_insert_default();
        if !self.used {
            self.used = true;
            let Lists { items, results, exposed, segments } = &mut **lists;
            items.clear();
            results.clear();
            exposed.clear();
            segments.clear();
        }
        lists
    }

    #[inline]
    fn lists(&self) -> Option<&Lists> {
        self.lists.as_deref().filter(|_| self.used)
    }

    #[inline]
    pub(super) fn items(&self) -> &[Item] {
        self.lists().map_or(&[], |lists| &lists.items)
    }

    #[inline]
    pub(super) fn results(&self) -> &[Wanted] {
        self.lists().map_or(&[], |lists| &lists.results)
    }

    /// The segments of each region that is exposed, counted.
    #[inline]
    pub(super) fn exposed(&self) -> &[u16] {
        self.lists().map_or(&[], |lists| &lists.exposed)
    }

    /// The segments of all of them.
    #[inline]
    pub(super) fn segments(&self) -> &[Segment] {
        self.lists().map_or(&[], |lists| &lists.segments)
    }

    /// The segments of each region are exposed; false if they are more than `most`.
    pub(super) fn expose<'a>(&mut self, regions: impl Iterator<Item = &'a [Segment]>, most: usize) -> bool {
        self.withdraw();
        let lists = self.use_lists();
        for region in regions {
            if lists.segments.len() + region.len() > most {
                return false;
            }
            lists.segments.extend_from_slice(region);
            // No more than there may be, of 16 bits.
            let counted = lists.exposed.try_push(u16::try_from(region.len()).unwrap_or(u16::MAX));
            debug_assert!(counted.is_ok(), "more regions than a call has");
        }
        true
    }

    /// Nothing is exposed any more.
    pub(super) fn withdraw(&mut self) {
        if let Some(lists) = self.lists.as_mut().filter(|_| self.used) {
            lists.exposed.clear();
            lists.segments.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Apart;
    use crate::chunk::Segment;
    use crate::travel::Item;

    #[test]
    fn nothing_is_left_of_an_earlier_call() {
        let (item, segment) = (Item { position: 4, length: 8 }, Segment { length: 8, ..Segment::default() });
        let mut apart = Apart::NOTHING;
        let seen = |apart: &Apart| (apart.items().len(), apart.exposed().to_vec(), apart.segments().len());
        apart.begin(&[item], &[]);
        assert!(apart.expose([[segment, segment].as_slice(), &[segment]].into_iter(), 3));
        assert_eq!(seen(&apart), (1, [2, 1].to_vec(), 3));
        assert!(!apart.expose([[segment; 4].as_slice()].into_iter(), 3), "they are too many");
        apart.withdraw();
        assert_eq!(seen(&apart), (1, [].to_vec(), 0), "the items are still its own");
        apart.begin(&[], &[]);
        assert_eq!(seen(&apart), (0, [].to_vec(), 0));
        assert!(apart.expose([[segment].as_slice()].into_iter(), 3));
        assert_eq!(seen(&apart), (0, [1].to_vec(), 1), "and no items of the earlier one");
    }
}
