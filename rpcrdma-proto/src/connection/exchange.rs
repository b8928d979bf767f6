//! The operations of transport properties (xcharext-03, section 4), or of transport characteristics (xcharext-02, section 4): the
//! first user of `RDMA2_OPTIONAL`, and the place for operations and properties that the consumer registers.
//!
//! What one end says to the other is the same in both drafts, but for changes that are pending (`pending`); how it travels is not
//! (`wire`).

mod pending;
mod wire;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use super::config::Config;
use super::link::Link;
use super::requester::Requests;
use super::responder::Serving;
use crate::continuation::Abilities;
use crate::credit::Requester;
use crate::property::{Answer, Basic, Decision, Disposition, Values};
use crate::v2::MsgType;
use crate::v2::properties::{
    PROP_RBSIZ, Propid, Propval, ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP, Reqprop, Updprop,
};
use crate::v2::rtr::{XPROP_RBSTRUCT, XPROP_RTRSUPP};
use crate::version::{THRESHOLD_TWO, Version};
use crate::xdr;
pub(super) use pending::Ended;
use pending::{Changes, Wish, Wishes, lifts};
use wire::{Draft, Operation, Response, Update};

/// Properties and operations of others that may be registered.
const REGISTERED: usize = 8;
/// Octets of a registered property's value.
pub(super) const VALUE: usize = 64;
/// Octets of what a registered operation says.
const INFO: usize = 256;
/// Operations that may wait to be sent.
const WAITING: usize = 8;

/// What is to be told of properties, and asked: the same at both ends.
// spec: xc3-1.3-d, xc2-1.3-d
#[derive(Debug)]
pub(super) struct Exchange {
    /// The draft whose operations are spoken here, if any.
    draft: Option<Draft>,
    /// Answers to the peer's requests, each with its XID and the credits that the request asked for: no more than are
    /// granted.
    answers: VecDeque<(u32, u32, Answer)>,
    /// The change that we have asked for, or are to ask for; none to probe.
    wanted: Option<Wish>,
    /// The XID of the request that is under way.
    request: Option<u32>,
    /// Earlier ones, to which the peer has answered that they are pending.
    pending: Wishes,
    /// Properties of ours that have changed and are to be told.
    changed: Changes,
    /// Properties of others: ours, and the peer's.
    properties: Vec<Registered>,
    operations: ArrayVec<u32, REGISTERED>,
    outgoing: VecDeque<Outgoing>,
    /// What we tell of rtrext-02, which stays as it is; none where that is not used.
    abilities: Option<Box<Abilities>>,
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
    /// The peer has told properties: what has become of a change of them that was pending, if it was said.
    Changed(Option<Ended>),
    /// The peer has been asked for another size of our receive buffers, which is to be raised.
    Raise(u32),
    /// Our receive buffers may be smaller from now on.
    Lower(u32),
    /// Our request is answered.
    Answered(Ended),
}

/// The first code for experiments.
// spec: xc3-6.2-a, xc3-6.2-b, xc2-6.2-a
const EXPERIMENTS: u32 = 4_294_967_040;

