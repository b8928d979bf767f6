//! Tests of generated clients and services over every transport.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_most_once;
mod boxed;
mod callback;
mod callback_local;
mod callback_tcp;
mod calls;
mod catalog;
mod control;
mod errors;
mod hostile;
mod lifetime;
mod local;
mod local_control;
mod loopback;
mod paths;
mod rdma;
mod rdma_at_most_once;
mod rdma_control;
mod rdma_hostile;
mod rdma_retransmission;
mod security;
mod support;
mod tcp;
mod tcp_records;
#[cfg(target_os = "linux")]
mod tcp_system_calls;
mod threads;
mod tower;
mod tutorial;
mod xids;
