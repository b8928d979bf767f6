//! Services: the context of a server's handlers, and the traits that generated code implements.
//!
//! `xdrgen` (`emit::services`) generates the implementations of [`Dispatch`] and [`LocalDispatch`]
//! and their uses of [`IncomingCall`] and [`ReplyWriter`], and changes with these. `router` selects
//! the service of a call and enforces the deadline. A transport creates one [`Peer`] for each
//! connection. If it sets [`Peer::status`], it must close that status at the end of the connection:
//! while it is open, `reply_cache` takes an equal call over another connection for another
//! client's.

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, Pending};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use xdrgen_runtime::{Decode, Decoder, Encode, Error, ItemList, Limits, Procedure};

use crate::auth::Credentials;
use crate::caller::CallerChannel;
use crate::channel::Channel;
use crate::error::{BackwardError, CallErrorKind};
use crate::header::ReplyStatus;
use crate::item_buf::{ItemAllocator, ItemBuf, ItemMemory};
use crate::message::{OutgoingReply, ReceivedMessage, wrong_field};
use crate::procedure::ProcedureId;
use crate::protocol::AuthStat;

/// The error of a handler.
///
/// The operator `?` converts each type that implements [`std::error::Error`] into it: the caller
/// gets SYSTEM_ERR, and the error is logged at `warn`. [`RpcError::system`] does so for a text, and
/// [`RpcError::garbage_args`] answers with GARBAGE_ARGS.
///
/// ```
/// use oncrpc::RpcError;
///
/// fn size(path: &str) -> Result<u64, RpcError> {
///     if path.is_empty() {
///         return Err(RpcError::garbage_args("a path without a name"));
///     }
///     Ok(std::fs::metadata(path)?.len())
/// }
/// assert!(matches!(size("/no/such/file"), Err(RpcError::System(_))));
/// assert!(matches!(size(""), Err(RpcError::InvalidArgs(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RpcError {
    /// The version of the program has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded: the error, and the path of the field.
    GarbageArgs(Error, Option<String>),
    /// The handler does not accept the arguments, for this reason.
    InvalidArgs(Box<dyn StdError + Send + Sync>),
    /// The server failed.
    System(Box<dyn StdError + Send + Sync>),
    /// The credentials do not suffice.
    Auth(AuthStat),
    /// The call is dropped without a reply, so that the caller retries.
    NoReply,
    /// The handler has exceeded its deadline.
    DeadlineExceeded,
}

impl RpcError {
    /// Returns the error of a server that failed: the caller gets SYSTEM_ERR, and the reason is
    /// logged at `warn`. The reason is a text, or an error that `?` does not convert, such as
    /// `anyhow::Error`.
    ///
    /// ```
    /// use oncrpc::RpcError;
    ///
    /// fn stock(count: Option<u32>) -> Result<u32, RpcError> {
    ///     count.ok_or_else(|| RpcError::system("the stock is not counted"))
    /// }
    /// assert_eq!(stock(None).unwrap_err().to_string(), "the stock is not counted");
    ///
    /// fn parse(text: &str) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    ///     Ok(text.parse()?)
    /// }
    /// assert!(parse("x").map_err(RpcError::system).is_err());
    /// ```
    #[must_use]
    pub fn system(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::System(reason.into())
    }

    /// Returns the error of arguments that a handler does not accept: the caller gets GARBAGE_ARGS,
    /// and the reason is logged at `info`. A client takes its call for one that was not executed:
    /// the handler must return this before it changes anything.
    ///
    /// ```
    /// use oncrpc::RpcError;
    ///
    /// fn half(number: u32) -> Result<u32, RpcError> {
    ///     match number % 2 {
    ///         0 => Ok(number / 2),
    ///         _ => Err(RpcError::garbage_args(format!("{number} is odd"))),
    ///     }
    /// }
    /// let text = "the arguments are not accepted: 7 is odd";
    /// assert_eq!(half(7).unwrap_err().to_string(), text);
    /// ```
    #[must_use]
    pub fn garbage_args(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::InvalidArgs(reason.into())
    }

