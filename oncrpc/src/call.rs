//! Calls, from the arguments of a client to its results.
//!
//! Generated clients create a [`Call`], which becomes a `Request` of a transport when it begins: by
//! [`Call::reply`] or [`Call::begin`], or when it is awaited. Its span begins here, too. This
//! module counts a call that fails without a reply, `reply` one with a reply, and a transport with
//! drivers its failed calls (`count_failed_call`). A call whose future is dropped is not counted.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tracing::Span;
use xdrgen_runtime::{Encode as _, Error};

use crate::auth::Credentials;
use crate::client_security::ClientSecurity;
use crate::error::{CallError, CallErrorKind, Execution};
use crate::message::ReceivedMessage;
use crate::metering::{self, CallOutcome, End, Timer};
use crate::procedure::{Method, ProcedureId, ReplyLimits};
use crate::reply::{PendingCall, Reply};
use crate::request::{Request, Resend};
use crate::span;
use crate::transport::{AsyncTransport, LocalTransport, Transport};

/// The options of all calls of a client.
#[derive(Clone, Debug)]
pub struct CallOptions {
    credentials: Option<Arc<Credentials>>,
    security: Option<Arc<dyn ClientSecurity>>,
    timeout: Option<Duration>,
    resend: Resend,
    wait_for_connection: bool,
}

impl CallOptions {
    /// No credentials, no deadline, no call is executed twice unless it is idempotent, and calls
    /// wait for a connection.
    pub const DEFAULT: Self = Self {
        credentials: None,
        security: None,
        timeout: None,
        resend: Resend::IfIdempotent,
        wait_for_connection: true,
    };

    /// Sets the credentials.
    #[must_use]
    pub fn credentials(self, credentials: impl Into<Credentials>) -> Self {
        Self {
            credentials: Some(Arc::new(credentials.into())),
            ..self
        }
    }

    /// Sets the security flavor that protects and authenticates calls. It replaces the credentials,
    /// and needs a transport that supports protected calls: TCP.
    #[must_use]
    pub fn security(self, security: Arc<dyn ClientSecurity>) -> Self {
        Self {
            security: Some(security),
            ..self
        }
    }

    /// Sets the timeout of each call.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    /// Sets whether calls are retransmitted over another connection.
    #[must_use]
    pub fn resend(self, resend: Resend) -> Self {
        Self { resend, ..self }
    }

    /// Sets whether calls wait for a connection, up to the time in the channel's settings.
    /// Otherwise they fail when the first attempt to connect fails.
    #[must_use]
    pub fn wait_for_connection(self, wait_for_connection: bool) -> Self {
        Self {
            wait_for_connection,
            ..self
        }
    }
}

impl Default for CallOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A call of a procedure, which begins when it is awaited. Generated clients create it.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'t, T, P> {
    transport: &'t T,
    request: Request,
    /// The arguments cannot be encoded, so that there is no call.
    error: Option<Error>,
    procedure: PhantomData<fn() -> P>,
}

impl<'t, T: Transport, P: Method> Call<'t, T, P> {
    /// Creates a call.
    pub fn new(transport: &'t T, options: &CallOptions, args: &P::Args<'_>) -> Self {
        let mut body = transport.body();
        let error = body.encode_with(|sink| args.encode(sink)).err();
        let request = Request {
            procedure: ProcedureId::of::<P>(),
            credentials: options.credentials.clone(),
            security: options.security.as_ref().map(|security| security.begin()),
            body,
            limits: P::reply_limits(args),
            timeout: options.timeout,
            is_idempotent: P::IDEMPOTENT,
            resend: options.resend,
            wait_for_connection: options.wait_for_connection,
            span: None,
        };
        Self {
            transport,
            request,
            error,
            procedure: PhantomData,
        }
    }

