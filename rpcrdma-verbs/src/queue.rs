//! Queue pairs that own the buffers of posted requests until their completions. This is the only
//! module that posts.
//!
//! A work request id has the tag of the endpoint (for `driver`, the `ConnectionId`) in its high
//! half, then bit 31 for a receive, and a number. Requests complete in order, so a completion also
//! completes all unsignaled requests before it. The soundness of `memory` relies on this module: a
//! posted buffer is released only by its completion or after `QueuePair::end` has returned true,
//! and is otherwise leaked. The caller must post all that was pushed before `swap_batch`, call
//! `retire` until it returns `None` before the next completion, and close the endpoint if `post`
//! fails.

#![allow(
    unsafe_code,
    reason = "posting is a promise about memory, which is kept here by owning it"
)]

mod batch;
mod receives;
mod shared;
mod sinks;

use arrayvec::ArrayVec;

pub(crate) use batch::Batch;
use receives::PostedReceives;
pub(crate) use receives::{ExtraSegments, ReceiveBuffer};
pub(crate) use shared::{SharedReceiveQueue, is_shared_receive};
use sinks::ReadSinks;

use crate::fifo::Fifo;
use crate::memory::{Buf, PostedBuf};
use crate::provider::{
    Completion, Device, Operation, QueuePair, Receive, Result, Sge, Status, VerbError, WorkRequest,
};

/// The maximum number of scatter/gather entries of one of our requests.
pub(crate) const MAX_SGE: usize = 8;

/// A range of a buffer in a request.
#[derive(Clone, Debug)]
pub(crate) struct BufRange {
    pub(crate) buf: PostedBuf,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// A queue pair with everything that was posted to it.
///
/// It ends the queue pair before it releases the buffers. If the device refuses, the buffers are
/// leaked.
#[derive(Debug)]
pub(crate) struct Endpoint<D: Device, T> {
    pair: D::QueuePair,
    sinks: Option<ReadSinks<D>>,
    /// The high half of every work request id.
    tag: u32,
    /// Requests in posting order. A request without context and buffers has no entry.
    in_flight: Fifo<InFlight<T>>,
    /// The number of the oldest request that has not completed, and the number of the next request.
    oldest: u32,
    next: u32,
    /// The contexts of requests that could not be posted.
    unposted: Vec<T>,
    receives: ReceiveSource<D>,
    // Boxed, so that swapping it moves one pointer.
    batch: Box<Batch>,
    is_closed: bool,
}

/// The queue that receives are taken from.
#[derive(Debug)]
enum ReceiveSource<D: Device> {
    Own(PostedReceives),
    /// A queue that several queue pairs share. This reference keeps it alive longer than the queue
    /// pair.
    Shared {
        _queue: SharedReceiveQueue<D>,
    },
}

/// A posted request with the buffers that it uses.
#[derive(Debug)]
struct InFlight<T> {
    number: u32,
    context: T,
    buffers: BufRefs,
}

/// The buffers of one request.
#[derive(Debug, Default)]
struct BufRefs {
    first: Option<PostedBuf>,
    second: Option<PostedBuf>,
    // Boxed, since most requests have at most two ranges.
    more: Option<Box<ArrayVec<PostedBuf, { MAX_SGE - 2 }>>>,
}

impl BufRefs {
    /// Leaks all buffers.
    #[cold]
    fn leak(self) {
        let Self {
            first,
            second,
            more,
        } = self;
        let more = more.into_iter().flat_map(|more| *more);
        first
            .into_iter()
            .chain(second)
            .chain(more)
            .for_each(PostedBuf::leak);
    }

    /// Adds a buffer. A request has at most [`MAX_SGE`].
    #[inline(always)]
    fn add(&mut self, buf: PostedBuf) {
        if self.first.is_none() {
            self.first = Some(buf);
        } else if self.second.is_none() {
            self.second = Some(buf);
        } else {
            self.more.get_or_insert_default().push(buf);
        }
    }
}

/// The bit that marks the ids of receives.
const RECEIVE_BIT: u64 = 1 << 31;

/// The mask of request numbers, which wrap.
const NUMBER_MASK: u32 = RECEIVE_BIT as u32 - 1;

/// Returns the number that follows `number` after `count` steps.
const fn advance(number: u32, count: u32) -> u32 {
    number.wrapping_add(count) & NUMBER_MASK
}

/// Returns the number of steps from one number to another.
const fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & NUMBER_MASK
}

