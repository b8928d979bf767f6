//! An initiator of iWARP over TCP that sends data before the reply to its request.
#![cfg(feature = "iwarp")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{MpaInitiator, MpaOptions, ReadDepths};
use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rpcrdma_verbs::provider::{
    ConnectionEvent, ConnectionManager as _, Device as _, QueuePairConfig, Queues,
};

/// The timeout for the request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns true if a request is accepted after which the initiator has sent these bytes.
fn is_accepted(early: &[u8]) -> bool {
    let device = IwarpDevice::default();
    let mut manager = device.manager().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let address = manager.listen(any).unwrap();
    let options = MpaOptions {
        crc: true,
        depths: Some(ReadDepths { ird: 4, ord: 4 }),
        rtr: None,
        private_data: Vec::new(),
    };
    let (_, asked) = MpaInitiator::new(options).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&asked).unwrap();
    let began = Instant::now();
    let request = loop {
        assert!(began.elapsed() < PATIENCE, "no request");
        if let Some(ConnectionEvent::Requested { request, .. }) = manager.poll() {
            break request;
        }
        thread::yield_now();
    };
    stream.write_all(early).unwrap();
    let completions = device.completion_queue(16).unwrap();
    let queues = Queues {
        completions: &completions,
        receives: None,
    };
    let config = QueuePairConfig {
        sends: 4,
        receives: 4,
        reads: 4,
        rnr_retry: false,
    };
    let pair = manager.prepare(&request, &config, queues).unwrap();
    manager.accept(request, &pair, &[]).is_ok()
}

#[test]
fn data_before_the_reply_are_refused() {
    assert!(is_accepted(b""));
    assert!(!is_accepted(b"data"));
}
