//! The transport of `oncrpc` over RDMA: channels and servers.
//!
//! `LocalChannel` and `LocalServer` use a driver that their user drives, on one thread and without
//! locks. `client` and `server` are loops on tokio that own a driver: `client` has its own queue of
//! calls (`channel_calls`), and `server` runs a `LocalServer` on each thread. `dispatcher` runs
//! handlers for servers and for clients with services; `callers` begins backward calls. `message`
//! and `failure` convert the messages and errors of `oncrpc` and of the driver.

mod admission;
mod callers;
mod channel_calls;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod config;
mod connections;
mod dispatcher;
#[cfg(feature = "tokio")]
mod ending;
mod failure;
mod local_channel;
mod local_event;
mod local_server;
mod message;
#[cfg(feature = "tokio")]
mod outage;
#[cfg(feature = "tokio")]
mod placement;
#[cfg(feature = "tokio")]
mod publisher;
mod resolver;
#[cfg(feature = "tokio")]
mod server;
#[cfg(feature = "tokio")]
mod server_builder;
mod services;
#[cfg(feature = "tokio")]
mod thread;
#[cfg(feature = "tokio")]
mod waiter;

#[cfg(feature = "tokio")]
pub use client::{ChannelRunner, channel, channel_with_services, connect, connect_with_services};
#[cfg(feature = "tokio")]
pub use config::{ClientConfig, ServerConfig};
pub use local_channel::LocalChannel;
pub use local_event::{CompletedCall, LocalEvent};
pub use local_server::LocalServer;
pub use resolver::ServerName;
#[cfg(feature = "tokio")]
pub use server::{RunningServer, run_server, serve};
#[cfg(feature = "tokio")]
pub use server_builder::{RunningServers, ServerBuilder};
#[cfg(feature = "tokio")]
pub use thread::TransportError;
