//! Calls in transmissions of rtrext-02: their headers, and the check of their replies.
//!
//! `transfer::group` plans such a call, and `rtr::group_sender` sends the transmissions after the
//! first. `write` must write exactly the length that `transfer::headers` computes: otherwise
//! `begin_group` rejects the plan, and the call is planned again without end. Directions and items
//! are in the order of the results: the responder matches results with directions in that order
//! (rtrext-02, section 7.4).

use alloc::boxed::Box;

use arrayvec::ArrayVec;

use super::request::{CallOutcome, Request};
use super::{RequestKind, Requester, in_state};
use crate::chunk::{self, ChunkError};
use crate::connection::output::{
    BufferId, CallFailure, CallRegion, ReplyLocation, SendOwner, Transmit,
};
use crate::connection::queues::OutputQueues;
use crate::connection::rtr::calls::GroupCalls;
use crate::connection::rtr::group_sender::{GroupOutline, GroupSender, MAX_REDUCED};
use crate::connection::rtr::headers::write as write_header;
use crate::connection::states::RequestState;
use crate::continuation::{GroupError, ReassembledMessage, Reduction};
use crate::transfer::headers::PlacementTargets;
use crate::transfer::{
    self, DataItem, GroupLimits, GroupPlan, MAX_RESULTS, PathLimits, Span, TransferMethod, headers,
};
use crate::v2::rtr::{
    Loc, LocTbsn, Mitem, ROPT_XMTREQ, Req, Rsditem, Rsdloc, RsdlocBysize, Rsdrange, Rsdset,
};
use crate::v2::{self, MsgType};

/// The minimum length in bytes of a result that is reduced. Shorter results stay in the message.
const MIN_REDUCED_LEN: u32 = crate::transfer::MIN_PLACED_RESULT;

/// The layout of a call in its transmissions.
struct GroupLayout {
    header: u32,
    reduced: ArrayVec<DataItem, MAX_REDUCED>,
    placed: ArrayVec<DataItem, MAX_REDUCED>,
}

impl Request {
    /// Returns the plan of a call in transmissions of rtrext-02.
    pub(super) const fn grouped(&self) -> Option<GroupPlan> {
        if let TransferMethod::Grouped(grouped) = self.plan.method {
            Some(grouped)
        } else {
            None
        }
    }

    /// Returns the number of messages of the call.
    pub(super) fn messages(&self) -> u32 {
        self.grouped().map_or(1, |grouped| grouped.count)
    }

    /// Returns the number of receives that are reserved for the reply.
    pub(super) fn reserve(&self) -> u32 {
        self.grouped().map_or(0, |grouped| grouped.reply_receives)
    }

    /// Returns the items of a set.
    fn chosen(&self, set: u8) -> ArrayVec<DataItem, MAX_REDUCED> {
        let items = self
            .chunks
            .items()
            .iter()
            .enumerate()
            .filter(|(at, _)| set >> at & 1 == 1);
        items.map(|(_, item)| *item).take(MAX_REDUCED).collect()
    }

    /// Returns the layout with the exposed segments; `None` if it differs from the plan.
    fn layout(&self, groups: &GroupLimits) -> Option<GroupLayout> {
        let grouped = self.grouped()?;
        let (reduced, placed) = (
            self.chosen(grouped.placed | grouped.read),
            self.chosen(grouped.placed),
        );
        let bytes: u32 = reduced
            .iter()
            .map(|item| item.length.next_multiple_of(4))
            .sum();
        let stream = self.length.saturating_sub(bytes);
        let lengths: ArrayVec<u32, MAX_REDUCED> = placed.iter().map(|item| item.length).collect();
        let contents = headers::RequestContents {
            send: grouped.send.into(),
            explicit: grouped.explicit.into(),
            directed: grouped.directed.count_ones(),
            sets: transfer::result_sets(self.chunks.results(), grouped.directed),
            by_size: grouped.by_size.is_some(),
            read: grouped.read.into(),
            segments: self.chunks.segments().len() as u64,
        };
        let fixed = contents.bytes()?;
        let (header, count) = headers::first_header(
            &groups.responder_structure,
            fixed,
            stream,
            &lengths,
            grouped.count,
        )?;
        (count == grouped.count).then_some(GroupLayout {
            header,
            reduced,
            placed,
        })
    }

