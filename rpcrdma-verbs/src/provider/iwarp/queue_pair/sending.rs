//! Executes posted requests: sends them, and the responses to the peer's Reads, to the socket.
//! `pump` is the entry: it is called after each post, after each receive, and after the setup.
//!
//! Payload is sent from its memory; only messages of at most `COPIED` bytes and inline bytes are
//! copied. The keys of posted memory are checked when a request begins. Memory that the peer reads
//! is looked up again for each system call, with the table of keys locked until it returns: its
//! window or region may have ended. After a Terminate nothing is framed (RFC 5040, section 7.1).
//! Requests and responses take turns, and a Read that waits for others does not hold up responses.

use std::io::IoSlice;

use arrayvec::ArrayVec;
use rpcrdma_iwarp::{
    FramerPiece, IwarpStream, OutgoingKind, OutgoingMessage, ReadRequestHeader, StagError,
    Terminate, TerminateCode,
};
use rustix::io::Errno;

use super::send_queue::{Framing, Payload, PendingRequest, SendQueue, Source, Stage};
use super::{Qp, QpPhase, QpState, stag_error};
use crate::provider::common::domain::{BufferUse, KeyTable};
use crate::provider::iwarp::memory::MAX_SGE;
use crate::provider::iwarp::socket;
use crate::provider::{Operation, RemoteMemory, Sge, Status};

/// Messages of at most this many bytes are copied after their headers, so that a batch of them is
/// one piece of the stream.
const COPIED: u64 = 1024;

/// When this many bytes are framed and not sent, framing pauses: their CRCs are computed while the
/// memory is in the caches.
const FRAMED: u64 = 1 << 18;

/// The maximum pieces of one system call.
const PIECES: usize = 64;

/// The maximum system calls for one queue pair before others have their turn.
const CALLS: usize = 16;

/// The outcome of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendOutcome {
    /// All its pieces are sent, or a signal interrupted it: it may be called again.
    All,
    /// The socket is full.
    Blocked,
    /// The connection is lost, or memory to be sent is no longer exposed.
    Lost,
}

impl Qp {
    /// Frames and sends as much as the socket accepts, and completes what is sent.
    pub(super) fn pump(&self, state: &mut QpState) {
        self.send_all(state);
        let waits = state
            .stream
            .as_ref()
            .map(|stream| state.nudges.wait(stream));
        if let Some(wait) = waits.flatten() {
            self.completions.set_timer(self.number, wait);
        }
    }

    fn send_all(&self, state: &mut QpState) {
        for _ in 0..CALLS {
            if state.phase != QpPhase::Ready {
                return;
            }
            let mut has_more = true;
            while has_more && state.unsent() < FRAMED {
                has_more = self.frame_next(state);
            }
            let flushed = self.flush(state);
            let succeeded = state.complete_sent(self.number);
            if !succeeded {
                // rfc: 5040-7.1-b
                let code = TerminateCode::RDMAP_LOCAL_CATASTROPHIC;
                state.terminate(&Terminate::new(code));
            }
            // A Terminate is the last message.
            let has_ended = state.unsent() == 0 && state.has_terminated();
            if flushed == SendOutcome::Lost || !succeeded || has_ended {
                self.fail(state, (Status::Flushed, Status::Flushed));
            }
            if flushed == SendOutcome::Blocked
                || (!has_more && state.unsent() == 0)
                || state.is_held()
            {
                return;
            }
        }
        // The peer receives as fast as this end sends: the next poll continues.
        self.completions.mark(self.number);
    }

    /// Fails the queue pair. If the stream has ended by a Terminate, first sends as much of the
    /// framed data, and of a Terminate behind them, as the socket accepts: afterwards the memory of
    /// the data is not valid.
    pub(super) fn fail(&self, state: &mut QpState, statuses: (Status, Status)) {
        // rfc: 5040-7.1-b
        if state.phase == QpPhase::Ready && state.has_terminated() {
            while state.unsent() > 0 && self.flush(state) == SendOutcome::All && !state.is_held() {}
        }
        state.fail(self, statuses);
    }

