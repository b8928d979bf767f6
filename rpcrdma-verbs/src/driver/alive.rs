//! Whether peers are still there.
//!
//! A peer that takes a call and then loses its power says nothing more; and with nothing under way that could fail, nothing
//! fails: the call would wait for ever, or a server keep what it has for a client that is no more. So a connection over which
//! nothing has completed for a while is asked something that the peer's device answers by itself, and its software never sees.
//! An RPC costs nothing for it.

use std::time::Duration;

use rpcrdma_proto::connection::Reason;

use super::Driver;
use super::connection::Asked;
use crate::provider::Device;

/// How long a connection is silent before it is asked, unless something else is said.
const INTERVAL: Duration = Duration::from_secs(5);
/// More often nobody is asked.
const LEAST: Duration = Duration::from_millis(1);
/// No time.
const NEVER: u64 = u64::MAX;

/// Connections that are looked at together at most: each may be asked, and its answer takes a place in the completion queue.
const TOGETHER: usize = 64;

/// When a driver's connections are looked at next.
#[derive(Debug)]
pub(super) struct Alive {
    /// Microseconds in which each is looked at once; none if they are not.
    interval: Option<u64>,
    /// Never, while there is no connection.
    pub(super) due: u64,
    /// The place of the first.
    next: usize,
    /// How many are looked at together.
    together: usize,
}

impl Alive {
    /// For a completion queue of so many places: a small part of them is for answers.
    pub(super) fn new(completions: u32) -> Self {
        let together = (completions as usize / 8).clamp(1, TOGETHER);
        Self { interval: micros(INTERVAL), due: NEVER, next: 0, together }
    }
}

fn micros(interval: Duration) -> Option<u64> {
    u64::try_from(interval.max(LEAST).as_micros()).ok()
}

impl<D: Device> Driver<D> {
    /// Asks a peer whether it is there when nothing has come from it for so long, or for less than twice that: 5 seconds,
    /// unless it is said here; none for never.
    ///
    /// One that is gone, as by a loss of power, costs its connection then: a client makes another, and sends again what was
    /// not answered; a server lets go of what it had for it. The question is an RDMA Write of nothing, or an RDMA Read on a
    /// device that does not acknowledge ([`Capabilities::acknowledges`](crate::provider::Capabilities::acknowledges)): it
    /// takes no receive and no credit, and the peer's device answers it alone, however busy its software is. A device that
    /// acknowledges gives up by itself when there is no answer. On others it is waited for three times as long; and since it
    /// comes after all that is under way, that has to be longer than the longest transfer takes.
    pub fn keep_alive(&mut self, interval: Option<Duration>) {
        (self.alive.interval, self.alive.due) = (interval.and_then(micros), NEVER);
        if self.connections.iter().any(|slot| slot.connection.is_some()) {
            self.look_after(self.now());
        }
    }

    /// Looks at the connections in time, as there is one: at some after the other, so that each has its turn once in the interval.
    pub(super) fn look_after(&mut self, now: u64) {
        if let (NEVER, Some(interval)) = (self.alive.due, self.alive.interval) {
            let parts = self.connections.len().div_ceil(self.alive.together).max(1) as u64;
            self.alive.due = now.saturating_add(interval / parts);
        }
    }

    /// Looks at some connections.
    #[cold]
    pub(super) fn ask_some(&mut self, now: u64) {
        self.alive.due = NEVER;
        let from = if self.alive.next < self.connections.len() { self.alive.next } else { 0 };
        let to = self.connections.len().min(from + self.alive.together);
        self.alive.next = to;
        for at in from..to {
            let Some(slot) = self.connections.get_mut(at) else { continue };
            let Some(connection) = slot.connection.as_deref_mut() else { continue };
            if connection.ask(&self.pool, &mut self.scratch.batch) == Asked::Gone {
                connection.lost(now, Reason::Lost);
                let id = slot.id(at);
                self.touch(id);
            }
        }
        if self.connections.iter().any(|slot| slot.connection.is_some()) {
            self.look_after(now);
        }
    }
}
