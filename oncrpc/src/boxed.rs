//! Transports whose type is chosen at run time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::message::{Body, ReceivedMessage};
use crate::request::Request;
use crate::transport::{AsyncTransport, Transport};

type Outcome = Result<ReceivedMessage, CallError>;

/// A transport of any type, for programs that choose it at run time: a
/// [`Channel`](crate::Channel), layers of tower around one, or a transport of the program's own.
/// Clones share the transport.
///
/// A [`Channel`](crate::Channel) over RDMA, over TCP and in memory has one type already. A boxed
/// transport adds an allocation and a call through a table to each RPC.
///
/// ```
/// use std::sync::Arc;
/// use oncrpc::{
///     AsyncTransport, BoxedTransport, CallError, CallErrorKind, Channel, Execution,
///     ReceivedMessage, Request, Transport,
/// };
///
/// /// A transport for tests, all of whose calls fail.
/// struct Unplugged;
///
/// impl Transport for Unplugged {
///     fn peer(&self) -> Arc<str> {
///         "nowhere".into()
///     }
/// }
///
/// impl AsyncTransport for Unplugged {
///     type Call = std::future::Ready<Result<ReceivedMessage, CallError>>;
///
///     fn call(&self, request: Request) -> Self::Call {
///         let kind = CallErrorKind::Shutdown;
///         let error = CallError::new(request.procedure, self.peer(), kind, Execution::NotExecuted);
///         std::future::ready(Err(error))
///     }
/// }
///
/// fn transport(channel: Option<Channel>) -> BoxedTransport {
///     match channel {
///         Some(channel) => BoxedTransport::new(channel),
///         None => BoxedTransport::new(Unplugged),
///     }
/// }
///
/// // A generated client takes either: `kv1::Client::new(transport(None))`.
/// assert_eq!(&*transport(None).peer(), "nowhere");
/// ```
#[derive(Clone)]
pub struct BoxedTransport(Arc<dyn AnyTransport>);

impl BoxedTransport {
    /// Boxes a transport.
    #[must_use]
    pub fn new<T>(transport: T) -> Self
    where
        T: AsyncTransport<Call: Send + 'static> + Send + Sync + 'static,
    {
        Self(Arc::new(transport))
    }
}

impl fmt::Debug for BoxedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoxedTransport({})", self.0.peer())
    }
}

impl Transport for BoxedTransport {
    fn peer(&self) -> Arc<str> {
        self.0.peer()
    }

    fn body(&self) -> Body {
        self.0.body()
    }
}

impl AsyncTransport for BoxedTransport {
    type Call = BoxedCall;

    fn call(&self, request: Request) -> BoxedCall {
        BoxedCall(self.0.call(request))
    }
}

/// A call of a [`BoxedTransport`]. If it is dropped, the call is cancelled.
#[must_use = "futures do nothing unless polled"]
pub struct BoxedCall(Pin<Box<dyn Future<Output = Outcome> + Send>>);

impl Future for BoxedCall {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for BoxedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxedCall")
    }
}

/// An [`AsyncTransport`] whose calls have one type.
trait AnyTransport: Send + Sync {
    fn peer(&self) -> Arc<str>;
    fn body(&self) -> Body;
    fn call(&self, request: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
}

impl<T> AnyTransport for T
where
    T: AsyncTransport<Call: Send + 'static> + Send + Sync,
{
    fn peer(&self) -> Arc<str> {
        Transport::peer(self)
    }

    fn body(&self) -> Body {
        Transport::body(self)
    }

    fn call(&self, request: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(AsyncTransport::call(self, request))
    }
}
