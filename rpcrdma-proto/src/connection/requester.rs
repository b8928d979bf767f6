//! The requester: calls of ours, from the consumer's wish to the end that it is told of.

mod apart;
mod chunks;
mod grouped;
mod request;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::ops::Range;

use super::life::{Life, Turn};
use super::output::{Action, Buffer, Event, Exposure, Failure, Reason, Reply, Sent, Transmit};
use super::parts::{Parts, no_parts};
use super::queues::Queues;
use super::sending::Sending;
use super::slots::Slots;
use crate::chunk::Segment;
use crate::credit::Requester;
use crate::error::PeerError;
use crate::header::Chunks;
use crate::travel::{self, Call, Cannot, Cost, Link, Travel};

use chunks::{returned, write};
use grouped::Grouping;
pub(super) use request::Kind;
use request::{Outcome, Request};

/// No deadline.
pub(super) const NEVER: u64 = u64::MAX;

/// The calls of one direction, and the credits that they take.
// spec: xc3-1.3-e, xc2-1.3-e
#[derive(Debug)]
pub(super) struct Requests {
    slots: Slots<Request>,
    /// Segments that the transport may expose for one call.
    most_segments: usize,
    waiting: VecDeque<u32>,
    ready: VecDeque<u32>,
    pub(super) credits: Requester,
    /// Messages of calls that have their credits and were not sent yet.
    unsent: u32,
    /// Receives that are reserved for replies in several transmissions.
    reserved: u32,
    /// Calls that the consumer may have, and has.
    most: u16,
    open: u16,
    wanted: u32,
    /// No deadline is before this.
    soonest: u64,
    /// How many calls have begun: the next one's age.
    begun: u64,
    /// Whether calls wait out of their order.
    disordered: bool,
}

/// Why a call can't begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// As many calls are open as there may be.
    Full,
    /// The session has ended, or is to end.
    Closed,
    /// Results are wanted of parts of the call that overlap, or are not in their order.
    Spans,
}

impl core::fmt::Display for CallError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "as many calls are open as there may be",
            Self::Closed => "the session has ended",
            Self::Spans => {
                "results are wanted of parts of the call that overlap or go back: give them in the call's order"
            }
        })
    }
}

impl core::error::Error for CallError {}

/// A reply that has come.
pub(super) struct Answered<'a> {
    pub(super) xid: u32,
    /// Its credit value, where its direction is certain.
    pub(super) grant: Option<u32>,
    /// Those that it returns, if any.
    pub(super) chunks: Option<&'a Chunks<'a>>,
    pub(super) buffer: Buffer,
    pub(super) inline: Range<u32>,
    pub(super) invalidated: Option<u32>,
}

