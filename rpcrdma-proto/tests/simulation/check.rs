//! The invariants: after each step, at rest, and at the end.

use std::ops::Range;

use rpcrdma_proto::connection::{CallRegion, CloseReason, ConnState, Properties, ReplyLocation};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use super::end::{Call, EXPERIMENT};
use super::fault::Seen;
use super::memory::Place;
use super::message::Origin;
use super::script::{CLIENT, SERVER};
use super::spec::{Answer, Spec};
use super::world::World;

/// Where in a call the bytes of its exposed memory are.
pub(crate) fn position(spec: &Spec, place: &Place) -> Option<u32> {
    match place.region {
        CallRegion::Call => Some(place.at),
        CallRegion::Item(number) => Some(spec.item(number).position + place.at),
        CallRegion::Result(_) | CallRegion::Reply => None,
    }
}

impl World {
    /// After all output is polled, receives are posted for all possible messages.
    pub(crate) fn check_polled(&mut self, pair: usize, end: usize) {
        if !self.is_up(pair, end) || self.pairs[pair].ends[end].session.state() != ConnState::Up {
            return;
        }
        let link = &self.pairs[pair].link;
        let this = &self.pairs[pair].ends[end].session;
        let one = this.version() == Some(Version::One);
        let takes =
            end == SERVER || !one || (this.config().max_served > 0 && this.config().backward_v1);
        // In addition to the grant, the peer may send one message without a credit.
        let granted = if takes {
            link.grants[end].receives() + 1
        } else {
            0
        };
        let (posted, calls) = (link.posted(end), link.credits[end].replies());
        if posted < calls + granted && !link.tainted {
            self.fail(format!(
                "{posted} receives are posted, for {calls} replies and {granted} other messages"
            ));
        }
        // Each unanswered message needs a receive, for any grant of a hostile peer.
        let number = self.pairs[pair].link.number;
        let sent = |call: &&Call| call.sent_on == number && !call.fencing && !call.sending;
        let waiting = self.pairs[pair].ends[end].calls.iter().filter(sent).count();
        if (posted as usize) < waiting {
            self.fail(format!(
                "{posted} receives are posted, and {waiting} calls wait for replies"
            ));
        }
    }

    /// Holds a reply against what its responder has sent.
    pub(crate) fn check_reply(&mut self, pair: usize, end: usize, xid: u32, reply: &ReplyLocation) {
        if reply.results.iter().any(|bytes| *bytes > 0) {
            self.seen(Seen::WriteList);
        }
        if reply.reassembled.is_some() {
            return self.check_group_reply(pair, end, xid, reply);
        }
        let message = self.messages.get(reply.buffer.0 as usize);
        let Origin::Reply {
            xid: of, answer, ..
        } = message.origin
        else {
            if message.origin != Origin::Forged {
                self.fail(format!("{:?} is no reply", message.origin));
            }
            return;
        };
        let spec = self.pairs[pair].ends[end]
            .calls
            .iter()
            .find(|call| call.xid == xid)
            .map(|call| call.spec);
        let Some(spec) = spec else { return };
        let inline = reply.inline.len() as u32;
        let fits = of == xid
            && message.inline() == inline
            && (inline == 0
                || (reply.inline.end as usize == message.length
                    && reply.inline.start as usize == message.header))
            && lengths(&message.written, reply, &spec)
            && tiles(
                message.parts.iter().map(|part| &part.bytes),
                &message.written,
                &answer,
            );
        if !fits {
            let (written, parts) = (message.written.clone(), message.parts.clone());
            self.fail(format!(
                "the reply to {xid:#x}, {answer:?}, is told as {reply:?}; parts {parts:?}, \
                written {written:?}"
            ));
        }
        if reply.long.is_some_and(|bytes| bytes > 0) {
            self.seen(Seen::ReplyChunk);
        }
    }

    pub(crate) fn check_closed(&mut self, pair: usize, end: usize, why: CloseReason, last: bool) {
        let this = &mut self.pairs[pair].ends[end];
        let told = this.untold > 0;
        this.untold = this.untold.saturating_sub(1);
        this.over |= last;
        let tainted = self.pairs[pair].tainted;
        match (told, why, last) {
            // A session without a connection ends at once.
            (false, CloseReason::Drained | CloseReason::Aborted, true) => {}
            (false, ..) => self.fail(format!("tells the end of no connection: {why}")),
            (_, _, last) if last != why.is_final() => self.fail(format!("{why}: last is {last}")),
            (
                _,
                CloseReason::NoVersion | CloseReason::CreditOverrun | CloseReason::Invalidated,
                _,
            ) if !tainted => {
                self.fail(format!("closes a connection to a correct peer: {why}"));
            }
            _ => {}
        }
        match why {
            CloseReason::Drained => self.seen(Seen::Drained),
            CloseReason::Aborted => self.seen(Seen::Aborted),
            CloseReason::Unresponsive => self.check_unresponsive(pair, end),
            _ => {}
        }
    }

