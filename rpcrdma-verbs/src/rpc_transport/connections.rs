//! The connections that a server's listener has accepted, from admission to end.
//!
//! `rpc_transport::admission` decides about peers; this module decides how many requests are
//! handled in a turn, and when a connection drains. `take_events` and `disconnect` pass `Closed` as
//! the last event of a connection, after the failures of its backward calls: `LocalServer` and
//! `callers` rely on this order. The index of a connection is reused, so `client` compares the id.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::{CallFailure, CloseReason};

use super::admission::{Admission, Client};
use crate::driver::{ConnectionId, Driver, DriverEvent, ListenerHandle};
use crate::provider::Device;

/// The connections that a listener has accepted.
#[derive(Debug)]
pub(super) struct Connections {
    listener: ListenerHandle,
    admission: Admission,
    ids: Vec<ConnectionId>,
    /// By the index of the connection.
    clients: Vec<Option<(ConnectionId, Client)>>,
    /// The start of the drain, and the connections that do not drain yet.
    draining: Option<(Instant, VecDeque<ConnectionId>)>,
}

/// The reason with which a draining server rejects a peer.
pub(super) const STOPPING: &str = "the server is being stopped";
/// The maximum number of decisions about requests to connect in one turn.
const ACCEPT_BATCH: usize = 64;
/// The maximum number of connections that begin to drain in one turn.
const DRAIN_BATCH: usize = 64;
/// The time for the first message of a connection to a draining server.
const FIRST_MESSAGE: Duration = Duration::from_secs(1);

impl Connections {
    /// Creates the connections of a listener, without any.
    pub(super) fn new(listener: ListenerHandle) -> Self {
        Self {
            listener,
            admission: Admission::default(),
            ids: Vec::new(),
            clients: Vec::new(),
            draining: None,
        }
    }

    /// Sets the admission of peers from now on.
    #[cfg(feature = "tokio")]
    pub(super) fn admit_by(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Returns the client of a connection; `None` if the connection is closed.
    pub(super) fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        let (of, client) = self.clients.get_mut(id.index())?.as_mut()?;
        (*of == id).then_some(client)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    pub(super) fn ids(&self) -> &[ConnectionId] {
        &self.ids
    }

    /// Takes the events since the driver's last turn. The last event of a connection is `Closed`,
    /// after which its state in the driver is freed.
    pub(super) fn take_events<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        mut take: impl FnMut(&mut Driver<D>, ConnectionId, DriverEvent),
    ) {
        if self.draining.is_some() {
            self.drain_some(driver);
        }
        while let Some(id) = driver.ready_accepted(self.listener) {
            while let Some(event) = driver.poll_event(id) {
                if let DriverEvent::Closed { reason, .. } = event {
                    // The client's next connection has its own session.
                    self.close(driver, id, reason, &mut take);
                    break;
                }
                take(driver, id, event);
            }
        }
    }

    /// Decides about requests to connect, a limited number in each turn, so that they do not delay
    /// other work. Returns their number.
    pub(super) fn accept<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        for count in 0..ACCEPT_BATCH {
            let Some(request) = driver.next_request(self.listener) else {
                return count;
            };
            let client = match self.admission.admit(&request) {
                Ok(client) => client,
                Err(reason) => {
                    driver.reject(request, &reason);
                    continue;
                }
            };
            let Some(id) = driver.accept(self.listener, request) else {
                continue;
            };
            if let Some(permit) = &client.permit {
                driver.limit_peer(id, permit.peer_limits());
            }
            if self.clients.len() <= id.index() {
                self.clients.resize_with(id.index() + 1, || None);
            }
            self.clients[id.index()] = Some((id, client));
            self.ids.push(id);
        }
        ACCEPT_BATCH
    }

    /// Ends the session of a closed connection.
    fn close<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        reason: CloseReason,
        take: &mut impl FnMut(&mut Driver<D>, ConnectionId, DriverEvent),
    ) {
        driver.finish(id);
        while let Some(event) = driver.poll_event(id) {
            match event {
                DriverEvent::CallFailed {
                    xid,
                    error: CallFailure::Closed(_),
                    sent,
                } => {
                    let error = CallFailure::Closed(reason);
                    take(driver, id, DriverEvent::CallFailed { xid, error, sent });
                }
                DriverEvent::ReplyArrived { .. } | DriverEvent::CallFailed { .. } => {
                    take(driver, id, event)
                }
                _ => {}
            }
        }
        let is_final = true;
        take(driver, id, DriverEvent::Closed { reason, is_final });
        driver.forget(id);
        if let Some(client) = self.client(id) {
            client.status.close();
            self.clients[id.index()] = None;
        }
        self.ids.retain(|connection| *connection != id);
    }

    /// Closes a connection at once, and drops its received messages.
    pub(super) fn disconnect<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        mut take: impl FnMut(&mut Driver<D>, ConnectionId, DriverEvent),
    ) {
        if self.client(id).is_some() {
            self.close(driver, id, CloseReason::Aborted, &mut take);
        }
    }

    /// Accepts no more connections, and lets each connection end when its received calls are
    /// answered: a limited number with each [`take_events`](Self::take_events), since each end
    /// takes a completion.
    pub(super) fn drain<D: Device>(&mut self, driver: &mut Driver<D>) {
        while let Some(request) = driver.next_request(self.listener) {
            driver.reject(request, STOPPING);
        }
        driver.unlisten(self.listener);
        if self.draining.is_none() {
            self.draining = Some((Instant::now(), self.ids.iter().copied().collect()));
        }
        self.drain_some(driver);
    }

    #[cold]
    fn drain_some<D: Device>(&mut self, driver: &mut Driver<D>) {
        let Some((since, left)) = &mut self.draining else {
            return;
        };
        for _ in 0..left.len().min(DRAIN_BATCH) {
            let Some(id) = left.pop_front() else { return };
            let Some(session) = driver.session_mut(id) else {
                continue;
            };
            // A client whose first message is not answered would conclude that the server supports
            // only Version One.
            if session.version().is_none() && since.elapsed() < FIRST_MESSAGE {
                left.push_back(id);
                continue;
            }
            // A client with many calls would always have one in flight.
            session.grant_up_to(1);
            session.drain();
        }
    }

    /// Returns true if the server has drained.
    pub(super) fn is_drained(&self) -> bool {
        self.draining.is_some() && self.ids.is_empty()
    }
}
