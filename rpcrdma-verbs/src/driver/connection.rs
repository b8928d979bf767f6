//! A session with its queue pair: actions of the engine become work requests, and completions go to
//! the engine.
//!
//! The engine decides credits, order and transfer methods; the modules below own the buffers.
//! `drive` takes events before actions, because an event may refer to a slot that a new call then
//! uses. All actions are performed before the next message is taken, as
//! `rpcrdma_proto::connection::Action` requires, and all requests are posted as one batch. A
//! failure sets `pending_action`, which `driver::turn` performs after `drive`; no other action may
//! replace a pending `Close`. `lost` ends the queue pair before it ends the exposures, and informs
//! the session last.

mod ending;
mod exposing;
mod liveness;
mod logging;
mod receiving;
mod retained;
mod sending;
mod slots;
mod transfers;

use std::net::SocketAddr;

use rpcrdma_proto::connection::{
    Action, CloseReason, Event as SessionEvent, SendOwner, ServedCallId, Session,
};
use tracing::{debug, info, warn};

use super::Scratch;
use super::events::{
    BeginError, CallParams, ConnectionCounters, DriverEvent, Items, OutgoingReplyError,
};
use super::message::{WriteError, Writer};
use crate::driver::error::ConnectError;
use crate::fifo::Fifo;
use crate::memory::{Buf, BufCache, MemoryError, Pool};
use crate::provider::{Completion, Device, QueuePair as _, Status};
use crate::queue::{CompletionKind, Endpoint, ReceiveBuffer};
use exposing::Exposer;
use liveness::IdleTracker;
pub(crate) use liveness::ProbeResult;
use logging::logs_calls;
use retained::RetainedReceives;
use sending::SendState;
use slots::CallSlots;
use transfers::Transfers;

/// The maximum number of requests of an action or a message, except those for segments of the peer.
const BURST_REQUESTS: usize = 64;

/// A session with its transport.
// The queue pair is dropped first, then the exposures, then the memory.
#[derive(Debug)]
pub(crate) struct Connection<D: Device> {
    /// The address of the other end.
    pub(super) peer: SocketAddr,
    pub(crate) session: Session,
    pub(crate) endpoint: Option<Endpoint<D, WrContext>>,
    /// The session's request for the connection itself.
    pub(crate) pending_action: Option<ConnectionAction>,
    slots: CallSlots<D>,
    exposer: Exposer<D>,
    retained: RetainedReceives,
    sending: SendState,
    transfers: Transfers,
    pool: Pool<D>,
    pub(crate) events: Fifo<DriverEvent>,
    pub(crate) counters: ConnectionCounters,
    pub(crate) connect_error: Option<ConnectError>,
    /// An attempt to connect waits for the server's address.
    pub(super) wants_address: bool,
    /// A message of the peer was refused, with a warning.
    has_warned: bool,
    idle: IdleTracker,
}

/// An action of the driver on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionAction {
    Connect,
    Close(CloseReason),
    /// Sets the deadlines of transfers that have begun.
    TimeTransfers,
}

/// The purpose of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WrContext {
    /// A message with the owner of memory that was not copied.
    Send(SendOwner),
    /// A part of an operation that a later request completes.
    Intermediate,
    /// The last RDMA Read of a call of the peer.
    Read(ServedCallId),
    /// The last invalidation of the windows of a call.
    Fence(u32),
    /// A keep-alive probe.
    Probe,
    /// The last request before the connection is closed.
    BeforeClose(CloseReason),
}

impl<D: Device> Connection<D> {
    pub(crate) fn new(
        peer: SocketAddr,
        session: Session,
        requests: usize,
        uses_windows: bool,
        pool: &Pool<D>,
    ) -> Self {
        let burst = BURST_REQUESTS + session.config().limits.max_segments as usize;
        let max_in_flight = requests.saturating_sub(burst);
        Self {
            peer,
            session,
            endpoint: None,
            pending_action: None,
            slots: CallSlots::new(),
            exposer: Exposer::new(uses_windows),
            retained: RetainedReceives::default(),
            sending: SendState::new(pool.device().capabilities(), max_in_flight),
            transfers: Transfers::new(),
            pool: pool.clone(),
            events: Fifo::new(),
            counters: ConnectionCounters::default(),
            connect_error: None,
            wants_address: false,
            has_warned: false,
            idle: IdleTracker::default(),
        }
    }

