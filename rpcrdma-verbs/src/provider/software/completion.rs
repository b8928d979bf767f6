//! Completion queues of the software fabric. A poll first executes all due work of the fabric, not
//! only that of its own queue pairs.
//!
//! `qp_pair` calls `extend` under the lock of a connection. So no code locks a connection under the
//! lock of a completion queue: `poll` executes the work before it takes the latter.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Fabric;
use crate::provider::common::completions::{CompletionBuffer, CompletionEntry};
use crate::provider::common::wakeup::{quiet, wake, waker};
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

impl SoftwareCompletionQueue {
    pub(super) fn new(fabric: Arc<Fabric>, most: u32) -> Result<Self> {
        let shared = CompletionState {
            fabric,
            state: Mutex::new(CompletionBuffer::new(most)),
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
    pub(super) fn extend(&self, entries: &mut VecDeque<CompletionEntry>) {
        if entries.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.extend(entries);
        if state.is_armed() && !self.fabric.loses_wakeup() {
            state.set_armed(false);
            drop(state);
            wake(&self.wake);
        }
    }
}

impl provider::CompletionQueue for SoftwareCompletionQueue {
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        self.shared.fabric.progress();
        self.shared.lock().poll(completions, most)
    }

    fn arm(&self) -> Result<()> {
        self.shared.lock().set_armed(true);
        if let Some(latency) = &self.shared.fabric.latency {
            latency.watch().map_err(|error| VerbError {
                verb: "arm",
                cause: Cause::System(error),
            })?;
        }
        // Delayed requests progress by polls: the waiting thread must be woken to poll, or all
        // threads might wait forever.
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
