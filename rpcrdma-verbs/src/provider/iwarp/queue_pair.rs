//! Queue pairs: posted requests, and the stream that carries them. This module has the phases of a
//! queue pair; `sending` and `receiving` have the data, and `rpcrdma_iwarp` has the protocol.
//!
//! One lock covers a queue pair. Its release (`LockedQp`) moves completions to their queue before
//! it reports a disconnection, and the order of both must stay. There is a stream only in the phase
//! `Ready`. `post` calls `keep_inline` before it returns, since the memory of inline requests is
//! free then. After `leave` nothing that was posted is accessed or reported: `end` relies on it.

mod arrival_timer;
mod nudge;
mod receiving;
mod send_queue;
mod sending;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use rpcrdma_iwarp::{IwarpStream, ReadDepths, StagError};
use rustix::net::Shutdown;

use self::nudge::Nudges;
use self::receiving::Incoming;
use self::send_queue::SendQueue;
use super::completion::{Completions, ProgressOutcome, SocketUser};
use super::connect_request::IwarpConnectRequest;
use super::memory::MAX_SGE;
use super::numbers::Number;
use super::socket;
use crate::provider::common::completions::CompletionEntry;
use crate::provider::common::domain::{Domain, RemoteError};
use crate::provider::common::events::EventQueue;
use crate::provider::common::receives::{PostedReceive, ReceiveQueue, ReceiveWaiter, enqueue};
use crate::provider::{
    self, Cause, Completion, ConnectionEvent, Receive, Result, Sge, Status, VerbError, WorkRequest,
};

/// A queue pair of iWARP over TCP.
#[derive(Debug)]
pub struct IwarpQueuePair {
    pub(super) qp: Arc<Qp>,
    pub(super) limits: Limits,
    pub(super) ended: Once,
}

/// The shared part of a queue pair, for its queues and the manager.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) number: u32,
    /// Keeps the number in use.
    _number: Number,
    me: Weak<Self>,
    domain: Arc<Domain>,
    completions: Arc<Completions>,
    events: Arc<EventQueue<IwarpConnectRequest>>,
    state: Mutex<QpState>,
    /// The time that a Send of the peer waits for a receive; `None` if it does not wait.
    receive_timeout: Option<Duration>,
    /// The time limit of an FPDU.
    fpdu_timeout: Duration,
    pub(super) depths: ReadDepths,
}

#[derive(Debug)]
struct QpState {
    phase: QpPhase,
    socket: Option<OwnedFd>,
    /// `None` before the connection is established.
    stream: Option<IwarpStream>,
    sends: SendQueue,
    receives: ReceiveQueue<Qp>,
    incoming: Incoming,
    nudges: Nudges,
    /// Completions that are not in their queue yet. They are moved there together before the lock
    /// is released.
    completed: VecDeque<CompletionEntry>,
    /// True if the disconnection must be reported after them.
    is_disconnected: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QpPhase {
    /// Not connected: only receives can be posted.
    Connecting,
    /// Connected.
    Ready,
    /// Failed: posted requests are flushed, and incoming data are dropped.
    Failed,
}

/// The parameters of a new queue pair.
pub(super) struct QpParts {
    pub(super) number: Number,
    pub(super) domain: Arc<Domain>,
    pub(super) completions: Arc<Completions>,
    pub(super) events: Arc<EventQueue<IwarpConnectRequest>>,
    pub(super) receives: ReceiveQueue<Qp>,
    pub(super) send_depth: u32,
    pub(super) receive_timeout: Option<Duration>,
    pub(super) fpdu_timeout: Duration,
    pub(super) depths: ReadDepths,
}

impl QpState {
    fn received(&mut self, queue_pair: u32, id: u64, (status, length): (Status, u32)) {
        self.received_invalidating(queue_pair, id, (status, length), None);
    }

    fn received_invalidating(
        &mut self,
        queue_pair: u32,
        id: u64,
        (status, length): (Status, u32),
        invalidated: Option<u32>,
    ) {
        let completion = Completion {
            id,
            queue_pair,
            status,
            length,
            invalidated,
        };
        self.completed.push_back(CompletionEntry {
            completion,
            retires: None,
        });
    }

    /// Fails the queue pair, and flushes posted requests. The oldest request and the receive of an
    /// arriving message get the given statuses. Shared receives remain.
    fn fail(&mut self, qp: &Qp, (request, receive): (Status, Status)) {
        // rfc: 5040-6.2.1-b, 5040-7.1-a, 5041-6.2.2-a, 5041-6.2.2-b, 5041-7-a
        if self.phase == QpPhase::Failed {
            return;
        }
        let number = qp.number;
        self.is_disconnected = self.phase == QpPhase::Ready;
        self.phase = QpPhase::Failed;
        self.sends.flush(number, request, &mut self.completed);
        if let Some(current) = self.incoming.receive.take() {
            self.received(number, current.id, (receive, 0));
        }
        if let ReceiveQueue::Own { queue, .. } = &mut self.receives {
            for posted in std::mem::take(queue) {
                self.received(number, posted.id, (Status::Flushed, 0));
            }
        }
        self.close(&qp.me);
    }

