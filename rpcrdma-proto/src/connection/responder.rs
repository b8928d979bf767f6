//! The responder: incoming calls, from their arrival to the end of the Sends of their replies.
//!
//! It owns the served calls, the credits granted for them and the queue of replies. Only the
//! session calls it: with each call that has arrived, when its parts are read, when the consumer
//! answers, when a message can be sent, and when a Send has ended. Actions and events go to
//! [`OutputQueues`].
//!
//! A call is in `calls` until it ends, and in `xids` until its reply is transmitted. So the calls
//! that are not in `xids` are replies with incomplete Sends, and retained replies.

mod call;
mod grouped;
mod offered_chunks;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use arrayvec::ArrayVec;

use super::config::MAX_WRITE_CHUNKS;
use super::inline_parts::{InlineParts, no_parts};
use super::output::{Action, BufferId, Event, RdmaWrite, SendOwner, ServedCallId, Transmit};
use super::queues::OutputQueues;
use super::rtr::group_sender::GroupSender;
use super::rtr::replies::GroupReplies;
use super::slab::Slab;
use super::states::{ServedEvent, ServedState};
use super::xid_table::XidTable;
use crate::chunk::{ChunkError, ChunkLimits, Pieces, ReadList, ReadPlan, WriteChunk};
use crate::credit::{CreditOverrun, ResponderCredits};
use crate::header::{Chunks, OutgoingHeader};
use crate::placement::BufferStructure;
use crate::transfer::{self, ReplySpec, ResultItem, TransferError};
use crate::v2::{self, MsgType};
use crate::version::Version;
use crate::xdr::List;

use call::ServedCall;
pub(super) use grouped::ReassembledCallError;
use offered_chunks::OfferedLists;

/// The incoming calls being served, and the credits granted for them.
#[derive(Debug)]
pub(super) struct Responder {
    calls: Slab<ServedCall>,
    /// The keys in `calls` of calls whose replies are not transmitted, by XID.
    xids: XidTable,
    limits: ChunkLimits,
    /// The keys of calls with a reply to be sent, in the order of sending.
    replies: VecDeque<u32>,
    /// The number of messages of the calls with queued replies, without retransmissions. A call of
    /// rtrext-02 may have several messages.
    replies_queued: u32,
    /// The state of rtrext-02, if it is enabled.
    groups: Option<Box<GroupReplies>>,
    pub(super) credits: ResponderCredits,
    max_calls: u16,
    /// The current maximum grant: at most `max_calls`.
    grant: u32,
    /// The number of receives beyond those for the granted calls.
    reserve: u32,
}

/// An incoming call.
pub(super) struct IncomingCall<'a> {
    pub(super) xid: u32,
    pub(super) version: Version,
    /// The number of credits that it requests.
    pub(super) requested_credits: u32,
    pub(super) buffer: BufferId,
    /// The range of the buffer that holds it; `None` if the call is itself a chunk.
    pub(super) inline: Option<Range<u32>>,
    /// Its chunks, if it has any.
    pub(super) chunks: Option<&'a Chunks<'a>>,
}

/// Describes why a call is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ServeError {
    /// Its chunks break a rule or exceed a limit.
    Fault(ChunkError),
    /// It has the XID of a call that is being served.
    DuplicateXid,
    /// More calls than there is room for.
    Overrun,
}

impl From<CreditOverrun> for ServeError {
    fn from(CreditOverrun: CreditOverrun) -> Self {
        Self::Overrun
    }
}

impl From<ChunkError> for ServeError {
    fn from(fault: ChunkError) -> Self {
        Self::Fault(fault)
    }
}

/// The limits of the requester on a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReplyLimits<'a> {
    /// The size of one Send in bytes.
    pub(super) threshold: u32,
    /// Whether Send With Invalidate may be used.
    pub(super) invalidate: bool,
    /// The structure of its receive buffers and the maximum number of transmissions, if it supports
    /// rtrext-02.
    pub(super) groups: Option<(&'a BufferStructure, u32)>,
}

impl Responder {
    pub(super) fn new(max_calls: u16, reserve: u32, limits: ChunkLimits, hash_seed: u64) -> Self {
        // `max_calls` calls, and as many replies whose Sends are not complete.
        let places = 2 * u32::from(max_calls);
        Self {
            // The keys are never sent on the wire: they need no random seed.
            calls: Slab::new(places, 0),
            xids: XidTable::new(hash_seed),
            limits,
            replies: VecDeque::new(),
            replies_queued: 0,
            groups: None,
            credits: ResponderCredits::new(max_calls.into(), reserve),
            max_calls,
            grant: max_calls.into(),
            reserve,
        }
    }

