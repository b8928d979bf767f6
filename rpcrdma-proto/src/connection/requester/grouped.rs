//! Calls in transmissions of rtrext-02: their headers, and what their replies may be.

use alloc::boxed::Box;

use arrayvec::ArrayVec;

use super::request::{Outcome, Request};
use super::{Requests, Turn};
use crate::chunk::{self, Fault};
use crate::connection::config::SEGMENTS;
use crate::connection::headers::write as write_header;
use crate::connection::life::Life;
use crate::connection::output::{Buffer, Failure, Region, Reply, Sent, Transmit};
use crate::connection::queues::Queues;
use crate::connection::sending::{APART, Outline, Sending};
use crate::continuation::{Broken, Gathered, How};
use crate::placement::Layout;
use crate::travel::{self, Grouped, Groups, Item, Link, RESULTS, Span, Way, headers};
use crate::v2::rtr::{Loc, LocTbsn, Mitem, ROPT_XMTREQ, Req, Rsditem, Rsdloc, RsdlocBysize, Rsdrange, Rsdset};
use crate::v2::{self, MsgType};

/// Results shorter than this stay in the message, whatever is directed.
const LEAST: u32 = crate::travel::LEAST_RESULT;

/// How a call is laid into the transmissions that carry it.
struct Laid {
    header: u32,
    apart: ArrayVec<Item, APART>,
    placed: ArrayVec<Item, APART>,
}

impl Request {
    /// The way of a call that goes in transmissions.
    pub(super) const fn grouped(&self) -> Option<Grouped> {
        if let Way::Grouped(grouped) = self.travel.call { Some(grouped) } else { None }
    }

    /// Messages that it takes.
    pub(super) fn messages(&self) -> u32 {
        self.grouped().map_or(1, |grouped| grouped.count)
    }

    /// Receives that are reserved for its reply.
    pub(super) fn reserve(&self) -> u32 {
        self.grouped().map_or(0, |grouped| grouped.reserve)
    }

    /// Its items that are in a set.
    fn chosen(&self, set: u8) -> ArrayVec<Item, APART> {
        let items = self.apart.items().iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        items.map(|(_, item)| *item).take(APART).collect()
    }

    /// How it is laid, with the segments that were exposed; none if it takes other than was planned.
    fn laid(&self, groups: &Groups) -> Option<Laid> {
        let grouped = self.grouped()?;
        let (apart, placed) = (self.chosen(grouped.placed | grouped.read), self.chosen(grouped.placed));
        let octets: u32 = apart.iter().map(|item| item.length.next_multiple_of(4)).sum();
        let stream = self.length.saturating_sub(octets);
        let lengths: ArrayVec<u32, APART> = placed.iter().map(|item| item.length).collect();
        let told = headers::Contents {
            send: grouped.send.into(),
            explicit: grouped.explicit.into(),
            directed: grouped.directed.count_ones(),
            sets: travel::result_sets(self.apart.results(), grouped.directed),
            by_size: grouped.by_size.is_some(),
            read: grouped.read.into(),
            segments: self.apart.segments().len() as u64,
        };
        let fixed = told.octets()?;
        let (header, count) = headers::opener(&groups.theirs, fixed, stream, &lengths, grouped.count)?;
        (count == grouped.count).then_some(Laid { header, apart, placed })
    }

    /// Whether a call whose memory is exposed goes as it was planned.
    pub(super) fn is_laid(&self, link: &Link<'_>) -> bool {
        link.groups.is_some_and(|groups| self.laid(groups).is_some())
    }
}

/// What comes of a call in transmissions whose turn it is.
pub(super) enum Grouping {
    /// Its first transmission goes.
    Sent(Transmit),
    /// Its credits are not there now.
    Waits,
    /// It is to travel otherwise by now.
    Otherwise,
}

