//! A client without a runner: calls on a driver that its user drives.
//!
//! A forward channel takes the events of its connection from the driver. A backward channel is that
//! of `LocalServer::caller`: the server takes the events, and `callers` queues them. Clones share
//! their events and the state of the connection. There is no queue of calls: a call that exceeds
//! the limits fails. The session decides about deadlines and retransmission.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use oncrpc::{
    Body, CallError, CallErrorKind, Execution, LocalPrograms, LocalTransport, Method, PendingCall,
    Request, Router, Transport,
};
use rpcrdma_proto::connection::Config;

use super::callers::LocalCaller;
use super::dispatcher::reject;
use super::failure;
use super::local_event::{CompletedCall, LocalEvent, Spans, completed};
use super::message::{self, OutgoingItem};
use super::resolver::{Resolver, ServerName};
use super::services::{LocalRouterServices, LocalServices, without_services};
use crate::driver::{BeginError, CallParams, ConnectionId, Driver, DriverError, DriverEvent};
use crate::memory::MemoryError;
use crate::provider::Device;

/// A channel to one server on a driver that its user drives: no locks, no tasks, no wake-ups.
///
/// A call is [begun](oncrpc::Call::begin) on the driver, and sent by the driver's next turn.
/// [`poll_event`](Self::poll_event) reports its end. The driver connects by itself, and reconnects
/// when the connection is lost. Clones refer to the same channel.
///
/// ```
/// use rpcrdma_verbs::driver::Driver;
/// use rpcrdma_verbs::memory::Budget;
/// use rpcrdma_verbs::provider::software::Fabric;
/// use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};
/// use rpcrdma_proto::connection::Config;
/// use oncrpc::Router;
///
/// let (fabric, budget) = (Fabric::new(), Budget::new(64 << 20));
/// let mut far = Driver::new(&fabric.device(), &budget, 1024)?;
/// let address = "192.0.2.1:20049".parse()?;
/// let mut server = LocalServer::bind(&mut far, address, Config::server(), Router::new())?;
///
/// let mut driver = Driver::new(&fabric.device(), &budget, 1024)?;
/// let channel = LocalChannel::connect(&mut driver, address, Config::client())?;
/// let version = loop {
///     driver.turn()?;
///     far.turn()?;
///     server.serve(&mut far);
///     if let Some(LocalEvent::Connected(version)) = channel.poll_event(&mut driver) {
///         break version;
///     }
/// };
/// println!("connected in version {version:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalChannel<D: Device> {
    id: ConnectionId,
    peer: Arc<str>,
    max_unbounded_reply: u32,
    /// The memory of the last call, which the next call reuses.
    spare: Rc<Cell<Spare>>,
    spans: Rc<Spans>,
    outage: Rc<RefCell<ConnectFailure>>,
    /// `Some` if the server has a name.
    resolver: Option<Rc<RefCell<Resolver>>>,
    direction: CallDirection<D>,
    driver: PhantomData<fn(&mut Driver<D>)>,
}

/// `Some` while there is no connection, with the error of the last attempt to connect.
type ConnectFailure = Option<Option<String>>;

/// The direction of a channel's calls.
enum CallDirection<D: Device> {
    /// To a server, which may call the services.
    Forward(Option<Rc<RefCell<dyn LocalServices<D>>>>),
    /// Backward to a client of a server. The server handles the connection's events.
    Backward(Rc<LocalCaller>),
}

impl<D: Device> Clone for CallDirection<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Forward(services) => Self::Forward(services.clone()),
            Self::Backward(caller) => Self::Backward(caller.clone()),
        }
    }
}

#[derive(Default)]
struct Spare {
    header: Vec<u8>,
    body: Body,
    items: Vec<OutgoingItem>,
}

