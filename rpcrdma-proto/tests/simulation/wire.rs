//! The wire: messages from one end to the other, in the order of their direction.

use rpcrdma_proto::connection::{
    BufferDisposition, BufferId, Properties, SendOwner, Session, Transmit,
};
use rpcrdma_proto::v2::properties::{ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP};
use rpcrdma_proto::v2::rtr::ROPT_REPTERR;
use rpcrdma_proto::version::{V1_INLINE_THRESHOLD, Version};

use super::end::Going;
use super::fault::{Fault, Seen};
use super::link::{name, other};
use super::message::{Message, Origin};
use super::random::Random;
use super::script::{CLIENT, Sabotage};
use super::spec::Spec;
use super::world::{Refusal, What, World};

/// Procedures and directions, as they stand in a header.
const NOMSG: u32 = 1;
const ERROR: u32 = 4;
const VERS: u32 = 1;
const CHUNK: u32 = 2;
const OPTIONAL: u32 = 5;
const CALL: u32 = 0;
const REPLY: u32 = 1;
/// The error of an operation that is not known.
const INVAL_OPTION: u32 = 3;

/// A message of a call that is not known.
const NOBODYS: Going = (Origin::Forged, true, [None; 2]);

impl World {
    /// Takes the next message of a session; false if there is none.
    pub(crate) fn transmit(&mut self, pair: usize, end: usize) -> bool {
        let (now, at) = (self.clock(pair, end), self.messages.take());
        let session = &mut self.pairs[pair].ends[end].session;
        let rested = session.is_at_rest();
        let Some(transmit) = session.poll_transmit(now, self.messages.get_mut(at).buffer()) else {
            self.messages.free(at);
            return false;
        };
        self.stats.steps += 1;
        if rested {
            self.fail("a session at rest has a message".to_owned());
        }
        self.check_order(pair, end, &transmit);
        self.describe(pair, end, at, &transmit);
        self.check_sent(pair, end, at);
        let released = self.soon(pair, end);
        let this = &mut self.pairs[pair].ends[end];
        this.sends_until = this.sends_until.max(released);
        if transmit.is_last() {
            let released = this.sends_until;
            self.at(
                released,
                What::Released {
                    pair,
                    end,
                    what: transmit.owner,
                },
            );
            if self.plan.sabotage == Some(Sabotage::EarlyRelease) {
                self.tell_released(pair, end, transmit.owner);
            }
        }
        self.tamper(pair, end, at);
        transmit.is_last() || !self.pauses(pair, end)
    }

    /// Whether the transport takes a rest between two transmissions of a message, with which it has
    /// done nothing wrong.
    fn pauses(&mut self, pair: usize, end: usize) -> bool {
        let (now, pace) = (self.now, self.plan.pace);
        let this = &mut self.pairs[pair].ends[end];
        let pauses = self.plan.lazy && !self.healed && this.random.one_in(4);
        if pauses {
            self.take_actions(pair, end);
            let this = &mut self.pairs[pair].ends[end];
            let at = now + u64::from(this.random.between(1, 3 * pace));
            (this.late_until, this.wake_at) = (at, at);
            self.at(at, What::Wake { pair, end });
        }
        pauses
    }

    /// Puts a message on its way.
    pub(crate) fn send(&mut self, pair: usize, end: usize, at: usize) {
        let arrives = self.soon(pair, end) + 1;
        let delay = std::mem::take(&mut self.pairs[pair].ends[end].delay);
        let first = self.pairs[pair].link.sent[end] == 0;
        self.pairs[pair].link.sent[end] += 1;
        // A peer that never answers the first message of a negotiation.
        let asks =
            first && end == CLIENT && self.pairs[pair].ends[CLIENT].session.version().is_none();
        let swallowed = asks && std::mem::take(&mut self.pairs[pair].link.deaf);
        if swallowed {
            self.stats.fault(Fault::FirstLost);
        }
        let lost = swallowed || !self.is_up(pair, end);
        if let Some(chart) = &mut self.chart {
            chart.message(self.now, pair, end, self.messages.get(at), lost);
        }
        if lost {
            return self.messages.free(at);
        }
        if delay {
            self.stats.fault(Fault::Delay);
        }
        let (to, link) = (other(end), self.pairs[pair].link.number);
        let last = self.pairs[pair].link.last[to];
        let arrives = arrives.max(last)
            + if delay {
                1000 * u64::from(self.plan.pace)
            } else {
                0
            };
        self.pairs[pair].link.last[to] = arrives;
        self.at(
            arrives,
            What::Deliver {
                pair,
                to,
                link,
                message: at,
            },
        );
    }

