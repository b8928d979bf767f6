//! A driver's time.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time of a driver's deadlines: microseconds since it was made.
#[derive(Debug)]
pub(super) struct Clock {
    /// When it was made, in microseconds of the system's.
    began: u64,
}

/// Microseconds in which the system has told the time to [`Clock::lately`], whatever its tick is.
pub(super) const TICK: u64 = 100_000;

impl Clock {
    pub(super) fn new() -> Self {
        Self { began: micros(clock_gettime(ClockId::Monotonic)) }
    }

    pub(super) fn now(&self) -> u64 {
        micros(clock_gettime(ClockId::Monotonic)).saturating_sub(self.began)
    }

    /// The time at the system's last tick, which costs much less to know: it is not later than now, nor earlier by [`TICK`].
    #[inline]
    pub(super) fn lately(&self) -> u64 {
        micros(clock_gettime(ClockId::MonotonicCoarse)).saturating_sub(self.began)
    }
}

/// Microseconds of a time that is not before the system began.
#[inline]
const fn micros(time: Timespec) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
}

#[cfg(test)]
mod tests {
    use super::{Clock, TICK};

    #[test]
    fn lately_is_not_later_and_hardly_earlier() {
        let clock = Clock::new();
        for _ in 0..1000 {
            let before = clock.now();
            let (lately, now) = (clock.lately(), clock.now());
            assert!(lately <= now, "{lately} after {now}");
            assert!(lately + TICK >= before, "{lately}, and before it {before}");
        }
    }
}
