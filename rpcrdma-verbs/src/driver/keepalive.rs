//! Keep-alive: detecting peers that are gone.
//!
//! A peer that loses its power does not close its connections. If no request is in flight, no
//! request fails: a call would wait for ever, and a server would keep the state of a dead client.
//! So the driver probes connections that have been idle for a while. The peer's device answers a
//! probe without its software; over iWARP on TCP, its driver does. An RPC does no work for
//! keep-alive. This module decides when each connection is checked; `driver::connection::liveness`
//! checks one connection.

use std::time::Duration;

use rpcrdma_proto::connection::CloseReason;

use super::Driver;
use super::connection::ProbeResult;
use crate::provider::Device;

/// The default interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The time of a check that is not scheduled.
const NEVER: u64 = u64::MAX;

/// The maximum number of connections that are checked together. Each check may post a probe, whose
/// completion needs an entry of the completion queue.
const MAX_BATCH: usize = 64;

/// The schedule of the checks of a driver's connections.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// The time in microseconds within which each connection is checked once; `None` disables the
    /// checks.
    interval: Option<u64>,
    /// The time of the next check; [`NEVER`] while there is no connection.
    pub(super) next_check: u64,
    /// The index of the slot where the next check begins.
    next_slot: usize,
    /// The number of connections that are checked together.
    batch: usize,
}

impl KeepAlive {
    /// Returns the schedule for a completion queue with `completions` entries. Probes use at most
    /// an eighth of them.
    pub(super) fn new(completions: u32) -> Self {
        let together = (completions as usize / 8).clamp(1, MAX_BATCH);
        Self {
            interval: micros(DEFAULT_INTERVAL),
            next_check: NEVER,
            next_slot: 0,
            batch: together,
        }
    }
}

fn micros(interval: Duration) -> Option<u64> {
    u64::try_from(interval.max(MIN_INTERVAL).as_micros()).ok()
}

impl<D: Device> Driver<D> {
    /// Sets the keep-alive interval (default 5 s; `None` disables keep-alive). A connection that
    /// has been silent for one to two intervals is probed.
    ///
    /// The connection to a peer that does not answer is closed. A client then connects again and
    /// retransmits its outstanding calls; a server releases the state of the connection. The probe
    /// is an RDMA Write of no bytes, or an RDMA Read on a device that does not acknowledge
    /// ([`Capabilities::acknowledges`](crate::provider::Capabilities::acknowledges)). It needs no
    /// receive and no credit, and the peer's device answers it even if its software is busy.
    /// Without a device, over iWARP on TCP, the peer's driver answers it when it is turned, and a
    /// server does not probe before the first FPDU of its client. A device that acknowledges gives
    /// up by itself if there is no answer. On other devices the driver waits for three intervals.
    /// As the probe is queued behind all requests in flight, three intervals must be longer than
    /// the longest transfer.
    pub fn keep_alive(&mut self, interval: Option<Duration>) {
        (self.keep_alive.interval, self.keep_alive.next_check) = (interval.and_then(micros), NEVER);
        if self
            .connections
            .iter()
            .any(|slot| slot.connection.is_some())
        {
            self.schedule_keepalive(self.now());
        }
    }

    /// Schedules the next check, so that each connection is checked once per interval.
    pub(super) fn schedule_keepalive(&mut self, now: u64) {
        if let (NEVER, Some(interval)) = (self.keep_alive.next_check, self.keep_alive.interval) {
            let parts = self
                .connections
                .len()
                .div_ceil(self.keep_alive.batch)
                .max(1) as u64;
            self.keep_alive.next_check = now.saturating_add(interval / parts);
        }
    }

    /// Checks the next group of connections.
    #[cold]
    pub(super) fn check_connections(&mut self, now: u64) {
        self.keep_alive.next_check = NEVER;
        let from = if self.keep_alive.next_slot < self.connections.len() {
            self.keep_alive.next_slot
        } else {
            0
        };
        let to = self.connections.len().min(from + self.keep_alive.batch);
        self.keep_alive.next_slot = to;
        for at in from..to {
            let Some(slot) = self.connections.get_mut(at) else {
                continue;
            };
            let Some(connection) = slot.connection.as_deref_mut() else {
                continue;
            };
            if connection.check_alive(&mut self.scratch.batch) == ProbeResult::Unresponsive {
                connection.lost(now, CloseReason::Lost);
                let id = slot.id(at);
                self.touch(id);
            }
        }
        if self
            .connections
            .iter()
            .any(|slot| slot.connection.is_some())
        {
            self.schedule_keepalive(now);
        }
    }
}