impl<D: Device> LocalChannel<D> {
    /// Creates a channel to a server, by its address or by its name and port (`"storage-1:20049"`).
    /// Calls can begin at once. Deadlines of calls limit how long attempts to connect may fail.
    ///
    /// A name is looked up again for each connection, by a thread that ends with the lookup and
    /// wakes the driver. Its addresses are tried in turn.
    ///
    /// # Errors
    /// Fails if the settings are invalid.
    pub fn connect(
        driver: &mut Driver<D>,
        server: impl Into<ServerName>,
        config: Config,
    ) -> Result<Self, DriverError> {
        let server = server.into();
        let id = server.connect(driver, without_services(config))?;
        Ok(Self::forward(id, server, None))
    }

    /// Connects as [`connect`](Self::connect) does, for a client that offers services: handlers of
    /// the server can call them ([`Context::caller`](oncrpc::Context::caller)).
    /// [`poll_event`](Self::poll_event) serves the calls, and the driver's next turn sends the
    /// replies.
    ///
    /// The settings limit backward calls: their number ([`Config::max_served`]), their chunks
    /// (`backward_support`), and their use in Version One (`backward_v1`, at both ends).
    ///
    /// # Errors
    /// Fails if the settings are invalid.
    pub fn connect_with_services<P: LocalPrograms>(
        driver: &mut Driver<D>,
        server: impl Into<ServerName>,
        config: Config,
        services: Router<P>,
    ) -> Result<Self, DriverError> {
        let services = Rc::new(RefCell::new(LocalRouterServices::new(driver, services)));
        let server = server.into();
        let id = server.connect(driver, config)?;
        Ok(Self::forward(id, server, Some(services)))
    }

    /// Creates a channel to a server that is not connected yet.
    fn forward(
        id: ConnectionId,
        server: ServerName,
        services: Option<Rc<RefCell<dyn LocalServices<D>>>>,
    ) -> Self {
        let mut channel = Self::new(id, server.to_string(), CallDirection::Forward(services));
        channel.outage.replace(Some(None));
        if let ServerName::Name(_) = server {
            channel.resolver = Some(Rc::new(RefCell::new(Resolver::new(server))));
        }
        channel
    }

    /// Creates a backward channel to a client.
    pub(super) fn backward(id: ConnectionId, caller: Rc<LocalCaller>) -> Self {
        Self::new(id, "client", CallDirection::Backward(caller))
    }

    fn new(id: ConnectionId, peer: impl Into<Arc<str>>, direction: CallDirection<D>) -> Self {
        Self {
            id,
            peer: peer.into(),
            max_unbounded_reply: message::MAX_UNBOUNDED_REPLY,
            spare: Rc::default(),
            spans: Rc::default(),
            outage: Rc::default(),
            resolver: None,
            direction,
            driver: PhantomData,
        }
    }

    /// Sets the maximum size in bytes of a reply without a bound in the schema or by the caller
    /// (default 64 KiB).
    #[must_use]
    pub fn max_unbounded_reply(self, max_unbounded_reply: u32) -> Self {
        Self {
            max_unbounded_reply,
            ..self
        }
    }