impl Requests {
    /// Begins to send a call, if all that it needs is there still.
    #[cold]
    pub(super) fn transmit_group(
        &mut self,
        xid: u32,
        buffer: &mut [u8],
        link: &Link<'_>,
        place: Option<&mut Option<Box<Sending>>>,
    ) -> Grouping {
        let messages = self.slots.get(xid).map_or(1, Request::messages);
        if !Self::may_send(&self.credits, self.unsent, messages) {
            // Where nothing is under way, nothing will bring the credits back that it was given.
            let waits = self.credits.messages() != self.unsent;
            return if waits { Grouping::Waits } else { Grouping::Otherwise };
        }
        match place.zip(self.begin_group(xid, link, buffer)) {
            Some((place, sending)) => {
                self.ready.pop_front();
                self.begun(xid);
                let transmit = sending.first(None);
                sending.put(place);
                Grouping::Sent(transmit)
            }
            None => Grouping::Otherwise,
        }
    }

    /// Writes the header of the first transmission of a call; none if it is to travel otherwise by now.
    // spec: rtr-4.2-a, rtr-9.1-e
    fn begin_group(&self, xid: u32, link: &Link<'_>, buffer: &mut [u8]) -> Option<Sending> {
        let (request, groups) = (self.slots.get(xid)?, link.groups?);
        let laid = request.laid(groups)?;
        let outline = Outline {
            what: Sent::Call { xid },
            xid,
            direction: MsgType::Call,
            opener: ROPT_XMTREQ,
            credits: self.credits.wanted(),
            structure: groups.theirs,
            length: request.length,
        };
        let count = request.messages();
        let sending = Sending::new(outline, laid.header, count, laid.apart, laid.placed);
        let written = write(request, &sending, buffer)?;
        debug_assert_eq!(written, laid.header as usize, "what was planned is what is written");
        (written == laid.header as usize).then_some(sending)
    }

    /// The reply to a call has come in transmissions. Where its buffers are not kept, its message is given back, and whether it
    /// invalidated a key that is not the call's.
    pub(in crate::connection) fn gathered(
        &mut self,
        xid: u32,
        grant: u32,
        invalidated: Option<u32>,
        mut message: Box<Gathered>,
        out: &mut Queues,
    ) -> Result<(), (Box<Gathered>, bool)> {
        let Some(request) = self.slots.get_mut(xid) else { return Err((message, false)) };
        if let Some(key) = invalidated {
            if !request.has_exposed(key) {
                return Err((message, true));
            }
            request.invalidated = Some(key);
        }
        let mut reply = Reply {
            buffer: message.buffers.first().map_or(Buffer(0), |first| first.buffer),
            inline: 0..0,
            long: None,
            results: ArrayVec::new(),
            gathered: None,
        };
        let kept = request.life == Life::Sent;
        match returned(request, &mut message, &mut reply) {
            Ok(()) if kept => {
                reply.gathered = Some(message);
                self.answered(xid, Some(grant), Outcome::Reply(reply), out);
                Ok(())
            }
            found => {
                let outcome = found.err().map_or(Outcome::None, Outcome::Failed);
                self.answered(xid, Some(grant), outcome, out);
                Err((message, false))
            }
        }
    }

    /// Transmissions that the reply to a call may have: as many as are reserved, or one (decision D19).
    pub(in crate::connection) fn reply_limit(&self, xid: u32) -> u32 {
        self.slots.get(xid).map_or(1, |request| request.reserve().max(1))
    }

    /// The peer reports a call of ours broken: it goes again, without rtrext-02, but once. False if it is none that is open.
    // spec: rtr-5.4-j, rtr-5.4-k
    pub(in crate::connection) fn reported(&mut self, xid: u32, why: Broken, out: &mut Queues) -> bool {
        let Some(request) = self.slots.get_mut(xid) else { return false };
        // Of one group there may be several reports: those that come when it goes by other means already say nothing new.
        if request.by_base_means && !matches!(why, Broken::HeaderType(_)) {
            return true;
        }
        if !matches!(request.life, Life::Sent | Life::Settling | Life::Orphaned) {
            return false;
        }
        let again = !core::mem::replace(&mut request.by_base_means, true);
        let outcome = if again { Outcome::Again } else { Outcome::Failed(Failure::Broken(why)) };
        self.answered(xid, None, outcome, out);
        true
    }