    /// Frames the next segment, or executes the next request. Returns false if there is nothing to
    /// do.
    fn frame_next(&self, state: &mut QpState) -> bool {
        // rfc: 5040-5.1-f, 5040-5.5-h, 5041-5.3-b
        let QpState {
            stream: Some(stream),
            sends,
            ..
        } = state
        else {
            return false;
        };
        if stream.has_ended() {
            return false;
        }
        if sends.framing.is_some() {
            return self.frame_segment(stream, sends);
        }
        let has_response = stream.response_at(sends.responses.next()).is_some();
        let has_request = sends.next().is_some();
        sends.responses.are_next ^= has_response && has_request;
        if has_response && (sends.responses.are_next || !has_request) {
            return self.begin_response(stream, sends);
        }
        // A Read that waits for the responses to others must not hold up responses to the peer,
        // which may wait in the same way.
        // rfc: 5040-5.2.1-m
        self.begin_request(stream, sends) || (has_response && self.begin_response(stream, sends))
    }

    fn begin_request(&self, stream: &mut IwarpStream, sends: &mut SendQueue) -> bool {
        // rfc: 5040-5.2.1-h, 5040-5.3-h, 5040-5.5-i
        let Some((number, request)) = sends.next() else {
            return false;
        };
        let stage = match request.operation {
            Operation::Send { .. } | Operation::Write { .. } => match self.check_source(request) {
                Err(status) => Stage::Failed(status),
                Ok(()) => push_message(stream, request),
            },
            Operation::Read { from } => match self.push_read(stream, number, request, from) {
                Some(stage) => stage,
                None => return false,
            },
            Operation::Bind {
                window,
                key,
                access,
            } => {
                let slice = request.slices.all().first().copied();
                let bound = slice.ok_or(Status::Bind).and_then(|slice| {
                    let mut table = self.domain.write();
                    table.bind(window, key, &slice, access, self.number)
                });
                bound.map_or_else(Stage::Failed, |()| Stage::Done)
            }
            Operation::Invalidate { key } => {
                if self.domain.write().invalidate(key, None) {
                    Stage::Done
                } else {
                    Stage::Failed(Status::LocalProtection)
                }
            }
        };
        request.stage = stage;
        let operation = request.operation;
        let length = request.payload().length() as u32;
        match stage {
            Stage::Reading => sends.reads.push_back(number),
            Stage::Framing => {
                sends.framing = Some(Framing {
                    message: message(Source::Request(number), operation, length),
                    source: Source::Request(number),
                });
            }
            _ => {}
        }
        sends.begin(matches!(stage, Stage::Failed(_)));
        true
    }

    /// Checks the memory that a message is sent from.
    fn check_source(&self, request: &PendingRequest) -> Result<(), Status> {
        match request.payload() {
            Payload::Posted(slices) if !request.inline => {
                self.domain.read().check_local(slices, BufferUse::Send)
            }
            _ => Ok(()),
        }
    }

    /// Frames the request of an RDMA Read. Returns `None` if it has to wait for others.
    fn push_read(
        &self,
        stream: &mut IwarpStream,
        number: u64,
        request: &PendingRequest,
        from: RemoteMemory,
    ) -> Option<Stage> {
        let slices = request.slices.all();
        let checked = self.domain.read().check_local(slices, BufferUse::Receive);
        if let Err(status) = checked {
            return Some(Stage::Failed(status));
        }
        // It would wait for ever.
        if stream.max_reads() == 0 {
            return Some(Stage::Failed(Status::RemoteInvalidRequest));
        }
        // It is at most the length of a message, which has 32 bits.
        let length = request.payload().length() as u32;
        // The peer can use this number only for its response.
        let sink = number as u32 | 1;
        let pushed = stream.push_read(sink, length, (from.key, from.address));
        pushed.then_some(Stage::Reading)
    }

    fn begin_response(&self, stream: &mut IwarpStream, sends: &mut SendQueue) -> bool {
        // rfc: 5040-4.4-b, 5040-5.2.1-q, 5040-5.2.2-a, 5040-5.2.2-b, 5040-5.2.2-h
        let Some(read) = stream.response_at(sends.responses.next()).copied() else {
            return false;
        };
        let number = sends.responses.begin();
        let kind = OutgoingKind::ReadResponse {
            stag: read.sink_stag,
            offset: read.sink_offset,
        };
        let source = Source::Response(number);
        sends.framing = Some(Framing {
            message: OutgoingMessage::new(source.number(), kind, read.len),
            source,
        });
        true
    }

