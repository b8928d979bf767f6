//! Code that the providers share: keys and their memory, queues, and settings.

pub(super) mod completions;
pub(super) mod domain;
pub(super) mod events;
pub(super) mod random;
pub(super) mod receives;
#[cfg(any(feature = "ibverbs", feature = "iwarp"))]
pub(super) mod traffic_class;
pub(super) mod wakeup;
