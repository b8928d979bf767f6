//! Publishes existing counters as metrics, when the user asks for it. `describe` and
//! `docs/metrics.md` have the same names. Values are absolute: each control and each cache needs a
//! name of its own.

use metrics::{counter, gauge};

#[cfg(feature = "tokio")]
use crate::control::ServerControl;
use crate::reply_cache::ReplyCache;

#[cfg(feature = "tokio")]
impl ServerControl {
    /// Publishes the counters of the server ([`stats`](Self::stats)) as metrics under a name. Call
    /// it once a second, or before each scrape.
    pub fn publish_metrics(&self, server: &str) {
        let stats = self.stats();
        let label = |key| (key, server.to_owned());
        let gauges = [
            ("rpc_server_connections", stats.connections),
            ("rpc_server_calls_in_flight", stats.calls_in_flight),
            ("rpc_server_bytes_in_flight", stats.bytes),
        ];
        for (name, value) in gauges {
            gauge!(name, &[label("server")]).set(value as f64);
        }
        let counters = [
            ("rpc_server_connections_accepted_total", stats.accepted),
            ("rpc_server_connections_rejected_total", stats.rejected),
        ];
        for (name, value) in counters {
            counter!(name, &[label("server")]).absolute(value);
        }
        for limit in crate::Limit::ALL {
            let name = ("limit", limit.name().to_owned());
            let reached = counter!("rpc_server_limits_reached_total", &[label("server"), name]);
            reached.absolute(stats.reached(limit));
        }
    }
}

impl ReplyCache {
    /// Publishes the counters of the cache ([`stats`](Self::stats)) as metrics under a name.
    pub fn publish_metrics(&self, server: &str) {
        let stats = self.stats();
        let label = || [("server", server.to_owned())];
        let counters = [
            ("rpc_reply_cache_executed_total", stats.executed),
            ("rpc_reply_cache_hits_total", stats.hits),
            ("rpc_reply_cache_in_progress_total", stats.in_progress),
            ("rpc_reply_cache_evicted_total", stats.evicted),
            ("rpc_reply_cache_after_start_total", stats.after_start),
            ("rpc_reply_cache_expired_total", stats.expired),
            ("rpc_reply_cache_too_large_total", stats.too_large),
        ];
        for (name, value) in counters {
            counter!(name, &label()).absolute(value);
        }
        gauge!("rpc_reply_cache_replies", &label()).set(stats.replies as f64);
        gauge!("rpc_reply_cache_bytes", &label()).set(stats.bytes as f64);
    }
}
