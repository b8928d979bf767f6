//! The slots of a session's fore channel, at the client's end (RFC 8881, section 2.10.6.1).
//!
//! A sequence number advances only if the server has used it, which `session` tells by the end of a
//! lease. A lease that is dropped leaves its slot in doubt, and the next lease of this slot must be
//! `settled` before a request is sent. `callbacks` calls `is_in_flight` and `set_target` under its
//! lock, so this module must not call `callbacks`.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The slots, and the highest one that the server wants to be used.
#[derive(Debug)]
pub(super) struct SlotTable {
    state: Mutex<State>,
    /// Each release wakes one task that waits for a slot.
    released: Notify,
}

#[derive(Debug)]
struct State {
    slots: Vec<Slot>,
    usable: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The sequence number of the next request.
    sequence: u32,
    is_leased: bool,
    /// A request with this number was sent, and its reply was lost: the server may or may not have
    /// executed it.
    is_in_doubt: bool,
}

/// A slot for one request. If it is dropped before the outcome is known, the slot is in doubt.
#[derive(Debug)]
pub(super) struct SlotLease<'t> {
    table: &'t SlotTable,
    pub(super) id: u32,
    pub(super) sequence: u32,
    /// The highest slot in use.
    pub(super) highest: u32,
    /// The outcome of an earlier request with this number is unknown.
    pub(super) is_in_doubt: bool,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Unknown,
    Consumed,
    Unused,
}

/// Returns the number of a slot on the wire: there are no more slots than fit in 32 bits.
fn number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

impl SlotTable {
    /// Creates the slots of a new session: the first number is 1 (RFC 8881, section 2.10.6.1).
    pub(super) fn new(count: u32) -> Self {
        let slot = Slot {
            sequence: 1,
            is_leased: false,
            is_in_doubt: false,
        };
        let slots = vec![slot; count as usize];
        Self {
            state: Mutex::new(State {
                usable: slots.len(),
                slots,
            }),
            released: Notify::new(),
        }
    }

    /// Waits for a slot: the lowest free one, and those in doubt last.
    pub(super) async fn lease(&self) -> SlotLease<'_> {
        loop {
            let mut released = pin!(self.released.notified());
            // A release after this wakes the task, also one before the first poll.
            released.as_mut().enable();
            if let Some(lease) = self.try_lease() {
                return lease;
            }
            released.await;
        }
    }

    fn try_lease(&self) -> Option<SlotLease<'_>> {
        let mut state = lock(&self.state);
        let (id, slot) = state.take()?;
        Some(SlotLease {
            table: self,
            id: number(id),
            sequence: slot.sequence,
            highest: number(state.highest()),
            is_in_doubt: slot.is_in_doubt,
            outcome: Outcome::Unknown,
        })
    }

    /// Limits the slots in use to the number that the server requests: at least one.
    pub(super) fn set_target(&self, highest: u32) {
        let mut state = lock(&self.state);
        let wanted = (highest as usize).saturating_add(1);
        let usable = wanted.min(state.slots.len());
        if usable > state.usable {
            self.released.notify_waiters();
        }
        state.usable = usable;
    }

    /// Returns true if the reply to a request is outstanding.
    pub(super) fn is_in_flight(&self, id: u32, sequence: u32) -> bool {
        let state = lock(&self.state);
        let slot = state.slots.get(id as usize);
        slot.is_some_and(|slot| slot.is_leased && slot.sequence == sequence)
    }

    fn release(&self, id: u32, outcome: Outcome) {
        let mut state = lock(&self.state);
        if let Some(slot) = state.slots.get_mut(id as usize) {
            slot.is_leased = false;
            match outcome {
                Outcome::Unknown => slot.is_in_doubt = true,
                Outcome::Unused => {}
                Outcome::Consumed => {
                    slot.is_in_doubt = false;
                    slot.sequence = slot.sequence.wrapping_add(1);
                }
            }
        }
        drop(state);
        self.released.notify_one();
    }
}

/// Locks a state. A poisoned lock is ignored: every change of a state is a single step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn take(&mut self) -> Option<(usize, Slot)> {
        let slots = self.slots.iter().enumerate().take(self.usable);
        let free = slots.filter(|(_, slot)| !slot.is_leased);
        let (id, _) = free.min_by_key(|(id, slot)| (slot.is_in_doubt, *id))?;
        let slot = self.slots.get_mut(id)?;
        slot.is_leased = true;
        Some((id, *slot))
    }

    fn highest(&self) -> usize {
        let leased = self.slots.iter().rposition(|slot| slot.is_leased);
        leased.unwrap_or_default()
    }
}

impl SlotLease<'_> {
    /// The server has the request: the sequence number advances.
    pub(super) fn consumed(mut self) {
        self.outcome = Outcome::Consumed;
    }

    /// The server did not accept the request: the sequence number stays.
    pub(super) fn unused(mut self) {
        self.outcome = Outcome::Unused;
    }

    /// Advances the sequence number, after the server has told the outcome of an earlier request.
    pub(super) fn settled(&mut self) {
        let mut state = lock(&self.table.state);
        if let Some(slot) = state.slots.get_mut(self.id as usize) {
            slot.sequence = slot.sequence.wrapping_add(1);
            slot.is_in_doubt = false;
            self.sequence = slot.sequence;
        }
        self.is_in_doubt = false;
    }
}

impl Drop for SlotLease<'_> {
    fn drop(&mut self) {
        self.table.release(self.id, self.outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now(table: &SlotTable) -> Option<SlotLease<'_>> {
        match pin!(table.lease()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(lease) => Some(lease),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_lowest_free_slot_is_leased() {
        let table = SlotTable::new(2);
        let [first, second] = [0, 1].map(|_| now(&table).unwrap());
        assert_eq!((first.id, first.sequence, first.highest), (0, 1, 0));
        assert_eq!((second.id, second.sequence, second.highest), (1, 1, 1));
        assert!(now(&table).is_none());
        assert!(table.is_in_flight(0, 1) && !table.is_in_flight(0, 2));
        first.consumed();
        let again = now(&table).unwrap();
        assert_eq!((again.id, again.sequence), (0, 2));
        again.unused();
        assert_eq!(now(&table).map(|lease| lease.sequence), Some(2));
    }

    #[test]
    fn a_slot_in_doubt_is_leased_last() {
        let table = SlotTable::new(2);
        drop(now(&table));
        let clean = now(&table).unwrap();
        assert_eq!((clean.id, clean.is_in_doubt), (1, false));
        let mut doubtful = now(&table).unwrap();
        assert_eq!(
            (doubtful.id, doubtful.sequence, doubtful.is_in_doubt),
            (0, 1, true)
        );
        doubtful.settled();
        assert_eq!((doubtful.sequence, doubtful.is_in_doubt), (2, false));
        doubtful.consumed();
        let next = now(&table).unwrap();
        assert_eq!((next.id, next.sequence, next.is_in_doubt), (0, 3, false));
    }

    #[test]
    fn the_server_limits_the_slots() {
        let table = SlotTable::new(3);
        table.set_target(0);
        let only = now(&table).unwrap();
        assert!(now(&table).is_none());
        table.set_target(7);
        let others = [1, 2].map(|_| now(&table).unwrap().id);
        assert_eq!(others, [1, 2]);
        drop(only);
    }

    #[test]
    fn numbers_wrap_around() {
        let table = SlotTable::new(1);
        lock(&table.state).slots[0].sequence = u32::MAX;
        now(&table).unwrap().consumed();
        assert_eq!(now(&table).map(|lease| lease.sequence), Some(0));
    }
}
