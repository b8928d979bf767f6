//! A recorder of plain atomics, for the minimum cost of metrics, which `.ci/metrics-cost` limits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Counts events, and discards the values of histograms.
struct Atomics;

struct Forgets;

impl HistogramFn for Forgets {
    fn record(&self, _: f64) {}
}

impl Recorder for Atomics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(AtomicU64::new(0)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(AtomicU64::new(0)))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Forgets))
    }
}

/// Installs the recorder.
pub(crate) fn install() {
    if metrics::set_global_recorder(Atomics).is_err() {
        unreachable!("this is the only recorder");
    }
}
