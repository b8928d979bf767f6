//! The responder: calls of the peer's, from their arrival to the end of their replies.

mod call;
mod grouped;
mod offered;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::ops::Range;

use arrayvec::ArrayVec;

use super::life::{Service, Step};
use super::named::Named;
use super::output::{Action, Buffer, Event, Sent, Served, Transmit, Write};
use super::parts::{Parts, no_parts};
use super::queues::Queues;
use super::sending::Sending;
use super::slots::Slots;
use crate::chunk::{Fault, Limits, Pieces, ReadPlan, ReadSegment, WriteChunk};
use crate::credit::{Overrun, Responder};
use crate::header::{Chunks, Outgoing};
use crate::placement::Structure;
use crate::travel::{self, Answer, Cannot, ResultItem};
use crate::v2::{self, MsgType};
use crate::version::Version;
use crate::xdr::List;

use call::Call;
use offered::Lists;
pub(super) use offered::WRITES;

/// The calls of one direction that are being served, and the credits that were granted for them.
#[derive(Debug)]
pub(super) struct Serving {
    slots: Slots<Call>,
    /// The keys of calls without a reply, by their XIDs.
    open: Named,
    limits: Limits,
    replies: VecDeque<u32>,
    /// Messages that those answer, but for the ones that go again.
    answering: u32,
    /// Replies in several transmissions that are kept, and until when.
    kept: VecDeque<(u32, u64)>,
    pub(super) credits: Responder,
    most: u16,
    /// What is granted: no more than `most`.
    grant: u32,
    reserve: u32,
}

/// A call that has come.
pub(super) struct Arrival<'a> {
    pub(super) xid: u32,
    pub(super) version: Version,
    /// Credits that it asks for.
    pub(super) asked: u32,
    pub(super) buffer: Buffer,
    /// Its octets in the buffer; none if it is a chunk itself.
    pub(super) inline: Option<Range<u32>>,
    /// Its chunks, if it has any.
    pub(super) chunks: Option<&'a Chunks<'a>>,
}

/// Why a call is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unserved {
    /// Its chunks break a rule, or are more than is taken.
    Fault(Fault),
    /// It has the XID of a call that is being served.
    Twice,
    /// More calls than there is room for.
    Overrun,
}

impl From<Overrun> for Unserved {
    fn from(Overrun: Overrun) -> Self {
        Self::Overrun
    }
}

impl From<Fault> for Unserved {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What of a message sent as a reply its requester takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms<'a> {
    /// Octets of one Send.
    pub(super) threshold: u32,
    /// Whether Send With Invalidate may be used.
    pub(super) invalidate: bool,
    /// Its receive buffers, and transmissions of a reply that we send it, if it takes those of rtrext-02.
    pub(super) groups: Option<(&'a Structure, u32)>,
}

impl Serving {
    pub(super) fn new(most: u16, reserve: u32, limits: Limits, seed: u32) -> Self {
        // As many calls, and replies whose Sends have not given back their memory.
        let places = 2 * u32::from(most);
        Self {
            slots: Slots::new(places, seed),
            open: Named::new(seed),
            limits,
            replies: VecDeque::new(),
            answering: 0,
            kept: VecDeque::new(),
            credits: Responder::new(most.into(), reserve),
            most,
            grant: most.into(),
            reserve,
        }
    }

    /// Grants another number from now on.
    pub(super) fn grant_up_to(&mut self, grant: u32) {
        self.grant = grant.min(self.most.into());
        self.credits.grant_up_to(self.grant);
    }

    /// Receives that calls may take: one at least, since a question about properties may come where no calls are served.
    ///
    /// A reply that waits to be sent has its next call's receives already: before its requester can make use of them.
    pub(super) fn receives(&self) -> u32 {
        self.credits.receives().saturating_sub(self.credits.pending().saturating_sub(self.answering))
    }

    /// The place of a call.
    pub(super) fn place(&self, call: Served) -> usize {
        self.slots.index(call.0)
    }

    /// Calls that are being served.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether replies wait to be sent.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Whether nothing is being served.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether nothing is being served but replies that are kept.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.values().all(|call| call.life == Service::Kept)
    }

