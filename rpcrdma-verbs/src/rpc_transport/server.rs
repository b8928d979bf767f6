//! A server: a router on one thread, or on several.
//!
//! A `Core` is the loop of one thread around a `LocalServer`. Only the first `Core` listens, and
//! has the acceptor. Threads share the budget, the control and the state (`ending`). Each turn must
//! `tell` the acceptor the number of connections, by which `placement` chooses threads. Each source
//! of work must be awaited in the `select!`, wake the driver, or be in `timeout`.

use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::thread::JoinHandle;

use oncrpc::{ConnectionPlacement, LocalPrograms, Router};

use super::config::ServerConfig;
use super::connections::STOPPING;
use super::ending::{Ending, ServerState};
use super::local_server::LocalServer;
use super::placement::{Acceptor, Inlet, acceptor, acceptor_of_one};
use super::publisher::Publisher;
use super::thread::{TransportError, logged, spawn_thread};
use super::waiter::{Turns, Waiter, polled};
use crate::driver::{Driver, ListenerHandle};
use crate::memory::Budget;
use crate::provider::Device;

/// A server on threads of its own. Dropping it drains the server: it accepts no more connections,
/// and answers its calls.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    ending: Ending,
    threads: Vec<JoinHandle<Result<(), TransportError>>>,
    budget: Budget,
}

impl RunningServer {
    /// Returns the address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the budget of the server's registered memory ([`ServerConfig::memory`]), which all
    /// threads share. [`Budget::refused`] counts how often the limit was reached.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Drains the server, and waits until it has drained.
    ///
    /// # Errors
    /// The server, or one of its threads, has failed.
    pub fn drain(self) -> Result<(), TransportError> {
        self.end(ServerState::Draining)
    }

    /// Shuts the server down, and waits until it has ended: it closes all connections at once, so
    /// that calls in flight fail at their clients.
    ///
    /// Handlers that have begun run to their end, as after any loss of a connection, so that none
    /// stops half-way, and the [`ReplyCache`](oncrpc::ReplyCache) has the reply to a call that was
    /// executed. This waits for them, each at most for
    /// [`ServerLimits::handler_time`](oncrpc::ServerLimits::handler_time). Received calls whose
    /// handlers have not begun are not executed.
    ///
    /// # Errors
    /// The server, or one of its threads, has failed.
    pub fn shutdown(self) -> Result<(), TransportError> {
        self.end(ServerState::ShuttingDown)
    }

    fn end(self, state: ServerState) -> Result<(), TransportError> {
        self.ending.set(state);
        // All threads end at once. This waits for each, even if another has failed.
        let ended: Vec<_> = self.threads.into_iter().map(joined).collect();
        ended.into_iter().collect()
    }

    /// Returns a handle to the state of the threads.
    pub(super) fn ending(&self) -> Ending {
        self.ending.clone()
    }

    /// Starts one more thread, and waits until it serves. The first thread gets the acceptor.
    fn start_thread<D: Device, P: LocalPrograms>(
        &mut self,
        device: &D,
        config: &ServerConfig,
        requests: (Option<Acceptor<D>>, Inlet<D>),
        router: RouterMaker<P>,
    ) -> Result<(), TransportError> {
        let (drain, shutdown) = self.ending.futures();
        let (bound, binding) = std::sync::mpsc::channel();
        let mut config = config.clone();
        if let Some(name) = &mut config.metrics_name {
            *name = format!("{name}-{}", self.threads.len());
        }
        let parts = (device.clone(), self.budget.clone(), config, self.address);
        let thread = spawn_thread("rpcrdma-server", move || async move {
            let (device, budget, config, address) = parts;
            // The caller gets this error.
            let core = Core::new(&device, &budget, config, address, requests, router())?;
            // The caller waits for it.
            let _ = bound.send(core.server.local_addr());
            logged(core.run(drain, shutdown)).await
        })?;
        match binding.recv() {
            Ok(address) => {
                self.address = address;
                self.threads.push(thread);
                Ok(())
            }
            Err(_) => joined(thread).and(Err(
                std::io::Error::other("the server's thread ended").into()
            )),
        }
    }
}

/// Waits for the end of a thread.
fn joined(thread: JoinHandle<Result<(), TransportError>>) -> Result<(), TransportError> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err(std::io::Error::other("the server's thread panicked").into()))
}

/// Creates the router of a thread, on that thread.
pub(super) type RouterMaker<P> = Box<dyn FnOnce() -> Router<P> + Send>;

/// Serves a router at an address, on a thread of its own, on which `router` creates the router.
///
/// A [`ServerBuilder`](crate::ServerBuilder) serves on several threads, and at several addresses.
///
/// # Errors
/// Fails if the settings are invalid or the address is not available.
pub fn serve<D: Device, P: LocalPrograms>(
    device: &D,
    address: SocketAddr,
    config: ServerConfig,
    router: impl FnOnce() -> Router<P> + Send + 'static,
) -> Result<RunningServer, TransportError> {
    let routers: Vec<RouterMaker<P>> = vec![Box::new(router)];
    serve_on_threads(
        device,
        address,
        &config,
        routers,
        ConnectionPlacement::RoundRobin,
    )
}

