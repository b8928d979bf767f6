//! Peers that mean harm, over TCP: what they take, and what others notice of them.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::attack::{
    self, AttackedRouter, CONNECTIONS, MIB, Transport, hostile, try_hostile,
};
use crate::support::tcp::{fail_call, get_call, send_record};
use oncrpc::tcp::{Server, connect};
use oncrpc::{Channel, Limit, ServerControl, ServerStats};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[derive(Clone, Copy)]
struct Tcp;

impl Transport for Tcp {
    // The runtime, the other client, and the lists of what is open.
    const FIXED: usize = MIB;

    async fn serve(
        self,
        router: AttackedRouter,
        control: ServerControl,
        bound: mpsc::Sender<SocketAddr>,
    ) {
        let server = Server::bind("127.0.0.1:0", router).await.unwrap();
        bound.send(server.local_addr().unwrap()).unwrap();
        server.control(&control).run().await;
    }

    async fn connect(self, server: SocketAddr) -> Channel {
        connect(&server.to_string()).await.unwrap()
    }
}

fn attack<F: Future<Output = ()>>(
    limit: Limit,
    attacks: impl Fn(SocketAddr) -> F + Clone + Send + 'static,
    is_up: impl Fn(&ServerStats, u64) -> bool,
) {
    attack::attack(Tcp, limit, attacks, is_up);
}

/// Opens 1,000 connections each time: 10,000 in all. As many as the server accepts stay open.
async fn connect_often(server: SocketAddr) {
    let mut open = Vec::new();
    let mut count = 0;
    loop {
        let connected = try_hostile(server).await;
        count += 1;
        let is_rejected = open.len() >= CONNECTIONS;
        match connected {
            Ok(stream) if !is_rejected => {
                open.push(stream);
                continue;
            }
            Ok(mut stream) => assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0),
            // The server may close the connection before it is set up.
            Err(error) if is_rejected && error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("connection {count}: {error}"),
        }
        if count >= 1000 {
            return std::future::pending().await;
        }
        if count % 10 == 0 {
            // The other end of these connections has the same processors.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[test]
fn many_connections() {
    attack(
        Limit::ConnectionsPerPeer,
        connect_often,
        |stats, reached| stats.connections > CONNECTIONS && reached > 0,
    );
}

/// Asks for many results on each connection, and reads none.
async fn never_read(server: SocketAddr) {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = hostile(server).await;
        let calls = async {
            for xid in 0..1000 {
                send_record(&mut stream, &get_call(xid, b'a')).await;
            }
        };
        // The server stops reading.
        let _ = tokio::time::timeout(Duration::from_millis(1), calls).await;
        open.push(stream);
    }
    std::future::pending().await
}

#[test]
fn peers_that_never_read() {
    attack(Limit::BytesPerPeer, never_read, |stats, _| {
        stats.connections > CONNECTIONS && stats.bytes >= 7 * MIB
    });
}

/// Sends all of a long call but its last byte, on each connection.
async fn send_half(server: SocketAddr) {
    let half = vec![0; MIB];
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let (mut stream, half) = (hostile(server).await, half.clone());
        tasks.push(tokio::spawn(async move {
            stream.write_all(&[0x80, 0x10, 0, 1]).await.unwrap();
            stream.write_all(&half).await.unwrap();
            std::future::pending::<()>().await;
        }));
    }
    std::future::pending().await
}

#[test]
fn peers_that_send_half_a_call() {
    attack(Limit::BytesPerPeer, send_half, |stats, _| {
        stats.connections > CONNECTIONS && stats.bytes >= 7 * MIB
    });
}

/// Calls what never returns.
async fn call_for_ever(server: SocketAddr) {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = hostile(server).await;
        for xid in 0..20 {
            send_record(&mut stream, &fail_call(xid, 3)).await;
        }
        open.push(stream);
    }
    std::future::pending().await
}

#[test]
fn handlers_that_never_end() {
    attack(Limit::CallsPerPeer, call_for_ever, |stats, _| {
        stats.calls_in_flight >= 200
    });
}
