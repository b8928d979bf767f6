//! Queue pairs with owned buffers: what is posted belongs to the queue until it is done. The only place that posts.

#![allow(unsafe_code, reason = "posting is a promise about memory, which is kept here by owning it")]

use std::cell::RefCell;
use std::rc::Rc;

use arrayvec::ArrayVec;

use crate::fifo::Fifo;
use crate::memory::{Buf, Lent};
use crate::provider::{
    Completion, Device, Operation, QueuePair, Receive, Result, SharedReceives, Slice, Status, VerbError, WorkRequest,
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
    /// Requests in the order of their posting, but for those that nobody waits for and that have no memory.
    flights: Fifo<Flight<T>>,
    /// The number of the oldest request that is not known to be done, and that of the next one.
    first: u32,
    next: u32,
    /// What requests were for that could not be posted.
    given_up: Vec<T>,
    receives: Receives<D>,
    // On the heap, so that it is exchanged by its address.
    batch: Box<Batch>,
}

/// Where what is received comes from.
#[derive(Debug)]
enum Receives<D: Device> {
    Own(Posted),
    /// From a queue of several queue pairs, which stays at least as long as any of them.
    Shared {
        _queue: SharedQueue<D>,
    },
}

/// Receives that were posted, by their numbers.
#[derive(Debug)]
struct Posted {
    buffers: Vec<Option<Pending>>,
    free: Vec<u32>,
}

/// The memory of a receive.
#[derive(Debug)]
struct Pending {
    head: Lent,
    tail: Option<Box<Tail>>,
}

/// The segments of a receive buffer after the first, of which somebody may take some. It goes with them from one receive to
/// the next, so that it is allocated once.
pub(crate) type Tail = ArrayVec<Option<Lent>, { SLICES - 1 }>;

/// A receive buffer, or what has come into it: its segments, one after the other.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) head: Buf,
    pub(crate) tail: Option<Box<Tail>>,
}

impl From<Buf> for Received {
    /// One segment: all of a buffer.
    fn from(mut head: Buf) -> Self {
        head.set_len(head.capacity());
        Self { head, tail: None }
    }
}

impl Received {
    /// Octets that have come.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        let head = self.head.len() as u32;
        self.tail.as_ref().map_or(head, |tail| tail.iter().flatten().fold(head, |sum, segment| sum + segment.len()))
    }

    /// Says how many octets have come into its segments, which were as long as they can be.
    #[inline]
    fn fill(&mut self, octets: u32) {
        let Some(tail) = &mut self.tail else {
            self.head.set_len(octets);
            return;
        };
        let mut left = octets;
        left -= self.head.set_len(left.min(self.head.len() as u32));
        for segment in tail.iter_mut().flatten() {
            left -= segment.set_len(left.min(segment.len()));
        }
    }
}

impl Posted {
    const fn new() -> Self {
        Self { buffers: Vec::new(), free: Vec::new() }
    }

    /// Lends a buffer to a receive: its number. All of its segments are added to the slices, as long as they are.
    #[inline(always)]
    fn lend(&mut self, received: Received, slices: &mut Vec<Slice>) -> Option<u32> {
        let Received { head, tail } = received;
        let head = Lent::from(head);
        slices.push(head.slice(0, head.len())?);
        if let Some(tail) = &tail {
            slices.extend(tail.iter().flatten().filter_map(|segment| segment.slice(0, segment.len())));
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() as u32 - 1
        });
        *self.buffers.get_mut(number as usize)? = Some(Pending { head, tail });
        Some(number)
    }

    /// A receive is done, or was not posted: its buffer.
    #[inline]
    fn take(&mut self, id: u64) -> Option<Received> {
        let number = id as u32 & (RECEIVE as u32 - 1);
        let Pending { head, tail } = self.buffers.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(Received { head: head.into_buf().ok()?, tail })
    }

    /// How many are posted.
    fn len(&self) -> usize {
        self.buffers.len() - self.free.len()
    }
}

