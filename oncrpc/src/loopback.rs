//! A channel to services in the same process, for tests of their clients.
//!
//! Handlers have no deadline, and no reply cache, as the peer has no address. The handler of a
//! cancelled call continues. A shutdown of the channel drops the handlers that wait. `tcp` uses
//! [`wait`], too.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};
use tracing::Span;
use xdrgen_runtime::{Matching, ReceivedItem};

use crate::caller::CallerChannel;
use crate::calls::Calls;
use crate::channel::{Channel, ChannelEvent, Submissions};
use crate::error::{BackwardError, CallErrorKind, Progress};
use crate::message::{Body, OutgoingReply, ReceivedMessage};
use crate::router::{Programs, Router};
use crate::service::{HandlerDeadline, Peer};
use crate::span::within;

/// The maximum number of calls in flight.
const MAX_CALLS: usize = 128;

/// Returns a channel to services in this process, and the future that serves its calls.
///
/// Messages are encoded and decoded as on a network. Items in shared buffers are passed on without
/// a copy, as over RDMA.
pub fn loopback<P: Programs>(router: Router<P>) -> (Channel, impl Future<Output = ()> + Send) {
    let (channel, submissions) = Channel::new("loopback");
    let peer = peer(Err(BackwardError::Refused));
    (channel, run(router, submissions, peer))
}

/// Returns a channel as [`loopback`] does, whose client offers services, too: handlers of `router`
/// can call `services` ([`Context::caller`](crate::Context::caller)).
pub fn loopback_with_services<P: Programs, S: Programs>(
    router: Router<P>,
    services: Router<S>,
) -> (Channel, impl Future<Output = ()> + Send) {
    let (channel, forward) = Channel::new("loopback");
    let (caller, backward) = CallerChannel::new(0, "loopback", None);
    let forward = run(router, forward, peer(Ok(caller)));
    let backward = run(services, backward, peer(Err(BackwardError::Transport)));
    // Backward calls end with the connection, and do not keep it open.
    (channel, async {
        if let Either::Right(((), forward)) = select(pin!(forward), pin!(backward)).await {
            forward.await;
        }
    })
}

fn peer(caller: Result<Arc<CallerChannel>, BackwardError>) -> Arc<Peer> {
    Arc::new(Peer {
        address: None,
        transport: "memory",
        memory: None,
        caller,
        status: None,
    })
}

async fn run<P: Programs>(router: Router<P>, mut submissions: Submissions, peer: Arc<Peer>) {
    let mut calls = Calls::new(MAX_CALLS);
    let mut serving = FuturesUnordered::new();
    let mut drains = false;
    loop {
        while let Some((xid, message, span)) = next(&mut calls) {
            let (router, peer) = (&router, &peer);
            let deadline = HandlerDeadline::none();
            serving.push(async move {
                let reply = router.serve(&message, peer, deadline, OutgoingReply::default());
                // The handler is in the trace of its caller.
                (xid, within(span, reply).await)
            });
        }
        if drains && calls.is_empty() {
            return;
        }
        let deadline = calls.deadline();
        tokio::select! {
            event = submissions.event() => match event {
                ChannelEvent::Call(submission) => calls.submit(submission),
                ChannelEvent::Cancelled(id) => calls.cancel(id),
                ChannelEvent::Drain => drains = true,
                ChannelEvent::Shutdown => return calls.fail_all(&CallErrorKind::Shutdown),
            },
            Some((xid, reply)) = serving.next() => {
                if let Some((reply, completion)) = reply.zip(calls.take(xid)) {
                    completion.succeed(received(reply.header, &reply.body));
                }
            },
            () = wait(deadline) => calls.expire(Instant::now(), |_| Progress::Queued),
        }
    }
}

/// Waits for a deadline; for ever if there is none.
pub(crate) async fn wait(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns the message of the next call, and its span.
fn next(calls: &mut Calls) -> Option<(u32, ReceivedMessage, Option<Box<Span>>)> {
    loop {
        let (xid, request) = calls.next()?;
        let mut header = Vec::new();
        match request.encode(xid, &mut header) {
            Ok(body) => {
                request.record_sent(xid, header.len());
                let span = request.span.clone();
                let message = received(header, &body);
                calls.set_sent(xid);
                return Some((xid, message, span));
            }
            Err(kind) => calls.fail(xid, kind),
        }
    }
}

/// Converts an outgoing message to a received one.
fn received(mut header: Vec<u8>, body: &Body) -> ReceivedMessage {
    let before = u32::try_from(header.len()).unwrap_or(u32::MAX);
    header.extend_from_slice(body.stream());
    let items = body.items().iter().map(|item| ReceivedItem {
        position: item.position.saturating_add(before),
        bytes: item.bytes.clone(),
    });
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        return ReceivedMessage::whole(header.into());
    }
    ReceivedMessage::with_items(header.into(), items, Matching::ByPosition)
}
