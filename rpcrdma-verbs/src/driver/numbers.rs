//! Finding connections by the numbers of their queue pairs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Id;

/// Connections by the numbers of their queue pairs.
///
/// Every receive that is shared asks for one. The numbers are the device's, and nobody else chooses them: so they are spread by
/// a multiplication, where a hash that withstands an adversary takes longer than all else of it.
pub(super) type ByNumber = HashMap<u32, Id, BuildHasherDefault<Spread>>;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        octets.iter().for_each(|octet| self.write_u32((*octet).into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // The table looks at the highest bits and at the lowest.
        let spread = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::ByNumber;

    #[test]
    fn numbers_that_are_alike_are_spread() {
        let map = ByNumber::default();
        for step in [1, 2, 1 << 8, 1 << 16, 1 << 20] {
            let hashes: Vec<u64> = (0..1024u32).map(|at| map.hasher().hash_one(at.wrapping_mul(step))).collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0x7ff).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // By chance it were some 800 of 2048, and all of 128.
            assert!(low.len() > 600 && high.len() > 100, "steps of {step}: {} and {}", low.len(), high.len());
        }
    }
}