    /// Returns whether a call whose memory is exposed still fits its transmissions.
    pub(super) fn fits_group(&self, groups: &GroupLimits, grouped: GroupPlan) -> bool {
        self.layout(groups).is_some() && self.takes_reply(groups, grouped)
    }

    /// Returns whether the largest reply, with the segments exposed for results in its header, fits
    /// the receives that are reserved for it.
    // spec: rtr-4.3-h, rtr-5.2-f
    fn takes_reply(&self, groups: &GroupLimits, grouped: GroupPlan) -> bool {
        let regions = self.regions(self.chunks.segments());
        let results = regions.filter(|(region, _)| matches!(region, CallRegion::Result(_)));
        let segments: u64 = results.map(|(_, segments)| segments.len() as u64).sum();
        let sets = (grouped.send.into(), grouped.explicit.into());
        let count = transfer::reply_transmissions(&self.as_call(), groups, sets, segments);
        count.is_some_and(|count| count <= grouped.reply_receives.max(1))
    }
}

/// The outcome of the attempt to transmit a call in transmissions.
pub(super) enum GroupOutcome {
    /// The first transmission is sent.
    Sent(Transmit),
    /// The credits are not available now.
    LacksCredits,
    /// The plan no longer holds.
    Replan,
}

impl Requester {
    /// Returns whether a call may be sent in transmissions.
    pub(super) fn may_group(&self, xid: u32) -> bool {
        let Some(request) = self.calls.get(xid) else {
            return false;
        };
        let call = (self.calls.index(xid), request.age);
        let is_given_up = |groups: &GroupCalls| groups.is_given_up(call);
        request.kind == RequestKind::Rpc && !self.groups.as_deref().is_some_and(is_given_up)
    }

    /// Begins to send a call, if its plan and credits still hold.
    #[cold]
    pub(super) fn transmit_group(
        &mut self,
        xid: u32,
        (now, buffer): (u64, &mut [u8]),
        link: &PathLimits<'_>,
        place: Option<&mut Option<Box<GroupSender>>>,
    ) -> GroupOutcome {
        let messages = self.calls.get(xid).map_or(1, Request::messages);
        if !Self::may_send(&self.credits, self.unsent, messages) {
            // If nothing is in flight, no reply will return the credits that it lacks.
            let waits = self.credits.messages() != self.unsent;
            return if waits {
                GroupOutcome::LacksCredits
            } else {
                GroupOutcome::Replan
            };
        }
        match place.zip(self.begin_group(xid, link, buffer)) {
            Some((place, sending)) => {
                self.mark_begun(xid, now);
                self.ready.pop(in_state(&self.calls, RequestState::Ready));
                let transmit = sending.first(None);
                sending.replace(place);
                GroupOutcome::Sent(transmit)
            }
            None => GroupOutcome::Replan,
        }
    }

    /// Writes the header of the first transmission of a call; `None` if the plan no longer holds.
    // spec: rtr-4.2-a, rtr-9.1-e
    fn begin_group(
        &self,
        xid: u32,
        link: &PathLimits<'_>,
        buffer: &mut [u8],
    ) -> Option<GroupSender> {
        let (request, groups) = (self.calls.get(xid)?, link.groups?);
        let layout = request.layout(groups)?;
        let outline = GroupOutline {
            owner: SendOwner::Call { xid },
            xid,
            direction: MsgType::Call,
            opener: ROPT_XMTREQ,
            credits: self.credits.requested(),
            structure: groups.responder_structure,
            length: request.length,
        };
        let count = request.messages();
        let sending =
            GroupSender::new(outline, layout.header, count, layout.reduced, layout.placed);
        let written = write(request, &sending, buffer)?;
        debug_assert_eq!(
            written, layout.header as usize,
            "what was planned is what is written"
        );
        (written == layout.header as usize).then_some(sending)
    }

