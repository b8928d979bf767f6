//! The consumers at both ends: their calls, and their reactions to events.

use rpcrdma_proto::connection::{
    CallFailure, CallLocation as Place, Event, ReplyError, ServedCallId, Session, SessionCallError,
};
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use super::end::{Call, EXPERIMENT};
use super::fault::{Fault, Seen};
use super::link::other;
use super::script::{Act, CLIENT, SERVER};
use super::spec::{Answer, Spec};
use super::world::{What, World};

impl World {
    /// Does what the script says.
    pub(crate) fn step(&mut self, number: usize) {
        let step = self.plan.script[number];
        let (pair, end) = (step.pair, step.end);
        match step.act {
            Act::Call(spec, deadline) => drop(self.call(pair, end, spec, deadline)),
            Act::Cancel(which) => {
                let calls = &self.pairs[pair].ends[end].calls;
                let open: Vec<_> = calls
                    .iter()
                    .filter(|call| !call.cancelled)
                    .map(|call| call.xid)
                    .collect();
                if !open.is_empty() {
                    self.cancel(pair, end, open[which as usize % open.len()]);
                }
            }
            Act::Set(which, how) => self.set(pair, end, which, how),
            Act::Ask(which, how) => {
                let value = value(which, how);
                let before = self.pairs[pair].ends[end]
                    .session
                    .peer_properties()
                    .receive_buffer_size;
                if self
                    .session(pair, end, |session| session.request_property(value))
                    .is_ok()
                {
                    self.pairs[pair].ends[end].asked = match value {
                        BasicProperty::ReceiveBufferSize(size) if size < before => {
                            Some((size.max(4096), false))
                        }
                        _ => None,
                    };
                    self.pairs[pair].ends[end].wishes += 1;
                    self.pairs[pair].resized |=
                        matches!(value, BasicProperty::ReceiveBufferSize(_));
                    self.note(pair, end, || format!("asks for {value:?}"));
                    self.seen(Seen::PropertyAsked);
                }
            }
            Act::Operate(how) => {
                let info = how.to_be_bytes();
                let bytes = &info[..how as usize % 5];
                let _ = self.session(pair, end, |session| {
                    session.send_operation(EXPERIMENT, true, None, bytes)
                });
            }
            Act::Unready => self.unready(pair),
            Act::Keep(keep) => self.session(pair, end, |session| session.keep_connected(keep)),
            Act::Drain => {
                self.note(pair, end, || "drain".to_owned());
                self.session(pair, end, Session::drain);
            }
            Act::Abort => {
                self.note(pair, end, || "abort".to_owned());
                self.session(pair, end, Session::abort);
            }
            Act::Grant(most) => {
                self.seen(Seen::GrantChanged);
                self.session(pair, end, |session| session.grant_up_to(most));
                self.pairs[pair].link.grants[end].changed();
            }
            Act::Fault(fault, how) => self.fault(pair, end, fault, how),
            Act::Hostile(what, how) => self.forge(pair, end, what, how),
        }
        self.poll(pair, end);
    }

    fn fault(&mut self, pair: usize, end: usize, fault: Fault, how: u32) {
        let (now, pace) = (self.now, self.plan.pace);
        let this = &mut self.pairs[pair].ends[end];
        match fault {
            Fault::Disconnect => {
                if self.pairs[pair].link.up {
                    self.stats.fault(fault);
                }
                self.disconnect(pair);
            }
            Fault::ConnectFails => self.pairs[pair].ends[CLIENT].connects_fail = how % 3 + 1,
            Fault::Delay => this.delay = true,
            Fault::FirstLost => self.pairs[pair].deaf_next = true,
            Fault::ExposureFails => this.exposures_fail = true,
            Fault::MoreSegments => this.more_segments = true,
            Fault::LateActions => {
                this.late_until = now + u64::from(how % (20 * pace + 2));
                self.stats.fault(fault);
            }
            Fault::LateCompletions => {
                this.slow_until = now + u64::from(how % (200 * pace + 2));
                self.stats.fault(fault);
            }
            Fault::ClockJumps => {
                // As after a suspension: by less than a second, or by minutes.
                this.ahead += u64::from(how % if how & 1 == 0 { 1_000 } else { 500_000_000 });
                this.timer = u64::MAX;
                self.stats.fault(fault);
            }
            Fault::ServerReplaced => self.pairs[pair].replaced[SERVER] = Some(how),
            Fault::ClientReplaced => self.pairs[pair].replaced[CLIENT] = Some(how),
            Fault::Unanswered => this.unanswered = how % 12 + 1,
            Fault::Corrupted => this.corrupt = Some(how),
            Fault::Truncated => this.truncate = Some(how),
            Fault::Credits => this.credits = Some(how),
            Fault::PartDropped
            | Fault::PartDoubled
            | Fault::PartsExchanged
            | Fault::PartsInterleaved
            | Fault::PartField => this.tamper = Some((fault, how)),
        }
    }

