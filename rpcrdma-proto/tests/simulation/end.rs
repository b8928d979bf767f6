//! One end: a session, and what its transport and its consumer know.

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Config, SendOwner, ServedCallId, Session, Transmit};
use rpcrdma_proto::placement::BufferStructure;
use rpcrdma_proto::version::Version;

use super::fault::{Fault, Seen};
use super::memory::{Keys, Memory};
use super::message::Origin;
use super::random::Random;
use super::spec::{Answer, Spec};

/// A code for experiments, which some ends register as an operation and as a property.
pub(crate) const EXPERIMENT: u32 = 4_294_967_041;

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) random: Random,
    pub(crate) memory: Memory,
    pub(crate) calls: Vec<Call>,
    pub(crate) serving: Vec<Serving>,
    /// The connection that the session knows; none if it has none.
    pub(crate) link: u32,
    /// Which attempt to connect is in progress.
    pub(crate) attempt: u32,
    pub(crate) connecting: bool,
    /// Before this time it does not try again.
    pub(crate) retry_at: u64,
    /// How long it waits at least after a connection on which nothing is done, and when the present
    /// one began.
    pub(crate) pause: u64,
    pub(crate) connected_at: u64,
    /// The version of the present connection, once it is told.
    pub(crate) version: Option<Version>,
    /// Whether the session has told that it is over.
    pub(crate) over: bool,
    /// Connections lost, or not made, whose end was not told yet.
    pub(crate) untold: u32,
    /// When the timer rings next.
    pub(crate) timer: u64,
    /// Until when nothing is polled, and when that ends.
    pub(crate) late_until: u64,
    pub(crate) wake_at: u64,
    /// Until when completions take long.
    pub(crate) slow_until: u64,
    /// When the last Send is released.
    pub(crate) sends_until: u64,
    /// What its clock shows beyond that of the world.
    pub(crate) ahead: u64,
    /// Faults that wait for their opportunity.
    pub(crate) exposures_fail: bool,
    pub(crate) more_segments: bool,
    pub(crate) connects_fail: u32,
    pub(crate) delay: bool,
    pub(crate) corrupt: Option<u32>,
    pub(crate) truncate: Option<u32>,
    pub(crate) credits: Option<u32>,
    /// Calls that its consumer will not answer.
    pub(crate) unanswered: u32,
    /// Buffers that were kept, and not named yet.
    pub(crate) kept: Vec<usize>,
    /// A promise of the engine's that was made: errors that were told as events.
    pub(crate) peer_errors: u64,
    pub(crate) registered: bool,
    /// The message of which some transmissions have gone, and the number of the next one.
    pub(crate) group: Option<(SendOwner, u32)>,
    /// A fault that waits for a transmission of a group.
    pub(crate) tamper: Option<(Fault, u32)>,
    /// Bytes of the first segment of each receive buffer.
    pub(crate) head: usize,
    /// The size of the peer's receives that this end has asked for, and whether the question was
    /// sent.
    pub(crate) asked: Option<(u32, bool)>,
    /// Changes that this end has asked for and of which nothing has become yet.
    pub(crate) wishes: u32,
    /// Whether it has answered on this connection that a change is pending, and has not told since
    /// that it is not.
    pub(crate) pends: bool,
}

/// A call of this end.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) xid: u32,
    pub(crate) spec: Spec,
    pub(crate) deadline: u64,
    pub(crate) cancelled: bool,
    /// Whether a Send has its memory.
    pub(crate) sending: bool,
    /// How often it was sent, and over which connection last.
    pub(crate) sent: u32,
    pub(crate) sent_on: u32,
    /// Whether it went in transmissions of rtrext-02 last, and whether the peer has reported those.
    pub(crate) grouped: bool,
    pub(crate) reported: bool,
    /// Whether the peer has refused it since it was sent last.
    pub(crate) refused: bool,
    /// Whether its reply has come, over a connection without forgeries.
    pub(crate) replied: bool,
    pub(crate) keys: Keys,
    /// The exposure that is in progress, and when it is done.
    pub(crate) exposing: Option<u32>,
    pub(crate) exposed_at: u64,
    pub(crate) exposures: u32,
    pub(crate) fencing: bool,
}

/// A call that this end serves.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) call: ServedCallId,
    /// The message that brought it.
    pub(crate) message: usize,
    pub(crate) link: u32,
    /// What its caller knows of it, if it is no forgery.
    pub(crate) spec: Option<Spec>,
    pub(crate) xid: u32,
    pub(crate) announced: bool,
    pub(crate) reading: bool,
    pub(crate) answer: Option<Answer>,
    /// Whether its consumer does not answer it.
    pub(crate) ignored: bool,
    pub(crate) sending: bool,
    /// How often the whole reply was sent.
    pub(crate) answered: u32,
    pub(crate) reads: Vec<Segment>,
}

/// What a message is that goes out, whether it may, and what is seen by it.
pub(crate) type Going = (Origin, bool, [Option<Seen>; 2]);

