//! The client's end: a channel, and the future that drives its connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arrayvec::ArrayVec;
use oncrpc::xdr::{Matching, ReceivedItem, SharedBytes};
use oncrpc::{
    CallErrorKind, CallId, Channel, ChannelEvent, Completion, Execution, Progress, ReceivedMessage,
    Request, Submission, Submissions,
};
use rpcrdma_proto::connection::{CallError, CallFailure, CloseReason, Properties};
use rpcrdma_proto::transfer::MAX_RESULTS;

use super::config::ClientConfig;
use super::failure;
use super::message;
use super::message::OutgoingItem;
use super::outage::Outage;
use super::thread::{TransportError, spawn_thread};
use super::waiter::Waiter;
use crate::driver::{
    BeginError, CallBuffers, CallParams, ConnectionId, Driver, Event, OutgoingCallError, Payload,
};
use crate::memory::{Budget, Buf, Frozen, MemoryError, Pool};
use crate::provider::Device;

/// Returns a channel to a server, and starts the thread that drives its connection.
///
/// # Errors
/// Returns the system's error if there can be no thread.
pub fn connect<D: Device>(
    device: &D,
    server: SocketAddr,
    config: ClientConfig,
) -> std::io::Result<Channel> {
    let (channel, runner) = channel(device, server, config);
    spawn_thread("rpcrdma-client", move || runner)?;
    Ok(channel)
}

/// Returns a channel to a server, and the future that drives its connection until the channel ends.
/// The future is polled by a runtime of tokio: on a thread of its own, or as a task.
///
/// The future fails if the settings are invalid or the driver cannot go on. The calls of the
/// channel fail then, as they do if the future is dropped.
pub fn channel<D: Device>(
    device: &D,
    server: SocketAddr,
    config: ClientConfig,
) -> (
    Channel,
    impl Future<Output = Result<(), TransportError>> + Send + 'static,
) {
    let pool = Pool::new(device, &Budget::new(config.memory));
    let (channel, submissions) = Channel::new(server.to_string());
    let channel = channel.with_memory(Arc::new(message::RegisteredMemory(pool.clone())));
    (channel, run(pool, server, config, submissions))
}

async fn run<D: Device>(
    pool: Pool<D>,
    server: SocketAddr,
    config: ClientConfig,
    submissions: Submissions,
) -> Result<(), TransportError> {
    let mut driver = Driver::with_pool(pool, config.completions)?;
    let id = driver.connect(server, config.protocol.clone())?;
    let waiter = Waiter::new(&driver)?;
    let runner = Runner {
        driver,
        id,
        config,
        submissions,
        waiting: BTreeMap::new(),
        deadlines: BTreeSet::new(),
        in_flight: HashMap::new(),
        xids: HashMap::new(),
        connected: false,
        outage: Outage::default(),
        drains: false,
        ended: false,
    };
    runner.run(waiter).await
}

struct Runner<D: Device> {
    driver: Driver<D>,
    id: ConnectionId,
    config: ClientConfig,
    submissions: Submissions,
    /// Calls that wait for a place, in order, each with its deadline in the driver's time.
    waiting: BTreeMap<CallId, Waiting>,
    /// The deadlines of the calls that wait.
    deadlines: BTreeSet<(u64, CallId)>,
    in_flight: HashMap<u32, InFlight>,
    xids: HashMap<CallId, u32>,
    connected: bool,
    outage: Outage,
    drains: bool,
    ended: bool,
}

struct Waiting {
    submission: Box<Submission>,
    deadline: Option<u64>,
}

struct InFlight {
    id: CallId,
    completion: Completion,
    timeout: Option<Duration>,
    /// Whether it waits for a connection.
    waits: bool,
}

/// The outcome of an attempt to begin a call.
enum Begun {
    /// It is in flight, or has failed.
    Done,
    /// It waits for a place or for memory.
    Waits(Box<Submission>),
}