    /// The consumer begins a call.
    pub(crate) fn call(&mut self, pair: usize, end: usize, spec: Spec, ahead: u64) -> Option<u32> {
        let deadline = if ahead == 0 {
            u64::MAX
        } else {
            self.clock(pair, end) + ahead
        };
        let wanted = (ahead > 0).then_some(deadline);
        let begun = self.session(pair, end, |session| {
            spec.with(|call| match spec.once {
                true => session.call_resent_within(call, wanted, 0),
                false => session.call(call, wanted),
            })
        });
        match begun {
            Ok(xid) => {
                self.note(pair, end, || format!("call {xid:#x}: {spec:?}"));
                let call = Call {
                    xid,
                    spec,
                    deadline,
                    cancelled: false,
                    sending: false,
                    sent: 0,
                    sent_on: 0,
                    grouped: false,
                    reported: false,
                    refused: false,
                    replied: false,
                    keys: 0..0,
                    exposing: None,
                    exposed_at: 0,
                    exposures: 0,
                    fencing: false,
                };
                if self.pairs[pair].ends[end].call(xid).is_some() {
                    self.fail(format!("two calls have the XID {xid:#x}"));
                }
                self.pairs[pair].ends[end].calls.push(call);
            }
            Err(
                SessionCallError::Full | SessionCallError::Closing | SessionCallError::Ended(_),
            ) => {}
            Err(SessionCallError::Spans) => {
                self.fail(format!("does not take the results of {spec:?}"))
            }
            Err(error) => self.fail(format!("does not take a call: {error}")),
        }
        self.poll(pair, end);
        begun.ok()
    }

    pub(crate) fn cancel(&mut self, pair: usize, end: usize, xid: u32) {
        self.note(pair, end, || format!("cancel {xid:#x}"));
        self.session(pair, end, |session| session.cancel(xid));
        self.pairs[pair].ends[end]
            .call(xid)
            .into_iter()
            .for_each(|call| call.cancelled = true);
        self.seen(Seen::Cancelled);
        self.poll(pair, end);
    }

    fn set(&mut self, pair: usize, end: usize, which: u32, how: u32) {
        let mut value = value(which, how);
        if let BasicProperty::ReceiveBufferSize(size) = &mut value {
            let config = self.pairs[pair].ends[end].session.config();
            *size =
                config.receive_size + how % (config.largest_receive() - config.receive_size + 10);
        }
        if self
            .session(pair, end, |session| session.set_property(value))
            .is_ok()
        {
            self.note(pair, end, || format!("sets {value:?}"));
            self.seen(Seen::PropertySet);
        }
    }

    /// Whether an end has a way for every reply that the other has reckoned with. It does not tell
    /// how much it sends or takes from others at most; and what was reckoned with may have changed
    /// since.
    fn takes_all(&self, pair: usize, end: usize, spec: &Spec) -> bool {
        let this = &self.pairs[pair];
        let [ours, theirs] = [end, other(end)].map(|end| this.ends[end].session.config());
        let sends_all = ours.send_size >= theirs.largest_receive()
            && ours.limits.max_bytes >= spec.largest_reply;
        sends_all && !this.tainted && !this.resized && !self.is_mixed(pair)
    }

    fn unready(&mut self, pair: usize) {
        self.session(pair, SERVER, Session::peer_unready);
        self.pairs[pair].link.ready = false;
    }

