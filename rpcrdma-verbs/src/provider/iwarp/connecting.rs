//! Connections in their setup, over non-blocking sockets: the initiator's request and the reply to
//! it, and the request that a responder receives (its reply is sent when the user accepts).
//!
//! The owner polls the sockets, limits the time, and closes a socket whose setup failed. It does
//! not continue a setup that has ended.

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

/// A connection that a peer initiates, until the peer's request is complete.
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
    /// The setup failed, on either side or on the way.
    Error(VerbError),
}

impl SetupFailure {
    /// Returns the failure by an error of the socket.
    pub(super) fn of_socket(error: Errno, address: SocketAddr) -> Self {
        let cause = match error {
            Errno::CONNREFUSED => Cause::Unreachable(address),
            error => Cause::System(error.into()),
        };
        Self::Error(VerbError {
            verb: "connect",
            cause,
        })
    }

    fn of_protocol(error: SetupError) -> Self {
        let cause = Cause::System(std::io::Error::other(error));
        Self::Error(VerbError {
            verb: "connect",
            cause,
        })
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

    /// Returns true if the request, or a part of it, waits for the socket: it is not connected, or
    /// has no room.
    pub(super) fn is_sending(&self) -> bool {
        self.sent < self.request.len()
    }

    /// Continues as far as the socket allows. Returns the negotiated parameters once the reply is
    /// complete.
    pub(super) fn advance(
        &mut self,
        socket: &OwnedFd,
    ) -> Result<Option<MpaEstablished>, SetupFailure> {
        // rfc: 5044-7.1-a, 5044-8-e, 6581-9.1-g, 6581-9.1-h
        let address = self.address;
        let failure = |error| SetupFailure::of_socket(error, address);
        if self.is_sending() {
            socket::error(socket).map_err(failure)?;
            let rest = &self.request[self.sent..];
            match socket::send(socket, &[IoSlice::new(rest)]) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(None),
                Err(error) => return Err(failure(error)),
            }
        }
        // No more than the reply is read: the bytes after it belong to the stream.
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
                    // Without room for the Terminate, the owner closes the connection without it.
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

    /// Continues as far as the socket allows. Returns the request once it is complete. After an
    /// error the connection must be closed; `None` is an error of the socket, or its end.
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
