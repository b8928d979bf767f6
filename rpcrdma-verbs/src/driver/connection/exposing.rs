//! Memory of our calls, as long as the peer may reach it.

use arrayvec::ArrayVec;
use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Exposure, Region};

use super::{Connection, REGIONS, Work};
use crate::driver::exposure::{Bound, Exposed};
use crate::memory::Pool;
use crate::provider::{Access, Device, Operation};
use crate::queue::Part;

impl<D: Device> Connection<D> {
    /// Exposes what a call needs: the binds go before the call itself, in the same queue.
    pub(super) fn expose(&mut self, xid: u32, device: &D, pool: &Pool<D>) {
        let exposures: ArrayVec<Exposure, REGIONS> = self.session.exposures(xid).collect();
        let mut segments = ArrayVec::<[Segment; 1], REGIONS>::new();
        for exposure in exposures {
            match self.expose_one(xid, exposure, device, pool) {
                Some(segment) => segments.push([segment]),
                None => return self.session.unexposable(xid),
            }
        }
        self.counters.exposed += segments.len() as u64;
        self.session.exposed(xid, segments.iter().map(<[Segment; 1]>::as_slice));
    }

    fn expose_one(&mut self, xid: u32, exposure: Exposure, device: &D, pool: &Pool<D>) -> Option<Segment> {
        let Exposure { region, length } = exposure;
        let ours = self.calls.get_mut(self.session.place(xid))?;
        let (memory, from) = match region {
            Region::Item(number) => ours.message.source(number).map(|(buf, from)| (buf.clone(), from))?,
            Region::Result(number) => (ours.results.get(number)?.clone(), 0),
            Region::Call => {
                let mut whole = pool.take(length).ok()?;
                ours.message.copy(0..length, whole.as_full_mut());
                whole.set_len(length);
                self.counters.copied += u64::from(length);
                (ours.whole.insert(whole.into()).clone(), 0)
            }
            Region::Reply => (ours.reply.insert(pool.take(length).ok()?.into()).clone(), 0),
        };
        let access = if region.is_written() { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
        let slice = memory.slice(from, length)?;
        let exposed = if self.uses_windows {
            let mut bound = self.windows.pop().or_else(|| Bound::new(device).ok())?;
            let (window, key) = (bound.number(), bound.next_key());
            let part = Part { buf: memory.clone(), from, length };
            let pushed =
                self.endpoint.as_mut()?.push(Operation::Bind { window, key, access }, [part], false, Work::Part);
            pushed.then_some(())?;
            Exposed::Window { bound, _memory: memory }
        } else {
            Exposed::register(device, &slice, access, memory).ok()?
        };
        let segment = Segment { handle: exposed.key(), length, offset: slice.address };
        ours.exposed.push(exposed);
        Some(segment)
    }

    /// Makes a call's memory unreachable. What the peer has invalidated is so already.
    pub(super) fn fence(&mut self, xid: u32, invalidated: Option<u32>) {
        let place = self.session.place(xid);
        let Some(ours) = self.calls.get_mut(place) else { return };
        let alive = self.endpoint.as_mut();
        let Some(endpoint) = alive else {
            // Its queue pair is gone, and with it every way to the windows; they go, too.
            ours.exposed.clear();
            return self.session.fenced(xid);
        };
        let windows = ours.exposed.iter().filter(|one| matches!(one, Exposed::Window { .. }));
        let bound: ArrayVec<u32, REGIONS> = windows.map(Exposed::key).filter(|key| Some(*key) != invalidated).collect();
        for (number, key) in bound.iter().enumerate() {
            let last = number + 1 == bound.len();
            let work = if last { Work::Fence(xid) } else { Work::Part };
            endpoint.push(Operation::Invalidate { key: *key }, [], last, work);
        }
        if bound.is_empty() {
            self.fenced(xid);
        }
    }

    /// A call's memory is unreachable: the windows can be used again, and registrations end.
    pub(super) fn fenced(&mut self, xid: u32) {
        let place = self.session.place(xid);
        if let Some(ours) = self.calls.get_mut(place) {
            for exposed in ours.exposed.drain(..) {
                if let Exposed::Window { bound, .. } = exposed {
                    self.windows.push(bound);
                }
            }
        }
        self.session.fenced(xid);
    }
}
