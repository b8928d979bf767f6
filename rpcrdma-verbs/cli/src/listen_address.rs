//! The address of a listener, as an argument: each part may be left out.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An address with or without a port, or a port alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListenAddress {
    ip: Option<IpAddr>,
    port: Option<u16>,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let (ip, port) = (Some(address.ip()), Some(address.port()));
            return Ok(Self { ip, port });
        }
        if let Ok(port) = text.parse() {
            let (ip, port) = (None, Some(port));
            return Ok(Self { ip, port });
        }
        let brackets = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let ip = match brackets {
            Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::V6),
            None => text.parse(),
        };
        let examples = "192.0.2.1, 192.0.2.1:20049, [2001:db8::1]:20049 or 20049";
        let ip = ip.map_err(|_| format!("{text} is not an address, like {examples}"))?;
        Ok(Self {
            ip: Some(ip),
            port: None,
        })
    }
}

impl ListenAddress {
    /// Returns the address, with these parts where it has none. Port 0 is a part: it selects a free
    /// port.
    pub(crate) fn or(self, ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
        let ip = self.ip.unwrap_or_else(|| ip.into());
        SocketAddr::new(ip, self.port.unwrap_or(port))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn missing_parts_are_added() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:2049"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("192.0.2.1:0", "192.0.2.1:0"),
            ("::1", "[::1]:2049"),
            ("[::1]", "[::1]:2049"),
            ("[::1]:7", "[::1]:7"),
            ("7", "127.0.0.1:7"),
            ("0", "127.0.0.1:0"),
        ] {
            let parsed: ListenAddress = text.parse().unwrap();
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(parsed.or(Ipv4Addr::LOCALHOST, 2049), address, "{text}");
        }
        for text in [
            "",
            "nowhere",
            "70000",
            "-1",
            "192.0.2.1:",
            ":7",
            "[192.0.2.1]",
            "[::1",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains("is not an address"), "{text}: {error}");
        }
    }
}
