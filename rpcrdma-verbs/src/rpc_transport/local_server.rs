//! A server on a driver that its user drives.
//!
//! `LocalServer` passes each event to its owner: `connections` (peers), `admission` (limits),
//! `dispatcher` (handlers) or `callers` (backward calls). `poll` must call `callers` last, since
//! handlers make callers ready. A call of a closed connection must not begin. `serve` flushes the
//! replies; after `poll`, as in `rpc_transport::server`, the next turn sends them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
#[cfg(feature = "tokio")]
use std::time::Duration;

use oncrpc::{LocalPrograms, Router};
use rpcrdma_proto::connection::Config;

#[cfg(feature = "tokio")]
use super::admission::Admission;
use super::admission::{ArrivedCall, Client, Permit};
use super::callers::Callers;
use super::connections::Connections;
use super::dispatcher::{Dispatcher, Handler, Incoming, LocalSource};
use super::local_channel::LocalChannel;
use super::message::RegisteredMemory;
use crate::driver::{ConnectionId, Driver, DriverError, DriverEvent, ListenerHandle};
use crate::provider::Device;

/// A server at one address, on a driver that its user drives: no locks, no tasks.
///
/// It polls each handler once in place. It keeps only handlers that wait, and polls them again when
/// they are woken.
///
/// ```
/// use oncrpc::Router;
/// use rpcrdma_verbs::driver::Driver;
/// use rpcrdma_verbs::memory::Budget;
/// use rpcrdma_verbs::provider::software::Fabric;
/// use rpcrdma_proto::connection::Config;
/// use rpcrdma_verbs::LocalServer;
/// use std::time::Duration;
///
/// let mut driver = Driver::new(&Fabric::new().device(), &Budget::new(64 << 20), 1024)?;
/// let address = "192.0.2.1:20049".parse()?;
/// let mut server = LocalServer::bind(&mut driver, address, Config::server(), Router::new())?;
/// for _ in 0..3 {
///     driver.wait(Duration::from_millis(10))?;
///     server.serve(&mut driver);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalServer<P> {
    connections: Connections,
    dispatcher: Dispatcher<LocalSource<P>, dyn Handler>,
    callers: Callers,
    /// Wakes the driver.
    waker: Waker,
    arrived: Vec<ArrivedCall>,
    /// The connections with calls that wait for the limits.
    blocked: Vec<ConnectionId>,
}

impl<P: LocalPrograms> LocalServer<P> {
    /// Listens at an address; port 0 selects a free port.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or the address is not available.
    pub fn bind<D: Device>(
        driver: &mut Driver<D>,
        address: SocketAddr,
        config: Config,
        router: Router<P>,
    ) -> Result<Self, DriverError> {
        let max_calls = config.max_calls;
        let listener = driver.listen(address, config)?;
        Ok(Self::at(driver, listener, max_calls, router))
    }

    /// Serves the connections of a listener, whose clients serve this number of backward calls.
    pub(super) fn at<D: Device>(
        driver: &Driver<D>,
        listener: ListenerHandle,
        max_calls: u16,
        router: Router<P>,
    ) -> Self {
        let memory = Arc::new(RegisteredMemory(driver.pool().clone()));
        Self {
            connections: Connections::new(listener),
            dispatcher: Dispatcher::new(LocalSource::new(router)),
            callers: Callers::new(memory, max_calls),
            waker: driver.waker(),
            arrived: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// Sets the control: the admission of peers, and the limits, for connections from now on. A
    /// rejected peer receives the reason. Servers with the same control share the limits, over TCP,
    /// too. Without a control every peer is admitted, and there are no limits beside those of
    /// [`Config`] and of the driver's memory. No runtime is needed.
    ///
    /// ```
    /// # use oncrpc::{Limit, Router, ServerControl, ServerLimits};
    /// # use rpcrdma_verbs::driver::Driver;
    /// # use rpcrdma_verbs::memory::Budget;
    /// # use rpcrdma_verbs::provider::software::Fabric;
    /// # use rpcrdma_proto::connection::Config;
    /// # use rpcrdma_verbs::LocalServer;
    /// # let mut driver = Driver::new(&Fabric::new().device(), &Budget::new(64 << 20), 1024)?;
    /// # let address = "192.0.2.1:20049".parse()?;
    /// let mut server = LocalServer::bind(&mut driver, address, Config::server(), Router::new())?;
    /// let control = ServerControl::new(ServerLimits::new().max_connections(100));
    /// server.control(&control);
    /// assert_eq!(control.stats().reached(Limit::Connections), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn control(&mut self, control: &oncrpc::ServerControl) {
        self.connections.admit_by(Admission::By(control.clone()));
    }

    /// Returns the address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.connections.address()
    }

    /// Returns the connections.
    #[must_use]
    pub fn connections(&self) -> &[ConnectionId] {
        self.connections.ids()
    }

    /// Returns a backward channel to the client of a connection
    /// ([`Context::connection`](oncrpc::Context::connection)), for calls on the server's driver;
    /// `None` if the connection is closed. Clones share their events. Calls can begin once a
    /// handler has taken the caller ([`Context::caller`](oncrpc::Context::caller)), and their ends
    /// are handled when the server is served.
    #[must_use]
    pub fn caller<D: Device>(&self, connection: u64) -> Option<LocalChannel<D>> {
        let (id, caller) = self.callers.local(connection)?;
        Some(LocalChannel::backward(id, caller))
    }

