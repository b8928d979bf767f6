//! Receives from the socket to the memory of receives and RDMA Reads, and to exposed memory.
//! `Memory` answers whether the peer may access memory, `IwarpStream` of `rpcrdma_iwarp` has the
//! protocol, and `StreamEnd` decides the statuses with which an error ends the connection.
//!
//! Exposed memory is checked when its header arrives, and again, with the table locked, when
//! payload is placed: for writing if it is a region, since several queue pairs can write to it. A
//! message without a receive stalls the stream (`stalled`): nothing is read until a receive is
//! posted, which marks the queue pair, or until `receive_timeout` has passed.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{
    FpduDestination, FpduProgress, IwarpEvent, IwarpStream, Placement, ReceiveRoom, StagAccess,
    StagError, Terminate, TerminateCode,
};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags};

use super::arrival_timer::ArrivalTimer;
use super::send_queue::Stage;
use super::{Qp, QpPhase, QpState, stag_error};
use crate::provider::common::domain::{BufferUse, RemoteError, total_length};
use crate::provider::common::receives::{PostedReceive, ReceiveQueue};
use crate::provider::iwarp::memory::Parts;
use crate::provider::iwarp::socket;
use crate::provider::{RemoteMemory, Sge, Status};

/// The state of the incoming stream in addition to that of the protocol.
#[derive(Default, Debug)]
pub(super) struct Incoming {
    /// The receive of the arriving message.
    pub(super) receive: Option<PostedReceive>,
    /// The time since which a message waits for a receive.
    pub(super) stalled: Option<Instant>,
    /// The received data that wait behind this message.
    leftover: Vec<u8>,
    /// The number of system calls that have received something.
    pub(super) received: u64,
    /// True if the peer has ended the stream: the end follows the data, without another event.
    has_ended: bool,
    /// For the number of an FPDU.
    fpdu_timer: ArrivalTimer,
    /// For the bytes of a message.
    message_timer: ArrivalTimer,
}

/// Behind a segment of at least this many bytes only the next header is received: the payload
/// behind it goes directly to its destination. Shorter segments are received together with other
/// data into a buffer, and copied.
const BULK: usize = 4096;

/// The bytes of the end of an FPDU and the header of the next one.
const HEADER: usize = 40;

/// The maximum system calls for one queue pair before others have their turn.
const CALLS: usize = 16;

/// The end of a connection: the statuses with which the oldest request and the receive of the
/// arriving message complete.
struct StreamEnd(Status, Status);

impl StreamEnd {
    const LOST: Self = Self(Status::Flushed, Status::Flushed);

    /// After an error of the peer.
    const fn refused(terminate: &Terminate) -> Self {
        Self(
            Status::Flushed,
            match terminate.code {
                TerminateCode::DDP_TOO_LONG => Status::LocalLength,
                TerminateCode::RDMAP_CANNOT_INVALIDATE => Status::RemoteInvalidRequest,
                _ => Status::Flushed,
            },
        )
    }
}

/// Answers the protocol's questions about memory.
struct Memory<'a> {
    qp: &'a Qp,
    receives: &'a mut ReceiveQueue<Qp>,
    current: &'a mut Option<PostedReceive>,
}

impl Placement for Memory<'_> {
    fn check(
        &mut self,
        stag: u32,
        offset: u64,
        len: u64,
        access: StagAccess,
    ) -> Result<(), StagError> {
        let write = match access {
            StagAccess::Write => true,
            StagAccess::Read => false,
            // The stream has checked that the response fits the request.
            StagAccess::ReadResponse => return Ok(()),
        };
        let memory = RemoteMemory {
            address: offset,
            key: stag,
        };
        let length = u32::try_from(len).map_err(|_| StagError::Bounds)?;
        let table = self.qp.domain.read();
        let checked = table.check_remote(memory, length, write, self.qp.number);
        checked.map_err(stag_error)
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        // rfc: 5041-7.1-b, 5041-7.1-c, 5041-7.1-d, 5041-7.1-e
        if self.current.is_none() {
            *self.current = self.qp.take_receive(self.receives);
        }
        let Some(current) = self.current else {
            return match self.qp.receive_timeout {
                Some(_) => ReceiveRoom::Later,
                None => ReceiveRoom::Missing,
            };
        };
        let slices = current.slices.all();
        match self
            .qp
            .domain
            .read()
            .check_local(slices, BufferUse::Receive)
        {
            Ok(()) => ReceiveRoom::Bytes(total_length(slices)),
            Err(_) => ReceiveRoom::Bytes(0),
        }
    }

    fn may_invalidate(&mut self, stag: u32) -> bool {
        self.qp.domain.read().may_invalidate(stag, self.qp.number)
    }
}

