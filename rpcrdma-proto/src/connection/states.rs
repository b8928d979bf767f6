//! The state machines of outgoing calls, incoming calls and the connection: one table each.
//!
//! `None` from `next` is no defect: callers also try events in states that these do not change, and
//! use the answer as a condition. A test compares the tables with docs/state-machines.md.

/// The state of an outgoing call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestState {
    /// The call waits for a connection, a version or a credit.
    Waiting,
    /// The call has a credit, and its memory is being exposed.
    Exposing,
    /// The call can be transmitted.
    Ready,
    /// The call was transmitted and waits for its reply.
    Sent,
    /// The outcome is known. The memory of the call is being fenced, or a Send still holds it.
    Settling,
    /// The call has ended here but not at the peer: its reply will return its credit.
    Orphaned,
    /// The call has ended.
    Done,
}

/// An event of an outgoing call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestEvent {
    /// The call takes its credit and has chunks to expose.
    Expose,
    /// The call has its credit, and its chunks are exposed or it needs none.
    Prepared,
    /// The call is transmitted.
    Transmitted,
    /// The outcome is known: a reply, an error, a cancellation, or a lost connection.
    Ended,
    /// The memory of the call is released, and nothing is left to do.
    Settled,
    /// The memory of the call is released, and the call is retransmitted.
    Retry,
    /// The memory of the call is released, and its reply is still outstanding.
    Orphaned,
    /// The reply of an orphaned call arrived, or will never arrive.
    Answered,
}

impl RequestState {
    /// All states, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Exposing,
        Self::Ready,
        Self::Sent,
        Self::Settling,
        Self::Orphaned,
        Self::Done,
    ];

    /// Returns the next state; `None` if the event has no effect in this state.
    #[must_use]
    pub const fn next(self, event: RequestEvent) -> Option<Self> {
        Some(match (self, event) {
            (Self::Waiting, RequestEvent::Expose) => Self::Exposing,
            (Self::Waiting | Self::Exposing, RequestEvent::Prepared) => Self::Ready,
            (Self::Ready, RequestEvent::Transmitted) => Self::Sent,
            (Self::Waiting | Self::Exposing | Self::Ready | Self::Sent, RequestEvent::Ended) => {
                Self::Settling
            }
            (Self::Settling, RequestEvent::Settled) => Self::Done,
            (Self::Settling, RequestEvent::Retry) => Self::Waiting,
            (Self::Settling, RequestEvent::Orphaned) => Self::Orphaned,
            (Self::Orphaned, RequestEvent::Answered) => Self::Done,
            _ => return None,
        })
    }
}

impl RequestEvent {
    /// All events, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Expose,
        Self::Prepared,
        Self::Transmitted,
        Self::Ended,
        Self::Settled,
        Self::Retry,
        Self::Orphaned,
        Self::Answered,
    ];
}

/// The state of an incoming call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServedState {
    /// Parts of the call are being read from the peer's memory.
    Reading,
    /// The consumer has the call.
    Delivered,
    /// The reply can be transmitted.
    Replying,
    /// The reply was transmitted, and the Send holds its memory.
    Sending,
    /// The reply was sent in several transmissions and is retained: the peer may report an error in
    /// them.
    Retained,
    /// The call has ended.
    Done,
}

/// An event of an incoming call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServedEvent {
    /// The call is complete.
    Read,
    /// The consumer answered.
    Replied,
    /// The reply is transmitted.
    Transmitted,
    /// The Send released the memory of the reply.
    Released,
    /// The Send released the memory of the reply, which is retained.
    Kept,
    /// The peer reported an error in the reply, which is retransmitted.
    Again,
    /// The consumer dropped the call, the reply cannot be sent and an error is sent instead, or the
    /// retained reply is no longer needed.
    Dropped,
    /// The connection is lost.
    Lost,
}

impl ServedState {
    /// All states, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::Reading,
        Self::Delivered,
        Self::Replying,
        Self::Sending,
        Self::Retained,
        Self::Done,
    ];

    /// Returns the next state; `None` if the event has no effect in this state.
    #[must_use]
    pub const fn next(self, event: ServedEvent) -> Option<Self> {
        Some(match (self, event) {
            (Self::Reading, ServedEvent::Read) => Self::Delivered,
            (Self::Delivered, ServedEvent::Replied) => Self::Replying,
            (Self::Replying, ServedEvent::Transmitted) => Self::Sending,
            (Self::Sending, ServedEvent::Released) => Self::Done,
            (Self::Reading | Self::Delivered | Self::Replying, ServedEvent::Lost) => Self::Done,
            // The flushed Send reports its own completion.
            (Self::Sending, ServedEvent::Lost) => Self::Sending,
            (Self::Delivered | Self::Replying | Self::Retained, ServedEvent::Dropped) => Self::Done,
            (Self::Sending, ServedEvent::Kept) => Self::Retained,
            (Self::Retained, ServedEvent::Again) => Self::Replying,
            (Self::Retained, ServedEvent::Lost) => Self::Done,
            _ => return None,
        })
    }
}

impl ServedEvent {
    /// All events, in the order of the table.
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

/// The state of the connection of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnState {
    /// There is no connection.
    Down,
    /// A connection is being established.
    Connecting,
    /// The connection is established.
    Up,
    /// The connection is being closed; the transport has not reported the loss yet.
    Closing,
    /// The session has ended.
    Closed,
}

/// An event of the connection of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StateChange {
    /// A client requests a connection.
    Connect,
    /// The connection is established.
    Connected,
    /// The session closes the connection.
    Close,
    /// The connection is lost or could not be established; another may follow.
    Lost,
    /// The connection is lost, and no other follows.
    Ended,
}

impl ConnState {
    /// All states, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Down,
        Self::Connecting,
        Self::Up,
        Self::Closing,
        Self::Closed,
    ];

    /// Returns the next state; `None` if the event has no effect in this state.
    #[must_use]
    pub const fn next(self, event: StateChange) -> Option<Self> {
        Some(match (self, event) {
            (Self::Down, StateChange::Connect) => Self::Connecting,
            (Self::Down | Self::Connecting, StateChange::Connected) => Self::Up,
            (Self::Up | Self::Connecting, StateChange::Close) => Self::Closing,
            (Self::Connecting | Self::Up | Self::Closing, StateChange::Lost) => Self::Down,
            (Self::Down | Self::Connecting | Self::Up | Self::Closing, StateChange::Ended) => {
                Self::Closed
            }
            _ => return None,
        })
    }
}

impl StateChange {
    /// All events, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Connect,
        Self::Connected,
        Self::Close,
        Self::Lost,
        Self::Ended,
    ];
}

#[cfg(test)]
mod tests;
