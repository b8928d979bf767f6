//! Queue pairs with owned buffers: what is posted belongs to the queue until it is done. The only place that posts.

#![allow(unsafe_code, reason = "posting is a promise about memory, which is kept here by owning it")]

use std::collections::VecDeque;

use arrayvec::ArrayVec;

use crate::memory::{Buf, Lent};
use crate::provider::{
    Completion, Device, Operation, QueuePair, Receive, Result, SharedReceives, Slice, Status, WorkRequest,
};

/// Slices of one request of ours.
pub(crate) const SLICES: usize = 8;

/// A range of a buffer in a request.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) buf: Lent,
    pub(crate) from: u32,
    pub(crate) length: u32,
}

/// A queue pair, and what was posted to it.
///
/// The fields are dropped in this order: first the queue pair, after which nothing of what was posted is touched any more.
#[derive(Debug)]
pub(crate) struct Endpoint<D: Device, T> {
    pair: D::QueuePair,
    /// The number that is the high half of every id.
    tag: u32,
    /// Requests in the order of their posting, from `first` on.
    flights: VecDeque<Flight<T>>,
    first: u32,
    /// Receives by their numbers.
    receives: Vec<Option<Lent>>,
    free: Vec<u32>,
    batch: Batch,
}

/// What is to be posted next.
#[derive(Debug, Default)]
struct Batch {
    requests: Vec<WorkRequest>,
    receives: Vec<Receive>,
    slices: Vec<Slice>,
    receive_slices: Vec<Slice>,
}

/// A request that was posted, with the memory that it uses.
#[derive(Debug)]
struct Flight<T> {
    what: T,
    _parts: ArrayVec<Lent, SLICES>,
}

/// Requests for which there is room at the beginning. More is made when more are under way, which most connections never
/// have.
const BEGIN: usize = 32;

/// The bit of an id that says that it is a receive's.
const RECEIVE: u64 = 1 << 31;

/// What a completion is of.
#[derive(Debug)]
pub(crate) enum Done {
    /// Requests of ours: this many, from the oldest on, of which the last has this status.
    Requests(usize, Status),
    /// A receive, with what has come into it.
    Receive(Buf, Status),
    /// Nothing that is known here.
    Unknown,
}

/// The tag in an id.
pub(crate) const fn tag(id: u64) -> u32 {
    (id >> 32) as u32
}

impl<D: Device, T> Endpoint<D, T> {
    pub(crate) fn new(pair: D::QueuePair, tag: u32, requests: usize, receives: usize) -> Self {
        Self {
            pair,
            tag,
            flights: VecDeque::with_capacity(requests.min(BEGIN)),
            first: 0,
            receives: Vec::with_capacity(receives),
            free: Vec::with_capacity(receives),
            batch: Batch::default(),
        }
    }

    pub(crate) fn pair(&self) -> &D::QueuePair {
        &self.pair
    }

    /// Adds a request to the batch. `parts` are the memory of ours that it uses, which is lent to it; but not to a bind, which
    /// touches nothing: what it exposes is lent as long as it is exposed.
    pub(crate) fn push(&mut self, operation: Operation, parts: &[Part], signaled: bool, what: T) -> bool {
        let binds = matches!(operation, Operation::Bind { .. });
        let from = self.batch.slices.len();
        let mut lent = ArrayVec::new();
        for part in parts {
            let slice = part.buf.slice(part.from, part.length);
            let kept = binds || lent.try_push(part.buf.clone()).is_ok();
            let (Some(slice), true) = (slice, kept) else {
                self.batch.slices.truncate(from);
                return false;
            };
            self.batch.slices.push(slice);
        }
        let number = self.first.wrapping_add(self.flights.len() as u32) & (RECEIVE as u32 - 1);
        let id = u64::from(self.tag) << 32 | u64::from(number);
        let slices = (from as u32, parts.len() as u32);
        self.batch.requests.push(WorkRequest { id, signaled, slices, operation });
        self.flights.push_back(Flight { what, _parts: lent });
        true
    }

    /// Adds a receive to the batch.
    pub(crate) fn push_receive(&mut self, buf: Buf) {
        let buf = Lent::from(buf);
        let capacity = buf.capacity();
        let Some(slice) = buf.slice(0, capacity) else { return };
        let number = self.free.pop().unwrap_or_else(|| {
            self.receives.push(None);
            self.receives.len() as u32 - 1
        });
        if let Some(place) = self.receives.get_mut(number as usize) {
            *place = Some(buf);
        }
        let id = u64::from(self.tag) << 32 | RECEIVE | u64::from(number);
        let slices = (self.batch.receive_slices.len() as u32, 1);
        self.batch.receive_slices.push(slice);
        self.batch.receives.push(Receive { id, slices });
    }