/// Whether a message begins with it.
fn begins(transmit: &Transmit) -> bool {
    transmit.transmission.is_none_or(|share| share.number == 0)
}

impl Call {
    /// Whether it may not be sent now: the peer may have it from an earlier connection.
    pub(crate) fn is_sent_twice(&self, link: u32) -> bool {
        self.spec.once && self.sent > 0 && !self.refused && self.sent_on != link
    }

    /// A message of it goes out, over this connection.
    pub(crate) fn goes(&mut self, link: u32, transmit: &Transmit) -> Going {
        let begins = begins(transmit);
        // Between its transmissions its memory is not given back.
        let may = std::mem::replace(&mut self.sending, true) != begins;
        let again = begins && self.sent > 0;
        let why = match (self.reported, self.grouped) {
            _ if !again || self.sent_on != link => None,
            (true, _) => Some(Seen::SentAgainAsReported),
            (false, true) => Some(Seen::SentAgainAsUnknown),
            (false, false) => None,
        };
        self.sent += u32::from(begins);
        self.refused &= !begins;
        (self.sent_on, self.grouped, self.replied) = (link, transmit.transmission.is_some(), false);
        (
            Origin::Call {
                xid: self.xid,
                spec: self.spec,
            },
            may,
            [again.then_some(Seen::SentAgain), why],
        )
    }
}

impl Serving {
    /// A message of its reply goes out.
    pub(crate) fn goes(&mut self, transmit: &Transmit) -> Going {
        let begins = begins(transmit);
        let may = std::mem::replace(&mut self.sending, true) != begins;
        let again = (begins && self.answered > 0).then_some(Seen::ReplySentAgain);
        self.answered += u32::from(transmit.is_last());
        let (xid, call) = (self.xid, self.call);
        let answer = self.answer.filter(|_| self.spec.is_some());
        let origin = answer.map_or(Origin::Forged, |answer| Origin::Reply { xid, call, answer });
        (origin, may, [again, None])
    }
}

impl End {
    pub(crate) fn new(config: &Config, tag: u32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut session = Session::new(config.clone()).expect("settings that make sense");
        let registered = random.one_in(2);
        if registered {
            session
                .register_operation(EXPERIMENT)
                .expect("a code for experiments");
            session
                .register_property(EXPERIMENT, &config.xid_seed.to_be_bytes())
                .expect("a code for experiments");
        }
        let memory = Memory::new(tag, &mut Random::new(!seed));
        Self {
            session,
            random,
            memory,
            calls: Vec::new(),
            serving: Vec::new(),
            link: 0,
            attempt: 0,
            connecting: false,
            retry_at: 0,
            pause: config.reconnect_delay,
            connected_at: 0,
            version: None,
            over: false,
            untold: 0,
            timer: u64::MAX,
            late_until: 0,
            wake_at: 0,
            slow_until: 0,
            sends_until: 0,
            ahead: 0,
            exposures_fail: false,
            more_segments: false,
            connects_fail: 0,
            delay: false,
            corrupt: None,
            truncate: None,
            credits: None,
            unanswered: 0,
            kept: Vec::new(),
            peer_errors: 0,
            registered,
            group: None,
            tamper: None,
            head: config
                .rtr
                .and_then(|rtr| rtr.structure)
                .map_or(usize::MAX, head),
            asked: None,
            wishes: 0,
            pends: false,
        }
    }

    pub(crate) fn call(&mut self, xid: u32) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.xid == xid)
    }

    pub(crate) fn serving(&mut self, call: ServedCallId) -> Option<&mut Serving> {
        self.serving.iter_mut().find(|one| one.call == call)
    }

    /// Takes the faults away that wait.
    pub(crate) fn heal(&mut self) {
        (
            self.exposures_fail,
            self.more_segments,
            self.delay,
            self.connects_fail,
        ) = (false, false, false, 0);
        (self.corrupt, self.truncate, self.credits, self.tamper) = (None, None, None, None);
        (self.late_until, self.slow_until, self.unanswered) = (0, 0, 0);
    }

    /// A connection is gone, or was not made, which was of use or not: when the next may be tried.
    /// Those that were not have longer and longer pauses after them.
    pub(crate) fn pauses(&mut self, now: u64, was_of_use: bool) {
        let config = self.session.config();
        let pause = if was_of_use {
            config.reconnect_delay
        } else {
            self.pause
        };
        (self.retry_at, self.pause) = (now + pause, (2 * pause).min(config.max_reconnect_delay));
    }

    /// A message's buffer was named by an action or an event: whether it was kept.
    pub(crate) fn named(&mut self, message: usize) -> bool {
        match self.kept.iter().position(|kept| *kept == message) {
            Some(at) => {
                self.kept.swap_remove(at);
                true
            }
            None => false,
        }
    }
}

fn head(structure: BufferStructure) -> usize {
    structure
        .segments()
        .first()
        .map_or(usize::MAX, |segment| segment.length as usize)
}