/// What is to be posted next. Its memory goes from one endpoint to the next.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    requests: Vec<WorkRequest>,
    receives: Vec<Receive>,
    slices: Vec<Slice>,
    receive_slices: Vec<Slice>,
    inline: Inline,
}

/// The messages of inline requests: memory that is used again by each batch, so that it does not leave the processor's cache.
#[derive(Debug, Default)]
struct Inline {
    octets: Box<[u8]>,
    used: usize,
}

/// Octets of it.
const INLINE: usize = 8192;

impl Inline {
    /// Room for so many octets, if there is.
    #[inline]
    fn room(&mut self, octets: usize) -> Option<&mut [u8]> {
        if self.octets.is_empty() {
            self.octets = vec![0; INLINE].into();
        }
        self.octets.get_mut(self.used..self.used + octets)
    }

    /// Keeps the beginning of the room for a request: all of it is within.
    #[inline]
    fn keep(&mut self, octets: u32) -> Slice {
        let length = (octets as usize).min(self.octets.len() - self.used);
        debug_assert_eq!(length, octets as usize, "there was room");
        let address = self.octets.as_ptr().addr() + self.used;
        self.used += length;
        Slice { address: address as u64, length: length as u32, key: 0 }
    }

    /// All is to be posted now: the device may read it by the addresses that were given.
    #[inline]
    fn show(&mut self) {
        self.octets.as_mut_ptr().expose_provenance();
        self.used = 0;
    }
}

/// A request that was posted, with the memory that it uses.
#[derive(Debug)]
struct Flight<T> {
    number: u32,
    what: T,
    _memory: Loans,
}

/// What is lent to one request.
#[derive(Debug, Default)]
struct Loans {
    first: Option<Lent>,
    second: Option<Lent>,
    // On the heap, where there are any: most requests have two parts at most.
    more: Option<Box<ArrayVec<Lent, { SLICES - 2 }>>>,
}

impl Loans {
    /// Adds one, of as many as a request has slices.
    #[inline(always)]
    fn add(&mut self, buf: Lent) {
        if self.first.is_none() {
            self.first = Some(buf);
        } else if self.second.is_none() {
            self.second = Some(buf);
        } else {
            self.more.get_or_insert_default().push(buf);
        }
    }
}

/// The bit of an id that says that it is a receive's.
const RECEIVE: u64 = 1 << 31;

/// The numbers of requests, which begin again after the last.
const NUMBERS: u32 = RECEIVE as u32 - 1;

/// The number of a request that comes so many after another.
const fn after(number: u32, count: u32) -> u32 {
    number.wrapping_add(count) & NUMBERS
}

/// How many come after a number up to another.
const fn between(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & NUMBERS
}

/// What a completion is of.
#[derive(Debug)]
pub(crate) enum Done {
    /// Requests of ours: this many, from the oldest on, of which the last has this status. What they were for is to be
    /// [retired](Endpoint::retire).
    Requests(u32, Status),
    /// A receive, with what has come into it.
    Receive(Received, Status),
    /// Nothing that is known here.
    Unknown,
}

/// The tag in an id.
pub(crate) const fn tag(id: u64) -> u32 {
    (id >> 32) as u32
}

impl<D: Device, T> Endpoint<D, T> {
    pub(crate) fn new(pair: D::QueuePair, tag: u32) -> Self {
        Self {
            pair,
            tag,
            flights: Fifo::new(),
            first: 0,
            next: 0,
            given_up: Vec::new(),
            receives: Receives::Own(Posted::new()),
            batch: Box::default(),
        }
    }

    /// One whose queue pair was made with a shared queue.
    pub(crate) fn sharing(pair: D::QueuePair, tag: u32, queue: &SharedQueue<D>) -> Self {
        Self { receives: Receives::Shared { _queue: queue.clone() }, ..Self::new(pair, tag) }
    }

