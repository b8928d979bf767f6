//! Who may connect to a server, and which calls wait for room.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
#[cfg(feature = "tokio")]
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
#[cfg(feature = "tokio")]
use std::time::Instant;

#[cfg(feature = "tokio")]
use oncrpc::{ConnectionPermit, ServerControl};
use oncrpc::{ConnectionStatus, HandlerDeadline, ReceivedMessage};
use rpcrdma_proto::connection::ServedCallId;

#[cfg(feature = "tokio")]
pub(super) use limited::Permit;

use crate::driver::{ConnectionId, IncomingConnection, Payload};
use crate::provider::Device;

/// Decides who may connect.
#[derive(Debug, Default)]
pub(super) enum Admission {
    /// Everybody may, and there are no limits.
    #[default]
    All,
    #[cfg(feature = "tokio")]
    By(ServerControl),
}

/// A client that may connect: what is known of it, and its part of the server.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) status: ConnectionStatus,
    pub(super) permit: Option<Permit>,
}

impl Admission {
    /// Decides about a request to connect, or returns why it is rejected. The reason was logged and
    /// counted then.
    pub(super) fn admit<D: Device>(
        &self,
        request: &IncomingConnection<D>,
    ) -> Result<Client, String> {
        let permit = match self {
            Self::All => None,
            #[cfg(feature = "tokio")]
            Self::By(control) => {
                let (peer, data) = (request.peer(), request.private_data());
                let admitted = control.admit(&oncrpc::ConnectRequest::new(peer, "rdma", data));
                Some(Permit::new(admitted.map_err(|reason| reason.to_string())?))
            }
        };
        Ok(Client {
            address: request.peer(),
            status: ConnectionStatus::open(),
            permit,
        })
    }
}

/// A call that has arrived.
pub(super) struct Arrived {
    pub(super) connection: ConnectionId,
    pub(super) call: ServedCallId,
    pub(super) message: Payload,
}

