//! Channels: handles for any thread, and the runner's end.
//!
//! A [`Channel`] puts calls into a queue that a runner empties: a task, or a thread of its own,
//! that drives a transport. The queue, and a slot for each call, are all that the two ends share.
//! Runners own deadlines, retransmission and the limit of calls in flight: `calls` for TCP and
//! `loopback`, `rpc_transport` of `rpcrdma-verbs` for RDMA. Each call ends exactly once, at the
//! latest when its [`Submission`] is dropped. This module calls wakers and ends submissions without
//! its locks, since a waker may use the channel again. A runner must accept the cancellation of an
//! ended call.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use xdrgen_runtime::SharedBytes;

use crate::error::{CallError, CallErrorKind, Execution};
use crate::item_buf::{ItemBuf, ItemMemory};
use crate::message::ReceivedMessage;
use crate::request::Request;
use crate::transport::{AsyncTransport, Transport};

/// The result of a call, with the whole reply.
type Outcome = Result<ReceivedMessage, CallError>;

/// A handle to a transport that runs elsewhere: in a task, or on a thread of its own.
///
/// Clones are handles to the same transport. Calls begin in order, and wait while the transport's
/// limit of calls in flight is reached. The transport ends when the last handle is dropped and no
/// call is in flight.
#[derive(Clone)]
pub struct Channel {
    queue: Arc<Queue>,
    memory: Option<Arc<dyn ItemMemory>>,
    /// Counts the handles.
    _handle: Arc<Handle>,
}

/// The state that all handles share.
struct Handle(Arc<Queue>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end(Ending::Drain);
    }
}

struct Queue {
    peer: Arc<str>,
    state: Mutex<State>,
}

struct State {
    submitted: VecDeque<Submission>,
    /// The calls whose futures were dropped.
    cancelled: Vec<CallId>,
    next: u64,
    ending: Option<Ending>,
    /// The error of new calls after a `close` or the end of the runner. It prevails over `ending`.
    closed: Option<CallErrorKind>,
    runner: Option<Waker>,
}

/// The end of a channel. The later variant prevails: `Queue::end` takes the maximum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ending {
    /// When the calls in flight have ended.
    Drain,
    /// At once.
    Shutdown,
}

/// Identifies a call of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CallId(u64);

/// The length in bytes of the header of a reply with an empty verifier.
const REPLY_HEADER: u64 = 24;
/// The maximum length in bytes of a reply that is copied.
const MAX_REPLY_COPY: u64 = 240;

/// Locks a mutex. The data of this module's mutexes are consistent between any two statements, so
/// that a poisoned mutex is harmless.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Changes the state, and wakes the runner.
    fn change<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let value = f(&mut state);
        let runner = state.runner.take();
        drop(state);
        if let Some(runner) = runner {
            runner.wake();
        }
        value
    }

    fn end(&self, ending: Ending) {
        self.change(|state| state.ending = state.ending.max(Some(ending)));
    }
}

impl Channel {
    /// Creates a channel to a server of this name, and the runner's end of it.
    #[must_use]
    pub fn new(peer: impl Into<Arc<str>>) -> (Self, Submissions) {
        let queue = Arc::new(Queue {
            peer: peer.into(),
            state: Mutex::new(State {
                submitted: VecDeque::new(),
                cancelled: Vec::new(),
                next: 0,
                ending: None,
                closed: None,
                runner: None,
            }),
        });
        let channel = Self {
            _handle: Arc::new(Handle(queue.clone())),
            queue: queue.clone(),
            memory: None,
        };
        let submissions = Submissions {
            queue,
            taken: VecDeque::new(),
            drains: false,
        };
        (channel, submissions)
    }

    /// Creates a channel on which each call fails for this reason, and is not executed.
    ///
    /// ```
    /// use oncrpc::{CallErrorKind, Channel};
    ///
    /// let channel = Channel::closed("storage-1", CallErrorKind::Shutdown);
    /// # let _ = channel;
    /// ```
    #[must_use]
    pub fn closed(peer: impl Into<Arc<str>>, reason: CallErrorKind) -> Self {
        let (channel, submissions) = Self::new(peer);
        submissions.close(reason);
        channel
    }

    /// Sets the transport's memory for items.
    #[must_use]
    pub fn with_memory(self, memory: Arc<dyn ItemMemory>) -> Self {
        Self {
            memory: Some(memory),
            ..self
        }
    }

    /// Returns a buffer for an item of `len` bytes of the arguments, from which the transport sends
    /// it without a copy if it can.
    #[must_use]
    pub fn item_buf(&self, len: usize) -> ItemBuf {
        ItemBuf::new(self.memory.as_ref(), len)
    }

