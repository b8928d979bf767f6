//! The output of a session: actions for the transport, events for the consumer, and messages to
//! send.

use core::fmt;
use core::ops::Range;

use alloc::boxed::Box;
use arrayvec::ArrayVec;

use crate::chunk::{ChunkError, Segment};
use crate::continuation::{GroupError, GroupErrorReport, ReassembledMessage};
use crate::error::PeerError;
pub use crate::placement::BufferId;
use crate::property::BasicProperty;
use crate::transfer::{MAX_RESULTS, TransferError};
use crate::version::Version;

/// Identifies an incoming call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServedCallId(pub(super) u32);

/// An action for the transport. Actions must be performed in order, and before any message polled
/// after them is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Connects to the server. The transport answers with `connected` or `lost`.
    Connect,
    /// Posts receive buffers.
    PostReceives {
        /// The number of buffers.
        count: u32,
        /// The size of each buffer in bytes.
        size: u32,
    },
    /// Registers the regions of `Session::exposures` for access by the peer. The transport answers
    /// with `exposed` or `expose_failed`.
    Expose {
        /// The XID of the call.
        xid: u32,
    },
    /// Revokes the peer's access to the memory of a call. The transport answers with `fenced`. Some
    /// regions may not have been exposed yet.
    Fence {
        /// The XID of the call.
        xid: u32,
        /// A key that the reply has already invalidated.
        invalidated: Option<u32>,
    },
    /// Assembles an incoming call from the pieces of `Session::pieces`; the inline pieces are in
    /// this receive buffer. The transport answers with `read_done` once the call is complete.
    Read {
        /// The call.
        call: ServedCallId,
        /// The receive buffer that holds the inline pieces.
        buffer: BufferId,
        /// The range of the buffer that holds them.
        inline: Range<u32>,
    },
    /// Assembles an incoming call that arrived in transmissions of rtrext-02 and refers to memory
    /// to be read. The transport answers with `read_done` once the call is complete.
    Gather {
        /// The call.
        call: ServedCallId,
        /// The locations of its parts.
        message: Box<ReassembledMessage>,
    },
    /// Returns the buffers of this message for reposting: transmissions of rtrext-02 that were
    /// retained for a group that will not complete. `Session::recycle` takes the memory of the list
    /// back.
    Free {
        /// The buffers.
        message: Box<ReassembledMessage>,
    },
    /// Closes the connection. The transport answers with `lost` once every Send is released.
    Close {
        /// The reason.
        reason: CloseReason,
    },
}

/// An event for the consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The connection is established and the version is negotiated.
    Ready {
        /// The version.
        version: Version,
    },
    /// A call arrived.
    CallArrived {
        /// The call; `reply` or `reject` answers it.
        call: ServedCallId,
        /// The XID.
        xid: u32,
        /// The location of the call.
        message: CallLocation,
    },
    /// An incoming call ended without the release of its reply (`Session::released`). The memory of
    /// the reply is free.
    CallEnded {
        /// The call.
        call: ServedCallId,
        /// Whether a reply or an error was sent.
        answered: bool,
    },
    /// The reply to an outgoing call arrived. The peer can no longer access the memory of the call.
    ReplyArrived {
        /// The XID of the call.
        xid: u32,
        /// The location of the reply.
        reply: ReplyLocation,
    },
    /// An outgoing call failed. The peer can no longer access the memory of the call.
    CallFailed {
        /// The XID of the call.
        xid: u32,
        /// The cause.
        error: CallFailure,
        /// Whether the peer may have executed the call: it was sent, and the peer has not refused
        /// it for its version or operation.
        sent: bool,
    },
    /// The peer announced properties, or a request of the peer changed ours. No event reports a
    /// larger size of our receive buffers that the peer has requested.
    PropertiesChanged,
    /// The outcome of a request to change one of the peer's properties is known.
    PropertyAnswered {
        /// The requested value.
        requested: BasicProperty,
        /// The value in force; `None` if the peer rejected the change.
        value: Option<BasicProperty>,
    },
    /// The peer reported an error about a message that belongs to no open call.
    PeerError {
        /// The XID in the error.
        xid: u32,
        /// The error.
        error: PeerError,
    },
    /// A group of transmissions failed: one that we sent and the peer reported, or one that we
    /// received and reported.
    GroupFailed {
        /// The report.
        report: GroupErrorReport,
        /// Whether this end sent the group.
        sent_here: bool,
    },
    /// An operation that the consumer registered arrived.
    Operation {
        /// The operation, and the location of its payload.
        operation: ExtensionOperation,
    },
    /// The connection is closed, or could not be established. Each connection is closed by exactly
    /// one event. A session that ends without a connection reports another one.
    Closed {
        /// The reason.
        reason: CloseReason,
        /// Whether the session has ended: no other connection follows.
        is_final: bool,
    },
}

