//! The transport of one end: it performs the session's actions, and delivers completions.

use rpcrdma_proto::chunk::Piece;
use rpcrdma_proto::connection::{
    Action, BufferId, CloseReason, ConnState, SendOwner, ServedCallId, Session,
};

use super::end::Serving;
use super::fault::{Fault, Seen};
use super::link::{Link, other};
use super::memory::{Denied, Manner, State};
use super::message::Origin;
use super::script::{CLIENT, SERVER, Sabotage};
use super::world::{What, World};

impl World {
    /// Takes all that a session has to say, now or somewhat later.
    pub(crate) fn poll(&mut self, pair: usize, end: usize) {
        let (now, pace) = (self.now, self.plan.pace);
        let this = &mut self.pairs[pair].ends[end];
        if self.plan.lazy && now >= this.late_until && !self.healed && this.random.one_in(4) {
            this.late_until = now + u64::from(this.random.between(1, pace));
        }
        self.poll_now(pair, end);
    }

    /// Takes all that a session has to say, unless it is late.
    pub(crate) fn poll_now(&mut self, pair: usize, end: usize) {
        let now = self.now;
        let this = &mut self.pairs[pair].ends[end];
        if now < this.late_until {
            if this.wake_at != this.late_until {
                this.wake_at = this.late_until;
                let at = this.late_until;
                self.at(at, What::Wake { pair, end });
            }
            return;
        }
        loop {
            self.take_actions(pair, end);
            if self.failed.is_some() || !self.transmit(pair, end) && !self.asks_more(pair, end) {
                break;
            }
        }
        self.check_polled(pair, end);
        self.set_timer(pair, end);
        self.replace_client(pair);
    }

    /// Whether something is to be done because there was no message.
    fn asks_more(&self, pair: usize, end: usize) -> bool {
        let this = &self.pairs[pair].ends[end];
        this.session.has_actions() && self.now >= this.late_until
    }

    /// Performs the actions that precede the next message.
    pub(crate) fn take_actions(&mut self, pair: usize, end: usize) {
        let this = &mut self.pairs[pair].ends[end];
        let rested = this.session.is_at_rest();
        // A session at rest may be left alone.
        if !(rested && self.plan.lazy && this.random.one_in(2)) {
            self.take_all_actions(pair, end, rested);
        }
        while let Some(event) = self.pairs[pair].ends[end].session.poll_event() {
            self.stats.steps += 1;
            self.tell(pair, end, event);
        }
    }

    /// Performs actions. A session at rest requests only receives, which can wait.
    pub(crate) fn take_all_actions(&mut self, pair: usize, end: usize, rested: bool) {
        while let Some(action) = self.pairs[pair].ends[end].session.poll_action() {
            self.stats.steps += 1;
            if rested && !matches!(action, Action::PostReceives { .. }) {
                self.fail(format!("a session at rest wants {action:?}"));
            }
            self.act(pair, end, action);
        }
    }

    fn set_timer(&mut self, pair: usize, end: usize) {
        let this = &mut self.pairs[pair].ends[end];
        if let Some(at) = this.session.poll_timeout()
            && at != this.timer
        {
            this.timer = at;
            let rings = at.saturating_sub(this.ahead).max(self.now);
            self.at(rings, What::Timer { pair, end, at });
        }
    }

    pub(crate) fn timer(&mut self, pair: usize, end: usize, at: u64) {
        let now = self.clock(pair, end);
        let this = &mut self.pairs[pair].ends[end];
        if this.timer == at {
            this.timer = u64::MAX;
        }
        if this.session.poll_timeout().is_none_or(|due| due > now) {
            return self.set_timer(pair, end);
        }
        self.session(pair, end, |session| session.timeout(now));
        self.poll(pair, end);
        // What was polled since may be due at once, but only once.
        let is_due = |world: &Self| {
            let this = &world.pairs[pair].ends[end];
            this.session
                .poll_timeout()
                .filter(|due| *due <= now && world.now >= this.late_until)
        };
        if is_due(self).is_some() {
            self.session(pair, end, |session| session.timeout(now));
            self.poll(pair, end);
        }
        if let Some(due) = is_due(self) {
            self.fail(format!("the timer of {due} rings again at once"));
        }
    }

