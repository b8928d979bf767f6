//! The entry that a server registers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The transport of a service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RpcbindTransport {
    /// TCP: the netids `tcp` and `tcp6` (RFC 5665, section 5.2.2).
    Tcp,
    /// RPC-over-RDMA: the netids `rdma` and `rdma6` (RFC 8166, section 5).
    Rdma,
}

/// A version of a program, with the address at which it is served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RpcbindEntry {
    /// The program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The transport.
    pub transport: RpcbindTransport,
    /// The address: 0.0.0.0 and `::` mean every address of the host.
    pub address: SocketAddr,
}

impl RpcbindEntry {
    /// Returns the netid, which combines the transport with the address family.
    #[must_use]
    pub fn netid(&self) -> &'static str {
        match (self.transport, self.address) {
            (RpcbindTransport::Tcp, SocketAddr::V4(_)) => "tcp",
            (RpcbindTransport::Tcp, SocketAddr::V6(_)) => "tcp6",
            (RpcbindTransport::Rdma, SocketAddr::V4(_)) => "rdma",
            (RpcbindTransport::Rdma, SocketAddr::V6(_)) => "rdma6",
        }
    }

    /// Returns the universal address: the address of the host, and both bytes of the port in
    /// decimal (RFC 5665, sections 5.2.3.3 and 5.2.3.4).
    #[must_use]
    pub fn universal_address(&self) -> String {
        let (ip, [high, low]) = (self.address.ip(), self.address.port().to_be_bytes());
        format!("{ip}.{high}.{low}")
    }

    /// Returns the port if the port mapper can register the entry.
    pub(super) fn port_of_tcp(&self) -> Option<u16> {
        match (self.transport, self.address.ip()) {
            (RpcbindTransport::Tcp, IpAddr::V4(_)) => Some(self.address.port()),
            _ => None,
        }
    }
}

impl fmt::Display for RpcbindEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, version) = (self.program, self.version);
        write!(
            f,
            "program {program} version {version} for {}",
            self.netid()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn universal_addresses_are_formatted() {
        let table = [
            (RpcbindTransport::Tcp, "0.0.0.0:2049", "tcp", "0.0.0.0.8.1"),
            (
                RpcbindTransport::Tcp,
                "192.0.2.1:65535",
                "tcp",
                "192.0.2.1.255.255",
            ),
            (
                RpcbindTransport::Rdma,
                "0.0.0.0:20049",
                "rdma",
                "0.0.0.0.78.81",
            ),
            (RpcbindTransport::Rdma, "[::]:20049", "rdma6", "::.78.81"),
            (
                RpcbindTransport::Tcp,
                "[2001:db8::1]:80",
                "tcp6",
                "2001:db8::1.0.80",
            ),
        ];
        for (transport, address, netid, universal) in table {
            let entry = RpcbindEntry {
                program: 100_003,
                version: 3,
                transport,
                address: address.parse().unwrap(),
            };
            assert_eq!(
                (entry.netid(), &*entry.universal_address()),
                (netid, universal)
            );
        }
    }
}
