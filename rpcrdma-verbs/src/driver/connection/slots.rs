//! The calls of both directions, each in the slot that the engine has given it.
//!
//! A lookup by slot does not compare XIDs: a slot is valid only while the engine reports its call.
//! Only `take_buffers` and `take_results` compare the XID. The buffers of an ended call stay in its
//! slot until they are taken, or until the next call drops them. A message moves into its slot only
//! after the session has accepted it, because the slot may still contain a message in flight.

use std::ops::Range;
use std::time::Duration;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CallRegion, ReplyError, SendOwner, ServedCallId, Session};
use rpcrdma_proto::transfer::{CallSpec, MAX_RESULTS};
use tracing::Span;

use super::logging::{logs_calls, span_of};
use crate::driver::events::{
    BeginError, CallBuffers, CallParams, OutgoingCallError, OutgoingReplyError,
};
use crate::driver::exposure::ExposedRegion;
use crate::driver::message::{Message, WriteError, Writer};
use crate::driver::peer_limits::{HeldMemory, Transfer};
use crate::memory::{Buf, MemoryError, Pool, PostedBuf};
use crate::provider::Device;
use crate::queue::BufRange;

/// The calls of both directions, indexed by the slots of the engine.
///
/// The engine reuses the slot that was freed last, so there are as many entries as were ever used
/// at once.
#[derive(Debug)]
pub(super) struct CallSlots<D: Device> {
    outgoing: Vec<OutgoingCall<D>>,
    incoming: Vec<IncomingCall>,
    /// The message that is written next. It gets a slot when the session has accepted it.
    spare_message: Message,
}

impl<D: Device> CallSlots<D> {
    pub(super) fn new() -> Self {
        Self {
            outgoing: Vec::new(),
            incoming: Vec::new(),
            spare_message: Message::default(),
        }
    }

    /// Begins a call, whose RPC message `write` writes. It takes the buffers for the results, and
    /// returns all buffers on an error.
    #[inline]
    pub(super) fn call(
        &mut self,
        session: &mut Session,
        request: &mut CallParams,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<u32, BeginError> {
        let message = &mut self.spare_message;
        message.reset();
        let written = write(&mut Writer::new(message)).map_err(OutgoingCallError::Write);
        match written.and_then(|()| begin(session, message, request)) {
            Ok(xid) => {
                if let Some(place) = message.head.first_chunk_mut() {
                    *place = xid.to_be_bytes();
                }
                if let Some(outgoing) = entry(&mut self.outgoing, session.call_slot(xid)) {
                    // The slot's old message becomes the spare message.
                    std::mem::swap(&mut outgoing.message, message);
                    outgoing.begin(xid, request);
                }
                Ok(xid)
            }
            Err(error) => {
                let memory = CallBuffers {
                    items: unshared(message.take_items()),
                    results: std::mem::take(&mut request.results),
                };
                Err(BeginError {
                    error,
                    buffers: Box::new(memory),
                })
            }
        }
    }

    /// Replies to a call of the peer with the RPC message that `write` writes.
    #[inline]
    pub(super) fn reply(
        &mut self,
        session: &mut Session,
        call: ServedCallId,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), OutgoingReplyError> {
        let message = &mut self.spare_message;
        message.reset();
        write(&mut Writer::new(message)).map_err(OutgoingReplyError::Write)?;
        let incoming = entry(&mut self.incoming, session.served_slot(call))
            .ok_or(OutgoingReplyError::Reply(ReplyError::Ended))?;
        session
            .reply(call, message.length(), message.results())
            .map_err(OutgoingReplyError::Reply)?;
        // The message in the slot may be in flight before the session accepts the reply.
        std::mem::swap(&mut incoming.reply, message);
        Ok(())
    }

    /// Returns the outgoing call in a slot.
    #[inline]
    pub(super) fn outgoing(&self, slot: usize) -> Option<&OutgoingCall<D>> {
        self.outgoing.get(slot)
    }

    #[inline]
    pub(super) fn outgoing_mut(&mut self, slot: usize) -> Option<&mut OutgoingCall<D>> {
        self.outgoing.get_mut(slot)
    }

    /// Returns the call of the peer in a slot, if the slot was ever used.
    #[inline]
    pub(super) fn incoming_mut(&mut self, slot: usize) -> Option<&mut IncomingCall> {
        self.incoming.get_mut(slot)
    }

    /// Returns the call of the peer in a slot, which may be new.
    #[inline]
    pub(super) fn incoming_entry(&mut self, slot: usize) -> Option<&mut IncomingCall> {
        entry(&mut self.incoming, slot)
    }

    /// Returns the memory that the peer's limits count for its calls.
    pub(super) fn held_memory(&mut self) -> impl Iterator<Item = &mut HeldMemory> {
        self.incoming
            .iter_mut()
            .filter_map(|incoming| incoming.held.as_mut())
    }

    /// Returns the message of a call or a reply.
    #[inline]
    pub(super) fn message_mut(
        &mut self,
        session: &Session,
        what: SendOwner,
    ) -> Option<&mut Message> {
        match what {
            SendOwner::Call { xid } => self
                .outgoing_mut(session.call_slot(xid))
                .map(|outgoing| &mut outgoing.message),
            SendOwner::Reply { call } => self
                .incoming_mut(session.served_slot(call))
                .map(|incoming| &mut incoming.reply),
            SendOwner::Header => None,
        }
    }
}

/// An outgoing call.
#[derive(Debug)]
pub(super) struct OutgoingCall<D: Device> {
    message: Message,
    // These are heap-allocated, since most slots of most connections never use them.
    pub(super) results: Vec<PostedBuf>,
    call_message: Option<PostedBuf>,
    pub(super) reply: Option<PostedBuf>,
    pub(super) exposed: Vec<ExposedRegion<D>>,
    pub(super) span: Span,
    /// The XID of the ended call whose buffers were not taken, with the lengths of its results.
    ended_xid: Option<u32>,
    result_lengths: ArrayVec<u32, MAX_RESULTS>,
}

impl<D: Device> Default for OutgoingCall<D> {
    fn default() -> Self {
        Self {
            message: Message::default(),
            results: Vec::new(),
            call_message: None,
            reply: None,
            exposed: Vec::new(),
            span: Span::none(),
            ended_xid: None,
            result_lengths: ArrayVec::new(),
        }
    }
}

impl<D: Device> OutgoingCall<D> {
    /// Begins a call, whose message is already here.
    #[inline]
    fn begin(&mut self, xid: u32, request: &mut CallParams) {
        self.results.clear();
        if !request.results.is_empty() {
            self.results
                .extend(request.results.drain(..).map(PostedBuf::from));
        }
        self.ended_xid = None;
        self.span = if logs_calls() {
            span_of(request.span.take(), xid, self.message.length())
        } else {
            Span::none()
        };
    }