    /// Enables rtrext-02: from now on, calls that arrive in several transmissions are served, too.
    pub(super) fn enable_groups(&mut self, hash_seed: u64) {
        self.groups = Some(Box::new(GroupReplies::new(hash_seed)));
    }

    /// Sets the maximum grant from now on.
    pub(super) fn grant_up_to(&mut self, grant: u32) {
        self.grant = grant.min(self.max_calls.into());
        self.credits.grant_up_to(self.grant);
    }

    /// Returns the number of receives that must be posted for calls.
    ///
    /// It is zero only if as many calls are pending as receives exist. Before the first call it is
    /// at least one, since a property request may arrive where no calls are served. A call with a
    /// queued reply is not counted as pending: the receive for the next call is posted before the
    /// reply, which grants it, is sent.
    pub(super) fn receives(&self) -> u32 {
        self.credits
            .receives()
            .saturating_sub(self.credits.pending().saturating_sub(self.replies_queued))
    }

    /// Returns the slot of a call.
    pub(super) fn slot(&self, call: ServedCallId) -> usize {
        self.calls.index(call.0)
    }

    /// Returns the number of calls that have not ended, with those whose replies are being sent or
    /// retained.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether replies are queued.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns whether all calls have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether only retained replies are left.
    pub(super) fn is_idle(&self) -> bool {
        let retained = self.groups.as_ref().map_or(0, |all| all.only_retained);
        self.calls.len() == retained
    }

    /// Returns whether the consumer has a call and has not answered it.
    pub(super) fn is_delivered(&self, call: ServedCallId) -> bool {
        self.calls
            .get(call.0)
            .is_some_and(|call| call.state == ServedState::Delivered)
    }

    /// Returns whether a call with this XID has arrived, and its reply is not transmitted.
    pub(super) fn is_open(&self, xid: u32) -> bool {
        self.xids.find(xid).is_some()
    }

    /// Handles an incoming call. A rejected call leaves no state.
    // spec: v2-5.3-a, bd-2-c, bd-2-d
    pub(super) fn arrived(
        &mut self,
        arrival: &IncomingCall<'_>,
        out: &mut OutputQueues,
    ) -> Result<ServedCallId, ServeError> {
        if self.is_open(arrival.xid) {
            return Err(ServeError::DuplicateXid);
        }
        let xid = arrival.xid;
        let Some((key, call)) = self.calls.insert(|_| false) else {
            // No credit was counted.
            return Err(ServeError::Overrun);
        };
        call.begin(
            (xid, arrival.version, arrival.requested_credits),
            arrival.buffer,
            arrival.inline.clone(),
        );
        let taken = match (arrival.chunks, &arrival.inline) {
            (Some(chunks), inline) => {
                offered(chunks, inline.as_ref(), &self.limits, call).map_err(ServeError::from)
            }
            (None, Some(_)) => Ok(()),
            (None, None) => Err(ChunkError::NoPayload.into()),
        };
        if let Err(why) = taken.and_then(|()| Ok(self.credits.on_call()?)) {
            // `on_call` counts the call even if it fails. After a fault it was not called.
            if why == ServeError::Overrun {
                self.credits.on_dropped();
            }
            self.calls.remove(key);
            return Err(why);
        }
        let reading = call.state == ServedState::Reading;
        self.index_xid(key, xid);
        let (call, buffer, bytes) = (
            ServedCallId(key),
            arrival.buffer,
            arrival.inline.clone().unwrap_or_default(),
        );
        if reading {
            out.push_action(Action::Read {
                call,
                buffer,
                inline: bytes,
            });
        } else {
            out.push_call(call, xid, buffer, &bytes);
        }
        Ok(call)
    }

    /// Returns the length of the longest chain if calls have these XIDs.
    #[cfg(test)]
    pub(super) fn longest_chain(&mut self, xids: &[u32]) -> usize {
        xids.iter()
            .enumerate()
            .for_each(|(at, xid)| self.xids.insert(at, 1, *xid));
        self.xids.longest_chain()
    }

