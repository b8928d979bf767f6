//! Maps from numbers that no adversary chooses.
//!
//! Never use `NumberMap` for numbers that a peer chooses, such as the XIDs of its calls: the peer
//! could choose colliding ones.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from numbers that no adversary chooses: those of queue pairs, which the device chooses,
/// and those that this end assigns, such as XIDs of its own calls.
///
/// A multiplication spreads them; a hash that resists an adversary would take longer than the rest
/// of the lookup.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The table uses the highest and the lowest bits.
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::NumberMap;

    #[test]
    fn numbers_that_are_alike_are_spread() {
        let map = NumberMap::<u32, ()>::default();
        for step in [1, 2, 1 << 8, 1 << 16, 1 << 20] {
            let hashes: Vec<u64> = (0..1024u32)
                .map(|at| map.hasher().hash_one(at.wrapping_mul(step)))
                .collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0x7ff).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // Random hashes would give about 800 of 2048, and all of 128.
            assert!(
                low.len() > 600 && high.len() > 100,
                "steps of {step}: {} and {}",
                low.len(),
                high.len()
            );
        }
    }
}
