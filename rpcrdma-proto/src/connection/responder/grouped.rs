//! Calls that came in transmissions of rtrext-02, and their replies.

use alloc::boxed::Box;

use arrayvec::ArrayVec;

use super::call::Call;
use super::{Serving, Terms, Unserved};
use crate::chunk::Fault;
use crate::connection::arriving::Group;
use crate::connection::headers::write as write_header;
use crate::connection::life::{Service, Step};
use crate::connection::output::{Action, Event, Message, Sent, Served, Transmit};
use crate::connection::queues::Queues;
use crate::connection::sending::{APART, Outline, Sending};
use crate::continuation::Gathered;
use crate::placement::Layout;
use crate::travel::{self, Cannot, GroupAnswer, GroupReturn, Matched, ResultItem, Return, headers};
use crate::v2::MsgType;
use crate::v2::rtr::{Loc, LocTbsn, Mitem, ROPT_XMTRESP, Resp};
use crate::version::Version;

/// Octets of a reply's header without chunks.
const PLAIN: u32 = Version::Two.header();

impl Serving {
    /// A call has come, in transmissions of which each has taken its credit. It takes what the group has of it.
    ///
    /// # Errors
    /// It is not served; its message is given back.
    pub(in crate::connection) fn gathered(
        &mut self,
        group: &mut Group,
        message: Box<Gathered>,
        out: &mut Queues,
    ) -> Result<Served, (Unserved, Box<Gathered>)> {
        if self.is_open(group.xid) {
            return Err((Unserved::Twice, message));
        }
        if self.open.len() >= usize::from(self.most) {
            return Err((Unserved::Overrun, message));
        }
        let Some((key, call)) = self.slots.insert(|_| false) else { return Err((Unserved::Overrun, message)) };
        if let Err(fault) = call.gathered(group, &message) {
            self.slots.remove(key);
            return Err((fault.into(), message));
        }
        let (xid, reading) = (call.xid, call.life == Service::Reading);
        self.list(key, xid);
        let call = Served(key);
        if reading {
            out.act(Action::Gather { call, message });
        } else {
            out.tell(Event::CallArrived { call, xid, message: Message::Gathered(message) });
        }
        Ok(call)
    }

    /// Chooses how the reply to such a call travels: plainly, if nothing was directed and it fits.
    // spec: rtr-4.3-j, rtr-4.3-k, rtr-5.2-d, rtr-8.5-a
    pub(super) fn reply_grouped(
        &mut self,
        served: Served,
        length: u32,
        results: &[ResultItem],
        terms: Terms<'_>,
    ) -> Option<Result<(), Cannot>> {
        let call = self.slots.get_mut(served.0).filter(|call| call.life == Service::Given)?;
        let directions = call.offered.directions();
        let matched = Matched::of(results, directions, call.length);
        call.answer.begin(length, results);
        let results = &call.answer.results;
        let (reserve, plain) = (call.reserve?, PLAIN.saturating_add(length) <= terms.threshold);
        let group = match terms.groups {
            // The peer has found out meanwhile, or told, that it takes none.
            None if plain => None,
            None => return Some(Err(Cannot::ReplyTooLong)),
            Some(_) if directions.is_empty() && plain => None,
            Some((theirs, most)) => {
                let most = reserve.max(1).min(most);
                match travel::group_reply(&GroupAnswer { length, results, directions, matched, theirs, most }) {
                    Ok(group) => Some(group),
                    Err(why) => return Some(Err(why)),
                }
            }
        };
        let moved = group.map_or(0, |group| group.written.into());
        (call.answer.way, call.answer.group) = (Return { moved, long: false }, group);
        call.fill();
        call.step(Step::Replied);
        self.answering += call.parts;
        self.replies.push_back(served.0);
        Some(Ok(()))
    }

    /// Writes the header of the first transmission of a reply; none if the requester's buffers are others by now.
    // spec: rtr-4.2-a, rtr-9.1-f
    fn begin_group(&self, key: u32, terms: Terms<'_>, buffer: &mut [u8]) -> Option<Sending> {
        let (call, (theirs, _)) = (self.slots.get(key)?, terms.groups?);
        let group = call.answer.group?;
        let outline = Outline {
            what: Sent::Reply { call: Served(key) },
            xid: call.xid,
            direction: MsgType::Reply,
            opener: ROPT_XMTRESP,
            credits: self.credits.next(call.asked),
            structure: *theirs,
            length: call.answer.length,
        };
        let (apart, placed) = (call.answer.chosen(group.placed | group.written), call.answer.chosen(group.placed));
        let sending = Sending::new(outline, group.header, group.count, apart, placed);
        let written = write_group(call, group, &sending, buffer)?;
        (written == group.header as usize).then_some(sending)
    }

