//! The event queue of a connection manager of `software` and `iwarp`. Its descriptor is readable
//! while the queue is not empty.
//!
//! Any thread pushes, also under the lock of a queue pair; the manager alone polls. A manager calls
//! `clear` when it is dropped: queue pairs keep the queue alive, so that requests in it would
//! otherwise stay unanswered.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::wakeup::{quiet, wake, waker};
use crate::provider::{ConnectionEvent, Result};

/// Connection events with connect requests of type `R`.
#[derive(Debug)]
pub(in crate::provider) struct EventQueue<R> {
    queue: Mutex<VecDeque<ConnectionEvent<R>>>,
    /// False only if the queue is empty, so that polling an empty queue takes no lock.
    maybe_some: AtomicBool,
    wake: OwnedFd,
}

impl<R> EventQueue<R> {
    pub(in crate::provider) fn new() -> Result<Self> {
        Ok(Self {
            queue: Mutex::default(),
            maybe_some: AtomicBool::new(false),
            wake: waker("manager")?,
        })
    }

    /// Adds an event, and makes the descriptor readable.
    pub(in crate::provider) fn push(&self, event: ConnectionEvent<R>) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(event);
        self.maybe_some.store(true, Ordering::Release);
        wake(&self.wake);
    }

    pub(in crate::provider) fn poll(&self) -> Option<ConnectionEvent<R>> {
        if !self.maybe_some.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let event = queue.pop_front();
        if queue.is_empty() {
            self.maybe_some.store(false, Ordering::Release);
            quiet(&self.wake);
        }
        event
    }

    /// Drops all events. Dropping requests rejects them, which pushes events to other queues: so
    /// the lock is released first.
    pub(in crate::provider) fn clear(&self) {
        let events =
            std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        drop(events);
    }

    pub(in crate::provider) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
