//! A connection, as the connection manager knows it.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use super::sys::Id;

/// A connection that is being made, is there, or was.
pub(super) struct Connection {
    pub(super) id: Id,
    pub(super) phase: Cell<Phase>,
    /// RDMA Reads of the peer's, and of ours, that a request offers.
    pub(super) offered: (u8, u8),
    /// Whether a request has its queue pair.
    pub(super) prepared: Cell<bool>,
    pub(super) peer: SocketAddr,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Of ours: it is being found out how the peer is reached.
    Resolving,
    /// Of ours: the peer is asked.
    Asking,
    /// Of the peer's: it waits for our answer.
    Asked,
    /// Of the peer's: it may not know yet that it is accepted.
    Accepted,
    /// Both know.
    Established,
    /// It has ended, or never will be.
    Ended,
}

impl Connection {
    pub(super) fn new(id: Id, phase: Phase, offered: (u8, u8), peer: SocketAddr) -> Rc<Self> {
        Rc::new(Self { id, phase: Cell::new(phase), offered, prepared: Cell::new(false), peer })
    }

    /// Tells the peer that it has ended, if it knows of it at all. What still waits for our answer does so.
    pub(super) fn hang_up(&self) {
        match self.phase.get() {
            Phase::Accepted | Phase::Established => self.id.disconnect(),
            Phase::Asked => return,
            Phase::Resolving | Phase::Asking | Phase::Ended => {}
        }
        self.phase.set(Phase::Ended);
    }

    pub(super) fn reject(&self, private_data: &[u8]) {
        if self.phase.replace(Phase::Ended) == Phase::Asked {
            self.id.reject(private_data);
        }
    }
}

/// A request to connect. Dropping it rejects.
pub struct Request {
    pub(super) connection: Rc<Connection>,
    pub(super) answered: bool,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request(from {})", self.connection.peer)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.answered {
            self.connection.reject(&[]);
        }
    }
}
