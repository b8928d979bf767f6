//! The programs at one address, and the dispatch of messages to them (RFC 5531, sections 8 and 9).
//!
//! Transports call `serve` or `serve_local` for each message, and send the reply. Its steps have a
//! fixed order: a security flavor returns the call in plain form (`server_security`); a call for no
//! handler is answered, without the reply cache; `reply_cache` answers a retransmission; the
//! handler runs until its deadline. So the cache has plain replies, as each transmission of a
//! protected call differs. If the future is dropped before its end, a retransmission executes the
//! call again: transports keep it after the loss of a connection. `service` has the traits of
//! services and the status of a failed handler, `header` has the format of replies.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use tracing::{Span, debug_span};
use xdrgen_runtime::{Decoder, Limits};

use crate::header::{CallHeader, Refusal, ReplyStatus, decode_call};
use crate::message::{OutgoingReply, ReceivedMessage};
use crate::metering::{self, CallOutcome, End, Timer};
use crate::procedure::ProcedureId;
use crate::reply_cache::{Lookup, Outcome, ReplyCache};
use crate::server_security::{self, CheckedCall, ServerSecurity};
use crate::service::{
    Context, Dispatch, HandlerDeadline, IncomingCall, LocalDispatch, Peer, ReplyWriter, RpcError,
};
use crate::span::{self, record_status};

/// The programs that a server offers at one address.
///
/// A call of another program is answered with PROG_UNAVAIL, of another version with PROG_MISMATCH,
/// of another procedure with PROC_UNAVAIL. Procedure 0 of each version is answered without a
/// handler (RFC 5531, section 12).
///
/// A call of a procedure that is not idempotent is executed once. A retransmission by the same
/// caller with the same XID gets the same reply ([`ReplyCache`]). This needs a transport whose
/// callers have addresses: TCP or RDMA.
#[derive(Debug)]
pub struct Router<P = ()> {
    programs: P,
    cache: ReplyCache,
    /// Whether the user has set the cache.
    has_own_cache: bool,
    security: Vec<Arc<dyn ServerSecurity>>,
    /// Whether handlers end at their deadline.
    has_deadlines: bool,
}

impl Router {
    /// Creates a router without programs.
    #[must_use]
    pub fn new() -> Self {
        Self {
            programs: (),
            cache: ReplyCache::default(),
            has_own_cache: false,
            security: Vec::new(),
            has_deadlines: true,
        }
    }
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> Router<P> {
    /// Adds a version of a program. It replaces an earlier one with the same numbers.
    #[must_use]
    pub fn add_service<S>(self, service: S) -> Router<(S, P)> {
        Router {
            programs: (service, self.programs),
            cache: self.cache,
            has_own_cache: self.has_own_cache,
            security: self.security,
            has_deadlines: self.has_deadlines,
        }
    }

    /// Lets handlers take as long as they need: the
    /// [time limit](crate::ServerLimits::handler_time) of the server does not apply.
    ///
    /// This is for handlers whose work cannot be cancelled once it has begun. A call that ended at
    /// a deadline would no longer count for the limits while its work and its data remain, and
    /// would be reported as failed although it may be executed.
    #[must_use]
    pub fn without_handler_time(self) -> Self {
        Self {
            has_deadlines: false,
            ..self
        }
    }

    /// Adds a security flavor, which checks the calls with credentials of this flavor. A handler
    /// gets the credentials of other flavors as received ([`Credentials::Other`]).
    ///
    /// [`Credentials::Other`]: crate::Credentials::Other
    #[must_use]
    pub fn security(mut self, flavor: impl ServerSecurity) -> Self {
        self.security.push(Arc::new(flavor));
        self
    }

    /// Sets the reply cache: a [`ReplyCacheConfig`](crate::ReplyCacheConfig), or a cache that
    /// several routers share.
    #[must_use]
    pub fn reply_cache(self, cache: impl Into<ReplyCache>) -> Self {
        Self {
            cache: cache.into(),
            has_own_cache: true,
            ..self
        }
    }

    /// Sets the reply cache, unless [`reply_cache`](Self::reply_cache) has set one: servers with
    /// several routers give all of them the same cache.
    #[must_use]
    pub fn default_reply_cache(self, cache: impl Into<ReplyCache>) -> Self {
        if self.has_own_cache {
            return self;
        }
        Self {
            cache: cache.into(),
            ..self
        }
    }

    /// Returns the reply cache.
    #[cfg(feature = "tokio")]
    pub(crate) fn cache(&self) -> &ReplyCache {
        &self.cache
    }

    /// Looks up a call whose procedure is not idempotent; `None` if its reply is not cached.
    fn look_up(
        &self,
        offered: Option<OfferedVersions>,
        peer: &Peer,
        header: &CallHeader,
        message: &ReceivedMessage,
    ) -> Option<Lookup<'_>> {
        let is_kept = offered.is_some_and(|offered| !offered.idempotent);
        let key = is_kept.then(|| self.cache.key(peer, header, message))??;
        Some(self.cache.begin(key, peer.status.as_ref()))
    }
}

