//! What the transport tells.

use core::ops::Range;

use super::{ConnectError, Held, Session};
use crate::chunk::Segment;
use crate::connection::config::{Config, Role};
use crate::connection::exchange::{Ended, Told};
use crate::connection::life::{Change, Stage};
use crate::connection::link::Link;
use crate::connection::output::{Buffer, Event, Operation, Reason, Sent, Served};
use crate::connection::receives::Receives;
use crate::connection::requester::{Answered, Kind};
use crate::connection::responder::{Arrival, Unserved};
use crate::error::{Outcome, PeerError, Refusal, Why};
use crate::header::{Body, Chunks, Header};
use crate::private_data::PrivateData;
use crate::v2::MsgType;
use crate::v2::properties::{ROPT_REQPROP, ROPT_RESPROP};
use crate::v2::rtr::ROPT_REPTERR;
use crate::version::{Event as Turn, Negotiation, Version};

/// An operation as it came.
pub(super) struct Notice<'a> {
    pub(super) xid: u32,
    pub(super) credits: u32,
    pub(super) direction: MsgType,
    pub(super) code: u32,
    pub(super) info: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl Notice<'_> {
    /// Whether an RPC message that begins behind the operation, with its XID, has another direction. What begins otherwise is
    /// another part of a message, which tells none.
    // spec: v2-4.2.2-d
    fn is_contradicted(&self) -> bool {
        let Some([a, b, c, d, mtype @ ..]) = self.payload.first_chunk::<8>() else { return false };
        [*a, *b, *c, *d] == self.xid.to_be_bytes() && i32::from_be_bytes(*mtype) != self.direction.value()
    }
}

impl Session {
    /// There is a connection, whose peer has sent this private data.
    ///
    /// # Errors
    /// There is one already, the session has ended, or memory still belongs to the last one.
    // spec: v2-5-a
    pub fn connected(&mut self, now: u64, peer: PrivateData) -> Result<(), ConnectError> {
        if !self.is_settled() {
            return Err(ConnectError::Unsettled);
        }
        self.stage = self.stage.next(Change::Connected).ok_or(ConnectError::Stage)?;
        self.counters.connections += 1;
        self.link = Link::new(&self.config, peer, self.memory.holds(now));
        self.receives = Receives::new(self.config.receive_size);
        self.requests.connected();
        self.exchange.connected();
        if let Some(extension) = &mut self.extension {
            extension.connected(self.config.receive_size);
        }
        self.refusals.clear();
        match (self.link.version, self.config.role) {
            (Some(version), _) => self.settled(version),
            // The first message asks; where there are no properties, it is the first call (decision D7).
            (None, Role::Client) if self.exchange.is_enabled() => self.request_properties(None),
            (None, _) => {}
        }
        Ok(())
    }

    /// The connection is gone, or could not be made, and every message that was being sent is released or will be.
    ///
    /// `why` is the transport's reason, for a connection that was not being closed.
    pub fn lost(&mut self, now: u64, why: Reason) {
        if !matches!(self.stage, Stage::Connecting | Stage::Up | Stage::Closing) {
            return;
        }
        if self.link.negotiation == Negotiation::Asked {
            // The peer may have dropped it for the version (version-two-01, section 5.2).
            self.memory.remember(now, self.config.memory);
            self.negotiated(Turn::Lost);
        }
        let why = self.closing.take().unwrap_or(why);
        self.stage = self.stage.next(Change::Lost).unwrap_or(self.stage);
        self.out.lost();
        self.peer_ready = false;
        self.receives = Receives::new(self.config.receive_size);
        self.refusals.clear();
        self.link = Link::new(&self.config, PrivateData::DEFAULT, false);
        for Ended { asked, value } in self.exchange.lost() {
            self.out.tell(Event::PropertyAnswered { asked, value });
        }
        self.groups_lost();
        self.requests.lost(&mut self.out);
        self.serving.lost(&mut self.out);
        if why.is_final() {
            return self.end(why);
        }
        self.out.tell(Event::Closed { why, last: false });
        self.retry_at = now.saturating_add(self.delay);
        self.delay = self.delay.saturating_mul(2).min(self.config.retry_most);
        self.finish();
        self.maintain(now);
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: u64) {
        self.requests.expire(now, &mut self.out);
        self.serving.forget_kept(now, &mut self.out);
        if self.link.answer_by.is_some_and(|by| by <= now) {
            self.link.answer_by = None;
            self.memory.remember(now, self.config.memory);
            self.close(Reason::NotAnswered);
        }
        self.maintain(now);
        self.finish();
    }

