//! The list of requests that is being posted, with the objects that must exist until the device has
//! taken the list. `queue_pair` and `srq` fill it; `tables` decides whether a window may be bound
//! or invalidated.
//!
//! The list and the windows in it stay valid because the tables stay locked from the first bind
//! until the list is posted. A list binds a window at most once: the device reads the old key from
//! the window, which `post` updates afterwards.

#![allow(
    unsafe_code,
    reason = "posting is a promise about memory, which is the caller's"
)]

use std::cell::Cell;
use std::sync::Arc;

use super::sys::{Flags, PostError, QueuePair, Receives, Region, RequestKind, Requests, Window};
use super::tables::LazyTables;
use crate::provider::{Operation, Receive, Sge, Status, WorkRequest};

/// Requests that are being posted. The allocations are reused.
#[derive(Default)]
pub(super) struct SendStaging {
    requests: Requests,
    binds: Vec<Bind>,
    pub(super) receives: Receives,
    /// The indices of the receives of a shared queue.
    pub(super) places: Vec<u32>,
}

thread_local! {
    /// The allocations of this thread, unless they are in use.
    static STAGING: Cell<Option<Box<SendStaging>>> = const { Cell::new(None) };
}

/// Calls a function with the allocations of this thread: no lock is needed, and all queue pairs of
/// a thread share the memory. If they are in use or the thread is ending, creates new ones.
pub(super) fn with_staging<T>(function: impl FnOnce(&mut SendStaging) -> T) -> T {
    let mut staging = STAGING
        .try_with(Cell::take)
        .ok()
        .flatten()
        .unwrap_or_default();
    staging.clear();
    let result = function(&mut staging);
    // It fails while the thread is ending.
    let _ = STAGING.try_with(|kept| kept.set(Some(staging)));
    result
}

/// A window that is being bound, with its new key.
struct Bind {
    number: u32,
    window: Arc<Window>,
    key: u32,
    _region: Arc<Region>,
}

impl SendStaging {
    /// Removes everything.
    fn clear(&mut self) {
        self.requests.clear();
        self.binds.clear();
        self.places.clear();
    }

    /// Returns true if a window is bound that this list already binds. The device reads the key
    /// from the window, so the list must be posted first.
    pub(super) fn binds(&self, operation: &Operation) -> bool {
        let is_bound = |window| self.binds.iter().any(|bind| bind.number == window);
        matches!(operation, Operation::Bind { window, .. } if is_bound(*window))
    }

    /// Adds a request of a queue pair.
    ///
    /// # Errors
    /// Fails with the status of a request that must be rejected, but that the device would execute.
    pub(super) fn add(
        &mut self,
        (tables, pair): (&mut LazyTables<'_>, u32),
        id: u64,
        request: &WorkRequest,
        (mine, flags): (&[Sge], Flags),
    ) -> Result<(), Status> {
        let what = match request.operation {
            Operation::Send { invalidate } => RequestKind::Send { invalidate },
            Operation::Write { to } => RequestKind::Write { to },
            Operation::Read { from } => RequestKind::Read { from },
            Operation::Bind {
                window: number,
                key,
                access,
            } => {
                let Some(range) = mine.first().copied() else {
                    return Err(Status::Bind);
                };
                let (window, region) = tables.get().bind((number, key), &range, pair)?;
                let what = RequestKind::Bind {
                    window: &window,
                    region: &region,
                    range,
                    key,
                    access,
                };
                self.requests.push(id, flags, request.slices, what);
                self.binds.push(Bind {
                    number,
                    window,
                    key,
                    _region: region,
                });
                return Ok(());
            }
            Operation::Invalidate { key } => {
                tables.get().unbind(key, pair)?;
                RequestKind::Invalidate { key }
            }
        };
        self.requests.push(id, flags, request.slices, what);
        Ok(())
    }

    /// Posts the list, and unlocks the tables. A list that binds windows is posted under the lock
    /// of the tables, which was taken when its first bind was added.
    ///
    /// # Safety
    /// As for [`crate::provider::QueuePair::post`].
    pub(super) unsafe fn post(
        &mut self,
        device: &QueuePair,
        slices: &[Sge],
        tables: &mut LazyTables<'_>,
    ) -> Result<(), PostError> {
        if self.binds.is_empty() {
            tables.release();
        }
        if self.requests.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise. The tables have been locked since they contained the
        // windows and regions of `binds`: none of them has ended, and no other thread ends, binds
        // or changes one.
        let posted = unsafe { device.post(&mut self.requests, slices) };
        self.requests.clear();
        for bind in self.binds.drain(..) {
            // SAFETY: as above.
            unsafe { bind.window.set_key(bind.key) };
        }
        tables.release();
        posted
    }
}

/// Checks that the entries of a receive exist, and are within the limit of the device.
pub(super) fn receive_fits(receive: &Receive, slices: &[Sge], most: usize) -> bool {
    let (from, count) = (receive.slices.0 as usize, receive.slices.1 as usize);
    count <= most
        && from
            .checked_add(count)
            .is_some_and(|end| end <= slices.len())
}
