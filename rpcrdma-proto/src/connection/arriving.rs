//! Transmissions of rtrext-02 as they come: the group that is being put together.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use arrayvec::ArrayVec;

use super::output::Buffer;
use super::responder::WRITES;
use crate::chunk::{Fault, Limits, Segment};
use crate::continuation::{self, Broken, Excised, Gathered, How, Mismatch, Octets, Part};
use crate::placement::Structure;
use crate::travel::{Direction, Span};
use crate::v2::rtr::{
    Cont, Grpinfo, Loc, LocTbsn, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP, Req, Resp, Rsdgroup, Rsdloc,
};
use crate::v2::{self, MsgType};

/// The operation that expects others: RDMA2_OPTIONAL.
pub(super) const OPTIONAL: u32 = 5;

/// What has come in the group that is not whole yet. A connection has one at most.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    group: Option<Box<Group>>,
    /// The rest of a group that was refused: it is passed over.
    passing: Option<(u32, MsgType)>,
    /// Memory for the next one, and for messages: as many as were ever given out at once.
    spare: Option<Box<Group>>,
    #[expect(clippy::vec_box, reason = "the boxes are given out as they are")]
    messages: Vec<Box<Gathered>>,
}

/// A group of transmissions.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) xid: u32,
    pub(super) direction: MsgType,
    /// Credits asked for or granted.
    pub(super) credits: u32,
    count: u32,
    pub(super) next: u32,
    pub(super) message: Box<Gathered>,
    /// The first octets of its Payload stream, as far as they were shown.
    head: ArrayVec<u8, 8>,
    pub(super) asks: Asks,
    pub(super) invalidated: Option<u32>,
}

/// What a request asks of its reply.
#[derive(Clone, Default, Debug)]
pub(super) struct Asks {
    /// Receives that are reserved for it, beyond the one that is always there.
    pub(super) reserve: u32,
    pub(super) directions: ArrayVec<Direction, WRITES>,
    /// The memory that the directions offer, one after the other.
    pub(super) segments: Vec<v2::Segment>,
}

/// A transmission as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came<'a> {
    pub(super) xid: u32,
    pub(super) credits: u32,
    pub(super) direction: MsgType,
    pub(super) buffer: Buffer,
    /// Octets of its header, and of all of it.
    pub(super) header: u32,
    pub(super) length: u32,
    /// What is shown of that behind the header.
    pub(super) shown: &'a [u8],
    pub(super) invalidated: Option<u32>,
}

/// What is wrong with a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// It breaks a rule of rtrext-02: the peer is told by ROPT_REPTERR.
    Broken(Broken),
    /// It makes no sense by itself (decision D22).
    Fault(Fault),
}

impl From<Broken> for Wrong {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What is known at this end of what may come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'a> {
    /// Our receive buffers.
    pub(super) structure: &'a Structure,
    /// Transmissions of this message.
    pub(super) most: u32,
    pub(super) limits: &'a Limits,
}

impl Arriving {
    /// The group that waits for its next transmission.
    pub(super) fn waits(&self) -> Option<Part> {
        self.group.as_deref().map(|group| Part { xid: group.xid, direction: group.direction, number: 0 })
    }

    /// Transmissions of a request that have come, and that hold receives.
    pub(super) fn held(&self) -> u32 {
        let request = self.group.as_deref().filter(|group| group.direction == MsgType::Call);
        request.map_or(0, |group| group.next)
    }

    /// Gives up the group that waits. What is left of it is passed over.
    pub(super) fn give_up(&mut self) -> Option<Part> {
        let lead = self.waits()?;
        let group = self.group.take()?;
        self.passing = (group.next < group.count).then_some((group.xid, group.direction));
        self.spare = Some(group);
        Some(lead)
    }

    /// The connection is gone: nothing is left of any group.
    pub(super) fn lost(&mut self) {
        self.give_up();
        self.passing = None;
    }

    /// A message that was given up after its transmissions were kept, but for the one that has just come, `last`; and whether
    /// one of them has invalidated memory.
    pub(super) fn given_up(&mut self, last: Option<Buffer>) -> (Option<Box<Gathered>>, bool) {
        let Some(spare) = &mut self.spare else { return (None, false) };
        let buffers = &mut spare.message.buffers;
        if last.is_some() && buffers.last().map(|octets| octets.buffer) == last {
            buffers.pop();
        }
        let message = (!buffers.is_empty())
            .then(|| core::mem::replace(&mut spare.message, self.messages.pop().unwrap_or_default()));
        (message, spare.invalidated.take().is_some())
    }

