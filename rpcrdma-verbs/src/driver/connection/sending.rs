//! Sending messages, and the RDMA Writes that precede them.
//!
//! This module decides how each message of the engine is posted (inline, from a copy, or gathered)
//! and which Sends are signaled. Each message must be passed to `released` once: at once if
//! everything was copied, otherwise when its Send completes. A send queue with more than
//! `max_in_flight` requests must contain a signaled one, for whose completion the connection waits.

use std::ops::Range;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{
    PayloadPiece, SendOwner, ServedCallId, TransmissionIndex, Transmit,
};
use rpcrdma_proto::placement::{MAX_GAP, MAX_RUNS};

use super::logging::logs_calls;
use super::{Connection, WrContext, close_without_memory};
use crate::driver::message::Message;
use crate::memory::{Buf, MemoryError, Pool, PostedBuf};
use crate::provider::{Capabilities, Device, Operation, RemoteMemory};
use crate::queue::{BufRange, MAX_SGE};

/// One in this many requests is signaled, which frees the places of the others in the send queue.
const SIGNAL_INTERVAL: u32 = 16;

/// The limits of Sends and of the send queue, and the state of the message that is being sent.
#[derive(Debug)]
pub(super) struct SendState {
    /// The maximum number of scatter/gather entries and of inline bytes of a Send.
    max_sge: usize,
    max_inline: u32,
    /// If more requests are in flight, the requests of one more message may not fit.
    max_in_flight: usize,
    /// True while the connection waits for room in the send queue.
    is_stalled: bool,
    /// The number of Sends since the last one that was signaled.
    unsignaled: u32,
    /// The pieces that follow the header of the message that is being sent.
    pieces: Vec<PayloadPiece>,
    /// True if the group of transmissions that is being sent refers to memory that was not copied.
    has_uncopied_data: bool,
    /// Zeros that are sent between data.
    zeros: Option<PostedBuf>,
}

impl SendState {
    pub(super) fn new(capabilities: &Capabilities, max_in_flight: usize) -> Self {
        Self {
            max_sge: capabilities.max_sge.min(MAX_SGE),
            max_inline: capabilities.max_inline,
            max_in_flight,
            is_stalled: false,
            unsignaled: 0,
            pieces: Vec::new(),
            has_uncopied_data: false,
            zeros: None,
        }
    }

    /// Forgets the requests of the last send queue.
    pub(super) fn reset_queue(&mut self) {
        self.unsignaled = 0;
    }

    /// Returns true if the requests of one more message fit. If not, the connection is stalled.
    #[inline(always)]
    pub(super) fn has_room(&mut self, in_flight: usize) -> bool {
        self.is_stalled = in_flight > self.max_in_flight;
        !self.is_stalled
    }

    /// Returns true while the connection waits for room in the send queue.
    #[inline(always)]
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Decides whether the next Send is signaled, and returns its context if something waits for
    /// it.
    #[inline]
    fn next_signal(&mut self, what: SendOwner, waits: bool) -> (bool, Option<WrContext>) {
        self.unsignaled += 1;
        let signaled = waits || self.unsignaled >= SIGNAL_INTERVAL;
        if signaled {
            self.unsignaled = 0;
        }
        (signaled, waits.then_some(WrContext::Send(what)))
    }

    /// Returns how many pieces of a transmission are copied. The pieces after them are gathered.
    fn copied_pieces(&self, pieces: &[PayloadPiece], share: TransmissionIndex) -> usize {
        // While one transmission of a group refers to data, another cannot copy them.
        let is_alone = share.number == 0 && share.last;
        let gathers =
            sge_count(pieces) <= self.max_sge && (is_alone || self.max_sge >= TRANSMISSION_SGE);
        pieces
            .iter()
            .position(|piece| gathers && matches!(piece, PayloadPiece::Data(_)))
            .unwrap_or(pieces.len())
    }

    /// Returns the buffer of zeros. The engine never requests more zeros at once.
    fn zeros<D: Device>(&mut self, pool: &Pool<D>) -> Result<PostedBuf, MemoryError> {
        if let Some(zeros) = &self.zeros {
            return Ok(zeros.clone());
        }
        let mut buf = pool.take(MAX_GAP)?;
        buf.as_full_mut().fill(0);
        buf.set_len(MAX_GAP);
        Ok(self.zeros.insert(buf.into()).clone())
    }
}