/// The owner of a completion.
#[derive(Debug)]
pub(crate) enum CompletionKind {
    /// The oldest request, or several. The last of them has this status, and the others have
    /// succeeded. [`Endpoint::retire`] returns their contexts.
    Requests(Status),
    /// A receive, with its buffer.
    Receive(ReceiveBuffer, Status),
    /// An unknown request.
    Unknown,
}

/// Returns the tag of a work request id.
pub(crate) const fn tag(id: u64) -> u32 {
    (id >> 32) as u32
}

impl<D: Device, T> Endpoint<D, T> {
    pub(crate) fn new(device: &D, pair: D::QueuePair, tag: u32) -> Self {
        Self {
            pair,
            sinks: ReadSinks::new(device),
            tag,
            in_flight: Fifo::new(),
            oldest: 0,
            next: 0,
            unposted: Vec::new(),
            receives: ReceiveSource::Own(PostedReceives::new()),
            batch: Box::default(),
            is_closed: false,
        }
    }

    /// Creates an endpoint whose queue pair uses a shared receive queue.
    pub(crate) fn with_shared_receives(
        device: &D,
        pair: D::QueuePair,
        tag: u32,
        queue: &SharedReceiveQueue<D>,
    ) -> Self {
        let mut endpoint = Self::new(device, pair, tag);
        endpoint.receives = ReceiveSource::Shared {
            _queue: queue.clone(),
        };
        endpoint
    }

    /// Sets the number of the next request, while none is in flight.
    #[cfg(test)]
    pub(crate) fn set_next_number(&mut self, number: u32) {
        assert_eq!(self.in_flight(), 0);
        (self.oldest, self.next) = (number & NUMBER_MASK, number & NUMBER_MASK);
    }

    /// Swaps the batch, which is empty except between [`Self::push`] and [`Self::post`].
    pub(crate) fn swap_batch(&mut self, batch: &mut Box<Batch>) {
        debug_assert!(
            batch.requests.is_empty() && !self.has_batch(),
            "all that was pushed is posted"
        );
        std::mem::swap(&mut self.batch, batch);
    }

    pub(crate) fn pair(&self) -> &D::QueuePair {
        &self.pair
    }

    /// Adds a request to the batch. It keeps a reference to the buffers of `parts` until its
    /// completion. A bind accesses no memory, and keeps none: the exposure keeps a reference to the
    /// buffer instead. Returns false if there are too many parts, or if the device cannot register
    /// the sink of an RDMA Read.
    #[inline]
    pub(crate) fn push(
        &mut self,
        operation: Operation,
        parts: impl IntoIterator<Item = BufRange>,
        signaled: bool,
        what: T,
    ) -> bool {
        let binds = matches!(operation, Operation::Bind { .. });
        let number = self.next;
        // The key of an empty sink is not used (RFC 5041, section 5.2).
        let mut sinks = self
            .sinks
            .as_mut()
            .filter(|_| matches!(operation, Operation::Read { .. }));
        let table = &mut self.batch.slices;
        let from = table.len();
        let mut memory = BufRefs::default();
        for part in parts {
            let fits = table.len() - from < MAX_SGE;
            let slice = part.buf.slice(part.offset, part.length).filter(|_| fits);
            let slice = slice.and_then(|slice| match &mut sinks {
                Some(sinks) if part.length > 0 => Some(Sge {
                    key: sinks.register(number, &part)?,
                    ..slice
                }),
                _ => Some(slice),
            });
            let Some(slice) = slice else {
                table.truncate(from);
                if let Some(sinks) = sinks {
                    sinks.end_unposted(|of| of == number);
                }
                return false;
            };
            table.push(slice);
            if !binds {
                memory.add(part.buf);
            }
        }
        let slices = (from as u32, (table.len() - from) as u32);
        self.add(operation, slices, signaled, (what, memory));
        true
    }

    /// Adds a request to the batch that uses a whole buffer, as most do.
    #[inline]
    pub(crate) fn push_whole(&mut self, operation: Operation, buf: Buf, signaled: bool, what: T) {
        let (length, buf) = (buf.len() as u32, PostedBuf::from(buf));
        let Some(slice) = buf.slice(0, length) else {
            return;
        };
        let from = self.batch.slices.len() as u32;
        self.batch.slices.push(slice);
        let memory = BufRefs {
            first: Some(buf),
            second: None,
            more: None,
        };
        self.add(operation, (from, 1), signaled, (what, memory));
    }

    /// Returns memory for a message that [`Self::push_inline`] adds, or `None` if the batch already
    /// contains too many inline bytes.
    #[inline]
    pub(crate) fn inline_room(&mut self, bytes: u32) -> Option<&mut [u8]> {
        self.batch.inline.room(bytes as usize)
    }

