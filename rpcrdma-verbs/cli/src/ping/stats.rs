//! The output and the statistics of `ping`.
//!
//! The names of events and of JSON fields are for programs: `tests/manners.rs` checks them. `sent`
//! counts calls that were begun, so a call that a signal interrupts is neither answered nor failed.
//! A call that cannot begin is not counted: its error ends the command, after the summary.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::errors::CreationError;
use rpcrdma_verbs::LocalEvent;
use serde_json::json;

use crate::output::{Count, OutputError, outln, print_event};

/// Statistics of the calls and of the connection, in constant memory.
pub(super) struct PingStats {
    pub(super) sent: u64,
    pub(super) answered: u64,
    failed: u64,
    connections: u64,
    lost: u64,
    /// The reason why there is no connection, which is printed once while it stays the same.
    reason: Option<String>,
    /// The round-trip times of answered calls in nanoseconds, with three significant digits.
    times: Histogram<u64>,
    json: bool,
    device: String,
}

impl PingStats {
    pub(super) fn new(json: bool, device: &str) -> Result<Self, CreationError> {
        let mut times = Histogram::new_with_bounds(1, MOST, 3)?;
        times.auto(false);
        Ok(Self {
            sent: 0,
            answered: 0,
            failed: 0,
            connections: 0,
            lost: 0,
            reason: None,
            times,
            json,
            device: device.to_owned(),
        })
    }

    pub(super) fn is_success(&self) -> bool {
        self.answered > 0 && self.failed == 0
    }

    /// Prints an event of the connection.
    pub(super) fn notice(&mut self, event: &LocalEvent) -> Result<(), OutputError> {
        match event {
            LocalEvent::Connected(version) => {
                self.connections += 1;
                self.reason = None;
                let (version, device) = (version.number(), &self.device);
                print_event(
                    self.json,
                    format_args!("connected on {device}, Version {version}"),
                    || json!({ "event": "connected", "version": version, "device": device }),
                )
            }
            LocalEvent::Disconnected { reason, error, .. } => {
                self.lost += 1;
                let why = error
                    .as_ref()
                    .map_or_else(|| reason.to_string(), ToString::to_string);
                if !self.json && self.reason.as_ref() == Some(&why) {
                    return Ok(());
                }
                print_event(
                    self.json,
                    format_args!("no connection: {why}"),
                    || json!({ "event": "disconnected", "reason": why }),
                )?;
                self.reason = Some(why);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Prints that a call was answered; `text` describes the call and the server.
    pub(super) fn answered(&mut self, text: &str, took: Duration) -> Result<(), OutputError> {
        self.answered += 1;
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.times.saturating_record(nanos);
        let (call, micros) = (self.sent, took.as_secs_f64() * 1e6);
        print_event(
            self.json,
            format_args!("{text}: call {call}, {micros:.1} us"),
            || json!({ "event": "reply", "call": call, "us": micros }),
        )
    }

    /// Prints the error of a failed call.
    pub(super) fn failed(&mut self, error: &dyn fmt::Display) -> Result<(), OutputError> {
        self.failed += 1;
        let call = self.sent;
        print_event(
            self.json,
            format_args!("call {call}: {error}"),
            || json!({ "event": "failure", "call": call, "error": error.to_string() }),
        )
    }

    /// Prints the summary.
    pub(super) fn report(&self) -> Result<(), OutputError> {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let at = |quantile| micros(self.times.value_at_quantile(quantile));
        let all = [
            micros(self.times.min()),
            at(0.5),
            at(0.99),
            micros(self.times.max()),
        ];
        let all = Some(all).filter(|_| !self.times.is_empty());
        if let (Some([min, p50, p99, max]), false) = (all, self.json) {
            outln!(
                "{min:.1} us at least, {p50:.1} at the median, {p99:.1} at 99 %, {max:.1} at most"
            );
        }
        let Self {
            sent,
            answered,
            failed,
            connections,
            lost,
            ..
        } = self;
        let latency = || {
            let [min, p50, p99, max] = all?;
            Some(json!({ "min": min, "p50": p50, "p99": p99, "max": max }))
        };
        print_event(
            self.json,
            format_args!(
                "{}: {answered} answered, {failed} failed; {}, {lost} lost or failed",
                Count(*sent, "call"),
                Count(*connections, "connection")
            ),
            || {
                json!({
                    "event": "summary", "sent": sent, "answered": answered, "failed": failed,
                    "connections": connections, "disconnections": lost, "latency_us": latency(),
                })
            },
        )
    }
}

/// The maximum recorded time in nanoseconds: a day.
const MOST: u64 = 86_400_000_000_000;
