//! The client: a channel, and the future that drives its connection.
//!
//! The `Runner` joins the driver, the channel's events, the calls (`channel_calls`), the time
//! without a connection (`outage`) and the lookup of names (`resolver`). Before it sleeps, it arms
//! the driver and turns once more. Each source of work must be awaited in the `select!`, wake the
//! driver, or be in `timeout`. If the runner fails or is dropped, all calls of the channel must
//! end.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use oncrpc::{
    CallErrorKind, Channel, ChannelEvent, Execution, Peer, Programs, Progress, Router, Submission,
    Submissions,
};
use rpcrdma_proto::connection::{CloseReason, Properties, ServedCallId};

use super::admission::CallLimits;
use super::channel_calls::{BeginOptions, ChannelCalls};
use super::config::ClientConfig;
use super::dispatcher::{Dispatcher, Handler, Incoming, SendSource, reject};
use super::failure::progress;
use super::message;
use super::outage::Outage;
use super::resolver::{Resolver, ServerName};
use super::services::{server_of_services, without_services};
use super::thread::{TransportError, logged, spawn_thread};
use super::waiter::{Turns, Waiter};
use crate::driver::{ConnectionId, Driver, DriverEvent, Payload};
use crate::memory::{Budget, Pool};
use crate::provider::Device;

/// Returns a channel to a server, and starts the thread that drives its connection.
///
/// The server has an address, or a name with a port (`"storage-1:20049"`), which is looked up again
/// for each connection. Successive attempts use successive addresses.
///
/// # Errors
/// The thread cannot be started; the system's error.
pub fn connect<D: Device>(
    device: &D,
    server: impl Into<ServerName>,
    config: ClientConfig,
) -> std::io::Result<Channel> {
    let (channel, runner) = channel(device, server, config);
    spawn_thread("rpcrdma-client", move || logged(runner))?;
    Ok(channel)
}

/// Connects as [`connect`] does, for a client that offers services: handlers of the server can call
/// them ([`Context::caller`](oncrpc::Context::caller)).
///
/// # Errors
/// As for [`connect`].
pub fn connect_with_services<D: Device, P: Programs>(
    device: &D,
    server: impl Into<ServerName>,
    config: ClientConfig,
    services: Router<P>,
) -> std::io::Result<Channel> {
    let (channel, runner) = channel_with_services(device, server, config, services);
    spawn_thread("rpcrdma-client", move || logged(runner))?;
    Ok(channel)
}

/// The future that drives the connection of a [`channel`] until the channel ends.
///
/// A runtime of tokio must poll it, on a thread of its own or as a task. It fails if the settings
/// are invalid or the driver cannot continue. If it fails or is dropped, the calls of the channel
/// fail.
#[must_use = "calls wait until their channel's runner is polled"]
pub struct ChannelRunner(Pin<Box<dyn Future<Output = Result<(), TransportError>> + Send>>);

impl Future for ChannelRunner {
    type Output = Result<(), TransportError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for ChannelRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelRunner").finish_non_exhaustive()
    }
}

/// Returns a channel to a server, and the future that drives its connection. The server has an
/// address or a name, as for [`connect`].
pub fn channel<D: Device>(
    device: &D,
    server: impl Into<ServerName>,
    config: ClientConfig,
) -> (Channel, ChannelRunner) {
    let protocol = without_services(config.protocol);
    let config = ClientConfig { protocol, ..config };
    start(device, server.into(), config, None::<Router>)
}

/// Returns the same as [`channel`], for a client that offers services: handlers of the server can
/// call them ([`Context::caller`](oncrpc::Context::caller)), and the future polls their handlers.
///
/// The settings limit backward calls: their number (`Config::max_served`), their chunks
/// (`backward_support`), and their use in Version One (`backward_v1`, at both ends).
pub fn channel_with_services<D: Device, P: Programs>(
    device: &D,
    server: impl Into<ServerName>,
    config: ClientConfig,
    services: Router<P>,
) -> (Channel, ChannelRunner) {
    start(device, server.into(), config, Some(services))
}

fn start<D: Device, P: Programs>(
    device: &D,
    server: ServerName,
    config: ClientConfig,
    services: Option<Router<P>>,
) -> (Channel, ChannelRunner) {
    let pool = Pool::new(device, &Budget::new(config.memory));
    let (channel, submissions) = Channel::new(server.to_string());
    let channel = channel.with_memory(Arc::new(message::RegisteredMemory(pool.clone())));
    let runner = run(pool, server, config, submissions, services);
    (channel, ChannelRunner(Box::pin(runner)))
}

async fn run<D: Device, P: Programs>(
    pool: Pool<D>,
    server: ServerName,
    config: ClientConfig,
    submissions: Submissions,
    services: Option<Router<P>>,
) -> Result<(), TransportError> {
    let services = services.map(|router| Services::new(&pool, router));
    let (driver, id, waiter) = match set_up(pool, &server, &config) {
        Ok(parts) => parts,
        Err(error) => {
            submissions.close(ended_by(&error));
            return Err(error);
        }
    };
    let mut runner = Runner {
        driver,
        id,
        resolver: Resolver::new(server),
        config,
        submissions,
        calls: ChannelCalls::default(),
        services,
        connected: false,
        outage: Outage::default(),
        drains: false,
        ended: false,
    };
    let ended = runner.run(waiter).await;
    if let Err(error) = &ended {
        let kind = ended_by(error);
        runner.fail_all(&kind);
        runner.submissions.close(kind);
    }
    ended
}

