//! The addresses of a server with a name.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use crate::driver::ConnectError;

/// A server that a channel connects to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerName {
    /// Its address.
    Address(SocketAddr),
    /// Its name and port, such as `storage-1:20049`. The name is looked up for each connection.
    Name(Arc<str>),
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

type Lookup = Pin<Box<dyn Future<Output = io::Result<VecDeque<SocketAddr>>> + Send>>;
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
            look_up: |name| Box::pin(look_up(name)),
            untried: VecDeque::new(),
            lookup: None,
        }
    }

    /// Returns the address for an attempt; or begins a lookup, whose result
    /// [`resolved`](Self::resolved) returns.
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

    /// Waits for the address of the lookup; for ever without one.
    pub(super) async fn resolved(&mut self) -> Result<SocketAddr, ConnectError> {
        let Some(lookup) = &mut self.lookup else {
            return pending().await;
        };
        let found = lookup.await;
        self.lookup = None;
        self.untried = found.map_err(ConnectError::Unresolved)?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let first = self.untried.pop_front();
        first.ok_or_else(|| ConnectError::Unresolved(none()))
    }

    /// Drops the addresses, so that the next connection looks the name up again.
    pub(super) fn forget_addresses(&mut self) {
        self.untried.clear();
    }
}

async fn look_up(name: Arc<str>) -> io::Result<VecDeque<SocketAddr>> {
    Ok(::tokio::net::lookup_host(&*name).await?.collect())
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Runs a future that does not wait.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        futures_util::FutureExt::now_or_never(future)
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
        assert!(now(resolver.resolved()).is_none());
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
            assert_eq!(now(resolver.resolved()).unwrap().unwrap(), at(first));
            assert_eq!(resolver.next_address(), Some(at(first + 1)));
        }
        assert_eq!(resolver.next_address(), None);
        assert_eq!(now(resolver.resolved()).unwrap().unwrap(), at(20));
        // A connection is established. The next connection looks the name up again.
        resolver.forget_addresses();
        assert_eq!(resolver.next_address(), None);
        assert_eq!(now(resolver.resolved()).unwrap().unwrap(), at(30));
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
            let error = now(resolver.resolved()).unwrap().unwrap_err();
            assert_eq!(error.to_string(), text);
            // The next attempt looks the name up again.
            assert_eq!(resolver.next_address(), None);
            assert!(now(resolver.resolved()).is_some());
        }
    }
}
