//! Peers that mean harm, over RDMA: what they take, and what others notice of them.
//!
//! They speak iWARP over TCP (RFC 5040, 5041 and 5044) and RPC-over-RDMA Version One (RFC 8166) by
//! hand: no device of ours would do what they do.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::attack::{
    self, AttackedRouter, CONNECTIONS, Heavy, LARGE, LARGE_RESULT, MIB, SLOW, Transport, hostile,
};
use crate::support::iwarp::{NONE, device, message, read_segment, send, set_up};
use crate::support::tcp::{fail_call, get_call, put_call};
use crate::support::{put, run, until};
use kv1::Client;
use oncrpc::{Channel, Limit, Router, ServerControl, ServerLimits, ServerStats};
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::{ClientConfig, ServerConfig, channel, run_server};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Registered memory of the server.
const MEMORY: usize = 32 * MIB;

#[derive(Clone, Copy)]
struct Iwarp;

impl Transport for Iwarp {
    // The runtime, the other client, and the lists of what is open. Registered memory, which has a
    // limit of its own, is no part of the heap.
    const FIXED: usize = MIB;

    async fn serve(
        self,
        router: AttackedRouter,
        control: ServerControl,
        bound: mpsc::Sender<SocketAddr>,
    ) {
        let config = ServerConfig::new().memory(MEMORY).control(&control);
        let any = "127.0.0.1:0".parse().unwrap();
        let bound = |address| bound.send(address).unwrap();
        let (device, never) = (device(), std::future::pending());
        let ended = run_server(&device, any, config, router, bound, never);
        ended.await.unwrap();
    }

    async fn connect(self, server: SocketAddr) -> Channel {
        let (channel, runner) = channel(&device(), server, ClientConfig::new());
        tokio::spawn(runner);
        channel
    }
}

fn attack<F: Future<Output = ()>>(
    limit: Limit,
    attacks: impl Fn(SocketAddr) -> F + Clone + Send + 'static,
    is_up: impl Fn(&ServerStats, u64) -> bool,
) {
    attack::attack(Iwarp, limit, attacks, is_up);
}

/// Calls of each connection: fewer than the server grants.
const CALLS: u32 = 24;

/// A connection whose peer does as it likes after its first call.
async fn established(server: SocketAddr) -> Option<TcpStream> {
    let mut stream = hostile(server).await;
    if !set_up(&mut stream).await {
        return None;
    }
    stream
        .write_all(&send(1, &message(&fail_call(new_xid(), 9), &NONE)))
        .await
        .unwrap();
    // The reply grants more than one credit.
    read_segment(&mut stream).await.ok()?;
    Some(stream)
}

/// Returns an XID that no other call has: one that came again would be answered by the reply cache.
fn new_xid() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Opens all connections, and sends so many calls on each.
async fn flood(server: SocketAddr, call: impl Fn(u32) -> Vec<u8>) {
    let opening: Vec<_> = (0..CONNECTIONS)
        .map(|_| tokio::spawn(established(server)))
        .collect();
    let mut open = Vec::new();
    for opened in opening {
        open.extend(opened.await.unwrap());
    }
    for stream in &mut open {
        send_calls(stream, &call).await;
    }
    std::future::pending().await
}

async fn send_calls(stream: &mut TcpStream, call: impl Fn(u32) -> Vec<u8>) {
    let calls: Vec<u8> = (2..2 + CALLS)
        .flat_map(|number| send(number, &call(new_xid())))
        .collect();
    // The server may stop reading, or close the connection.
    let _ = tokio::time::timeout(Duration::from_millis(1), stream.write_all(&calls)).await;
}