    /// Handles a complete reply in transmissions.
    pub(in crate::connection) fn reassembled(
        &mut self,
        xid: u32,
        grant: u32,
        invalidated: Option<u32>,
        mut message: Box<ReassembledMessage>,
        out: &mut OutputQueues,
    ) -> Result<(), (Box<ReassembledMessage>, bool)> {
        let owns_key = |request: &&mut Request| invalidated.is_none_or(|key| request.owns_key(key));
        let Some(request) = self.calls.get_mut(xid).filter(owns_key) else {
            return Err((message, true));
        };
        request.invalidated = invalidated.or(request.invalidated);
        let mut reply = ReplyLocation {
            buffer: message
                .buffers
                .first()
                .map_or(BufferId(0), |first| first.buffer),
            inline: 0..0,
            long: None,
            results: ArrayVec::new(),
            reassembled: None,
        };
        let kept = request.state == RequestState::Sent;
        match returned(request, &mut message, &mut reply) {
            Ok(()) if kept => {
                reply.reassembled = Some(message);
                self.on_answer(xid, Some(grant), CallOutcome::Reply(reply), out);
                Ok(())
            }
            found => {
                let outcome = found.err().map_or(CallOutcome::None, CallOutcome::Failed);
                self.on_answer(xid, Some(grant), outcome, out);
                Err((message, false))
            }
        }
    }

    /// Returns the maximum number of transmissions of the reply to a call: the reserved receives,
    /// or one (decision D19).
    pub(in crate::connection) fn reply_limit(&self, xid: u32) -> u32 {
        self.calls
            .get(xid)
            .map_or(1, |request| request.reserve().max(1))
    }

    /// Handles a report that a call was broken: it is retransmitted once without rtrext-02. Returns
    /// false if no such call is open.
    // spec: rtr-5.4-j, rtr-5.4-k
    pub(in crate::connection) fn on_error_report(
        &mut self,
        xid: u32,
        why: GroupError,
        grant: Option<u32>,
        out: &mut OutputQueues,
    ) -> bool {
        let slot = self.calls.index(xid);
        let (Some(request), Some(groups)) = (self.calls.get_mut(xid), &mut self.groups) else {
            return false;
        };
        let call = (slot, request.age);
        // A request for properties is no transmission of a group: the peer has answered it, too.
        if request.kind == RequestKind::Properties {
            return true;
        }
        // The peer may report one group several times. Reports that arrive after the retransmission
        // are stale.
        if groups.is_given_up(call) && !matches!(why, GroupError::HeaderType(_)) {
            return true;
        }
        if !matches!(
            request.state,
            RequestState::Sent | RequestState::Settling | RequestState::Orphaned
        ) {
            return false;
        }
        let outcome = if groups.give_up(call) {
            CallOutcome::Again
        } else {
            CallOutcome::Failed(CallFailure::Group(why))
        };
        self.on_error_answer(xid, grant, outcome, out);
        true
    }

    /// Handles an error that tells that the peer does not know the operation of a call in
    /// transmissions. The call is retransmitted without rtrext-02. Later transmissions of the call
    /// may be answered with the same error, which is ignored. Returns `None` if the error concerns
    /// another message.
    pub(in crate::connection) fn unknown_operation(
        &mut self,
        xid: u32,
        grant: u32,
        out: &mut OutputQueues,
    ) -> Option<u32> {
        let slot = self.calls.index(xid);
        let (request, groups) = (self.calls.get_mut(xid)?, self.groups.as_mut()?);
        let call = (slot, request.age);
        if groups.take_stale(call) {
            return Some(0);
        }
        // The error does not concern a call that is not sent yet.
        let went = matches!(
            request.state,
            RequestState::Sent | RequestState::Settling | RequestState::Orphaned
        ) && request.credit.is_some();
        let count = request
            .grouped()
            .filter(|_| went && !groups.is_given_up(call))?
            .count;
        groups.give_up(call);
        groups.expect_stale(call, count - 1);
        self.on_error_answer(xid, Some(grant), CallOutcome::Again, out);
        Some(count)
    }