    /// Adds a call to the table of XIDs.
    fn index_xid(&mut self, key: u32, xid: u32) {
        self.xids.insert(self.calls.index(key), key, xid);
    }

    /// Returns the pieces of which a call is assembled.
    pub(super) fn pieces(&self, served: ServedCallId) -> Option<Pieces<'_>> {
        let call = self.calls.get(served.0)?;
        let reads = List::from(call.offered.reads()).into();
        let plan = match &call.inline {
            Some(inline) => ReadPlan::inline(reads, inline.len(), &self.limits),
            None => ReadPlan::long(reads, &self.limits),
        };
        plan.ok().map(|plan| plan.pieces())
    }

    /// Returns the length of a call in bytes, assembled.
    pub(super) fn length(&self, served: ServedCallId) -> Option<u32> {
        self.calls.get(served.0).map(|call| call.length)
    }

    /// Handles the complete assembly of a call.
    pub(super) fn read_done(&mut self, served: ServedCallId, out: &mut OutputQueues) {
        let Some(call) = self.calls.get_mut(served.0) else {
            return;
        };
        if call.advance(ServedEvent::Read) {
            out.push_event(Event::CallArrived {
                call: served,
                xid: call.xid,
                message: call.message(),
            });
        }
    }

    /// Answers a call. Returns `None` if the call has ended or has a reply. A reply uses only
    /// chunks that the call offered.
    ///
    /// If no transfer method fits, the call stays open: the session reports the error to the peer,
    /// and ends the call.
    // spec: xc3-3.3-e, xc3-3.3-f, xc2-3.3-e, xc2-3.3-f
    #[inline]
    pub(super) fn reply<'a>(
        &mut self,
        served: ServedCallId,
        length: u32,
        results: &[ResultItem],
        limits: impl Fn(Version) -> ReplyLimits<'a>,
    ) -> Option<Result<(), TransferError>> {
        if self.group(served.0).is_some() {
            return self.reply_grouped(served, length, results, limits(Version::Two));
        }
        let call = self
            .calls
            .get_mut(served.0)
            .filter(|call| call.state == ServedState::Delivered)?;
        let limits = limits(call.version);
        let mut capacities = ArrayVec::<Option<u32>, MAX_WRITE_CHUNKS>::new();
        let mut reply_chunk = None;
        // The reply chunk has no number.
        for (number, segments) in call.offered.chunks() {
            let chunk = WriteChunk::v2(segments.into(), &self.limits)
                .ok()
                .map(|chunk| chunk.capacity());
            match number {
                Some(_) => capacities.push(chunk.filter(|_| !segments.is_empty())),
                None => reply_chunk = chunk,
            }
        }
        call.reply.begin(length, results);
        let answer = ReplySpec {
            length,
            results: &call.reply.results,
            write_chunks: &capacities,
            reply_chunk,
            header: call.reply_header_len(),
            threshold: limits.threshold,
        };
        match transfer::plan_reply(&answer) {
            Ok(plan) => {
                call.reply.plan = plan;
                call.assign_chunks();
                call.advance(ServedEvent::Replied);
                self.replies_queued += 1;
                self.replies.push_back(served.0);
                Some(Ok(()))
            }
            Err(why) => Some(Err(why)),
        }
    }

    /// Ends a call whose reply is not transmitted. Returns its XID and version; `None` if there is
    /// no such call. `answered` says whether the peer gets an error in place of the reply.
    ///
    /// A call with a queued reply must be the first in the queue.
    pub(super) fn end(
        &mut self,
        served: ServedCallId,
        answered: bool,
        out: &mut OutputQueues,
    ) -> Option<(u32, Version)> {
        let open = |call: &&mut ServedCall| {
            matches!(call.state, ServedState::Delivered | ServedState::Replying)
        };
        let parts = self.messages(served.0);
        let call = self.calls.get_mut(served.0).filter(open)?;
        let ended = (call.xid, call.version);
        if call.state == ServedState::Replying {
            debug_assert_eq!(self.replies.front(), Some(&served.0));
            self.replies.pop_front();
            self.replies_queued -= parts;
        }
        call.advance(ServedEvent::Dropped);
        self.credits.drop_all(parts);
        self.remove_xid(served.0);
        self.push_ended(served, answered, out);
        Some(ended)
    }

    /// Writes the header of the next reply; `None` if there is none, if the buffer is too small, or
    /// if `max_calls` replies are retained or have incomplete Sends.
    ///
    /// A reply in several transmissions leaves the others in `sending`. It is retained until the
    /// time `until`, in case that the peer asks for a retransmission.
    #[inline(always)]
    pub(super) fn transmit<'a>(
        &mut self,
        buffer: &mut [u8],
        (until, sending): (u64, Option<&mut Option<Box<GroupSender>>>),
        limits: impl Fn(Version) -> ReplyLimits<'a>,
    ) -> Option<Transmit> {
        let key = *self.replies.front()?;
        let with_sends = self.calls.len() - self.xids.len();
        let group = self.group(key);
        let (in_group, again) = (
            group.is_some(),
            group.is_some_and(|group| group.retransmitted),
        );
        let parts = group.map_or(1, |group| group.parts);
        // A retransmission is among them already. It is first in the queue, and must not block it.
        if with_sends >= usize::from(self.max_calls) && !again {
            return None;
        }
        if group.is_some_and(|group| group.reply.is_some()) {
            return self.transmit_group(key, limits(Version::Two), (until, sending?), buffer);
        }
        let call = self.calls.get_mut(key)?;
        let credits = self.credits.next(call.requested_credits);
        let header = write(call, credits, in_group, buffer)?;
        let invalidate = call
            .keys
            .single()
            .filter(|_| limits(call.version).invalidate);
        let (asked, inline) = (call.requested_credits, call.reply.inline_len());
        call.advance(ServedEvent::Transmitted);
        self.replies.pop_front();
        self.answered(key, asked, parts, again);
        Some(Transmit {
            owner: SendOwner::Reply {
                call: ServedCallId(key),
            },
            header,
            inline,
            invalidate,
            transmission: None,
        })
    }

    /// Grants the credits of a call with its transmitted reply, and frees its XID. A retransmission
    /// has done so before.
    #[inline]
    fn answered(&mut self, key: u32, asked: u32, parts: u32, again: bool) {
        if !again {
            self.replies_queued -= parts;
            self.credits.drop_all(parts - 1);
            self.credits.grant_with_reply(asked);
            self.remove_xid(key);
        }
    }

    /// Returns the ranges of a reply that follow its header.
    pub(super) fn parts(&self, served: ServedCallId) -> InlineParts<'_> {
        self.calls
            .get(served.0)
            .map_or_else(no_parts, |call| call.reply.parts())
    }

    /// Returns whether the call has offered memory for its reply.
    #[inline]
    pub(super) fn has_writes(&self, served: ServedCallId) -> bool {
        self.calls
            .get(served.0)
            .is_some_and(|call| call.offered.has_memory())
    }

    /// Returns the RDMA Writes of a reply.
    pub(super) fn writes(&self, served: ServedCallId) -> impl Iterator<Item = RdmaWrite> + use<'_> {
        self.calls
            .get(served.0)
            .into_iter()
            .flat_map(ServedCall::writes)
    }

    /// Handles the end of the Send of a reply. Returns whether its call has ended with it, which
    /// the session reports.
    #[inline]
    pub(super) fn released(&mut self, served: ServedCallId) -> bool {
        if self.outlives_send(served.0) {
            self.retain_reply(served.0);
            return false;
        }
        let Some(call) = self.calls.get_mut(served.0) else {
            return false;
        };
        call.advance(ServedEvent::Released) && self.vacate(served.0)
    }

    /// Handles the loss of the connection: all calls end, except those whose replies are being
    /// sent, since a device may still read their memory. They end with [`Self::released`].
    pub(super) fn lost(&mut self, out: &mut OutputQueues) {
        self.replies.clear();
        self.replies_queued = 0;
        self.drop_sending();
        let mut from = 0;
        while let Some((key, next)) = self
            .calls
            .find_from(from, |call| call.state != ServedState::Sending)
        {
            from = next;
            let again = self.group(key).is_some_and(|group| group.retransmitted);
            let Some(call) = self.calls.get_mut(key) else {
                continue;
            };
            let retained = call.state == ServedState::Retained;
            let answered = retained || again;
            if let Some(groups) = &mut self.groups {
                groups.only_retained -= usize::from(retained);
            }
            call.advance(ServedEvent::Lost);
            self.remove_xid(key);
            self.push_ended(ServedCallId(key), answered, out);
        }
        self.credits = ResponderCredits::new(self.grant, self.reserve);
    }

    /// Removes a call from the table of XIDs, if it is there.
    fn remove_xid(&mut self, key: u32) {
        self.xids.remove(self.calls.index(key), key);
    }

    /// Frees the slot of a call. Returns false if it was free.
    #[inline]
    fn vacate(&mut self, key: u32) -> bool {
        if let Some(groups) = &mut self.groups {
            groups.remove(self.calls.index(key), key);
        }
        self.calls.remove(key)
    }

    /// Frees the slot of a call, and reports its end.
    #[inline]
    fn push_ended(&mut self, call: ServedCallId, answered: bool, out: &mut OutputQueues) {
        self.vacate(call.0);
        out.push_event(Event::CallEnded { call, answered });
    }
}

