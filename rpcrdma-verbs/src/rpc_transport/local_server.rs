//! A server on a driver that its user drives.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use oncrpc::{HandlerDeadline, LocalPrograms, OutgoingReply, Peer, ReceivedMessage, Router};
use rpcrdma_proto::connection::{Config, ServedCallId};

use super::message;
use crate::calls::Arrival;
use crate::driver::{ConnectionId, Driver, DriverError, OutgoingReplyError};
use crate::memory::MemoryError;
use crate::peers::Peers;
use crate::provider::Device;

/// A server at one address, on a driver that its user drives: no locks, no tasks.
///
/// Handlers are polled in place, once. Only one that waits is kept, and polled again when it is
/// woken.
///
/// ```
/// use oncrpc::Router;
/// use rpcrdma_verbs::driver::Driver;
/// use rpcrdma_verbs::memory::Budget;
/// use rpcrdma_verbs::provider::software::Fabric;
/// use rpcrdma_proto::connection::Config;
/// use rpcrdma_verbs::rpc_transport::LocalServer;
/// use std::time::Duration;
///
/// let mut driver = Driver::new(&Fabric::new().device(), &Budget::new(64 << 20), 1024)?;
/// let address = "192.0.2.1:20049".parse()?;
/// let mut server = LocalServer::bind(&mut driver, address, Config::server(), Router::new())?;
/// for _ in 0..3 {
///     driver.wait(Duration::from_millis(10))?;
///     server.serve(&mut driver);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalServer<P> {
    peers: Peers,
    router: Rc<Router<P>>,
    peer: Arc<Peer>,
    /// Wakes the driver.
    waker: Waker,
    arrived: Vec<Arrived>,
    /// The last reply that was sent: the next one uses its memory.
    memory: OutgoingReply,
    /// Handlers that are done: the next calls use their memory.
    free: Vec<Box<dyn Handler>>,
    /// Handlers that wait.
    waiting: FuturesUnordered<Waiting>,
}

/// The most handlers that are kept for the next calls.
const MAX_FREE: usize = 256;

/// A call that has arrived.
struct Arrived {
    connection: ConnectionId,
    call: ServedCallId,
    message: Result<ReceivedMessage, MemoryError>,
}

/// A call that was served.
struct Served {
    connection: ConnectionId,
    call: ServedCallId,
    reply: Option<OutgoingReply>,
}

/// The memory of a handler, which serves one call after the other.
trait Handler {
    fn begin(
        &mut self,
        connection: ConnectionId,
        call: ServedCallId,
        message: ReceivedMessage,
        memory: OutgoingReply,
    );

    /// Resolves to the reply. It is not polled again then, until another call begins.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Served>;
}

struct Slot<F, M> {
    make: M,
    future: Pin<Box<Option<F>>>,
}

