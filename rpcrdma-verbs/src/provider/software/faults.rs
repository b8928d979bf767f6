//! The kinds of injected faults, and their counts. `Fabric` draws each fault from the seed, where
//! the fault takes effect: `qp_pair` and its `execute` for requests, `completion` for wake-ups.
//!
//! A kind with probability 0 draws no number, so that the same seed and the same order of verbs
//! give the same faults.

/// The faults of a fabric. Probabilities are in units of 1/65536.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The maximum number of polls of any completion queue by which a work request is delayed. This
    /// lets queue pairs overtake each other.
    pub delay: u32,
    /// The probability that a work request ends its connection.
    pub disconnect: u16,
    /// The probability that a message finds no receive.
    pub not_ready: u16,
    /// The probability that an RDMA Read or Write is refused.
    pub bad_key: u16,
    /// The probability that an armed completion queue does not wake its waiter, until the next
    /// completion.
    pub lost_wakeup: u16,
}

impl Faults {
    /// Returns true if any fault is enabled.
    pub(super) const fn any(&self) -> bool {
        self.delay != 0
            || self.disconnect != 0
            || self.not_ready != 0
            || self.bad_key != 0
            || self.lost_wakeup != 0
    }
}

/// The number of injected faults of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultCounts {
    /// Work requests that were delayed.
    pub delays: u64,
    /// Connections that were ended.
    pub disconnects: u64,
    /// Messages that found no receive.
    pub not_ready: u64,
    /// RDMA Reads and Writes that were refused.
    pub bad_keys: u64,
    /// Wake-ups that were lost.
    pub lost_wakeups: u64,
}
