//! One connection of a pair: what is posted, what is under way, and the credits, counted apart from the engine.

use std::collections::VecDeque;

use super::script::CLIENT;

/// A connection, the last one that was made.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Which one of its pair: from 1.
    pub(crate) number: u32,
    /// Whether messages still go.
    pub(crate) up: bool,
    /// Whether something came over it that no correct peer would have sent: much may be wrong now, but not here.
    pub(crate) tainted: bool,
    /// Whether the server was told that the client's consumer takes calls.
    pub(crate) ready: bool,
    /// Messages handed out by each end.
    pub(crate) sent: [u32; 2],
    /// When the last message to each end comes.
    pub(crate) last: [u64; 2],
    /// What each end has posted: how many of which size, the oldest first.
    posted: [VecDeque<(u32, u32)>; 2],
    /// The calls of each end, and its credits.
    pub(crate) credits: [Credits; 2],
    /// What each end has granted.
    pub(crate) grants: [Grants; 2],
    /// Whether the first message is swallowed.
    pub(crate) deaf: bool,
}

impl Link {
    pub(crate) fn new(number: u32, deaf: bool) -> Self {
        Self { number, deaf, up: true, ..Self::default() }
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

/// The credits of one direction at its requester, as the messages on the wire tell them.
#[derive(Debug)]
pub(crate) struct Credits {
    granted: u32,
    /// Calls without an answer: the XID, and how many one-way messages went before.
    calls: Vec<(u32, u32)>,
    one_way: u32,
    one_way_done: u32,
}

impl Default for Credits {
    fn default() -> Self {
        Self { granted: 1, calls: Vec::new(), one_way: 0, one_way_done: 0 }
    }
}

impl Credits {
    pub(crate) fn used(&self) -> u32 {
        self.calls.len() as u32 + self.one_way - self.one_way_done
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.len() as u32
    }

    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// A call goes out: whether it may.
    pub(crate) fn call(&mut self, xid: u32) -> bool {
        // One call may always be under way (decision D9).
        let may = self.used() < self.granted || self.calls.is_empty();
        self.calls.push((xid, self.one_way));
        may
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

    /// An answer comes; with a grant, if it is one that tells.
    pub(crate) fn answered(&mut self, xid: u32, grant: Option<u32>) {
        let Some(at) = self.calls.iter().position(|(call, _)| *call == xid) else { return };
        let (_, before) = self.calls.swap_remove(at);
        self.one_way_done = self.one_way_done.max(before);
        if let Some(grant) = grant {
            self.granted = grant.max(1);
        }
    }
}

/// The credits of one direction at its responder, as the messages on the wire tell them.
#[derive(Debug)]
pub(crate) struct Grants {
    highest: u32,
    /// The XIDs of calls that have come and were not answered.
    pending: Vec<u32>,
}

impl Default for Grants {
    fn default() -> Self {
        Self { highest: 1, pending: Vec::new() }
    }
}

impl Grants {
    pub(crate) fn called(&mut self, xid: u32) {
        self.pending.push(xid);
    }

    /// An answer goes out; with a grant, if it is one that tells.
    pub(crate) fn answers(&mut self, xid: u32, grant: Option<u32>) {
        if let Some(at) = self.pending.iter().position(|pending| *pending == xid) {
            self.pending.swap_remove(at);
        }
        self.highest = self.highest.max(grant.unwrap_or(0));
    }

    /// Receives for calls that may still come.
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
