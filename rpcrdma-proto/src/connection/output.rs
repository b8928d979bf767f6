//! What a session hands out: actions for the transport, events for the consumer, and messages to be sent.

use core::fmt;
use core::ops::Range;

use alloc::boxed::Box;
use arrayvec::ArrayVec;

use crate::chunk::{Fault, Segment};
use crate::continuation::{Broken, Gathered, Report};
use crate::error::PeerError;
pub use crate::placement::Buffer;
use crate::property::Basic;
use crate::travel::{Cannot, RESULTS};
use crate::version::Version;

/// A call of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Served(pub(super) u32);

/// What the transport is to do. Actions are to be done in their order, and before messages that are polled after them are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Connect to the server; `connected` or `lost` tells how it went.
    Connect,
    /// Post so many receive buffers, each of this size in octets.
    PostReceives {
        /// How many.
        count: u32,
        /// Octets of each.
        size: u32,
    },
    /// Register memory of a call for the peer: that of `Session::exposures`. `exposed` or `unexposable` tells how it went.
    Expose {
        /// The call.
        xid: u32,
    },
    /// Make sure that the peer can no longer reach a call's memory, then tell so by `fenced`. Some of it may not have been
    /// exposed yet.
    Fence {
        /// The call.
        xid: u32,
        /// A key that the reply has invalidated already.
        invalidated: Option<u32>,
    },
    /// Put a call together: the pieces of `Session::pieces`, of which the inline ones are in this receive buffer. `moved` tells
    /// that all of it is there.
    Read {
        /// The call.
        call: Served,
        /// Where its inline octets are.
        buffer: Buffer,
        /// Which octets of that buffer they are.
        inline: Range<u32>,
    },
    /// Put a call together that came in transmissions of rtrext-02, and of which some is to be read: the sources of this
    /// message. `moved` tells that all of it is there.
    Gather {
        /// The call.
        call: Served,
        /// Where its parts are.
        message: Box<Gathered>,
    },
    /// The buffers of this message may be posted again: transmissions of rtrext-02 which were kept for others that have not
    /// come so. `Session::recycle` takes back its memory.
    Free {
        /// Where they are.
        message: Box<Gathered>,
    },
    /// Close the connection, and tell `lost` once every message that was being sent is released.
    Close {
        /// Why.
        why: Reason,
    },
}

/// What the consumer is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The connection is there and its version is settled.
    Ready {
        /// The version.
        version: Version,
    },
    /// A call of the peer's is here.
    CallArrived {
        /// The call; `reply` or `decline` answers it.
        call: Served,
        /// Its XID.
        xid: u32,
        /// Where it is.
        message: Message,
    },
    /// A call of the peer's has ended, and not with the release of its reply (`Session::released`): the memory of that is free.
    CallEnded {
        /// The call.
        call: Served,
        /// Whether a reply or an error was sent.
        answered: bool,
    },
    /// A call of ours is answered, and its memory is its own again.
    ReplyArrived {
        /// The call.
        xid: u32,
        /// Where the reply is.
        reply: Reply,
    },
    /// A call of ours has failed, and its memory is its own again.
    CallFailed {
        /// The call.
        xid: u32,
        /// Why.
        why: Failure,
    },
    /// The peer has told properties, or ours have changed at its request.
    PropertiesChanged,
    /// It is known what has become of a request to change one of the peer's properties.
    PropertyAnswered {
        /// What was asked for.
        asked: Basic,
        /// What holds now; none if the change was rejected.
        value: Option<Basic>,
    },
    /// The peer reports an error about a message that is no open call's.
    PeerError {
        /// The XID that it names.
        xid: u32,
        /// The error.
        error: PeerError,
    },
    /// A group of transmissions was broken: of ours, as the peer reports, or of the peer's, as was reported to it.
    Broken {
        /// What was reported.
        report: Report,
        /// Whether the group was ours.
        ours: bool,
    },
    /// An operation that the consumer has registered.
    Operation {
        /// What the transport header says, and where the rest is.
        operation: Operation,
    },
    /// The connection is gone. Each close of a connection is told once, with its reason.
    Closed {
        /// Why.
        why: Reason,
        /// Whether another may follow.
        last: bool,
    },
}

/// Where a call of the peer's is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// In these octets of a receive buffer.
    Inline {
        /// The buffer.
        buffer: Buffer,
        /// Which of its octets.
        octets: Range<u32>,
    },
    /// Where the transport has put it together, of so many octets.
    Placed {
        /// How many.
        length: u32,
    },
    /// In the receive buffers of its transmissions (rtrext-02): the Payload stream, and items where the Sends have placed them.
    Gathered(Box<Gathered>),
}

/// Where the reply to a call is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The receive buffer.
    pub buffer: Buffer,
    /// Which of its octets are the reply, without what was moved apart; none if all of it is in the Reply chunk.
    pub inline: Range<u32>,
    /// Octets in the Reply chunk, where one was offered.
    pub long: Option<u32>,
    /// Octets in each of the Write chunks that were offered.
    pub results: ArrayVec<u32, RESULTS>,
    /// Where it is, if it came in transmissions of rtrext-02: then nothing is inline or long.
    pub gathered: Option<Box<Gathered>>,
}

