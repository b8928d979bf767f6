//! Receive buffers: how many are posted, and of which size (bidirection-04, section 4.3;
//! xcharext-03, section 3.1).
//!
//! `Session::receives` decides how many must be posted. `used` must be called once for each
//! message, and counts a buffer of an earlier size first, in the order of posting.
//! `apply_receive_growth` of the session announces a larger size once `is_uniform` returns true.
//! `is_short_of` lets the receives that replace those of replies wait, and `suffice_for` does not.

use super::output::Action;

/// The posted receives of a connection. They are consumed in the order of posting.
#[derive(Clone, Debug)]
pub(super) struct Receives {
    /// The number of receives of the current size.
    posted: u32,
    /// The number of receives of an earlier size, which were posted before.
    old: u32,
    /// The size in bytes of receives posted from now on.
    size: u32,
    /// The number of replies since receives last sufficed to send a message. Nothing arrives in the
    /// receives that replace theirs before the next call is sent.
    replies: u32,
}

impl Receives {
    pub(super) const fn new(size: u32) -> Self {
        Self {
            posted: 0,
            old: 0,
            size,
            replies: 0,
        }
    }

    /// Returns the number of posted receives.
    pub(super) const fn posted(&self) -> u32 {
        self.posted + self.old
    }

    /// Returns whether all posted receives have the current size.
    pub(super) const fn is_uniform(&self) -> bool {
        self.old == 0
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Counts a receive that a message has taken.
    pub(super) const fn used(&mut self) {
        if self.old > 0 {
            self.old -= 1;
        } else {
            self.posted = self.posted.saturating_sub(1);
        }
    }

    /// Records that the message in the last taken receive was a reply.
    pub(super) const fn replied(&mut self) {
        self.replies = self.replies.saturating_add(1);
    }

    /// Returns whether receives must be posted before the next message is sent.
    pub(super) const fn is_short_of(&self, wanted: u32) -> bool {
        self.posted().saturating_add(self.replies) < wanted
    }

    /// Returns whether enough receives are posted to send a message. The receives that replace
    /// those of replies are due from now on.
    pub(super) const fn suffice_for(&mut self, wanted: u32) -> bool {
        self.replies = 0;
        self.posted() >= wanted
    }

    /// Sets the size of the receives that are posted from now on.
    pub(super) const fn resize(&mut self, size: u32) {
        if size != self.size {
            self.old += self.posted;
            self.posted = 0;
            self.size = size;
        }
    }

    /// Returns the action that posts the missing receives.
    // spec: bd-4-a, bd-4.3-a
    pub(super) const fn post_up_to(&mut self, wanted: u32) -> Option<Action> {
        let count = wanted.saturating_sub(self.posted());
        self.replies = 0;
        if count == 0 {
            return None;
        }
        self.posted += count;
        Some(Action::PostReceives {
            count,
            size: self.size,
        })
    }
}
