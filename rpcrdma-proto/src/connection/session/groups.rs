//! Messages in transmissions of rtrext-02: as they come, as they are sent, and what is reported of them.

use alloc::boxed::Box;

use super::incoming::Notice;
use super::{Held, Session};
use crate::chunk::Limits;
use crate::connection::arriving::{Bounds, Came, Group, Wrong, between};
use crate::connection::extension::Extension;
use crate::connection::headers::write as write_header;
use crate::connection::output::{Action, Buffer, Event, Laid, Reason, Sent, Transmit};
use crate::connection::requester::Kind;
use crate::connection::responder::Unserved;
use crate::continuation::{Broken, Gathered, Mismatch, Operations, Part, Report};
use crate::error::PeerError;
use crate::header::{Body, Header};
use crate::v2::MsgType;
use crate::v2::rtr::{Cont, OptreptErr, ROPT_REPTERR, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP, Req, Resp};
use crate::version::Version;
use crate::xdr::Decode;

/// A transmission, decoded.
enum Told<'a> {
    Request(Req<'a>),
    Reply(Resp<'a>),
    More(Cont),
    Report(OptreptErr),
}

/// The direction that an operation has, whatever its message says; none if it may be either.
const fn direction_of(code: u32) -> Option<MsgType> {
    match code {
        ROPT_XMTREQ => Some(MsgType::Call),
        ROPT_XMTRESP => Some(MsgType::Reply),
        _ => None,
    }
}

impl Session {
    /// Whether an operation is one of rtrext-02 that is taken here.
    // spec: rtr-5.4-g, rtr-9.1-a, rtr-9.4-c
    pub(super) fn takes_group(&self, code: u32) -> bool {
        let Some(extension) = &self.extension else { return false };
        let wanted = match code {
            ROPT_XMTREQ => Operations::REQUESTS,
            ROPT_XMTRESP => Operations::RESPONSES,
            ROPT_XMTCONT => Operations::CONTINUATIONS,
            // Who sends groups must take reports of them.
            ROPT_REPTERR => Operations::NONE,
            _ => return false,
        };
        extension.settings.operations.has(wanted)
    }

    /// An operation of rtrext-02 has come.
    pub(super) fn group_arrived(
        &mut self,
        told: &Notice<'_>,
        buffer: Buffer,
        header: u32,
        length: u32,
        invalidated: Option<u32>,
    ) -> Held {
        let Some(decoded) = decode(told) else {
            self.senseless(told);
            if invalidated.is_some() {
                self.close(Reason::Invalidated);
            }
            return Held::Free;
        };
        if self.is_too_much(&decoded) {
            self.refuse_as(told.xid, Version::Two, PeerError::Operation);
            return Held::Free;
        }
        if told.direction == MsgType::Call && !matches!(decoded, Told::Report(_)) && self.counted().is_err() {
            self.close(Reason::Overrun);
            return Held::Free;
        }
        let came = Came {
            xid: told.xid,
            credits: told.credits,
            direction: told.direction,
            buffer,
            header,
            length,
            shown: told.payload,
            invalidated,
        };
        match decoded {
            Told::Report(report) => {
                self.reported(report.into());
                Held::Free
            }
            decoded => self.transmission(&came, &decoded),
        }
    }

    /// Whether a request begins a group of which the rest is not taken here: the peer finds that out with it (decision D24).
    // spec: rtr-5.1-b, rtr-9.4-c
    fn is_too_much(&self, told: &Told<'_>) -> bool {
        let Told::Request(request) = told else { return false };
        request.count > 1 && !self.takes_group(ROPT_XMTCONT)
    }

    /// Counts a transmission of a request, which has taken a credit.
    fn counted(&mut self) -> Result<(), crate::credit::Overrun> {
        self.serving.credits.received()
    }

    fn transmission(&mut self, came: &Came<'_>, told: &Told<'_>) -> Held {
        let Some(extension) = &mut self.extension else { return Held::Free };
        let reply_limit = self.requests.reply_limit(came.xid);
        let Extension { arriving, ours, settings, .. } = &mut **extension;
        let held = arriving.held();
        // What a reply has was asked for.
        let (limits, most) = match came.direction {
            MsgType::Call => (&self.config.limits, settings.request_limit),
            MsgType::Reply => (&Limits { segments: u32::MAX, octets: u32::MAX }, reply_limit),
        };
        let bounds = Bounds { structure: ours, most, limits };
        let lead = arriving.waits();
        let whole = match told {
            Told::Request(request) => arriving.request(came, request, bounds),
            Told::Reply(reply) => arriving.reply(came, reply, bounds),
            Told::More(more) => arriving.more(came, *more, bounds),
            Told::Report(_) => return Held::Free,
        };
        match whole {
            Ok(Some(group)) => {
                let held = self.group_whole(group);
                self.free_given_up(Some(came.buffer));
                return held;
            }
            Ok(None) if extension.waits().is_some() => return Held::Kept,
            // It is passed over, and what it had taken is free: the peer was told of its group.
            Ok(None) => {
                self.not_taken(came, 0);
            }
            Err(wrong) => {
                let number = if let Told::More(more) = told { more.xnum } else { 0 };
                self.not_taken(came, held);
                self.wrong(wrong, Part { xid: came.xid, direction: came.direction, number }, lead);
            }
        }
        Held::Free
    }

    /// A transmission is not taken, and a group is given up with it of whose transmissions so many `held` receives.
    fn not_taken(&mut self, came: &Came<'_>, held: u32) {
        self.serving.credits.drop_all(held + u32::from(came.direction == MsgType::Call));
        self.free_given_up(Some(came.buffer));
        if came.invalidated.is_some() {
            self.close(Reason::Invalidated);
        }
    }

    /// Gives back the buffers of a group that was given up, all but the one that has just come.
    fn free_given_up(&mut self, last: Option<Buffer>) {
        let Some(extension) = &mut self.extension else { return };
        let (message, invalidated) = extension.arriving.given_up(last);
        if let Some(message) = message {
            self.out.act(Action::Free { message });
        }
        if invalidated {
            // Of which call it was is not known any more.
            self.close(Reason::Invalidated);
        }
    }

    /// A transmission breaks a rule.
    // spec: rtr-5.4-d, rtr-5.4-g, rtr-6.2-aa
    fn wrong(&mut self, wrong: Wrong, bad: Part, lead: Option<Part>) {
        match wrong {
            Wrong::Broken(why) => {
                let lead = lead.filter(|lead| *lead != Part { number: 0, ..bad } || bad.number != 0);
                self.report(Report { bad, lead, why });
            }
            // There is no report for what makes no sense by itself (decision D22).
            Wrong::Fault(fault) if bad.direction == MsgType::Reply => {
                self.counters.dropped += 1;
                self.requests.senseless(bad.xid, fault, &mut self.out);
            }
            Wrong::Fault(_) => self.refuse_as(bad.xid, Version::Two, PeerError::Header),
        }
    }

    /// Tells the peer, and the consumer, of a broken group.
    fn report(&mut self, report: Report) {
        self.counters.refused += 1;
        if let Some(extension) = &mut self.extension {
            extension.report(report);
        }
        self.out.notify(Event::Broken { report, ours: false });
    }

    /// All transmissions of a message are here.
    // spec: rtr-5.4-a, rtr-9.5-c
    fn group_whole(&mut self, mut group: Box<Group>) -> Held {
        let another = self.extension.as_mut().map(|extension| extension.arriving.another()).unwrap_or_default();
        let message = core::mem::replace(&mut group.message, another);
        let (held, unused) = match group.direction {
            MsgType::Call => self.request_whole(&mut group, message),
            MsgType::Reply => self.reply_whole(&group, message),
        };
        if let Some(extension) = &mut self.extension {
            if let Some(message) = unused {
                // Its buffers are still to be given back.
                extension.arriving.recycle(core::mem::replace(&mut group.message, message));
            }
            extension.arriving.done_with(group);
        }
        held
    }

    /// A request: whether its buffers are kept, and its message if not.
    fn request_whole(&mut self, group: &mut Group, message: Box<Gathered>) -> (Held, Option<Box<Gathered>>) {
        self.spoken(Version::Two);
        self.serving.forget_kept(u64::MAX, &mut self.out);
        let offers = !message.segments.is_empty() || !group.asks.segments.is_empty();
        if !self.link.takes(&self.config, Version::Two, offers) {
            self.serving.credits.drop_all(group.parts());
            self.refuse_as(group.xid, Version::Two, PeerError::Header);
            return (Held::Free, Some(message));
        }
        let (xid, parts) = (group.xid, group.parts());
        let (unserved, message) = match self.serving.gathered(group, message, &mut self.out) {
            Ok(_) => return (Held::Kept, None),
            Err(unserved) => unserved,
        };
        match unserved {
            Unserved::Fault(_) => self.refuse_as(xid, Version::Two, PeerError::Header),
            Unserved::Twice => self.counters.twice += 1,
            Unserved::Overrun => self.close(Reason::Overrun),
        }
        self.serving.credits.drop_all(parts);
        (Held::Free, Some(message))
    }

    /// A reply: whether its buffers are kept, and its message if not.
    fn reply_whole(&mut self, group: &Group, message: Box<Gathered>) -> (Held, Option<Box<Gathered>>) {
        if self.requests.expected(group.xid) != Some(Kind::Rpc) {
            self.counters.unexpected += 1;
            if group.invalidated.is_some() {
                self.close(Reason::Invalidated);
            }
            return (Held::Free, Some(message));
        }
        self.spoken(Version::Two);
        match self.requests.gathered(group.xid, group.credits, group.invalidated, message, &mut self.out) {
            Ok(()) => (Held::Kept, None),
            Err((message, invalidates)) => {
                if invalidates {
                    self.close(Reason::Invalidated);
                }
                (Held::Free, Some(message))
            }
        }
    }

    /// A message has come that is no transmission of rtrext-02: it breaks the group that waits, if there is one. Whether it is
    /// not taken either, since the peer learns by the report that it was bad, and sends it again.
    pub(super) fn interrupts(&mut self, header: &Header<'_>) -> bool {
        if self.extension.as_ref().is_none_or(|extension| extension.waits().is_none()) {
            return false;
        }
        let (procedure, operation, direction) = match header.body {
            Body::Message { direction, .. } => (0, None, direction),
            Body::Long { direction, .. } => (1, None, direction.unwrap_or(MsgType::Call)),
            Body::Error(_) => (4, None, MsgType::Reply),
            Body::Operation { direction, code, .. } => (5, Some(code), direction),
        };
        let begins = matches!(operation, None | Some(ROPT_XMTREQ)) && direction == MsgType::Call;
        let bad = Part { xid: header.xid, direction, number: 0 };
        between(procedure, operation).is_some_and(|why| self.abandon(bad, why)) && begins
    }

    /// A message that can't be read has come: it breaks the group that waits, if there is one.
    pub(super) fn interrupted_by(&mut self, xid: u32, procedure: u32) {
        let bad = Part { xid, direction: MsgType::Call, number: 0 };
        if let Some(why) = between(procedure, None) {
            self.abandon(bad, why);
        }
    }

    /// Gives up the group that waits, for what has come instead. Whether there was one.
    fn abandon(&mut self, bad: Part, why: Broken) -> bool {
        let Some(lead) = self.give_up() else { return false };
        self.report(Report { bad, lead: Some(lead), why });
        true
    }

    /// Gives up the group that waits, if there is one.
    fn give_up(&mut self) -> Option<Part> {
        let arriving = &mut self.extension.as_mut()?.arriving;
        let held = arriving.held();
        let lead = arriving.give_up()?;
        self.serving.credits.drop_all(held);
        self.free_given_up(None);
        Some(lead)
    }

    /// A transmission of rtrext-02 has come that is no XDR of its type, or contradicts itself.
    // spec: rtr-5.4-c, rtr-9.5-b
    fn senseless(&mut self, told: &Notice<'_>) {
        let lead = self.give_up().filter(|lead| lead.xid != told.xid);
        if let Some(lead) = lead {
            // The error tells of the one alone.
            let bad = Part { xid: told.xid, direction: told.direction, number: 0 };
            let why = Broken::Xid(Mismatch { expected: lead.xid, came: told.xid });
            self.report(Report { bad, lead: Some(lead), why });
        }
        self.malformed(told);
    }

    /// The peer reports that a group of ours is broken, or what came between its transmissions.
    // spec: rtr-5.4-i, rtr-5.4-n
    fn reported(&mut self, report: Report) {
        self.out.notify(Event::Broken { report, ours: true });
        let threshold = self.link.send_limit(Version::Two);
        for part in [Some(report.bad), report.lead.filter(|lead| lead.xid != report.bad.xid)].into_iter().flatten() {
            let known = match part.direction {
                MsgType::Call => self.requests.reported(part.xid, report.why, &mut self.out),
                MsgType::Reply => {
                    let again = self.serving.reported(part.xid, threshold);
                    if !again && !self.serving.is_open(part.xid) {
                        // It can't be sent again: the call is to end all the same (decision D23).
                        self.refuse_as(part.xid, Version::Two, PeerError::Header);
                    }
                    again
                }
            };
            self.counters.unexpected += u64::from(!known);
        }
    }

    /// Takes over what the peer has told, for rtrext-02.
    // spec: rtr-2-a
    pub(super) fn abilities_told(&mut self) {
        let Some(extension) = &mut self.extension else { return };
        if self.link.version == Some(Version::Two) && self.link.speaks && self.link.answered {
            let to_us = self.link.receive_limit(Version::Two);
            extension.told(self.link.peer.abilities(), self.link.send_limit(Version::Two), to_us);
        }
    }

    /// The next transmission of a message that was begun: before any other.
    // spec: rtr-4.2-d
    pub(super) fn transmit_more(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        self.extension.as_mut()?.sending.as_mut()?.next(buffer)
    }

    /// Writes the next report.
    // spec: rtr-9.1-h
    pub(super) fn transmit_report(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let (report, direction) = *self.extension.as_ref()?.reports.front()?;
        let credits = match direction {
            MsgType::Call => self.requests.credits.wanted(),
            MsgType::Reply => self.serving.credits.next(1),
        };
        let told = OptreptErr::from(report);
        let header = write_header(buffer, report.bad.xid, credits, (ROPT_REPTERR, direction), &told)?;
        self.extension.as_mut()?.reports.pop_front();
        Some(Transmit { what: Sent::Header, header, inline: 0, invalidate: None, share: None })
    }

    /// What follows the header of the message that was polled last, in its order.
    pub fn laid(&self, transmit: &Transmit) -> impl Iterator<Item = Laid> + use<'_> {
        let grouped = transmit.share.is_some();
        let sending = self.extension.as_ref().and_then(|extension| extension.sending.as_deref()).filter(|_| grouped);
        let plain = if grouped { None } else { Some(self.parts(transmit.what).map(Laid::Octets)) };
        plain.into_iter().flatten().chain(sending.into_iter().flat_map(|sending| sending.laid()))
    }

    /// Gives back the memory of a message that came in transmissions: without it, the next one takes new memory.
    pub fn recycle(&mut self, message: Box<Gathered>) {
        if let Some(extension) = &mut self.extension {
            extension.arriving.recycle(message);
        }
    }

    /// What the peer does not know is not tried again on this connection.
    // spec: rtr-5.1-b
    pub(super) fn operation_unknown(&mut self, xid: u32) -> bool {
        let Some(extension) = &mut self.extension else { return false };
        let Some(count) = self.requests.unknown_operation(xid, &mut self.out) else { return false };
        if count > 0 {
            let refuted =
                if count == 1 { Operations::REQUESTS } else { Operations::REQUESTS.and(Operations::CONTINUATIONS) };
            extension.refute(refuted);
            self.abilities_told();
        }
        true
    }

    /// The connection is gone: a message of which not all transmissions went is released here.
    pub(super) fn groups_lost(&mut self) {
        let Some(extension) = &mut self.extension else { return };
        extension.arriving.lost();
        let (message, _) = extension.arriving.given_up(None);
        self.out.actions.extend(message.map(|message| Action::Free { message }));
        let unfinished = extension.sending.take().filter(|sending| !sending.is_done());
        match unfinished.map(|sending| sending.what) {
            Some(Sent::Call { xid }) => self.requests.unfinished(xid, &mut self.out),
            Some(Sent::Reply { call }) => self.serving.unfinished(call, &mut self.out),
            Some(Sent::Header) | None => {}
        }
    }
}

/// What an operation says; none if it is no XDR of its type, has another direction, or is a report with anything behind it.
// spec: rtr-9.1-b, rtr-9.1-d, rtr-9.1-h
fn decode<'a>(told: &Notice<'a>) -> Option<Told<'a>> {
    let info = told.info;
    let decoded = match told.code {
        ROPT_XMTREQ => Req::from_bytes(info).map(Told::Request),
        ROPT_XMTRESP => Resp::from_bytes(info).map(Told::Reply),
        ROPT_XMTCONT => Cont::from_bytes(info).map(Told::More),
        _ if told.payload.is_empty() => OptreptErr::from_bytes(info).map(Told::Report),
        _ => return None,
    };
    let directed = direction_of(told.code).is_none_or(|direction| direction == told.direction);
    decoded.ok().filter(|_| directed)
}
