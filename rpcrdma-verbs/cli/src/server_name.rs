//! Servers by name or address, as arguments.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
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
        let named = |host: &str, port| Self {
            host: host.to_owned(),
            port,
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(named(&address.ip().to_string(), Some(address.port())));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Ok(named(text, None));
        }
        let wrong = || format!("{text} is not a host, like server, server:20049, 192.0.2.1 or ::1");
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(named(host, port))
    }
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
    use super::HostPort;

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
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_resolved() {
        let resolve = |text: &str| text.parse::<HostPort>()?.resolve(20_049);
        assert_eq!(resolve("localhost"), Ok(([127, 0, 0, 1], 20_049).into()));
        assert_eq!(resolve("127.0.0.1:7"), Ok(([127, 0, 0, 1], 7).into()));
        assert!(resolve("no-such-host.invalid").is_err());
    }
}
