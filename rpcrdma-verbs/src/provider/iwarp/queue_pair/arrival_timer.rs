//! The time limit of the rest of an FPDU, or of the next segment of a message
//! (`IwarpConfig::fpdu_timeout`). `receiving` has one timer for each of the two, and ends the
//! connection with a Terminate when `left` returns zero.

use std::time::{Duration, Instant};

/// What has arrived in part.
#[derive(Default, Debug)]
pub(super) struct ArrivalTimer {
    /// How far it has arrived, and the time by which more must have arrived.
    arriving: Option<(u64, Instant)>,
}

impl ArrivalTimer {
    /// Returns the remaining time, which is zero if it is over. `arrived` says how far it has
    /// arrived: a change begins the time again, and `None` ends it, since nothing has arrived in
    /// part or this end does not receive. Call this when the socket has no more data.
    ///
    /// A full socket blocks the peer. After a pause of this end that lasts until a quarter of the
    /// time behind the deadline, it therefore gets its whole time again.
    pub(super) fn left(
        &mut self,
        arrived: Option<u64>,
        now: impl FnOnce() -> Instant,
        timeout: Duration,
    ) -> Option<Duration> {
        let before = self.arriving.take();
        // Mostly nothing has arrived in part, and the clock need not be read.
        let (arrived, now) = (arrived?, now());
        let known = before.filter(|(number, deadline)| {
            let is_late = now.saturating_duration_since(*deadline) > timeout / 4;
            *number == arrived && !is_late
        });
        let deadline = match known {
            Some((_, deadline)) => deadline,
            None => now.checked_add(timeout)?,
        };
        self.arriving = Some((arrived, deadline));
        Some(deadline.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(8);

    /// Returns the remaining seconds at a time.
    fn left(timer: &mut ArrivalTimer, number: u64, at: Instant) -> u64 {
        let left = timer.left(Some(number), || at, TIMEOUT);
        left.unwrap().as_secs()
    }

    #[test]
    fn each_fpdu_has_a_deadline() {
        let (mut timer, begin) = (ArrivalTimer::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(left(&mut timer, 0, at(0)), 8);
        assert_eq!(left(&mut timer, 0, at(7)), 1);
        assert_eq!(left(&mut timer, 1, at(7)), 8);
        assert_eq!(left(&mut timer, 1, at(15)), 0);
        assert_eq!(timer.left(None, || at(15), TIMEOUT), None);
        assert_eq!(left(&mut timer, 1, at(15)), 8);
    }

    #[test]
    fn a_late_check_extends_the_deadline() {
        let (mut timer, begin) = (ArrivalTimer::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(left(&mut timer, 0, at(0)), 8);
        assert_eq!(left(&mut timer, 0, at(30)), 8);
        assert_eq!(left(&mut timer, 0, at(39)), 0);
    }

    #[test]
    fn the_longest_time_is_no_limit() {
        let mut timer = ArrivalTimer::default();
        assert_eq!(timer.left(Some(0), Instant::now, Duration::MAX), None);
    }
}
