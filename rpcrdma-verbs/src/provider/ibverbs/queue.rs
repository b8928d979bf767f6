//! A completion queue: what the device has completed, and what was completed in its place.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use ibverbs_sys::ibv_wc;
use rustix::event::epoll;
use rustix::event::{EventfdFlags, eventfd};

use super::hint::explained;
use super::sys;
use crate::provider::{Completion, Result, VerbError};

/// A completion queue.
pub(super) struct Queue {
    device: Rc<sys::CompletionQueue>,
    places: RefCell<Vec<ibv_wc>>,
    /// What is told before anything that the device still has.
    pending: RefCell<VecDeque<Pending>>,
    /// Whether there is anything of it: a look at this costs less.
    some: Cell<bool>,
    overrun: Cell<bool>,
    /// Whether somebody wants to be woken, and was.
    armed: Cell<bool>,
    woken: Cell<bool>,
    /// Events that may still come for what was armed.
    expected: Cell<u32>,
    wake: OwnedFd,
    /// Of the device's channel and of `wake`.
    both: OwnedFd,
}

/// A completion that was taken from the device, or made in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) completion: Completion,
    /// Whether it is of a shared receive, which outlives its queue pair.
    pub(super) shared: bool,
}

/// Completions taken from the device at once.
pub(super) const PLACES: usize = 64;

/// A descriptor that becomes readable when it is written to.
pub(super) fn waker(verb: &'static str) -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(system(verb))
}

/// Makes it readable. It only fails when it is readable already, as often as can be counted.
pub(super) fn wake(waker: &OwnedFd) {
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

/// Makes it unreadable again, whether or not it was readable.
pub(super) fn quiet(waker: &OwnedFd) {
    let _ = rustix::io::read(waker, &mut [0u8; 8]);
}

/// A descriptor that is readable when any of others is.
pub(super) fn any_of(verb: &'static str, others: &[BorrowedFd<'_>]) -> Result<OwnedFd> {
    let any = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system(verb))?;
    for other in others {
        epoll::add(&any, other, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(system(verb))?;
    }
    Ok(any)
}

fn system(verb: &'static str) -> impl Fn(rustix::io::Errno) -> VerbError {
    move |errno| explained(verb, errno.into())
}

impl Queue {
    pub(super) fn new(context: &Rc<sys::Context>, entries: u32) -> Result<Rc<Self>> {
        let device = Rc::new(sys::CompletionQueue::new(context, entries)?);
        let wake = waker("completion_queue")?;
        let both = any_of("completion_queue", &[device.descriptor(), wake.as_fd()])?;
        Ok(Rc::new(Self {
            device,
            places: RefCell::new(sys::CompletionQueue::places(PLACES)),
            pending: RefCell::default(),
            some: Cell::new(false),
            overrun: Cell::new(false),
            armed: Cell::new(false),
            woken: Cell::new(false),
            expected: Cell::new(0),
            wake,
            both,
        }))
    }

    pub(super) fn device(&self) -> &Rc<sys::CompletionQueue> {
        &self.device
    }

    pub(super) fn has_overrun(&self) -> bool {
        self.overrun.get()
    }

    /// It has failed, as the device tells.
    pub(super) fn overruns(&self) {
        self.overrun.set(true);
        self.wake();
    }

    fn wake(&self) {
        if self.armed.replace(false) {
            self.woken.set(true);
            wake(&self.wake);
        }
    }

    /// Adds what is told next.
    pub(super) fn add(&self, pending: Pending) {
        self.pending.borrow_mut().push_back(pending);
        self.some.set(true);
        self.wake();
    }

    /// Takes what is told next: as much as there is room for.
    pub(super) fn take(&self, completions: &mut Vec<Completion>, most: usize) -> usize {
        if !self.some.get() {
            return 0;
        }
        let mut pending = self.pending.borrow_mut();
        let count = most.min(pending.len());
        completions.extend(pending.drain(..count).map(|one| one.completion));
        self.some.set(!pending.is_empty());
        count
    }

    /// Forgets what would be told of a queue pair that is gone.
    pub(super) fn forget(&self, pair: u32) {
        if self.some.get() {
            self.pending.borrow_mut().retain(|one| one.shared || one.completion.queue_pair != pair);
        }
    }

    /// Takes completions from the device, and shows each: how many they were, at most as many as were asked for.
    pub(super) fn poll(&self, most: usize, mut each: impl FnMut(sys::Taken)) -> Result<usize> {
        let mut places = self.places.borrow_mut();
        let mut count = 0;
        while count < most {
            let wanted = PLACES.min(most - count);
            let Some(places) = places.get_mut(..wanted) else { break };
            let taken = self.device.poll(places)?;
            places.iter().take(taken).for_each(|place| each(sys::CompletionQueue::taken(place)));
            count += taken;
            if taken < wanted {
                break;
            }
        }
        Ok(count)
    }

    pub(super) fn arm(&self) -> Result<()> {
        self.armed.set(true);
        self.expected.set(self.expected.get().saturating_add(1));
        self.device.arm()
    }

    pub(super) fn acknowledge(&self) {
        if self.woken.replace(false) {
            quiet(&self.wake);
        }
        while self.expected.get() > 0 && self.device.take_event() {
            self.expected.set(self.expected.get() - 1);
            self.armed.set(false);
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}
