//! A way to a driver from other threads: it pays for a wake-up, which calls on the driver's own
//! thread do not.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

use super::{Driver, DriverError};
use crate::provider::{Cause, Device, VerbError};

/// What a driver is asked to do by another thread.
type Job<D> = Box<dyn FnOnce(&mut Driver<D>) + Send>;

/// A driver's handle, for any thread. Clones are of the same driver.
///
/// ```
/// use rpcrdma_verbs::driver::Driver;
/// use rpcrdma_verbs::memory::Budget;
/// use rpcrdma_verbs::provider::software::Fabric;
/// use std::time::Duration;
///
/// let mut driver = Driver::new(&Fabric::new().device(), &Budget::new(1 << 20), 64)?;
/// let handle = driver.handle();
/// let other = std::thread::spawn(move || handle.ask(|driver| driver.pool().budget().limit()));
/// while !other.is_finished() {
///     driver.wait(Duration::from_millis(10))?;
/// }
/// assert_eq!(other.join().ok().flatten(), Some(1 << 20));
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
pub struct Handle<D: Device>(Arc<Shared<D>>);

/// What a driver and its handles share.
pub(super) struct Shared<D: Device> {
    /// What is to be done; none once the driver is gone.
    jobs: Mutex<Option<VecDeque<Job<D>>>>,
    /// Whether there may be jobs: so that a driver without any takes no lock.
    some: AtomicBool,
    wake: OwnedFd,
}

impl<D: Device> fmt::Debug for Handle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl<D: Device> fmt::Debug for Shared<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl<D: Device> Clone for Handle<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Device> Handle<D> {
    pub(super) fn new(shared: Arc<Shared<D>>) -> Self {
        Self(shared)
    }

    /// Lets the driver do something on its own thread, with its next turn. Nothing is done once the
    /// driver is gone.
    pub fn submit(&self, job: impl FnOnce(&mut Driver<D>) + Send + 'static) {
        let mut jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = jobs.as_mut() else { return };
        jobs.push_back(Box::new(job));
        self.0.some.store(true, Ordering::Release);
        // It only fails when the descriptor is readable already, as often as can be counted.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Lets the driver do something, and waits for what comes of it; none once the driver is gone.
    /// Not to be used on the driver's own thread, which would wait for itself.
    pub fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Driver<D>) -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, receiver) = mpsc::channel();
        self.submit(move |driver| {
            // Whoever asked may have gone.
            let _ = sender.send(job(driver));
        });
        receiver.recv().ok()
    }
}

/// Ends the driver's [`wait`](Driver::wait).
impl<D: Device> Wake for Shared<D> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.some.store(true, Ordering::Release);
        // It only fails when the descriptor is readable already, as often as can be counted.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl<D: Device> Shared<D> {
    pub(super) fn new() -> Result<Arc<Self>, DriverError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(|error| VerbError {
            verb: "handle",
            cause: Cause::System(error.into()),
        })?;
        Ok(Arc::new(Self {
            jobs: Mutex::new(Some(VecDeque::new())),
            some: AtomicBool::new(false),
            wake,
        }))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Whether there may be any.
    pub(super) fn has_some(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    /// The jobs that are to be done.
    pub(super) fn take(&self) -> VecDeque<Job<D>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        self.some.store(false, Ordering::Release);
        // It fails when the descriptor is not readable.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        jobs.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The driver is gone: what was to be done never will be, and whoever waits for it is told so.
    pub(super) fn close(&self) {
        let jobs = self
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(jobs);
    }
}

#[cfg(test)]
mod tests {
    use crate::driver::Driver;
    use crate::memory::Budget;
    use crate::provider::software::Fabric;

    #[test]
    fn nobody_waits_for_a_driver_that_is_gone() {
        let driver = Driver::new(&Fabric::new().device(), &Budget::new(1 << 20), 64).unwrap();
        let handle = driver.handle();
        let other = handle.clone();
        let waiting = std::thread::spawn(move || other.ask(|_| ()));
        drop(driver);
        assert_eq!(waiting.join().unwrap(), None);
        assert_eq!(handle.ask(|_| ()), None);
    }
}
