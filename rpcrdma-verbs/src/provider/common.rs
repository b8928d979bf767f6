//! The parts that software providers share: keys and their memory, and queues.

pub(super) mod completions;
pub(super) mod domain;
pub(super) mod events;
pub(super) mod random;
pub(super) mod receives;
pub(super) mod wakeup;
