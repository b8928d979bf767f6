//! The requester's part of rtrext-02, which transfers an RPC message in several Sends
//! (transmissions, a group): reserved receives, and the errors that calls in groups met.
//!
//! The owner checks reservations against the receives that it posts, and returns what it reserved
//! when a call ends. It calls `give_up` and `expect_stale` only for the call that is in the slot:
//! they replace the record of any other.

use alloc::vec::Vec;

/// The state of a requester that sends calls in groups.
#[derive(Default, Debug)]
pub(in crate::connection) struct GroupCalls {
    /// The number of receives reserved for replies in several transmissions.
    reserved: u32,
    /// The errors of calls, by slot.
    errors: Vec<GroupErrors>,
}

/// The errors that one call met in transmissions.
#[derive(Clone, Copy, Default, Debug)]
struct GroupErrors {
    /// The age of the call, a number that no other call of the connection has. The record of an
    /// earlier call in the slot therefore does not apply to the next.
    age: u64,
    /// Whether the call continues without rtrext-02: the peer reported its group as broken, or does
    /// not know the operation of the extension.
    given_up: bool,
    /// The number of errors to ignore: those which transmissions of its earlier attempts may still
    /// cause.
    stale: u32,
}

/// A call: its slot and its age.
pub(in crate::connection) type CallRef = (usize, u64);

impl GroupCalls {
    /// Returns the number of reserved receives.
    pub(in crate::connection) const fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Reserves receives for the reply to a call.
    pub(in crate::connection) fn reserve(&mut self, receives: u32) {
        self.reserved += receives;
    }

    /// Returns receives that were reserved.
    pub(in crate::connection) fn unreserve(&mut self, receives: u32) {
        self.reserved -= receives;
    }

    /// Returns whether a call continues without rtrext-02.
    pub(in crate::connection) fn is_given_up(&self, call: CallRef) -> bool {
        self.errors(call).is_some_and(|errors| errors.given_up)
    }

    /// Lets a call continue without rtrext-02. Returns false if it did so before.
    pub(in crate::connection) fn give_up(&mut self, call: CallRef) -> bool {
        self.errors_mut(call)
            .is_some_and(|errors| !core::mem::replace(&mut errors.given_up, true))
    }

    /// Sets how many errors the transmissions of a call's earlier attempts may still cause.
    pub(in crate::connection) fn expect_stale(&mut self, call: CallRef, count: u32) {
        if let Some(errors) = self.errors_mut(call) {
            errors.stale = count;
        }
    }

    /// Returns true if an error is one of those that transmissions of earlier attempts may cause,
    /// and counts it.
    pub(in crate::connection) fn take_stale(&mut self, (slot, age): CallRef) -> bool {
        let has_stale = |errors: &&mut GroupErrors| errors.age == age && errors.stale > 0;
        let Some(errors) = self.errors.get_mut(slot).filter(has_stale) else {
            return false;
        };
        errors.stale -= 1;
        true
    }

    fn errors(&self, (slot, age): CallRef) -> Option<&GroupErrors> {
        self.errors.get(slot).filter(|errors| errors.age == age)
    }

    /// Returns the record of the call that is in the slot. The record of another call is replaced
    /// by an empty one.
    fn errors_mut(&mut self, (slot, age): CallRef) -> Option<&mut GroupErrors> {
        if self.errors.len() <= slot {
            self.errors.resize(slot + 1, GroupErrors::default());
        }
        let errors = self.errors.get_mut(slot)?;
        if errors.age != age {
            *errors = GroupErrors {
                age,
                ..GroupErrors::default()
            };
        }
        Some(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::GroupCalls;

    #[test]
    fn errors_of_a_call_are_not_those_of_the_next_in_its_slot() {
        let mut calls = GroupCalls::default();
        assert!(!calls.is_given_up((0, 0)) && !calls.take_stale((0, 0)));
        assert!(calls.give_up((2, 5)) && !calls.give_up((2, 5)));
        calls.expect_stale((2, 5), 1);
        assert!(!calls.is_given_up((1, 5)) && !calls.is_given_up((2, 6)));
        assert!(!calls.take_stale((2, 6)));
        assert!(calls.is_given_up((2, 5)));
        assert!(calls.take_stale((2, 5)) && !calls.take_stale((2, 5)));
        assert!(calls.give_up((2, 6)) && !calls.is_given_up((2, 5)));
    }
}
