//! Messages in transmissions of rtrext-02: checks of the sent groups and of their reassembly.

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{
    Config, Properties, ReplyLocation, SendOwner, ServedCallId, Transmit,
};
use rpcrdma_proto::continuation::{
    GroupError, GroupErrorReport, OperationSet, ReassembledMessage, ReducedItem, Reduction,
    RtrExtConfig, Source,
};
use rpcrdma_proto::header::{Header, HeaderBody};
use rpcrdma_proto::v2::MsgType;
use rpcrdma_proto::v2::rtr::{Loc, ROPT_XMTREQ, ROPT_XMTRESP, Req, Resp};
use rpcrdma_proto::version::Version;
use rpcrdma_proto::xdr::Decode;

use super::end::Serving;
use super::fault::Seen;
use super::link::{name, other};
use super::memory::{Denied, State};
use super::message::{Message, Origin};
use super::spec::{Answer, Spec};
use super::world::{What, World};

/// The decoded beginning of a group.
enum Opener<'a> {
    Request(Req<'a>),
    Reply(Resp<'a>),
}

fn opener(message: &Message) -> Option<Opener<'_>> {
    message.share.filter(|share| share.number == 0)?;
    let HeaderBody::Operation { code, info, .. } =
        Header::parse(message.bytes(), Version::Two).ok()?.body
    else {
        return None;
    };
    match code {
        ROPT_XMTREQ => Req::from_bytes(info).ok().map(Opener::Request),
        ROPT_XMTRESP => Resp::from_bytes(info).ok().map(Opener::Reply),
        _ => None,
    }
}

/// The messages that a call takes, and the receives that are reserved for its reply beyond one.
pub(crate) fn outline(message: &Message) -> (u32, u32) {
    match opener(message) {
        Some(Opener::Request(request)) => (request.count, request.rsbuf),
        _ => (1, 0),
    }
}

/// The settings of rtrext-02 that an end goes by.
fn settings(config: &Config) -> Option<RtrExtConfig> {
    config
        .rtr
        .filter(|_| config.properties != Properties::None && config.max_version == Version::Two)
}

/// Whether these operations are among those that an end takes.
fn takes(rtr: Option<RtrExtConfig>, these: OperationSet, count: u32) -> bool {
    let these = if count > 1 {
        these.union(OperationSet::CONTINUATIONS)
    } else {
        these
    };
    rtr.is_some_and(|rtr| rtr.operations.contains(these))
}

/// How the items of a message travel, in the words of what is to be seen.
fn seen_of(places: impl Iterator<Item = Reduction>, call: bool) -> impl Iterator<Item = Seen> {
    let (mut placed, mut explicit) = (false, false);
    let all: Vec<_> = places
        .filter_map(|how| match how {
            Reduction::Placed(_) => {
                placed = true;
                Some(if call {
                    Seen::PlacedItem
                } else {
                    Seen::PlacedResult
                })
            }
            Reduction::Explicit(_) => {
                explicit = true;
                None
            }
            Reduction::TooShort => Some(Seen::TooShort),
            Reduction::NoItem => Some(Seen::NoItem),
        })
        .collect();
    all.into_iter()
        .chain((placed && explicit).then_some(Seen::MixedExplicit))
}

/// What it is to meet a report of such an error.
const fn seen_error(why: &GroupError) -> Seen {
    match why {
        GroupError::HeaderType(_) => Seen::BadHeaderType,
        GroupError::Operation(_) => Seen::BadOperation,
        GroupError::Continuation => Seen::BadContinuation,
        GroupError::Sequence(_) => Seen::BadSequence,
        GroupError::Xid(_) => Seen::BadXid,
        GroupError::Target(_) => Seen::BadTarget,
        GroupError::Offset(_) => Seen::BadOffset,
        GroupError::Payload(_) => Seen::BadPayload,
    }
}

