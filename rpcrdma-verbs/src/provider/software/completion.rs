//! Completion queues.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::Fabric;
use crate::provider::{self, Cause, Completion, Result, VerbError};

/// A completion queue of the software fabric.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    fabric: Arc<Fabric>,
    state: Mutex<State>,
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    entries: VecDeque<Entry>,
    most: usize,
    armed: bool,
    overrun: bool,
}

/// A completion, and what it gives back of its send queue.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) completion: Completion,
    pub(super) retires: Option<(Arc<AtomicU32>, u32)>,
}

pub(super) fn system(verb: &'static str) -> impl Fn(rustix::io::Errno) -> VerbError {
    move |error| VerbError { verb, cause: Cause::System(error.into()) }
}

/// What the system says to arguments that make no sense.
pub(super) fn invalid(verb: &'static str) -> VerbError {
    system(verb)(rustix::io::Errno::INVAL)
}

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

impl CompletionQueue {
    pub(super) fn new(fabric: Arc<Fabric>, most: u32) -> Result<Self> {
        let most = most as usize;
        let state = State { entries: VecDeque::new(), most, armed: false, overrun: false };
        let shared = Shared { fabric, state: Mutex::new(state), wake: waker("completion_queue")? };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes completions over. Those that have no room are lost, and the queue with them.
    #[inline(always)]
    pub(super) fn extend(&self, entries: &mut VecDeque<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut state = self.lock();
        let room = state.most - state.entries.len();
        state.overrun |= entries.len() > room;
        entries.truncate(room);
        // Most queues are polled until they are empty. What was grown for many stays with the queue.
        if state.entries.is_empty() && state.entries.capacity() <= entries.capacity() {
            std::mem::swap(&mut state.entries, entries);
        } else {
            state.entries.append(entries);
        }
        if state.armed && !self.fabric.loses_wakeup() {
            state.armed = false;
            drop(state);
            wake(&self.wake);
        }
    }
}

impl provider::CompletionQueue for CompletionQueue {
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        self.shared.fabric.progress();
        let mut state = self.shared.lock();
        if state.overrun {
            return Err(VerbError { verb: "poll", cause: Cause::Overrun });
        }
        let count = most.min(state.entries.len());
        for entry in state.entries.iter().take(count) {
            if let Some((retired, count)) = &entry.retires {
                retired.fetch_add(*count, Ordering::Relaxed);
            }
            completions.push(entry.completion);
        }
        state.entries.drain(..count);
        Ok(count)
    }

    fn arm(&self) -> Result<()> {
        self.shared.lock().armed = true;
        if let Some(latency) = &self.shared.fabric.latency {
            latency.watch().map_err(|error| VerbError { verb: "arm", cause: Cause::System(error) })?;
        }
        // What is delayed goes on with polls: who is to wait is woken to poll, or all might wait for ever.
        if self.shared.fabric.has_delayed() {
            wake(&self.shared.wake);
        }
        Ok(())
    }

    fn acknowledge(&self) -> Result<()> {
        quiet(&self.shared.wake);
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}
