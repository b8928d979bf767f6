//! Compares `docs/limits.md` with the code: each setting, its default, its counter and its error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::time::Duration;

use metrics_util::debugging::DebuggingRecorder;
use oncrpc::{
    BackwardError, CallErrorKind, ConnectRequest, Limit, Progress, ReplyCache, ReplyCacheConfig,
    ServerControl, ServerLimits, tcp,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::{ClientConfig, ServerConfig};

const PAGE: &str = include_str!("../../../docs/limits.md");
const TUTORIAL: &str = include_str!("../../../docs/rpc.md");
const METRICS: &str = include_str!("../../../docs/metrics.md");

/// Returns the rows of the table of a section, without its head.
fn rows(section: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n## {section}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row[1..row.len() - 1].split('|').map(str::trim).collect())
        .collect()
}

/// Returns the text of a cell between its first backticks.
fn quoted(cell: &'static str) -> Option<&'static str> {
    cell.split('`').nth(1)
}

/// A default: a number, or a time in microseconds.
#[derive(PartialEq, Debug)]
enum Value {
    Number(u128),
    Time(u128),
}

/// Parses a default of the page, such as `64 KiB`, `1,024` or `60 s`.
fn documented(text: &str) -> Value {
    let text = text.replace(',', "");
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number: u128 = number.parse().unwrap_or_else(|_| panic!("{text}"));
    match unit {
        "" => Value::Number(number),
        "KiB" => Value::Number(number << 10),
        "MiB" => Value::Number(number << 20),
        "s" => Value::Time(number * 1_000_000),
        _ => panic!("the unit of {text}"),
    }
}

/// Parses a default as `Debug` prints it, such as `1024` or `Some(60s)`.
fn printed(text: &str) -> Value {
    let text = text.trim_start_matches("Some(").trim_end_matches(')');
    match text.strip_suffix('s').map(|seconds| seconds.parse::<u64>()) {
        Some(Ok(seconds)) => Value::Time(Duration::from_secs(seconds).as_micros()),
        _ => Value::Number(text.parse().unwrap_or_else(|_| panic!("{text}"))),
    }
}

/// Returns the fields of a struct with their values, as `Debug` prints them.
fn fields(settings: &impl Debug) -> Vec<(String, String)> {
    let text = format!("{settings:?}");
    let (_, body) = text.split_once(" { ").unwrap();
    let mut fields = vec![String::new()];
    let mut depth = 0;
    for letter in body.strip_suffix(" }").unwrap().chars() {
        match letter {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                fields.push(String::new());
                continue;
            }
            _ => {}
        }
        fields.last_mut().unwrap().push(letter);
    }
    let split = |field: &String| {
        let (name, value) = field.split_once(": ").unwrap();
        (name.trim().to_owned(), value.to_owned())
    };
    fields.iter().map(split).collect()
}

/// Asserts that a column of a section has the defaults of all fields, except for settings that are
/// no limits.
fn assert_defaults(
    section: &str,
    column: usize,
    settings: &[(String, String)],
    no_limits: &[&str],
) {
    let mut rows = rows(section).into_iter();
    for (name, value) in settings {
        if no_limits.contains(&name.as_str()) {
            continue;
        }
        let row = rows.next();
        let row = row.unwrap_or_else(|| panic!("{section}: {name} has no row"));
        assert_eq!(quoted(row[0]), Some(name.as_str()), "{section}");
        let (documented, printed) = (documented(row[column]), printed(value));
        let is_same = match (&documented, &printed) {
            // The protocol has its times in microseconds.
            (Value::Time(time), Value::Number(micros)) => time == micros,
            _ => documented == printed,
        };
        assert!(is_same, "{section}: {name}: {} and {value}", row[column]);
    }
    assert_eq!(rows.next(), None, "{section}: a row without a setting");
    for name in no_limits {
        assert!(settings.iter().any(|field| field.0 == *name), "{name}");
    }
}

#[test]
fn limits_of_a_server_are_documented() {
    let fields: Vec<_> = fields(&ServerLimits::new())
        .into_iter()
        .map(|(name, value)| match name.ends_with("_time") {
            true => (name, value),
            false => (format!("max_{name}"), value),
        })
        .collect();
    assert_defaults("Limits of a server", 1, &fields, &[]);
    let names: Vec<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
    let of_fields: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, of_fields);
    for (limit, row) in Limit::ALL.iter().zip(rows("Limits of a server")) {
        assert_eq!(quoted(row[3]), Some(limit.to_string().as_str()));
    }
}

