//! The connections to a server, and what comes by them: the same for services that answer at once
//! and for those that take their time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::{CallFailure, CloseReason, Config};

use crate::calls::{Arrival, Call, CallId, ClientError, ClientEvent, begin, event};
use crate::driver::{
    BeginError, CallBuffers, ConnectionId, Driver, DriverError, DriverEvent, ListenerHandle,
    WriteError, Writer,
};
use crate::provider::Device;
use crate::rpc::Credentials;

/// The connections to a server, and what became of its backward calls.
#[derive(Debug)]
pub(crate) struct Peers {
    listening: ListenerHandle,
    connections: Vec<ConnectionId>,
    events: VecDeque<(ConnectionId, ClientEvent, CallBuffers)>,
    /// The memory of the call whose end was told last.
    memory: CallBuffers,
    /// Since when it is shutting down, and the connections that do not know yet.
    draining: Option<(Instant, VecDeque<ConnectionId>)>,
}

/// Connections that begin to drain together.
const TOGETHER: usize = 64;
/// How long a connection may take for its first message when it is to end.
const FIRST: Duration = Duration::from_secs(1);

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
        Ok(Self {
            listening,
            connections: Vec::new(),
            events: VecDeque::new(),
            memory: CallBuffers::default(),
            draining: None,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    pub(crate) fn connections(&self) -> &[ConnectionId] {
        &self.connections
    }

    pub(crate) fn event(&mut self) -> Option<(ConnectionId, ClientEvent)> {
        let (id, event, memory) = self.events.pop_front()?;
        self.memory = memory;
        Some((id, event))
    }

    /// The memory of the call whose end was told last.
    pub(crate) fn take_memory(&mut self) -> CallBuffers {
        std::mem::take(&mut self.memory)
    }

    /// Keeps what became of a backward call, with its memory: its connection may be forgotten when
    /// that is told.
    fn ended<D: Device>(&mut self, driver: &mut Driver<D>, id: ConnectionId, event: ClientEvent) {
        if let ClientEvent::Answered { call, .. } | ClientEvent::Failed { call, .. } = &event {
            let memory = driver.take_buffers(id, call.0);
            self.events.push_back((id, event, memory));
        }
    }

    /// Takes what has come since the last turn of the driver, and hands over the calls: how many
    /// there are.
    pub(crate) fn take<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        mut arrived: impl FnMut(&mut Driver<D>, ConnectionId, Arrival),
    ) -> usize {
        while let Some(id) = next_accepted(driver, self.listening) {
            self.connections.push(id);
        }
        if self.draining.is_some() {
            self.drain_some(driver);
        }
        let mut count = 0;
        while let Some(id) = driver.ready_accepted(self.listening) {
            while let Some(told) = driver.poll_event(id) {
                match told {
                    DriverEvent::CallArrived { call, xid, message } => {
                        arrived(driver, id, Arrival { call, xid, message });
                        count += 1;
                    }
                    // A client's next connection is a session of its own.
                    DriverEvent::Closed { reason: why, .. } => {
                        self.closed(driver, id, why);
                        break;
                    }
                    told => self.ended(driver, id, event(told)),
                }
            }
        }
        count
    }

    /// Takes no more connections, and lets those that are there end when what has come by them is
    /// answered: some with each [`Self::take`], as each end takes a completion.
    pub(crate) fn drain<D: Device>(&mut self, driver: &mut Driver<D>) {
        driver.unlisten(self.listening);
        if self.draining.is_none() {
            while let Some(id) = next_accepted(driver, self.listening) {
                self.connections.push(id);
            }
            self.draining = Some((Instant::now(), self.connections.iter().copied().collect()));
        }
        self.drain_some(driver);
    }

    #[cold]
    fn drain_some<D: Device>(&mut self, driver: &mut Driver<D>) {
        let Some((since, left)) = &mut self.draining else {
            return;
        };
        for _ in 0..left.len().min(TOGETHER) {
            let Some(id) = left.pop_front() else { return };
            let Some(session) = driver.session_mut(id) else {
                continue;
            };
            // A client that is cut off before its first message is answered would take us for one
            // that has Version One alone.
            if session.version().is_none() && since.elapsed() < FIRST {
                left.push_back(id);
                continue;
            }
            // A requester with many calls would never leave a moment without any.
            session.grant_up_to(1);
            session.drain();
        }
    }

    /// Whether it was to drain, and has.
    pub(crate) fn is_drained(&self) -> bool {
        self.draining.is_some() && self.connections.is_empty()
    }

    /// Listens no more, and cuts all connections.
    pub(crate) fn end<D: Device>(&mut self, driver: &mut Driver<D>) {
        self.drain(driver);
        for id in std::mem::take(&mut self.connections) {
            self.closed(driver, id, CloseReason::Lost);
        }
    }

    /// Cuts a connection off.
    pub(crate) fn cut<D: Device>(&mut self, driver: &mut Driver<D>, id: ConnectionId) {
        if self.connections.contains(&id) {
            self.closed(driver, id, CloseReason::Lost);
        }
    }

    /// A connection is gone, and with it what its client was called back with.
    fn closed<D: Device>(&mut self, driver: &mut Driver<D>, id: ConnectionId, reason: CloseReason) {
        driver.finish(id);
        while let Some(told) = driver.poll_event(id) {
            let ended = match event(told) {
                ClientEvent::Failed {
                    call,
                    why: ClientError::Transport(CallFailure::Closed(_)),
                } => {
                    let why = ClientError::Transport(CallFailure::Closed(reason));
                    ClientEvent::Failed { call, why }
                }
                event @ (ClientEvent::Answered { .. } | ClientEvent::Failed { .. }) => event,
                _ => continue,
            };
            self.ended(driver, id, ended);
        }
        driver.forget(id);
        self.connections.retain(|connection| *connection != id);
    }
}

/// Calls a client back, if it has said that it takes that.
pub(crate) fn call_back<D: Device>(
    driver: &mut Driver<D>,
    to: ConnectionId,
    call: Call,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Result<CallId, BeginError<ClientError>> {
    if driver
        .session(to)
        .is_some_and(|session| !session.is_peer_ready())
    {
        let memory = Box::new(CallBuffers {
            results: call.results,
            ..CallBuffers::default()
        });
        return Err(BeginError {
            error: ClientError::NotReady,
            buffers: memory,
        });
    }
    begin(driver, to, call, &Credentials::none(), write)
}

/// Accepts the next peer that wants to connect.
fn next_accepted<D: Device>(driver: &mut Driver<D>, by: ListenerHandle) -> Option<ConnectionId> {
    while let Some(request) = driver.next_request(by) {
        if let Some(id) = driver.accept(by, request) {
            return Some(id);
        }
    }
    None
}
