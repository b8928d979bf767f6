//! The listeners of a driver, and the connections that they accept.
//!
//! This module queues the requests to connect of each listener. The server decides about each
//! request, by `accept` or `reject`; a dropped request is rejected. A listener is never removed,
//! because `ListenerHandle` and `Origin::Listener` contain its index. A listener of `listen_behind`
//! receives only requests that are handed over, as `rpc_transport::placement` does.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use rpcrdma_proto::connection::Config;
use tracing::info;

use super::{ConnectionId, Driver, DriverError};
use crate::provider::{ConnectionManager, Device, MAX_PRIVATE_DATA};

/// The maximum number of requests to connect that wait for a decision at one listener. Further
/// requests are rejected.
const MAX_REQUESTS: usize = 1 << 16;

/// A listener. The connections that it accepts have its settings, and belong to its server.
#[derive(Debug)]
pub(super) struct Listener<D: Device> {
    pub(super) address: SocketAddr,
    pub(super) config: Config,
    /// True while it accepts connections.
    is_open: bool,
    /// Peers that want to connect, and that the server has not decided about.
    requests: VecDeque<IncomingConnection<D>>,
    /// Connections that have events.
    pub(super) ready: VecDeque<ConnectionId>,
}

/// A peer that wants to connect. Dropping it rejects the peer.
pub struct IncomingConnection<D: Device> {
    pub(super) request: <D::Manager as ConnectionManager<D>>::Request,
    pub(super) peer: SocketAddr,
    pub(super) private_data: Box<[u8]>,
}

impl<D: Device> IncomingConnection<D> {
    /// Returns the peer's address.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the private data of the request.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }
}

impl<D: Device> fmt::Debug for IncomingConnection<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IncomingConnection")
            .field(&self.peer)
            .finish()
    }
}

/// The end that initiated a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A client, with the address of its server.
    Client(SocketAddr),
    /// A client whose server has a name, which is resolved for each attempt to connect.
    NamedServer,
    /// The index of the listener that accepted the connection.
    Listener(usize),
}

/// A server's handle to its listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerHandle {
    number: usize,
    address: SocketAddr,
}

impl ListenerHandle {
    /// Returns the address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl<D: Device> Driver<D> {
    /// Listens on an address, and accepts connections with these settings.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or if the address is not available.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        config: Config,
    ) -> Result<ListenerHandle, DriverError> {
        self.check(&config)?;
        let address = self.manager.listen(address)?;
        let device = self.device.capabilities().name.as_str();
        info!(%address, device, "listening");
        Ok(self.add_listener(address, config, true))
    }

    /// Adds a listener whose requests [`hand_over`](Self::hand_over) passes to it. Another listener
    /// of the same device, on this or another driver, has received them.
    ///
    /// # Errors
    /// Fails if the settings are invalid.
    pub fn listen_behind(
        &mut self,
        address: SocketAddr,
        config: Config,
    ) -> Result<ListenerHandle, DriverError> {
        self.check(&config)?;
        Ok(self.add_listener(address, config, false))
    }

    fn add_listener(
        &mut self,
        address: SocketAddr,
        config: Config,
        is_open: bool,
    ) -> ListenerHandle {
        self.listeners.push(Listener {
            address,
            config,
            is_open,
            requests: VecDeque::new(),
            ready: VecDeque::new(),
        });
        ListenerHandle {
            number: self.listeners.len() - 1,
            address,
        }
    }

    /// Hands over a peer that wants to connect, for [`next_request`](Self::next_request) of this
    /// listener. If too many wait there, it is rejected.
    pub fn hand_over(&mut self, to: ListenerHandle, request: IncomingConnection<D>) {
        self.enqueue(Some(to.number), request);
    }

    /// Returns the number of requests to connect that wait for a decision.
    #[must_use]
    pub fn waiting_requests(&self, at: ListenerHandle) -> usize {
        let listener = self.listeners.get(at.number);
        listener.map_or(0, |listener| listener.requests.len())
    }

    /// Stops listening, and rejects the waiting requests. Established connections remain. This has
    /// no effect on a listener of [`listen_behind`](Self::listen_behind), whose requests continue
    /// to wait.
    pub fn unlisten(&mut self, by: ListenerHandle) {
        if let Some(listener) = self
            .listeners
            .get_mut(by.number)
            .filter(|listener| listener.is_open)
        {
            listener.is_open = false;
            listener.requests.clear();
            self.manager.unlisten(by.address);
        }
    }

    /// Returns the index of the open listener on an address.
    pub(super) fn listener(&self, address: SocketAddr) -> Option<usize> {
        self.listeners
            .iter()
            .position(|listener| listener.is_open && listener.address == address)
    }

    /// Keeps a request until the server decides about it.
    pub(super) fn add_request(
        &mut self,
        listener_address: SocketAddr,
        request: IncomingConnection<D>,
    ) {
        self.enqueue(self.listener(listener_address), request);
    }

    fn enqueue(&mut self, listener: Option<usize>, request: IncomingConnection<D>) {
        let listener = listener.and_then(|number| self.listeners.get_mut(number));
        match listener.filter(|listener| listener.requests.len() < MAX_REQUESTS) {
            Some(listener) => listener.requests.push_back(request),
            // Dropping the request rejects it.
            None => info!(peer = %request.peer, "connection rejected: none is taken"),
        }
    }

    /// Returns the next peer that wants to connect: it is accepted or rejected next.
    pub fn next_request(&mut self, by: ListenerHandle) -> Option<IncomingConnection<D>> {
        self.listeners.get_mut(by.number)?.requests.pop_front()
    }

    /// Accepts a peer. Returns its connection, which has the listener's settings, unless it could
    /// not be established. When it has ended, [`forget`](Self::forget) frees its state in the
    /// driver.
    pub fn accept(
        &mut self,
        by: ListenerHandle,
        request: IncomingConnection<D>,
    ) -> Option<ConnectionId> {
        let now = self.now();
        self.accept_request(request, by.number, now)
    }

    /// Rejects a peer, with a reason.
    pub fn reject(&mut self, request: IncomingConnection<D>, reason: &str) {
        let boundary = |end: &usize| reason.is_char_boundary(*end);
        let end = (0..=MAX_PRIVATE_DATA).rev().find(boundary).unwrap_or(0);
        let reason = reason.get(..end).unwrap_or(reason);
        self.manager.reject(request.request, reason.as_bytes());
    }

    /// Returns a connection that has events, as [`Self::ready`] does for clients.
    pub fn ready_accepted(&mut self, by: ListenerHandle) -> Option<ConnectionId> {
        while let Some(id) = self.listeners.get_mut(by.number)?.ready.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.ready = false;
                return Some(id);
            }
        }
        None
    }
}
