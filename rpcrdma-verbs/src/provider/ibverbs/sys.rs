//! Safe types for libibverbs and librdmacm. All foreign functions, and nearly all unsafe code, are
//! in this module.
//!
//! An object keeps the objects that it depends on alive (`Arc`), so that objects are destroyed in
//! the order that verbs require. Any thread may use all types: see [`AnyThread`].

#![allow(
    unsafe_code,
    reason = "calls of foreign functions, and the pointers that they give and take"
)]

mod connections;
mod device;
mod objects;
mod rdma_cma;
mod requests;

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::ptr::NonNull;

pub(super) use connections::{Channel, CmEvent, Id, Key, Kind, Parameters};
pub(super) use device::{AsyncEvent, Context, Devices, ProtectionDomain};
pub(super) use objects::{
    CompletionQueue, QueuePair, QueuePairSizes, RawCompletion, Region, SharedReceives, Window,
};
pub(super) use requests::{Flags, PostError, Receives, RequestKind, Requests};

use super::hint::explained;
use crate::provider::{Result, VerbError};

/// A pointer to an object of a library.
struct Raw<T>(NonNull<T>);

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Raw<T> {
    fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

/// A library object that any thread may use, even several threads at the same time.
///
/// # Safety
/// The functions that take a `Raw` of it may be called by any thread, and by several at the same
/// time, from its creation until its end. The owner of the `Raw` ends it once, when no other call
/// with it runs or follows. Its fields are accessed only as described in the comment of the
/// implementation.
unsafe trait AnyThread {}

// SAFETY: an object of a library belongs to no thread, as `AnyThread` requires.
unsafe impl<T: AnyThread> Send for Raw<T> {}
// SAFETY: a shared `Raw` gives its address. Several calls with it may run at the same time, as
// `AnyThread` requires.
unsafe impl<T: AnyThread> Sync for Raw<T> {}

/// Returns the error that the last foreign call left in `errno`.
fn last_error(verb: &'static str) -> VerbError {
    explained(verb, io::Error::last_os_error())
}

/// Converts the result of a function of libibverbs, which returns an errno.
fn returned(verb: &'static str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        // Some functions return it negated, and some set `errno` instead.
        -1 => Err(last_error(verb)),
        code => Err(explained(verb, io::Error::from_raw_os_error(code.abs()))),
    }
}

/// Converts the result of a function of librdmacm.
fn left(verb: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(last_error(verb))
    }
}
