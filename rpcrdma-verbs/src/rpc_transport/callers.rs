//! The ways back from a server to its clients: backward calls (RFC 8167) over its connections.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use oncrpc::{
    BackwardError, CallErrorKind, CallerChannel, ChannelEvent, Execution, ItemMemory, Peer,
    Progress, Submission, Submissions,
};
use rpcrdma_proto::connection::{CallFailure, CloseReason};

use super::channel_calls::{BeginOptions, ChannelCalls};
use super::local_event::{LocalEvent, completed};
use super::message;
use crate::driver::{ConnectionId, Driver, Event};
use crate::provider::Device;

/// The most calls to one client that wait until fewer are in flight.
const MAX_WAITING: usize = 128;

/// The way back to one client, as a `LocalChannel` uses it.
#[derive(Debug)]
pub(super) struct LocalCaller {
    caller: Arc<CallerChannel>,
    /// What has happened to the calls of local channels.
    events: RefCell<VecDeque<LocalEvent>>,
}

impl LocalCaller {
    pub(super) fn pop_event(&self) -> Option<LocalEvent> {
        self.events.borrow_mut().pop_front()
    }

    /// Returns why no backward call can begin, if none can.
    pub(super) fn check<D: Device>(
        &self,
        driver: &Driver<D>,
        id: ConnectionId,
    ) -> Result<(), CallErrorKind> {
        check(driver, id, &self.caller)
    }
}

/// Returns why no backward call can begin, if none can.
// spec: bd-6-e
fn check<D: Device>(
    driver: &Driver<D>,
    id: ConnectionId,
    caller: &CallerChannel,
) -> Result<(), CallErrorKind> {
    match driver.session(id) {
        None => Err(lost(CloseReason::Lost)),
        Some(_) if !caller.is_ready() => Err(CallErrorKind::Backward(BackwardError::NotReady)),
        Some(session) if session.is_peer_ready() => Ok(()),
        Some(_) => Err(CallErrorKind::Backward(BackwardError::Refused)),
    }
}

fn lost(reason: CloseReason) -> CallErrorKind {
    CallErrorKind::ConnectionLost(Arc::new(CallFailure::Closed(reason)))
}

/// What a server has of one connection.
struct Connection {
    id: ConnectionId,
    peer: Arc<Peer>,
    /// The calls of channels for any thread.
    calls: ChannelCalls,
    /// Whether it is in the list of those where calls wait.
    is_listed: bool,
    local: Rc<LocalCaller>,
}

/// Waits for what happens next at a channel for any thread.
struct NextEvent(Option<(ConnectionId, Submissions)>);

impl Future for NextEvent {
    type Output = (ConnectionId, Submissions, ChannelEvent);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((id, mut submissions)) = self.0.take() else {
            return Poll::Pending;
        };
        match submissions.poll_event(cx) {
            Poll::Ready(event) => Poll::Ready((id, submissions, event)),
            Poll::Pending => {
                self.0 = Some((id, submissions));
                Poll::Pending
            }
        }
    }
}

/// The ways back to the clients of a server.
pub(super) struct Callers {
    memory: Arc<dyn ItemMemory>,
    max_calls: usize,
    /// By the index of the connection.
    connections: Vec<Option<Box<Connection>>>,
    submissions: FuturesUnordered<NextEvent>,
    /// Connections where calls wait for a place.
    waiting: Vec<ConnectionId>,
}

impl Callers {
    pub(super) fn new(memory: Arc<dyn ItemMemory>, max_calls: u16) -> Self {
        Self {
            memory,
            max_calls: max_calls.into(),
            connections: Vec::new(),
            submissions: FuturesUnordered::new(),
            waiting: Vec::new(),
        }
    }

    fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(id.index())?.as_deref_mut();
        connection.filter(|connection| connection.id == id)
    }

    /// Returns the client at the other end of a connection by which a call has come.
    #[inline]
    pub(super) fn peer<D: Device>(&mut self, driver: &Driver<D>, id: ConnectionId) -> Arc<Peer> {
        let known = self.connections.get(id.index()).and_then(Option::as_deref);
        match known.filter(|connection| connection.id == id) {
            Some(connection) => connection.peer.clone(),
            None => self.add(driver, id),
        }
    }

    #[cold]
    fn add<D: Device>(&mut self, driver: &Driver<D>, id: ConnectionId) -> Arc<Peer> {
        let (caller, submissions) =
            CallerChannel::new(id.number(), "client", Some(self.memory.clone()));
        let peer = Arc::new(Peer {
            address: None,
            transport: "rdma",
            memory: Some(self.memory.clone()),
            caller: Ok(caller.clone()),
        });
        if driver.session(id).is_none() {
            // The connection was lost after the call had come.
            submissions.close(lost(CloseReason::Lost));
            return peer;
        }
        let connection = Connection {
            id,
            peer: peer.clone(),
            calls: ChannelCalls::default(),
            is_listed: false,
            local: Rc::new(LocalCaller {
                caller,
                events: RefCell::default(),
            }),
        };
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        if let Some(place) = self.connections.get_mut(id.index()) {
            *place = Some(Box::new(connection));
        }
        self.submissions.push(NextEvent(Some((id, submissions))));
        peer
    }

    /// Returns the way back over the connection with this number, by which a call has come.
    pub(super) fn local(&self, number: u64) -> Option<(ConnectionId, Rc<LocalCaller>)> {
        let id = ConnectionId::from_number(number)?;
        let connection = self.connections.get(id.index())?.as_deref();
        let connection = connection.filter(|connection| connection.id == id)?;
        Some((id, connection.local.clone()))
    }

    /// Takes the end of a backward call.
    pub(super) fn ended<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        event: Event,
    ) {
        let (Event::ReplyArrived { xid, .. } | Event::CallFailed { xid, .. }) = event else {
            return;
        };
        let Some(connection) = self.get(id) else {
            return;
        };
        if !connection.calls.has(xid) {
            let ended = completed((driver, id), event);
            return connection.local.events.borrow_mut().extend(ended);
        }
        let calls = &mut connection.calls;
        match event {
            Event::ReplyArrived { xid, message } => calls.answer((driver, id), xid, message),
            Event::CallFailed { xid, error, sent } => {
                calls.fail((driver, id), (xid, error, sent), Progress::NoReply);
            }
            _ => {}
        }
    }

    /// Fails the backward calls of a connection that is gone.
    pub(super) fn closed<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        reason: CloseReason,
    ) {
        let Some(connection) = self.get(id) else {
            return;
        };
        connection.calls.fail_all((driver, id), &lost(reason));
        let disconnected = LocalEvent::Disconnected {
            reason,
            error: None,
            is_final: true,
        };
        connection.local.events.borrow_mut().push_back(disconnected);
        if let Some(place) = self.connections.get_mut(id.index()) {
            *place = None;
        }
    }

    /// Begins the calls that were made. Returns how many events the channels had.
    pub(super) fn poll<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        cx: &mut Context<'_>,
    ) -> usize {
        let mut count = 0;
        while let Poll::Ready(Some((id, submissions, event))) = self.submissions.poll_next_unpin(cx)
        {
            count += 1;
            if self.take(driver, id, event) {
                self.submissions.push(NextEvent(Some((id, submissions))));
            } else {
                submissions.close(lost(CloseReason::Lost));
            }
        }
        for id in std::mem::take(&mut self.waiting) {
            if let Some(connection) = self.get(id) {
                connection.is_listed = false;
            }
            self.begin(driver, id);
        }
        count
    }

    /// Takes what has happened at a channel. Returns false if nothing else can.
    fn take<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        event: ChannelEvent,
    ) -> bool {
        let Some(connection) = self.get(id) else {
            if let ChannelEvent::Call(submission) = event {
                let completion = submission.completion;
                completion.fail(lost(CloseReason::Lost), Execution::NotExecuted);
            }
            return false;
        };
        match event {
            ChannelEvent::Call(submission) => self.submit(driver, id, submission),
            ChannelEvent::Cancelled(call) => connection.calls.cancel((driver, id), call),
            ChannelEvent::Drain => return false,
            ChannelEvent::Shutdown => {
                let kind = CallErrorKind::Shutdown;
                connection.calls.fail_all((driver, id), &kind);
                return false;
            }
        }
        true
    }

    fn submit<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        submission: Box<Submission>,
    ) {
        let Some(connection) = self.get(id) else {
            return;
        };
        let checked = check(driver, id, &connection.local.caller);
        let full = connection.calls.waiting() >= MAX_WAITING;
        let full = full.then_some(CallErrorKind::Backward(BackwardError::Full));
        if let Some(kind) = checked.err().or(full) {
            return submission.completion.fail(kind, Execution::NotExecuted);
        }
        connection.calls.submit(submission, driver.now());
        self.begin(driver, id);
    }

    /// Begins the calls to a client that have a place.
    fn begin<D: Device>(&mut self, driver: &mut Driver<D>, id: ConnectionId) {
        let options = BeginOptions {
            max_calls: self.max_calls,
            max_unbounded_reply: message::MAX_UNBOUNDED_REPLY,
            sends: true,
        };
        let Some(connection) = self.get(id) else {
            return;
        };
        let calls = &mut connection.calls;
        calls.expire_waiting(driver.now(), &Progress::Queued);
        calls.begin_calls((driver, id), options);
        if calls.waiting() > 0 && !std::mem::replace(&mut connection.is_listed, true) {
            self.waiting.push(id);
        }
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
