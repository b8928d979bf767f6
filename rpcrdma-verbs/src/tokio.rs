//! Turns a [`Local`] on tokio, on one thread of it (feature `tokio`).

use std::io;
use std::os::fd::OwnedFd;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::time::{Instant, sleep_until};

use crate::driver::DriverError;
use crate::local::Local;
use crate::provider::{Cause, Device, VerbError};

/// How long it sleeps at most before it looks again whether it lost a wake-up.
const NAP: Duration = Duration::from_millis(100);

/// Turns the driver for good: to be spawned on the local set that its clients are on.
///
/// While there is something to do it turns and yields; then it arms the completion queue, turns
/// once more, and sleeps until a descriptor is readable, a deadline passes, or a call begins.
///
/// # Errors
/// The driver can't go on.
pub async fn run<D: Device>(local: Local<D>) -> Result<(), DriverError> {
    let descriptors = local
        .with_driver(|driver| driver.descriptors())
        .map_err(system)?;
    let [queue, manager, handles] = descriptors.map(registered);
    let (queue, manager, handles) = (queue?, manager?, handles?);
    loop {
        while local.turn()? > 0 {
            ::tokio::task::yield_now().await;
        }
        local.with_driver(|driver| driver.arm())?;
        // From here on whoever begins something, or lets a handler go on, wakes this task, the next
        // turn's handlers included.
        registered_with(&local).await;
        // What came before it was armed is not told.
        if local.turn()? > 0 {
            continue;
        }
        let due = local
            .with_driver(|driver| driver.timeout())
            .map_or(NAP, |due| due.min(NAP));
        let woken = woken(&local);
        ::tokio::select! {
            ready = readable(&queue) => ready?,
            ready = readable(&manager) => ready?,
            ready = readable(&handles) => ready?,
            () = woken => {}
            () = sleep_until(Instant::now() + due) => {}
        }
        local.with_driver(|driver| driver.acknowledge())?;
    }
}

/// Lets this task be woken.
async fn registered_with<D: Device>(local: &Local<D>) {
    std::future::poll_fn(|context| {
        local.register(context.waker());
        Poll::Ready(())
    })
    .await;
}

/// Ends when a call begins, or a handler can go on.
async fn woken<D: Device>(local: &Local<D>) {
    let mut registered = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut registered, true) {
            return Poll::Ready(());
        }
        local.register(context.waker());
        Poll::Pending
    })
    .await;
}

#[allow(unsafe_code, reason = "tokio wants a promise about the descriptor")]
fn registered(descriptor: OwnedFd) -> Result<AsyncFd<OwnedFd>, DriverError> {
    // SAFETY: an `OwnedFd` names the same open descriptor as long as it lives, and it lives in what
    // is made of it here.
    let registered = unsafe { AsyncFd::register(descriptor) };
    registered.map_err(|refused| system(refused.into()))
}

async fn readable(descriptor: &AsyncFd<OwnedFd>) -> Result<(), DriverError> {
    descriptor.readable().await.map_err(system)?.clear_ready();
    Ok(())
}

fn system(error: io::Error) -> DriverError {
    VerbError {
        verb: "wait",
        cause: Cause::System(error),
    }
    .into()
}