    /// Frames the next segment of the current message. Returns false if its memory is no longer
    /// exposed: then the stream ends with a Terminate.
    fn frame_segment(&self, stream: &mut IwarpStream, sends: &mut SendQueue) -> bool {
        let Some(mut framing) = sends.framing.take() else {
            return false;
        };
        let table = self.domain.read();
        let mut of_response = ArrayVec::<Sge, 1>::new();
        let payload = match framing.source {
            Source::Request(number) => sends.get(number).map(|request| request.payload()),
            Source::Response(number) => {
                let index = sends.responses.index(number);
                let read = stream.response_at(index);
                let exposed = read.map(|read| self.exposed(&table, read, (0, read.len)));
                if let Some(Err(error)) = exposed {
                    stream.refuse_response(index, framing.message.framed(), error);
                    return false;
                }
                of_response.extend(exposed.and_then(Result::ok));
                exposed.map(|_| Payload::Posted(&of_response))
            }
        };
        let Some(payload) = payload else {
            let code = TerminateCode::RDMAP_LOCAL_CATASTROPHIC;
            stream.terminate(&Terminate::new(code));
            return false;
        };
        let pushed = {
            let parts: ArrayVec<&[u8], MAX_SGE> = payload.bytes(0, payload.length()).collect();
            stream.framer().push_segment(&mut framing.message, &parts)
        };
        let (_, position) = stream.positions();
        match (pushed, framing.source) {
            (Ok(false), _) => sends.framing = Some(framing),
            (_, Source::Request(number)) => sends.set_stage(number, Stage::Framed(position)),
            (_, Source::Response(_)) => sends.responses.end_framing(position),
        }
        true
    }

    /// Returns a range of the memory that the peer reads, if it is still exposed.
    fn exposed(
        &self,
        table: &KeyTable,
        read: &ReadRequestHeader,
        (offset, length): (u32, u32),
    ) -> Result<Sge, StagError> {
        let address = read.source_offset.wrapping_add(offset.into());
        let from = RemoteMemory {
            address,
            key: read.source_stag,
        };
        let checked = table.check_remote(from, length, false, self.number);
        let exposed = Sge {
            address,
            length,
            key: read.source_stag,
        };
        checked.map(|()| exposed).map_err(stag_error)
    }

    /// Adds the memory that the peer reads, for each of the next pieces that has it. Returns `None`
    /// if some of it is no longer exposed.
    fn add_memory_of_responses(
        &self,
        all: &mut ArrayVec<Sge, PIECES>,
        stream: &IwarpStream,
        sends: &SendQueue,
        table: &KeyTable,
    ) -> Option<()> {
        for piece in stream.pieces().take(PIECES) {
            let FramerPiece::Payload {
                message_id,
                offset,
                len,
            } = piece
            else {
                continue;
            };
            let Source::Response(number) = Source::of(message_id) else {
                continue;
            };
            let read = stream.response_at(sends.responses.index(number))?;
            // A piece is shorter than its message, whose length has 32 bits.
            all.push(self.exposed(table, read, (offset, len as u32)).ok()?);
        }
        Some(())
    }

    /// Sends the framed data in one system call.
    fn flush(&self, state: &mut QpState) -> SendOutcome {
        let (Some(stream), Some(socket)) = (&mut state.stream, &state.socket) else {
            return SendOutcome::Lost;
        };
        // The lock is held while the memory is sent: a region ends under the lock.
        let table = self.domain.read();
        if stream.pieces().next().is_none() {
            return SendOutcome::All;
        }
        // Exposed memory is looked up first, since the pieces refer to it.
        let mut of_responses = ArrayVec::new();
        let added = self.add_memory_of_responses(&mut of_responses, stream, &state.sends, &table);
        if added.is_none() {
            return SendOutcome::Lost;
        }
        let mut parts = ArrayVec::new();
        let pieces = stream.pieces().take(PIECES);
        if !gather(&mut parts, pieces, &state.sends, &of_responses) {
            return SendOutcome::Lost;
        }
        let total = parts.iter().map(|part| part.len()).sum::<usize>();
        match socket::send(socket, &parts) {
            Ok(sent) => {
                drop(parts);
                stream.framer().sent(sent);
                if sent < total {
                    SendOutcome::Blocked
                } else {
                    SendOutcome::All
                }
            }
            Err(Errno::AGAIN) => SendOutcome::Blocked,
            Err(Errno::INTR) => SendOutcome::All,
            Err(_) => SendOutcome::Lost,
        }
    }
}

