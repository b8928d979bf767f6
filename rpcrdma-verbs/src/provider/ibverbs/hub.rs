//! What all things of one device share: its tables, and the way from a completion or an event to what it is of.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use super::ids::Kind;
use super::numbers::Numbers;
use super::outgoing::Outgoing;
use super::queue::{Pending, Queue};
use super::ring::Ring;
use super::status::status;
use super::sys::{AsyncEvent, Context, Domain, Taken};
use super::tables::Tables;
use crate::provider::{Capabilities, Completion, Status};

/// A device.
pub(super) struct Hub {
    // What is dropped first uses what comes later.
    pub(super) tables: Tables,
    pub(super) domain: Rc<Domain>,
    pub(super) context: Rc<Context>,
    pub(super) capabilities: Capabilities,
    pub(super) traits: Traits,
    /// Memory for what is being posted.
    pub(super) outgoing: RefCell<Outgoing>,
    /// Queue pairs, by the device's numbers.
    pairs: RefCell<Numbers<Rc<dyn Served>>>,
    /// Shared receive queues, by ours.
    shared: RefCell<Numbers<Rc<Shelf>>>,
    queues: RefCell<Vec<Weak<Queue>>>,
    /// Queue pairs that have failed, and are to be ended.
    failing: RefCell<Vec<Rc<dyn Served>>>,
    /// The queue pair whose last shared receive is waited for.
    awaited: Cell<Option<u32>>,
    numbers: Cell<u32>,
    /// Goes up whenever somebody is about to wait, or was woken: then it is time to look at every descriptor.
    attention: Cell<u32>,
}

/// What was found out about a device, beside what it can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Traits {
    pub(super) iwarp: bool,
    /// Its first active port.
    pub(super) port: u8,
    /// The flags of a completion that say that a key was invalidated.
    pub(super) invalidated: u32,
}

/// A queue pair, as its device serves it.
pub(super) trait Served {
    /// Ours, not the device's.
    fn number(&self) -> u32;
    /// A request is done: its id, unless it was told before.
    fn done(&self, kind: Kind, number: u32) -> Option<u64>;
    fn has_failed(&self) -> bool;
    fn completes_on(&self, queue: &Rc<Queue>) -> bool;
    /// Ends it.
    fn end(&self);
    /// A message has come before the connection was established.
    fn comes_early(&self);
}

/// How long the last shared receive of a queue pair is waited for.
const LAST: Duration = Duration::from_millis(2);

/// What was posted to a shared queue.
pub(super) struct Shelf {
    ids: RefCell<Vec<u64>>,
    free: RefCell<Vec<u32>>,
}

impl Shelf {
    pub(super) fn new(most: u32) -> Rc<Self> {
        let free = (0..most).rev().collect();
        Rc::new(Self { ids: RefCell::new(vec![0; most as usize]), free: RefCell::new(free) })
    }

    pub(super) fn room(&self) -> usize {
        self.free.borrow().len()
    }

    /// Puts an id away, for which there is room: where.
    pub(super) fn put(&self, id: u64) -> u32 {
        let at = self.free.borrow_mut().pop().unwrap_or(u32::MAX);
        if let Some(place) = self.ids.borrow_mut().get_mut(at as usize) {
            *place = id;
        }
        at
    }

    pub(super) fn take(&self, at: u32) -> Option<u64> {
        let id = self.ids.borrow().get(at as usize).copied()?;
        self.free.borrow_mut().push(at);
        Some(id)
    }
}

impl Hub {
    pub(super) fn new(
        (context, domain): (Rc<Context>, Rc<Domain>),
        capabilities: Capabilities,
        traits: Traits,
    ) -> Rc<Self> {
        Rc::new(Self {
            tables: Tables::default(),
            domain,
            context,
            capabilities,
            traits,
            outgoing: RefCell::default(),
            pairs: RefCell::default(),
            shared: RefCell::default(),
            queues: RefCell::default(),
            failing: RefCell::default(),
            awaited: Cell::new(None),
            numbers: Cell::new(1),
            attention: Cell::new(0),
        })
    }

    pub(super) fn next_number(&self) -> u32 {
        self.numbers.replace(self.numbers.get().wrapping_add(1))
    }

    pub(super) fn attention(&self) -> u32 {
        self.attention.get()
    }

    /// Somebody is about to wait, or was woken.
    pub(super) fn attend(&self) {
        self.attention.set(self.attention.get().wrapping_add(1));
    }

