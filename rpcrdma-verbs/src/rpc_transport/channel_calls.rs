//! The calls of a channel over one connection, for `client` and `callers`: queued and in flight.
//!
//! Queued calls begin in the order of their ids, and expire here; the session expires calls in
//! flight. `waiting` and `deadlines` change together, as do `in_flight` and `xids`. The buffers of
//! each ended call must be taken from the driver, also of a cancelled call. A call that fails
//! without a reply counts as not executed if the session has not transmitted it; where there is no
//! session to ask, `BeginOptions::sends` and `set_sent` decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrayvec::ArrayVec;
use oncrpc::xdr::{Matching, ReceivedItem, SharedBytes};
use oncrpc::{CallErrorKind, CallId, Execution, Progress, ReceivedMessage, Request, Submission};
use rpcrdma_proto::connection::{CallFailure, SessionCallError};
use rpcrdma_proto::transfer::MAX_RESULTS;

use super::failure;
use super::message::{self, Connection, OutgoingItem};
use crate::driver::{BeginError, CallParams, ConnectionId, Driver, OutgoingCallError, Payload};
use crate::memory::{Buf, Frozen, MemoryError};
use crate::number_map::NumberMap;
use crate::provider::Device;

/// All calls of a channel.
#[derive(Debug, Default)]
pub(super) struct ChannelCalls {
    /// The queued calls, in order.
    waiting: BTreeMap<CallId, QueuedCall>,
    /// The deadlines of the queued calls.
    deadlines: BTreeSet<(u64, CallId)>,
    in_flight: NumberMap<u32, Submission>,
    xids: NumberMap<CallId, u32>,
    /// The memory of the last call's header and items.
    header: Vec<u8>,
    items: Vec<OutgoingItem>,
    /// Whether the first queued call waits for memory.
    lacks_memory: bool,
}

#[derive(Debug)]
struct QueuedCall {
    submission: Submission,
    /// In the driver's time.
    deadline: Option<u64>,
}

/// The limits of calls that begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeginOptions {
    /// The maximum number of calls in flight.
    pub(super) max_calls: usize,
    /// The maximum size in bytes of a reply without a bound.
    pub(super) max_unbounded_reply: u32,
    /// Whether the peer may have a call that has begun.
    pub(super) sends: bool,
}

/// The outcome of an attempt to begin a call.
enum BeginOutcome {
    /// It is in flight, or has failed.
    Done,
    /// It waits for a lower number of calls in flight, or for memory.
    Waits(Submission),
}

impl ChannelCalls {
    #[cfg(feature = "tokio")]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Returns the number of queued calls.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the reason why calls are queued.
    pub(super) fn why_waiting(&self) -> Progress {
        if self.lacks_memory {
            Progress::NoMemory
        } else {
            Progress::Queued
        }
    }

