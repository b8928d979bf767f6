//! Received messages: their buffers, and the calls and replies in them.

use std::ops::Range;

use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{
    BufferDisposition, BufferId, CallFailure, CallLocation as Place, CloseReason, ReplyLocation,
    ServedCallId,
};
use rpcrdma_proto::continuation::{
    BufferRange, ReassembledMessage, ReducedItem, Reduction, Source,
};
use rpcrdma_proto::placement::BufferStructure;
use rpcrdma_proto::transfer::MAX_ITEMS;
use tracing::{debug, warn};

use super::logging::logs_calls;
use super::retained::RetainedReceive;
use super::slots::OutgoingCall;
use super::{Connection, ConnectionAction, WrContext};
use crate::driver::events::{Payload, PlacedItem};
use crate::memory::{Buf, BufCache, Frozen, Pool, PostedBuf};
use crate::provider::{Device, Operation, RemoteMemory};
use crate::queue::{BufRange, ExtraSegments, ReceiveBuffer};

impl<D: Device> Connection<D> {
    /// Passes a received message to the session.
    #[inline]
    pub(super) fn received(&mut self, received: ReceiveBuffer, invalidated: Option<u32>) {
        let length = received.len();
        let spans =
            length > received.first.len() as u32 && !self.session.is_fragment(&received.first);
        let Some(received) = (if spans {
            self.join_segments(received, length)
        } else {
            Some(received)
        }) else {
            return;
        };
        let number = self.free_buffer_ids.pop().unwrap_or_else(|| {
            self.retained.push(None);
            self.retained.len() - 1
        });
        let held = self.session.received_in_segments(
            BufferId(number as u64),
            &received.first,
            length,
            invalidated,
        );
        let ReceiveBuffer {
            first: head,
            extra: tail,
        } = received;
        match held {
            BufferDisposition::Kept => {
                if let Some(place) = self.retained.get_mut(number) {
                    *place = Some(RetainedReceive {
                        head: Some(head.into()),
                        tail,
                    });
                }
            }
            BufferDisposition::Free => {
                self.recycle_segments(tail);
                self.free_buffer_ids.push(number);
                self.trace_refusal();
            }
        }
    }

    /// Emits an event if the session refused the last message. Only the first refusal of a session
    /// is a warning: the peer decides how many there are.
    fn trace_refusal(&mut self) {
        let Some(refusal) = self.session.take_refusal() else {
            return;
        };
        let counters = self.session.counters();
        if counters.refused + counters.dropped == 1 {
            warn!(%refusal, "a message of the peer is refused");
        } else {
            debug!(%refusal, "a message of the peer is refused");
        }
    }

    /// Copies a message that uses several segments but is not a fragment into one buffer.
    #[cold]
    fn join_segments(&mut self, received: ReceiveBuffer, length: u32) -> Option<ReceiveBuffer> {
        let mut whole = self.take_buf_cold(length)?;
        let ReceiveBuffer {
            first: head,
            extra: mut tail,
        } = received;
        whole.extend_from_slice(&head);
        for segment in tail.iter_mut().flat_map(|tail| tail.iter_mut()).flatten() {
            whole.extend_from_slice(segment.bytes().unwrap_or_default());
        }
        self.counters.copied += u64::from(length);
        self.recycle_segments(tail);
        Some(ReceiveBuffer {
            first: whole,
            extra: None,
        })
    }

    /// Recycles the memory of a segment list.
    #[inline(always)]
    fn recycle_segments(&mut self, tail: Option<Box<ExtraSegments>>) {
        if let Some(mut tail) = tail {
            tail.clear();
            self.spare_segments.push(tail);
        }
    }

    /// Returns a buffer for one receive, with this size or with the advertised segments.
    #[inline]
    pub(super) fn receive_buffer(
        &mut self,
        size: u32,
        receives: &mut BufCache,
    ) -> Option<ReceiveBuffer> {
        if self.session.config().rtr.is_none() {
            let taken = receives.take(size, &self.pool);
            return self.or_close(taken).map(ReceiveBuffer::from);
        }
        let Some(structure) = self
            .structure()
            .filter(|structure| structure.length() == size)
        else {
            return self.take_buf_cold(size).map(ReceiveBuffer::from);
        };
        let (first, more) = structure.segments().split_first()?;
        let mut head = self.take_buf_cold(first.length)?;
        head.set_len(first.length);
        let mut tail = self.spare_segments.pop().unwrap_or_default();
        for segment in more {
            let mut buf = self.take_buf_cold(segment.length)?;
            buf.set_len(segment.length);
            // The number of segments was checked against the limit of the device.
            tail.try_push(Some(buf.into())).ok()?;
        }
        Some(ReceiveBuffer {
            first: head,
            extra: Some(tail).filter(|tail| !tail.is_empty()),
        })
    }