    /// The peer reports the reply to this call broken: it goes again without rtrext-02, if it is kept and fits (decision D23).
    /// False if it can't.
    // spec: rtr-5.4-m
    pub(in crate::connection) fn reported(&mut self, xid: u32, threshold: u32) -> bool {
        let waits = |call: &Call| call.again && call.life == Service::Replying;
        let is_it =
            |call: &Call| call.xid == xid && (matches!(call.life, Service::Kept | Service::Sending) || waits(call));
        let Some((key, _)) = self.slots.find_from(0, is_it) else { return false };
        let Some(call) = self.slots.get_mut(key) else { return false };
        if waits(call) {
            // Of one group there may be several reports.
            return true;
        }
        let fits = PLAIN.saturating_add(call.answer.length) <= threshold;
        // Once is enough: it could be reported for ever.
        if !fits || call.answer.group.is_none() || call.again {
            return false;
        }
        call.again = true;
        if call.step(Step::Again) {
            self.again(key);
        }
        true
    }

    /// A reply that is kept goes again, all of it inline.
    fn again(&mut self, key: u32) {
        self.kept.retain(|(kept, _)| *kept != key);
        if let Some(call) = self.slots.get_mut(key) {
            call.answer.group = None;
            call.answer.way = Return { moved: 0, long: false };
            self.replies.push_front(key);
        }
    }

    /// The Send of a reply in transmissions has given back its memory: the reply is kept, or goes again.
    // spec: rtr-5.4-l
    pub(super) fn keep(&mut self, key: u32) {
        let Some(call) = self.slots.get_mut(key) else { return };
        if call.step(Step::Kept) && call.again && call.step(Step::Again) {
            self.again(key);
        }
    }

    /// A later call has come, or the time has passed: replies that were kept until then are not any more.
    pub(in crate::connection) fn forget_kept(&mut self, until: u64, out: &mut Queues) {
        while let Some((key, _)) = self.kept.front().copied().filter(|(_, due)| *due <= until) {
            self.kept.pop_front();
            let Some(call) = self.slots.get_mut(key) else { continue };
            // Where its Send has its memory still, nothing keeps it after that.
            call.keeps = false;
            if call.life == Service::Kept && call.step(Step::Dropped) {
                self.remove(Served(key), true, out);
            }
        }
    }

    /// The connection is gone: no reply is kept for it, or sent again, when its Send gives back its memory.
    pub(super) fn forget_sending(&mut self) {
        self.kept.clear();
        let mut from = 0;
        while let Some((key, next)) = self.slots.find_from(from, |call| call.life == Service::Sending) {
            from = next;
            if let Some(call) = self.slots.get_mut(key) {
                (call.keeps, call.again) = (false, false);
            }
        }
    }

    /// When the first of the replies that are kept is so no more.
    pub(in crate::connection) fn kept_until(&self) -> Option<u64> {
        self.kept.front().map(|(_, until)| *until)
    }

    /// Transmissions of the reply to a call never went: its connection is gone.
    pub(in crate::connection) fn unfinished(&mut self, call: Served, out: &mut Queues) {
        if let Some(call) = self.slots.get_mut(call.0) {
            call.keeps = false;
        }
        if self.released(call) {
            out.tell(Event::CallEnded { call, answered: true });
        }
    }