    /// Returns the earliest deadline of a queued call.
    #[cfg(feature = "tokio")]
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    /// Takes a call, which begins at once if it may be in flight.
    pub(super) fn submit<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        submission: Submission,
        options: BeginOptions,
    ) {
        let deadline = submission.request().timeout.map(|timeout| {
            let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
            driver.now().saturating_add(micros)
        });
        if !self.waiting.is_empty() || self.in_flight.len() >= options.max_calls {
            return self.wait(submission, deadline);
        }
        let begun = self.begin((driver, connection), submission, deadline, options);
        if let BeginOutcome::Waits(submission) = begun {
            self.wait(submission, deadline);
        }
    }

    fn wait(&mut self, submission: Submission, deadline: Option<u64>) {
        let id = submission.id();
        self.deadlines
            .extend(deadline.map(|deadline| (deadline, id)));
        let waiting = QueuedCall {
            submission,
            deadline,
        };
        self.waiting.insert(id, waiting);
    }

    fn take_waiting(&mut self, id: CallId) -> Option<QueuedCall> {
        let waiting = self.waiting.remove(&id)?;
        if let Some(deadline) = waiting.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(waiting)
    }

    /// Cancels a call.
    pub(super) fn cancel<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        id: CallId,
    ) {
        self.take_waiting(id);
        let Some(xid) = self.xids.remove(&id) else {
            return;
        };
        self.in_flight.remove(&xid);
        if let Some(session) = driver.session_mut(connection) {
            session.cancel(xid);
        }
    }

    /// Begins as many queued calls as may be in flight.
    pub(super) fn begin_calls<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        options: BeginOptions,
    ) {
        while self.in_flight.len() < options.max_calls {
            let Some(id) = self.waiting.keys().next().copied() else {
                return;
            };
            let Some(QueuedCall {
                submission,
                deadline,
            }) = self.take_waiting(id)
            else {
                return;
            };
            let begun = self.begin((driver, connection), submission, deadline, options);
            if let BeginOutcome::Waits(submission) = begun {
                return self.wait(submission, deadline);
            }
        }
    }

    /// Fails the queued calls whose deadlines have passed.
    pub(super) fn expire_waiting(&mut self, now: u64, progress: &Progress) {
        while let Some((due, id)) = self.deadlines.first().copied() {
            if due > now {
                return;
            }
            self.deadlines.remove(&(due, id));
            let Some(waiting) = self.waiting.remove(&id) else {
                continue;
            };
            let submission = waiting.submission;
            let timeout = submission.request().timeout.unwrap_or_default();
            let progress = progress.clone();
            let kind = CallErrorKind::DeadlineExceeded { timeout, progress };
            submission.fail(kind, Execution::NotExecuted);
        }
    }

    fn begin<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        submission: Submission,
        deadline: Option<u64>,
        options: BeginOptions,
    ) -> BeginOutcome {
        self.header.clear();
        if let Err(kind) = submission.request().encode_header(0, &mut self.header) {
            submission.fail(kind, Execution::NotExecuted);
            return BeginOutcome::Done;
        }
        let results = match buffers(driver, submission.request(), &mut self.items) {
            Ok(results) => results,
            // The open calls will return memory, also those that were cancelled.
            Err(MemoryError::Budget { .. }) if has_open_calls(driver, connection) => {
                self.items.clear();
                self.lacks_memory = true;
                return BeginOutcome::Waits(submission);
            }
            Err(error) => {
                self.items.clear();
                let kind = CallErrorKind::Transport(Arc::new(error));
                submission.fail(kind, Execution::NotExecuted);
                return BeginOutcome::Done;
            }
        };
        self.lacks_memory = false;
        let limits = &submission.request().limits;
        let mut params = CallParams {
            max_reply: message::max_reply(limits, &results, options.max_unbounded_reply),
            results,
            reducible: true,
            resend_window: submission.request().resend_window(),
            deadline,
            span: submission.request().span.clone(),
        };
        let body = &submission.request().body;
        let begun = driver.call(connection, &mut params, |writer| {
            message::write(writer, &self.header, body, &mut self.items)
        });
        match begun {
            Ok(xid) => self.add(xid, submission, options.sends),
            Err(BeginError {
                error: OutgoingCallError::Call(SessionCallError::Full),
                ..
            }) => return BeginOutcome::Waits(submission),
            Err(BeginError { error, .. }) => {
                let kind = failure::begin_error(error);
                submission.fail(kind, Execution::NotExecuted);
            }
        }
        BeginOutcome::Done
    }

    fn add(&mut self, xid: u32, mut submission: Submission, sends: bool) {
        submission.set_sent(sends);
        self.xids.insert(submission.id(), xid);
        self.in_flight.insert(xid, submission);
    }

    fn remove(&mut self, xid: u32) -> Option<Submission> {
        let call = self.in_flight.remove(&xid)?;
        self.xids.remove(&call.id());
        Some(call)
    }

    /// Returns true if a call with this XID is in flight.
    pub(super) fn has(&self, xid: u32) -> bool {
        self.in_flight.contains_key(&xid)
    }

    /// Records that the peer may have the calls in flight.
    #[cfg(feature = "tokio")]
    pub(super) fn set_sent(&mut self) {
        let calls = self.in_flight.values_mut();
        calls.for_each(|call| call.set_sent(true));
    }

    /// Ends a call with its reply.
    pub(super) fn answer<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        xid: u32,
        payload: Payload,
    ) {
        let results = driver.take_results(connection, xid);
        let Some(call) = self.remove(xid) else {
            return driver.recycle(connection, payload);
        };
        match received((driver, connection), payload, results, &call) {
            Ok(message) => call.succeed(message),
            Err(error) => {
                let kind = CallErrorKind::Transport(Arc::new(error));
                call.fail(kind, Execution::Executed);
            }
        }
    }

    /// Ends a failed call. `progress` is its progress if its deadline has passed.
    pub(super) fn fail<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        (xid, failure, is_sent): (u32, CallFailure, bool),
        progress: Progress,
    ) {
        drop(driver.take_results(connection, xid));
        let Some(call) = self.remove(xid) else { return };
        let (kind, execution) = failure::call_error(failure, is_sent);
        let kind = match failure {
            CallFailure::TimedOut => {
                let timeout = call.request().timeout.unwrap_or_default();
                CallErrorKind::DeadlineExceeded { timeout, progress }
            }
            _ => kind,
        };
        call.fail(kind, execution);
    }

    /// Fails the calls that do not wait for a connection.
    #[cfg(feature = "tokio")]
    pub(super) fn fail_impatient<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        kind: &CallErrorKind,
    ) {
        let impatient = |waiting: &QueuedCall| !waiting.submission.request().wait_for_connection;
        let waiting = self.waiting.iter().filter(|(_, call)| impatient(call));
        let ids: Vec<CallId> = waiting.map(|(id, _)| *id).collect();
        for waiting in ids.into_iter().filter_map(|id| self.take_waiting(id)) {
            waiting
                .submission
                .fail(kind.clone(), Execution::NotExecuted);
        }
        let in_flight = self
            .in_flight
            .iter()
            .filter(|(_, call)| !call.request().wait_for_connection);
        let xids: Vec<u32> = in_flight.map(|(xid, _)| *xid).collect();
        for xid in xids {
            if let Some(call) = self.remove(xid) {
                abandon((driver, connection), xid, call, kind.clone());
            }
        }
    }

    /// Fails all calls.
    pub(super) fn fail_all<D: Device>(
        &mut self,
        (driver, connection): Connection<'_, D>,
        kind: &CallErrorKind,
    ) {
        for (xid, call) in self.in_flight.drain() {
            abandon((driver, connection), xid, call, kind.clone());
        }
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            waiting
                .submission
                .fail(kind.clone(), Execution::NotExecuted);
        }
        self.xids.clear();
        self.deadlines.clear();
    }
}