/// Creates a driver that connects.
fn set_up<D: Device>(
    pool: Pool<D>,
    server: &ServerName,
    config: &ClientConfig,
) -> Result<(Driver<D>, ConnectionId, Waiter), TransportError> {
    let mut driver = Driver::with_pool(pool, config.completions)?;
    driver.set_spin(config.spin);
    let protocol = config.protocol.clone();
    let id = server.connect(&mut driver, protocol)?;
    let waiter = Waiter::new(&driver)?;
    Ok((driver, id, waiter))
}

/// Returns the error of calls after the runner has failed.
fn ended_by(error: &TransportError) -> CallErrorKind {
    CallErrorKind::RunnerEnded(Some(error.to_string().into()))
}

/// The services of the client.
struct Services<P: Programs> {
    dispatcher: Dispatcher<SendSource<P>, dyn Handler + Send>,
    /// The server.
    peer: Arc<Peer>,
}

impl<P: Programs> Services<P> {
    fn new<D: Device>(pool: &Pool<D>, router: Router<P>) -> Self {
        Self {
            dispatcher: Dispatcher::new(SendSource::new(router)),
            peer: Arc::new(server_of_services(pool)),
        }
    }
}

struct Runner<D: Device, P: Programs> {
    driver: Driver<D>,
    id: ConnectionId,
    resolver: Resolver,
    config: ClientConfig,
    submissions: Submissions,
    calls: ChannelCalls,
    services: Option<Services<P>>,
    /// The version is negotiated.
    connected: bool,
    outage: Outage,
    drains: bool,
    ended: bool,
}

impl<D: Device, P: Programs> Runner<D, P> {
    async fn run(&mut self, mut waiter: Waiter) -> Result<(), TransportError> {
        let mut turns = Turns::default();
        loop {
            self.take_submissions().await;
            self.expire_outage();
            self.begin_calls();
            let mut busy = self.driver.turn()?;
            busy += poll_fn(|cx| Poll::Ready(self.take_events(cx))).await;
            poll_fn(|cx| {
                self.look_up_server(cx);
                Poll::Ready(())
            })
            .await;
            if self.ended || self.drains && self.calls.is_empty() {
                self.close();
                return Ok(());
            }
            if self.driver.looks_for_work(busy) {
                turns.end(busy > 0).await;
                continue;
            }
            self.driver.arm()?;
            if self.driver.turn()? > 0 {
                poll_fn(|cx| Poll::Ready(self.take_events(cx))).await;
                continue;
            }
            let timeout = self.timeout();
            let (driver, services) = (&mut self.driver, &mut self.services);
            ::tokio::select! {
                address = poll_fn(|cx| self.resolver.poll_resolved(cx)) => {
                    driver.set_address(self.id, address);
                }
                event = self.submissions.event() => self.take(event),
                () = served(driver, services) => {}
                ready = waiter.wait(timeout) => ready?,
            }
            self.driver.acknowledge()?;
            self.driver.has_slept();
        }
    }

    /// Finds an address for an attempt to connect that waits for one.
    fn look_up_server(&mut self, cx: &mut Context<'_>) {
        if !self.connected {
            self.resolver.poll_connect(&mut self.driver, self.id, cx);
        }
    }

    /// Handles the events of the channel without waiting.
    async fn take_submissions(&mut self) {
        while !self.ended {
            let event = poll_fn(|cx| Poll::Ready(self.submissions.poll_event(cx))).await;
            let Poll::Ready(event) = event else { return };
            self.take(event);
        }
    }

    /// Takes a call, which begins at once if it may be in flight.
    fn submit(&mut self, submission: Submission) {
        let waits = self.connected || submission.request().wait_for_connection;
        if let Some(kind) = self.outage.error().filter(|_| !waits) {
            return submission.fail(kind, Execution::NotExecuted);
        }
        let options = self.begin_options();
        let connection = (&mut self.driver, self.id);
        self.calls.submit(connection, submission, options);
    }

    fn begin_options(&self) -> BeginOptions {
        BeginOptions {
            max_calls: self.config.protocol.max_calls.into(),
            max_unbounded_reply: self.config.max_unbounded_reply,
            sends: self.connected || self.sends_before_ready(),
        }
    }

    fn take(&mut self, event: ChannelEvent) {
        match event {
            ChannelEvent::Call(submission) => self.submit(submission),
            ChannelEvent::Cancelled(id) => self.calls.cancel((&mut self.driver, self.id), id),
            ChannelEvent::Drain => self.drains = true,
            ChannelEvent::Shutdown => {
                self.fail_all(&CallErrorKind::Shutdown);
                self.ended = true;
            }
        }
    }

