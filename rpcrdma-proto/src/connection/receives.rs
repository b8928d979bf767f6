//! Receive buffers: how many are posted, and of which size (bidirection-04, section 4.3; xcharext-03, section 3.1).

use super::output::Action;

/// The posted receives of a connection. They are used in the order in which they were posted.
#[derive(Clone, Debug)]
pub(super) struct Receives {
    /// Those of the present size.
    posted: u32,
    /// Those of an earlier size, all posted before.
    old: u32,
    /// Octets of each that is posted from now on.
    size: u32,
    /// Replies that have come since there were enough to send a message, each into a receive: nothing comes in its place before the
    /// next call goes.
    replies: u32,
}

impl Receives {
    pub(super) const fn new(size: u32) -> Self {
        Self { posted: 0, old: 0, size, replies: 0 }
    }

    /// How many are posted.
    pub(super) const fn posted(&self) -> u32 {
        self.posted + self.old
    }

    /// Whether none of another size is left.
    pub(super) const fn is_uniform(&self) -> bool {
        self.old == 0
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// A message has taken one.
    pub(super) const fn used(&mut self) {
        if self.old > 0 {
            self.old -= 1;
        } else {
            self.posted = self.posted.saturating_sub(1);
        }
    }

    /// The message that has taken one was the reply to a call.
    pub(super) const fn replied(&mut self) {
        self.replies = self.replies.saturating_add(1);
    }

    /// Whether there are too few for what may come before a message is sent.
    pub(super) const fn is_short_of(&self, wanted: u32) -> bool {
        self.posted().saturating_add(self.replies) < wanted
    }

    /// A message is to be sent: whether there are enough for what may come then. If not, no receive waits any more.
    pub(super) const fn are_enough(&mut self, wanted: u32) -> bool {
        self.replies = 0;
        self.posted() >= wanted
    }

    /// Those that are posted from now on have another size.
    pub(super) const fn resize(&mut self, size: u32) {
        if size != self.size {
            self.old += self.posted;
            self.posted = 0;
            self.size = size;
        }
    }

    /// What is to be posted so that there are so many.
    // spec: bd-4-a, bd-4.3-a
    pub(super) const fn up_to(&mut self, wanted: u32) -> Option<Action> {
        let count = wanted.saturating_sub(self.posted());
        self.replies = 0;
        if count == 0 {
            return None;
        }
        self.posted += count;
        Some(Action::PostReceives { count, size: self.size })
    }
}
