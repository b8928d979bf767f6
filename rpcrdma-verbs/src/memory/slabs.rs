//! Which blocks of a pool are free, used in part or full, by classes of size. Nothing here knows of
//! memory.
//!
//! A slot must be put back once, under the number of its block. `take_free` removes only a block
//! with all of its slots, so a leaked slot keeps its block for ever. `take` uses the last free
//! block of a class first, on which `unlist` relies. `memory::pool` decides when blocks are added
//! or removed.

use std::collections::VecDeque;
use std::ops::Range;

/// The number of lists of partly used blocks. The first list has the emptiest blocks.
const LISTS: usize = 4;

/// The blocks of a pool, each divided into slots of one size.
///
/// A slot is taken from one of the fullest blocks that are partly used, so that other blocks become
/// free, or else from the block that became free last. Taking and returning a slot takes constant
/// time and allocates nothing: adding a block reserves room for it in every list.
#[derive(Debug)]
pub(super) struct Slabs<T> {
    slabs: Vec<Slab<T>>,
    vacant: Vec<u32>,
    classes: Box<[Class]>,
    /// Bytes of blocks that are free or used in part.
    idle: usize,
    /// Bytes of those of them that are free.
    free: usize,
    /// Bytes of slots that are taken.
    used: usize,
    /// Goes up with each block that becomes free.
    clock: u64,
}

/// The blocks of one class.
#[derive(Debug, Default)]
struct Class {
    /// The number of blocks.
    count: usize,
    partial: [Vec<u32>; LISTS],
    /// In the order in which they became free.
    free: VecDeque<u32>,
    /// The block from which the next slot is taken; `None` if all are full.
    next: Option<u32>,
}

impl Class {
    /// Chooses the block from which the next slot is taken, after a list has changed.
    fn choose(&mut self) {
        let partial = self.partial.iter().rev().find_map(|list| list.last());
        self.next = partial.or_else(|| self.free.back()).copied();
    }
}

/// A block.
#[derive(Debug)]
struct Slab<T> {
    class: usize,
    /// The slots that are free.
    free_slots: Vec<T>,
    /// The number of slots, and the size of the block in bytes.
    count: usize,
    bytes: usize,
    slot_bytes: usize,
    /// The list of the block, and the numbers of free slots for which it stays in that list.
    listed: Occupancy,
    list_range: Range<usize>,
    /// The index in the list of partly used blocks, if it is in one.
    list_index: usize,
    /// The time at which the block became free.
    freed_at: u64,
}

/// The usage of a block, which determines its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Occupancy {
    Full,
    /// In part: the number of its list.
    Partial(usize),
    Free,
}

impl Occupancy {
    /// Returns the occupancy of a block with `free` free slots.
    const fn of(free: usize, count: usize) -> Self {
        match free {
            0 => Self::Full,
            free if free == count => Self::Free,
            free => Self::Partial((count - free) * LISTS / count),
        }
    }

    /// Returns the numbers of free slots for which [`of`](Self::of) returns this occupancy.
    fn range(self, count: usize) -> Range<usize> {
        match self {
            Self::Full => 0..1,
            Self::Free => count..count + 1,
            Self::Partial(list) => {
                let least_used = |list: usize| (list * count).div_ceil(LISTS);
                let (low, end) = (count - least_used(list + 1), count - least_used(list));
                low + 1..(end + 1).min(count)
            }
        }
    }
}

impl<T> Slabs<T> {
    pub(super) fn new(classes: usize) -> Self {
        let classes = std::iter::repeat_with(Class::default)
            .take(classes)
            .collect();
        Self {
            slabs: Vec::new(),
            vacant: Vec::new(),
            classes,
            idle: 0,
            free: 0,
            used: 0,
            clock: 0,
        }
    }

    /// Returns the number of bytes in free and partly used blocks.
    pub(super) fn idle(&self) -> usize {
        self.idle
    }