    /// Adds an inline Send, whose message was written to [`Self::inline_room`]. The message must
    /// not exceed the device's limit. The request uses no buffer after it is posted. Without a
    /// context it has no entry.
    #[inline]
    pub(crate) fn push_inline(
        &mut self,
        invalidate: Option<u32>,
        bytes: u32,
        signaled: bool,
        what: Option<T>,
    ) {
        let slice = self.batch.inline.commit(bytes);
        let from = self.batch.slices.len() as u32;
        self.batch.slices.push(slice);
        let number = self.request(Operation::Send { invalidate }, (from, 1), (signaled, true));
        if let Some(what) = what {
            self.in_flight.push(InFlight {
                number,
                context: what,
                buffers: BufRefs::default(),
            });
        }
    }

    #[inline(always)]
    fn add(
        &mut self,
        operation: Operation,
        slices: (u32, u32),
        signaled: bool,
        (what, memory): (T, BufRefs),
    ) {
        let number = self.request(operation, slices, (signaled, false));
        self.in_flight.push(InFlight {
            number,
            context: what,
            buffers: memory,
        });
    }

    /// Adds a request to the batch, and returns its number.
    #[inline(always)]
    fn request(
        &mut self,
        operation: Operation,
        slices: (u32, u32),
        (signaled, inline): (bool, bool),
    ) -> u32 {
        let number = self.next;
        self.next = advance(number, 1);
        let id = u64::from(self.tag) << 32 | u64::from(number);
        self.batch.requests.push(WorkRequest {
            id,
            signaled,
            inline,
            slices,
            operation,
        });
        number
    }

    /// Adds a receive to the batch, unless receives are shared.
    #[inline]
    pub(crate) fn push_receive(&mut self, buffer: impl Into<ReceiveBuffer>) {
        let ReceiveSource::Own(posted) = &mut self.receives else {
            return;
        };
        let slices = &mut self.batch.receive_slices;
        let from = slices.len();
        let Some(number) = posted.insert(buffer.into(), slices) else {
            return;
        };
        let id = u64::from(self.tag) << 32 | RECEIVE_BIT | u64::from(number);
        let slices = (from as u32, (slices.len() - from) as u32);
        self.batch.receives.push(Receive { id, slices });
    }

    /// Returns true if the sink of each RDMA Read is registered individually.
    pub(crate) fn registers_sinks(&self) -> bool {
        self.sinks.is_some()
    }

    /// Returns true if the receives are shared with other queue pairs.
    pub(crate) fn has_shared_receives(&self) -> bool {
        matches!(self.receives, ReceiveSource::Shared { .. })
    }

    /// Posts the receives of the batch, then its requests.
    ///
    /// # Errors
    /// Fails if the queue pair is not connected, or if its queues are full. The batch is then
    /// discarded, and the contexts of its requests are returned when the queue pair ends.
    pub(crate) fn post(&mut self) -> Result<()> {
        if !self.batch.receives.is_empty() {
            let Batch {
                receives,
                receive_slices,
                ..
            } = &mut *self.batch;
            // SAFETY: every entry refers to a buffer that `receives` owns until its completion, or
            // until the endpoint has ended the queue pair, or for ever. A buffer in this state
            // gives no access to its bytes.
            if let Err(error) = unsafe { self.pair.post_receives(receives, receive_slices) } {
                if let ReceiveSource::Own(posted) = &mut self.receives {
                    receives
                        .iter()
                        .for_each(|receive| drop(posted.take(receive.id)));
                }
                return Err(self.drop_batch(error));
            }
            receives.clear();
            receive_slices.clear();
        }
        if !self.batch.requests.is_empty() {
            let Batch {
                requests,
                slices,
                inline,
                ..
            } = &mut *self.batch;
            inline.expose();
            // SAFETY: every entry refers to a buffer that `in_flight` references until the
            // completion of the request or of a later one, or until the endpoint has ended the
            // queue pair, or for ever. A buffer in this state gives no access to its bytes. A Read
            // tells the peer the key of a registration in `sinks`; this key becomes invalid before
            // anyone can access the buffer again, or else the buffer is leaked. An entry of an
            // inline request refers to `inline`, whose bytes nothing accesses before this returns.
            if let Err(error) = unsafe { self.pair.post(requests, slices) } {
                return Err(self.drop_batch(error));
            }
            requests.clear();
            slices.clear();
        }
        Ok(())
    }