    /// Whether the consumer has a call, and has not answered it.
    pub(super) fn is_given(&self, call: Served) -> bool {
        self.slots.get(call.0).is_some_and(|call| call.life == Service::Given)
    }

    /// The version in which a call came.
    pub(super) fn version(&self, call: Served) -> Option<Version> {
        self.slots.get(call.0).map(|call| call.version)
    }

    /// Whether a call with this XID is being served.
    pub(super) fn is_open(&self, xid: u32) -> bool {
        self.open.find(xid).is_some()
    }

    /// A call has come.
    // spec: v2-5.3-a, bd-2-c, bd-2-d
    pub(super) fn arrived(&mut self, arrival: &Arrival<'_>, out: &mut Queues) -> Result<Served, Unserved> {
        if self.is_open(arrival.xid) {
            return Err(Unserved::Twice);
        }
        if self.open.len() >= usize::from(self.most) {
            return Err(Unserved::Overrun);
        }
        let xid = arrival.xid;
        let Some((key, call)) = self.slots.insert(|_| false) else { return Err(Unserved::Overrun) };
        call.begin((xid, arrival.version, arrival.asked), arrival.buffer, arrival.inline.clone());
        let taken = match (arrival.chunks, &arrival.inline) {
            (Some(chunks), inline) => offered(chunks, inline.as_ref(), &self.limits, call).map_err(Unserved::from),
            (None, Some(_)) => Ok(()),
            (None, None) => Err(Fault::NoPayload.into()),
        };
        if let Err(why) = taken.and_then(|()| Ok(self.credits.received()?)) {
            if why == Unserved::Overrun {
                self.credits.dropped();
            }
            self.slots.remove(key);
            return Err(why);
        }
        let reading = call.life == Service::Reading;
        self.list(key, xid);
        let (call, buffer, octets) = (Served(key), arrival.buffer, arrival.inline.clone().unwrap_or_default());
        if reading {
            out.act(Action::Read { call, buffer, inline: octets });
        } else {
            out.tell_call(call, xid, buffer, &octets);
        }
        Ok(call)
    }

    /// From now on a call is found by its XID.
    fn list(&mut self, key: u32, xid: u32) {
        self.open.insert(self.slots.index(key), key, xid);
    }