    /// A connection was closed as unresponsive, so no call may still wait for a reply on it.
    fn check_unresponsive(&mut self, pair: usize, end: usize) {
        self.seen(Seen::Unresponsive);
        let (this, link) = (&self.pairs[pair].ends[end], self.pairs[pair].link.number);
        let waits = |call: &&Call| call.sent_on == link && !call.cancelled && this.link == link;
        if let Some(call) = this.calls.iter().find(waits) {
            let call = format!("closes the connection on which {call:?} waits for its reply");
            self.fail(call);
        }
    }

    /// All that could be done is done, and without faults it can be.
    pub(crate) fn check_rest(&mut self, pair: usize) {
        let both = self.pairs[pair]
            .ends
            .iter()
            .all(|end| end.session.state() == ConnState::Up && !end.over);
        let alive = self.pairs[pair]
            .ends
            .iter()
            .all(|end| !matches!(end.session.state(), ConnState::Closed | ConnState::Closing));
        let [client, server] = &self.pairs[pair].ends;
        if alive && !client.calls.is_empty() {
            let open = format!(
                "the client waits for {:?}, its connection is {:?}",
                client.calls,
                client.session.state()
            );
            return self.fail(open);
        }
        if client.over && !client.calls.is_empty() || server.over && !server.calls.is_empty() {
            return self.fail("calls are open after the end".to_owned());
        }
        if !both {
            return;
        }
        let takes = match server.session.version() {
            Some(Version::Two) => {
                server.session.peer_properties().backward_support != Bkreqsup::None
            }
            _ => server.session.config().backward_v1,
        };
        if takes && self.pairs[pair].link.ready && !server.calls.is_empty() {
            let open = format!("the server waits for {:?}", server.calls);
            return self.fail(open);
        }
        if client
            .serving
            .iter()
            .chain(&server.serving)
            .any(|one| !one.ignored)
        {
            return self.fail("calls are served that nobody has begun".to_owned());
        }
        self.check_properties(pair);
        self.check_credits(pair);
    }

    /// After transmissions were lost or out of order the next call that is answered has brought an
    /// end to all before it. Where it is not, since they have all credits, the connection is lost
    /// at last.
    pub(crate) fn check_recovered(&mut self, pair: usize) {
        if !self.pairs[pair].link.tainted || !self.pairs[pair].link.up {
            return;
        }
        let [client, server] = &self.pairs[pair].ends;
        let last = self.pairs[pair].link.last_call;
        let stuck = last.is_none_or(|last| {
            client
                .calls
                .iter()
                .any(|call| call.xid == last || call.sent == 0)
        });
        // Nobody may take the server's any more.
        let backward = server
            .calls
            .iter()
            .filter(|_| server.session.is_peer_ready());
        let open = client
            .calls
            .iter()
            .chain(backward)
            .find(|call| call.sent_on == self.pairs[pair].link.number);
        if let Some(open) = open.filter(|_| !stuck && !client.over && !server.over) {
            let open = format!("{open:?} has no end, though messages go");
            self.fail(open);
        }
        self.disconnect(pair);
    }

    /// All credits and all receives are there again.
    fn check_credits(&mut self, pair: usize) {
        for end in [CLIENT, SERVER] {
            let (link, this) = (&self.pairs[pair].link, &self.pairs[pair].ends[end]);
            if this.link != link.number || !this.calls.is_empty() {
                continue;
            }
            // Receives in place of those that replies have taken may have waited for the next call.
            self.take_all_actions(pair, end, true);
            let (link, this) = (&self.pairs[pair].link, &self.pairs[pair].ends[end]);
            let (session, config) = (&this.session, this.session.config());
            let credits = &link.credits[end];
            let left = credits
                .granted()
                .min(config.credits.max(1))
                .saturating_sub(credits.used());
            let receives = link.grants[end].highest() + config.reserved_receives + credits.most()
                - link.grants[end].pending();
            let (available, posted) = (session.available_credits(), session.posted_receives());
            // A call that had its credits before such a message was sent does not give that one's
            // back.
            let least = left.saturating_sub(credits.one_way_sent());
            if posted != link.posted(end) {
                let really = link.posted(end);
                return self.fail(format!(
                    "{really} receives are posted, for {posted} that the session knows"
                ));
            }
            // Ends of different drafts can't read each other's answers, nor what these grant.
            let known = self.is_mixed(pair) || (least..=left).contains(&available);
            if !known || posted < receives {
                self.fail(format!(
                    "the {} has {available} credits of {left}, and {posted} receives of {receives}",
                    super::link::name(end)
                ));
            }
        }
    }

