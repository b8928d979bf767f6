//! Waits for a driver on tokio.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::time::sleep;

use crate::driver::Driver;
use crate::provider::Device;

/// The longest sleep before the driver is polled again, in case a wake-up is lost.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The descriptors of a driver, registered with tokio.
#[derive(Debug)]
pub(super) struct Waiter([AsyncFd<OwnedFd>; 3]);

impl Waiter {
    /// Registers the descriptors.
    pub(super) fn new<D: Device>(driver: &Driver<D>) -> io::Result<Self> {
        let [queue, manager, handles] = driver.descriptors()?;
        Ok(Self([
            register(queue)?,
            register(manager)?,
            register(handles)?,
        ]))
    }

    /// Waits until a descriptor is readable or a time has passed. The completion queue has been
    /// armed.
    pub(super) async fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let [queue, manager, handles] = &self.0;
        let timeout = timeout.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
        ::tokio::select! {
            ready = readable(queue) => ready,
            ready = readable(manager) => ready,
            ready = readable(handles) => ready,
            () = sleep(timeout) => Ok(()),
        }
    }
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
