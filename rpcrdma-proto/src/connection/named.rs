//! The calls of the peer's, by the XIDs that it has chosen.

use alloc::vec::Vec;

/// Keys of calls by their XIDs, where each call has a place: chains of places, so that nothing is moved when a call comes or goes.
/// There are as many places as were ever used at once.
#[derive(Debug)]
pub(super) struct Named {
    /// The first place of each chain. As many as a power of two, and at least as many as places.
    heads: Vec<u32>,
    places: Vec<Place>,
    len: usize,
    multiplier: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u32,
    xid: u32,
    /// The next place of its chain.
    next: u32,
}

/// The end of a chain.
const END: u32 = u32::MAX;
/// A place in no chain.
const UNUSED: Place = Place { key: 0, xid: 0, next: END };

impl Named {
    pub(super) const fn new(seed: u32) -> Self {
        // A finalizer of the splitmix family.
        let mixed = (seed as u64 ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self { heads: Vec::new(), places: Vec::new(), len: 0, multiplier: mixed | 1 }
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Which chain an XID belongs to. The peer chooses XIDs, but does not know by what they are multiplied: of the product's bits
    /// in the middle, two XIDs have the same hardly more often than by chance.
    #[inline]
    fn chain(&self, xid: u32) -> usize {
        (u64::from(xid).wrapping_mul(self.multiplier) >> 32) as usize & self.heads.len().wrapping_sub(1)
    }

    /// The key of the call with an XID.
    #[inline]
    pub(super) fn find(&self, xid: u32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut at = *self.heads.get(self.chain(xid))?;
        while let Some(place) = self.places.get(at as usize) {
            if place.xid == xid {
                return Some(place.key);
            }
            at = place.next;
        }
        None
    }

    /// From now on the call at this place is found by its XID, which no other has.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, key: u32, xid: u32) {
        if at >= self.places.len() {
            self.grow(at);
        }
        let chain = self.chain(xid);
        if let (Some(place), Some(head)) = (self.places.get_mut(at), self.heads.get_mut(chain)) {
            *place = Place { key, xid, next: *head };
            // A place is of 32 bits, as it is part of a key.
            *head = u32::try_from(at).unwrap_or(END);
            self.len += 1;
        }
    }

    /// The call at this place is found no more, if it was.
    #[inline]
    pub(super) fn remove(&mut self, at: usize, key: u32) {
        let Some(Place { xid, next, .. }) = self.places.get(at).copied().filter(|place| place.key == key) else {
            return;
        };
        let chain = self.chain(xid);
        let Some(head) = self.heads.get_mut(chain) else { return };
        if *head as usize == at {
            *head = next;
        } else {
            let mut before = *head as usize;
            while let Some(place) = self.places.get(before)
                && place.next as usize != at
            {
                before = place.next as usize;
            }
            let Some(place) = self.places.get_mut(before) else { return };
            place.next = next;
        }
        self.len -= 1;
    }

    /// Room for this place and those before it.
    #[cold]
    fn grow(&mut self, at: usize) {
        self.places.resize(at + 1, UNUSED);
        if at < self.heads.len() {
            return;
        }
        let all: Vec<usize> = self.listed().collect();
        self.heads.clear();
        self.heads.resize((at + 1).next_power_of_two().max(8), END);
        self.len = 0;
        for at in all {
            if let Some(Place { key, xid, .. }) = self.places.get(at).copied() {
                self.insert(at, key, xid);
            }
        }
    }

    /// The places that are in chains.
    fn listed(&self) -> impl Iterator<Item = usize> {
        self.heads.iter().flat_map(|head| {
            core::iter::successors(Some(*head as usize), |at| Some(self.places.get(*at)?.next as usize))
                .take_while(|at| *at < self.places.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Named;

    #[test]
    fn what_is_listed_is_found_until_it_is_removed() {
        // More than one chain can have, so that some are long.
        let mut named = Named::new(7);
        let xid = |at: usize| (at as u32).wrapping_mul(0x9e37_79b9);
        for at in 0..300 {
            assert_eq!(named.find(xid(at)), None);
            named.insert(at, at as u32 + 1000, xid(at));
        }
        let found = |named: &Named| (0..300).map(|at| named.find(xid(at))).collect::<Vec<_>>();
        assert_eq!((named.len(), found(&named)), (300, (0..300).map(|at| Some(at + 1000)).collect()));
        for at in (0..300).step_by(3) {
            named.remove(at, at as u32 + 1000);
            named.remove(at, at as u32 + 1000);
        }
        let left = (0..300).map(|at| (at % 3 != 0).then_some(at + 1000)).collect();
        assert_eq!((named.len(), found(&named)), (200, left));
    }

    #[test]
    fn a_place_is_of_its_last_call() {
        let mut named = Named::new(0);
        named.insert(5, 1, 77);
        named.remove(5, 2);
        assert_eq!(named.find(77), Some(1), "another key is another's");
        named.remove(5, 1);
        named.insert(5, 2, 78);
        assert_eq!((named.find(77), named.find(78), named.len()), (None, Some(2), 1));
        named.remove(500, 2);
        assert_eq!(named.len(), 1);
    }
}