    /// Gives the next request this number, where none is under way.
    #[cfg(test)]
    pub(crate) fn number_from(&mut self, number: u32) {
        assert_eq!(self.under_way(), 0);
        (self.first, self.next) = (number & NUMBERS, number & NUMBERS);
    }

    /// Exchanges the memory of its batch, which is empty but between [`Self::push`] and [`Self::post`].
    pub(crate) fn exchange(&mut self, batch: &mut Box<Batch>) {
        debug_assert!(batch.requests.is_empty() && !self.has_batch(), "all that was pushed is posted");
        std::mem::swap(&mut self.batch, batch);
    }

    pub(crate) fn pair(&self) -> &D::QueuePair {
        &self.pair
    }

    /// Adds a request to the batch. `parts` are the memory of ours that it uses, which is lent to it; but not to a bind, which
    /// touches nothing: what it exposes is lent as long as it is exposed.
    #[inline]
    pub(crate) fn push(
        &mut self,
        operation: Operation,
        parts: impl IntoIterator<Item = Part>,
        signaled: bool,
        what: T,
    ) -> bool {
        let binds = matches!(operation, Operation::Bind { .. });
        let table = &mut self.batch.slices;
        let from = table.len();
        let mut memory = Loans::default();
        for part in parts {
            let fits = table.len() - from < SLICES;
            let Some(slice) = part.buf.slice(part.from, part.length).filter(|_| fits) else {
                table.truncate(from);
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

    /// Adds a request to the batch that uses all of a buffer, as most do.
    #[inline]
    pub(crate) fn push_whole(&mut self, operation: Operation, buf: Buf, signaled: bool, what: T) {
        let (length, buf) = (buf.len() as u32, Lent::from(buf));
        let Some(slice) = buf.slice(0, length) else { return };
        let from = self.batch.slices.len() as u32;
        self.batch.slices.push(slice);
        let memory = Loans { first: Some(buf), second: None, more: None };
        self.add(operation, (from, 1), signaled, (what, memory));
    }

    /// Memory for a message that [`Self::push_inline`] then adds; none if so many wait that there is no room, as it is posted.
    #[inline]
    pub(crate) fn room(&mut self, octets: u32) -> Option<&mut [u8]> {
        self.batch.inline.room(octets as usize)
    }

    /// Adds a Send that takes along the message for which there was [`Self::room`], of as many octets as the device takes inline.
    /// It uses no memory afterwards, and where nobody waits for it, nothing is kept of it.
    #[inline]
    pub(crate) fn push_inline(&mut self, invalidate: Option<u32>, octets: u32, signaled: bool, what: Option<T>) {
        let slice = self.batch.inline.keep(octets);
        let from = self.batch.slices.len() as u32;
        self.batch.slices.push(slice);
        let number = self.request(Operation::Send { invalidate }, (from, 1), (signaled, true));
        if let Some(what) = what {
            self.flights.push(Flight { number, what, _memory: Loans::default() });
        }
    }

    #[inline(always)]
    fn add(&mut self, operation: Operation, slices: (u32, u32), signaled: bool, (what, memory): (T, Loans)) {
        let number = self.request(operation, slices, (signaled, false));
        self.flights.push(Flight { number, what, _memory: memory });
    }

    /// Adds a request to the batch: its number.
    #[inline(always)]
    fn request(&mut self, operation: Operation, slices: (u32, u32), (signaled, inline): (bool, bool)) -> u32 {
        let number = self.next;
        self.next = after(number, 1);
        let id = u64::from(self.tag) << 32 | u64::from(number);
        self.batch.requests.push(WorkRequest { id, signaled, inline, slices, operation });
        number
    }

    /// Adds a receive to the batch; nothing is added where receives are shared.
    #[inline]
    pub(crate) fn push_receive(&mut self, buffer: impl Into<Received>) {
        let Receives::Own(posted) = &mut self.receives else { return };
        let slices = &mut self.batch.receive_slices;
        let from = slices.len();
        let Some(number) = posted.lend(buffer.into(), slices) else { return };
        let id = u64::from(self.tag) << 32 | RECEIVE | u64::from(number);
        let slices = (from as u32, (slices.len() - from) as u32);
        self.batch.receives.push(Receive { id, slices });
    }

    /// Whether its receives are shared with others.
    pub(crate) fn shares(&self) -> bool {
        matches!(self.receives, Receives::Shared { .. })
    }

    /// Posts the receives of the batch, then its requests.
    ///
    /// # Errors
    /// The queue pair refuses them: it is not connected, or its queues are full. What was not posted is given up, and ends with
    /// the queue pair.
    pub(crate) fn post(&mut self) -> Result<()> {
        if !self.batch.receives.is_empty() {
            let Batch { receives, receive_slices, .. } = &mut *self.batch;
            // SAFETY: every slice is of a buffer that is lent to `receives` until its completion, or until the endpoint is
            // dropped, which drops the queue pair first; and nobody can reach the octets of what is lent.
            if let Err(error) = unsafe { self.pair.post_receives(receives, receive_slices) } {
                if let Receives::Own(posted) = &mut self.receives {
                    receives.iter().for_each(|receive| drop(posted.take(receive.id)));
                }
                return Err(self.give_up(error));
            }
            receives.clear();
            receive_slices.clear();
        }
        if !self.batch.requests.is_empty() {
            let Batch { requests, slices, inline, .. } = &mut *self.batch;
            inline.show();
            // SAFETY: every slice is of a buffer that is lent to `flights` until its completion or a later one, or until the
            // endpoint is dropped, which drops the queue pair first; and nobody can reach the octets of what is lent. Or it is
            // of what an inline request takes along: within `inline`, whose octets nobody touches before this returns.
            if let Err(error) = unsafe { self.pair.post(requests, slices) } {
                return Err(self.give_up(error));
            }
            requests.clear();
            slices.clear();
        }
        Ok(())
    }

    /// Gives up what is in the batch still, and lends no more memory to it.
    #[cold]
    fn give_up(&mut self, error: VerbError) -> VerbError {
        let Batch { requests, receives, slices, receive_slices, inline } = &mut *self.batch;
        let count = requests.len() as u32;
        let first = self.next.wrapping_sub(count) & NUMBERS;
        self.next = first;
        while self.flights.last().is_some_and(|flight| between(first, flight.number) < count) {
            self.given_up.extend(self.flights.pop_last().map(|flight| flight.what));
        }
        inline.used = 0;
        requests.clear();
        receives.clear();
        slices.clear();
        receive_slices.clear();
        error
    }

    /// Whether anything waits to be posted.
    pub(crate) fn has_batch(&self) -> bool {
        !self.batch.requests.is_empty() || !self.batch.receives.is_empty()
    }

    /// Requests that wait to be posted.
    pub(crate) fn waiting(&self) -> usize {
        self.batch.requests.len()
    }

    /// Requests that are posted and not known to be done.
    pub(crate) fn under_way(&self) -> usize {
        between(self.first, self.next) as usize
    }

    /// What a completion is of. Of requests, what they were for is to be [retired](Self::retire) then.
    #[inline]
    pub(crate) fn complete(&mut self, completion: &Completion) -> Done {
        // It may be left of an earlier queue pair with the same tag.
        if completion.queue_pair != self.pair.number() {
            return Done::Unknown;
        }
        let number = completion.id as u32;
        if completion.id & RECEIVE != 0 {
            let Receives::Own(posted) = &mut self.receives else { return Done::Unknown };
            let Some(mut buffer) = posted.take(completion.id) else { return Done::Unknown };
            buffer.fill(completion.length);
            return Done::Receive(buffer, completion.status);
        }
        // Requests are done in their order: this one, and all before it.
        let count = between(self.first, number);
        if count >= between(self.first, self.next) {
            return Done::Unknown;
        }
        self.first = after(number, 1);
        Done::Requests(count + 1, completion.status)
    }

    /// Ends the queue pair, and then what was posted: what it was for.
    pub(crate) fn close(self) -> impl Iterator<Item = T> {
        let Self { pair, mut flights, receives, given_up, .. } = self;
        pair.disconnect();
        drop(pair);
        drop(receives);
        std::iter::from_fn(move || flights.pop()).map(|flight| flight.what).chain(given_up)
    }

    /// What the oldest request was for that is known to be done, if any waits for it, and whether that was the last one which is.
    /// To be asked until there is none, before the next completion.
    #[inline]
    pub(crate) fn retire(&mut self) -> Option<(T, bool)> {
        // What is under way comes before all that is done, in numbers that begin again.
        let under_way = between(self.first, self.next);
        let number = self.flights.first().map(|flight| flight.number)?;
        if between(self.first, number) < under_way {
            return None;
        }
        let flight = self.flights.pop()?;
        Some((flight.what, after(number, 1) == self.first))
    }
}

/// A receive queue that several queue pairs share, and what was posted to it. Clones are of the same.
///
/// Every endpoint whose queue pair was made with it has a clone, which it drops after its queue pair: so what was posted is
/// freed when no queue pair takes from it any more.
#[derive(Debug)]
pub(crate) struct SharedQueue<D: Device>(Rc<SharedQueueInner<D>>);

/// The fields are dropped in this order: first the queue.
#[derive(Debug)]
struct SharedQueueInner<D: Device> {
    queue: D::SharedReceives,
    posted: RefCell<Posted>,
    batch: RefCell<Batch>,
}

impl<D: Device> Clone for SharedQueue<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The tag in the ids of shared receives, which is no endpoint's.
const SHARED: u32 = u32::MAX;

/// Whether a completion is of a shared receive.
pub(crate) const fn is_shared(id: u64) -> bool {
    tag(id) == SHARED
}

impl<D: Device> SharedQueue<D> {
    pub(crate) fn new(queue: D::SharedReceives) -> Self {
        Self(Rc::new(SharedQueueInner { queue, posted: RefCell::new(Posted::new()), batch: RefCell::default() }))
    }

    /// The queue, to make a queue pair with, which then belongs into [`Endpoint::sharing`].
    pub(crate) fn queue(&self) -> &D::SharedReceives {
        &self.0.queue
    }

    /// How many receives are posted.
    pub(crate) fn len(&self) -> usize {
        self.0.posted.borrow().len()
    }

    /// Posts receives: all or none.
    ///
    /// # Errors
    /// It has no room for them, or the device refuses.
    pub(crate) fn post(&self, buffers: impl IntoIterator<Item: Into<Received>>) -> Result<()> {
        let mut posted = self.0.posted.borrow_mut();
        let mut batch = self.0.batch.borrow_mut();
        let Batch { receives, receive_slices, .. } = &mut *batch;
        for buffer in buffers {
            let from = receive_slices.len();
            let Some(number) = posted.lend(buffer.into(), receive_slices) else { continue };
            let id = u64::from(SHARED) << 32 | RECEIVE | u64::from(number);
            receives.push(Receive { id, slices: (from as u32, (receive_slices.len() - from) as u32) });
        }
        // SAFETY: the slices are of buffers that are lent to `posted` until their completions, or until this goes: after every
        // queue pair that takes from it. Nobody can reach the octets of what is lent.
        let done = unsafe { self.0.queue.post(receives, receive_slices) };
        if done.is_err() {
            receives.iter().for_each(|receive| drop(posted.take(receive.id)));
        }
        receives.clear();
        receive_slices.clear();
        done
    }

    /// The buffer of a completion.
    pub(crate) fn complete(&self, completion: &Completion) -> Option<Received> {
        let mut buffer = self.0.posted.borrow_mut().take(completion.id)?;
        buffer.fill(completion.length);
        Some(buffer)
    }
}