    /// Drains the channel: the transport ends when the open calls have ended. New calls fail.
    pub fn drain(&self) {
        self.queue.end(Ending::Drain);
    }

    /// Shuts the channel down: the transport ends at once. Calls in flight fail.
    pub fn shutdown(&self) {
        self.queue.end(Ending::Shutdown);
    }

    /// Shuts the channel down. New calls fail for this reason.
    pub(crate) fn close(&self, reason: CallErrorKind) {
        self.queue.change(|state| {
            state.closed.get_or_insert(reason);
            state.ending = Some(Ending::Shutdown);
        });
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({})", self.queue.peer)
    }
}

impl Transport for Channel {
    fn peer(&self) -> Arc<str> {
        self.queue.peer.clone()
    }
}

impl AsyncTransport for Channel {
    type Call = ChannelCall;

    fn call(&self, request: Request) -> ChannelCall {
        let reply = match request.limits.inline_max() {
            Some(max) => max.saturating_add(REPLY_HEADER),
            None => MAX_REPLY_COPY,
        };
        let slot = Arc::new(Slot {
            queue: self.queue.clone(),
            request,
            reply: Mutex::new(SharedBytes::zeroed(reply.min(MAX_REPLY_COPY) as usize)),
            state: Mutex::new(SlotState::Waiting(None)),
        });
        let mut submission = Submission {
            id: CallId(0),
            slot: slot.clone(),
            sent: false,
        };
        let (id, refused) = self.queue.change(|state| {
            let id = CallId(state.next);
            state.next += 1;
            let failed = match (&state.closed, state.ending) {
                (Some(kind), _) => Some(kind.clone()),
                (None, Some(_)) => Some(CallErrorKind::Shutdown),
                (None, None) => None,
            };
            match failed {
                Some(kind) => (id, Some((submission, kind))),
                None => {
                    submission.id = id;
                    state.submitted.push_back(submission);
                    (id, None)
                }
            }
        });
        if let Some((submission, kind)) = refused {
            submission.fail(kind, Execution::NotExecuted);
        }
        ChannelCall { slot, id }
    }
}

/// The state that a call's future and the runner share.
struct Slot {
    queue: Arc<Queue>,
    request: Request,
    /// Memory for a copy of the reply.
    reply: Mutex<SharedBytes>,
    state: Mutex<SlotState>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

#[derive(Debug)]
enum SlotState {
    Waiting(Option<Waker>),
    Done(Outcome),
    Taken,
}

impl Slot {
    fn is_waiting(&self) -> bool {
        matches!(*lock(&self.state), SlotState::Waiting(_))
    }

    fn complete(&self, outcome: Outcome) {
        let mut state = lock(&self.state);
        let before = match &*state {
            SlotState::Waiting(_) => std::mem::replace(&mut *state, SlotState::Done(outcome)),
            SlotState::Done(_) | SlotState::Taken => return,
        };
        drop(state);
        if let SlotState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// A call of a [`Channel`]. If it is dropped, the call is cancelled.
#[must_use = "futures do nothing unless polled"]
pub struct ChannelCall {
    slot: Arc<Slot>,
    id: CallId,
}

impl Future for ChannelCall {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.slot.state);
        match &mut *state {
            SlotState::Waiting(waker) => match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            },
            SlotState::Done(_) => {
                if let SlotState::Done(outcome) = std::mem::replace(&mut *state, SlotState::Taken) {
                    return Poll::Ready(outcome);
                }
            }
            // Polled after its end.
            SlotState::Taken => {}
        }
        Poll::Pending
    }
}

impl Drop for ChannelCall {
    fn drop(&mut self) {
        let waits = {
            let mut state = lock(&self.slot.state);
            matches!(
                std::mem::replace(&mut *state, SlotState::Taken),
                SlotState::Waiting(_)
            )
        };
        if waits {
            self.slot.queue.change(|state| {
                if state.closed.is_none() {
                    state.cancelled.push(self.id);
                }
            });
        }
    }
}

impl fmt::Debug for ChannelCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChannelCall").field(&self.id).finish()
    }
}

/// A call of a channel, and the promise of its result. Dropping it fails the call, so that every
/// call ends when a runner ends.
#[derive(Debug)]
pub struct Submission {
    id: CallId,
    slot: Arc<Slot>,
    sent: bool,
}

