//! Where a driver listens, and what comes by that.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rpcrdma_proto::connection::Config;

use super::{Driver, DriverError, Id};
use crate::provider::{Device, Manager as _};

/// An address that a driver listens at. The connections that come by it have its settings, and belong to its server.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) config: Config,
    /// Whether it still listens.
    is_open: bool,
    /// Connections that were accepted and not told yet.
    pub(super) accepted: Vec<Id>,
    /// Connections with something to be told.
    pub(super) ready: VecDeque<Id>,
}

/// Where a connection comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A client, whose server is at this address.
    Client(SocketAddr),
    /// The listener of this number.
    Listener(usize),
}

/// A listener, to its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listening {
    number: usize,
    pub(crate) address: SocketAddr,
}

impl<D: Device> Driver<D> {
    /// Listens at an address, and accepts connections with these settings.
    ///
    /// # Errors
    /// The settings make no sense, or the address can't be had.
    pub(crate) fn listen(&mut self, address: SocketAddr, config: Config) -> Result<Listening, DriverError> {
        self.check(&config)?;
        let address = self.manager.listen(address)?;
        self.listeners.push(Listener { address, config, is_open: true, accepted: Vec::new(), ready: VecDeque::new() });
        Ok(Listening { number: self.listeners.len() - 1, address })
    }

    /// Listens there no more: its connections stay.
    pub(crate) fn unlisten(&mut self, by: Listening) {
        if let Some(listener) = self.listeners.get_mut(by.number).filter(|listener| listener.is_open) {
            listener.is_open = false;
            self.manager.unlisten(by.address);
        }
    }

    /// Who listens at an address.
    pub(super) fn listener(&self, address: SocketAddr) -> Option<usize> {
        self.listeners.iter().position(|listener| listener.is_open && listener.address == address)
    }

    /// A connection that was accepted since the last time.
    pub(crate) fn accepted(&mut self, by: Listening) -> Option<Id> {
        self.listeners.get_mut(by.number)?.accepted.pop()
    }

    /// A connection that something has happened to, as [`Self::ready`] has it for clients.
    pub(crate) fn ready_accepted(&mut self, by: Listening) -> Option<Id> {
        while let Some(id) = self.listeners.get_mut(by.number)?.ready.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.ready = false;
                return Some(id);
            }
        }
        None
    }
}