    /// Fills in what is known of a message.
    fn describe(&mut self, pair: usize, end: usize, at: usize, transmit: &Transmit) {
        let this = &mut self.pairs[pair].ends[end];
        let (link, message) = (this.link, self.messages.get_mut(at));
        message.clear();
        message.header = transmit.header;
        (message.invalidate, message.share) = (transmit.invalidate, transmit.transmission);
        message.sent_at = self.now;
        message.lay(this.session.payload_pieces(transmit));
        let begins = transmit.transmission.is_none_or(|share| share.number == 0);
        if let (SendOwner::Reply { call }, true) = (transmit.owner, begins) {
            message.writes.extend(this.session.writes(call));
        }
        let twice = match transmit.owner {
            SendOwner::Call { xid } if begins => {
                this.call(xid).is_some_and(|call| call.is_sent_twice(link))
            }
            _ => false,
        };
        let (origin, may, seen) = match transmit.owner {
            SendOwner::Header => (Origin::Header, true, [None; 2]),
            SendOwner::Call { xid } => this
                .call(xid)
                .map_or(NOBODYS, |call| call.goes(link, transmit)),
            SendOwner::Reply { call } => {
                this.serving(call).map_or(NOBODYS, |one| one.goes(transmit))
            }
        };
        let message = self.messages.get_mut(at);
        message.origin = origin;
        message.fill(
            message.word(0),
            matches!(transmit.owner, SendOwner::Reply { .. }),
        );
        seen.into_iter().flatten().for_each(|seen| self.seen(seen));
        if twice && !self.pairs[pair].tainted {
            self.fail(format!("sends {:?} a second time", transmit.owner));
        }
        if !may {
            self.fail(format!(
                "sends {:?} while its last Send has its memory",
                transmit.owner
            ));
        }
    }

    /// Holds a message that leaves against thresholds, credits and readiness.
    fn check_sent(&mut self, pair: usize, end: usize, at: usize) {
        let message = self.messages.get(at);
        let [client, server] = &self.pairs[pair].ends;
        let (this, peer) = if end == CLIENT {
            (client, server)
        } else {
            (server, client)
        };
        let (ours, theirs) = (this.session.config(), peer.session.config());
        let settled = match message.word(1) {
            1 => Some(Version::One),
            // The first messages have 1024 bytes at most (version-two-01, section 5).
            _ => self.pairs[pair].link.is_two[end].then_some(Version::Two),
        };
        let most = match settled {
            None => V1_INLINE_THRESHOLD,
            Some(Version::One) => ours.private_data().threshold_to(&theirs.private_data()),
            Some(Version::Two) => this
                .session
                .peer_properties()
                .receive_buffer_size
                .min(ours.send_size)
                .max(V1_INLINE_THRESHOLD),
        };
        // A requested size limits Sends at once.
        let most = match this.asked {
            Some((size, true)) if message.word(1) == 2 => most.min(size),
            _ => most,
        };
        // What a forged message tells, or in which version it is answered, is not what the peer
        // takes.
        let most = if self.pairs[pair].link.tainted {
            ours.send_size.max(V1_INLINE_THRESHOLD)
        } else {
            most
        };
        let length = message.length;
        let begins = message.share.is_none_or(|share| share.number == 0);
        let rpc_call = matches!(message.origin, Origin::Call { .. }) && begins;
        let unready =
            rpc_call && end != CLIENT && !self.pairs[pair].link.ready && self.is_up(pair, end);
        let asks_again = end == CLIENT
            && message.word(1) == 2
            && self.clock(pair, CLIENT) < self.pairs[pair].remembered;
        if asks_again && !self.pairs[pair].tainted {
            self.fail("asks a server that has refused Version Two in it".to_owned());
        }
        if length > most as usize {
            self.fail(format!("sends {length} bytes, and {most} are taken"));
        }
        if unready {
            self.fail("calls back before the peer is ready".to_owned());
        }
        self.check_direction(at);
        self.check_pending(pair, end, at);
        self.count_sent(pair, end, at);
        let is_two = end != CLIENT && is_answer_in_two(self.messages.get(at), false);
        self.pairs[pair].link.is_two[end] |= is_two;
    }