impl Qp {
    /// Receives from the socket. Returns true if it may have more.
    pub(super) fn receive(&self, state: &mut QpState, staging: &mut [u8], has_ended: bool) -> bool {
        state.incoming.has_ended |= has_ended;
        let has_more = self.receive_some(state, staging);
        if !has_more {
            self.limit_arrival(state);
        }
        has_more
    }

    fn receive_some(&self, state: &mut QpState, staging: &mut [u8]) -> bool {
        // rfc: 5041-3-j, 5041-3-k, 5044-7.2-a
        if state.incoming.stalled.is_some() {
            let waiting = std::mem::take(&mut state.incoming.leftover);
            let taken = self.consume(state, &waiting);
            self.after(state, taken);
        }
        for _ in 0..CALLS {
            if state.phase != QpPhase::Ready || state.incoming.stalled.is_some() {
                return false;
            }
            let received = self.receive_once(state, staging);
            match received {
                Ok(Some(is_drained)) => {
                    self.after(state, Ok(()));
                    if is_drained && !state.incoming.has_ended {
                        return false;
                    }
                }
                Ok(None) => return false,
                Err(ended) => self.after(state, Err(ended)),
            }
        }
        true
    }

    /// Fails the queue pair if an FPDU, or the next segment of a message, has not arrived in time.
    fn limit_arrival(&self, state: &mut QpState) {
        let QpState {
            stream: Some(stream),
            incoming,
            ..
        } = state
        else {
            return;
        };
        // The time of a message that waits for a receive is limited by `after`.
        let receives = incoming.stalled.is_none();
        let fpdu = stream.arriving().filter(|_| receives);
        let message = stream.partial_message().filter(|_| receives);
        let (clock, timeout) = (Instant::now, self.fpdu_timeout);
        let left = [
            incoming.fpdu_timer.left(fpdu, clock, timeout),
            incoming
                .message_timer
                .left(message.map(u64::from), clock, timeout),
        ];
        match left.into_iter().flatten().min() {
            None => {}
            Some(Duration::ZERO) => {
                tracing::debug!(
                    queue_pair = self.number,
                    "a message has not arrived in time"
                );
                let code = TerminateCode::RDMAP_STREAM_CATASTROPHIC;
                stream.terminate(&Terminate::new(code));
                self.fail(state, (Status::Flushed, Status::Flushed));
            }
            Some(left) => self.completions.set_timer(self.number, left),
        }
    }

    /// Fails the queue pair if the stream has ended, or if a message has waited too long.
    fn after(&self, state: &mut QpState, taken: Result<(), StreamEnd>) {
        // rfc: 5041-7.1-b, 5041-7.1-c, 5041-7.1-d
        let mut ended = taken.err();
        if let (Some(since), Some(timeout)) = (state.incoming.stalled, self.receive_timeout) {
            match timeout.checked_sub(since.elapsed()) {
                Some(left) if !left.is_zero() => self.completions.set_timer(self.number, left),
                _ => {
                    let terminate = Terminate::new(TerminateCode::DDP_NO_BUFFER);
                    if let Some(stream) = &mut state.stream {
                        stream.terminate(&terminate);
                    }
                    ended = Some(StreamEnd::refused(&terminate));
                }
            }
        }
        if let Some(StreamEnd(request, receive)) = ended {
            self.fail(state, (request, receive));
        }
    }