    /// Returns the structure of our receive buffers.
    fn structure(&self) -> Option<BufferStructure> {
        self.session.config().rtr.and_then(|rtr| rtr.structure)
    }

    /// Releases a retained receive buffer, and returns its first segment.
    #[inline]
    pub(super) fn release_receive(&mut self, buffer: BufferId) -> Option<Buf> {
        let number = usize::try_from(buffer.0).ok()?;
        let RetainedReceive { head, tail } = self.retained.get_mut(number)?.take()?;
        self.free_buffer_ids.push(number);
        // The remaining segments go back to the pool.
        self.recycle_segments(tail);
        head?.into_buf().ok()
    }

    #[inline]
    fn payload(&mut self, buffer: BufferId, bytes: Range<u32>) -> Option<Payload> {
        let buf = self.release_receive(buffer)?;
        Some(Payload {
            buf,
            range: bytes.start as usize..bytes.end as usize,
            items: None,
        })
    }

    /// Returns the message of a call, if there is memory for it.
    #[inline]
    pub(super) fn call_payload(&mut self, call: ServedCallId, message: Place) -> Option<Payload> {
        match message {
            Place::Inline {
                buffer,
                range: bytes,
            } => self.payload(buffer, bytes),
            Place::Placed { length } => {
                let place = self.session.served_slot(call);
                self.transferred(place);
                let (whole, begin) = self.slots.incoming_mut(place)?.assembly.take()?;
                let bytes = begin as usize..(begin + length) as usize;
                Some(Payload {
                    buf: whole.into_buf().ok()?,
                    range: bytes,
                    items: None,
                })
            }
            Place::Reassembled(message) => {
                let payload = self.reassembled_payload(&message);
                self.release_message(message);
                payload
            }
        }
    }

    /// Returns true if each part of each item is alone at the start of a segment, so that the
    /// segment can be given away. An item of no bytes has no segment.
    fn has_own_targets(&mut self, message: &ReassembledMessage) -> bool {
        let structure = self.structure();
        if message
            .items
            .iter()
            .any(|item| matches!(&item.reduction, Reduction::Placed(places) if places.is_empty()))
        {
            return false;
        }
        message.places.iter().all(|place| {
            let kept = usize::try_from(place.buffer.0)
                .ok()
                .and_then(|number| self.retained.get_mut(number)?.as_mut());
            let found = kept.and_then(|kept| kept.find(&place.range, structure.as_ref()));
            found.is_some_and(|(_, bytes)| bytes.start == 0)
        })
    }

    /// Returns a call that arrived in several transmissions: its stream and its items. All is
    /// copied into one buffer if there are too many items, or if several share a segment.
    fn reassembled_payload(&mut self, message: &ReassembledMessage) -> Option<Payload> {
        if message.items.len() > MAX_ITEMS || !self.has_own_targets(message) {
            let mut whole = self.take_buf_cold(message.length)?;
            whole.set_len(message.length);
            let mut whole = CallAssembly {
                buf: whole,
                begin: 0,
            };
            self.copy_sources(message, &mut whole)?;
            return Some(Payload {
                buf: whole.buf,
                range: 0..message.length as usize,
                items: None,
            });
        }
        let mut items = None;
        for item in &message.items {
            if let Some(placed) = self.placed_item(item, message) {
                // There are no more items than entries.
                items
                    .get_or_insert_with(|| self.spare_items.pop().unwrap_or_default())
                    .push(placed);
            }
        }
        self.stream(message)
            .map(|payload| Payload { items, ..payload })
    }

    /// Copies the received parts of a message to their places. Returns `None` if some are missing.
    fn copy_sources(
        &mut self,
        message: &ReassembledMessage,
        whole: &mut CallAssembly,
    ) -> Option<()> {
        let structure = self.structure();
        for source in message.sources() {
            match source {
                Source::Received {
                    at,
                    from:
                        BufferRange {
                            buffer,
                            range: bytes,
                        },
                } => {
                    let length = bytes.end - bytes.start;
                    let kept = self
                        .retained
                        .get_mut(usize::try_from(buffer.0).ok()?)?
                        .as_mut()?;
                    kept.copy(&bytes, structure.as_ref(), whole.part(at, length)?)?;
                    self.counters.copied += u64::from(length);
                }
                Source::Padding { at, length } => whole.part(at, length)?.fill(0),
                Source::Read { .. } => {}
            }
        }
        Some(())
    }