    /// How a call is put together.
    pub(super) fn pieces(&self, served: Served) -> Option<Pieces<'_>> {
        let call = self.slots.get(served.0)?;
        let reads = List::from(call.offered.reads()).into();
        let plan = match &call.inline {
            Some(inline) => ReadPlan::inline(reads, inline.len(), &self.limits),
            None => ReadPlan::long(reads, &self.limits),
        };
        plan.ok().map(|plan| plan.pieces())
    }

    /// Octets of a call, put together.
    pub(super) fn length(&self, served: Served) -> Option<u32> {
        self.slots.get(served.0).map(|call| call.length)
    }

    /// All of a call is here.
    pub(super) fn moved(&mut self, served: Served, out: &mut Queues) {
        let Some(call) = self.slots.get_mut(served.0) else { return };
        if call.step(Step::Read) {
            out.tell(Event::CallArrived { call: served, xid: call.xid, message: call.message() });
        }
    }

    /// The consumer answers a call. None if the call has ended; an error, to be told to the peer, if the reply has no way.
    /// Chunks are used where the call has offered them, and nowhere else.
    // spec: xc3-3.3-e, xc3-3.3-f, xc2-3.3-e, xc2-3.3-f
    pub(super) fn reply(
        &mut self,
        served: Served,
        length: u32,
        results: &[ResultItem],
        terms: Terms<'_>,
    ) -> Option<Result<(), Cannot>> {
        let call = self.slots.get_mut(served.0).filter(|call| call.life == Service::Given)?;
        if call.reserve.is_some() {
            return self.reply_grouped(served, length, results, terms);
        }
        let mut capacities = ArrayVec::<Option<u32>, WRITES>::new();
        let mut reply_chunk = None;
        for (count, mine) in call.offered.chunks() {
            let chunk = WriteChunk::v2(mine.into(), &self.limits).ok().map(|chunk| chunk.capacity());
            match count {
                Some(_) => capacities.push(chunk.filter(|_| !mine.is_empty())),
                None => reply_chunk = chunk,
            }
        }
        call.answer.begin(length, results);
        let answer = Answer {
            length,
            results: &call.answer.results,
            writes: &capacities,
            reply_chunk,
            header: call.header(),
            threshold: terms.threshold,
        };
        match travel::reply(&answer) {
            Ok(way) => {
                call.answer.way = way;
                call.fill();
                call.step(Step::Replied);
                self.answering += call.parts;
                self.replies.push_back(served.0);
                Some(Ok(()))
            }
            Err(why) => Some(Err(why)),
        }
    }

    /// Ends a call without a reply: its version, XID, and whether it was there.
    pub(super) fn end(&mut self, served: Served, answered: bool, out: &mut Queues) -> Option<(u32, Version)> {
        let open = |call: &&mut Call| matches!(call.life, Service::Given | Service::Replying);
        let call = self.slots.get_mut(served.0).filter(open)?;
        let ended = (call.xid, call.version);
        if call.life == Service::Replying {
            self.replies.retain(|key| *key != served.0);
            self.answering -= if call.again { 0 } else { call.parts };
        }
        call.step(Step::Dropped);
        let parts = call.parts;
        self.credits.drop_all(parts);
        self.forget(served.0);
        self.remove(served, answered, out);
        Some(ended)
    }

    /// Writes the header of the next reply. None goes while as many as may be are with their Sends.
    ///
    /// A reply in several transmissions goes on with what is left in `sending`, and is kept `until` then.
    #[inline(always)]
    pub(super) fn transmit<'a>(
        &mut self,
        buffer: &mut [u8],
        (until, sending): (u64, Option<&mut Option<Box<Sending>>>),
        terms: impl Fn(Version) -> Terms<'a>,
    ) -> Option<Transmit> {
        let key = *self.replies.front()?;
        let with_sends = self.slots.len() - self.open.len();
        let Some(call) = self.slots.get_mut(key).filter(|call| call.life == Service::Replying) else {
            self.replies.pop_front();
            return None;
        };
        // One that goes again is counted already: it is the first of all, so that it holds up nothing.
        if with_sends >= usize::from(self.most) && !call.again {
            return None;
        }
        if call.answer.group.is_some() {
            let terms = terms(call.version);
            return self.transmit_group(key, terms, (until, sending?), buffer);
        }
        let credits = self.credits.next(call.asked);
        let header = write(call, credits, buffer)?;
        let invalidate = call.keys.single().filter(|_| terms(call.version).invalidate);
        let (asked, parts, again, inline) = (call.asked, call.parts, call.again, call.answer.inline());
        call.step(Step::Transmitted);
        self.replies.pop_front();
        self.answered(key, asked, parts, again);
        Some(Transmit { what: Sent::Reply { call: Served(key) }, header, inline, invalidate, share: None })
    }

    /// The reply to a call is transmitted: its credits are free, unless it goes again.
    #[inline]
    fn answered(&mut self, key: u32, asked: u32, parts: u32, again: bool) {
        if !again {
            self.answering -= parts;
            self.credits.drop_all(parts - 1);
            self.credits.reply(asked);
            self.forget(key);
        }
    }

    /// Octets of a reply that follow its header.
    pub(super) fn parts(&self, served: Served) -> Parts<'_> {
        self.slots.get(served.0).map_or_else(no_parts, |call| call.answer.parts())
    }

    /// Whether its call has offered memory for a reply.
    #[inline]
    pub(super) fn has_writes(&self, served: Served) -> bool {
        self.slots.get(served.0).is_some_and(|call| call.offered.has_memory())
    }

    /// What is written of a reply before it is sent.
    pub(super) fn writes(&self, served: Served) -> impl Iterator<Item = Write> + use<'_> {
        self.slots.get(served.0).into_iter().flat_map(Call::writes)
    }

    /// The Send of a reply has given back its memory: whether its call has ended with that.
    #[inline]
    pub(super) fn released(&mut self, served: Served) -> bool {
        let Some(call) = self.slots.get_mut(served.0) else { return false };
        if call.answer.group.is_some() && call.life == Service::Sending && (call.keeps || call.again) {
            self.keep(served.0);
            return false;
        }
        call.step(Step::Released) && self.slots.remove(served.0)
    }

    /// The connection is gone: no reply will reach the peer, but for those that the Send has already.
    pub(super) fn lost(&mut self, out: &mut Queues) {
        self.replies.clear();
        self.answering = 0;
        self.forget_sending();
        let mut from = 0;
        while let Some((key, next)) = self.slots.find_from(from, |call| call.life != Service::Sending) {
            from = next;
            let mut answered = false;
            if let Some(call) = self.slots.get_mut(key) {
                answered = call.life == Service::Kept || call.again;
                call.step(Step::Lost);
            }
            self.forget(key);
            self.remove(Served(key), answered, out);
        }
        self.credits = Responder::new(self.grant, self.reserve);
    }

    fn forget(&mut self, key: u32) {
        self.open.remove(self.slots.index(key), key);
    }

    #[inline]
    fn remove(&mut self, call: Served, answered: bool, out: &mut Queues) {
        self.slots.remove(call.0);
        out.tell(Event::CallEnded { call, answered });
    }
}

