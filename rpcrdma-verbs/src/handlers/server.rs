//! A server whose service takes its time.

use std::fmt;
use std::net::SocketAddr;

use rpcrdma_proto::connection::Config;

use super::{AsyncService, Handlers};
use crate::calls::{Call, CallId, ClientError, ClientEvent};
use crate::driver::{
    BeginError, CallBuffers, ConnectionId, Driver, DriverError, WriteError, Writer,
};
use crate::peers::{Peers, call_back};
use crate::provider::Device;

/// A server whose handlers are futures, on a driver. [`Local::serve`](crate::local::Local::serve)
/// takes it.
pub struct AsyncServer<S> {
    handlers: Handlers<S>,
    peers: Peers,
}

impl<S> fmt::Debug for AsyncServer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AsyncServer({}, {:?})",
            self.peers.address(),
            self.handlers
        )
    }
}

impl<S: AsyncService> AsyncServer<S> {
    /// A server at an address (port 0 asks for any), with so many handlers at once.
    ///
    /// # Errors
    /// The settings make no sense, or the address can't be had.
    pub fn bind<D: Device>(
        driver: &mut Driver<D>,
        address: SocketAddr,
        config: Config,
        service: S,
        handlers: usize,
    ) -> Result<Self, DriverError> {
        let peers = Peers::bind(driver, address, config)?;
        Ok(Self {
            handlers: Handlers::new(service, handlers),
            peers,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.peers.address()
    }

    /// Its connections.
    #[must_use]
    pub fn connections(&self) -> &[ConnectionId] {
        self.peers.connections()
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &S {
        self.handlers.service()
    }

    /// Calls a client back, which has said that it takes that ([`AsyncService::is_ready`]). `event`
    /// tells how it ends. Where a [`Local`](crate::local::Local) has the server, its
    /// [`call_back`](crate::local::Local::call_back) does it.
    ///
    /// # Errors
    /// It can't begin: the client has not said so on this connection, for example.
    pub fn call_back<D: Device>(
        &self,
        driver: &mut Driver<D>,
        to: ConnectionId,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<CallId, BeginError<ClientError>> {
        call_back(driver, to, call, write)
    }

    /// Cuts a connection off, calls that came by it and were not answered included. Backward calls
    /// fail, as `event` tells. Its client may connect again.
    pub fn cut<D: Device>(&mut self, driver: &mut Driver<D>, connection: ConnectionId) {
        self.peers.cut(driver, connection);
    }

    /// Shuts down: takes no more connections, and ends each that is there when all calls that have
    /// come by it are answered, and the replies have arrived. It is to be served until
    /// [`Self::connections`] has none; those that take too long can be [cut](Self::cut). Clients
    /// have to connect elsewhere then. No backward call can begin any more, not even for the sake
    /// of a call that has come; one that is under way is waited for.
    ///
    /// A server that is dropped without goes on listening as long as its driver, and nobody serves
    /// its connections.
    pub fn drain<D: Device>(&mut self, driver: &mut Driver<D>) {
        self.peers.drain(driver);
    }

    /// What became of a backward call.
    pub fn event(&mut self) -> Option<(ConnectionId, ClientEvent)> {
        self.peers.event()
    }

    /// The memory of the backward call whose end [`Self::event`] has told last: its items, and its
    /// results.
    pub fn take_memory(&mut self) -> CallBuffers {
        self.peers.take_memory()
    }

    /// Takes what has come since the last turn of the driver, lets the handlers go on, and sends
    /// the replies: how much has happened.
    pub fn serve<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        let Self { peers, handlers } = self;
        let mut count = peers.take(driver, |driver, id, arrival| {
            handlers.offer(driver, id, arrival)
        });
        count += handlers.hand_out(driver);
        loop {
            handlers.poll();
            count += handlers.reply(driver);
            // Who has answered takes the next call that waits.
            if handlers.hand_out(driver) == 0 {
                break;
            }
        }
        if count > 0 {
            driver.flush();
        }
        count
    }

    /// What a `Local` turns by itself.
    pub(crate) fn into_parts(self) -> (Handlers<S>, Peers) {
        (self.handlers, self.peers)
    }
}