    /// Fails a call whose reply is invalid.
    pub(in crate::connection) fn reply_failed(
        &mut self,
        xid: u32,
        why: CallFailure,
        out: &mut OutputQueues,
    ) {
        if self.expects(xid) {
            self.on_answer(xid, None, CallOutcome::Failed(why), out);
        }
    }

    /// Releases a call whose last transmission was not sent before the connection was lost.
    pub(in crate::connection) fn on_group_unfinished(&mut self, xid: u32, out: &mut OutputQueues) {
        self.released(xid, out);
    }

    /// Records that the first transmission of a call is sent.
    pub(super) fn mark_begun(&mut self, xid: u32, now: u64) {
        if let Some(request) = self.calls.get_mut(xid) {
            self.unsent -= request.messages();
            request.on_transmitted(now);
        }
    }
}

/// The directions of a call about its results.
#[derive(Default)]
struct DirectionSets<'a> {
    spans: ArrayVec<Span, MAX_RESULTS>,
    items: ArrayVec<Rsditem<'a>, MAX_RESULTS>,
}

impl<'w> DirectionSets<'w> {
    /// Returns the directions of a call, which take the next regions of `regions`.
    fn of(
        request: &Request,
        grouped: GroupPlan,
        regions: &mut impl Iterator<Item = (CallRegion, &'w [v2::Segment])>,
    ) -> Option<Self> {
        let mut directions = Self::default();
        let results = request.chunks.results().iter().enumerate();
        for (at, result) in results.filter(|(at, _)| grouped.directed >> at & 1 == 1) {
            let send = grouped.send >> at & 1 == 1;
            let memory = if grouped.explicit >> at & 1 == 1 {
                Some(regions.next()?.1)
            } else {
                None
            };
            let loc = match (memory, send, grouped.by_size) {
                (None, ..) => Rsdloc::Tbsn,
                (Some(mine), false, _) => Rsdloc::Exrw(mine.into()),
                (Some(mine), true, None) => Rsdloc::Choice(mine.into()),
                (Some(mine), true, Some(from)) => Rsdloc::Bysize(RsdlocBysize {
                    dsdov: from,
                    bsex: mine.into(),
                }),
            };
            let stays = (grouped.send | grouped.explicit) >> at & 1 == 0;
            directions.spans.try_push(result.of).ok()?;
            directions
                .items
                .try_push(Rsditem {
                    minlen: if stays { u32::MAX } else { MIN_REDUCED_LEN },
                    loc,
                })
                .ok()?;
        }
        Some(directions)
    }

    /// Returns the directions by span, for a call of `length` bytes.
    // spec: rtr-3.4-b, rtr-7.4-q, rtr-7.4-y, rtr-7.4-aa
    fn sets(&self, length: u32) -> ArrayVec<Rsdset<'_>, MAX_RESULTS> {
        let mut rest = self.items.as_slice();
        let set = |same: &[Span]| {
            let (items, after) = rest.split_at_checked(same.len())?;
            rest = after;
            let Span { begin, end } = *same.first()?;
            Some(Rsdset {
                range: Rsdrange {
                    begin: begin.min(length),
                    end: end.min(length),
                },
                items: items.into(),
            })
        };
        self.spans.chunk_by(PartialEq::eq).filter_map(set).collect()
    }
}

/// Writes the header of a call; `None` if the buffer is too small, or if there are too many items
/// or directions.
// spec: rtr-3.3-c, rtr-4.2-b, rtr-4.3-i, rtr-5.2-e, rtr-7.1-g, rtr-7.1-h, rtr-7.4-a, rtr-7.4-q
// spec: rtr-7.4-z, rtr-9.2-a
// spec: rtr-9.2-b, rtr-9.2-c, rtr-9.2-f, rtr-9.2-g
fn write(request: &Request, sending: &GroupSender, buffer: &mut [u8]) -> Option<usize> {
    let grouped = request.grouped()?;
    let targets = sending.targets()?;
    let wire = request.wire_segments();
    let mut regions = request.regions(&wire);
    let items = message_items(request, grouped, &targets, &mut regions)?;
    let directions = DirectionSets::of(request, grouped, &mut regions)?;
    let sets = directions.sets(request.length);
    let info = Req {
        dp: items.as_slice().into(),
        rsd: sets.as_slice().into(),
        count: sending.count,
        rsbuf: grouped.reply_receives,
        pslen: sending.section(),
    };
    write_header(
        buffer,
        sending.xid,
        sending.credits,
        (ROPT_XMTREQ, MsgType::Call),
        &info,
    )
}