/// Serves at an address on as many threads as there are routers, which share the memory.
pub(super) fn serve_on_threads<D: Device, P: LocalPrograms>(
    device: &D,
    address: SocketAddr,
    config: &ServerConfig,
    routers: Vec<RouterMaker<P>>,
    placement: ConnectionPlacement,
) -> Result<RunningServer, TransportError> {
    let mut config = config.clone();
    let control = config.control.get_or_insert_default();
    let (acceptor, inlets) = acceptor(routers.len(), placement, control);
    let mut acceptor = Some(acceptor);
    let mut server = RunningServer {
        address,
        ending: Ending::new(),
        threads: Vec::new(),
        budget: Budget::new(config.memory),
    };
    for (router, inlet) in routers.into_iter().zip(inlets) {
        let requests = (acceptor.take(), inlet);
        if let Err(error) = server.start_thread(device, &config, requests, router) {
            // The other threads end before this returns, so that the caller may try again.
            return server.drain().and(Err(error));
        }
    }
    Ok(server)
}

/// Serves a router at an address until a future ends, and then drains. `bound` gets the address
/// once the server listens.
///
/// # Errors
/// Fails if the settings are invalid, if the address is not available, or if the driver cannot
/// continue.
pub async fn run_server<D: Device, P: LocalPrograms>(
    device: &D,
    address: SocketAddr,
    mut config: ServerConfig,
    router: Router<P>,
    bound: impl FnOnce(SocketAddr),
    until: impl Future<Output = ()>,
) -> Result<(), TransportError> {
    let budget = Budget::new(config.memory);
    let (acceptor, inlet) = acceptor_of_one(config.control.get_or_insert_default());
    let requests = (Some(acceptor), inlet);
    let core = Core::new(device, &budget, config, address, requests, router)?;
    bound(core.server.local_addr());
    core.run(until, pending()).await
}

/// One thread of a server: a driver, and the connections that are placed on it.
struct Core<D: Device, P> {
    driver: Driver<D>,
    server: LocalServer<P>,
    waiter: Waiter,
    publisher: Publisher,
    /// The thread's listener, to which requests are passed.
    listener: ListenerHandle,
    inlet: Inlet<D>,
    /// The acceptor, which listens at the address; the first thread has it.
    acceptor: Option<(ListenerHandle, Acceptor<D>)>,
}

impl<D: Device, P: LocalPrograms> Core<D, P> {
    fn new(
        device: &D,
        budget: &Budget,
        config: ServerConfig,
        mut address: SocketAddr,
        (acceptor, inlet): (Option<Acceptor<D>>, Inlet<D>),
        router: Router<P>,
    ) -> Result<Self, TransportError> {
        let mut driver = Driver::new(device, budget, config.completions)?;
        driver.set_spin(config.spin);
        let max_calls = config.protocol.max_calls;
        let acceptor = match acceptor {
            Some(acceptor) => {
                let listener = driver.listen(address, config.protocol.clone())?;
                address = listener.address();
                Some((listener, acceptor))
            }
            None => None,
        };
        let listener = driver.listen_behind(address, config.protocol)?;
        let mut server = LocalServer::at(&driver, listener, max_calls, router);
        server.control(&config.control.unwrap_or_default());
        Ok(Self {
            waiter: Waiter::new(&driver)?,
            publisher: Publisher::new(config.metrics_name),
            driver,
            server,
            listener,
            inlet,
            acceptor,
        })
    }

    /// Serves until one of these futures ends, and then drains or shuts down.
    async fn run(
        mut self,
        drain: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), TransportError> {
        let (mut drain, mut shutdown) = (pin!(drain), pin!(shutdown));
        let (mut state, mut turns) = (ServerState::Serving, Turns::default());
        loop {
            let mut busy = self.driver.turn()? + self.take_requests();
            busy += poll_fn(|cx| Poll::Ready(self.server.poll(&mut self.driver, cx))).await;
            let undecided = self.driver.waiting_requests(self.listener);
            self.inlet.tell(self.server.connections().len() + undecided);
            if state > ServerState::Serving && self.server.is_drained() {
                return Ok(());
            }
            self.publisher.turn(&self.driver);
            if self.driver.looks_for_work(busy) {
                // A server that never sleeps ends, too.
                if turns.end(busy > 0).await {
                    let changed = pin!(state.changed(drain.as_mut(), shutdown.as_mut()));
                    if let Poll::Ready(next) = polled(changed).await {
                        state = next;
                        self.enter(state);
                    }
                }
                continue;
            }
            self.driver.arm()?;
            if self.driver.turn()? > 0 {
                continue;
            }
            let timeout = self.server.timeout(&self.driver);
            let timeout = self.publisher.before_sleep(&self.driver, timeout);
            ::tokio::select! {
                () = poll_fn(|cx| match self.server.poll(&mut self.driver, cx) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(()),
                }) => {}
                ready = self.waiter.wait(timeout) => ready?,
                request = self.inlet.next(), if state == ServerState::Serving => {
                    self.inlet.hand_over(&mut self.driver, self.listener, request);
                }
                next = state.changed(drain.as_mut(), shutdown.as_mut()) => {
                    state = next;
                    self.enter(state);
                }
            }
            self.driver.acknowledge()?;
            self.driver.has_slept();
        }
    }

    /// Places requests to connect, and takes those of this thread. Returns their number.
    fn take_requests(&mut self) -> usize {
        let mut count = 0;
        if let Some((listener, acceptor)) = &mut self.acceptor {
            count += acceptor.place(&mut self.driver, *listener);
        }
        count + self.inlet.take(&mut self.driver, self.listener)
    }

    /// Accepts no more connections, and drains or closes those that are open.
    fn enter(&mut self, state: ServerState) {
        if let Some((listener, _)) = self.acceptor.take() {
            while let Some(request) = self.driver.next_request(listener) {
                self.driver.reject(request, STOPPING);
            }
            self.driver.unlisten(listener);
        }
        self.inlet.close(&mut self.driver);
        match state {
            ServerState::ShuttingDown => self.server.shutdown(&mut self.driver),
            ServerState::Serving | ServerState::Draining => self.server.drain(&mut self.driver),
        }
    }
}
