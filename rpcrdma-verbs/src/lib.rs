//! The transport of RPC-over-RDMA: RDMA devices, and a software fabric that runs on any machine.
#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses are of 64 bits on every machine with RDMA, and numbers of requests of 32: `try_from` would say neither"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod blocking;
mod calls;
pub mod client;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod conformance;
pub mod driver;
pub mod dump;
mod fifo;
pub mod handlers;
pub mod local;
#[cfg(feature = "testing")]
pub mod measure;
pub mod memory;
mod peers;
pub mod provider;
mod queue;
pub mod rpc;
pub mod rpc_transport;
pub mod server;
#[cfg(feature = "tokio")]
pub mod tokio;