    /// Returns the status of the reply; `None` for no reply.
    #[must_use]
    pub fn status(&self) -> Option<ReplyStatus> {
        Some(match self {
            Self::ProcedureUnavailable => ReplyStatus::ProcedureUnavailable,
            Self::GarbageArgs(..) | Self::InvalidArgs(_) => ReplyStatus::GarbageArgs,
            Self::System(_) | Self::DeadlineExceeded => ReplyStatus::SystemError,
            Self::Auth(stat) => ReplyStatus::AuthError(*stat),
            Self::NoReply => return None,
        })
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProcedureUnavailable => f.write_str("no such procedure"),
            Self::GarbageArgs(error, None) => write!(f, "the arguments can't be decoded: {error}"),
            Self::GarbageArgs(error, Some(path)) => {
                write!(f, "the arguments can't be decoded: {path}: {error}")
            }
            Self::InvalidArgs(reason) => write!(f, "the arguments are not accepted: {reason}"),
            Self::System(error) => error.fmt(f),
            Self::Auth(stat) => write!(f, "the credentials do not suffice: {}", stat.name()),
            Self::NoReply => f.write_str("no reply"),
            Self::DeadlineExceeded => f.write_str("not done in the time that the server gives"),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for RpcError {
    fn from(error: E) -> Self {
        Self::System(Box::new(error))
    }
}

/// The peer of a connection, and the transport's resources for it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address, if the transport has addresses.
    pub address: Option<SocketAddr>,
    /// The name of the transport: `tcp`, `rdma`, `memory`.
    pub transport: &'static str,
    /// The memory of the transport for the items of replies, if it has its own.
    pub memory: Option<Arc<dyn ItemMemory>>,
    /// The backward direction to the client, or the reason why there is none.
    pub caller: Result<Arc<CallerChannel>, BackwardError>,
    /// The status of the connection, for transports whose clients reconnect from other ports: a
    /// [`ReplyCache`](crate::ReplyCache) identifies them by address only. `None` if address and
    /// port identify clients, as over TCP.
    pub status: Option<ConnectionStatus>,
}

/// The status of a connection, open or closed. Clones refer to the same connection.
///
/// ```
/// use oncrpc::ConnectionStatus;
///
/// let status = ConnectionStatus::open();
/// let of_peer = status.clone();
/// status.close();
/// assert!(!of_peer.is_open());
/// ```
#[derive(Clone, Debug)]
pub struct ConnectionStatus(Arc<AtomicBool>);

impl ConnectionStatus {
    /// Returns the status of a connection that is open.
    #[must_use]
    pub fn open() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Records that the connection is closed.
    pub fn close(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Returns true if the connection is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Returns true if both refer to the same connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address} ({})", self.transport),
            None => f.write_str(self.transport),
        }
    }
}

/// The deadline of a handler.
#[derive(Debug)]
pub struct HandlerDeadline<F> {
    pub(crate) at: Option<Instant>,
    pub(crate) passed: F,
}

impl<F: Future<Output = ()>> HandlerDeadline<F> {
    /// Creates a deadline from its time, if there is one, and a future that ends at that time. The
    /// future is polled only if the handler waits.
    pub fn new(at: Option<Instant>, passed: F) -> Self {
        Self { at, passed }
    }

    /// Returns its time, and the future that ends then.
    pub fn into_parts(self) -> (Option<Instant>, F) {
        (self.at, self.passed)
    }
}

impl HandlerDeadline<Pending<()>> {
    /// Returns no deadline.
    #[must_use]
    pub fn none() -> Self {
        Self::new(None, std::future::pending())
    }
}

/// The context of a call: all that a handler knows besides the arguments.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) peer: Arc<Peer>,
    pub(crate) xid: u32,
    pub(crate) procedure: ProcedureId,
    pub(crate) credentials: Credentials,
    pub(crate) deadline: Option<Instant>,
}

