//! The events and parameters that a connection and its consumer exchange.
//!
//! These types are data: `driver::connection` creates events, and the consumer creates parameters.
//! The items of a `Payload` must be in the order of their positions, which count from the beginning
//! of the message with all items in place: `flattened` and `rpc_transport::message` rely on both.

use std::fmt;
use std::ops::{Add, Range};
use std::time::Duration;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{
    CallFailure, CloseReason, ReplyError, ServedCallId, SessionCallError,
};
use rpcrdma_proto::transfer::{MAX_ITEMS, MAX_RESULTS};
use rpcrdma_proto::version::Version;
use tracing::Span;
use xdrgen_runtime::SharedBytes;

use super::message::WriteError;
use crate::memory::{Buf, Frozen, MemoryError, Pool};
use crate::provider::Device;

/// The counters of a connection's transport.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConnectionCounters {
    /// Messages sent.
    pub sends: u64,
    /// RDMA Reads.
    pub reads: u64,
    /// Sinks of RDMA Reads that were registered individually, which iWARP requires.
    pub sinks: u64,
    /// RDMA Writes.
    pub writes: u64,
    /// Probes: RDMA Writes or Reads of no bytes, which detect a dead peer, and confirm that
    /// everything arrived before a connection is closed.
    pub probes: u64,
    /// Work requests posted, including binds and invalidations of memory windows, but not receives.
    pub posted: u64,
    /// Completions taken, including those of receives.
    pub completed: u64,
    /// The number of round trips: of our calls until their replies, and of RDMA Reads of the peer's
    /// calls.
    pub round_trips: u64,
    /// Regions exposed to the peer.
    pub exposures: u64,
    /// Bytes of messages that were copied into send buffers or out of receive buffers. Reduced
    /// items are not copied.
    pub copied: u64,
}

impl Add for ConnectionCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sends: self.sends + other.sends,
            reads: self.reads + other.reads,
            sinks: self.sinks + other.sinks,
            writes: self.writes + other.writes,
            probes: self.probes + other.probes,
            posted: self.posted + other.posted,
            completed: self.completed + other.completed,
            round_trips: self.round_trips + other.round_trips,
            exposures: self.exposures + other.exposures,
            copied: self.copied + other.copied,
        }
    }
}

/// An event of a connection.
#[derive(Debug)]
pub enum DriverEvent {
    /// It is established, in this version.
    Ready(Version),
    /// The peer calls, and waits for [`Driver::reply`](super::Driver::reply).
    CallArrived {
        /// The call.
        call: ServedCallId,
        /// The XID, with which its reply begins.
        xid: u32,
        /// The RPC message.
        message: Payload,
    },
    /// A call is answered. [`Driver::take_buffers`](super::Driver::take_buffers) has its results.
    ReplyArrived {
        /// The call's XID.
        xid: u32,
        /// The RPC message.
        message: Payload,
    },
    /// A call has failed. [`Driver::take_buffers`](super::Driver::take_buffers) has its buffers.
    CallFailed {
        /// The call's XID.
        xid: u32,
        /// Why.
        error: CallFailure,
        /// Whether the peer may have the call.
        sent: bool,
    },
    /// The connection is closed. A client's driver establishes another one, unless this is final.
    Closed {
        /// Why.
        reason: CloseReason,
        /// Whether no other connection follows.
        is_final: bool,
    },
}

/// An RPC message that was received.
#[derive(Debug)]
pub struct Payload {
    pub(super) buf: Buf,
    pub(super) range: Range<usize>,
    /// Items that the peer's Sends have placed.
    pub(super) items: Option<Box<Items>>,
}

/// The placed items of one message.
pub(crate) type Items = ArrayVec<PlacedItem, MAX_ITEMS>;

/// An item of a message that the peer's Sends have placed in segments of receive buffers
/// (rtrext-02).
///
/// Its parts are [`Frozen`] buffers, which can be kept. Their memory is free when the last
/// reference is dropped.
#[derive(Clone, Debug)]
pub struct PlacedItem {
    pub(super) position: u32,
    pub(super) length: u32,
    pub(super) first: Frozen,
    pub(super) more: Vec<Frozen>,
}

