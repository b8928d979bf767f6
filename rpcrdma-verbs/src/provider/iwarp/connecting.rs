//! Connections in their setup: the request and reply of MPA, over non-blocking sockets.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Weak;

use rpcrdma_iwarp::{MpaEstablished, MpaInitiator, MpaRequest, MpaResponder, SetupError};
use rustix::io::Errno;

use super::queue_pair::Qp;
use super::socket;
use crate::provider::{Cause, VerbError};

/// A connection that this end initiates.
#[derive(Debug)]
pub(super) struct Connecting {
    pub(super) qp: Weak<Qp>,
    pub(super) address: SocketAddr,
    initiator: MpaInitiator,
    request: Vec<u8>,
    sent: usize,
}

/// A connection that a peer initiates, until its request is complete.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) socket: OwnedFd,
    pub(super) peer: SocketAddr,
    pub(super) listener: SocketAddr,
    responder: MpaResponder,
}

/// The reason why a connection could not be established.
#[derive(Debug)]
pub(super) enum SetupFailure {
    /// The peer has rejected it, with private data.
    Rejected(Vec<u8>),
    /// Another error.
    Error(Option<VerbError>),
}

impl SetupFailure {
    pub(super) fn of(error: Errno, address: SocketAddr) -> Self {
        let cause = match error {
            Errno::CONNREFUSED => Cause::Unreachable(address),
            error => Cause::System(error.into()),
        };
        Self::Error(Some(VerbError {
            verb: "connect",
            cause,
        }))
    }

    fn of_protocol(error: SetupError) -> Self {
        let cause = Cause::System(std::io::Error::other(error));
        Self::Error(Some(VerbError {
            verb: "connect",
            cause,
        }))
    }
}

impl Connecting {
    pub(super) fn new(
        qp: Weak<Qp>,
        address: SocketAddr,
        (initiator, request): (MpaInitiator, Vec<u8>),
    ) -> Self {
        Self {
            qp,
            address,
            initiator,
            request,
            sent: 0,
        }
    }

    /// Returns true if the request waits for room in the socket.
    pub(super) fn is_sending(&self) -> bool {
        self.sent < self.request.len()
    }

    /// Continues as far as the socket allows. Returns the negotiated parameters once they are
    /// complete.
    pub(super) fn advance(
        &mut self,
        socket: &OwnedFd,
    ) -> Result<Option<MpaEstablished>, SetupFailure> {
        // rfc: 5044-7.1-a, 5044-8-e, 6581-9.1-g, 6581-9.1-h
        let address = self.address;
        let failure = |error| SetupFailure::of(error, address);
        if self.is_sending() {
            socket::error(socket).map_err(failure)?;
            let rest = &self.request[self.sent..];
            match socket::send(socket, &[IoSlice::new(rest)]) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(None),
                Err(error) => return Err(failure(error)),
            }
        }
        // The bytes after the reply belong to the stream.
        let mut reply = [0; 32];
        loop {
            let missing = self.initiator.missing().clamp(1, reply.len());
            let received = match socket::receive(socket, &mut reply[..missing]) {
                Ok(0) => return Err(failure(Errno::CONNRESET)),
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(failure(error)),
            };
            match self.initiator.receive(&reply[..received]) {
                Ok((_, None)) => {}
                Ok((_, established)) => return Ok(established),
                Err(SetupError::Rejected) => {
                    return Err(SetupFailure::Rejected(self.initiator.rejection().to_vec()));
                }
                Err(error) => {
                    // If there is no room for the Terminate, the connection is just closed.
                    let terminate = IoSlice::new(self.initiator.terminate());
                    let _ = socket::send(socket, &[terminate]);
                    return Err(SetupFailure::of_protocol(error));
                }
            }
        }
    }
}

impl Incoming {
    pub(super) fn new((socket, peer): (OwnedFd, SocketAddr), listener: SocketAddr) -> Self {
        Self {
            socket,
            peer,
            listener,
            responder: MpaResponder::new(),
        }
    }

    /// Continues as far as the socket allows. Returns the request once it is complete, or an error
    /// if the connection must be closed.
    pub(super) fn advance(&mut self) -> Result<Option<MpaRequest>, Option<SetupError>> {
        let mut frame = [0; 1024];
        loop {
            let received = match socket::receive(&self.socket, &mut frame) {
                Ok(received @ 1..) => received,
                Err(Errno::AGAIN) => return Ok(None),
                Ok(0) | Err(_) => return Err(None),
            };
            match self.responder.receive(&frame[..received]) {
                Ok(None) => {}
                Ok(request) => return Ok(request),
                Err(error) => return Err(Some(error)),
            }
        }
    }
}
