//! One server at several addresses: over RDMA and over TCP.
//!
//! The settings are read at `start`, so their order does not matter. All addresses must share one
//! control and one reply cache, or a client gets the limits once per address, and a call that is
//! retransmitted to another address may be executed twice. `rpc_transport::server` and
//! `oncrpc::tcp` serve the addresses.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use ::tokio::task::{JoinHandle, spawn_blocking};
use ::tokio::time::timeout;
use oncrpc::{
    ConnectionPlacement, LocalPrograms, Programs, ReplyCache, Router, ServerControl, tcp,
};

use super::config::ServerConfig;
use super::ending::{Ending, ServerState};
use super::server::{RouterMaker, RunningServer, serve_on_threads};
use super::thread::TransportError;
use crate::memory::Budget;
use crate::provider::Device;

/// A server that offers the same services at several addresses, over RDMA and over TCP.
///
/// The limits of its clients hold over all addresses and threads together, and there is one reply
/// cache.
///
/// ```
/// use oncrpc::Router;
/// use rpcrdma_verbs::ServerBuilder;
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Fabric::new().device();
/// // The router is made for each thread and address, with clones of the services.
/// let server = ServerBuilder::new(Router::new)
///     .rdma(&device, "127.0.0.1:0".parse()?)
///     .tcp("127.0.0.1:0".parse()?)
///     .start()
///     .await?;
/// for address in server.local_addrs() {
///     println!("{address}");
/// }
/// server.drain().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing until it is started"]
pub struct ServerBuilder<P> {
    router: Arc<dyn Fn() -> Router<P> + Send + Sync>,
    reply_cache: ReplyCache,
    control: ServerControl,
    config: ServerConfig,
    tcp_config: tcp::ServerConfig,
    threads: Option<NonZeroUsize>,
    placement: ConnectionPlacement,
    listeners: Vec<Listener<P>>,
}

/// Starts the server at an address over RDMA.
type Start<P> = dyn FnOnce(&ServerBuilder<P>) -> Result<RunningServer, TransportError> + Send;

/// Starts the server at an address over TCP. It ends with the state.
type StartTcp<P> = dyn FnOnce(&ServerBuilder<P>, Ending) -> StartingTcp + Send;

/// Resolves to the address, and the task that serves it.
type StartingTcp =
    Pin<Box<dyn Future<Output = Result<(SocketAddr, JoinHandle<()>), TransportError>> + Send>>;

/// An address, by its transport.
enum Listener<P> {
    Rdma(Box<Start<P>>),
    Tcp(Box<StartTcp<P>>),
}

impl<P: LocalPrograms> ServerBuilder<P> {
    /// Creates a server of the routers that a function returns, one for each thread and address.
    /// They usually contain clones of the same services.
    ///
    /// Over RDMA each router is created on the thread that serves it, and stays there. Its services
    /// need not be `Send` (`LocalService` in generated code): each thread may have a service of its
    /// own, without a lock. Over TCP the services must be `Send`.
    pub fn new(router: impl Fn() -> Router<P> + Send + Sync + 'static) -> Self {
        Self {
            router: Arc::new(router),
            reply_cache: ReplyCache::default(),
            control: ServerControl::default(),
            config: ServerConfig::new(),
            tcp_config: tcp::ServerConfig::new(),
            threads: None,
            placement: ConnectionPlacement::RoundRobin,
            listeners: Vec::new(),
        }
    }