    /// Handles an event at the consumer.
    pub(crate) fn tell(&mut self, pair: usize, end: usize, event: Event) {
        if self.pairs[pair].ends[end].over
            && !matches!(
                event,
                Event::ReplyArrived { .. } | Event::CallFailed { .. } | Event::CallEnded { .. }
            )
        {
            return self.fail(format!("tells {event:?} after its end"));
        }
        match event {
            Event::Ready { version } => self.told_ready(pair, end, version),
            Event::CallArrived { call, xid, message } => {
                self.call_arrived(pair, end, call, xid, message)
            }
            Event::CallEnded { call, answered } => self.call_ended(pair, end, call, answered),
            Event::ReplyArrived { xid, reply } => {
                self.check_reply(pair, end, xid, &reply);
                self.seen(Seen::Reply);
                self.call_done(pair, end, xid, None);
                let at = reply.buffer.0 as usize;
                if let Some(message) = reply.reassembled {
                    self.done_with(pair, end, message, false);
                } else if self.pairs[pair].ends[end].named(at) {
                    self.messages.free(at);
                } else {
                    self.fail(format!(
                        "the reply to {xid:#x} is in a buffer that was not kept for it"
                    ));
                }
            }
            Event::CallFailed {
                xid,
                error: why,
                sent,
            } => {
                self.check_told(pair, end, xid, sent);
                self.call_done(pair, end, xid, Some(why));
            }
            Event::PropertiesChanged => {}
            Event::PropertyAnswered {
                requested: asked,
                value,
            } => {
                if let BasicProperty::ReceiveBufferSize(_) = asked {
                    self.pairs[pair].ends[end].asked = None;
                }
                self.note(pair, end, || {
                    format!("asked for {asked:?}, and has {value:?}")
                });
                match self.pairs[pair].ends[end].wishes.checked_sub(1) {
                    Some(left) => self.pairs[pair].ends[end].wishes = left,
                    None => self.fail(format!(
                        "tells what has become of {asked:?}, for which nobody has asked"
                    )),
                }
            }
            Event::GroupFailed {
                report,
                sent_here: ours,
            } => self.told_broken(pair, end, report, ours),
            Event::PeerError { .. } => self.pairs[pair].ends[end].peer_errors += 1,
            Event::Operation { operation } => {
                self.seen(Seen::Operation);
                let at = operation.buffer.0 as usize;
                if self.pairs[pair].ends[end].named(at) {
                    self.messages.free(at);
                } else {
                    self.fail("an operation is in a buffer that was not kept for it".to_owned());
                }
                if operation.is_call && operation.info.len() == 4 {
                    let (code, xid) = (operation.code, Some(operation.xid));
                    let _ = self.session(pair, end, |session| {
                        session.send_operation(code, false, xid, &[])
                    });
                }
            }
            Event::Closed {
                reason: why,
                is_final: last,
            } => {
                self.note(pair, end, || format!("closed: {why}"));
                self.check_closed(pair, end, why, last);
            }
        }
    }

    fn told_ready(&mut self, pair: usize, end: usize, version: Version) {
        self.note(pair, end, || format!("Version {version:?}"));
        let this = &mut self.pairs[pair].ends[end];
        if this.link != 0
            && this.version.replace(version).is_some()
            && !self.pairs[pair].link.tainted
        {
            self.fail("settles the version twice".to_owned());
        }
        if end == CLIENT && version == Version::Two && self.is_mixed(pair) {
            self.seen(Seen::TwoDrafts);
        }
        if end == CLIENT {
            self.seen(if version == Version::One {
                Seen::VersionOne
            } else {
                Seen::VersionTwo
            });
        }
    }

