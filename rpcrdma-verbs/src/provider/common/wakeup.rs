//! Descriptors that wake waiting threads, and errors of the system, for `software` and `iwarp`.
//!
//! A descriptor stays readable from the first `wake` until `quiet`: several calls of `wake` count
//! once. `ibverbs` has the same functions in its `completion_queue`, with hints in their errors.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use crate::provider::{Cause, Result, VerbError};

pub(in crate::provider) fn system(verb: &'static str) -> impl Fn(rustix::io::Errno) -> VerbError {
    move |error| VerbError {
        verb,
        cause: Cause::System(error.into()),
    }
}

/// Returns the system's error for invalid arguments.
pub(in crate::provider) fn invalid(verb: &'static str) -> VerbError {
    system(verb)(rustix::io::Errno::INVAL)
}

/// Creates a descriptor that becomes readable when it is written to.
pub(in crate::provider) fn waker(verb: &'static str) -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(system(verb))
}

/// Makes the descriptor readable. The write fails only if the counter is at its maximum, when it is
/// readable.
pub(in crate::provider) fn wake(waker: &OwnedFd) {
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

/// Makes the descriptor unreadable. The read fails if it already is.
pub(in crate::provider) fn quiet(waker: &OwnedFd) {
    let _ = rustix::io::read(waker, &mut [0u8; 8]);
}