    /// Ends the outgoing stream. Data that were sent before still arrive.
    fn close(&mut self, me: &Weak<Qp>) {
        // rfc: 5040-6.2.1-c, 5040-6.2.1-d, 5040-7-b, 5041-3-l, 5041-6.2-a, 5041-6.2-b
        // rfc: 5041-6.2.1-a, 5041-6.2.2-d
        // Queued bytes without memory of a request, such as a Terminate, are still sent.
        let goes_on = self
            .stream
            .as_mut()
            .is_some_and(|stream| !stream.framer().has_payload());
        if goes_on {
            self.flush_copied();
        }
        self.stream = None;
        if let (Some(_), ReceiveQueue::Shared(shared)) = (self.incoming.stalled, &self.receives) {
            shared.give_up(me);
        }
        self.incoming = Incoming::default();
        if let Some(socket) = &self.socket {
            // It fails if the peer has ended the connection.
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
    }
}

/// A locked queue pair. Releasing the lock moves completions to their queue.
struct LockedQp<'a> {
    state: MutexGuard<'a, QpState>,
    qp: &'a Qp,
}

impl std::ops::Deref for LockedQp<'_> {
    type Target = QpState;

    fn deref(&self) -> &QpState {
        &self.state
    }
}

impl std::ops::DerefMut for LockedQp<'_> {
    fn deref_mut(&mut self) -> &mut QpState {
        &mut self.state
    }
}

impl Drop for LockedQp<'_> {
    fn drop(&mut self) {
        if !self.state.completed.is_empty() {
            self.qp.completions.extend(&mut self.state.completed);
        }
        if std::mem::take(&mut self.state.is_disconnected) {
            self.qp.events.push(ConnectionEvent::Disconnected {
                queue_pair: self.qp.number,
            });
        }
    }
}

impl Qp {
    pub(super) fn new(parts: QpParts, socket: Option<OwnedFd>) -> Arc<Self> {
        let state = QpState {
            phase: QpPhase::Connecting,
            socket,
            stream: None,
            sends: SendQueue::new(parts.send_depth),
            receives: parts.receives,
            incoming: Incoming::default(),
            nudges: Nudges::new(false),
            completed: VecDeque::new(),
            is_disconnected: false,
        };
        Arc::new_cyclic(|me| Self {
            number: parts.number.get(),
            _number: parts.number,
            me: me.clone(),
            domain: parts.domain,
            completions: parts.completions,
            events: parts.events,
            state: Mutex::new(state),
            receive_timeout: parts.receive_timeout,
            fpdu_timeout: parts.fpdu_timeout,
            depths: parts.depths,
        })
    }

