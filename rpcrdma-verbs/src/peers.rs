//! The connections to a server, and what comes by them: the same for services that answer at once and for those that take their
//! time.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rpcrdma_proto::connection::{Config, Failure, Reason};

use crate::calls::{Arrival, Call, CallId, ClientError, ClientEvent, begin, event};
use crate::driver::{Driver, DriverError, GivenBack, Id, Listening, Memory, Told, WriteError, Writer};
use crate::provider::Device;
use crate::rpc::Credentials;

/// The connections to a server, and what became of its backward calls.
#[derive(Debug)]
pub(crate) struct Peers {
    listening: Listening,
    connections: Vec<Id>,
    events: VecDeque<(Id, ClientEvent)>,
}

impl Peers {
    /// Of a server that listens at an address.
    ///
    /// # Errors
    /// The settings make no sense, or the address can't be had.
    pub(crate) fn bind<D: Device>(
        driver: &mut Driver<D>,
        address: SocketAddr,
        config: Config,
    ) -> Result<Self, DriverError> {
        let listening = driver.listen(address, config)?;
        Ok(Self { listening, connections: Vec::new(), events: VecDeque::new() })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address
    }

    pub(crate) fn connections(&self) -> &[Id] {
        &self.connections
    }

    pub(crate) fn event(&mut self) -> Option<(Id, ClientEvent)> {
        self.events.pop_front()
    }

    /// Takes what has come since the last turn of the driver, and hands over the calls: how many there are.
    pub(crate) fn take<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        mut arrived: impl FnMut(&mut Driver<D>, Id, Arrival),
    ) -> usize {
        while let Some(id) = driver.accepted(self.listening) {
            self.connections.push(id);
        }
        let mut count = 0;
        while let Some(id) = driver.ready_accepted(self.listening) {
            while let Some(told) = driver.event(id) {
                match told {
                    Told::Arrived { call, xid, message } => {
                        arrived(driver, id, Arrival { call, xid, message });
                        count += 1;
                    }
                    // A client's next connection is a session of its own.
                    Told::Closed { why, .. } => {
                        self.closed(driver, id, why);
                        self.connections.retain(|connection| *connection != id);
                        break;
                    }
                    told => {
                        let event = event(told);
                        if matches!(event, ClientEvent::Answered { .. } | ClientEvent::Failed { .. }) {
                            self.events.push_back((id, event));
                        }
                    }
                }
            }
        }
        count
    }

    /// Takes no more connections, and lets those that are there end when what has come by them is answered.
    pub(crate) fn drain<D: Device>(&mut self, driver: &mut Driver<D>) {
        driver.unlisten(self.listening);
        while let Some(id) = driver.accepted(self.listening) {
            self.connections.push(id);
        }
        for id in &self.connections {
            if let Some(session) = driver.session_mut(*id) {
                // A requester with many calls would never leave a moment without any.
                session.grant_up_to(1);
                session.drain();
            }
        }
    }

    /// Cuts a connection off.
    pub(crate) fn cut<D: Device>(&mut self, driver: &mut Driver<D>, id: Id) {
        if self.connections.contains(&id) {
            self.closed(driver, id, Reason::Lost);
            self.connections.retain(|connection| *connection != id);
        }
    }

    /// A connection is gone, and with it what its client was called back with.
    fn closed<D: Device>(&mut self, driver: &mut Driver<D>, id: Id, reason: Reason) {
        driver.finish(id);
        while let Some(told) = driver.event(id) {
            let ended = match event(told) {
                ClientEvent::Failed { call, why: ClientError::Transport(Failure::Closed(_)) } => {
                    let why = ClientError::Transport(Failure::Closed(reason));
                    ClientEvent::Failed { call, why }
                }
                event @ (ClientEvent::Answered { .. } | ClientEvent::Failed { .. }) => event,
                _ => continue,
            };
            self.events.push_back((id, ended));
        }
        driver.forget(id);
    }
}

/// Calls a client back, if it has said that it takes that.
pub(crate) fn call_back<D: Device>(
    driver: &mut Driver<D>,
    to: Id,
    call: Call,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Result<CallId, GivenBack<ClientError>> {
    if driver.session(to).is_some_and(|session| !session.is_peer_ready()) {
        let memory = Box::new(Memory { results: call.results, ..Memory::default() });
        return Err(GivenBack { why: ClientError::NotReady, memory });
    }
    begin(driver, to, call, &Credentials::none(), write)
}
