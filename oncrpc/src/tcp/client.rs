//! The client: a runner that connects and reconnects.
//!
//! It decides when it connects, from which local port, and how long calls wait for it. `calls`
//! decides which calls of a lost connection are sent again, and `dial` makes one attempt. Each new
//! stream passes through `connected`, which fails the calls that need the server's reply cache if
//! the local port has changed. A lost connection is reset, so that the next one can have its port
//! at once. Without a call the client does not reconnect: meanwhile its server cannot call it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::dial::{Target, dial};
use super::handlers::Handlers;
use super::outbox::Outbox;
use super::record::{self, Record};
use super::sending::{push_calls, push_reply, refuse, take_reply, unsent};
use super::{KEEPALIVE, MAX_RECORD, poll_once};
use crate::calls::{Calls, LossReason};
use crate::channel::{Channel, ChannelEvent, Submission, Submissions};
use crate::error::{BackwardError, CallErrorKind, Execution, Progress};
use crate::loopback::wait;
use crate::protocol::MsgType;
use crate::router::{Programs, Router};
use crate::service::{HandlerDeadline, Peer};

/// Settings of a client's connection.
///
/// ```
/// use std::time::Duration;
/// use oncrpc::tcp::ClientConfig;
///
/// let config = ClientConfig::new().max_calls(16).connect_timeout(Duration::from_secs(3));
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfig {
    max_calls: usize,
    max_served: usize,
    max_record: usize,
    connect_timeout: Duration,
    keepalive: Option<Duration>,
}

