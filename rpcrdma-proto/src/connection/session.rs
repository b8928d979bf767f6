//! The session: all parts, and what its user may do.

mod groups;
mod incoming;
mod outgoing;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::ops::Range;

use super::config::{Config, ConfigError, Properties, Role};
use super::exchange::{Exchange, RegisterError, fresh};
use super::extension::Extension;
use super::life::{Change, Stage};
use super::link::Link;
use super::output::{Action, Event, Exposure, Reason, Sent, Served, Write};
use super::parts::no_parts;
use super::queues::Queues;
use super::receives::Receives;
use super::requester::{CallError, Kind, NEVER, Requests};
use super::responder::{Serving, Terms};
use crate::chunk::Pieces;
use crate::continuation::Abilities;
use crate::error::{PeerError, Refusal};
use crate::private_data::PrivateData;
use crate::property::{Basic, Values};
use crate::travel::{Call, Cannot, Cost, ResultItem, Travel};
use crate::v2::properties::Propid;
use crate::version::{Event as Turn, Memory, Version};

/// A session with one peer, over one connection after the other. See the [module](super).
#[derive(Debug)]
pub struct Session {
    // On the heap: what each call needs of it, the link has.
    config: Box<Config>,
    stage: Stage,
    link: Link,
    requests: Requests,
    serving: Serving,
    receives: Receives,
    exchange: Exchange,
    /// Messages in several transmissions, where they are spoken of.
    extension: Option<Box<Extension>>,
    /// Errors to be told to the peer.
    refusals: VecDeque<(Refusal, PeerError)>,
    out: Queues,
    counters: Counters,
    /// What is remembered of the peer.
    memory: Memory,
    /// Why the connection is being closed.
    closing: Option<Reason>,
    /// Whether the consumer wants the session to end when all is done.
    draining: bool,
    /// Whether a connection is kept although there is nothing to send.
    keep: bool,
    /// Whether the peer's consumer takes backward calls on this connection.
    peer_ready: bool,
    /// The next attempt to connect, and how long to wait after it.
    retry_at: u64,
    delay: u64,
    /// The XID of the next message that begins nothing.
    own_xid: u32,
}

/// What a session has seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Messages that have come.
    pub received: u64,
    /// Messages that were handed out to be sent.
    pub sent: u64,
    /// Messages that were answered with an error.
    pub refused: u64,
    /// Messages that break a rule, and of which nobody is told.
    pub dropped: u64,
    /// Replies and errors to no open call.
    pub unexpected: u64,
    /// Calls with the XID of a call that was being served.
    pub twice: u64,
    /// Connections.
    pub connections: u64,
}

/// Whether a receive buffer is free again.
#[must_use = "a buffer that is kept must not be posted again yet"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// It may be posted again.
    Free,
    /// An action or an event names it.
    Kept,
}

/// Why a connection can't be taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// There is one, or the session has ended.
    Stage,
    /// The memory of some message still belongs to the last connection: it must be released and fenced first.
    Unsettled,
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Stage => "there is a connection already, or the session has ended",
            Self::Unsettled => "memory still belongs to the last connection",
        })
    }
}

impl core::error::Error for ConnectError {}

/// Why a call can't be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyError {
    /// The call has ended: its connection is gone, or it was answered.
    Ended,
    /// There is no way for the reply to travel. The peer is told by an error, and the call has ended.
    Cannot(Cannot),
}

impl core::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Ended => f.write_str("the call has ended"),
            Self::Cannot(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for ReplyError {}

/// Why a property can't be set or asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetError {
    /// Receive buffers become smaller only when the peer asks for it (xcharext-03, section 3.1).
    Smaller,
    /// They are not to be larger than `Config::receive_size_most`.
    Larger,
    /// The last change is still under way.
    Busy,
    /// The peer does not speak of properties, or there is no connection.
    Unsupported,
    /// The peer has not named the property, or has said that it will not change (decision D18).
    Fixed,
}

