//! The names of the metrics of calls. `docs/metrics.md` lists them. `procedures` takes an element
//! by `End`: the client's name is the first. `publish` has the other names.

/// Calls by `program`, `version`, `procedure` and `status`.
pub(super) const CALLS: [&str; 2] = ["rpc_client_calls_total", "rpc_server_calls_total"];
/// Seconds of a call, by `program`, `version` and `procedure`.
pub(super) const SECONDS: [&str; 2] = ["rpc_client_call_seconds", "rpc_server_call_seconds"];
/// Bytes of the arguments of calls, and of replies.
pub(super) const SENT: [&str; 2] = [
    "rpc_client_argument_bytes_total",
    "rpc_server_sent_bytes_total",
];
/// Bytes of messages that were received.
pub(super) const RECEIVED: [&str; 2] = [
    "rpc_client_received_bytes_total",
    "rpc_server_received_bytes_total",
];
