//! A server: it accepts connections, and a service answers their calls.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::rpc::AuthStat;

use crate::calls::{self, CallId, ClientError, ClientEvent, admitted, answer, taken};
pub use crate::calls::{Arrival, ServeError};
use crate::driver::{
    BeginError, CallBuffers, ConnectionId, Driver, DriverError, WriteError, Writer,
};
use crate::peers::{Peers, call_back};
use crate::provider::Device;
use crate::rpc::{Call, Denial};

/// A service: the procedures of one program.
pub trait Service {
    /// The program's number.
    fn program(&self) -> u32;

    /// The versions of it that are here.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Whether a call says that its caller takes backward calls from now on (NFSv4.1's
    /// CREATE_SESSION does).
    fn is_ready(&self, call: &Call<'_>) -> bool {
        let _ = call;
        false
    }

    /// Whether it takes data that the caller's Sends have placed apart as they are
    /// ([`Call::items`]), so that they are not copied. If not, they are in the arguments like any
    /// others.
    fn takes_items(&self) -> bool {
        false
    }

    /// Answers a call: writes its results, or says why not. `from` is the connection that it came
    /// by.
    ///
    /// # Errors
    /// What the reply is to say in place of results.
    fn call(
        &mut self,
        from: ConnectionId,
        call: &Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial>;
}

/// A server on a driver, with one service.
#[derive(Debug)]
pub struct Server<S> {
    service: S,
    peers: Peers,
}

impl<S: Service> Server<S> {
    /// A server at an address: port 0 asks for any.
    ///
    /// # Errors
    /// The settings make no sense, or the address can't be had.
    pub fn bind<D: Device>(
        driver: &mut Driver<D>,
        address: SocketAddr,
        config: Config,
        service: S,
    ) -> Result<Self, DriverError> {
        Ok(Self {
            service,
            peers: Peers::bind(driver, address, config)?,
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
    pub fn service(&mut self) -> &mut S {
        &mut self.service
    }

    /// Calls a client back, which has said that it takes that ([`Service::is_ready`]). `event`
    /// tells how it ends.
    ///
    /// # Errors
    /// It can't begin: the client has not said so on this connection, for example.
    pub fn call_back<D: Device>(
        &self,
        driver: &mut Driver<D>,
        to: ConnectionId,
        call: calls::Call,
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

    /// Serves what has come since the last turn of the driver, and sends the replies: how many
    /// calls it was.
    pub fn serve<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        let Self { service, peers, .. } = self;
        let items = service.takes_items();
        let served = peers.take(driver, |driver, id, arrival| {
            if let Some(arrival) = taken(driver, id, arrival, items) {
                serve_one(service, driver, id, &arrival);
                driver.recycle(id, arrival.message);
            }
        });
        if served > 0 {
            driver.flush();
        }
        served
    }
}

/// Lets the service answer a call, unless that is done already.
fn serve_one<D: Device, S: Service>(
    service: &mut S,
    driver: &mut Driver<D>,
    id: ConnectionId,
    arrival: &Arrival,
) {
    let Arrival { call, xid, .. } = *arrival;
    let program = (service.program(), service.versions());
    let Some(asked) = admitted(driver, id, arrival, program, |call| service.is_ready(call)) else {
        return;
    };
    let mut said = Ok(());
    let sent = answer(driver, id, call, xid, None, |writer| {
        said = service.call(id, &asked, writer);
        said.map_err(|_| WriteError::NoResults)
    });
    if let (Err(denial), Err(ServeError::Write(_))) = (said, sent) {
        let _ = answer(driver, id, call, xid, Some(denial), |_| Ok(()));
    }
}

/// Credentials that are too weak.
pub const TOO_WEAK: Denial = Denial::Auth(AuthStat::AuthTooweak);
