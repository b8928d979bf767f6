//! Lists that most calls do not have: the memory of a slot, kept from call to call.
//!
//! `begin` only marks the lists as unused, and `fill` clears them later. Each new call in a slot
//! must begin with `begin`, or the call has the lists of the call before.

use alloc::boxed::Box;

/// Lists that can be emptied. Their memory is kept for the next call.
pub(super) trait Clear {
    /// Empties all lists.
    fn clear(&mut self);
}

/// The lists of a call, on the heap. The memory stays with the slot of the first call that needs
/// it, and is reused by later calls in the slot.
#[derive(Debug)]
pub(super) struct OptionalLists<T> {
    lists: Option<Box<T>>,
    /// Whether the lists belong to the current call of the slot.
    used: bool,
}

impl<T: Clear + Default> OptionalLists<T> {
    pub(super) const EMPTY: Self = Self {
        lists: None,
        used: false,
    };

    /// Begins another call, which has no lists so far.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.used = false;
    }

    /// Returns the lists, to be filled. They are empty if they belonged to an earlier call.
    pub(super) fn fill(&mut self) -> &mut T {
        let lists = self.lists.get_or_insert_default();
        if !self.used {
            self.used = true;
            lists.clear();
        }
        lists
    }

    /// Returns the lists of the current call, if it has any.
    #[inline]
    pub(super) fn get(&self) -> Option<&T> {
        self.lists.as_deref().filter(|_| self.used)
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.lists.as_deref_mut().filter(|_| self.used)
    }
}
