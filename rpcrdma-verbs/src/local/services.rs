//! What a `Local` turns with its driver: servers, and the services of clients.

use std::fmt;
use std::task::Waker;

use crate::client::{Arrival, ClientEvent};
use crate::driver::{Driver, Id, Memory};
use crate::handlers::{AsyncServer, AsyncService, Handlers};
use crate::provider::Device;

/// A server or a service, where it stands.
#[derive(Debug)]
pub(super) enum Post<D: Device> {
    Here(Box<dyn Serves<D>>),
    /// Its handlers go on, and nothing is borrowed.
    Out,
    Free,
}

impl<D: Device> Post<D> {
    pub(super) fn here(&mut self) -> Option<&mut Box<dyn Serves<D>>> {
        if let Self::Here(service) = self { Some(service) } else { None }
    }

    /// Takes what is here, and leaves a mark.
    pub(super) fn take(&mut self, mark: Self) -> Option<Box<dyn Serves<D>>> {
        match std::mem::replace(self, mark) {
            Self::Here(service) => Some(service),
            _ => None,
        }
    }
}

/// What is turned with its driver: a server, or the service of a client.
pub(super) trait Serves<D: Device>: fmt::Debug {
    /// Takes what has come to a server, and gives handlers what has come: how much.
    fn take(&mut self, driver: &mut Driver<D>) -> usize;
    /// Takes a call of a client's server.
    fn offer(&mut self, driver: &mut Driver<D>, id: Id, arrival: Arrival);
    /// What became of a server's calls, with their memory.
    fn event(&mut self) -> Option<(Id, ClientEvent, Memory)>;
    /// Lets handlers go on, which may use the driver.
    fn poll(&mut self);
    /// Hands over what they have answered: how many calls.
    fn reply(&mut self, driver: &mut Driver<D>) -> usize;
    fn is_server(&self) -> bool;
    /// Shuts a server down, as its calls end; whether it has done so.
    fn drain(&mut self, driver: &mut Driver<D>);
    fn is_drained(&self) -> bool;
    /// Shuts it down at once.
    fn end(&mut self, driver: &mut Driver<D>);
    fn register(&self, runner: &Waker);
}

impl<D: Device, S: AsyncService> Serves<D> for Handlers<S> {
    fn take(&mut self, driver: &mut Driver<D>) -> usize {
        self.hand_out(driver)
    }

    fn offer(&mut self, driver: &mut Driver<D>, id: Id, arrival: Arrival) {
        Self::offer(self, driver, id, arrival);
    }

    fn event(&mut self) -> Option<(Id, ClientEvent, Memory)> {
        None
    }

    fn poll(&mut self) {
        Self::poll(self);
    }

    fn reply(&mut self, driver: &mut Driver<D>) -> usize {
        Self::reply(self, driver)
    }

    fn is_server(&self) -> bool {
        false
    }

    fn drain(&mut self, _: &mut Driver<D>) {}

    fn is_drained(&self) -> bool {
        false
    }

    fn end(&mut self, driver: &mut Driver<D>) {
        self.decline(driver);
    }

    fn register(&self, runner: &Waker) {
        Self::register(self, runner);
    }
}

impl<D: Device, S: AsyncService> Serves<D> for AsyncServer<S> {
    fn take(&mut self, driver: &mut Driver<D>) -> usize {
        Self::take(self, driver)
    }

    fn offer(&mut self, driver: &mut Driver<D>, id: Id, arrival: Arrival) {
        self.handlers().offer(driver, id, arrival);
    }

    fn event(&mut self) -> Option<(Id, ClientEvent, Memory)> {
        let (id, event) = Self::event(self)?;
        Some((id, event, self.take_memory()))
    }

    fn poll(&mut self) {
        self.handlers().poll();
    }

    fn reply(&mut self, driver: &mut Driver<D>) -> usize {
        self.handlers().reply(driver)
    }

    fn is_server(&self) -> bool {
        true
    }

    fn drain(&mut self, driver: &mut Driver<D>) {
        Self::drain(self, driver);
    }

    fn is_drained(&self) -> bool {
        Self::is_drained(self)
    }

    fn end(&mut self, driver: &mut Driver<D>) {
        Self::end(self, driver);
    }

    fn register(&self, runner: &Waker) {
        Self::register(self, runner);
    }
}
