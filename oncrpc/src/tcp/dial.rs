//! Connecting to a server, from the local port of the connection before.
//!
//! A server's reply cache identifies a client by this port. `client` decides by `any_port` whether
//! another port will do, and fails the calls that need the cache if the port has changed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream, lookup_host};

use super::set_options;

/// Connects to one of a server's addresses: from a given local address, or from any port if that is
/// allowed.
pub(super) async fn dial(
    server: Arc<str>,
    local: Option<SocketAddr>,
    any_port: bool,
    keepalive: Option<Duration>,
) -> io::Result<(TcpStream, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host(&*server).await? {
        match dial_one(address, local, any_port).await {
            Ok(stream) => {
                set_options(&stream, keepalive)?;
                let local = stream.local_addr()?;
                return Ok((stream, local));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn dial_one(
    address: SocketAddr,
    local: Option<SocketAddr>,
    any_port: bool,
) -> io::Result<TcpStream> {
    // The port, or the pair of addresses, is in use.
    let taken = [io::ErrorKind::AddrInUse, io::ErrorKind::AddrNotAvailable];
    if let Some(local) = local.filter(|local| local.is_ipv4() == address.is_ipv4()) {
        match dial_from(address, local).await {
            Err(error) if any_port && taken.contains(&error.kind()) => {
                tracing::info!(%local, %error, "another local port");
            }
            other => return other,
        }
    }
    // A port that the system chose on connecting can belong to connections with other servers, too,
    // and then the next connection can't be bound to it. One that it chose on binding is our own.
    let unspecified: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    match dial_from(address, (unspecified, 0).into()).await {
        Err(error) if taken.contains(&error.kind()) => socket(address)?.connect(address).await,
        other => other,
    }
}

async fn dial_from(address: SocketAddr, local: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(address)?;
    socket.set_reuseaddr(true)?;
    socket.bind(local)?;
    socket.connect(address).await
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }
}
