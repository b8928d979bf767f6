//! A connection of a server: it reads calls, begins their handlers, and sends the replies.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, consume_budget, yield_now};
use tokio::time::{Instant, sleep_until};

use super::outbox::Outbox;
use super::poll_once;
use super::record::{self, Intake};
use crate::limits::Limit;
use crate::message::{OutgoingReply, ReceivedMessage, word};
use crate::permit::ConnectionPermit;
use crate::router::{Programs, Router};
use crate::service::Peer;

/// Bytes of replies after which the next call waits until some of them were written.
const FLUSH: usize = 64 << 10;

/// Bytes of calls and replies after which the connections of others have their turn.
const TURN: usize = 64 << 10;

/// A handler that waits, and its reply.
type Handler = Pin<Box<dyn Future<Output = Served> + Send>>;

/// The XID of a call, and its reply.
type Served = (u32, Option<OutgoingReply>);

/// What the handlers of a connection share. They share nothing with other connections per call.
struct Services<P> {
    router: Arc<Router<P>>,
    peer: Arc<Peer>,
}

pub(crate) struct Connection<P> {
    services: Arc<Services<P>>,
    permit: Arc<ConnectionPermit>,
    max_record: usize,
    handlers: JoinSet<Served>,
    outbox: Outbox,
    /// Bytes of calls and replies in this turn.
    turn: usize,
    /// When the first reply of the outbox has to have gone.
    send_deadline: Option<Instant>,
}

impl Intake for Arc<ConnectionPermit> {
    async fn ready(&self) {
        ConnectionPermit::ready(self).await;
    }

    async fn reserve(&self, bytes: usize) {
        ConnectionPermit::reserve(self, bytes).await;
    }

    fn time(&self) -> Option<Duration> {
        self.limits().transfer_time
    }

    fn timed_out(&self) -> io::Error {
        self.reached(Limit::TransferTime);
        let text = "a call took too long to arrive";
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

impl<P: Programs> Connection<P> {
    pub(crate) fn new(
        router: Arc<Router<P>>,
        peer: Arc<Peer>,
        permit: ConnectionPermit,
        max_record: usize,
    ) -> Self {
        Self {
            services: Arc::new(Services { router, peer }),
            permit: Arc::new(permit),
            max_record,
            handlers: JoinSet::new(),
            outbox: Outbox::default(),
            turn: 0,
            send_deadline: None,
        }
    }

    /// Serves until the peer ends the connection, or `drains` ends.
    pub(crate) async fn run(
        mut self,
        stream: TcpStream,
        drains: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let ended = self.serve(stream, drains).await;
        // Handlers go on when their caller is gone: what they have begun is not left half done.
        self.handlers.detach_all();
        ended
    }

    async fn serve(
        &mut self,
        stream: TcpStream,
        mut drains: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let (max, permit) = (self.max_record, self.permit.clone());
        let read = |reader| record::read_next(reader, max, permit.clone());
        let mut reading = pin!(read(record::buffered(reader)));
        // False when no more calls come: the client has ended its side, or the server drains.
        let mut reads = true;
        loop {
            if !reads && self.handlers.is_empty() && self.outbox.is_empty() {
                return writer.shutdown().await;
            }
            let time = self.permit.limits().transfer_time;
            // Calls that have come are served before their replies go in one system call.
            tokio::select! {
                biased;
                _ = &mut drains, if reads => reads = false,
                Some(served) = self.handlers.join_next(), if !self.handlers.is_empty() => {
                    // A panic is caught before: there is nothing else that can fail.
                    if let Ok((xid, reply)) = served {
                        self.reply(xid, reply);
                    }
                }
                (reader, record) = &mut reading, if reads => match record? {
                    Some(record) => {
                        self.begin(record).await;
                        reading.set(read(reader));
                        self.flush(&mut writer).await?;
                    }
                    None => reads = false,
                },
                written = self.outbox.write(&mut writer), if !self.outbox.is_empty() => {
                    self.sent(written?);
                }
                () = passed(&mut self.send_deadline, time), if !self.outbox.is_empty() => {
                    self.permit.reached(Limit::TransferTime);
                    let text = "a reply took too long to be sent";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            }
        }
    }

    /// Begins to serve a call. One whose handler does not wait is answered at once; another gets a
    /// task.
    async fn begin(&mut self, record: Vec<u8>) {
        self.permit.count_call();
        let (xid, len) = (word(&record, 0).unwrap_or(0), record.capacity());
        let (services, deadline) = (self.services.clone(), self.permit.handler_deadline());
        let message = ReceivedMessage::whole(record.into());
        let mut handler: Handler = Box::pin(async move {
            let Services { router, peer } = &*services;
            (
                xid,
                router
                    .serve(&message, peer, deadline, OutgoingReply::default())
                    .await,
            )
        });
        if let Poll::Ready((xid, reply)) = poll_once(handler.as_mut()).await {
            self.permit.arrived();
            self.reply(xid, reply);
        } else {
            let call = self.permit.call(len);
            self.permit.arrived();
            self.handlers.spawn(async move {
                let served = handler.await;
                drop(call);
                served
            });
        }
        self.turn += len;
        self.end_turn().await;
    }

    /// Lets others have the thread once in a while: a peer may have calls all the time.
    async fn end_turn(&mut self) {
        if self.turn < TURN {
            return consume_budget().await;
        }
        self.turn = 0;
        yield_now().await;
    }

    fn reply(&mut self, xid: u32, reply: Option<OutgoingReply>) {
        if let Some(OutgoingReply { header, body }) = reply {
            self.turn += body.len();
            if let Err(max) = self.outbox.push(xid, &header, &body) {
                tracing::warn!(peer = %self.services.peer, xid, max, "a reply is too long");
            }
        }
        self.permit.set_outgoing(self.outbox.memory());
        self.permit.trim();
    }

    /// Writes what is possible without waiting if there are many bytes.
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

    /// Takes away bytes that were written.
    fn sent(&mut self, written: usize) {
        if self.outbox.advance(written, |_| ()) > 0 {
            self.send_deadline = None;
        }
        self.permit.set_outgoing(self.outbox.memory());
        self.permit.trim();
    }
}

/// Waits until a deadline, which is as long from now on if there is none; for ever without a time.
async fn passed(deadline: &mut Option<Instant>, time: Option<Duration>) {
    let start = || time.and_then(|time| Instant::now().checked_add(time));
    *deadline = deadline.or_else(start);
    match *deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