    fn call_arrived(
        &mut self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        xid: u32,
        message: Place,
    ) {
        match message {
            Place::Inline {
                buffer,
                range: bytes,
            } => {
                let at = buffer.0 as usize;
                let mut serving = self.take_over(pair, end, call, at);
                (serving.announced, serving.xid) = (true, xid);
                let inline = self.messages.get(at);
                let whole =
                    bytes.end as usize == inline.length && bytes.start as usize == inline.header;
                if serving
                    .spec
                    .is_some_and(|spec| spec.length != bytes.len() as u32 || !whole)
                {
                    self.fail(format!(
                        "the call {xid:#x} is not the {bytes:?} of its message"
                    ));
                }
                self.pairs[pair].ends[end].serving.push(serving);
            }
            Place::Reassembled(message) => self.group_arrived(pair, end, call, xid, message),
            Place::Placed { length } => {
                let told = self.pairs[pair].ends[end].serving(call).map(|one| {
                    one.xid = xid;
                    let fits = one.spec.is_none_or(|spec| spec.length == length);
                    fits && !one.reading && !std::mem::replace(&mut one.announced, true)
                });
                if told != Some(true) {
                    self.fail(format!(
                        "tells the call {xid:#x} of {length} bytes before it is there"
                    ));
                }
            }
        }
        self.note(pair, end, || format!("call {xid:#x} arrived"));
        let spec = self.pairs[pair].ends[end]
            .serving(call)
            .and_then(|one| one.spec);
        self.check_once(pair, end, xid, spec.is_some());
        if end == SERVER
            && spec.is_some_and(|spec| spec.ready)
            && self.pairs[pair].ends[CLIENT].session.config().max_served > 0
        {
            self.session(pair, SERVER, |session| session.peer_ready(call));
            if self.is_up(pair, SERVER) {
                self.pairs[pair].link.ready = true;
            }
        }
        let random = &mut self.pairs[pair].ends[end].random;
        let long = if random.one_in(20) { 5000 } else { 200 };
        let at = self.now + u64::from(random.between(0, long));
        self.at(at, What::Answer { pair, end, call });
    }

    /// A call reaches its consumer once on a connection, unless a message was forged.
    fn check_once(&mut self, pair: usize, end: usize, xid: u32, genuine: bool) {
        let current = self.pairs[pair].ends[end].link == self.pairs[pair].link.number;
        let link = &mut self.pairs[pair].link;
        if !genuine || !current {
            return;
        }
        let before = link.served[end].contains(&xid);
        link.served[end].push(xid);
        if before && !link.again {
            self.fail(format!("serves the call {xid:#x} again"));
        }
    }

    /// The consumer has its reply.
    pub(crate) fn answer(&mut self, pair: usize, end: usize, call: ServedCallId) {
        let healed = self.healed;
        let this = &mut self.pairs[pair].ends[end];
        let Some(at) = this.serving.iter().position(|one| one.call == call) else {
            if self.session(pair, end, |session| session.reply(call, 24, &[]))
                != Err(ReplyError::Ended)
            {
                self.fail("takes a reply to a call that has ended".to_owned());
            }
            return;
        };
        if this.unanswered > 0 {
            this.unanswered -= 1;
            this.serving[at].ignored = true;
            self.stats.fault(Fault::Unanswered);
            return;
        }
        this.serving[at].ignored = false;
        let spec = this.serving[at].spec.unwrap_or(Spec::NULL);
        let current = this.link == this.serving[at].link;
        // The reply may wait while other messages come.
        if self.plan.lazy && !healed && this.random.one_in(4) {
            this.late_until = self.now + u64::from(this.random.between(1, 20 * self.plan.pace));
        }
        let this = &mut self.pairs[pair].ends[end];
        let xid = this.serving[at].xid;
        let declines = this.random.one_in(50) && !healed;
        let wild = this.random.one_in(30) && !healed;
        let answer = Answer::draw(&spec, wild, &mut this.random);
        if declines {
            self.seen(Seen::Declined);
            let told = self.session(pair, end, |session| session.reject(call));
            if current && told.is_ok() {
                self.pairs[pair].link.grants[end].rejects(xid);
            }
        } else {
            this.serving[at].answer = Some(answer);
            let told = answer.with(&spec, |results| {
                self.session(pair, end, |session| {
                    session.reply(call, answer.length, results)
                })
            });
            match told {
                Ok(()) => {}
                // Its connection is gone, and nobody has heard of it yet.
                Err(ReplyError::Ended) if current => {
                    self.fail("does not take the reply to an open call".to_owned())
                }
                Err(ReplyError::Ended) => {}
                Err(ReplyError::Transfer(why)) => {
                    if current {
                        self.pairs[pair].link.grants[end].rejects(xid);
                    }
                    if current && answer.is_wanted(&spec) && self.takes_all(pair, end, &spec) {
                        self.fail(format!(
                            "has no way for {answer:?}, which is what {spec:?} wants: {why}"
                        ));
                    }
                    self.seen(Seen::ReplyCannot);
                }
                Err(error) => self.fail(format!("does not take a reply: {error}")),
            }
        }
        self.poll(pair, end);
    }

