//! The connections to a server, and what comes by them: the same for services that answer at once and for those that take their
//! time.

use std::collections::VecDeque;

use rpcrdma_proto::connection::{Failure, Reason};

use crate::calls::{Arrival, Call, CallId, ClientError, ClientEvent, begin, event};
use crate::driver::{Driver, GivenBack, Id, Memory, Told, WriteError, Writer};
use crate::provider::Device;
use crate::rpc::Credentials;

/// The connections to a server, and what became of its backward calls.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    connections: Vec<Id>,
    events: VecDeque<(Id, ClientEvent)>,
}

impl Peers {
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
        while let Some(id) = driver.accepted() {
            self.connections.push(id);
        }
        let mut count = 0;
        while let Some(id) = driver.ready_accepted() {
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