    /// Returns the Payload stream of a reassembled message. It is not copied if it is in one
    /// segment.
    fn stream(&mut self, message: &ReassembledMessage) -> Option<Payload> {
        let structure = self.structure();
        if let [
            BufferRange {
                buffer,
                range: bytes,
            },
        ] = message.stream.as_slice()
        {
            let kept = self
                .retained
                .get_mut(usize::try_from(buffer.0).ok()?)?
                .as_mut()?;
            if let Some((buf, bytes)) = kept.find(bytes, structure.as_ref())
                && let Some(buf) = buf.take().and_then(|buf| buf.into_buf().ok())
            {
                return Some(Payload {
                    buf,
                    range: bytes.start as usize..bytes.end as usize,
                    items: None,
                });
            }
        }
        let length = message.stream_length();
        let buf = self.copy_ranges_to_buf(length, &message.stream)?;
        Some(Payload {
            buf,
            range: 0..length as usize,
            items: None,
        })
    }

    /// Returns a buffer with a copy of these ranges.
    fn copy_ranges_to_buf(&mut self, length: u32, from: &[BufferRange]) -> Option<Buf> {
        let mut buf = self.take_buf_cold(length)?;
        buf.set_len(length);
        self.copy_ranges(from, &mut buf)?;
        Some(buf)
    }

    /// Returns the segment with placed data if they begin it and nothing else uses it, and
    /// otherwise a copy.
    fn take_placed(&mut self, place: &BufferRange) -> Option<Buf> {
        let structure = self.structure();
        let kept = self
            .retained
            .get_mut(usize::try_from(place.buffer.0).ok()?)?
            .as_mut()?;
        if let Some((buf, bytes)) = kept.find(&place.range, structure.as_ref())
            && bytes.start == 0
            && let Some(mut buf) = buf.take().and_then(|buf| buf.into_buf().ok())
        {
            buf.set_len(bytes.end);
            return Some(buf);
        }
        self.copy_ranges_to_buf(
            place.range.end - place.range.start,
            std::slice::from_ref(place),
        )
    }

    /// Returns a placed item of a call.
    fn placed_item(
        &mut self,
        item: &ReducedItem,
        message: &ReassembledMessage,
    ) -> Option<PlacedItem> {
        let Reduction::Placed(range) = &item.reduction else {
            return None;
        };
        let mut parts = message.places.get(range.clone())?.iter();
        let first = self.take_placed(parts.next()?).map(Frozen::from)?;
        let more = parts
            .map_while(|place| self.take_placed(place).map(Frozen::from))
            .collect();
        Some(PlacedItem {
            position: item.position,
            length: item.length,
            first,
            more,
        })
    }

    /// Releases the receive buffers of a reassembled message.
    pub(super) fn release_message(&mut self, message: Box<ReassembledMessage>) {
        for buffer in &message.buffers {
            self.release_receive(buffer.buffer);
        }
        self.session.recycle(message);
    }

    /// Returns the message of a reply. On an error the call fails, and the result is `None`.
    #[inline]
    pub(super) fn reply_payload(&mut self, xid: u32, reply: ReplyLocation) -> Option<Payload> {
        let place = self.session.call_slot(xid);
        if logs_calls() {
            self.log_replied(place, &reply);
        }
        self.counters.round_trips += 1;
        let ReplyLocation {
            buffer,
            inline,
            long,
            results: mut written,
            reassembled: gathered,
        } = reply;
        if let Some(message) = gathered {
            return self.reassembled_reply(xid, message, &mut written);
        }
        let is_long = inline.is_empty();
        let inline = self.payload(buffer, inline);
        let whole = self
            .slots
            .outgoing_mut(place)
            .and_then(|outgoing| outgoing.reply.take());
        let message = match (is_long, long, whole) {
            (true, Some(bytes), Some(whole)) => whole.into_buf().ok().map(|mut buf| {
                buf.set_len(bytes);
                Payload {
                    buf,
                    range: 0..bytes as usize,
                    items: None,
                }
            }),
            _ => inline,
        };
        let message = message.filter(|_| self.has_results(place));
        match message {
            Some(_) => self.end_call(xid, &written),
            None => self.call_failed(xid, CallFailure::ReplyMemory, true),
        }
        message
    }

    /// Returns true if nothing else uses the results of the call in a slot.
    #[inline]
    fn has_results(&self, place: usize) -> bool {
        self.slots
            .outgoing(place)
            .is_none_or(OutgoingCall::has_unshared_results)
    }

    /// Returns the message of a reply that arrived in several transmissions.
    #[cold]
    fn reassembled_reply(
        &mut self,
        xid: u32,
        message: Box<ReassembledMessage>,
        written: &mut [u32],
    ) -> Option<Payload> {
        let (place, own) = (self.session.call_slot(xid), self.has_own_targets(&message));
        let mut all = true;
        for item in &message.items {
            all &= self.store_result((place, own), item, &message, written);
        }
        let payload = self
            .stream(&message)
            .filter(|_| all && self.has_results(place));
        self.release_message(message);
        match payload {
            Some(_) => self.end_call(xid, written),
            None => self.call_failed(xid, CallFailure::ReplyMemory, true),
        }
        payload
    }