    /// Posts the receives of the batch, then its requests.
    ///
    /// # Errors
    /// The queue pair refuses them: it is not connected, or its queues are full. What was not posted is given up.
    pub(crate) fn post(&mut self) -> Result<()> {
        let batch = &mut self.batch;
        if !batch.receives.is_empty() {
            // SAFETY: every slice is of a buffer that is lent to `receives` until its completion, or until the endpoint is
            // dropped, which drops the queue pair first; and nobody can reach the octets of what is lent.
            let posted = unsafe { self.pair.post_receives(&batch.receives, &batch.receive_slices) };
            if posted.is_err() {
                for receive in &batch.receives {
                    let number = receive.id as u32 & (RECEIVE as u32 - 1);
                    self.receives.get_mut(number as usize).and_then(Option::take);
                    self.free.push(number);
                }
            }
            batch.receives.clear();
            batch.receive_slices.clear();
            posted?;
        }
        if !batch.requests.is_empty() {
            // SAFETY: every slice is of a buffer that is lent to `flights` until its completion or a later one, or until the
            // endpoint is dropped, which drops the queue pair first; and nobody can reach the octets of what is lent.
            let posted = unsafe { self.pair.post(&batch.requests, &batch.slices) };
            if posted.is_err() {
                self.flights.truncate(self.flights.len() - batch.requests.len());
            }
            batch.requests.clear();
            batch.slices.clear();
            posted?;
        }
        Ok(())
    }

    /// Whether anything waits to be posted.
    pub(crate) fn has_batch(&self) -> bool {
        !self.batch.requests.is_empty() || !self.batch.receives.is_empty()
    }

    /// Requests that are posted and not known to be done.
    pub(crate) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// What a completion is of.
    pub(crate) fn complete(&mut self, completion: &Completion) -> Done {
        // It may be left of an earlier queue pair with the same tag.
        if completion.queue_pair != self.pair.number() {
            return Done::Unknown;
        }
        let number = completion.id as u32;
        if completion.id & RECEIVE != 0 {
            let number = number & (RECEIVE as u32 - 1);
            let lent = self.receives.get_mut(number as usize).and_then(Option::take);
            let Some(Ok(mut buf)) = lent.map(Lent::into_buf) else { return Done::Unknown };
            self.free.push(number);
            buf.set_len(completion.length);
            return Done::Receive(buf, completion.status);
        }
        // Requests are done in their order: this one, and all before it.
        let count = (number.wrapping_sub(self.first) & (RECEIVE as u32 - 1)) as usize + 1;
        if count > self.flights.len() { Done::Unknown } else { Done::Requests(count, completion.status) }
    }

    /// Ends the queue pair, and then what was posted: what it was for.
    pub(crate) fn close(self) -> impl Iterator<Item = T> {
        let Self { pair, flights, receives, .. } = self;
        pair.disconnect();
        drop(pair);
        drop(receives);
        flights.into_iter().map(|flight| flight.what)
    }

    /// The oldest request is done: what it was for.
    pub(crate) fn retire(&mut self) -> Option<T> {
        let flight = self.flights.pop_front()?;
        self.first = self.first.wrapping_add(1) & (RECEIVE as u32 - 1);
        Some(flight.what)
    }
}

/// A receive queue that several queue pairs share, and what was posted to it.
#[derive(Debug)]
pub(crate) struct SharedQueue<D: Device> {
    queue: D::SharedReceives,
    /// What was posted, by its number.
    buffers: Vec<Option<Lent>>,
}

impl<D: Device> SharedQueue<D> {
    pub(crate) fn new(queue: D::SharedReceives) -> Self {
        Self { queue, buffers: Vec::new() }
    }

    pub(crate) fn queue(&self) -> &D::SharedReceives {
        &self.queue
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// It is full, or the device refuses.
    pub(crate) fn post(&mut self, buf: Buf) -> Result<()> {
        let buf = Lent::from(buf);
        let Some(slice) = buf.slice(0, buf.capacity()) else { return Ok(()) };
        let receive = Receive { id: RECEIVE | self.buffers.len() as u64, slices: (0, 1) };
        self.buffers.push(Some(buf));
        // SAFETY: the slice is of a buffer that is lent to `buffers` until its completion, or for good: see `drop`. Nobody
        // can reach the octets of what is lent.
        let posted = unsafe { self.queue.post(&[receive], &[slice]) };
        if posted.is_err() {
            self.buffers.pop();
        }
        posted
    }

    /// The buffer of a completion.
    pub(crate) fn complete(&mut self, completion: &Completion) -> Option<Buf> {
        let number = (completion.id & (RECEIVE - 1)) as usize;
        let mut buf = self.buffers.get_mut(number)?.take()?.into_buf().ok()?;
        buf.set_len(completion.length);
        Some(buf)
    }
}

impl<D: Device> Drop for SharedQueue<D> {
    fn drop(&mut self) {
        // Queue pairs that live on may still take what is posted: it is leaked rather than freed.
        self.buffers.drain(..).for_each(std::mem::forget);
    }
}