impl ClientConfig {
    /// Returns the default settings: 128 calls in flight, 64 backward calls served at once,
    /// messages of up to 4 MiB, 10 seconds to connect, and a keep-alive after 60 quiet seconds.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_calls: 128,
            max_served: 64,
            max_record: MAX_RECORD,
            connect_timeout: Duration::from_secs(10),
            keepalive: Some(KEEPALIVE),
        }
    }

    /// Sets the maximum number of calls in flight. Further calls are queued.
    #[must_use]
    pub const fn max_calls(self, max_calls: usize) -> Self {
        Self { max_calls, ..self }
    }

    /// Sets the maximum number of backward calls that are served or whose replies are not sent. One
    /// more closes the connection.
    #[must_use]
    pub const fn max_served(self, max_served: usize) -> Self {
        Self { max_served, ..self }
    }

    /// Sets the maximum size in bytes of a message in either direction, with its header. A larger
    /// call is not sent, and fails with [`CallTooLarge`]. A larger reply is discarded, and its call
    /// fails with [`ReplyTooLarge`]. A larger backward call is answered with GARBAGE_ARGS.
    ///
    /// [`CallTooLarge`]: crate::CallErrorKind::CallTooLarge
    /// [`ReplyTooLarge`]: crate::CallErrorKind::ReplyTooLarge
    #[must_use]
    pub const fn max_record(self, max_record: usize) -> Self {
        Self { max_record, ..self }
    }

    /// Sets how long calls wait for a connection before they fail. The client continues to try.
    #[must_use]
    pub const fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            ..self
        }
    }

    /// Sets the idle time before a connection is probed; `None` disables probes. It is lost after
    /// four probes without an answer, 15 seconds apart.
    #[must_use]
    pub const fn keepalive(self, keepalive: Option<Duration>) -> Self {
        Self { keepalive, ..self }
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Connects to a server, such as `storage-1:2049`, and spawns the task that drives the connection.
///
/// The next call after a lost connection reconnects. The name is looked up again, and the local
/// port stays the same, since reply caches identify a client by it. If that port stays in use,
/// another one is used, and calls that were sent and need the reply cache fail.
///
/// # Errors
/// No connection can be established. The error has the server, and the kind and the text of the
/// error of the last address.
pub async fn connect(server: &str) -> io::Result<Channel> {
    connect_with(server, ClientConfig::new()).await
}

/// Connects with settings; see [`connect`].
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(server: &str, config: ClientConfig) -> io::Result<Channel> {
    connect_with_services(server, config, Router::new()).await
}

/// Connects as [`connect_with`] does, and offers services that the server may call over the same
/// connection ([`Context::caller`](crate::Context::caller)). A client without services answers
/// backward calls with PROG_UNAVAIL.
///
/// The server can call only while there is a connection, and only the client's next call
/// reconnects. A handler continues when the connection is lost, and has no deadline.
///
/// ```no_run
/// # use oncrpc::{tcp, Dispatch, Router};
/// # async fn subscribe(reader: impl Dispatch) -> std::io::Result<()> {
/// let services = Router::new().add_service(reader);
/// let config = tcp::ClientConfig::new();
/// let channel = tcp::connect_with_services("news-1:20049", config, services).await?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`connect`].
pub async fn connect_with_services<P: Programs>(
    server: &str,
    config: ClientConfig,
    services: Router<P>,
) -> io::Result<Channel> {
    let (channel, mut runner) = new(server, config, services);
    let stream = runner.dial().await.map_err(|error| {
        let text = format!("can't connect to {server}: {error}");
        io::Error::new(error.kind(), text)
    })?;
    tokio::spawn(runner.run(Some(stream)));
    Ok(channel)
}

/// Returns a channel to a server and the future that drives its connection, which the caller
/// spawns. The first call connects.
pub fn channel(
    server: &str,
    config: ClientConfig,
) -> (Channel, impl Future<Output = ()> + Send + use<>) {
    channel_with_services(server, config, Router::new())
}

/// Returns the same as [`channel`] does, for a client that offers services as in
/// [`connect_with_services`].
pub fn channel_with_services<P: Programs>(
    server: &str,
    config: ClientConfig,
    services: Router<P>,
) -> (Channel, impl Future<Output = ()> + Send + use<P>) {
    let (channel, runner) = new(server, config, services);
    (channel, runner.run(None))
}

fn new<P>(server: &str, config: ClientConfig, services: Router<P>) -> (Channel, Runner<P>) {
    let (channel, submissions) = Channel::new(server);
    let runner = Runner {
        server: server.into(),
        services: Arc::new(services),
        calls: Calls::new(config.max_calls),
        config,
        submissions,
        local: None,
        outage: None,
        delay: Duration::ZERO,
        attempted: None,
        drains: false,
    };
    (channel, runner)
}

/// The first and the maximum delay between attempts to connect.
const DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// The number of attempts to connect from the previous local port while calls need the server's
/// reply cache. After that, any port will do.
const PORT_ATTEMPTS: u32 = 5;
/// The maximum number of events in one batch from the channel.
const SUBMISSIONS: usize = 256;
/// The number of bytes of replies that are read before calls are sent.
const READ_MOST: usize = 64 << 10;

struct Runner<P> {
    server: Arc<str>,
    /// The services for backward calls.
    services: Arc<Router<P>>,
    config: ClientConfig,
    submissions: Submissions,
    calls: Calls,
    /// The local address of the last connection, which the next one reuses, since reply caches
    /// identify a client by it.
    local: Option<SocketAddr>,
    /// The error of the last attempt to connect.
    outage: Option<Arc<io::Error>>,
    /// The delay before the next attempt to connect; 0 after a reply.
    delay: Duration,
    attempted: Option<Instant>,
    drains: bool,
}

/// A lost connection, and why.
#[derive(Clone, Debug)]
struct Lost(Arc<io::Error>);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Lost {}

/// The runner must end.
struct End;

impl<P: Programs> Runner<P> {
    async fn run(mut self, first: Option<TcpStream>) {
        let mut stream = first;
        loop {
            let connected = match stream.take() {
                Some(stream) => stream,
                None => match self.reconnect().await {
                    Ok(stream) => stream,
                    Err(End) => return,
                },
            };
            match self.drive(connected).await {
                Ok(End) => return,
                Err(error) => {
                    tracing::info!(server = %self.server, %error, "connection lost");
                    let lost: LossReason = Arc::new(Lost(Arc::new(error)));
                    self.calls.lose_connection(&lost);
                }
            }
        }
    }

    /// Handles an event of the channel.
    fn take(&mut self, event: ChannelEvent) -> Result<(), End> {
        match event {
            ChannelEvent::Call(submission) => self.submit(submission),
            ChannelEvent::Cancelled(id) => self.calls.cancel(id),
            ChannelEvent::Drain => self.drains = true,
            ChannelEvent::Shutdown => {
                self.calls.fail_all(&CallErrorKind::Shutdown);
                return Err(End);
            }
        }
        Ok(())
    }

    fn submit(&mut self, submission: Submission) {
        match &self.outage {
            Some(error) if !submission.request().wait_for_connection => {
                let kind = CallErrorKind::Connect(Arc::new(Lost(error.clone())));
                submission.fail(kind, Execution::NotExecuted);
            }
            _ => self.calls.submit(submission),
        }
    }

    /// Connects once there is a call, in any number of attempts.
    async fn reconnect(&mut self) -> Result<TcpStream, End> {
        let (mut since, mut attempts) = (None, 0);
        loop {
            while self.calls.is_empty() {
                if self.drains {
                    return Err(End);
                }
                since = None;
                let event = self.submissions.event().await;
                if self.time_to_attempt().is_zero() {
                    self.outage = None;
                }
                self.take(event)?;
            }
            let started = *since.get_or_insert_with(Instant::now);
            let pause = self.time_to_attempt();
            if !pause.is_zero() {
                self.pause(pause).await?;
            }
            self.attempted = Some(Instant::now());
            self.delay = (2 * self.delay).clamp(DELAYS[0], DELAYS[1]);
            attempts += 1;
            let any_port = attempts > PORT_ATTEMPTS || !self.calls.rely_on_reply_cache();
            let error = match self.attempt(any_port).await? {
                Some(Ok((stream, local))) => return Ok(self.connected(stream, local)),
                Some(Err(error)) => Arc::new(error),
                None => continue,
            };
            self.outage = Some(error.clone());
            let kind = CallErrorKind::Connect(Arc::new(Lost(error.clone())));
            self.calls.fail_impatient(&kind);
            if started.elapsed() >= self.config.connect_timeout {
                tracing::warn!(server = %self.server, %error, "can't connect");
                self.calls.fail_all(&kind);
                since = None;
            }
        }
    }

    /// Returns the time until the next attempt to connect.
    fn time_to_attempt(&self) -> Duration {
        let elapsed = self.attempted.map_or(self.delay, |at| at.elapsed());
        self.delay.saturating_sub(elapsed)
    }

    /// Records the local address of the connection.
    fn connected(&mut self, stream: TcpStream, local: SocketAddr) -> TcpStream {
        tracing::info!(server = %self.server, %local, "connected");
        self.outage = None;
        let before = self.local.replace(local);
        if before.is_some_and(|before| before != local) {
            let error = io::Error::new(io::ErrorKind::AddrInUse, "the local port is in use");
            let lost = Lost(Arc::new(error));
            self.calls
                .lose_reply_cache(&CallErrorKind::ConnectionLost(Arc::new(lost)));
        }
        stream
    }

    /// Makes one attempt to connect; `None` if all calls have ended in the meantime.
    async fn attempt(
        &mut self,
        any_port: bool,
    ) -> Result<Option<io::Result<(TcpStream, SocketAddr)>>, End> {
        let mut dialed = pin!(dial(self.target(), self.local, any_port));
        while !self.calls.is_empty() {
            let deadline = self.calls.deadline();
            tokio::select! {
                dialed = &mut dialed => return Ok(Some(dialed)),
                event = self.submissions.event() => self.take(event)?,
                () = wait(deadline) => self.expire_unsent(),
            }
        }
        Ok(None)
    }

    /// Waits between two attempts.
    async fn pause(&mut self, delay: Duration) -> Result<(), End> {
        let mut pause = pin!(sleep(delay));
        loop {
            let deadline = self.calls.deadline();
            tokio::select! {
                () = &mut pause => return Ok(()),
                event = self.submissions.event() => self.take(event)?,
                () = wait(deadline) => self.expire_unsent(),
            }
        }
    }

    fn expire_unsent(&mut self) {
        let cause = self.outage.as_ref().map(ToString::to_string);
        self.calls
            .expire(Instant::now(), |_| Progress::NotConnected(cause.clone()));
    }

    async fn dial(&mut self) -> io::Result<TcpStream> {
        let (stream, local) = dial(self.target(), None, true).await?;
        Ok(self.connected(stream, local))
    }

    fn target(&self) -> Target {
        Target {
            server: self.server.clone(),
            timeout: self.config.connect_timeout,
            keepalive: self.config.keepalive,
        }
    }

    /// Sends calls and takes replies, until the connection is lost or the channel ends.
    async fn drive(&mut self, stream: TcpStream) -> io::Result<End> {
        let (reader, mut writer) = stream.into_split();
        let ended = self.exchange(reader, &mut writer).await;
        if ended.is_err() {
            // The port is free at once for the next connection.
            let linger = Some(Duration::ZERO);
            SockRef::from(writer.as_ref()).set_linger(linger)?;
            writer.forget();
        }
        ended
    }

    async fn exchange(
        &mut self,
        reader: OwnedReadHalf,
        writer: &mut OwnedWriteHalf,
    ) -> io::Result<End> {
        let max = self.config.max_record;
        let mut handlers = self.handlers(&reader)?;
        let mut outbox = Outbox::default();
        let mut reading = pin!(record::read_next(record::buffered(reader), max, ()));
        // The number of bytes of records since calls were last sent.
        let mut read = 0;
        loop {
            if self.take_submissions().await.is_err() {
                return Ok(End);
            }
            push_calls(&mut self.calls, &mut outbox, max);
            if self.is_done() && handlers.is_empty() && outbox.is_empty() {
                // All sent calls are answered.
                writer.shutdown().await?;
                return Ok(End);
            }
            if read >= READ_MOST {
                read = 0;
                // The server may send without a pause: nothing below is then polled, and nothing
                // else on this thread.
                yield_now().await;
                self.expire(&outbox);
                if !outbox.is_empty() {
                    let written = poll_once(pin!(outbox.write(writer))).await;
                    self.sent(&mut outbox, written)?;
                }
            }
            let deadline = self.calls.deadline();
            // Received replies are handled first, so that calls are sent in one system call.
            tokio::select! {
                biased;
                (xid, reply) = handlers.next(), if !handlers.is_empty() => {
                    if let Some(reply) = reply {
                        push_reply(&mut outbox, handlers.peer(), xid, &reply);
                    }
                }
                (reader, record) = &mut reading => {
                    let closed = || io::Error::new(io::ErrorKind::ConnectionReset, "closed by the server");
                    let record = record?.ok_or_else(closed)?;
                    read += record::MARKER + record.kept().len();
                    if record.is(MsgType::Call) {
                        self.serve(record, &mut handlers, &mut outbox).await?;
                    } else {
                        self.answer(record);
                    }
                    reading.set(record::read_next(reader, max, ()));
                }
                written = outbox.write(writer), if !outbox.is_empty() => {
                    self.sent(&mut outbox, Poll::Ready(written))?;
                }
                event = self.submissions.event() => {
                    if let Err(end) = self.take(event) {
                        return Ok(end);
                    }
                }
                () = wait(deadline) => self.expire(&outbox),
            }
        }
    }

    /// Fails the calls whose deadlines have passed, over a connection.
    fn expire(&mut self, outbox: &Outbox) {
        let is_full = !outbox.is_empty();
        self.calls
            .expire(Instant::now(), |in_flight| unsent(in_flight || is_full));
    }

    /// Returns true if no more calls follow, and all calls have ended.
    fn is_done(&self) -> bool {
        self.drains && self.calls.is_empty()
    }

    /// Returns the handlers of a connection.
    fn handlers(&self, reader: &OwnedReadHalf) -> io::Result<Handlers<P>> {
        let server = Peer {
            address: Some(reader.peer_addr()?),
            transport: "tcp",
            memory: None,
            // The client's own channel is the channel to the server.
            caller: Err(BackwardError::Transport),
            status: None,
        };
        Ok(Handlers::new(self.services.clone(), Arc::new(server)))
    }

    /// Begins to serve a call of the server.
    async fn serve(
        &mut self,
        record: Record,
        handlers: &mut Handlers<P>,
        outbox: &mut Outbox,
    ) -> io::Result<()> {
        if self.is_done() {
            // The connection ends without it.
            return Ok(());
        }
        let max = self.config.max_served;
        if handlers.len() + outbox.replies() >= max {
            let text = format!("the server has more than {max} calls in flight");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let record = match record {
            Record::Whole(record) => record,
            Record::TooLong(head) => {
                refuse(outbox, handlers.peer(), &head, self.config.max_record);
                return Ok(());
            }
        };
        let begun = handlers.begin(record, HandlerDeadline::none(), || ());
        if let Some((xid, Some(reply))) = begun.await {
            push_reply(outbox, handlers.peer(), xid, &reply);
        }
        Ok(())
    }

    /// Handles the events of the channel without waiting.
    async fn take_submissions(&mut self) -> Result<(), End> {
        for _ in 0..SUBMISSIONS {
            let event = poll_once(pin!(self.submissions.event())).await;
            match event {
                Poll::Ready(event) => self.take(event)?,
                Poll::Pending => return Ok(()),
            }
        }
        Ok(())
    }

    /// Removes the written bytes.
    fn sent(&mut self, outbox: &mut Outbox, written: Poll<io::Result<usize>>) -> io::Result<()> {
        if let Poll::Ready(written) = written {
            let calls = &mut self.calls;
            outbox.advance(written?, |xid| calls.set_sent(xid));
        }
        Ok(())
    }

    /// Handles a record. A reply to no open call is dropped: its call was cancelled.
    fn answer(&mut self, record: Record) {
        match take_reply(&mut self.calls, record, self.config.max_record) {
            Ok(()) => self.delay = Duration::ZERO,
            Err(xid) => {
                tracing::debug!(server = %self.server, ?xid, "a message is no reply to a call");
            }
        }
    }
}
