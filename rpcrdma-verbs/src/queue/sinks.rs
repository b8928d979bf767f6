//! Sinks of RDMA Reads whose keys the peer learns.
//!
//! `queue` registers a sink before its Read is posted, and ends it before the completion is
//! reported: the consumer must not get memory that the peer can still write. Registrations are in
//! the order of their requests. Devices whose Reads reveal no key have no `ReadSinks`.

use super::BufRange;
use crate::fifo::Fifo;
use crate::memory::Registration;
use crate::provider::{Access, Device};

/// The sinks of RDMA Reads on an iWARP device, where a Read reveals the key of its sink, which must
/// be writable by the peer.
///
/// Each sink is registered individually, from before its Read is posted until its completion. So
/// the peer learns no key of memory that anything else uses, or that anything uses later.
#[derive(Debug)]
pub(super) struct ReadSinks<D: Device> {
    device: D,
    /// The registrations in posting order, with the numbers of their requests.
    posted: Fifo<(u32, Registration<D>)>,
}

impl<D: Device> ReadSinks<D> {
    pub(super) fn new(device: &D) -> Option<Self> {
        let needs = device.capabilities().read_sink_needs_remote_write;
        needs.then(|| Self {
            device: device.clone(),
            posted: Fifo::new(),
        })
    }

    /// Registers a sink, and returns the key for its Read, or `None` if the device refuses.
    // spec: rfc8166-8.1-a
    pub(super) fn register(&mut self, number: u32, part: &BufRange) -> Option<u32> {
        let range = (part.offset, part.length);
        let sink =
            Registration::new(&self.device, part.buf.clone(), range, Access::REMOTE_WRITE).ok()?;
        let key = sink.local_key();
        self.posted.push((number, sink));
        Some(key)
    }

    /// Ends the registrations of the oldest requests, while `is_done` holds. Returns true if the
    /// device has ended all of them.
    pub(super) fn end_completed(&mut self, is_done: impl Fn(u32) -> bool) -> bool {
        let mut all = true;
        while self
            .posted
            .first()
            .is_some_and(|(number, _)| is_done(*number))
        {
            all &= self.posted.pop().is_none_or(|(_, sink)| sink.end());
        }
        all
    }

    /// Ends the registrations of the newest requests, while `is_given_up` holds.
    pub(super) fn end_unposted(&mut self, is_given_up: impl Fn(u32) -> bool) {
        while self
            .posted
            .last()
            .is_some_and(|(number, _)| is_given_up(*number))
        {
            self.posted.pop_last();
        }
    }

    /// Returns the key of the sink that was registered last.
    #[cfg(feature = "testing")]
    pub(super) fn last_key(&self) -> Option<u32> {
        self.posted.last().map(|(_, sink)| sink.local_key())
    }
}