    /// Takes back the memory of a message.
    pub(super) fn recycle(&mut self, mut message: Box<Gathered>) {
        message.clear();
        self.messages.push(message);
    }

    /// Memory for the message of a group in place of the one that is given out.
    pub(super) fn another(&mut self) -> Box<Gathered> {
        self.messages.pop().unwrap_or_default()
    }

    /// Takes back the memory of a group.
    pub(super) fn done_with(&mut self, mut group: Box<Group>) {
        group.invalidated = None;
        self.spare = Some(group);
    }

    fn begin(&mut self, came: &Came<'_>, count: u32) -> Box<Group> {
        if count > 1 {
            self.passing = None;
        }
        let mut group = self.spare.take().unwrap_or_else(|| Box::new(Group::new(Box::default())));
        group.message.clear();
        group.head.clear();
        group.asks.reserve = 0;
        group.asks.directions.clear();
        group.asks.segments.clear();
        (group.xid, group.direction, group.credits) = (came.xid, came.direction, came.credits);
        (group.count, group.next, group.invalidated) = (count, 0, None);
        group
    }

    /// A ROPT_XMTREQ has come: the whole message, if it has no other part.
    ///
    /// # Errors
    /// It breaks a rule, and is not taken.
    // spec: rtr-9.2-a, rtr-9.2-b, rtr-9.2-c, rtr-9.2-f, rtr-9.2-g
    pub(super) fn request(
        &mut self,
        came: &Came<'_>,
        told: &Req<'_>,
        bounds: Bounds<'_>,
    ) -> Result<Option<Box<Group>>, Wrong> {
        let mut group = self.begin(came, told.count);
        let taken = group.open(came, told.count, told.pslen, &told.dp, bounds);
        let taken = taken.and_then(|()| Ok(group.asks.take(&told.rsd, bounds.limits)?));
        group.asks.reserve = told.rsbuf;
        self.opened(group, taken, bounds)
    }

    /// A ROPT_XMTRESP has come.
    ///
    /// # Errors
    /// As [`Self::request`].
    // spec: rtr-9.3-a, rtr-9.3-b, rtr-9.3-c, rtr-9.3-d
    pub(super) fn reply(
        &mut self,
        came: &Came<'_>,
        told: &Resp<'_>,
        bounds: Bounds<'_>,
    ) -> Result<Option<Box<Group>>, Wrong> {
        let mut group = self.begin(came, told.count);
        let taken = group.open(came, told.count, told.pslen, &told.dp, bounds);
        self.opened(group, taken, bounds)
    }

    fn opened(
        &mut self,
        group: Box<Group>,
        taken: Result<(), Wrong>,
        bounds: Bounds<'_>,
    ) -> Result<Option<Box<Group>>, Wrong> {
        if let Err(wrong) = taken {
            self.passing = (group.count > 1).then_some((group.xid, group.direction));
            self.spare = Some(group);
            return Err(wrong);
        }
        self.settle(group, bounds)
    }

    /// A ROPT_XMTCONT has come: the whole message, if it is the last part. None and nothing is wrong, too, if it is passed over.
    ///
    /// # Errors
    /// There is no group that it continues, or not so: that group is given up.
    // spec: rtr-4.2-c, rtr-4.2-d, rtr-9.5-g
    pub(super) fn more(
        &mut self,
        came: &Came<'_>,
        told: Cont,
        bounds: Bounds<'_>,
    ) -> Result<Option<Box<Group>>, Wrong> {
        let Some(mut group) = self.group.take() else {
            let passed = self.passing == Some((came.xid, came.direction));
            return if passed { Ok(None) } else { Err(Broken::Continuation.into()) };
        };
        let taken = group.fits(came, told).map_err(Wrong::from).and_then(|()| group.section(came, told.pslen));
        if let Err(wrong) = taken {
            let more = group.next < group.count;
            self.passing = more.then_some((group.xid, group.direction));
            self.spare = Some(group);
            return Err(wrong);
        }
        self.settle(group, bounds)
    }