    fn act(&mut self, pair: usize, end: usize, action: Action) {
        match action {
            Action::Connect => self.connect(pair),
            Action::PostReceives { mut count, size } => {
                let config = self.pairs[pair].ends[end].session.config();
                if size > config.receive_size.max(config.max_receive_size) {
                    self.fail(format!(
                        "posts receives of {size} bytes, more than its settings let them have"
                    ));
                }
                if self.plan.sabotage == Some(Sabotage::FewerReceives)
                    && !self.sabotaged
                    && count > 1
                {
                    self.sabotaged = true;
                    count -= 1;
                }
                if self.pairs[pair].ends[end].link == self.pairs[pair].link.number {
                    self.pairs[pair].link.post(end, count, size);
                }
            }
            Action::Expose { xid } => self.expose(pair, end, xid),
            Action::Fence { xid, invalidated } => self.fence(pair, end, xid, invalidated),
            Action::Read { call, buffer, .. } => self.read(pair, end, call, buffer),
            Action::Gather { call, message } => self.gather(pair, end, call, message),
            Action::Free { message } => self.freed(pair, end, message),
            Action::Close { reason: why } => self.close(pair, end, why),
        }
    }

    // Connections.

    fn connect(&mut self, pair: usize) {
        let at = self.soon(pair, CLIENT) + 1;
        let client = &mut self.pairs[pair].ends[CLIENT];
        let retry_at = client.retry_at;
        client.attempt += 1;
        client.connecting = true;
        let fails = client.connects_fail > 0;
        let attempt = client.attempt;
        if fails {
            client.connects_fail -= 1;
            self.stats.fault(Fault::ConnectFails);
        }
        if self.clock(pair, CLIENT) < retry_at {
            self.fail(format!("tries to connect again before {retry_at}"));
        }
        self.note(pair, CLIENT, || "connect".to_owned());
        self.at(
            at,
            What::Accepted {
                pair,
                attempt,
                fails,
            },
        );
    }

    /// The attempt to connect has come to the server.
    pub(crate) fn accepted(&mut self, pair: usize, attempt: u32, fails: bool) {
        let [client, server] = &self.pairs[pair].ends;
        if client.attempt != attempt || !client.connecting {
            return;
        }
        let link = server.link;
        // A transport posts receives before it accepts, and has done with the last connection.
        self.pairs[pair].ends[SERVER].late_until = 0;
        self.poll_now(pair, SERVER);
        if link != 0 {
            self.lost(pair, SERVER, link);
            self.pairs[pair].ends[SERVER].late_until = 0;
            self.poll_now(pair, SERVER);
        }
        if fails || self.pairs[pair].ends[SERVER].over {
            let at = self.soon(pair, CLIENT) + 1;
            return self.at(at, What::Unreachable { pair, attempt });
        }
        if !self.pairs[pair].ends[SERVER].session.is_settled() {
            let at = self.soon(pair, SERVER) + 1;
            return self.at(
                at,
                What::Accepted {
                    pair,
                    attempt,
                    fails,
                },
            );
        }
        let (number, deaf) = (
            self.pairs[pair].link.number + 1,
            std::mem::take(&mut self.pairs[pair].deaf_next),
        );
        self.forget_held(pair);
        self.replace(pair, SERVER);
        self.pairs[pair].link = Link::new(number, deaf);
        let private = self.pairs[pair].ends[CLIENT]
            .session
            .config()
            .private_data();
        let now = self.clock(pair, SERVER);
        let server = &mut self.pairs[pair].ends[SERVER];
        (server.link, server.version) = (number, None);
        if let Err(why) = self.session(pair, SERVER, |session| session.connected(now, private)) {
            self.fail(format!("the server does not take a connection: {why}"));
        }
        let at = self.soon(pair, CLIENT) + 1;
        self.at(at, What::Established { pair, attempt });
        self.poll_now(pair, SERVER);
    }

    /// The client has its connection.
    pub(crate) fn established(&mut self, pair: usize, attempt: u32) {
        let client = &self.pairs[pair].ends[CLIENT];
        if client.attempt != attempt || !client.connecting {
            return;
        }
        if !self.pairs[pair].link.up {
            return self.unreachable(pair, attempt);
        }
        let (now, number) = (self.clock(pair, CLIENT), self.pairs[pair].link.number);
        let private = self.pairs[pair].ends[SERVER]
            .session
            .config()
            .private_data();
        let client = &mut self.pairs[pair].ends[CLIENT];
        (
            client.connecting,
            client.link,
            client.version,
            client.late_until,
        ) = (false, number, None, 0);
        client.connected_at = now;
        self.note(pair, CLIENT, || "connected".to_owned());
        // That it is to be closed may not have been polled yet.
        let closing = self.pairs[pair].ends[CLIENT].session.state() == ConnState::Closing;
        if let Err(why) = self.session(pair, CLIENT, |session| session.connected(now, private))
            && !closing
        {
            self.fail(format!("the client does not take a connection: {why}"));
        }
        self.poll_now(pair, CLIENT);
    }

