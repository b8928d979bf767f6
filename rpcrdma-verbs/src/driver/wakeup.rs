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
        let is_woken =
            self.is_woken.load(Ordering::Relaxed) && self.is_woken.swap(false, Ordering::Acquire);
        if is_woken {
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
        // It only fails when the descriptor is readable already, as often as can be counted.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        // After the write: else `clear` could reset the flag before the descriptor is readable, and
        // no later call would read it.
        self.is_woken.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// After the turn that takes note of a wake-up, the descriptor is not readable.
    #[test]
    fn a_wake_up_during_a_turn_leaves_the_descriptor_unreadable() {
        const ROUNDS: u32 = 20_000;
        let wakeup = Wakeup::new().unwrap();
        let (start, waker) = (Barrier::new(2), Arc::clone(&wakeup));
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    start.wait();
                    waker.wake_by_ref();
                    start.wait();
                }
            });
            for _ in 0..ROUNDS {
                start.wait();
                while !wakeup.clear() {
                    thread::yield_now();
                }
                start.wait();
                let event = wakeup.descriptor();
                let mut events = [PollFd::new(&event, PollFlags::IN)];
                assert_eq!(poll(&mut events, Some(&Timespec::default())), Ok(0));
            }
        });
    }
}
