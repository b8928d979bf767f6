//! Servers by name or address, as arguments.

use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

/// The default port of the metrics of a server: that of OpenTelemetry's exporters for Prometheus.
pub(crate) const METRICS_PORT: u16 = 9464;

/// A host with or without a port: a name, or an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostPort {
    host: String,
    port: Option<u16>,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not a host, like server, server:20049, 192.0.2.1 or ::1");
        let (host, port) = host_and_port(text).ok_or_else(wrong)?;
        let port = port.map(str::parse).transpose().map_err(|_| wrong())?;
        let host = host.to_owned();
        Ok(Self { host, port })
    }
}

/// Splits a host from its port. An address of IPv6 with a port is in brackets.
fn host_and_port(text: &str) -> Option<(&str, Option<&str>)> {
    if is_ipv6(text) {
        return Some((text, None));
    }
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(host, _)| is_ipv6(host))?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest {
        "" => None,
        rest => Some(rest.strip_prefix(':')?),
    };
    (is_ipv6(host) || is_name(host)).then_some((host, port))
}

/// Returns true for an address of IPv6, with or without a zone: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "eth0"));
    address.parse::<Ipv6Addr>().is_ok() && is_name(zone)
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    !text.is_empty() && text.chars().all(is_part)
}

impl HostPort {
    /// Returns the address of the server, with the default port if it has none or port 0. IPv4 is
    /// preferred if the name has addresses of both families.
    pub(crate) fn resolve(&self, default_port: u16) -> Result<SocketAddr, String> {
        let port = self.port.filter(|port| *port != 0).unwrap_or(default_port);
        let found = (self.host.as_str(), port).to_socket_addrs();
        let found: Vec<_> = found
            .map_err(|error| format!("{}: {error}", self.host))?
            .collect();
        let best = found.iter().find(|address| address.is_ipv4());
        let best = best.or(found.first());
        best.copied()
            .ok_or_else(|| format!("{} has no address", self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_parsed() {
        for (text, host, port) in [
            ("server", "server", None),
            ("server:7", "server", Some(7)),
            ("nfs-1.example.org", "nfs-1.example.org", None),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:7", "192.0.2.1", Some(7)),
            ("::1", "::1", None),
            ("[::1]:7", "::1", Some(7)),
            ("[::1]", "::1", None),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%2]:7", "fe80::1%2", Some(7)),
        ] {
            let host = host.to_owned();
            assert_eq!(text.parse(), Ok(HostPort { host, port }), "{text}");
        }
        for text in [
            "",
            ":7",
            "server:",
            "server:x",
            "server:70000",
            "a b",
            "server:/path",
            "[::1",
            "[::1]7",
            "[server]:7",
            "fe80::1%",
            "fe80::1%a b",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_resolved() {
        let resolve = |text: &str| text.parse::<HostPort>()?.resolve(20_049);
        assert_eq!(resolve("localhost"), Ok(([127, 0, 0, 1], 20_049).into()));
        assert_eq!(resolve("127.0.0.1:7"), Ok(([127, 0, 0, 1], 7).into()));
        // The zone is the number of an interface.
        let SocketAddr::V6(address) = resolve("[fe80::1%1]:7").unwrap() else {
            panic!("it is an address of IPv6");
        };
        assert_eq!((address.port(), address.scope_id()), (7, 1));
        assert!(resolve("no-such-host.invalid").is_err());
    }
}
