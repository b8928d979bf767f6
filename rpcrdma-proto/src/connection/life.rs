//! The lives of calls, ours and the peer's: one table each.

/// How far a call of ours is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Life {
    /// It waits for a connection, a version or a credit.
    Waiting,
    /// It has a credit, and its memory is being exposed.
    Exposing,
    /// It can be transmitted.
    Ready,
    /// It was transmitted; its reply is to come.
    Sent,
    /// How it ends is known; its memory is being fenced, or still belongs to a Send.
    Settling,
    /// It has ended here, and not at the peer: its reply will give back its credit.
    Orphaned,
    /// It has ended.
    Done,
}

/// What happens to a call of ours.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Turn {
    /// It has its credit, and chunks to be exposed.
    Expose,
    /// It has its credit and needs no chunks, or they are exposed now.
    Prepared,
    /// It is transmitted.
    Transmitted,
    /// Its end is known: a reply, an error, a cancellation, or a lost connection.
    Ended,
    /// Its memory is its own again, and nothing is left to do.
    Settled,
    /// Its memory is its own again, and it is to be sent again.
    Again,
    /// Its memory is its own again, and its reply is still to come.
    Abandoned,
    /// The reply of a call that has ended has come, or never will.
    Answered,
}

impl Life {
    /// All states, in the order of the table.
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Exposing, Self::Ready, Self::Sent, Self::Settling, Self::Orphaned, Self::Done];

    /// What a turn leads to; none if it can't happen.
    #[must_use]
    pub const fn next(self, turn: Turn) -> Option<Self> {
        Some(match (self, turn) {
            (Self::Waiting, Turn::Expose) => Self::Exposing,
            (Self::Waiting | Self::Exposing, Turn::Prepared) => Self::Ready,
            (Self::Ready, Turn::Transmitted) => Self::Sent,
            (Self::Waiting | Self::Exposing | Self::Ready | Self::Sent, Turn::Ended) => Self::Settling,
            (Self::Settling, Turn::Settled) => Self::Done,
            (Self::Settling, Turn::Again) => Self::Waiting,
            (Self::Settling, Turn::Abandoned) => Self::Orphaned,
            (Self::Orphaned, Turn::Answered) => Self::Done,
            _ => return None,
        })
    }
}

impl Turn {
    /// All turns, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Expose,
        Self::Prepared,
        Self::Transmitted,
        Self::Ended,
        Self::Settled,
        Self::Again,
        Self::Abandoned,
        Self::Answered,
    ];
}

/// How far a call of the peer's is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// Parts of it are being read from the peer's memory.
    Reading,
    /// The consumer has it.
    Given,
    /// Its reply can be transmitted.
    Replying,
    /// Its reply was transmitted, and the reply's memory belongs to the Send.
    Sending,
    /// Its reply was sent in several transmissions, and is kept: the peer may report it broken.
    Kept,
    /// It has ended.
    Done,
}

/// What happens to a call of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// All of it is here.
    Read,
    /// The consumer has answered.
    Replied,
    /// The reply is transmitted.
    Transmitted,
    /// The reply's memory is the consumer's again.
    Released,
    /// The reply's memory is no Send's any more, and it is kept.
    Kept,
    /// The peer reports the reply broken: it goes again.
    Again,
    /// The consumer drops it, or its reply can't be told and an error is sent instead.
    Dropped,
    /// The connection is lost.
    Lost,
}

impl Service {
    /// All states, in the order of the table.
    pub const ALL: [Self; 6] = [Self::Reading, Self::Given, Self::Replying, Self::Sending, Self::Kept, Self::Done];

    /// What a step leads to; none if it can't happen.
    #[must_use]
    pub const fn next(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::Reading, Step::Read) => Self::Given,
            (Self::Given, Step::Replied) => Self::Replying,
            (Self::Replying, Step::Transmitted) => Self::Sending,
            (Self::Sending, Step::Released) => Self::Done,
            (Self::Reading | Self::Given | Self::Replying, Step::Lost) => Self::Done,
            // The Send was flushed, and says so by itself.
            (Self::Sending, Step::Lost) => Self::Sending,
            (Self::Given | Self::Replying | Self::Kept, Step::Dropped) => Self::Done,
            (Self::Sending, Step::Kept) => Self::Kept,
            (Self::Kept, Step::Again) => Self::Replying,
            (Self::Kept, Step::Lost) => Self::Done,
            _ => return None,
        })
    }
}

impl Step {
    /// All steps, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Replied,
        Self::Transmitted,
        Self::Released,
        Self::Kept,
        Self::Again,
        Self::Dropped,
        Self::Lost,
    ];
}

/// How far a session is with its connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// There is no connection.
    Down,
    /// One is being made.
    Connecting,
    /// There is one.
    Up,
    /// It is being closed: the loss is still to be told.
    Closing,
    /// There will be none.
    Closed,
}

/// What happens to a session's connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A client asks for a connection.
    Connect,
    /// It is there.
    Connected,
    /// It is to be closed.
    Close,
    /// It is gone, or could not be made; another may follow.
    Lost,
    /// It is gone, and no other will follow.
    Ended,
}

impl Stage {
    /// All stages, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Down, Self::Connecting, Self::Up, Self::Closing, Self::Closed];

    /// What a change leads to; none if it can't happen.
    #[must_use]
    pub const fn next(self, change: Change) -> Option<Self> {
        Some(match (self, change) {
            (Self::Down, Change::Connect) => Self::Connecting,
            (Self::Down | Self::Connecting, Change::Connected) => Self::Up,
            (Self::Up | Self::Connecting, Change::Close) => Self::Closing,
            (Self::Connecting | Self::Up | Self::Closing, Change::Lost) => Self::Down,
            (Self::Down | Self::Connecting | Self::Up | Self::Closing, Change::Ended) => Self::Closed,
            _ => return None,
        })
    }
}

impl Change {
    /// All changes, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Connect, Self::Connected, Self::Close, Self::Lost, Self::Ended];
}

#[cfg(test)]
mod tests;