    /// Returns the buffer of a region that the peer accesses, and the offset at which the region
    /// begins. `None` means that there is no memory.
    pub(super) fn region(
        &mut self,
        region: CallRegion,
        length: u32,
        pool: &Pool<D>,
    ) -> Option<(PostedBuf, u32)> {
        match region {
            CallRegion::Item(number) => {
                let (buf, offset) = self.message.source(number)?;
                Some((buf.clone(), offset))
            }
            CallRegion::Result(number) => Some((self.results.get(number)?.clone(), 0)),
            CallRegion::Call => {
                let whole = copy_to_buf(&mut self.message, length, pool).ok()?;
                Some((self.call_message.insert(whole).clone(), 0))
            }
            CallRegion::Reply => {
                let buf = pool.take(length).ok()?;
                Some((self.reply.insert(buf.into()).clone(), 0))
            }
        }
    }

    /// Returns true if no other reference to the results remains. After a device error one may.
    #[inline]
    pub(super) fn has_unshared_results(&self) -> bool {
        self.results.iter().all(PostedBuf::is_unique)
    }

    /// Ends the call. Its buffers, with the length of each result, wait for the consumer.
    #[inline]
    pub(super) fn end(&mut self, xid: u32, written: &[u32]) {
        (self.call_message, self.reply, self.ended_xid) = (None, None, Some(xid));
        self.span = Span::none();
        self.result_lengths.clear();
        self.result_lengths
            .extend(written.iter().copied().take(MAX_RESULTS));
    }

    /// Takes the buffers of an ended call. Another call may use the slot.
    pub(super) fn take_buffers(&mut self, xid: u32) -> Option<CallBuffers> {
        self.ended_xid.take_if(|ended| *ended == xid)?;
        Some(CallBuffers {
            items: unshared(self.message.take_items()),
            results: self.drain_results(),
        })
    }

    /// Takes the results of an ended call, if there are buffers for any, and drops its items.
    #[inline]
    pub(super) fn take_results(&mut self, xid: u32) -> Option<ArrayVec<Buf, MAX_RESULTS>> {
        self.ended_xid.take_if(|ended| *ended == xid)?;
        self.message.reset();
        (!self.results.is_empty()).then(|| self.drain_results())
    }

