//! The tracing spans and events of an RPC.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Call, Client, ClientEvent};
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};
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

struct Null;

impl Service for Null {
    fn program(&self) -> u32 {
        7
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn call(
        &mut self,
        _: ConnectionId,
        _: &rpc::Call<'_>,
        _: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        Ok(())
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
        let fabric = Fabric::new();
        let mut near = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
        let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
        let mut server = Server::bind(
            &mut far,
            "127.0.0.1:0".parse().unwrap(),
            Config::server(),
            Null,
        )
        .unwrap();
        let client = Client::connect(
            &mut near,
            server.address(),
            Config::client(),
            Credentials::none(),
        )
        .unwrap();
        let mut data = near.pool().take(1 << 16).unwrap();
        data.set_len(1 << 16);
        client
            .call(&mut near, Call::to(7, 1, 0), |writer| {
                writer.item(data).map(|_| ())
            })
            .unwrap();
        loop {
            near.turn().unwrap();
            far.turn().unwrap();
            server.serve(&mut far);
            if let Some(ClientEvent::Answered { .. }) = client.event(&mut near) {
                break;
            }
        }
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
