//! Random numbers that a seed reproduces.

use std::hash::{BuildHasher as _, RandomState};

/// A generator of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Takes the seed from the variable `RPCRDMA_SEED`, or from the system, and prints it.
    pub fn from_environment() -> Self {
        let seed = match std::env::var("RPCRDMA_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => RandomState::new().hash_one("seed"),
        };
        println!("RPCRDMA_SEED={seed}");
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns another generator.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }
}
