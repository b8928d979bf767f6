//! The requester: outgoing calls, from their beginning to their reported end.
//!
//! The requester owns the open calls, their order, credits and deadlines. `transfer::plan_call`
//! chooses the transfer method. `session::outgoing` decides when calls are admitted and sent.
//!
//! A path that takes or returns a credit must keep two counts, on which `may_send` and `receives`
//! rely: `unsent` has the messages of calls in the states Exposing and Ready, and `groups` the
//! receives reserved for replies of calls with a credit. `open` and `orphans` count the consumer's
//! calls before and after their reported end. A call ends by `end` in `ends`, or by the short path
//! for a plain reply: `on_reply` in `answers`.

mod answers;
mod call_chunks;
mod calls;
mod chunks;
mod deadlines;
mod ends;
mod grouped;
mod queue;
mod request;
mod stalled;

use alloc::boxed::Box;

use super::inline_parts::{InlineParts, no_parts};
use super::output::{Action, CallFailure, CloseReason, Exposure, SendOwner, Transmit};
use super::queues::OutputQueues;
use super::rtr::calls::GroupCalls;
use super::rtr::group_sender::GroupSender;
use super::states::{RequestEvent, RequestState};
use crate::chunk::Segment;
use crate::credit::RequesterCredits;
use crate::transfer::{self, CallSpec, Cost, PathLimits, TransferError, TransferPlan};

pub(super) use answers::{CallReply, ReplyOutcome};
use calls::{Calls, outstanding};
use chunks::write;
use deadlines::Deadlines;
use grouped::GroupOutcome;
use queue::{CallQueue, Rank};
pub(super) use request::RequestKind;
use request::{CallOutcome, Request};

/// No deadline.
pub(super) const NO_DEADLINE: u64 = u64::MAX;

/// The outgoing calls, and the credits that they take.
// spec: xc3-1.3-e, xc2-1.3-e
#[derive(Debug)]
pub(super) struct Requester {
    calls: Calls<Request>,
    /// The maximum number of segments that the transport may expose for one call.
    max_segments: usize,
    /// Calls without a credit. Calls that had one before precede the others, since they are older.
    waiting: CallQueue,
    /// Calls that can be transmitted.
    ready: CallQueue,
    pub(super) credits: RequesterCredits,
    /// Messages of calls that have their credits and were not sent yet.
    unsent: u32,
    /// The state of rtrext-02, if it is enabled.
    groups: Option<Box<GroupCalls>>,
    /// The maximum number of calls of the consumer, and their current number without orphans.
    max_calls: u16,
    open: u16,
    wanted: u32,
    /// The deadlines of all calls that have one.
    deadlines: Deadlines,
    /// The number of calls begun: the age of the next one.
    begun: u64,
    /// Calls whose credits only their replies return: the consumer has abandoned them.
    orphans: u16,
    /// Whether a call that had a credit waits again since the last admission.
    has_requeued: bool,
    /// Whether a call or a one-way message lacked credits at the last admission.
    lacked_credits: bool,
    /// The time since which orphans hold all credits and none was answered.
    stalled_since: Option<u64>,
    /// Why the last connection was lost.
    lost: CloseReason,
}

/// Describes why a call cannot begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SessionCallError {
    /// The maximum number of calls is open.
    Full,
    /// The consumer has drained or aborted the session, which has not ended yet.
    Closing,
    /// The session has ended for this reason.
    Ended(CloseReason),
    /// Results are wanted of parts of the call that overlap, or are not in their order.
    Spans,
}

impl core::fmt::Display for SessionCallError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "the maximum number of calls is open",
            Self::Closing => "the session is being closed",
            Self::Ended(reason) => return write!(f, "the session has ended: {reason}"),
            Self::Spans => "the spans of the results overlap or are not in the order of the call",
        })
    }
}

impl core::error::Error for SessionCallError {}

impl Requester {
    pub(super) fn new(calls: u16, credits: u32, segments: u16, seed: u32) -> Self {
        // An orphan holds a credit. One more is for a property request.
        let places = u32::from(calls).saturating_add(credits).saturating_add(1);
        Self {
            calls: Calls::new(places, seed),
            max_segments: segments.into(),
            waiting: CallQueue::default(),
            ready: CallQueue::default(),
            credits: RequesterCredits::new(credits),
            unsent: 0,
            groups: None,
            max_calls: calls,
            open: 0,
            wanted: credits,
            deadlines: Deadlines::default(),
            begun: 0,
            orphans: 0,
            has_requeued: false,
            lacked_credits: false,
            stalled_since: None,
            lost: CloseReason::Lost,
        }
    }

