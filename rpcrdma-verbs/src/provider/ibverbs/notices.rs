//! What a manager is to tell.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use super::connection::{Connection, Request};
use super::queue::{quiet, wake, waker};
use super::sys;
use crate::provider::{ConnectionEvent, Result};

/// Events that were not told yet.
pub(super) struct Notices {
    queue: RefCell<VecDeque<ConnectionEvent<Request>>>,
    woken: Cell<bool>,
    wake: OwnedFd,
    later: RefCell<Vec<Later>>,
}

/// A queue pair that was given up while its peer was asked, and the connection. On iWARP it would take until the peer answers
/// to destroy them: they go with the answer, in the error state until then, in which nothing of what was posted is touched.
struct Later {
    _pair: sys::QueuePair,
    connection: Rc<Connection>,
}

impl Notices {
    pub(super) fn new() -> Result<Rc<Self>> {
        Ok(Rc::new(Self {
            queue: RefCell::default(),
            woken: Cell::new(false),
            wake: waker("manager")?,
            later: RefCell::default(),
        }))
    }

    /// Lets a queue pair go with its peer's answer.
    pub(super) fn keep(&self, pair: sys::QueuePair, connection: Rc<Connection>) {
        self.later.borrow_mut().push(Later { _pair: pair, connection });
    }

    /// The peer's answer has come.
    pub(super) fn let_go(&self, connection: &Connection) {
        let mut later = self.later.borrow_mut();
        let at = later.iter().position(|later| std::ptr::eq(&*later.connection, connection));
        let gone = at.map(|at| later.swap_remove(at));
        drop(later);
        drop(gone);
    }

    pub(super) fn tell(&self, event: ConnectionEvent<Request>) {
        self.queue.borrow_mut().push_back(event);
        if !self.woken.replace(true) {
            wake(&self.wake);
        }
    }

    pub(super) fn next(&self) -> Option<ConnectionEvent<Request>> {
        let mut queue = self.queue.borrow_mut();
        let event = queue.pop_front();
        if queue.is_empty() && self.woken.replace(false) {
            quiet(&self.wake);
        }
        event
    }

    /// Forgets what would be told of a queue pair that is gone.
    pub(super) fn forget(&self, pair: u32) {
        self.queue.borrow_mut().retain(|event| match event {
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