impl Context {
    /// Returns the caller's end of the connection.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns a channel to the caller, for backward calls over the connection of this call (RFC
    /// 8167).
    ///
    /// A server may call a client only after the client has announced that it is ready, by a call
    /// of its program such as CREATE_SESSION in NFSv4.1. The handler of that call takes the caller
    /// before it returns, which informs the transport. It may call at once, or keep the channel.
    /// Without a backward direction, or after the connection is lost, each call of the channel
    /// fails with the reason.
    ///
    /// ```
    /// use oncrpc::{Channel, Context, RpcError};
    ///
    /// #[derive(Default)]
    /// struct News(std::sync::Mutex<Vec<Channel>>);
    ///
    /// impl News {
    ///     async fn subscribe(&self, cx: &Context) -> Result<(), RpcError> {
    ///         let mut subscribers = self.0.lock().map_err(|_| std::io::Error::other("poisoned"))?;
    ///         subscribers.push(cx.caller());
    ///         Ok(())
    ///     }
    /// }
    /// ```
    // If the driver's user makes the backward calls, a handler takes the caller only to inform the
    // transport.
    #[allow(clippy::must_use_candidate, reason = "taking the caller has an effect")]
    pub fn caller(&self) -> Channel {
        match &self.peer.caller {
            Ok(caller) => caller.take(),
            Err(error) => Channel::closed(self.peer.to_string(), CallErrorKind::Backward(*error)),
        }
    }

    /// Returns the number of the connection of this call, if the transport has a backward
    /// direction. No other open connection of the same transport and thread has this number; those
    /// of the server's other threads may have it.
    #[must_use]
    pub fn connection(&self) -> Option<u64> {
        Some(self.peer.caller.as_ref().ok()?.connection())
    }

    /// Returns the XID, which the caller has chosen.
    #[must_use]
    pub fn xid(&self) -> u32 {
        self.xid
    }

    /// Returns the procedure.
    #[must_use]
    pub fn procedure(&self) -> &ProcedureId {
        &self.procedure
    }

    /// Returns the time at which the server drops the handler and answers with SYSTEM_ERR; `None`
    /// if there is no limit. The server does not know how long the caller waits.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns a buffer for an item of `len` bytes of the results, from which the transport sends
    /// it without a copy if it can.
    ///
    /// ```
    /// # use oncrpc::xdr::Item;
    /// async fn read(cx: &oncrpc::Context, count: usize) -> std::io::Result<Item<'static>> {
    ///     let mut data = cx.item_buf(count.min(1 << 20));
    ///     let len = std::io::Read::read(&mut std::io::repeat(7), &mut data)?;
    ///     Ok(data.into_item(len))
    /// }
    /// ```
    #[must_use]
    pub fn item_buf(&self, len: usize) -> ItemBuf {
        ItemBuf::new(self.peer.memory.as_ref(), len)
    }

    /// Returns the allocator of [`item_buf`](Self::item_buf), for handlers that work on another
    /// thread.
    #[must_use]
    pub fn item_allocator(&self) -> ItemAllocator {
        ItemAllocator::new(self.peer.memory.clone())
    }

    /// Returns the credentials of the caller.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }
}

/// A call, for the dispatch in generated code.
#[derive(Clone, Debug)]
pub struct IncomingCall<'a> {
    pub(crate) procedure: ProcedureId,
    /// The decoder is at the arguments.
    pub(crate) decoder: Decoder<'a>,
    pub(crate) items: &'a ItemList<'a>,
    pub(crate) message: &'a ReceivedMessage,
    /// The message with all items in place, if the arguments need it.
    pub(crate) whole: &'a OnceLock<Option<Vec<u8>>>,
}

impl<'a> IncomingCall<'a> {
    /// Returns the number of the procedure.
    #[must_use]
    pub fn procedure(&self) -> u32 {
        self.procedure.number
    }

