//! Tests of the service and of the clients.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "sizes and numbers are small"
)]

mod backends;
mod chunk_counts;
mod client;
mod model;
mod rdma;
mod rpcbind;
mod service;
mod session4;
