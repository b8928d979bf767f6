//! Admission: which peers may connect to a server, and which calls wait for its limits.
//!
//! `oncrpc::ServerControl` owns the limits; this module applies them to connections and calls over
//! RDMA. `LocalServer` must poll `Permit::next` while calls wait, in order: the connection may be
//! the first in a queue. Without the feature `tokio` there are no limits, and both versions of
//! `Permit` and `CallLimits` must have the same functions.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::task::{Context, Poll};
#[cfg(feature = "tokio")]
use std::time::Instant;

#[cfg(feature = "tokio")]
use oncrpc::{CallPermit, ConnectionPermit, Limit, LimitCounter, ServerControl};
use oncrpc::{ConnectionStatus, HandlerDeadline, ReceivedMessage};
use rpcrdma_proto::connection::ServedCallId;

#[cfg(feature = "tokio")]
pub(super) use limited::Permit;

use crate::driver::{ConnectionId, IncomingConnection, Payload};
use crate::provider::Device;

/// Decides which peers may connect.
#[derive(Debug, Default)]
pub(super) enum Admission {
    /// Admits every peer, without limits.
    #[default]
    All,
    #[cfg(feature = "tokio")]
    By(ServerControl),
}

/// An admitted client: its peer data, and its share of the server's limits.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) status: ConnectionStatus,
    pub(super) permit: Option<Permit>,
}

impl Admission {
    /// Decides about a request to connect, or returns the reason for its rejection, which is logged
    /// and counted.
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

/// An arrived call.
pub(super) struct ArrivedCall {
    pub(super) connection: ConnectionId,
    pub(super) call: ServedCallId,
    pub(super) message: Payload,
}

/// The limits of one call, if its connection has limits.
#[derive(Debug, Default)]
pub(super) struct CallLimits(#[cfg(feature = "tokio")] Option<Arc<ConnectionPermit>>);

/// The permit of a call whose handler waits, which may outlive its connection.
#[derive(Debug, Default)]
pub(super) struct Place {
    #[cfg(feature = "tokio")]
    _call: Option<CallPermit>,
}

/// Ends at a handler's deadline. It wakes nothing: the dispatcher wakes handlers whose time has
/// passed.
pub(super) enum HandlerTime {
    Endless,
    #[cfg(feature = "tokio")]
    Until(Instant, LimitCounter),
}

impl Future for HandlerTime {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match &*self {
            Self::Endless => Poll::Pending,
            #[cfg(feature = "tokio")]
            Self::Until(at, _) if Instant::now() < *at => Poll::Pending,
            #[cfg(feature = "tokio")]
            Self::Until(_, counter) => {
                counter.reached(Limit::HandlerTime);
                Poll::Ready(())
            }
        }
    }
}

#[cfg(feature = "tokio")]
impl CallLimits {
    /// Counts the call, and returns the deadline of its handler.
    #[inline]
    pub(super) fn begin(&self) -> HandlerDeadline<HandlerTime> {
        match &self.0 {
            None => HandlerDeadline::new(None, HandlerTime::Endless),
            Some(permit) => {
                permit.count_call();
                let at = permit.handler_due();
                let time = at.map(|at| HandlerTime::Until(at, permit.limit_counter()));
                HandlerDeadline::new(at, time.unwrap_or(HandlerTime::Endless))
            }
        }
    }

    /// Returns the number of bytes of a call, as the limits count them.
    #[inline]
    pub(super) fn bytes(&self, call: &ReceivedMessage) -> usize {
        self.0.as_ref().map_or(0, |_| call.len())
    }

    /// Takes a permit for the call, whose handler waits.
    pub(super) fn wait(&mut self, bytes: usize) -> Place {
        let permit = self.0.take();
        Place {
            _call: permit.map(|permit| permit.call(bytes)),
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
}

/// The admission of a connection without limits.
#[cfg(not(feature = "tokio"))]
#[derive(Clone, Debug)]
pub(super) enum Permit {}

#[cfg(not(feature = "tokio"))]
impl Permit {
    pub(super) fn admit(&mut self, call: ArrivedCall, _: &mut Context<'_>) -> Option<ArrivedCall> {
        Some(call)
    }

    pub(super) fn next(&mut self, _: &mut Context<'_>) -> Option<ArrivedCall> {
        None
    }

    pub(super) fn is_waiting(&self) -> bool {
        false
    }

    pub(super) fn peer_limits(&self) -> std::sync::Arc<dyn crate::driver::PeerLimits> {
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
    use std::time::Duration;

    use oncrpc::{ConnectionPermit, Limit};

    use super::{ArrivedCall, CallLimits, Context};
    use crate::driver::PeerLimits;

    /// A connection's share of the limits, and its calls that wait for them.
    ///
    /// A waiting call returns no credit, so at most as many wait as the client may have in flight.
    pub(in super::super) struct Permit {
        shared: Arc<ConnectionPermit>,
        waiting: VecDeque<ArrivedCall>,
        /// Ends when there is room for the first waiting call.
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

        pub(in super::super) fn peer_limits(&self) -> Arc<dyn PeerLimits> {
            Arc::new(Transfers(self.shared.clone()))
        }

        /// Returns the call if there is room for it; otherwise queues it.
        pub(in super::super) fn admit(
            &mut self,
            call: ArrivedCall,
            cx: &mut Context<'_>,
        ) -> Option<ArrivedCall> {
            if self.waiting.is_empty() && self.shared.is_ready() {
                return Some(call);
            }
            self.waiting.push_back(call);
            self.next(cx)
        }

        /// Returns the first waiting call, once there is room for it.
        pub(in super::super) fn next(&mut self, cx: &mut Context<'_>) -> Option<ArrivedCall> {
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

    /// The limits of the transfers of a connection's peer.
    #[derive(Debug)]
    struct Transfers(Arc<ConnectionPermit>);

    impl PeerLimits for Transfers {
        fn hold(&self, bytes: usize, is_scarce: bool) -> bool {
            self.0.hold(bytes, is_scarce)
        }

        fn release(&self, bytes: usize) {
            self.0.release(bytes);
        }

        fn transfer_time(&self) -> Option<Duration> {
            self.0.transfer_time()
        }

        fn timed_out(&self) {
            self.0.reached(Limit::TransferTime);
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
