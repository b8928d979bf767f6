//! Calls of a peer, from their arrival to their replies: what a server and a client with services
//! have in common.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
#[cfg(feature = "tokio")]
use oncrpc::Programs;
use oncrpc::{HandlerDeadline, LocalPrograms, OutgoingReply, Peer, ReceivedMessage, Router};
use rpcrdma_proto::connection::ServedCallId;

use super::admission::{CallLimits, HandlerTime, Place};
use super::message::{self, OutgoingItem};
use crate::driver::{ConnectionId, Driver, OutgoingReplyError, Payload};
use crate::provider::Device;

/// The most handlers that are kept for the next calls.
const MAX_FREE: usize = 256;

/// A call of a peer, and the connection by which it came.
pub(super) type CallOfConnection = (ConnectionId, ServedCallId);

/// A call that was served.
pub(super) struct Served {
    call: CallOfConnection,
    reply: Option<OutgoingReply>,
    /// The call's message, whose memory is used again.
    message: ReceivedMessage,
}

/// The memory of a handler, which serves one call after the other.
pub(super) trait Handler {
    fn begin(&mut self, call: Incoming, message: ReceivedMessage, memory: OutgoingReply);

    /// Resolves to the reply. It is not polled again then, until another call begins.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Served>;

    /// Returns the call, if its handler has said since the last time that the peer is ready for
    /// calls.
    fn readiness(&self) -> Option<CallOfConnection>;

    /// Notes that the handler waits.
    fn wait(&mut self);

    /// Forgets the call, which is done.
    fn finish(&mut self);
}

/// A call that has arrived.
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

/// What a slot and its future exchange.
#[derive(Default)]
struct Exchange {
    job: Option<Job>,
    done: Option<(Option<OutgoingReply>, ReceivedMessage)>,
}

/// An exchange that a slot and its future share.
trait Shared: Clone {
    fn with<T>(&self, f: impl FnOnce(&mut Exchange) -> T) -> T;

    /// Waits for a job. Nobody is woken: a slot polls its future when it has put a job there.
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

/// A handler whose future serves one job after the other, and never ends: a future for each call
/// would be moved into place for each call, and it is large (14 % of a call's time).
struct Slot<F, X> {
    exchange: X,
    future: Pin<Box<F>>,
    call: Option<Incoming>,
    /// Bytes of the call, as its limits count them.
    len: usize,
    place: Place,
}

impl<F: Future<Output = Infallible>, X: Shared> Handler for Slot<F, X> {
    fn begin(&mut self, call: Incoming, message: ReceivedMessage, memory: OutgoingReply) {
        self.len = call.limits.bytes(&message);
        let job = Job {
            message,
            peer: call.peer.clone(),
            deadline: call.limits.begin(),
            memory,
        };
        self.call = Some(call);
        self.exchange.with(|exchange| exchange.job = Some(job));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Served> {
        let Some(incoming) = &self.call else {
            return Poll::Pending;
        };
        let call = incoming.call;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => match self.exchange.with(|exchange| exchange.done.take()) {
                Some((reply, message)) => Poll::Ready(Served {
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

    fn finish(&mut self) {
        self.place = Place::default();
        if let Some(call) = self.call.take() {
            call.limits.end();
        }
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
    /// A router whose handlers can be sent to other threads.
    SendSource, Arc, Mutex, Programs, serve, dyn Handler + Send
}

/// A handler that waits.
struct Waiting<H: ?Sized>(Option<Box<H>>);

/// What becomes of a handler that has waited.
enum Progress<H: ?Sized> {
    Served(Served, Box<H>),
    /// It goes on waiting, and has said that its peer is ready for calls.
    Ready(CallOfConnection, Box<H>),
}

impl<H: Handler + ?Sized> Future for Waiting<H> {
    type Output = Progress<H>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut handler) = self.0.take() else {
            return Poll::Pending;
        };
        if let Poll::Ready(served) = handler.poll(cx) {
            return Poll::Ready(Progress::Served(served, handler));
        }
        if let Some(call) = handler.readiness() {
            return Poll::Ready(Progress::Ready(call, handler));
        }
        self.0 = Some(handler);
        Poll::Pending
    }
}

/// Serves calls of peers: handlers are polled in place, once. Only one that waits is kept, and
/// polled again when it is woken.
pub(super) struct Dispatcher<S, H: ?Sized> {
    source: S,
    /// The last reply that was sent: the next one uses its memory.
    memory: OutgoingReply,
    /// The memory of lists of items.
    items: Vec<OutgoingItem>,
    /// Handlers that are done: the next calls use their memory.
    free: Vec<Box<H>>,
    waiting: FuturesUnordered<Waiting<H>>,
}

impl<S: Serve<Handler = H>, H: Handler + ?Sized> Dispatcher<S, H> {
    pub(super) fn new(source: S) -> Self {
        Self {
            source,
            memory: OutgoingReply::default(),
            items: Vec::new(),
            free: Vec::new(),
            waiting: FuturesUnordered::new(),
        }
    }

    /// Serves a call that has arrived. A handler that does not wait has its reply at once.
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
                self.waiting.push(Waiting(Some(handler)));
            }
        }
    }

    /// Lets handlers that have waited go on, and sends their replies. Returns how many are done.
    pub(super) fn poll<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        cx: &mut Context<'_>,
    ) -> usize {
        let mut count = 0;
        while let Poll::Ready(Some(progress)) = self.waiting.poll_next_unpin(cx) {
            match progress {
                Progress::Ready(call, handler) => {
                    peer_is_ready(driver, call);
                    self.waiting.push(Waiting(Some(handler)));
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

    fn reply<D: Device>(&mut self, driver: &mut Driver<D>, served: Served) {
        let Served {
            call,
            reply,
            message,
        } = served;
        driver.recycle_shared(message.into_stream());
        let Some(mut reply) = reply else {
            return reject(driver, call);
        };
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
        // Its items are not kept until the next reply.
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

/// Notes that the peer has said in a call that it is ready for calls.
#[cold]
fn peer_is_ready<D: Device>(driver: &mut Driver<D>, (connection, call): CallOfConnection) {
    if let Some(session) = driver.session_mut(connection) {
        session.peer_ready(call);
    }
}

/// Answers a call that can't be served.
pub(super) fn reject<D: Device>(driver: &mut Driver<D>, (connection, call): CallOfConnection) {
    if let Some(session) = driver.session_mut(connection) {
        // It has ended already if its connection is gone.
        let _ = session.reject(call);
    }
}
