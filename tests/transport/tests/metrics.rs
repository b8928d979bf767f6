//! The RDMA metrics of a deterministic run.
//!
//! A process has one recorder, and metrics keep the handles that it gave them: so there is one
//! test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::ends::Ends;
use rpcrdma_verbs::LocalEvent;

#[test]
fn calls_and_transfers_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();

    let mut ends = Ends::new(Config::client(), Config::server());
    ends.null();
    for _ in 0..20 {
        ends.echo(b"inline");
    }
    ends.write(&bytes()[..1 << 16]);
    ends.read(1 << 16);
    let call = ends.client.null().program(100_003, 3);
    let call = call.begin(&mut ends.near).unwrap();
    ends.finish(&call, |()| ()).unwrap_err();
    // A call that is not answered.
    let call = ends.client.null().timeout(Duration::from_millis(1));
    let call = call.begin(&mut ends.near).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let completed = loop {
        ends.near.turn().unwrap();
        if let Some(LocalEvent::Completed(completed)) = ends.event() {
            break completed;
        }
    };
    let channel = ends.channel();
    let read = channel.read(&call, &completed, |()| ());
    read.unwrap().unwrap_err();
    ends.near.publish_metrics("client");
    ends.far.publish_metrics("server");

    let mut lines = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let mut line = key.key().name().to_owned();
        for label in key.key().labels() {
            write!(line, " {}={}", label.key(), label.value()).unwrap();
        }
        match value {
            DebugValue::Counter(value) => write!(line, ": {value}").unwrap(),
            DebugValue::Gauge(value) => write!(line, ": {value}").unwrap(),
            DebugValue::Histogram(values) => write!(line, ": {} values", values.len()).unwrap(),
        }
        lines.push(line);
    }
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"));
}
