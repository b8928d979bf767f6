//! Threads of channels and servers, and their errors.
//!
//! Each client channel and each server that has a thread runs its driver there. The thread ends
//! with its future. Clients do not join their threads, so that an error is logged, too.

use std::error::Error;
use std::fmt;

use ::tokio::runtime::{Builder, Runtime};

use crate::driver::DriverError;
use crate::provider::VerbError;

/// The reason why a channel or a server ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum TransportError {
    /// The driver failed, or could not start.
    Driver(DriverError),
    /// The thread, its runtime, or a descriptor of the driver failed.
    System(std::io::Error),
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Driver(error) => error.source(),
            Self::System(error) => error.source(),
        }
    }
}

impl From<DriverError> for TransportError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl From<VerbError> for TransportError {
    fn from(error: VerbError) -> Self {
        Self::Driver(error.into())
    }
}

impl From<std::io::Error> for TransportError {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

/// Runs a future on a thread of its own, with a runtime of one thread.
pub(super) fn spawn_thread<F: Future<Output = Result<(), TransportError>>>(
    name: &str,
    future: impl FnOnce() -> F + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<Result<(), TransportError>>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // If there is no thread, the runtime does not end within the caller's, which would panic.
    let (runtimes, receiver) = std::sync::mpsc::channel::<Runtime>();
    let thread = std::thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || {
        let runtime = receiver.recv().map_err(std::io::Error::other)?;
        runtime.block_on(future())
    });
    match spawned {
        // The thread waits for it.
        Ok(_) => drop(runtimes.send(runtime)),
        Err(_) => runtime.shutdown_background(),
    }
    spawned
}

/// Logs the error of a future to which nobody may listen.
pub(super) async fn logged(
    future: impl Future<Output = Result<(), TransportError>>,
) -> Result<(), TransportError> {
    let ended = future.await;
    if let Err(error) = &ended {
        tracing::error!(%error, "the transport has ended");
    }
    ended
}
