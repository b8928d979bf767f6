//! A server's calls to its client, over the connection by which the client calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::time::Instant;

use super::outbox::Outbox;
use super::poll_once;
use super::sending::{push_calls, take_reply};
use crate::caller::CallerChannel;
use crate::calls::Calls;
use crate::channel::{ChannelEvent, Submission, Submissions};
use crate::error::{BackwardError, CallErrorKind, Execution, Progress};
use crate::loopback::wait;

/// The most calls to one client that wait until fewer are in flight.
const MAX_WAITING: usize = 128;

/// The calls to one client.
#[derive(Debug)]
pub(crate) struct Backward {
    caller: Arc<CallerChannel>,
    /// None when the channels to the client carry nothing any more.
    submissions: Option<Submissions>,
    calls: Calls,
    /// Whether there are calls, for the reader of the connection.
    awaited: Arc<AtomicBool>,
}

impl Backward {
    /// Creates the calls of which `max_calls` are in flight at most.
    pub(crate) fn new(
        caller: Arc<CallerChannel>,
        submissions: Submissions,
        max_calls: usize,
    ) -> Self {
        Self {
            caller,
            submissions: Some(submissions),
            calls: Calls::new(max_calls),
            awaited: Arc::default(),
        }
    }

    /// Returns what is true while replies of the client are awaited.
    pub(crate) fn awaited(&self) -> Arc<AtomicBool> {
        self.awaited.clone()
    }

    /// Returns true if no reply of the client is awaited.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the calls that were made, and puts those that have a place into the outbox.
    pub(crate) async fn begin_calls(&mut self, outbox: &mut Outbox) {
        // Nobody has a channel to the client before a handler has taken the caller.
        if self.caller.is_taken() {
            while let Some(submissions) = &mut self.submissions {
                let event = poll_once(std::pin::pin!(submissions.event())).await;
                let std::task::Poll::Ready(event) = event else {
                    break;
                };
                self.take(event);
            }
        }
        push_calls(&mut self.calls, outbox);
        self.awaited.store(!self.calls.is_empty(), Relaxed);
    }

    /// Waits until a call was made or given up, or a deadline has passed, and takes that.
    pub(crate) async fn changed(&mut self) {
        let event = async {
            match &mut self.submissions {
                Some(submissions) => submissions.event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = event => self.take(event),
            () = wait(self.calls.deadline()) => {
                self.calls.expire(Instant::now(), || Progress::Queued);
            }
        }
    }

    fn take(&mut self, event: ChannelEvent) {
        match event {
            ChannelEvent::Call(submission) => self.submit(submission),
            ChannelEvent::Cancelled(id) => self.calls.cancel(id),
            // The connection itself keeps a channel: this was said by `Channel::drain`.
            ChannelEvent::Drain => self.close(CallErrorKind::Shutdown),
            ChannelEvent::Shutdown => self.end(&CallErrorKind::Shutdown),
        }
    }

    fn submit(&mut self, submission: Submission) {
        if self.calls.waiting() >= MAX_WAITING {
            let kind = CallErrorKind::Backward(BackwardError::Full);
            return submission.fail(kind, Execution::NotExecuted);
        }
        self.calls.submit(submission);
    }

    /// Notes that the client may have the call with this XID from now on.
    pub(crate) fn set_sent(&mut self, xid: u32) {
        self.calls.set_sent(xid);
    }

    /// Takes a reply. One that is none of an open call is dropped: its call was given up.
    pub(crate) fn answer(&mut self, record: Vec<u8>) {
        if let Err(xid) = take_reply(&mut self.calls, record) {
            tracing::debug!(peer = ?self.caller, ?xid, "a message is no reply to a call");
        }
    }

    /// Fails all calls, those in flight and those that are made later, because the client's side of
    /// the connection has ended.
    pub(crate) fn lose_connection(&mut self, error: Option<&io::Error>) {
        let closed = || io::Error::new(io::ErrorKind::ConnectionReset, "closed by the client");
        let error = match error {
            Some(error) => io::Error::new(error.kind(), error.to_string()),
            None => closed(),
        };
        self.end(&CallErrorKind::ConnectionLost(Arc::new(error)));
    }

    fn end(&mut self, kind: &CallErrorKind) {
        self.calls.fail_all(kind);
        self.close(kind.clone());
    }

    fn close(&mut self, kind: CallErrorKind) {
        if let Some(submissions) = self.submissions.take() {
            submissions.close(kind);
        }
    }
}
