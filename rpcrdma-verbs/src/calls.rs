//! Calls and their answers, as both ends see them: what clients and servers are made of.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{
    CallFailure, CloseReason, ReplyError, ServedCallId, SessionCallError,
};
use rpcrdma_proto::transfer::MAX_RESULTS;
use rpcrdma_proto::version::Version;

use crate::driver::{
    BeginError, CallParams, ConnectionId, Driver, DriverEvent, OutgoingCallError,
    OutgoingReplyError, Payload, WriteError, Writer,
};
use crate::memory::{Buf, MemoryError};
use crate::provider::Device;
use crate::rpc::{self, Credentials, Denial, Procedure, ReplyFault};

/// A call of a client's: its XID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallId(pub(crate) u32);

/// What a call is to be.
#[derive(Debug)]
pub struct Call {
    /// Which procedure.
    pub procedure: Procedure,
    /// Octets of the largest results, with everything in place.
    pub largest_results: u32,
    /// The memory for each result that may be written apart, in their order: as long as its
    /// capacity.
    pub results: ArrayVec<Buf, MAX_RESULTS>,
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
            procedure: Procedure {
                program,
                version,
                number,
            },
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
        why: CloseReason,
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
        self.message.bytes().get(self.from..).unwrap_or_default()
    }
}