impl Requests {
    pub(super) fn new(calls: u16, credits: u32, segments: u16, seed: u32) -> Self {
        // One more than the consumer's, for the properties.
        let places = u32::from(calls) + 1;
        Self {
            slots: Slots::new(places, seed),
            most_segments: segments.into(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            credits: Requester::new(credits),
            unsent: 0,
            reserved: 0,
            most: calls,
            open: 0,
            wanted: credits,
            soonest: NEVER,
            begun: 0,
            disordered: false,
        }
    }

    /// Whether the memory of every call is its own.
    pub(super) fn is_settled(&self) -> bool {
        self.slots.values().all(Request::is_settled)
    }

    /// Calls that are open, orphans included.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no call of the consumer's is without its end. Of those that it gave up a reply may never come.
    pub(super) fn is_done(&self) -> bool {
        let has_no_end = |request: &Request| request.kind == Kind::Rpc && request.life != Life::Orphaned;
        self.slots.find_from(0, has_no_end).is_none()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a call waits again that was let go before.
    pub(super) fn is_disordered(&self) -> bool {
        self.disordered
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a question about properties is open.
    pub(super) fn has_question(&self) -> bool {
        self.slots.len() > self.open.into()
    }

    /// Receives that replies may take: one for each message that is under way, as many as ever were on this connection.
    // spec: bd-4.3.1-b, bd-4.3.1-d, bd-4.3.2-c, bd-4.3.2-e
    // spec: rtr-4.3-i, rtr-4.3-n
    pub(super) fn receives(&self) -> u32 {
        self.credits.receives().saturating_add(self.reserved)
    }

    /// The place of a call.
    pub(super) fn place(&self, xid: u32) -> usize {
        self.slots.index(xid)
    }

    /// Whether a call with this XID is open.
    pub(super) fn is_open(&self, xid: u32) -> bool {
        self.slots.get(xid).is_some()
    }

    /// Whether a reply with this XID may come: to a call that was sent.
    pub(super) fn expects(&self, xid: u32) -> bool {
        self.expected(xid).is_some()
    }

    /// What the call is for to which a reply with this XID may come.
    pub(super) fn expected(&self, xid: u32) -> Option<Kind> {
        let was_sent = |life| matches!(life, Life::Sent | Life::Settling | Life::Orphaned);
        let request = self.slots.get(xid).filter(|request| request.credit.is_some() && was_sent(request.life))?;
        Some(request.kind)
    }

    pub(super) fn kind(&self, xid: u32) -> Option<Kind> {
        self.slots.get(xid).map(|request| request.kind)
    }

    /// The time before which no deadline passes.
    pub(super) fn soonest(&self) -> u64 {
        self.soonest
    }

    /// Begins a call. `taken` knows the XIDs that are live in the other direction (decision D12).
    // spec: v2-4.2.2-f, bd-2-b, bd-2.4-b, bd-5.1-a
    pub(super) fn call(
        &mut self,
        kind: Kind,
        call: &Call<'_>,
        deadline: u64,
        taken: impl Fn(u32) -> bool,
    ) -> Result<u32, CallError> {
        if kind == Kind::Rpc && self.open == self.most {
            return Err(CallError::Full);
        }
        if !travel::in_order(call.results) {
            return Err(CallError::Spans);
        }
        let age = self.begun;
        let (xid, request) = self.slots.insert(taken).ok_or(CallError::Full)?;
        request.begin(kind, age, deadline, call);
        self.begun += 1;
        self.soonest = self.soonest.min(deadline);
        match kind {
            Kind::Rpc => {
                self.open += 1;
                self.waiting.push_back(xid);
            }
            Kind::Properties => self.waiting.push_front(xid),
        }
        Ok(xid)
    }

    /// Lets calls go that wait, as long as there are credits: first come, first served. Before the version is settled it is
    /// one, and `only` says which kind.
    // spec: v2-5-b, v2-2.2-a, bd-4-c
    pub(super) fn admit(&mut self, link: &Link<'_>, only: Option<Kind>, out: &mut Queues) {
        if core::mem::take(&mut self.disordered) {
            self.order();
        }
        while let Some(xid) = self.waiting.front().copied() {
            let Some(request) = self.slots.get_mut(xid) else {
                self.waiting.pop_front();
                continue;
            };
            if only.is_some_and(|kind| kind != request.kind) {
                return;
            }
            let with_room;
            let link = match link.groups {
                // Most connections have none, and this is to cost them nothing.
                None => link,
                groups => {
                    let groups = groups.filter(|_| !request.by_base_means && request.kind == Kind::Rpc);
                    with_room = Link { groups, room: self.credits.available(), ..*link };
                    &with_room
                }
            };
            request.travel = match travel::call(&request.as_call(), link) {
                Ok(travel) => travel,
                Err(_) if self.credits.calls() > 0 && has_way(request, link, self.credits.used()) => return,
                Err(why) => {
                    self.end(xid, Outcome::Failed(Failure::Cannot(why)), out);
                    continue;
                }
            };
            let (messages, reserve) = request.grouped().map_or((1, 0), |grouped| (grouped.count, grouped.reserve));
            let Some(credit) = self.credits.group(messages) else { return };
            request.credit = Some(credit);
            self.unsent += messages;
            self.reserved += reserve;
            self.waiting.pop_front();
            if request.travel.is_inline() || !request.travel.exposes() {
                request.turn(Turn::Prepared);
                self.ready.push_back(xid);
            } else {
                request.turn(Turn::Expose);
                request.live = true;
                out.act(Action::Expose { xid });
            }
        }
    }

    /// How a call travels, once it has been let go.
    pub(super) fn travel(&self, xid: u32) -> Option<Travel> {
        self.slots.get(xid).filter(|request| request.life != Life::Waiting).map(|request| request.travel)
    }

    /// What that costs.
    pub(super) fn cost(&self, xid: u32) -> Option<Cost> {
        let request = self.slots.get(xid).filter(|request| request.life != Life::Waiting)?;
        Some(Cost::of(&request.as_call(), &request.travel))
    }

    /// What of a call is to be exposed.
    pub(super) fn exposures(&self, xid: u32) -> impl Iterator<Item = Exposure> + use<'_> {
        self.slots.get(xid).into_iter().flat_map(Request::exposures)
    }

    /// The segments of each exposure have come, in the order of the exposures.
    pub(super) fn exposed<'a>(
        &mut self,
        xid: u32,
        regions: impl Iterator<Item = &'a [Segment]>,
        link: &Link<'_>,
        out: &mut Queues,
    ) {
        let Some(request) = self.slots.get_mut(xid).filter(|request| request.life == Life::Exposing) else { return };
        let are_few = request.apart.expose(regions, self.most_segments);
        let fits = if request.grouped().is_some() {
            request.is_laid(link)
        } else {
            let octets = request.header(link).saturating_add(request.inline());
            octets <= link.call_threshold && request.reply_header(link) <= link.reply_threshold
        };
        if !are_few || request.exposures().count() != request.apart.exposed().len() || !fits {
            return self.end(xid, Outcome::Failed(Failure::Cannot(Cannot::TooManySegments)), out);
        }
        request.turn(Turn::Prepared);
        self.ready.push_back(xid);
    }

    /// Calls that are ready wait again, as the peer takes none now.
    pub(super) fn withdraw(&mut self, out: &mut Queues) {
        while let Some(xid) = self.ready.pop_front() {
            self.end(xid, Outcome::Again, out);
        }
    }

    /// A call's memory is exposed, but the peer takes no calls now.
    pub(super) fn postponed(&mut self, xid: u32, out: &mut Queues) {
        if self.slots.get(xid).is_some_and(|request| request.life == Life::Exposing) {
            self.end(xid, Outcome::Again, out);
        }
    }

    /// The transport could not expose its memory.
    pub(super) fn unexposable(&mut self, xid: u32, out: &mut Queues) {
        if self.slots.get(xid).is_some_and(|request| request.life == Life::Exposing) {
            self.end(xid, Outcome::Failed(Failure::Memory), out);
        }
    }

    /// Whether what was granted last still allows the next call that has its credits: it may be less than when they were given.
    /// A call in one message may always go where nothing else is under way.
    fn may_send(credits: &Requester, unsent: u32, messages: u32) -> bool {
        let sent = credits.used().saturating_sub(unsent);
        let alone = messages == 1 && credits.messages() == unsent;
        alone || sent.saturating_add(messages) <= credits.granted()
    }

    /// Writes the header of the next call that is ready.
    ///
    /// A call in several transmissions goes on with what is left in `sending`.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        buffer: &mut [u8],
        link: &Link<'_>,
        sending: Option<&mut Option<Box<Sending>>>,
        out: &mut Queues,
    ) -> Option<Transmit> {
        let mut sending = sending;
        while let Some(xid) = self.ready.front().copied() {
            let Some(request) = self.slots.get_mut(xid).filter(|request| request.life == Life::Ready) else {
                self.ready.pop_front();
                continue;
            };
            if request.grouped().is_some() {
                match self.transmit_group(xid, buffer, link, sending.as_deref_mut()) {
                    Grouping::Sent(transmit) => return Some(transmit),
                    Grouping::Waits => return None,
                    Grouping::Otherwise => self.end(xid, Outcome::Again, out),
                }
                continue;
            }
            if request.kind == Kind::Properties || !Self::may_send(&self.credits, self.unsent, 1) {
                // One for the properties has no RPC message, and waits for the replies before it.
                return None;
            }
            // What the peer takes may have changed since.
            let inline = request.inline();
            if request.header(link).saturating_add(inline) > link.call_threshold {
                self.ready.pop_front();
                self.end(xid, Outcome::Again, out);
                continue;
            }
            let header = write(xid, request, self.credits.wanted(), link, buffer)?;
            self.ready.pop_front();
            self.unsent -= 1;
            request.turn(Turn::Transmitted);
            request.sending = true;
            return Some(Transmit { what: Sent::Call { xid }, header, inline, invalidate: None, share: None });
        }
        None
    }