/// The versions of a program that a router offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferedVersions {
    low: u32,
    high: u32,
    /// The name of the procedure, if the version is offered.
    procedure: Option<&'static str>,
    idempotent: bool,
    exact: bool,
}

impl OfferedVersions {
    fn merge(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            procedure: if self.exact {
                self.procedure
            } else {
                other.procedure
            },
            idempotent: if self.exact {
                self.idempotent
            } else {
                other.idempotent
            },
            exact: self.exact || other.exact,
        }
    }
}

/// Defines the programs of a router: for services that are `Send`, and for others.
macro_rules! programs {
    ($(#[$doc:meta])* $name:ident, $dispatch:ident, [$($send:ident)?], [$($bounds:tt)*]) => {
        $(#[$doc])*
        pub trait $name: $($bounds)* {
            /// Returns the versions of a program that are offered; `None` if there are none.
            fn offered(&self, program: u32, version: u32, number: u32) -> Option<OfferedVersions>;

            /// Serves a call.
            fn dispatch<'a>(
                &'a self,
                cx: &'a Context,
                call: IncomingCall<'a>,
                reply: &'a mut ReplyWriter,
            ) -> impl Future<Output = Result<(), RpcError>> $(+ $send)?;
        }

        impl $name for () {
            fn offered(&self, _: u32, _: u32, _: u32) -> Option<OfferedVersions> {
                None
            }

            async fn dispatch<'a>(
                &'a self,
                _: &'a Context,
                _: IncomingCall<'a>,
                _: &'a mut ReplyWriter,
            ) -> Result<(), RpcError> {
                Err(RpcError::ProcedureUnavailable)
            }
        }

        impl<S: $dispatch, P: $name> $name for (S, P) {
            fn offered(&self, program: u32, version: u32, number: u32) -> Option<OfferedVersions> {
                let others = self.1.offered(program, version, number);
                if program != S::PROGRAM {
                    return others;
                }
                let exact = version == S::VERSION;
                let this = OfferedVersions {
                    low: S::VERSION,
                    high: S::VERSION,
                    procedure: S::procedure_name(number).filter(|_| exact),
                    idempotent: S::is_idempotent(number),
                    exact,
                };
                Some(this.merge(others))
            }

            async fn dispatch<'a>(
                &'a self,
                cx: &'a Context,
                call: IncomingCall<'a>,
                reply: &'a mut ReplyWriter,
            ) -> Result<(), RpcError> {
                if (cx.procedure.program, cx.procedure.version) == (S::PROGRAM, S::VERSION) {
                    self.0.dispatch(cx, call, reply).await
                } else {
                    self.1.dispatch(cx, call, reply).await
                }
            }
        }
    };
}
programs! {
    /// The programs of a router that serves on any thread.
    Programs, Dispatch, [Send], [Send + Sync + 'static]
}
programs! {
    /// The programs of a router that serves on one thread.
    LocalPrograms, LocalDispatch, [], ['static]
}

/// Returns a reply with this status and these results.
fn reply_of(xid: u32, status: ReplyStatus, mut reply: OutgoingReply) -> OutgoingReply {
    status.encode(xid, &mut reply.header);
    reply
}

/// Returns a reply without results.
fn refusal(xid: u32, status: ReplyStatus) -> OutgoingReply {
    reply_of(xid, status, OutgoingReply::default())
}

/// Returns the reply to a call that reaches no handler; `None` if a handler serves the call.
fn answer_early(header: &CallHeader, offered: Option<OfferedVersions>) -> Option<ReplyStatus> {
    match offered {
        None => Some(ReplyStatus::ProgramUnavailable),
        Some(OfferedVersions {
            exact: false,
            low,
            high,
            ..
        }) => Some(ReplyStatus::ProgramMismatch { low, high }),
        Some(_) if header.number == 0 => Some(ReplyStatus::Success),
        Some(OfferedVersions {
            procedure: None, ..
        }) => Some(ReplyStatus::ProcedureUnavailable),
        Some(_) => None,
    }
}

/// Returns the reply to a retransmitted call.
fn answer_again(xid: u32, outcome: Outcome) -> Option<OutgoingReply> {
    match outcome {
        Outcome::Reply(reply) => Some(reply),
        Outcome::TooLarge => Some(refusal(xid, ReplyStatus::SystemError)),
        Outcome::NoReply => None,
    }
}

/// Logs why a call has no results.
fn log(cx: &Context, error: &RpcError) {
    let (peer, procedure, xid) = (&cx.peer, &cx.procedure, cx.xid);
    match error {
        RpcError::System(_) | RpcError::DeadlineExceeded => {
            tracing::warn!(%peer, %procedure, xid, %error, "handler failed");
        }
        _ => tracing::info!(%peer, %procedure, xid, %error, "call refused"),
    }
}

/// Returns the reply to a call from what its handler has returned, or from its panic. `received` is
/// the length of the call.
fn finish(
    cx: &Context,
    span: &Option<Box<Span>>,
    served: std::thread::Result<Result<(), RpcError>>,
    reply: ReplyWriter,
    received: impl FnOnce() -> usize,
) -> Option<OutgoingReply> {
    let (outcome, status) = match served {
        Ok(Ok(())) => {
            record_status(span, &ReplyStatus::Success);
            let reply = reply_of(cx.xid, ReplyStatus::Success, reply.0);
            metering::count_served(&cx.procedure, received, || reply.len());
            return Some(reply);
        }
        Ok(Err(error)) => failed(cx, span, &error),
        Err(panic) => panicked(cx, span, &*panic),
    };
    let reply = status.map(|status| refusal(cx.xid, status));
    let sent = || reply.as_ref().map_or(0, OutgoingReply::len);
    metering::count_ended(End::Server, &cx.procedure, || outcome, received, sent);
    reply
}

/// Logs and records that a handler has no results. Returns the status of the reply, unless there is
/// none.
#[cold]
fn failed(
    cx: &Context,
    span: &Option<Box<Span>>,
    error: &RpcError,
) -> (CallOutcome, Option<ReplyStatus>) {
    record_status(span, error);
    log(cx, error);
    let status = error.status();
    let outcome = status.as_ref().map_or(CallOutcome::NoReply, Into::into);
    (outcome, status)
}

/// Logs and records that a handler has panicked. Returns the status of the reply.
#[cold]
fn panicked(
    cx: &Context,
    span: &Option<Box<Span>>,
    panic: &(dyn Any + Send),
) -> (CallOutcome, Option<ReplyStatus>) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let (peer, procedure, xid) = (&cx.peer, &cx.procedure, cx.xid);
    record_status(span, &"the handler panicked");
    tracing::error!(%peer, %procedure, xid, panic = text, "handler panicked");
    (CallOutcome::SystemError, Some(ReplyStatus::SystemError))
}

/// Logs and records why a call is answered without a handler.
#[cold]
fn log_early(peer: &Peer, header: &CallHeader, status: ReplyStatus) {
    let CallHeader {
        xid,
        program,
        version,
        number,
        ..
    } = header;
    let procedure = number;
    tracing::info!(%peer, program, version, procedure, xid, %status, "call refused");
}

/// Returns the span of a served call, in which its handler runs.
#[cold]
fn span_of(
    peer: &Peer,
    header: &CallHeader,
    name: &str,
    message: &ReceivedMessage,
) -> Option<Box<Span>> {
    let span = debug_span!(
        "serve",
        %peer,
        program = header.program,
        version = header.version,
        procedure = header.number,
        name,
        xid = header.xid,
        bytes = message.len(),
        status = tracing::field::Empty,
    );
    (!span.is_disabled()).then(|| Box::new(span))
}

/// Returns the result of a handler, its panic, or its timeout.
// The futures are polled in place. Combinators would move them, which costs 3 % of a call's time.
async fn until<T>(
    span: &Option<Box<Span>>,
    mut handler: Pin<&mut impl Future<Output = Result<T, RpcError>>>,
    mut passed: Option<Pin<&mut impl Future<Output = ()>>>,
) -> std::thread::Result<Result<T, RpcError>> {
    poll_fn(|cx| {
        let _entered = span.as_ref().map(|span| span.enter());
        // Handlers share state only through locks, which a panic poisons.
        let polled = catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Ready(served)) => Poll::Ready(Ok(served)),
            Err(panic) => Poll::Ready(Err(panic)),
            Ok(Poll::Pending) => {
                let passed = passed.as_mut();
                let polled = passed.map_or(Poll::Pending, |passed| passed.as_mut().poll(cx));
                polled.map(|()| Ok(Err(RpcError::DeadlineExceeded)))
            }
        }
    })
    .await
}

