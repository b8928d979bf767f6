//! A server whose process has no more descriptors: it waits without using a processor, and serves
//! again when there are some.
//!
//! One test, since the limit is that of the process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::Block;
use rpcrdma_transport_tests::ends;
use rpcrdma_verbs::LocalEvent;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rustix::process::{Resource, getrlimit, setrlimit};

/// How long the server has no descriptor.
const TIME: Duration = Duration::from_secs(1);
/// The timeout for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_server_without_descriptors_waits() {
    let device = IwarpDevice::default();
    let driver = || Driver::new(&device, &Budget::new(1 << 28), 4096).unwrap();
    let (mut driver, mut of_client) = (driver(), driver());
    let config = Config::server();
    let mut server = ends::serve(&mut driver, ends::any_address(), config, &Block::default());
    let address = server.local_addr();

    // The system completes the connection, which nobody accepts.
    let waiting = TcpStream::connect(address).unwrap();
    let before = getrlimit(Resource::Nofile);
    let mut few = before;
    few.current = Some(256);
    setrlimit(Resource::Nofile, few).unwrap();
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let (began, mut turns) = (Instant::now(), 0);
    while began.elapsed() < TIME {
        driver.wait(TIME).unwrap();
        server.serve(&mut driver);
        turns += 1;
    }
    assert!(turns < 100, "{turns} turns");

    drop(all);
    setrlimit(Resource::Nofile, before).unwrap();
    drop(waiting);
    let client = ends::connect(&mut of_client, address, Config::client());
    client.null().begin(&mut of_client).unwrap();
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "no answer");
        driver.wait(Duration::from_millis(5)).unwrap();
        server.serve(&mut driver);
        of_client.wait(Duration::from_millis(5)).unwrap();
        let event = client.transport().poll_event(&mut of_client);
        if matches!(event, Some(LocalEvent::Completed(_))) {
            return;
        }
    }
}