impl World {
    /// Nothing goes between the transmissions of a message.
    pub(crate) fn check_order(&mut self, pair: usize, end: usize, transmit: &Transmit) {
        let this = &mut self.pairs[pair].ends[end];
        let expected = this.group.take();
        this.group = transmit
            .transmission
            .filter(|share| !share.last)
            .map(|share| (transmit.owner, share.number + 1));
        let came = transmit.transmission.map_or(0, |share| share.number);
        let fits = match expected {
            None => came == 0,
            Some((what, number)) => {
                what == transmit.owner && number == came && transmit.transmission.is_some()
            }
        };
        if !fits {
            self.fail(format!("sends {transmit:?}, where {expected:?} goes on"));
        }
    }

    /// Checks the beginning of a group against the capabilities of its receiver.
    pub(crate) fn check_group(&mut self, pair: usize, end: usize, at: usize) {
        let message = self.messages.get(at);
        let [client, server] = &self.pairs[pair].ends;
        let (this, peer) = if end == super::script::CLIENT {
            (client, server)
        } else {
            (server, client)
        };
        let (ours, theirs) = (
            settings(this.session.config()),
            settings(peer.session.config()),
        );
        let link = &self.pairs[pair].link;
        let fits = match opener(message) {
            None => message.share.is_none(),
            Some(Opener::Request(request)) => {
                let limit = theirs.map_or(1, |rtr| rtr.request_limit);
                let untold = this.session.peer_capabilities().operations.is_none();
                let tries = untold && ours.is_some_and(|rtr| rtr.probe);
                let reserve = ours.map_or(0, |rtr| rtr.reply_receives);
                let known = takes(theirs, OperationSet::REQUESTS, request.count);
                (1..=limit).contains(&request.count) && request.rsbuf <= reserve && (known || tries)
            }
            Some(Opener::Reply(reply)) => {
                let limit = ours.map_or(1, |rtr| rtr.response_limit);
                let reserve = link.credits[other(end)]
                    .reserve(message.word(0))
                    .unwrap_or(0);
                let most = limit.min(reserve.max(1));
                (1..=most).contains(&reply.count)
                    && takes(theirs, OperationSet::RESPONSES, reply.count)
            }
        };
        let current = this.link == link.number;
        if !fits && current && !link.tainted {
            self.fail(format!(
                "the {} begins a group that is not taken",
                name(end)
            ));
        }
        if self.messages.get(at).share.is_some() {
            let call = matches!(self.messages.get(at).origin, Origin::Call { .. });
            self.seen(if call {
                Seen::GroupRequest
            } else {
                Seen::GroupReply
            });
            self.see_xid(pair, end, at, call);
            self.see_items(at, call);
        }
    }

    /// Looks whether the XID of a group is that of a call of the other direction, too.
    fn see_xid(&mut self, pair: usize, end: usize, at: usize, call: bool) {
        let caller = if call { other(end) } else { end };
        let xid = self.messages.get(at).word(0);
        if self.pairs[pair].ends[caller].call(xid).is_some() {
            self.seen(if call {
                Seen::GroupRequestXidMeets
            } else {
                Seen::GroupReplyXidMeets
            });
        }
    }