impl<F, M> Handler for Slot<F, M>
where
    F: Future<Output = Served>,
    M: Fn(ConnectionId, ServedCallId, ReceivedMessage, OutgoingReply) -> F,
{
    fn begin(
        &mut self,
        connection: ConnectionId,
        call: ServedCallId,
        message: ReceivedMessage,
        memory: OutgoingReply,
    ) {
        let future = (self.make)(connection, call, message, memory);
        self.future.set(Some(future));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Served> {
        let Some(future) = self.future.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let served = ready!(future.poll(cx));
        self.future.set(None);
        Poll::Ready(served)
    }
}

fn handler<P: LocalPrograms>(router: &Rc<Router<P>>, peer: &Arc<Peer>) -> Box<dyn Handler> {
    let (router, peer) = (router.clone(), peer.clone());
    let make = move |connection, call, message, memory| {
        let (router, peer) = (router.clone(), peer.clone());
        async move {
            Served {
                connection,
                call,
                reply: router
                    .serve_local(&message, &peer, HandlerDeadline::none(), memory)
                    .await,
            }
        }
    };
    Box::new(Slot {
        make,
        future: Box::pin(None),
    })
}

/// A handler that waits.
struct Waiting(Option<Box<dyn Handler>>);

impl Future for Waiting {
    type Output = (Served, Box<dyn Handler>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = &mut self.0 else {
            return Poll::Pending;
        };
        let served = ready!(handler.poll(cx));
        self.0
            .take()
            .map_or(Poll::Pending, |handler| Poll::Ready((served, handler)))
    }
}

impl<P: LocalPrograms> LocalServer<P> {
    /// Listens at an address; port 0 asks for any.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or the address is not available.
    pub fn bind<D: Device>(
        driver: &mut Driver<D>,
        address: SocketAddr,
        config: Config,
        router: Router<P>,
    ) -> Result<Self, DriverError> {
        let memory = message::RegisteredMemory(driver.pool().clone());
        let peer = Peer {
            address: None,
            transport: "rdma",
            memory: Some(Arc::new(memory)),
        };
        Ok(Self {
            peers: Peers::bind(driver, address, config)?,
            router: Rc::new(router),
            peer: Arc::new(peer),
            waker: driver.waker(),
            arrived: Vec::new(),
            memory: OutgoingReply::default(),
            free: Vec::new(),
            waiting: FuturesUnordered::new(),
        })
    }

    /// Returns the address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.peers.address()
    }

    /// Returns the connections.
    #[must_use]
    pub fn connections(&self) -> &[ConnectionId] {
        self.peers.connections()
    }

    /// Serves what has come since the driver's last turn, and sends the replies. Returns how many
    /// calls have come and how many handlers that waited are done. A handler that waits wakes the
    /// driver.
    pub fn serve<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        let waker = self.waker.clone();
        let count = self.poll(driver, &mut Context::from_waker(&waker));
        if count > 0 {
            driver.flush();
        }
        count
    }

    /// Does as [`serve`](Self::serve), for a task: a handler that waits wakes the task. The driver's
    /// next turn sends the replies.
    pub fn poll<D: Device>(&mut self, driver: &mut Driver<D>, cx: &mut Context<'_>) -> usize {
        self.take_calls(driver, cx) + self.take_served(driver, cx)
    }

    /// Takes no more connections, and lets those that are there end when what has come by them is
    /// answered, while the server is served.
    pub fn drain<D: Device>(&mut self, driver: &mut Driver<D>) {
        self.peers.drain(driver);
    }

    /// Returns true if the server was to drain, and has.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.peers.is_drained()
    }

    /// Begins to serve the calls that have arrived, and returns how many there are. A handler that
    /// does not wait has its reply at once.
    fn take_calls<D: Device>(&mut self, driver: &mut Driver<D>, cx: &mut Context<'_>) -> usize {
        let mut arrived = std::mem::take(&mut self.arrived);
        let count = self.peers.take(driver, |driver, connection, arrival| {
            let Arrival { call, message, .. } = arrival;
            arrived.push(Arrived {
                connection,
                call,
                message: message::call((driver, connection), message),
            });
        });
        for Arrived {
            connection,
            call,
            message,
        } in arrived.drain(..)
        {
            match message {
                Ok(message) => self.begin(driver, (connection, call), message, cx),
                Err(error) => {
                    tracing::warn!(%error, "a call is rejected for want of memory");
                    reject(driver, connection, call);
                }
            }
        }
        self.arrived = arrived;
        count
    }

    fn begin<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        (connection, call): (ConnectionId, ServedCallId),
        message: ReceivedMessage,
        cx: &mut Context<'_>,
    ) {
        let free = self.free.pop();
        let memory = std::mem::take(&mut self.memory);
        let mut handler = free.unwrap_or_else(|| handler(&self.router, &self.peer));
        handler.begin(connection, call, message, memory);
        match handler.poll(cx) {
            Poll::Ready(served) => {
                self.keep(handler);
                self.reply(driver, served);
            }
            Poll::Pending => self.waiting.push(Waiting(Some(handler))),
        }
    }

    /// Sends the replies of handlers that have waited, and returns how many there are.
    fn take_served<D: Device>(&mut self, driver: &mut Driver<D>, cx: &mut Context<'_>) -> usize {
        let mut count = 0;
        while let Poll::Ready(Some((served, handler))) = self.waiting.poll_next_unpin(cx) {
            self.keep(handler);
            self.reply(driver, served);
            count += 1;
        }
        count
    }

    fn reply<D: Device>(&mut self, driver: &mut Driver<D>, served: Served) {
        let Served {
            connection,
            call,
            reply,
        } = served;
        let Some(mut reply) = reply else {
            return reject(driver, connection, call);
        };
        let items = match message::register_items(driver.pool(), &reply.body) {
            Ok(items) => items,
            Err(error) => {
                tracing::warn!(%error, "a reply is dropped for want of memory");
                return reject(driver, connection, call);
            }
        };
        let replied = driver.reply(connection, call, |writer| {
            message::write(writer, &reply.header, &reply.body, items)
        });
        match replied {
            Ok(()) => {}
            Err(OutgoingReplyError::Write(error)) => {
                tracing::warn!(%error, "a reply can't be written");
                reject(driver, connection, call);
            }
            Err(error) => tracing::debug!(?error, "a reply can't be sent"),
        }
        // Its items are not kept until the next reply.
        reply.clear();
        self.memory = reply;
    }

    fn keep(&mut self, handler: Box<dyn Handler>) {
        if self.free.len() < MAX_FREE {
            self.free.push(handler);
        }
    }
}

impl<P: fmt::Debug> fmt::Debug for LocalServer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalServer")
            .field("router", &self.router)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

fn reject<D: Device>(driver: &mut Driver<D>, connection: ConnectionId, call: ServedCallId) {
    if let Some(session) = driver.session_mut(connection) {
        // It has ended already if its connection is gone.
        let _ = session.reject(call);
    }
}
