//! Memory of our calls while the peer may access it.

use arrayvec::ArrayVec;
use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{CallRegion, Exposure};

use super::{Connection, MAX_EXPOSURES, WrContext};
use crate::driver::exposure::{ExposedRegion, KeyedWindow, WindowBinding};
use crate::provider::{Access, Device, Operation};
use crate::queue::BufRange;

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
        let slice = memory.slice(from, length)?;
        let exposed = if self.uses_windows {
            let mut bound = self
                .free_windows
                .pop()
                .or_else(|| KeyedWindow::new(device).ok())?;
            let (window, key) = (bound.number(), bound.next_key());
            let part = BufRange {
                buf: memory.clone(),
                offset: from,
                length,
            };
            let pushed = self.endpoint.as_mut()?.push(
                Operation::Bind {
                    window,
                    key,
                    access,
                },
                [part],
                false,
                WrContext::Intermediate,
            );
            pushed.then_some(())?;
            ExposedRegion::Window(WindowBinding::new(bound, memory))
        } else {
            ExposedRegion::register(device, memory, (from, length), access).ok()?
        };
        let segment = Segment {
            handle: exposed.key(),
            length,
            offset: slice.address,
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

    /// Makes the memory of a call inaccessible after the queue pair is gone: windows and
    /// registrations end.
    pub(super) fn fenced_by_end(&mut self, xid: u32) {
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
            for exposed in outgoing.exposed.drain(..) {
                if let ExposedRegion::Window(window) = exposed {
                    self.free_windows.extend(window.release_window());
                }
            }
        }
        self.session.fenced(xid);
    }
}
