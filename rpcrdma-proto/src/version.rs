//! Which version of the protocol: the negotiation of version-two-01, section 5.
//!
//! A requester that may speak Version Two asks with its first message, and goes on as the answer says. A responder answers in
//! the version of the call, and sends nothing of its own in Version Two before it was spoken to in it (decision D7).

/// A version of RPC-over-RDMA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// Version One (RFC 8166).
    One,
    /// Version Two (version-two-01).
    Two,
}

impl Version {
    /// The number in `rdma_vers`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// Octets of the transport header of an RPC message without chunks.
    #[must_use]
    pub const fn header(self) -> u32 {
        match self {
            Self::One => 28,
            Self::Two => 32,
        }
    }

    /// The version of a number.
    #[must_use]
    pub const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }
}

/// Octets that the first message of a connection may have, and all of Version One unless the peer has said otherwise
/// (RFC 8166, section 3.3.3).
pub const THRESHOLD_ONE: u32 = 1024;

/// Octets that a message of Version Two may have, unless a property says otherwise (version-two-01, section 2.3).
pub const THRESHOLD_TWO: u32 = 4096;

/// How far a requester's negotiation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Negotiation {
    /// Nothing was sent; the first message asks.
    Unasked,
    /// The first message was sent, in Version Two.
    Asked,
    /// Version One is spoken.
    One,
    /// Version Two is spoken.
    Two,
    /// The two ends have no version in common; the connection is to be closed.
    Failed,
}

/// What happens to a negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A message of Version Two is sent.
    Sent,
    /// A message of Version Two has come that is no error: a reply, or an operation.
    Spoken,
    /// `RDMA2_ERR_INVAL_OPTION` has come: the peer speaks Version Two, and not this operation.
    UnknownOperation,
    /// An error that the peer does not speak Version Two, but One.
    OneOnly,
    /// An error about versions which leaves nothing to speak: its range has Two, or has not One (decision D8).
    Neither,
    /// The connection was lost, or the first message was not answered in time.
    Lost,
}

impl Event {
    /// What the range of an error about versions says.
    // spec: v2-5.2-b, v2-5.2-c
    #[must_use]
    pub const fn of_range(low: u32, high: u32) -> Self {
        // A peer that refuses Version Two and offers it has not understood the question.
        if low <= 1 && high == 1 { Self::OneOnly } else { Self::Neither }
    }
}

/// What to do after an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Send again, in Version One, what was sent.
    SendAgain,
    /// Remember that this peer does not speak Version Two.
    Remember,
    /// Close the connection.
    Close,
}

impl Negotiation {
    /// The beginning, where `highest` is the highest version that may be spoken here and `remembered` whether this peer is
    /// known not to speak Version Two.
    // spec: v2-5-a, v2-5.2-d
    #[must_use]
    pub const fn new(highest: Version, remembered: bool) -> Self {
        match highest {
            Version::Two if !remembered => Self::Unasked,
            _ => Self::One,
        }
    }

    /// All states, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Unasked, Self::Asked, Self::One, Self::Two, Self::Failed];

    /// What an event leads to. What is not in the table changes nothing.
    // spec: v2-5.1-a, v2-5.2-c, v2-5.2-d, v2-5.2-e
    #[must_use]
    pub const fn next(self, event: Event) -> (Self, Action) {
        match (self, event) {
            (Self::Unasked, Event::Sent) => (Self::Asked, Action::Nothing),
            (Self::Asked, Event::Spoken | Event::UnknownOperation) => (Self::Two, Action::Nothing),
            (Self::Asked, Event::OneOnly) => (Self::One, Action::SendAgain),
            (Self::Asked, Event::Neither) => (Self::Failed, Action::Close),
            (Self::Asked, Event::Lost) => (Self::Failed, Action::Remember),
            // What was agreed holds while the connection lasts: such an error ends the call that it answers, and no more.
            (state, _) => (state, Action::Nothing),
        }
    }

    /// The version of the next message; none after a failure.
    // spec: v2-5-c
    #[must_use]
    pub const fn version(self) -> Option<Version> {
        match self {
            Self::Unasked | Self::Asked | Self::Two => Some(Version::Two),
            Self::One => Some(Version::One),
            Self::Failed => None,
        }
    }

    /// How many messages may be under way, whatever was granted: one until the answer (version-two-01, section 5).
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::One | Self::Two)
    }

    /// Octets that the next message may have, where `one` is what Version One's peer takes.
    // spec: v2-2.3-c, v2-5-d, v2-5.1-b, v2-5.2-f, v2-5.2-g
    #[must_use]
    pub const fn threshold(self, one: u32) -> u32 {
        match self {
            Self::Unasked | Self::Asked | Self::Failed => THRESHOLD_ONE,
            Self::One => one,
            Self::Two => THRESHOLD_TWO,
        }
    }
}

/// A peer that is remembered not to speak Version Two, until a point in time: it may be replaced by one that does.
///
/// Times are the caller's, in microseconds from any beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Memory {
    until: u64,
}

impl Memory {
    /// Nothing is remembered.
    #[must_use]
    pub const fn new() -> Self {
        Self { until: 0 }
    }

    /// Remembers for `lifetime` microseconds from `now`.
    // spec: v2-5.2-d, v2-5.2-e
    pub const fn remember(&mut self, now: u64, lifetime: u64) {
        self.until = now.saturating_add(lifetime);
    }

    /// Whether the peer is remembered at `now`.
    #[must_use]
    pub const fn holds(&self, now: u64) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests;
