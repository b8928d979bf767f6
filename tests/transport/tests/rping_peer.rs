//! The protocol of rdma-core's `rping`, as client and as server.
//!
//! The client advertises memory, which the server reads; then the client advertises other memory,
//! to which the server writes the same bytes. `RPCRDMA_RPING` is `client` or `server` for a test
//! with `rping` as the peer: `RPCRDMA_DEVICE` names the local device, and `RPCRDMA_ADDRESS` an
//! address of the server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "linux/wire.rs"]
#[allow(dead_code, reason = "it is shared with the tests with Linux")]
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rpcrdma_transport_tests::device_source;
use rpcrdma_verbs::provider::RemoteMemory;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rpcrdma_verbs::provider::software::Fabric;

use wire::{Acceptor, PeerEvent, REACHED, Wire};

/// The port of `rping`.
const PORT: u16 = 7174;
/// The number of round trips of the data.
const ROUNDS: u8 = 20;
/// The length of the data, and the offset to which they return.
const LENGTH: u32 = REACHED / 2;

/// A message: address, key and length of memory.
fn message([key, length, high, low]: [u32; 4]) -> Vec<u8> {
    let words = [high, low, key, length];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn memory(message: &[u8]) -> (RemoteMemory, u32) {
    let (address, rest) = message.split_first_chunk().unwrap();
    let (key, length) = rest.split_first_chunk().unwrap();
    let memory = RemoteMemory {
        address: u64::from_be_bytes(*address),
        key: u32::from_be_bytes(*key),
    };
    (memory, u32::from_be_bytes(length.try_into().unwrap()))
}

/// Returns the next message, or `None` at the end of the connection.
fn receive(wire: &mut Wire) -> Option<Vec<u8>> {
    match wire.receive(Duration::from_secs(30)) {
        PeerEvent::Message(bytes, _) => Some(bytes),
        PeerEvent::Lost => None,
        PeerEvent::Nothing => panic!("the peer says nothing"),
    }
}

fn client(device: &AnyDevice, server: SocketAddr) {
    let (mut wire, _) = Wire::connect(device, server, &[]);
    for round in 0..ROUNDS {
        // A text: the server returns the bytes before its end.
        let mut data: Vec<u8> = (1 + round..=250).cycle().take(LENGTH as usize).collect();
        data[LENGTH as usize - 1] = 0;
        wire.expose(0, &data);
        for at in [0, LENGTH] {
            let memory = message(wire.segment(at, LENGTH));
            wire.send(&memory);
            assert_eq!(receive(&mut wire).expect("a reply").len(), 16);
        }
        assert!(wire.written(LENGTH, LENGTH) == data, "round {round}");
    }
}

fn server(acceptor: Acceptor) {
    let (mut wire, _) = acceptor.accept(&[]);
    let mut rounds = 0;
    while let Some(source) = receive(&mut wire) {
        let (from, length) = memory(&source);
        assert!(length <= REACHED);
        wire.fetch(from, 0, length);
        wire.send(&source);
        let (to, sink) = memory(&receive(&mut wire).expect("the sink"));
        assert_eq!(sink, length);
        wire.store(to, 0, length);
        wire.send(&source);
        rounds += 1;
    }
    assert_eq!(rounds, ROUNDS);
}

/// Runs both ends in this process.
fn both(near: &AnyDevice, far: &AnyDevice) {
    let (announce, announced) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let acceptor = Acceptor::new(far, SocketAddr::from(([127, 0, 0, 1], 0)));
            announce.send(acceptor.address).unwrap();
            server(acceptor);
        });
        client(near, announced.recv().unwrap());
    });
}

#[test]
fn on_the_software_fabric() {
    let fabric = Fabric::new();
    both(&fabric.device().into(), &fabric.device().into());
}

#[test]
fn over_iwarp() {
    both(
        &IwarpDevice::default().into(),
        &IwarpDevice::default().into(),
    );
}

#[test]
fn with_the_program() {
    let Ok(role) = std::env::var("RPCRDMA_RPING") else {
        println!("RPCRDMA_RPING names no role");
        return;
    };
    let variable = |name| std::env::var(name).unwrap();
    let device = device_source::open(&variable("RPCRDMA_DEVICE"));
    let address: IpAddr = variable("RPCRDMA_ADDRESS").parse().unwrap();
    let address = SocketAddr::new(address, PORT);
    match role.as_str() {
        "client" => client(&device, address),
        "server" => server(Acceptor::new(&device, address)),
        other => panic!("{other} is neither client nor server"),
    }
}