    /// Discards the batch, and releases the buffers of its requests.
    #[cold]
    fn drop_batch(&mut self, error: VerbError) -> VerbError {
        let Batch {
            requests,
            receives,
            slices,
            receive_slices,
            inline,
        } = &mut *self.batch;
        let count = requests.len() as u32;
        let first = self.next.wrapping_sub(count) & NUMBER_MASK;
        self.next = first;
        while self
            .in_flight
            .last()
            .is_some_and(|flight| distance(first, flight.number) < count)
        {
            self.unposted
                .extend(self.in_flight.pop_last().map(|flight| flight.context));
        }
        if let Some(sinks) = &mut self.sinks {
            sinks.end_unposted(|number| distance(first, number) < count);
        }
        inline.used = 0;
        requests.clear();
        receives.clear();
        slices.clear();
        receive_slices.clear();
        error
    }

    /// Returns true if the batch has requests or receives.
    pub(crate) fn has_batch(&self) -> bool {
        !self.batch.requests.is_empty() || !self.batch.receives.is_empty()
    }

    /// Returns the number of requests in the batch.
    pub(crate) fn pending_requests(&self) -> usize {
        self.batch.requests.len()
    }

    /// Returns the number of requests that have not completed.
    pub(crate) fn in_flight(&self) -> usize {
        distance(self.oldest, self.next) as usize
    }

    /// Returns what a completion belongs to. After the completion of requests,
    /// [`retire`](Self::retire) returns their contexts.
    #[inline]
    pub(crate) fn complete(&mut self, completion: &Completion) -> CompletionKind {
        // The completion may belong to an earlier queue pair with the same tag.
        if completion.queue_pair != self.pair.number() {
            return CompletionKind::Unknown;
        }
        let number = completion.id as u32;
        if completion.id & RECEIVE_BIT != 0 {
            let ReceiveSource::Own(posted) = &mut self.receives else {
                return CompletionKind::Unknown;
            };
            let Some(mut buffer) = posted.take(completion.id) else {
                return CompletionKind::Unknown;
            };
            buffer.set_received(completion.length);
            return CompletionKind::Receive(buffer, completion.status);
        }
        // Requests complete in order: this one completes all before it.
        if distance(self.oldest, number) >= distance(self.oldest, self.next) {
            return CompletionKind::Unknown;
        }
        self.oldest = advance(number, 1);
        let status = if self.end_sinks() {
            completion.status
        } else {
            Status::LocalProtection
        };
        CompletionKind::Requests(status)
    }

    /// Ends the sinks of the Reads that have completed, before the completion is reported. Returns
    /// false if the device refuses; the memory is then leaked, and the data are lost.
    #[inline]
    fn end_sinks(&mut self) -> bool {
        let (first, in_flight) = (self.oldest, self.in_flight());
        match &mut self.sinks {
            Some(sinks) => {
                sinks.end_completed(|number| distance(first, number) as usize >= in_flight)
            }
            None => true,
        }
    }

    /// Returns the key of the sink that was registered last, which the peer learns.
    #[cfg(feature = "testing")]
    pub(crate) fn last_sink_key(&self) -> Option<u32> {
        self.sinks.as_ref()?.last_key()
    }

    /// Ends the queue pair, and returns the contexts of all requests.
    pub(crate) fn close(mut self) -> impl Iterator<Item = T> {
        self.pair.disconnect();
        self.end();
        let given_up = std::mem::take(&mut self.unposted);
        std::iter::from_fn(move || self.in_flight.pop())
            .map(|flight| flight.context)
            .chain(given_up)
    }

    /// Ends the queue pair, and releases the buffers of posted requests, or leaks them.
    fn end(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        let ended = self.pair.end();
        self.sinks = None;
        let receives = std::mem::replace(
            &mut self.receives,
            ReceiveSource::Own(PostedReceives::new()),
        );
        if !ended {
            self.in_flight
                .iter_mut()
                .for_each(|flight| std::mem::take(&mut flight.buffers).leak());
            if let ReceiveSource::Own(posted) = receives {
                posted.leak();
            }
        }
    }

    /// Returns the context of the oldest completed request, and whether this request is the last
    /// completed one. Call it until it returns `None`, before the next completion is processed.
    #[inline]
    pub(crate) fn retire(&mut self) -> Option<(T, bool)> {
        // Numbers wrap: those in flight follow all completed ones.
        let in_flight = distance(self.oldest, self.next);
        let number = self.in_flight.first().map(|flight| flight.number)?;
        if distance(self.oldest, number) < in_flight {
            return None;
        }
        let flight = self.in_flight.pop()?;
        Some((flight.context, advance(number, 1) == self.oldest))
    }
}

impl<D: Device, T> Drop for Endpoint<D, T> {
    fn drop(&mut self) {
        self.end();
    }
}