    /// Sets the timeout of the call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = Some(timeout);
        self
    }

    /// Sets the credentials.
    pub fn credentials(mut self, credentials: impl Into<Credentials>) -> Self {
        self.request.credentials = Some(Arc::new(credentials.into()));
        self
    }

    /// Sets whether the call is retransmitted over another connection.
    pub fn resend(mut self, resend: Resend) -> Self {
        self.request.resend = resend;
        self
    }

    /// Sets whether the call waits for a connection; see [`CallOptions::wait_for_connection`].
    pub fn wait_for_connection(mut self, wait_for_connection: bool) -> Self {
        self.request.wait_for_connection = wait_for_connection;
        self
    }

    /// Sends the call to another program than that of its procedure. So a NULL call can reach any
    /// program, even one without a schema. An error in the reply names the procedure's own program.
    pub fn program(mut self, program: u32, version: u32) -> Self {
        let procedure = &mut self.request.procedure;
        (procedure.program, procedure.version, procedure.name) = (program, version, "");
        self
    }

    /// Sets the maximum size of the reply, for results without a bound in the schema.
    pub fn reply_limits(mut self, limits: ReplyLimits) -> Self {
        self.request.limits = limits;
        self
    }

    /// Returns the request; or its error, if the arguments can't be encoded.
    fn into_request(mut self) -> Result<Request, CallError> {
        let Some(error) = self.error else {
            if span::may_be_on() {
                let procedure = &self.request.procedure;
                self.request.span = span::of_call(procedure, || self.transport.peer());
            }
            return Ok(self.request);
        };
        let (peer, kind) = (self.transport.peer(), CallErrorKind::Encode(error));
        Err(self.request.error(peer, kind, Execution::NotExecuted))
    }
}

impl<T: AsyncTransport, P: Method> Call<'_, T, P> {
    /// Begins the call, and returns a future of the reply, which is not decoded.
    pub fn reply(self) -> ReplyFuture<T::Call, P> {
        let (transport, peer) = (self.transport, self.transport.peer());
        let (state, span) = match self.into_request() {
            Ok(request) => {
                let (span, sent) = (request.span.clone(), request.body.len());
                let call = transport.call(request);
                metering::count_arguments(sent);
                (State::InFlight(call), span)
            }
            Err(error) => (State::Failed(Some(error)), None),
        };
        ReplyFuture {
            state,
            peer,
            span,
            timer: Timer::start(End::Client),
            procedure: PhantomData,
        }
    }
}

impl<T: LocalTransport, P: Method> Call<'_, T, P> {
    /// Begins the call on the transport's driver, on this thread.
    ///
    /// # Errors
    /// The call cannot begin. It is not executed.
    pub fn begin(self, driver: &mut T::Driver) -> Result<PendingCall<P>, CallError> {
        let (transport, sent) = (self.transport, self.request.body.len());
        let timeout = self.request.timeout;
        let xid = transport.begin(driver, self.into_request()?)?;
        // Not before: the request would be copied once more.
        metering::count_arguments(sent);
        Ok(PendingCall::new(xid, timeout))
    }
}

impl<T, P> fmt::Debug for Call<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.request).finish()
    }
}

impl<T: AsyncTransport, P: Method> IntoFuture for Call<'_, T, P> {
    type Output = Result<P::Results, CallError>;
    type IntoFuture = ResultsFuture<T::Call, P>;

    fn into_future(self) -> Self::IntoFuture {
        ResultsFuture(self.reply())
    }
}

/// A call in flight, which resolves to its results.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct ResultsFuture<F, P>(ReplyFuture<F, P>);

impl<F, P> Future for ResultsFuture<F, P>
where
    F: Future<Output = Result<ReceivedMessage, CallError>> + Unpin,
    P: Method,
{
    type Output = Result<P::Results, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(Pin::new(&mut self.0).poll(cx))?;
        Poll::Ready(reply.read(P::to_results))
    }
}

/// A call in flight, which resolves to its reply.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct ReplyFuture<F, P> {
    state: State<F>,
    peer: Arc<str>,
    span: Option<Box<Span>>,
    timer: Timer,
    procedure: PhantomData<fn() -> P>,
}

#[derive(Debug)]
enum State<F> {
    InFlight(F),
    Failed(Option<CallError>),
}

impl<F, P> Future for ReplyFuture<F, P>
where
    F: Future<Output = Result<ReceivedMessage, CallError>> + Unpin,
    P: Method,
{
    type Output = Result<Reply<P>, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = match &mut self.state {
            State::InFlight(call) => ready!(Pin::new(call).poll(cx)),
            State::Failed(error) => match error.take() {
                Some(error) => Err(error),
                // Polled after its end.
                None => return Poll::Pending,
            },
        };
        self.timer.stop(End::Client, &ProcedureId::of::<P>());
        let span = self.span.take();
        Poll::Ready(match ended {
            Ok(message) => Ok(Reply::new(message, self.peer.clone(), span)),
            Err(error) => {
                span::record_status(&span, error.kind());
                let outcome = || CallOutcome::from(error.kind());
                let procedure = const { &ProcedureId::of::<P>() };
                metering::count_ended(End::Client, procedure, outcome, || 0, || 0);
                Err(error)
            }
        })
    }
}
