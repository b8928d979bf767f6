//! Numbers that look random and are a pure function of their seed.

/// A generator of the splitmix family.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// Spreads a number over 64 bits.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number under `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }

    /// A number in a range, both ends included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(u64::from(high - low) + 1) as u32
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
