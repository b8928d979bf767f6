//! The transport of `oncrpc` over RDMA: channels and servers.

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