#[test]
fn defaults_of_clients_and_servers_are_documented() {
    let assert = |section, settings: &dyn Fn() -> Vec<(String, String)>, no_limits: &[&str]| {
        assert_defaults(section, 1, &settings(), no_limits);
    };
    assert("Reply cache", &|| fields(&ReplyCacheConfig::new()), &[]);
    let client = || fields(&tcp::ClientConfig::new());
    assert("A client over TCP", &client, &[]);
    let server = || fields(&tcp::ServerConfig::new());
    assert("A server over TCP", &server, &[]);
    let client = || fields(&ClientConfig::new());
    let no_limits = ["protocol", "completions", "spin"];
    assert("A client over RDMA", &client, &no_limits);
    let server = || fields(&ServerConfig::new());
    let no_limits = [&no_limits[..], &["control", "metrics_name"]].concat();
    assert("A server over RDMA", &server, &no_limits);
}

/// Returns the fields of the protocol's settings, with those of its limits on chunks.
fn protocol(config: &Config) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, value) in fields(config) {
        if name == "limits" {
            let of_chunks = fields(&config.limits).into_iter();
            all.extend(of_chunks.map(|(name, value)| (format!("limits.{name}"), value)));
        } else {
            all.push((name, value));
        }
    }
    all
}

#[test]
fn defaults_of_the_protocol_are_documented() {
    let no_limits = [
        "role",
        "max_version",
        "reserved_receives",
        "max_read_chunks",
        "properties",
        "rtr",
        "backward_support",
        "backward_v1",
        "remote_invalidation",
        "send_with_invalidate",
        "version_cache_ttl",
        "reconnect_delay",
        "xid_seed",
        "hash_seed",
    ];
    let (client, server) = (Config::client(), Config::server());
    assert_defaults("Protocol", 1, &protocol(&client), &no_limits);
    assert_defaults("Protocol", 2, &protocol(&server), &no_limits);
}

/// Every error is in the table of errors, whose test provokes each, or is a text of the code.
#[test]
fn errors_are_documented() {
    let timeout = Duration::from_millis(50);
    let exceeded = |progress| {
        let kind = CallErrorKind::DeadlineExceeded { timeout, progress };
        kind.to_string()
    };
    let queued = exceeded(Progress::Queued);
    let no_credit = exceeded(Progress::NoCredit);
    let no_memory = exceeded(Progress::NoMemory);
    for (section, column, name, error) in [
        ("A client over TCP", 4, "max_calls", &queued),
        ("A client over RDMA", 4, "memory", &no_memory),
        ("Protocol", 3, "max_calls", &queued),
        ("Protocol", 3, "credits", &no_credit),
    ] {
        let rows = rows(section);
        let row = rows.iter().find(|row| quoted(row[0]) == Some(name));
        assert_eq!(quoted(row.unwrap()[column]), Some(error.as_str()));
    }
    let full = CallErrorKind::Backward(BackwardError::Full).to_string();
    assert!(PAGE.contains(&format!("`{full}`")));
    let (_, table) = TUTORIAL.split_once("\n## Errors\n").unwrap();
    for section in [
        "A client over TCP",
        "A server over TCP",
        "A client over RDMA",
    ] {
        let errors = rows(section).into_iter().filter_map(|row| quoted(row[4]));
        for error in errors {
            assert!(table.contains(error), "{error}");
        }
    }
}

/// A process has one recorder, so there is one test of all counters.
#[test]
fn counters_are_documented() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let control = ServerControl::new(ServerLimits::new().max_connections(0));
    let request = ConnectRequest::new(([127, 0, 0, 1], 7).into(), "tcp", &[]);
    control.admit(&request).unwrap_err();
    assert_eq!(control.stats().reached(Limit::Connections), 1);
    control.publish_metrics("kv");
    ReplyCache::default().publish_metrics("kv");
    let published = snapshotter.snapshot().into_vec();
    let keys: Vec<_> = published.iter().map(|(key, ..)| key.key()).collect();
    for row in rows("Limits of a server") {
        let name = quoted(row[0]).unwrap();
        let is_published = keys.iter().any(|key| {
            let limit = key.labels().find(|label| label.key() == "limit");
            key.name() == "rpc_server_limits_reached_total"
                && limit.is_some_and(|label| label.value() == name)
        });
        assert!(is_published, "{name}");
    }
    for row in rows("Reply cache") {
        let metric = quoted(row[3]).unwrap();
        assert!(keys.iter().any(|key| key.name() == metric), "{metric}");
    }
    // Another test holds the page of metrics against the code.
    for (section, column) in [
        ("A client over TCP", 3),
        ("A server over TCP", 3),
        ("A client over RDMA", 3),
        ("A server over RDMA", 3),
    ] {
        for row in rows(section) {
            assert!(METRICS.contains(row[column]), "{}", row[column]);
        }
    }
}