/// Checks the chunks that a call offers, and stores them.
fn offered(
    chunks: &Chunks<'_>,
    inline: Option<&Range<u32>>,
    limits: &ChunkLimits,
    call: &mut ServedCall,
) -> Result<(), ChunkError> {
    let lists = call.offered.fill();
    store_reads(chunks.reads(), limits, &mut lists.reads)?;
    let reads = List::from(lists.reads.as_slice()).into();
    let plan = match inline {
        Some(inline) => ReadPlan::inline(reads, inline.len(), limits)?,
        None => ReadPlan::long(reads, limits)?,
    };
    call.length = plan.len();
    call.state = if plan.is_inline() {
        ServedState::Delivered
    } else {
        ServedState::Reading
    };
    for chunk in chunks.writes(limits) {
        let chunk = chunk?;
        lists.count(chunk.len())?;
        keep(&chunk, limits, lists)?;
    }
    if let Some(chunk) = chunks.reply(limits)? {
        lists.reply = Some(chunk.len());
        keep(&chunk, limits, lists)?;
    }
    call.keys
        .add(lists.segments.iter().map(|segment| segment.handle));
    call.keys
        .add(lists.reads.iter().map(|segment| segment.target.handle));
    Ok(())
}

/// Stores a Read list, by Position. No rule orders the segments of a list, except those of one
/// chunk, whose order stays.
// spec: rfc8166-3.4.5-a
fn store_reads(
    reads: ReadList<'_>,
    limits: &ChunkLimits,
    stored: &mut Vec<v2::ReadSegment>,
) -> Result<(), ChunkError> {
    if reads.len() > limits.max_segments as usize {
        return Err(ChunkError::TooManySegments);
    }
    stored.extend(reads.iter().map(|segment| v2::ReadSegment {
        position: segment.position,
        target: segment.target.into(),
    }));
    if !stored.is_sorted_by_key(|segment| segment.position) {
        stored.sort_by_key(|segment| segment.position);
    }
    Ok(())
}

