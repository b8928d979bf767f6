//! What is known of the present connection: its version, and how much each end takes.

use super::config::{Config, Role};
use crate::private_data::PrivateData;
use crate::property::{Peer, Values};
use crate::travel::{self, Groups};
use crate::v2::properties::Bkreqsup;
use crate::version::{Negotiation, THRESHOLD_ONE, THRESHOLD_TWO, Version};

use super::responder::Terms;

/// The present connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) role: Role,
    /// A client's; a server learns the version from what comes.
    pub(super) negotiation: Negotiation,
    /// The time by which the first message is to be answered.
    pub(super) answer_by: Option<u64>,
    /// The version that is settled.
    pub(super) version: Option<Version>,
    /// Whether the server has answered in Version Two: until then it sends no more than the first message may have.
    pub(super) answered: bool,
    private_ours: PrivateData,
    private_theirs: PrivateData,
    // Of the settings, what each call needs.
    highest: Version,
    invalidates: bool,
    send_size: u32,
    segment: u32,
    read_chunks: u32,
    pub(super) peer: Peer,
    /// A size of the peer's receive buffers that we have asked for and that binds us already.
    pub(super) asked_size: Option<u32>,
    /// Our properties.
    pub(super) ours: Values,
    /// Whether the peer has shown that it speaks of properties, and whether ours were told.
    pub(super) speaks: bool,
    pub(super) told: bool,
}

impl Link {
    pub(super) fn new(config: &Config, theirs: PrivateData, remembered: bool) -> Self {
        let version = match (config.role, config.highest) {
            (Role::Client, Version::Two) if remembered => Some(Version::One),
            (_, Version::One) => Some(Version::One),
            _ => None,
        };
        Self {
            role: config.role,
            negotiation: Negotiation::new(config.highest, remembered),
            answer_by: None,
            version,
            answered: config.role == Role::Client,
            private_ours: config.private_data(),
            private_theirs: theirs,
            highest: config.highest,
            invalidates: config.invalidates,
            send_size: config.send_size,
            segment: config.segment,
            read_chunks: config.read_chunks,
            peer: Peer::knowing(config.knowledge()),
            asked_size: None,
            ours: config.values(),
            speaks: false,
            told: false,
        }
    }

    /// The version of the next message of ours: the one that is settled, or the one that asks for it.
    pub(super) fn speaks_in(&self) -> Option<Version> {
        match self.role {
            Role::Client => self.negotiation.version(),
            // A server says nothing of its own before it was spoken to (decision D7).
            Role::Server => self.version,
        }
    }

    /// The highest version in which a message may come.
    // spec: bd-5.1-b
    pub(super) fn highest(&self) -> Version {
        match self.role {
            Role::Client => self.negotiation.version().unwrap_or(Version::One),
            Role::Server => self.highest,
        }
    }

    /// Octets of the largest Send that the peer takes, in this version.
    // spec: v2-2.1-a, v2-2.1-b, v2-2.1-c, v2-2.3-b, v2-5.2-g, xc3-3.1-c, xc3-3.1-d, xc3-3.1-j, bd-4.2-c
    // spec: xc2-3.1-c, xc2-3.1-d, xc2-3.1-j
    pub(super) fn send_limit(&self, version: Version) -> u32 {
        match version {
            Version::One => self.private_ours.threshold_to(&self.private_theirs),
            Version::Two if self.version.is_none() || !self.answered => THRESHOLD_ONE,
            Version::Two => {
                let told = self.peer.values().receive_buffer_size.max(THRESHOLD_ONE);
                told.min(self.send_size).min(self.asked_size.unwrap_or(u32::MAX))
            }
        }
    }

    /// Octets of the largest Send that the peer knows us to take, in this version.
    // spec: v2-2.1-b, xc3-3.1-e, xc3-4.1-c, xc2-3.1-e, xc2-4.1-c
    pub(super) fn receive_limit(&self, version: Version) -> u32 {
        match version {
            Version::One => self.private_theirs.threshold_to(&self.private_ours),
            Version::Two if self.version.is_none() => THRESHOLD_ONE,
            // A peer that was told and does not speak of properties assumes the default.
            Version::Two if self.told && self.speaks => self.ours.receive_buffer_size,
            Version::Two => THRESHOLD_TWO.min(self.ours.receive_buffer_size),
        }
    }

    /// What the connection takes of our calls; none if it takes none now.
    // spec: bd-4.2-a, bd-4.2-b, bd-5.3-a, bd-5.3-b, bd-5.3-c, xc3-3.3-b, xc3-3.3-c, xc3-3.3-d, v2-2.2-c
    // spec: xc2-3.3-b, xc2-3.3-c, xc2-3.3-d
    pub(super) fn calls<'a>(&self, config: &Config, groups: Option<&'a Groups>) -> Option<travel::Link<'a>> {
        let version = self.speaks_in()?;
        let chunks = match (self.role, version, self.peer.values().backward_support) {
            (Role::Client, ..) => true,
            (Role::Server, Version::Two, Bkreqsup::None) => return None,
            (Role::Server, Version::Two, Bkreqsup::Genl) => true,
            (Role::Server, Version::Two, Bkreqsup::Inline) | (Role::Server, Version::One, _) => false,
        };
        if self.role == Role::Server && !config.has_backward(version) {
            return None;
        }
        Some(self.terms(version, chunks, groups))
    }

    /// What the connection takes of our questions about properties, whether it takes calls or not.
    pub(super) fn questions(&self) -> Option<travel::Link<'static>> {
        Some(self.terms(self.speaks_in()?, false, None))
    }

    fn terms<'a>(&self, version: Version, chunks: bool, groups: Option<&'a Groups>) -> travel::Link<'a> {
        travel::Link {
            version,
            call_threshold: self.send_limit(version),
            reply_threshold: self.receive_limit(version),
            chunks,
            read_chunks: self.read_chunks,
            segment: self.segment,
            groups,
            room: 0,
        }
    }

    /// What the peer takes of our replies to calls of this version.
    // spec: xc3-3.2-a, xc3-3.2-b, xc3-3.2-c, xc2-3.2-a, xc2-3.2-b, xc2-3.2-c
    pub(super) fn replies(&self, version: Version) -> Terms<'static> {
        let wanted = match version {
            Version::One => self.private_ours.invalidates_with(&self.private_theirs),
            Version::Two => self.peer.values().remote_invalidation,
        };
        Terms { threshold: self.send_limit(version), invalidate: self.invalidates && wanted, groups: None }
    }

    /// Whether a call of the peer's is taken: of any kind by a server, and by a client as it has told.
    // spec: xc3-3.3-a, bd-6-a, xc2-3.3-a
    pub(super) fn takes(&self, config: &Config, version: Version, has_chunks: bool) -> bool {
        let taken = match (version, self.ours.backward_support) {
            (Version::One, _) => !has_chunks,
            (Version::Two, support) => support == Bkreqsup::Genl || (support == Bkreqsup::Inline && !has_chunks),
        };
        self.role == Role::Server || (config.serve > 0 && config.has_backward(version) && taken)
    }
}
