//! The report of a page of metrics: tables of calls, and a list of all other metrics.
//!
//! The names and labels of calls must be those of `oncrpc::metering`; other metrics need no change
//! here. `exposition` parses the page. Names and labels come from a server, so control characters
//! are replaced in text.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::exposition::{Page, SampleName};
use crate::program_name::Program;

/// A page, and optionally an earlier one with the time in between.
pub(super) struct Report<'a> {
    page: &'a Page,
    earlier: Option<(&'a Page, Duration)>,
}

/// The calls of a procedure.
#[derive(Default)]
struct Procedure {
    calls: f64,
    failed: f64,
    per_second: f64,
    /// The number of calls with a duration up to each bound in seconds.
    buckets: Vec<(f64, f64)>,
}

/// The key of a procedure in a table: program, version and name.
type Key<'a> = [&'a str; 3];

/// The two ends of calls, with the headings of their tables.
const ENDS: [(&str, &str); 2] = [("server", "calls served"), ("client", "calls made")];

impl<'a> Report<'a> {
    pub(super) fn new(page: &'a Page, earlier: Option<(&'a Page, Duration)>) -> Self {
        Self { page, earlier }
    }

    /// Returns the growth of a value since the earlier page. Without an earlier page, or if the
    /// value has shrunk because the server restarted, it is the growth since the start.
    fn growth(&self, name: &SampleName, value: f64) -> f64 {
        let earlier = self.earlier.and_then(|(page, _)| page.samples.get(name));
        earlier
            .filter(|earlier| **earlier <= value)
            .map_or(value, |earlier| value - earlier)
    }

    fn per_second(&self, name: &SampleName, value: f64) -> Option<f64> {
        let (_, time) = self.earlier?;
        let is_counted = self.page.kind(&name.metric) != "gauge";
        is_counted.then(|| self.growth(name, value) / time.as_secs_f64().max(1e-9))
    }

    /// Returns the figures as JSON.
    pub(super) fn json(&self, at: f64) -> Value {
        let metrics = self.page.samples.iter().map(|(name, value)| {
            let labels: BTreeMap<_, _> = name.labels.iter().cloned().collect();
            let mut metric = json!({
                "name": name.metric,
                "kind": self.page.kind(&name.metric),
                "labels": labels,
                "value": value,
            });
            if let Some(rate) = self.per_second(name, *value) {
                metric["per_second"] = json!(rate);
            }
            metric
        });
        json!({ "time": at, "metrics": metrics.collect::<Vec<_>>() })
    }

    /// Returns the figures as lines of text: tables of calls, and then all others.
    pub(super) fn lines(&self, with_zeros: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (end, heading) in ENDS {
            let procedures = self.procedures(end);
            if !procedures.is_empty() {
                lines.push(self.heading(heading));
                lines.extend(procedures.iter().map(|(key, calls)| self.line(key, calls)));
            }
        }
        let others: Vec<_> = self.others(with_zeros).collect();
        let width = others.iter().map(|(name, ..)| name.chars().count()).max();
        let width = width.unwrap_or(0);
        for (name, value, rate) in others {
            let rate = rate.map_or_else(String::new, |rate| format!("  {rate:>12.1}/s"));
            lines.push(format!("{name:width$}  {value:>14}{rate}"));
        }
        if lines.is_empty() {
            lines.push("there are no figures yet".to_owned());
        }
        lines
    }

    fn heading(&self, what: &str) -> String {
        let rate = if self.earlier.is_some() {
            "  per second"
        } else {
            ""
        };
        format!(
            "{what:<32}  {:>10}  {:>8}{rate}  {:>8}  {:>8}",
            "calls", "failed", "median", "99 %"
        )
    }

    fn line(&self, [program, version, name]: &Key<'_>, calls: &Procedure) -> String {
        let known = program.parse().map(|number| Program(number).to_string());
        let program = known.unwrap_or_else(|_| (*program).to_owned());
        let what = if program == "other" {
            program
        } else {
            format!("{name} ({program}.{version})")
        };
        let rate = match self.earlier {
            Some(_) => format!("  {:>10.1}", calls.per_second),
            None => String::new(),
        };
        let [median, high] = [0.5, 0.99].map(|part| quantile(&calls.buckets, part));
        format!(
            "{what:<32}  {:>10}  {:>8}{rate}  {median:>8}  {high:>8}",
            calls.calls, calls.failed
        )
    }

    /// Returns the calls of one end by procedure.
    fn procedures(&self, end: &str) -> BTreeMap<Key<'a>, Procedure> {
        let calls = format!("rpc_{end}_calls_total");
        let bucket = format!("rpc_{end}_call_seconds_bucket");
        let mut all: BTreeMap<Key<'a>, Procedure> = BTreeMap::new();
        for (name, value) in &self.page.samples {
            let key = ["program", "version", "procedure"];
            let key = key.map(|label| name.label(label).unwrap_or("?"));
            if name.metric == calls {
                let of = all.entry(key).or_default();
                of.calls += value;
                of.per_second += self.per_second(name, *value).unwrap_or(0.0);
                if name.label("status") != Some("success") {
                    of.failed += value;
                }
            } else if name.metric == bucket
                && let Some(Ok(bound)) = name.label("le").map(str::parse)
            {
                let growth = self.growth(name, *value);
                all.entry(key).or_default().buckets.push((bound, growth));
            }
        }
        for calls in all.values_mut() {
            calls
                .buckets
                .sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        all
    }

    /// Returns the metrics that are not in a table, as text with their change per second.
    fn others(&self, with_zeros: bool) -> impl Iterator<Item = (String, f64, Option<f64>)> {
        let tables = ENDS.map(|(end, _)| format!("rpc_{end}_call"));
        let samples = self.page.samples.iter();
        let samples = samples.filter(move |(name, value)| {
            let is_in_table = tables.iter().any(|table| name.metric.starts_with(table))
                && name.label("procedure").is_some();
            !is_in_table && (with_zeros || **value != 0.0)
        });
        samples.map(|(name, value)| {
            let labels = name.labels.iter();
            let labels: Vec<_> = labels
                .map(|(label, value)| format!("{label}={value}"))
                .collect();
            let text = [vec![name.metric.clone()], labels].concat().join(" ");
            // Text from a peer or a file must not move the cursor.
            let text = text.replace(char::is_control, "?");
            (text, *value, self.per_second(name, *value))
        })
    }
}