    fn see_items(&mut self, at: usize, call: bool) {
        let how = |place: Loc<'_>| match place {
            Loc::Exrw(_) => Reduction::Explicit(0..0),
            Loc::Tbsn(_) => Reduction::Placed(0..0),
            Loc::Tooshort => Reduction::TooShort,
            Loc::Noitem => Reduction::NoItem,
        };
        let seen: Vec<Seen> = match opener(self.messages.get(at)) {
            Some(Opener::Request(request)) => {
                seen_of(request.dp.iter().map(|item| how(item.r#where)), call).collect()
            }
            Some(Opener::Reply(reply)) => {
                seen_of(reply.dp.iter().map(|item| how(item.r#where)), call).collect()
            }
            None => Vec::new(),
        };
        seen.into_iter().for_each(|seen| self.seen(seen));
    }

    /// A call arrived in transmissions, with parts to be read.
    pub(crate) fn gather(
        &mut self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        message: Box<ReassembledMessage>,
    ) {
        let mut serving = self.take_over_group(pair, end, call, &message);
        serving.reading = true;
        self.done_with(pair, end, message, true);
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

    /// A call arrived in transmissions, with nothing to be read.
    pub(crate) fn group_arrived(
        &mut self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        xid: u32,
        message: Box<ReassembledMessage>,
    ) {
        let mut serving = self.take_over_group(pair, end, call, &message);
        (serving.announced, serving.xid) = (true, xid);
        if message.has_reads() {
            self.fail(format!("the call {xid:#x} came before it was read"));
        }
        self.done_with(pair, end, message, true);
        self.pairs[pair].ends[end].serving.push(serving);
    }

    /// What is known of a call whose transmissions were just named. All of its bytes are where
    /// they were sent.
    pub(crate) fn take_over_group(
        &mut self,
        pair: usize,
        end: usize,
        call: ServedCallId,
        message: &ReassembledMessage,
    ) -> Serving {
        let genuine = self.take_buffers(pair, end, message);
        let first = message
            .buffers
            .first()
            .map_or(0, |came| came.buffer.0 as usize);
        let mut serving = self.serving_of(pair, end, call, first);
        serving.spec = serving.spec.filter(|_| genuine);
        let reads = message.sources().filter_map(|source| match source {
            Source::Read { from, .. } => Some(from),
            _ => None,
        });
        serving.reads.extend(reads);
        let Some(spec) = serving.spec else {
            return serving;
        };
        let peer = &self.pairs[pair].ends[other(end)];
        let current = serving.link != 0 && serving.link == self.pairs[pair].link.number;
        let is_read = |at: u32, from: &Segment| match peer.memory.access(from, false) {
            Ok(place) => super::check::position(&spec, &place) == Some(at),
            Err(Denied::Dead(State::GivenUp)) => true,
            Err(_) => !current,
        };
        let found = self.length_of(message, |at, length| spec.is_padding(at, length), is_read);
        if found != Ok(spec.length) || message.length != spec.length {
            self.fail(format!(
                "the call {:#x} of {spec:?} came as {message:?}: {found:?}",
                serving.xid
            ));
        }
        serving
    }

    /// All receive buffers of a message are named, once: whether its sender has sent all of it so,
    /// for the buffers that are there.
    fn take_buffers(&mut self, pair: usize, end: usize, message: &ReassembledMessage) -> bool {
        let (mut genuine, mut ordered) = (true, true);
        let first = message
            .buffers
            .first()
            .map(|came| self.messages.get(came.buffer.0 as usize).origin);
        for (number, came) in message.buffers.iter().enumerate() {
            let at = came.buffer.0 as usize;
            if !self.pairs[pair].ends[end].named(at) {
                self.fail(format!("names the buffer {at}, which was not kept for it"));
            }
            let part = self.messages.get(at);
            let last = number + 1 == message.buffers.len();
            genuine &= part.origin != Origin::Forged;
            ordered &= Some(part.origin) == first
                && part
                    .share
                    .is_some_and(|share| share.number as usize == number && share.last == last);
        }
        if genuine && !ordered {
            self.fail(format!(
                "puts together what is not one message: {message:?}"
            ));
        }
        genuine && !self.pairs[pair].link.properties_forged
    }

    /// Bytes of a message that are each in their place; an error says which is not.
    fn length_of(
        &self,
        message: &ReassembledMessage,
        is_padding: impl Fn(u32, u32) -> bool,
        is_read: impl Fn(u32, &Segment) -> bool,
    ) -> Result<u32, Source> {
        let mut next = 0;
        for source in message.sources() {
            let (at, length, fits) = match &source {
                Source::Received { at, from } => {
                    let part = self.messages.get(from.buffer.0 as usize);
                    let length = from.range.end - from.range.start;
                    (*at, length, part.origin_of(from.range.clone()) == Some(*at))
                }
                Source::Read { at, from } => (*at, from.length, is_read(*at, from)),
                Source::Padding { at, length } => (*at, *length, is_padding(*at, *length)),
            };
            if at != next || !fits {
                return Err(source);
            }
            next = at + length;
        }
        Ok(next)
    }

    /// Returns the buffers of a message, except the first one if it is `kept`, and its memory.
    pub(crate) fn done_with(
        &mut self,
        pair: usize,
        end: usize,
        message: Box<ReassembledMessage>,
        kept: bool,
    ) {
        message
            .buffers
            .iter()
            .skip(kept.into())
            .for_each(|came| self.messages.free(came.buffer.0 as usize));
        if self.pairs[pair].ends[end].random.one_in(2) {
            self.session(pair, end, |session| session.recycle(message));
        }
    }

    /// Checks a reply in transmissions against the responder's message.
    pub(crate) fn check_group_reply(
        &mut self,
        pair: usize,
        end: usize,
        xid: u32,
        reply: &ReplyLocation,
    ) {
        let Some(message) = &reply.reassembled else {
            return;
        };
        if !self.take_buffers(pair, end, message) {
            return;
        }
        let part = self.messages.get(reply.buffer.0 as usize);
        let Origin::Reply {
            xid: of, answer, ..
        } = part.origin
        else {
            return self.fail(format!("{:?} is no reply", part.origin));
        };
        let Some(spec) = self.pairs[pair].ends[end].call(xid).map(|call| call.spec) else {
            return;
        };
        let part = self.messages.get(reply.buffer.0 as usize);
        let within = |at: u32, from: &Segment| is_within(&answer, at, from.length);
        let found = self.length_of(message, |at, length| answer.is_padding(at, length), within);
        let fits = of == xid
            && found == Ok(answer.length)
            && message.length == answer.length
            && reply.inline.is_empty()
            && reply.long.is_none()
            && super::check::lengths(&part.written, reply, &spec)
            && part
                .written
                .iter()
                .all(|written| super::check::is_of_result(written, &answer, &spec))
            && message
                .items
                .iter()
                .all(|item| is_result(item, &answer, &spec));
        if !fits {
            let written = part.written.clone();
            self.fail(format!(
                "the reply to {xid:#x}, {answer:?}, came as {reply:?}: {found:?}, \
                written {written:?}"
            ));
        }
    }

    /// A group was broken, which only a fault explains.
    pub(crate) fn told_broken(
        &mut self,
        pair: usize,
        end: usize,
        report: GroupErrorReport,
        ours: bool,
    ) {
        if !self.pairs[pair].tainted {
            self.fail(format!("a group was broken: {report:?}"));
        }
        if ours {
            // A call of the other direction may have the XID of a reply.
            let parts = [Some(report.bad), report.lead].into_iter().flatten();
            for part in parts.filter(|part| part.direction == MsgType::Call) {
                self.pairs[pair].ends[end]
                    .call(part.xid)
                    .into_iter()
                    .for_each(|call| (call.reported, call.refused) = (true, true));
            }
        } else {
            self.seen(seen_error(&report.why));
        }
    }

    /// The transmissions that have not gone never will: their connection is gone.
    pub(crate) fn cut(&mut self, pair: usize, end: usize) {
        let this = &mut self.pairs[pair].ends[end];
        let Some((what, _)) = this.group.take() else {
            return;
        };
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
        self.seen(Seen::CutGroup);
    }

    /// A receive buffer of a message that came to nothing.
    pub(crate) fn freed(&mut self, pair: usize, end: usize, message: Box<ReassembledMessage>) {
        for came in &message.buffers {
            let at = came.buffer.0 as usize;
            if !self.pairs[pair].ends[end].named(at) {
                return self.fail(format!("frees the buffer {at}, which was not kept"));
            }
            if !self.pairs[pair].tainted {
                self.seen(Seen::CutGroup);
            }
            self.messages.free(at);
        }
        self.pairs[pair].ends[end].session.recycle(message);
    }
}

/// Whether bytes are of one result.
fn is_within(answer: &Answer, at: u32, length: u32) -> bool {
    answer
        .items()
        .any(|item| item.position <= at && at + length <= item.position + item.length)
}

/// Whether what is told of a result is so.
fn is_result(told: &ReducedItem, answer: &Answer, spec: &Spec) -> bool {
    let Some(number) = told.result else {
        return false;
    };
    let (how, place) = (&told.reduction, (told.position, told.length));
    match answer.directed(number, spec) {
        None => *how == Reduction::NoItem && place == (0, 0),
        Some(item) => *how != Reduction::NoItem && place == (item.position, item.length),
    }
}