    /// Sends calls in transmissions of rtrext-02, too.
    pub(super) fn enable_groups(&mut self) {
        self.groups = Some(Box::default());
    }

    /// Returns whether no call holds memory.
    pub(super) fn is_settled(&self) -> bool {
        self.calls.values().all(Request::is_settled)
    }

    /// Returns the number of open calls, with orphans.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether no call of the consumer is open. The reply to an orphan may never arrive.
    pub(super) fn is_done(&self) -> bool {
        self.open == 0
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether a call that had a credit waits again since the last admission.
    pub(super) fn has_returned(&self) -> bool {
        self.has_requeued
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether no call waits to be admitted or transmitted.
    #[inline]
    pub(super) fn has_nothing_to_send(&self) -> bool {
        // One branch, since most polls find nothing.
        (self.waiting.entries() | self.ready.entries()) == 0
    }

    /// Returns whether a property request is open.
    pub(super) fn has_property_request(&self) -> bool {
        self.property_requests() > 0
    }

    /// Returns the number of open property requests.
    fn property_requests(&self) -> usize {
        let rpcs = usize::from(self.open) + usize::from(self.orphans);
        self.calls.len().saturating_sub(rpcs)
    }

    /// Returns the number of receives for replies: the maximum number of messages in flight on this
    /// connection so far.
    // spec: bd-4.3.1-b, bd-4.3.1-d, bd-4.3.2-c, bd-4.3.2-e
    // spec: rtr-4.3-i, rtr-4.3-n
    // spec: rfc8166-3.3.1-e
    pub(super) fn receives(&self) -> u32 {
        let reserved = self.groups.as_ref().map_or(0, |groups| groups.reserved());
        self.credits.receives().saturating_add(reserved)
    }

    /// Returns the slot of a call.
    pub(super) fn slot(&self, xid: u32) -> usize {
        self.calls.index(xid)
    }

    /// Returns whether a reply with this XID may arrive: the call was sent.
    pub(super) fn expects(&self, xid: u32) -> bool {
        self.expected(xid).is_some()
    }

    /// Returns the kind of the call to which a reply with this XID may arrive.
    pub(super) fn expected(&self, xid: u32) -> Option<RequestKind> {
        let request = self.calls.get(xid)?;
        request.is_answerable().then_some(request.kind)
    }

    /// Returns whether a reply with this XID may arrive in a Reply chunk.
    pub(super) fn takes_long_reply(&self, xid: u32) -> bool {
        self.calls
            .get(xid)
            .is_some_and(|request| request.is_answerable() && request.plan.reply_chunk.is_some())
    }

    pub(super) fn kind(&self, xid: u32) -> Option<RequestKind> {
        self.calls.get(xid).map(|request| request.kind)
    }

    /// Returns a lower bound of all deadlines.
    pub(super) fn earliest_deadline(&self) -> u64 {
        self.deadlines.earliest()
    }

    /// Begins a call. `taken` knows the XIDs in use in the other direction (decision D12).
    // spec: v2-4.2.2-f, bd-2-b, bd-2.4-b, bd-5.1-a
    pub(super) fn call(
        &mut self,
        kind: RequestKind,
        call: &CallSpec<'_>,
        deadline: u64,
        taken: impl Fn(u32) -> bool,
    ) -> Result<u32, SessionCallError> {
        if kind == RequestKind::Rpc && self.open == self.max_calls {
            return Err(SessionCallError::Full);
        }
        if !transfer::in_order(call.results) {
            return Err(SessionCallError::Spans);
        }
        let age = self.begun;
        let (xid, request) = self.calls.insert(taken).ok_or(SessionCallError::Full)?;
        request.begin(kind, age, deadline, call);
        self.begun += 1;
        if deadline != NO_DEADLINE {
            let calls = &self.calls;
            self.deadlines
                .push(xid, deadline, calls.len(), outstanding(calls));
        }
        match kind {
            RequestKind::Rpc => {
                self.open += 1;
                self.waiting.push(xid);
            }
            RequestKind::Properties => {
                let rank = Rank {
                    is_rpc: false,
                    sequence: age,
                };
                self.waiting.push_ranked(rank, xid);
            }
        }
        Ok(xid)
    }

    /// Limits the time after its first transmission within which a call may be transmitted over a
    /// further connection.
    pub(super) fn limit_resend(&mut self, xid: u32, window: u64) {
        if let Some(request) = self.calls.get_mut(xid) {
            request.resend_window = window;
        }
    }

    /// Gives credits to waiting calls in order. Before the version is negotiated one call is
    /// admitted, of the kind `only`.
    // spec: v2-5-b, v2-2.2-a, bd-4-c
    pub(super) fn admit(
        &mut self,
        link: &PathLimits<'_>,
        only: Option<RequestKind>,
        out: &mut OutputQueues,
    ) {
        (self.has_requeued, self.lacked_credits) = (false, false);
        while let Some(xid) = self.waiting.front() {
            let groups = link.groups.filter(|_| self.may_group(xid));
            let Some(request) = self.calls.get_mut(xid) else {
                return;
            };
            if only.is_some_and(|kind| kind != request.kind) {
                return;
            }
            let with_room;
            // Most connections send no groups, and this costs them nothing.
            let link = if link.groups.is_some() {
                with_room = PathLimits {
                    groups,
                    available_credits: self.credits.available(),
                    ..*link
                };
                &with_room
            } else {
                link
            };
            let shorter;
            let link = if let Some(max_segment_len) = request.segment_len {
                shorter = PathLimits {
                    max_segment_len,
                    ..*link
                };
                &shorter
            } else {
                link
            };
            request.plan = match transfer::plan_call(&request.as_call(), link) {
                Ok(plan) => plan,
                Err(_)
                    if self.credits.calls() > 0
                        && can_transfer(request, link, self.credits.used()) =>
                {
                    self.lacked_credits = true;
                    return;
                }
                Err(why) => {
                    self.end(xid, CallOutcome::Failed(CallFailure::Transfer(why)), out);
                    continue;
                }
            };
            let (messages, reserve) = request
                .grouped()
                .map_or((1, 0), |grouped| (grouped.count, grouped.reply_receives));
            let Some(credit) = self.credits.take_group(messages) else {
                self.lacked_credits = true;
                return;
            };
            request.credit = Some(credit);
            self.unsent += messages;
            if let Some(groups) = &mut self.groups {
                groups.reserve(reserve);
            }
            if request.plan.is_inline() || !request.plan.exposes() {
                request.advance(RequestEvent::Prepared);
                self.ready.push(xid);
            } else {
                request.advance(RequestEvent::Expose);
                request.exposed = true;
                out.push_action(Action::Expose { xid });
            }
            self.waiting
                .pop(in_state(&self.calls, RequestState::Waiting));
        }
    }

    /// Takes the next XID of the sequence, which no call has, unless it is `taken`.
    pub(super) fn fresh_xid(&mut self, taken: impl Fn(u32) -> bool) -> u32 {
        self.calls.next_xid(taken)
    }

    /// Returns the transfer plan of a call, once it is admitted.
    pub(super) fn plan(&self, xid: u32) -> Option<TransferPlan> {
        self.calls
            .get(xid)
            .filter(|request| request.state != RequestState::Waiting)
            .map(|request| request.plan)
    }

    /// Returns whether the peer may have a call; `None` if it is not open.
    pub(super) fn is_sent(&self, xid: u32) -> Option<bool> {
        self.calls.get(xid).map(Request::is_sent)
    }

    /// Returns the cost of the plan.
    pub(super) fn cost(&self, xid: u32) -> Option<Cost> {
        let request = self
            .calls
            .get(xid)
            .filter(|request| request.state != RequestState::Waiting)?;
        Some(Cost::of(&request.as_call(), &request.plan))
    }

    /// Returns the regions of a call to expose.
    pub(super) fn exposures(&self, xid: u32) -> impl Iterator<Item = Exposure> + use<'_> {
        self.calls.get(xid).into_iter().flat_map(Request::exposures)
    }

    /// Handles the segments of each exposure, in the order of the exposures.
    pub(super) fn exposed<'a>(
        &mut self,
        xid: u32,
        regions: impl Iterator<Item = &'a [Segment]>,
        link: &PathLimits<'_>,
        out: &mut OutputQueues,
    ) {
        let Some(request) = self
            .calls
            .get_mut(xid)
            .filter(|request| request.state == RequestState::Exposing)
        else {
            return;
        };
        let are_few = request.chunks.expose(regions, self.max_segments);
        let fits = match request.grouped().zip(link.groups) {
            Some((grouped, groups)) => request.fits_group(groups, grouped),
            None => request.grouped().is_none() && request.fits_messages(link),
        };
        let is_whole = request.exposures().count() == request.chunks.segment_counts().len();
        if !are_few || !is_whole || !fits {
            // Another plan with fewer regions or shorter messages may have room for as many
            // segments.
            let replan = are_few && is_whole && request.learn_segment_len(link.max_segment_len);
            let outcome = match replan {
                true => CallOutcome::Again,
                false => CallOutcome::Failed(CallFailure::Transfer(TransferError::TooManySegments)),
            };
            return self.end(xid, outcome, out);
        }
        request.advance(RequestEvent::Prepared);
        self.ready.push(xid);
    }

