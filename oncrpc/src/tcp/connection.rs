//! A connection of a server: it reads calls, begins their handlers, and sends the replies.
//!
//! One task runs it. `permit` delays the reading of calls beyond the limits; while the client owes
//! replies, calls are read all the same and parked, and too many parked calls end the connection.
//! Each turn of the loop polls the reader and the permit again, as `permit` requires. The future of
//! the reader holds a part of a record, and lives as long as the loop; its place in a queue for the
//! limits is in `LimitedIntake`, as a draining connection that reads no more must leave the queue.
//! Each received call has a permit, from its last byte to its end. A draining connection accepts no
//! call. When the accepted ones are answered, it ends its side, and waits until the client does.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;
use tokio::task::{consume_budget, yield_now};
use tokio::time::{Instant, sleep_until, timeout};

use super::backward::Backward;
use super::handlers::{HandlerOutput, Handlers};
use super::outbox::Outbox;
use super::poll_once;
use super::record::{self, Intake, Record};
use super::sending::{push_reply, refuse};
use crate::limits::Limit;
use crate::permit::{CallPermit, ConnectionPermit, Step};
use crate::protocol::MsgType;
use crate::router::Programs;

/// The number of bytes of unsent replies at which the next call waits.
const FLUSH: usize = 64 << 10;

/// The number of bytes of calls and replies after which the task yields to other connections.
const TURN: usize = 64 << 10;

/// The maximum time for which a drained connection waits until its client closes it.
const LINGER: Duration = Duration::from_secs(2);

pub(crate) struct Connection<P> {
    permit: Arc<ConnectionPermit>,
    max_record: usize,
    handlers: Handlers<P>,
    backward: Backward,
    /// Calls beyond the limits, received while replies of the client were outstanding.
    parked: DeferredCalls,
    outbox: Outbox,
    /// The number of bytes of calls and replies since the last yield.
    turn: usize,
    /// The deadline for sending the first message of the outbox.
    send_deadline: Option<Instant>,
}

/// The client's side of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The client sends calls.
    Open,
    /// The server drains. It accepts replies of the client, and no calls.
    Drains,
    /// The client has ended its side.
    Closed,
}

/// Calls that wait for the limits.
#[derive(Default)]
struct DeferredCalls {
    calls: VecDeque<ReceivedCall>,
    bytes: usize,
}

/// A call that has not begun.
struct ReceivedCall {
    record: Vec<u8>,
    permit: CallPermit,
}

impl DeferredCalls {
    fn push(&mut self, call: ReceivedCall) {
        self.bytes += call.record.capacity();
        self.calls.push_back(call);
    }

    fn pop(&mut self) -> Option<ReceivedCall> {
        let call = self.calls.pop_front()?;
        self.bytes -= call.record.capacity();
        Some(call)
    }
}

/// Reads while the limits allow it, and while replies of the client are outstanding: a handler may
/// wait for a reply that follows calls beyond the limits.
#[derive(Clone)]
struct LimitedIntake {
    permit: Arc<ConnectionPermit>,
    awaited: Arc<AtomicBool>,
    wait: Arc<IntakeWait>,
}

/// The place of a reader in a queue for the limits, if it waits.
type Place = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// The wait of a reader for the limits.
#[derive(Default)]
struct IntakeWait {
    place: Mutex<Place>,
    /// Whether the record is read beyond the limits.
    is_beyond: AtomicBool,
}

impl IntakeWait {
    fn lock(&self) -> MutexGuard<'_, Place> {
        // A wait that panicked is not polled again: its connection ends.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the queue until the reader is polled again.
    fn leave(&self) {
        self.lock().take();
    }
}

impl LimitedIntake {
    fn new(permit: Arc<ConnectionPermit>, awaited: Arc<AtomicBool>) -> Self {
        Self {
            permit,
            awaited,
            wait: Arc::default(),
        }
    }

    /// Waits until the limits allow a step, and takes it. Returns false if a reply is awaited
    /// instead: the step is then beyond the limits.
    async fn take(&self, step: Step) -> bool {
        if self.permit.attempt(step) {
            return true;
        }
        poll_fn(|cx| self.poll_take(step, cx)).await
    }

    fn poll_take(&self, step: Step, cx: &mut task::Context<'_>) -> Poll<bool> {
        let mut place = self.wait.lock();
        let waiting = place.get_or_insert_with(|| {
            let permit = self.permit.clone();
            Box::pin(async move { permit.wait(step).await })
        });
        let is_taken = waiting.as_mut().poll(cx).is_ready();
        if !is_taken && !self.awaited.load(Relaxed) {
            return Poll::Pending;
        }
        *place = None;
        Poll::Ready(is_taken)
    }
}

