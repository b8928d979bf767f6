//! One connection of a pair: posted receives, messages in flight, and credits, counted
//! independently of the engine.

use std::collections::VecDeque;

use super::script::CLIENT;

/// A connection, the last one that was made.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Which one of its pair: from 1.
    pub(crate) number: u32,
    /// Whether messages still go.
    pub(crate) up: bool,
    /// Whether something came over it that no correct peer would have sent: much may be wrong now,
    /// but not here.
    pub(crate) tainted: bool,
    /// Whether any of it may have changed credits.
    pub(crate) credits_forged: bool,
    /// Whether each end has shown that it speaks Version Two: the client may send more than at
    /// first when an answer has come, and the server when it has sent one.
    pub(crate) is_two: [bool; 2],
    /// Whether a property message was changed on its way: an end may then lay data out for buffers
    /// that its peer does not have.
    pub(crate) properties_forged: bool,
    /// Whether the client's consumer has announced that it accepts calls.
    pub(crate) ready: bool,
    /// Messages handed out by each end.
    pub(crate) sent: [u32; 2],
    /// The arrival time of the last message to each end.
    pub(crate) last: [u64; 2],
    /// The posted receives of each end, by size, the oldest first.
    posted: [VecDeque<(u32, u32)>; 2],
    /// The calls of each end, and its credits.
    pub(crate) credits: [Credits; 2],
    /// The grant of each end.
    pub(crate) grants: [Grants; 2],
    /// Whether the first message is swallowed.
    pub(crate) deaf: bool,
    /// Transmissions of each end that a fault holds back, and until when.
    pub(crate) held: [Vec<usize>; 2],
    pub(crate) until: [Until; 2],
    /// The XID of the message of which a transmission was dropped last: of one that nobody hears of
    /// there is no report.
    pub(crate) dropped: Option<u32>,
    /// The client's last call, after all faults are healed.
    pub(crate) last_call: Option<u32>,
    /// Calls that each end has told its consumer of.
    pub(crate) served: [Vec<u32>; 2],
    /// Whether something came over it that may let a call be served twice.
    pub(crate) again: bool,
    /// Whether the client was told that its server does not speak Version Two.
    pub(crate) refused: bool,
}

/// The condition that releases held transmissions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Until {
    /// The next message has gone.
    #[default]
    Next,
    /// A message has gone that is not of their group.
    Another,
}

impl Link {
    pub(crate) fn new(number: u32, deaf: bool) -> Self {
        Self {
            number,
            deaf,
            up: true,
            ..Self::default()
        }
    }

    pub(crate) fn post(&mut self, end: usize, count: u32, size: u32) {
        match self.posted[end].back_mut() {
            Some((many, same)) if *same == size => *many += count,
            _ => self.posted[end].push_back((count, size)),
        }
    }

    /// The size of the receive that the next message takes; none if there is none.
    pub(crate) fn take(&mut self, end: usize) -> Option<u32> {
        let (count, size) = self.posted[end].front_mut()?;
        let size = *size;
        *count -= 1;
        if *count == 0 {
            self.posted[end].pop_front();
        }
        Some(size)
    }

    pub(crate) fn posted(&self, end: usize) -> u32 {
        self.posted[end].iter().map(|(count, _)| count).sum()
    }
}

/// The credits of one direction at its requester, according to the messages on the wire.
#[derive(Debug)]
pub(crate) struct Credits {
    granted: u32,
    calls: Vec<Open>,
    /// The most calls that were without an answer at once.
    most: u32,
    one_way: u32,
    one_way_done: u32,
    /// Errors that may still come of the transmissions of one call, of which the first was an error
    /// already.
    stale: Vec<u32>,
    /// Whether a reply has granted.
    opened: bool,
}

/// A call without an answer.
#[derive(Debug)]
struct Open {
    xid: u32,
    /// How many one-way messages went before.
    before: u32,
    /// Its transmissions.
    messages: u32,
    /// Receives that its reply may take.
    replies: u32,
}

impl Default for Credits {
    fn default() -> Self {
        Self {
            granted: 1,
            calls: Vec::new(),
            most: 0,
            one_way: 0,
            one_way_done: 0,
            stale: Vec::new(),
            opened: false,
        }
    }
}

impl Credits {
    pub(crate) fn used(&self) -> u32 {
        self.calls.iter().map(|call| call.messages).sum::<u32>() + self.one_way - self.one_way_done
    }

    /// Receives that replies may take.
    pub(crate) fn replies(&self) -> u32 {
        self.calls.iter().map(|call| call.replies).sum()
    }

    /// The most calls that were without an answer at once.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Whether a reply has granted anything.
    pub(crate) fn has_reply(&self) -> bool {
        self.opened
    }

    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Messages that had no answer.
    pub(crate) fn one_way_sent(&self) -> u32 {
        self.one_way
    }

    /// A call goes out, in so many messages: whether it may. Its reply may take so many beyond one.
    pub(crate) fn call(&mut self, xid: u32, messages: u32, reserve: u32) -> bool {
        // One call may always be in flight (decision D9), unless it takes several credits.
        let alone = messages == 1 && self.calls.is_empty();
        let may = self.used() + messages <= self.granted || alone;
        self.calls.push(Open {
            xid,
            before: self.one_way,
            messages,
            replies: 1 + reserve,
        });
        self.most = self.most.max(self.calls.len() as u32);
        may
    }

