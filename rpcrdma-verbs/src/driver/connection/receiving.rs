//! Received messages: their buffers, and the calls and replies in them.
//!
//! The session decides whether a buffer is kept. An inline message in one segment is passed on in
//! its receive buffer; `ConnectionCounters::copied` must count each copy of other messages. A lack
//! of memory closes the connection. A call whose reply arrived but cannot be delivered must fail
//! with `ReplyMemory`: `rpc_transport::failure` reports only this failure as executed.

use std::ops::Range;

use rpcrdma_proto::connection::{
    BufferDisposition, BufferId, CallFailure, CallLocation as Place, ReplyLocation, ServedCallId,
    Session,
};
use rpcrdma_proto::continuation::{
    BufferRange, ReassembledMessage, ReducedItem, Reduction, Source,
};
use rpcrdma_proto::error::Refusal;
use rpcrdma_proto::placement::BufferStructure;
use rpcrdma_proto::transfer::MAX_ITEMS;
use tracing::{debug, warn};

use super::Connection;
use super::logging::logs_calls;
use super::slots::OutgoingCall;
use super::transfers::CallAssembly;
use crate::driver::events::{Payload, PlacedItem};
use crate::memory::{Buf, BufCache, Frozen};
use crate::provider::Device;
use crate::queue::ReceiveBuffer;

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
        let id = self.retained.take_id();
        let disposition =
            self.session
                .received_in_segments(id, &received.first, length, invalidated);
        match disposition {
            BufferDisposition::Kept => self.retained.retain(id, received),
            BufferDisposition::Free => self.retained.discard(id, received),
        }
        // A message that is kept may have broken a group of transmissions.
        if let Some(refusal) = self.session.take_refusal() {
            self.trace_refusal(refusal);
        }
    }

    /// Emits an event for a refused message. Only the first refusal is a warning, because the peer
    /// decides how many there are.
    #[cold]
    fn trace_refusal(&mut self, refusal: Refusal) {
        let peer = self.peer;
        if std::mem::replace(&mut self.has_warned, true) {
            debug!(%peer, %refusal, "a message of the peer is refused");
        } else {
            warn!(%peer, %refusal, "a message of the peer is refused");
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
        self.retained.recycle_segments(tail);
        Some(ReceiveBuffer {
            first: whole,
            extra: None,
        })
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
        let Some(structure) = structure(&self.session)
            .filter(|structure| structure.length() == size)
            .copied()
        else {
            return self.take_buf_cold(size).map(ReceiveBuffer::from);
        };
        let (first, more) = structure.segments().split_first()?;
        let mut head = self.take_buf_cold(first.length)?;
        head.set_len(first.length);
        let mut tail = self.retained.segment_list();
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

    #[inline]
    fn payload(&mut self, buffer: BufferId, bytes: Range<u32>) -> Option<Payload> {
        let buf = self.retained.release(buffer)?;
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
                let (whole, begin) = self.slots.incoming_mut(place)?.take_assembly()?;
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

    /// Returns a call that arrived in several transmissions: its stream and its items. All is
    /// copied into one buffer if there are too many items, or if several share a segment.
    fn reassembled_payload(&mut self, message: &ReassembledMessage) -> Option<Payload> {
        let structure = structure(&self.session);
        if message.items.len() > MAX_ITEMS || !self.retained.has_own_targets(message, structure) {
            let mut buf = self.take_buf_cold(message.length)?;
            buf.set_len(message.length);
            let mut whole = CallAssembly { buf, begin: 0 };
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
                    .get_or_insert_with(|| self.retained.item_list())
                    .push(placed);
            }
        }
        self.stream(message)
            .map(|payload| Payload { items, ..payload })
    }

    /// Copies the received parts of a message to their places. Returns `None` if some are missing.
    pub(super) fn copy_sources(
        &mut self,
        message: &ReassembledMessage,
        whole: &mut CallAssembly,
    ) -> Option<()> {
        let structure = structure(&self.session);
        for source in message.sources() {
            match source {
                Source::Received { at, from } => {
                    let length = from.range.end - from.range.start;
                    let out = whole.part(at, length)?;
                    self.retained.copy(&from, structure, out)?;
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
        if let [from] = message.stream.as_slice()
            && let Some((buf, range)) = self.retained.take_segment(from, structure(&self.session))
        {
            return Some(Payload {
                buf,
                range: range.start as usize..range.end as usize,
                items: None,
            });
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
        let taken = self.retained.take_target(place, structure(&self.session));
        if taken.is_some() {
            return taken;
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
            self.retained.release(buffer.buffer);
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
        let place = self.session.call_slot(xid);
        let own = self
            .retained
            .has_own_targets(&message, structure(&self.session));
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
        let mut at = 0;
        for from in places {
            let end = at + (from.range.end - from.range.start) as usize;
            let out = out.get_mut(at..end)?;
            self.retained.copy(from, structure(&self.session), out)?;
            at = end;
        }
        self.counters.copied += at as u64;
        Some(())
    }
}

/// Returns the structure of our receive buffers.
fn structure(session: &Session) -> Option<&BufferStructure> {
    session.config().rtr.as_ref()?.structure.as_ref()
}
