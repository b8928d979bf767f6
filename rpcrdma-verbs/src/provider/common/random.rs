//! Random numbers that need not resist an adversary: for faults of the software fabric, and for the
//! tags of keys. Equal seeds give equal numbers, so that faults can be repeated. Keys of iWARP,
//! which a peer must not guess, are also permuted by a secret in `domain`.

/// A random number generator (splitmix64).
#[derive(Clone, Debug)]
pub(in crate::provider) struct Random(u64);

impl Random {
    pub(in crate::provider) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::provider) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns true with the probability `of`/65536.
    pub(in crate::provider) const fn chance(&mut self, of: u16) -> bool {
        of != 0 && self.next() & 0xffff < of as u64
    }
}