    pub(crate) fn unreachable(&mut self, pair: usize, attempt: u32) {
        let now = self.clock(pair, CLIENT);
        let client = &mut self.pairs[pair].ends[CLIENT];
        if client.attempt == attempt && client.connecting {
            client.connecting = false;
            client.untold += 1;
            client.pauses(now, false);
            self.note(pair, CLIENT, || "not connected".to_owned());
            self.session(pair, CLIENT, |session| {
                session.lost(now, CloseReason::Unreachable)
            });
            self.poll(pair, CLIENT);
        }
    }

    /// The connection is gone; the ends will notice.
    pub(crate) fn disconnect(&mut self, pair: usize) {
        if !std::mem::take(&mut self.pairs[pair].link.up) {
            return;
        }
        let link = self.pairs[pair].link.number;
        self.note(pair, CLIENT, || "-- the connection breaks --".to_owned());
        for end in [CLIENT, SERVER] {
            let at = self.soon(pair, end);
            self.at(at, What::Lost { pair, end, link });
        }
    }

    /// An end notices that its connection is gone.
    pub(crate) fn lost(&mut self, pair: usize, end: usize, link: u32) {
        let this = &mut self.pairs[pair].ends[end];
        if this.link != link {
            // Gone before it was there.
            if this.connecting && self.pairs[pair].link.number == link {
                self.pairs[pair].link.up = false;
            }
            return;
        }
        (this.link, this.version, this.asked, this.pends) = (0, None, None, false);
        this.untold += 1;
        let now = self.now + this.ahead;
        let lasted = now - this.connected_at >= this.session.config().max_reconnect_delay;
        let last = &self.pairs[pair].link;
        let was_of_use =
            lasted || last.tainted || last.number != link || last.credits[end].has_reply();
        if end == CLIENT && last.refused && last.number == link {
            let memory = self.pairs[pair].ends[end]
                .session
                .config()
                .version_cache_ttl;
            self.pairs[pair].remembered = now + memory;
        }
        self.pairs[pair].ends[end].pauses(now, was_of_use);
        if self.pairs[pair].link.number == link {
            self.pairs[pair].link.up = false;
        }
        self.note(pair, end, || "lost".to_owned());
        self.cut(pair, end);
        self.session(pair, end, |session| session.lost(now, CloseReason::Lost));
        self.poll(pair, end);
    }

    /// An end closes its connection: its sent messages arrive, and it accepts none.
    fn close(&mut self, pair: usize, end: usize, why: CloseReason) {
        self.note(pair, end, || format!("close: {why}"));
        let at = self.soon(pair, end);
        let this = &mut self.pairs[pair].ends[end];
        let at = at.max(this.sends_until);
        if this.connecting {
            this.attempt += 1;
            let attempt = this.attempt;
            self.at(at, What::Unreachable { pair, attempt });
            // The server may have it already.
            return self.disconnect(pair);
        }
        let link = this.link;
        if link == 0 {
            return self.fail("closes a connection that it does not have".to_owned());
        }
        let last = self.pairs[pair].link.last[other(end)];
        self.at(at.max(last + 1), What::Lost { pair, end, link });
        let there = self.soon(pair, other(end)).max(last);
        self.at(
            there + 1,
            What::Lost {
                pair,
                end: other(end),
                link,
            },
        );
    }

    // Memory.

    fn expose(&mut self, pair: usize, end: usize, xid: u32) {
        let at = self.soon(pair, end);
        let this = &mut self.pairs[pair].ends[end];
        let fails = std::mem::take(&mut this.exposures_fail);
        let Some(call) = this.call(xid) else {
            return self.fail(format!(
                "exposes memory of the call {xid:#x}, which is none"
            ));
        };
        call.exposures += 1;
        (call.exposing, call.exposed_at) = (Some(call.exposures), at);
        let which = call.exposures;
        if fails {
            self.stats.fault(Fault::ExposureFails);
        }
        self.at(
            at,
            What::Exposed {
                pair,
                end,
                xid,
                which,
                fails,
            },
        );
    }