impl Reply {
    /// One that is in a receive buffer, without chunks.
    #[inline]
    pub(super) const fn inline(buffer: Buffer, octets: Range<u32>) -> Self {
        Self { buffer, inline: octets, long: None, results: ArrayVec::new_const(), gathered: None }
    }
}

/// An operation of an extension that the consumer has registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The XID.
    pub xid: u32,
    /// Which operation.
    pub code: u32,
    /// Whether it goes from requester to responder.
    pub call: bool,
    /// The receive buffer.
    pub buffer: Buffer,
    /// Which of its octets are the operation's own.
    pub info: Range<u32>,
    /// Which are of an RPC message.
    pub payload: Range<u32>,
}

/// Why a call of ours has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// There is no way for it to travel.
    Cannot(Cannot),
    /// The transport could not expose its memory.
    Memory,
    /// The peer has answered with an error.
    Peer(PeerError),
    /// The peer reports that its transmissions were broken, and so again when it was sent by other means.
    Broken(Broken),
    /// The chunks of the reply are not those that were offered.
    Reply(Fault),
    /// The reply moves something by chunks of its own.
    ReplyReads,
    /// The consumer has given it up.
    Cancelled,
    /// Its deadline has passed.
    TimedOut,
    /// The session has ended.
    Closed(Reason),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cannot(why) => why.fmt(f),
            Self::Memory => f.write_str("its memory could not be exposed"),
            Self::Peer(PeerError::Versions { low, high }) => {
                write!(f, "the peer answered that it speaks the versions {low} to {high}")
            }
            Self::Peer(PeerError::Header) => f.write_str("the peer could not take its header"),
            Self::Peer(PeerError::Operation) => f.write_str("the peer does not know the operation"),
            Self::Broken(why) => write!(f, "the peer reports of its transmissions: {why}"),
            Self::Reply(why) => write!(f, "the reply's chunks: {why}"),
            Self::ReplyReads => f.write_str("the reply has a Read list"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::TimedOut => f.write_str("its deadline has passed"),
            Self::Closed(why) => write!(f, "the session has ended: {why}"),
        }
    }
}

impl core::error::Error for Failure {}

/// Why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The consumer wanted it, and what was under way is done.
    Drained,
    /// The consumer wanted it at once.
    Aborted,
    /// The two ends have no version in common.
    NoVersion,
    /// The first message was not answered in time.
    NotAnswered,
    /// The peer has sent more calls than it was granted.
    Overrun,
    /// The peer has invalidated memory that is not the answered call's.
    Invalidated,
    /// The transport has lost it.
    Lost,
    /// It could not be made.
    Unreachable,
}

impl Reason {
    /// Whether no other connection follows.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Drained | Self::Aborted | Self::NoVersion)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drained => "all is done, and the consumer closed it",
            Self::Aborted => "the consumer closed it",
            Self::NoVersion => "the two ends have no version in common",
            Self::NotAnswered => "the first message was not answered in time",
            Self::Overrun => "the peer has sent more calls than it was granted",
            Self::Invalidated => "the peer has invalidated memory of another call",
            Self::Lost => "it was lost",
            Self::Unreachable => "it could not be made",
        })
    }
}

impl core::error::Error for Reason {}

/// What a message that is sent belongs to: whose memory the Send holds until it is released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sent {
    /// A call of ours.
    Call {
        /// Which.
        xid: u32,
    },
    /// The reply to a call of the peer's.
    Reply {
        /// Which.
        call: Served,
    },
    /// Nothing but its header.
    Header,
}

/// A message to be sent: its header has been written to the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// What it belongs to. `Session::parts` tells which octets of that follow the header, `Session::writes` what is to be
    /// written before it, and `Session::released` is to be told when the Send no longer needs them.
    pub what: Sent,
    /// Octets of the header.
    pub header: usize,
    /// Octets that follow the header; none are told of one of several transmissions.
    pub inline: u32,
    /// The key to invalidate with it.
    pub invalidate: Option<u32>,
    /// Which of several transmissions it is; none for a message without rtrext-02. What the message belongs to is released
    /// with the last one alone.
    pub share: Option<Share>,
}

/// A transmission of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Its number, from zero on.
    pub number: u32,
    /// Whether it is the last one.
    pub last: bool,
}

impl Transmit {
    /// Whether the message is whole with it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        match self.share {
            None => true,
            Some(share) => share.last,
        }
    }
}

/// What follows the header of a transmission, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Laid {
    /// These octets of the call or the reply.
    Octets(Range<u32>),
    /// So many zeros: what follows is to land where it is wanted (rtrext-02, section 11).
    Zeros(u32),
    /// These octets of an item, which are placed: best sent from where they are.
    Data(Range<u32>),
}

/// Memory of a call that the peer may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exposure {
    /// What is exposed.
    pub region: Region,
    /// Octets.
    pub length: u32,
}

/// A region of a call's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// An argument, by its number: the peer reads it.
    Item(usize),
    /// The whole call: the peer reads it.
    Call,
    /// The memory for a result, by its number: the peer writes it.
    Result(usize),
    /// The memory for the reply: the peer writes it.
    Reply,
}

impl Region {
    /// Whether the peer writes it.
    #[must_use]
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Result(_) | Self::Reply)
    }
}

/// An RDMA Write of a part of a reply: to be posted before the message that returns the reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Where to.
    pub target: Segment,
    /// Which octets of the reply.
    pub octets: Range<u32>,
}
