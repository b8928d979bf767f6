//! Messages that no correct peer sends.

use rpcrdma_proto::v2::rtr::{ROPT_REPTERR, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP};

use rpcrdma_proto::version::Version;

use super::end::End;
use super::fault::{Hostile, Seen};
use super::message::{Message, Origin};
use super::random::Random;
use super::world::World;

/// A message, word by word.
struct Words<'a> {
    message: &'a mut Message,
    count: usize,
}

impl Words<'_> {
    fn add(&mut self, words: &[u32]) {
        for word in words {
            self.message.set_word(self.count, *word);
            self.count += 1;
        }
    }
}

impl World {
    /// Delivers a message of a hostile peer, if there is a connection and a receive.
    pub(crate) fn forge(&mut self, pair: usize, to: usize, what: Hostile, how: u32) {
        if !self.is_up(pair, to) || self.pairs[pair].link.posted(to) == 0 {
            return;
        }
        let at = self.messages.take();
        let message = self.messages.get_mut(at);
        message.clear();
        (message.origin, message.sent_at) = (Origin::Forged, self.now);
        let mut words = Words { message, count: 0 };
        compose(
            &mut words,
            what,
            &self.pairs[pair].ends[to],
            &mut Random::new(how.into()),
        );
        // A dropped message, or an error for an unknown XID, changes no credits.
        let xid = words.message.word(0);
        let is_nobodys = self.pairs[pair].ends.iter().all(|end| {
            end.calls.iter().all(|call| call.xid != xid)
                && end.serving.iter().all(|one| one.xid != xid)
                && end.session.config().rtr.is_none()
        });
        let is_harmless = is_nobodys
            && matches!(
                what,
                Hostile::WrongVersion
                    | Hostile::UnknownProcedure
                    | Hostile::Padded
                    | Hostile::Done
                    | Hostile::UnknownReply
            );
        let bytes = 4 * words.count;
        let invalidate = words.message.invalidate;
        (message.length, message.header) = (bytes, bytes);
        let credits_forged = self.pairs[pair].link.credits_forged || !is_harmless;
        self.taint(pair);
        self.pairs[pair].link.credits_forged = credits_forged;
        if is_harmless && !credits_forged {
            self.seen(Seen::HarmlessForgery);
        }
        self.pairs[pair].link.again = true;
        self.stats.hostile(what);
        self.note(pair, to, || format!("forged: {what:?}"));
        let _ = self.pairs[pair].link.take(to);
        // A key that its end still has would be invalidated.
        if let Some(key) = invalidate {
            let _ = self.pairs[pair].ends[to].memory.invalidate(key);
        }
        // A reply of another version than its call is none (version-two-01, section 5.3).
        let remains = (what == Hostile::OtherVersion)
            .then(|| self.open_call(pair, to, xid))
            .flatten();
        self.hand_over(pair, to, at);
        if remains.is_some() && self.open_call(pair, to, xid) != remains {
            self.fail(format!("a reply of another version ends the call {xid:#x}"));
        }
        self.poll(pair, to);
    }

    /// The number of calls that the session of an end has outstanding, if one of them has this XID
    /// and the version is settled.
    fn open_call(&self, pair: usize, end: usize, xid: u32) -> Option<usize> {
        let this = &self.pairs[pair].ends[end];
        let is_open = this.calls.iter().any(|call| call.xid == xid);
        (is_open && this.session.version().is_some()).then(|| this.session.outstanding().0)
    }
}

/// A call of an end, if it has one.
fn open(end: &End, random: &mut Random) -> u32 {
    if end.calls.is_empty() {
        random.word()
    } else {
        end.calls[random.below(end.calls.len() as u64) as usize].xid
    }
}