/// Returns the upper bound for this fraction of the calls, as text.
fn quantile(buckets: &[(f64, f64)], part: f64) -> String {
    let all = buckets.last().map_or(0.0, |(_, count)| *count);
    if all <= 0.0 {
        return "-".to_owned();
    }
    let reached = buckets.iter().position(|(_, count)| *count >= part * all);
    match reached.map(|at| (at, buckets[at].0)) {
        Some((at, bound)) if bound.is_infinite() => {
            let last = at.checked_sub(1).map_or(0.0, |at| buckets[at].0);
            format!(">{}", seconds(last))
        }
        Some((_, bound)) => format!("<={}", seconds(bound)),
        None => "-".to_owned(),
    }
}

fn seconds(seconds: f64) -> String {
    let (number, unit) = match seconds {
        under if under < 1e-3 => (seconds * 1e6, "us"),
        under if under < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    // Bounds have few digits; further digits come from the conversion.
    format!("{}{unit}", (number * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(calls: u32, fast: u32) -> Page {
        let labels = "program=\"100003\",version=\"3\",procedure=\"READ\"";
        format!(
            "# TYPE rpc_server_calls_total counter
rpc_server_calls_total{{{labels},status=\"success\"}} {calls}
rpc_server_calls_total{{{labels},status=\"system_error\"}} 2
# TYPE rpc_server_call_seconds histogram
rpc_server_call_seconds_bucket{{{labels},le=\"0.00002\"}} {fast}
rpc_server_call_seconds_bucket{{{labels},le=\"0.001\"}} 99
rpc_server_call_seconds_bucket{{{labels},le=\"+Inf\"}} 100
rpc_server_call_seconds_sum{{{labels}}} 1.5
rpc_server_call_seconds_count{{{labels}}} 100
# TYPE rpc_server_sent_bytes_total counter
rpc_server_sent_bytes_total {}
# TYPE rpc_server_connections gauge
rpc_server_connections{{server=\"nfs\"}} 0
",
            calls * 10
        )
        .parse()
        .unwrap()
    }

    #[test]
    fn one_page_makes_a_table() {
        let page = page(100, 50);
        let report = Report::new(&page, None);
        let lines = report.lines(false);
        let words: Vec<Vec<_>> = lines
            .iter()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            words,
            [
                vec!["calls", "served", "calls", "failed", "median", "99", "%"],
                vec!["READ", "(NFS", "100003.3)", "102", "2", "<=20us", "<=1ms"],
                vec!["rpc_server_sent_bytes_total", "1000"],
            ]
        );
        let zero = "rpc_server_connections server=nfs";
        assert!(report.lines(true).iter().any(|line| line.starts_with(zero)));
    }

    #[test]
    fn two_pages_make_rates() {
        let (before, after) = (page(100, 50), page(300, 50));
        let report = Report::new(&after, Some((&before, Duration::from_secs(2))));
        let lines = report.lines(false);
        let read: Vec<_> = lines[1].split_whitespace().collect();
        // No call ended in between.
        let expected = ["READ", "(NFS", "100003.3)", "302", "2", "100.0", "-", "-"];
        assert_eq!(read, expected);
        assert!(lines[2].ends_with("1000.0/s"), "{}", lines[2]);
        let json = report.json(7.5);
        assert_eq!(json["time"], 7.5);
        let metrics = json["metrics"].as_array().unwrap();
        let of = |name: &str| {
            metrics
                .iter()
                .find(|metric| metric["name"] == name)
                .unwrap()
        };
        assert_eq!(of("rpc_server_sent_bytes_total")["per_second"], 1000.0);
        assert_eq!(of("rpc_server_connections")["per_second"], Value::Null);
        assert_eq!(of("rpc_server_connections")["labels"]["server"], "nfs");
        // A restarted server counts from zero.
        let report = Report::new(&before, Some((&after, Duration::from_secs(1))));
        assert!(report.lines(false)[2].ends_with("1000.0/s"));
    }

    #[test]
    fn quantiles_are_bounds() {
        let buckets = [(1e-5, 1.0), (0.5, 2.0), (10.0, 2.0), (f64::INFINITY, 4.0)];
        assert_eq!(quantile(&buckets, 0.25), "<=10us");
        assert_eq!(quantile(&buckets, 0.5), "<=500ms");
        assert_eq!(quantile(&buckets, 0.99), ">10s");
        assert_eq!(quantile(&[], 0.5), "-");
        assert_eq!(quantile(&[(1.0, 0.0)], 0.5), "-");
    }
}
