//! Describes the metrics of this crate to the recorder. The names of the counters and gauges are
//! those of `publish`, and change together with them and with `docs/metrics.md`.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use super::names::{CALLS, RECEIVED, SECONDS, SENT};

/// Counters, beside those of both ends of calls.
const COUNTERS: [(&str, &str); 10] = [
    (
        "rpc_server_connections_accepted_total",
        "Connections that were accepted.",
    ),
    (
        "rpc_server_connections_rejected_total",
        "Connections that were rejected, by limits and by the server's hook.",
    ),
    (
        "rpc_server_limits_reached_total",
        "How often a limit was reached.",
    ),
    (
        "rpc_reply_cache_executed_total",
        "Calls that were executed and whose replies are known.",
    ),
    (
        "rpc_reply_cache_hits_total",
        "Calls that came again after they were executed.",
    ),
    (
        "rpc_reply_cache_in_progress_total",
        "Calls that came again while they were executed.",
    ),
    (
        "rpc_reply_cache_evicted_total",
        "Replies that were forgotten for lack of room.",
    ),
    (
        "rpc_reply_cache_after_start_total",
        "Calls that were executed while calls to an earlier server could come again.",
    ),
    (
        "rpc_reply_cache_expired_total",
        "Replies that were forgotten for their age.",
    ),
    (
        "rpc_reply_cache_too_large_total",
        "Replies that were too large to be kept.",
    ),
];

const GAUGES: [(&str, Unit, &str); 5] = [
    (
        "rpc_server_connections",
        Unit::Count,
        "Connections that are open.",
    ),
    (
        "rpc_server_calls_in_flight",
        Unit::Count,
        "Calls whose handlers wait.",
    ),
    (
        "rpc_server_bytes_in_flight",
        Unit::Bytes,
        "Bytes of calls in flight and of replies that are to be sent.",
    ),
    (
        "rpc_reply_cache_replies",
        Unit::Count,
        "Replies that are kept.",
    ),
    (
        "rpc_reply_cache_bytes",
        Unit::Bytes,
        "Bytes of the replies that are kept.",
    ),
];

/// Describes the metrics of this crate to the recorder, which may show it to whoever reads them.
/// Call it once, after the recorder was installed.
pub fn describe_metrics() {
    let [client, server] = CALLS;
    describe_counter!(client, Unit::Count, "Calls that were made, by their end.");
    describe_counter!(
        server,
        Unit::Count,
        "Calls that were executed or refused, by their end."
    );
    let [client, server] = SECONDS;
    describe_histogram!(
        client,
        Unit::Seconds,
        "Time from a call to its reply, of one call in 16."
    );
    describe_histogram!(
        server,
        Unit::Seconds,
        "Time from the arrival of a call to its handler's result, of one call in 16."
    );
    let [client, server] = SENT;
    describe_counter!(client, Unit::Bytes, "Bytes of arguments, as encoded.");
    describe_counter!(server, Unit::Bytes, "Bytes of replies that were sent.");
    let [client, server] = RECEIVED;
    describe_counter!(client, Unit::Bytes, "Bytes of replies that were received.");
    describe_counter!(server, Unit::Bytes, "Bytes of calls that were received.");
    for (name, text) in COUNTERS {
        describe_counter!(name, Unit::Count, text);
    }
    for (name, unit, text) in GAUGES {
        describe_gauge!(name, unit, text);
    }
}
