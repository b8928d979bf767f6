//! The tracing spans and events of an RPC.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::ends::Ends;
use rpcrdma_verbs::LocalEvent;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Returns the log of a function, from a level on: events, and the ends of spans.
fn logged(level: Level, f: impl FnOnce()) -> String {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(lines.clone());
    tracing::subscriber::with_default(subscriber.finish(), f);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}

/// Makes the same calls in each run: one with a Read chunk, and one of an unknown program.
fn fixed_run() {
    let client = Config {
        xid_seed: 7,
        ..Config::client()
    };
    let mut ends = Ends::new(client, Config::server());
    ends.write(&bytes()[..1 << 16]);
    let call = ends.client.null().program(100_003, 3);
    let call = call.begin(&mut ends.near).unwrap();
    ends.finish(&call, |()| ()).unwrap_err();
    for id in ends.server.connections().to_vec() {
        ends.server.disconnect(&mut ends.far, id);
    }
    while !matches!(ends.next_event(), LocalEvent::Disconnected { .. }) {}
}

#[test]
fn connections_and_refusals_are_logged() {
    insta::assert_snapshot!(logged(Level::INFO, fixed_run));
}

#[test]
fn calls_have_spans_at_both_ends() {
    let lines = logged(Level::DEBUG, fixed_run);
    let closed = lines.lines().filter(|line| line.ends_with(": close"));
    let closed: Vec<_> = closed.collect();
    insta::assert_snapshot!(closed.join("\n"));
}

#[test]
fn an_rpc_span_has_the_transfer_method_and_its_reason() {
    let lines = logged(Level::DEBUG, || {
        let mut ends = Ends::new(Config::client(), Config::server());
        ends.write(&bytes()[..1 << 16]);
    });
    let sent = lines.lines().find(|line| line.contains("sent")).unwrap();
    for part in [
        " xid=",
        "bytes=65580",
        "items in Read chunks: 1, as the rest fits",
        "the reply inline",
    ] {
        assert!(sent.contains(part), "{part:?} is not in {sent:?}");
    }
    assert!(lines.contains("replied"));
    let server = [
        "call arrived peer=127.0.0.1:49153 xid=",
        " transfer=\"read from its Read chunks\"",
        "reply sent peer=127.0.0.1:49153 xid=",
        " written=false",
    ];
    for part in server {
        assert!(lines.contains(part), "{part:?} is not in {lines}");
    }
}