    /// Takes the buffers for results that nothing else uses, each with the bytes that were written.
    fn drain_results(&mut self) -> ArrayVec<Buf, MAX_RESULTS> {
        let mut results: ArrayVec<Buf, MAX_RESULTS> = unshared(self.results.drain(..));
        for (number, result) in results.iter_mut().enumerate() {
            result.set_len(self.result_lengths.get(number).copied().unwrap_or(0));
        }
        results
    }
}

/// A call of the peer.
#[derive(Debug, Default)]
pub(super) struct IncomingCall {
    /// The buffer into which the whole call is assembled, and the offset at which it begins.
    pub(super) assembly: Option<(PostedBuf, u32)>,
    reply: Message,
    /// A copy of the whole reply, if parts outside of its items are written to the peer's chunks.
    long_reply: Option<PostedBuf>,
    /// The memory that the call has, and then its reply, as the peer's limits count it.
    pub(super) held: Option<HeldMemory>,
}

impl IncomingCall {
    /// Takes the whole call, whose transfer has ended.
    pub(super) fn take_assembly(&mut self) -> Option<(PostedBuf, u32)> {
        if let Some(held) = &mut self.held {
            held.transfer = Transfer::Ended;
        }
        self.assembly.take()
    }

    /// Returns a range of the reply that is written to the peer's chunks, and the number of bytes
    /// that were copied for it.
    pub(super) fn reply_range<D: Device>(
        &mut self,
        range: Range<u32>,
        pool: &Pool<D>,
    ) -> Result<(BufRange, u32), MemoryError> {
        let length = range.end - range.start;
        let (mut copied, mut offset) = (0, range.start);
        let buf = match (self.reply.source_at(range.start), &self.long_reply) {
            (Some((buf, from)), _) => {
                offset = from;
                buf.clone()
            }
            (None, Some(whole)) => whole.clone(),
            (None, None) => {
                copied = self.reply.length();
                let whole = copy_to_buf(&mut self.reply, copied, pool)?;
                self.long_reply.insert(whole).clone()
            }
        };
        let part = BufRange {
            buf,
            offset,
            length,
        };
        Ok((part, copied))
    }

    /// Releases the memory of the call and of its reply.
    #[inline]
    pub(super) fn end(&mut self) {
        (self.assembly, self.long_reply) = (None, None);
        self.reply.reset();
        self.held = None;
    }
}

/// Returns the entry of a slot of the engine, which bounds the number of slots.
#[inline]
fn entry<T: Default>(entries: &mut Vec<T>, slot: usize) -> Option<&mut T> {
    if slot >= entries.len() {
        entries.resize_with(slot + 1, T::default);
    }
    entries.get_mut(slot)
}

/// Begins a call whose message is written.
fn begin(
    session: &mut Session,
    message: &Message,
    request: &CallParams,
) -> Result<u32, OutgoingCallError> {
    let CallParams {
        results,
        max_reply: largest_reply,
        reducible,
        resend_window,
        deadline,
        ..
    } = request;
    let (mut items, mut wanted) = (ArrayVec::new(), ArrayVec::new());
    message.collect_items(&mut items);
    message
        .collect_result_specs(results, &mut wanted)
        .map_err(OutgoingCallError::Write)?;
    let call = CallSpec {
        length: message.length(),
        items: &items,
        max_reply: *largest_reply,
        results: &wanted,
        reducible: *reducible,
    };
    let begun = if *resend_window == Duration::MAX {
        session.call(&call, *deadline)
    } else {
        let micros = u64::try_from(resend_window.as_micros()).unwrap_or(u64::MAX);
        session.call_resent_within(&call, *deadline, micros)
    };
    begun.map_err(OutgoingCallError::Call)
}

/// Returns a buffer with a copy of a whole message.
fn copy_to_buf<D: Device>(
    message: &mut Message,
    length: u32,
    pool: &Pool<D>,
) -> Result<PostedBuf, MemoryError> {
    let mut whole = pool.take(length)?;
    message.copy(0..length, whole.as_full_mut());
    whole.set_len(length);
    Ok(whole.into())
}

/// Returns the buffers that nothing else uses.
fn unshared<const N: usize>(lent: impl IntoIterator<Item = PostedBuf>) -> ArrayVec<Buf, N> {
    lent.into_iter()
        .filter_map(|buf| buf.into_buf().ok())
        .collect()
}