impl<D: Device> Connection<D> {
    /// Sends a message whose header is in the scratch memory.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        transmit: &Transmit,
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) {
        if let Some(share) = transmit.transmission {
            return self.send_transmission(transmit, share, scratch, watch);
        }
        let Transmit {
            owner: what,
            header,
            inline,
            ..
        } = *transmit;
        if logs_calls() {
            self.trace(what, scratch);
        }
        let total = u32::try_from(header)
            .unwrap_or(u32::MAX)
            .saturating_add(inline);
        let writes = match what {
            SendOwner::Reply { call } if self.session.has_writes(call) => self.push_writes(call),
            _ => Some(false),
        };
        let sent = |waits: &bool| {
            let how = (total, *waits);
            self.send_inline(transmit, how, scratch, watch)
                || self.send_buffered(transmit, how, scratch, watch)
        };
        let Some(waits) = writes.filter(sent) else {
            // The connection will be closed, and no request refers to the message.
            return self.released(what);
        };
        self.counters.copied += u64::from(inline);
        self.counters.sends += 1;
        if !waits {
            // Everything was copied.
            self.released(what);
        }
    }

    /// Posts a message as an inline Send. Returns false if it is too long for the device.
    #[inline(always)]
    fn send_inline(
        &mut self,
        transmit: &Transmit,
        (total, waits): (u32, bool),
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) -> bool {
        let Self {
            session,
            slots,
            endpoint: Some(endpoint),
            sending,
            ..
        } = self
        else {
            return false;
        };
        let Some(out) = (total <= sending.max_inline)
            .then(|| endpoint.inline_room(total))
            .flatten()
        else {
            return false;
        };
        let Transmit {
            owner: what,
            header,
            invalidate,
            ..
        } = *transmit;
        write_message(
            slots.message_mut(session, what),
            session.inline_parts(what),
            (scratch, header),
            out,
        );
        watch(out);
        let (signaled, work) = sending.next_signal(what, waits);
        endpoint.push_inline(invalidate, total, signaled, work);
        true
    }

    /// Posts a message in a buffer. Returns false if there is no buffer.
    fn send_buffered(
        &mut self,
        transmit: &Transmit,
        (total, waits): (u32, bool),
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) -> bool {
        let Some(mut buf) = self.take_buf(total) else {
            return false;
        };
        let Transmit {
            owner: what,
            header,
            invalidate,
            ..
        } = *transmit;
        let Self { session, slots, .. } = self;
        write_message(
            slots.message_mut(session, what),
            session.inline_parts(what),
            (scratch, header),
            buf.as_full_mut(),
        );
        buf.set_len(total);
        watch(&buf);
        let (signaled, work) = self.sending.next_signal(what, waits);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.push_whole(
                Operation::Send { invalidate },
                buf,
                signaled,
                work.unwrap_or(WrContext::Intermediate),
            );
        }
        true
    }

    /// Returns the message of a call or a reply.
    fn message(&mut self, what: SendOwner) -> Option<&mut Message> {
        self.slots.message_mut(&self.session, what)
    }

    /// Posts a Send.
    fn send(
        &mut self,
        what: SendOwner,
        invalidate: Option<u32>,
        parts: ArrayVec<BufRange, MAX_SGE>,
        waits: bool,
    ) {
        let (signaled, work) = self.sending.next_signal(what, waits);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.push(
                Operation::Send { invalidate },
                parts,
                signaled,
                work.unwrap_or(WrContext::Intermediate),
            );
        }
    }

    /// Sends one transmission of a group, or a message with placed data. The header, the stream and
    /// the zeros before the data are copied; the data are gathered.
    fn send_transmission(
        &mut self,
        transmit: &Transmit,
        share: TransmissionIndex,
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) {
        let what = transmit.owner;
        let written = if share.number == 0 {
            self.begin_group(what, scratch)
        } else {
            Some(false)
        };
        let mut pieces = std::mem::take(&mut self.sending.pieces);
        pieces.clear();
        pieces.extend(self.session.payload_pieces(transmit));
        let (copied, data) = pieces.split_at(self.sending.copied_pieces(&pieces, share));
        let header = scratch.get(..transmit.header).unwrap_or_default();
        let head = written.and_then(|_| self.copy_head(what, header, copied));
        let sent = head.and_then(|head| {
            watch(&head);
            let mut parts = ArrayVec::<BufRange, MAX_SGE>::new();
            parts.push(BufRange {
                offset: 0,
                length: head.len() as u32,
                buf: head.into(),
            });
            self.add_data(what, data, &mut parts).then_some(parts)
        });
        self.sending.has_uncopied_data |= !data.is_empty();
        self.sending.pieces = pieces;
        let waits = share.last && self.sending.has_uncopied_data;
        let is_sent = sent.is_some();
        if let Some(parts) = sent {
            self.counters.sends += 1;
            self.send(what, transmit.invalidate, parts, waits);
        }
        // If it is not sent, the connection will be closed, which returns the rest of the group.
        if share.last && !(is_sent && waits) {
            self.released(what);
        }
    }

    /// Begins a group of transmissions: writes a reply to the peer's chunks. Returns the same as
    /// `push_writes`.
    fn begin_group(&mut self, what: SendOwner, header: &[u8]) -> Option<bool> {
        if logs_calls() {
            self.trace(what, header);
        }
        let written = match what {
            SendOwner::Reply { call } => self.push_writes(call),
            _ => Some(false),
        };
        self.sending.has_uncopied_data = written == Some(true);
        written
    }

    /// Returns a buffer with a header and the pieces that follow it.
    fn copy_head(
        &mut self,
        what: SendOwner,
        header: &[u8],
        pieces: &[PayloadPiece],
    ) -> Option<Buf> {
        let bytes: u32 = pieces.iter().map(length).sum();
        let total = u32::try_from(header.len())
            .unwrap_or(u32::MAX)
            .saturating_add(bytes);
        let mut buf = self.take_buf_cold(total)?;
        let (start, mut rest) = buf.as_full_mut().split_at_mut_checked(header.len())?;
        start.copy_from_slice(header);
        let mut copied = 0;
        for piece in pieces {
            let (out, after) = rest.split_at_mut_checked(length(piece) as usize)?;
            match piece {
                PayloadPiece::Zeros(_) => out.fill(0),
                PayloadPiece::Bytes(range) | PayloadPiece::Data(range) => {
                    self.message(what)?.copy(range.clone(), out);
                    copied += u64::from(length(piece));
                }
            }
            rest = after;
        }
        self.counters.copied += copied;
        buf.set_len(total);
        Some(buf)
    }

    /// Adds data, and the zeros between them, as references. Returns false if there is no memory
    /// for zeros.
    fn add_data(
        &mut self,
        what: SendOwner,
        pieces: &[PayloadPiece],
        parts: &mut ArrayVec<BufRange, MAX_SGE>,
    ) -> bool {
        for piece in pieces {
            let part = match piece {
                PayloadPiece::Zeros(count) => self.take_zeros().map(|buf| BufRange {
                    buf,
                    offset: 0,
                    length: *count,
                }),
                PayloadPiece::Bytes(range) | PayloadPiece::Data(range) => {
                    let source = self
                        .message(what)
                        .and_then(|message| message.source_at(range.start));
                    source.map(|(buf, from)| BufRange {
                        buf: buf.clone(),
                        offset: from,
                        length: range.end - range.start,
                    })
                }
            };
            let Some(part) = part else { return false };
            if parts.try_push(part).is_err() {
                return false;
            }
        }
        true
    }

    /// Returns the buffer of zeros. Without it the connection is closed.
    fn take_zeros(&mut self) -> Option<PostedBuf> {
        let taken = self.sending.zeros(&self.pool);
        self.or_close(taken)
    }

    /// Writes a reply to the peer's chunks. Returns whether there are any, or `None` if there is no
    /// memory.
    fn push_writes(&mut self, call: ServedCallId) -> Option<bool> {
        let Some(incoming) = self.slots.incoming_mut(self.session.served_slot(call)) else {
            return Some(false);
        };
        let Some(endpoint) = &mut self.endpoint else {
            return Some(false);
        };
        let mut any = false;
        for write in self.session.writes(call) {
            let (part, copied) = match incoming.reply_range(write.range, &self.pool) {
                Ok(part) => part,
                Err(error) => {
                    self.pending_action = Some(close_without_memory(&error));
                    return None;
                }
            };
            self.counters.copied += u64::from(copied);
            let to = RemoteMemory {
                address: write.target.offset,
                key: write.target.handle,
            };
            endpoint.push(
                Operation::Write { to },
                [part],
                false,
                WrContext::Intermediate,
            );
            self.counters.writes += 1;
            any = true;
        }
        Some(any)
    }
}