    /// Hands out a group that is whole, or keeps it.
    fn settle(&mut self, mut group: Box<Group>, bounds: Bounds<'_>) -> Result<Option<Box<Group>>, Wrong> {
        if group.next < group.count {
            self.group = Some(group);
            return Ok(None);
        }
        let whole = group.placed(bounds.structure).map_err(Wrong::from);
        let whole = whole.and_then(|()| Ok(group.message.finish(bounds.limits.octets)?));
        let whole =
            whole.and_then(|()| if group.message.stream_length() < 8 { Err(Fault::NoPayload.into()) } else { Ok(()) });
        match whole {
            Ok(()) => Ok(Some(group)),
            Err(wrong) => {
                self.spare = Some(group);
                Err(wrong)
            }
        }
    }
}

impl Group {
    fn new(message: Box<Gathered>) -> Self {
        Self {
            xid: 0,
            direction: MsgType::Call,
            credits: 0,
            count: 0,
            next: 0,
            message,
            head: ArrayVec::new(),
            asks: Asks::default(),
            invalidated: None,
        }
    }

    /// The operation that began it.
    const fn opener(&self) -> u32 {
        opener_of(self.direction)
    }

    /// Transmissions of it that have come.
    pub(super) const fn parts(&self) -> u32 {
        self.next
    }

    // spec: rtr-6.1-b, rtr-8.4-a
    fn open(
        &mut self,
        came: &Came<'_>,
        count: u32,
        pslen: u32,
        dp: &Grpinfo<'_>,
        bounds: Bounds<'_>,
    ) -> Result<(), Wrong> {
        if count == 0 || count > bounds.most {
            return Err(Fault::TooManySegments.into());
        }
        self.section(came, pslen)?;
        self.excised(dp, bounds, count)
    }

    /// Takes the section of the Payload stream that is in a transmission.
    // spec: rtr-6.2-c, rtr-9.1-i, rtr-9.1-j, rtr-9.1-k, rtr-9.1-l, rtr-9.4-e, rtr-9.4-f, rtr-9.4-g, rtr-9.5-l
    // spec: rtr-9.5-r
    fn section(&mut self, came: &Came<'_>, pslen: u32) -> Result<(), Wrong> {
        let most = came.length.saturating_sub(came.header);
        if pslen > most || !pslen.is_multiple_of(4) {
            return Err(Broken::Payload(continuation::Range { value: pslen, least: 0, most }).into());
        }
        self.begins(came.shown.get(..pslen as usize).unwrap_or(came.shown));
        if pslen > 0 {
            let octets = came.header..came.header.saturating_add(pslen);
            self.message.stream.push(Octets { buffer: came.buffer, octets });
        }
        let rest = came.header.saturating_add(pslen)..came.length;
        self.message.buffers.push(Octets { buffer: came.buffer, octets: rest });
        self.invalidated = self.invalidated.or(came.invalidated);
        self.next += 1;
        if self.is_of_another() { Err(Fault::NoPayload.into()) } else { Ok(()) }
    }

    /// Takes over the beginning of the Payload stream, as long as all of it is shown.
    fn begins(&mut self, shown: &[u8]) {
        if self.message.stream_length() as usize == self.head.len() {
            let left = self.head.remaining_capacity();
            self.head.extend(shown.iter().copied().take(left));
        }
    }

    /// Whether its RPC message has another XID or direction, as far as that was shown.
    // spec: v2-4.2.2-d
    fn is_of_another(&self) -> bool {
        let Some([a, b, c, d, mtype @ ..]) = self.head.first_chunk::<8>() else { return false };
        [*a, *b, *c, *d] != self.xid.to_be_bytes() || i32::from_be_bytes(*mtype) != self.direction.value()
    }

    /// Whether a transmission is the next one.
    // spec: rtr-5.4-f, rtr-9.4-a, rtr-9.4-b, rtr-9.4-d, rtr-9.5-f, rtr-9.5-h, rtr-9.5-i
    fn fits(&self, came: &Came<'_>, told: Cont) -> Result<(), Broken> {
        let mismatch = |expected, came| Mismatch { expected, came };
        if came.xid != self.xid {
            return Err(Broken::Xid(mismatch(self.xid, came.xid)));
        }
        // What the direction says counts for more: a message of the other one is continued.
        let continues = if came.direction == self.direction { told.itype } else { opener_of(came.direction) };
        if continues != self.opener() {
            return Err(Broken::Operation(mismatch(self.opener(), continues)));
        }
        if told.xnum != self.next {
            return Err(Broken::Sequence(mismatch(self.next, told.xnum)));
        }
        Ok(())
    }

