//! The dispatch of a peer's calls, from arrival to reply, for servers and for clients with
//! services.
//!
//! Each call must be answered by `reply` or `reject`, unless its connection is closed. `hold_reply`
//! must count the memory of a reply before it is taken. The future of a handler serves successive
//! calls, so `finish` must precede its next call. The readiness of a caller must be recorded before
//! the reply is sent. `poll` must be called again when its context is woken.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
#[cfg(feature = "tokio")]
use oncrpc::Programs;
use oncrpc::{HandlerDeadline, LocalPrograms, OutgoingReply, Peer, ReceivedMessage, Router};
use rpcrdma_proto::connection::ServedCallId;

use super::admission::{CallLimits, HandlerTime, Place};
use super::message::{self, OutgoingItem};
use crate::driver::{ConnectionId, Driver, OutgoingReplyError, Payload};
use crate::provider::Device;

/// The maximum number of spare handlers for the next calls.
const MAX_FREE: usize = 256;

/// The shortest time from one look at all deadlines to the next.
const MIN_ALARM_INTERVAL: Duration = Duration::from_millis(1);

/// A call of a peer, with its connection.
pub(super) type CallOfConnection = (ConnectionId, ServedCallId);

/// A call, and its reply.
pub(super) struct CompletedCall {
    call: CallOfConnection,
    reply: Option<OutgoingReply>,
    /// The call's message, whose memory is reused.
    message: ReceivedMessage,
}

/// The memory of a handler, which serves successive calls.
pub(super) trait Handler {
    fn begin(&mut self, call: Incoming, message: ReceivedMessage, memory: OutgoingReply);

    /// Resolves to the reply. It must not be polled again until another call begins.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CompletedCall>;

    /// Returns the call, once after its handler has taken the caller.
    fn readiness(&self) -> Option<CallOfConnection>;

    /// Records that the handler waits.
    fn wait(&mut self);

    /// Returns the deadline of the handler, if there is one.
    fn due(&self) -> Option<Instant>;

    /// Removes the finished call.
    fn finish(&mut self);
}

/// An arrived call.
pub(super) struct Incoming {
    pub(super) call: CallOfConnection,
    pub(super) peer: Arc<Peer>,
    pub(super) limits: CallLimits,
}

/// A call, for the future that serves it.
struct Job {
    message: ReceivedMessage,
    peer: Arc<Peer>,
    deadline: HandlerDeadline<HandlerTime>,
    /// The memory of the reply.
    memory: OutgoingReply,
}

/// The exchange between a slot and its future.
#[derive(Default)]
struct Exchange {
    job: Option<Job>,
    done: Option<(Option<OutgoingReply>, ReceivedMessage)>,
}

/// The exchange, shared by a slot and its future.
trait Shared: Clone {
    fn with<T>(&self, f: impl FnOnce(&mut Exchange) -> T) -> T;

    /// Waits for a job. It registers no waker, since a slot polls its future after it adds a job.
    fn job(&self) -> impl Future<Output = Job> {
        poll_fn(|_| match self.with(|exchange| exchange.job.take()) {
            Some(job) => Poll::Ready(job),
            None => Poll::Pending,
        })
    }
}

impl Shared for Rc<RefCell<Exchange>> {
    fn with<T>(&self, f: impl FnOnce(&mut Exchange) -> T) -> T {
        f(&mut self.borrow_mut())
    }
}

