//! The errors of calls.
//!
//! A caller may repeat a call that is [`Execution::NotExecuted`]: a runner must report this only if
//! it has sent no byte of the call (`channel::Submission::set_sent`), and `reply` only for a status
//! that excludes the execution. `metering` counts a kind that `CallOutcome` does not name as
//! `failed`. This module also has the texts of [`ReplyStatus`].

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::header::ReplyStatus;
use crate::procedure::ProcedureId;

/// Whether the server executed a call that failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Execution {
    /// It did not. The call can be repeated without harm.
    NotExecuted,
    /// Unknown: the call was sent, and no reply arrived.
    Unknown,
    /// It did. The call must not be repeated, unless it is idempotent.
    Executed,
}

/// The state of a call when its deadline passed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The call waited for a connection. The field has the error of the last attempt, if there was
    /// one.
    NotConnected(Option<String>),
    /// The call waited behind the maximum number of calls in flight.
    Queued,
    /// The call was not written to the connection, since the peer does not read what is before it.
    NotWritten,
    /// The call waited for a credit of the server.
    NoCredit,
    /// The call waited for memory within the budget.
    NoMemory,
    /// The call was sent, and no reply arrived.
    NoReply,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(None) => f.write_str("not connected"),
            Self::NotConnected(Some(cause)) => write!(f, "not connected: {cause}"),
            Self::Queued => f.write_str("too many calls in flight"),
            Self::NotWritten => f.write_str("the peer does not read"),
            Self::NoCredit => f.write_str("no credit from the server"),
            Self::NoMemory => f.write_str("memory budget exhausted"),
            Self::NoReply => f.write_str("no reply"),
        }
    }
}

/// The kinds of [`CallError`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The arguments could not be encoded.
    Encode(xdrgen_runtime::Error),
    /// The deadline passed.
    DeadlineExceeded {
        /// The timeout of the call.
        timeout: Duration,
        /// The state of the call at the deadline.
        progress: Progress,
    },
    /// No connection could be made.
    Connect(Arc<dyn StdError + Send + Sync>),
    /// The connection was lost before a reply arrived.
    ConnectionLost(Arc<dyn StdError + Send + Sync>),
    /// The connection was lost, and no other could carry the call again within the lifetime of the
    /// server's reply cache ([`Resend::Always`](crate::Resend::Always)). The field says why it was
    /// lost.
    ReplyCacheExpired(Arc<dyn StdError + Send + Sync>),
    /// The maximum number of calls is open on a driver ([`LocalTransport`](crate::LocalTransport)).
    /// Begin the call again when one of them has ended.
    TooManyCalls,
    /// The channel was shut down.
    Shutdown,
    /// The runner of the channel has ended. The field has its error; `None` if it was dropped.
    RunnerEnded(Option<Arc<str>>),
    /// The call exceeds the maximum size of the transport or of the server.
    CallTooLarge {
        /// The maximum size in bytes.
        max: u64,
    },
    /// The reply exceeds the maximum size of the client.
    ReplyTooLarge {
        /// The maximum size in bytes.
        max: u64,
    },
    /// The server answered with an error.
    Status(ReplyStatus),
    /// The reply could not be decoded: the error, and the path of the field.
    Decode(xdrgen_runtime::Error, Option<String>),
    /// The transport failed.
    Transport(Arc<dyn StdError + Send + Sync>),
    /// The server cannot call its client.
    Backward(BackwardError),
    /// The call cannot be protected, or the reply does not match its verifier.
    Security(Arc<dyn StdError + Send + Sync>),
    /// A layer between the client and its channel failed, such as one of tower.
    Middleware(Arc<dyn StdError + Send + Sync>),
}

/// Describes why a server cannot call its client ([`Context::caller`](crate::Context::caller)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BackwardError {
    /// The transport has no backward direction.
    Transport,
    /// The client serves no calls over this connection.
    Refused,
    /// No handler has taken the caller, which states that the client is ready for calls.
    NotReady,
    /// The maximum number of calls waits for credits of the client.
    Full,
}

impl fmt::Display for BackwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transport => "the transport carries no backward calls",
            Self::Refused => "it carries no services over this connection",
            Self::NotReady => "it has not announced that it is ready for calls",
            Self::Full => "too many calls wait for it",
        })
    }
}

impl StdError for BackwardError {}

/// The error of a call: the reason, the procedure, the peer, and whether the server executed the
/// call.
///
/// ```
/// use oncrpc::{CallError, CallErrorKind, Execution, ProcedureId};
///
/// let get = ProcedureId { program: 0x2000_0001, version: 1, number: 1, name: "GET" };
/// let kind = CallErrorKind::Shutdown;
/// let error = CallError::new(get, "storage-1:2049", kind, Execution::NotExecuted);
/// assert_eq!(
///     error.to_string(),
///     "GET of program 0x20000001 version 1 at storage-1:2049: the channel was shut down (not \
///      executed)"
/// );
/// ```
#[derive(Clone, Debug)]
pub struct CallError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    procedure: ProcedureId,
    peer: Arc<str>,
    kind: CallErrorKind,
    execution: Execution,
}

impl CallError {
    /// Creates an error.
    pub fn new(
        procedure: ProcedureId,
        peer: impl Into<Arc<str>>,
        kind: CallErrorKind,
        execution: Execution,
    ) -> Self {
        Self(Box::new(Inner {
            procedure,
            peer: peer.into(),
            kind,
            execution,
        }))
    }

