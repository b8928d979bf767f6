//! The transfers of the peer's calls and their replies: RDMA Reads, and shares in the peer's
//! limits.
//!
//! `hold` must count memory before it is taken, and closes the connection of a peer that has too
//! much. `hold` requests `TimeTransfers`, upon which `driver::turn` sets the deadline by the exact
//! clock. Only the last Read of a call is signaled, and its completion completes all.

use std::ops::Range;
use std::sync::Arc;

use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{BufferId, CloseReason, ServedCallId};
use rpcrdma_proto::continuation::{ReassembledMessage, Source};
use tracing::warn;

use super::{Connection, ConnectionAction, WrContext};
use crate::driver::peer_limits::{HeldMemory, PeerLimits, Transfer};
use crate::memory::{Buf, Pool, PostedBuf};
use crate::provider::{Device, Operation, RemoteMemory};
use crate::queue::BufRange;

/// Replies of more bytes than this count as memory of the peer until they have gone.
const COUNTED_REPLY: usize = 4096;

/// The limits of the transfers of a peer, and the earliest deadline.
#[derive(Debug)]
pub(super) struct Transfers {
    /// The limits of what the peer's calls have.
    limits: Option<Arc<dyn PeerLimits>>,
    /// A time before which no transfer has to end, in microseconds.
    due: u64,
    /// Memory for the list of the RDMA Reads of a call, with the offsets of their data in the call.
    reads: Vec<(u32, Segment)>,
}

impl Transfers {
    pub(super) const fn new() -> Self {
        Self {
            limits: None,
            due: u64::MAX,
            reads: Vec::new(),
        }
    }

    /// Takes the memory for RDMA Reads, and lists these in it.
    fn list_reads(&mut self, reads: impl Iterator<Item = (u32, Segment)>) -> Vec<(u32, Segment)> {
        let mut list = std::mem::take(&mut self.reads);
        list.clear();
        list.extend(reads);
        list
    }

    /// Sets the deadlines of the transfers that have begun.
    fn set_deadlines<'a>(&mut self, held: impl Iterator<Item = &'a mut HeldMemory>, now: u64) {
        let time = self
            .limits
            .as_ref()
            .and_then(|limits| limits.transfer_time());
        let micros = time.and_then(|time| u64::try_from(time.as_micros()).ok());
        let due = micros.map_or(Transfer::Ended, |time| {
            Transfer::Due(now.saturating_add(time))
        });
        held.filter(|held| held.transfer == Transfer::Begun)
            .for_each(|held| held.transfer = due);
        if let Transfer::Due(due) = due {
            self.due = self.due.min(due);
        }
    }

    /// Returns true if a transfer has not ended in time, and counts it.
    fn has_overdue<'a>(
        &mut self,
        held: impl Iterator<Item = &'a mut HeldMemory>,
        now: u64,
    ) -> bool {
        let dues = held.filter_map(|held| match held.transfer {
            Transfer::Due(due) => Some(due),
            _ => None,
        });
        self.due = dues.min().unwrap_or(u64::MAX);
        let is_overdue = self.due <= now;
        if let Some(limits) = self.limits.as_ref().filter(|_| is_overdue) {
            limits.timed_out();
        }
        is_overdue
    }
}

impl<D: Device> Connection<D> {
    /// Limits what the peer's calls have.
    pub(crate) fn limit_peer(&mut self, limits: Arc<dyn PeerLimits>) {
        self.transfers.limits = Some(limits);
    }

    /// Returns a time before which no transfer has to end, in microseconds.
    pub(crate) fn transfer_deadline(&self) -> u64 {
        self.transfers.due
    }

    /// Counts the memory of the reply to a call of the peer, in place of that of the call, before
    /// it is taken. If the peer has too much, the connection is closed, and false returned.
    pub(crate) fn hold_reply(&mut self, call: ServedCallId, bytes: usize) -> bool {
        // The slot of a call that has ended may be another's.
        if self.transfers.limits.is_none() || self.session.call_length(call).is_none() {
            return true;
        }
        let place = self.session.served_slot(call);
        if let Some(incoming) = self.slots.incoming_entry(place) {
            incoming.held = None;
        }
        bytes <= COUNTED_REPLY || self.hold(call, bytes)
    }

    /// Counts memory of a call of the peer, or of its reply, whose transfer begins. If the peer has
    /// too much, the connection is closed, and false returned.
    pub(super) fn hold(&mut self, call: ServedCallId, bytes: usize) -> bool {
        let Some(limits) = &self.transfers.limits else {
            return true;
        };
        if matches!(self.pending_action, Some(ConnectionAction::Close(_))) {
            return false;
        }
        let held = HeldMemory::new(limits, bytes, self.pool.is_scarce());
        if held.is_none() {
            warn!(peer = %self.peer, "a connection is closed: its peer has too much of the memory");
        }
        self.pending_action = Some(match held {
            Some(_) => ConnectionAction::TimeTransfers,
            None => ConnectionAction::Close(CloseReason::Lost),
        });
        let place = self.session.served_slot(call);
        self.slots.incoming_entry(place).is_some_and(|incoming| {
            incoming.held = held;
            incoming.held.is_some()
        })
    }

    /// Sets the deadlines of the transfers that have begun.
    pub(crate) fn time_transfers(&mut self, now: u64) {
        self.transfers.set_deadlines(self.slots.held_memory(), now);
    }

