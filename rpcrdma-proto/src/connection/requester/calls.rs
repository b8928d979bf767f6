//! The open outgoing calls, by XID.

use alloc::vec::Vec;

use super::request::Request;
use crate::connection::slab::Reset;

/// A table with a fixed capacity, whose values are found by XID. XIDs are consecutive, so that none
/// repeats before all others were used: a server that caches replies would take a repeated XID for
/// a retransmission.
///
/// The table grows to the maximum number of values held at once, and reuses the slot freed last. A
/// value stays in its slot: the next one overwrites all of its fields, which avoids a move.
#[derive(Debug)]
pub(super) struct Calls<T> {
    slots: Vec<Slot<T>>,
    /// The freed slots.
    free: Vec<u32>,
    capacity: u32,
    /// The last XID that was used.
    last: u32,
    /// The slot of each XID, by the low bits of the XID. No two open XIDs share an entry: an XID
    /// that would is skipped. There are at least twice as many entries as slots, so few are
    /// skipped. The entry of a closed XID stays until another XID takes it, since the consumer
    /// looks up the slot when it handles the event that reports the end.
    table: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// The XID of the value, or of the last one.
    xid: u32,
    is_open: bool,
    value: T,
}

/// No slot.
const NONE: u32 = u32::MAX;

impl<T: Reset> Calls<T> {
    /// Creates a table of at most `count` slots (2^17 at most). `seed` is the XID before the first
    /// one.
    pub(super) const fn new(count: u32, seed: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            capacity: count,
            last: seed,
            table: Vec::new(),
        }
    }

    /// Returns the number of values.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a slot, unless the table has its maximum number of slots.
    #[cold]
    fn add_slot(&mut self) -> Option<u32> {
        let at = u32::try_from(self.slots.len())
            .ok()
            .filter(|at| *at < self.capacity.max(1))?;
        self.slots.push(Slot {
            xid: 0,
            is_open: false,
            value: T::EMPTY,
        });
        if self.table.len() < 2 * self.slots.len() {
            self.grow();
        }
        Some(at)
    }

    /// Grows the table. XIDs that differ in their low bits still do so with more bits.
    #[cold]
    fn grow(&mut self) {
        let size = (4 * self.slots.len()).next_power_of_two().max(16);
        self.table = alloc::vec![NONE; size];
        // All but the new slot are open: a free one would have been taken.
        for (at, slot) in (0u32..).zip(&self.slots).filter(|(_, slot)| slot.is_open) {
            let entry = self.table.get_mut(slot.xid as usize & (size - 1));
            entry.into_iter().for_each(|entry| *entry = at);
        }
    }

    #[inline]
    fn entry(&self, xid: u32) -> usize {
        xid as usize & self.table.len().wrapping_sub(1)
    }

    /// Occupies a slot with the next XID that `taken` does not know. Returns the XID and the value
    /// of the previous occupant, which the caller must overwrite; `None` if all slots are occupied.
    #[inline]
    pub(super) fn insert(&mut self, taken: impl Fn(u32) -> bool) -> Option<(u32, &mut T)> {
        let at = self.free.pop().or_else(|| self.add_slot())?;
        // At least half of the entries are free, so the loop ends soon.
        let xid = loop {
            self.last = self.last.wrapping_add(1);
            if !self.is_used(self.entry(self.last)) && !taken(self.last) {
                break self.last;
            }
        };
        let entry = self.entry(xid);
        *self.table.get_mut(entry)? = at;
        let place = self.slots.get_mut(at as usize)?;
        (place.xid, place.is_open) = (xid, true);
        Some((xid, &mut place.value))
    }

    /// Takes the next XID of the sequence that is not `taken`, without a value.
    pub(super) fn next_xid(&mut self, taken: impl Fn(u32) -> bool) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.get(self.last).is_none() && !taken(self.last) {
                return self.last;
            }
        }
    }

    /// Returns whether an open XID has this entry.
    #[inline]
    fn is_used(&self, entry: usize) -> bool {
        let place = self
            .table
            .get(entry)
            .and_then(|at| self.slots.get(*at as usize));
        place.is_some_and(|place| place.is_open && self.entry(place.xid) == entry)
    }

    /// Returns the index of the slot of an XID, whether it is open or closed.
    #[inline]
    pub(super) fn index(&self, xid: u32) -> usize {
        self.table
            .get(self.entry(xid))
            .filter(|at| **at != NONE)
            .map_or(0, |at| *at as usize)
    }

    #[inline]
    pub(super) fn get(&self, xid: u32) -> Option<&T> {
        let at = *self.table.get(self.entry(xid))?;
        self.slots
            .get(at as usize)
            .filter(|place| place.xid == xid && place.is_open)
            .map(|place| &place.value)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, xid: u32) -> Option<&mut T> {
        let at = *self.table.get(self.entry(xid))?;
        self.slots
            .get_mut(at as usize)
            .filter(|place| place.xid == xid && place.is_open)
            .map(|place| &mut place.value)
    }

    /// Removes a value. Returns false if the XID is not open.
    #[inline]
    pub(super) fn remove(&mut self, xid: u32) -> bool {
        let Some(at) = self.table.get(self.entry(xid)).copied() else {
            return false;
        };
        let place = self
            .slots
            .get_mut(at as usize)
            .filter(|place| place.xid == xid && place.is_open);
        let Some(place) = place else { return false };
        place.is_open = false;
        self.free.push(at);
        true
    }

    /// Returns the XID of the first value that `wanted` accepts, starting at slot `from`, and the
    /// slot after it: for an iteration that changes values.
    pub(super) fn find_from(
        &self,
        from: usize,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<(u32, usize)> {
        let mut places = self.slots.iter().enumerate().skip(from);
        let (at, place) = places.find(|(_, place)| place.is_open && wanted(&place.value))?;
        Some((place.xid, at + 1))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots
            .iter()
            .filter(|place| place.is_open)
            .map(|place| &place.value)
    }
}

