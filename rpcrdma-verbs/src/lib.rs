//! The transport of RPC-over-RDMA: RDMA devices, and a software fabric that runs on any machine.
#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses are of 64 bits on every machine with RDMA, and numbers of requests of 32: `try_from` would say neither"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod conformance;
pub mod driver;
pub mod dump;
mod fifo;
#[cfg(feature = "testing")]
pub mod measure;
pub mod memory;
mod number_map;
pub mod provider;
mod queue;
pub mod rpc_transport;
