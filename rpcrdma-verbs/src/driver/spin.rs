//! Looking for work for a short time before a sleep.
//!
//! A loop calls `goes_on` after each turn without work, `found` after a turn with work, and `slept`
//! after a sleep, as `Driver::wait` and the loops of `rpc_transport` do. `slept` ends the idle
//! period and adapts the time to its length: without `slept`, the loop does not poll again until
//! `found`.

use std::thread::{available_parallelism, yield_now};
use std::time::{Duration, Instant};

/// Decides how long a driver without work polls before it sleeps.
///
/// Polling pays if work arrives sooner than a sleep and a wake-up take. So the time depends on the
/// last idle periods, and polling ends at once if other threads want the core.
#[derive(Debug)]
pub(crate) struct Spin {
    /// The longest time.
    limit: Duration,
    /// The time for now.
    budget: Duration,
    /// Since when there is no work, and when other threads were last let run.
    idle: Option<(Instant, Instant)>,
    /// Until when the core is left to other threads.
    resume: Option<Instant>,
}

/// The longest time unless the user sets another.
pub(crate) const DEFAULT_SPIN: Duration = Duration::from_micros(50);
/// The interval at which the driver yields to other threads.
const YIELD_EVERY: Duration = Duration::from_micros(5);
/// The duration of a yield above which other threads want the core.
const ALONE: Duration = Duration::from_micros(20);
/// How long the driver does not poll after a yield has taken longer than `ALONE`.
const HOLD_OFF: Duration = Duration::from_millis(10);

impl Spin {
    /// Creates a spin of at most this time; of zero on a machine with one core.
    pub(crate) fn new(limit: Duration) -> Self {
        let alone = available_parallelism().is_ok_and(|cores| cores.get() == 1);
        let limit = if alone { Duration::ZERO } else { limit };
        Self {
            limit,
            budget: limit,
            idle: None,
            resume: None,
        }
    }

    /// Notes that there is work.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.idle = None;
    }

    /// Returns true if a driver without work polls again, and does not sleep yet.
    pub(crate) fn goes_on(&mut self) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        let now = Instant::now();
        let (since, yielded) = self.idle.get_or_insert((now, now));
        let is_held = self.resume.is_some_and(|resume| now < resume);
        if is_held || now.duration_since(*since) >= self.budget {
            return false;
        }
        if now.duration_since(*yielded) >= YIELD_EVERY {
            yield_now();
            *yielded = Instant::now();
            let end = *yielded;
            if !self.is_alone(end.duration_since(now), end) {
                return false;
            }
        }
        std::hint::spin_loop();
        true
    }

    /// Returns true if a yield of this duration shows no other threads that want the core.
    /// Otherwise polling ends for a while.
    fn is_alone(&mut self, yielded: Duration, now: Instant) -> bool {
        let is_alone = yielded <= ALONE;
        if !is_alone {
            self.resume = Some(now + HOLD_OFF);
        }
        is_alone
    }

    /// Notes that the driver has slept until there was work, or until it was time for something.
    pub(crate) fn slept(&mut self) {
        if let Some((since, _)) = self.idle.take() {
            self.adapt(since.elapsed());
        }
    }

    /// Adapts the time to the length of an idle period, including the wake-up.
    fn adapt(&mut self, idle: Duration) {
        self.budget = if idle <= 2 * self.limit {
            self.limit
        } else {
            self.budget / 2
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin() -> Spin {
        Spin {
            limit: DEFAULT_SPIN,
            budget: DEFAULT_SPIN,
            idle: None,
            resume: None,
        }
    }

    #[test]
    fn spin_adapts_to_idle_time() {
        let mut spin = spin();
        for _ in 0..32 {
            spin.adapt(Duration::from_millis(100));
        }
        assert_eq!(spin.budget, Duration::ZERO);
        assert!(!spin.goes_on());
        spin.adapt(DEFAULT_SPIN);
        assert_eq!(spin.budget, DEFAULT_SPIN);
    }

    #[test]
    fn spin_ends_after_its_time() {
        let mut spin = spin();
        let began = Instant::now();
        while spin.goes_on() {}
        let idle = spin.idle.map(|(since, _)| since.elapsed());
        // It ends early where other threads want the core.
        assert!(spin.resume.is_some() || idle >= Some(DEFAULT_SPIN));
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn spin_leaves_the_core_to_other_threads() {
        let mut spin = spin();
        let long_ago = Instant::now() - 2 * HOLD_OFF;
        assert!(spin.is_alone(ALONE, Instant::now()) && spin.goes_on());
        assert!(!spin.is_alone(2 * ALONE, Instant::now()));
        assert!(!spin.goes_on());
        spin.found();
        assert!(!spin.goes_on());
        assert!(!spin.is_alone(2 * ALONE, long_ago));
        assert!(spin.goes_on());
    }

    #[test]
    fn spin_can_be_disabled() {
        assert!(!Spin::new(Duration::ZERO).goes_on());
    }
}