    /// Receives that are reserved for the reply to a call, beyond one.
    pub(crate) fn reserve(&self, xid: u32) -> Option<u32> {
        self.calls
            .iter()
            .find(|call| call.xid == xid)
            .map(|call| call.replies - 1)
    }

    /// The message that tells the properties of a connection: it needs no credit.
    pub(crate) fn first(&mut self) {
        self.one_way += 1;
    }

    /// Another message that has no answer: whether it may go.
    pub(crate) fn one_way(&mut self) -> bool {
        let may = self.used() < self.granted || self.used() == 0;
        self.one_way += 1;
        may
    }

    /// An error answers a call: it grants, if a reply has before (version-two-01, section 5).
    pub(crate) fn refused(&mut self, xid: u32, grant: u32) {
        let is_open = self.calls.iter().any(|call| call.xid == xid);
        self.answered(xid, None);
        if is_open && self.opened {
            self.granted = grant.max(1);
        }
    }

    /// An answer comes; with a grant, if it is one that tells.
    pub(crate) fn answered(&mut self, xid: u32, grant: Option<u32>) {
        let Some(at) = self.calls.iter().position(|call| call.xid == xid) else {
            return;
        };
        let call = self.calls.swap_remove(at);
        // Of several transmissions some may still be in flight.
        self.one_way += if grant.is_none() {
            call.messages - 1
        } else {
            0
        };
        self.one_way_done = self.one_way_done.max(call.before);
        if let Some(grant) = grant {
            (self.granted, self.opened) = (grant.max(1), true);
        }
    }

    /// The operation of a call is not known: each of its transmissions is told so.
    pub(crate) fn unknown(&mut self, xid: u32, grant: u32) {
        if let Some(at) = self.stale.iter().position(|stale| *stale == xid) {
            self.stale.swap_remove(at);
            return;
        }
        let messages = self
            .calls
            .iter()
            .find(|call| call.xid == xid)
            .map_or(1, |call| call.messages);
        self.stale
            .extend(std::iter::repeat_n(xid, messages as usize - 1));
        self.refused(xid, grant);
    }
}

/// The credits of one direction at its responder, according to the messages on the wire.
#[derive(Debug)]
pub(crate) struct Grants {
    highest: u32,
    /// The XIDs of calls that have come and were not answered.
    pending: Vec<u32>,
    /// What the last reply granted, unless the most that is granted has changed since.
    last: Option<u32>,
    /// The XIDs of calls that an error has answered: what is left of their transmissions is passed
    /// over, and holds no receives.
    refused: Vec<u32>,
    /// The XIDs of calls that the end has rejected; the errors may wait to be sent.
    rejected: Vec<u32>,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            highest: 1,
            pending: Vec::new(),
            last: None,
            refused: Vec::new(),
            rejected: Vec::new(),
        }
    }
}

impl Grants {
    /// A message of a call comes, its first or another.
    pub(crate) fn called(&mut self, xid: u32, begins: bool) {
        if begins {
            self.refused.retain(|refused| *refused != xid);
            self.rejected.retain(|rejected| *rejected != xid);
        } else if self.refused.contains(&xid) {
            return;
        }
        self.pending.push(xid);
    }

    /// An answer goes out; with a grant, if it is one that tells.
    pub(crate) fn answers(&mut self, xid: u32, grant: Option<u32>) {
        self.pending.retain(|pending| *pending != xid);
        if grant.is_none() {
            self.refused.push(xid);
        }
        self.highest = self.highest.max(grant.unwrap_or(0));
        self.last = grant.or(self.last);
    }

    /// The most that is granted has changed.
    pub(crate) fn changed(&mut self) {
        self.last = None;
    }

    /// Whether a message that goes in the direction of replies and is none may have this credit
    /// value: what it grants is what replies grant (version-two-01, section 4.2.2), and nothing for
    /// which there may be no receives.
    pub(crate) fn may_tell(&self, credits: u32) -> bool {
        self.last
            .map_or(1..=self.highest, |last| last..=last)
            .contains(&credits)
    }

    /// The end rejects a call. The error may wait to be sent.
    pub(crate) fn rejects(&mut self, xid: u32) {
        self.rejected.push(xid);
    }

    /// Whether a call with this XID is being served: it has come, and was neither answered nor
    /// rejected.
    pub(crate) fn is_served(&self, xid: u32) -> bool {
        self.pending.contains(&xid) && !self.rejected.contains(&xid)
    }

    /// A transmission is told to be of an operation that is not known: the others are told so by
    /// themselves.
    pub(crate) fn refuses(&mut self, xid: u32) {
        if let Some(at) = self.pending.iter().position(|pending| *pending == xid) {
            self.pending.swap_remove(at);
        }
    }

    /// The most that was granted.
    pub(crate) fn highest(&self) -> u32 {
        self.highest
    }

    /// Calls that were not answered: each holds a receive.
    pub(crate) fn pending(&self) -> u32 {
        self.pending.len() as u32
    }

    /// The number of receives for further calls.
    pub(crate) fn receives(&self) -> u32 {
        self.highest.saturating_sub(self.pending.len() as u32)
    }
}

/// The other end.
pub(crate) const fn other(end: usize) -> usize {
    1 - end
}

/// The name of an end.
pub(crate) const fn name(end: usize) -> &'static str {
    if end == CLIENT { "client" } else { "server" }
}