    /// Returns the connection, for [`Driver::session`] and [`Driver::counters`].
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.id
    }

    /// Returns the next event; `None` if there is none now. Events of a backward channel appear
    /// when its server is served.
    pub fn poll_event(&self, driver: &mut Driver<D>) -> Option<LocalEvent> {
        let services = match &self.direction {
            CallDirection::Forward(services) => services.as_ref(),
            CallDirection::Backward(caller) => return caller.pop_event(),
        };
        if let Some(services) = services {
            services.borrow_mut().poll(driver);
        }
        if let Some(resolver) = &self.resolver
            && driver.wants_address(self.id)
        {
            let waker = driver.waker();
            let mut resolver = resolver.borrow_mut();
            resolver.poll_connect(driver, self.id, &mut Context::from_waker(&waker));
        }
        loop {
            match driver.poll_event(self.id)? {
                DriverEvent::Ready(version) => {
                    self.outage.replace(None);
                    if let Some(resolver) = &self.resolver {
                        resolver.borrow_mut().forget_addresses();
                    }
                    return Some(LocalEvent::Connected(version));
                }
                DriverEvent::Closed { reason, is_final } => {
                    let error = driver.take_connect_error(self.id);
                    self.outage.replace_with(|outage| {
                        let known = error.as_ref().map(ToString::to_string);
                        let known = known.or_else(|| outage.take().flatten());
                        // A channel that has ended takes no calls.
                        (!is_final).then(|| known.or_else(|| Some(reason.to_string())))
                    });
                    return Some(LocalEvent::Disconnected {
                        reason,
                        error,
                        is_final,
                    });
                }
                DriverEvent::CallArrived { call, message, .. } => match services {
                    Some(services) => {
                        let mut services = services.borrow_mut();
                        services.begin(driver, (self.id, call), message);
                    }
                    None => {
                        driver.recycle(self.id, message);
                        reject(driver, (self.id, call));
                    }
                },
                event => {
                    let mut event = completed((driver, self.id), event);
                    if self.spans.are_there() {
                        self.spans.attach(&mut event);
                    }
                    if let Some(LocalEvent::Completed(completed)) = &mut event
                        && let Some(cause) = &*self.outage.borrow()
                    {
                        completed.not_connected(cause.clone());
                    }
                    return event;
                }
            }
        }
    }

    /// Decodes the results of an ended call, and passes them to a function. Returns `None` if
    /// another call has ended.
    ///
    /// # Errors
    /// The result is an error if the call has failed, if the server has refused it, or if its reply
    /// does not match the schema.
    pub fn read<P: Method, R>(
        &self,
        call: &PendingCall<P>,
        completed: &CompletedCall,
        f: impl FnOnce(P::Reply<'_>) -> R,
    ) -> Option<Result<R, CallError>> {
        if call.xid() != completed.xid() {
            return None;
        }
        let read = match &completed.outcome {
            Ok(reply) => call.read_reply(&reply.items(), &self.peer, f),
            Err((kind, execution)) => {
                let mut kind = kind.clone();
                if let CallErrorKind::DeadlineExceeded { timeout, .. } = &mut kind {
                    *timeout = call.timeout().unwrap_or_default();
                }
                let procedure = oncrpc::ProcedureId::of::<P>();
                Err(CallError::new(
                    procedure,
                    self.peer.clone(),
                    kind,
                    *execution,
                ))
            }
        };
        completed.record(&read);
        #[cfg(feature = "metrics")]
        if let Err((kind, _)) = &completed.outcome {
            oncrpc::count_failed_call(&oncrpc::ProcedureId::of::<P>(), kind);
        }
        Some(read)
    }

    /// Recycles the memory of a reply in the driver. A dropped reply returns its memory to the
    /// pool, which costs slightly more.
    pub fn recycle(&self, driver: &mut Driver<D>, completed: CompletedCall) {
        if let Some(payload) = completed.into_payload() {
            driver.recycle(self.id, payload);
        }
    }

    /// Cancels a call. It ends once the server can no longer access its memory. Returns false if it
    /// has ended.
    pub fn cancel<P: Method>(&self, driver: &mut Driver<D>, call: &PendingCall<P>) -> bool {
        driver
            .session_mut(self.id)
            .is_some_and(|session| session.cancel(call.xid()))
    }

    /// Drains the channel: it ends when its calls have ended, which `Disconnected` reports. This
    /// has no effect on a backward channel, which ends with its connection.
    pub fn drain(&self, driver: &mut Driver<D>) {
        if let CallDirection::Forward(_) = &self.direction
            && let Some(session) = driver.session_mut(self.id)
        {
            session.drain();
        }
    }

    /// Ends the channel at once, and frees its state in the driver. Calls in flight end without an
    /// event. This has no effect on a backward channel, which ends with its connection.
    pub fn close(&self, driver: &mut Driver<D>) {
        if let CallDirection::Forward(_) = &self.direction {
            driver.finish(self.id);
            driver.forget(self.id);
            self.spans.clear();
        }
    }

    /// Begins a call whose arguments and header are written.
    fn send(
        &self,
        driver: &mut Driver<D>,
        request: &Request,
        spare: &mut Spare,
    ) -> Result<u32, (CallErrorKind, Execution)> {
        let failed = |kind| (kind, Execution::NotExecuted);
        let no_memory = |error: MemoryError| failed(CallErrorKind::Transport(Arc::new(error)));
        let pool = driver.pool();
        let Spare { header, items, .. } = spare;
        message::register_items(pool, &request.body, items).map_err(no_memory)?;
        let results = message::result_buffers(pool, &request.limits).map_err(no_memory)?;
        let timeout = request.timeout.map(|timeout| timeout.as_micros());
        let deadline = timeout.map(|micros| {
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            driver.now().saturating_add(micros)
        });
        let mut params = CallParams {
            max_reply: message::max_reply(&request.limits, &results, self.max_unbounded_reply),
            results,
            reducible: true,
            resend_window: request.resend_window(),
            deadline,
            span: request.span.clone(),
        };
        let begun = driver.call(self.id, &mut params, |writer| {
            message::write(writer, header, &request.body, items)
        });
        begun.map_err(|BeginError { error, .. }| failed(failure::begin_error(error)))
    }
}

