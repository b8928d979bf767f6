//! A client over iWARP whose connections are reset after each byte that the server sends: the
//! setup, and the first messages. The client connects again, and its call is answered.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::Block;
use rpcrdma_transport_tests::ends::{self, any_address};
use rpcrdma_transport_tests::traffic::{PATIENCE, quick, server_config};
use rpcrdma_verbs::LocalEvent;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::IwarpDevice;

/// The bytes of the server after which a connection is reset, at most: the reply of MPA has some
/// 40, and the first message follows.
const LAST: u64 = 200;

/// Forwards connections in turn: from the n-th to its client n bytes, before the client gets a
/// reset. The one after the last is forwarded until it ends.
fn start_proxy(target: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(any_address()).unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = thread::spawn(move || {
        for count in (0..=LAST).chain([u64::MAX]) {
            let (client, _) = listener.accept().unwrap();
            forward(&client, &TcpStream::connect(target).unwrap(), count);
        }
    });
    (address, proxy)
}

fn forward(mut client: &TcpStream, mut server: &TcpStream, count: u64) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    thread::scope(|scope| {
        let calls = scope.spawn(move || copy(&mut client, &mut server));
        // Errors are ends: either peer may have closed its connection.
        let _ = copy(&mut server.take(count), &mut client);
        let _ = client.shutdown(Shutdown::Read);
        let _ = calls.join();
    });
    let socket = socket2::SockRef::from(client);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_client_survives_a_reset_after_each_byte() {
    let before = descriptors();
    let (device, budget) = (IwarpDevice::default(), Budget::new(1 << 28));
    let mut far = Driver::new(&device, &budget, 4096).unwrap();
    let mut server = ends::serve(&mut far, any_address(), server_config(), &Block::default());
    let (address, proxy) = start_proxy(server.local_addr());
    let mut near = Driver::new(&device, &budget, 4096).unwrap();
    let client = ends::connect(&mut near, address, quick(Config::client()));

    let (mut call, mut lost) = (Some(client.null().begin(&mut near).unwrap()), 0);
    let mut moved = Instant::now();
    while lost <= LAST || call.is_some() {
        assert!(moved.elapsed() < PATIENCE, "stuck after {lost} resets");
        near.wait(Duration::from_micros(100)).unwrap();
        far.turn().unwrap();
        server.serve(&mut far);
        while let Some(event) = client.transport().poll_event(&mut near) {
            moved = Instant::now();
            match event {
                LocalEvent::Completed(completed) => {
                    let ended = call.take().unwrap();
                    let result = client.transport().read(&ended, &completed, |()| ());
                    result
                        .expect("it ended")
                        .expect("it is retransmitted until it is answered");
                }
                LocalEvent::Disconnected { is_final, .. } => {
                    assert!(!is_final);
                    lost += 1;
                }
                _ => {}
            }
        }
        if call.is_none() {
            call = (lost <= LAST).then(|| client.null().begin(&mut near).unwrap());
        }
    }
    assert_eq!(lost, LAST + 1);
    drop((client, near, server, far));
    proxy.join().unwrap();
    assert_eq!(budget.used(), 0);
    assert_eq!(descriptors(), before);
}
