//! What can be made to go wrong, from a seed.

/// What goes wrong on a fabric. Chances are in 65,536.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Where the random numbers begin.
    pub seed: u64,
    /// Polls of any completion queue by which a work request is delayed at most. Queue pairs overtake each other so.
    pub delay: u32,
    /// That a work request ends its connection.
    pub disconnect: u16,
    /// That a message finds no receive.
    pub not_ready: u16,
    /// That an RDMA Read or Write is refused.
    pub bad_key: u16,
    /// That a completion queue which is armed wakes nobody, until the next completion.
    pub lost_wakeup: u16,
}

impl Faults {
    /// Whether anything goes wrong at all.
    pub(super) const fn any(&self) -> bool {
        self.delay != 0 || self.disconnect != 0 || self.not_ready != 0 || self.bad_key != 0 || self.lost_wakeup != 0
    }
}

/// How often each fault was injected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Injected {
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

/// A generator of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// True so often in 65,536.
    pub(super) const fn chance(&mut self, of: u16) -> bool {
        of != 0 && self.next() & 0xffff < of as u64
    }
}
