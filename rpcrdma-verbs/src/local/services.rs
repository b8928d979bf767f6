//! What a `Local` turns with its driver: servers, and the services of clients.

use std::fmt;
use std::task::Waker;

use crate::client::{Arrival, ClientEvent};
use crate::driver::{CallBuffers, ConnectionId, Driver};
use crate::handlers::{AsyncServer, AsyncService, Handlers};
use crate::peers::Peers;
use crate::provider::Device;

/// A service, where it stands.
#[derive(Debug)]
pub(super) enum Post<D: Device> {
    Here(Box<Served<D>>),
    /// Its handlers go on, and nothing is borrowed.
    Out,
    Free,
}

impl<D: Device> Post<D> {
    pub(super) fn here(&mut self) -> Option<&mut Served<D>> {
        if let Self::Here(service) = self {
            Some(service)
        } else {
            None
        }
    }

    /// Takes what is here, and leaves a mark.
    pub(super) fn take(&mut self, mark: Self) -> Option<Box<Served<D>>> {
        match std::mem::replace(self, mark) {
            Self::Here(service) => Some(service),
            _ => None,
        }
    }
}

/// A service with its handlers: of a server, which has peers, or of a client.
#[derive(Debug)]
pub(super) struct Served<D: Device> {
    pub(super) peers: Option<Peers>,
    pub(super) handlers: Box<dyn Handles<D>>,
}

/// The handlers of a service, whichever it is.
pub(super) trait Handles<D: Device>: fmt::Debug {
    /// Takes a call, which waits for a handler.
    fn offer(&mut self, driver: &mut Driver<D>, id: ConnectionId, arrival: Arrival);
    /// Gives calls that wait to handlers that are free: how many.
    fn hand_out(&mut self, driver: &mut Driver<D>) -> usize;
    /// Lets handlers go on, which may use the driver.
    fn poll(&mut self);
    /// Hands over what they have answered: how many calls.
    fn reply(&mut self, driver: &mut Driver<D>) -> usize;
    /// Gives up all calls that were not answered.
    fn decline(&mut self, driver: &mut Driver<D>);
    fn register(&self, runner: &Waker);
}

impl<D: Device, S: AsyncService> Handles<D> for Handlers<S> {
    fn offer(&mut self, driver: &mut Driver<D>, id: ConnectionId, arrival: Arrival) {
        Self::offer(self, driver, id, arrival);
    }

    fn hand_out(&mut self, driver: &mut Driver<D>) -> usize {
        Self::hand_out(self, driver)
    }

    fn poll(&mut self) {
        Self::poll(self);
    }

    fn reply(&mut self, driver: &mut Driver<D>) -> usize {
        Self::reply(self, driver)
    }

    fn decline(&mut self, driver: &mut Driver<D>) {
        Self::decline(self, driver);
    }

    fn register(&self, runner: &Waker) {
        Self::register(self, runner);
    }
}

impl<D: Device> Served<D> {
    pub(super) fn of_server<S: AsyncService>(server: AsyncServer<S>) -> Self {
        let (handlers, peers) = server.into_parts();
        Self {
            peers: Some(peers),
            handlers: Box::new(handlers),
        }
    }

    pub(super) fn of_client<S: AsyncService>(handlers: Handlers<S>) -> Self {
        Self {
            peers: None,
            handlers: Box::new(handlers),
        }
    }

    /// Takes what has come to a server, and gives handlers what has come: how much.
    pub(super) fn take(&mut self, driver: &mut Driver<D>) -> usize {
        let Self { peers, handlers } = self;
        let arrived = |driver: &mut _, id, arrival| handlers.offer(driver, id, arrival);
        let count = peers
            .as_mut()
            .map_or(0, |peers| peers.take(driver, arrived));
        count + handlers.hand_out(driver)
    }

    /// What became of a server's calls, with their memory.
    pub(super) fn event(&mut self) -> Option<(ConnectionId, ClientEvent, CallBuffers)> {
        let peers = self.peers.as_mut()?;
        let (id, event) = peers.event()?;
        Some((id, event, peers.take_memory()))
    }

    /// Shuts a server down, as its calls end.
    pub(super) fn drain(&mut self, driver: &mut Driver<D>) {
        if let Some(peers) = &mut self.peers {
            peers.drain(driver);
        }
    }

    /// Whether it is of a server that was to drain, and has.
    pub(super) fn is_drained(&self) -> bool {
        self.peers.as_ref().is_some_and(Peers::is_drained)
    }

    /// Ends it at once.
    pub(super) fn end(&mut self, driver: &mut Driver<D>) {
        self.handlers.decline(driver);
        if let Some(peers) = &mut self.peers {
            peers.end(driver);
        }
    }
}