    /// A header has the XID and the direction of its RPC message (version-two-01, section 4.2), and
    /// an operation that of its kind (xcharext-03, section 4).
    fn check_direction(&mut self, at: usize) {
        let message = self.messages.get(at);
        let (version, procedure, direction) = (message.word(1), message.word(3), message.word(4));
        if version != 2 || procedure == ERROR {
            return;
        }
        let wanted = match (message.origin, message.word(5)) {
            (Origin::Call { .. }, _) => CALL,
            (Origin::Reply { .. }, _) => REPLY,
            (Origin::Header, ROPT_CONNPROP | ROPT_REQPROP | ROPT_UPDPROP) => CALL,
            (Origin::Header, ROPT_RESPROP) => REPLY,
            _ => return,
        };
        let xid = message.word(0);
        let has_xid = match message.origin {
            Origin::Call { xid: of, .. } | Origin::Reply { xid: of, .. } => of == xid,
            _ => true,
        };
        if direction != wanted || !has_xid {
            self.fail(format!("{xid:#x} goes with the direction {direction}"));
        }
    }

    /// An update says that nothing is pending any more if something was, and never else.
    fn check_pending(&mut self, pair: usize, end: usize, at: usize) {
        let (message, this) = (self.messages.get(at), &mut self.pairs[pair].ends[end]);
        let optional =
            message.origin == Origin::Header && (message.word(1), message.word(3)) == (2, OPTIONAL);
        if !optional || this.session.config().properties != Properties::Characteristics {
            return;
        }
        let last = message.word(message.length / 4 - 1);
        match message.word(5) {
            // The last of its three subsets, which has a word if anything is in it.
            ROPT_RESPROP if last > 0 => {
                this.pends = true;
                self.seen(Seen::PropertyPending);
            }
            ROPT_UPDPROP if last > 0 => {
                let pended = std::mem::take(&mut this.pends);
                self.seen(Seen::PendingCleared);
                if !pended {
                    self.fail(
                        "tells that nothing is pending any more, where nothing was".to_owned(),
                    );
                }
            }
            _ => {}
        }
    }