#[cfg(feature = "tokio")]
impl Shared for Arc<Mutex<Exchange>> {
    fn with<T>(&self, f: impl FnOnce(&mut Exchange) -> T) -> T {
        f(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A handler whose future serves successive jobs and never ends. A new future for each call would
/// be moved for each call, and it is large (14 % of a call's time).
struct Slot<F, X> {
    exchange: X,
    future: Pin<Box<F>>,
    call: Option<Incoming>,
    /// The number of bytes of the call, as its limits count them.
    len: usize,
    due: Option<Instant>,
    place: Place,
}

impl<F: Future<Output = Infallible>, X: Shared> Handler for Slot<F, X> {
    fn begin(&mut self, call: Incoming, message: ReceivedMessage, memory: OutgoingReply) {
        self.len = call.limits.bytes(&message);
        let (due, time) = call.limits.begin().into_parts();
        self.due = due;
        let job = Job {
            message,
            peer: call.peer.clone(),
            deadline: HandlerDeadline::new(due, time),
            memory,
        };
        self.call = Some(call);
        self.exchange.with(|exchange| exchange.job = Some(job));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CompletedCall> {
        let Some(incoming) = &self.call else {
            return Poll::Pending;
        };
        let call = incoming.call;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => match self.exchange.with(|exchange| exchange.done.take()) {
                Some((reply, message)) => Poll::Ready(CompletedCall {
                    call,
                    reply,
                    message,
                }),
                None => Poll::Pending,
            },
        }
    }

    fn readiness(&self) -> Option<CallOfConnection> {
        let Incoming { call, peer, .. } = self.call.as_ref()?;
        let caller = peer.caller.as_ref().ok()?;
        caller.begin_readiness().then_some(*call)
    }

    fn wait(&mut self) {
        if let Some(call) = &mut self.call {
            self.place = call.limits.wait(self.len);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    fn finish(&mut self) {
        self.place = Place::default();
        self.call = None;
    }
}

/// A router as the source of handlers.
pub(super) trait Serve {
    type Handler: Handler + ?Sized;

    fn handler(&self) -> Box<Self::Handler>;
}

/// Defines a source of handlers.
macro_rules! source {
    (
        $(#[$doc:meta])*
        $name:ident, $shared:ident, $cell:ident, $programs:ident, $serve:ident, $handler:ty
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $name<P>($shared<Router<P>>);

        impl<P> $name<P> {
            pub(super) fn new(router: Router<P>) -> Self {
                Self($shared::new(router))
            }
        }

        impl<P: $programs> Serve for $name<P> {
            type Handler = $handler;

            fn handler(&self) -> Box<Self::Handler> {
                let (router, exchange) = (self.0.clone(), $shared::<$cell<Exchange>>::default());
                let jobs = exchange.clone();
                let future = async move {
                    loop {
                        let Job { message, peer, deadline, memory } = jobs.job().await;
                        let reply = router.$serve(&message, &peer, deadline, memory).await;
                        jobs.with(|exchange| exchange.done = Some((reply, message)));
                    }
                };
                Box::new(Slot {
                    exchange,
                    future: Box::pin(future),
                    call: None,
                    len: 0,
                    due: None,
                    place: Place::default(),
                })
            }
        }
    };
}
source! {
    /// A router that serves on one thread.
    LocalSource, Rc, RefCell, LocalPrograms, serve_local, dyn Handler
}
#[cfg(feature = "tokio")]
source! {
    /// A router whose handlers are `Send`.
    SendSource, Arc, Mutex, Programs, serve, dyn Handler + Send
}

/// A handler that waits.
struct WaitingHandler<H: ?Sized> {
    handler: Option<Box<H>>,
    due: Option<Instant>,
    /// Wakes it at its deadline.
    waker: Option<Waker>,
}

impl<H: Handler + ?Sized> WaitingHandler<H> {
    fn new(handler: Box<H>) -> Self {
        Self {
            due: handler.due(),
            handler: Some(handler),
            waker: None,
        }
    }
}

/// The outcome of polling a handler that waits.
enum Progress<H: ?Sized> {
    Served(CompletedCall, Box<H>),
    /// It continues to wait, and has taken the caller.
    Ready(CallOfConnection, Box<H>),
}

impl<H: Handler + ?Sized> Future for WaitingHandler<H> {
    type Output = Progress<H>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut handler) = self.handler.take() else {
            return Poll::Pending;
        };
        if let Poll::Ready(served) = handler.poll(cx) {
            return Poll::Ready(Progress::Served(served, handler));
        }
        if let Some(call) = handler.readiness() {
            return Poll::Ready(Progress::Ready(call, handler));
        }
        self.handler = Some(handler);
        if self.due.is_some() && self.waker.is_none() {
            // It stays the same while the handler waits.
            self.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Serves calls of peers. It polls each handler once in place. It keeps only handlers that wait,
/// and polls them again when they are woken.
pub(super) struct Dispatcher<S, H: ?Sized> {
    source: S,
    /// The last sent reply, whose memory the next reply reuses.
    memory: OutgoingReply,
    /// The memory of lists of items.
    items: Vec<OutgoingItem>,
    /// Spare handlers, whose memory the next calls reuse.
    free: Vec<Box<H>>,
    waiting: FuturesUnordered<WaitingHandler<H>>,
    /// A time before which no handler has to end.
    next_due: Option<Instant>,
    /// The driver's alarms that were noticed.
    alarms: u64,
}

impl<S: Serve<Handler = H>, H: Handler + ?Sized> Dispatcher<S, H> {
    pub(super) fn new(source: S) -> Self {
        Self {
            source,
            memory: OutgoingReply::default(),
            items: Vec::new(),
            free: Vec::new(),
            waiting: FuturesUnordered::new(),
            next_due: None,
            alarms: 0,
        }
    }

    /// Serves an arrived call. If its handler does not wait, the reply is sent at once.
    pub(super) fn begin<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        incoming: Incoming,
        payload: Payload,
        cx: &mut Context<'_>,
    ) {
        let message = match message::call((driver, incoming.call.0), payload) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, "a call is rejected for want of memory");
                return reject(driver, incoming.call);
            }
        };
        let free = self.free.pop();
        let mut handler = free.unwrap_or_else(|| self.source.handler());
        handler.begin(incoming, message, std::mem::take(&mut self.memory));
        let served = handler.poll(cx);
        if let Some(call) = handler.readiness() {
            peer_is_ready(driver, call);
        }
        match served {
            Poll::Ready(served) => {
                self.keep(handler);
                self.reply(driver, served);
            }
            Poll::Pending => {
                handler.wait();
                self.push(driver, handler);
            }
        }
    }

    /// Continues waiting handlers that were woken, and sends their replies. Returns the number of
    /// finished handlers, and of those that have taken the caller: calls to it can begin.
    pub(super) fn poll<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        cx: &mut Context<'_>,
    ) -> usize {
        let mut count = 0;
        if self.next_due.is_some() && driver.alarms() != self.alarms {
            self.wake_due(driver);
        }
        while let Poll::Ready(Some(progress)) = self.waiting.poll_next_unpin(cx) {
            match progress {
                Progress::Ready(call, handler) => {
                    peer_is_ready(driver, call);
                    self.push(driver, handler);
                    count += 1;
                }
                Progress::Served(served, handler) => {
                    if let Some(call) = handler.readiness() {
                        peer_is_ready(driver, call);
                    }
                    self.keep(handler);
                    self.reply(driver, served);
                    count += 1;
                }
            }
        }
        count
    }

    /// Keeps a handler that waits, until its deadline.
    fn push<D: Device>(&mut self, driver: &mut Driver<D>, handler: Box<H>) {
        let handler = WaitingHandler::new(handler);
        if let Some(due) = handler.due
            && self.next_due.is_none_or(|next| due < next)
        {
            self.next_due = Some(due);
            driver.set_alarm(due);
        }
        self.waiting.push(handler);
    }

    /// Wakes the handlers whose time has passed. Their deadlines are looked at only when one may
    /// have passed: once in the time of a handler, if the handlers end in time.
    #[cold]
    fn wake_due<D: Device>(&mut self, driver: &mut Driver<D>) {
        self.alarms = driver.alarms();
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        for waiting in self.waiting.iter_mut() {
            match (waiting.due, &waiting.waker) {
                (Some(due), Some(waker)) if due <= now => waker.wake_by_ref(),
                (Some(due), _) => next = Some(next.map_or(due, |next| next.min(due))),
                (None, _) => {}
            }
        }
        self.next_due = next;
        if let Some(next) = next {
            driver.set_alarm(next.max(now + MIN_ALARM_INTERVAL));
        }
    }

    fn reply<D: Device>(&mut self, driver: &mut Driver<D>, served: CompletedCall) {
        let CompletedCall {
            call,
            reply,
            message,
        } = served;
        driver.recycle_shared(message.into_stream());
        let Some(mut reply) = reply else {
            return reject(driver, call);
        };
        let bytes = reply.header.len() + reply.body.len();
        if !driver.hold_reply(call.0, call.1, bytes) {
            tracing::debug!("a reply is dropped with its connection");
            return;
        }
        let items = &mut self.items;
        if let Err(error) = message::register_items(driver.pool(), &reply.body, items) {
            tracing::warn!(%error, "a reply is dropped for want of memory");
            items.clear();
            return reject(driver, call);
        }
        let replied = driver.reply(call.0, call.1, |writer| {
            message::write(writer, &reply.header, &reply.body, items)
        });
        items.clear();
        match replied {
            Ok(()) => {}
            Err(OutgoingReplyError::Write(error)) => {
                tracing::warn!(%error, "a reply can't be written");
                reject(driver, call);
            }
            Err(error) => tracing::debug!(?error, "a reply can't be sent"),
        }
        // The items are dropped now, and not with the next reply.
        reply.clear();
        self.memory = reply;
    }

    /// Returns true if no handler waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn keep(&mut self, mut handler: Box<H>) {
        handler.finish();
        if self.free.len() < MAX_FREE {
            self.free.push(handler);
        }
    }
}

impl<S, H: ?Sized> fmt::Debug for Dispatcher<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

/// Records that a handler of this call has taken the caller.
#[cold]
fn peer_is_ready<D: Device>(driver: &mut Driver<D>, (connection, call): CallOfConnection) {
    if let Some(session) = driver.session_mut(connection) {
        session.peer_ready(call);
    }
}

/// Answers a call that cannot be served.
pub(super) fn reject<D: Device>(driver: &mut Driver<D>, (connection, call): CallOfConnection) {
    if let Some(session) = driver.session_mut(connection) {
        // The call has ended already if its connection is closed.
        let _ = session.reject(call);
    }
}