    /// Begins a call, whose RPC message `write` writes. The message may have any XID, which is
    /// replaced. It takes the buffers for the results, and returns all buffers on an error.
    pub(crate) fn call(
        &mut self,
        request: &mut CallParams,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<u32, BeginError> {
        // An earlier call in the same slot may have been cancelled.
        self.take_events();
        self.slots.call(&mut self.session, request, write)
    }

    /// Replies to a call of the peer with the RPC message that `write` writes.
    pub(crate) fn reply(
        &mut self,
        call: ServedCallId,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), OutgoingReplyError> {
        self.slots.reply(&mut self.session, call, write)
    }

    /// Recycles the item list of a call.
    pub(crate) fn recycle(&mut self, items: Box<Items>) {
        self.retained.recycle_items(items);
    }

    /// Performs all actions of the session for which the send queue has room, and posts the
    /// requests.
    #[inline]
    pub(crate) fn drive(
        &mut self,
        device: &D,
        scratch: &mut Scratch,
        now: u64,
        watch: &mut impl FnMut(&[u8]),
    ) {
        // Events come first: actions may already belong to the next user of a slot.
        self.take_events();
        if !self.session.is_at_rest() {
            self.drive_session(device, scratch, now, watch);
        }
    }

    fn drive_session(
        &mut self,
        device: &D,
        scratch: &mut Scratch,
        now: u64,
        watch: &mut impl FnMut(&[u8]),
    ) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.swap_batch(&mut scratch.batch);
        }
        loop {
            let mut sent = false;
            while self.has_room()
                && let Some(action) = self.session.poll_action()
            {
                self.perform(action, device, &mut scratch.receives);
            }
            while self.has_room()
                && let Some(transmit) = self.session.poll_transmit(now, &mut scratch.header)
            {
                sent = true;
                self.transmit(&transmit, &scratch.header, watch);
            }
            // A message that was sent, or one that could not be, may have created actions.
            let goes_on = sent || self.session.has_actions();
            if self.sending.is_stalled() || !goes_on || self.session.is_at_rest() {
                break;
            }
        }
        if let Some(endpoint) = &mut self.endpoint {
            self.counters.posted += endpoint.pending_requests() as u64;
            if endpoint.has_batch()
                && let Err(error) = endpoint.post()
            {
                debug!(%error, "a batch was refused");
                self.pending_action = Some(ConnectionAction::Close(CloseReason::Lost));
            }
            endpoint.swap_batch(&mut scratch.batch);
        }
        self.take_events();
    }

    /// In most cases there is no event.
    #[inline(always)]
    fn take_events(&mut self) {
        if self.session.has_events() {
            self.take_all_events();
        }
    }

    #[inline(never)]
    fn take_all_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.handle_event(event);
        }
    }

    fn has_room(&mut self) -> bool {
        let in_flight = self.endpoint.as_ref().map_or(0, Endpoint::in_flight);
        self.sending.has_room(in_flight)
    }

    fn perform(&mut self, action: Action, device: &D, receives: &mut BufCache) {
        match action {
            Action::Connect => self.pending_action = Some(ConnectionAction::Connect),
            Action::Close { reason } => self.close(reason),
            // The driver posts shared receives.
            Action::PostReceives { .. }
                if self
                    .endpoint
                    .as_ref()
                    .is_some_and(Endpoint::has_shared_receives) => {}
            Action::PostReceives { count, size } => {
                for _ in 0..count {
                    let Some(buffer) = self.receive_buffer(size, receives) else {
                        return;
                    };
                    if let Some(endpoint) = &mut self.endpoint {
                        endpoint.push_receive(buffer);
                    }
                }
            }
            Action::Expose { xid } => self.expose(xid, device),
            Action::Fence { xid, invalidated } => self.fence(xid, invalidated),
            Action::Read {
                call,
                buffer,
                inline,
            } => self.read(call, buffer, inline),
            Action::Gather { call, message } => self.read_reassembled(call, message),
            Action::Free { message } => self.release_message(message),
        }
    }

    /// Closes the connection, at once or after everything that was sent has arrived.
    #[cold]
    fn close(&mut self, reason: CloseReason) {
        let waits = reason == CloseReason::Drained
            && self
                .endpoint
                .as_ref()
                .is_some_and(|endpoint| endpoint.in_flight() > 0);
        if !(waits && self.push_probe(WrContext::BeforeClose(reason))) {
            self.pending_action = Some(ConnectionAction::Close(reason));
        }
    }

    /// The same as `take_buf`, outside of the hot path.
    #[cold]
    fn take_buf_cold(&mut self, bytes: u32) -> Option<Buf> {
        self.take_buf(bytes)
    }

    /// Takes a buffer. Without it the connection is closed.
    #[inline(always)]
    fn take_buf(&mut self, bytes: u32) -> Option<Buf> {
        let taken = self.pool.take(bytes);
        self.or_close(taken)
    }

    /// Returns the buffer that was taken. Without it the connection is closed.
    // spec: rfc8166-4.5.4-b
    #[inline(always)]
    fn or_close<T>(&mut self, taken: Result<T, MemoryError>) -> Option<T> {
        match taken {
            Ok(buf) => Some(buf),
            Err(error) => {
                self.pending_action = Some(close_without_memory(&error));
                None
            }
        }
    }

    /// Processes a completion. Returns false if the queue pair has failed, by a fence or by another
    /// request: then the connection is closed, and the memory of unfenced calls is released with
    /// it.
    // spec: rfc8166-4.5.4-a
    pub(crate) fn complete(&mut self, completion: &Completion) -> bool {
        let Some(endpoint) = &mut self.endpoint else {
            return true;
        };
        self.counters.completed += 1;
        match endpoint.complete(completion) {
            CompletionKind::Receive(buf, Status::Success) => {
                self.received(buf, completion.invalidated);
                true
            }
            CompletionKind::Receive(..) => false,
            CompletionKind::Requests(status) => {
                while let Some((work, is_last)) = self.endpoint.as_mut().and_then(Endpoint::retire)
                {
                    self.request_completed(work, !is_last || status == Status::Success);
                }
                status == Status::Success
            }
            CompletionKind::Unknown => true,
        }
    }

    /// Processes the completion of a shared receive with a message for this connection. Returns
    /// false if the queue pair has failed.
    pub(crate) fn complete_shared(&mut self, completion: &Completion, buf: ReceiveBuffer) -> bool {
        // The completion may belong to an earlier queue pair.
        let outgoing =
            |endpoint: &&Endpoint<D, WrContext>| endpoint.pair().number() == completion.queue_pair;
        if self.endpoint.as_ref().filter(outgoing).is_none() {
            return true;
        }
        self.counters.completed += 1;
        let done = completion.status == Status::Success;
        if done {
            self.received(buf, completion.invalidated);
        }
        done
    }

    fn request_completed(&mut self, work: WrContext, done: bool) {
        match work {
            WrContext::Send(what) => self.released(what),
            WrContext::Read(call) if done => {
                self.idle.reads += 1;
                self.session.read_done(call);
            }
            WrContext::Probe => self.idle.reads += u64::from(done),
            WrContext::Fence(xid) if done => self.fenced(xid),
            WrContext::Fence(xid) => self.exposer.fence_flushed(xid),
            WrContext::BeforeClose(reason) => {
                self.pending_action = Some(ConnectionAction::Close(reason))
            }
            WrContext::Intermediate | WrContext::Read(_) => {}
        }
    }

    #[inline]
    fn handle_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Ready { version } => {
                info!(peer = %self.peer, version = version.number(), "connected");
                self.events.push(DriverEvent::Ready(version));
            }
            SessionEvent::CallArrived { call, xid, message } => {
                if logs_calls() {
                    self.log_arrived(xid, &message);
                }
                if let Some(message) = self.call_payload(call, message) {
                    self.events
                        .push(DriverEvent::CallArrived { call, xid, message });
                }
            }
            SessionEvent::CallEnded { call, .. } => self.end_served_call(call),
            SessionEvent::ReplyArrived { xid, reply } => {
                if let Some(message) = self.reply_payload(xid, reply) {
                    self.events.push(DriverEvent::ReplyArrived { xid, message });
                }
            }
            SessionEvent::CallFailed { xid, error, sent } => self.call_failed(xid, error, sent),
            SessionEvent::GroupFailed {
                report,
                sent_here: outgoing,
            } => {
                debug!(error = %report.why, outgoing, "a group of transmissions was broken")
            }
            SessionEvent::PropertiesChanged
            | SessionEvent::PropertyAnswered { .. }
            | SessionEvent::PeerError { .. } => {}
            SessionEvent::Operation { operation } => drop(self.retained.release(operation.buffer)),
            SessionEvent::Closed { reason, is_final } => {
                self.log_closed(reason);
                self.events.push(DriverEvent::Closed { reason, is_final });
            }
        }
    }

    /// Ends the queue pair and everything that was posted to it.
    pub(crate) fn lost(&mut self, now: u64, reason: CloseReason) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint
                .close()
                .for_each(|work| self.request_completed(work, false));
        }
        self.end_exposures();
        self.sending.reset_queue();
        self.pending_action = None;
        self.wants_address = false;
        self.reset_idle();
        self.session.lost(now, reason);
    }
}

/// Closes a connection for which no memory is available.
#[cold]
fn close_without_memory(error: &MemoryError) -> ConnectionAction {
    warn!(%error, "a connection is given up for want of memory");
    ConnectionAction::Close(CloseReason::Lost)
}
