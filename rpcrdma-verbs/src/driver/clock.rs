//! The clock of a driver.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clock of a driver's deadlines, in microseconds since the driver was created.
#[derive(Debug)]
pub(super) struct Clock {
    /// The system's time at the creation of the driver, in microseconds.
    epoch: u64,
}

/// The largest difference between [`Clock::now`] and [`Clock::coarse_now`], for any tick of the
/// system, in microseconds.
pub(super) const MAX_COARSE_LAG: u64 = 100_000;

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            epoch: micros(clock_gettime(ClockId::Monotonic)),
        }
    }

    pub(super) fn now(&self) -> u64 {
        micros(clock_gettime(ClockId::Monotonic)).saturating_sub(self.epoch)
    }

    /// Returns the time of the system's last tick, which is much cheaper to read. It is not later
    /// than the exact time, and earlier by at most [`MAX_COARSE_LAG`].
    #[inline]
    pub(super) fn coarse_now(&self) -> u64 {
        micros(clock_gettime(ClockId::MonotonicCoarse)).saturating_sub(self.epoch)
    }
}

/// Converts a time that is not negative to microseconds.
#[inline]
const fn micros(time: Timespec) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
}

#[cfg(test)]
mod tests {
    use super::{Clock, MAX_COARSE_LAG};

    #[test]
    fn coarse_time_is_never_late_and_hardly_early() {
        let clock = Clock::new();
        for _ in 0..1000 {
            let before = clock.now();
            let (lately, now) = (clock.coarse_now(), clock.now());
            assert!(lately <= now, "{lately} after {now}");
            assert!(
                lately + MAX_COARSE_LAG >= before,
                "{lately}, and before it {before}"
            );
        }
    }
}