    pub(super) fn add_queue(&self, queue: &Rc<Queue>) {
        let mut queues = self.queues.borrow_mut();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Rc::downgrade(queue));
    }

    pub(super) fn add_pair(&self, number: u32, pair: Rc<dyn Served>) {
        self.pairs.borrow_mut().insert(number, pair);
    }

    pub(super) fn remove_pair(&self, number: u32) {
        let gone = self.pairs.borrow_mut().remove(&number);
        drop(gone);
    }

    pub(super) fn add_shared(&self, number: u32, shelf: &Rc<Shelf>) {
        self.shared.borrow_mut().insert(number, shelf.clone());
    }

    pub(super) fn remove_shared(&self, number: u32) {
        self.shared.borrow_mut().remove(&number);
    }

    /// What a completion of the device says; none if it is of nothing that is under way.
    pub(super) fn completed(&self, taken: &Taken) -> Option<Pending> {
        let (kind, number) = Kind::of(taken.id);
        let pairs = self.pairs.borrow();
        let pair = pairs.get(&taken.pair);
        let id = match kind {
            Kind::Shared(queue) => self.shared.borrow().get(&queue)?.take(number)?,
            _ => pair?.done(kind, number)?,
        };
        let status = status(taken.status.0, taken.status.1);
        if let Some(pair) = pair.filter(|pair| status != Status::Success && !pair.has_failed()) {
            self.failing.borrow_mut().push(pair.clone());
        }
        if status == Status::Success && kind == Kind::Quiet {
            return None;
        }
        let received = status == Status::Success && matches!(kind, Kind::Receive | Kind::Shared(_));
        let invalidated = (received && taken.flags & self.traits.invalidated != 0).then_some(taken.key);
        if let Some(key) = invalidated {
            self.tables.unbound(key);
        }
        let completion = Completion {
            id,
            queue_pair: pair.map_or(0, |pair| pair.number()),
            status,
            length: if received { taken.octets } else { 0 },
            invalidated,
        };
        Some(Pending { completion, shared: matches!(kind, Kind::Shared(_)) })
    }

    /// Takes all that the device has completed on a queue, to be told later.
    pub(super) fn drain(&self, queue: &Queue) {
        let drained = queue.poll(usize::MAX, |taken| {
            if let Some(pending) = self.completed(&taken) {
                queue.add(pending);
            }
        });
        if let Err(error) = drained {
            tracing::debug!(%error, "a queue can't be drained");
        }
    }

    /// A queue pair has failed. It is ended by [`Self::settle`].
    pub(super) fn fails(&self, pair: &Rc<dyn Served>) {
        self.failing.borrow_mut().push(pair.clone());
    }

    /// Ends the queue pairs that have failed.
    pub(super) fn settle(&self) {
        loop {
            let next = self.failing.borrow_mut().pop();
            let Some(pair) = next else { return };
            pair.end();
        }
    }

    /// Takes what the device tells by itself.
    pub(super) fn take_events(&self) {
        self.note_events();
        self.settle();
    }

    fn note_events(&self) {
        while let Some(event) = self.context.event() {
            tracing::debug!(?event, "of the device");
            match event {
                AsyncEvent::Queue(address) => self.overruns(address),
                AsyncEvent::Failed(number) => self.failing.borrow_mut().extend(self.pair(number)),
                AsyncEvent::Connected(number) => {
                    if let Some(pair) = self.pair(number) {
                        pair.comes_early();
                    }
                }
                AsyncEvent::Fatal => self.failing.borrow_mut().extend(self.pairs.borrow().values().cloned()),
                AsyncEvent::Drained(number) if self.awaited.get() == Some(number) => self.awaited.set(None),
                AsyncEvent::Drained(_) | AsyncEvent::Other(_) => {}
            }
        }
    }

    /// Waits until a queue pair that has failed is done with what it took of its shared queue, by the device's number. Soft-RoCE of
    /// Linux 6.1 and soft-iWARP do not tell.
    pub(super) fn await_last(&self, number: u32) {
        self.awaited.set(Some(number));
        let began = Instant::now();
        while self.awaited.get().is_some() && began.elapsed() < LAST {
            self.note_events();
            std::thread::yield_now();
        }
        self.awaited.set(None);
    }

    fn pair(&self, number: u32) -> Option<Rc<dyn Served>> {
        self.pairs.borrow().get(&number).cloned()
    }

    fn overruns(&self, address: usize) {
        let queues = self.queues.borrow();
        let found = queues.iter().filter_map(Weak::upgrade).find(|queue| queue.device().address() == address);
        if let Some(queue) = found {
            queue.overruns();
            // What they complete would be lost.
            let pairs = self.pairs.borrow();
            let using = pairs.values().filter(|pair| pair.completes_on(&queue));
            self.failing.borrow_mut().extend(using.cloned());
        }
    }
}

/// Ends what is left in a ring, in its order.
pub(super) fn flush(ring: &mut Ring, mut each: impl FnMut(u32, u64)) {
    while let Some((number, id)) = ring.pop() {
        each(number, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_has_its_places() {
        let shelf = Shelf::new(2);
        let (one, two) = (shelf.put(10), shelf.put(11));
        assert_eq!((shelf.room(), shelf.take(one), shelf.take(two)), (0, Some(10), Some(11)));
        assert_eq!((shelf.room(), shelf.take(2)), (2, None));
    }
}