/// Stores the segments of a chunk, unless the call exceeds the maximum number of segments.
fn keep(
    chunk: &WriteChunk<'_>,
    limits: &ChunkLimits,
    lists: &mut OfferedLists,
) -> Result<(), ChunkError> {
    if lists.segments.len() + chunk.len() > limits.max_segments as usize {
        return Err(ChunkError::TooManySegments);
    }
    lists
        .segments
        .extend(chunk.segments().map(v2::Segment::from));
    Ok(())
}

/// Writes the header of a reply, with the chunks that it returns; `None` if the buffer is too
/// small. The reply to a call in several transmissions returns no chunks.
// spec: rfc8166-3.4.6-b, rfc8166-4.3.1-a, rfc8166-4.3.3-c
fn write(call: &ServedCall, credits: u32, in_group: bool, buffer: &mut [u8]) -> Option<usize> {
    let mut header = OutgoingHeader {
        xid: call.xid,
        version: call.version,
        credits,
        direction: MsgType::Reply,
        long: call.reply.plan.long,
        ..OutgoingHeader::EMPTY
    };
    if !call.offered.has_memory() || in_group {
        return header.write(buffer).ok();
    }
    let mut writes = ArrayVec::<v2::WriteChunk<'_>, MAX_WRITE_CHUNKS>::new();
    for (number, segments) in call.offered.chunks() {
        match number {
            Some(_) => writes.push(v2::WriteChunk {
                target: segments.into(),
            }),
            None => header.reply = Some(segments),
        }
    }
    header.writes = &writes;
    header.write(buffer).ok()
}

#[cfg(test)]
mod tests;