/// Defines the functions that serve a message.
macro_rules! serve {
    ($(#[$doc:meta])* $name:ident, $plain:ident, $programs:ident, [$($send:ident)?]) => {
        impl<P: $programs> Router<P> {
            $(#[$doc])*
            ///
            /// A call whose handler panics is answered with SYSTEM_ERR. So is a call whose handler
            /// exceeds its deadline, and the handler is dropped, unless the router is
            /// [without time limit](Self::without_handler_time). A message that is not a call is
            /// not answered. The reply reuses `memory`, a new reply or one that was sent, for its
            /// capacity.
            pub async fn $name<F: Future<Output = ()> $(+ $send)?>(
                &self,
                message: &ReceivedMessage,
                peer: &Arc<Peer>,
                deadline: HandlerDeadline<F>,
                memory: OutgoingReply,
            ) -> Option<OutgoingReply> {
                if !self.security.is_empty() {
                    match server_security::open(&self.security, message, peer) {
                        CheckedCall::Plain => {}
                        CheckedCall::Answered(reply) => return reply,
                        CheckedCall::Protected(plain, replies) => {
                            let reply = Box::pin(self.$plain(&plain, peer, deadline, memory));
                            return Some(server_security::seal(&*replies, reply.await?, peer));
                        }
                    }
                }
                self.$plain(message, peer, deadline, memory).await
            }

            /// Serves a message without a security flavor.
            async fn $plain<F: Future<Output = ()> $(+ $send)?>(
                &self,
                message: &ReceivedMessage,
                peer: &Arc<Peer>,
                deadline: HandlerDeadline<F>,
                mut memory: OutgoingReply,
            ) -> Option<OutgoingReply> {
                memory.clear();
                let mut timer = Timer::start(End::Server);
                let (items, whole) = (message.item_list(), OnceLock::new());
                let mut decoder = Decoder::with_items(&items, &Limits::DEFAULT).ok()?;
                let header = match decode_call(message.stream(), &mut decoder) {
                    Ok(header) => header,
                    Err(Refusal::Drop) => return None,
                    Err(Refusal::Answer(xid, status)) => {
                        return Some(refusal(xid, status));
                    }
                };
                let CallHeader { program, version, number, .. } = header;
                let offered = self.programs.offered(program, version, number);
                let name = offered.and_then(|offered| offered.procedure).unwrap_or_default();
                let span = match span::may_be_on() {
                    true => span_of(peer, &header, name, message),
                    false => None,
                };
                let procedure = ProcedureId { program, version, number, name };
                if let Some(status) = answer_early(&header, offered) {
                    let outcome = CallOutcome::from(&status);
                    record_status(&span, &status);
                    if status != ReplyStatus::Success {
                        log_early(peer, &header, status);
                    }
                    let reply = reply_of(header.xid, status, memory);
                    let (received, sent) = (|| message.len(), || reply.len());
                    metering::count_ended(End::Server, &procedure, || outcome, received, sent);
                    return Some(reply);
                }
                let cached = self.look_up(offered, peer, &header, message);
                let execution = match cached {
                    None => None,
                    Some(Lookup::New(execution)) => Some(execution),
                    Some(Lookup::InProgress(waiting)) => {
                        metering::count_known_call(|| message.len());
                        tracing::debug!(%peer, xid = header.xid, "a call in progress came again");
                        return answer_again(header.xid, waiting.outcome().await);
                    }
                    Some(Lookup::Done(outcome)) => {
                        metering::count_known_call(|| message.len());
                        tracing::debug!(%peer, xid = header.xid, "a call came again");
                        return answer_again(header.xid, outcome);
                    }
                };
                let cx = Context {
                    peer: peer.clone(),
                    xid: header.xid,
                    procedure,
                    credentials: header.credentials,
                    deadline: deadline.at.filter(|_| self.has_deadlines),
                };
                let (items, whole) = (&items, &whole);
                let call = IncomingCall { procedure, decoder, items, message, whole };
                let mut reply = ReplyWriter(memory);
                let served = {
                    let handler = pin!(self.programs.dispatch(&cx, call, &mut reply));
                    let passed = pin!(deadline.passed);
                    until(&span, handler, self.has_deadlines.then_some(passed)).await
                };
                timer.stop(End::Server, &procedure);
                let reply = finish(&cx, &span, served, reply, || message.len())?;
                if let Some(execution) = execution {
                    execution.finish(&reply);
                }
                Some(reply)
            }
        }
    };
}
serve! {
    /// Serves a message. The future can be sent to other threads.
    serve, serve_plain, Programs, [Send]
}
serve! {
    /// Serves a message on this thread.
    serve_local, serve_plain_local, LocalPrograms, []
}
