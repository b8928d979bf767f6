//! Backward calls: a server's calls over the connection of its client.
//!
//! `connection` owns the calls of its client. It calls `begin_calls` before each wait, `set_sent`
//! with each call of which a byte is written, and `lose_connection` at the end. `begin_calls`
//! updates `awaited`: while it is true, the connection reads beyond its limits, since a handler may
//! wait for a reply behind calls that exceed them. `changed` may be dropped at any time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::time::Instant;

use super::outbox::Outbox;
use super::poll_once;
use super::record::Record;
use super::sending::{push_calls, take_reply, unsent};
use crate::caller::CallerChannel;
use crate::calls::Calls;
use crate::channel::{ChannelEvent, Submission, Submissions};
use crate::error::{BackwardError, CallErrorKind, Execution};
use crate::loopback::wait;

/// The maximum number of queued calls to one client.
const MAX_WAITING: usize = 128;

/// The calls to one client.
#[derive(Debug)]
pub(crate) struct Backward {
    caller: Arc<CallerChannel>,
    /// `None` after the channel to the client has ended.
    submissions: Option<Submissions>,
    calls: Calls,
    /// The maximum size of a call and of a reply in bytes.
    max_record: usize,
    /// Whether there are calls, for the reader of the connection.
    awaited: Arc<AtomicBool>,
}

impl Backward {
    /// Creates the state for at most `max_calls` calls in flight.
    pub(crate) fn new(
        caller: Arc<CallerChannel>,
        submissions: Submissions,
        max_calls: usize,
        max_record: usize,
    ) -> Self {
        Self {
            caller,
            submissions: Some(submissions),
            calls: Calls::new(max_calls),
            max_record,
            awaited: Arc::default(),
        }
    }

    /// Returns the flag that is true while replies of the client are outstanding.
    pub(crate) fn awaited(&self) -> Arc<AtomicBool> {
        self.awaited.clone()
    }

    /// Returns true if no reply of the client is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes new calls, and puts as many as may be in flight into the outbox.
    pub(crate) async fn begin_calls(&mut self, outbox: &mut Outbox) {
        // No channel to the client exists before a handler has taken the caller.
        if self.caller.is_taken() {
            while let Some(submissions) = &mut self.submissions {
                let event = poll_once(std::pin::pin!(submissions.event())).await;
                let std::task::Poll::Ready(event) = event else {
                    break;
                };
                self.take(event);
            }
        }
        push_calls(&mut self.calls, outbox, self.max_record);
        self.awaited.store(!self.calls.is_empty(), Relaxed);
    }

    /// Waits for a new call, a cancellation or a deadline, and handles it.
    pub(crate) async fn changed(&mut self) {
        let event = async {
            match &mut self.submissions {
                Some(submissions) => submissions.event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = event => self.take(event),
            () = wait(self.calls.deadline()) => self.expire(),
        }
    }

    /// Fails the calls whose deadlines have passed.
    pub(crate) fn expire(&mut self) {
        self.calls.expire(Instant::now(), unsent);
    }

    fn take(&mut self, event: ChannelEvent) {
        match event {
            ChannelEvent::Call(submission) => self.submit(submission),
            ChannelEvent::Cancelled(id) => self.calls.cancel(id),
            // The channel accepts no more calls, and those that are open go on.
            ChannelEvent::Drain => {}
            ChannelEvent::Shutdown => self.end(&CallErrorKind::Shutdown, true),
        }
    }

    fn submit(&mut self, submission: Submission) {
        if self.calls.queued() >= MAX_WAITING {
            let kind = CallErrorKind::Backward(BackwardError::Full);
            return submission.fail(kind, Execution::NotExecuted);
        }
        self.calls.submit(submission);
    }

    /// Records that the client may have the call with this XID.
    pub(crate) fn set_sent(&mut self, xid: u32) {
        self.calls.set_sent(xid);
    }

    /// Handles a reply. A reply to no open call is dropped: its call was cancelled.
    pub(crate) fn answer(&mut self, record: Record) {
        if let Err(xid) = take_reply(&mut self.calls, record, self.max_record) {
            tracing::debug!(peer = ?self.caller, ?xid, "a message is no reply to a call");
        }
    }

    /// Fails all calls, those in flight and those that are made later, because the connection has
    /// ended: with an error, or because the client has ended its side. `sends` tells whether the
    /// outbox is still sent.
    pub(crate) fn lose_connection(&mut self, error: Option<&io::Error>, sends: bool) {
        let closed = || io::Error::new(io::ErrorKind::ConnectionReset, "closed by the client");
        let error = match error {
            Some(error) => io::Error::new(error.kind(), error.to_string()),
            None => closed(),
        };
        self.end(&CallErrorKind::ConnectionLost(Arc::new(error)), sends);
    }

    fn end(&mut self, kind: &CallErrorKind, sends: bool) {
        if sends {
            self.calls.set_all_sent();
        }
        self.calls.fail_all(kind);
        self.close(kind.clone());
    }

    fn close(&mut self, kind: CallErrorKind) {
        if let Some(submissions) = self.submissions.take() {
            submissions.close(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Body;
    use crate::procedure::{ProcedureId, ReplyLimits};
    use crate::request::{Request, Resend};
    use crate::transport::AsyncTransport as _;

    fn request() -> Request {
        Request {
            procedure: ProcedureId {
                program: 1,
                version: 1,
                number: 1,
                name: "READ",
            },
            credentials: None,
            security: None,
            body: Body::new(),
            limits: ReplyLimits::new(None),
            timeout: None,
            is_idempotent: false,
            resend: Resend::default(),
            wait_for_connection: true,
            span: None,
        }
    }

    /// Returns whether two calls were executed that end with the channel: one is in the outbox, and
    /// one is queued.
    async fn executions(end: impl FnOnce(&mut Backward, &CallerChannel)) -> [Execution; 2] {
        let (caller, submissions) = CallerChannel::new(1, "client", None);
        let mut backward = Backward::new(caller.clone(), submissions, 1, 1000);
        let channel = caller.take();
        let calls = [channel.call(request()), channel.call(request())];
        let mut outbox = Outbox::default();
        backward.begin_calls(&mut outbox).await;
        assert!(!outbox.is_empty());
        end(&mut backward, &caller);
        backward.begin_calls(&mut outbox).await;
        let mut executions = [Execution::Executed; 2];
        for (call, execution) in calls.into_iter().zip(&mut executions) {
            *execution = call.await.unwrap_err().execution();
        }
        executions
    }

    /// A client that has ended its side still receives what is in the outbox, and may execute it.
    #[test]
    fn a_call_that_is_still_sent_may_be_executed() {
        use Execution::{NotExecuted, Unknown};
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let ended = executions(|backward, _| backward.lose_connection(None, true));
            assert_eq!(ended.await, [Unknown, NotExecuted]);
            let ended = executions(|_, caller| caller.take().shutdown());
            assert_eq!(ended.await, [Unknown, NotExecuted]);
            let reset = io::Error::from(io::ErrorKind::ConnectionReset);
            let ended = executions(|backward, _| backward.lose_connection(Some(&reset), false));
            assert_eq!(ended.await, [NotExecuted, NotExecuted]);
        });
    }
}
