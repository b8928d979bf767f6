//! Tables by numbers that a device has chosen: keys, queue pairs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by numbers. No peer can choose them, so that a cheap hash is enough.
pub(super) type Numbers<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

/// Spreads numbers that lie close together, or differ in their high bits alone.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, octets: &[u8]) {
        octets.iter().for_each(|octet| self.write_u32((*octet).into()));
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
