//! The server: it accepts connections, which tasks or threads serve.
//!
//! `control` decides which peers may connect. The order of the end is fixed: the listener closes;
//! the drop of `Open` drains the connections, and a message to each closes it on shutdown; then
//! handlers of lost connections end. `connection` acts on both signals (`Ends`).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::accepted::Accepted;
use super::connection::Ends;
use super::handlers::handlers_end;
use super::server_config::ServerConfig;
use super::threads::Threads;
use crate::control::{ConnectRequest, ServerControl};
use crate::placement::ConnectionPlacement;
use crate::router::{Programs, Router};

/// A server that listens at an address.
#[derive(Debug)]
pub struct Server<P> {
    listener: TcpListener,
    workers: Workers<P>,
    config: ServerConfig,
    control: ServerControl,
    /// The number of the next connection.
    next: u64,
}

/// The tasks or threads that serve the connections.
#[derive(Debug)]
enum Workers<P> {
    /// Tasks of the runtime.
    Tasks(Arc<Router<P>>, JoinSet<()>),
    Threads(Threads),
}

impl<P: Programs> Server<P> {
    /// Listens at an address. Tasks of the runtime serve the connections.
    ///
    /// # Errors
    /// The system's error.
    pub async fn bind(address: impl ToSocketAddrs, router: Router<P>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let workers = Workers::Tasks(Arc::new(router), JoinSet::new());
        Ok(Self::new(listener, workers))
    }

    /// Listens at an address. A number of threads serve the connections, each with a runtime and a
    /// router of its own. A connection stays on its thread. The reply cache of the first router is
    /// that of all.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use oncrpc::{ConnectionPlacement, Router, tcp};
    ///
    /// # async fn example() -> std::io::Result<()> {
    /// let (address, threads) = ("127.0.0.1:0", NonZeroUsize::MIN.saturating_add(3));
    /// let placement = ConnectionPlacement::FewestConnections;
    /// let server = tcp::Server::bind_threads(address, threads, Router::new, placement).await?;
    /// tokio::spawn(server.run());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The system's error.
    pub async fn bind_threads(
        address: impl ToSocketAddrs,
        threads: NonZeroUsize,
        router: impl Fn() -> Router<P>,
        placement: ConnectionPlacement,
    ) -> io::Result<Self> {
        let threads = Threads::start(threads, router, placement)?;
        let listener = TcpListener::bind(address).await?;
        Ok(Self::new(listener, Workers::Threads(threads)))
    }

    fn new(listener: TcpListener, workers: Workers<P>) -> Self {
        Self {
            listener,
            workers,
            config: ServerConfig::new(),
            control: ServerControl::default(),
            next: 0,
        }
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

    /// Serves until a future ends, and then drains: it accepts no connection and no call, answers
    /// the accepted calls, and waits for handlers whose connections were lost, each at most for
    /// [`ServerLimits::handler_time`](crate::ServerLimits::handler_time).
    pub async fn run_until(self, end: impl Future<Output = ()>) {
        self.run_until_shutdown(end, std::future::pending()).await;
    }

    /// Serves until `drain` ends, and then drains as [`run_until`](Self::run_until) does. When
    /// `shutdown` ends, before or during the drain, the server shuts down: it closes all
    /// connections at once, so that calls in flight fail at their clients.
    ///
    /// Handlers that have begun run to their end, as after any loss of a connection, so that none
    /// stops half-way, and the [`ReplyCache`](crate::ReplyCache) has the reply to a call that was
    /// executed. This waits for them, each at most for
    /// [`ServerLimits::handler_time`](crate::ServerLimits::handler_time). Received calls whose
    /// handlers have not begun are not executed.
    ///
    /// ```
    /// use std::future::pending;
    /// use std::time::Duration;
    /// use oncrpc::{Router, tcp};
    ///
    /// # async fn example() -> std::io::Result<()> {
    /// let server = tcp::Server::bind("127.0.0.1:0", Router::new()).await?;
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// let shutdown = async {
    ///     let _ = stopped.await;
    /// };
    /// let running = tokio::spawn(server.run_until_shutdown(pending(), shutdown));
    /// drop(stop);
    /// running.await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(example())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run_until_shutdown(
        mut self,
        drain: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) {
        let mut open = Open::default();
        let (mut drain, mut shutdown) = (pin!(drain), pin!(shutdown));
        let is_shut_down = loop {
            tokio::select! {
                () = &mut shutdown => break true,
                () = &mut drain => break false,
                accepted = self.listener.accept() => {
                    if let Err(error) = self.accept(accepted, &mut open) {
                        pause(error).await;
                    }
                }
                () = self.workers.task_ended() => {}
            }
        };
        drop(self.listener);
        let mut ended = pin!(self.workers.end());
        let open = open.drain();
        if !is_shut_down {
            tokio::select! {
                () = &mut ended => return,
                () = &mut shutdown => {}
            }
        }
        shut_down(open);
        ended.await;
    }