    fn count_sent(&mut self, pair: usize, end: usize, at: usize) {
        let message = self.messages.get(at);
        let (xid, procedure) = (message.word(0), message.word(3));
        // One that only asks has no properties.
        if procedure == OPTIONAL && message.word(5) == ROPT_REQPROP && message.word(7) > 0 {
            self.pairs[pair].ends[end]
                .asked
                .iter_mut()
                .for_each(|asked| asked.1 = true);
        }
        let kind = (message.word(1), procedure, message.word(4), message.word(5));
        let (origin, begins) = (
            message.origin,
            message.share.is_none_or(|share| share.number == 0),
        );
        if begins {
            self.check_group(pair, end, at);
        }
        let message = self.messages.get(at);
        let (messages, reserve) = super::groups::outline(message);
        if self.pairs[pair].ends[end].link != self.pairs[pair].link.number {
            return;
        }
        let link = &mut self.pairs[pair].link;
        let credits = &mut link.credits[end];
        let may = match (origin, kind) {
            // A continuation has its credit already.
            _ if !begins => true,
            (Origin::Call { .. }, _) | (Origin::Header, (2, OPTIONAL, CALL, ROPT_REQPROP)) => {
                credits.call(xid, messages, reserve)
            }
            // Only broken groups are reported, and only faults break them.
            (Origin::Header, (2, OPTIONAL, _, ROPT_REPTERR)) => true,
            (Origin::Header, (2, OPTIONAL, CALL, ROPT_CONNPROP)) => {
                credits.first();
                true
            }
            (Origin::Header, (2, OPTIONAL, CALL, _)) => credits.one_way(),
            _ => true,
        };
        let (granted, used) = (credits.granted(), credits.used());
        let (tainted, forged) = (link.tainted, link.credits_forged);
        let grants = &mut link.grants[end];
        // What goes to a requester and is no reply: errors, reports, and answers to operations that
        // were registered.
        let answers = match kind {
            (_, ERROR, ..) => true,
            (2, OPTIONAL, REPLY, code) => code != ROPT_RESPROP,
            _ => false,
        };
        let credits = message.word(2);
        let may_tell = origin != Origin::Header || !answers || grants.may_tell(credits);
        match (origin, kind) {
            // What continues a reply repeats the grant of its first transmission. The most that is
            // granted may have changed between them, and then an error tells the new one.
            (Origin::Reply { .. }, _) if !begins => {}
            (Origin::Reply { .. }, _) | (Origin::Header, (2, OPTIONAL, _, ROPT_RESPROP)) => {
                grants.answers(xid, Some(message.word(2)));
            }
            (Origin::Header, (2, ERROR, INVAL_OPTION, _)) => grants.refuses(xid),
            (Origin::Header, (_, ERROR, ..)) => grants.answers(xid, None),
            _ => {}
        }
        let reports = matches!(
            (origin, kind),
            (Origin::Header, (2, OPTIONAL, _, ROPT_REPTERR))
        );
        if reports && !tainted {
            self.fail("reports a group that nothing has broken".to_owned());
        }
        if !may_tell && !forged {
            self.fail(format!("grants {credits} by a message that is no reply"));
        }
        if !may && !forged {
            self.fail(format!(
                "has {used} messages in flight and {granted} credits"
            ));
        }
        if matches!(origin, Origin::Call { .. }) && begins {
            self.seen(if end == CLIENT {
                Seen::Call
            } else {
                Seen::BackwardCall
            });
        }
    }

    /// Delivers a message to an end.
    pub(crate) fn deliver(&mut self, pair: usize, to: usize, link: u32, at: usize) {
        if self.pairs[pair].link.number != link || !self.is_up(pair, to) {
            return self.messages.free(at);
        }
        self.distort(pair, to, at);
        let closes = self.refuses(pair, to, at);
        let (length, forged) = (
            self.messages.get(at).length,
            self.messages.get(at).origin == Origin::Forged,
        );
        let room = self.pairs[pair].link.take(to);
        if room.is_none_or(|room| (room as usize) < length) {
            if !self.pairs[pair].link.tainted && !forged {
                self.fail(format!(
                    "a message of {length} bytes comes to the {}, where {room:?} is posted",
                    name(to)
                ));
            }
            self.messages.free(at);
            return self.disconnect(pair);
        }
        if !self.write(pair, to, at) || !self.invalidate(pair, to, at) {
            self.messages.free(at);
            return self.disconnect(pair);
        }
        if !self.pairs[pair].link.credits_forged {
            self.count_delivered(pair, to, at);
        }
        let is_two = to == CLIENT && is_answer_in_two(self.messages.get(at), true);
        self.pairs[pair].link.is_two[to] |= is_two;
        self.hand_over(pair, to, at);
        self.poll(pair, to);
        if closes {
            self.disconnect(pair);
        }
    }

    /// Lets a server of Version One refuse Version Two in its own way. Whether it closes the
    /// connection then.
    fn refuses(&mut self, pair: usize, to: usize, at: usize) -> bool {
        let message = self.messages.get_mut(at);
        let is_refusal = (message.word(3), message.word(4), message.length) == (ERROR, VERS, 28);
        if to != CLIENT
            || !is_refusal
            || self.pairs[pair].link.tainted
            || self.pairs[pair].ends[to].version.is_some()
        {
            return false;
        }
        self.pairs[pair].link.refused = true;
        match self.pairs[pair].refusal {
            Refusal::Versions | Refusal::AndClose => {}
            Refusal::Range => message.set_word(6, 2),
            Refusal::Chunk => {
                message.set_word(1, 1);
                message.set_word(4, CHUNK);
                message.length = 20;
            }
        }
        self.pairs[pair].refusal == Refusal::AndClose
    }