    /// Returns the number of bytes in used slots.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns the number of bytes in free blocks.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Adds a block of this size in bytes with free slots. `place` creates each slot from its
    /// number and the block's.
    pub(super) fn add(
        &mut self,
        class: usize,
        bytes: usize,
        count: usize,
        place: impl Fn(usize, u32) -> T,
    ) {
        let Some(lists) = self.classes.get_mut(class) else {
            return;
        };
        lists.count += 1;
        for list in &mut lists.partial {
            list.reserve(lists.count - list.len());
        }
        lists.free.reserve(lists.count - lists.free.len());
        let number = self
            .vacant
            .pop()
            .unwrap_or_else(|| u32::try_from(self.slabs.len()).unwrap_or(u32::MAX));
        let places = (0..count).rev().map(|at| place(at, number)).collect();
        let slab = Slab {
            class,
            free_slots: places,
            count,
            bytes,
            slot_bytes: bytes / count.max(1),
            listed: Occupancy::Free,
            list_range: Occupancy::Free.range(count),
            list_index: 0,
            freed_at: self.clock,
        };
        match self.slabs.get_mut(number as usize) {
            Some(vacant) => *vacant = slab,
            None => self.slabs.push(slab),
        }
        self.idle += bytes;
        self.list(number);
    }

    /// Takes a place; none if all blocks of the class are full.
    #[inline]
    pub(super) fn take(&mut self, class: usize) -> Option<T> {
        let number = self.classes.get(class)?.next?;
        let slab = self.slabs.get_mut(number as usize)?;
        let place = slab.free_slots.pop()?;
        self.used += slab.slot_bytes;
        if !slab.list_range.contains(&slab.free_slots.len()) {
            self.update_list(number);
        }
        Some(place)
    }

    /// Puts a place back into its block, and returns whether that is listed elsewhere now: free, or
    /// not full any more.
    #[inline]
    pub(super) fn put(&mut self, number: u32, place: T) -> bool {
        let Some(slab) = self.slabs.get_mut(number as usize) else {
            return false;
        };
        slab.free_slots.push(place);
        self.used -= slab.slot_bytes;
        let moves = !slab.list_range.contains(&slab.free_slots.len());
        if moves {
            self.update_list(number);
        }
        moves
    }

    /// Takes out the places of the block that has been free for the longest time; none if none is
    /// free. The block is forgotten.
    pub(super) fn take_free(&mut self) -> Option<Vec<T>> {
        let oldest = |class: &Class| class.free.front().copied();
        let since = |number: &u32| self.slabs.get(*number as usize).map(|slab| slab.freed_at);
        let number = self.classes.iter().filter_map(oldest).min_by_key(since)?;
        let slab = self.slabs.get_mut(number as usize)?;
        let lists = self.classes.get_mut(slab.class)?;
        lists.free.pop_front();
        lists.choose();
        lists.count -= 1;
        self.idle -= slab.bytes;
        self.free -= slab.bytes;
        self.vacant.push(number);
        slab.bytes = 0;
        Some(std::mem::take(&mut slab.free_slots))
    }

    /// Lists a block elsewhere, since the number of its free places has left the range of its list.
    #[cold]
    fn update_list(&mut self, number: u32) {
        let Some(slab) = self.slabs.get_mut(number as usize) else {
            return;
        };
        let now = Occupancy::of(slab.free_slots.len(), slab.count);
        let before = std::mem::replace(&mut slab.listed, now);
        slab.list_range = now.range(slab.count);
        match (before, now) {
            (Occupancy::Full, _) => self.idle += slab.bytes,
            (_, Occupancy::Full) => self.idle -= slab.bytes,
            _ => {}
        }
        self.unlist(number, before);
        self.list(number);
    }

    /// Adds a block to the list of its occupancy.
    fn list(&mut self, number: u32) {
        let Some(slab) = self.slabs.get_mut(number as usize) else {
            return;
        };
        let Some(lists) = self.classes.get_mut(slab.class) else {
            return;
        };
        match slab.listed {
            Occupancy::Full => {}
            Occupancy::Partial(list) => {
                if let Some(list) = lists.partial.get_mut(list) {
                    slab.list_index = list.len();
                    list.push(number);
                }
            }
            Occupancy::Free => {
                self.free += slab.bytes;
                self.clock += 1;
                slab.freed_at = self.clock;
                lists.free.push_back(number);
            }
        }
        lists.choose();
    }

