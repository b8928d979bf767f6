//! `--rpcbind`: registers the server's addresses with the rpcbind of this host.
//!
//! `of` relies on the order of `RunningServers::local_addrs`, which is that of `serve`: TCP first.
//! Both `of` and dropping the value block the thread, also for the TCP connections that it serves.
//! A failed registration is printed, and does not end the server.

use std::net::{Ipv4Addr, SocketAddr};

use rpcrdma_nfs::{Rpcbind, RpcbindEntry, RpcbindTransport};

/// The programs and versions of NFS and MOUNT (RFC 1813, sections 2 and 5.1.2).
const NFS: (u32, u32) = (100_003, 3);
const MOUNT: (u32, u32) = (100_005, 3);

/// The registered entries. Dropping this value removes them.
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
    pub(super) fn of(listening: &[SocketAddr]) -> Self {
        let entries = match listening {
            [tcp, rdma @ ..] => entries(*tcp, rdma.first().copied()),
            [] => Vec::new(),
        };
        let rpcbind = Rpcbind::of_host();
        match rpcbind.register(&entries) {
            Ok(()) => Self { rpcbind, entries },
            Err(error) => {
                eprintln!("rpcrdma: not registered: {error}");
                Self {
                    rpcbind,
                    entries: Vec::new(),
                }
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.rpcbind.remove(&self.entries);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
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
}
