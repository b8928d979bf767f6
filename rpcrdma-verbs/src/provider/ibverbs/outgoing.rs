//! What is being posted: a list of requests, and what has to be there until the device has it.

#![allow(unsafe_code, reason = "posting is a promise about memory, which is the caller's")]

use std::rc::Rc;

use super::sys::{Flags, QueuePair, Receives, Refused, Region, Requests, What, Window};
use super::tables::Tables;
use crate::provider::{Operation, Receive, Slice, Status, WorkRequest};

/// Requests on their way to a device. Their memory is used again.
#[derive(Default)]
pub(super) struct Outgoing {
    requests: Requests,
    binds: Vec<Bind>,
    pub(super) receives: Receives,
    /// Where the receives of a shared queue were put.
    pub(super) places: Vec<u32>,
}

/// A window that is being bound, and its new key.
struct Bind {
    number: u32,
    window: Rc<Window>,
    key: u32,
    _region: Rc<Region>,
}

impl Outgoing {
    /// Forgets what was left behind.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.binds.clear();
    }

    /// Whether a window that is bound here already is to be bound again. The device is told the key that it has, so that what
    /// is here goes first.
    pub(super) fn binds(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Bind { window, .. } if self.binds.iter().any(|bind| bind.number == *window))
    }

    /// Adds a request of a queue pair.
    ///
    /// # Errors
    /// The device would not refuse what should be refused: how it is.
    pub(super) fn add(
        &mut self,
        (tables, pair): (&Tables, u32),
        id: u64,
        request: &WorkRequest,
        (mine, flags): (&[Slice], Flags),
    ) -> Result<(), Status> {
        let what = match request.operation {
            Operation::Send { invalidate } => What::Send { invalidate },
            Operation::Write { to } => What::Write { to },
            Operation::Read { from } => What::Read { from },
            Operation::Bind { window: number, key, access } => {
                let Some(range) = mine.first().copied() else { return Err(Status::Bind) };
                let (window, region) = tables.bind((number, key), &range, pair)?;
                let what = What::Bind { window: &window, region: &region, range, key, access };
                self.requests.push(id, flags, request.slices, what);
                self.binds.push(Bind { number, window, key, _region: region });
                return Ok(());
            }
            Operation::Invalidate { key } => {
                tables.unbind(key, pair)?;
                What::Invalidate { key }
            }
        };
        self.requests.push(id, flags, request.slices, what);
        Ok(())
    }

    /// Posts what is here.
    ///
    /// # Safety
    /// As [`crate::provider::QueuePair::post`].
    pub(super) unsafe fn post(&mut self, device: &QueuePair, slices: &[Slice]) -> Result<(), Refused> {
        if self.requests.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise; windows and regions are kept by `binds`.
        let posted = unsafe { device.post(&mut self.requests, slices) };
        self.requests.clear();
        self.binds.drain(..).for_each(|bind| bind.window.set_key(bind.key));
        posted
    }
}

/// Whether a receive's slices are all there, and as few as the device takes.
pub(super) fn receive_fits(receive: &Receive, slices: &[Slice], most: usize) -> bool {
    let (from, count) = (receive.slices.0 as usize, receive.slices.1 as usize);
    count <= most && from.checked_add(count).is_some_and(|end| end <= slices.len())
}
