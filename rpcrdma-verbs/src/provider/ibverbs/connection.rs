//! A connection of the connection manager, with its phase. The phase decides which verb ends the
//! connection: none before the peer knows it, a rejection while a request waits for its answer, and
//! otherwise a disconnection.
//!
//! The safety of `sys::Id` relies on the phases: threads other than that of the manager disconnect,
//! reject or notify a connection only in the phases that `disconnect`, `reject` and
//! `message_before_established` of the queue pair check. The phase is not locked during a verb.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sys::Id;

/// A connection in any phase.
pub(super) struct Connection {
    pub(super) id: Id,
    phase: Mutex<Phase>,
    /// The numbers of RDMA Reads of the peer and of this end that a connect request offers.
    pub(super) offered: (u8, u8),
    /// True if a connect request has a queue pair.
    pub(super) prepared: AtomicBool,
    pub(super) peer: SocketAddr,
}

/// The phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The address and the route are being resolved.
    Resolving,
    /// The connect request was sent.
    Requesting,
    /// The peer has sent a connect request, which waits for an answer.
    RequestReceived,
    /// The connection was accepted; the peer may not know it yet.
    Accepted,
    /// Both ends know that the connection is established.
    Established,
    /// The connection has ended, or could not be established.
    Ended,
}

impl Connection {
    pub(super) fn new(id: Id, phase: Phase, offered: (u8, u8), peer: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            id,
            phase: Mutex::new(phase),
            offered,
            prepared: AtomicBool::new(false),
            peer,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn phase(&self) -> Phase {
        *self.lock()
    }

    /// Sets the phase, and returns the earlier one.
    pub(super) fn set_phase(&self, phase: Phase) -> Phase {
        std::mem::replace(&mut *self.lock(), phase)
    }

    /// Disconnects, if the peer knows the connection. An unanswered connect request stays
    /// unanswered.
    pub(super) fn disconnect(&self) {
        let was = {
            let mut phase = self.lock();
            if *phase == Phase::RequestReceived {
                return;
            }
            std::mem::replace(&mut *phase, Phase::Ended)
        };
        if matches!(was, Phase::Accepted | Phase::Established) {
            self.id.disconnect();
        }
    }

    pub(super) fn reject(&self, private_data: &[u8]) {
        if self.set_phase(Phase::Ended) == Phase::RequestReceived {
            self.id.reject(private_data);
        }
    }
}

/// A connect request. Dropping it rejects the connection.
pub struct IbvConnectRequest {
    pub(super) connection: Arc<Connection>,
    pub(super) is_answered: bool,
}

impl std::fmt::Debug for IbvConnectRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request(from {})", self.connection.peer)
    }
}

impl Drop for IbvConnectRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.reject(&[]);
        }
    }
}