/// Adds the bytes of as many pieces as there is room for. Returns false if one has no memory.
fn gather<'a>(
    parts: &mut ArrayVec<IoSlice<'a>, PIECES>,
    pieces: impl Iterator<Item = FramerPiece<'a>>,
    sends: &'a SendQueue,
    of_responses: &'a [Sge],
) -> bool {
    let mut of_responses = of_responses.iter();
    for piece in pieces {
        let has_room = match piece {
            FramerPiece::Owned(bytes) => parts.try_push(IoSlice::new(bytes)).is_ok(),
            FramerPiece::Payload {
                message_id,
                offset,
                len,
            } => {
                let payload = match Source::of(message_id) {
                    Source::Response(_) => of_responses
                        .next()
                        .map(|exposed| (Payload::Posted(std::slice::from_ref(exposed)), 0)),
                    Source::Request(number) => {
                        let request = sends.get(number);
                        request.map(|request| (request.payload(), offset))
                    }
                };
                let Some((payload, offset)) = payload else {
                    return false;
                };
                extend_whole(parts, payload.bytes(offset.into(), len as u64))
            }
        };
        if !has_room {
            break;
        }
    }
    true
}

/// Frames a short message at once, and prepares a longer one for framing. Returns the stage of its
/// request.
fn push_message(stream: &mut IwarpStream, request: &mut PendingRequest) -> Stage {
    let payload = request.payload();
    let length = payload.length();
    if length <= COPIED {
        let parts: ArrayVec<&[u8], MAX_SGE> = payload.bytes(0, length).collect();
        let framer = stream.framer();
        if framer.push_copied(kind(request.operation), &parts) {
            return Stage::Framed(framer.position());
        }
    }
    // Its segments refer to its bytes after the post returns.
    request.keep();
    Stage::Framing
}

/// Adds as many of the slices as there is room for. Returns false if one was left out: the data
/// after it must not be sent with them.
fn extend_whole<'a>(
    parts: &mut ArrayVec<IoSlice<'a>, PIECES>,
    slices: impl Iterator<Item = &'a [u8]>,
) -> bool {
    for slice in slices {
        if parts.try_push(IoSlice::new(slice)).is_err() {
            return false;
        }
    }
    true
}

fn message(source: Source, operation: Operation, length: u32) -> OutgoingMessage {
    OutgoingMessage::new(source.number(), kind(operation), length)
}

/// Returns the kind of a request's message.
const fn kind(operation: Operation) -> OutgoingKind {
    match operation {
        Operation::Write { to } => OutgoingKind::Write {
            stag: to.key,
            offset: to.address,
        },
        Operation::Send { invalidate } => OutgoingKind::Send {
            solicited: false,
            invalidate,
        },
        _ => OutgoingKind::Send {
            solicited: false,
            invalidate: None,
        },
    }
}

impl QpState {
    /// Ends the stream with a Terminate after the framed data.
    fn terminate(&mut self, terminate: &Terminate) {
        if let Some(stream) = &mut self.stream {
            stream.terminate(terminate);
        }
    }

    /// Returns the number of bytes that are framed and not sent.
    fn unsent(&self) -> u64 {
        self.stream.as_ref().map_or(0, |stream| {
            let (sent, framed) = stream.positions();
            framed - sent
        })
    }

    /// Returns true if nothing may be sent yet, although something is framed.
    fn is_held(&self) -> bool {
        let has_pieces = |stream: &IwarpStream| stream.pieces().next().is_some();
        self.unsent() > 0 && !self.stream.as_ref().is_some_and(has_pieces)
    }

    /// Returns true if nothing may follow the framed data.
    fn has_terminated(&self) -> bool {
        self.stream.as_ref().is_some_and(IwarpStream::has_ended)
    }

    /// Completes the sent requests. Returns false if a request has failed.
    fn complete_sent(&mut self, number: u32) -> bool {
        // rfc: 5040-5.5-j, 5041-3-d
        let Some(stream) = &mut self.stream else {
            return true;
        };
        let (sent, _) = stream.positions();
        while self.sends.responses.take_sent(sent) {
            stream.answered();
        }
        self.sends.complete_done(number, sent, &mut self.completed)
    }

    /// Sends the framed data, which the framer has copied: headers, short messages, a Terminate.
    pub(super) fn flush_copied(&mut self) {
        let (Some(stream), Some(socket)) = (&mut self.stream, &self.socket) else {
            return;
        };
        let bytes: Vec<u8> = stream
            .pieces()
            .flat_map(|piece| match piece {
                FramerPiece::Owned(bytes) => bytes.to_vec(),
                FramerPiece::Payload { .. } => Vec::new(),
            })
            .collect();
        if !bytes.is_empty() {
            // If there is no room for it, it is lost with the connection.
            let _ = socket::send(socket, &[IoSlice::new(&bytes)]);
        }
    }
}
