//! Backward calls (RFC 8167) from a server to its clients, over their connections.
//!
//! No backward call begins before a handler has taken the caller (`check`). `LocalServer` must pass
//! the end of each backward call to `ended` and of each connection to `closed`, and must call
//! `poll` after the handlers, which make callers ready. `poll` must count queued calls that begin:
//! no event wakes the driver for them, and it would send them late. A call belongs to
//! `ChannelCalls` (channels for any thread) or to a `LocalCaller` (`LocalChannel`); a call of
//! neither was cancelled.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use oncrpc::{
    BackwardError, CallErrorKind, CallerChannel, ChannelEvent, Execution, ItemMemory, Peer,
    Submission, Submissions,
};
use rpcrdma_proto::connection::{CloseReason, ConnState};

use super::admission::Client;
use super::channel_calls::{BeginOptions, ChannelCalls};
use super::failure::progress;
use super::local_event::{LocalEvent, completed};
use super::message;
use crate::driver::{ConnectionId, Driver, DriverEvent};
use crate::provider::Device;

/// The maximum number of queued calls to one client.
const MAX_WAITING: usize = 128;

/// The backward direction to one client, for `LocalChannel`.
#[derive(Debug)]
pub(super) struct LocalCaller {
    caller: Arc<CallerChannel>,
    /// The XIDs of the calls that local channels have begun.
    begun: RefCell<HashSet<u32>>,
    /// The events of these calls.
    events: RefCell<VecDeque<LocalEvent>>,
    /// The reason for which the connection is closed. Another one may have its number then.
    closed: Cell<Option<CloseReason>>,
}

impl LocalCaller {
    pub(super) fn pop_event(&self) -> Option<LocalEvent> {
        self.events.borrow_mut().pop_front()
    }

    /// Records that a local channel has begun a call.
    pub(super) fn begun(&self, xid: u32) {
        self.begun.borrow_mut().insert(xid);
    }

    /// Returns the reason why no backward call can begin, if there is one.
    pub(super) fn check<D: Device>(
        &self,
        driver: &Driver<D>,
        id: ConnectionId,
    ) -> Result<(), CallErrorKind> {
        match self.closed.get() {
            Some(reason) => Err(lost(reason)),
            None => check(driver, id, &self.caller),
        }
    }
}

/// Returns the reason why no backward call can begin, if there is one.
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
        // The server has not been told yet.
        Some(session) if session.state() != ConnState::Up => Err(lost(CloseReason::Lost)),
        Some(_) => Err(CallErrorKind::Backward(BackwardError::Refused)),
    }
}

fn lost(reason: CloseReason) -> CallErrorKind {
    CallErrorKind::ConnectionLost(Arc::new(reason))
}

/// The backward direction of one connection.
struct Connection {
    id: ConnectionId,
    peer: Arc<Peer>,
    /// The calls of channels for any thread.
    calls: ChannelCalls,
    /// Whether it is in the list of those where calls wait.
    is_listed: bool,
    local: Rc<LocalCaller>,
}

/// Waits for the next event of a channel for any thread.
struct NextEvent(Option<ChannelOf>);

/// A connection, and the transport's end of its backward channel.
type ChannelOf = (ConnectionId, Rc<LocalCaller>, Submissions);

impl Future for NextEvent {
    type Output = (ChannelOf, ChannelEvent);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((id, local, mut submissions)) = self.0.take() else {
            return Poll::Pending;
        };
        match submissions.poll_event(cx) {
            Poll::Ready(event) => Poll::Ready(((id, local, submissions), event)),
            Poll::Pending => {
                self.0 = Some((id, local, submissions));
                Poll::Pending
            }
        }
    }
}

/// The backward directions of a server's connections.
pub(super) struct Callers {
    memory: Arc<dyn ItemMemory>,
    max_calls: usize,
    /// By the index of the connection.
    connections: Vec<Option<Box<Connection>>>,
    submissions: FuturesUnordered<NextEvent>,
    /// The connections with queued calls.
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

    /// Returns the client of a connection over which a call has arrived.
    #[inline]
    pub(super) fn peer(&mut self, id: ConnectionId, client: &Client) -> Arc<Peer> {
        let known = self.connections.get(id.index()).and_then(Option::as_deref);
        match known.filter(|connection| connection.id == id) {
            Some(connection) => connection.peer.clone(),
            None => self.add(id, client),
        }
    }

    #[cold]
    fn add(&mut self, id: ConnectionId, client: &Client) -> Arc<Peer> {
        let (caller, submissions) =
            CallerChannel::new(id.number(), "client", Some(self.memory.clone()));
        let peer = Arc::new(Peer {
            address: Some(client.address),
            status: Some(client.status.clone()),
            transport: "rdma",
            memory: Some(self.memory.clone()),
            caller: Ok(caller.clone()),
        });
        let local = Rc::new(LocalCaller {
            caller,
            begun: RefCell::default(),
            events: RefCell::default(),
            closed: Cell::default(),
        });
        let connection = Connection {
            id,
            peer: peer.clone(),
            calls: ChannelCalls::default(),
            is_listed: false,
            local: local.clone(),
        };
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        if let Some(place) = self.connections.get_mut(id.index()) {
            *place = Some(Box::new(connection));
        }
        let next = NextEvent(Some((id, local, submissions)));
        self.submissions.push(next);
        peer
    }

