//! Networks of clients, with which `Export::admits` compares the address of each call.
//!
//! The first address of a [`Network`] has no bits set beyond the prefix. `contains` treats an
//! IPv4-mapped IPv6 address as IPv4, so a network within `::ffff:0:0/96` contains no address.
//! MOUNT's list of exports, `--network` and the configuration file of `rpcrdma nfs serve` have
//! networks as text.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network of clients: the addresses with a common prefix.
///
/// ```
/// use rpcrdma_nfs::Network;
///
/// let network: Network = "192.0.2.0/24".parse()?;
/// assert!(network.contains([192, 0, 2, 7].into()));
/// assert!(!network.contains([192, 0, 3, 7].into()));
/// let host: Network = "2001:db8::1".parse()?;
/// assert_eq!(host.to_string(), "2001:db8::1");
/// # Ok::<(), rpcrdma_nfs::NetworkError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// Why a text is not a [`Network`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NetworkError {
    /// The text has no IPv4 or IPv6 address.
    Address,
    /// The number of bits is not a number, or is larger than 32 (IPv4) or 128 (IPv6).
    Bits,
    /// The address has bits beyond those of the network: 192.0.2.1/24 is ambiguous.
    HostBits,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "no address of IPv4 or IPv6, like 192.0.2.0/24 or 2001:db8::1",
            Self::Bits => "no number of bits of a network: at most 32 for IPv4, and 128 for IPv6",
            Self::HostBits => "the address has bits beyond those of the network",
        })
    }
}

impl std::error::Error for NetworkError {}

/// The bits before the address of IPv4 in an IPv4-mapped address of IPv6.
const MAPPED_BITS: u8 = 96;

/// Returns the bits of an address, left-aligned, and their number.
fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// Returns a mask of the upper bits.
fn mask(bits: u8) -> u128 {
    // A shift by 128 would overflow.
    u128::MAX
        .checked_shl(128 - u32::from(bits.min(128)))
        .unwrap_or(0)
}

impl Network {
    /// Every IPv4 address.
    pub const ALL_V4: Self = Self {
        first: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        bits: 0,
    };
    /// Every IPv6 address.
    pub const ALL_V6: Self = Self {
        first: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        bits: 0,
    };

    /// Creates a network from its first address and the number of bits that all of its addresses
    /// share.
    ///
    /// # Errors
    /// Returns an error if there are more bits than an address has, or if the first address has
    /// other bits set.
    pub fn new(first: IpAddr, bits: u8) -> Result<Self, NetworkError> {
        let (value, len) = bits_of(first);
        if bits > len {
            return Err(NetworkError::Bits);
        }
        if value & !mask(bits) != 0 {
            return Err(NetworkError::HostBits);
        }
        let canonical = first.to_canonical();
        Ok(match bits.checked_sub(MAPPED_BITS) {
            Some(bits) if canonical.is_ipv4() && first.is_ipv6() => Self {
                first: canonical,
                bits,
            },
            _ => Self { first, bits },
        })
    }

    /// Returns true if an address is in the network, which may also be written with IPv4-mapped
    /// addresses. An IPv4-mapped IPv6 address
    /// (`::ffff:192.0.2.1`), which a dual-stack socket returns, is treated as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (address, len) = bits_of(address.to_canonical());
        let (first, own_len) = bits_of(self.first);
        len == own_len && (address ^ first) & mask(self.bits) == 0
    }
}

/// A network of one address.
impl From<IpAddr> for Network {
    fn from(first: IpAddr) -> Self {
        let first = first.to_canonical();
        let (_, bits) = bits_of(first);
        Self { first, bits }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| NetworkError::Address)?;
        match bits {
            Some(bits) => Self::new(first, bits.parse().map_err(|_| NetworkError::Bits)?),
            None => Ok(first.into()),
        }
    }
}

/// A network of one address is written as the address alone.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits == bits_of(self.first).1 {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Result<Network, NetworkError> {
        text.parse()
    }

    #[test]
    fn networks_are_parsed() {
        let table = [
            ("192.0.2.0/24", Ok("192.0.2.0/24")),
            ("192.0.2.1", Ok("192.0.2.1")),
            ("192.0.2.1/32", Ok("192.0.2.1")),
            ("0.0.0.0/0", Ok("0.0.0.0/0")),
            ("::/0", Ok("::/0")),
            ("2001:db8::/33", Ok("2001:db8::/33")),
            ("2001:db8::1/128", Ok("2001:db8::1")),
            ("::ffff:192.0.2.1", Ok("192.0.2.1")),
            ("::ffff:192.0.2.0/120", Ok("192.0.2.0/24")),
            ("192.0.2.1/24", Err(NetworkError::HostBits)),
            ("::1/0", Err(NetworkError::HostBits)),
            ("192.0.2.0/33", Err(NetworkError::Bits)),
            ("::/129", Err(NetworkError::Bits)),
            ("192.0.2.0/", Err(NetworkError::Bits)),
            ("192.0.2.0/-1", Err(NetworkError::Bits)),
            ("192.0.2/24", Err(NetworkError::Address)),
            ("*", Err(NetworkError::Address)),
            ("", Err(NetworkError::Address)),
        ];
        for (text, expected) in table {
            let read = network(text).map(|network| network.to_string());
            assert_eq!(read, expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_network_contains_its_address_range() {
        let table = [
            ("192.0.2.0/25", "192.0.2.0", true),
            ("192.0.2.0/25", "192.0.2.127", true),
            ("192.0.2.0/25", "192.0.2.128", false),
            ("192.0.2.0/25", "192.0.1.255", false),
            ("192.0.2.0/25", "::ffff:192.0.2.1", true),
            ("192.0.2.0/25", "::192.0.2.1", false),
            ("::ffff:192.0.2.0/121", "192.0.2.1", true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1", true),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/127", "2001:db8::1", true),
            ("2001:db8::/127", "2001:db8::2", false),
        ];
        for (text, address, expected) in table {
            let contains = network(text).unwrap().contains(address.parse().unwrap());
            assert_eq!(contains, expected, "{address} in {text}");
        }
    }
}
