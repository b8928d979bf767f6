//! The send queue: requests in order, from their posting to their completion, and the order of the
//! responses to RDMA Reads of the peer. `sending` decides the stages of requests.
//!
//! Requests and responses have consecutive numbers, by which the framer refers to their payload
//! (`Source`). So a request stays in the queue until its last byte is sent: `complete_done`
//! compares positions in the stream. Requests complete in posting order, and none begins after a
//! failed one. A posted request counts against the depth until its completion is polled
//! (`retired`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rpcrdma_iwarp::OutgoingMessage;

use super::Limits;
use crate::provider::common::completions::CompletionEntry;
use crate::provider::common::domain::total_length;
use crate::provider::common::receives::{SgList, sges_of};
use crate::provider::iwarp::memory::{MAX_SGE, Parts};
use crate::provider::{Cause, Completion, Operation, Result, Sge, Status, VerbError, WorkRequest};

/// The requests that have not completed, and the responses to RDMA Reads of the peer.
#[derive(Debug)]
pub(super) struct SendQueue {
    requests: VecDeque<PendingRequest>,
    /// The number of the oldest request.
    first: u64,
    /// The number of requests that have begun.
    begun: usize,
    /// The numbers of RDMA Reads without a response.
    pub(super) reads: VecDeque<u64>,
    /// The message that is being framed.
    pub(super) framing: Option<Framing>,
    pub(super) responses: Responses,
    /// True if a request has failed: no further request begins.
    has_failed: bool,
    depth: u32,
    /// The number of posted work requests, and of those whose entries are free again.
    posted: u32,
    retired: Arc<AtomicU32>,
    /// The number of requests without completion since the last completion.
    unsignaled: u32,
}

/// A posted request.
#[derive(Debug)]
pub(super) struct PendingRequest {
    id: u64,
    signaled: bool,
    pub(super) inline: bool,
    pub(super) operation: Operation,
    pub(super) slices: SgList,
    /// The bytes of an inline request whose caller may have reused its memory.
    kept: Option<Box<[u8]>>,
    pub(super) stage: Stage,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// It has not begun.
    Waiting,
    /// It is being framed.
    Framing,
    /// The request is done when the outgoing stream is sent up to this position.
    Framed(u64),
    /// An RDMA Read without a response.
    Reading,
    Done,
    Failed(Status),
}

/// A message that is being framed.
#[derive(Debug)]
pub(super) struct Framing {
    pub(super) message: OutgoingMessage,
    pub(super) source: Source,
}

/// The owner of the payload in a piece of the outgoing stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The request with this number.
    Request(u64),
    /// The response with this number.
    Response(u64),
}

const RESPONSE: u64 = 1 << 63;

impl Source {
    /// Returns its identifier in the framer.
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Request(number) => number,
            Self::Response(number) => number | RESPONSE,
        }
    }

    pub(super) const fn of(number: u64) -> Self {
        if number & RESPONSE == 0 {
            Self::Request(number)
        } else {
            Self::Response(number ^ RESPONSE)
        }
    }
}

/// The responses to RDMA Reads of the peer. The stream stores their requests.
#[derive(Default, Debug)]
pub(super) struct Responses {
    /// The number of the oldest response.
    first: u64,
    /// The number of responses that have begun.
    begun: usize,
    /// The positions in the outgoing stream at which the framed responses end.
    framed: VecDeque<u64>,
    /// True if a response begins next, before a request.
    pub(super) are_next: bool,
}

impl Responses {
    /// Returns the index of the next response to begin.
    pub(super) const fn next(&self) -> usize {
        self.begun
    }

    /// Begins the next response, and returns its number.
    pub(super) const fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.first + self.begun as u64 - 1
    }

    pub(super) fn end_framing(&mut self, position: u64) {
        self.framed.push_back(position);
    }

    /// Returns the index of a response in the stream.
    pub(super) const fn index(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    /// Returns true if the oldest response is sent, and removes it.
    pub(super) fn take_sent(&mut self, sent: u64) -> bool {
        let is_sent = self.framed.front().is_some_and(|until| *until <= sent);
        if is_sent {
            self.framed.pop_front();
            self.first += 1;
            self.begun -= 1;
        }
        is_sent
    }
}

impl PendingRequest {
    /// Returns the payload.
    pub(super) fn payload(&self) -> Payload<'_> {
        match &self.kept {
            Some(kept) => Payload::Kept(kept),
            None => Payload::Posted(self.slices.all()),
        }
    }

    /// Copies the bytes of an inline request, whose memory becomes free when the post returns.
    pub(super) fn keep(&mut self) {
        if self.inline && self.kept.is_none() {
            let slices = self.slices.all();
            let bytes: Vec<u8> = Parts::new(slices, 0, total_length(slices))
                .bytes()
                .flatten()
                .copied()
                .collect();
            self.kept = Some(bytes.into());
        }
    }
}

/// The payload of a request.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Posted(&'a [Sge]),
    Kept(&'a [u8]),
}

impl<'a> Payload<'a> {
    pub(super) fn length(self) -> u64 {
        match self {
            Self::Posted(slices) => total_length(slices),
            Self::Kept(bytes) => bytes.len() as u64,
        }
    }

    /// Returns `length` bytes from `offset` on.
    pub(super) fn bytes(self, offset: u64, length: u64) -> impl Iterator<Item = &'a [u8]> {
        let (posted, kept) = match self {
            Self::Posted(slices) => (slices, None),
            // The offsets are within the bytes.
            Self::Kept(bytes) => (
                [].as_slice(),
                bytes.get(offset as usize..(offset + length) as usize),
            ),
        };
        Parts::new(posted, offset, length).bytes().chain(kept)
    }
}