    /// Gives a message to the session.
    pub(crate) fn hand_over(&mut self, pair: usize, to: usize, at: usize) {
        let message = self.messages.get(at);
        let this = &mut self.pairs[pair].ends[to];
        self.stats.steps += 1;
        let (buffer, length) = (BufferId(at as u64), message.length as u32);
        let shown = message.shown(this.head, |head| this.session.is_fragment(head));
        let rejected = |session: &Session| session.counters().refused + session.counters().dropped;
        let before = rejected(&this.session);
        match this
            .session
            .received_in_segments(buffer, shown, length, message.invalidate)
        {
            BufferDisposition::Kept => this.kept.push(at),
            BufferDisposition::Free => self.messages.free(at),
        }
        // A message that is answered with an error or dropped has a reason, which a report gives.
        let is_rejected = rejected(&this.session) > before;
        let reason = this.session.take_refusal();
        if let Some(refusal) = reason {
            self.pairs[pair].link.grants[to].rejects(refusal.xid);
        }
        if is_rejected != reason.is_some() {
            self.fail(format!(
                "rejected: {is_rejected}, for the reason {reason:?}"
            ));
        }
    }

    /// Does the RDMA Writes that go before a message; false if one fails.
    fn write(&mut self, pair: usize, to: usize, at: usize) -> bool {
        let message = self.messages.get_mut(at);
        let memory = &self.pairs[pair].ends[to].memory;
        let mut denied = None;
        for write in &message.writes {
            match memory.access(&write.target, true) {
                Ok(place) => message
                    .written
                    .push((place.region, place.at, write.range.clone())),
                Err(why) => denied = denied.or(Some((why, write.clone()))),
            }
        }
        let forged = message.origin == Origin::Forged;
        let Some((why, write)) = denied else {
            return true;
        };
        self.denied(pair, forged, why, || format!("writes {write:?}"));
        false
    }

    /// Does what Send With Invalidate does; false if there is no such key.
    fn invalidate(&mut self, pair: usize, to: usize, at: usize) -> bool {
        let message = self.messages.get(at);
        let Some(key) = message.invalidate else {
            return true;
        };
        let (origin, memory) = (message.origin, &mut self.pairs[pair].ends[to].memory);
        match (memory.invalidate(key), origin) {
            (Err(why), _) => {
                let forged = origin == Origin::Forged;
                self.denied(pair, forged, why, || format!("invalidates {key:#x}"));
                false
            }
            (Ok(of), Origin::Reply { xid, .. }) if xid != of && !self.pairs[pair].link.tainted => {
                self.fail(format!(
                    "the reply to {xid:#x} invalidates memory of {of:#x}"
                ));
                false
            }
            (Ok(_), _) => {
                self.seen(Seen::Invalidation);
                true
            }
        }
    }

