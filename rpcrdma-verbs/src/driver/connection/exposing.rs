//! Memory of outgoing calls while the peer may access it.
//!
//! The engine decides what is exposed and when a fence ends the access. A window and its memory
//! become free only after the invalidation has completed here or at the peer. After a flushed
//! fence, `lost` frees the memory (`end_exposures`) when the queue pair has ended. The binds of a
//! call precede its Send in the same queue, so their completions are not awaited.

use arrayvec::ArrayVec;
use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{CallRegion, Exposure};
use rpcrdma_proto::transfer::{MAX_ITEMS, MAX_RESULTS};

use super::{Connection, WrContext};
use crate::driver::exposure::{ExposedRegion, KeyedWindow, WindowBinding};
use crate::provider::{Access, Device, Operation};
use crate::queue::{BufRange, Endpoint};

/// The maximum number of regions that a call exposes.
const MAX_EXPOSURES: usize = MAX_ITEMS + MAX_RESULTS + 2;

/// Exposes memory of calls, by windows or by registrations of exactly the exposed bytes.
#[derive(Debug)]
pub(super) struct Exposer<D: Device> {
    /// True if memory is exposed by windows.
    uses_windows: bool,
    free_windows: Vec<KeyedWindow<D>>,
    /// Calls whose fence was flushed. Their memory is released with the queue pair.
    unfenced: Vec<u32>,
}

impl<D: Device> Exposer<D> {
    pub(super) const fn new(uses_windows: bool) -> Self {
        Self {
            uses_windows,
            free_windows: Vec::new(),
            unfenced: Vec::new(),
        }
    }

    /// Exposes a part of a buffer. A window is bound by a request of the queue pair.
    fn expose(
        &mut self,
        part: BufRange,
        access: Access,
        device: &D,
        endpoint: Option<&mut Endpoint<D, WrContext>>,
    ) -> Option<ExposedRegion<D>> {
        if !self.uses_windows {
            let range = (part.offset, part.length);
            return ExposedRegion::register(device, part.buf, range, access).ok();
        }
        let mut bound = self
            .free_windows
            .pop()
            .or_else(|| KeyedWindow::new(device).ok())?;
        let bind = Operation::Bind {
            window: bound.number(),
            key: bound.next_key(),
            access,
        };
        let memory = part.buf.clone();
        let pushed = endpoint?.push(bind, [part], false, WrContext::Intermediate);
        pushed.then(|| ExposedRegion::Window(WindowBinding::new(bound, memory)))
    }

    /// Recycles the windows of regions that are inaccessible. The registrations end.
    fn recycle(&mut self, exposed: impl Iterator<Item = ExposedRegion<D>>) {
        for region in exposed {
            if let ExposedRegion::Window(window) = region {
                self.free_windows.extend(window.release_window());
            }
        }
    }

    /// Notes that the fence of a call was flushed.
    pub(super) fn fence_flushed(&mut self, xid: u32) {
        self.unfenced.push(xid);
    }
}

impl<D: Device> Connection<D> {
    /// Exposes the memory of a call. The binds precede the call in the same queue.
    pub(super) fn expose(&mut self, xid: u32, device: &D) {
        let exposures: ArrayVec<Exposure, MAX_EXPOSURES> = self.session.exposures(xid).collect();
        let mut segments = ArrayVec::<[Segment; 1], MAX_EXPOSURES>::new();
        for exposure in exposures {
            match self.expose_one(xid, exposure, device) {
                Some(segment) => segments.push([segment]),
                None => return self.session.expose_failed(xid),
            }
        }
        self.counters.exposures += segments.len() as u64;
        self.session
            .exposed(xid, segments.iter().map(<[Segment; 1]>::as_slice));
    }

    fn expose_one(&mut self, xid: u32, exposure: Exposure, device: &D) -> Option<Segment> {
        let Exposure { region, length } = exposure;
        let outgoing = self.slots.outgoing_mut(self.session.call_slot(xid))?;
        let (memory, from) = outgoing.region(region, length, &self.pool)?;
        if region == CallRegion::Call {
            self.counters.copied += u64::from(length);
        }
        let access = if region.is_written() {
            Access::REMOTE_WRITE
        } else {
            Access::REMOTE_READ
        };
        let address = memory.slice(from, length)?.address;
        let part = BufRange {
            buf: memory,
            offset: from,
            length,
        };
        let exposed = self
            .exposer
            .expose(part, access, device, self.endpoint.as_mut())?;
        let segment = Segment {
            handle: exposed.key(),
            length,
            offset: address,
        };
        outgoing.exposed.push(exposed);
        Some(segment)
    }

    /// Makes the memory of a call inaccessible. The peer may have invalidated one of the keys.
    pub(super) fn fence(&mut self, xid: u32, invalidated: Option<u32>) {
        let place = self.session.call_slot(xid);
        let Some(outgoing) = self.slots.outgoing_mut(place) else {
            return;
        };
        let Some(endpoint) = self.endpoint.as_mut() else {
            return self.fenced_by_end(xid);
        };
        let windows = outgoing
            .exposed
            .iter()
            .filter(|one| matches!(one, ExposedRegion::Window(_)));
        let bound: ArrayVec<u32, MAX_EXPOSURES> = windows
            .map(ExposedRegion::key)
            .filter(|key| Some(*key) != invalidated)
            .collect();
        for (number, key) in bound.iter().enumerate() {
            let last = number + 1 == bound.len();
            let work = if last {
                WrContext::Fence(xid)
            } else {
                WrContext::Intermediate
            };
            endpoint.push(Operation::Invalidate { key: *key }, [], last, work);
        }
        if bound.is_empty() {
            self.fenced(xid);
        }
    }

    /// Releases the memory of calls whose fence was flushed, and the free windows: the queue pair
    /// is gone. Calls that are still exposed follow when they are fenced.
    pub(super) fn end_exposures(&mut self) {
        let mut unfenced = std::mem::take(&mut self.exposer.unfenced);
        unfenced.drain(..).for_each(|xid| self.fenced_by_end(xid));
        self.exposer.unfenced = unfenced;
        self.exposer.free_windows.clear();
    }

    /// Makes the memory of a call inaccessible after the queue pair is gone: windows and
    /// registrations end.
    fn fenced_by_end(&mut self, xid: u32) {
        let place = self.session.call_slot(xid);
        if let Some(outgoing) = self.slots.outgoing_mut(place) {
            outgoing.exposed.clear();
        }
        self.session.fenced(xid);
    }

    /// Informs the session that the memory of a call is inaccessible. Its windows are reused, and
    /// its registrations end.
    pub(super) fn fenced(&mut self, xid: u32) {
        let place = self.session.call_slot(xid);
        if let Some(outgoing) = self.slots.outgoing_mut(place) {
            self.exposer.recycle(outgoing.exposed.drain(..));
        }
        self.session.fenced(xid);
    }
}
