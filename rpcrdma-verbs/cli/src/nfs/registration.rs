//! `--rpcbind`: registers the server's addresses with the rpcbind of this host.
//!
//! This module owns the list of registered entries, from `new` until `end`: without `end`, the
//! entries stay. NFS is registered for each transport, and MOUNT for TCP. `serve` relies on this:
//!
//! - A failed registration is printed, and the server continues without it.
//! - The thread of the command serves TCP connections while rpcbind does not reply: each call of
//!   rpcbind blocks another thread, one of tokio's blocking pool.
//! - `end` returns soon even if rpcbind does not reply. The calls of clients drain after it.
//!
//! `Rpcbind` owns the protocol, the timeouts of its calls, and the undoing of a partial
//! registration.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rpcrdma_nfs::{Rpcbind, RpcbindEntry, RpcbindTransport};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::serve::GRACE;

/// The programs and versions of NFS and MOUNT (RFC 1813, sections 2 and 5.1.2).
const NFS: (u32, u32) = (100_003, 3);
const MOUNT: (u32, u32) = (100_005, 3);

/// The time limit of [`Registration::end`]. The rest of `GRACE` is for the calls of clients.
const END_TIMEOUT: Duration = Duration::from_secs(GRACE.as_secs() / 2);

/// The registered entries. The list is empty after a failed registration.
pub(super) struct Registration {
    rpcbind: Rpcbind,
    entries: Vec<RpcbindEntry>,
}

/// Returns the addresses to register for a listening address. A socket at `::` also serves IPv4
/// clients, and has two.
fn addresses(listening: SocketAddr) -> Vec<SocketAddr> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, listening.port()));
    match listening {
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => vec![listening, any],
        _ => vec![listening],
    }
}

/// Returns the entries of a server: MOUNT over TCP, and NFS over each transport.
fn entries(tcp: SocketAddr, rdma: Option<SocketAddr>) -> Vec<RpcbindEntry> {
    let rows = [
        (NFS, RpcbindTransport::Tcp, Some(tcp)),
        (MOUNT, RpcbindTransport::Tcp, Some(tcp)),
        (NFS, RpcbindTransport::Rdma, rdma),
    ];
    let mut entries = Vec::new();
    for ((program, version), transport, listening) in rows {
        let addresses = listening.into_iter().flat_map(addresses);
        entries.extend(addresses.map(|address| RpcbindEntry {
            program,
            version,
            transport,
            address,
        }));
    }
    entries
}

impl Registration {
    /// Registers a server by its listening addresses, in the order of
    /// `RunningServers::local_addrs`: the first one is that of TCP, and the second one, if there is
    /// one, that of RDMA. Prints the error if that fails: clients that know the ports need no
    /// rpcbind.
    pub(super) async fn new(listening: &[SocketAddr]) -> Self {
        let entries = match listening {
            [tcp, rdma @ ..] => entries(*tcp, rdma.first().copied()),
            [] => Vec::new(),
        };
        Self::register(Rpcbind::of_host(), entries).await
    }

    async fn register(rpcbind: Rpcbind, entries: Vec<RpcbindEntry>) -> Self {
        let mut registration = Self { rpcbind, entries };
        let (rpcbind, entries) = (registration.rpcbind.clone(), registration.entries.clone());
        let registered = spawn_blocking(move || rpcbind.register(&entries)).await;
        let error: Option<Box<dyn Error>> = match registered {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.into()),
            Err(panicked) => Some(panicked.into()),
        };
        if let Some(error) = error {
            eprintln!("rpcrdma: not registered: {error}");
            registration.entries.clear();
        }
        registration
    }

    /// Removes the entries. If rpcbind does not reply in time, the removal continues while the
    /// server drains, and ends with the process. Clients then find a port that refuses connections.
    pub(super) async fn end(self) {
        self.end_within(END_TIMEOUT).await;
    }

    async fn end_within(self, limit: Duration) {
        let removed = spawn_blocking(move || self.rpcbind.remove(&self.entries));
        if timeout(limit, removed).await.is_err() {
            eprintln!("rpcrdma: rpcbind does not reply: the entries may remain");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_dual_stack_socket_is_registered_for_both_families() {
        let of = |tcp: &str, rdma: Option<&str>| {
            let entries = entries(tcp.parse().unwrap(), rdma.map(|rdma| rdma.parse().unwrap()));
            let entry = |entry: RpcbindEntry| (entry.program, entry.netid());
            entries.into_iter().map(entry).collect::<Vec<_>>()
        };
        let v4 = [(100_003, "tcp"), (100_005, "tcp")];
        assert_eq!(of("0.0.0.0:2049", None), v4);
        let rdma = [&v4[..], &[(100_003, "rdma")]].concat();
        assert_eq!(of("192.0.2.1:2049", Some("0.0.0.0:20049")), rdma);
        let tcp6 = [(100_003, "tcp6"), (100_005, "tcp6")];
        assert_eq!(of("[2001:db8::1]:2049", None), tcp6);
        let both = [
            (100_003, "tcp6"),
            (100_003, "tcp"),
            (100_005, "tcp6"),
            (100_005, "tcp"),
        ];
        assert_eq!(of("[::]:2049", None), both);
        let rdma = [&both[..], &[(100_003, "rdma6"), (100_003, "rdma")]].concat();
        assert_eq!(of("[::]:2049", Some("[::]:20049")), rdma);
    }

    /// An rpcbind that accepts a call and does not reply.
    #[tokio::test]
    async fn the_end_does_not_wait_for_a_reply() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpcbind = Rpcbind::at(listener.local_addr().unwrap());
        let entries = entries("0.0.0.0:2049".parse().unwrap(), None);
        let registration = Registration { rpcbind, entries };
        let (end, ended) = mpsc::channel();
        let fake = std::thread::spawn(move || {
            let stream = listener.accept().unwrap();
            // Without a limit, the removal waits until the connection ends.
            let is_ended = ended.recv_timeout(Duration::from_secs(3)).is_ok();
            drop(stream);
            is_ended
        });
        registration.end_within(Duration::from_millis(20)).await;
        let _ = end.send(());
        assert!(fake.join().unwrap());
    }

    /// An rpcbind whose replies wait for another task of the runtime's only thread.
    #[tokio::test]
    async fn other_tasks_run_meanwhile() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpcbind = Rpcbind::at(listener.local_addr().unwrap());
        let (run, ran) = mpsc::channel();
        let fake = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut mark = [0; 4];
                stream.read_exact(&mut mark).unwrap();
                let length = u32::from_be_bytes(mark) & 0x7fff_ffff;
                let mut call = vec![0; length as usize];
                stream.read_exact(&mut call).unwrap();
                ran.recv().unwrap();
                // SET and UNSET return true.
                let reply = [0x8000_001c, 1, 1, 0, 0, 0, 0, 1].map(u32::to_be_bytes);
                stream.write_all(&reply.concat()).unwrap();
            }
        });
        let go = |run: mpsc::Sender<()>| tokio::spawn(async move { run.send(()).unwrap() });
        let entry = entries("0.0.0.0:2049".parse().unwrap(), None).remove(0);
        go(run.clone());
        let registration = Registration::register(rpcbind, vec![entry]).await;
        assert_eq!(registration.entries, [entry]);
        go(run);
        registration.end().await;
        fake.join().unwrap();
    }
}