    /// Takes what was excised from the Payload stream.
    // spec: rtr-3.4-a, rtr-6.2-a, rtr-6.2-j, rtr-6.2-k, rtr-6.2-p, rtr-6.2-z, rtr-6.2-ab, rtr-6.2-ac, rtr-6.2-af
    // spec: rtr-6.2-ag, rtr-7.3-b, rtr-7.3-f, rtr-7.3-h, rtr-7.3-i, rtr-7.3-j, rtr-7.3-k, rtr-7.3-n
    fn excised(&mut self, items: &Grpinfo<'_>, bounds: Bounds<'_>, count: u32) -> Result<(), Wrong> {
        if items.len() > bounds.limits.segments as usize {
            return Err(Fault::TooManySegments.into());
        }
        for item in items.iter() {
            let how = match item.r#where {
                Loc::Exrw(segments) => self.explicit(segments.iter().map(Segment::from), item.length, bounds.limits)?,
                Loc::Tbsn(place) => self.targets(&place, item.length, bounds.structure, count)?,
                Loc::Tooshort | Loc::Noitem if self.direction == MsgType::Call => return Err(Fault::NoPayload.into()),
                Loc::Tooshort => How::TooShort,
                Loc::Noitem => How::NoItem,
            };
            self.message.items.push(Excised { position: item.disp, length: item.length, how, result: None });
        }
        Ok(())
    }

    /// Takes the targets of an item. Until all has come a place is a target's number, and octets of that.
    // spec: rtr-6.2-r, rtr-7.1-i, rtr-7.1-j, rtr-7.3-d, rtr-7.3-e, rtr-7.3-m, rtr-9.5-j, rtr-9.5-k
    fn targets(&mut self, told: &LocTbsn<'_>, item: u32, structure: &Structure, count: u32) -> Result<How, Wrong> {
        let targets = count.saturating_mul(structure.target_count());
        let from = self.message.places.len();
        let (mut left, mut offset) = (item, told.offset);
        for target in told.bsnum.iter() {
            if self.message.places.len() >= PLACES {
                return Err(Fault::TooManySegments.into());
            }
            let absent = outside(target, 0, targets.checked_sub(1));
            let found = structure.find(target).filter(|_| target < targets);
            let length = found.map(|(_, range)| range.end - range.start).ok_or(absent)?;
            if offset >= length || !offset.is_multiple_of(4) {
                let most = length.saturating_sub(1) & !3;
                return Err(Broken::Offset(continuation::Range { value: offset, least: 0, most }).into());
            }
            let octets = offset..offset + (length - offset).min(left);
            left -= octets.end - octets.start;
            offset = 0;
            // What has no octets is nowhere: another item may be there.
            if !octets.is_empty() {
                self.message.places.push(Octets { buffer: Buffer(target.into()), octets });
            }
        }
        if left > 0 {
            // Another target would be needed, whose number nobody knows: its octets tell what is wrong.
            let most = item - left;
            return Err(Broken::Target(continuation::Range { value: item, least: 0, most }).into());
        }
        Ok(How::Placed(from..self.message.places.len()))
    }

    /// Takes memory of the requester's.
    // spec: rtr-6.2-q, rtr-7.3-c, rtr-7.3-l
    fn explicit(
        &mut self,
        segments: impl Iterator<Item = Segment>,
        length: u32,
        limits: &Limits,
    ) -> Result<How, Fault> {
        let from = self.message.segments.len();
        let mut octets = 0u64;
        for segment in segments {
            if self.message.segments.len() >= limits.segments as usize {
                return Err(Fault::TooManySegments);
            }
            octets += u64::from(segment.validated()?.length);
            self.message.segments.push(segment);
        }
        if octets >= u64::from(length) {
            Ok(How::Explicit(from..self.message.segments.len()))
        } else {
            Err(Fault::NotAsOffered)
        }
    }

    /// Finds the octets of what was placed, which must have come, and each for one item alone.
    // spec: rtr-5.4-e, rtr-6.2-h, rtr-7.2-e
    fn placed(&mut self, structure: &Structure) -> Result<(), Broken> {
        let Gathered { places, buffers, .. } = &mut *self.message;
        let mut highest = None;
        for at in 0..places.len() {
            let Some((place, before)) = places.get_mut(..=at).and_then(<[Octets]>::split_last_mut) else { break };
            let target = u32::try_from(place.buffer.0).unwrap_or(u32::MAX);
            let absent = outside(target, 0, target.checked_sub(1));
            let (transmission, range) = structure.find(target).ok_or(absent)?;
            let came = buffers.get(transmission as usize).ok_or(absent)?;
            let octets = range.start + place.octets.start..range.start + place.octets.end;
            if octets.end > came.octets.end {
                return Err(absent);
            }
            *place = Octets { buffer: came.buffer, octets };
            // Most messages have their data in the order of their targets.
            let is_taken = highest >= Some(target) && before.iter().any(|other| other.overlaps(place));
            if is_taken || place.octets.start < came.octets.start {
                let most = self.count.saturating_mul(structure.target_count()).checked_sub(1);
                return Err(outside(target, target.saturating_add(1), most));
            }
            highest = highest.max(Some(target));
        }
        Ok(())
    }
}