impl<D: Device> Transport for LocalChannel<D> {
    fn peer(&self) -> Arc<str> {
        self.peer.clone()
    }

    fn body(&self) -> Body {
        let mut spare = self.spare.take();
        let body = std::mem::take(&mut spare.body);
        self.spare.set(spare);
        body
    }
}

impl<D: Device> LocalTransport for LocalChannel<D> {
    type Driver = Driver<D>;

    /// Begins a call. It fails if a backward channel has no connection, or if the maximum number of
    /// calls of the protocol's settings is open
    /// ([`Config::max_calls`](rpcrdma_proto::connection::Config)). A cancelled call is open until
    /// [`poll_event`](LocalChannel::poll_event) reports its end. A call that does not wait for a
    /// connection fails if there is none; one that has begun waits for the next connection, if it
    /// may be transmitted again.
    fn begin(&self, driver: &mut Driver<D>, mut request: Request) -> Result<u32, CallError> {
        if let CallDirection::Backward(caller) = &self.direction
            && let Err(kind) = caller.check(driver, self.id)
        {
            return Err(request.error(self.peer.clone(), kind, Execution::NotExecuted));
        }
        if let Some(cause) = &*self.outage.borrow()
            && !request.wait_for_connection
        {
            let cause = cause.as_deref().unwrap_or("not connected yet");
            let kind = CallErrorKind::Connect(Arc::new(std::io::Error::other(cause)));
            return Err(request.error(self.peer.clone(), kind, Execution::NotExecuted));
        }
        let mut spare = self.spare.take();
        spare.header.clear();
        let begun = match request.encode_header(0, &mut spare.header) {
            Ok(()) => self.send(driver, &request, &mut spare),
            Err(kind) => Err((kind, Execution::NotExecuted)),
        };
        request.body.clear();
        spare.items.clear();
        spare.body = std::mem::take(&mut request.body);
        self.spare.set(spare);
        match (&self.direction, &begun) {
            // Another channel to the same client may handle the end of the call.
            (CallDirection::Backward(caller), Ok(xid)) => caller.begun(*xid),
            (CallDirection::Forward(_), Ok(xid)) => {
                if let Some(span) = request.span.take() {
                    self.spans.add(*xid, span);
                }
            }
            (_, Err(_)) => {}
        }
        begun.map_err(|(kind, execution)| request.error(self.peer.clone(), kind, execution))
    }
}

impl<D: Device> Clone for LocalChannel<D> {
    fn clone(&self) -> Self {
        Self {
            peer: self.peer.clone(),
            spare: self.spare.clone(),
            spans: self.spans.clone(),
            outage: self.outage.clone(),
            resolver: self.resolver.clone(),
            direction: self.direction.clone(),
            ..*self
        }
    }
}

impl<D: Device> fmt::Debug for LocalChannel<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalChannel({})", self.peer)
    }
}
