//! Publishes the metrics of a driver, when its user asks for it.
//!
//! Each name must also be in `driver::describe` and in `docs/metrics.md`. The counters are absolute
//! and must never decrease, so they include closed connections.

use metrics::{counter, gauge};

use super::Driver;
use crate::provider::Device;

impl<D: Device> Driver<D> {
    /// Publishes the counters of the driver as metrics under a name. Call it once a second, or
    /// before each scrape. Counters are those of [`total_counters`](Self::total_counters).
    ///
    /// ```
    /// use rpcrdma_verbs::driver::Driver;
    /// use rpcrdma_verbs::memory::Budget;
    /// use rpcrdma_verbs::provider::software::Fabric;
    ///
    /// let driver = Driver::new(&Fabric::new().device(), &Budget::new(1 << 20), 64)?;
    /// driver.publish_metrics("server");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_metrics(&self, driver: &str) {
        let label = || [("driver", driver.to_owned())];
        let all = self.total_counters();
        let counters = [
            ("rdma_sends_total", all.sends),
            ("rdma_reads_total", all.reads),
            ("rdma_writes_total", all.writes),
            ("rdma_probes_total", all.probes),
            ("rdma_work_requests_total", all.posted),
            ("rdma_completions_total", all.completed),
            ("rdma_round_trips_total", all.round_trips),
            ("rdma_exposures_total", all.exposures),
            ("rdma_sink_registrations_total", all.sinks),
            ("rdma_copied_bytes_total", all.copied),
        ];
        for (name, value) in counters {
            counter!(name, &label()).absolute(value);
        }
        let budget = self.pool.budget();
        counter!("rdma_memory_refused_total", &label()).absolute(budget.refused());
        let credits = self
            .connections()
            .map(|one| one.session.available_credits());
        let gauges = [
            ("rdma_connections", self.connections().count()),
            (
                "rdma_available_credits",
                credits.map(|credits| credits as usize).sum(),
            ),
            ("rdma_registered_bytes", budget.used()),
            ("rdma_registered_limit_bytes", budget.limit()),
            ("rdma_leaked_bytes", budget.leaked()),
        ];
        for (name, value) in gauges {
            gauge!(name, &label()).set(value as f64);
        }
    }
}
