//! `--rpcbind`: registers the server's addresses with the rpcbind of this host.
//!
//! `of` relies on the order of `RunningServers::local_addrs`, which is that of `serve`: TCP first.
//! rpcbind may take seconds to reply, or not reply at all. So `of` and `end` call it on a thread
//! that may block: the thread of the command also serves TCP connections. A failed registration is
//! printed, and does not end the server.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use rpcrdma_nfs::{Rpcbind, RpcbindEntry, RpcbindTransport};
use tokio::task::spawn_blocking;

/// The programs and versions of NFS and MOUNT (RFC 1813, sections 2 and 5.1.2).
const NFS: (u32, u32) = (100_003, 3);
const MOUNT: (u32, u32) = (100_005, 3);

/// The registered entries, until [`end`](Self::end) removes them.
pub(super) struct Registration {
    rpcbind: Rpcbind,
    entries: Vec<RpcbindEntry>,
}

/// Returns the addresses to register for a listening address: a socket at `::` also serves IPv4
/// clients.
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
    /// Registers a server that listens at addresses: over TCP, and over RDMA if there is a second
    /// one. Prints the error if that fails; clients that know the ports need no rpcbind.
    pub(super) async fn of(listening: &[SocketAddr]) -> Self {
        let entries = match listening {
            [tcp, rdma @ ..] => entries(*tcp, rdma.first().copied()),
            [] => Vec::new(),
        };
        Self::register(Rpcbind::of_host(), entries).await
    }

    async fn register(rpcbind: Rpcbind, entries: Vec<RpcbindEntry>) -> Self {
        let mut new = Self { rpcbind, entries };
        let (rpcbind, entries) = (new.rpcbind.clone(), new.entries.clone());
        let registered = spawn_blocking(move || rpcbind.register(&entries)).await;
        let error: Option<Box<dyn Error>> = match registered {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.into()),
            Err(panicked) => Some(panicked.into()),
        };
        if let Some(error) = error {
            eprintln!("rpcrdma: not registered: {error}");
            new.entries.clear();
        }
        new
    }

    /// Removes the entries.
    pub(super) async fn end(self) {
        // Entries that remain do no harm: their ports refuse clients.
        let _ = spawn_blocking(move || self.rpcbind.remove(&self.entries)).await;
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