    /// Decodes the arguments.
    ///
    /// # Errors
    /// `GarbageArgs` if they do not match the schema. Data that the caller has reduced elsewhere than
    /// at an item are put in place first.
    pub fn args<P: Procedure>(&self) -> Result<P::Args<'a>, RpcError> {
        let mut d = self.decoder.clone();
        let decoded = P::Args::decode(&mut d).and_then(|value| {
            d.finish()?;
            if !self.items.is_used_up() {
                return Err(Error::new(xdrgen_runtime::ErrorKind::TrailingBytes, 0));
            }
            Ok(value)
        });
        match decoded {
            Ok(value) => Ok(value),
            Err(error) => self.args_in_place::<P>().unwrap_or_else(|| {
                let path = wrong_field::<P::Args<'_>>(self.decoder.clone());
                Err(RpcError::GarbageArgs(error, path))
            }),
        }
    }

    /// Decodes the arguments of a message with all items in place, since elements of a sequence are
    /// decoded later. Returns `None` if no item is separate.
    #[cold]
    fn args_in_place<P: Procedure>(&self) -> Option<Result<P::Args<'a>, RpcError>> {
        let whole = self.whole.get_or_init(|| self.message.put_together());
        let mut at_args = Decoder::with_limits(whole.as_deref()?, &Limits::DEFAULT).ok()?;
        // The header contains no item.
        at_args.advance(self.decoder.offset()).ok()?;
        let mut d = at_args.clone();
        let decoded = P::Args::decode(&mut d).and_then(|args| d.finish().map(|()| args));
        Some(
            decoded
                .map_err(|error| RpcError::GarbageArgs(error, wrong_field::<P::Args<'_>>(at_args))),
        )
    }
}

/// The results of a call, for generated code to encode.
#[derive(Debug, Default)]
pub struct ReplyWriter(pub(crate) OutgoingReply);

impl ReplyWriter {
    /// Encodes the results.
    ///
    /// # Errors
    /// `System` if they exceed a bound of the schema.
    pub fn results<R: Encode>(&mut self, results: &R) -> Result<(), RpcError> {
        let body = &mut self.0.body;
        body.clear();
        Ok(body.encode_results(results)?)
    }
}

/// A version of a program that can be served on any thread. Generated code implements it for each
/// `Service`.
pub trait Dispatch: Send + Sync + 'static {
    /// The program.
    const PROGRAM: u32;
    /// The version.
    const VERSION: u32;

    /// Returns the name of a procedure.
    fn procedure_name(number: u32) -> Option<&'static str>;

    /// Returns true if a procedure may be executed twice without harm.
    fn is_idempotent(number: u32) -> bool;

    /// Serves a call.
    fn dispatch<'a>(
        &'a self,
        cx: &'a Context,
        call: IncomingCall<'a>,
        reply: &'a mut ReplyWriter,
    ) -> impl Future<Output = Result<(), RpcError>> + Send;
}

/// A version of a program that is served on one thread. Generated code implements it for each
/// `LocalService`.
pub trait LocalDispatch: 'static {
    /// The program.
    const PROGRAM: u32;
    /// The version.
    const VERSION: u32;

    /// Returns the name of a procedure.
    fn procedure_name(number: u32) -> Option<&'static str>;

    /// Returns true if a procedure may be executed twice without harm.
    fn is_idempotent(number: u32) -> bool;

    /// Serves a call.
    fn dispatch<'a>(
        &'a self,
        cx: &'a Context,
        call: IncomingCall<'a>,
        reply: &'a mut ReplyWriter,
    ) -> impl Future<Output = Result<(), RpcError>>;
}

/// Every service for any thread is also a service for one thread.
impl<T: Dispatch> LocalDispatch for T {
    const PROGRAM: u32 = T::PROGRAM;
    const VERSION: u32 = T::VERSION;

    fn procedure_name(number: u32) -> Option<&'static str> {
        <T as Dispatch>::procedure_name(number)
    }

    fn is_idempotent(number: u32) -> bool {
        <T as Dispatch>::is_idempotent(number)
    }

    fn dispatch<'a>(
        &'a self,
        cx: &'a Context,
        call: IncomingCall<'a>,
        reply: &'a mut ReplyWriter,
    ) -> impl Future<Output = Result<(), RpcError>> {
        <T as Dispatch>::dispatch(self, cx, call, reply)
    }
}
