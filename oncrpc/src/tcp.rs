//! ONC RPC over TCP (RFC 5531, section 11).
//!
//! ```
//! use std::time::Duration;
//! use oncrpc::{Router, tcp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = tcp::Server::bind("127.0.0.1:0", Router::new()).await?;
//! let address = server.local_addr()?.to_string();
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let running = tokio::spawn(server.run_until(async {
//!     let _ = stopped.await;
//! }));
//!
//! let config = tcp::ClientConfig::new().connect_timeout(Duration::from_secs(2));
//! let channel = tcp::connect_with(&address, config).await?;
//! // Calls are made here. Then both ends drain.
//! channel.drain();
//! drop(stop);
//! running.await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`connect`] returns a [`Channel`](crate::Channel) to a server. [`Server`] offers a
//! [`Router`](crate::Router).

mod accepted;
mod backward;
mod client;
mod connection;
mod dial;
mod handlers;
mod outbox;
mod record;
mod sending;
mod server;
mod server_config;
mod threads;

pub use client::{
    ClientConfig, channel, channel_with_services, connect, connect_with, connect_with_services,
};
pub use server::Server;
pub use server_config::ServerConfig;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The default maximum size of a record in bytes: an NFS WRITE of 1 MiB fits.
pub(crate) const MAX_RECORD: usize = 4 << 20;
/// The default idle time before TCP keep-alive probes the peer.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(60);

/// The time between probes of a peer that does not answer, and their number.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;

/// Sets the socket options that both ends use. A connection is lost if its peer answers no probe.
fn set_options(stream: &TcpStream, keepalive: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(time) = keepalive {
        let keepalive = TcpKeepalive::new().with_time(time);
        let keepalive = keepalive.with_interval(PROBE_INTERVAL).with_retries(PROBES);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

/// Polls a future once. Its callers drop only futures that lose nothing then, such as those of
/// `Submissions::event` and `Outbox::write`.
async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
