//! Random numbers that a seed reproduces.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// A generator of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    pub fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

/// Returns the seed of a test and its end time: `RPCRDMA_SOAK_SEED`, or else a number from the
/// system, which is printed; and `RPCRDMA_SOAK_SECONDS`, or else 3.
pub fn begin() -> (u64, Instant) {
    let seed = variable("RPCRDMA_SOAK_SEED");
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("RPCRDMA_SOAK_SEED={seed}");
    let seconds = variable("RPCRDMA_SOAK_SECONDS").unwrap_or(3);
    (seed, Instant::now() + Duration::from_secs(seconds))
}