/// Holds what a call offers against the rules, and keeps it.
fn offered(chunks: &Chunks<'_>, inline: Option<&Range<u32>>, limits: &Limits, call: &mut Call) -> Result<(), Fault> {
    let reads = chunks.reads();
    let plan = match inline {
        Some(inline) => ReadPlan::inline(reads, inline.len(), limits)?,
        None => ReadPlan::long(reads, limits)?,
    };
    call.length = plan.len();
    call.life = if plan.is_inline() { Service::Given } else { Service::Reading };
    let lists = call.offered.fill();
    for chunk in chunks.writes(limits) {
        let chunk = chunk?;
        lists.count(chunk.len())?;
        keep(&chunk, limits, lists)?;
    }
    if let Some(chunk) = chunks.reply(limits)? {
        // No more than the limit, which is checked.
        lists.reply = Some(u16::try_from(chunk.len()).map_err(|_| Fault::TooManySegments)?);
        keep(&chunk, limits, lists)?;
    }
    let read = |segment: ReadSegment| v2::ReadSegment { position: segment.position, target: segment.target.into() };
    lists.reads.extend(reads.iter().map(read));
    call.keys.add(lists.segments.iter().map(|segment| segment.handle));
    call.keys.add(lists.reads.iter().map(|segment| segment.target.handle));
    Ok(())
}

/// Keeps the segments of a chunk, unless they are too many together with those before.
fn keep(chunk: &WriteChunk<'_>, limits: &Limits, lists: &mut Lists) -> Result<(), Fault> {
    if lists.segments.len() + chunk.len() > limits.segments as usize {
        return Err(Fault::TooManySegments);
    }
    lists.segments.extend(chunk.segments().map(v2::Segment::from));
    Ok(())
}

/// Writes the header of a reply, with the chunks that it returns; none if the buffer is too small.
fn write(call: &Call, credits: u32, buffer: &mut [u8]) -> Option<usize> {
    let mut header = Outgoing {
        xid: call.xid,
        version: call.version,
        credits,
        direction: MsgType::Reply,
        long: call.answer.way.long,
        ..Outgoing::EMPTY
    };
    if !call.offered.has_memory() || call.reserve.is_some() {
        return header.write(buffer).ok();
    }
    let mut writes = ArrayVec::<v2::WriteChunk<'_>, WRITES>::new();
    for (number, mine) in call.offered.chunks() {
        match number {
            Some(_) => writes.push(v2::WriteChunk { target: mine.into() }),
            None => header.reply = Some(mine),
        }
    }
    header.writes = &writes;
    header.write(buffer).ok()
}

#[cfg(test)]
mod tests;