impl PlacedItem {
    /// Returns the offset of the data, in bytes from the beginning of the RPC message with all
    /// items in place.
    #[must_use]
    pub const fn position(&self) -> u32 {
        self.position
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Returns true if the item has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the first part of the data.
    pub(crate) const fn first(&self) -> &Frozen {
        &self.first
    }

    /// Returns the parts of the data in order. There is one part, unless the item is longer than a
    /// segment of a receive buffer.
    pub fn parts(&self) -> impl Iterator<Item = &Frozen> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl Payload {
    /// Returns the bytes of the message, without placed items.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the placed items, which are not in [`bytes`](Self::bytes).
    #[must_use]
    pub fn items(&self) -> &[PlacedItem] {
        self.items
            .as_ref()
            .map(|items| items.as_slice())
            .unwrap_or_default()
    }

    /// Returns the bytes of the message, without placed items, which share its buffer.
    #[must_use]
    pub fn into_shared(self) -> SharedBytes {
        let Range { start, end } = self.range;
        let part = u32::try_from(start).ok().zip(u32::try_from(end).ok());
        let part = part.and_then(|(start, end)| {
            Frozen::from(self.buf).into_part(start, end.saturating_sub(start))
        });
        part.map(SharedBytes::from).unwrap_or_default()
    }

    /// Takes the placed items if there are any, and each has one part.
    pub(crate) fn take_whole_items(&mut self) -> Option<Box<Items>> {
        let items = self.items.as_ref()?;
        let is_whole = items.iter().all(|item| item.more.is_empty());
        self.items.take_if(|items| is_whole && !items.is_empty())
    }

    /// Returns the message with all of its items in place. Items are copied.
    ///
    /// # Errors
    /// Fails if no memory is available.
    pub(crate) fn flattened<D: Device>(self, pool: &Pool<D>) -> Result<Self, MemoryError> {
        if self.items().is_empty() {
            return Ok(self);
        }
        let bytes = self.bytes();
        let items: usize = self
            .items()
            .iter()
            .map(|item| item.length.next_multiple_of(4) as usize)
            .sum();
        let length = bytes.len() + items;
        let mut whole =
            pool.take(u32::try_from(length).map_err(|_| MemoryError::TooLarge(length))?)?;
        let mut left = bytes;
        for item in self.items() {
            let before = (item.position as usize)
                .saturating_sub(whole.len())
                .min(left.len());
            let (here, after) = left.split_at(before);
            whole.extend_from_slice(here);
            item.parts().for_each(|part| {
                whole.extend_from_slice(part);
            });
            let padding = item.length.next_multiple_of(4) - item.length;
            whole.extend_from_slice([0; 3].get(..padding as usize).unwrap_or_default());
            left = after;
        }
        whole.extend_from_slice(left);
        Ok(Self {
            range: 0..whole.len(),
            buf: whole,
            items: None,
        })
    }
}

/// The buffers of a call.
#[derive(Debug, Default)]
pub struct CallBuffers {
    /// The items of the call.
    pub items: ArrayVec<Buf, MAX_ITEMS>,
    /// The buffers for the results.
    pub results: ArrayVec<Buf, MAX_RESULTS>,
}

/// An error that prevented a call, with the buffers of the call.
#[derive(Debug)]
pub struct BeginError {
    /// The error.
    pub error: OutgoingCallError,
    /// The buffers.
    pub buffers: Box<CallBuffers>,
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for BeginError {}

/// The parameters of a call, except its message.
#[derive(Debug)]
pub struct CallParams {
    /// The buffers for results that are eligible for direct data placement, in order.
    pub results: ArrayVec<Buf, MAX_RESULTS>,
    /// The maximum size of the reply in bytes, with all results in place.
    pub max_reply: u32,
    /// Whether items of the call may be transferred in chunks.
    pub reducible: bool,
    /// How long after its first transmission the call may be retransmitted over a further
    /// connection: zero for never, and [`Duration::MAX`] for no limit.
    pub resend_window: Duration,
    /// When it fails unless it is answered, in the driver's time ([`Driver::now`](super::Driver)).
    pub deadline: Option<u64>,
    /// The span on which the driver records `xid`, `bytes` and `transfer`. Without it, the driver
    /// makes a span `rpc` of its own.
    pub span: Option<Box<Span>>,
}

impl CallParams {
    /// Creates the parameters of a call with this maximum size of the reply in bytes. The call has
    /// no result buffers and no deadline; its items may be transferred in chunks; it is
    /// retransmitted after its connection is lost.
    #[must_use]
    pub const fn new(max_reply: u32) -> Self {
        Self {
            results: ArrayVec::new_const(),
            max_reply,
            reducible: true,
            resend_window: Duration::MAX,
            deadline: None,
            span: None,
        }
    }
}

/// The reason why a call could not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OutgoingCallError {
    /// The engine accepts no call, or not this one.
    Call(SessionCallError),
    /// The message can't be written.
    Write(WriteError),
    /// The driver has no such connection: it was forgotten.
    NoConnection,
}

impl fmt::Display for OutgoingCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::NoConnection => f.write_str("the driver has no such connection"),
        }
    }
}

impl std::error::Error for OutgoingCallError {}

/// The reason why a reply could not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OutgoingReplyError {
    /// The engine does not take it.
    Reply(ReplyError),
    /// The message can't be written.
    Write(WriteError),
}

impl fmt::Display for OutgoingReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OutgoingReplyError {}
