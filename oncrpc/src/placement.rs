//! The placement of connections on the threads of a server.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Returns the number of a thread for a peer.
type OfPeer = dyn Fn(SocketAddr) -> usize + Send + Sync;

/// Selects the thread of a server that serves the next connection. A connection stays on its
/// thread.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ConnectionPlacement {
    /// The threads take turns.
    #[default]
    RoundRobin,
    /// The thread with the fewest connections.
    FewestConnections,
    /// The thread that a function of the peer's address selects, modulo the number of threads.
    ByPeer(Arc<OfPeer>),
}

impl ConnectionPlacement {
    /// Places connections by a function of the peer's address. It returns the number of a thread,
    /// modulo the number of threads.
    ///
    /// ```
    /// use oncrpc::ConnectionPlacement;
    ///
    /// // The connections of one host share a thread.
    /// let placement = ConnectionPlacement::by_peer(|peer| match peer.ip() {
    ///     std::net::IpAddr::V4(address) => address.octets()[3].into(),
    ///     std::net::IpAddr::V6(address) => address.octets()[15].into(),
    /// });
    /// # let _ = placement;
    /// ```
    pub fn by_peer(thread: impl Fn(SocketAddr) -> usize + Send + Sync + 'static) -> Self {
        Self::ByPeer(Arc::new(thread))
    }
}

impl fmt::Debug for ConnectionPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundRobin => "RoundRobin",
            Self::FewestConnections => "FewestConnections",
            Self::ByPeer(_) => "ByPeer",
        })
    }
}

/// Places the connections of one address, for the server of a transport.
#[derive(Debug)]
pub struct ConnectionPlacer {
    placement: ConnectionPlacement,
    /// The next thread in turn.
    next: usize,
}

impl ConnectionPlacer {
    /// Creates the placer of an address.
    #[must_use]
    pub const fn new(placement: ConnectionPlacement) -> Self {
        Self { placement, next: 0 }
    }

    /// Returns the number of the thread that serves the connection of a peer. `connections` has
    /// the number of connections of each thread. Without threads, this returns 0.
    ///
    /// ```
    /// use oncrpc::{ConnectionPlacement, ConnectionPlacer};
    ///
    /// let mut placer = ConnectionPlacer::new(ConnectionPlacement::FewestConnections);
    /// let peer = ([127, 0, 0, 1], 1023).into();
    /// assert_eq!(placer.place(peer, [3, 1, 2].into_iter()), 1);
    /// ```
    pub fn place(
        &mut self,
        peer: SocketAddr,
        connections: impl ExactSizeIterator<Item = u64>,
    ) -> usize {
        let threads = connections.len().max(1);
        match &self.placement {
            ConnectionPlacement::RoundRobin => {
                let thread = self.next % threads;
                self.next = (thread + 1) % threads;
                thread
            }
            ConnectionPlacement::FewestConnections => {
                let fewest = connections.enumerate().min_by_key(|(_, open)| *open);
                fewest.map_or(0, |(thread, _)| thread)
            }
            ConnectionPlacement::ByPeer(thread) => thread(peer) % threads,
        }
    }
}