/// Opens 1,000 connections each time, some at once: 10,000 in all. As many as the server accepts
/// stay open.
async fn connect_often(server: SocketAddr) {
    let mut open = Vec::new();
    for _ in 0..100 {
        let opening: Vec<_> = (0..10)
            .map(|_| {
                tokio::spawn(async move {
                    let mut stream = hostile(server).await;
                    set_up(&mut stream).await.then_some(stream)
                })
            })
            .collect();
        for opened in opening {
            open.extend(opened.await.unwrap());
        }
        // The other end of these connections has the same processors.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    std::future::pending().await
}

#[test]
fn many_connections() {
    attack(
        Limit::ConnectionsPerPeer,
        connect_often,
        |stats, reached| stats.connections > CONNECTIONS && reached > 0,
    );
}

/// Returns a call whose result the server is to write to memory of the peer.
fn large_get(xid: u32) -> Vec<u8> {
    let room = u32::try_from(LARGE_RESULT + 1024).unwrap();
    // A Reply chunk of one segment.
    message(&get_call(xid, LARGE), &[0, 0, 1, 1, 7, room, 0, 0])
}

/// Asks for many results on each connection, and reads none. The system buffers a part of them.
async fn never_read(server: SocketAddr) {
    flood(server, large_get).await;
}

#[test]
fn peers_that_never_read() {
    // Connections whose replies have too much of the memory are closed.
    attack(Limit::BytesPerPeer, never_read, |_, reached| reached > 0);
}

/// Calls what never returns.
async fn call_for_ever(server: SocketAddr) {
    flood(server, |xid| message(&fail_call(xid, 3), &NONE)).await;
}

#[test]
fn handlers_that_never_end() {
    attack(Limit::CallsPerPeer, call_for_ever, |stats, _| {
        stats.calls_in_flight >= 200
    });
}

/// Returns a call whose argument is to be read from memory that never answers.
fn half_a_call(xid: u32) -> Vec<u8> {
    let mut call = put_call(xid, b'a');
    let position = u32::try_from(call.len()).unwrap();
    call.truncate(call.len() - 4);
    call.extend(u32::to_be_bytes(1 << 20));
    // One Read segment of 1 MiB behind the length of the value.
    message(&call, &[1, position, 7, 1 << 20, 0, 0, 0, 0, 0])
}

async fn send_half(server: SocketAddr) {
    flood(server, half_a_call).await;
}

/// Sends halves of calls again and again, over other connections: the server closes those whose
/// calls would have too much of its memory.
async fn send_half_again(server: SocketAddr) {
    let mut open = VecDeque::new();
    loop {
        if let Some(mut stream) = established(server).await {
            send_calls(&mut stream, half_a_call).await;
            open.push_back(stream);
        }
        if open.len() >= CONNECTIONS / 2 {
            open.pop_front();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn peers_that_send_half_a_call() {
    // Connections whose calls would have too much of the memory are closed.
    attack(Limit::BytesPerPeer, send_half, |_, reached| reached > 0);
}

#[test]
fn peers_that_send_half_a_call_again() {
    attack(Limit::BytesPerPeer, send_half_again, |_, reached| {
        reached > 0
    });
}

/// Sends half of one call on each of many connections, again and again: what the server has for one
/// more is taken at once.
async fn take_all_memory(server: SocketAddr) {
    let mut open = Vec::new();
    loop {
        if let Some(mut stream) = established(server).await {
            let call = send(2, &half_a_call(new_xid()));
            stream.write_all(&call).await.unwrap();
            open.push(stream);
        }
        if open.len() >= CONNECTIONS - 10 {
            // Of a connection that stays open there is nothing to read but the first segment of a
            // Read Request.
            open.retain(|stream| match stream.try_read(&mut [0; 64]) {
                Ok(read) => read > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Serves on a thread of its own, until the test ends.
fn serve(limits: ServerLimits) -> (ServerControl, SocketAddr) {
    let control = ServerControl::new(limits);
    let (bound, address) = mpsc::channel();
    let controlled = control.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let router = Router::new().add_service(kv1::serve(Heavy));
        runtime.block_on(Iwarp.serve(router, controlled, bound));
    });
    (control, address.recv().unwrap())
}

/// Calls of another client that are as large find memory.
#[test]
fn calls_that_do_not_arrive_leave_memory_to_others() {
    let limits = ServerLimits::new()
        .max_connections_per_peer(CONNECTIONS)
        .max_bytes_per_peer(8 * MIB);
    let (control, address) = serve(limits);
    run(async {
        let kv = Client::new(Iwarp.connect(address).await);
        let attack = tokio::spawn(take_all_memory(address));
        // The calls of so many connections have more than there is.
        until(|| control.stats().accepted > 150).await;
        assert!(control.stats().reached(Limit::BytesPerPeer) > 0);
        for _ in 0..20 {
            kv.put(&put("a", vec![7; MIB])).await.unwrap();
        }
        attack.abort();
    });
}

/// Neither a call that does not arrive nor a reply that is not read has its connection for longer
/// than it may. A handler that takes longer is no transfer.
#[test]
fn transfers_end_in_time() {
    let time = Duration::from_millis(700);
    let (control, address) = serve(ServerLimits::new().transfer_time(Some(time)));
    run(async {
        let kv = Client::new(Iwarp.connect(address).await);
        kv.put(&put(SLOW, vec![7; MIB])).await.unwrap();
        assert_eq!(control.stats().reached(Limit::TransferTime), 0);
        for (number, call) in [(1, half_a_call as fn(u32) -> Vec<u8>), (2, large_get)] {
            let mut stream = established(address).await.unwrap();
            let begun = Instant::now();
            send_calls(&mut stream, call).await;
            until(|| control.stats().reached(Limit::TransferTime) == number).await;
            assert!(begun.elapsed() >= time);
            until(|| control.stats().connections == 1).await;
        }
        kv.put(&put(SLOW, vec![7; MIB])).await.unwrap();
        assert_eq!(control.stats().reached(Limit::TransferTime), 2);
    });
}