/// The limits of one call: of its connection, if that has any.
#[derive(Debug, Default)]
pub(super) struct CallLimits(#[cfg(feature = "tokio")] Option<Arc<ConnectionPermit>>);

/// The place of a call whose handler waits, for longer than its connection perhaps.
#[derive(Debug, Default)]
pub(super) struct Place {
    #[cfg(feature = "tokio")]
    taken: Option<(oncrpc::CallPermit, Weak<ConnectionPermit>)>,
}

#[cfg(feature = "tokio")]
impl Drop for Place {
    fn drop(&mut self) {
        if let Some((call, connection)) = self.taken.take() {
            drop(call);
            connection.upgrade().inspect(|permit| permit.trim());
        }
    }
}

/// Ends when a handler's time has passed.
pub(super) enum HandlerTime {
    Endless,
    /// A timer is started once the handler waits, which few do.
    #[cfg(feature = "tokio")]
    Until(Instant, Arc<ConnectionPermit>),
    #[cfg(feature = "tokio")]
    Runs(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl Future for HandlerTime {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        #[cfg(feature = "tokio")]
        {
            let this = self.get_mut();
            if let Self::Until(at, permit) = this {
                *this = Self::Runs(Box::pin(permit.handler_time(Some(*at))));
            }
            if let Self::Runs(time) = this {
                return time.as_mut().poll(cx);
            }
        }
        #[cfg(not(feature = "tokio"))]
        let _ = cx;
        Poll::Pending
    }
}

#[cfg(feature = "tokio")]
impl CallLimits {
    /// Counts the call, and returns when its handler has to be done.
    #[inline]
    pub(super) fn begin(&self) -> HandlerDeadline<HandlerTime> {
        match &self.0 {
            None => HandlerDeadline::new(None, HandlerTime::Endless),
            Some(permit) => {
                permit.count_call();
                let at = permit.handler_due();
                let time = at.map(|at| HandlerTime::Until(at, permit.clone()));
                HandlerDeadline::new(at, time.unwrap_or(HandlerTime::Endless))
            }
        }
    }

    /// Returns the bytes of a call, as limits count them.
    #[inline]
    pub(super) fn bytes(&self, call: &ReceivedMessage) -> usize {
        self.0.as_ref().map_or(0, |_| call.len())
    }

    /// Takes a place for the call, whose handler waits.
    pub(super) fn wait(&mut self, bytes: usize) -> Place {
        let permit = self.0.take();
        Place {
            taken: permit.map(|permit| (permit.call(bytes), Arc::downgrade(&permit))),
        }
    }

    /// Notes that a call is done whose handler did not wait.
    #[inline]
    pub(super) fn end(&self) {
        if let Some(permit) = &self.0 {
            permit.trim();
        }
    }
}

#[cfg(not(feature = "tokio"))]
impl CallLimits {
    pub(super) fn begin(&self) -> HandlerDeadline<HandlerTime> {
        HandlerDeadline::new(None, HandlerTime::Endless)
    }

    pub(super) fn bytes(&self, _: &ReceivedMessage) -> usize {
        0
    }

    pub(super) fn wait(&mut self, _: usize) -> Place {
        Place::default()
    }

    pub(super) fn end(&self) {}
}

/// What a connection without limits has.
#[cfg(not(feature = "tokio"))]
#[derive(Clone, Debug)]
pub(super) enum Permit {}

#[cfg(not(feature = "tokio"))]
impl Permit {
    pub(super) fn admit(&mut self, call: Arrived, _: &mut Context<'_>) -> Option<Arrived> {
        Some(call)
    }

    pub(super) fn next(&mut self, _: &mut Context<'_>) -> Option<Arrived> {
        None
    }

    pub(super) fn is_waiting(&self) -> bool {
        false
    }

    pub(super) fn memory_limit(&self) -> std::sync::Arc<dyn crate::driver::MemoryLimit> {
        match *self {}
    }

    pub(super) fn limits(&self) -> CallLimits {
        CallLimits()
    }
}

#[cfg(feature = "tokio")]
mod limited {
    use std::collections::VecDeque;
    use std::fmt;
    use std::pin::Pin;
    use std::sync::Arc;

    use oncrpc::ConnectionPermit;

    use super::{Arrived, CallLimits, Context};
    use crate::driver::MemoryLimit;

    /// A connection's part of what a server takes on, and its calls that wait for room.
    ///
    /// The client gets no credit for a call that waits, so that no more wait than it may have in
    /// flight.
    pub(in super::super) struct Permit {
        shared: Arc<ConnectionPermit>,
        waiting: VecDeque<Arrived>,
        /// Ends when there is room for the first call that waits.
        room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    }

    impl Permit {
        pub(super) fn new(permit: ConnectionPermit) -> Self {
            Self {
                shared: Arc::new(permit),
                waiting: VecDeque::new(),
                room: None,
            }
        }

        pub(in super::super) fn limits(&self) -> CallLimits {
            CallLimits(Some(self.shared.clone()))
        }

        pub(in super::super) fn memory_limit(&self) -> Arc<dyn MemoryLimit> {
            Arc::new(PeerMemory(self.shared.clone()))
        }

        /// Returns the call if there is room for it; else it waits.
        pub(in super::super) fn admit(
            &mut self,
            call: Arrived,
            cx: &mut Context<'_>,
        ) -> Option<Arrived> {
            if self.waiting.is_empty() && self.shared.is_ready() {
                return Some(call);
            }
            self.waiting.push_back(call);
            self.next(cx)
        }

        /// Returns the first call that waits, once there is room for it.
        pub(in super::super) fn next(&mut self, cx: &mut Context<'_>) -> Option<Arrived> {
            if self.waiting.is_empty() {
                return None;
            }
            let shared = &self.shared;
            let room = self.room.get_or_insert_with(|| {
                let shared = shared.clone();
                Box::pin(async move { shared.ready().await })
            });
            if room.as_mut().poll(cx).is_pending() {
                return None;
            }
            self.room = None;
            self.waiting.pop_front()
        }

        pub(in super::super) fn is_waiting(&self) -> bool {
            !self.waiting.is_empty()
        }
    }

    /// The registered memory that the calls of a connection's peer hold.
    #[derive(Debug)]
    struct PeerMemory(Arc<ConnectionPermit>);

    impl MemoryLimit for PeerMemory {
        fn hold(&self, bytes: usize, is_scarce: bool) -> bool {
            self.0.hold(bytes, is_scarce)
        }

        fn release(&self, bytes: usize) {
            self.0.release(bytes);
        }
    }

    impl fmt::Debug for Permit {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self {
                shared, waiting, ..
            } = self;
            write!(f, "Permit({shared:?}, {} calls wait)", waiting.len())
        }
    }
}