    /// Makes one system call, and processes its data. Returns whether the socket is empty now, or
    /// `None` if it had no data.
    fn receive_once(
        &self,
        state: &mut QpState,
        staging: &mut [u8],
    ) -> Result<Option<bool>, StreamEnd> {
        let place = match self
            .advance(state, &[])
            .map_err(|t| StreamEnd::refused(&t))?
            .1
        {
            FpduProgress::Place { destination, len } => Some((destination, len)),
            _ => None,
        };
        let last = state.stream.as_ref().map_or(0, IwarpStream::last_ulpdu);
        let wanted = if last < BULK { staging.len() } else { HEADER };
        let staging = &mut staging[..wanted];
        let placed = match place {
            None => None,
            Some((destination, len)) => {
                let received = self.receive_placed(state, (destination, len), staging)?;
                received.map(|received| (received, len))
            }
        };
        let (received, placed) = match (placed, &state.socket) {
            (Some(placed), _) => placed,
            (None, Some(socket)) => (socket::receive(socket, staging), 0),
            (None, None) => return Err(StreamEnd::LOST),
        };
        match received {
            Ok(0) => Err(StreamEnd::LOST),
            Ok(count) => {
                state.incoming.received += 1;
                let rest = count.saturating_sub(placed);
                self.consume(state, &staging[..rest])?;
                Ok(Some(count < placed + wanted))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => Ok(Some(false)),
            Err(_) => Err(StreamEnd::LOST),
        }
    }

    /// Receives payload directly into its destination, and the data after it into `staging`.
    /// Returns `None` if the peer may not access the destination any more.
    fn receive_placed(
        &self,
        state: &mut QpState,
        (destination, len): (FpduDestination, usize),
        staging: &mut [u8],
    ) -> Result<Option<rustix::io::Result<usize>>, StreamEnd> {
        self.with_target(state, destination, len, |stream, socket, parts| {
            let mut into = parts.to_receive();
            into.push(IoSliceMut::new(staging));
            let mut control = RecvAncillaryBuffer::default();
            let flags = RecvFlags::DONTWAIT;
            let received = rustix::net::recvmsg(socket, &mut into, &mut control, flags)?.bytes;
            drop(into);
            parts
                .first(received.min(len) as u64)
                .bytes()
                .for_each(|bytes| stream.placed(bytes));
            Ok(received)
        })
    }

    /// Passes the memory of the destination to a function, while it is valid. Returns `None` if the
    /// peer may not access it any more: then the stream drops the payload.
    fn with_target<T>(
        &self,
        state: &mut QpState,
        destination: FpduDestination,
        len: usize,
        use_it: impl FnOnce(&mut IwarpStream, &OwnedFd, Parts<'_>) -> T,
    ) -> Result<Option<T>, StreamEnd> {
        let QpState {
            stream: Some(stream),
            socket: Some(socket),
            incoming,
            sends,
            ..
        } = state
        else {
            return Err(StreamEnd::LOST);
        };
        let length = len as u64;
        let parts = match destination {
            FpduDestination::Receive { offset, .. } => {
                let receive = incoming.receive.as_ref().ok_or(StreamEnd::LOST)?;
                Parts::new(receive.slices.all(), offset.into(), length)
            }
            FpduDestination::Sink { offset } => {
                let read = sends.reads.front();
                let request = read.and_then(|number| sends.get(*number));
                let request = request.ok_or(StreamEnd::LOST)?;
                Parts::new(request.slices.all(), offset, length)
            }
            FpduDestination::Tagged { stag, offset } => {
                // A segment has less than 64 KiB.
                let target = Sge {
                    address: offset,
                    length: u32::try_from(len).map_err(|_| StreamEnd::LOST)?,
                    key: stag,
                };
                let used = self.with_exposed(&target, |parts| use_it(stream, socket, parts));
                let refused = |error| stream.refuse_placement(stag_error(error));
                return Ok(used.map_err(refused).ok());
            }
        };
        Ok(Some(use_it(stream, socket, parts)))
    }

    /// Passes memory that the peer writes to a function, while the table of keys is locked. It was
    /// checked when its header arrived, and may have ended since.
    fn with_exposed<T>(
        &self,
        target: &Sge,
        use_it: impl FnOnce(Parts<'_>) -> T,
    ) -> Result<T, RemoteError> {
        let &Sge {
            address,
            length,
            key,
        } = target;
        let parts = Parts::new(std::slice::from_ref(target), 0, length.into());
        let to = RemoteMemory { address, key };
        let table = self.domain.read();
        if !table.is_region(key) {
            table.check_remote(to, length, true, self.number)?;
            return Ok(use_it(parts));
        }
        drop(table);
        // Several queue pairs can write to a region.
        let table = self.domain.write();
        table.check_remote(to, length, true, self.number)?;
        Ok(use_it(parts))
    }

    fn advance(
        &self,
        state: &mut QpState,
        bytes: &[u8],
    ) -> Result<(usize, FpduProgress), Terminate> {
        let QpState {
            stream: Some(stream),
            receives,
            incoming,
            ..
        } = state
        else {
            return Ok((bytes.len(), FpduProgress::NeedInput));
        };
        let mut memory = Memory {
            qp: self,
            receives,
            current: &mut incoming.receive,
        };
        stream.advance(bytes, &mut memory)
    }

    /// Processes bytes of the stream.
    fn consume(&self, state: &mut QpState, mut bytes: &[u8]) -> Result<(), StreamEnd> {
        loop {
            let advanced = self.advance(state, bytes);
            let (taken, progress) = advanced.map_err(|t| StreamEnd::refused(&t))?;
            bytes = &bytes[taken..];
            // A message without payload may take no bytes of its FPDU when it gets a receive.
            if progress != FpduProgress::Stalled {
                state.incoming.stalled = None;
            }
            match progress {
                FpduProgress::NeedInput => return Ok(()),
                FpduProgress::Stalled => {
                    state.incoming.leftover = bytes.to_vec();
                    state.incoming.stalled.get_or_insert_with(Instant::now);
                    return Ok(());
                }
                FpduProgress::Place { destination, len } => {
                    let (part, rest) = bytes.split_at(len.min(bytes.len()));
                    if part.is_empty() {
                        return Ok(());
                    }
                    let place = |stream: &mut IwarpStream, _: &OwnedFd, parts: Parts<'_>| {
                        parts.write(part);
                        stream.placed(part);
                    };
                    let placed = self.with_target(state, destination, part.len(), place)?;
                    if placed.is_some() {
                        bytes = rest;
                    }
                }
                FpduProgress::Event(event) => self.handle(state, event)?,
            }
        }
    }

    fn handle(&self, state: &mut QpState, event: IwarpEvent) -> Result<(), StreamEnd> {
        // rfc: 5040-5.1-g, 5040-5.3-m, 5040-5.4-g, 5040-5.5-e, 5040-5.5-f, 5040-5.5-l, 5040-5.5-n
        // rfc: 5040-5.5-o, 5040-5.5-q
        match event {
            IwarpEvent::Received {
                len, invalidate, ..
            } => {
                let receive = state.incoming.receive.take().ok_or(StreamEnd::LOST)?;
                if let Some(key) = invalidate {
                    self.domain.write().invalidate(key, Some(self.number));
                }
                let succeeded = (Status::Success, len);
                state.received_invalidating(self.number, receive.id, succeeded, invalidate);
            }
            // The next call sends the response.
            IwarpEvent::Written { .. } | IwarpEvent::ReadRequested(_) => {}
            IwarpEvent::ReadDone => {
                if let Some(number) = state.sends.reads.pop_front() {
                    state.sends.set_stage(number, Stage::Done);
                }
            }
            IwarpEvent::Terminated(terminate) => {
                tracing::debug!(
                    queue_pair = self.number,
                    code = ?terminate.code,
                    "the peer has terminated the connection"
                );
                return Err(StreamEnd(self.refusal(state, &terminate), Status::Flushed));
            }
        }
        Ok(())
    }

    /// Returns the status of the oldest request after the peer has sent a Terminate. Sends and RDMA
    /// Writes complete when they are sent, so only an RDMA Read can be the cause.
    fn refusal(&self, state: &QpState, terminate: &Terminate) -> Status {
        let of_memory = (terminate.code.layer, terminate.code.error_type) == (0, 1);
        if of_memory && !state.sends.reads.is_empty() {
            Status::RemoteAccess
        } else {
            Status::Flushed
        }
    }
}
