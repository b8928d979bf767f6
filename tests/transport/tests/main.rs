//! Tests of the transport that no virtual machine runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod allocation;
mod delay;
mod iwarp_markers;
mod iwarp_wakeups;
mod keepalive;
mod memory_exhaustion;
mod teardown;
mod tshark;
