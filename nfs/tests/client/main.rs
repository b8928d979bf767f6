//! The client with this crate's server over the loopback transport, TCP and RDMA (software fabric),
//! with every file system, and with faulty servers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../backends/mod.rs"]
mod backends;
#[path = "../chunk_counts/mod.rs"]
mod chunk_counts;
mod chunks;
mod faulty_servers;
mod files;
mod names;
mod support;
