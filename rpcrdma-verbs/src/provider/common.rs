//! Code that the providers share: keys and their memory, queues, and settings.
//!
//! `software` and `iwarp` keep keys, receives and completions in user space, by these modules.
//! `ibverbs` leaves them to the device, and uses `traffic_class` alone: its event queue and its
//! descriptors are in its own modules.

pub(super) mod completions;
pub(super) mod domain;
pub(super) mod events;
pub(super) mod random;
pub(super) mod receives;
#[cfg(any(feature = "ibverbs", feature = "iwarp"))]
pub(super) mod traffic_class;
pub(super) mod wakeup;