/// Writes a header, and the parts of a message that follow it.
#[inline(always)]
fn write_message(
    message: Option<&mut Message>,
    parts: impl Iterator<Item = Range<u32>>,
    (scratch, header): (&[u8], usize),
    out: &mut [u8],
) {
    if let (Some(out), Some(scratch)) = (out.get_mut(..header), scratch.get(..header)) {
        out.copy_from_slice(scratch);
    }
    let Some(message) = message else { return };
    let mut at = header;
    for part in parts {
        let end = at + (part.end - part.start) as usize;
        message.copy(part, out.get_mut(at..end).unwrap_or_default());
        at = end;
    }
}

/// The number of scatter/gather entries that any transmission of a group needs: header, runs of
/// data, and zeros between the runs.
const TRANSMISSION_SGE: usize = 2 * MAX_RUNS;

/// Returns the length of a piece.
const fn length(piece: &PayloadPiece) -> u32 {
    match piece {
        PayloadPiece::Zeros(count) => *count,
        PayloadPiece::Bytes(range) | PayloadPiece::Data(range) => range.end - range.start,
    }
}

/// Returns the number of scatter/gather entries of a Send. All pieces before the data share one.
fn sge_count(pieces: &[PayloadPiece]) -> usize {
    1 + pieces
        .iter()
        .skip_while(|piece| !matches!(piece, PayloadPiece::Data(_)))
        .count()
}
