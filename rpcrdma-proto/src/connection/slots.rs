//! Places of a fixed number, with keys that are never mistaken for those of an earlier tenant.

use alloc::vec::Vec;

/// What lives in a place.
pub(super) trait Tenant {
    /// One that nobody has named anything of yet.
    const NOBODY: Self;
}

/// Places for values, of which there are as many as were ever let at once: those that were let last are let first. A key is 32 bits:
/// the place in the low ones, and in the high ones how often it was let. So a lookup is one comparison, and a key can serve as
/// an XID.
///
/// A value stays in its place: the next tenant changes all of it, instead of being made elsewhere and moved there.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Place<T>>,
    /// Places that were let, and are not any more.
    free: Vec<u32>,
    most: u32,
    seed: u32,
    /// The bits of a key that tell its place.
    mask: u32,
}

#[derive(Debug)]
struct Place<T> {
    /// The key of the tenant, or of the last one.
    key: u32,
    is_let: bool,
    value: T,
}

impl<T> Place<T> {
    fn tenant(&self) -> Option<&T> {
        self.is_let.then_some(&self.value)
    }
}

impl<T: Tenant> Slots<T> {
    /// So many places (2^17 at most), with keys that begin anywhere: `seed` says where.
    pub(super) fn new(count: u32, seed: u32) -> Self {
        let count = count.max(1);
        let bits = count.next_power_of_two().trailing_zeros();
        Self { places: Vec::new(), free: Vec::new(), most: count, seed, mask: (1 << bits) - 1 }
    }

    /// A place that was never let, if there may be more.
    #[cold]
    fn another(&mut self) -> Option<u32> {
        let at = u32::try_from(self.places.len()).ok().filter(|at| *at < self.most)?;
        let key = self.seed.wrapping_add(at.wrapping_mul(0x9e37_79b9)).wrapping_mul(self.mask + 1) | at;
        self.places.push(Place { key, is_let: false, value: T::NOBODY });
        Some(at)
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets a place, whose key is none that `taken` knows: to what the last tenant has left there, all of which the next one is to
    /// change. None if all are let.
    #[inline]
    pub(super) fn insert(&mut self, taken: impl Fn(u32) -> bool) -> Option<(u32, &mut T)> {
        let at = self.free.pop().or_else(|| self.another())?;
        let place = self.places.get_mut(at as usize)?;
        loop {
            place.key = place.key.wrapping_add(self.mask + 1);
            if !taken(place.key) {
                break;
            }
        }
        place.is_let = true;
        Some((place.key, &mut place.value))
    }

    /// The index of a key's place, whoever lives there.
    #[inline]
    pub(super) fn index(&self, key: u32) -> usize {
        (key & self.mask) as usize
    }

    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<&T> {
        self.places.get(self.index(key)).filter(|place| place.key == key)?.tenant()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let at = self.index(key);
        let place = self.places.get_mut(at).filter(|place| place.key == key && place.is_let)?;
        Some(&mut place.value)
    }

    /// Ends a tenancy: whether there was one.
    #[inline]
    pub(super) fn remove(&mut self, key: u32) -> bool {
        let at = self.index(key);
        let Some(place) = self.places.get_mut(at).filter(|place| place.key == key && place.is_let) else {
            return false;
        };
        place.is_let = false;
        self.free.push(key & self.mask);
        true
    }

    /// The key of the first value from place `from` on that `wanted` wants, and the place after it: to go through all
    /// values while they change.
    pub(super) fn find_from(&self, from: usize, wanted: impl Fn(&T) -> bool) -> Option<(u32, usize)> {
        let mut places = self.places.iter().enumerate().skip(from);
        let (at, place) = places.find(|(_, place)| place.tenant().is_some_and(&wanted))?;
        Some((place.key, at + 1))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(Place::tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::{Slots, Tenant};

    impl Tenant for u32 {
        const NOBODY: Self = 0;
    }

    #[test]
    fn keys_are_of_one_tenant() {
        let mut slots = Slots::new(3, 7);
        let insert = |slots: &mut Slots<u32>| {
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
    fn keys_that_are_taken_are_passed_over() {
        let mut slots = Slots::<u32>::new(1, 0);
        let (first, _) = slots.insert(|_| false).unwrap();
        slots.remove(first);
        let taken = first + 1;
        assert!(slots.insert(|key| key == taken).is_some_and(|(key, _)| key == taken + 1));
        assert!(slots.insert(|_| false).is_none());
    }
}
