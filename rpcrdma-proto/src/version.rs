//! Version negotiation (version-two-01, section 5).
//!
//! A requester that supports Version Two sends its first message in Version Two, and the answer
//! determines the version of the connection. A responder answers in the version of the call, and
//! initiates no message in Version Two before it has received one (decision D7); `connection` has
//! this rule.
//!
//! [`Negotiation::next`] is the table of a requester. docs/state-machines.md shows it, and a test
//! compares both. `connection::session` creates the events and takes the actions;
//! `connection::params` has the inline thresholds that follow from the state.
//!
//! ```
//! use rpcrdma_proto::version::{Negotiation, NegotiationAction, NegotiationEvent, Version};
//!
//! // A server knows only Version One: the first message is sent again.
//! let (probing, _) = Negotiation::new(Version::Two, false).next(NegotiationEvent::Sent);
//! assert_eq!((probing.version(), probing.is_settled()), (Some(Version::Two), false));
//! let (settled, action) = probing.next(NegotiationEvent::VersionOneOnly);
//! assert_eq!((settled, action), (Negotiation::Rejected, NegotiationAction::SendAgain));
//! assert_eq!(settled.version(), Some(Version::One));
//! ```

use crate::sizes;

/// A version of RPC-over-RDMA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// Version One (RFC 8166).
    One,
    /// Version Two (version-two-01).
    Two,
}

impl Version {
    /// Returns the number in `rdma_vers`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// Returns the length in bytes of the transport header of an RPC message without chunks.
    #[must_use]
    pub const fn header_len(self) -> u32 {
        match self {
            Self::One => sizes::V1_HEADER,
            Self::Two => sizes::V2_HEADER,
        }
    }

    /// Returns the version with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }
}

/// The inline threshold in bytes of Version One, unless the peer has announced another (RFC 8166,
/// section 3.3.3), and of Version Two until the version is settled (decision D8).
pub const V1_INLINE_THRESHOLD: u32 = 1024;

/// The inline threshold in bytes of Version Two, unless a property sets another (version-two-01,
/// section 2.3).
pub const V2_INLINE_THRESHOLD: u32 = 4096;

/// The state of the version negotiation of a requester.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Negotiation {
    /// No message was sent; the first message starts the negotiation.
    NotStarted,
    /// The first message was sent, in Version Two.
    Probing,
    /// Version One is in use, and Version Two was not tried.
    One,
    /// Version One is in use, because the peer has rejected Version Two on this connection.
    Rejected,
    /// Version Two is in use.
    Two,
    /// No version is negotiated: the two ends have none in common, or the connection was lost.
    /// The connection is not used again.
    Failed,
}

/// An event of the version negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NegotiationEvent {
    /// The first message was sent, in Version Two.
    Sent,
    /// A message of Version Two that is no error arrived: a reply, or an operation of the protocol
    /// such as the answer to a request for properties.
    Answered,
    /// `RDMA2_ERR_INVAL_OPTION` arrived: the peer supports Version Two, but not this operation.
    UnknownOperation,
    /// An error arrived: a version error whose range has Version One, or another error in Version
    /// One. The peer supports Version One, but not Version Two.
    VersionOneOnly,
    /// A version error arrived whose range lacks Version One, or that rejects the version which
    /// the peer has offered: no version is left (decision D8).
    NoCommonVersion,
    /// The connection was lost, or the first message was not answered in time.
    Lost,
}

impl NegotiationEvent {
    /// Returns the event for the version range of an error.
    // spec: v2-5.2-b, v2-5.2-c
    #[must_use]
    pub const fn from_range(low: u32, high: u32) -> Self {
        // The requester selects a version in the range, but not Version Two again: the error has
        // rejected it, even if the range contains it.
        if low <= 1 && high >= 1 {
            Self::VersionOneOnly
        } else {
            Self::NoCommonVersion
        }
    }
}

/// The action to take after an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NegotiationAction {
    /// No action.
    Nothing,
    /// Retransmit in Version One.
    SendAgain,
    /// Remember that the peer does not support Version Two, for the next connections.
    Remember,
    /// Close the connection.
    Close,
}

impl Negotiation {
    /// Returns the initial state. `highest` is the highest supported version, and `remembered`
    /// whether the peer is known not to support Version Two.
    // spec: v2-5-a, v2-5.2-d
    #[must_use]
    pub const fn new(highest: Version, remembered: bool) -> Self {
        match highest {
            Version::Two if !remembered => Self::NotStarted,
            _ => Self::One,
        }
    }

    /// All states, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::NotStarted,
        Self::Probing,
        Self::One,
        Self::Rejected,
        Self::Two,
        Self::Failed,
    ];

    /// Returns the next state and the action for an event. An event that is not in the table
    /// changes nothing.
    // spec: v2-5.1-a, v2-5.2-c, v2-5.2-d, v2-5.2-e
    #[must_use]
    pub const fn next(self, event: NegotiationEvent) -> (Self, NegotiationAction) {
        match (self, event) {
            (Self::NotStarted, NegotiationEvent::Sent) => {
                (Self::Probing, NegotiationAction::Nothing)
            }
            (Self::Probing, NegotiationEvent::Answered | NegotiationEvent::UnknownOperation) => {
                (Self::Two, NegotiationAction::Nothing)
            }
            (Self::Probing, NegotiationEvent::VersionOneOnly) => {
                (Self::Rejected, NegotiationAction::SendAgain)
            }
            (Self::Probing | Self::Rejected, NegotiationEvent::NoCommonVersion) => {
                (Self::Failed, NegotiationAction::Close)
            }
            // The peer may have closed it because of the version.
            (Self::Probing | Self::Rejected, NegotiationEvent::Lost) => {
                (Self::Failed, NegotiationAction::Remember)
            }
            // The negotiated version is fixed for the connection: a version error after that ends
            // only the call that it answers.
            (state, _) => (state, NegotiationAction::Nothing),
        }
    }

    /// Returns the version of the next message; `None` after a failure.
    // spec: v2-5-c
    #[must_use]
    pub const fn version(self) -> Option<Version> {
        match self {
            Self::NotStarted | Self::Probing | Self::Two => Some(Version::Two),
            Self::One | Self::Rejected => Some(Version::One),
            Self::Failed => None,
        }
    }

    /// Returns whether the version is negotiated. Until then only one message may be in flight,
    /// whatever number of credits was granted (version-two-01, section 5).
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::One | Self::Rejected | Self::Two)
    }
}

/// Remembers, for a limited time, that a peer does not support Version Two. The memory expires,
/// since the peer may be replaced by one that does.
///
/// Times are the caller's, in microseconds from any beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VersionCache {
    /// The first point in time at which the peer is not remembered.
    until: u64,
}

impl VersionCache {
    /// Returns an empty cache.
    #[must_use]
    pub const fn new() -> Self {
        Self { until: 0 }
    }

    /// Remembers the peer for `lifetime` microseconds from `now`.
    // spec: v2-5.2-d, v2-5.2-e
    pub const fn remember(&mut self, now: u64, lifetime: u64) {
        self.until = now.saturating_add(lifetime);
    }

    /// Returns whether the peer is remembered at `now`.
    #[must_use]
    pub const fn is_remembered(&self, now: u64) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests;
