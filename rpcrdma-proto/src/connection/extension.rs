//! What a session knows of rtrext-02 on its present connection.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::arriving::Arriving;
use super::sending::Sending;
use crate::continuation::{Abilities, Operations, Part, Report, Rtr};
use crate::placement::Structure;
use crate::travel::Groups;
use crate::v2::MsgType;

/// Reports that may wait to be sent: a peer that breaks more groups than that is not told of all.
const REPORTS: usize = 8;

/// rtrext-02 on a connection.
// spec: rtr-1.4-d
#[derive(Debug)]
pub(super) struct Extension {
    pub(super) settings: Rtr,
    /// How our receive buffers are made.
    pub(super) ours: Structure,
    /// What the peer was found not to know.
    refuted: Operations,
    /// What it allows for our calls, and for our replies.
    pub(super) calls: Option<Groups>,
    replies: Option<(Structure, u32)>,
    pub(super) arriving: Arriving,
    pub(super) sending: Option<Box<Sending>>,
    pub(super) reports: VecDeque<(Report, MsgType)>,
}

/// What sending needs of rtrext-02; nothing, where it is not spoken.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// What is allowed for our calls, and for our replies.
    pub(super) calls: Option<&'a Groups>,
    pub(super) replies: Option<(&'a Structure, u32)>,
    /// Microseconds for which a reply is kept.
    pub(super) keep: u64,
    /// The place of the message that is being sent.
    pub(super) sending: Option<&'a mut Option<Box<Sending>>>,
}

impl Extension {
    pub(super) fn new(settings: Rtr, receive_size: u32) -> Self {
        Self {
            settings,
            ours: settings.structure.unwrap_or(Structure::plain(receive_size)),
            refuted: Operations::NONE,
            calls: None,
            replies: None,
            arriving: Arriving::default(),
            sending: None,
            reports: VecDeque::new(),
        }
    }

    /// A new connection, whose peer has told nothing yet.
    pub(super) fn connected(&mut self, receive_size: u32) {
        let (arriving, reports) = (core::mem::take(&mut self.arriving), core::mem::take(&mut self.reports));
        *self = Self { arriving, reports, ..Self::new(self.settings, receive_size) };
        self.arriving.lost();
        self.reports.clear();
    }

    /// Operations that the peer takes, as far as it is known: what it has told, or what is tried.
    // spec: rtr-5.1-b, rtr-5.1-c
    fn operations(&self, theirs: &Abilities) -> Operations {
        let tried = if self.settings.tries { Operations::ALL } else { Operations::NONE };
        theirs.operations.unwrap_or(tried).without(self.refuted)
    }

    /// The peer was found not to know operations.
    pub(super) fn refute(&mut self, operations: Operations) {
        self.refuted = self.refuted.and(operations);
    }

    /// Takes over what the peer has told: its abilities, and how large messages to it and from it may be.
    // spec: rtr-5.2-a, rtr-5.2-b, rtr-5.2-g, rtr-5.3-a, rtr-5.3-b, rtr-5.3-c, rtr-5.3-f, rtr-5.3-j, rtr-8.4-b
    // spec: rtr-8.5-a, rtr-9.4-c
    pub(super) fn told(&mut self, theirs: &Abilities, to_peer: u32, to_us: u32) {
        let (settings, peers) = (self.settings, self.operations(theirs));
        let structure = |told: Option<Structure>, limit: u32| match told {
            Some(structure) if structure.length() <= limit => structure,
            _ => Structure::plain(limit),
        };
        let (to_peer, to_us) = (structure(theirs.structure, to_peer), structure(settings.structure, to_us));
        let both = |these| peers.has(these) && settings.operations.has(these);
        let continues = |limit: u32, mine: bool, peers: bool| if mine && peers { limit } else { limit.min(1) };
        let (mine, more) = (settings.operations.has(Operations::CONTINUATIONS), peers.has(Operations::CONTINUATIONS));
        let responses = if both(Operations::RESPONSES) { theirs.response_limit.min(settings.reserve) } else { 0 };
        self.calls = peers.has(Operations::REQUESTS).then_some(Groups {
            theirs: to_peer,
            ours: to_us,
            requests: continues(theirs.request_limit, true, more),
            replies: continues(responses, mine, true),
            place_from: settings.place_from,
            prefer: settings.prefer,
            direct: settings.direct,
        });
        let limit = continues(settings.response_limit, true, more);
        self.replies = peers.has(Operations::RESPONSES).then_some((to_peer, limit));
    }

    /// The requester's receive buffers, and transmissions of a reply that we send.
    pub(super) fn replies(&self) -> Option<(&Structure, u32)> {
        self.replies.as_ref().map(|(structure, limit)| (structure, *limit))
    }

    /// What sending needs of it.
    pub(super) fn parts(&mut self) -> Parts<'_> {
        Parts {
            calls: self.calls.as_ref(),
            replies: self.replies.as_ref().map(|(structure, limit)| (structure, *limit)),
            keep: self.settings.keep,
            sending: Some(&mut self.sending),
        }
    }

    /// Queues a report, from requester to responder or back.
    // spec: rtr-5.4-h
    pub(super) fn report(&mut self, report: Report) {
        if self.reports.len() < REPORTS {
            // From the end that the bad transmission came to.
            let direction = match report.bad.direction {
                MsgType::Call => MsgType::Reply,
                MsgType::Reply => MsgType::Call,
            };
            self.reports.push_back((report, direction));
        }
    }

    /// Whether a message of ours is to be continued before any other.
    pub(super) fn continues(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| !sending.is_done())
    }

    /// Whether anything is to be sent.
    pub(super) fn has_messages(&self) -> bool {
        self.continues() || !self.reports.is_empty()
    }

    /// The group that is being received.
    pub(super) fn waits(&self) -> Option<Part> {
        self.arriving.waits()
    }
}