    /// Returns true if a transfer has not ended in time.
    pub(crate) fn has_overdue_transfer(&mut self, now: u64) -> bool {
        let is_overdue =
            now >= self.transfers.due && self.transfers.has_overdue(self.slots.held_memory(), now);
        if is_overdue {
            warn!(peer = %self.peer, "a connection is closed: a call or a reply took too long");
        }
        is_overdue
    }

    /// Assembles a call of the peer: copies its inline bytes, and reads the rest to its place.
    pub(super) fn read(&mut self, call: ServedCallId, buffer: BufferId, inline: Range<u32>) {
        let received = self.retained.release(buffer);
        let Some(pieces) = self.session.pieces(call) else {
            return;
        };
        let reads = self
            .transfers
            .list_reads(pieces.filter_map(|piece| match piece {
                Piece::Read { at, from } => Some((at, from)),
                _ => None,
            }));
        let Some(mut whole) = self.allocate_assembly(call, &reads) else {
            return;
        };
        let Some(pieces) = self.session.pieces(call) else {
            return;
        };
        let inline = inline.start as usize..inline.end as usize;
        let inline = received.as_ref().and_then(|buf| buf.get(inline));
        self.counters.copied += whole.copy_inline(pieces, inline.unwrap_or_default());
        self.push_reads(call, whole, &reads);
        self.transfers.reads = reads;
    }

    /// Assembles a call that arrived in several transmissions: also copies placed data.
    pub(super) fn read_reassembled(
        &mut self,
        call: ServedCallId,
        message: Box<ReassembledMessage>,
    ) {
        let reads =
            self.transfers
                .list_reads(message.sources().filter_map(|source| match source {
                    Source::Read { at, from } => Some((at, from)),
                    _ => None,
                }));
        let whole = self.allocate_assembly(call, &reads);
        let whole =
            whole.and_then(|mut whole| self.copy_sources(&message, &mut whole).map(|()| whole));
        self.release_message(message);
        if let Some(whole) = whole {
            self.push_reads(call, whole, &reads);
        }
        self.transfers.reads = reads;
    }

    /// Allocates a buffer for a whole call. The longest Read begins a page, since devices are
    /// slower with partial pages.
    fn allocate_assembly(
        &mut self,
        call: ServedCallId,
        reads: &[(u32, Segment)],
    ) -> Option<CallAssembly> {
        let length = self.session.call_length(call)?;
        let longest = reads
            .iter()
            .filter(|(_, from)| from.length >= PAGE)
            .max_by_key(|(_, from)| from.length);
        let begin = longest.map_or(0, |(at, _)| at.wrapping_neg() % PAGE);
        let bytes = length.checked_add(begin)?;
        if !self.hold(call, Pool::<D>::capacity(bytes) as usize) {
            return None;
        }
        let mut buf = self.take_buf_cold(bytes)?;
        buf.set_len(bytes);
        Some(CallAssembly { buf, begin })
    }

    /// Reads the chunks of a call to their places.
    fn push_reads(&mut self, call: ServedCallId, whole: CallAssembly, reads: &[(u32, Segment)]) {
        let Some(endpoint) = &mut self.endpoint else {
            return;
        };
        let (buf, begin) = (PostedBuf::from(whole.buf), whole.begin);
        for (number, (at, from)) in reads.iter().enumerate() {
            let last = number + 1 == reads.len();
            let part = BufRange {
                buf: buf.clone(),
                offset: begin + at,
                length: from.length,
            };
            let from = RemoteMemory {
                address: from.offset,
                key: from.handle,
            };
            let work = if last {
                WrContext::Read(call)
            } else {
                WrContext::Intermediate
            };
            if !endpoint.push(Operation::Read { from }, [part], last, work) {
                // The requests that are already in the batch end with the queue pair.
                warn!("a connection is given up: the device registers no sink for an RDMA Read");
                self.pending_action = Some(ConnectionAction::Close(CloseReason::Lost));
                return;
            }
        }
        self.counters.sinks += if endpoint.registers_sinks() {
            reads.len() as u64
        } else {
            0
        };
        self.counters.reads += reads.len() as u64;
        self.counters.round_trips += u64::from(!reads.is_empty());
        let place = self.session.served_slot(call);
        if let Some(incoming) = self.slots.incoming_entry(place) {
            incoming.assembly = Some((buf, begin));
        }
        if reads.is_empty() {
            self.session.read_done(call);
        }
    }
}

/// The page size in bytes.
const PAGE: u32 = 4096;

/// A buffer for a whole call.
pub(super) struct CallAssembly {
    pub(super) buf: Buf,
    /// The offset at which the call begins.
    pub(super) begin: u32,
}

impl CallAssembly {
    /// Returns a range of the call.
    pub(super) fn part(&mut self, at: u32, length: u32) -> Option<&mut [u8]> {
        let from = (self.begin + at) as usize;
        self.buf.get_mut(from..from + length as usize)
    }

    /// Copies the inline bytes of a message to their places, and returns their number.
    fn copy_inline(&mut self, pieces: impl Iterator<Item = Piece>, inline: &[u8]) -> u64 {
        let mut copied = 0;
        for piece in pieces {
            match piece {
                Piece::Inline { at, from, length } => {
                    let from = from as usize;
                    let source = inline.get(from..from + length as usize);
                    if let (Some(source), Some(target)) = (source, self.part(at, length)) {
                        target.copy_from_slice(source);
                        copied += u64::from(length);
                    }
                }
                Piece::Padding { at, length } => self.part(at, length).unwrap_or_default().fill(0),
                Piece::Read { .. } => {}
            }
        }
        copied
    }
}
