//! Incoming calls by XID. The peer chooses the XIDs.
//!
//! The seed of the hash (`Config::hash_seed`) must be unknown to the peer, or the peer can make the
//! chains long. The entry of a slot must be removed before another is inserted there, because
//! `insert` overwrites the link of its chain. `Responder` rejects a call whose XID `find` knows,
//! and counts the calls without a transmitted reply by `len`.

use alloc::vec::Vec;

/// Maps XIDs to the keys of calls: a hash table of chains over slots, so that an insertion or a
/// removal moves no other entry. It grows to the maximum number of slots used at once.
#[derive(Debug)]
pub(super) struct XidTable {
    /// The first slot of each chain: a power of two, and at least as many as slots.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    len: usize,
    multiplier: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    xid: u32,
    /// The next slot of the chain.
    next: u32,
}

/// Marks the end of a chain.
const END_OF_CHAIN: u32 = u32::MAX;
/// An entry in no chain.
const UNUSED: Entry = Entry {
    key: 0,
    xid: 0,
    next: END_OF_CHAIN,
};

impl XidTable {
    pub(super) const fn new(seed: u64) -> Self {
        // A finalizer of the splitmix family.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self {
            heads: Vec::new(),
            entries: Vec::new(),
            len: 0,
            multiplier: mixed | 1,
        }
    }

    /// Returns whether two XIDs are in one chain.
    #[cfg(test)]
    pub(super) fn same_chain(&self, one: u32, other: u32) -> bool {
        self.chain(one) == self.chain(other)
    }

    /// Returns the length of the longest chain.
    #[cfg(test)]
    pub(super) fn longest_chain(&self) -> usize {
        let chain = |head: &u32| {
            core::iter::successors(self.entries.get(*head as usize), |place| {
                self.entries.get(place.next as usize)
            })
            .count()
        };
        self.heads.iter().map(chain).max().unwrap_or(0)
    }

    /// Returns the number of entries.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the chain of an XID. The peer chooses XIDs but does not know the multiplier: two
    /// XIDs collide in the middle bits of the product hardly more often than by chance.
    #[inline]
    fn chain(&self, xid: u32) -> usize {
        (u64::from(xid).wrapping_mul(self.multiplier) >> 32) as usize
            & self.heads.len().wrapping_sub(1)
    }

    /// Returns the key of the call with this XID.
    #[inline]
    pub(super) fn find(&self, xid: u32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut at = *self.heads.get(self.chain(xid))?;
        while let Some(place) = self.entries.get(at as usize) {
            if place.xid == xid {
                return Some(place.key);
            }
            at = place.next;
        }
        None
    }

    /// Adds the call in this slot. No other call may have the XID.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, key: u32, xid: u32) {
        if at >= self.entries.len() {
            self.grow(at);
        }
        let chain = self.chain(xid);
        if let (Some(place), Some(head)) = (self.entries.get_mut(at), self.heads.get_mut(chain)) {
            *place = Entry {
                key,
                xid,
                next: *head,
            };
            // A place is of 32 bits, as it is part of a key.
            *head = u32::try_from(at).unwrap_or(END_OF_CHAIN);
            self.len += 1;
        }
    }

    /// Removes the call in this slot, if it has this key.
    #[inline]
    pub(super) fn remove(&mut self, at: usize, key: u32) {
        let Some(Entry { xid, next, .. }) = self
            .entries
            .get(at)
            .copied()
            .filter(|place| place.key == key)
        else {
            return;
        };
        let chain = self.chain(xid);
        let Some(head) = self.heads.get_mut(chain) else {
            return;
        };
        if *head as usize == at {
            *head = next;
        } else {
            let mut before = *head as usize;
            while let Some(place) = self.entries.get(before)
                && place.next as usize != at
            {
                before = place.next as usize;
            }
            let Some(place) = self.entries.get_mut(before) else {
                return;
            };
            place.next = next;
        }
        self.len -= 1;
    }

    /// Grows the table up to this slot.
    #[cold]
    fn grow(&mut self, at: usize) {
        self.entries.resize(at + 1, UNUSED);
        if at < self.heads.len() {
            return;
        }
        let all: Vec<usize> = self.linked().collect();
        self.heads.clear();
        self.heads
            .resize((at + 1).next_power_of_two().max(8), END_OF_CHAIN);
        self.len = 0;
        for at in all {
            if let Some(Entry { key, xid, .. }) = self.entries.get(at).copied() {
                self.insert(at, key, xid);
            }
        }
    }

    /// Returns the slots that are in chains.
    fn linked(&self) -> impl Iterator<Item = usize> {
        self.heads.iter().flat_map(|head| {
            core::iter::successors(Some(*head as usize), |at| {
                Some(self.entries.get(*at)?.next as usize)
            })
            .take_while(|at| *at < self.entries.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::XidTable;

    #[test]
    fn entries_are_found_until_removed() {
        // There are more XIDs than chains, so that some chains are long.
        let mut named = XidTable::new(7);
        let xid = |at: usize| (at as u32).wrapping_mul(0x9e37_79b9);
        for at in 0..300 {
            assert_eq!(named.find(xid(at)), None);
            named.insert(at, at as u32 + 1000, xid(at));
        }
        let found = |named: &XidTable| (0..300).map(|at| named.find(xid(at))).collect::<Vec<_>>();
        assert_eq!(
            (named.len(), found(&named)),
            (300, (0..300).map(|at| Some(at + 1000)).collect())
        );
        for at in (0..300).step_by(3) {
            named.remove(at, at as u32 + 1000);
            named.remove(at, at as u32 + 1000);
        }
        let left = (0..300)
            .map(|at| (at % 3 != 0).then_some(at + 1000))
            .collect();
        assert_eq!((named.len(), found(&named)), (200, left));
    }

    #[test]
    fn slot_belongs_to_its_last_call() {
        let mut named = XidTable::new(0);
        named.insert(5, 1, 77);
        named.remove(5, 2);
        assert_eq!(named.find(77), Some(1), "another key is another's");
        named.remove(5, 1);
        named.insert(5, 2, 78);
        assert_eq!(
            (named.find(77), named.find(78), named.len()),
            (None, Some(2), 1)
        );
        named.remove(500, 2);
        assert_eq!(named.len(), 1);
    }
}
