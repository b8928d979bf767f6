//! Describes each metric of a driver to the recorder: its name, unit and text.
//!
//! The names must be those of `driver::publish`, which sets the values, and of `docs/metrics.md`.
//! No other code depends on the texts.

use metrics::{Unit, describe_counter, describe_gauge};

const COUNTERS: [(&str, Unit, &str); 11] = [
    ("rdma_sends_total", Unit::Count, "RDMA Sends."),
    ("rdma_reads_total", Unit::Count, "RDMA Reads."),
    ("rdma_writes_total", Unit::Count, "RDMA Writes."),
    (
        "rdma_probes_total",
        Unit::Count,
        "Empty RDMA Writes that ask whether a peer is there.",
    ),
    (
        "rdma_work_requests_total",
        Unit::Count,
        "Work requests that were posted, without receives.",
    ),
    (
        "rdma_completions_total",
        Unit::Count,
        "Completions, with those of receives.",
    ),
    (
        "rdma_round_trips_total",
        Unit::Count,
        "Round trips between the ends.",
    ),
    (
        "rdma_exposures_total",
        Unit::Count,
        "Regions that were exposed to peers.",
    ),
    (
        "rdma_sink_registrations_total",
        Unit::Count,
        "Sinks of RDMA Reads that were registered one by one.",
    ),
    (
        "rdma_copied_bytes_total",
        Unit::Bytes,
        "Bytes of messages that were copied.",
    ),
    (
        "rdma_memory_refused_total",
        Unit::Count,
        "Memory that was refused because of the limit on registered bytes.",
    ),
];

const GAUGES: [(&str, Unit, &str); 5] = [
    (
        "rdma_connections",
        Unit::Count,
        "Connections, with those that are being made.",
    ),
    (
        "rdma_available_credits",
        Unit::Count,
        "Calls that may be sent at once, over all connections.",
    ),
    (
        "rdma_registered_bytes",
        Unit::Bytes,
        "Bytes of registered memory.",
    ),
    (
        "rdma_registered_limit_bytes",
        Unit::Bytes,
        "Bytes of memory that may be registered.",
    ),
    (
        "rdma_leaked_bytes",
        Unit::Bytes,
        "Bytes of memory that a device has not released.",
    ),
];

/// Describes the metrics of this crate and of `oncrpc` to the recorder, which may show it to
/// whoever reads them. Call it once, after the recorder was installed.
///
/// ```
/// // After `PrometheusBuilder::install_recorder`, say.
/// rpcrdma_verbs::describe_metrics();
/// ```
pub fn describe_metrics() {
    oncrpc::describe_metrics();
    for (name, unit, text) in COUNTERS {
        describe_counter!(name, unit, text);
    }
    for (name, unit, text) in GAUGES {
        describe_gauge!(name, unit, text);
    }
}
