//! The transport of RPC-over-RDMA: over an embedded software fabric, on any machine.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        reason = "a test fails by panicking, and chooses its numbers"
    )
)]

pub mod client;
pub mod driver;
pub mod memory;
pub mod provider;
mod queue;
pub mod rpc;
pub mod server;