    /// Returns the procedure that was called.
    #[must_use]
    pub fn procedure(&self) -> &ProcedureId {
        &self.0.procedure
    }

    /// Returns the peer's name or address.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.0.peer
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &CallErrorKind {
        &self.0.kind
    }

    /// Returns whether the server executed the call.
    #[must_use]
    pub fn execution(&self) -> Execution {
        self.0.execution
    }

    /// Returns true if the server did not execute the call, and the same call may succeed later:
    /// there was no connection, it was lost, or the deadline passed before the call was sent.
    ///
    /// ```
    /// # use oncrpc::{CallError, CallErrorKind, Execution, ProcedureId};
    /// # let get = ProcedureId { program: 0x2000_0001, version: 1, number: 1, name: "GET" };
    /// let kind = CallErrorKind::CallTooLarge { max: 4096 };
    /// let error = CallError::new(get, "storage-1:2049", kind, Execution::NotExecuted);
    /// assert!(!error.is_retryable());
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use CallErrorKind::{Connect, ConnectionLost, DeadlineExceeded, TooManyCalls};
        let is_temporary = matches!(
            self.0.kind,
            Connect(_) | ConnectionLost(_) | DeadlineExceeded { .. } | TooManyCalls
        );
        is_temporary && self.0.execution == Execution::NotExecuted
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            procedure,
            peer,
            kind,
            execution,
        } = &*self.0;
        write!(f, "{procedure} at {peer}: {kind} ({execution})")
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotExecuted => "not executed",
            Self::Unknown => "perhaps executed",
            Self::Executed => "executed",
        })
    }
}

impl fmt::Display for CallErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode(error) => write!(f, "the arguments can't be encoded: {error}"),
            Self::DeadlineExceeded { timeout, progress } => {
                write!(f, "not done within {timeout:?}: {progress}")
            }
            Self::Connect(error) => write!(f, "can't connect: {error}"),
            Self::ConnectionLost(error) => write!(f, "the connection was lost: {error}"),
            Self::ReplyCacheExpired(error) => write!(
                f,
                "the connection was lost, and not restored within the lifetime of the reply cache: \
                {error}"
            ),
            Self::TooManyCalls => f.write_str("too many calls are open"),
            Self::Shutdown => f.write_str("the channel was shut down"),
            Self::RunnerEnded(None) => f.write_str("the channel's runner has ended"),
            Self::RunnerEnded(Some(error)) => write!(f, "the channel's runner has ended: {error}"),
            Self::CallTooLarge { max } => write!(f, "the call exceeds {max} bytes"),
            Self::ReplyTooLarge { max } => write!(f, "the reply exceeds {max} bytes"),
            Self::Status(status) => status.fmt(f),
            Self::Decode(error, None) => write!(f, "the reply can't be decoded: {error}"),
            Self::Decode(error, Some(path)) => {
                write!(f, "the reply can't be decoded: {path}: {error}")
            }
            Self::Transport(error) => write!(f, "the transport failed: {error}"),
            Self::Backward(error) => write!(f, "can't call the client: {error}"),
            Self::Security(error) => write!(f, "protection of the call failed: {error}"),
            Self::Middleware(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ReplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("success"),
            Self::ProgramUnavailable => f.write_str("the server does not offer the program"),
            Self::ProgramMismatch { low, high } => {
                write!(
                    f,
                    "the server offers versions {low} to {high} of the program"
                )
            }
            Self::ProcedureUnavailable => f.write_str("the server does not offer the procedure"),
            Self::GarbageArgs => f.write_str("the server can't decode the arguments"),
            Self::SystemError => f.write_str("the server failed"),
            Self::RpcMismatch { low, high } => {
                write!(f, "the server supports versions {low} to {high} of ONC RPC")
            }
            Self::AuthError(stat) => {
                write!(f, "the server refuses the credentials: {}", stat.name())
            }
        }
    }
}

/// The text contains those of the errors in [`CallErrorKind`], so that the source is that of such
/// an error.
impl StdError for CallError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.kind {
            CallErrorKind::Connect(error)
            | CallErrorKind::ConnectionLost(error)
            | CallErrorKind::ReplyCacheExpired(error)
            | CallErrorKind::Transport(error)
            | CallErrorKind::Security(error)
            | CallErrorKind::Middleware(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of a transport, with its cause.
    #[derive(Debug)]
    struct Failed(std::io::Error);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no route")
        }
    }

    impl StdError for Failed {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    /// A report of the whole chain, such as that of anyhow, prints each cause once.
    #[test]
    fn the_text_of_an_error_does_not_contain_its_source() {
        let failed = || Arc::new(Failed(std::io::Error::other("disk on fire")));
        let kinds: [fn(Arc<dyn StdError + Send + Sync>) -> CallErrorKind; 6] = [
            CallErrorKind::Connect,
            CallErrorKind::ConnectionLost,
            CallErrorKind::ReplyCacheExpired,
            CallErrorKind::Transport,
            CallErrorKind::Security,
            CallErrorKind::Middleware,
        ];
        let procedure = ProcedureId {
            program: 1,
            version: 1,
            number: 1,
            name: "GET",
        };
        for kind in kinds {
            let error = CallError::new(procedure, "storage-1", kind(failed()), Execution::Unknown);
            let source = error.source().map(ToString::to_string);
            assert_eq!(source.as_deref(), Some("disk on fire"));
            let text = error.to_string();
            assert!(
                text.contains("no route") && !text.contains("disk"),
                "{text}"
            );
        }
    }
}