    pub(crate) fn exposed(&mut self, pair: usize, end: usize, xid: u32, which: u32, fails: bool) {
        let this = &mut self.pairs[pair].ends[end];
        let Some(call) = this
            .calls
            .iter_mut()
            .find(|call| call.xid == xid && call.exposing == Some(which))
        else {
            return;
        };
        call.exposing = None;
        if fails {
            self.session(pair, end, |session| session.expose_failed(xid));
            return self.poll(pair, end);
        }
        let most = this.session.config().max_segment_len;
        let more = std::mem::take(&mut this.more_segments);
        let segment = if more { (most / 7).max(300) } else { most };
        let manner = Manner {
            segment,
            one_key: this.random.one_in(2),
        };
        self.exposures.clear();
        self.exposures.extend(this.session.exposures(xid));
        call.keys = this.memory.expose(
            xid,
            &self.exposures,
            manner,
            &mut this.random,
            &mut self.exposed,
        );
        if more {
            self.stats.fault(Fault::MoreSegments);
        }
        self.stats.steps += 1;
        this.session.exposed(xid, self.exposed.regions());
        self.poll(pair, end);
    }

    fn fence(&mut self, pair: usize, end: usize, xid: u32, invalidated: Option<u32>) {
        let at = self.soon(pair, end);
        let this = &mut self.pairs[pair].ends[end];
        let skip = this.random.one_in(2);
        let early = self.plan.sabotage == Some(Sabotage::EarlyFence);
        let Some(call) = this.calls.iter_mut().find(|call| call.xid == xid) else {
            return self.fail(format!("fences the call {xid:#x}, which is none"));
        };
        if std::mem::replace(&mut call.fencing, true) {
            return self.fail(format!("fences the call {xid:#x} twice"));
        }
        // What is being exposed is given up, or done first.
        if skip {
            call.exposing = None;
        }
        let at = if call.exposing.is_some() {
            at.max(call.exposed_at)
        } else {
            at
        };
        let tainted = self.pairs[pair].link.tainted;
        if let Some(key) = invalidated
            && !tainted
            && !self.pairs[pair].ends[end].memory.was_invalidated(key)
        {
            return self.fail(format!("says that the peer has invalidated {key:#x}"));
        }
        self.at(at, What::Fenced { pair, end, xid });
        if early {
            self.session(pair, end, |session| session.fenced(xid));
        }
    }

    pub(crate) fn fenced(&mut self, pair: usize, end: usize, xid: u32) {
        let this = &mut self.pairs[pair].ends[end];
        let Some(call) = this
            .calls
            .iter_mut()
            .find(|call| call.xid == xid && call.fencing)
        else {
            return;
        };
        call.fencing = false;
        call.exposing = None;
        let state = if call.replied {
            State::Fenced
        } else {
            State::GivenUp
        };
        this.memory.fence(call.keys.clone(), state);
        call.keys = 0..0;
        self.session(pair, end, |session| session.fenced(xid));
        self.poll(pair, end);
    }

    // Calls put together.

    fn read(&mut self, pair: usize, end: usize, call: ServedCallId, buffer: BufferId) {
        let message = buffer.0 as usize;
        let mut serving = self.take_over(pair, end, call, message);
        serving.reading = true;
        self.seen(Seen::ReadList);
        self.check_pieces(pair, end, &mut serving);
        let (at, link) = (self.soon(pair, end), serving.link);
        self.pairs[pair].ends[end].serving.push(serving);
        self.at(
            at,
            What::Moved {
                pair,
                end,
                call,
                link,
            },
        );
    }

    /// What is known of a call whose message was just named.
    pub(crate) fn take_over(
        &mut self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        message: usize,
    ) -> Serving {
        if !self.pairs[pair].ends[end].named(message) {
            self.fail(format!(
                "names the buffer {message}, which was not kept for it"
            ));
        }
        self.serving_of(pair, end, call, message)
    }

    /// What is known of a call that came in a message.
    pub(crate) fn serving_of(
        &self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        message: usize,
    ) -> Serving {
        let (xid, spec) = match self.messages.get(message).origin {
            Origin::Call { xid, spec } => (xid, Some(spec)),
            _ => (0, None),
        };
        Serving {
            call,
            message,
            link: self.pairs[pair].ends[end].link,
            spec,
            xid,
            announced: false,
            reading: false,
            answer: None,
            ignored: false,
            sending: false,
            answered: 0,
            reads: Vec::new(),
        }
    }

