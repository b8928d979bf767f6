//! RPC-over-RDMA as a transport of [`oncrpc`]: over RDMA devices, and over a software fabric that
//! runs on any machine.
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use oncrpc::Router;
//! use rpcrdma_verbs::provider::software::Fabric;
//! use rpcrdma_verbs::{ClientConfig, ServerConfig, connect, serve};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let fabric = Fabric::new();
//! let address = "192.0.2.1:20049".parse()?;
//! // Services of generated code are added to the router, and generated clients take the channel.
//! let server = serve(&fabric.device(), address, ServerConfig::new(), Router::new)?;
//! let channel = connect(&fabric.device(), server.local_addr(), ClientConfig::new())?;
//! drop(channel);
//! server.drain()?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `tokio`, `channel` returns a channel for any thread and the future that drives
//! its connection, as a task of a runtime or on a thread of its own, which `connect` starts;
//! `serve` starts a thread that serves a router. Typed clients and services of generated code run
//! over both as they run over TCP.
//!
//! A [`LocalChannel`] and a [`LocalServer`] use a [driver](driver::Driver) that their user drives
//! on one thread, without locks, tasks or wake-ups.
//!
//! A client can carry services, which the handlers of its server call
//! ([`Context::caller`](oncrpc::Context::caller)).
//!
//! Arguments and results that are eligible for direct data placement are transferred in chunks. A
//! received item shares the memory into which the device has placed it. An item in a buffer of
//! [`Channel::item_buf`](oncrpc::Channel::item_buf) or
//! [`Context::item_buf`](oncrpc::Context::item_buf) is sent from there. An item in other memory is
//! copied once into registered memory.
#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses have 64 bits on every machine with RDMA, and numbers of requests have 32"
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
mod rpc_transport;

#[cfg(feature = "metrics")]
pub use driver::describe::describe_metrics;
#[cfg(feature = "tokio")]
pub use rpc_transport::{
    ChannelRunner, ClientConfig, RunningServer, RunningServers, ServerBuilder, ServerConfig,
    TransportError, channel, channel_with_services, connect, connect_with_services, run_server,
    serve,
};
pub use rpc_transport::{CompletedCall, LocalChannel, LocalEvent, LocalServer, ServerName};
