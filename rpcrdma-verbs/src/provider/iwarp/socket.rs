//! Socket functions that `std` lacks. Every socket is non-blocking and close-on-exec, and has TCP
//! keep-alive. A connection sends without delay (`TCP_NODELAY`). Accepted sockets inherit
//! keep-alive and traffic class from their listener. `fpdu_size` decides the length of FPDUs (RFC
//! 5044, section 5.1) unless the settings of the device have one.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, ipproto,
    sockopt,
};

use crate::provider::common::wakeup::system;
use crate::provider::{Cause, Result, VerbError};

/// The maximum length of an FPDU on loopback, in bytes. MPA limits it further.
const LOOPBACK_FPDU: usize = 1 << 16;
/// The FPDU length if the system does not return the segment size: that of Ethernet with IPv6 and
/// timestamps.
const USUAL_SEGMENT: usize = 1428;
/// The backlog of a listener.
const BACKLOG: i32 = 1024;
/// The idle time before the first probe of TCP keep-alive, the time between two probes, and the
/// number of probes without an answer that end the connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

fn open(address: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// Sets the traffic class of a socket's packets.
fn set_traffic_class(socket: &OwnedFd, class: u8, is_v6: bool) -> rustix::io::Result<()> {
    if is_v6 {
        sockopt::set_ipv6_tclass(socket, class.into())?;
        // This is for peers with IPv4-mapped addresses. It fails if the socket supports only IPv6.
        let _ = sockopt::set_ip_tos(socket, class);
        return Ok(());
    }
    sockopt::set_ip_tos(socket, class)
}

/// Enables TCP keep-alive, which ends the connection to a host that is gone.
///
/// A connection whose peer has sent nothing has no other keep-alive: until then the accepting end
/// may not send.
fn keep_alive(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_socket_keepalive(socket, true)
}

/// Starts to connect.
pub(super) fn connect(address: &SocketAddr, class: Option<u8>) -> rustix::io::Result<OwnedFd> {
    let socket = open(address)?;
    if let Some(class) = class {
        set_traffic_class(&socket, class, address.is_ipv6())?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    keep_alive(&socket)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Listens, and returns the address. Connections inherit the traffic class and the keep-alive.
pub(super) fn listen(address: SocketAddr, class: Option<u8>) -> Result<(OwnedFd, SocketAddr)> {
    let listens = || {
        let socket = open(&address)?;
        if let Some(class) = class {
            set_traffic_class(&socket, class, address.is_ipv6())?;
        }
        sockopt::set_socket_reuseaddr(&socket, true)?;
        keep_alive(&socket)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok((socket, bound))
    };
    listens().map_err(|error| match error {
        Errno::ADDRINUSE => VerbError {
            verb: "listen",
            cause: Cause::AddressInUse(address),
        },
        Errno::ADDRNOTAVAIL => VerbError {
            verb: "listen",
            cause: Cause::Hinted(
                error.into(),
                format!("no interface of this host has {}", address.ip()).into(),
            ),
        },
        error => system("listen")(error),
    })
}

/// Accepts a connection, and returns it with the address of the peer.
pub(super) fn accept(listener: &OwnedFd) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    let peer = peer.ok_or(Errno::NOTCONN)?;
    Ok((socket, SocketAddr::try_from(peer)?))
}

/// Returns the error of a connection that could not be established.
pub(super) fn error(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::socket_error(socket)?
}

/// Returns the maximum length of an FPDU for a connection, in bytes: it fits a TCP segment, and is
/// longer on loopback.
pub(super) fn fpdu_size(socket: &OwnedFd) -> usize {
    // rfc: 5044-5.1-a, 5044-5.1-b
    let ip = |address: rustix::io::Result<SocketAddr>| address.ok().map(|address| address.ip());
    let local = ip(rustix::net::getsockname(socket).and_then(SocketAddr::try_from));
    let peer = ip(peer(socket));
    if local.is_some() && (local == peer || peer.as_ref().is_some_and(IpAddr::is_loopback)) {
        return LOOPBACK_FPDU;
    }
    let segment = socket2::SockRef::from(&socket.as_fd()).tcp_mss();
    segment.map_or(USUAL_SEGMENT, |segment| segment as usize)
}

fn peer(socket: &OwnedFd) -> rustix::io::Result<SocketAddr> {
    let peer = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
    SocketAddr::try_from(peer)
}

/// Sends as many bytes as there is room for.
pub(super) fn send(socket: &OwnedFd, parts: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match parts {
        [one] => rustix::net::send(socket, one, flags),
        _ => rustix::net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags),
    }
}

/// Receives as many bytes as there are. Zero means the end of the stream.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> rustix::io::Result<usize> {
    rustix::net::recv(socket, into, RecvFlags::DONTWAIT).map(|(_, count)| count)
}

/// Returns true if the peer has neither closed the connection nor sent anything that was not
/// received.
pub(super) fn is_silent(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    rustix::net::recv(socket, &mut [0u8; 1], flags) == Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects two sockets with these traffic classes. Returns listener, client and accepted
    /// socket.
    fn sockets(
        host: IpAddr,
        of_listener: Option<u8>,
        of_client: Option<u8>,
    ) -> Option<[OwnedFd; 3]> {
        // Not every host has IPv6.
        let (listener, address) = listen(SocketAddr::new(host, 0), of_listener).ok()?;
        let client = connect(&address, of_client).unwrap();
        let accepted = loop {
            match accept(&listener) {
                Ok((accepted, _)) => break accepted,
                Err(error) => assert_eq!(error, Errno::AGAIN),
            }
        };
        Some([listener, client, accepted])
    }

    /// Returns the classes of listener, client and accepted socket.
    fn classes(host: IpAddr, of_listener: Option<u8>, of_client: Option<u8>) -> Option<[u8; 3]> {
        let sockets = sockets(host, of_listener, of_client)?;
        Some(sockets.each_ref().map(|socket| match host {
            IpAddr::V4(_) => sockopt::ip_tos(socket).unwrap(),
            IpAddr::V6(_) => u8::try_from(sockopt::ipv6_tclass(socket).unwrap()).unwrap(),
        }))
    }

    #[test]
    fn sockets_have_keepalive() {
        let [_, client, accepted] = sockets([127, 0, 0, 1].into(), None, None).unwrap();
        for socket in [client, accepted] {
            assert!(sockopt::socket_keepalive(&socket).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&socket), Ok(KEEPALIVE_IDLE));
            assert_eq!(sockopt::tcp_keepintvl(&socket), Ok(KEEPALIVE_INTERVAL));
            assert_eq!(sockopt::tcp_keepcnt(&socket), Ok(KEEPALIVE_PROBES));
        }
    }

    #[test]
    fn sockets_have_the_traffic_class() {
        for host in ["127.0.0.1", "::1"] {
            let host = host.parse().unwrap();
            // DSCP 26, and expedited forwarding.
            let Some(found) = classes(host, Some(0x68), Some(0xb8)) else {
                assert_eq!(host, IpAddr::from(std::net::Ipv6Addr::LOCALHOST));
                continue;
            };
            assert_eq!(found, [0x68, 0xb8, 0x68], "{host}");
            assert_eq!(classes(host, None, None), Some([0; 3]), "{host}");
        }
    }
}