    /// Returns whether the last grant allows the next call that has its credits: the grant may have
    /// fallen since. A call in one message may always be sent if nothing else is in flight.
    // spec: rfc8166-3.3.1-a
    fn may_send(credits: &RequesterCredits, unsent: u32, messages: u32) -> bool {
        let sent = credits.used().saturating_sub(unsent);
        let alone = messages == 1 && credits.messages() == unsent;
        alone || sent.saturating_add(messages) <= credits.granted()
    }

    /// Writes the header of the next ready call.
    ///
    /// A call in several transmissions leaves the rest of them in `sending`.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        (now, buffer): (u64, &mut [u8]),
        link: &PathLimits<'_>,
        sending: Option<&mut Option<Box<GroupSender>>>,
        out: &mut OutputQueues,
    ) -> Option<Transmit> {
        let mut sending = sending;
        while let Some(xid) = self.ready.front()
            && let Some(request) = self.calls.get_mut(xid)
        {
            if request.is_too_late(now) {
                self.end(xid, CallOutcome::Failed(self.resend_expired()), out);
                continue;
            }
            if request.grouped().is_some() {
                match self.transmit_group(xid, (now, buffer), link, sending.as_deref_mut()) {
                    GroupOutcome::Sent(transmit) => return Some(transmit),
                    GroupOutcome::LacksCredits => return None,
                    GroupOutcome::Replan => self.end(xid, CallOutcome::Again, out),
                }
                continue;
            }
            if request.kind == RequestKind::Properties
                || !Self::may_send(&self.credits, self.unsent, 1)
            {
                // A property request has no RPC message, and waits for the replies before it.
                return None;
            }
            // The threshold may have changed since the call was planned.
            let inline = request.inline_len();
            if request.header_len(link).saturating_add(inline) > link.call_threshold {
                self.end(xid, CallOutcome::Again, out);
                continue;
            }
            let header = write(xid, request, self.credits.requested(), link, buffer)?;
            self.unsent -= 1;
            request.on_transmitted(now);
            self.ready.pop(in_state(&self.calls, RequestState::Ready));
            return Some(Transmit {
                owner: SendOwner::Call { xid },
                header,
                inline,
                invalidate: None,
                transmission: None,
            });
        }
        None
    }

    /// Returns the next ready call if it is a property request, which writes its own header.
    pub(super) fn transmit_properties(&mut self) -> Option<u32> {
        let xid = self
            .ready
            .front()
            .filter(|_| Self::may_send(&self.credits, self.unsent, 1))?;
        let request = self
            .calls
            .get_mut(xid)
            .filter(|request| request.kind == RequestKind::Properties)?;
        request.advance(RequestEvent::Transmitted);
        self.unsent -= 1;
        self.ready.pop(in_state(&self.calls, RequestState::Ready));
        Some(xid)
    }

    /// Returns the ranges of a call that follow its header.
    pub(super) fn parts(&self, xid: u32) -> InlineParts<'_> {
        self.calls.get(xid).map_or_else(no_parts, Request::parts)
    }

    /// Resets the credits for a new connection.
    pub(super) fn connected(&mut self) {
        self.credits = RequesterCredits::new(self.wanted);
        (self.lacked_credits, self.stalled_since) = (false, None);
    }
}

/// Returns a function that tells whether a call is in this state. The entry of any other call in
/// the queue for this state is dead.
fn in_state(slots: &Calls<Request>, life: RequestState) -> impl Fn(u32) -> bool + use<'_> {
    move |xid| slots.get(xid).is_some_and(|request| request.state == life)
}

/// Returns whether a call has a transfer method once the messages in flight have returned their
/// credits.
#[cold]
fn can_transfer(request: &Request, link: &PathLimits<'_>, used: u32) -> bool {
    let later = PathLimits {
        available_credits: link.available_credits.saturating_add(used),
        ..*link
    };
    link.groups.is_some() && transfer::plan_call(&request.as_call(), &later).is_ok()
}

#[cfg(test)]
mod tests;
