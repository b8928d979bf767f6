//! Middleware of [tower](https://docs.rs/tower) between a client and its channel (feature `tower`).
//!
//! A [`Channel`] is a [`Service`] of requests, which any layer can wrap. [`TowerTransport`] is the
//! inverse: a transport over a service, for generated clients.
//!
//! ```
//! use std::time::Duration;
//! use oncrpc::tower::TowerTransport;
//! use tower::ServiceBuilder;
//!
//! # fn example(channel: oncrpc::Channel) {
//! let service = ServiceBuilder::new()
//!     .concurrency_limit(16)
//!     .timeout(Duration::from_millis(500))
//!     .service(channel);
//! let transport = TowerTransport::new("storage-1:2049", service);
//! // let client = kv1::Client::new(transport);
//! # let _ = transport;
//! # }
//! ```

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tower_service::Service;

use crate::channel::{Channel, ChannelCall};
use crate::error::{CallError, CallErrorKind, Execution};
use crate::message::ReceivedMessage;
use crate::procedure::ProcedureId;
use crate::request::Request;
use crate::transport::{AsyncTransport, Transport};

type BoxError = Box<dyn StdError + Send + Sync>;

/// A channel is always ready, since it queues calls.
impl Service<Request> for Channel {
    type Response = ReceivedMessage;
    type Error = CallError;
    type Future = ChannelCall;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> ChannelCall {
        AsyncTransport::call(self, request)
    }
}

/// A transport over a service of requests, which is cloned for each call.
///
/// An error of a layer becomes a [`CallError`] of the kind [`CallErrorKind::Middleware`]. If the
/// service was not ready, the call was not executed. Otherwise the error of the channel among the
/// sources of the layer's error tells whether it was. Without such a source, the layer has
/// cancelled the call by itself, and it is unknown whether the server executed it. A layer that
/// repeats a call, such as tower's `retry`, returns the error of the last attempt, which tells
/// nothing about the others. Let it repeat only calls that were not executed, or that are
/// idempotent.
#[derive(Clone)]
pub struct TowerTransport<S> {
    service: S,
    peer: Arc<str>,
}

impl<S> TowerTransport<S> {
    /// Creates a transport to a server of this name.
    #[must_use]
    pub fn new(peer: impl Into<Arc<str>>, service: S) -> Self {
        Self {
            service,
            peer: peer.into(),
        }
    }
}

impl<S> fmt::Debug for TowerTransport<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TowerTransport({})", self.peer)
    }
}

impl<S> Transport for TowerTransport<S> {
    fn peer(&self) -> Arc<str> {
        self.peer.clone()
    }
}

impl<S> AsyncTransport for TowerTransport<S>
where
    S: Service<Request, Response = ReceivedMessage> + Clone,
    S::Error: Into<BoxError>,
{
    type Call = TowerCall<S>;

    fn call(&self, request: Request) -> TowerCall<S> {
        TowerCall {
            procedure: request.procedure,
            peer: self.peer.clone(),
            state: State::Waiting(Box::new((self.service.clone(), request))),
        }
    }
}

/// A call of a [`TowerTransport`]. If it is dropped, the call is cancelled.
#[must_use = "futures do nothing unless polled"]
pub struct TowerCall<S: Service<Request>> {
    procedure: ProcedureId,
    peer: Arc<str>,
    state: State<S>,
}

enum State<S: Service<Request>> {
    /// The service is not ready yet.
    Waiting(Box<(S, Request)>),
    InFlight(Pin<Box<S::Future>>),
    Done,
}

impl<S> TowerCall<S>
where
    S: Service<Request, Response = ReceivedMessage>,
    S::Error: Into<BoxError>,
{
    /// Passes the request to the service once the service is ready.
    fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if let State::Waiting(waiting) = &mut self.state {
            let is_ready = ready!(waiting.0.poll_ready(cx));
            is_ready.map_err(|error| self.not_begun(error.into()))?;
        }
        self.state = match mem::replace(&mut self.state, State::Done) {
            State::Waiting(waiting) => {
                let (mut service, request) = *waiting;
                State::InFlight(Box::pin(service.call(request)))
            }
            state => state,
        };
        Poll::Ready(Ok(()))
    }

    /// Returns the error of a call that did not begin. The sources of the service's error may
    /// concern another call.
    fn not_begun(&self, error: BoxError) -> CallError {
        let kind = CallErrorKind::Middleware(error.into());
        CallError::new(
            self.procedure,
            self.peer.clone(),
            kind,
            Execution::NotExecuted,
        )
    }

    fn error(&self, error: BoxError) -> CallError {
        let error = match error.downcast::<CallError>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        let execution = source(&*error).map_or(Execution::Unknown, CallError::execution);
        let kind = CallErrorKind::Middleware(error.into());
        CallError::new(self.procedure, self.peer.clone(), kind, execution)
    }
}

/// Returns the channel's error among the sources of this error.
fn source<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e CallError> {
    let sources = std::iter::successors(error.source(), |&error| error.source());
    // The bound protects the client from an endless chain of sources.
    sources.take(64).find_map(|source| source.downcast_ref())
}

impl<S> Future for TowerCall<S>
where
    S: Service<Request, Response = ReceivedMessage>,
    S::Error: Into<BoxError>,
{
    type Output = Result<ReceivedMessage, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = ready!(self.poll_begin(cx));
        let outcome = match (begun, &mut self.state) {
            (Err(error), _) => Err(error),
            (Ok(()), State::InFlight(call)) => {
                let outcome = ready!(call.as_mut().poll(cx));
                outcome.map_err(|error| self.error(error.into()))
            }
            // Polled after its end.
            (Ok(()), State::Waiting(_) | State::Done) => return Poll::Pending,
        };
        self.state = State::Done;
        Poll::Ready(outcome)
    }
}

impl<S: Service<Request>> fmt::Debug for TowerCall<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TowerCall").field(&self.procedure).finish()
    }
}
