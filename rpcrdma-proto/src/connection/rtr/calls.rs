//! The requester's part of rtrext-02: reserved receives, and the errors that its calls met.

use alloc::vec::Vec;

/// The state of a requester that sends calls in transmissions.
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
    /// The age of the call. No two calls have the same, so that the next call in the slot has no
    /// errors.
    age: u64,
    /// Whether the call continues without rtrext-02, since the peer reported it as broken or does
    /// not know its operation.
    given_up: bool,
    /// The number of errors that its first transmissions may still cause.
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

    /// Expects more errors, which earlier transmissions of a call cause.
    pub(in crate::connection) fn expect_stale(&mut self, call: CallRef, count: u32) {
        if let Some(errors) = self.errors_mut(call) {
            errors.stale = count;
        }
    }

    /// Returns whether an error is one of those that earlier transmissions of a call cause.
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

    /// Returns the errors of a call, which has none if the slot has those of an earlier call.
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
