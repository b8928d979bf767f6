//! Parses frames as UDP and TCP packets.
//!
//! `payload` may be shorter than `length`, because a capture can cut frames: `roce` and `tcp`
//! report the difference as a loss. Padding of a frame is removed by the length in the IP header.
//! Parsers of other modules use [`Bytes`], which never reads beyond its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use pcap_parser::Linktype;

use super::file::Frame;

const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The length of a TCP header without options.
const TCP_HEADER: usize = 20;

/// A UDP or TCP packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) transport: Transport,
    /// The captured part of the payload.
    pub(super) payload: &'a [u8],
    /// The length of the payload on the wire.
    pub(super) length: usize,
}

/// The UDP or TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    Udp,
    Tcp(TcpHeader),
}

/// A TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TcpHeader {
    pub(super) sequence: u32,
    /// The acknowledgement number.
    pub(super) acknowledged: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) reset: bool,
}

/// Bytes that are read from the front. The methods return `None` at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads 24 bits.
    pub(super) fn u24(&mut self) -> Option<u32> {
        self.array()
            .map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
}

/// What precedes the IP packet in a frame.
enum LinkHeader {
    Ethernet,
    /// "Cooked" captures of Linux, of all interfaces: two versions.
    Cooked,
    Cooked2,
    /// The loopback link type of BSD: the family is in either byte order.
    Loopback,
    Nothing,
}

impl LinkHeader {
    fn of(link: Linktype) -> Option<Self> {
        match link {
            Linktype::ETHERNET => Some(Self::Ethernet),
            Linktype::LINUX_SLL => Some(Self::Cooked),
            Linktype::LINUX_SLL2 => Some(Self::Cooked2),
            Linktype::NULL | Linktype(108) => Some(Self::Loopback),
            // Some systems used 12 for raw IP.
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12) => Some(Self::Nothing),
            _ => None,
        }
    }

    /// Skips the header. Returns the protocol of the bytes after it.
    fn skip(&self, bytes: &mut Bytes<'_>) -> Option<u16> {
        match self {
            Self::Ethernet => {
                bytes.take(12)?;
                bytes.u16()
            }
            Self::Cooked => {
                bytes.take(14)?;
                bytes.u16()
            }
            Self::Cooked2 => {
                let protocol = bytes.u16()?;
                bytes.take(18)?;
                Some(protocol)
            }
            Self::Loopback => {
                bytes.take(4)?;
                by_version(*bytes)
            }
            Self::Nothing => by_version(*bytes),
        }
    }
}

/// Returns true if frames of this link type can be parsed.
pub(super) fn is_supported(link: Linktype) -> bool {
    LinkHeader::of(link).is_some()
}

/// A frame that was parsed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parsed<'a> {
    Packet(Packet<'a>),
    /// A fragment of a UDP or TCP packet. RoCE and TCP do not fragment, but routers may.
    Fragment,
}

/// Parses a frame. Returns `None` if it has another type, or is truncated in its headers.
pub(super) fn parse<'a>(frame: &Frame<'a>) -> Option<Parsed<'a>> {
    let mut bytes = Bytes(frame.bytes);
    let protocol = LinkHeader::of(frame.link)?.skip(&mut bytes)?;
    network(bytes, protocol, frame.missing())
}

fn by_version(bytes: Bytes<'_>) -> Option<u16> {
    match bytes.0.first()? >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

/// Parses the packet at the end of a frame, of which `missing` more bytes were not captured.
fn network(mut bytes: Bytes<'_>, mut protocol: u16, missing: usize) -> Option<Parsed<'_>> {
    for _ in 0..4 {
        if VLAN_TAGS.contains(&protocol) {
            bytes.take(2)?;
            protocol = bytes.u16()?;
        }
    }
    match protocol {
        IPV4 => ipv4(bytes, missing),
        IPV6 => ipv6(bytes, missing),
        _ => None,
    }
}

fn ipv4(bytes: Bytes<'_>, missing: usize) -> Option<Parsed<'_>> {
    let header = bytes.0.get(..20)?;
    let header_length = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if header[0] >> 4 != 4 || header_length < 20 {
        return None;
    }
    // The offset, and the flag that more fragments follow.
    if fragment & 0x3fff != 0 {
        return fragment_of(header[9]);
    }
    let address = |at: usize| {
        let bytes: Option<[u8; 4]> = header.get(at..at + 4)?.try_into().ok();
        bytes.map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let addresses = (address(12)?, address(16)?);
    // With segmentation offload, the sender leaves the length 0.
    let total = if total == 0 {
        bytes.0.len() + missing
    } else {
        total
    };
    let length = total.checked_sub(header_length)?;
    let payload = bytes.0.get(header_length..)?;
    transport(header[9], addresses, Bytes(payload), length)
}

/// The header of a fragment of IPv6 (RFC 8200, section 4.5).
const FRAGMENT: u8 = 44;

fn ipv6(mut bytes: Bytes<'_>, missing: usize) -> Option<Parsed<'_>> {
    let header: [u8; 40] = bytes.array()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut length = if length == 0 {
        bytes.0.len() + missing
    } else {
        length
    };
    let address = |at: usize| {
        let bytes: Option<[u8; 16]> = header.get(at..at + 16)?.try_into().ok();
        bytes.map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let addresses = (address(8)?, address(24)?);
    let mut next = header[6];
    // Hop-by-hop options, routing and destination options may come first.
    for _ in 0..8 {
        if ![0, 43, FRAGMENT, 60].contains(&next) {
            break;
        }
        let extension = bytes.0.get(..4)?;
        let size = match next {
            // Without offset and further fragments, the packet is whole (RFC 6946).
            FRAGMENT if extension[2] == 0 && extension[3] & 0xf9 == 0 => 8,
            FRAGMENT => return fragment_of(extension[0]),
            _ => 8 * (usize::from(extension[1]) + 1),
        };
        next = extension[0];
        bytes.take(size)?;
        length = length.checked_sub(size)?;
    }
    transport(next, addresses, bytes, length)
}

/// Returns the fragment of a packet of this protocol, if that can carry messages.
fn fragment_of(protocol: u8) -> Option<Parsed<'static>> {
    [UDP, TCP].contains(&protocol).then_some(Parsed::Fragment)
}

/// Returns the packet with `length` bytes of header and payload.
fn transport(
    protocol: u8,
    addresses: (IpAddr, IpAddr),
    mut bytes: Bytes<'_>,
    length: usize,
) -> Option<Parsed<'_>> {
    // A frame may have padding.
    bytes.0 = bytes.0.get(..length).unwrap_or(bytes.0);
    let whole = bytes;
    let (source, destination) = (bytes.u16()?, bytes.u16()?);
    let (transport, header) = match protocol {
        UDP => (Transport::Udp, 8),
        TCP => {
            let (sequence, acknowledged) = (bytes.u32()?, bytes.u32()?);
            let (offset, flags) = (bytes.u8()?, bytes.u8()?);
            let header = TcpHeader {
                sequence,
                acknowledged: (flags & 0x10 != 0).then_some(acknowledged),
                syn: flags & 2 != 0,
                fin: flags & 1 != 0,
                reset: flags & 4 != 0,
            };
            let length = usize::from(offset >> 4) * 4;
            if length < TCP_HEADER {
                return None;
            }
            (Transport::Tcp(header), length)
        }
        _ => return None,
    };
    Some(Parsed::Packet(Packet {
        source: SocketAddr::new(addresses.0, source),
        destination: SocketAddr::new(addresses.1, destination),
        transport,
        payload: whole.0.get(header..)?,
        length: length.checked_sub(header)?,
    }))
}
