//! The addresses of a server with a name.
//!
//! The session decides when to connect; this module decides to which address. Each attempt gets the
//! next address of the last lookup. The name is looked up again when all were tried, or after
//! `forget_addresses`, which the channels call for each established connection. A lookup must be
//! polled: its end wakes the context of the last poll.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::task::{Context, Poll};
use std::thread;

use futures_util::task::AtomicWaker;
use rpcrdma_proto::connection::Config;

use crate::driver::{ConnectError, ConnectionId, Driver, DriverError};
use crate::provider::Device;

/// A server that a channel connects to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerName {
    /// Its address.
    Address(SocketAddr),
    /// Its name and port, such as `storage-1:20049`. The name is looked up for each connection.
    Name(Arc<str>),
}

impl ServerName {
    /// Starts a session with the server.
    ///
    /// # Errors
    /// As for [`Driver::connect`].
    pub(super) fn connect<D: Device>(
        &self,
        driver: &mut Driver<D>,
        config: Config,
    ) -> Result<ConnectionId, DriverError> {
        match self {
            Self::Address(address) => driver.connect(*address, config),
            Self::Name(_) => driver.connect_by_name(config),
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl From<SocketAddr> for ServerName {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<&str> for ServerName {
    fn from(name: &str) -> Self {
        match name.parse() {
            Ok(address) => Self::Address(address),
            Err(_) => Self::Name(name.into()),
        }
    }
}

impl From<String> for ServerName {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

type Addresses = io::Result<VecDeque<SocketAddr>>;
type Lookup = Pin<Box<dyn Future<Output = Addresses> + Send>>;
type LookUp = fn(Arc<str>) -> Lookup;

/// Finds the address for each attempt to connect.
pub(super) struct Resolver {
    server: ServerName,
    look_up: LookUp,
    /// The addresses that no attempt has used yet.
    untried: VecDeque<SocketAddr>,
    lookup: Option<Lookup>,
}

impl Resolver {
    pub(super) fn new(server: ServerName) -> Self {
        Self {
            server,
            look_up: |name| Box::pin(ThreadLookup::start(name)),
            untried: VecDeque::new(),
            lookup: None,
        }
    }

    /// Returns the address for an attempt; or begins a lookup, whose result
    /// [`poll_resolved`](Self::poll_resolved) returns.
    pub(super) fn next_address(&mut self) -> Option<SocketAddr> {
        let name = match &self.server {
            ServerName::Address(address) => return Some(*address),
            ServerName::Name(name) => name,
        };
        if self.lookup.is_none() {
            if let Some(address) = self.untried.pop_front() {
                return Some(address);
            }
            self.lookup = Some((self.look_up)(name.clone()));
        }
        None
    }

    /// Returns the address of the lookup, once it has ended; never without one.
    pub(super) fn poll_resolved(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SocketAddr, ConnectError>> {
        let Some(lookup) = &mut self.lookup else {
            return Poll::Pending;
        };
        let Poll::Ready(found) = lookup.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        self.lookup = None;
        let first = found.and_then(|addresses| {
            self.untried = addresses;
            let first = self.untried.pop_front();
            first.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
        });
        Poll::Ready(first.map_err(ConnectError::Unresolved))
    }

    /// Passes an address to an attempt to connect that waits for one, at once or when the lookup
    /// has ended, of which the context is woken.
    pub(super) fn poll_connect<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        cx: &mut Context<'_>,
    ) {
        if !driver.wants_address(id) {
            return;
        }
        if let Some(address) = self.next_address() {
            driver.set_address(id, Ok(address));
        } else if let Poll::Ready(address) = self.poll_resolved(cx) {
            driver.set_address(id, address);
        }
    }

    /// Drops the addresses, so that the next connection looks the name up again.
    pub(super) fn forget_addresses(&mut self) {
        self.untried.clear();
    }
}

/// A lookup by the system, which blocks a thread of its own: a driver may have no runtime.
struct ThreadLookup {
    found: Receiver<Addresses>,
    waker: Arc<AtomicWaker>,
}

impl ThreadLookup {
    fn start(name: Arc<str>) -> Self {
        let ((sender, found), waker) = (channel(), Arc::new(AtomicWaker::new()));
        let (failed, wakes) = (sender.clone(), waker.clone());
        let thread = thread::Builder::new().name("rpcrdma-lookup".to_owned());
        let started = thread.spawn(move || {
            // Nobody may wait for it any more.
            let _ = sender.send(name.to_socket_addrs().map(Iterator::collect));
            wakes.wake();
        });
        if let Err(error) = started {
            let _ = failed.send(Err(error));
        }
        Self { found, waker }
    }
}

impl Future for ThreadLookup {
    type Output = Addresses;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Addresses> {
        self.waker.register(cx.waker());
        match self.found.try_recv() {
            Ok(found) => Poll::Ready(found),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => {
                Poll::Ready(Err(io::Error::other("the lookup's thread ended")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{poll_fn, ready};
    use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Returns the result of a lookup that does not wait.
    fn resolved(resolver: &mut Resolver) -> Option<Result<SocketAddr, ConnectError>> {
        let resolved = poll_fn(|cx| resolver.poll_resolved(cx));
        futures_util::FutureExt::now_or_never(resolved)
    }

    #[test]
    fn an_address_is_no_name() {
        let name = ServerName::from("192.0.2.1:7");
        assert_eq!(name, ServerName::Address(at(7)));
        assert_eq!(name.to_string(), "192.0.2.1:7");
        let name = ServerName::from("storage-1:7".to_owned());
        assert_eq!(name, ServerName::Name("storage-1:7".into()));
        assert_eq!(name.to_string(), "storage-1:7");
        let mut resolver = Resolver::new(at(7).into());
        for _ in 0..3 {
            assert_eq!(resolver.next_address(), Some(at(7)));
        }
        assert!(resolved(&mut resolver).is_none());
    }

    #[test]
    fn each_address_is_tried_before_the_name_is_looked_up_again() {
        static LOOKUPS: AtomicU16 = AtomicU16::new(0);
        let mut resolver = Resolver {
            look_up: |_| {
                let count = LOOKUPS.fetch_add(1, Relaxed) * 10;
                Box::pin(ready(Ok([at(count), at(count + 1)].into())))
            },
            ..Resolver::new("storage-1:7".into())
        };
        for first in [0, 10] {
            assert_eq!(resolver.next_address(), None);
            // A second attempt waits for the same lookup.
            assert_eq!(resolver.next_address(), None);
            assert_eq!(resolved(&mut resolver).unwrap().unwrap(), at(first));
            assert_eq!(resolver.next_address(), Some(at(first + 1)));
        }
        assert_eq!(resolver.next_address(), None);
        assert_eq!(resolved(&mut resolver).unwrap().unwrap(), at(20));
        // A connection is established. The next connection looks the name up again.
        resolver.forget_addresses();
        assert_eq!(resolver.next_address(), None);
        assert_eq!(resolved(&mut resolver).unwrap().unwrap(), at(30));
        assert_eq!(LOOKUPS.load(Relaxed), 4);
    }

    #[test]
    fn a_name_may_have_no_address() {
        let fails = |_| -> Lookup { Box::pin(ready(Err(io::Error::other("no such name")))) };
        let finds_none = |_| -> Lookup { Box::pin(ready(Ok(VecDeque::new()))) };
        let cases: [(LookUp, _); 2] = [
            (fails, "no such name"),
            (finds_none, "the name has no address"),
        ];
        for (look_up, text) in cases {
            let mut resolver = Resolver {
                look_up,
                ..Resolver::new("storage-1:7".into())
            };
            assert_eq!(resolver.next_address(), None);
            let error = resolved(&mut resolver).unwrap().unwrap_err();
            assert_eq!(error.to_string(), text);
            // The next attempt looks the name up again.
            assert_eq!(resolver.next_address(), None);
            assert!(resolved(&mut resolver).is_some());
        }
    }

    /// Waits for the lookup of the system.
    fn looked_up(name: &str) -> Result<SocketAddr, ConnectError> {
        let mut resolver = Resolver::new(name.into());
        assert_eq!(resolver.next_address(), None);
        let runtime = ::tokio::runtime::Builder::new_current_thread().build();
        runtime
            .unwrap()
            .block_on(poll_fn(|cx| resolver.poll_resolved(cx)))
    }

    #[test]
    fn a_lookup_wakes_who_waits_for_it() {
        let found = looked_up("localhost:7").unwrap();
        assert!(found.ip().is_loopback() && found.port() == 7, "{found}");
        let error = looked_up("no port").unwrap_err();
        assert!(matches!(error, ConnectError::Unresolved(_)), "{error}");
    }
}
