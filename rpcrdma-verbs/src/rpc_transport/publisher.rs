//! The metrics of a server's drivers, which their own threads publish.

use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::provider::Device;

/// Publishes the metrics of a driver once a second. Without the feature `metrics`, and without a
/// name, it does nothing.
#[derive(Debug)]
pub(super) struct Publisher {
    name: Option<String>,
    due: Instant,
    turns: u8,
}

/// How often a driver's metrics are published.
const INTERVAL: Duration = Duration::from_secs(1);

impl Publisher {
    pub(super) fn new(name: Option<String>) -> Self {
        Self {
            name: name.filter(|_| cfg!(feature = "metrics")),
            due: Instant::now(),
            turns: 0,
        }
    }

    /// Publishes, if it is time, on one of 256 turns: to ask for the time takes longer than to look
    /// for work.
    pub(super) fn turn<D: Device>(&mut self, driver: &Driver<D>) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns == 0 {
            self.publish(driver);
        }
    }

    /// Publishes, if it is time, before a sleep, and returns how long it may last.
    pub(super) fn before_sleep<D: Device>(
        &mut self,
        driver: &Driver<D>,
        timeout: Option<Duration>,
    ) -> Option<Duration> {
        self.publish(driver);
        if self.name.is_none() {
            return timeout;
        }
        let left = self.due.saturating_duration_since(Instant::now());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }

    fn publish<D: Device>(&mut self, driver: &Driver<D>) {
        let Some(name) = &self.name else {
            return;
        };
        let now = Instant::now();
        if now >= self.due {
            self.due = now + INTERVAL;
            #[cfg(feature = "metrics")]
            driver.publish_metrics(name);
            #[cfg(not(feature = "metrics"))]
            let _ = (driver, name);
        }
    }
}
