//! Places of a fixed number, with keys that are never mistaken for those of an earlier tenant.

use alloc::vec::Vec;

/// Places for values, of which there are as many as were ever let at once: the lowest are let first. A key is 32 bits: the place in the low ones, and in the high ones how often it was let. So a lookup is
/// one comparison, and a key can serve as an XID.
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
    key: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
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
        self.places.push(Place { key, value: None });
        Some(at)
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets a place to the value that `make` makes of its key, which is none that `taken` knows. None if all are let.
    #[inline]
    pub(super) fn insert(&mut self, taken: impl Fn(u32) -> bool, make: impl FnOnce(u32) -> T) -> Option<u32> {
        let at = self.free.pop().or_else(|| self.another())?;
        let place = self.places.get_mut(at as usize)?;
        loop {
            place.key = place.key.wrapping_add(self.mask + 1);
            if !taken(place.key) {
                break;
            }
        }
        place.value = Some(make(place.key));
        Some(place.key)
    }

    /// The index of a key's place, whoever lives there.
    #[inline]
    pub(super) fn index(&self, key: u32) -> usize {
        (key & self.mask) as usize
    }

    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<&T> {
        self.places.get(self.index(key)).filter(|place| place.key == key)?.value.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let at = self.index(key);
        self.places.get_mut(at).filter(|place| place.key == key)?.value.as_mut()
    }

    /// Ends a value where it is: whether there was one.
    #[inline]
    pub(super) fn remove(&mut self, key: u32) -> bool {
        let at = self.index(key);
        let Some(place) = self.places.get_mut(at).filter(|place| place.key == key && place.value.is_some()) else {
            return false;
        };
        place.value = None;
        self.free.push(key & self.mask);
        true
    }

    /// The key of the first value from place `from` on that `wanted` wants, and the place after it: to go through all
    /// values while they change.
    pub(super) fn find_from(&self, from: usize, wanted: impl Fn(&T) -> bool) -> Option<(u32, usize)> {
        let mut places = self.places.iter().enumerate().skip(from);
        let (at, place) = places.find(|(_, place)| place.value.as_ref().is_some_and(&wanted))?;
        Some((place.key, at + 1))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn keys_are_of_one_tenant() {
        let mut slots = Slots::new(3, 7);
        let first = slots.insert(|_| false, |key| key).unwrap();
        assert!(slots.remove(first));
        let second = slots.insert(|_| false, |key| key).unwrap();
        assert_ne!(first, second);
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&second)));
        assert_eq!(slots.index(first), slots.index(second));
        assert!(!slots.remove(first));
    }

    #[test]
    fn keys_that_are_taken_are_passed_over() {
        let mut slots = Slots::new(1, 0);
        let first = slots.insert(|_| false, |_| ()).unwrap();
        slots.remove(first);
        let taken = first + 1;
        assert!(slots.insert(|key| key == taken, |_| ()).is_some_and(|key| key == taken + 1));
        assert!(slots.insert(|_| false, |_| ()).is_none());
    }
}