    /// Counts the credits that a message gives back, and whose reply it is.
    fn count_delivered(&mut self, pair: usize, to: usize, at: usize) {
        let message = self.messages.get(at);
        let (xid, granted, procedure) = (message.word(0), message.word(2), message.word(3));
        let answers = (message.word(1), procedure, message.word(5)) == (2, OPTIONAL, ROPT_RESPROP);
        // A long reply of Version One tells no direction: its call does, and its Reply chunk,
        // unless a call of the other direction that is being served has the same XID (RFC 8167,
        // section 4.1; decision D12).
        let is_long = (message.word(1), procedure) == (1, NOMSG);
        let certain = !is_long || !self.pairs[pair].link.grants[to].is_served(xid);
        let asks = (message.word(1), procedure, message.word(5)) == (2, OPTIONAL, ROPT_REQPROP);
        if asks || matches!(message.origin, Origin::Call { .. }) {
            let begins = message.share.is_none_or(|share| share.number == 0);
            self.pairs[pair].link.grants[to].called(xid, begins);
        }
        let unknown = message.word(4) == INVAL_OPTION;
        let last = message.share.is_none_or(|share| share.last);
        let (mixed, tainted) = (self.is_mixed(pair), self.pairs[pair].link.tainted);
        let credits = &mut self.pairs[pair].link.credits[to];
        match message.origin {
            Origin::Reply { .. } if !last => {}
            Origin::Reply { .. } => {
                credits.answered(xid, Some(granted).filter(|_| certain));
                self.pairs[pair].ends[to]
                    .call(xid)
                    .into_iter()
                    .for_each(|call| call.replied = !tainted);
            }
            // To who speaks another draft it may make no sense, and grants nothing then.
            Origin::Header if answers && mixed => {
                credits.answered(xid, Some(granted.max(credits.granted())))
            }
            Origin::Header if answers => credits.answered(xid, Some(granted)),
            // A retransmitted call has no reply yet.
            Origin::Header if procedure == ERROR && unknown => {
                credits.unknown(xid, granted);
                self.pairs[pair].ends[to]
                    .call(xid)
                    .into_iter()
                    .for_each(|call| (call.sent_on, call.refused) = (0, true));
            }
            Origin::Header if procedure == ERROR => {
                credits.refused(xid, granted);
                self.pairs[pair].ends[to]
                    .call(xid)
                    .into_iter()
                    .for_each(|call| (call.replied, call.refused) = (!tainted, true));
            }
            _ => {}
        }
    }

    /// Changes a message, if a fault waits for one.
    fn distort(&mut self, pair: usize, to: usize, at: usize) {
        let from = &mut self.pairs[pair].ends[other(to)];
        let (corrupt, truncate, credits) = (
            from.corrupt.take(),
            from.truncate.take(),
            from.credits.take(),
        );
        if corrupt.is_none() && truncate.is_none() && credits.is_none() {
            return;
        }
        let message = self.messages.get_mut(at);
        let is_property = message.origin == Origin::Header && message.word(3) == OPTIONAL;
        if let Some(how) = corrupt {
            flip(message, &mut Random::new(how.into()));
            self.stats.fault(Fault::Corrupted);
        }
        if let Some(how) = truncate {
            message.length = how as usize % message.length.max(1);
            self.stats.fault(Fault::Truncated);
        }
        if let Some(how) = credits {
            message.set_word(2, [0, 1, 2, u32::MAX][how as usize % 4]);
            self.stats.fault(Fault::Credits);
        }
        message.origin = Origin::Forged;
        self.taint(pair);
        self.pairs[pair].link.again = true;
        self.pairs[pair].link.properties_forged |= is_property;
    }

    /// From now on this connection may do what no correct one does.
    pub(crate) fn taint(&mut self, pair: usize) {
        let link = &mut self.pairs[pair].link;
        (link.tainted, link.credits_forged) = (true, true);
        self.pairs[pair].tainted = true;
    }

    /// The client's consumer announces that it accepts backward calls.
    pub(crate) fn say_ready(&mut self, pair: usize, anyhow: bool) -> Option<u32> {
        if anyhow || self.pairs[pair].ends[CLIENT].session.config().max_served > 0 {
            return self.call(pair, CLIENT, Spec::NULL, 0);
        }
        None
    }
}

/// Changes some bytes of a header.
fn flip(message: &mut Message, random: &mut Random) {
    let most = (message.header + 8).min(message.length).max(1);
    for _ in 0..random.between(1, 3) {
        let at = random.below(most as u64) as usize;
        let how = if random.one_in(2) {
            1 << random.below(8)
        } else {
            random.next() as u8
        };
        message.buffer()[at] ^= how;
    }
}

/// Whether a message shows that its sender speaks Version Two: any but an error about versions; to
/// a client an operation that is no answer does not.
fn is_answer_in_two(message: &Message, to_client: bool) -> bool {
    let (procedure, word) = (message.word(3), message.word(4));
    message.word(1) == 2
        && match procedure {
            ERROR => word != VERS,
            OPTIONAL => !to_client || word == REPLY,
            _ => true,
        }
}
