//! A client: calls to one server.

use std::net::SocketAddr;

use rpcrdma_proto::connection::{Config, ServedCallId, Session};

pub use crate::calls::{Answered, Arrival, Call, CallId, ClientError, ClientEvent, ServeError};
use crate::calls::{answer, begin, event, taken};
use crate::driver::{
    BeginError, CallBuffers, ConnectionId, Driver, DriverError, DriverEvent, WriteError, Writer,
};
use crate::provider::Device;
use crate::rpc::Credentials;

/// A client of one server, on a driver.
#[derive(Debug)]
pub struct Client {
    id: ConnectionId,
    credentials: Credentials,
}

impl Client {
    /// A client of the server at an address. It connects by itself, and again when the connection
    /// is lost.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn connect<D: Device>(
        driver: &mut Driver<D>,
        server: SocketAddr,
        config: Config,
        credentials: Credentials,
    ) -> Result<Self, DriverError> {
        Ok(Self {
            id: driver.connect(server, config)?,
            credentials,
        })
    }

    /// Its connection.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Begins a call, whose arguments `write` writes. It ends by `Answered` or `Failed`.
    ///
    /// # Errors
    /// It can't begin: its memory is given back.
    pub fn call<D: Device>(
        &self,
        driver: &mut Driver<D>,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<CallId, BeginError<ClientError>> {
        begin(driver, self.id, call, &self.credentials, write)
    }

    /// The memory of a call that has ended: its items, and its results, each with the octets that
    /// were written. It is to be taken before the next call begins: after that it may be gone.
    pub fn take_memory<D: Device>(&self, driver: &mut Driver<D>, call: CallId) -> CallBuffers {
        driver.take_buffers(self.id, call.0)
    }

    /// Gives up a call: it fails as cancelled, once its memory is safe. False if it has ended.
    pub fn cancel<D: Device>(&self, driver: &mut Driver<D>, call: CallId) -> bool {
        driver
            .session_mut(self.id)
            .is_some_and(|session| session.cancel(call.0))
    }

    /// Ends its session when all that was begun is done: nothing new can begin.
    /// [`ClientEvent::Closed`] tells by `last` that it is over; after that [`Driver::forget`] frees
    /// what it had.
    pub fn drain<D: Device>(&self, driver: &mut Driver<D>) {
        if let Some(session) = driver.session_mut(self.id) {
            session.drain();
        }
    }

    /// Answers a call of the server's.
    ///
    /// # Errors
    /// The call has ended, or there is no way for the reply.
    pub fn reply<D: Device>(
        &self,
        driver: &mut Driver<D>,
        call: ServedCallId,
        xid: u32,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), ServeError> {
        answer(driver, self.id, call, xid, None, write)
    }

    /// What it is to be told next.
    pub fn event<D: Device>(&self, driver: &mut Driver<D>) -> Option<ClientEvent> {
        match driver.poll_event(self.id)? {
            DriverEvent::CallArrived { call, xid, message } if !message.items().is_empty() => {
                self.called_back(driver, Arrival { call, xid, message })
            }
            told => Some(event(told)),
        }
    }

    /// A call of the server's, with its items in place; what follows it, if there is no memory for
    /// that.
    #[cold]
    fn called_back<D: Device>(
        &self,
        driver: &mut Driver<D>,
        arrival: Arrival,
    ) -> Option<ClientEvent> {
        let mut next = Some(arrival);
        while let Some(arrival) = next {
            if let Some(arrival) = taken(driver, self.id, arrival, false) {
                return Some(ClientEvent::CalledBack(arrival));
            }
            next = match event(driver.poll_event(self.id)?) {
                ClientEvent::CalledBack(arrival) => Some(arrival),
                event => return Some(event),
            };
        }
        None
    }

    /// The engine of its connection: version, properties, counters.
    #[must_use]
    pub fn session<'d, D: Device>(&self, driver: &'d Driver<D>) -> Option<&'d Session> {
        driver.session(self.id)
    }
}