/// The location of an incoming call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallLocation {
    /// The call is in a receive buffer.
    Inline {
        /// The buffer.
        buffer: BufferId,
        /// The range of the buffer.
        range: Range<u32>,
    },
    /// The transport assembled the call.
    Placed {
        /// The length in bytes.
        length: u32,
    },
    /// The call is in the receive buffers of its transmissions (rtrext-02): the Payload stream, and
    /// the items that the Sends placed.
    Reassembled(Box<ReassembledMessage>),
}

/// The location of the reply to an outgoing call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyLocation {
    /// The receive buffer.
    pub buffer: BufferId,
    /// The range of the buffer that holds the reply without its reduced results; empty if the whole
    /// reply is in the Reply chunk.
    pub inline: Range<u32>,
    /// The number of bytes in the Reply chunk, if one was offered.
    pub long: Option<u32>,
    /// The number of bytes in each offered Write chunk.
    pub results: ArrayVec<u32, MAX_RESULTS>,
    /// The location of a reply that arrived in transmissions of rtrext-02; `inline` and `long` are
    /// then empty.
    pub reassembled: Option<Box<ReassembledMessage>>,
}

impl ReplyLocation {
    /// Returns the location of a reply without chunks.
    #[inline]
    pub(super) const fn inline(buffer: BufferId, bytes: Range<u32>) -> Self {
        Self {
            buffer,
            inline: bytes,
            long: None,
            results: ArrayVec::new_const(),
            reassembled: None,
        }
    }
}

/// An operation of an extension that the consumer registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtensionOperation {
    /// The XID.
    pub xid: u32,
    /// The code of the operation.
    pub code: u32,
    /// Whether the operation goes from requester to responder.
    pub is_call: bool,
    /// The receive buffer.
    pub buffer: BufferId,
    /// The range of the buffer that holds the content of the operation.
    pub info: Range<u32>,
    /// The range of the buffer that holds an RPC message.
    pub payload: Range<u32>,
}

/// Describes why an outgoing call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallFailure {
    /// No transfer method fits the call.
    Transfer(TransferError),
    /// The transport could not expose the memory of the call.
    Memory,
    /// The transport had no memory for the reply, and reports this itself: a session does not.
    ReplyMemory,
    /// The peer answered with an error.
    Peer(PeerError),
    /// The peer reported an error in the transmissions of the call, and again after a
    /// retransmission by other means.
    Group(GroupError),
    /// The chunks of the reply differ from those that the call offered.
    Reply(ChunkError),
    /// The reply has a Read list.
    ReplyReadList,
    /// A transmission of the reply (rtrext-02) could not be decoded.
    ReplyTransmission,
    /// The consumer cancelled the call.
    Cancelled,
    /// The deadline passed.
    TimedOut,
    /// The connection was lost after the call was transmitted, and the call must not be
    /// retransmitted ([`Session::call_resent_within`](super::Session::call_resent_within)).
    Disconnected(CloseReason),
    /// The connection was lost after the call was transmitted, and the time within which the call
    /// may be retransmitted has passed.
    ResendExpired(CloseReason),
    /// The session ended.
    Closed(CloseReason),
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transfer(why) => why.fmt(f),
            Self::Memory => f.write_str("its memory could not be exposed"),
            Self::ReplyMemory => f.write_str("there was no memory for its reply"),
            Self::Peer(PeerError::Versions { low, high }) => {
                write!(
                    f,
                    "the peer answered that it supports versions {low} to {high}"
                )
            }
            Self::Peer(PeerError::Header) => f.write_str(
                "the peer rejected its header: it is malformed, it has too many chunks, or the \
                reply needs more memory than it offers",
            ),
            Self::Peer(PeerError::Operation) => f.write_str("the peer does not know the operation"),
            Self::Group(why) => write!(f, "the peer reports of its transmissions: {why}"),
            Self::Reply(why) => write!(f, "the reply's chunks: {why}"),
            Self::ReplyReadList => f.write_str("the reply has a Read list"),
            Self::ReplyTransmission => {
                f.write_str("a transmission of the reply could not be decoded")
            }
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::TimedOut => f.write_str("its deadline has passed"),
            Self::Disconnected(why) => write!(f, "the connection was lost: {why}"),
            Self::ResendExpired(why) => {
                write!(
                    f,
                    "the connection was lost, and it is too late to retransmit: {why}"
                )
            }
            Self::Closed(why) => write!(f, "the session has ended: {why}"),
        }
    }
}