/// Why a call has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// It could not begin.
    Call(SessionCallError),
    /// The client has not said that it takes backward calls, or they can't go by this connection.
    NotReady,
    /// Its message could not be written.
    Write(WriteError),
    /// The transport.
    Transport(CallFailure),
    /// The reply has no results.
    Reply(ReplyFault),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::NotReady => f.write_str(
                "the client takes no backward calls now: wait for the call by which it says so",
            ),
            Self::Write(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
            Self::Reply(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {}

/// A call of a peer's that has come.
#[derive(Debug)]
pub struct Arrival {
    /// The call.
    pub call: ServedCallId,
    /// Its XID.
    pub xid: u32,
    pub(crate) message: Payload,
}

impl Arrival {
    /// What it says; none if it is not even the beginning of an RPC call, and is to be declined.
    #[must_use]
    pub fn read(&self) -> Option<Result<rpc::Call<'_>, Denial>> {
        rpc::read_call(self.message.bytes(), self.message.items())
    }

    /// The same call with all of its items in place: those that were placed apart are copied.
    ///
    /// # Errors
    /// There is no memory.
    pub fn whole<D: Device>(self, driver: &Driver<D>) -> Result<Self, MemoryError> {
        let Self { call, xid, message } = self;
        Ok(Self {
            call,
            xid,
            message: message.flattened(driver.pool())?,
        })
    }
}

/// Why a call is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServeError {
    /// The transport: the call has ended, or there is no way for the reply.
    Reply(ReplyError),
    /// The reply could not be written.
    Write(WriteError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}

/// Begins a call on a connection.
pub(crate) fn begin<D: Device>(
    driver: &mut Driver<D>,
    id: ConnectionId,
    call: Call,
    credentials: &Credentials,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Result<CallId, BeginError<ClientError>> {
    let Call {
        procedure,
        largest_results,
        results,
        reducible,
        timeout,
    } = call;
    let micros = |timeout: Duration| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
    let deadline = timeout.map(|timeout| driver.now().saturating_add(micros(timeout)));
    let mut request = CallParams {
        results,
        max_reply: largest_results.saturating_add(REPLY),
        reducible,
        resend: true,
        deadline,
    };
    let begun = driver.call(id, &mut request, |writer| {
        rpc::write_call(writer, procedure, credentials)?;
        write(writer)
    });
    let cause = |why| match why {
        OutgoingCallError::Call(why) => ClientError::Call(why),
        OutgoingCallError::Write(why) => ClientError::Write(why),
    };
    begun.map(CallId).map_err(|refused| refused.map(cause))
}

/// Octets of the header of a reply with results, whose verifier is empty.
const REPLY: u32 = 24;

/// What a consumer of calls is told.
pub(crate) fn event(told: DriverEvent) -> ClientEvent {
    match told {
        DriverEvent::Ready(version) => ClientEvent::Ready(version),
        DriverEvent::ReplyArrived { xid, message } => {
            let call = CallId(xid);
            let octets = message.bytes();
            match rpc::read_reply(octets).map(|results| octets.len() - results.len()) {
                Ok(from) => ClientEvent::Answered {
                    call,
                    answer: Answered { message, from },
                },
                Err(why) => ClientEvent::Failed {
                    call,
                    why: ClientError::Reply(why),
                },
            }
        }
        DriverEvent::CallFailed {
            xid, error: why, ..
        } => ClientEvent::Failed {
            call: CallId(xid),
            why: ClientError::Transport(why),
        },
        DriverEvent::CallArrived { call, xid, message } => {
            ClientEvent::CalledBack(Arrival { call, xid, message })
        }
        DriverEvent::Closed {
            reason: why,
            is_final: last,
        } => ClientEvent::Closed { why, last },
    }
}

/// A call as its service takes it: with its items apart, or in place. None if there is no memory
/// for that, and it is declined.
pub(crate) fn taken<D: Device>(
    driver: &mut Driver<D>,
    id: ConnectionId,
    arrival: Arrival,
    with_items: bool,
) -> Option<Arrival> {
    if with_items || arrival.message.items().is_empty() {
        return Some(arrival);
    }
    let call = arrival.call;
    match arrival.whole(driver) {
        Ok(arrival) => Some(arrival),
        Err(error) => {
            tracing::warn!(%error, "a call is declined for want of memory");
            if let Some(session) = driver.session_mut(id) {
                // It has ended already if its connection is gone.
                let _ = session.reject(call);
            }
            None
        }
    }
}

/// What a call says; none if it is answered already: it is malformed, or for another program or
/// version. If it says that its caller takes backward calls, that is noted.
pub(crate) fn admitted<'a, D: Device>(
    driver: &mut Driver<D>,
    id: ConnectionId,
    arrival: &'a Arrival,
    (program, versions): (u32, RangeInclusive<u32>),
    is_ready: impl FnOnce(&rpc::Call<'_>) -> bool,
) -> Option<rpc::Call<'a>> {
    let denial = match arrival.read() {
        None => {
            if let Some(session) = driver.session_mut(id) {
                // It has ended already if its connection is gone.
                let _ = session.reject(arrival.call);
            }
            return None;
        }
        Some(Err(denial)) => denial,
        Some(Ok(call)) if call.procedure.program != program => Denial::ProgramUnavailable,
        Some(Ok(call)) if !versions.contains(&call.procedure.version) => Denial::ProgramMismatch {
            low: *versions.start(),
            high: *versions.end(),
        },
        Some(Ok(call)) => {
            if is_ready(&call)
                && let Some(session) = driver.session_mut(id)
            {
                session.peer_ready(arrival.call);
            }
            return Some(call);
        }
    };
    // It has ended already if its connection is gone.
    let _ = answer(driver, id, arrival.call, arrival.xid, Some(denial), |_| {
        Ok(())
    });
    None
}

/// Answers a call: with what `write` writes, or with a denial.
pub(crate) fn answer<D: Device>(
    driver: &mut Driver<D>,
    id: ConnectionId,
    call: ServedCallId,
    xid: u32,
    denial: Option<Denial>,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Result<(), ServeError> {
    let answered = driver.reply(id, call, |writer| {
        rpc::write_reply(writer, xid, denial)?;
        write(writer)
    });
    answered.map_err(|why| match why {
        OutgoingReplyError::Reply(why) => ServeError::Reply(why),
        OutgoingReplyError::Write(why) => ServeError::Write(why),
    })
}