    /// Sets the number of threads for each address. Each has a router and its connections, over
    /// RDMA also a driver. A short call whose handler does not wait shares nothing with other
    /// threads but a part of the reply cache, if it is not idempotent. The memory limit of the
    /// settings is for all threads together. By default, an address over RDMA has one thread, and
    /// over TCP tasks of the runtime serve, with one router.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets the placement of connections on the threads of each address.
    pub fn placement(mut self, placement: ConnectionPlacement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the control: the admission of peers, and the limits.
    pub fn control(mut self, control: &ServerControl) -> Self {
        self.control = control.clone();
        self
    }

    /// Sets the reply cache: a [`ReplyCacheConfig`](oncrpc::ReplyCacheConfig), or a cache that
    /// several servers share. A router with a [cache of its own](Router::reply_cache) keeps that.
    pub fn reply_cache(mut self, cache: impl Into<ReplyCache>) -> Self {
        self.reply_cache = cache.into();
        self
    }

    /// Sets the settings over RDMA. Their control is ignored.
    pub fn rdma_config(mut self, config: ServerConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the settings over TCP.
    pub fn tcp_config(mut self, config: tcp::ServerConfig) -> Self {
        self.tcp_config = config;
        self
    }

    /// Adds an address over RDMA, which its own [threads](Self::threads) serve; port 0 selects a
    /// free port.
    pub fn rdma<D: Device>(mut self, device: &D, address: SocketAddr) -> Self {
        let device = device.clone();
        self.listeners
            .push(Listener::Rdma(Box::new(move |server: &Self| {
                let config = server.config.clone().control(&server.control);
                let threads = server.threads.map_or(1, NonZeroUsize::get);
                let routers = (0..threads).map(|_| server.router_maker()).collect();
                let placement = server.placement.clone();
                serve_on_threads(&device, address, &config, routers, placement)
            })));
        self
    }

    /// Returns a function that creates a router with the server's reply cache.
    fn router_maker(&self) -> RouterMaker<P> {
        let (router, cache) = (self.router.clone(), self.reply_cache.clone());
        Box::new(move || router().default_reply_cache(cache))
    }

    /// Listens at all addresses, and serves.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or an address is not available. Then no address is
    /// served.
    pub async fn start(mut self) -> Result<RunningServers, TransportError> {
        let mut running = RunningServers {
            addresses: Vec::new(),
            rdma: Vec::new(),
            ending: Ending::new(),
            tcp: Vec::new(),
        };
        for listener in std::mem::take(&mut self.listeners) {
            match listener {
                Listener::Rdma(start) => {
                    let server = start(&self)?;
                    running.addresses.push(server.local_addr());
                    running.rdma.push(server);
                }
                Listener::Tcp(start) => {
                    let (address, task) = start(&self, running.ending.clone()).await?;
                    running.addresses.push(address);
                    running.tcp.push(task);
                }
            }
        }
        Ok(running)
    }
}

impl<P: Programs + LocalPrograms> ServerBuilder<P> {
    /// Adds an address over TCP, which its own [threads](Self::threads) or tasks of the runtime
    /// serve; port 0 selects a free port.
    pub fn tcp(mut self, address: SocketAddr) -> Self {
        self.listeners
            .push(Listener::Tcp(Box::new(move |server: &Self, ending| {
                Box::pin(server.start_tcp(address, ending))
            })));
        self
    }

    /// Returns the start of the server at an address over TCP.
    fn start_tcp(
        &self,
        address: SocketAddr,
        ending: Ending,
    ) -> impl Future<Output = Result<(SocketAddr, JoinHandle<()>), TransportError>> + Send + use<P>
    {
        let (make, cache) = (self.router.clone(), self.reply_cache.clone());
        let router = move || make().default_reply_cache(cache.clone());
        let (threads, placement) = (self.threads, self.placement.clone());
        let (control, config) = (self.control.clone(), self.tcp_config.clone());
        async move {
            let bound = match threads {
                None => tcp::Server::bind(address, router()).await,
                Some(threads) => {
                    tcp::Server::bind_threads(address, threads, router, placement).await
                }
            };
            let server = bound.map_err(|error| {
                let text = format!("{address}: {error}");
                TransportError::System(std::io::Error::new(error.kind(), text))
            })?;
            let server = server.control(&control).config(config);
            let (drain, shutdown) = ending.futures();
            let address = server.local_addr()?;
            let task = ::tokio::spawn(server.run_until_shutdown(drain, shutdown));
            Ok((address, task))
        }
    }
}

impl<P> fmt::Debug for ServerBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("config", &self.config)
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}

/// A server at several addresses. Dropping it drains the server: it accepts no more connections,
/// and answers its calls.
#[derive(Debug)]
pub struct RunningServers {
    addresses: Vec<SocketAddr>,
    rdma: Vec<RunningServer>,
    /// The state of the servers over TCP.
    ending: Ending,
    tcp: Vec<JoinHandle<()>>,
}

impl RunningServers {
    /// Returns the addresses, in the order in which they were added.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the budgets of the registered memory of the addresses over RDMA, in order; see
    /// [`RunningServer::budget`].
    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.rdma.iter().map(RunningServer::budget)
    }

    /// Drains the server at all addresses, and waits until it has drained.
    ///
    /// # Errors
    /// The server has failed at one of them.
    pub async fn drain(self) -> Result<(), TransportError> {
        self.end(RunningServer::drain, ServerState::Draining).await
    }

    /// Drains the server as [`drain`](Self::drain) does, and shuts it down if it has not drained
    /// after this time.
    ///
    /// # Errors
    /// The server has failed at one of its addresses.
    pub async fn drain_within(self, time: Duration) -> Result<(), TransportError> {
        let rdma = self.rdma.iter().map(RunningServer::ending);
        let all: Vec<_> = rdma.chain([self.ending.clone()]).collect();
        let mut drained = pin!(self.drain());
        if let Ok(drained) = timeout(time, &mut drained).await {
            return drained;
        }
        for server in all {
            server.set(ServerState::ShuttingDown);
        }
        drained.await
    }

    /// Shuts the server down at all addresses, and waits until it has ended: it closes all
    /// connections at once, so that calls in flight fail at their clients. Handlers that have begun
    /// run to their end, as for [`RunningServer::shutdown`].
    ///
    /// # Errors
    /// The server has failed at one of its addresses.
    pub async fn shutdown(self) -> Result<(), TransportError> {
        let state = ServerState::ShuttingDown;
        self.end(RunningServer::shutdown, state).await
    }

    async fn end(
        self,
        end: fn(RunningServer) -> Result<(), TransportError>,
        state: ServerState,
    ) -> Result<(), TransportError> {
        self.ending.set(state);
        // All addresses end at once: each begins before the first wait.
        let rdma: Vec<_> = self
            .rdma
            .into_iter()
            .map(|server| spawn_blocking(move || end(server)))
            .collect();
        for task in self.tcp {
            task.await.map_err(std::io::Error::other)?;
        }
        for server in rdma {
            server.await.map_err(std::io::Error::other)??;
        }
        Ok(())
    }
}