impl core::error::Error for CallFailure {}

/// Describes why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// The consumer drained the session, and all calls are complete.
    Drained,
    /// The consumer aborted the session.
    Aborted,
    /// The two ends have no version in common.
    NoVersion,
    /// The peer did not answer the first message in time.
    NegotiationTimeout,
    /// Every credit belongs to an abandoned call or to a property request, and the peer answers
    /// none of them.
    Unresponsive,
    /// The peer sent more calls than it was granted, or more messages than can be answered.
    CreditOverrun,
    /// The peer invalidated memory that does not belong to the answered call.
    Invalidated,
    /// The transport lost the connection.
    Lost,
    /// The transport could not establish the connection.
    Unreachable,
}

impl CloseReason {
    /// Returns whether no other connection follows.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Drained | Self::Aborted | Self::NoVersion)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drained => "all calls are complete, and the consumer closed it",
            Self::Aborted => "the consumer closed it",
            Self::NoVersion => "the two ends have no version in common",
            Self::NegotiationTimeout => "the first message was not answered in time",
            Self::Unresponsive => {
                "every credit belongs to a cancelled call, and the peer \
                answers none of them"
            }
            Self::CreditOverrun => "the peer has sent more calls than it was granted",
            Self::Invalidated => "the peer has invalidated memory of another call",
            Self::Lost => "the peer is gone",
            Self::Unreachable => "it could not be made",
        })
    }
}

impl core::error::Error for CloseReason {}

/// The owner of a message: the memory that the Send holds until it is released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SendOwner {
    /// An outgoing call.
    Call {
        /// The XID of the call.
        xid: u32,
    },
    /// The reply to an incoming call.
    Reply {
        /// The call.
        call: ServedCallId,
    },
    /// No memory besides the header.
    Header,
}

/// A message to send. Its header is in the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The owner. `Session::inline_parts` returns the ranges of its memory that follow the header,
    /// and `Session::writes` the RDMA Writes to post before it. The transport calls
    /// `Session::released` when the Send completes.
    pub owner: SendOwner,
    /// The length of the header in bytes.
    pub header: usize,
    /// The number of bytes that follow the header; zero for one of several transmissions.
    pub inline: u32,
    /// The key to invalidate with the Send.
    pub invalidate: Option<u32>,
    /// The position among several transmissions; `None` for a message without rtrext-02. The memory
    /// of the owner is released with the last transmission only.
    pub transmission: Option<TransmissionIndex>,
}

/// The position of one transmission in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransmissionIndex {
    /// The number of the transmission, from zero.
    pub number: u32,
    /// Whether the transmission is the last one.
    pub last: bool,
}

impl Transmit {
    /// Returns a message that is only a header of this length.
    pub(crate) const fn header_only(header: usize) -> Self {
        Self {
            owner: SendOwner::Header,
            header,
            inline: 0,
            invalidate: None,
            transmission: None,
        }
    }

    /// Returns whether this transmission completes the message.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        match self.transmission {
            None => true,
            Some(share) => share.last,
        }
    }
}

/// A piece of the payload of a transmission. Pieces follow the header in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PayloadPiece {
    /// A range of the call or the reply.
    Bytes(Range<u32>),
    /// Padding of zeros, which aligns the next piece with its target (rtrext-02, section 11).
    Zeros(u32),
    /// A range of an item that the Send places. Gathering it from its own memory avoids a copy.
    Data(Range<u32>),
}

/// A region of memory of a call that the peer may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exposure {
    /// The region.
    pub region: CallRegion,
    /// The length in bytes.
    pub length: u32,
}

/// A region of the memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallRegion {
    /// The argument with this number: the peer reads it.
    Item(usize),
    /// The whole call: the peer reads it.
    Call,
    /// The memory for the result with this number: the peer writes it.
    Result(usize),
    /// The memory for the reply: the peer writes it.
    Reply,
}

impl CallRegion {
    /// Returns whether the peer writes the region.
    #[must_use]
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Result(_) | Self::Reply)
    }
}

/// An RDMA Write of a part of a reply. The transport posts it before the message that returns the
/// reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdmaWrite {
    /// The target in the memory of the peer.
    pub target: Segment,
    /// The range of the reply.
    pub range: Range<u32>,
}