    /// The peer does not know the operation of a call that went in transmissions: it goes again without them. Each of the
    /// other transmissions may be answered so, too, which says nothing more. None if the error is about something else.
    pub(in crate::connection) fn unknown_operation(&mut self, xid: u32, out: &mut Queues) -> Option<u32> {
        let request = self.slots.get_mut(xid)?;
        if request.stale_errors > 0 {
            request.stale_errors -= 1;
            return Some(0);
        }
        // One that was not sent yet is not meant: the peer can't know it.
        let went = matches!(request.life, Life::Sent | Life::Settling | Life::Orphaned) && request.credit.is_some();
        let count = request.grouped().filter(|_| went && !request.by_base_means)?.count;
        (request.stale_errors, request.by_base_means) = (count - 1, true);
        self.answered(xid, None, Outcome::Again, out);
        Some(count)
    }

    /// The reply to a call makes no sense: the call fails.
    pub(in crate::connection) fn senseless(&mut self, xid: u32, why: Fault, out: &mut Queues) {
        if self.expects(xid) {
            self.answered(xid, None, Outcome::Failed(Failure::Reply(why)), out);
        }
    }

    /// The last transmission of a call never went: its connection is gone.
    pub(in crate::connection) fn unfinished(&mut self, xid: u32, out: &mut Queues) {
        self.released(xid, out);
    }

    /// A call begins to be sent.
    pub(super) fn begun(&mut self, xid: u32) {
        if let Some(request) = self.slots.get_mut(xid) {
            self.unsent -= request.messages();
            request.turn(Turn::Transmitted);
            request.sending = true;
        }
    }
}

/// What a call directs about its results.
#[derive(Default)]
struct Directions<'a> {
    of: ArrayVec<Span, RESULTS>,
    items: ArrayVec<Rsditem<'a>, RESULTS>,
}

impl Directions<'_> {
    /// Those of each span, which is in a call of `length` octets.
    // spec: rtr-3.4-b, rtr-7.4-q, rtr-7.4-y, rtr-7.4-aa
    fn sets(&self, length: u32) -> ArrayVec<Rsdset<'_>, RESULTS> {
        let mut rest = self.items.as_slice();
        let set = |same: &[Span]| {
            let (items, after) = rest.split_at_checked(same.len())?;
            rest = after;
            let Span { begin, end } = *same.first()?;
            Some(Rsdset { range: Rsdrange { begin: begin.min(length), end: end.min(length) }, items: items.into() })
        };
        self.of.chunk_by(PartialEq::eq).filter_map(set).collect()
    }
}