impl Exchange {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            draft: Draft::of(config.properties),
            answers: VecDeque::new(),
            wanted: None,
            request: None,
            pending: Wishes::default(),
            changed: Changes::default(),
            properties: Vec::new(),
            operations: ArrayVec::new(),
            outgoing: VecDeque::new(),
            abilities: config.rtr.as_ref().map(|rtr| Box::new(rtr.abilities())),
            most: config.receive_size_most,
            can_invalidate: config.remote_invalidation,
        }
    }

    /// A new connection: nothing of the last one is still to be said.
    pub(super) fn connected(&mut self) {
        self.answers.clear();
        self.outgoing.clear();
        self.changed.clear();
        (self.wanted, self.request, self.pending) = (None, None, Wishes::default());
        for registered in &mut self.properties {
            registered.theirs = None;
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.draft.is_some()
    }

    /// Whether this end knows an operation.
    // spec: xc3-4-i, xc2-4-e, v2-3.3-a
    pub(super) fn knows(&self, code: u32) -> bool {
        self.draft.is_some() && matches!(code, ROPT_CONNPROP | ROPT_REQPROP | ROPT_RESPROP | ROPT_UPDPROP)
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
    // spec: xc3-6.1-a, xc3-6.1-c, xc2-6.1-a, xc2-6.1-c
    pub(super) fn register_property(&mut self, code: Propid, value: &[u8]) -> Result<(), RegisterError> {
        let is_taken = self.abilities.is_some() && code == XPROP_RTRSUPP;
        if code < EXPERIMENTS || is_taken || self.properties.iter().any(|one| one.code == code) {
            return Err(RegisterError::Code);
        }
        let ours = value.try_into().map_err(|_| RegisterError::Long)?;
        if self.properties.len() == REGISTERED {
            return Err(RegisterError::Full);
        }
        self.properties.push(Registered { code, ours, theirs: None });
        Ok(())
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

    /// Whether a request to change this property must wait.
    // spec: xc2-4.4-p
    pub(super) fn is_busy(&self, code: Propid) -> bool {
        self.is_asking() || self.pending.has(code)
    }

    /// A request of ours begins: for a change of what the peer has, or to find out the version.
    pub(super) fn ask(&mut self, xid: u32, wanted: Option<Basic>, peer: &Values) {
        (self.request, self.wanted) = (Some(xid), wanted.map(|value| Wish::new(value, peer)));
    }

    /// A request of ours has ended without an answer that says more than that: it counts as rejected. `by_error` says whether it
    /// was, by an error; or else by an answer that can't be read.
    // spec: xc3-3-m, xc2-3-i, xc2-3.1-j
    pub(super) fn unanswered(&mut self, by_error: bool, link: &mut Link) -> Option<Ended> {
        self.request = None;
        let wish = self.wanted.take()?;
        if let Basic::ReceiveBufferSize(size) = wish.value {
            link.asked_size = None;
            // The answer may have said that the size is smaller now: that of the other draft can't be read.
            let may_be_smaller = !by_error && self.draft == Some(Draft::Characteristics);
            if may_be_smaller && size < link.peer.values().receive_buffer_size {
                link.peer.changed(wish.value);
            }
        }
        Some(Ended { asked: wish.value, value: None })
    }

    /// The connection is gone: nothing will come of what was asked for.
    // spec: xc3-3-m, xc2-3-i
    pub(super) fn lost(&mut self) -> impl Iterator<Item = Ended> + use<> {
        self.request = None;
        let all = self.wanted.take().into_iter().chain(self.pending.take());
        all.map(|wish| Ended { asked: wish.value, value: None })
    }

    /// A property of ours has changed, and the peer is to be told.
    pub(super) fn update(&mut self, value: Basic) {
        self.changed.push(value);
    }

    /// No larger size of our receive buffers is on its way: a peer that waits for one is told.
    // spec: xc2-4.3-k, xc2-4.4-h
    pub(super) fn grows_no_more(&mut self, size: u32) {
        if self.changed.grows {
            self.changed.push(Basic::ReceiveBufferSize(size));
        }
    }

    /// An operation of the peer's, where our receive buffers have `posted` octets from now on.
    ///
    /// # Errors
    /// It is malformed.
    // spec: xc3-2.1-g, xc3-2.1-h, xc3-2.1-i, xc3-2.3-b, xc3-2.3-c, xc3-2.3-d, xc3-4-a, xc3-4-b, xc3-4-c
    // spec: xc2-2.1-d, xc2-2.3-d, xc2-4-g, xc2-4-h
    pub(super) fn told(
        &mut self,
        xid: u32,
        code: u32,
        credits: u32,
        info: &[u8],
        posted: u32,
        link: &mut Link,
    ) -> xdr::Result<Told> {
        link.speaks = true;
        let Some(draft) = self.draft else { return Ok(Told::Nothing) };
        match draft.read(code, info)? {
            Some(Operation::Start(connprop)) => {
                link.peer.connected(&connprop)?;
                self.keep(connprop.start.iter());
                Ok(Told::Changed(None))
            }
            Some(Operation::Ask(request)) => {
                let (answer, told) = self.asked(draft, &request, posted, link)?;
                self.answers.push_back((xid, credits, answer));
                Ok(told)
            }
            Some(Operation::Answer(response)) => self.answered(xid, &response, link),
            Some(Operation::Update(update)) => self.updated(&update, link),
            None => Ok(Told::Nothing),
        }
    }

    /// The peer's properties have changed.
    // spec: xc2-4.4-a, xc2-4.4-d, xc2-4.4-g, xc2-4.4-n, xc2-4.4-o, xc2-4.4-p
    fn updated(&mut self, update: &Update<'_>, link: &mut Link) -> xdr::Result<Told> {
        let now = update.now();
        link.peer.updated(&Updprop { now })?;
        self.keep(now.iter());
        let ended = if update.clears { self.pending.cleared(&now, link.peer.values()) } else { None };
        // An update of something else does not end what we have asked for.
        let tells_size = |which| which == PROP_RBSIZ || (self.abilities.is_some() && which == XPROP_RBSTRUCT);
        if now.iter().any(|value| tells_size(value.which)) {
            let is_open = self.wanted.is_some_and(Wish::is_size) || self.pending.has(PROP_RBSIZ);
            let size = link.peer.values().receive_buffer_size;
            link.asked_size = link.asked_size.filter(|asked| !lifts(size, *asked, is_open));
        }
        Ok(Told::Changed(ended))
    }

    /// Takes over the values of registered properties, but for those that are too long to be kept.
    fn keep<'a>(&mut self, values: impl Iterator<Item = Propval<'a>>) {
        for value in values {
            if let Some(registered) = self.properties.iter_mut().find(|one| one.code == value.which) {
                registered.theirs = value.data.try_into().ok();
            }
        }
    }

    /// The peer asks for changes of our properties: the answer, and what there is to be done for it.
    // spec: xc3-3.1-g, xc3-3.1-h, xc3-3.1-i, xc3-4.2-a, xc3-4.2-b, xc3-4-k
    // spec: xc2-3.1-g, xc2-3.1-h, xc2-3.1-i, xc2-4.2-a, xc2-4.2-b, xc2-4.3-i
    fn asked(
        &mut self,
        draft: Draft,
        request: &Reqprop<'_>,
        posted: u32,
        link: &mut Link,
    ) -> xdr::Result<(Answer, Told)> {
        let (mut next, mut told) = (link.ours, Told::Nothing);
        let (most, has_structure, mut pends) = (self.most, self.has_structure(), false);
        let means = Means { draft, can_invalidate: self.can_invalidate, most, posted };
        let answer = Answer::to(request, link.peer.knowledge(), |wanted| {
            // Buffers that have a structure have its length.
            let decision = match wanted {
                Basic::ReceiveBufferSize(_) if has_structure => return Decision::Reject,
                _ => means.decide(wanted, &next),
            };
            match (decision, wanted) {
                (Decision::Accept, Basic::ReceiveBufferSize(size)) => told = Told::Lower(size),
                (Decision::Instead(Basic::ReceiveBufferSize(size)), _) => told = Told::Lower(size),
                (Decision::Reject, Basic::ReceiveBufferSize(size)) => told = Told::Raise(size.min(most)),
                (Decision::Pend, Basic::ReceiveBufferSize(size)) => {
                    (told, pends) = (Told::Raise(size.min(most)), true);
                }
                _ => {}
            }
            match decision {
                Decision::Accept => next.set(wanted),
                Decision::Instead(value) => next.set(value),
                Decision::Reject | Decision::Pend => {}
            }
            decision
        })?;
        link.ours = next;
        if pends {
            self.changed.pend();
        }
        Ok((answer, told))
    }

    /// The peer answers our request.
    // spec: xc3-4.3-a, xc3-4.3-b, xc3-3.1-j, xc2-4.3-a, xc2-4.3-b, xc2-4.3-d, xc2-4.3-i, xc2-3.1-j
    fn answered(&mut self, xid: u32, response: &Response<'_>, link: &mut Link) -> xdr::Result<Told> {
        if self.request != Some(xid) {
            return Ok(Told::Nothing);
        }
        let Some(wish) = self.wanted else {
            self.request = None;
            return Ok(Told::Nothing);
        };
        let word = wish.value.word().to_be_bytes();
        let want = [Propval { which: wish.value.code(), data: &word }];
        let held = match response.disposition(&Reqprop { want: (&want).into() }) {
            Some(Disposition::Done(_)) => Some(wish.value),
            Some(Disposition::Other(other)) => Basic::of(&other)?,
            Some(Disposition::Pending(_)) => {
                (self.request, self.wanted) = (None, None);
                self.pending.push(wish);
                return Ok(Told::Nothing);
            }
            Some(Disposition::Rejected(_)) | None => None,
        };
        (self.request, self.wanted) = (None, None);
        if wish.is_size() {
            link.asked_size = None;
        }
        if let Some(held) = held {
            link.peer.changed(held);
        }
        Ok(Told::Answered(Ended { asked: wish.value, value: held }))
    }

    /// Writes the next message of the exchange that may go, and returns the octets of its header.
    // spec: v2-4.2.2-e, xc3-4-g, xc3-2.3-a, xc3-2.3-e, xc3-2.3-f, xc3-2.3-g, xc3-4-d, xc3-4-l, xc3-4.1-a, xc3-4.1-e
    // spec: xc2-2.3-a, xc2-2.3-b, xc2-2.3-c, xc2-2.3-d, xc2-4-h, xc2-4.1-a, xc2-4.1-e
    #[cold]
    pub(super) fn transmit(
        &mut self,
        buffer: &mut [u8],
        link: &mut Link,
        requests: &mut Requests,
        serving: &mut Serving,
        own_xid: &mut u32,
    ) -> Option<usize> {
        let draft = self.draft?;
        if self.is_first(link) {
            let xid = fresh(own_xid, requests, serving);
            let octets = self.write_start(buffer, xid, requests.credits.wanted(), link)?;
            link.told = true;
            requests.credits.first();
            return Some(octets);
        }
        // The requester of an operation has its credit back with the next reply: what answers it goes before that.
        if let Some(octets) = self.transmit_answer(buffer, link, serving.credits.next(1)) {
            return Some(octets);
        }
        if let Some((xid, asked, answer)) = self.answers.front() {
            let octets = draft.write_answer(buffer, *xid, serving.credits.next(*asked), answer)?;
            serving.credits.reply(*asked);
            self.answers.pop_front();
            return Some(octets);
        }
        // Replies that wait were made for the sizes that hold now: a request may ask for less.
        if !serving.has_replies()
            && let Some(xid) = requests.transmit_properties()
        {
            let wanted = self.wanted.map(|wish| wish.value);
            return wire::write_ask(buffer, xid, requests.credits.wanted(), wanted);
        }
        if self.changed.is_empty() && self.outgoing.is_empty() {
            return None;
        }
        let xid = fresh(own_xid, requests, serving);
        self.transmit_one_way(draft, buffer, link, &mut requests.credits, xid)
    }

    fn transmit_one_way(
        &mut self,
        draft: Draft,
        buffer: &mut [u8],
        link: &Link,
        credits: &mut Requester,
        xid: u32,
    ) -> Option<usize> {
        link.version.filter(|version| *version == Version::Two)?;
        if link.told && !self.changed.is_empty() && credits.one_way() {
            let changed = self.changed.as_slice();
            let (octets, told) = draft.write_update(buffer, xid, credits.wanted(), changed, &link.ours)?;
            self.changed.told(told);
            return Some(octets);
        }
        let next = self.outgoing.front().filter(|next| next.call)?;
        let octets = wire::optional(buffer, (next.xid, credits.wanted(), MsgType::Call, next.code), &next.info)?;
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
        let octets = wire::optional(buffer, (next.xid, credits, MsgType::Reply, next.code), &next.info)?;
        self.outgoing.remove(at);
        Some(octets)
    }

    /// Whether the next message tells our properties.
    pub(super) fn is_first(&self, link: &Link) -> bool {
        !link.told && link.speaks && self.is_enabled() && link.version == Some(Version::Two)
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
}

/// What there is for changes that the peer asks for.
struct Means {
    draft: Draft,
    can_invalidate: bool,
    /// Octets to which our receive buffers may be raised, and of those that are posted from now on.
    most: u32,
    posted: u32,
}

impl Means {
    /// What becomes of a change.
    fn decide(&self, wanted: Basic, ours: &Values) -> Decision {
        match wanted {
            Basic::ReceiveBufferSize(size) => self.decide_size(size, ours.receive_buffer_size),
            Basic::RemoteInvalidation(on) if !on || self.can_invalidate => Decision::Accept,
            Basic::RemoteInvalidation(_) => Decision::Reject,
            Basic::BackwardSupport(support) if support.value() <= ours.backward_support.value() => Decision::Accept,
            Basic::BackwardSupport(_) => Decision::Reject,
        }
    }

    // spec: xc2-4.3-i, xc2-4.3-j
    fn decide_size(&self, wanted: u32, ours: u32) -> Decision {
        let grown = wanted.min(self.most);
        match self.draft {
            _ if (THRESHOLD_TWO..=ours).contains(&wanted) => Decision::Accept,
            // Below what every receiver takes there is nothing to be had.
            Draft::Properties if wanted < THRESHOLD_TWO && ours > THRESHOLD_TWO => {
                Decision::Instead(Basic::ReceiveBufferSize(THRESHOLD_TWO))
            }
            // A larger one is told by ROPT_UPDPROP, when the receives of the old size are gone.
            Draft::Properties => Decision::Reject,
            // By ROPT_UPDXCH, which says that it is the answer, if there is something larger to come.
            Draft::Characteristics if grown > ours && grown >= self.posted => Decision::Pend,
            Draft::Characteristics => Decision::Reject,
        }
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

#[cfg(test)]
mod tests;