/// Fails a call in flight, and cancels it. It was not executed if it was not transmitted.
fn abandon<D: Device>(
    (driver, connection): Connection<'_, D>,
    xid: u32,
    mut call: Submission,
    kind: CallErrorKind,
) {
    if let Some(session) = driver.session_mut(connection) {
        if let Some(is_sent) = session.is_sent(xid) {
            call.set_sent(is_sent);
        }
        session.cancel(xid);
    }
    call.fail_unanswered(kind);
}

/// Returns true if the memory of a call is in use. A cancelled call has it until its reply arrives,
/// or until its chunks are invalidated.
fn has_open_calls<D: Device>(driver: &Driver<D>, connection: ConnectionId) -> bool {
    let session = driver.session(connection);
    session.is_some_and(|session| session.outstanding().0 > 0)
}

/// Lists the items of a call, and takes buffers for the items of its reply.
fn buffers<D: Device>(
    driver: &Driver<D>,
    request: &Request,
    items: &mut Vec<OutgoingItem>,
) -> Result<ArrayVec<Buf, MAX_RESULTS>, MemoryError> {
    let pool = driver.pool();
    message::register_items(pool, &request.body, items)?;
    message::result_buffers(pool, &request.limits)
}

/// Returns a received reply, with the results that the server has written.
///
/// # Errors
/// As for [`stream`].
fn received<D: Device>(
    connection: Connection<'_, D>,
    payload: Payload,
    results: Option<ArrayVec<Buf, MAX_RESULTS>>,
    call: &Submission,
) -> Result<ReceivedMessage, MemoryError> {
    let Some(results) = results else {
        return Ok(ReceivedMessage::whole(stream(connection, payload, call)?));
    };
    let stream = stream(connection, payload, call)?;
    let items = results.into_iter().map(|result| ReceivedItem {
        position: 0,
        bytes: Frozen::from(result).into(),
    });
    Ok(ReceivedMessage::with_items(
        stream,
        items.collect(),
        Matching::InOrder,
    ))
}

/// Returns the bytes of a message, and recycles its buffer if it is not shared.
fn stream<D: Device>(
    (driver, id): Connection<'_, D>,
    payload: Payload,
    call: &Submission,
) -> Result<SharedBytes, MemoryError> {
    let payload = payload.flattened(driver.pool())?;
    if payload.bytes().len() <= message::MAX_COPIED {
        let stream = call.copy_reply(payload.bytes());
        driver.recycle(id, payload);
        return Ok(stream);
    }
    Ok(payload.into_shared())
}