    fn lock(&self) -> LockedQp<'_> {
        LockedQp {
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner),
            qp: self,
        }
    }

    /// Passes the socket, while there is one.
    pub(super) fn with_socket<T>(&self, f: impl FnOnce(&OwnedFd) -> T) -> Option<T> {
        self.lock().socket.as_ref().map(f)
    }

    pub(super) fn set_socket(&self, socket: OwnedFd) {
        self.lock().socket = Some(socket);
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.lock().phase == QpPhase::Connecting
    }

    /// Begins to use an established connection: with the socket of the queue pair or of an accepted
    /// request, and with or without nudges. Returns false if the queue pair has ended or failed.
    pub(super) fn establish(
        &self,
        (stream, nudges): (IwarpStream, bool),
        accepted: Option<OwnedFd>,
        private_data: &[u8],
    ) -> bool {
        // rfc: 5040-6.1-a, 5044-7.1-d
        let mut state = self.lock();
        state.nudges = Nudges::new(nudges);
        if accepted.is_some() {
            state.socket = accepted;
        }
        let Some(socket) = state
            .socket
            .as_ref()
            .filter(|_| state.phase == QpPhase::Connecting)
        else {
            return false;
        };
        if self
            .completions
            .add(self.me.clone(), self.number, socket)
            .is_err()
        {
            return false;
        }
        state.stream = Some(stream);
        state.phase = QpPhase::Ready;
        self.events.push(ConnectionEvent::Established {
            queue_pair: self.number,
            private_data: private_data.into(),
        });
        // Sends the ready-to-receive message of an initiator.
        self.pump(&mut state);
        true
    }

    /// Returns true if an FPDU of the peer has arrived on the current connection.
    pub(super) fn peer_has_sent(&self) -> bool {
        let state = self.lock();
        state.stream.as_ref().is_some_and(IwarpStream::has_heard)
    }

    /// Returns false if the peer answers no RDMA Reads.
    pub(super) fn can_read(&self) -> bool {
        let state = self.lock();
        state
            .stream
            .as_ref()
            .is_none_or(|stream| stream.max_reads() > 0)
    }

    /// Fails a queue pair that will not be connected. Returns false if it has ended or failed.
    pub(super) fn refuse(&self) -> bool {
        let mut state = self.lock();
        let was_connecting = state.phase == QpPhase::Connecting;
        state.socket = None;
        state.fail(self, (Status::Flushed, Status::Flushed));
        was_connecting
    }

    pub(super) fn disconnect(&self) {
        let mut state = self.lock();
        if state.phase == QpPhase::Connecting {
            state.socket = None;
        }
        state.fail(self, (Status::Flushed, Status::Flushed));
    }

    /// Ends the queue pair: nothing that it has posted is accessed or reported any more. A shared
    /// receive that it has taken completes.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        let in_use = state.incoming.receive.take();
        if state.phase == QpPhase::Ready {
            state.close(&self.me);
        }
        state.phase = QpPhase::Failed;
        state.sends.clear();
        state.incoming = Incoming::default();
        if let ReceiveQueue::Own { queue, .. } = &mut state.receives {
            queue.clear();
        }
        state.completed.clear();
        if let (Some(receive), ReceiveQueue::Shared(_)) = (in_use, &state.receives) {
            // Its poster goes on, and waits for it.
            state.received(self.number, receive.id, (Status::Flushed, 0));
        }
        if let Some(socket) = state.socket.take() {
            // Closing a socket with unread data resets the connection, and sent data may be lost.
            let mut dropped = [0; 4096];
            for _ in 0..16 {
                if !matches!(socket::receive(&socket, &mut dropped), Ok(1..)) {
                    break;
                }
            }
        }
        self.completions.remove(self.number);
    }

    pub(super) fn post(
        &self,
        requests: &[WorkRequest],
        slices: &[Sge],
        limits: Limits,
    ) -> Result<()> {
        let mut state = self.lock();
        if state.phase == QpPhase::Connecting {
            return Err(wrong_state("post"));
        }
        state.sends.post(requests, slices, limits)?;
        self.begin_posted(&mut state);
        Ok(())
    }

    fn begin_posted(&self, state: &mut QpState) {
        if state.phase == QpPhase::Failed {
            let QpState {
                sends, completed, ..
            } = state;
            sends.flush(self.number, Status::Flushed, completed);
        } else {
            self.pump(state);
            state.sends.keep_inline();
        }
    }

    pub(super) fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        let mut state = self.lock();
        if state.phase == QpPhase::Failed {
            for receive in receives {
                state.received(self.number, receive.id, (Status::Flushed, 0));
            }
            return Ok(());
        }
        let ReceiveQueue::Own { queue, most } = &mut state.receives else {
            return Err(wrong_state("post_receives"));
        };
        enqueue(queue, (*most, MAX_SGE), receives, slices)?;
        if state.incoming.stalled.is_some() {
            self.completions.mark(self.number);
        }
        Ok(())
    }

    fn take_receive(&self, receives: &mut ReceiveQueue<Self>) -> Option<PostedReceive> {
        match receives {
            ReceiveQueue::Own { queue, .. } => queue.pop_front(),
            ReceiveQueue::Shared(shared) => {
                shared.take(self.receive_timeout.is_some().then_some(&self.me))
            }
        }
    }
}

impl SocketUser for Qp {
    fn progress(&self, staging: &mut [u8], has_ended: bool) -> ProgressOutcome {
        let mut state = self.lock();
        let before = state.incoming.received;
        let goes_on = match state.phase {
            QpPhase::Connecting => false,
            QpPhase::Ready => self.receive(&mut state, staging, has_ended),
            QpPhase::Failed => state.drop_input(staging),
        };
        let has_received = state.incoming.received != before;
        if state.phase == QpPhase::Ready {
            state.nudge();
            self.pump(&mut state);
        }
        ProgressOutcome {
            goes_on,
            has_received,
        }
    }
}

impl ReceiveWaiter for Qp {
    fn receive_posted(&self) -> bool {
        self.completions.mark(self.number);
        true
    }
}

impl QpState {
    fn nudge(&mut self) {
        if let Some(stream) = &mut self.stream {
            self.nudges.nudge(stream);
        }
    }

    /// Drops incoming data after the end, until the peer also ends the connection. Returns true if
    /// there may be more.
    fn drop_input(&mut self, staging: &mut [u8]) -> bool {
        for _ in 0..16 {
            let Some(socket) = &self.socket else {
                return false;
            };
            match socket::receive(socket, staging) {
                Ok(1..) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                _ => self.socket = None,
            }
        }
        true
    }
}

/// Returns the protocol's name of an error.
const fn stag_error(error: RemoteError) -> StagError {
    match error {
        RemoteError::Key => StagError::Invalid,
        RemoteError::OtherQueuePair => StagError::OtherStream,
        RemoteError::Bounds => StagError::Bounds,
        RemoteError::Wrap => StagError::Wrap,
        RemoteError::Access => StagError::Access,
    }
}

/// The limits of a device for requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_inline: u32,
    pub(super) max_message: u32,
}

const fn wrong_state(verb: &'static str) -> VerbError {
    VerbError {
        verb,
        cause: Cause::State,
    }
}

impl Drop for IwarpQueuePair {
    fn drop(&mut self) {
        provider::QueuePair::end(self);
    }
}