    /// Stores a placed result. Returns false if there is no memory for it.
    fn store_result(
        &mut self,
        to: (usize, bool),
        item: &ReducedItem,
        message: &ReassembledMessage,
        written: &mut [u32],
    ) -> bool {
        let (Reduction::Placed(range), Some(number)) = (&item.reduction, item.result) else {
            return true;
        };
        let places = message.places.get(range.clone()).unwrap_or_default();
        let taken = self.move_or_copy_result(to, number, places, item.length);
        if let (Some(()), Some(written)) = (taken, written.get_mut(number)) {
            *written = item.length;
        }
        taken.is_some()
    }

    /// Makes the segment that contains a result the result's buffer. The result is copied if its
    /// buffer is the caller's own memory, or if it is in several segments.
    fn move_or_copy_result(
        &mut self,
        (place, own): (usize, bool),
        number: usize,
        places: &[BufferRange],
        length: u32,
    ) -> Option<()> {
        let results = &mut self.slots.outgoing_mut(place)?.results;
        let stays = results.get(number)?.is_adopted();
        if let ([one], true, false) = (places, own, stays) {
            let buf = self.take_placed(one)?;
            let results = &mut self.slots.outgoing_mut(place)?.results;
            *results.get_mut(number)? = buf.into();
            return Some(());
        }
        let mut buf = results.remove(number).into_buf().ok()?;
        buf.set_len(length);
        let copied = self.copy_ranges(places, &mut buf);
        let results = &mut self.slots.outgoing_mut(place)?.results;
        results.insert(number, buf.into());
        copied
    }

    /// Copies ranges one after the other. Returns `None` if some are missing.
    fn copy_ranges(&mut self, places: &[BufferRange], out: &mut [u8]) -> Option<()> {
        let structure = self.structure();
        let mut at = 0;
        for BufferRange {
            buffer,
            range: bytes,
        } in places
        {
            let end = at + (bytes.end - bytes.start) as usize;
            let kept = self
                .retained
                .get_mut(usize::try_from(buffer.0).ok()?)?
                .as_mut()?;
            kept.copy(bytes, structure.as_ref(), out.get_mut(at..end)?)?;
            at = end;
        }
        self.counters.copied += at as u64;
        Some(())
    }

    /// Assembles a call of the peer: copies its inline bytes, and reads the rest to its place.
    pub(super) fn read(&mut self, call: ServedCallId, buffer: BufferId, inline: Range<u32>) {
        let received = self.release_receive(buffer);
        let Some(pieces) = self.session.pieces(call) else {
            return;
        };
        let reads = pieces.clone().filter_map(|piece| {
            if let Piece::Read { at, from } = piece {
                Some((at, from))
            } else {
                None
            }
        });
        let mut all = std::mem::take(&mut self.reads);
        all.clear();
        all.extend(reads);
        let Some(mut whole) = self.allocate_assembly(call, &all) else {
            return;
        };
        let Some(pieces) = self.session.pieces(call) else {
            return;
        };
        for piece in pieces {
            match piece {
                Piece::Inline { at, from, length } => {
                    let from = (inline.start + from) as usize;
                    let source = received
                        .as_ref()
                        .and_then(|buf| buf.get(from..from + length as usize));
                    if let (Some(source), Some(target)) = (source, whole.part(at, length)) {
                        target.copy_from_slice(source);
                        self.counters.copied += u64::from(length);
                    }
                }
                Piece::Padding { at, length } => whole.part(at, length).unwrap_or_default().fill(0),
                Piece::Read { .. } => {}
            }
        }
        self.push_reads(call, whole, &all);
        self.reads = all;
    }

    /// Assembles a call that arrived in several transmissions: also copies placed data.
    pub(super) fn read_reassembled(
        &mut self,
        call: ServedCallId,
        message: Box<ReassembledMessage>,
    ) {
        let reads = message.sources().filter_map(|one| {
            if let Source::Read { at, from } = one {
                Some((at, from))
            } else {
                None
            }
        });
        let mut all = std::mem::take(&mut self.reads);
        all.clear();
        all.extend(reads);
        let whole = self.allocate_assembly(call, &all);
        let whole =
            whole.and_then(|mut whole| self.copy_sources(&message, &mut whole).map(|()| whole));
        self.release_message(message);
        if let Some(whole) = whole {
            self.push_reads(call, whole, &all);
        }
        self.reads = all;
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
struct CallAssembly {
    buf: Buf,
    /// The offset at which the call begins.
    begin: u32,
}

impl CallAssembly {
    /// Returns a range of the call.
    fn part(&mut self, at: u32, length: u32) -> Option<&mut [u8]> {
        let from = (self.begin + at) as usize;
        self.buf.get_mut(from..from + length as usize)
    }
}
