//! The limits of a server that runs, which its operator may replace.
//!
//! Each number is read by itself, without a lock: while limits are replaced, a call may find some
//! of the old and some of the new ones. `control` replaces the numbers, then the budgets, and then
//! notifies `replaced`. `permit` creates the future of `replaced` before it reads a number, so that
//! it misses no change.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;

use crate::limits::ServerLimits;

/// The limits that are in force.
#[derive(Debug)]
pub(crate) struct CurrentLimits {
    connections: AtomicUsize,
    connections_per_peer: AtomicUsize,
    waiting_connections: AtomicUsize,
    calls: AtomicUsize,
    calls_per_peer: AtomicUsize,
    calls_per_connection: AtomicUsize,
    bytes: AtomicUsize,
    bytes_per_peer: AtomicUsize,
    bytes_per_connection: AtomicUsize,
    handler_time: Time,
    transfer_time: Time,
    /// Wakes what waits within the earlier limits.
    pub(crate) replaced: Notify,
}

/// A time in nanoseconds; the largest number stands for none.
#[derive(Debug)]
struct Time(AtomicU64);

const NONE: u64 = u64::MAX;

impl Time {
    fn new(time: Option<Duration>) -> Self {
        Self(AtomicU64::new(nanoseconds(time)))
    }

    fn get(&self) -> Option<Duration> {
        let nanoseconds = self.0.load(Relaxed);
        (nanoseconds != NONE).then(|| Duration::from_nanos(nanoseconds))
    }
}

fn nanoseconds(time: Option<Duration>) -> u64 {
    time.map_or(NONE, |time| u64::try_from(time.as_nanos()).unwrap_or(NONE))
}

impl CurrentLimits {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        Self {
            connections: limits.connections.into(),
            connections_per_peer: limits.connections_per_peer.into(),
            waiting_connections: limits.waiting_connections.into(),
            calls: limits.calls.into(),
            calls_per_peer: limits.calls_per_peer.into(),
            calls_per_connection: limits.calls_per_connection.into(),
            bytes: limits.bytes.into(),
            bytes_per_peer: limits.bytes_per_peer.into(),
            bytes_per_connection: limits.bytes_per_connection.into(),
            handler_time: Time::new(limits.handler_time),
            transfer_time: Time::new(limits.transfer_time),
            replaced: Notify::new(),
        }
    }

    /// Replaces the numbers. Who waits is woken once the budgets have changed, too.
    pub(crate) fn replace(&self, limits: &ServerLimits) {
        let numbers = [
            (&self.connections, limits.connections),
            (&self.connections_per_peer, limits.connections_per_peer),
            (&self.waiting_connections, limits.waiting_connections),
            (&self.calls, limits.calls),
            (&self.calls_per_peer, limits.calls_per_peer),
            (&self.calls_per_connection, limits.calls_per_connection),
            (&self.bytes, limits.bytes),
            (&self.bytes_per_peer, limits.bytes_per_peer),
            (&self.bytes_per_connection, limits.bytes_per_connection),
        ];
        for (current, new) in numbers {
            current.store(new, Relaxed);
        }
        let times = [
            (&self.handler_time, limits.handler_time),
            (&self.transfer_time, limits.transfer_time),
        ];
        for (current, new) in times {
            current.0.store(nanoseconds(new), Relaxed);
        }
    }

    pub(crate) fn get(&self) -> ServerLimits {
        ServerLimits {
            connections: self.connections.load(Relaxed),
            connections_per_peer: self.connections_per_peer.load(Relaxed),
            waiting_connections: self.waiting_connections(),
            calls: self.calls.load(Relaxed),
            calls_per_peer: self.calls_per_peer.load(Relaxed),
            calls_per_connection: self.calls_per_connection.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            bytes_per_peer: self.bytes_per_peer.load(Relaxed),
            bytes_per_connection: self.bytes_per_connection.load(Relaxed),
            handler_time: self.handler_time(),
            transfer_time: self.transfer_time(),
        }
    }

    pub(crate) fn waiting_connections(&self) -> usize {
        self.waiting_connections.load(Relaxed)
    }

    pub(crate) fn handler_time(&self) -> Option<Duration> {
        self.handler_time.get()
    }

    pub(crate) fn transfer_time(&self) -> Option<Duration> {
        self.transfer_time.get()
    }

    pub(crate) fn calls_per_connection(&self) -> usize {
        self.calls_per_connection.load(Relaxed)
    }

    /// Returns how many bytes a connection may have: no more than its peer or all.
    pub(crate) fn bytes_per_connection(&self) -> usize {
        let bytes = [
            &self.bytes_per_connection,
            &self.bytes_per_peer,
            &self.bytes,
        ];
        let least = bytes.into_iter().map(|bytes| bytes.load(Relaxed)).min();
        least.unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_they_were_set_to() {
        let defaults = ServerLimits::new();
        let current = CurrentLimits::new(&defaults);
        assert_eq!(current.get(), defaults);
        let others = ServerLimits::new()
            .max_connections(1)
            .max_connections_per_peer(2)
            .max_waiting_connections(10)
            .max_calls(3)
            .max_calls_per_peer(4)
            .max_calls_per_connection(5)
            .max_bytes(6)
            .max_bytes_per_peer(7)
            .max_bytes_per_connection(8)
            .handler_time(None)
            .transfer_time(Some(Duration::from_nanos(9)));
        current.replace(&others);
        assert_eq!(current.get(), others);
        assert_eq!(current.bytes_per_connection(), 6);
        // Five centuries are for ever.
        current.replace(&others.handler_time(Some(Duration::MAX)));
        assert_eq!(current.get(), others);
    }
}
