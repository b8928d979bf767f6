//! The operations of transport properties (xcharext-03, section 4): the first user of `RDMA2_OPTIONAL`, and the place for
//! operations and properties that the consumer registers.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;

use super::config::Config;
use super::link::Link;
use super::requester::Requests;
use super::responder::Serving;
use crate::continuation::{Abilities, Rtr};
use crate::credit::Requester;
use crate::property::{ABILITIES, Ability, Answer, Basic, Decision, Disposition, Values, dispositions};
use crate::v2::properties::{
    Connprop, Propid, Propval, ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP, Reqprop, Resprop, Updprop,
};
use crate::v2::rtr::XPROP_RTRSUPP;
use crate::v2::{self, MsgType, Optional, XprtHdr};
use crate::version::{THRESHOLD_TWO, Version};
use crate::xdr::{self, Decode, Encode};

/// Properties and operations of others that may be registered.
const REGISTERED: usize = 8;
/// Octets of a registered property's value.
pub(super) const VALUE: usize = 64;
/// Octets of what a registered operation says.
const INFO: usize = 256;
/// Operations that may wait to be sent.
const WAITING: usize = 8;

/// What is to be told of properties, and asked: the same at both ends.
// spec: xc3-1.3-d
#[derive(Debug)]
pub(super) struct Exchange {
    /// Whether properties are spoken here at all.
    enabled: bool,
    /// Answers to the peer's requests, each with its XID and the credits that the request asked for: no more than are
    /// granted.
    answers: VecDeque<(u32, u32, Answer)>,
    /// The change that we have asked for, or are to ask for; none to probe.
    wanted: Option<Basic>,
    /// The XID of the request that is under way.
    request: Option<u32>,
    /// Properties of ours that have changed and are to be told.
    changed: ArrayVec<Basic, 3>,
    /// Properties of others: ours, and the peer's.
    properties: ArrayVec<Registered, REGISTERED>,
    operations: ArrayVec<u32, REGISTERED>,
    outgoing: VecDeque<Outgoing>,
    /// What we tell of rtrext-02, which stays as it is; none where that is not used.
    abilities: Option<Abilities>,
    /// Octets to which a peer's request may raise our receive buffers.
    most: u32,
    can_invalidate: bool,
}

#[derive(Clone, Debug)]
struct Registered {
    code: Propid,
    ours: ArrayVec<u8, VALUE>,
    theirs: Option<ArrayVec<u8, VALUE>>,
}

#[derive(Clone, Debug)]
struct Outgoing {
    xid: u32,
    code: u32,
    call: bool,
    info: ArrayVec<u8, INFO>,
}

/// Why an operation or a property can't be registered, or sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// Its code is not in the range for experiments, 4,294,967,040 to 4,294,967,295 (xcharext-03, section 6.2), or another's.
    Code,
    /// There are too many.
    Full,
    /// It has too many octets.
    Long,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Code => "the code is not in the range for experiments, or taken",
            Self::Full => "there are too many",
            Self::Long => "too many octets",
        })
    }
}

impl core::error::Error for RegisterError {}

/// What has come of an operation.
pub(super) enum Told {
    /// Nothing changes that the consumer would see.
    Nothing,
    /// The peer has told properties, or has changed ours.
    Changed,
    /// The peer has been asked for another size of our receive buffers, which is to be raised.
    Raise(u32),
    /// Our receive buffers may be smaller from now on.
    Lower(u32),
    /// Our request is answered: with the value that holds now.
    Answered(Option<Basic>),
}

/// The first code for experiments.
// spec: xc3-6.2-a, xc3-6.2-b
const EXPERIMENTS: u32 = 4_294_967_040;

