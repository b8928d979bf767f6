//! libibverbs and librdmacm as types that own what they name: all that is foreign, and nearly all that is unsafe, is here.
//!
//! What is made of something keeps it alive (`Rc`), so that things are destroyed in the order that verbs ask for. Nothing
//! here is for more than one thread.

#![allow(unsafe_code, reason = "calls of foreign functions, and the pointers that they give and take")]

mod connections;
mod device;
mod objects;
mod rdma_cma;
mod requests;

use std::ffi::c_int;
use std::io;

pub(super) use connections::{Channel, Happened, Id, Key, Kind, Parameters};
pub(super) use device::{AsyncEvent, Context, Devices, Domain};
pub(super) use objects::{CompletionQueue, QueuePair, QueuePairSizes, Region, SharedReceives, Taken, Window};
pub(super) use requests::{Flags, Receives, Refused, Requests, What};

use super::hint::explained;
use crate::provider::{Result, VerbError};

/// What the last foreign call left in `errno`.
fn last(verb: &'static str) -> VerbError {
    explained(verb, io::Error::last_os_error())
}

/// The result of a function of libibverbs, which returns what others leave in `errno`.
fn returned(verb: &'static str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        // Some return it negated, some leave it in `errno` after all.
        -1 => Err(last(verb)),
        code => Err(explained(verb, io::Error::from_raw_os_error(code.abs()))),
    }
}

/// The result of a function of librdmacm.
fn left(verb: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(last(verb)) }
}