/// Writes the header of a call; none if the buffer is too small, or it has more parts than there is room for.
// spec: rtr-3.3-c, rtr-4.2-b, rtr-4.3-i, rtr-5.2-e, rtr-7.1-g, rtr-7.1-h, rtr-7.4-a, rtr-7.4-q, rtr-7.4-z, rtr-9.2-a
// spec: rtr-9.2-b, rtr-9.2-c, rtr-9.2-f, rtr-9.2-g
fn write(request: &Request, sending: &Sending, buffer: &mut [u8]) -> Option<usize> {
    let grouped = request.grouped()?;
    let lengths: ArrayVec<u32, APART> = sending.placed.iter().map(|item| item.length).collect();
    let stream: u32 = sending.apart.iter().map(|item| item.length.next_multiple_of(4)).sum();
    let stream = request.length.saturating_sub(stream);
    let layout = Layout {
        structure: &sending.structure,
        opener: sending.header,
        header: headers::MORE,
        stream,
        items: &lengths,
    };
    let targets = headers::Targets::of(layout, sending.count)?;
    let wire: ArrayVec<v2::Segment, SEGMENTS> =
        request.apart.segments().iter().take(SEGMENTS).copied().map(v2::Segment::from).collect();
    let (mut items, mut directions) = (ArrayVec::<Mitem<'_>, APART>::new(), Directions::default());
    let mut regions = request.regions(&wire);
    let mut placed = 0;
    for (at, item) in request.apart.items().iter().enumerate() {
        let r#where = if grouped.placed >> at & 1 == 1 {
            placed += 1;
            Loc::Tbsn(LocTbsn { offset: 0, bsnum: targets.of_item(placed - 1).into() })
        } else if grouped.read >> at & 1 == 1 {
            let (_, mine) = regions.next()?;
            Loc::Exrw(mine.into())
        } else {
            continue;
        };
        items.try_push(Mitem { disp: item.position, length: item.length, r#where }).ok()?;
    }
    for (at, result) in request.apart.results().iter().enumerate().filter(|(at, _)| grouped.directed >> at & 1 == 1) {
        let send = grouped.send >> at & 1 == 1;
        let memory = if grouped.explicit >> at & 1 == 1 { Some(regions.next()?.1) } else { None };
        let loc = match (memory, send, grouped.by_size) {
            (None, ..) => Rsdloc::Tbsn,
            (Some(mine), false, _) => Rsdloc::Exrw(mine.into()),
            (Some(mine), true, None) => Rsdloc::Choice(mine.into()),
            (Some(mine), true, Some(from)) => Rsdloc::Bysize(RsdlocBysize { dsdov: from, bsex: mine.into() }),
        };
        let stays = (grouped.send | grouped.explicit) >> at & 1 == 0;
        directions.of.try_push(result.of).ok()?;
        directions.items.try_push(Rsditem { minlen: if stays { u32::MAX } else { LEAST }, loc }).ok()?;
    }
    let sets = directions.sets(request.length);
    let info = Req {
        dp: items.as_slice().into(),
        rsd: sets.as_slice().into(),
        count: sending.count,
        rsbuf: grouped.reserve,
        pslen: sending.section(),
    };
    write_header(buffer, sending.xid, sending.credits, (ROPT_XMTREQ, MsgType::Call), &info)
}

/// Holds what a reply says of each result against what was directed (rtrext-02, table 2), and takes over the lengths of those
/// that were written. All memory that was exposed is fenced, whatever became of it.
// spec: rtr-7.4-h, rtr-7.4-j, rtr-7.4-k, rtr-7.4-l, rtr-7.4-m, rtr-7.4-n, rtr-7.4-o, rtr-7.4-p
fn returned(request: &Request, message: &mut Gathered, reply: &mut Reply) -> Result<(), Failure> {
    let not_so = Failure::Reply(Fault::NotAsOffered);
    let grouped = request.grouped();
    let (send, explicit, directed) =
        grouped.map_or((0, 0, 0), |grouped| (grouped.send, grouped.explicit, grouped.directed));
    let mut items = message.items.iter_mut();
    let mut regions =
        request.regions(request.apart.segments()).filter(|(region, _)| matches!(region, Region::Result(_)));
    for (at, result) in request.apart.results().iter().enumerate() {
        let directed = directed >> at & 1 == 1;
        let (send, explicit) = (send >> at & 1 == 1, explicit >> at & 1 == 1);
        let mut octets = 0;
        if directed {
            let item = items.next().ok_or(not_so)?;
            let offered = if explicit { regions.next().map(|(_, offered)| offered) } else { None };
            item.result = Some(at);
            if item.length > result.most && !matches!(item.how, How::TooShort) {
                return Err(Failure::Reply(Fault::ReturnedTooMuch));
            }
            match (&item.how, offered) {
                (How::Placed(_), _) if send => {}
                (How::Explicit(range), Some(offered)) => {
                    let told = message.segments.get(range.clone()).unwrap_or_default();
                    octets = chunk::returned(offered.iter().copied(), told.iter().copied()).map_err(Failure::Reply)?;
                    if octets != item.length {
                        return Err(not_so);
                    }
                }
                (How::TooShort | How::NoItem, _) => {}
                _ => return Err(not_so),
            }
        }
        reply.results.push(octets);
    }
    if items.next().is_some() { Err(not_so) } else { Ok(()) }
}
