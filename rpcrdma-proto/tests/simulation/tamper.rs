//! Faults of the transmissions of a group on their way.

use rpcrdma_proto::v2::rtr::ROPT_XMTRESP;

use super::fault::Fault;
use super::link::Until;
use super::message::{Message, Origin};
use super::random::Random;
use super::world::World;

/// The item is placed by the Send.
const XMPTYPE_TBSN: u32 = 2;

impl World {
    /// Puts a message on its way, unless a fault waits for such a one.
    pub(crate) fn tamper(&mut self, pair: usize, end: usize, at: usize) {
        let (xid, share) = (self.messages.get(at).word(0), self.messages.get(at).share);
        let is_part = share.is_some_and(|share| share.number > 0 || !share.last);
        let link = &mut self.pairs[pair].link;
        if !link.held[end].is_empty() {
            if link.until[end] == Until::Another && share.is_some_and(|share| share.number > 0) {
                return link.held[end].push(at);
            }
            let held = std::mem::take(&mut link.held[end]);
            self.send(pair, end, at);
            return held.into_iter().for_each(|at| self.send(pair, end, at));
        }
        let (was_dropped, number) = (link.dropped == Some(xid), link.number);
        let this = &mut self.pairs[pair].ends[end];
        let current = this.link == number;
        let wanted = match this.tamper {
            Some((Fault::PartField, how)) => suits(self.messages.get(at), how),
            Some((Fault::PartDropped, _)) => is_part && !was_dropped,
            Some(_) => is_part,
            None => false,
        };
        if !wanted || !current || this.random.one_in(3) {
            return self.send(pair, end, at);
        }
        let Some((fault, how)) = this.tamper.take() else {
            return;
        };
        self.inflict(pair, end, at, fault, how);
    }

    fn inflict(&mut self, pair: usize, end: usize, at: usize, fault: Fault, how: u32) {
        self.stats.fault(fault);
        self.note(pair, end, || format!("{fault:?}"));
        self.taint(pair);
        let xid = self.messages.get(at).word(0);
        let link = &mut self.pairs[pair].link;
        // What is lost or out of order does not make a call be served twice.
        link.again |= matches!(fault, Fault::PartDoubled | Fault::PartField);
        match fault {
            Fault::PartDropped => {
                link.dropped = Some(xid);
                self.messages.free(at);
            }
            Fault::PartsExchanged | Fault::PartsInterleaved => {
                let exchanged = fault == Fault::PartsExchanged;
                link.until[end] = if exchanged {
                    Until::Next
                } else {
                    Until::Another
                };
                link.held[end].push(at);
            }
            Fault::PartDoubled => {
                let copy = self.messages.copy(at);
                self.send(pair, end, at);
                self.send(pair, end, copy);
            }
            _ => {
                let message = self.messages.get_mut(at);
                change(message, &mut Random::new(how.into()));
                message.origin = Origin::Forged;
                self.send(pair, end, at);
            }
        }
    }

    /// What was held back never comes.
    pub(crate) fn forget_held(&mut self, pair: usize) {
        let held = std::mem::take(&mut self.pairs[pair].link.held);
        held.into_iter()
            .flatten()
            .for_each(|at| self.messages.free(at));
    }
}

/// Whether the fault is one of this transmission: of any, of one that continues a message or begins
/// a reply, or that places an item.
fn suits(message: &Message, how: u32) -> bool {
    let Some(share) = message.share else {
        return false;
    };
    match how % 4 {
        0 => true,
        1 => share.number > 0,
        2 => message.word(5) == ROPT_XMTRESP,
        _ => places(message),
    }
}

/// Whether it says that its first item is placed.
fn places(message: &Message) -> bool {
    message.share.is_some_and(|share| share.number == 0)
        && message.word(7) > 0
        && message.word(10) == XMPTYPE_TBSN
}

/// Changes a field of a transmission's header: a little, or to anything.
fn change(message: &mut Message, random: &mut Random) {
    let last = (message.header / 4).max(8) as u32 - 1;
    let at = match random.below(5) {
        // The XID, the direction, and the operation.
        0 => random.pick(&[0, 0, 4, 5]),
        // The bytes of the Payload stream.
        1 => last,
        2 if message.word(5) == ROPT_XMTRESP => last,
        // Where the first item begins, and in which target.
        2 | 3 if places(message) => random.pick(&[11, 13]),
        _ => random.between(7, last),
    };
    let word = message.word(at as usize);
    let any = random.word();
    let more = |bytes| word.wrapping_add(bytes);
    let other = random.pick(&[
        word ^ 1,
        more(1),
        more(2),
        more(4),
        more(4096),
        word.wrapping_sub(1),
        0,
        any,
    ]);
    message.set_word(at as usize, other);
}