    /// The Send of a message no longer needs the memory of its call or reply: its completion has come, or what it needs was
    /// copied.
    ///
    /// Whether a call of the peer's has ended with it, answered: as whoever tells it knows by this, no event says so again. One
    /// whose reply is kept ([`Rtr::keep`](crate::continuation::Rtr::keep)) ends later.
    pub fn released(&mut self, what: Sent) -> bool {
        let ended = match what {
            Sent::Call { xid } => {
                self.requests.released(xid, &mut self.out);
                false
            }
            Sent::Reply { call } => self.serving.released(call),
            Sent::Header => false,
        };
        self.finish();
        ended
    }

    /// The memory of a call is exposed: the segments of each exposure, in the order of `exposures`.
    pub fn exposed<'a>(&mut self, xid: u32, regions: impl IntoIterator<Item = &'a [Segment]>) {
        let ready = self.stage == Stage::Up && (self.config.role == Role::Client || self.peer_ready);
        let groups = self.extension.as_ref().and_then(|extension| extension.calls.as_ref());
        match self.link.calls(&self.config, groups).filter(|_| ready) {
            Some(link) => self.requests.exposed(xid, regions.into_iter(), &link, &mut self.out),
            None => self.requests.postponed(xid, &mut self.out),
        }
    }

    /// The memory of a call can't be exposed: it fails, after a fence of what is exposed of it.
    pub fn unexposable(&mut self, xid: u32) {
        self.requests.unexposable(xid, &mut self.out);
    }

    /// The memory of a call can no longer be reached by the peer.
    pub fn fenced(&mut self, xid: u32) {
        self.requests.fenced(xid, &mut self.out);
        self.finish();
    }

    /// A call of the peer's is put together.
    pub fn moved(&mut self, call: Served) {
        self.serving.moved(call, &mut self.out);
    }

    /// A message has come into a receive buffer; with `invalidated`, it was sent with invalidation of that key.
    ///
    /// Nothing that a message says can make this fail: what breaks a rule is answered, dropped and counted, or closes the
    /// connection, as the drafts have it.
    // spec: bd-2-a, bd-2.4-a, bd-2.4-c, bd-2.4-d, bd-2.4-e, bd-4.1-a, bd-4.1-b, bd-4.1-c, v2-3.2-a, v2-3.2-b, v2-3.2-c
    pub fn received(&mut self, buffer: Buffer, message: &[u8], invalidated: Option<u32>) -> Held {
        // A receive is of 32 bits.
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        self.received_in_segments(buffer, message, length, invalidated)
    }

    /// The same for a message of `length` octets in several segments of a receive buffer, of which only the beginning is
    /// shown. What is no transmission of rtrext-02 ([`is_shown`](Self::is_shown)) must be shown whole.
    #[inline]
    pub fn received_in_segments(
        &mut self,
        buffer: Buffer,
        message: &[u8],
        length: u32,
        invalidated: Option<u32>,
    ) -> Held {
        if self.stage != Stage::Up {
            return Held::Free;
        }
        self.counters.received += 1;
        self.receives.used();
        self.grown();
        let highest = self.link.highest();
        match Header::plain(message, highest) {
            Some(header) if invalidated.is_none() && self.extension.is_none() => {
                let held = self.arrived(buffer, (message, length), &header, None);
                self.finish();
                held
            }
            _ => self.taken(buffer, (message, length), highest, invalidated),
        }
    }

    /// A message has come that is not as most are.
    fn taken(
        &mut self,
        buffer: Buffer,
        (message, length): (&[u8], u32),
        highest: Version,
        invalidated: Option<u32>,
    ) -> Held {
        let parsed = Header::parse(message, highest);
        // Nothing but a reply may invalidate (decision D18).
        if invalidated.is_some() && !parsed.as_ref().is_ok_and(|header| self.is_reply(header)) {
            self.close(Reason::Invalidated);
            return Held::Free;
        }
        match &parsed {
            Ok(header) if self.extension.is_some() && self.interrupts(header) => {
                self.counters.dropped += 1;
                Held::Free
            }
            Ok(header) => {
                let held = self.arrived(buffer, (message, length), header, invalidated);
                self.finish();
                held
            }
            Err(refusal) => {
                if self.extension.is_some() {
                    let procedure = message.get(12..16).and_then(|word| word.first_chunk());
                    self.interrupted_by(refusal.xid, procedure.map_or(0, |word| u32::from_be_bytes(*word)));
                }
                self.refuse(*refusal);
                Held::Free
            }
        }
    }

    /// Whether an RPC message is a reply. A long one of Version One does not say: it is, if it has the XID of a call that was
    /// sent (decision D12), or if a client gets it without what a call would be read from.
    fn is_reply(&self, header: &Header<'_>) -> bool {
        match header.body {
            Body::Message { direction, .. } | Body::Long { direction: Some(direction), .. } => {
                direction == MsgType::Reply
            }
            Body::Long { direction: None, chunks } => {
                let no_call = self.config.role == Role::Client && chunks.reads().is_empty();
                no_call || self.requests.expects(header.xid)
            }
            Body::Operation { direction, code, .. } => {
                direction == MsgType::Reply && code != ROPT_REPTERR && self.takes_group(code)
            }
            Body::Error(_) => false,
        }
    }

    /// Whether a message needs to be shown no more of than this beginning: it is a transmission of rtrext-02, and its header
    /// is there.
    #[must_use]
    pub fn is_shown(&self, beginning: &[u8]) -> bool {
        let header = self.extension.as_ref().and_then(|_| Header::parse(beginning, Version::Two).ok());
        let code =
            header.and_then(|header| if let Body::Operation { code, .. } = header.body { Some(code) } else { None });
        code.is_some_and(|code| self.takes_group(code))
    }

    // spec: bd-4.1-e
    #[inline(always)]
    fn arrived(
        &mut self,
        buffer: Buffer,
        (message, length): (&[u8], u32),
        header: &Header<'_>,
        invalidated: Option<u32>,
    ) -> Held {
        let Header { xid, version, credits, .. } = *header;
        let inline = |payload: &[u8]| {
            // A receive is of 32 bits.
            let end = u32::try_from(message.len()).unwrap_or(u32::MAX);
            end.saturating_sub(u32::try_from(payload.len()).unwrap_or(u32::MAX))..end
        };
        match &header.body {
            Body::Message { direction: MsgType::Call, chunks, payload } => {
                let inline = Some(inline(payload));
                self.call_arrived(Arrival { xid, version, asked: credits, buffer, inline, chunks: chunks.some() })
            }
            Body::Message { direction: MsgType::Reply, chunks, payload } => {
                self.reply_arrived(xid, version, Some(credits), buffer, inline(payload), chunks.some(), invalidated)
            }
            Body::Long { direction, chunks } => {
                if self.is_reply(header) {
                    let grant = direction.map(|_| credits);
                    self.reply_arrived(xid, version, grant, buffer, 0..0, chunks.some(), invalidated)
                } else {
                    let chunks = chunks.some();
                    self.call_arrived(Arrival { xid, version, asked: credits, buffer, inline: None, chunks })
                }
            }
            Body::Operation { direction, code, info, payload } => {
                let told = Notice { xid, credits, direction: *direction, code: *code, info, payload };
                if self.takes_group(*code) {
                    let header = inline(payload).start;
                    return self.group_arrived(&told, buffer, header, length, invalidated);
                }
                self.operation_arrived(&told, buffer, message)
            }
            Body::Error(error) => {
                self.error_arrived(xid, version, *error);
                Held::Free
            }
        }
    }

    // spec: bd-5.3-f
    fn call_arrived(&mut self, arrival: Arrival<'_>) -> Held {
        let (xid, version) = (arrival.xid, arrival.version);
        self.spoken(version);
        if self.extension.is_some() {
            self.serving.forget_kept(u64::MAX, &mut self.out);
        }
        if !self.link.takes(&self.config, version, arrival.chunks.is_some()) {
            self.refuse_as(xid, version, PeerError::Header);
            return Held::Free;
        }
        match self.serving.arrived(&arrival, &mut self.out) {
            Ok(_) => return Held::Kept,
            Err(Unserved::Fault(_)) => self.refuse_as(xid, version, PeerError::Header),
            // An error would end the call that is being served.
            Err(Unserved::Twice) => self.counters.twice += 1,
            Err(Unserved::Overrun) => self.close(Reason::Overrun),
        }
        Held::Free
    }

    #[expect(clippy::too_many_arguments, reason = "all that one message has")]
    fn reply_arrived(
        &mut self,
        xid: u32,
        version: Version,
        grant: Option<u32>,
        buffer: Buffer,
        inline: Range<u32>,
        chunks: Option<&Chunks<'_>>,
        invalidated: Option<u32>,
    ) -> Held {
        if self.requests.expected(xid) != Some(Kind::Rpc) {
            self.counters.unexpected += 1;
            if invalidated.is_some() {
                self.close(Reason::Invalidated);
            }
            return Held::Free;
        }
        self.spoken(version);
        let answered = Answered { xid, grant, chunks, buffer, inline, invalidated };
        self.receives.replied();
        let kept = self.requests.replied(answered, &mut self.out);
        match kept {
            Some(true) => Held::Kept,
            Some(false) => Held::Free,
            None => {
                self.close(Reason::Invalidated);
                Held::Free
            }
        }
    }

    /// The peer has spoken in a version.
    // spec: v2-5.3-a
    #[inline]
    pub(super) fn spoken(&mut self, version: Version) {
        if self.link.version.is_none() {
            self.first_spoken(version);
        }
    }

    #[cold]
    fn first_spoken(&mut self, version: Version) {
        match self.config.role {
            Role::Client if version == Version::Two => self.negotiated(Turn::Spoken),
            Role::Client => {}
            Role::Server => self.settled(version),
        }
    }

    // spec: v2-3.1-a, v2-3.1-b, v2-3.1-d, v2-3.1-f, v2-3.2-d, v2-3.2-e, v2-4.2.1-c, xc3-4-j, xc2-4-e, xc2-4-f
    #[cold]
    fn operation_arrived(&mut self, told: &Notice<'_>, buffer: Buffer, message: &[u8]) -> Held {
        // What answers our question settles the version; any other message of a server's settles it, too.
        if told.direction == MsgType::Reply || self.config.role == Role::Server {
            self.spoken(Version::Two);
        }
        if self.exchange.is_registered(told.code) {
            if told.is_contradicted() {
                self.malformed(told);
                return Held::Free;
            }
            return self.hand_over(told, buffer, message);
        }
        if !self.exchange.knows(told.code) {
            self.refuse_as(told.xid, Version::Two, PeerError::Operation);
            return Held::Free;
        }
        let wanted = if told.code == ROPT_RESPROP { MsgType::Reply } else { MsgType::Call };
        if told.direction != wanted || !told.payload.is_empty() {
            self.malformed(told);
            return Held::Free;
        }
        self.properties_arrived(told);
        self.abilities_told();
        Held::Free
    }

    fn properties_arrived(&mut self, told: &Notice<'_>) {
        if told.code == ROPT_REQPROP && self.serving.credits.received().is_err() {
            return self.close(Reason::Overrun);
        }
        let before = self.link.peer.clone();
        let posted = self.receives.size();
        match self.exchange.told(told.xid, told.code, told.credits, told.info, posted, &mut self.link) {
            Ok(found) => self.properties_told(found, self.link.peer != before),
            Err(_) => {
                if told.code == ROPT_REQPROP {
                    self.serving.credits.dropped();
                }
                return self.malformed(told);
            }
        }
        if told.code == ROPT_RESPROP {
            match self.requests.kind(told.xid) {
                Some(Kind::Properties) => {
                    self.requests.properties_answered(told.xid, Some(told.credits), &mut self.out);
                }
                _ => self.counters.unexpected += 1,
            }
        }
    }

    fn properties_told(&mut self, told: Told, is_changed: bool) {
        match told {
            Told::Nothing => {}
            Told::Changed(ended) => {
                if is_changed {
                    self.out.notify(Event::PropertiesChanged);
                }
                if let Some(Ended { asked, value }) = ended {
                    self.out.tell(Event::PropertyAnswered { asked, value });
                }
            }
            Told::Lower(size) => {
                self.receives.resize(size);
                self.grown();
                self.out.notify(Event::PropertiesChanged);
            }
            Told::Raise(size) => {
                // One that is larger still may be on its way.
                if size > self.link.ours.receive_buffer_size.max(self.receives.size()) {
                    self.receives.resize(size);
                    self.grown();
                }
            }
            Told::Answered(Ended { asked, value }) => self.out.tell(Event::PropertyAnswered { asked, value }),
        }
    }

    /// A property operation that breaks a rule (decision D15).
    pub(super) fn malformed(&mut self, told: &Notice<'_>) {
        match told.direction {
            MsgType::Call => self.refuse_as(told.xid, Version::Two, PeerError::Header),
            MsgType::Reply => {
                self.counters.dropped += 1;
                if self.requests.kind(told.xid) == Some(Kind::Properties) {
                    self.requests.properties_answered(told.xid, None, &mut self.out);
                    self.unanswered(false);
                }
            }
        }
    }

    /// Our request for a change has come to nothing.
    fn unanswered(&mut self, by_error: bool) {
        if let Some(Ended { asked, value }) = self.exchange.unanswered(by_error, &mut self.link) {
            self.out.tell(Event::PropertyAnswered { asked, value });
        }
    }

    /// An operation that the consumer knows.
    fn hand_over(&mut self, told: &Notice<'_>, buffer: Buffer, message: &[u8]) -> Held {
        let end = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let payload = end.saturating_sub(u32::try_from(told.payload.len()).unwrap_or(u32::MAX));
        // The operation's own octets are padded to four.
        let length = u32::try_from(told.info.len()).unwrap_or(u32::MAX);
        let info = payload.saturating_sub(length.next_multiple_of(4));
        let operation = Operation {
            xid: told.xid,
            code: told.code,
            call: told.direction == MsgType::Call,
            buffer,
            info: info..info.saturating_add(length),
            payload: payload..end,
        };
        if self.out.notify(Event::Operation { operation }) {
            Held::Kept
        } else {
            self.counters.dropped += 1;
            Held::Free
        }
    }

    // spec: v2-4.2.2-c, v2-4.2.3-a, v2-5.2-a
    #[cold]
    fn error_arrived(&mut self, xid: u32, version: Version, error: PeerError) {
        if error == PeerError::Operation && self.operation_unknown(xid) {
            return;
        }
        let asked = self.link.negotiation == Negotiation::Asked && self.requests.expects(xid);
        let mut again = false;
        if asked {
            match (error, version) {
                (PeerError::Versions { low, high }, _) => {
                    let turn = Turn::of_range(low, high);
                    again = turn == Turn::OneOnly;
                    self.negotiated(turn);
                }
                (_, Version::Two) => self.negotiated(Turn::UnknownOperation),
                (_, Version::One) => {}
            }
        }
        match self.requests.expected(xid) {
            Some(kind) => {
                // The question after the version is answered; only a call that asked it is sent again.
                self.requests.refused(xid, error, again && kind == Kind::Rpc, &mut self.out);
                if kind == Kind::Properties {
                    self.unanswered(true);
                }
            }
            None => {
                self.counters.unexpected += 1;
                self.out.notify(Event::PeerError { xid, error });
            }
        }
    }

    /// A message that breaks a rule.
    // spec: rtr-5.4-b, rtr-9.5-a
    #[cold]
    fn refuse(&mut self, refusal: Refusal) {
        let ours = self.requests.expects(refusal.xid);
        match refusal.outcome(ours, Version::One, self.link.highest()) {
            Outcome::Answer(error) => self.answer(refusal, error),
            Outcome::Drop => self.counters.dropped += 1,
        }
    }

    pub(super) fn refuse_as(&mut self, xid: u32, version: Version, error: PeerError) {
        self.answer(Refusal::of_call(xid, version), error);
    }

    /// Queues an error, if there is room: a peer has no more calls under way than it has been granted. Each call that is
    /// being served may need a place, too.
    fn answer(&mut self, refusal: Refusal, error: PeerError) {
        let Config { credits, serve, reserve, .. } = *self.config;
        let receives = credits.saturating_add(reserve) as usize + usize::from(serve);
        if self.refusals.len() + self.serving.len() < receives + usize::from(serve) {
            self.refusals.push_back((refusal, error));
            self.counters.refused += 1;
        } else {
            self.counters.dropped += 1;
        }
    }
}

impl Refusal {
    /// A call that has a header and is refused all the same.
    pub(super) fn of_call(xid: u32, version: Version) -> Self {
        Self { xid, vers: version.number(), why: Why::Direction, direction: Some(MsgType::Call), error: false }
    }
}
