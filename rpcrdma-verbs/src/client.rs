//! A client: calls to one server.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CallError, Config, Failure, Reason, Served, Session};
use rpcrdma_proto::travel::RESULTS;
use rpcrdma_proto::version::Version;

use crate::driver::{Driver, DriverError, GivenBack, Id, Memory, Payload, Refused, Request, Told, WriteError, Writer};
use crate::memory::Buf;
use crate::provider::Device;
use crate::rpc::{self, Credentials, Procedure, ReplyFault};
use crate::server::Arrival;

/// A client of one server, on a driver.
#[derive(Debug)]
pub struct Client {
    id: Id,
    credentials: Credentials,
}

/// A call of a client's: its XID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallId(u32);

/// What a call is to be.
#[derive(Debug)]
pub struct Call {
    /// Which procedure.
    pub procedure: Procedure,
    /// Octets of the largest results, with everything in place.
    pub largest_results: u32,
    /// The memory for each result that may be written apart, in their order: as long as its capacity.
    pub results: ArrayVec<Buf, RESULTS>,
    /// Whether anything may be moved apart: not if the octets are protected, as RPCSEC_GSS does.
    pub reducible: bool,
    /// How long it may take, waiting included; none for as long as it takes.
    pub timeout: Option<Duration>,
}

impl Call {
    /// A call with short results, that takes as long as it takes.
    #[must_use]
    pub fn to(program: u32, version: u32, number: u32) -> Self {
        Self {
            procedure: Procedure { program, version, number },
            largest_results: 256,
            results: ArrayVec::new(),
            reducible: true,
            timeout: None,
        }
    }
}

/// What a client is told.
#[derive(Debug)]
pub enum ClientEvent {
    /// There is a connection, in this version.
    Ready(Version),
    /// A call has succeeded.
    Answered {
        /// Which.
        call: CallId,
        /// Its reply.
        answer: Answered,
    },
    /// A call has failed.
    Failed {
        /// Which.
        call: CallId,
        /// Why.
        why: ClientError,
    },
    /// The server has called back: `Client::reply` answers it.
    CalledBack(Arrival),
    /// The connection is gone.
    Closed {
        /// Why.
        why: Reason,
        /// Whether no other follows.
        last: bool,
    },
}

/// The results of a call.
#[derive(Debug)]
pub struct Answered {
    message: Payload,
    /// Where in the message they begin.
    from: usize,
}

impl Answered {
    /// The results in XDR, without those that were written apart.
    #[must_use]
    pub fn results(&self) -> &[u8] {
        self.message.octets().get(self.from..).unwrap_or_default()
    }
}

/// Why a call has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// It could not begin.
    Call(CallError),
    /// Its message could not be written.
    Write(WriteError),
    /// The transport.
    Transport(Failure),
    /// The reply has no results.
    Reply(ReplyFault),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
            Self::Reply(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {}

impl Client {
    /// A client of the server at an address. It connects by itself, and again when the connection is lost.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn connect<D: Device>(
        driver: &mut Driver<D>,
        server: SocketAddr,
        config: Config,
        credentials: Credentials,
    ) -> Result<Self, DriverError> {
        Ok(Self { id: driver.connect(server, config)?, credentials })
    }

    /// Its connection.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id
    }

    /// Begins a call, whose arguments `write` writes. It ends by `Answered` or `Failed`.
    ///
    /// # Errors
    /// It can't begin: its memory is given back.
    pub fn call<D: Device>(
        &self,
        driver: &mut Driver<D>,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<CallId, GivenBack<ClientError>> {
        begin(driver, self.id, call, &self.credentials, write)
    }

    /// The memory of a call that has ended: its items, and its results, each with the octets that were written. It is to be
    /// taken before the next call begins: after that it may be gone.
    pub fn take_memory<D: Device>(&self, driver: &mut Driver<D>, call: CallId) -> Memory {
        driver.take_memory(self.id, call.0)
    }

    /// Gives up a call: it fails as cancelled, once its memory is safe. False if it has ended.
    pub fn cancel<D: Device>(&self, driver: &mut Driver<D>, call: CallId) -> bool {
        driver.session_mut(self.id).is_some_and(|session| session.cancel(call.0))
    }

    /// Answers a call of the server's.
    ///
    /// # Errors
    /// The call has ended, or there is no way for the reply.
    pub fn reply<D: Device>(
        &self,
        driver: &mut Driver<D>,
        call: Served,
        xid: u32,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), crate::server::ServeError> {
        crate::server::answer(driver, self.id, call, xid, None, write)
    }

    /// What it is to be told next.
    pub fn event<D: Device>(&self, driver: &mut Driver<D>) -> Option<ClientEvent> {
        loop {
            let told = driver.event(self.id)?;
            if let Some(event) = event(told) {
                return Some(event);
            }
        }
    }

    /// The engine of its connection: version, properties, counters.
    #[must_use]
    pub fn session<'d, D: Device>(&self, driver: &'d Driver<D>) -> Option<&'d Session> {
        driver.session(self.id)
    }
}

/// Begins a call on a connection.
pub(crate) fn begin<D: Device>(
    driver: &mut Driver<D>,
    id: Id,
    call: Call,
    credentials: &Credentials,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Result<CallId, GivenBack<ClientError>> {
    let Call { procedure, largest_results, results, reducible, timeout } = call;
    let micros = |timeout: Duration| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
    let deadline = timeout.map(|timeout| driver.now().saturating_add(micros(timeout)));
    let request = Request { results, largest_reply: largest_results.saturating_add(REPLY), reducible, deadline };
    let begun = driver.call(id, request, |writer| {
        rpc::write_call(writer, procedure, credentials)?;
        write(writer)
    });
    let cause = |why| match why {
        Refused::Call(why) => ClientError::Call(why),
        Refused::Write(why) => ClientError::Write(why),
    };
    begun.map(CallId).map_err(|refused| refused.map(cause))
}

/// Octets of the header of a reply with results, whose verifier is empty.
const REPLY: u32 = 24;

/// What a consumer of calls is told; none of what is the transport's own.
pub(crate) fn event(told: Told) -> Option<ClientEvent> {
    Some(match told {
        Told::Ready(version) => ClientEvent::Ready(version),
        Told::Replied { xid, message } => {
            let call = CallId(xid);
            let octets = message.octets();
            match rpc::read_reply(octets).map(|results| octets.len() - results.len()) {
                Ok(from) => ClientEvent::Answered { call, answer: Answered { message, from } },
                Err(why) => ClientEvent::Failed { call, why: ClientError::Reply(why) },
            }
        }
        Told::Failed { xid, why } => ClientEvent::Failed { call: CallId(xid), why: ClientError::Transport(why) },
        Told::Arrived { call, xid, message } => ClientEvent::CalledBack(Arrival { call, xid, message }),
        Told::Closed { why, last } => ClientEvent::Closed { why, last },
        Told::Ended | Told::Properties => return None,
    })
}