    /// Both ends know the announced properties of the other.
    fn check_properties(&mut self, pair: usize) {
        let [client, server] = &self.pairs[pair].ends;
        let speak = |end: &super::end::End| {
            end.session.config().properties != Properties::None
                && end.session.version() == Some(Version::Two)
        };
        if !speak(client) || !speak(server) {
            return;
        }
        let mixed = self.is_mixed(pair);
        let mut wrong = None;
        for (this, peer) in [(client, server), (server, client)] {
            let (ours, known) = (*this.session.properties(), *peer.session.peer_properties());
            // With different drafts each end knows the initial values, and smaller ones.
            let is_known =
                ours == known || (mixed && ours.receive_buffer_size >= known.receive_buffer_size);
            if !is_known {
                wrong = Some(format!("{ours:?} was told as {known:?}"));
            }
            let told = peer.session.peer_property(EXPERIMENT);
            if this.registered
                && peer.registered
                && told != Some(&this.session.config().xid_seed.to_be_bytes())
            {
                wrong = Some(format!("a registered property was told as {told:?}"));
            }
        }
        if let Some(why) = wrong {
            self.fail(why);
        }
    }

    /// Whether the ends speak two drafts (decision D5).
    pub(crate) fn is_mixed(&self, pair: usize) -> bool {
        let [client, server] = self.pairs[pair]
            .ends
            .each_ref()
            .map(|end| end.session.config().properties);
        client != server && client != Properties::None && server != Properties::None
    }

    /// Nothing is left of anything.
    pub(crate) fn check_done(&mut self, pair: usize) {
        for end in [CLIENT, SERVER] {
            let tainted = self.pairs[pair].tainted;
            let this = &self.pairs[pair].ends[end];
            let (open, stage, counters) = (
                this.session.outstanding(),
                this.session.state(),
                this.session.counters(),
            );
            let left = (
                this.calls.len(),
                this.serving.len(),
                this.memory.live,
                this.kept.len(),
            );
            if open != (0, 0) || left != (0, 0, 0, 0) {
                return self.fail(format!(
                    "{}: open {open:?}, left {left:?} in {stage:?}",
                    super::link::name(end)
                ));
            }
            if stage != ConnState::Closed || !this.over || this.untold > 0 || this.wishes > 0 {
                return self.fail(format!(
                    "{}: drained, and {stage:?}, {} untold, {} changes asked for",
                    super::link::name(end),
                    this.untold,
                    this.wishes
                ));
            }
            let errors = this.peer_errors;
            let mixed = self.is_mixed(pair) || self.pairs[pair].was_mixed;
            // A consumer that takes no events loses operations, and the errors that answer them: it
            // may have so many waiting.
            let lost = counters.unexpected > errors || counters.dropped > 0 && !mixed;
            if !tainted && (lost && !this.registered || counters.duplicate_xid > 0) {
                return self.fail(format!(
                    "{}: {counters:?}, though all was in order",
                    super::link::name(end)
                ));
            }
        }
    }
}

/// Checks that the lengths in a reply are those of the RDMA Writes.
pub(crate) fn lengths(
    written: &[(CallRegion, u32, Range<u32>)],
    reply: &ReplyLocation,
    spec: &Spec,
) -> bool {
    let bytes = |wanted: CallRegion| -> Option<u32> {
        let mut sum = 0;
        for (_, at, bytes) in written.iter().filter(|(region, ..)| *region == wanted) {
            // One after the other, from the beginning.
            if *at != sum {
                return None;
            }
            sum += bytes.len() as u32;
        }
        Some(sum)
    };
    let results = reply
        .results
        .iter()
        .enumerate()
        .all(|(number, told)| bytes(CallRegion::Result(number)) == Some(*told));
    let offered = reply.results.is_empty() || reply.results.len() == spec.results().len();
    results && offered && bytes(CallRegion::Reply) == Some(reply.long.unwrap_or(0))
}

/// Checks that written data belong to the result of their direction.
pub(crate) fn is_of_result(
    (region, at, bytes): &(CallRegion, u32, Range<u32>),
    answer: &Answer,
    spec: &Spec,
) -> bool {
    let CallRegion::Result(number) = region else {
        return false;
    };
    let Some(item) = answer.directed(*number, spec) else {
        return false;
    };
    bytes.start == item.position + at && bytes.end <= item.position + item.length
}

/// Checks that inline and written data together are the reply, each byte once and in its place,
/// except for the padding of reduced results.
fn tiles<'a>(
    parts: impl Iterator<Item = &'a Range<u32>>,
    written: &[(CallRegion, u32, Range<u32>)],
    answer: &Answer,
) -> bool {
    let mut all: Vec<(u32, u32, Option<usize>)> =
        parts.map(|part| (part.start, part.end, None)).collect();
    all.extend(written.iter().map(|(region, _, bytes)| {
        let result = if let CallRegion::Result(number) = region {
            Some(*number)
        } else {
            None
        };
        (bytes.start, bytes.end, result)
    }));
    all.sort_unstable();
    let mut next = 0;
    for (start, end, result) in all {
        if let Some(number) = result {
            let Some(item) = answer.item(number) else {
                return false;
            };
            if start < item.position || end > item.position + item.length {
                return false;
            }
        }
        let padding = answer
            .items()
            .any(|item| next == item.position + item.length && start == next.next_multiple_of(4));
        if start != next && !padding {
            return false;
        }
        next = end;
    }
    next == answer.length || next.next_multiple_of(4) == answer.length
}
