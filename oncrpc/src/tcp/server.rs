//! The server: a task for each connection.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::backward::Backward;
use super::connection::Connection;
use super::handlers::Handlers;
use super::{KEEPALIVE, MAX_RECORD, set_options};
use crate::caller::CallerChannel;
use crate::control::{ConnectRequest, ServerControl};
use crate::router::{Programs, Router};
use crate::service::Peer;

/// Settings of a server's connections. [`ServerLimits`](crate::ServerLimits) has the limits.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    max_record: usize,
    max_backward_calls: usize,
    keepalive: Option<Duration>,
}

impl ServerConfig {
    /// Returns the default settings: messages of up to 4 MiB, 64 backward calls in flight at each
    /// connection, and a keep-alive after 60 quiet seconds.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_record: MAX_RECORD,
            max_backward_calls: 64,
            keepalive: Some(KEEPALIVE),
        }
    }

    /// Sets the maximum size in bytes of a call and of a reply to a backward call. A larger one
    /// closes its connection.
    #[must_use]
    pub const fn max_record(self, max_record: usize) -> Self {
        Self { max_record, ..self }
    }

    /// Sets the maximum number of backward calls to one client in flight ([`Context::caller`]). Up
    /// to 128 more are queued, and further calls fail. It must not exceed the client's maximum
    /// ([`ClientConfig::max_served`](super::ClientConfig::max_served)).
    ///
    /// [`Context::caller`]: crate::Context::caller
    #[must_use]
    pub const fn max_backward_calls(self, max_backward_calls: usize) -> Self {
        Self {
            max_backward_calls,
            ..self
        }
    }

    /// Sets the idle time before a connection is probed; `None` disables probes.
    #[must_use]
    pub const fn keepalive(self, keepalive: Option<Duration>) -> Self {
        Self { keepalive, ..self }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// A server that listens at an address.
#[derive(Debug)]
pub struct Server<P> {
    router: Arc<Router<P>>,
    listener: TcpListener,
    config: ServerConfig,
    control: ServerControl,
    /// The number of the next connection.
    next: AtomicU64,
}

impl<P: Programs> Server<P> {
    /// Listens at an address.
    ///
    /// # Errors
    /// The system's error.
    pub async fn bind(address: impl ToSocketAddrs, router: Router<P>) -> io::Result<Self> {
        Ok(Self {
            router: Arc::new(router),
            listener: TcpListener::bind(address).await?,
            config: ServerConfig::new(),
            control: ServerControl::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Sets the settings.
    #[must_use]
    pub fn config(self, config: ServerConfig) -> Self {
        Self { config, ..self }
    }

    /// Sets the control: the admission of peers, and the limits.
    #[must_use]
    pub fn control(self, control: &ServerControl) -> Self {
        Self {
            control: control.clone(),
            ..self
        }
    }

    /// Returns the address.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever.
    pub async fn run(self) {
        self.run_until(std::future::pending()).await;
    }

    /// Serves until a future ends, and then drains: it accepts no connection and no call, and
    /// answers the accepted calls.
    pub async fn run_until(self, end: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut open = Open::default();
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        let ended = open.add();
                        if let Some(connection) = self.connection(stream, address, ended) {
                            connections.spawn(connection);
                        }
                    }
                    Err(error) => pause(error).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        drop(open);
        while connections.join_next().await.is_some() {}
    }

    /// Returns the future that serves a connection; `None` if the peer may not connect.
    fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        drains: oneshot::Receiver<()>,
    ) -> Option<impl Future<Output = ()> + use<P>> {
        let request = ConnectRequest::new(address, "tcp", &[]);
        // The reason is logged and counted.
        let permit = self.control.admit(&request).ok()?;
        let number = self.next.fetch_add(1, Relaxed);
        let (caller, submissions) = CallerChannel::new(number, address.to_string(), None);
        let peer = Arc::new(Peer {
            address: Some(address),
            transport: "tcp",
            memory: None,
            caller: Ok(caller.clone()),
            status: None,
        });
        let config = self.config.clone();
        let backward = Backward::new(caller, submissions, config.max_backward_calls);
        let handlers = Handlers::new(self.router.clone(), peer.clone());
        let connection = Connection::new(handlers, backward, permit, config.max_record);
        Some(async move {
            tracing::info!(%peer, "connected");
            let ended = match set_options(&stream, config.keepalive) {
                Ok(()) => connection.run(stream, drains).await,
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => tracing::info!(%peer, "connection closed"),
                Err(error) => tracing::info!(%peer, %error, "connection lost"),
            }
        })
    }
}

/// Dropping this informs the connections that the server drains.
#[derive(Default)]
struct Open {
    connections: Vec<oneshot::Sender<()>>,
    /// The size at which ended tasks are removed.
    sweep_at: usize,
}

impl Open {
    fn add(&mut self) -> oneshot::Receiver<()> {
        if self.connections.len() >= self.sweep_at {
            self.connections
                .retain(|connection| !connection.is_closed());
            self.sweep_at = 2 * self.connections.len() + 64;
        }
        let (sender, receiver) = oneshot::channel();
        self.connections.push(sender);
        receiver
    }
}

/// Waits after a failure to accept, unless the connection itself caused it.
async fn pause(error: io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if [ConnectionAborted, ConnectionReset, Interrupted].contains(&error.kind()) {
        return;
    }
    // Too many open files, for example, which passes when a connection ends.
    tracing::warn!(%error, "can't accept");
    tokio::time::sleep(Duration::from_millis(100)).await;
}
