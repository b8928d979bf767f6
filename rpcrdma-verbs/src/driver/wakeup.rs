//! Wakes a driver from any thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

use super::DriverError;
use crate::provider::{Cause, VerbError};

/// A descriptor that is readable from a wake-up until the driver's next turn.
#[derive(Debug)]
pub(super) struct Wakeup {
    /// Without a wake-up, a turn makes no system call.
    is_woken: AtomicBool,
    event: OwnedFd,
}

impl Wakeup {
    pub(super) fn new() -> Result<Arc<Self>, DriverError> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let event = event.map_err(|error| VerbError {
            verb: "eventfd",
            cause: Cause::System(error.into()),
        })?;
        Ok(Arc::new(Self {
            is_woken: AtomicBool::new(false),
            event,
        }))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Makes the descriptor unreadable again. Returns true after a wake-up.
    pub(super) fn clear(&self) -> bool {
        let is_woken = self.is_woken.load(Ordering::Acquire);
        if is_woken {
            self.is_woken.store(false, Ordering::Release);
            // It fails when the descriptor is not readable.
            let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        }
        is_woken
    }
}

/// Ends the driver's [`wait`](super::Driver::wait).
impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        // It only fails when the descriptor is readable already, as often as can be counted.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}
