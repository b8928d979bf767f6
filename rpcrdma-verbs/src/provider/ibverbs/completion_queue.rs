//! A completion queue: completions of the device, and those that are created in software. It has
//! their order, their descriptor and the arming; `device_state` converts a completion.
//!
//! Completions in software (`pending`) are reported before those that the device has yet to return:
//! a queue pair is drained before its rest is flushed, and the drained ones are pending, too. A
//! completion is taken and converted under one lock (`QueueState`). The lock of `lifecycle` comes
//! before it: see the order of locks in `device_state`.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys::ibv_wc;
use rustix::event::epoll;
use rustix::event::{EventfdFlags, eventfd};

use super::hint::explained;
use super::outstanding::{Outstanding, PairRings, ReceiveIds};
use super::ring::Ring;
use super::sys;
use crate::provider::{Cause, Completion, Result, VerbError};

/// A completion queue.
pub(super) struct Queue {
    device: Arc<sys::CompletionQueue>,
    /// The number that this provider assigned.
    pub(super) number: u32,
    /// Locked while a queue pair that uses the queue is created, or is destroyed and its
    /// completions are taken: the device reuses the number of a queue pair as soon as it is
    /// destroyed.
    lifecycle: Mutex<()>,
    state: Mutex<QueueState>,
    wake: OwnedFd,
    /// Readable if the device's channel or `wake` is.
    both: OwnedFd,
}

/// The state of a completion queue. A completion is taken from the device and converted under one
/// lock: otherwise a thread that ends its queue pair could report the request as flushed in
/// between, and completions could be reported in the wrong order.
struct QueueState {
    places: Vec<ibv_wc>,
    outstanding: Outstanding,
    /// Completions that are reported before those of the device.
    pending: VecDeque<Pending>,
    overrun: bool,
    /// True if a thread wants to be woken.
    armed: bool,
    /// True from the arming of the device until its event is taken. An armed device need not be
    /// armed again, which is a system call.
    device_armed: bool,
    /// The number of acknowledgements since the last event, while the device was armed.
    missed: u8,
    woken: bool,
}

/// A completion that was taken from the device, or created in software.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) completion: Completion,
    /// True for a shared receive, which outlives its queue pair.
    pub(super) shared: bool,
}

/// The requests that were added to a queue: the number of the first, and of the oldest that is
/// outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddedRequests {
    pub(super) first: u32,
    pub(super) oldest: u32,
}

/// A queue of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Sends,
    Receives,
}

/// The number of acknowledgements without an event after which the device is armed again.
const MISSED: u8 = 16;

/// The number of completions that are taken from the device at once.
pub(super) const PLACES: usize = 64;

/// Creates a descriptor that becomes readable when it is written to.
pub(super) fn waker(verb: &'static str) -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(system(verb))
}

/// Makes the descriptor readable. The write fails only if the counter is at its maximum, when it is
/// readable.
pub(super) fn wake(waker: &OwnedFd) {
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

/// Makes the descriptor unreadable. The read fails if it already is.
pub(super) fn quiet(waker: &OwnedFd) {
    let _ = rustix::io::read(waker, &mut [0u8; 8]);
}

/// Creates a descriptor that is readable if any of the others is.
pub(super) fn any_of(verb: &'static str, others: &[BorrowedFd<'_>]) -> Result<OwnedFd> {
    let any = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system(verb))?;
    for other in others {
        epoll::add(
            &any,
            other,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )
        .map_err(system(verb))?;
    }
    Ok(any)
}

fn system(verb: &'static str) -> impl Fn(rustix::io::Errno) -> VerbError {
    move |errno| explained(verb, errno.into())
}

impl PairRings {
    fn ring(&mut self, side: Side) -> Option<&mut Ring> {
        match side {
            Side::Sends => Some(&mut self.sends),
            Side::Receives => self.receives.as_mut(),
        }
    }
}

impl QueueState {
    /// Takes pending completions, and returns their number.
    fn take(&mut self, completions: &mut Vec<Completion>, most: usize) -> usize {
        let count = most.min(self.pending.len());
        completions.extend(self.pending.drain(..count).map(|one| one.completion));
        count
    }

    /// Passes at most `most` completions of the device to `each`, and returns their number.
    fn poll(
        &mut self,
        device: &sys::CompletionQueue,
        most: usize,
        mut each: impl FnMut(&mut Outstanding, &mut VecDeque<Pending>, sys::RawCompletion),
    ) -> Result<usize> {
        let mut count = 0;
        while count < most {
            let wanted = PLACES.min(most - count);
            let Some(places) = self.places.get_mut(..wanted) else {
                break;
            };
            let taken = device.poll(places)?;
            for place in places.iter().take(taken) {
                let raw = sys::CompletionQueue::raw_completion(place);
                each(&mut self.outstanding, &mut self.pending, raw);
            }
            count += taken;
            if taken < wanted {
                break;
            }
        }
        Ok(count)
    }
}

impl Queue {
    pub(super) fn new(context: &Arc<sys::Context>, entries: u32, number: u32) -> Result<Arc<Self>> {
        let device = Arc::new(sys::CompletionQueue::new(context, entries, number)?);
        let wake = waker("completion_queue")?;
        let both = any_of("completion_queue", &[device.descriptor(), wake.as_fd()])?;
        let state = QueueState {
            places: sys::CompletionQueue::wc_buffer(PLACES),
            outstanding: Outstanding::default(),
            pending: VecDeque::new(),
            overrun: false,
            armed: false,
            device_armed: false,
            missed: 0,
            woken: false,
        };
        Ok(Arc::new(Self {
            device,
            number,
            lifecycle: Mutex::new(()),
            state: Mutex::new(state),
            wake,
            both,
        }))
    }