    /// The next call that is ready, if it is for the properties: they write their own header.
    pub(super) fn transmit_properties(&mut self) -> Option<u32> {
        let xid = self.ready.front().copied().filter(|_| Self::may_send(&self.credits, self.unsent, 1))?;
        let request = self.slots.get_mut(xid).filter(|request| request.kind == Kind::Properties)?;
        request.turn(Turn::Transmitted);
        self.unsent -= 1;
        self.ready.pop_front();
        Some(xid)
    }

    /// Octets of a call that follow its header.
    pub(super) fn parts(&self, xid: u32) -> Parts<'_> {
        self.slots.get(xid).map_or_else(no_parts, Request::parts)
    }

    /// The Send of a call has given back its memory.
    pub(super) fn released(&mut self, xid: u32, out: &mut Queues) {
        let Some(request) = self.slots.get_mut(xid).filter(|request| request.sending) else { return };
        request.sending = false;
        self.settle(xid, out);
    }

    /// A call's memory can no longer be reached by the peer.
    // spec: v2-2.2-b
    pub(super) fn fenced(&mut self, xid: u32, out: &mut Queues) {
        let fencing = |request: &&mut Request| request.live && request.life == Life::Settling;
        let Some(request) = self.slots.get_mut(xid).filter(fencing) else { return };
        request.live = false;
        self.settle(xid, out);
    }

    /// A reply to an open call has come: whether its buffer is kept. None if it invalidated a key that is not the call's.
    pub(super) fn replied(&mut self, answered: Answered<'_>, out: &mut Queues) -> Option<bool> {
        let Answered { xid, grant, chunks, buffer, inline, invalidated } = answered;
        let request = self.slots.get_mut(xid)?;
        if let Some(key) = invalidated {
            if !request.has_exposed(key) {
                return None;
            }
            request.invalidated = Some(key);
        }
        let is_wanted = request.life == Life::Sent;
        // Most calls expose nothing and have their memory back, and nothing is returned to them: they have ended.
        let is_plain = chunks.is_none() && request.apart.exposed().is_empty() && !inline.is_empty();
        if is_plain && is_wanted && request.is_settled() {
            request.turn(Turn::Ended);
            self.paid(xid, grant);
            out.tell_reply(xid, buffer, &inline);
            self.finished(xid);
            return Some(true);
        }
        let mut reply = Reply::inline(buffer, inline);
        let (outcome, kept) = match returned(request, chunks, &mut reply) {
            Ok(()) => (Outcome::Reply(reply), is_wanted),
            Err(why) => (Outcome::Failed(why), false),
        };
        self.answered(xid, grant, outcome, out);
        Some(kept)
    }

    /// A call gives back its credit: it has its answer, which grants so much.
    // spec: rtr-4.3-l, rtr-4.3-m
    #[inline]
    fn paid(&mut self, xid: u32, grant: Option<u32>) {
        let Some(request) = self.slots.get_mut(xid) else { return };
        if let Some(credit) = request.credit.take() {
            self.reserved -= request.reserve();
            // A receive queue has room for the replies to what was asked for, whatever is granted.
            let grant = grant.map(|grant| grant.min(self.wanted));
            if credit.messages() > 1 && grant.is_none() {
                self.credits.broken(credit);
            } else {
                self.credits.replied(credit, grant);
            }
        }
    }

    /// A call has its answer, whatever it is.
    fn answered(&mut self, xid: u32, grant: Option<u32>, outcome: Outcome, out: &mut Queues) {
        self.paid(xid, grant);
        let Some(request) = self.slots.get_mut(xid) else { return };
        match request.life {
            Life::Sent => self.end(xid, outcome, out),
            Life::Orphaned => {
                request.turn(Turn::Answered);
                self.remove(xid);
            }
            // Its end was known already: what comes too late gives back the credit alone.
            _ => {}
        }
    }

    /// A ROPT_REQPROP has its answer.
    pub(super) fn properties_answered(&mut self, xid: u32, grant: Option<u32>, out: &mut Queues) {
        self.answered(xid, grant, Outcome::None, out);
    }

    /// The peer answers a call with an error: it ends, or goes `again` in another version (decision D16).
    pub(super) fn refused(&mut self, xid: u32, error: PeerError, again: bool, out: &mut Queues) {
        let outcome = if again { Outcome::Again } else { Outcome::Failed(Failure::Peer(error)) };
        self.answered(xid, None, outcome, out);
    }

    /// Ends a call at the consumer's wish.
    pub(super) fn cancel(&mut self, xid: u32, out: &mut Queues) -> bool {
        let open = self.slots.get(xid).is_some_and(Request::is_wanted);
        if open {
            self.end(xid, Outcome::Failed(Failure::Cancelled), out);
        }
        open
    }

    /// Ends the calls whose deadline has passed.
    pub(super) fn expire(&mut self, now: u64, out: &mut Queues) {
        if now < self.soonest {
            return;
        }
        let mut from = 0;
        while let Some((xid, next)) =
            self.slots.find_from(from, |request| request.deadline <= now && request.is_wanted())
        {
            from = next;
            self.end(xid, Outcome::Failed(Failure::TimedOut), out);
        }
        let deadlines = self.slots.values().filter(|request| request.is_wanted()).map(|request| request.deadline);
        self.soonest = deadlines.min().unwrap_or(NEVER);
    }

    /// The connection is gone: no reply will come. What was not answered waits for the next one, the oldest first.
    // spec: bd-4.3.1-c, bd-4.3.2-d, bd-5.4-a
    pub(super) fn lost(&mut self, out: &mut Queues) {
        self.ready.clear();
        let mut from = 0;
        while let Some((xid, next)) = self.slots.find_from(from, |_| true) {
            from = next;
            let Some(request) = self.slots.get_mut(xid) else { continue };
            if request.credit.is_some() && !matches!(request.life, Life::Exposing | Life::Ready) {
                self.reserved -= request.reserve();
                request.credit = None;
            }
            match (request.life, request.kind) {
                (Life::Exposing | Life::Ready | Life::Sent, Kind::Rpc) => self.end(xid, Outcome::Again, out),
                (Life::Waiting | Life::Exposing | Life::Ready | Life::Sent, Kind::Properties) => {
                    self.end(xid, Outcome::None, out);
                }
                (Life::Orphaned, _) => {
                    request.turn(Turn::Answered);
                    self.remove(xid);
                }
                _ => {}
            }
        }
    }

    /// A new connection: credits begin anew.
    pub(super) fn connected(&mut self) {
        self.credits = Requester::new(self.wanted);
    }

    /// Ends all calls: there will be no connection.
    pub(super) fn fail_all(&mut self, why: Reason, out: &mut Queues) {
        let mut from = 0;
        while let Some((xid, next)) = self.slots.find_from(from, Request::is_wanted) {
            from = next;
            self.end(xid, Outcome::Failed(Failure::Closed(why)), out);
        }
    }

    /// A call's end is known. It waits for its memory.
    // spec: rtr-7.4-l, rtr-7.4-w
    fn end(&mut self, xid: u32, outcome: Outcome, out: &mut Queues) {
        let Some(request) = self.slots.get_mut(xid) else { return };
        match request.life {
            Life::Waiting => self.waiting.retain(|waiting| *waiting != xid),
            // Else a place that is let again would stand there twice.
            Life::Ready => self.ready.retain(|ready| *ready != xid),
            Life::Settling => {
                // Sent again it would have been; now it ends.
                request.outcome = outcome;
                return;
            }
            _ => {}
        }
        // A call that was not sent gives its credit back, as nobody else can.
        if matches!(request.life, Life::Exposing | Life::Ready)
            && let Some(credit) = request.credit.take()
        {
            self.unsent -= credit.messages();
            self.reserved -= request.reserve();
            self.credits.unused(credit);
        }
        if !request.turn(Turn::Ended) {
            return;
        }
        if request.live {
            out.act(Action::Fence { xid, invalidated: request.invalidated });
        }
        if request.is_settled() {
            self.settled(xid, outcome, out);
        } else {
            request.outcome = outcome;
        }
    }

    /// Tells of a call's end if its memory is its own.
    fn settle(&mut self, xid: u32, out: &mut Queues) {
        let Some(request) = self.slots.get_mut(xid) else { return };
        if request.life == Life::Settling && request.is_settled() {
            let outcome = core::mem::replace(&mut request.outcome, Outcome::None);
            self.settled(xid, outcome, out);
        }
    }

    /// Tells of the end of a call whose memory is its own.
    fn settled(&mut self, xid: u32, outcome: Outcome, out: &mut Queues) {
        let Some(request) = self.slots.get_mut(xid) else { return };
        let event = match outcome {
            Outcome::Again => {
                request.turn(Turn::Again);
                request.apart.withdraw();
                request.invalidated = None;
                self.waiting.push_back(xid);
                self.disordered = true;
                return;
            }
            Outcome::Reply(reply) => Some(Event::ReplyArrived { xid, reply }),
            Outcome::Failed(why) => (request.kind == Kind::Rpc).then_some(Event::CallFailed { xid, why }),
            Outcome::None => None,
        };
        if let Some(event) = event {
            out.tell(event);
        }
        self.finished(xid);
    }

    /// The end of a call is told: nothing is left of it, but maybe its credit.
    #[inline]
    fn finished(&mut self, xid: u32) {
        let Some(request) = self.slots.get_mut(xid) else { return };
        if request.credit.is_some() {
            request.turn(Turn::Abandoned);
        } else {
            request.turn(Turn::Settled);
            self.remove(xid);
        }
    }

    #[inline]
    fn remove(&mut self, xid: u32) {
        let is_rpc = self.slots.get(xid).is_some_and(|request| request.kind == Kind::Rpc);
        self.slots.remove(xid);
        self.open -= u16::from(is_rpc);
    }

    /// The oldest call goes first; one for the properties before all.
    fn order(&mut self) {
        let slots = &self.slots;
        let rank = |xid: &u32| slots.get(*xid).map(|request| (request.kind == Kind::Rpc, request.age));
        self.waiting.make_contiguous().sort_unstable_by_key(rank);
    }
}

/// Whether a call has a way once the messages under way, of which a reply is still to come, have given back their credits.
#[cold]
fn has_way(request: &Request, link: &Link<'_>, used: u32) -> bool {
    let later = Link { room: link.room.saturating_add(used), ..*link };
    link.groups.is_some() && travel::call(&request.as_call(), &later).is_ok()
}

#[cfg(test)]
mod tests;