    /// Removes a block from the list in which it was.
    fn unlist(&mut self, number: u32, of: Occupancy) {
        let Some(slab) = self.slabs.get(number as usize) else {
            return;
        };
        let (class, at, bytes) = (slab.class, slab.list_index, slab.bytes);
        let Some(lists) = self.classes.get_mut(class) else {
            return;
        };
        match of {
            Occupancy::Full => {}
            // Of the free blocks the last is used first.
            Occupancy::Free => {
                lists.free.pop_back();
                self.free -= bytes;
            }
            Occupancy::Partial(list) => {
                let Some(list) = lists.partial.get_mut(list) else {
                    return;
                };
                list.swap_remove(at);
                if let Some(moved) = list
                    .get(at)
                    .and_then(|moved| self.slabs.get_mut(*moved as usize))
                {
                    moved.list_index = at;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_has_one_range_of_free_slots() {
        for count in 1..=70 {
            for free in 0..=count {
                let range = Occupancy::of(free, count).range(count);
                let same = (0..=count)
                    .filter(|other| Occupancy::of(*other, count) == Occupancy::of(free, count));
                assert!(same.eq(range), "{free} of {count}");
            }
        }
    }

    #[test]
    fn fullest_block_is_used_first_and_oldest_freed_first() {
        let mut slabs = Slabs::new(1);
        for _ in 0..3 {
            slabs.add(0, 8, 8, |at, number| (number, at));
        }
        let mut taken: Vec<(u32, usize)> = (0..24).map(|_| slabs.take(0).unwrap()).collect();
        assert_eq!((slabs.take(0), slabs.idle()), (None, 0));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 24, "each place once");
        // Of the first block seven are put back, of the second one, of the third all.
        let back = |slabs: &mut Slabs<_>, place: (u32, usize)| slabs.put(place.0, place);
        for place in taken[..7].iter().chain(&taken[8..9]) {
            back(&mut slabs, *place);
        }
        let moves = taken[16..]
            .iter()
            .map(|place| back(&mut slabs, *place))
            .collect::<Vec<_>>();
        assert_eq!(
            moves,
            [true, false, true, false, true, false, true, true],
            "a list for each quarter, and the free ones"
        );
        assert_eq!((slabs.idle(), slabs.free()), (24, 8));
        let next: Vec<u32> = (0..9).map(|_| slabs.take(0).unwrap().0).collect();
        assert_eq!(next, [1, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    /// The idle and the free bytes, counted again.
    fn count(slabs: &Slabs<(u32, usize)>) -> (usize, usize) {
        let bytes = |is: fn(&Slab<_>) -> bool| {
            slabs
                .slabs
                .iter()
                .filter(|slab| is(slab))
                .map(|slab| slab.bytes)
                .sum()
        };
        (
            bytes(|slab| !slab.free_slots.is_empty()),
            bytes(|slab| slab.free_slots.len() == slab.count),
        )
    }

    #[test]
    fn idle_bytes_are_counted() {
        let (mut slabs, mut held, mut state) = (Slabs::new(3), Vec::new(), 1u64);
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (what, which) = (state >> 60, (state >> 33) as usize);
            match what {
                0..=6 => held.push(slabs.take(which % 3).unwrap_or_else(|| {
                    let class = which % 3;
                    slabs.add(class, 64 << class, 64 >> (3 * class), |at, number| {
                        (number, at)
                    });
                    slabs.take(class).unwrap()
                })),
                7..=14 if !held.is_empty() => {
                    let place = held.swap_remove(which % held.len());
                    slabs.put(place.0, place);
                }
                _ => drop(slabs.take_free()),
            }
            assert_eq!((slabs.idle(), slabs.free()), count(&slabs));
        }
        held.sort_unstable();
        assert!(
            held.windows(2).all(|pair| pair[0] != pair[1]),
            "nobody has a place of another"
        );
    }

    #[test]
    fn longest_free_block_is_released_first() {
        let mut slabs = Slabs::new(2);
        for class in [0, 1, 0, 1] {
            slabs.add(class, 10 + class, 1, |_, number| (number, class));
        }
        // The newest of its class is used, and becomes the newest of all.
        let place = slabs.take(0).unwrap();
        assert_eq!(place, (2, 0));
        assert!(slabs.put(2, place));
        let mut order = Vec::new();
        while let Some(places) = slabs.take_free() {
            order.extend(places);
        }
        assert_eq!(order, [(0, 0), (1, 1), (3, 1), (2, 0)]);
        assert_eq!(
            (slabs.idle(), slabs.free(), slabs.take(0), slabs.take(1)),
            (0, 0, None, None)
        );
        // Their numbers are used again.
        slabs.add(1, 5, 1, |_, number| (number, 9));
        assert_eq!(slabs.take(1), Some((2, 9)));
    }
}
