//! Metrics of calls (the feature `metrics`). Without the feature all of this is empty.
//!
//! `router` counts at the server, `call` and `reply` at the client. Numbers are passed as closures,
//! which are not called without the feature. [`CallOutcome::Failed`] is the last outcome:
//! `procedures` has its number as the length of an array. `publish` has the gauges and counters of
//! servers and reply caches, which are read when the user asks.

#[cfg(feature = "metrics")]
mod describe;
#[cfg(feature = "metrics")]
mod names;
#[cfg(feature = "metrics")]
mod procedures;
#[cfg(feature = "metrics")]
mod publish;

#[cfg(feature = "metrics")]
use std::cell::Cell;

#[cfg(feature = "metrics")]
pub use describe::describe_metrics;

use crate::error::CallErrorKind;
use crate::header::ReplyStatus;
use crate::procedure::ProcedureId;

/// The outcome of a call, as a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallOutcome {
    Success,
    ProgramUnavailable,
    ProgramMismatch,
    ProcedureUnavailable,
    GarbageArgs,
    SystemError,
    RpcMismatch,
    AuthError,
    NoReply,
    Undecodable,
    Timeout,
    Unreachable,
    ConnectionLost,
    Failed,
}

impl From<&ReplyStatus> for CallOutcome {
    fn from(status: &ReplyStatus) -> Self {
        match status {
            ReplyStatus::Success => Self::Success,
            ReplyStatus::ProgramUnavailable => Self::ProgramUnavailable,
            ReplyStatus::ProgramMismatch { .. } => Self::ProgramMismatch,
            ReplyStatus::ProcedureUnavailable => Self::ProcedureUnavailable,
            ReplyStatus::GarbageArgs => Self::GarbageArgs,
            ReplyStatus::SystemError => Self::SystemError,
            ReplyStatus::RpcMismatch { .. } => Self::RpcMismatch,
            ReplyStatus::AuthError(_) => Self::AuthError,
        }
    }
}

impl From<&CallErrorKind> for CallOutcome {
    fn from(kind: &CallErrorKind) -> Self {
        match kind {
            CallErrorKind::Status(status) => status.into(),
            CallErrorKind::Decode(..) => Self::Undecodable,
            CallErrorKind::DeadlineExceeded { .. } => Self::Timeout,
            CallErrorKind::Connect(_) => Self::Unreachable,
            CallErrorKind::ConnectionLost(_) | CallErrorKind::ReplyCacheExpired(_) => {
                Self::ConnectionLost
            }
            _ => Self::Failed,
        }
    }
}

/// The end of a call that counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Client,
    Server,
}

/// The time of one call in sixteen. Reading the clock twice in each call would cost more than all
/// other metrics.
#[derive(Debug)]
pub(crate) struct Timer(#[cfg(feature = "metrics")] Option<std::time::Instant>);

/// One call in this many is timed.
#[cfg(feature = "metrics")]
const SAMPLED: u32 = 16;

impl Timer {
    /// Starts to measure, if this call is one in sixteen on its thread.
    #[inline]
    pub(crate) fn start(end: End) -> Self {
        #[cfg(feature = "metrics")]
        {
            thread_local!(static TURNS: [Cell<u32>; 2] = const { [Cell::new(0), Cell::new(0)] });
            let turn = TURNS.with(|turns| {
                let turn = &turns[end as usize];
                turn.replace(turn.get().wrapping_add(1))
            });
            Self(turn.is_multiple_of(SAMPLED).then(std::time::Instant::now))
        }
        #[cfg(not(feature = "metrics"))]
        {
            let _ = end;
            Self()
        }
    }

    /// Records the time of a call that has ended.
    #[inline]
    pub(crate) fn stop(&mut self, end: End, procedure: &ProcedureId) {
        #[cfg(feature = "metrics")]
        if let Some(began) = self.0.take() {
            procedures::record(end, procedure, began.elapsed());
        }
        #[cfg(not(feature = "metrics"))]
        let _ = (end, procedure);
    }
}

/// Counts a call that a server has executed, with the bytes of the call and of the reply.
#[inline]
pub(crate) fn count_served(
    procedure: &ProcedureId,
    received: impl FnOnce() -> usize,
    sent: impl FnOnce() -> usize,
) {
    #[cfg(feature = "metrics")]
    procedures::count_served(procedure, received(), sent());
    #[cfg(not(feature = "metrics"))]
    let _ = (procedure, received, sent);
}

/// Counts a call of a client that has results, with the bytes of the reply.
#[inline]
pub(crate) fn count_answered(procedure: &ProcedureId, received: impl FnOnce() -> usize) {
    #[cfg(feature = "metrics")]
    procedures::count_answered(procedure, received());
    #[cfg(not(feature = "metrics"))]
    let _ = (procedure, received);
}

/// Counts a call with any outcome, with the bytes that came to this end and left it.
#[inline]
pub(crate) fn count_ended(
    end: End,
    procedure: &ProcedureId,
    outcome: impl FnOnce() -> CallOutcome,
    received: impl FnOnce() -> usize,
    sent: impl FnOnce() -> usize,
) {
    #[cfg(feature = "metrics")]
    procedures::count_ended(end, procedure, outcome(), received(), sent());
    #[cfg(not(feature = "metrics"))]
    let _ = (end, procedure, outcome, received, sent);
}

/// Counts the bytes of the arguments of a call that a client has begun.
#[inline]
pub(crate) fn count_arguments(bytes: usize) {
    #[cfg(feature = "metrics")]
    procedures::count_bytes(End::Client, 0, bytes);
    #[cfg(not(feature = "metrics"))]
    let _ = bytes;
}

/// Counts the bytes of a call that a server does not execute, since it is known.
#[inline]
pub(crate) fn count_known_call(received: impl FnOnce() -> usize) {
    #[cfg(feature = "metrics")]
    procedures::count_bytes(End::Server, received(), 0);
    #[cfg(not(feature = "metrics"))]
    let _ = received;
}

/// Counts a call that ended without a reply on a transport without futures, for crates that
/// implement [`LocalTransport`](crate::LocalTransport).
#[cfg(feature = "metrics")]
#[cold]
pub fn count_failed_call(procedure: &ProcedureId, kind: &CallErrorKind) {
    count_ended(End::Client, procedure, || kind.into(), || 0, || 0);
}
