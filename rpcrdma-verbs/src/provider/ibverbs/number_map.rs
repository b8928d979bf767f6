//! Maps from numbers that a device has chosen: keys, queue pairs. The rest of the crate uses
//! `crate::number_map`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with numbers as keys. A peer does not choose them, so a cheap hash is sufficient.
pub(super) type NumberMap<T> = HashMap<u32, T, BuildHasherDefault<NumberHasher>>;

/// A hash that spreads adjacent numbers, and numbers that differ only in their high bits.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
