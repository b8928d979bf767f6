//! Calls that arrived in transmissions of rtrext-02, and their replies (decision D23 of
//! `spec/README.md`).
//!
//! `transfer::group` plans a reply, and `rtr::group_sender` sends the transmissions after the
//! first. `write_group` must write exactly the length that `transfer::headers` computes: otherwise
//! `begin_group` fails, and the reply blocks the queue. There is one item for each direction of the
//! call, in the same order. `only_retained` counts the calls in the state Retained: `is_idle`
//! relies on it. `retained` is in the order of expiry, since `drop_retained` reads only its front:
//! the session gives each reply the current time plus one interval, which does not change.

use alloc::boxed::Box;

use arrayvec::ArrayVec;

use super::call::ServedCall;
use super::{ReplyLimits, Responder};
use crate::connection::config::MAX_WRITE_CHUNKS;
use crate::connection::output::{
    Action, BufferId, CallLocation, Event, SendOwner, ServedCallId, Transmit,
};
use crate::connection::queues::OutputQueues;
use crate::connection::rtr::group_sender::{GroupOutline, GroupSender};
use crate::connection::rtr::headers::write as write_header;
use crate::connection::rtr::reassembly::IncomingGroup;
use crate::connection::rtr::replies::GroupedCall;
use crate::connection::states::{ServedEvent, ServedState};
use crate::continuation::ReassembledMessage;
use crate::transfer::{
    self, DirectionMatch, GroupReplyPlan, GroupReplySpec, ReplyPlan, ResultItem, TransferError,
};
use crate::v2::MsgType;
use crate::v2::rtr::{Loc, LocTbsn, Mitem, ROPT_XMTRESP, Resp};
use crate::version::Version;

/// The length in bytes of a reply's header without chunks.
const BASE_HEADER: u32 = Version::Two.header_len();

/// Describes why a complete call in transmissions is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) enum ReassembledCallError {
    /// It has the XID of a call that is being served.
    DuplicateXid,
    /// More calls than there is room for.
    Overrun,
}

impl Responder {
    /// Returns the state of a call that arrived in transmissions; `None` for any other call.
    #[inline]
    pub(super) fn group(&self, key: u32) -> Option<&GroupedCall> {
        self.groups.as_ref()?.get(self.calls.index(key), key)
    }

    fn group_mut(&mut self, key: u32) -> Option<&mut GroupedCall> {
        self.groups.as_mut()?.get_mut(self.calls.index(key), key)
    }

    /// Returns the number of messages in which a call arrived.
    #[inline]
    pub(super) fn messages(&self, key: u32) -> u32 {
        self.group(key).map_or(1, |group| group.parts)
    }

    /// Returns whether the reply to a call is retained or retransmitted after its Send.
    #[inline]
    pub(super) fn outlives_send(&self, key: u32) -> bool {
        let is_sending = |call: &ServedCall| call.state == ServedState::Sending;
        self.group(key).is_some_and(|group| {
            group.reply.is_some()
                && (group.retains_reply || group.retransmitted)
                && self.calls.get(key).is_some_and(is_sending)
        })
    }

    /// Handles a complete call in transmissions, each of which has taken its credit. The directions
    /// of the group are moved into the call.
    ///
    /// # Errors
    /// The call is not served; the message is returned.
    pub(in crate::connection) fn reassembled(
        &mut self,
        group: &mut IncomingGroup,
        message: Box<ReassembledMessage>,
        out: &mut OutputQueues,
    ) -> Result<ServedCallId, (ReassembledCallError, Box<ReassembledMessage>)> {
        if self.is_open(group.xid) {
            return Err((ReassembledCallError::DuplicateXid, message));
        }
        let Some((key, call)) = self.calls.insert(|_| false) else {
            return Err((ReassembledCallError::Overrun, message));
        };
        call.gathered(group, &message);
        let (xid, reading) = (call.xid, call.state == ServedState::Reading);
        self.index_xid(key, xid);
        if let Some(groups) = &mut self.groups {
            let call = GroupedCall {
                parts: group.parts(),
                reserve: group.directions.reply_receives,
                reply: None,
                retains_reply: false,
                retransmitted: false,
            };
            groups.insert(self.calls.index(key), key, call);
        }
        let call = ServedCallId(key);
        if reading {
            out.push_action(Action::Gather { call, message });
        } else {
            out.push_event(Event::CallArrived {
                call,
                xid,
                message: CallLocation::Reassembled(message),
            });
        }
        Ok(call)
    }

