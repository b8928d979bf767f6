//! Replies, from the message to results.
//!
//! `read_reply` is the only decoder of replies. It decides the error of a reply without results and
//! whether the server executed the call, by which callers decide whether to repeat it. It counts
//! the call in the metrics; `call` counts calls without a reply.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use xdrgen_runtime::{Decode, Decoder, ItemList, Limits};

use crate::error::{CallError, CallErrorKind, Execution};
use crate::header::{ReplyStatus, decode_reply};
use crate::message::{ReceivedMessage, wrong_field};
use crate::metering::{self, CallOutcome, End};
use crate::procedure::{Method, ProcedureId};
use crate::span::record_status;

/// The reply to a call, before its results are decoded.
#[derive(Debug)]
pub struct Reply<P> {
    message: ReceivedMessage,
    peer: Arc<str>,
    span: Option<Box<Span>>,
    procedure: PhantomData<fn() -> P>,
}

impl<P: Method> Reply<P> {
    pub(crate) const fn new(
        message: ReceivedMessage,
        peer: Arc<str>,
        span: Option<Box<Span>>,
    ) -> Self {
        Self {
            message,
            peer,
            span,
            procedure: PhantomData,
        }
    }

    /// Decodes the results, and passes them to a function. Each read counts the call in the
    /// metrics, and records its status in its span.
    ///
    /// # Errors
    /// The status of the reply is not success; or `Decode` if the reply does not match the schema.
    pub fn read<R>(&self, f: impl FnOnce(P::Reply<'_>) -> R) -> Result<R, CallError> {
        let read = read_reply::<P, R>(&self.message.item_list(), &self.peer, f);
        match &read {
            Ok(_) => record_status(&self.span, &ReplyStatus::Success),
            Err(error) => record_status(&self.span, error.kind()),
        }
        read
    }
}

/// Decodes the results of a reply, and passes them to a function.
fn read_reply<P: Method, R>(
    items: &ItemList<'_>,
    peer: &Arc<str>,
    f: impl FnOnce(P::Reply<'_>) -> R,
) -> Result<R, CallError> {
    let failed = |kind, execution| {
        let received = || items.total_len();
        failed_reply(
            const { &ProcedureId::of::<P>() },
            peer,
            kind,
            execution,
            received,
        )
    };
    let undecodable = |error| failed(CallErrorKind::Decode(error, None), Execution::Unknown);
    let limits = Limits::DEFAULT;
    let mut d = Decoder::with_items(items, &limits).map_err(undecodable)?;
    let status = decode_reply(&mut d).map_err(undecodable)?;
    if status != ReplyStatus::Success {
        let execution = match status {
            ReplyStatus::SystemError => Execution::Unknown,
            _ => Execution::NotExecuted,
        };
        return Err(failed(CallErrorKind::Status(status), execution));
    }
    let decoded = P::Reply::decode(&mut d).and_then(|value| d.finish().map(|()| value));
    let counted = |value| {
        let procedure = const { &ProcedureId::of::<P>() };
        metering::count_answered(procedure, || items.total_len());
        f(value)
    };
    decoded.map(counted).map_err(|error| {
        let path = wrong_result::<P>(items);
        failed(CallErrorKind::Decode(error, path), Execution::Executed)
    })
}

/// Returns the path of the field of a reply's results that cannot be decoded.
#[cold]
fn wrong_result<P: Method>(items: &ItemList<'_>) -> Option<String> {
    let mut d = Decoder::with_items(items, &Limits::DEFAULT).ok()?;
    decode_reply(&mut d).ok()?;
    wrong_field::<P::Reply<'_>>(d)
}

/// Counts a call whose reply has no results, and returns its error.
#[cold]
fn failed_reply(
    procedure: &ProcedureId,
    peer: &Arc<str>,
    kind: CallErrorKind,
    execution: Execution,
    received: impl FnOnce() -> usize,
) -> CallError {
    let outcome = || CallOutcome::from(&kind);
    metering::count_ended(End::Client, procedure, outcome, received, || 0);
    CallError::new(*procedure, peer.clone(), kind, execution)
}

/// A call that was begun on a driver ([`Call::begin`](crate::Call::begin)).
pub struct PendingCall<P> {
    xid: u32,
    timeout: Option<Duration>,
    procedure: PhantomData<fn() -> P>,
}

impl<P: Method> PendingCall<P> {
    pub(crate) const fn new(xid: u32, timeout: Option<Duration>) -> Self {
        Self {
            xid,
            timeout,
            procedure: PhantomData,
        }
    }

    /// Returns the XID, which no other call of the transport has until this one has ended.
    #[must_use]
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Returns the timeout of the call.
    #[must_use]
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Decodes the results of the reply to this call, and passes them to a function. A transport
    /// calls this for its users.
    ///
    /// # Errors
    /// As for [`Reply::read`](crate::Reply::read).
    pub fn read_reply<R>(
        &self,
        items: &ItemList<'_>,
        peer: &Arc<str>,
        f: impl FnOnce(P::Reply<'_>) -> R,
    ) -> Result<R, CallError> {
        read_reply::<P, R>(items, peer, f)
    }
}

impl<P> Clone for PendingCall<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for PendingCall<P> {}

impl<P> fmt::Debug for PendingCall<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall({:#x})", self.xid)
    }
}