    /// Holds the pieces of a call against what its caller has exposed.
    fn check_pieces(&mut self, pair: usize, end: usize, serving: &mut Serving) {
        let [client, server] = &self.pairs[pair].ends;
        let (this, peer) = if end == CLIENT {
            (client, server)
        } else {
            (server, client)
        };
        let Some(pieces) = this.session.pieces(serving.call) else {
            return;
        };
        let current = serving.link != 0 && serving.link == self.pairs[pair].link.number;
        let message = self.messages.get(serving.message);
        let mut next = 0;
        let mut wrong = None;
        for piece in pieces {
            let (at, length, fits) = match piece {
                Piece::Inline { at, from, length } => {
                    (at, length, message.place(from, length) == Some(at))
                }
                Piece::Padding { at, length } => (
                    at,
                    length,
                    serving.spec.is_some_and(|spec| spec.is_padding(at, length)),
                ),
                Piece::Read { at, from } => {
                    serving.reads.push(from);
                    let place = peer.memory.access(&from, false);
                    let fits = match (place, serving.spec) {
                        (Ok(place), Some(spec)) => {
                            super::check::position(&spec, &place) == Some(at)
                        }
                        (Err(Denied::Dead(State::GivenUp)), _) => true,
                        _ => false,
                    };
                    (at, from.length, fits)
                }
            };
            if at != next || !fits {
                wrong.get_or_insert(piece);
            }
            next = at + length;
        }
        let whole = serving.spec.is_some_and(|spec| spec.length == next)
            && this.session.call_length(serving.call) == Some(next);
        if serving.spec.is_some() && current && (wrong.is_some() || !whole) {
            self.fail(format!(
                "puts the call {:#x} together wrongly: {wrong:?}, {next} bytes",
                serving.xid
            ));
        }
    }

    pub(crate) fn moved(&mut self, pair: usize, end: usize, call: ServedCallId, link: u32) {
        let current =
            link != 0 && self.pairs[pair].ends[end].link == link && self.pairs[pair].link.up;
        let Some(at) = self.pairs[pair].ends[end]
            .serving
            .iter()
            .position(|one| one.call == call)
        else {
            // Its connection is gone: what was read before may be told all the same.
            self.session(pair, end, |session| session.read_done(call));
            return self.poll(pair, end);
        };
        if current && !self.may_read(pair, end, at) {
            return self.disconnect(pair);
        }
        if !current && self.pairs[pair].ends[end].random.one_in(2) {
            return;
        }
        let served = &mut self.pairs[pair].ends[end].serving[at];
        served.reading = false;
        served.reads.clear();
        self.session(pair, end, |session| session.read_done(call));
        self.poll(pair, end);
    }

    /// Whether a call's memory can still be read. If its caller has given it up, that ends the
    /// connection.
    fn may_read(&mut self, pair: usize, end: usize, at: usize) -> bool {
        let served = &self.pairs[pair].ends[end].serving[at];
        let peer = &self.pairs[pair].ends[other(end)].memory;
        let denied = served
            .reads
            .iter()
            .find_map(|segment| peer.access(segment, false).err());
        let (xid, forged) = (served.xid, served.spec.is_none());
        match denied {
            None => true,
            Some(why) => {
                self.denied(pair, forged, why, || {
                    format!("reads memory of the call {xid:#x}")
                });
                false
            }
        }
    }

    /// Memory was not there: which only what was given up, or forged, excuses.
    pub(crate) fn denied(
        &mut self,
        pair: usize,
        forged: bool,
        why: Denied,
        what: impl FnOnce() -> String,
    ) {
        self.seen(Seen::AccessDenied);
        if !forged && !self.pairs[pair].link.tainted && why != Denied::Dead(State::GivenUp) {
            self.fail(format!("{}: {why:?}", what()));
        }
    }

    // Sends.

    pub(crate) fn released(&mut self, pair: usize, end: usize, what: SendOwner) {
        let this = &mut self.pairs[pair].ends[end];
        match what {
            SendOwner::Call { xid } => this
                .call(xid)
                .into_iter()
                .for_each(|call| call.sending = false),
            SendOwner::Reply { call } => this
                .serving(call)
                .into_iter()
                .for_each(|one| one.sending = false),
            SendOwner::Header => {}
        }
        if self.plan.sabotage != Some(Sabotage::EarlyRelease) {
            self.tell_released(pair, end, what);
            self.poll(pair, end);
        }
    }

    /// Informs a session that a Send has released its memory.
    pub(crate) fn tell_released(&mut self, pair: usize, end: usize, what: SendOwner) {
        let ended = self.session(pair, end, |session: &mut Session| session.released(what));
        if let (SendOwner::Reply { call }, true) = (what, ended) {
            self.call_ended(pair, end, call, true);
        }
    }

    /// Whether this end's connection is the present one, and messages go.
    pub(crate) fn is_up(&self, pair: usize, end: usize) -> bool {
        let link = &self.pairs[pair].link;
        link.up && self.pairs[pair].ends[end].link == link.number
    }
}