    /// Plans the reply to a call in transmissions. It is a plain message if it fits and the call
    /// has no directions.
    // spec: rtr-4.3-j, rtr-4.3-k, rtr-5.2-d, rtr-8.5-a
    pub(super) fn reply_grouped(
        &mut self,
        served: ServedCallId,
        length: u32,
        results: &[ResultItem],
        limits: ReplyLimits<'_>,
    ) -> Option<Result<(), TransferError>> {
        let slot = self.calls.index(served.0);
        let call = self
            .calls
            .get_mut(served.0)
            .filter(|call| call.state == ServedState::Delivered)?;
        let directions = call.offered.directions();
        let matched = DirectionMatch::of(results, directions, call.length);
        let grouped = self.groups.as_mut()?.get_mut(slot, served.0)?;
        call.reply.begin(length, results);
        let results = &call.reply.results;
        let plain = BASE_HEADER.saturating_add(length) <= limits.threshold;
        grouped.reply = match limits.groups {
            // The peer has announced in the meantime that it accepts no groups.
            None if plain => None,
            None => return Some(Err(TransferError::ReplyTooLong)),
            Some(_) if directions.is_empty() && plain => None,
            Some((structure, most)) => {
                let most = grouped.reserve.max(1).min(most);
                match transfer::plan_group_reply(&GroupReplySpec {
                    length,
                    results,
                    directions,
                    matched,
                    requester_structure: structure,
                    max_transmissions: most,
                }) {
                    Ok(group) => Some(group),
                    Err(why) => return Some(Err(why)),
                }
            }
        };
        if let Some(plan) = grouped.reply {
            call.reply.plan.reduced = plan.written.into();
            call.reply.matched = plan.matched;
        }
        call.assign_chunks();
        call.advance(ServedEvent::Replied);
        self.replies_queued += grouped.parts;
        self.replies.push_back(served.0);
        Some(Ok(()))
    }

    /// Writes the header of the first transmission of a reply; `None` if the structure of the
    /// requester's buffers has changed.
    // spec: rtr-4.2-a, rtr-9.1-f
    fn begin_group(
        &self,
        key: u32,
        limits: ReplyLimits<'_>,
        buffer: &mut [u8],
    ) -> Option<GroupSender> {
        let (call, (structure, _)) = (self.calls.get(key)?, limits.groups?);
        let group = self.group(key)?.reply?;
        let outline = GroupOutline {
            owner: SendOwner::Reply {
                call: ServedCallId(key),
            },
            xid: call.xid,
            direction: MsgType::Reply,
            opener: ROPT_XMTRESP,
            credits: self.credits.next(call.requested_credits),
            structure: *structure,
            length: call.reply.length,
        };
        let (reduced, placed) = (
            call.reply.chosen(group.placed | group.written),
            call.reply.chosen(group.placed),
        );
        let sending = GroupSender::new(outline, group.header, group.count, reduced, placed);
        let written = write_group(call, group, &sending, buffer)?;
        (written == group.header as usize).then_some(sending)
    }

    /// Handles a report that the reply to this call was broken: a retained reply that fits is
    /// retransmitted without rtrext-02 (decision D23). Returns false if it cannot be.
    // spec: rtr-5.4-m
    pub(in crate::connection) fn on_error_report(&mut self, xid: u32, threshold: u32) -> bool {
        let Some(replies) = &mut self.groups else {
            return false;
        };
        let Some(key) = replies.xids.find(xid) else {
            return false;
        };
        let slot = self.calls.index(key);
        let (Some(call), Some(group)) = (self.calls.get_mut(key), replies.get_mut(slot, key))
        else {
            return false;
        };
        // The peer may report one group several times. Reports that arrive before the
        // retransmission are stale.
        let waits = call.state == ServedState::Replying || group.reply.is_some();
        if group.retransmitted && waits {
            return true;
        }
        let fits = BASE_HEADER.saturating_add(call.reply.length) <= threshold;
        // One retransmission only, since the peer could report each.
        if !fits || group.reply.is_none() || group.retransmitted {
            return false;
        }
        group.retransmitted = true;
        if call.advance(ServedEvent::Again) {
            replies.only_retained -= 1;
            self.retransmit(key);
        }
        true
    }

