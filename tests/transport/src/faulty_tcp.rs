//! A TCP proxy that divides, delays, damages and cuts what passes through it, at random.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::random::Random;

/// The bytes at the beginning of each direction that are not damaged: no CRC protects the setup of
/// MPA.
const UNDAMAGED: usize = 2048;

/// How often something was done to a stream.
#[derive(Debug, Default)]
pub struct Injected {
    pub connections: AtomicU64,
    pub delays: AtomicU64,
    pub damages: AtomicU64,
    pub cuts: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    is_calm: AtomicBool,
    is_ended: AtomicBool,
    injected: Injected,
}

/// The proxy. Its threads end with it.
#[derive(Debug)]
pub struct FaultyTcp {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl FaultyTcp {
    /// Starts a proxy for the connections to a server.
    pub fn new(target: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target,
            is_calm: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            injected: Injected::default(),
        });
        let accepting = shared.clone();
        let acceptor = thread::spawn(move || accept(&listener, &accepting, Random(seed)));
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the faults. Streams are still divided.
    pub fn calm(&self) {
        self.shared.is_calm.store(true, Relaxed);
    }

    pub fn injected(&self) -> &Injected {
        &self.shared.injected
    }
}

impl Drop for FaultyTcp {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Relaxed);
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Connects each client to the server, with a thread for each direction.
fn accept(listener: &TcpListener, shared: &Arc<Shared>, mut random: Random) {
    let mut threads = Vec::new();
    for client in listener.incoming() {
        if shared.is_ended.load(Relaxed) {
            break;
        }
        // A server that is not there closes the client's connection.
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(shared.target)) else {
            continue;
        };
        shared.injected.connections.fetch_add(1, Relaxed);
        for (from, to) in [(&client, &server), (&server, &client)] {
            to.set_nodelay(true).unwrap();
            let streams = [from.try_clone().unwrap(), to.try_clone().unwrap()];
            let (shared, random) = (shared.clone(), Random(random.next_u64()));
            threads.push(thread::spawn(move || {
                forward(&streams, &shared, random);
                // The peer may have closed them.
                let _ = streams
                    .each_ref()
                    .map(|stream| stream.shutdown(Shutdown::Both));
            }));
        }
        threads.retain(|thread| !thread.is_finished());
    }
    // Both ends are gone, so that the threads end.
    for thread in threads {
        let _ = thread.join();
    }
}

/// Forwards one direction until it ends or is cut.
fn forward([from, to]: &[TcpStream; 2], shared: &Shared, mut random: Random) {
    let (mut from, mut to) = (from, to);
    let (mut part, mut forwarded) = (vec![0; 1 << 16], 0);
    loop {
        let most = [1, 30, 1500, part.len()][random.below(4) as usize];
        let len = match from.read(&mut part[..most]) {
            Ok(0) | Err(_) => return,
            Ok(len) => len,
        };
        let injected = &shared.injected;
        if !shared.is_calm.load(Relaxed) {
            if random.one_in(200) {
                injected.delays.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_micros(random.below(5000)));
            }
            if forwarded > UNDAMAGED && random.one_in(1000) {
                injected.damages.fetch_add(1, Relaxed);
                part[random.below(len as u64) as usize] ^= 1 << random.below(8);
            }
            if random.one_in(1000) {
                injected.cuts.fetch_add(1, Relaxed);
                // Some end within a segment, or after it.
                let _ = to.write_all(&part[..random.below(len as u64 + 1) as usize]);
                return;
            }
        }
        if to.write_all(&part[..len]).is_err() {
            return;
        }
        forwarded += len;
    }
}