/// The operation that begins a message of this direction.
const fn opener_of(direction: MsgType) -> u32 {
    match direction {
        MsgType::Call => ROPT_XMTREQ,
        MsgType::Reply => ROPT_XMTRESP,
    }
}

/// A target that may not be named, and those that might. The range is never one that has it, which would say that it is not
/// aligned; where there are none it ends before it begins.
// spec: rtr-9.5-j, rtr-9.5-r
fn outside(value: u32, least: u32, most: Option<u32>) -> Broken {
    let (least, most) = most.map_or((1, 0), |most| (least, most));
    Broken::Target(continuation::Range { value, least, most })
}

/// Places of one message: more targets than that no item needs.
const PLACES: usize = 1024;

impl Asks {
    /// Takes what a request directs about its reply.
    // spec: rtr-7.4-a, rtr-7.4-q, rtr-7.4-z, rtr-7.4-aa
    fn take(&mut self, sets: &Rsdgroup<'_>, limits: &Limits) -> Result<(), Fault> {
        let mut end = 0;
        for set in sets.iter() {
            let Range { start, end: stop } = set.range.begin..set.range.end;
            if start < end || stop < start {
                return Err(Fault::OverlappingPosition);
            }
            end = stop;
            for item in set.items.iter() {
                let of = Span { begin: start, end: stop };
                let direction = self.direction(of, item.minlen, &item.loc, limits)?;
                self.directions.try_push(direction).map_err(|_| Fault::TooManySegments)?;
            }
        }
        Ok(())
    }

    // spec: rtr-6.2-l, rtr-6.2-s, rtr-6.2-ab, rtr-6.2-ac, rtr-6.2-ad, rtr-6.2-ae, rtr-7.4-b, rtr-7.4-c, rtr-7.4-d
    // spec: rtr-7.4-e, rtr-7.4-f, rtr-7.4-g, rtr-7.4-t
    fn direction(&mut self, of: Span, least: u32, place: &Rsdloc<'_>, limits: &Limits) -> Result<Direction, Fault> {
        let (memory, send, by_size) = match place {
            Rsdloc::Tbsn => (None, true, None),
            Rsdloc::Exrw(memory) => (Some(memory), false, None),
            Rsdloc::Choice(memory) => (Some(memory), true, None),
            Rsdloc::Bysize(either) => (Some(&either.bsex), true, Some(either.dsdov)),
        };
        let from = self.segments.len();
        let mut octets = 0u32;
        for segment in memory.into_iter().flat_map(|memory| memory.iter()) {
            if self.segments.len() >= limits.segments as usize {
                return Err(Fault::TooManySegments);
            }
            let length = Segment::from(segment).validated()?.length;
            octets = octets.checked_add(length).ok_or(Fault::TooLong)?;
            self.segments.push(segment);
        }
        let segments = u32::try_from(self.segments.len() - from).map_err(|_| Fault::TooManySegments)?;
        Ok(Direction { of, least, memory: memory.map(|_| octets), send, by_size, segments })
    }
}

/// What is between the transmissions of a group and does not belong there: it breaks the group.
// spec: rtr-4.2-d, rtr-9.5-e, rtr-9.5-f
pub(super) fn between(procedure: u32, operation: Option<u32>) -> Option<Broken> {
    match operation {
        None => Some(Broken::HeaderType(Mismatch { expected: OPTIONAL, came: procedure })),
        Some(ROPT_XMTCONT) => None,
        Some(code) => Some(Broken::Operation(Mismatch { expected: ROPT_XMTCONT, came: code })),
    }
}