    /// Queues a retained reply again, all of it inline.
    fn retransmit(&mut self, key: u32) {
        if let Some(group) = self.group_mut(key) {
            (group.retains_reply, group.reply) = (false, None);
        }
        if let Some(call) = self.calls.get_mut(key) {
            call.reply.plan = ReplyPlan {
                reduced: 0,
                long: false,
            };
            self.replies.push_front(key);
        }
        self.skip_retransmitted();
    }

    /// Removes the entries of replies that are no longer retained from the front.
    fn skip_retransmitted(&mut self) {
        let Some(replies) = &mut self.groups else {
            return;
        };
        while let Some((key, _)) = replies.retained.front().copied()
            && !replies
                .get(self.calls.index(key), key)
                .is_some_and(|group| group.retains_reply)
        {
            replies.retained.pop_front();
        }
    }

    /// Handles the end of the Send of a reply in transmissions: the reply is retained, or
    /// retransmitted.
    // spec: rtr-5.4-l
    pub(super) fn retain_reply(&mut self, key: u32) {
        let again = self.group(key).is_some_and(|group| group.retransmitted);
        let (Some(call), Some(replies)) = (self.calls.get_mut(key), &mut self.groups) else {
            return;
        };
        call.advance(ServedEvent::Kept);
        if again && call.advance(ServedEvent::Again) {
            self.retransmit(key);
        } else {
            replies.only_retained += 1;
        }
    }

    /// Drops the replies that were retained until this time, or until a later call.
    pub(in crate::connection) fn drop_retained(&mut self, until: u64, out: &mut OutputQueues) {
        while let Some(replies) = &mut self.groups
            && let Some((key, due)) = replies.retained.front().copied()
            && due <= until
        {
            replies.retained.pop_front();
            let slot = self.calls.index(key);
            let Some(call) = self.calls.get_mut(key) else {
                continue;
            };
            // If its Send still holds its memory, nothing retains it after that.
            if let Some(group) = replies.get_mut(slot, key) {
                group.retains_reply = false;
            }
            if call.state == ServedState::Retained && call.advance(ServedEvent::Dropped) {
                replies.only_retained -= 1;
                self.push_ended(ServedCallId(key), true, out);
            }
        }
        self.skip_retransmitted();
    }

    /// Handles the loss of the connection: no reply that is with a Send is retained or
    /// retransmitted.
    pub(super) fn drop_sending(&mut self) {
        let Some(replies) = &mut self.groups else {
            return;
        };
        replies.retained.clear();
        let mut from = 0;
        while let Some((key, next)) = self
            .calls
            .find_from(from, |call| call.state == ServedState::Sending)
        {
            from = next;
            if let Some(group) = replies.get_mut(self.calls.index(key), key) {
                (group.retains_reply, group.retransmitted) = (false, false);
            }
        }
    }

    /// Returns the time until which the first of the retained replies is retained.
    pub(in crate::connection) fn retained_until(&self) -> Option<u64> {
        let (_, until) = self.groups.as_ref()?.retained.front()?;
        Some(*until)
    }

    /// Releases a reply whose last transmission was not sent before the connection was lost.
    pub(in crate::connection) fn on_group_unfinished(
        &mut self,
        call: ServedCallId,
        out: &mut OutputQueues,
    ) {
        if let Some(group) = self.group_mut(call.0) {
            group.retains_reply = false;
        }
        if self.released(call) {
            out.push_event(Event::CallEnded {
                call,
                answered: false,
            });
        }
    }