    /// Returns the backward direction of the connection with this number, over which a call has
    /// arrived.
    pub(super) fn local(&self, number: u64) -> Option<(ConnectionId, Rc<LocalCaller>)> {
        let id = ConnectionId::from_number(number)?;
        let connection = self.connections.get(id.index())?.as_deref();
        let connection = connection.filter(|connection| connection.id == id)?;
        Some((id, connection.local.clone()))
    }

    /// Handles the end of a backward call.
    pub(super) fn ended<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        event: DriverEvent,
    ) {
        let (DriverEvent::ReplyArrived { xid, .. } | DriverEvent::CallFailed { xid, .. }) = event
        else {
            return;
        };
        let Some(connection) = self.get(id) else {
            return;
        };
        if !connection.calls.has(xid) {
            let is_local = connection.local.begun.borrow_mut().remove(&xid);
            // The end of a cancelled call is not reported.
            let ended = completed((driver, id), event).filter(|_| is_local);
            return connection.local.events.borrow_mut().extend(ended);
        }
        let calls = &mut connection.calls;
        match event {
            DriverEvent::ReplyArrived { xid, message } => calls.answer((driver, id), xid, message),
            DriverEvent::CallFailed { xid, error, sent } => {
                calls.fail((driver, id), (xid, error, sent), progress(sent));
            }
            _ => {}
        }
    }

    /// Fails the backward calls of a closed connection.
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
        connection.local.closed.set(Some(reason));
        // The next poll drops the channel's events.
        connection.local.caller.close(lost(reason));
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

    /// Begins new calls, and those that were queued. Returns the number of events of the channels,
    /// and of queued calls that have begun or failed.
    pub(super) fn poll<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        cx: &mut Context<'_>,
    ) -> usize {
        let mut count = 0;
        while let Poll::Ready(Some((channel, event))) = self.submissions.poll_next_unpin(cx) {
            count += 1;
            let (id, local, submissions) = channel;
            match self.take(driver, (id, &local), event) {
                Ok(()) => self
                    .submissions
                    .push(NextEvent(Some((id, local, submissions)))),
                Err(kind) => submissions.close(kind),
            }
        }
        for id in std::mem::take(&mut self.waiting) {
            if let Some(connection) = self.get(id) {
                connection.is_listed = false;
            }
            count += self.begin(driver, id);
        }
        count
    }

    /// Returns the earliest deadline of a queued call.
    #[cfg(feature = "tokio")]
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let connections = self.waiting.iter();
        let listed = connections.filter_map(|id| self.connections.get(id.index())?.as_deref());
        listed
            .filter_map(|connection| connection.calls.next_deadline())
            .min()
    }

    /// Handles the events of a channel. After the last event, it returns the reason why further
    /// calls fail as an error.
    fn take<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        (id, local): (ConnectionId, &LocalCaller),
        event: ChannelEvent,
    ) -> Result<(), CallErrorKind> {
        let closed = local.closed.get();
        let connection = self.get(id).filter(|_| closed.is_none());
        let Some(connection) = connection else {
            let kind = lost(closed.unwrap_or(CloseReason::Lost));
            if let ChannelEvent::Call(submission) = event {
                submission.fail(kind.clone(), Execution::NotExecuted);
            }
            return Err(kind);
        };
        match event {
            ChannelEvent::Call(submission) => self.submit(driver, id, submission),
            ChannelEvent::Cancelled(call) => connection.calls.cancel((driver, id), call),
            // The channel accepts no more calls, and those that are open go on.
            ChannelEvent::Drain => {}
            ChannelEvent::Shutdown => {
                let kind = CallErrorKind::Shutdown;
                connection.calls.fail_all((driver, id), &kind);
                return Err(kind);
            }
        }
        Ok(())
    }

    fn submit<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        submission: Submission,
    ) {
        // Calls whose deadlines have passed occupy no place.
        self.begin(driver, id);
        let options = self.options();
        let Some(connection) = self.get(id) else {
            return;
        };
        let checked = check(driver, id, &connection.local.caller);
        let full = connection.calls.waiting() >= MAX_WAITING;
        let full = full.then_some(CallErrorKind::Backward(BackwardError::Full));
        if let Some(kind) = checked.err().or(full) {
            return submission.fail(kind, Execution::NotExecuted);
        }
        connection.calls.submit((driver, id), submission, options);
        self.begin(driver, id);
    }

    fn options(&self) -> BeginOptions {
        BeginOptions {
            max_calls: self.max_calls,
            max_unbounded_reply: message::MAX_UNBOUNDED_REPLY,
            sends: true,
        }
    }

    /// Begins as many queued calls to a client as may be in flight. Returns the number of those
    /// that have begun or failed.
    fn begin<D: Device>(&mut self, driver: &mut Driver<D>, id: ConnectionId) -> usize {
        let options = self.options();
        let Some(connection) = self.get(id) else {
            return 0;
        };
        let calls = &mut connection.calls;
        let before = calls.waiting();
        calls.expire_waiting(driver.now(), &calls.why_waiting());
        calls.begin_calls((driver, id), options);
        let waiting = calls.waiting();
        if waiting > 0 && !std::mem::replace(&mut connection.is_listed, true) {
            self.waiting.push(id);
        }
        before - waiting
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
