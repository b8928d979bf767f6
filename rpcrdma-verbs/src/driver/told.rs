//! What goes between a connection and its consumer.

use std::fmt;
use std::ops::{Add, Range};

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CallError, Failure, Reason, ReplyError, Served};
use rpcrdma_proto::travel::{ITEMS, RESULTS};
use rpcrdma_proto::version::Version;

use super::message::WriteError;
use crate::memory::{Buf, Frozen, MemoryError, Pool};
use crate::provider::Device;

/// What a connection's transport has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Messages sent.
    pub sends: u64,
    /// RDMA Reads.
    pub reads: u64,
    /// RDMA Writes.
    pub writes: u64,
    /// RDMA Writes or Reads of nothing: to see whether the peer is there, and whether all that was sent before the end has
    /// arrived.
    pub asked: u64,
    /// Work requests posted: those, and binds and invalidations of memory windows. Receives are not counted.
    pub posted: u64,
    /// Completions taken, of receives too.
    pub completed: u64,
    /// Round trips that were waited for: a call of ours until its reply came, and a call of the peer's until its memory was
    /// read.
    pub round_trips: u64,
    /// Regions exposed to the peer.
    pub exposed: u64,
    /// Octets of messages that were copied into send buffers or out of receive buffers. Items that are moved apart are not.
    pub copied: u64,
}

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sends: self.sends + other.sends,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            asked: self.asked + other.asked,
            posted: self.posted + other.posted,
            completed: self.completed + other.completed,
            round_trips: self.round_trips + other.round_trips,
            exposed: self.exposed + other.exposed,
            copied: self.copied + other.copied,
        }
    }
}

/// What a consumer is told.
#[derive(Debug)]
pub(crate) enum Told {
    Ready(Version),
    Arrived { call: Served, xid: u32, message: Payload },
    Replied { xid: u32, message: Payload },
    Failed { xid: u32, why: Failure },
    Closed { why: Reason, last: bool },
}

/// An RPC message that has come.
#[derive(Debug)]
pub struct Payload {
    pub(super) buf: Buf,
    pub(super) octets: Range<usize>,
    /// What the peer's Sends have placed apart.
    pub(super) items: Option<Box<Items>>,
}

/// Items of one message.
pub(super) type Items = ArrayVec<Placed, ITEMS>;

/// An item of a message that the peer's Sends have placed apart (rtrext-02): its octets are where they landed.
///
/// They can be kept, as parts of [`Frozen`]: their memory is free when nobody has them any more.
#[derive(Clone, Debug)]
pub struct Placed {
    pub(super) position: u32,
    pub(super) length: u32,
    pub(super) first: Frozen,
    pub(super) more: Vec<Frozen>,
}

impl Placed {
    /// Where its data begin in the message, with everything in place: in octets from the beginning of the RPC message.
    #[must_use]
    pub const fn position(&self) -> u32 {
        self.position
    }

    /// Octets.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its octets, one part after the other: one, unless it is longer than a segment of a receive buffer.
    pub fn parts(&self) -> impl Iterator<Item = &Frozen> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl Payload {
    /// Its octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.buf.get(self.octets.clone()).unwrap_or_default()
    }

    /// The items that are not in its octets.
    #[must_use]
    pub fn items(&self) -> &[Placed] {
        self.items.as_ref().map(|items| items.as_slice()).unwrap_or_default()
    }

    /// The same message with all of its items in place: they are copied, if there are any.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn flattened<D: Device>(self, pool: &Pool<D>) -> Result<Self, MemoryError> {
        if self.items().is_empty() {
            return Ok(self);
        }
        let octets = self.octets();
        let items: usize = self.items().iter().map(|item| item.length.next_multiple_of(4) as usize).sum();
        let length = octets.len() + items;
        let mut whole = pool.take(u32::try_from(length).map_err(|_| MemoryError::TooLarge(length))?)?;
        let mut left = octets;
        for item in self.items() {
            let before = (item.position as usize).saturating_sub(whole.len()).min(left.len());
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
        Ok(Self { octets: 0..whole.len(), buf: whole, items: None })
    }
}

/// A call's memory, given back.
#[derive(Debug, Default)]
pub struct Memory {
    /// Its items.
    pub items: ArrayVec<Buf, ITEMS>,
    /// The memory for its results.
    pub results: ArrayVec<Buf, RESULTS>,
}

/// Something that was refused, and the memory that was to be used for it.
#[derive(Debug)]
pub struct GivenBack<E> {
    /// Why.
    pub why: E,
    /// The memory.
    pub memory: Box<Memory>,
}

impl<E> GivenBack<E> {
    /// The same for another reason.
    pub(crate) fn map<F>(self, f: impl FnOnce(E) -> F) -> GivenBack<F> {
        GivenBack { why: f(self.why), memory: self.memory }
    }
}

impl<E: fmt::Display> fmt::Display for GivenBack<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for GivenBack<E> {}

/// What a call needs beside its message.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) results: ArrayVec<Buf, RESULTS>,
    pub(crate) largest_reply: u32,
    pub(crate) reducible: bool,
    pub(crate) deadline: Option<u64>,
}

/// Why a call could not be begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Call(CallError),
    Write(WriteError),
}

/// Why a call could not be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    Reply(ReplyError),
    Write(WriteError),
}
