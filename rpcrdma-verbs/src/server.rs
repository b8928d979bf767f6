//! A server: it accepts connections, and a service answers their calls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use rpcrdma_proto::connection::{Config, Failure, Reason};
use rpcrdma_proto::rpc::AuthStat;

use crate::calls::{self, CallId, ClientError, ClientEvent, answer, begin, denial_of, event};
pub use crate::calls::{Arrival, ServeError};
use crate::driver::{Driver, DriverError, GivenBack, Id, Memory, Told, WriteError, Writer};
use crate::provider::Device;
use crate::rpc::{Call, Credentials, Denial};

/// A service: the procedures of one program.
pub trait Service {
    /// The program's number.
    fn program(&self) -> u32;

    /// The versions of it that are here.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Whether a call says that its caller takes backward calls from now on (NFSv4.1's CREATE_SESSION does).
    fn is_ready(&self, call: &Call<'_>) -> bool {
        let _ = call;
        false
    }

    /// Answers a call: writes its results, or says why not. `from` is the connection that it came by.
    ///
    /// # Errors
    /// What the reply is to say in place of results.
    fn call(&mut self, from: Id, call: &Call<'_>, results: &mut Writer<'_>) -> Result<(), Denial>;
}

/// A server on a driver, with one service.
#[derive(Debug)]
pub struct Server<S> {
    service: S,
    address: SocketAddr,
    connections: Vec<Id>,
    /// What became of backward calls.
    events: VecDeque<(Id, ClientEvent)>,
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
        Ok(Self { service, address: driver.listen(address, config)?, connections: Vec::new(), events: VecDeque::new() })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections.
    #[must_use]
    pub fn connections(&self) -> &[Id] {
        &self.connections
    }

    /// The service.
    pub fn service(&mut self) -> &mut S {
        &mut self.service
    }

    /// Calls a client back, which has said that it takes that ([`Service::is_ready`]). `event` tells how it ends.
    ///
    /// # Errors
    /// It can't begin: the client has not said so on this connection, for example.
    pub fn call_back<D: Device>(
        &self,
        driver: &mut Driver<D>,
        to: Id,
        call: calls::Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<CallId, GivenBack<ClientError>> {
        if driver.session(to).is_some_and(|session| !session.is_peer_ready()) {
            let memory = Box::new(Memory { results: call.results, ..Memory::default() });
            return Err(GivenBack { why: ClientError::NotReady, memory });
        }
        begin(driver, to, call, &Credentials::none(), write)
    }

    /// What became of a backward call.
    pub fn event(&mut self) -> Option<(Id, ClientEvent)> {
        self.events.pop_front()
    }

    /// Serves what has come since the last turn of the driver: how many calls it was. The replies go with the next turn.
    pub fn serve<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        while let Some(id) = driver.accepted() {
            self.connections.push(id);
        }
        let (mut count, mut at) = (0, 0);
        while let Some(id) = self.connections.get(at).copied() {
            at += 1;
            while let Some(told) = driver.event(id) {
                match told {
                    Told::Arrived { call, xid, message } => {
                        self.serve_one(driver, id, &Arrival { call, xid, message });
                        count += 1;
                    }
                    // A client's next connection is a session of its own.
                    Told::Closed { why, .. } => {
                        self.closed(driver, id, why);
                        at -= 1;
                        self.connections.swap_remove(at);
                        break;
                    }
                    told => {
                        let answered = |event: &ClientEvent| {
                            matches!(event, ClientEvent::Answered { .. } | ClientEvent::Failed { .. })
                        };
                        self.events.extend(event(told).filter(answered).map(|event| (id, event)));
                    }
                }
            }
        }
        count
    }

    /// A connection is gone, and with it what its client was called back with.
    fn closed<D: Device>(&mut self, driver: &mut Driver<D>, id: Id, reason: Reason) {
        driver.finish(id);
        while let Some(told) = driver.event(id) {
            let ended = match event(told) {
                Some(ClientEvent::Failed { call, why: ClientError::Transport(Failure::Closed(_)) }) => {
                    let why = ClientError::Transport(Failure::Closed(reason));
                    ClientEvent::Failed { call, why }
                }
                Some(event @ (ClientEvent::Answered { .. } | ClientEvent::Failed { .. })) => event,
                _ => continue,
            };
            self.events.push_back((id, ended));
        }
        driver.forget(id);
    }

    fn serve_one<D: Device>(&mut self, driver: &mut Driver<D>, id: Id, arrival: &Arrival) {
        let Arrival { call, xid, .. } = *arrival;
        let service = &mut self.service;
        let program = (service.program(), service.versions());
        if denial_of(driver, id, arrival, program, |call| service.is_ready(call)) {
            return;
        }
        let Some(Ok(call_)) = arrival.read() else { return };
        let mut said = Ok(());
        let sent = answer(driver, id, call, xid, None, |writer| {
            said = service.call(id, &call_, writer);
            said.map_err(|_| WriteError::Denied)
        });
        if let (Err(denial), Err(ServeError::Write(_))) = (said, sent) {
            let _ = answer(driver, id, call, xid, Some(denial), |_| Ok(()));
        }
    }
}

/// Credentials that are too weak.
pub const TOO_WEAK: Denial = Denial::Auth(AuthStat::AuthTooweak);