/// Returns the reduced items of a call: in its transmissions, or in the next region of `regions`,
/// from which the responder reads them.
fn message_items<'w>(
    request: &Request,
    grouped: GroupPlan,
    targets: &'w PlacementTargets,
    regions: &mut impl Iterator<Item = (CallRegion, &'w [v2::Segment])>,
) -> Option<ArrayVec<Mitem<'w>, MAX_REDUCED>> {
    let mut items = ArrayVec::new();
    let mut placed = 0;
    for (at, item) in request.chunks.items().iter().enumerate() {
        let r#where = if grouped.placed >> at & 1 == 1 {
            placed += 1;
            Loc::Tbsn(LocTbsn {
                offset: 0,
                bsnum: targets.of_item(placed - 1).into(),
            })
        } else if grouped.read >> at & 1 == 1 {
            let (_, mine) = regions.next()?;
            Loc::Exrw(mine.into())
        } else {
            continue;
        };
        items
            .try_push(Mitem {
                disp: item.position,
                length: item.length,
                r#where,
            })
            .ok()?;
    }
    Some(items)
}

/// Checks each result of a reply against its direction (rtrext-02, table 2), and records the
/// lengths of results that were written to exposed memory. All exposed memory is fenced in any
/// case.
// spec: rtr-7.4-h, rtr-7.4-j, rtr-7.4-k, rtr-7.4-l, rtr-7.4-m, rtr-7.4-n, rtr-7.4-o, rtr-7.4-p
fn returned(
    request: &Request,
    message: &mut ReassembledMessage,
    reply: &mut ReplyLocation,
) -> Result<(), CallFailure> {
    let not_so = CallFailure::Reply(ChunkError::NotAsOffered);
    let grouped = request.grouped();
    let (send, explicit, directed) = grouped.map_or((0, 0, 0), |grouped| {
        (grouped.send, grouped.explicit, grouped.directed)
    });
    let mut items = message.items.iter_mut();
    let mut regions = request
        .regions(request.chunks.segments())
        .filter(|(region, _)| matches!(region, CallRegion::Result(_)));
    for (at, result) in request.chunks.results().iter().enumerate() {
        let directed = directed >> at & 1 == 1;
        let (send, explicit) = (send >> at & 1 == 1, explicit >> at & 1 == 1);
        let mut bytes = 0;
        if directed {
            let item = items.next().ok_or(not_so)?;
            let offered = if explicit {
                regions.next().map(|(_, offered)| offered)
            } else {
                None
            };
            item.result = Some(at);
            if item.length > result.max_length && !matches!(item.reduction, Reduction::TooShort) {
                return Err(CallFailure::Reply(ChunkError::ReturnedTooMuch));
            }
            match (&item.reduction, offered) {
                (Reduction::Placed(_), _) if send => {}
                (Reduction::Explicit(range), Some(offered)) => {
                    let contents = message.segments.get(range.clone()).unwrap_or_default();
                    bytes =
                        chunk::check_returned(offered.iter().copied(), contents.iter().copied())
                            .map_err(CallFailure::Reply)?;
                    if bytes != item.length {
                        return Err(not_so);
                    }
                }
                (Reduction::TooShort | Reduction::NoItem, _) => {}
                _ => return Err(not_so),
            }
        }
        reply.results.push(bytes);
    }
    if items.next().is_some() {
        Err(not_so)
    } else {
        Ok(())
    }
}