impl Submission {
    /// Identifies the call for its cancellation.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Returns the call.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.slot.request
    }

    /// Returns a copy of a short reply, in memory of the caller's thread if it suffices. Allocators
    /// are slow if one thread frees the memory of another.
    #[must_use]
    pub fn copy_reply(&self, reply: &[u8]) -> SharedBytes {
        let mut copy = std::mem::take(&mut *lock(&self.slot.reply));
        copy.truncate(reply.len());
        match copy.get_mut() {
            Some(bytes) if bytes.len() == reply.len() => {
                bytes.copy_from_slice(reply);
                copy
            }
            _ => SharedBytes::copy_of(reply),
        }
    }

    /// Records whether the server may have the call, and so may execute it.
    pub fn set_sent(&mut self, sent: bool) {
        self.sent = sent;
    }

    /// Returns whether the server may have the call.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.sent
    }

    /// Ends the call with its reply, which the security flavor of the call checks and opens first.
    /// If the check fails, the call ends with its error.
    pub fn succeed(self, reply: ReceivedMessage) {
        match self.request().open(reply) {
            Ok(reply) => self.slot.complete(Ok(reply)),
            Err(kind) => self.fail(kind, Execution::Unknown),
        }
    }

    /// Ends the call with an error.
    pub fn fail(self, kind: CallErrorKind, execution: Execution) {
        self.end(kind, execution);
    }

    /// Ends the call with an error. The call was not executed if it was not sent; otherwise it may
    /// have been.
    pub fn fail_unanswered(self, kind: CallErrorKind) {
        let execution = self.execution();
        self.end(kind, execution);
    }

    fn execution(&self) -> Execution {
        if self.sent {
            Execution::Unknown
        } else {
            Execution::NotExecuted
        }
    }

    fn end(&self, kind: CallErrorKind, execution: Execution) {
        let peer = self.slot.queue.peer.clone();
        let error = CallError::new(self.request().procedure, peer, kind, execution);
        self.slot.complete(Err(error));
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if self.slot.is_waiting() {
            self.end(CallErrorKind::RunnerEnded(None), self.execution());
        }
    }
}

/// An event at the runner's end of a channel.
#[derive(Debug)]
pub enum ChannelEvent {
    /// A call was made.
    Call(Submission),
    /// A call was cancelled.
    Cancelled(CallId),
    /// No more calls follow. The runner ends when its calls have ended.
    Drain,
    /// The runner must end at once.
    Shutdown,
}

/// The runner's end of a channel. When it is dropped, all calls fail.
pub struct Submissions {
    queue: Arc<Queue>,
    /// A batch of calls from the queue.
    taken: VecDeque<Submission>,
    /// True after `Drain` was returned.
    drains: bool,
}

impl Submissions {
    /// Returns the name of the server.
    #[must_use]
    pub fn peer(&self) -> Arc<str> {
        self.queue.peer.clone()
    }

    /// Returns the next event. Calls can be cancelled, and the channel can be shut down, also after
    /// `Drain`, which is returned once. After `Shutdown` it returns `Shutdown` again.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<ChannelEvent> {
        if let Some(submission) = self.taken.pop_front() {
            return Poll::Ready(ChannelEvent::Call(submission));
        }
        let mut state = lock(&self.queue.state);
        if state.ending == Some(Ending::Shutdown) {
            return Poll::Ready(ChannelEvent::Shutdown);
        }
        std::mem::swap(&mut self.taken, &mut state.submitted);
        if let Some(submission) = self.taken.pop_front() {
            return Poll::Ready(ChannelEvent::Call(submission));
        }
        // The cancellation of a call follows the call.
        if let Some(id) = state.cancelled.pop() {
            return Poll::Ready(ChannelEvent::Cancelled(id));
        }
        if state.ending == Some(Ending::Drain) && !self.drains {
            self.drains = true;
            return Poll::Ready(ChannelEvent::Drain);
        }
        match &mut state.runner {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.runner = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Ends the channel: new calls fail for this reason, and so do queued calls when this is
    /// dropped.
    pub fn close(&self, reason: CallErrorKind) {
        self.queue.change(|state| state.closed = Some(reason));
    }

    /// Waits for the next event; see [`poll_event`](Self::poll_event).
    pub async fn event(&mut self) -> ChannelEvent {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }
}

impl Drop for Submissions {
    fn drop(&mut self) {
        let (submitted, kind) = self.queue.change(|state| {
            state.cancelled.clear();
            let kind = match (&state.closed, state.ending) {
                (Some(kind), _) => kind.clone(),
                (None, Some(_)) => CallErrorKind::Shutdown,
                (None, None) => CallErrorKind::RunnerEnded(None),
            };
            let closed = CallErrorKind::RunnerEnded(None);
            state.closed.get_or_insert(closed);
            (std::mem::take(&mut state.submitted), kind)
        });
        for submission in self.taken.drain(..).chain(submitted) {
            submission.fail(kind.clone(), Execution::NotExecuted);
        }
    }
}

impl fmt::Debug for Submissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Submissions({})", self.queue.peer)
    }
}