impl Intake for LimitedIntake {
    async fn ready(&self) {
        let is_within = self.take(Step::Read).await;
        self.wait.is_beyond.store(!is_within, Relaxed);
    }

    async fn reserve(&self, bytes: usize) {
        if !self.take(Step::Reserve(bytes)).await {
            self.wait.is_beyond.store(true, Relaxed);
            self.permit.exceed(bytes);
        }
    }

    fn time(&self) -> Option<Duration> {
        self.permit.transfer_time()
    }

    fn timed_out(&self) -> io::Error {
        self.permit.reached(Limit::TransferTime);
        io::Error::new(io::ErrorKind::TimedOut, Limit::TransferTime)
    }
}

/// The connection's end of the server's decision to end it.
#[derive(Debug)]
pub(super) struct Ends {
    /// Resolves when the server drains.
    pub(super) drains: oneshot::Receiver<()>,
    /// Resolves to a message when the server shuts down.
    pub(super) shuts_down: oneshot::Receiver<()>,
}

impl<P: Programs> Connection<P> {
    pub(crate) fn new(
        handlers: Handlers<P>,
        backward: Backward,
        permit: ConnectionPermit,
        max_record: usize,
    ) -> Self {
        Self {
            permit: Arc::new(permit),
            max_record,
            handlers,
            backward,
            parked: DeferredCalls::default(),
            outbox: Outbox::default(),
            turn: 0,
            send_deadline: None,
        }
    }

    /// Serves until the peer ends the connection, or the server drains or shuts down.
    pub(super) async fn run(mut self, stream: TcpStream, ends: Ends) -> io::Result<()> {
        let Ends { drains, shuts_down } = ends;
        let ended = tokio::select! {
            biased;
            ended = self.serve(stream, drains) => ended,
            Ok(()) = shuts_down => {
                let kind = io::ErrorKind::ConnectionAborted;
                Err(io::Error::new(kind, "the server shuts down"))
            }
        };
        self.backward.lose_connection(ended.as_ref().err(), false);
        ended
    }