    /// Begins as many queued calls as may be in flight.
    fn begin_calls(&mut self) {
        if self.calls.waiting() == 0 {
            return;
        }
        let now = self.driver.now();
        if self.calls.next_deadline().is_some_and(|due| due <= now) {
            let progress = self.progress(self.calls.why_waiting());
            self.calls.expire_waiting(now, &progress);
        }
        let options = self.begin_options();
        self.calls.begin_calls((&mut self.driver, self.id), options);
    }

    /// Handles the events of the driver, and continues handlers. Returns the number of finished
    /// handlers.
    fn take_events(&mut self, cx: &mut Context<'_>) -> usize {
        while self.driver.ready().is_some() {}
        while let Some(event) = self.driver.poll_event(self.id) {
            match event {
                DriverEvent::Ready(_) => {
                    self.connected = true;
                    self.resolver.forget_addresses();
                    self.outage.end();
                    self.calls.set_sent();
                }
                DriverEvent::ReplyArrived { xid, message } => {
                    self.calls.answer((&mut self.driver, self.id), xid, message);
                }
                DriverEvent::CallFailed { xid, error, sent } => {
                    let progress = self.progress(progress(sent));
                    let connection = (&mut self.driver, self.id);
                    self.calls.fail(connection, (xid, error, sent), progress);
                }
                DriverEvent::CallArrived { call, message, .. } => self.serve(call, message, cx),
                DriverEvent::Closed { reason, is_final } => self.closed(reason, is_final),
            }
        }
        let services = self.services.as_mut();
        services.map_or(0, |services| services.dispatcher.poll(&mut self.driver, cx))
    }

    /// Serves a backward call.
    fn serve(&mut self, call: ServedCallId, payload: Payload, cx: &mut Context<'_>) {
        let (driver, call) = (&mut self.driver, (self.id, call));
        match &mut self.services {
            Some(Services { dispatcher, peer }) => {
                let incoming = Incoming {
                    call,
                    peer: peer.clone(),
                    limits: CallLimits::default(),
                };
                dispatcher.begin(driver, incoming, payload, cx);
            }
            None => {
                driver.recycle(self.id, payload);
                reject(driver, call);
            }
        }
    }

    /// Returns whether a call may be sent before the version is negotiated: without properties, a
    /// call is the first message.
    fn sends_before_ready(&self) -> bool {
        self.config.protocol.properties == Properties::None
    }

    /// Returns the progress of a call whose deadline has passed: `connected` if there is a
    /// connection.
    fn progress(&self, connected: Progress) -> Progress {
        if self.connected {
            connected
        } else {
            Progress::NotConnected(self.outage.cause())
        }
    }

    /// Fails the calls, if the maximum time without a connection has passed.
    fn expire_outage(&mut self) {
        if self.connected {
            return;
        }
        let (now, has_calls) = (self.driver.now(), !self.calls.is_empty());
        let due = self.outage.due(has_calls, now, self.config.connect_timeout);
        if due.is_some_and(|due| due <= now) {
            let kind = self.outage.fail();
            tracing::warn!(error = %kind, "can't connect");
            self.fail_all(&kind);
        }
    }

    /// A connection, or an attempt to connect, has ended. The session ends the calls that must not
    /// be retransmitted.
    fn closed(&mut self, reason: CloseReason, is_final: bool) {
        let was_connected = std::mem::replace(&mut self.connected, false);
        self.outage.failed(self.driver.take_connect_error(self.id));
        self.ended |= is_final;
        if is_final {
            tracing::warn!(server = %self.submissions.peer(), %reason, "the channel has ended");
            let kind = CallErrorKind::ConnectionLost(Arc::new(reason));
            self.fail_all(&kind);
            return self.submissions.close(kind);
        }
        if let Some(kind) = self.outage.error().filter(|_| !was_connected) {
            self.calls
                .fail_impatient((&mut self.driver, self.id), &kind);
        }
    }

    fn fail_all(&mut self, kind: &CallErrorKind) {
        self.calls.fail_all((&mut self.driver, self.id), kind);
    }

    /// Returns the time until the next deadline.
    fn timeout(&mut self) -> Option<Duration> {
        let now = self.driver.now();
        let outage = if self.connected {
            None
        } else {
            let limit = self.config.connect_timeout;
            self.outage.due(!self.calls.is_empty(), now, limit)
        };
        let deadline = self.calls.next_deadline();
        let due = [deadline, outage].into_iter().flatten().min();
        let waits = due.map(|due| Duration::from_micros(due.saturating_sub(now)));
        [waits, self.driver.timeout()].into_iter().flatten().min()
    }

    /// Ends the session.
    fn close(&mut self) {
        self.driver.finish(self.id);
        self.driver.forget(self.id);
    }
}

/// Waits until a waiting handler is done.
async fn served<D: Device, P: Programs>(
    driver: &mut Driver<D>,
    services: &mut Option<Services<P>>,
) {
    poll_fn(|cx| {
        let services = services.as_mut();
        match services.map_or(0, |services| services.dispatcher.poll(driver, cx)) {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
}
