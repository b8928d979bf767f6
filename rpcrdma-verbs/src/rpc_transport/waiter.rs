//! Waits for a driver on tokio.
//!
//! The loops of clients and servers use it: they arm the driver, check again for work, and then
//! wait. Without arming, a completion does not end the wait before its timeout.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::task::yield_now;
use ::tokio::time::{Instant, Sleep, sleep};

use crate::driver::Driver;
use crate::provider::Device;

/// The longest sleep before the driver is polled again, in case a wake-up is lost.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The descriptors of a driver, registered with tokio, and a timer.
#[derive(Debug)]
pub(super) struct Waiter {
    descriptors: [AsyncFd<OwnedFd>; 3],
    /// A timer that is early enough stays: tokio wakes a thread whose next timer becomes earlier,
    /// even the thread that sets it.
    timer: Pin<Box<Sleep>>,
}

impl Waiter {
    /// Registers the descriptors.
    pub(super) fn new<D: Device>(driver: &Driver<D>) -> io::Result<Self> {
        let [queue, manager, handles] = driver.descriptors()?;
        Ok(Self {
            descriptors: [register(queue)?, register(manager)?, register(handles)?],
            timer: Box::pin(sleep(MAX_SLEEP)),
        })
    }

    /// Waits until a descriptor is readable, or at most for a time: it may end earlier. The
    /// completion queue has been armed.
    pub(super) async fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let due = Instant::now() + timeout.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
        if self.timer.is_elapsed() || self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        let [queue, manager, handles] = &self.descriptors;
        ::tokio::select! {
            ready = readable(queue) => ready,
            ready = readable(manager) => ready,
            ready = readable(handles) => ready,
            () = self.timer.as_mut() => Ok(()),
        }
    }
}

/// Turns without a sleep. Other tasks of the runtime run between some of them: to let them run
/// takes a system call.
#[derive(Default, Debug)]
pub(super) struct Turns(u32);

/// The maximum number of turns between two occasions for other tasks.
const TURNS: u32 = 8;

impl Turns {
    /// Ends a turn. Returns true if other tasks have run: on a runtime with one thread, they alone
    /// can create work after a turn without work.
    pub(super) async fn end(&mut self, had_work: bool) -> bool {
        self.0 += 1;
        let others = !had_work || self.0 >= TURNS;
        if others {
            self.0 = 0;
            yield_now().await;
        }
        others
    }
}

/// Polls a future once.
pub(super) async fn polled<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[allow(unsafe_code, reason = "tokio requires a promise about the descriptor")]
fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor as long as it lives, and the `AsyncFd`
    // that is created here owns it.
    let registered = unsafe { AsyncFd::register(descriptor) };
    registered.map_err(Into::into)
}

async fn readable(descriptor: &AsyncFd<OwnedFd>) -> io::Result<()> {
    descriptor.readable().await?.clear_ready();
    Ok(())
}