    pub(super) fn device(&self) -> &Arc<sys::CompletionQueue> {
        &self.device
    }

    pub(super) fn lock_lifecycle(&self) -> MutexGuard<'_, ()> {
        self.lifecycle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No panic can occur between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a queue pair by its device number, with its shared receive queue and the number of that
    /// queue.
    pub(super) fn add_pair(
        &self,
        device_number: u32,
        rings: PairRings,
        shared: Option<(u32, &Arc<ReceiveIds>)>,
    ) {
        let mut state = self.lock();
        let Outstanding { pairs, shared: of } = &mut state.outstanding;
        if let Some((number, ids)) = shared {
            of.retain(|_, ids| !ids.is_closed());
            of.insert(number, ids.clone());
        }
        let gone = pairs.insert(device_number, rings);
        drop(state);
        drop(gone);
    }

    pub(super) fn remove_pair(&self, device_number: u32) -> Option<PairRings> {
        self.lock().outstanding.pairs.remove(&device_number)
    }

    /// Adds requests of a queue pair that are about to be posted. Returns `None` if there is no
    /// room for all of them.
    pub(super) fn add_requests(
        &self,
        device_number: u32,
        side: Side,
        ids: impl ExactSizeIterator<Item = u64>,
    ) -> Option<AddedRequests> {
        let mut state = self.lock();
        let pair = state.outstanding.pairs.get_mut(&device_number)?;
        let ring = pair.ring(side)?;
        (ids.len() <= ring.room()).then(|| {
            let (first, oldest) = (ring.next(), ring.oldest());
            ids.for_each(|id| {
                ring.push(id);
            });
            AddedRequests { first, oldest }
        })
    }

    /// Removes the requests from `first` on, which were not posted.
    pub(super) fn remove_requests(&self, device_number: u32, side: Side, first: u32) {
        let mut state = self.lock();
        let pair = state.outstanding.pairs.get_mut(&device_number);
        if let Some(ring) = pair.and_then(|pair| pair.ring(side)) {
            ring.truncate(first);
        }
    }

    /// Marks the queue as overrun, as reported by the device.
    pub(super) fn overruns(&self) {
        let mut state = self.lock();
        state.overrun = true;
        self.wake(&mut state);
    }

    /// Wakes a waiting thread. The lock orders this with [`Self::acknowledge`].
    fn wake(&self, state: &mut QueueState) {
        if std::mem::replace(&mut state.armed, false) {
            state.woken = true;
            wake(&self.wake);
        }
    }

    /// Adds completions.
    pub(super) fn add(&self, completions: impl Iterator<Item = Pending>) {
        let mut state = self.lock();
        let before = state.pending.len();
        state.pending.extend(completions);
        if state.pending.len() > before {
            self.wake(&mut state);
        }
    }

    /// Takes completions, at most `most`: first the pending ones, then those of the device that
    /// `convert` reports. Returns their number, and the number of all that were taken.
    pub(super) fn poll(
        &self,
        completions: &mut Vec<Completion>,
        most: usize,
        mut convert: impl FnMut(&mut Outstanding, &sys::RawCompletion) -> Option<Pending>,
    ) -> Result<(usize, usize)> {
        let mut state = self.lock();
        if state.overrun {
            return Err(VerbError {
                verb: "ibv_poll_cq",
                cause: Cause::Overrun,
            });
        }
        let count = state.take(completions, most);
        let mut reported = count;
        let taken = state.poll(&self.device, most - count, |outstanding, _, raw| {
            if let Some(pending) = convert(outstanding, &raw) {
                completions.push(pending.completion);
                reported += 1;
            }
        })?;
        Ok((reported, count + taken))
    }

    /// Takes all completions of the device, and stores those that `convert` reports.
    pub(super) fn drain(
        &self,
        mut convert: impl FnMut(&mut Outstanding, &sys::RawCompletion) -> Option<Pending>,
    ) {
        let mut state = self.lock();
        let before = state.pending.len();
        let drained = state.poll(&self.device, usize::MAX, |outstanding, pending, raw| {
            pending.extend(convert(outstanding, &raw));
        });
        if let Err(error) = drained {
            tracing::debug!(%error, "a queue can't be drained");
        }
        if state.pending.len() > before {
            self.wake(&mut state);
        }
    }

    /// Removes the completions of a destroyed queue pair.
    pub(super) fn forget(&self, pair: u32) {
        let mut state = self.lock();
        if !state.pending.is_empty() {
            state
                .pending
                .retain(|one| one.shared || one.completion.queue_pair != pair);
        }
    }

    pub(super) fn arm(&self) -> Result<()> {
        let mut state = self.lock();
        state.armed = true;
        if !state.device_armed {
            self.device.arm()?;
            state.device_armed = true;
        }
        Ok(())
    }

    pub(super) fn acknowledge(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.woken, false) {
            quiet(&self.wake);
        }
        // This does not wait: the channel does not block. Where the device is not armed, it may
        // have sent two events for one arming, as siw does under load.
        state.missed = state.missed.saturating_add(1);
        if self.device.take_event() {
            state.device_armed = false;
            state.armed = false;
            state.missed = 0;
        } else if state.missed >= MISSED {
            // The kernel loses an event if it has no memory for it.
            state.device_armed = false;
            state.missed = 0;
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}
