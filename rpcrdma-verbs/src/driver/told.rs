//! What goes between a connection and its consumer.

use std::fmt;
use std::ops::Range;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CallError, Failure, Reason, ReplyError, Served};
use rpcrdma_proto::travel::{ITEMS, RESULTS};
use rpcrdma_proto::version::Version;

use super::message::WriteError;
use crate::memory::Buf;

/// What a connection's transport has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Messages sent.
    pub sends: u64,
    /// RDMA Reads.
    pub reads: u64,
    /// RDMA Writes.
    pub writes: u64,
    /// Regions exposed to the peer.
    pub exposed: u64,
    /// Octets of messages that were copied into send buffers or out of receive buffers. Items that are moved apart are not.
    pub copied: u64,
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
}

impl Payload {
    /// Its octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.buf.get(self.octets.clone()).unwrap_or_default()
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