impl SendQueue {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            requests: VecDeque::new(),
            first: 0,
            begun: 0,
            reads: VecDeque::new(),
            framing: None,
            responses: Responses::default(),
            has_failed: false,
            depth,
            posted: 0,
            retired: Arc::default(),
            unsignaled: 0,
        }
    }

    /// Adds all requests, or none.
    pub(super) fn post(
        &mut self,
        requests: &[WorkRequest],
        slices: &[Sge],
        limits: Limits,
    ) -> Result<()> {
        let error = |cause| VerbError {
            verb: "post",
            cause,
        };
        let used = self
            .posted
            .wrapping_sub(self.retired.load(Ordering::Relaxed)) as usize;
        if used + requests.len() > self.depth as usize {
            return Err(error(Cause::Full));
        }
        for request in requests {
            let mine = sges_of(request.slices, slices, "post")?;
            if mine.len() > max_sge(&request.operation)
                || (request.inline && !fits_inline(request, mine, limits))
            {
                return Err(error(Cause::Limit));
            }
        }
        for request in requests {
            let mine = sges_of(request.slices, slices, "post")?;
            self.posted = self.posted.wrapping_add(1);
            let moves = !matches!(
                request.operation,
                Operation::Bind { .. } | Operation::Invalidate { .. }
            );
            let is_too_long = moves && total_length(mine) > limits.max_message.into();
            self.requests.push_back(PendingRequest {
                id: request.id,
                signaled: request.signaled,
                inline: request.inline,
                operation: request.operation,
                slices: SgList::of(mine),
                kept: None,
                stage: if is_too_long {
                    Stage::Failed(Status::LocalLength)
                } else {
                    Stage::Waiting
                },
            });
        }
        Ok(())
    }

    /// Copies the bytes of inline requests that have not begun: their memory becomes free when the
    /// post returns.
    pub(super) fn keep_inline(&mut self) {
        self.requests
            .iter_mut()
            .skip(self.begun)
            .for_each(PendingRequest::keep);
    }

    /// Returns the next request that has not begun, with its number.
    pub(super) fn next(&mut self) -> Option<(u64, &mut PendingRequest)> {
        let number = self.first + self.begun as u64;
        let next = self.requests.get_mut(self.begun)?;
        // No request follows a failed one.
        let is_next = !self.has_failed && matches!(next.stage, Stage::Waiting);
        is_next.then_some((number, next))
    }

    /// Marks the next request as begun, or as failed.
    pub(super) const fn begin(&mut self, has_failed: bool) {
        self.begun += 1;
        self.has_failed |= has_failed;
    }

    pub(super) fn get(&self, number: u64) -> Option<&PendingRequest> {
        let index = number.checked_sub(self.first)?;
        self.requests.get(usize::try_from(index).ok()?)
    }

    pub(super) fn set_stage(&mut self, number: u64, stage: Stage) {
        let index = number.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        if let Some(request) = index.and_then(|index| self.requests.get_mut(index)) {
            request.stage = stage;
        }
    }

    /// Completes the oldest requests that are done, in order. `sent` is the position up to which
    /// the outgoing stream is sent. Returns false if one has failed.
    pub(super) fn complete_done(
        &mut self,
        queue_pair: u32,
        sent: u64,
        completed: &mut VecDeque<CompletionEntry>,
    ) -> bool {
        // rfc: 5040-5.5-k
        while let Some(oldest) = self.requests.front() {
            let status = match oldest.stage {
                Stage::Framed(until) if until <= sent => Status::Success,
                Stage::Done => Status::Success,
                Stage::Failed(status) => status,
                _ => return true,
            };
            self.complete_oldest(queue_pair, status, completed);
            if status != Status::Success {
                return false;
            }
        }
        true
    }

    fn complete_oldest(
        &mut self,
        queue_pair: u32,
        status: Status,
        completed: &mut VecDeque<CompletionEntry>,
    ) {
        let Some(oldest) = self.requests.pop_front() else {
            return;
        };
        self.first += 1;
        self.begun = self.begun.saturating_sub(1);
        self.unsignaled += 1;
        if !oldest.signaled && status == Status::Success {
            return;
        }
        let retires = Some((self.retired.clone(), std::mem::take(&mut self.unsignaled)));
        let completion = Completion {
            id: oldest.id,
            queue_pair,
            status,
            length: 0,
            invalidated: None,
        };
        completed.push_back(CompletionEntry {
            completion,
            retires,
        });
    }

    /// Completes all requests: the oldest with `status`, the others as flushed.
    pub(super) fn flush(
        &mut self,
        queue_pair: u32,
        mut status: Status,
        completed: &mut VecDeque<CompletionEntry>,
    ) {
        // rfc: 5041-6.2.2-b
        self.framing = None;
        self.reads.clear();
        while !self.requests.is_empty() {
            self.complete_oldest(queue_pair, status, completed);
            status = Status::Flushed;
        }
    }

    /// Removes all requests.
    pub(super) fn clear(&mut self) {
        self.framing = None;
        self.reads.clear();
        self.requests.clear();
        self.begun = 0;
    }
}

/// Returns the maximum number of entries of a request.
const fn max_sge(operation: &Operation) -> usize {
    match operation {
        Operation::Send { .. } | Operation::Write { .. } | Operation::Read { .. } => MAX_SGE,
        Operation::Bind { .. } => 1,
        Operation::Invalidate { .. } => 0,
    }
}

fn fits_inline(request: &WorkRequest, slices: &[Sge], limits: Limits) -> bool {
    let sends = matches!(request.operation, Operation::Send { .. });
    sends && total_length(slices) <= limits.max_inline.into()
}