    /// Plans the next reply again, if it is in transmissions, since the structure of the
    /// requester's buffers may have changed. Returns the call if no transfer method fits.
    pub(in crate::connection) fn unroutable_reply<'a>(
        &mut self,
        limits: impl Fn(Version) -> ReplyLimits<'a>,
    ) -> Option<ServedCallId> {
        let key = *self.replies.front()?;
        let call = self
            .calls
            .get(key)
            .filter(|call| call.state == ServedState::Replying)?;
        let group = self.groups.as_mut()?.get_mut(self.calls.index(key), key)?;
        let before = group.reply?;
        let plan = limits(call.version).groups.and_then(|(structure, most)| {
            let (length, results) = (call.reply.length, call.reply.results.as_slice());
            let (directions, most) = (call.offered.directions(), group.reserve.max(1).min(most));
            let answer = GroupReplySpec {
                length,
                results,
                directions,
                matched: before.matched,
                requester_structure: structure,
                max_transmissions: most,
            };
            transfer::group_laid(&answer, before.placed.into(), before.written.into())
        });
        match plan {
            Some(plan) => group.reply = Some(plan),
            None => return Some(ServedCallId(key)),
        }
        None
    }

    /// Writes the header of a reply in transmissions.
    #[cold]
    pub(super) fn transmit_group(
        &mut self,
        key: u32,
        limits: ReplyLimits<'_>,
        (until, place): (u64, &mut Option<Box<GroupSender>>),
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let sending = self.begin_group(key, limits, buffer)?;
        let slot = self.calls.index(key);
        let (call, replies) = (self.calls.get_mut(key)?, self.groups.as_mut()?);
        let group = replies.get_mut(slot, key)?;
        let one = sending.count == 1;
        let invalidate = call.keys.single().filter(|_| one && limits.invalidate);
        group.retains_reply = until != 0;
        call.advance(ServedEvent::Transmitted);
        let (xid, asked, parts, again) = (
            call.xid,
            call.requested_credits,
            group.parts,
            group.retransmitted,
        );
        let until = (until != 0).then_some((key, until));
        replies.retained.extend(until);
        replies.xids.insert(slot, key, xid);
        self.replies.pop_front();
        self.answered(key, asked, parts, again);
        let transmit = sending.first(invalidate);
        sending.replace(place);
        Some(transmit)
    }
}

/// Writes the header of the first transmission of a reply.
// spec: rtr-6.2-m, rtr-6.2-n, rtr-6.2-o, rtr-6.2-v, rtr-6.2-w, rtr-6.2-x, rtr-6.2-y, rtr-7.1-g
// spec: rtr-7.4-h
// spec: rtr-7.4-x, rtr-9.3-a, rtr-9.3-b, rtr-9.3-c, rtr-9.3-d
fn write_group(
    call: &ServedCall,
    group: GroupReplyPlan,
    sending: &GroupSender,
    buffer: &mut [u8],
) -> Option<usize> {
    let targets = sending.targets()?;
    let mut chunks = call.offered.chunks();
    let mut items = ArrayVec::<Mitem<'_>, MAX_WRITE_CHUNKS>::new();
    let mut placed = 0;
    for at in 0..call.offered.directions().len() {
        let (_, memory) = chunks.next()?;
        let result = group.matched.result(at);
        let item = match result.and_then(|number| Some((number, call.reply.results.get(number)?))) {
            None => Mitem {
                disp: 0,
                length: 0,
                r#where: Loc::Noitem,
            },
            Some((number, result)) => {
                let r#where = if group.placed >> number & 1 == 1 {
                    placed += 1;
                    Loc::Tbsn(LocTbsn {
                        offset: 0,
                        bsnum: targets.of_item(placed - 1).into(),
                    })
                } else if group.written >> number & 1 == 1 {
                    Loc::Exrw(memory.into())
                } else {
                    Loc::Tooshort
                };
                Mitem {
                    disp: result.position,
                    length: result.length,
                    r#where,
                }
            }
        };
        items.try_push(item).ok()?;
    }
    let info = Resp {
        dp: items.as_slice().into(),
        count: sending.count,
        pslen: sending.section(),
    };
    write_header(
        buffer,
        call.xid,
        sending.credits,
        (ROPT_XMTRESP, MsgType::Reply),
        &info,
    )
}

impl ServedCall {
    /// Begins a call in transmissions.
    fn gathered(&mut self, group: &mut IncomingGroup, message: &ReassembledMessage) {
        let first = message.buffers.first();
        let buffer = first.map_or(BufferId(0), |first| first.buffer);
        self.begin((group.xid, Version::Two, group.credits), buffer, None);
        self.state = if message.has_reads() {
            ServedState::Reading
        } else {
            ServedState::Delivered
        };
        self.length = message.length;
        self.keys
            .add(message.segments.iter().map(|segment| segment.handle));
        let lists = self.offered.fill();
        let directions = &group.directions.directions;
        let counts = directions
            .iter()
            .map(|direction| direction.segments as usize);
        // Both vectors have the same capacity.
        lists.writes.extend(counts);
        lists.directions.extend_from_slice(directions);
        lists.segments.append(&mut group.directions.segments);
        self.keys
            .add(lists.segments.iter().map(|segment| segment.handle));
    }
}