    /// Serves the messages since the driver's last turn, and sends the replies. Returns the amount
    /// of work done. A waiting handler wakes the driver.
    pub fn serve<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        let waker = self.waker.clone();
        let count = self.poll(driver, &mut Context::from_waker(&waker));
        if count > 0 {
            driver.flush();
        }
        count
    }

    /// Serves as [`serve`](Self::serve) does, for a task: a waiting handler wakes the task. The
    /// driver's next turn sends the replies.
    pub fn poll<D: Device>(&mut self, driver: &mut Driver<D>, cx: &mut Context<'_>) -> usize {
        let taken = self.take_events(driver, cx);
        let served = self.dispatcher.poll(driver, cx) + self.begin_blocked(driver, cx);
        // The handlers have taken the callers that are ready for calls.
        taken + served + self.callers.poll(driver, cx)
    }

    /// Closes a connection at once. Its calls get no reply, and calls to its client fail. The
    /// client may reconnect.
    pub fn disconnect<D: Device>(&mut self, driver: &mut Driver<D>, connection: ConnectionId) {
        let callers = &mut self.callers;
        let take = |driver: &mut Driver<D>, id, event| match event {
            DriverEvent::Closed { reason, .. } => callers.closed(driver, id, reason),
            event => callers.ended(driver, id, event),
        };
        self.connections.disconnect(driver, connection, take);
    }

    /// Drains the server: it accepts no more connections, and each connection ends when its
    /// received calls are answered. Continue to serve meanwhile. A connection that takes too long
    /// can be [closed](Self::disconnect).
    pub fn drain<D: Device>(&mut self, driver: &mut Driver<D>) {
        self.connections.drain(driver);
    }

    /// Shuts the server down: it accepts no more connections, and closes those that are open, as
    /// [`disconnect`](Self::disconnect) does. Received calls whose handlers have not begun are not
    /// executed. Handlers that wait run to their end: continue to serve until the server
    /// [has drained](Self::is_drained).
    pub fn shutdown<D: Device>(&mut self, driver: &mut Driver<D>) {
        self.connections.drain(driver);
        for connection in self.connections.ids().to_vec() {
            self.disconnect(driver, connection);
        }
    }

    /// Returns true if the server has drained: no connection is left, and no handler waits.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.connections.is_drained() && self.dispatcher.is_idle()
    }

    /// Returns how long the server's loop may sleep: until the earliest deadline of a queued
    /// backward call, or the next timer of the driver.
    #[cfg(feature = "tokio")]
    pub(super) fn timeout<D: Device>(&self, driver: &Driver<D>) -> Option<Duration> {
        let now = driver.now();
        let due = self.callers.next_deadline();
        let waits = due.map(|due| Duration::from_micros(due.saturating_sub(now)));
        [waits, driver.timeout()].into_iter().flatten().min()
    }

    /// Takes the events, and begins to serve the calls. Returns the number of events.
    fn take_events<D: Device>(&mut self, driver: &mut Driver<D>, cx: &mut Context<'_>) -> usize {
        let Self {
            connections,
            callers,
            arrived,
            ..
        } = self;
        let mut count = connections.accept(driver);
        connections.take_events(driver, |driver, connection, event| match event {
            DriverEvent::CallArrived { call, message, .. } => arrived.push(ArrivedCall {
                connection,
                call,
                message,
            }),
            DriverEvent::Closed { reason, .. } => callers.closed(driver, connection, reason),
            DriverEvent::Ready(_) => {}
            event => {
                count += 1;
                callers.ended(driver, connection, event);
            }
        });
        let mut arrived = std::mem::take(&mut self.arrived);
        count += arrived.len();
        for call in arrived.drain(..) {
            self.arrive(driver, call, cx);
        }
        self.arrived = arrived;
        count
    }

    /// Serves a call if the limits of its connection allow it; otherwise the call waits. Calls of a
    /// closed connection are not executed: they cannot be answered, and the client may retransmit
    /// them.
    fn arrive<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        call: ArrivedCall,
        cx: &mut Context<'_>,
    ) {
        let id = call.connection;
        let Some(client) = self.connections.client(id) else {
            return;
        };
        let mut admitted = Some(call);
        if let Some(permit) = &mut client.permit {
            let was_waiting = permit.is_waiting();
            admitted = admitted.and_then(|call| permit.admit(call, cx));
            if permit.is_waiting() && !was_waiting {
                self.blocked.push(id);
            }
        }
        if let Some(call) = admitted {
            let incoming = incoming(client, &mut self.callers, &call);
            self.dispatcher.begin(driver, incoming, call.message, cx);
        }
    }

    /// Serves waiting calls that the limits allow now. Returns their number.
    fn begin_blocked<D: Device>(&mut self, driver: &mut Driver<D>, cx: &mut Context<'_>) -> usize {
        let mut count = 0;
        let mut blocked = std::mem::take(&mut self.blocked);
        blocked.retain(|id| {
            // Calls of a closed connection are not executed.
            while let Some(client) = self.connections.client(*id) {
                let Some(permit) = &mut client.permit else {
                    return false;
                };
                let Some(call) = permit.next(cx) else {
                    return permit.is_waiting();
                };
                count += 1;
                let incoming = incoming(client, &mut self.callers, &call);
                self.dispatcher.begin(driver, incoming, call.message, cx);
            }
            false
        });
        self.blocked = blocked;
        count
    }
}

/// Returns the properties of a call for a handler's slot.
fn incoming(client: &Client, callers: &mut Callers, call: &ArrivedCall) -> Incoming {
    let permit = client.permit.as_ref();
    Incoming {
        call: (call.connection, call.call),
        peer: callers.peer(call.connection, client),
        limits: permit.map(Permit::limits).unwrap_or_default(),
    }
}

impl<P> fmt::Debug for LocalServer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalServer")
            .field("dispatcher", &self.dispatcher)
            .finish_non_exhaustive()
    }
}
