//! The tracing spans and events of an RPC.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::ends::Ends;
use tracing_subscriber::fmt::MakeWriter;

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

#[test]
fn an_rpc_has_a_span_that_says_how_it_travelled_and_why() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(lines.clone());
    tracing::subscriber::with_default(subscriber.finish(), || {
        let mut ends = Ends::new(Config::client(), Config::server());
        ends.write(&bytes()[..1 << 16]);
    });
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let sent = lines.lines().find(|line| line.contains("sent")).unwrap();
    for part in [
        "rpc{xid=",
        "bytes=65580",
        "items read apart: 1, as the rest fits",
        "the reply inline",
    ] {
        assert!(sent.contains(part), "{part:?} is not in {sent:?}");
    }
    assert!(lines.contains("replied"));
}
