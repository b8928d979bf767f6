//! The handlers of one connection: of a server, or of a client's services.
//!
//! A handler that has begun runs to its end, even without its connection, so that the reply cache
//! has its reply. `handlers_end` counts the owners of a router to wait for such handlers: only its
//! own server, connections and handlers may own it. The callers limit the number of calls:
//! `connection` with the guard of each call, `client` with `max_served`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;

use super::poll_once;
use crate::message::{OutgoingReply, ReceivedMessage, word};
use crate::router::{Programs, Router};
use crate::service::{HandlerDeadline, Peer};

/// A handler that waits, and its reply.
type Handler = Pin<Box<dyn Future<Output = HandlerOutput> + Send>>;

/// The XID of a call, and its reply.
pub(crate) type HandlerOutput = (u32, Option<OutgoingReply>);

/// The state that the handlers of a connection share. It is not shared with other connections.
struct Services<P> {
    router: Arc<Router<P>>,
    peer: Arc<Peer>,
}

/// The calls of a connection in service.
pub(crate) struct Handlers<P> {
    services: Arc<Services<P>>,
    /// The handlers that wait.
    tasks: JoinSet<HandlerOutput>,
}

impl<P: Programs> Handlers<P> {
    pub(crate) fn new(router: Arc<Router<P>>, peer: Arc<Peer>) -> Self {
        Self {
            services: Arc::new(Services { router, peer }),
            tasks: JoinSet::new(),
        }
    }

    /// Returns the caller.
    pub(crate) fn peer(&self) -> &Peer {
        &self.services.peer
    }

    /// Returns true if no handler waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the number of handlers that wait.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Serves a call. If its handler does not wait, this returns its reply. Otherwise a task runs
    /// the handler, and owns the result of `guard`.
    pub(crate) async fn begin<G: Send + 'static>(
        &mut self,
        record: Vec<u8>,
        deadline: HandlerDeadline<impl Future<Output = ()> + Send + 'static>,
        guard: impl FnOnce() -> G,
    ) -> Option<HandlerOutput> {
        let xid = word(&record, 0).unwrap_or(0);
        let services = self.services.clone();
        let message = ReceivedMessage::whole(record.into());
        let mut handler: Handler = Box::pin(async move {
            let Services { router, peer } = &*services;
            let served = router.serve(&message, peer, deadline, OutgoingReply::default());
            (xid, served.await)
        });
        if let Poll::Ready(served) = poll_once(handler.as_mut()).await {
            return Some(served);
        }
        let guard = guard();
        self.tasks.spawn(async move {
            let served = handler.await;
            drop(guard);
            served
        });
        None
    }

    /// Waits for the next reply of a handler that waits; for ever if none does.
    pub(crate) async fn next(&mut self) -> HandlerOutput {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(served)) => return served,
                // Panics of handlers are caught earlier, so that the task cannot fail.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Handlers continue when their caller is gone, so that none stops half-way.
impl<P> Drop for Handlers<P> {
    fn drop(&mut self) {
        self.tasks.detach_all();
    }
}

/// The interval at which a server that drains checks whether its last handlers have ended.
const HANDLERS_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for the handlers whose connections were lost, after the connections have ended. Each has
/// the router.
pub(super) async fn handlers_end<P>(router: &Arc<Router<P>>) {
    while Arc::strong_count(router) > 1 {
        tokio::time::sleep(HANDLERS_INTERVAL).await;
    }
}