/// Writes a message's words.
fn compose(words: &mut Words<'_>, what: Hostile, to: &End, random: &mut Random) {
    let any = random.word();
    let version = random.pick(&[1, 2]);
    let xid = if random.one_in(2) {
        any
    } else {
        open(to, random)
    };
    match what {
        Hostile::WrongVersion => {
            words.add(&[xid, random.pick(&[0, 3, any]), 1, 0, 0, 0, 0, 0, xid, 0])
        }
        Hostile::UnknownProcedure => {
            words.add(&[xid, version, 1, random.pick(&[6, any]), 0, 0, 0, 0, xid, 0])
        }
        Hostile::Padded => words.add(&[xid, 1, 1, 2, 4, 4, 0, 0, 0, xid, 0]),
        Hostile::Done => words.add(&[xid, 1, 1, 3, 0, 0, 0]),
        Hostile::UnknownReply => message(words, any, version, 1),
        Hostile::EarlyReply => message(words, open(to, random), version, 1),
        Hostile::Twice => {
            let xid = to.serving.first().map_or(any, |one| one.xid);
            message(words, xid, version, 0);
        }
        Hostile::ExtraCall => message(words, any, version, 0),
        Hostile::OtherVersion => {
            let one = to.session.version() == Some(Version::One);
            message(words, open(to, random), if one { 2 } else { 1 }, 1);
        }
        Hostile::MalformedProperties => {
            let code = random.pick(&[1, 2, 3, 4]);
            let direction = random.pick(&[0, 0, 1]);
            words.add(&[xid, 2, 1, 5, direction, code, 12]);
            words.add(&[
                random.pick(&[0, 1, 2, any]),
                random.pick(&[1, 2, 3, any]),
                random.pick(&[0, 4, any]),
            ]);
        }
        Hostile::UnknownOperation => words.add(&[xid, 2, 1, 5, random.pick(&[0, 1]), 77, 0]),
        Hostile::Error => {
            words.add(&[xid, version, 1, 4, random.pick(&[1, 1, 2, 3])]);
            if words.message.word(4) == 1 {
                words.add(&[random.pick(&[1, 1, 2, 3]), random.pick(&[1, 1, 2, 3])]);
            }
        }
        Hostile::WrongInvalidation => {
            message(words, open(to, random), version, 1);
            words.message.invalidate = Some(any);
        }
        Hostile::GroupRequest => {
            let xid = if random.one_in(2) {
                xid
            } else {
                served(to, random)
            };
            begin(words, xid, 0, random);
        }
        Hostile::GroupReply => begin(words, xid, 1, random),
        Hostile::Continuation => {
            let direction = random.pick(&[0, 1]);
            let xid = if random.one_in(2) {
                xid
            } else {
                served(to, random)
            };
            words.add(&[xid, 2, 1, 5, direction, ROPT_XMTCONT, 12]);
            words.add(&[
                random.pick(&[0, 1, 1, 2, any]),
                random.pick(&[ROPT_XMTREQ, ROPT_XMTRESP, any]),
            ]);
            words.add(&[random.pick(&[0, 4, 8, 8, 12, any]), xid, direction]);
        }
        Hostile::Report => {
            // Best of all about a reply that was sent.
            let sent = to
                .serving
                .iter()
                .find(|one| one.answered > 0)
                .map(|one| (one.xid, 1));
            let other = (
                if random.one_in(2) {
                    xid
                } else {
                    served(to, random)
                },
                random.pick(&[0, 1]),
            );
            report(
                words,
                sent.filter(|_| !random.one_in(3)).unwrap_or(other),
                random,
            );
        }
    }
}

/// A call that an end serves, if there is one.
fn served(end: &End, random: &mut Random) -> u32 {
    let calls = &end.serving;
    if calls.is_empty() {
        random.word()
    } else {
        calls[random.below(calls.len() as u64) as usize].xid
    }
}

/// The first transmission of a request or a reply, with an item or a direction.
fn begin(words: &mut Words<'_>, xid: u32, direction: u32, random: &mut Random) {
    let any = random.word();
    let length = random.pick(&[4, 64, 1024, any]);
    let item: &[u32] = match random.below(7) {
        0 => &[1, 8, length, 2, 0, 1, 0],
        1 => &[
            1,
            8,
            length,
            2,
            random.pick(&[0, 4, any]),
            2,
            0,
            random.pick(&[1, any]),
        ],
        2 => &[1, 8, length, 1, 1, any, length, 0, 0],
        3 => &[1, 8, length, random.pick(&[5, 6, any])],
        _ => &[0],
    };
    let directed: &[u32] = match random.below(5) {
        0 => &[1, 0, 100, 1, 4, 2],
        1 => &[1, 0, 100, 1, 4, 3, 1, any, length, 0, 0],
        2 => &[1, 0, 100, 1, 4, 4, 64, 1, any, length, 0, 0],
        _ => &[0],
    };
    let count = random.pick(&[0, 1, 1, 2, 3, any]);
    let section = random.pick(&[0, 4, 8, 8, 8, 12, any]);
    let (code, directed, reserve): (_, _, &[u32]) = if direction == 0 {
        (ROPT_XMTREQ, directed, &[1])
    } else {
        (ROPT_XMTRESP, &[], &[])
    };
    let info = item.len() + directed.len() + reserve.len() + 2;
    words.add(&[xid, 2, 1, 5, direction, code, 4 * info as u32]);
    words.add(item);
    words.add(directed);
    words.add(&[count]);
    words.add(reserve);
    words.add(&[section, xid, direction]);
}

/// A report about any message.
fn report(words: &mut Words<'_>, (xid, direction): (u32, u32), random: &mut Random) {
    let any = random.word();
    let which = random.pick(&[1, 2, 3, 4, 5, 6, 7, 8, any]);
    let part = [xid, direction, random.pick(&[0, 1, any])];
    let lead: &[u32] = if random.one_in(3) {
        &[1, xid, 1 - direction, 0]
    } else {
        &[0]
    };
    let info: &[u32] = match which {
        3 => &[],
        1 | 2 | 4 | 5 => &[any, 1],
        _ => &[any, 0, 4],
    };
    let length = part.len() + lead.len() + 1 + info.len();
    words.add(&[xid, 2, 1, 5, 1 - direction, ROPT_REPTERR, 4 * length as u32]);
    words.add(&part);
    words.add(lead);
    words.add(&[which]);
    words.add(info);
}

/// A call or a reply without chunks.
fn message(words: &mut Words<'_>, xid: u32, version: u32, direction: u32) {
    words.add(&[xid, version, 1, 0]);
    if version == 2 {
        words.add(&[direction]);
    }
    words.add(&[0, 0, 0, xid, direction, 0, 0, 0, 0]);
}
