//! The progress of long work, on standard error.

use std::fmt;
use std::io::{IsTerminal as _, Write as _, stderr};
#[cfg(feature = "nfs")]
use std::time::{Duration, Instant};

/// A line on standard error, which each later text replaces. It is erased at the end.
pub(crate) struct Progress {
    is_shown: bool,
    width: usize,
}

impl Progress {
    pub(crate) const fn new(is_shown: bool) -> Self {
        Self { is_shown, width: 0 }
    }

    /// Returns true if standard error is a terminal, where progress is shown by default.
    pub(crate) fn is_default() -> bool {
        stderr().is_terminal()
    }

    pub(crate) fn show(&mut self, text: fmt::Arguments<'_>) {
        if !self.is_shown {
            return;
        }
        let (text, width) = (text.to_string(), self.width);
        // The work continues if its progress cannot be written.
        let _ = write!(stderr(), "\r{text:width$}");
        self.width = text.len();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let width = self.width;
        if width > 0 {
            let _ = write!(stderr(), "\r{:width$}\r", "");
        }
    }
}

/// The progress of a copy.
#[cfg(feature = "nfs")]
pub(crate) struct CopyProgress {
    line: Progress,
    /// The size of the file, if it is known.
    total: Option<u64>,
    began: Instant,
    due: Instant,
}

/// The interval at which the progress of a copy is shown.
#[cfg(feature = "nfs")]
const INTERVAL: Duration = Duration::from_millis(200);

#[cfg(feature = "nfs")]
impl CopyProgress {
    pub(crate) fn new(line: Progress, total: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            line,
            total,
            began: now,
            due: now,
        }
    }

    /// Shows how many bytes have been copied, if it is time or if these are all.
    pub(crate) fn advance(&mut self, bytes: u64) {
        let now = Instant::now();
        if now >= self.due || self.total == Some(bytes) {
            self.due = now + INTERVAL;
            let text = copied(bytes, self.total, now - self.began);
            self.line.show(format_args!("{text}"));
        }
    }
}

/// Describes the progress of a copy: its bytes, part, rate, and remaining time.
#[cfg(feature = "nfs")]
fn copied(bytes: u64, total: Option<u64>, elapsed: Duration) -> String {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let (done, rate) = (bytes as f64, bytes as f64 / elapsed.as_secs_f64().max(1e-3));
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{:.1} MiB, {:.1} MiB/s", mib(done), mib(rate));
    };
    // The file may have grown.
    let part = (done / total as f64).min(1.0);
    let left = total.saturating_sub(bytes) as f64 / rate.max(1.0);
    format!(
        "{:.1} of {:.1} MiB, {:.0} %, {:.1} MiB/s, {left:.0} s left",
        mib(done),
        mib(total as f64),
        100.0 * part,
        mib(rate),
    )
}

#[cfg(all(test, feature = "nfs"))]
mod tests {
    use super::*;

    #[test]
    fn progress_has_size_part_rate_and_time() {
        const MIB: u64 = 1 << 20;
        let second = Duration::from_secs(1);
        for (bytes, total, elapsed, text) in [
            (
                6 * MIB,
                Some(48 * MIB),
                second,
                "6.0 of 48.0 MiB, 12 %, 6.0 MiB/s, 7 s left",
            ),
            (
                MIB,
                Some(MIB),
                2 * second,
                "1.0 of 1.0 MiB, 100 %, 0.5 MiB/s, 0 s left",
            ),
            // The file has grown, the size is unknown, and no time has passed.
            (
                2 * MIB,
                Some(MIB),
                second,
                "2.0 of 1.0 MiB, 100 %, 2.0 MiB/s, 0 s left",
            ),
            (3 * MIB / 2, None, second, "1.5 MiB, 1.5 MiB/s"),
            (0, Some(0), Duration::ZERO, "0.0 MiB, 0.0 MiB/s"),
            (
                0,
                Some(MIB),
                Duration::ZERO,
                "0.0 of 1.0 MiB, 0 %, 0.0 MiB/s, 1048576 s left",
            ),
        ] {
            assert_eq!(copied(bytes, total, elapsed), text);
        }
    }
}