    /// Begins to serve a connection, if its peer may connect.
    fn accept(
        &mut self,
        accepted: io::Result<(TcpStream, SocketAddr)>,
        open: &mut Open,
    ) -> io::Result<()> {
        let (stream, address) = accepted?;
        match self.admit(address, open) {
            Some(accepted) => self.workers.serve(stream, accepted),
            None => Ok(()),
        }
    }

    /// Admits a peer. Returns `None` if it may not connect; the reason is logged and counted.
    fn admit(&mut self, address: SocketAddr, open: &mut Open) -> Option<Accepted> {
        let request = ConnectRequest::new(address, "tcp", &[]);
        let permit = self.control.admit(&request).ok()?;
        let number = self.next;
        self.next += 1;
        Some(Accepted {
            address,
            number,
            permit,
            config: self.config.clone(),
            ends: open.add(),
        })
    }
}

impl<P: Programs> Workers<P> {
    /// Serves a connection.
    fn serve(&mut self, stream: TcpStream, accepted: Accepted) -> io::Result<()> {
        match self {
            Self::Tasks(router, tasks) => {
                tasks.spawn(accepted.serve(Ok(stream), router.clone()));
            }
            Self::Threads(threads) => threads.serve(stream.into_std()?, accepted),
        }
        Ok(())
    }

    /// Waits for the end of a task. Resolves if there is one.
    async fn task_ended(&mut self) {
        match self {
            Self::Tasks(_, tasks) if !tasks.is_empty() => {
                tasks.join_next().await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Waits until all connections have ended.
    async fn end(self) {
        match self {
            Self::Tasks(router, mut tasks) => {
                while tasks.join_next().await.is_some() {}
                handlers_end(&router).await;
            }
            Self::Threads(threads) => threads.end().await,
        }
    }
}

/// The open connections. Dropping this informs them that the server drains.
#[derive(Default)]
struct Open {
    connections: Vec<OpenConnection>,
    /// The size at which ended tasks are removed.
    sweep_at: usize,
}

/// The server's end of a connection: dropping the first sender drains the connection, and a message
/// of the second closes it.
struct OpenConnection {
    drain: oneshot::Sender<()>,
    shutdown: oneshot::Sender<()>,
}

impl Open {
    fn add(&mut self) -> Ends {
        if self.connections.len() >= self.sweep_at {
            self.connections
                .retain(|connection| !connection.drain.is_closed());
            self.sweep_at = 2 * self.connections.len() + 64;
        }
        let (drain, drains) = oneshot::channel();
        let (shutdown, shuts_down) = oneshot::channel();
        self.connections.push(OpenConnection { drain, shutdown });
        Ends { drains, shuts_down }
    }

    /// Drains the connections. Returns the senders that close them.
    fn drain(self) -> Vec<oneshot::Sender<()>> {
        let connections = self.connections.into_iter();
        connections.map(|connection| connection.shutdown).collect()
    }
}

/// Closes connections. Some may have ended.
fn shut_down(connections: Vec<oneshot::Sender<()>>) {
    for connection in connections {
        let _ = connection.send(());
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
