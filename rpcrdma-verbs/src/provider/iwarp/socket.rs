//! Sockets: what `std` has no calls for.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, ipproto,
    sockopt,
};

use crate::provider::common::wakeup::system;
use crate::provider::{Cause, Result, VerbError};

/// The longest FPDU on loopback, in bytes: MPA limits it further.
const LOOPBACK_FPDU: usize = 1 << 16;
/// The FPDU where the system does not tell the segment size: that of Ethernet with IPv6 and
/// timestamps.
const USUAL_SEGMENT: usize = 1428;
/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1024;

fn open(address: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// Starts to connect.
pub(super) fn connect(address: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = open(address)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Listens, and returns the address.
pub(super) fn listen(address: SocketAddr) -> Result<(OwnedFd, SocketAddr)> {
    let listens = || {
        let socket = open(&address)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
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

/// Returns the longest FPDU for a connection, in bytes: what fits into a segment of TCP, and on
/// loopback more.
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

/// Sends bytes, as many as there is room for.
pub(super) fn send(socket: &OwnedFd, parts: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match parts {
        [one] => rustix::net::send(socket, one, flags),
        _ => rustix::net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags),
    }
}

/// Receives bytes, as many as there are. Zero is the end of the stream.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> rustix::io::Result<usize> {
    rustix::net::recv(socket, into, RecvFlags::DONTWAIT).map(|(_, count)| count)
}

/// Returns true if the peer has closed the connection and nothing of it is left to be received.
pub(super) fn is_closed(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    match rustix::net::recv(socket, &mut [0u8; 1], flags) {
        Ok((_, count)) => count == 0,
        Err(error) => error != Errno::AGAIN,
    }
}
