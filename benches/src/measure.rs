//! Measures jobs in turns, so that noise of the machine affects all of them alike.

use std::time::{Duration, Instant};

/// The time of one execution in nanoseconds: the median over all rounds, and the quartiles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) quartiles: [f64; 2],
}

/// A job that runs a number of times and returns the elapsed time.
pub(crate) type Timed<'j> = Box<dyn FnMut(u64) -> Duration + 'j>;

const ROUNDS: usize = 41;
/// The time of one job in a round.
const SHARE: Duration = Duration::from_millis(2);

/// Runs the jobs in turns.
pub(crate) fn measure(jobs: &mut [Timed<'_>]) -> Vec<Times> {
    let counts: Vec<u64> = jobs.iter_mut().map(calibrate).collect();
    let mut found = vec![Vec::with_capacity(ROUNDS); jobs.len()];
    for _ in 0..ROUNDS {
        for ((job, count), found) in jobs.iter_mut().zip(&counts).zip(&mut found) {
            found.push(job(*count).as_secs_f64() * 1e9 / *count as f64);
        }
    }
    found.into_iter().map(times).collect()
}

/// Returns the number of executions that take [`SHARE`].
fn calibrate(job: &mut Timed<'_>) -> u64 {
    let mut count = 1;
    while job(count) < SHARE / 2 && count < 1 << 40 {
        count *= 2;
    }
    count
}

fn times(mut found: Vec<f64>) -> Times {
    found.sort_by(f64::total_cmp);
    let at = |part: usize| found[found.len() * part / 4];
    Times {
        median: at(2),
        quartiles: [at(1), at(3)],
    }
}

/// Returns the time that a loop takes.
pub(crate) fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles() {
        let found = times((0..41).rev().map(f64::from).collect());
        assert_eq!(
            found,
            Times {
                median: 20.0,
                quartiles: [10.0, 30.0]
            }
        );
    }
}
