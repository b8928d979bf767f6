//! The listeners of a driver, and the connections that they accept.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rpcrdma_proto::connection::Config;

use super::{ConnectionId, Driver, DriverError};
use crate::provider::{ConnectionManager as _, Device};

/// A listener. The connections that it accepts have its settings, and belong to its server.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) config: Config,
    /// True while it accepts connections.
    is_open: bool,
    /// Connections that were accepted, and not yet reported to the server.
    pub(super) accepted: Vec<ConnectionId>,
    /// Connections that have events.
    pub(super) ready: VecDeque<ConnectionId>,
}

/// The end that initiated a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A client, with the address of its server.
    Client(SocketAddr),
    /// The index of the listener that accepted the connection.
    Listener(usize),
}

/// A server's handle to its listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListenerHandle {
    number: usize,
    pub(crate) address: SocketAddr,
}

impl<D: Device> Driver<D> {
    /// Listens on an address, and accepts connections with these settings.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or if the address is not available.
    pub(crate) fn listen(
        &mut self,
        address: SocketAddr,
        config: Config,
    ) -> Result<ListenerHandle, DriverError> {
        self.check(&config)?;
        let address = self.manager.listen(address)?;
        self.listeners.push(Listener {
            address,
            config,
            is_open: true,
            accepted: Vec::new(),
            ready: VecDeque::new(),
        });
        Ok(ListenerHandle {
            number: self.listeners.len() - 1,
            address,
        })
    }

    /// Stops listening. Established connections remain.
    pub(crate) fn unlisten(&mut self, by: ListenerHandle) {
        if let Some(listener) = self
            .listeners
            .get_mut(by.number)
            .filter(|listener| listener.is_open)
        {
            listener.is_open = false;
            self.manager.unlisten(by.address);
        }
    }

    /// Returns the index of the open listener on an address.
    pub(super) fn listener(&self, address: SocketAddr) -> Option<usize> {
        self.listeners
            .iter()
            .position(|listener| listener.is_open && listener.address == address)
    }

    /// Returns a connection that was accepted since the last call.
    pub(crate) fn accepted(&mut self, by: ListenerHandle) -> Option<ConnectionId> {
        self.listeners.get_mut(by.number)?.accepted.pop()
    }

    /// Returns a connection that has events, as [`Self::ready`] does for clients.
    pub(crate) fn ready_accepted(&mut self, by: ListenerHandle) -> Option<ConnectionId> {
        while let Some(id) = self.listeners.get_mut(by.number)?.ready.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.ready = false;
                return Some(id);
            }
        }
        None
    }
}