/// Returns a function that returns whether the consumer still waits for the end of a call.
pub(super) fn outstanding(calls: &Calls<Request>) -> impl Fn(u32) -> bool + use<'_> {
    |xid| calls.get(xid).is_some_and(Request::is_outstanding)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::vec::Vec;

    use super::Calls;

    fn insert(calls: &mut Calls<u32>) -> u32 {
        let (xid, value) = calls.insert(|_| false).unwrap();
        *value = xid;
        xid
    }

    #[test]
    fn values_are_found_by_their_xids_alone() {
        let mut calls = Calls::new(3, u32::MAX - 1);
        assert!(!calls.remove(7));
        let first = insert(&mut calls);
        assert!(calls.remove(first) && !calls.remove(first));
        let second = insert(&mut calls);
        assert_eq!((first, second), (u32::MAX, 0));
        assert_eq!(
            calls.index(first),
            calls.index(second),
            "its end is still to be told"
        );
        assert_eq!(
            (calls.get(first), calls.get(second), calls.len()),
            (None, Some(&second), 1)
        );
        let others = [insert(&mut calls), insert(&mut calls)];
        assert!(calls.insert(|_| false).is_none());
        assert_eq!(others.map(|xid| calls.get(xid).copied()), others.map(Some));
        let places: HashSet<usize> = [second, others[0], others[1]]
            .map(|xid| calls.index(xid))
            .into();
        assert_eq!(places, (0..3).collect());
    }

    /// XIDs of calls that are open for long are passed over, when their turn comes again.
    #[test]
    fn open_xids_are_skipped() {
        let mut calls = Calls::new(40, 7);
        let long: Vec<u32> = (0..39).map(|_| insert(&mut calls)).collect();
        for _ in 0..2_000 {
            let xid = insert(&mut calls);
            assert!(!long.contains(&xid) && calls.remove(xid));
        }
        assert!(long.iter().all(|xid| calls.get(*xid) == Some(xid)));
        let taken = calls.last.wrapping_add(1);
        assert!(
            calls
                .insert(|xid| xid == taken)
                .is_some_and(|(xid, _)| xid != taken)
        );
    }
}
