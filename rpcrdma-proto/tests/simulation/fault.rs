//! The kinds of faults, and how often each was injected.

/// A fault of links, transports or peers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// The connection is gone; both ends notice later, each at a time of its own.
    Disconnect,
    /// The next attempts to connect fail.
    ConnectFails,
    /// A message takes a thousand times as long.
    Delay,
    /// The first message of a connection is never answered.
    FirstLost,
    /// Memory can't be exposed.
    ExposureFails,
    /// Memory is exposed in more segments than its length needs.
    MoreSegments,
    /// The transport performs actions late.
    LateActions,
    /// Completions take long.
    LateCompletions,
    /// The consumer never answers calls, whose callers may cancel them.
    Unanswered,
    /// The clock of an end jumps ahead.
    ClockJumps,
    /// The server of the next connection is another, with other settings.
    ServerReplaced,
    /// So is the client.
    ClientReplaced,
    /// Bytes of a header change on their way.
    Corrupted,
    /// A message loses its end.
    Truncated,
    /// A message grants, or asks for, another number of credits than it should.
    Credits,
    /// A transmission of a group is lost.
    PartDropped,
    /// It is duplicated.
    PartDoubled,
    /// It arrives after the next message.
    PartsExchanged,
    /// The rest of a group arrives after another message.
    PartsInterleaved,
    /// A field of its header is another.
    PartField,
}

impl Fault {
    pub(crate) const ALL: [Self; 20] = [
        Self::Disconnect,
        Self::ConnectFails,
        Self::Delay,
        Self::FirstLost,
        Self::ExposureFails,
        Self::MoreSegments,
        Self::LateActions,
        Self::LateCompletions,
        Self::Unanswered,
        Self::ClockJumps,
        Self::ServerReplaced,
        Self::ClientReplaced,
        Self::Corrupted,
        Self::Truncated,
        Self::Credits,
        Self::PartDropped,
        Self::PartDoubled,
        Self::PartsExchanged,
        Self::PartsInterleaved,
        Self::PartField,
    ];
    pub(crate) const ROUGH: [Self; 14] = [
        Self::Disconnect,
        Self::Disconnect,
        Self::Disconnect,
        Self::ConnectFails,
        Self::Delay,
        Self::FirstLost,
        Self::ExposureFails,
        Self::MoreSegments,
        Self::LateActions,
        Self::LateCompletions,
        Self::Unanswered,
        Self::ClockJumps,
        Self::ServerReplaced,
        Self::ClientReplaced,
    ];
    pub(crate) const TEARING: [Self; 12] = [
        Self::Disconnect,
        Self::Delay,
        Self::LateActions,
        Self::PartDropped,
        Self::PartDoubled,
        Self::PartsExchanged,
        Self::PartsInterleaved,
        Self::PartField,
        Self::PartField,
        Self::PartField,
        Self::PartField,
        Self::PartField,
    ];
    pub(crate) const CORRUPTING: [Self; 11] = [
        Self::Corrupted,
        Self::Corrupted,
        Self::Truncated,
        Self::Credits,
        Self::PartDropped,
        Self::PartDoubled,
        Self::PartsExchanged,
        Self::PartsInterleaved,
        Self::PartField,
        Self::PartField,
        Self::PartField,
    ];
}

/// A message that no correct peer would send.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Hostile {
    WrongVersion,
    UnknownProcedure,
    /// Version One's `RDMA_MSGP`.
    Padded,
    /// Version One's `RDMA_DONE`.
    Done,
    /// A reply to nothing.
    UnknownReply,
    /// A reply to a call, whether it was sent or not.
    EarlyReply,
    /// A call with the XID of one that is being served.
    Twice,
    /// A call more.
    ExtraCall,
    /// An operation of the properties that is none.
    MalformedProperties,
    /// An unknown operation.
    UnknownOperation,
    /// An error, about any call or none.
    Error,
    /// A reply that invalidates an unknown key, or that of another call.
    WrongInvalidation,
    /// A request of rtrext-02, whole or begun.
    GroupRequest,
    /// A reply of rtrext-02.
    GroupReply,
    /// A transmission that continues something, or nothing.
    Continuation,
    /// A report of a broken group.
    Report,
    /// A reply to a call, in the version that the connection does not have.
    OtherVersion,
}

impl Hostile {
    pub(crate) const ALL: [Self; 17] = [
        Self::WrongVersion,
        Self::UnknownProcedure,
        Self::Padded,
        Self::Done,
        Self::UnknownReply,
        Self::EarlyReply,
        Self::Twice,
        Self::ExtraCall,
        Self::MalformedProperties,
        Self::UnknownOperation,
        Self::Error,
        Self::WrongInvalidation,
        Self::GroupRequest,
        Self::GroupReply,
        Self::Continuation,
        Self::Report,
        Self::OtherVersion,
    ];
}

