//! The budgets of a server: how many connections, calls and units of memory one peer, or all peers
//! together, may have.
//!
//! `permit` takes calls and units from both budgets of a connection, and gives them back. Waits for
//! one pool are served in order: the semaphore passes what comes back to the first, and so it does
//! with what a cancelled wait had, past `give_back`. So `take` ends what is beyond a lowered
//! maximum. `control` replaces the limits, one thread at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits::{Limit, ServerLimits};

/// The unit of memory in budgets, in bytes.
pub(crate) const UNIT: usize = 4096;

/// The budget of one peer, or of all peers together.
#[derive(Debug)]
pub(crate) struct Budget {
    connections: Places,
    pub(crate) calls: Pool,
    pub(crate) units: Pool,
    /// Bytes in memory of a transport (`ConnectionPermit::hold`).
    pub(crate) held: AtomicUsize,
}

/// The connections that are open, and how many there may be.
#[derive(Debug)]
struct Places {
    taken: AtomicUsize,
    max: AtomicUsize,
    limit: Limit,
}

/// The place of a connection, which is free when this is dropped.
#[derive(Debug)]
pub(crate) struct PlacePermit(Arc<Budget>);

impl Drop for PlacePermit {
    fn drop(&mut self) {
        self.0.connections.taken.fetch_sub(1, Relaxed);
    }
}

/// The calls or the units of memory of a budget.
#[derive(Debug)]
pub(crate) struct Pool {
    semaphore: Semaphore,
    max: AtomicUsize,
    /// Permits that are in use beyond a maximum that was lowered: they end when they come back.
    excess: AtomicUsize,
    pub(crate) limit: Limit,
}

impl Pool {
    fn new(max: usize, limit: Limit) -> Self {
        let max = Self::permits(max);
        Self {
            semaphore: Semaphore::new(max),
            max: max.into(),
            excess: 0.into(),
            limit,
        }
    }

    /// Returns the permits of a maximum, as many as can be asked for at once.
    fn permits(max: usize) -> usize {
        max.min(u32::MAX as usize).min(Semaphore::MAX_PERMITS)
    }

    pub(crate) fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    /// Replaces the maximum. Only one thread at a time may do so.
    fn set_max(&self, max: usize) {
        let max = Self::permits(max);
        let before = self.max.swap(max, Relaxed);
        if max >= before {
            return self.give_back(max - before);
        }
        let ended = self.semaphore.forget_permits(before - max);
        self.excess.fetch_add(before - max - ended, Relaxed);
    }

    /// Ends returned permits beyond the maximum, such as those of a cancelled wait.
    fn end_excess(&self) {
        if self.excess.load(Relaxed) == 0 {
            return;
        }
        // The thread that swaps ends as many. Other threads see no excess in between.
        let excess = self.excess.swap(0, Relaxed);
        let ended = self.semaphore.forget_permits(excess);
        self.excess.fetch_add(excess - ended, Relaxed);
    }

    /// Takes permits back, except those beyond the maximum.
    pub(crate) fn give_back(&self, count: usize) {
        let mut ended = 0;
        if self.excess.load(Relaxed) > 0 {
            let less = |excess: usize| Some(excess.saturating_sub(count));
            let before = self.excess.fetch_update(Relaxed, Relaxed, less);
            ended = before.unwrap_or(0).min(count);
        }
        self.semaphore.add_permits(count - ended);
    }

    /// Waits for this number of permits, and takes them. Calls `reached` if it has to wait.
    pub(crate) async fn take(
        &self,
        count: usize,
        reached: impl FnOnce(Limit),
    ) -> SemaphorePermit<'_> {
        // No maximum is larger.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.end_excess();
        if let Ok(permit) = self.semaphore.try_acquire_many(count) {
            return permit;
        }
        reached(self.limit);
        loop {
            let Ok(permit) = self.semaphore.acquire_many(count).await else {
                // Budgets are never closed.
                return std::future::pending().await;
            };
            if self.excess.load(Relaxed) == 0 {
                return permit;
            }
            // Cancelled waits pass their permits on, and these have to end.
            permit.forget();
            self.give_back(count as usize);
        }
    }
}

impl Budget {
    pub(crate) fn of_all(limits: &ServerLimits) -> Self {
        Self {
            connections: Places::new(limits.connections, Limit::Connections),
            calls: Pool::new(limits.calls, Limit::Calls),
            units: Pool::new(max_units(limits.bytes), Limit::Bytes),
            held: 0.into(),
        }
    }

    pub(crate) fn of_peer(limits: &ServerLimits) -> Self {
        Self {
            connections: Places::new(limits.connections_per_peer, Limit::ConnectionsPerPeer),
            calls: Pool::new(limits.calls_per_peer, Limit::CallsPerPeer),
            units: Pool::new(max_units(limits.bytes_per_peer), Limit::BytesPerPeer),
            held: 0.into(),
        }
    }

    /// Replaces the limits of all.
    pub(crate) fn replace_of_all(&self, limits: &ServerLimits) {
        self.connections.max.store(limits.connections, Relaxed);
        self.calls.set_max(limits.calls);
        self.units.set_max(max_units(limits.bytes));
    }

    /// Replaces the limits of a peer.
    pub(crate) fn replace_of_peer(&self, limits: &ServerLimits) {
        let connections = limits.connections_per_peer;
        self.connections.max.store(connections, Relaxed);
        self.calls.set_max(limits.calls_per_peer);
        self.units.set_max(max_units(limits.bytes_per_peer));
    }

    /// Takes a place for a connection.
    pub(crate) fn place(self: &Arc<Self>) -> Result<PlacePermit, Limit> {
        let Places { taken, max, limit } = &self.connections;
        let max = max.load(Relaxed);
        let one_more = |taken: usize| (taken < max).then(|| taken + 1);
        match taken.fetch_update(Relaxed, Relaxed, one_more) {
            Ok(_) => Ok(PlacePermit(self.clone())),
            Err(_) => Err(*limit),
        }
    }
}

/// Returns the number of units of a limit: enough for its bytes, and at least one, as no units
/// would be no limit.
fn max_units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}

impl Places {
    fn new(max: usize, limit: Limit) -> Self {
        Self {
            taken: 0.into(),
            max: max.into(),
            limit,
        }
    }
}