impl<D: Device> Runner<D> {
    async fn run(mut self, waiter: Waiter) -> Result<(), TransportError> {
        loop {
            self.take_submissions().await;
            self.expire_outage();
            self.begin_calls();
            let busy = self.driver.turn()?;
            self.take_events();
            if self.ended || self.drains && self.is_idle() {
                self.close();
                return Ok(());
            }
            if busy > 0 {
                ::tokio::task::yield_now().await;
                continue;
            }
            self.driver.arm()?;
            if self.driver.turn()? > 0 {
                self.take_events();
                continue;
            }
            let timeout = self.timeout();
            ::tokio::select! {
                event = self.submissions.event(), if !self.drains => self.take(event),
                ready = waiter.wait(timeout) => ready?,
            }
            self.driver.acknowledge()?;
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Takes what has happened at the channel, without waiting.
    async fn take_submissions(&mut self) {
        while !self.drains && !self.ended {
            let event = poll_fn(|cx| Poll::Ready(self.submissions.poll_event(cx))).await;
            let Poll::Ready(event) = event else { return };
            self.take(event);
        }
    }

    /// Takes a call, which waits for its place.
    fn submit(&mut self, submission: Box<Submission>) {
        let waits = self.connected || submission.request.wait_for_connection;
        if let Some(kind) = self.outage.error().filter(|_| !waits) {
            return submission.completion.fail(kind, Execution::NotExecuted);
        }
        let micros = |timeout: Duration| {
            let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
            self.driver.now().saturating_add(micros)
        };
        let deadline = submission.request.timeout.map(micros);
        let id = submission.id;
        self.deadlines
            .extend(deadline.map(|deadline| (deadline, id)));
        let waiting = Waiting {
            deadline,
            submission,
        };
        self.waiting.insert(id, waiting);
    }

    fn take(&mut self, event: ChannelEvent) {
        match event {
            ChannelEvent::Call(submission) => self.submit(submission),
            ChannelEvent::Cancelled(id) => {
                let waiting = self.waiting.remove(&id);
                if let Some(deadline) = waiting.and_then(|waiting| waiting.deadline) {
                    self.deadlines.remove(&(deadline, id));
                }
                self.cancel(id);
            }
            ChannelEvent::Drain => self.drains = true,
            ChannelEvent::Shutdown => {
                self.fail_all(&CallErrorKind::Shutdown);
                self.ended = true;
            }
        }
    }

    fn cancel(&mut self, id: CallId) {
        let Some(xid) = self.xids.remove(&id) else {
            return;
        };
        self.in_flight.remove(&xid);
        if let Some(session) = self.driver.session_mut(self.id) {
            session.cancel(xid);
        }
    }

    /// Begins the calls that have a place.
    fn begin_calls(&mut self) {
        self.expire_waiting();
        while self.in_flight.len() < usize::from(self.config.protocol.max_calls) {
            let Some((id, waiting)) = self.waiting.pop_first() else {
                return;
            };
            let Waiting {
                submission,
                deadline,
            } = waiting;
            if let Some(deadline) = deadline {
                self.deadlines.remove(&(deadline, id));
            }
            if let Begun::Waits(submission) = self.begin(submission, deadline) {
                self.deadlines
                    .extend(deadline.map(|deadline| (deadline, id)));
                let waiting = Waiting {
                    submission,
                    deadline,
                };
                self.waiting.insert(id, waiting);
                return;
            }
        }
    }

    /// Fails the calls whose deadlines have passed while they waited.
    fn expire_waiting(&mut self) {
        let now = self.driver.now();
        while let Some((due, id)) = self.deadlines.first().copied() {
            if due > now {
                return;
            }
            self.deadlines.remove(&(due, id));
            let Some(waiting) = self.waiting.remove(&id) else {
                continue;
            };
            let Submission {
                request,
                completion,
                ..
            } = *waiting.submission;
            let timeout = request.timeout.unwrap_or_default();
            let progress = self.progress(Progress::Queued);
            let kind = CallErrorKind::DeadlineExceeded { timeout, progress };
            completion.fail(kind, Execution::NotExecuted);
        }
    }

    /// Takes buffers for the items of a call and of its reply.
    fn buffers(
        &self,
        request: &Request,
    ) -> Result<(Vec<OutgoingItem>, ArrayVec<Buf, MAX_RESULTS>), MemoryError> {
        let pool = self.driver.pool();
        let items = message::register_items(pool, &request.body)?;
        Ok((items, message::result_buffers(pool, &request.limits)?))
    }

    fn begin(&mut self, submission: Box<Submission>, deadline: Option<u64>) -> Begun {
        let mut header = Vec::with_capacity(64);
        if let Err(error) = submission.request.encode_header(0, &mut header) {
            let kind = CallErrorKind::Encode(error);
            submission.completion.fail(kind, Execution::NotExecuted);
            return Begun::Done;
        }
        let (items, results) = match self.buffers(&submission.request) {
            Ok(buffers) => buffers,
            // The calls in flight give memory back.
            Err(MemoryError::Budget { .. }) if !self.in_flight.is_empty() => {
                return Begun::Waits(submission);
            }
            Err(error) => {
                let kind = CallErrorKind::Transport(Arc::new(error));
                submission.completion.fail(kind, Execution::NotExecuted);
                return Begun::Done;
            }
        };
        let mut params = CallParams {
            max_reply: message::max_reply(
                &submission.request.limits,
                &results,
                self.config.max_unbounded_reply,
            ),
            results,
            reducible: true,
            resend: submission.request.may_resend(),
            deadline,
        };
        let body = &submission.request.body;
        let begun = self.driver.call(self.id, &mut params, |writer| {
            message::write(writer, &header, body, items)
        });
        match begun {
            Ok(xid) => self.add(xid, *submission),
            Err(BeginError {
                error: OutgoingCallError::Call(CallError::Full),
                ..
            }) => return Begun::Waits(submission),
            Err(BeginError { error, .. }) => {
                let kind = failure::of_begin(error);
                submission.completion.fail(kind, Execution::NotExecuted);
            }
        }
        Begun::Done
    }

    fn add(&mut self, xid: u32, submission: Submission) {
        let Submission {
            id,
            request,
            mut completion,
        } = submission;
        completion.set_sent(self.connected || self.sends_before_ready());
        let call = InFlight {
            id,
            completion,
            timeout: request.timeout,
            waits: request.wait_for_connection,
        };
        self.in_flight.insert(xid, call);
        self.xids.insert(id, xid);
    }

    fn remove(&mut self, xid: u32) -> Option<InFlight> {
        let call = self.in_flight.remove(&xid)?;
        self.xids.remove(&call.id);
        Some(call)
    }

    fn take_events(&mut self) {
        while self.driver.ready().is_some() {}
        while let Some(event) = self.driver.poll_event(self.id) {
            match event {
                Event::Ready(version) => {
                    tracing::debug!(?version, "connected");
                    self.connected = true;
                    self.outage.end();
                    let waiting = self.in_flight.values_mut();
                    waiting.for_each(|call| call.completion.set_sent(true));
                }
                Event::ReplyArrived { xid, message } => self.answer(xid, message),
                Event::CallFailed { xid, error, sent } => self.fail(xid, error, sent),
                // The client has said of no call that it takes backward calls.
                Event::CallArrived { call, message, .. } => {
                    message::reject_backward_call((&mut self.driver, self.id), call, message);
                }
                Event::Closed { reason, is_final } => self.closed(reason, is_final),
            }
        }
    }

    fn answer(&mut self, xid: u32, payload: Payload) {
        let buffers = self.driver.take_buffers(self.id, xid);
        let received = received((&mut self.driver, self.id), payload, buffers);
        let Some(InFlight { completion, .. }) = self.remove(xid) else {
            return;
        };
        match received {
            Ok(message) => completion.succeed(message),
            Err(error) => {
                let kind = CallErrorKind::Transport(Arc::new(error));
                completion.fail(kind, Execution::Executed);
            }
        }
    }

    fn fail(&mut self, xid: u32, failure: CallFailure, is_sent: bool) {
        drop(self.driver.take_buffers(self.id, xid));
        let Some(call) = self.remove(xid) else { return };
        let (kind, execution) = failure::of_call(failure, is_sent);
        let kind = match failure {
            CallFailure::TimedOut => {
                let timeout = call.timeout.unwrap_or_default();
                let progress = self.progress(Progress::NoReply);
                CallErrorKind::DeadlineExceeded { timeout, progress }
            }
            _ => kind,
        };
        call.completion.fail(kind, execution);
    }

    /// Returns whether a call may be sent before the version is settled: without properties, a
    /// call is the first message.
    fn sends_before_ready(&self) -> bool {
        self.config.protocol.properties == Properties::None
    }

    /// Returns what is known of a call whose deadline has passed, where there is a connection.
    fn progress(&self, connected: Progress) -> Progress {
        if self.connected {
            connected
        } else {
            Progress::NotConnected(self.outage.cause())
        }
    }

    /// Fails the calls, if there was no connection for so long.
    fn expire_outage(&mut self) {
        if self.connected {
            return;
        }
        let (now, has_calls) = (self.driver.now(), !self.is_idle());
        let due = self.outage.due(has_calls, now, self.config.connect_timeout);
        if due.is_some_and(|due| due <= now) {
            let kind = self.outage.fail();
            tracing::warn!(error = %kind, "can't connect");
            self.fail_all(&kind);
        }
    }

    /// The connection is gone. The session ends the calls that may not be sent again.
    fn closed(&mut self, reason: CloseReason, is_final: bool) {
        tracing::info!(%reason, is_final, "connection closed");
        let was_connected = std::mem::replace(&mut self.connected, false);
        self.outage.failed(self.driver.take_connect_error(self.id));
        self.ended |= is_final;
        if is_final {
            let closed = CallFailure::Closed(reason);
            return self.fail_all(&CallErrorKind::ConnectionLost(Arc::new(closed)));
        }
        if let Some(kind) = self.outage.error().filter(|_| !was_connected) {
            self.fail_impatient(&kind);
        }
    }

    /// Fails the calls that do not wait for a connection.
    fn fail_impatient(&mut self, kind: &CallErrorKind) {
        let waiting = std::mem::take(&mut self.waiting);
        for (id, waiting) in waiting {
            if waiting.submission.request.wait_for_connection {
                self.waiting.insert(id, waiting);
                continue;
            }
            if let Some(deadline) = waiting.deadline {
                self.deadlines.remove(&(deadline, id));
            }
            let completion = waiting.submission.completion;
            completion.fail(kind.clone(), Execution::NotExecuted);
        }
        let in_flight = self.in_flight.iter().filter(|(_, call)| !call.waits);
        let xids: Vec<u32> = in_flight.map(|(xid, _)| *xid).collect();
        for xid in xids {
            if let Some(session) = self.driver.session_mut(self.id) {
                session.cancel(xid);
            }
            if let Some(call) = self.remove(xid) {
                call.completion.fail_unanswered(kind.clone());
            }
        }
    }

    fn fail_all(&mut self, kind: &CallErrorKind) {
        for (xid, call) in self.in_flight.drain() {
            call.completion.fail_unanswered(kind.clone());
            if let Some(session) = self.driver.session_mut(self.id) {
                session.cancel(xid);
            }
        }
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let completion = waiting.submission.completion;
            completion.fail(kind.clone(), Execution::NotExecuted);
        }
        self.xids.clear();
        self.deadlines.clear();
    }

    /// Returns how long nothing is due.
    fn timeout(&mut self) -> Option<Duration> {
        let now = self.driver.now();
        let outage = if self.connected {
            None
        } else {
            let limit = self.config.connect_timeout;
            self.outage.due(!self.is_idle(), now, limit)
        };
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        let due = [deadline, outage].into_iter().flatten().min();
        let waits = due.map(|due| Duration::from_micros(due.saturating_sub(now)));
        [waits, self.driver.timeout()].into_iter().flatten().min()
    }

    /// Ends the session.
    fn close(&mut self) {
        self.driver.finish(self.id);
        self.driver.forget(self.id);
    }
}

/// Returns a received reply, with the results that the server has written.
///
/// # Errors
/// As for [`stream`].
fn received<D: Device>(
    connection: message::Connection<'_, D>,
    payload: Payload,
    buffers: CallBuffers,
) -> Result<ReceivedMessage, MemoryError> {
    if buffers.results.is_empty() {
        return Ok(ReceivedMessage::whole(stream(connection, payload)?));
    }
    let stream = stream(connection, payload)?;
    let items = buffers.results.into_iter().map(|result| ReceivedItem {
        position: 0,
        bytes: Frozen::from(result).into(),
    });
    Ok(ReceivedMessage::with_items(
        stream,
        items.collect(),
        Matching::InOrder,
    ))
}

/// Returns the bytes of a message, and takes its buffer back if it is not shared.
fn stream<D: Device>(
    (driver, id): message::Connection<'_, D>,
    payload: Payload,
) -> Result<SharedBytes, MemoryError> {
    let payload = payload.flattened(driver.pool())?;
    if payload.bytes().len() <= message::MAX_COPIED {
        let stream = SharedBytes::from(payload.bytes().to_vec());
        driver.recycle(id, payload);
        return Ok(stream);
    }
    Ok(payload.into_shared())
}
