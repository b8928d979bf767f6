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
pub struct SoftwareCompletionQueue {
    pub(super) shared: Arc<CompletionState>,
}

#[derive(Debug)]
pub(super) struct CompletionState {
    fabric: Arc<Fabric>,
    state: Mutex<CompletionBuffer>,
    wake: OwnedFd,
}

#[derive(Debug)]
struct CompletionBuffer {
    entries: VecDeque<Entry>,
    most: usize,
    armed: bool,
    overrun: bool,
}

/// A completion, with the entries of the send queue that it frees.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) completion: Completion,
    pub(super) retires: Option<(Arc<AtomicU32>, u32)>,
}

pub(super) fn system(verb: &'static str) -> impl Fn(rustix::io::Errno) -> VerbError {
    move |error| VerbError {
        verb,
        cause: Cause::System(error.into()),
    }
}

/// Returns the system's error for invalid arguments.
pub(super) fn invalid(verb: &'static str) -> VerbError {
    system(verb)(rustix::io::Errno::INVAL)
}

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

impl SoftwareCompletionQueue {
    pub(super) fn new(fabric: Arc<Fabric>, most: u32) -> Result<Self> {
        let most = most as usize;
        let state = CompletionBuffer {
            entries: VecDeque::new(),
            most,
            armed: false,
            overrun: false,
        };
        let shared = CompletionState {
            fabric,
            state: Mutex::new(state),
            wake: waker("completion_queue")?,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }
}

impl CompletionState {
    fn lock(&self) -> MutexGuard<'_, CompletionBuffer> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all entries. Completions without room are lost, and the queue has overrun.
    #[inline(always)]
    pub(super) fn extend(&self, entries: &mut VecDeque<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut state = self.lock();
        let room = state.most - state.entries.len();
        state.overrun |= entries.len() > room;
        entries.truncate(room);
        // Most queues are polled until they are empty. The larger allocation stays with the queue.
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

impl provider::CompletionQueue for SoftwareCompletionQueue {
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        self.shared.fabric.progress();
        let mut state = self.shared.lock();
        if state.overrun {
            return Err(VerbError {
                verb: "poll",
                cause: Cause::Overrun,
            });
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
            latency.watch().map_err(|error| VerbError {
                verb: "arm",
                cause: Cause::System(error),
            })?;
        }
        // Delayed requests progress by polls: the waiter must be woken to poll, or all might wait
        // for ever.
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