    async fn serve(
        &mut self,
        stream: TcpStream,
        mut drains: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let limited = LimitedIntake::new(self.permit.clone(), self.backward.awaited());
        let max = self.max_record;
        let read = |reader| record::read_next(reader, max, limited.clone());
        let mut reading = pin!(read(record::buffered(reader)));
        let permit = self.permit.clone();
        let room = || permit.ready();
        let mut may_begin = pin!(room());
        let mut side = Side::Open;
        loop {
            self.backward.begin_calls(&mut self.outbox).await;
            let reads = match side {
                Side::Open => true,
                Side::Drains => !self.backward.is_empty(),
                Side::Closed => false,
            };
            if side != Side::Open && !reads && self.is_done() {
                writer.shutdown().await?;
                if side == Side::Drains {
                    linger(writer.as_ref()).await;
                }
                return Ok(());
            }
            let time = self.permit.transfer_time();
            // Received calls are served first, so that their replies are sent in one system call.
            tokio::select! {
                biased;
                _ = &mut drains, if side == Side::Open => {
                    side = Side::Drains;
                    limited.wait.leave();
                }
                served = self.handlers.next(), if !self.handlers.is_empty() => self.reply(served),
                () = &mut may_begin, if !self.parked.calls.is_empty() => {
                    may_begin.set(room());
                    if let Some(call) = self.parked.pop() {
                        self.begin(call).await;
                    }
                }
                (reader, record) = &mut reading, if reads => {
                    match record? {
                        Some(record) => {
                            let is_within = !limited.wait.is_beyond.load(Relaxed);
                            self.take(record, side, is_within).await?;
                        }
                        None => {
                            side = Side::Closed;
                            self.backward.lose_connection(None, true);
                            continue;
                        }
                    }
                    reading.set(read(reader));
                    self.flush(&mut writer).await?;
                }
                written = self.outbox.write(&mut writer), if !self.outbox.is_empty() => {
                    self.sent(written?);
                }
                () = passed(&mut self.send_deadline, time), if !self.outbox.is_empty() => {
                    self.permit.reached(Limit::TransferTime);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, Limit::TransferTime));
                }
                () = self.backward.changed() => {}
            }
        }
    }

    /// Returns true if all accepted calls are answered.
    fn is_done(&self) -> bool {
        self.handlers.is_empty() && self.parked.calls.is_empty() && self.outbox.is_empty()
    }

    /// Handles a record: a call, or a reply to a backward call.
    async fn take(&mut self, record: Record, side: Side, is_within: bool) -> io::Result<()> {
        let permit = self.permit.arrived(record.kept().capacity());
        if record.is(MsgType::Reply) {
            self.turn += record.kept().len();
            self.backward.answer(record);
        } else if side == Side::Open {
            match record {
                Record::Whole(record) => {
                    let call = ReceivedCall { record, permit };
                    return self.take_call(call, is_within).await;
                }
                Record::TooLong(head) => self.refuse(&head),
            }
        }
        // A draining server accepts no calls.
        self.end_turn().await;
        Ok(())
    }

    /// Begins a call, or keeps it until the limits allow it.
    async fn take_call(&mut self, call: ReceivedCall, is_within: bool) -> io::Result<()> {
        let may_begin = is_within || self.permit.is_ready();
        if !may_begin || !self.parked.calls.is_empty() {
            return self.park(call);
        }
        self.begin(call).await;
        Ok(())
    }

    /// Answers a call that is too long, which was discarded.
    fn refuse(&mut self, head: &[u8]) {
        self.permit.count_call();
        self.turn += head.len();
        refuse(
            &mut self.outbox,
            self.handlers.peer(),
            head,
            self.max_record,
        );
        self.count_outgoing();
    }

    /// Keeps a call until the limits allow to serve it.
    fn park(&mut self, call: ReceivedCall) -> io::Result<()> {
        self.parked.push(call);
        let limits = self.permit.limits();
        let limit = if self.parked.calls.len() > limits.calls_per_connection {
            Limit::CallsPerConnection
        } else if self.parked.bytes > limits.bytes_per_connection {
            Limit::BytesPerConnection
        } else {
            return Ok(());
        };
        self.permit.reached(limit);
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, limit))
    }

    /// Begins to serve a call. If its handler does not wait, the call is answered at once.
    async fn begin(&mut self, call: ReceivedCall) {
        let ReceivedCall { record, permit } = call;
        self.permit.count_call();
        let len = record.capacity();
        let deadline = self.permit.handler_deadline();
        let guard = || permit.begin();
        let served = self.handlers.begin(record, deadline, guard).await;
        if let Some(served) = served {
            self.reply(served);
        }
        self.turn += len;
        self.end_turn().await;
    }

    /// Yields now and then, since a peer may send calls without a pause.
    async fn end_turn(&mut self) {
        if self.turn < TURN {
            return consume_budget().await;
        }
        self.turn = 0;
        // The reader comes before deadlines in each turn of the loop.
        self.backward.expire();
        yield_now().await;
    }

    fn reply(&mut self, (xid, reply): HandlerOutput) {
        if let Some(reply) = reply {
            self.turn += reply.body.len();
            push_reply(&mut self.outbox, self.handlers.peer(), xid, &reply);
        }
        self.count_outgoing();
    }

    fn count_outgoing(&self) {
        self.permit.set_outgoing(self.outbox.memory());
    }

    /// Writes without waiting if there are many bytes.
    async fn flush(&mut self, writer: &mut OwnedWriteHalf) -> io::Result<()> {
        if self.outbox.len() < FLUSH {
            return Ok(());
        }
        let written = poll_once(pin!(self.outbox.write(writer))).await;
        match written {
            Poll::Ready(written) => self.sent(written?),
            Poll::Pending => {}
        }
        Ok(())
    }

    /// Removes the written bytes.
    fn sent(&mut self, written: usize) {
        let backward = &mut self.backward;
        if self.outbox.advance(written, |xid| backward.set_sent(xid)) > 0 {
            self.send_deadline = None;
        }
        self.count_outgoing();
    }
}

/// Discards what a client sends that does not know of the drain yet, until it closes the
/// connection. If a socket is closed before all is read, the system resets the connection, and
/// replies that the client has not received yet are lost.
async fn linger(stream: &TcpStream) {
    let discards = async {
        loop {
            consume_budget().await;
            stream.readable().await?;
            match stream.try_read(&mut [0; 4096]) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    };
    // An error is the end of the connection, too.
    let _: Result<io::Result<()>, _> = timeout(LINGER, discards).await;
}

/// Waits until a deadline, which is set to this time from now if there is none; for ever without a
/// time.
async fn passed(deadline: &mut Option<Instant>, time: Option<Duration>) {
    let start = || time.and_then(|time| Instant::now().checked_add(time));
    *deadline = deadline.or_else(start);
    match *deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
