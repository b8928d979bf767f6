//! The transport of `oncrpc` over RDMA: channels and servers.
//!
//! With the feature `tokio`, `channel` returns a channel for any thread and the future that drives
//! its connection, as a task of a runtime or on a thread of its own, which `connect` starts; `serve`
//! starts a thread that serves a router. Typed clients and services of generated code run over both
//! as they run over TCP.
//!
//! A [`LocalChannel`] and a [`LocalServer`] are on a [driver](crate::driver::Driver) that their user
//! drives, on one thread: without locks, tasks or wake-ups.
//!
//! A client can carry services, which the handlers of its server call
//! ([`Context::caller`](oncrpc::Context::caller)).
//!
//! Arguments and results that are eligible for direct data placement travel in chunks. Who receives
//! one has a share in the memory into which the device has placed it. Who sends one from a buffer of
//! [`Channel::item_buf`](oncrpc::Channel::item_buf) or
//! [`Context::item_buf`](oncrpc::Context::item_buf) sends it from there. An item in other memory is
//! copied once into registered memory.

mod admission;
mod callers;
mod channel_calls;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod config;
mod connections;
mod dispatcher;
mod failure;
mod local_channel;
mod local_event;
mod local_server;
mod message;
#[cfg(feature = "tokio")]
mod outage;
#[cfg(feature = "tokio")]
mod server;
mod services;
#[cfg(feature = "tokio")]
mod thread;
#[cfg(feature = "tokio")]
mod waiter;

#[cfg(feature = "tokio")]
pub use client::{channel, channel_with_services, connect, connect_with_services};
#[cfg(feature = "tokio")]
pub use config::{ClientConfig, ServerConfig};
pub use local_channel::LocalChannel;
pub use local_event::{CompletedCall, LocalEvent};
pub use local_server::LocalServer;
#[cfg(feature = "tokio")]
pub use server::{RunningServer, run_server, serve};
#[cfg(feature = "tokio")]
pub use thread::TransportError;