    /// Lays the next reply again, if it goes in transmissions: the requester's buffers may be others than when it was given. The
    /// call, if there is no way any more.
    pub(in crate::connection) fn stranded<'a>(&mut self, terms: impl Fn(Version) -> Terms<'a>) -> Option<Served> {
        let key = *self.replies.front()?;
        let call = self.slots.get_mut(key).filter(|call| call.life == Service::Replying)?;
        let (before, reserve) = (call.answer.group?, call.reserve?);
        let laid = terms(call.version).groups.and_then(|(theirs, most)| {
            let (length, results) = (call.answer.length, call.answer.results.as_slice());
            let (directions, most) = (call.offered.directions(), reserve.max(1).min(most));
            let answer = GroupAnswer { length, results, directions, matched: before.matched, theirs, most };
            travel::group_laid(&answer, before.placed.into(), before.written.into())
        });
        match laid {
            Some(laid) => call.answer.group = Some(laid),
            None => return Some(Served(key)),
        }
        None
    }

    /// Writes the header of a reply that goes in transmissions.
    #[cold]
    pub(super) fn transmit_group(
        &mut self,
        key: u32,
        terms: Terms<'_>,
        (until, place): (u64, &mut Option<Box<Sending>>),
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let sending = self.begin_group(key, terms, buffer)?;
        let call = self.slots.get_mut(key)?;
        let one = sending.count == 1;
        let invalidate = call.keys.single().filter(|_| one && terms.invalidate);
        call.keeps = until != 0;
        call.step(Step::Transmitted);
        let (asked, parts, again) = (call.asked, call.parts, call.again);
        self.kept.extend((until != 0).then_some((key, until)));
        self.replies.pop_front();
        self.answered(key, asked, parts, again);
        let transmit = sending.first(invalidate);
        sending.put(place);
        Some(transmit)
    }
}

/// Writes the header of the first transmission of a reply.
// spec: rtr-6.2-m, rtr-6.2-n, rtr-6.2-o, rtr-6.2-v, rtr-6.2-w, rtr-6.2-x, rtr-6.2-y, rtr-7.1-g, rtr-7.4-h
// spec: rtr-7.4-x, rtr-9.3-a, rtr-9.3-b, rtr-9.3-c, rtr-9.3-d
fn write_group(call: &Call, group: GroupReturn, sending: &Sending, buffer: &mut [u8]) -> Option<usize> {
    let lengths: ArrayVec<u32, APART> = sending.placed.iter().map(|item| item.length).collect();
    let apart: u32 = sending.apart.iter().map(|item| item.length.next_multiple_of(4)).sum();
    let layout = Layout {
        structure: &sending.structure,
        opener: sending.header,
        header: headers::MORE,
        stream: sending.length.saturating_sub(apart),
        items: &lengths,
    };
    let targets = headers::Targets::of(layout, sending.count)?;
    let mut chunks = call.offered.chunks();
    let mut items = ArrayVec::<Mitem<'_>, { super::WRITES }>::new();
    let mut placed = 0;
    for at in 0..call.offered.directions().len() {
        let (_, memory) = chunks.next()?;
        let result = group.matched.result(at);
        let item = match result.and_then(|number| Some((number, call.answer.results.get(number)?))) {
            None => Mitem { disp: 0, length: 0, r#where: Loc::Noitem },
            Some((number, result)) => {
                let r#where = if group.placed >> number & 1 == 1 {
                    placed += 1;
                    Loc::Tbsn(LocTbsn { offset: 0, bsnum: targets.of_item(placed - 1).into() })
                } else if group.written >> number & 1 == 1 {
                    Loc::Exrw(memory.into())
                } else {
                    Loc::Tooshort
                };
                Mitem { disp: result.position, length: result.length, r#where }
            }
        };
        items.try_push(item).ok()?;
    }
    let info = Resp { dp: items.as_slice().into(), count: sending.count, pslen: sending.section() };
    write_header(buffer, call.xid, sending.credits, (ROPT_XMTRESP, MsgType::Reply), &info)
}

impl Call {
    /// A call in transmissions comes.
    fn gathered(&mut self, group: &mut Group, message: &Gathered) -> Result<(), Fault> {
        let buffer = message.buffers.first().ok_or(Fault::NoPayload)?.buffer;
        self.begin((group.xid, Version::Two, group.credits), buffer, None);
        self.life = if message.has_reads() { Service::Reading } else { Service::Given };
        (self.parts, self.reserve, self.length) = (group.parts(), Some(group.asks.reserve), message.length);
        self.keys.add(message.segments.iter().map(|segment| segment.handle));
        let lists = self.offered.fill();
        for direction in &group.asks.directions {
            lists.count(direction.segments as usize)?;
        }
        lists.directions.extend_from_slice(&group.asks.directions);
        lists.segments.append(&mut group.asks.segments);
        self.keys.add(lists.segments.iter().map(|segment| segment.handle));
        Ok(())
    }
}
