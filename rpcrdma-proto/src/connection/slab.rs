//! A slab whose keys tell a value from earlier values of its slot.
//!
//! `Responder` holds the incoming calls in a slab, and `ServedCallId` is a key. A slot repeats a
//! key after as many values as there are generations: 2^15 in a slab of 2^17 slots, more in a
//! smaller one. `index` depends on the key alone, since the transport indexes its tables by it
//! after the end of a call. `requester::calls` uses `Reset`, too.

use alloc::vec::Vec;

/// A value that can be reused in place.
pub(super) trait Reset {
    /// The value of a slot that was never used.
    const EMPTY: Self;
}

/// A slab with a fixed capacity and generation keys. It grows to the maximum number of values held
/// at once, and reuses the slot freed last. A key has 32 bits: the slot in the low bits, and a
/// generation in the high bits, so a lookup takes one comparison and a key of an earlier value
/// finds nothing until the generation of its slot repeats.
///
/// A value stays in its slot: the next one overwrites all of its fields, which avoids a move.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The freed slots.
    free: Vec<u32>,
    capacity: u32,
    seed: u32,
    /// The bits of a key that hold the slot.
    mask: u32,
    /// The number of slots visited by searches.
    #[cfg(test)]
    pub(super) steps: core::cell::Cell<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    /// The key of the current value, or of the last one.
    key: u32,
    is_occupied: bool,
    value: T,
}

impl<T> Slot<T> {
    fn occupied(&self) -> Option<&T> {
        self.is_occupied.then_some(&self.value)
    }
}

impl<T: Reset> Slab<T> {
    /// Creates a slab of at most `count` slots (2^17 at most). `seed` sets the first generation.
    pub(super) fn new(count: u32, seed: u32) -> Self {
        let count = count.max(1);
        let bits = count.next_power_of_two().trailing_zeros();
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            capacity: count,
            seed,
            mask: (1 << bits) - 1,
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        }
    }

    /// Adds a slot, unless the slab has its maximum number of slots.
    #[cold]
    fn add_slot(&mut self) -> Option<u32> {
        let at = u32::try_from(self.slots.len())
            .ok()
            .filter(|at| *at < self.capacity)?;
        let key = self
            .seed
            .wrapping_add(at.wrapping_mul(0x9e37_79b9))
            .wrapping_mul(self.mask + 1)
            | at;
        self.slots.push(Slot {
            key,
            is_occupied: false,
            value: T::EMPTY,
        });
        Some(at)
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Occupies a slot with a key that `taken` does not know. Returns the key and the value of the
    /// previous occupant, which the caller must overwrite; `None` if all slots are occupied.
    #[inline]
    pub(super) fn insert(&mut self, taken: impl Fn(u32) -> bool) -> Option<(u32, &mut T)> {
        let at = self.free.pop().or_else(|| self.add_slot())?;
        let slot = self.slots.get_mut(at as usize)?;
        loop {
            slot.key = slot.key.wrapping_add(self.mask + 1);
            if !taken(slot.key) {
                break;
            }
        }
        slot.is_occupied = true;
        Some((slot.key, &mut slot.value))
    }

    /// Returns the slot of a key, whether the key is in use or not.
    #[inline]
    pub(super) fn index(&self, key: u32) -> usize {
        (key & self.mask) as usize
    }

    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<&T> {
        self.slots
            .get(self.index(key))
            .filter(|slot| slot.key == key)?
            .occupied()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let at = self.index(key);
        let slot = self
            .slots
            .get_mut(at)
            .filter(|slot| slot.key == key && slot.is_occupied)?;
        Some(&mut slot.value)
    }

    /// Frees a slot. Returns false if the key is not in use.
    #[inline]
    pub(super) fn remove(&mut self, key: u32) -> bool {
        let at = self.index(key);
        let Some(slot) = self
            .slots
            .get_mut(at)
            .filter(|slot| slot.key == key && slot.is_occupied)
        else {
            return false;
        };
        slot.is_occupied = false;
        self.free.push(key & self.mask);
        true
    }

    /// Returns the key of the first value that `wanted` accepts, starting at slot `from`, and the
    /// slot after it: for an iteration that changes values.
    pub(super) fn find_from(
        &self,
        from: usize,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<(u32, usize)> {
        let mut places = self.slots.iter().enumerate().skip(from);
        let found = places.find(|(_, slot)| slot.occupied().is_some_and(&wanted));
        #[cfg(test)]
        self.steps
            .update(|steps| steps + found.map_or(self.slots.len(), |(at, _)| at + 1) - from);
        found.map(|(at, slot)| (slot.key, at + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Reset, Slab};

    impl Reset for u32 {
        const EMPTY: Self = 0;
    }

    #[test]
    fn keys_belong_to_one_value() {
        let mut slots = Slab::new(3, 7);
        let insert = |slots: &mut Slab<u32>| {
            let (key, value) = slots.insert(|_| false).unwrap();
            *value = key;
            key
        };
        let first = insert(&mut slots);
        assert!(slots.remove(first));
        let second = insert(&mut slots);
        assert_ne!(first, second);
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&second)));
        assert_eq!(slots.index(first), slots.index(second));
        assert!(!slots.remove(first));
    }

    #[test]
    fn free_slots_are_not_found() {
        let mut slots = Slab::<u32>::new(3, 7);
        let keys = [0; 3].map(|_| slots.insert(|_| false).unwrap().0);
        assert!(slots.remove(keys[0]) && slots.remove(keys[2]));
        assert_eq!(slots.find_from(0, |_| true), Some((keys[1], 2)));
        assert_eq!(slots.find_from(2, |_| true), None);
    }

    #[test]
    fn taken_keys_are_skipped() {
        let mut slots = Slab::<u32>::new(1, 0);
        let (first, _) = slots.insert(|_| false).unwrap();
        slots.remove(first);
        let taken = first + 1;
        assert!(
            slots
                .insert(|key| key == taken)
                .is_some_and(|(key, _)| key == taken + 1)
        );
        assert!(slots.insert(|_| false).is_none());
    }
}