impl core::fmt::Display for SetError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Smaller => "receive buffers become smaller only when the peer asks for it",
            Self::Larger => "receive buffers larger than receive_size_most",
            Self::Busy => "the last change is still under way",
            Self::Unsupported => "the peer does not speak of properties",
            Self::Fixed => "the peer has said that the property will not change",
        })
    }
}

impl core::error::Error for SetError {}

impl Session {
    /// A session without a connection. A client asks for one at once.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let (calls, serve, segments, seed) = (config.calls, config.serve, config.segments, config.seed);
        let rtr = config.rtr.filter(|_| config.properties != Properties::None && config.highest == Version::Two);
        let extension = rtr.map(|rtr| Extension::new(rtr, config.receive_size));
        let mut session = Self {
            stage: Stage::Down,
            link: Link::new(&config, PrivateData::DEFAULT, false),
            requests: Requests::new(calls, if calls == 0 { 1 } else { config.credits }, segments, seed),
            serving: Serving::new(serve, config.reserve, config.limits, seed),
            receives: Receives::new(config.receive_size),
            exchange: Exchange::new(&config),
            extension: extension.map(Box::new),
            refusals: VecDeque::new(),
            out: Queues::default(),
            counters: Counters::default(),
            memory: Memory::new(),
            closing: None,
            draining: false,
            keep: config.role == Role::Client,
            peer_ready: false,
            retry_at: 0,
            delay: config.retry,
            own_xid: !seed,
            config: Box::new(config),
        };
        session.maintain(0);
        Ok(session)
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was seen so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How far the connection is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The version that is spoken, once it is settled.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.link.version
    }

    /// Our properties on this connection.
    #[must_use]
    pub fn properties(&self) -> &Values {
        &self.link.ours
    }

    /// What is known of the peer's properties.
    #[must_use]
    pub fn peer_properties(&self) -> &Values {
        self.link.peer.values()
    }

    /// What is known of the peer's abilities of rtrext-02: nothing, without `Config::rtr`.
    #[must_use]
    pub fn peer_abilities(&self) -> &Abilities {
        self.link.peer.abilities()
    }

    /// What the peer has told of a property that was registered.
    #[must_use]
    pub fn peer_property(&self, code: Propid) -> Option<&[u8]> {
        self.exchange.peers(code)
    }

    /// Calls that may be sent now.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.requests.credits.available()
    }

    /// Calls of ours without an end, and those of the peer's.
    #[must_use]
    pub fn open(&self) -> (usize, usize) {
        (self.requests.len(), self.serving.len())
    }

    /// The place of a call of ours: a number up to `Config::calls` that no other open call has, for tables of the transport's.
    #[must_use]
    pub fn place(&self, xid: u32) -> usize {
        self.requests.place(xid)
    }

    /// The place of a call of the peer's: a number below twice `Config::serve` that no other has until this one's reply is
    /// released.
    #[must_use]
    pub fn served_place(&self, call: Served) -> usize {
        self.serving.place(call)
    }

    /// Receives that are posted.
    #[must_use]
    pub fn posted(&self) -> u32 {
        self.receives.posted()
    }

    /// Registers an operation of an experiment: it is handed to the consumer, and answered by it alone.
    ///
    /// # Errors
    /// Its code is not one for experiments, or there are too many.
    pub fn register_operation(&mut self, code: u32) -> Result<(), RegisterError> {
        self.exchange.register_operation(code)
    }

    /// Registers a property of an experiment, with our value in XDR: it is told when a connection begins.
    ///
    /// # Errors
    /// Its code is not one for experiments, its value is longer than 64 octets, or there are too many.
    pub fn register_property(&mut self, code: Propid, value: &[u8]) -> Result<(), RegisterError> {
        self.exchange.register_property(code, value)
    }

    /// Sends an operation that was registered: from requester to responder if `call`, which takes a credit. An XID is
    /// needed for an answer alone, which is best given at once: the peer has a receive for it until a later message of its
    /// own is answered, and then no more than `Config::reserve`.
    ///
    /// # Errors
    /// It was not registered, says more than 256 octets, or too many wait.
    pub fn operate(&mut self, code: u32, call: bool, xid: Option<u32>, info: &[u8]) -> Result<u32, RegisterError> {
        let xid = xid.unwrap_or_else(|| self.fresh_xid());
        self.exchange.operate(xid, code, call, info).map(|()| xid)
    }

    /// Keeps a connection, or lets it rest when there is nothing to send. A client keeps it as long as backward calls are
    /// possible: they can't make one.
    // spec: bd-5.4-d, bd-7-c
    pub fn keep(&mut self, keep: bool) {
        self.keep = keep;
    }

    /// The consumer of the peer has said in a call that is being served that it takes backward calls: they go now, and until
    /// the connection is lost. False if that call has ended.
    // spec: bd-6-c, bd-6-e
    pub fn peer_ready(&mut self, said_in: Served) -> bool {
        self.peer_ready |= self.serving.is_given(said_in);
        self.peer_ready
    }

    /// Whether the peer's consumer takes backward calls on this connection: others wait until it does.
    #[must_use]
    pub fn is_peer_ready(&self) -> bool {
        self.peer_ready && self.link.calls(&self.config, None).is_some()
    }

    /// The consumer of the peer takes no more backward calls.
    pub fn peer_unready(&mut self) {
        self.peer_ready = false;
    }

    /// Begins a call, which ends with `ReplyArrived` or `CallFailed`: by `deadline` at the latest, if there is one, and else
    /// whenever it may be. Its RPC message must have the XID that is returned.
    ///
    /// # Errors
    /// Too many are open, the session is to end, or the spans of its results are not in their order.
    // spec: bd-5.4-b, bd-5.4-c, bd-2.3-a, bd-2.3-b
    pub fn call(&mut self, call: &Call<'_>, deadline: Option<u64>) -> Result<u32, CallError> {
        if self.draining || self.stage == Stage::Closed {
            return Err(CallError::Closed);
        }
        let Self { requests, serving, .. } = self;
        // A connection that it needs is asked for by `timeout`, when it is time to try again.
        requests.call(Kind::Rpc, call, deadline.unwrap_or(NEVER), |xid| serving.is_open(xid))
    }

    /// Ends a call: it fails once its memory is its own again. False if it has ended.
    pub fn cancel(&mut self, xid: u32) -> bool {
        let was_open = self.requests.cancel(xid, &mut self.out);
        self.finish();
        was_open
    }

    /// Answers a call of the peer's by a reply of `length` octets of XDR, with these results that may be moved apart.
    ///
    /// # Errors
    /// The call has ended, or there is no way for the reply.
    // spec: bd-2-e, bd-5.2-a, bd-5.2-b
    pub fn reply(&mut self, call: Served, length: u32, results: &[ResultItem]) -> Result<(), ReplyError> {
        let version = self.serving.version(call).ok_or(ReplyError::Ended)?;
        let groups = self.extension.as_ref().and_then(|extension| extension.replies());
        let terms = Terms { groups, ..self.link.replies(version) };
        match self.serving.reply(call, length, results, terms) {
            None => Err(ReplyError::Ended),
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => {
                self.refuse_served(call);
                Err(ReplyError::Cannot(why))
            }
        }
    }

    /// Ends a call of the peer's by an error of the transport.
    ///
    /// # Errors
    /// The call has ended.
    pub fn decline(&mut self, call: Served) -> Result<(), ReplyError> {
        if self.serving.is_given(call) && self.refuse_served(call) { Ok(()) } else { Err(ReplyError::Ended) }
    }

    fn refuse_served(&mut self, call: Served) -> bool {
        let Some((xid, version)) = self.serving.end(call, true, &mut self.out) else { return false };
        self.refusals.push_back((Refusal::of_call(xid, version), PeerError::Header));
        self.counters.refused += 1;
        true
    }

    /// Grants the peer so many calls at most from now on: one or more, and never more than `Config::serve`. Its requester
    /// learns of it by the replies that follow. Calls that it has begun by then are served all the same.
    pub fn grant_up_to(&mut self, most: u32) {
        self.serving.grant_up_to(most);
    }

    /// Changes a property of ours on this connection. The peer is told; of larger receive buffers when the smaller ones are
    /// gone.
    ///
    /// # Errors
    /// It can't be changed, or not now.
    // spec: xc3-3.1-a, xc3-3.1-b, xc3-3.1-g, xc3-3.1-i, xc3-3.2-d, xc2-3.1-a, xc2-3.1-b, xc2-3.1-g, xc2-3.1-i, xc2-3-j
    pub fn set(&mut self, value: Basic) -> Result<(), SetError> {
        if self.stage != Stage::Up || !self.exchange.is_enabled() {
            return Err(SetError::Unsupported);
        }
        match value {
            Basic::ReceiveBufferSize(size) if size < self.link.ours.receive_buffer_size => Err(SetError::Smaller),
            Basic::ReceiveBufferSize(size) if size > self.config.receive_size_most => Err(SetError::Larger),
            Basic::ReceiveBufferSize(size) => {
                self.receives.resize(size);
                self.grown();
                Ok(())
            }
            value => {
                self.link.ours.set(value);
                self.exchange.update(value);
                Ok(())
            }
        }
    }

    /// Takes over a larger size of receive buffers once no smaller ones are left.
    fn grown(&mut self) {
        let (size, told) = (self.receives.size(), self.link.ours.receive_buffer_size);
        if size <= told {
            self.exchange.grows_no_more(told);
        } else if self.receives.is_uniform() {
            let value = Basic::ReceiveBufferSize(size);
            self.link.ours.set(value);
            self.exchange.update(value);
        }
    }

    /// Asks the peer to change a property of its own. `PropertyAnswered` tells what has become of it: at once, or where the peer
    /// says that it is pending (xcharext-02) once it is not.
    ///
    /// # Errors
    /// It can't be asked for, or not now.
    // spec: xc3-3.1-j, xc3-4.1-h, xc2-3.1-j, xc2-3-e, xc2-3-f
    pub fn ask(&mut self, value: Basic) -> Result<(), SetError> {
        if self.stage != Stage::Up || !self.link.speaks {
            return Err(SetError::Unsupported);
        }
        if self.exchange.is_busy(value.code()) {
            return Err(SetError::Busy);
        }
        if !self.link.peer.may_change(value.code()) {
            return Err(SetError::Fixed);
        }
        if let Basic::ReceiveBufferSize(size) = value
            && size < self.link.peer.values().receive_buffer_size
        {
            self.link.asked_size = Some(size);
        }
        self.request_properties(Some(value));
        Ok(())
    }

    /// Begins a ROPT_REQPROP: for a change, or for an answer alone.
    fn request_properties(&mut self, wanted: Option<Basic>) {
        const NOTHING: Call<'_> = Call { length: 0, items: &[], largest_reply: 0, results: &[], reducible: false };
        let Self { requests, serving, .. } = self;
        if let Ok(xid) = requests.call(Kind::Properties, &NOTHING, NEVER, |xid| serving.is_open(xid)) {
            self.exchange.ask(xid, wanted, self.link.peer.values());
        }
    }

    /// Ends the session when all that was begun is done: nothing new is begun.
    pub fn drain(&mut self) {
        self.draining = true;
        self.finish();
    }

    /// Ends the session at once: open calls fail.
    pub fn abort(&mut self) {
        self.draining = true;
        self.close(Reason::Aborted);
    }

    /// Ends a session that is draining, once nothing is under way.
    #[inline]
    fn finish(&mut self) {
        if self.draining && self.stage != Stage::Closed && self.is_idle() {
            self.close(Reason::Drained);
        }
    }

    fn is_idle(&self) -> bool {
        self.requests.is_done() && self.serving.is_idle() && self.refusals.is_empty()
    }

    /// How a call of ours travels, once that is chosen.
    #[must_use]
    pub fn travel(&self, xid: u32) -> Option<Travel> {
        self.requests.travel(xid)
    }

    /// What a call of ours costs, once it is chosen how it travels.
    #[must_use]
    pub fn cost(&self, xid: u32) -> Option<Cost> {
        self.requests.cost(xid)
    }

    /// What of a call is to be exposed, in the order in which `exposed` wants it.
    pub fn exposures(&self, xid: u32) -> impl Iterator<Item = Exposure> + use<'_> {
        self.requests.exposures(xid)
    }

    /// How a call of the peer's is put together; nothing if it has ended.
    pub fn pieces(&self, call: Served) -> Option<Pieces<'_>> {
        self.serving.pieces(call)
    }

    /// Octets of XDR of a call of the peer's, put together.
    #[must_use]
    pub fn length(&self, call: Served) -> Option<u32> {
        self.serving.length(call)
    }

    /// Which octets of a call or a reply follow the header of a message: ranges of the message as the consumer has it.
    pub fn parts(&self, what: Sent) -> impl Iterator<Item = Range<u32>> + use<'_> {
        match what {
            Sent::Call { xid } => self.requests.parts(xid),
            Sent::Reply { call } => self.serving.parts(call),
            Sent::Header => no_parts(),
        }
    }

    /// Whether anything is to be written before a reply is sent; most have offered no memory for it.
    #[inline]
    #[must_use]
    pub fn has_writes(&self, call: Served) -> bool {
        self.serving.has_writes(call)
    }

    /// What is to be written to the peer's memory before a reply is sent: in the same queue, so that it is there first.
    pub fn writes(&self, call: Served) -> impl Iterator<Item = Write> + use<'_> {
        self.serving.writes(call)
    }

    /// An XID that begins nothing which could be mistaken.
    fn fresh_xid(&mut self) -> u32 {
        fresh(&mut self.own_xid, &self.requests, &self.serving)
    }

    /// Closes the connection for a reason of ours, or ends a session that has none.
    fn close(&mut self, why: Reason) {
        match self.stage {
            Stage::Closed | Stage::Closing => {
                // The end of the session goes before the end of a connection.
                if why.is_final() {
                    self.closing = Some(why);
                }
            }
            Stage::Down => self.end(why),
            Stage::Connecting | Stage::Up => {
                self.stage = self.stage.next(Change::Close).unwrap_or(self.stage);
                self.closing = Some(why);
                self.out.act(Action::Close { why });
            }
        }
    }

    /// There will be no other connection.
    fn end(&mut self, why: Reason) {
        self.stage = self.stage.next(Change::Ended).unwrap_or(self.stage);
        self.requests.fail_all(why, &mut self.out);
        self.out.tell(Event::Closed { why, last: true });
    }

    /// Asks for a connection if there should be one.
    // spec: bd-2-f, bd-2.2-b
    fn maintain(&mut self, now: u64) {
        if now >= self.retry_at && self.wants_connection() {
            self.stage = self.stage.next(Change::Connect).unwrap_or(self.stage);
            self.out.act(Action::Connect);
        }
    }

    /// Whether there is no connection, should be one, and can be one. What was begun before a drain is still to be done.
    pub(super) fn wants_connection(&self) -> bool {
        let wanted = self.requests.has_waiting() || (self.keep && !self.draining);
        self.stage == Stage::Down && self.config.role == Role::Client && wanted && self.is_settled()
    }

    /// Whether no memory belongs to a connection that is gone.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.requests.is_settled() && self.serving.is_empty()
    }

    /// What the first message did, or did not.
    fn negotiated(&mut self, turn: Turn) {
        let (next, action) = self.link.negotiation.next(turn);
        let settles = !self.link.negotiation.is_settled() && next.is_settled();
        self.link.negotiation = next;
        if settles && let Some(version) = next.version() {
            self.settled(version);
        }
        match action {
            crate::version::Action::Close => self.close(Reason::NoVersion),
            crate::version::Action::Nothing | crate::version::Action::SendAgain | crate::version::Action::Remember => {}
        }
    }

    /// The version of the connection is known.
    // spec: v2-5.1-b, v2-5.2-f
    fn settled(&mut self, version: Version) {
        self.link.version = Some(version);
        self.link.answer_by = None;
        self.delay = self.config.retry;
        self.out.tell(Event::Ready { version });
    }
}