impl Exchange {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            enabled: config.properties,
            answers: VecDeque::new(),
            wanted: None,
            request: None,
            changed: ArrayVec::new(),
            properties: ArrayVec::new(),
            operations: ArrayVec::new(),
            outgoing: VecDeque::new(),
            abilities: config.rtr.as_ref().map(Rtr::abilities),
            most: config.receive_size_most,
            can_invalidate: config.remote_invalidation,
        }
    }

    /// A new connection: nothing of the last one is still to be said.
    pub(super) fn connected(&mut self) {
        self.answers.clear();
        self.outgoing.clear();
        self.changed.clear();
        (self.wanted, self.request) = (None, None);
        for registered in &mut self.properties {
            registered.theirs = None;
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether this end knows an operation.
    // spec: xc3-4-i, v2-3.3-a
    pub(super) fn knows(&self, code: u32) -> bool {
        self.enabled && matches!(code, ROPT_CONNPROP | ROPT_REQPROP | ROPT_RESPROP | ROPT_UPDPROP)
    }

    pub(super) fn has_operations(&self) -> bool {
        !self.operations.is_empty()
    }

    pub(super) fn is_registered(&self, code: u32) -> bool {
        self.operations.contains(&code)
    }

    /// Registers an operation of the consumer's.
    pub(super) fn register_operation(&mut self, code: u32) -> Result<(), RegisterError> {
        if code < EXPERIMENTS || self.operations.contains(&code) {
            return Err(RegisterError::Code);
        }
        self.operations.try_push(code).map_err(|_| RegisterError::Full)
    }

    /// Registers a property of the consumer's, to be told when a connection begins.
    // spec: xc3-6.1-a, xc3-6.1-c
    pub(super) fn register_property(&mut self, code: Propid, value: &[u8]) -> Result<(), RegisterError> {
        let is_taken = self.abilities.is_some() && code == XPROP_RTRSUPP;
        if code < EXPERIMENTS || is_taken || self.properties.iter().any(|one| one.code == code) {
            return Err(RegisterError::Code);
        }
        let ours = value.try_into().map_err(|_| RegisterError::Long)?;
        self.properties.try_push(Registered { code, ours, theirs: None }).map_err(|_| RegisterError::Full)
    }

    /// What the peer has told of a registered property.
    pub(super) fn peers(&self, code: Propid) -> Option<&[u8]> {
        self.properties.iter().find(|one| one.code == code)?.theirs.as_deref()
    }

    /// Queues an operation of the consumer's.
    pub(super) fn operate(&mut self, xid: u32, code: u32, call: bool, info: &[u8]) -> Result<(), RegisterError> {
        if !self.is_registered(code) {
            return Err(RegisterError::Code);
        }
        if self.outgoing.len() == WAITING {
            return Err(RegisterError::Full);
        }
        let info = info.try_into().map_err(|_| RegisterError::Long)?;
        self.outgoing.push_back(Outgoing { xid, code, call, info });
        Ok(())
    }

    /// Whether a request of ours is under way.
    pub(super) fn is_asking(&self) -> bool {
        self.request.is_some()
    }

    /// A request of ours begins: for a change, or to find out the version.
    pub(super) fn ask(&mut self, xid: u32, wanted: Option<Basic>) {
        (self.request, self.wanted) = (Some(xid), wanted);
    }

    /// A request of ours has ended without an answer that says more than that: it counts as rejected.
    // spec: xc3-3-m
    pub(super) fn unanswered(&mut self) -> Option<Basic> {
        self.request = None;
        self.wanted.take()
    }

    /// A property of ours has changed, and the peer is to be told.
    pub(super) fn update(&mut self, value: Basic) {
        self.changed.retain(|other| other.code() != value.code());
        // There are three properties, and as many places.
        let _ = self.changed.try_push(value);
    }

    /// An operation of the peer's.
    ///
    /// # Errors
    /// It is malformed.
    // spec: xc3-2.1-g, xc3-2.1-h, xc3-2.1-i, xc3-2.3-b, xc3-2.3-c, xc3-2.3-d, xc3-4-a, xc3-4-b, xc3-4-c
    pub(super) fn told(
        &mut self,
        xid: u32,
        code: u32,
        credits: u32,
        info: &[u8],
        link: &mut Link,
    ) -> xdr::Result<Told> {
        link.speaks = true;
        match code {
            ROPT_CONNPROP => {
                let connprop = Connprop::from_bytes(info)?;
                link.peer.connected(&connprop)?;
                self.keep(connprop.start.iter());
                Ok(Told::Changed)
            }
            ROPT_REQPROP => self.asked(xid, credits, &Reqprop::from_bytes(info)?, link),
            ROPT_RESPROP => self.answered(xid, &Resprop::from_bytes(info)?, link),
            ROPT_UPDPROP => {
                let updprop = Updprop::from_bytes(info)?;
                link.peer.updated(&updprop)?;
                self.keep(updprop.now.iter());
                // What we have asked for binds until it is answered: this may have crossed it (decision D17).
                Ok(Told::Changed)
            }
            _ => Ok(Told::Nothing),
        }
    }

    /// Takes over the values of registered properties, but for those that are too long to be kept.
    fn keep<'a>(&mut self, values: impl Iterator<Item = Propval<'a>>) {
        for value in values {
            if let Some(registered) = self.properties.iter_mut().find(|one| one.code == value.which) {
                registered.theirs = value.data.try_into().ok();
            }
        }
    }

    /// The peer asks for changes of our properties.
    // spec: xc3-3.1-g, xc3-3.1-h, xc3-3.1-i, xc3-4.2-a, xc3-4.2-b, xc3-4-k
    fn asked(&mut self, xid: u32, credits: u32, request: &Reqprop<'_>, link: &mut Link) -> xdr::Result<Told> {
        let (mut next, mut told) = (link.ours, Told::Nothing);
        let (most, can_invalidate, has_structure) = (self.most, self.can_invalidate, self.has_structure());
        if self.abilities.is_some() {
            // What is known has to be a value, too, although none of it changes.
            request.want.iter().try_for_each(|wanted| Ability::of(&wanted).map(drop))?;
        }
        let answer = Answer::to(request, |wanted| {
            // Buffers that have a structure have its length.
            let decision = match wanted {
                Basic::ReceiveBufferSize(_) if has_structure => return Decision::Reject,
                _ => decide(wanted, &next, can_invalidate),
            };
            match (decision, wanted) {
                (Decision::Accept, Basic::ReceiveBufferSize(size)) => told = Told::Lower(size),
                (Decision::Instead(Basic::ReceiveBufferSize(size)), _) => told = Told::Lower(size),
                (Decision::Reject, Basic::ReceiveBufferSize(size)) => told = Told::Raise(size.min(most)),
                _ => {}
            }
            match decision {
                Decision::Accept => next.set(wanted),
                Decision::Instead(value) => next.set(value),
                Decision::Reject => {}
            }
            decision
        })?;
        link.ours = next;
        self.answers.push_back((xid, credits, answer));
        Ok(told)
    }

    /// The peer answers our request.
    // spec: xc3-4.3-a, xc3-4.3-b, xc3-3.1-j
    fn answered(&mut self, xid: u32, response: &Resprop<'_>, link: &mut Link) -> xdr::Result<Told> {
        if self.request != Some(xid) {
            return Ok(Told::Nothing);
        }
        let wanted = self.wanted;
        let Some(value) = wanted else {
            self.request = None;
            return Ok(Told::Nothing);
        };
        let word = value.word().to_be_bytes();
        let want = [Propval { which: value.code(), data: &word }];
        let request = Reqprop { want: (&want).into() };
        let held = match dispositions(&request, response).next() {
            Some(Disposition::Done(_)) => Some(value),
            Some(Disposition::Other(other)) => Basic::of(&other)?,
            _ => None,
        };
        (self.request, self.wanted, link.asked_size) = (None, None, None);
        if let Some(held) = held {
            link.peer.changed(held);
        }
        Ok(Told::Answered(held))
    }

    /// Writes the next message of the exchange that may go, and returns the octets of its header.
    // spec: v2-4.2.2-e, xc3-4-g, xc3-2.3-a, xc3-2.3-e, xc3-2.3-f, xc3-2.3-g, xc3-4-d, xc3-4-l, xc3-4.1-a, xc3-4.1-e
    #[cold]
    pub(super) fn transmit(
        &mut self,
        buffer: &mut [u8],
        link: &mut Link,
        requests: &mut Requests,
        serving: &mut Serving,
        own_xid: &mut u32,
    ) -> Option<usize> {
        if self.is_first(link) {
            let xid = fresh(own_xid, requests, serving);
            let octets = self.write_connprop(buffer, xid, requests.credits.wanted(), link)?;
            link.told = true;
            requests.credits.first();
            return Some(octets);
        }
        // The requester of an operation has its credit back with the next reply: what answers it goes before that.
        if let Some(octets) = self.transmit_answer(buffer, link, serving.credits.next(1)) {
            return Some(octets);
        }
        if let Some((xid, asked, answer)) = self.answers.front() {
            let header = (*xid, serving.credits.next(*asked), MsgType::Reply, ROPT_RESPROP);
            let octets = answer.with(|response| write(buffer, header, &response))?;
            serving.credits.reply(*asked);
            self.answers.pop_front();
            return Some(octets);
        }
        // Replies that wait were made for the sizes that hold now: a request may ask for less.
        if !serving.has_replies()
            && let Some(xid) = requests.transmit_properties()
        {
            return self.write_reqprop(buffer, xid, requests.credits.wanted());
        }
        if self.changed.is_empty() && self.outgoing.is_empty() {
            return None;
        }
        let xid = fresh(own_xid, requests, serving);
        self.transmit_one_way(buffer, link, &mut requests.credits, xid)
    }

    fn transmit_one_way(&mut self, buffer: &mut [u8], link: &Link, credits: &mut Requester, xid: u32) -> Option<usize> {
        link.version.filter(|version| *version == Version::Two)?;
        if link.told && !self.changed.is_empty() && credits.one_way() {
            let octets = self.write_updprop(buffer, xid, credits.wanted(), &link.ours)?;
            self.changed.clear();
            return Some(octets);
        }
        let next = self.outgoing.front().filter(|next| next.call)?;
        let octets = optional(buffer, (next.xid, credits.wanted(), MsgType::Call, next.code), &next.info)?;
        if !credits.one_way() {
            return None;
        }
        self.outgoing.pop_front();
        Some(octets)
    }

    /// Writes the next answer to an operation, which takes no credit and waits for none.
    fn transmit_answer(&mut self, buffer: &mut [u8], link: &Link, credits: u32) -> Option<usize> {
        link.version.filter(|version| *version == Version::Two)?;
        let at = self.outgoing.iter().position(|next| !next.call)?;
        let next = self.outgoing.get(at)?;
        let octets = optional(buffer, (next.xid, credits, MsgType::Reply, next.code), &next.info)?;
        self.outgoing.remove(at);
        Some(octets)
    }

    /// Whether the next message tells our properties.
    pub(super) fn is_first(&self, link: &Link) -> bool {
        !link.told && link.speaks && self.enabled && link.version == Some(Version::Two)
    }

    /// Whether a message waits that takes a credit and has no reply.
    pub(super) fn has_one_way(&self, link: &Link) -> bool {
        // Every poll asks, and nearly always there is nothing to look through.
        let has_calls = !self.outgoing.is_empty() && self.outgoing.iter().any(|next| next.call);
        link.told && (has_calls || !self.changed.is_empty())
    }

    /// Whether nothing waits to be told or answered.
    pub(super) fn is_silent(&self) -> bool {
        self.changed.is_empty() && self.outgoing.is_empty() && self.answers.is_empty()
    }

    /// Whether our receive buffers have a structure that is told: then their size does not change either.
    // spec: rtr-8.3-b
    fn has_structure(&self) -> bool {
        self.abilities.as_ref().is_some_and(|abilities| abilities.structure.is_some())
    }

    // spec: xc3-4-e, xc3-2.1-a, xc3-2.1-b, xc3-3-a, xc3-3-b, xc3-3-c, xc3-3-h, xc3-3-i, xc3-4.1-b, xc3-4.1-f, xc3-4.1-g
    fn write_connprop(&self, buffer: &mut [u8], xid: u32, credits: u32, link: &Link) -> Option<usize> {
        let ours = link.ours;
        let basics = [
            Basic::ReceiveBufferSize(ours.receive_buffer_size),
            Basic::RemoteInvalidation(ours.remote_invalidation),
            Basic::BackwardSupport(ours.backward_support),
        ];
        let words = basics.map(|value| value.word().to_be_bytes());
        self.with_abilities(|abilities| {
            let mut start = ArrayVec::<Propval<'_>, { 3 + ABILITIES + REGISTERED }>::new();
            start.extend(basics.iter().zip(&words).map(|(value, word)| Propval { which: value.code(), data: word }));
            let staying = start.len()..start.len() + abilities.len();
            start.extend(abilities.iter().copied());
            start.extend(self.properties.iter().map(|one| Propval { which: one.code, data: &one.ours }));
            // The size stands at the beginning of the set.
            let size = u32::from(self.has_structure());
            let nochg = staying.fold(size, |subset, position| subset | 1 << position);
            let nochg: &[u32] = if nochg == 0 { &[] } else { &[nochg] };
            let connprop = Connprop { start: start.as_slice().into(), nochg: nochg.into() };
            write(buffer, (xid, credits, MsgType::Call, ROPT_CONNPROP), &connprop)
        })
    }

    /// Hands what we tell of rtrext-02 to `f`: nothing, where that is not used.
    fn with_abilities<R>(&self, f: impl FnOnce(&[Propval<'_>]) -> R) -> R {
        match &self.abilities {
            Some(abilities) => abilities.tell(f),
            None => f(&[]),
        }
    }

    // spec: xc3-4-f, xc3-4.2-c
    fn write_reqprop(&self, buffer: &mut [u8], xid: u32, credits: u32) -> Option<usize> {
        let word = self.wanted.map(|value| (value.code(), value.word().to_be_bytes()));
        let want: ArrayVec<Propval<'_>, 1> =
            word.iter().map(|(code, word)| Propval { which: *code, data: word }).collect();
        write(buffer, (xid, credits, MsgType::Call, ROPT_REQPROP), &Reqprop { want: want.as_slice().into() })
    }

    // spec: xc3-4-h, xc3-4.4-b, xc3-3-n
    fn write_updprop(&self, buffer: &mut [u8], xid: u32, credits: u32, ours: &Values) -> Option<usize> {
        // What holds now: since it changed, the peer may have asked for another value and been told of it.
        let changed: ArrayVec<Basic, 3> = self.changed.iter().map(|value| ours.get(*value)).collect();
        let words: ArrayVec<[u8; 4], 3> = changed.iter().map(|value| value.word().to_be_bytes()).collect();
        let values = changed.iter().zip(&words);
        let now: ArrayVec<Propval<'_>, 3> =
            values.map(|(value, word)| Propval { which: value.code(), data: word }).collect();
        write(buffer, (xid, credits, MsgType::Call, ROPT_UPDPROP), &Updprop { now: now.as_slice().into() })
    }
}

/// What becomes of a change that the peer asks for.
fn decide(wanted: Basic, ours: &Values, can_invalidate: bool) -> Decision {
    match wanted {
        // Below what every receiver takes there is nothing to be had.
        Basic::ReceiveBufferSize(size) if size < THRESHOLD_TWO && ours.receive_buffer_size > THRESHOLD_TWO => {
            Decision::Instead(Basic::ReceiveBufferSize(THRESHOLD_TWO))
        }
        Basic::ReceiveBufferSize(size) if (THRESHOLD_TWO..=ours.receive_buffer_size).contains(&size) => {
            Decision::Accept
        }
        // A larger one is told by ROPT_UPDPROP, when the receives of the old size are gone.
        Basic::ReceiveBufferSize(_) => Decision::Reject,
        Basic::RemoteInvalidation(on) if !on || can_invalidate => Decision::Accept,
        Basic::RemoteInvalidation(_) => Decision::Reject,
        Basic::BackwardSupport(support) if support.value() <= ours.backward_support.value() => Decision::Accept,
        Basic::BackwardSupport(_) => Decision::Reject,
    }
}

/// The next XID after `last` that no call has: for a message that begins nothing which could be mistaken.
pub(super) fn fresh(last: &mut u32, requests: &Requests, serving: &Serving) -> u32 {
    loop {
        *last = last.wrapping_add(1);
        if !requests.is_open(*last) && !serving.is_open(*last) {
            return *last;
        }
    }
}

/// XID, credits, direction and operation of a message.
type Head = (u32, u32, MsgType, u32);

/// Writes an operation with what it says; none if the buffer is too small.
fn write(buffer: &mut [u8], head: Head, info: &impl Encode) -> Option<usize> {
    let mut place = [0; 1024];
    let octets = info.encode_to_slice(&mut place).ok()?;
    optional(buffer, head, place.get(..octets)?)
}

fn optional(buffer: &mut [u8], (xid, credit, optdir, opttype): Head, optinfo: &[u8]) -> Option<usize> {
    let body = v2::Body::Optional(Optional { optdir, opttype, optinfo });
    XprtHdr { xid, vers: Version::Two.number(), credit, body }.encode_to_slice(buffer).ok()
}

#[cfg(test)]
mod tests;
