//! Connecting to a server, from the local port of the connection before.
//!
//! A server's reply cache identifies a client by this port. `client` decides by `any_port` whether
//! another port will do, and fails the calls that need the cache if the port has changed.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use super::set_options;

/// The server, and the settings of connections to it.
pub(super) struct Target {
    pub(super) server: Arc<str>,
    /// The time for all addresses of the server together.
    pub(super) timeout: Duration,
    pub(super) keepalive: Option<Duration>,
}

/// Connects to one of a server's addresses: from a given local address, or from any port if that is
/// allowed.
pub(super) async fn dial(
    target: Target,
    local: Option<SocketAddr>,
    any_port: bool,
) -> io::Result<(TcpStream, SocketAddr)> {
    let started = Instant::now();
    let found = within(target.timeout, lookup_host(&*target.server)).await?;
    let addresses: Vec<SocketAddr> = found.collect();
    let left = target.timeout.saturating_sub(started.elapsed());
    let stream = dial_any(&addresses, left, |address| {
        dial_one(address, local, any_port)
    })
    .await?;
    set_options(&stream, target.keepalive)?;
    let local = stream.local_addr()?;
    Ok((stream, local))
}

/// Tries addresses in turn. An address that does not answer, such as one of IPv6 in a network
/// without it, leaves time for those behind it.
async fn dial_any<F: Future<Output = io::Result<TcpStream>>>(
    addresses: &[SocketAddr],
    time: Duration,
    dial: impl Fn(SocketAddr) -> F,
) -> io::Result<TcpStream> {
    let started = Instant::now();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (number, address) in addresses.iter().enumerate() {
        let rest = u32::try_from(addresses.len() - number).unwrap_or(u32::MAX);
        let share = time.saturating_sub(started.elapsed()) / rest;
        match within(share, dial(*address)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns an error if a future takes longer.
async fn within<T>(time: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = |_| Err(io::ErrorKind::TimedOut.into());
    timeout(time, future).await.unwrap_or_else(timed_out)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first address never answers.
    #[test]
    fn an_address_without_an_answer_leaves_time_for_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let there = listener.local_addr().unwrap();
            let silent: SocketAddr = "192.0.2.1:9".parse().unwrap();
            let dial = |address| async move {
                if address == silent {
                    return std::future::pending().await;
                }
                dial_one(address, None, true).await
            };
            let time = Duration::from_millis(200);
            let stream = dial_any(&[silent, there], time, dial).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), there);
            let error = dial_any(&[silent, silent], time, dial).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