    /// The consumer answers now what it did not answer before, but for calls that their callers
    /// have given up, unless it is to answer `all`.
    pub(crate) fn answer_ignored(&mut self, pair: usize, end: usize, all: bool) {
        let [this, peer] = [end, other(end)].map(|end| &self.pairs[pair].ends[end]);
        let is_open = |xid| {
            peer.calls
                .iter()
                .any(|call| call.xid == xid && !call.cancelled)
        };
        let ignored = this
            .serving
            .iter()
            .filter(|one| one.ignored && (all || is_open(one.xid)));
        let calls: Vec<ServedCallId> = ignored.map(|one| one.call).collect();
        calls
            .into_iter()
            .for_each(|call| self.at(self.now, What::Answer { pair, end, call }));
    }

    pub(super) fn call_ended(
        &mut self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        answered: bool,
    ) {
        let this = &mut self.pairs[pair].ends[end];
        let Some(at) = this.serving.iter().position(|one| one.call == call) else {
            return self.fail(format!("ends {call:?}, which was not told or has ended"));
        };
        let one = this.serving.swap_remove(at);
        self.messages.free(one.message);
        if one.sending {
            self.fail(format!(
                "gives back the reply to {:#x} while a Send has it",
                one.xid
            ));
        }
        if answered && !one.announced {
            self.fail(format!("has answered {:#x}, which nobody knew", one.xid));
        }
        if !answered && one.answered > 0 {
            self.fail(format!(
                "has not answered {:#x}, to which the reply was sent",
                one.xid
            ));
        }
    }

    /// A call that fails is told to be sent if it was, unless its peer has refused it.
    fn check_told(&mut self, pair: usize, end: usize, xid: u32, sent: bool) {
        let is_sent = self.pairs[pair].ends[end]
            .call(xid)
            .map(|call| (call.sent > 0, call.refused));
        let holds = match is_sent {
            Some((true, false)) => sent,
            Some((false, _)) => !sent,
            _ => true,
        };
        if !holds && !self.pairs[pair].tainted {
            self.fail(format!("tells of {xid:#x} whether it was sent: {sent}"));
        }
    }

    /// A call of the consumer's has ended.
    fn call_done(&mut self, pair: usize, end: usize, xid: u32, why: Option<CallFailure>) {
        let now = self.clock(pair, end);
        let this = &mut self.pairs[pair].ends[end];
        let Some(at) = this.calls.iter().position(|call| call.xid == xid) else {
            return self.fail(format!(
                "ends the call {xid:#x}, which is none, or has ended"
            ));
        };
        let call = this.calls.swap_remove(at);
        let exposed = this.memory.is_exposed(call.keys.clone());
        if call.sending {
            self.fail(format!(
                "ends the call {xid:#x} while a Send has its memory"
            ));
        }
        if exposed || call.fencing {
            self.fail(format!(
                "ends the call {xid:#x} while its memory is exposed"
            ));
        }
        match why {
            Some(CallFailure::Cancelled) if !call.cancelled => {
                self.fail(format!("{xid:#x} was not cancelled"))
            }
            Some(CallFailure::TimedOut) if now < call.deadline => {
                self.fail(format!("{xid:#x} has time left"))
            }
            Some(CallFailure::TimedOut) => self.seen(Seen::TimedOut),
            Some(CallFailure::Closed(_))
                if self.pairs[pair].ends[end].session.state()
                    != rpcrdma_proto::connection::ConnState::Closed =>
            {
                self.fail(format!("{xid:#x} fails for an end that has not come"));
            }
            Some(CallFailure::Disconnected(_)) if !call.spec.once || call.sent == 0 => {
                self.fail(format!("{xid:#x} fails, and could go again"));
            }
            Some(why) => {
                self.note(pair, end, || format!("call {xid:#x} failed: {why}"));
                if let CallFailure::Disconnected(_) = why {
                    self.seen(Seen::NotSentAgain);
                }
                self.seen(Seen::CallFailed);
            }
            None => self.note(pair, end, || format!("reply to {xid:#x}")),
        }
    }
}

/// A value of a basic property.
fn value(which: u32, how: u32) -> BasicProperty {
    match which {
        0 => BasicProperty::ReceiveBufferSize([1024, 4096, 5000, 8192, 16_384][how as usize % 5]),
        1 => BasicProperty::RemoteInvalidation(how & 1 == 0),
        _ => BasicProperty::BackwardSupport(
            [Bkreqsup::None, Bkreqsup::Inline, Bkreqsup::Genl][how as usize % 3],
        ),
    }
}
