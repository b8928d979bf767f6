//! The event queue of a connection manager, and the queue pairs of iWARP whose destruction waits
//! for an answer of the peer.
//!
//! Any thread pushes, also under the lock of a queue pair; the manager alone polls. No request and
//! no lingering queue pair is dropped under the locks of this module: the drop rejects a connection
//! or destroys the queue pair. `queue_pair` calls `forget` after its last report.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::completion_queue::{Queue, quiet, wake, waker};
use super::connection::{Connection, IbvConnectRequest};
use super::device_state::DeviceState;
use super::sys;
use crate::provider::{ConnectionEvent, Result};

/// The events that were not polled yet.
pub(super) struct EventQueue {
    state: Mutex<EventState>,
    wake: OwnedFd,
    lingering: Mutex<Vec<LingeringPair>>,
}

struct EventState {
    queue: VecDeque<ConnectionEvent<IbvConnectRequest>>,
    woken: bool,
}

/// A queue pair that was dropped while its connect request was unanswered. On iWARP its destruction
/// would block until the peer answers, so it is destroyed after the answer. Until then it is in the
/// error state, in which it accesses no posted memory.
pub(super) struct LingeringPair {
    /// `None` after it has ended.
    pub(super) pair: Option<sys::QueuePair>,
    pub(super) queue: Arc<Queue>,
    pub(super) device_state: Arc<DeviceState>,
    pub(super) connection: Arc<Connection>,
}

impl Drop for LingeringPair {
    fn drop(&mut self) {
        if let Some(pair) = self.pair.take() {
            self.device_state.destroy_forgotten(pair, &self.queue);
        }
    }
}

impl EventQueue {
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            state: Mutex::new(EventState {
                queue: VecDeque::new(),
                woken: false,
            }),
            wake: waker("manager")?,
            lingering: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, EventState> {
        // No panic can occur between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_lingering(&self) -> MutexGuard<'_, Vec<LingeringPair>> {
        self.lingering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a queue pair until its peer answers.
    pub(super) fn linger(&self, pair: LingeringPair) {
        self.lock_lingering().push(pair);
    }

    /// Destroys the queue pair of a connection whose peer has answered.
    pub(super) fn destroy_lingering(&self, connection: &Connection) {
        let mut later = self.lock_lingering();
        let at = later
            .iter()
            .position(|later| std::ptr::eq(&*later.connection, connection));
        let gone = at.map(|at| later.swap_remove(at));
        drop(later);
        drop(gone);
    }

    /// Adds an event. The lock orders the wake-up with [`Self::next`].
    pub(super) fn push(&self, event: ConnectionEvent<IbvConnectRequest>) {
        let mut state = self.lock();
        state.queue.push_back(event);
        if !std::mem::replace(&mut state.woken, true) {
            wake(&self.wake);
        }
    }

    pub(super) fn next(&self) -> Option<ConnectionEvent<IbvConnectRequest>> {
        let mut state = self.lock();
        let event = state.queue.pop_front();
        if state.queue.is_empty() && std::mem::replace(&mut state.woken, false) {
            quiet(&self.wake);
        }
        event
    }

    /// Removes the events of a destroyed queue pair. None of them contains a connect request, whose
    /// drop would reject a connection under the lock.
    pub(super) fn forget(&self, pair: u32) {
        self.lock().queue.retain(|event| match event {
            ConnectionEvent::Requested { .. } => true,
            ConnectionEvent::Established { queue_pair, .. }
            | ConnectionEvent::Failed { queue_pair, .. }
            | ConnectionEvent::Disconnected { queue_pair } => *queue_pair != pair,
        });
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