/// Events that are no faults and must occur often enough, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Seen {
    Call,
    BackwardCall,
    Reply,
    CallFailed,
    SentAgain,
    NotSentAgain,
    Cancelled,
    TimedOut,
    ReplyCannot,
    Declined,
    ReadList,
    WriteList,
    ReplyChunk,
    Invalidation,
    Drained,
    Aborted,
    PropertySet,
    PropertyAsked,
    PropertyPending,
    PendingCleared,
    TwoDrafts,
    Operation,
    GrantChanged,
    AccessDenied,
    VersionOne,
    VersionTwo,
    /// A call in transmissions of rtrext-02.
    GroupRequest,
    GroupReply,
    /// An end was replaced while calls of its peer waited, which go to its successor.
    CallsOutlivePeer,
    /// A call or a reply in such transmissions, while a call of the other direction has its XID.
    GroupRequestXidMeets,
    GroupReplyXidMeets,
    PlacedItem,
    PlacedResult,
    /// Items of one message that are placed, and others that are read or written.
    MixedExplicit,
    TooShort,
    NoItem,
    /// An error of a group that was reported: one of each kind.
    BadHeaderType,
    BadOperation,
    BadContinuation,
    BadSequence,
    BadXid,
    BadTarget,
    BadOffset,
    BadPayload,
    /// A call that went again on its connection, since the peer had reported it broken.
    SentAgainAsReported,
    /// And one since the peer did not know the operation.
    SentAgainAsUnknown,
    ReplySentAgain,
    /// A group that ended with its connection.
    CutGroup,
    /// A connection that was closed as all its credits belonged to calls that were given up.
    Unresponsive,
    /// A forged message that can change no credits, which are counted all the same.
    HarmlessForgery,
}

impl Seen {
    pub(crate) const ALL: [Self; 50] = [
        Self::Call,
        Self::BackwardCall,
        Self::Reply,
        Self::CallFailed,
        Self::SentAgain,
        Self::NotSentAgain,
        Self::Cancelled,
        Self::TimedOut,
        Self::ReplyCannot,
        Self::Declined,
        Self::ReadList,
        Self::WriteList,
        Self::ReplyChunk,
        Self::Invalidation,
        Self::Drained,
        Self::Aborted,
        Self::PropertySet,
        Self::PropertyAsked,
        Self::PropertyPending,
        Self::PendingCleared,
        Self::TwoDrafts,
        Self::Operation,
        Self::GrantChanged,
        Self::AccessDenied,
        Self::VersionOne,
        Self::VersionTwo,
        Self::GroupRequest,
        Self::GroupReply,
        Self::CallsOutlivePeer,
        Self::GroupRequestXidMeets,
        Self::GroupReplyXidMeets,
        Self::PlacedItem,
        Self::PlacedResult,
        Self::MixedExplicit,
        Self::TooShort,
        Self::NoItem,
        Self::BadHeaderType,
        Self::BadOperation,
        Self::BadContinuation,
        Self::BadSequence,
        Self::BadXid,
        Self::BadTarget,
        Self::BadOffset,
        Self::BadPayload,
        Self::SentAgainAsReported,
        Self::SentAgainAsUnknown,
        Self::ReplySentAgain,
        Self::CutGroup,
        Self::Unresponsive,
        Self::HarmlessForgery,
    ];
}

/// Counts with their names.
pub(crate) type Counts = Vec<(String, u64)>;

/// Counts of many runs.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    pub(crate) steps: u64,
    pub(crate) runs: u64,
    pub(crate) connections: u64,
    pub(crate) faults: [u64; Fault::ALL.len()],
    pub(crate) hostile: [u64; Hostile::ALL.len()],
    pub(crate) seen: [u64; Seen::ALL.len()],
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            steps: 0,
            runs: 0,
            connections: 0,
            faults: [0; Fault::ALL.len()],
            hostile: [0; Hostile::ALL.len()],
            seen: [0; Seen::ALL.len()],
        }
    }
}

impl Stats {
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    pub(crate) fn hostile(&mut self, hostile: Hostile) {
        self.hostile[hostile as usize] += 1;
    }

    pub(crate) fn seen(&mut self, seen: Seen) {
        self.seen[seen as usize] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.runs += other.runs;
        self.connections += other.connections;
        let all = self.faults.iter_mut().zip(other.faults);
        let all = all.chain(self.hostile.iter_mut().zip(other.hostile));
        let all = all.chain(self.seen.iter_mut().zip(other.seen));
        all.for_each(|(sum, count)| *sum += count);
    }

    /// Each count with its name: of faults, and of what else was seen.
    pub(crate) fn counts(&self) -> (Counts, Counts) {
        let faults = Fault::ALL
            .iter()
            .map(|one| format!("{one:?}"))
            .zip(self.faults);
        let hostile = Hostile::ALL
            .iter()
            .map(|one| format!("{one:?}"))
            .zip(self.hostile);
        let seen = Seen::ALL
            .iter()
            .map(|one| format!("{one:?}"))
            .zip(self.seen);
        (faults.chain(hostile).collect(), seen.collect())
    }
}
