//! The errors of failed calls: how failures of the engine (`rpcrdma-proto`) and of the driver
//! become those of `oncrpc`.
//!
//! Callers retry a call that was not executed, so a call that was posted is never `NotExecuted`.
//! Users may downcast the sources.

use std::sync::Arc;

use oncrpc::{CallErrorKind, Execution, Progress};
use rpcrdma_proto::connection::{CallFailure, CloseReason, SessionCallError};

use crate::driver::OutgoingCallError;

/// Returns the error of a call that the engine has ended, and whether the server executed it.
/// `is_sent` tells whether any Send with the call was posted, over any connection.
pub(super) fn call_error(failure: CallFailure, is_sent: bool) -> (CallErrorKind, Execution) {
    let execution = match failure {
        CallFailure::ReplyMemory => Execution::Executed,
        // Not even ERR_CHUNK (`Peer(Header)`) is an exception: it also reports a reply that did not
        // fit, after the call was executed.
        _ if is_sent => Execution::Unknown,
        _ => Execution::NotExecuted,
    };
    let kind = match failure {
        CallFailure::Closed(CloseReason::Unreachable) => CallErrorKind::Connect(Arc::new(failure)),
        CallFailure::Closed(reason) | CallFailure::Disconnected(reason) => {
            CallErrorKind::ConnectionLost(Arc::new(reason))
        }
        CallFailure::ResendExpired(reason) => CallErrorKind::ReplyCacheExpired(Arc::new(reason)),
        _ => CallErrorKind::Transport(Arc::new(failure)),
    };
    (kind, execution)
}

/// Returns the progress of a call whose deadline has passed on an established connection.
pub(super) fn progress(is_sent: bool) -> Progress {
    if is_sent {
        Progress::NoReply
    } else {
        Progress::NoCredit
    }
}

/// Returns the error of a call that could not begin, and so was not executed.
pub(super) fn begin_error(error: OutgoingCallError) -> CallErrorKind {
    match error {
        // The user has closed the channel.
        OutgoingCallError::NoConnection
        | OutgoingCallError::Call(
            SessionCallError::Closing
            | SessionCallError::Ended(CloseReason::Drained | CloseReason::Aborted),
        ) => CallErrorKind::Shutdown,
        OutgoingCallError::Call(SessionCallError::Full) => CallErrorKind::TooManyCalls,
        OutgoingCallError::Call(error) => CallErrorKind::Transport(Arc::new(error)),
        OutgoingCallError::Write(error) => CallErrorKind::Transport(Arc::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use rpcrdma_proto::error::PeerError;
    use rpcrdma_proto::transfer::TransferError;

    use super::*;

    #[test]
    fn a_call_on_an_ended_channel_says_who_ended_it() {
        let text = |error| begin_error(error).to_string();
        let ended = |reason| OutgoingCallError::Call(SessionCallError::Ended(reason));
        for closed in [
            OutgoingCallError::NoConnection,
            OutgoingCallError::Call(SessionCallError::Closing),
            ended(CloseReason::Drained),
            ended(CloseReason::Aborted),
        ] {
            assert_eq!(text(closed), "the channel was shut down", "{closed:?}");
        }
        assert_eq!(
            text(ended(CloseReason::NoVersion)),
            "the transport failed: the session has ended: the two ends have no version in common"
        );
    }

    #[test]
    fn a_failure_says_whether_the_call_was_executed() {
        use Execution::{Executed, NotExecuted, Unknown};
        for (failure, sent, unsent) in [
            (
                CallFailure::Transfer(TransferError::TooManySegments),
                Unknown,
                NotExecuted,
            ),
            (CallFailure::Memory, Unknown, NotExecuted),
            (CallFailure::ReplyMemory, Executed, Executed),
            (CallFailure::Peer(PeerError::Header), Unknown, NotExecuted),
            (CallFailure::ReplyReadList, Unknown, NotExecuted),
            (CallFailure::TimedOut, Unknown, NotExecuted),
            (CallFailure::Closed(CloseReason::Lost), Unknown, NotExecuted),
            (
                CallFailure::Disconnected(CloseReason::Lost),
                Unknown,
                NotExecuted,
            ),
            (
                CallFailure::ResendExpired(CloseReason::Lost),
                Unknown,
                NotExecuted,
            ),
        ] {
            assert_eq!(call_error(failure, true).1, sent, "{failure:?}");
            assert_eq!(call_error(failure, false).1, unsent, "{failure:?}");
        }
    }
}
