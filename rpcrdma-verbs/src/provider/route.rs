//! Selects the device that reaches a peer: the RDMA hardware on the route, or else iWARP over TCP.
//!
//! ```
//! use rpcrdma_verbs::provider::Device;
//! use rpcrdma_verbs::provider::route::device_towards;
//!
//! let device = device_towards(std::net::Ipv4Addr::LOCALHOST.into());
//! assert_eq!(device.capabilities().name, "iwarp");
//! ```
//!
//! The system tables (`/proc/net/route`, `/proc/net/ipv6_route`) name the network interface of a
//! route. An RDMA device is on this route if it belongs to the same hardware as the interface, or
//! as an interface below it (VLANs, bonds), and has an active port. Software devices (rxe, siw) are
//! not selected: they must be named explicitly.

use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::any::AnyDevice;
use super::iwarp::IwarpDevice;

/// Opens the device for connections to a peer: the RDMA hardware on the route, if it is usable, or
/// else iWARP over TCP. The name in its capabilities tells which one it is.
#[must_use]
pub fn device_towards(peer: IpAddr) -> AnyDevice {
    open(Host::new().device_towards(peer))
}

/// Opens the device for a server at an address: the RDMA hardware whose network has the address, if
/// it is usable, or else iWARP over TCP. For an unspecified address it is the first RDMA hardware
/// of this host.
#[must_use]
pub fn device_for_listener(address: IpAddr) -> AnyDevice {
    let host = Host::new();
    open(if address.is_unspecified() {
        host.devices().into_iter().next()
    } else {
        host.device_towards(address)
    })
}

fn open(name: Option<String>) -> AnyDevice {
    let Some(name) = name else {
        return IwarpDevice::default().into();
    };
    AnyDevice::open(&name).unwrap_or_else(|error| {
        tracing::info!(device = name, %error, "RDMA hardware is not usable: using iWARP over TCP");
        IwarpDevice::default().into()
    })
}

/// The system's tables of networks and devices.
struct Host {
    root: PathBuf,
}

/// The maximum depth of stacked interfaces.
const DEPTH: usize = 4;

impl Host {
    fn new() -> Self {
        let root = PathBuf::from("/");
        Self { root }
    }

    fn device_towards(&self, peer: IpAddr) -> Option<String> {
        let interface = self.interface_towards(peer)?;
        let hardware = self.hardware_of(&interface, DEPTH);
        let is_there = |device: &String| hardware.contains(&self.hardware(device));
        self.devices().into_iter().find(is_there)
    }

    /// Returns the interface of the route to an address, if it leaves the host.
    fn interface_towards(&self, peer: IpAddr) -> Option<String> {
        let peer = peer.to_canonical();
        if peer.is_loopback() || peer.is_unspecified() {
            return None;
        }
        let file = match peer {
            IpAddr::V4(_) => "proc/net/route",
            IpAddr::V6(_) => "proc/net/ipv6_route",
        };
        let table = std::fs::read_to_string(self.root.join(file)).ok()?;
        let routes = table.lines().filter_map(|line| match peer {
            IpAddr::V4(_) => Route::of_ipv4(line),
            IpAddr::V6(_) => Route::of_ipv6(line),
        });
        let bits = bits(peer);
        let matching = routes.filter(|route| route.matches(bits));
        // The longest prefix wins, and among equal ones the lowest metric.
        let best = matching.max_by_key(|route| (route.prefix, u32::MAX - route.metric))?;
        (best.interface != "lo").then(|| best.interface.to_owned())
    }

    /// Returns the hardware of an interface, and of those below it.
    fn hardware_of(&self, interface: &str, depth: usize) -> Vec<Option<PathBuf>> {
        let folder = self.root.join("sys/class/net").join(interface);
        let mut found = vec![std::fs::canonicalize(folder.join("device")).ok()];
        found.retain(Option::is_some);
        for name in names(&folder) {
            if let Some(lower) = name.strip_prefix("lower_").filter(|_| depth > 0) {
                found.extend(self.hardware_of(lower, depth - 1));
            }
        }
        found
    }

    fn device(&self, name: &str) -> PathBuf {
        self.root.join("sys/class/infiniband").join(name)
    }

    /// Returns the hardware of an RDMA device.
    fn hardware(&self, device: &str) -> Option<PathBuf> {
        std::fs::canonicalize(self.device(device).join("device")).ok()
    }

    /// Returns the RDMA hardware with an active port, by name.
    fn devices(&self) -> Vec<String> {
        let mut names = names(&self.root.join("sys/class/infiniband"));
        names.sort();
        names.retain(|name| self.is_usable(name));
        names
    }

    fn is_usable(&self, device: &str) -> bool {
        let folder = self.device(device);
        let line = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        // Other types, such as EFA, have no connection manager.
        let kind = line(&folder.join("node_type"));
        let has_connections = kind.starts_with("1:") || kind.starts_with("4:");
        let ports = folder.join("ports");
        let is_active = |port: &String| line(&ports.join(port).join("state")).contains("ACTIVE");
        has_connections && self.hardware(device).is_some() && names(&ports).iter().any(is_active)
    }
}

/// Returns the names in a folder, or none if it does not exist.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Returns an address as left-aligned bits, which routes compare.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A line of a routing table.
struct Route<'a> {
    interface: &'a str,
    destination: u128,
    prefix: u32,
    metric: u32,
}

impl<'a> Route<'a> {
    /// The flag of routes that reject.
    const REJECT: u32 = 0x200;
    /// The flag of routes that are up.
    const UP: u32 = 1;

    fn matches(&self, address: u128) -> bool {
        self.prefix == 0 || (self.destination ^ address) >> (128 - self.prefix) == 0
    }

    fn is_in_use(flags: u32) -> Option<()> {
        (flags & Self::UP != 0 && flags & Self::REJECT == 0).then_some(())
    }

    /// Parses a line of `/proc/net/route`: interface, destination, gateway, flags, reference count,
    /// use, metric, mask. Addresses are numbers in host byte order.
    fn of_ipv4(line: &'a str) -> Option<Self> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let &[interface, destination, _, flags, _, _, metric, mask, ..] = &fields[..] else {
            return None;
        };
        let hex = |field| u32::from_str_radix(field, 16).ok();
        Self::is_in_use(hex(flags)?)?;
        let address = |field| Some(u32::from_be_bytes(hex(field)?.to_ne_bytes()));
        Some(Self {
            interface,
            destination: u128::from(address(destination)?) << 96,
            prefix: address(mask)?.leading_ones(),
            metric: metric.parse().ok()?,
        })
    }

    /// Parses a line of `/proc/net/ipv6_route`: destination, its prefix, source, its prefix,
    /// gateway, metric, reference count, use, flags, interface.
    fn of_ipv6(line: &'a str) -> Option<Self> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let &[destination, prefix, _, _, _, metric, _, _, flags, interface] = &fields[..] else {
            return None;
        };
        let hex = |field| u32::from_str_radix(field, 16).ok();
        Self::is_in_use(hex(flags)?)?;
        let destination = u128::from_str_radix(destination, 16).ok()?;
        Some(Self {
            interface,
            destination: Ipv6Addr::from_bits(destination).to_bits(),
            prefix: hex(prefix).filter(|prefix| *prefix <= 128)?,
            metric: hex(metric)?,
        })
    }
}

#[cfg(test)]
mod tests;
