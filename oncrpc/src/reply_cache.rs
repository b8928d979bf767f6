//! The reply cache: a retransmitted call is answered with the reply of its first execution, and is
//! not executed again.
//!
//! `router` decides which calls are looked up: those of procedures that are not idempotent. It must
//! execute a new call to its end: if an [`ExecutingCall`] is dropped without `finish`, the next
//! retransmission is executed. `shard` has the entries and their bounds, which do not apply to
//! calls in execution. The lock of a shard is not held while wakers are called.

mod config;
mod shard;

use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use crate::header::CallHeader;
use crate::keyed_hash::KeyedHash;
use crate::message::{OutgoingReply, ReceivedMessage};
use crate::service::{ConnectionStatus, Peer};
use shard::{Entry, Shard, lock};

pub use config::ReplyCacheConfig;
pub use shard::ReplyCacheStats;
pub(crate) use shard::{Key, Outcome};

/// A duplicate request cache: the replies to calls of procedures that are not idempotent.
///
/// These identify a call: its transport, the address and port of its caller, its XID, its
/// procedure, its length, and a keyed hash of all its bytes, which include the credentials and the
/// arguments. A client that lost its connection retransmits the call with all of these unchanged.
///
/// Over RDMA the port is ignored, since it changes when a client reconnects. While a connection is
/// open, an equal call from the same address over another connection belongs to another client.
/// Once the connection is closed, the first connection over which the call arrives again counts as
/// the client's next connection.
///
/// A retransmission that arrives while the call is being executed waits. Its reply is sent over the
/// connection of the retransmission.
///
/// Clones are handles to the same cache. Routers that serve the same clients must share one cache.
///
/// ```
/// use oncrpc::{ReplyCache, Router};
///
/// let cache = ReplyCache::default();
/// let routers = [(); 2].map(|()| Router::new().reply_cache(cache.clone()));
/// assert_eq!(cache.stats().executed, 0);
/// # let _ = routers;
/// ```
#[derive(Clone)]
pub struct ReplyCache(Arc<Inner>);

struct Inner {
    is_off: bool,
    hasher: KeyedHash,
    /// Each shard has its own lock. The hash of a call selects its shard.
    shards: Vec<Mutex<Shard>>,
}

/// The maximum number of shards, and the minimum bounds of each.
const SHARDS: usize = 16;
const SHARD_BYTES: usize = 256 << 10;
const SHARD_REPLIES: usize = 64;

/// The result of looking up a call.
pub(crate) enum Lookup<'c> {
    /// The call is new. The caller executes it, and passes its reply to [`ExecutingCall::finish`].
    New(ExecutingCall<'c>),
    /// The call is being executed.
    InProgress(Retransmission<'c>),
    /// The call was executed, with this outcome.
    Done(Outcome),
}

impl ReplyCache {
    /// Creates a cache.
    #[must_use]
    pub fn new(config: ReplyCacheConfig) -> Self {
        let count = (config.max_bytes / SHARD_BYTES).min(config.max_replies / SHARD_REPLIES);
        let count = count.clamp(1, SHARDS);
        let shard = |_| Mutex::new(Shard::new(config.of_shard(count)));
        Self(Arc::new(Inner {
            is_off: config.max_bytes == 0 || config.max_replies == 0,
            hasher: KeyedHash::new(),
            shards: (0..count).map(shard).collect(),
        }))
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> ReplyCacheStats {
        let mut sum = ReplyCacheStats::default();
        for shard in &self.0.shards {
            let shard = lock(shard);
            sum.executed += shard.stats.executed;
            sum.after_start += shard.stats.after_start;
            sum.hits += shard.stats.hits;
            sum.in_progress += shard.stats.in_progress;
            sum.evicted += shard.stats.evicted;
            sum.expired += shard.stats.expired;
            sum.too_large += shard.stats.too_large;
            sum.replies += shard.order.len();
            sum.bytes += shard.bytes;
        }
        sum
    }

    /// Returns the key of a call; `None` if the cache is disabled, or if the caller has no address.
    pub(crate) fn key(
        &self,
        peer: &Peer,
        header: &CallHeader,
        message: &ReceivedMessage,
    ) -> Option<Key> {
        let address = peer.address.filter(|_| !self.0.is_off)?;
        let port = match peer.status {
            Some(_) => 0,
            None => address.port(),
        };
        let address = SocketAddr::new(address.ip().to_canonical(), port);
        let caller = caller_bytes(address);
        let hasher = &self.0.hasher;
        // A retransmission may transfer its items in another way.
        let (hash, len) = match message.pieces() {
            None => hasher.hash([&caller[..], message.stream()]),
            Some(pieces) => hasher.hash(std::iter::once(&caller[..]).chain(pieces)),
        };
        Some(Key {
            address,
            transport: peer.transport,
            xid: header.xid,
            procedure: [header.program, header.version, header.number],
            len: len - caller.len(),
            hash,
            number: 0,
        })
    }

    /// Looks up a call, and records its execution if it is new. `connection` is the connection over
    /// which it arrived, if that identifies the caller.
    pub(crate) fn begin(&self, key: Key, connection: Option<&ConnectionStatus>) -> Lookup<'_> {
        let shard = self.shard(&key);
        let mut state = lock(shard);
        let now = Instant::now();
        state.expire(now);
        let key = match connection {
            Some(connection) => state.by_connection(key, connection),
            None => key,
        };
        match state.outcome(&key) {
            Some(Poll::Ready(outcome)) => {
                state.stats.hits += 1;
                Lookup::Done(outcome)
            }
            Some(Poll::Pending) => {
                state.stats.in_progress += 1;
                state.next_waiter += 1;
                let number = state.next_waiter;
                Lookup::InProgress(Retransmission { shard, key, number })
            }
            None => {
                state.count_execution(now);
                state.entries.insert(key, Entry::InProgress(Vec::new()));
                Lookup::New(ExecutingCall {
                    shard,
                    key,
                    is_finished: false,
                })
            }
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        // The tables of a shard use the other bits.
        let number = (key.hash >> 32) % self.0.shards.len() as u64;
        // There is at least one shard, and the number is less than their count.
        &self.0.shards[usize::try_from(number).unwrap_or(0)]
    }
}

/// Returns what a hash covers of a caller, so that equal calls of many callers have different
/// hashes.
fn caller_bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    let (to_ip, to_port) = bytes.split_at_mut(16);
    to_ip.copy_from_slice(&ip.octets());
    to_port.copy_from_slice(&address.port().to_be_bytes());
    bytes
}

impl Default for ReplyCache {
    fn default() -> Self {
        Self::new(ReplyCacheConfig::new())
    }
}

impl From<ReplyCacheConfig> for ReplyCache {
    fn from(config: ReplyCacheConfig) -> Self {
        Self::new(config)
    }
}

impl fmt::Debug for ReplyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplyCache").field(&self.stats()).finish()
    }
}

/// A call that is being executed. If this is dropped without a reply, the call is removed, so that
/// its next retransmission is executed.
pub(crate) struct ExecutingCall<'c> {
    shard: &'c Mutex<Shard>,
    key: Key,
    /// The entry is no longer that of this call: its reply may have been removed, and a
    /// retransmission may be in progress.
    is_finished: bool,
}

impl ExecutingCall<'_> {
    /// Stores the reply.
    pub(crate) fn finish(mut self, reply: &OutgoingReply) {
        self.store(reply);
    }

    fn store(&mut self, reply: &OutgoingReply) {
        self.is_finished = true;
        let waiting = lock(self.shard).finish(self.key, reply);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Drop for ExecutingCall<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let mut shard = lock(self.shard);
        if let Some(Entry::InProgress(_)) = shard.entries.get(&self.key)
            && let Some(Entry::InProgress(waiting)) = shard.remove(&self.key)
        {
            drop(shard);
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }
}

/// A retransmission that arrived while its call is being executed.
pub(crate) struct Retransmission<'c> {
    shard: &'c Mutex<Shard>,
    key: Key,
    number: u64,
}

impl Retransmission<'_> {
    /// Waits until the call is executed.
    pub(crate) async fn outcome(self) -> Outcome {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut shard = lock(self.shard);
        if let Some(Entry::InProgress(waiting)) = shard.entries.get_mut(&self.key) {
            match waiting
                .iter_mut()
                .find(|(number, _)| *number == self.number)
            {
                Some((_, waker)) => waker.clone_from(cx.waker()),
                None => waiting.push((self.number, cx.waker().clone())),
            }
            return Poll::Pending;
        }
        // The call was removed: it had no reply, or its reply is evicted already.
        let removed = Poll::Ready(Outcome::NoReply);
        shard.outcome(&self.key).unwrap_or(removed)
    }
}

impl Drop for Retransmission<'_> {
    fn drop(&mut self) {
        if let Some(Entry::InProgress(waiting)) = lock(self.shard).entries.get_mut(&self.key) {
            waiting.retain(|(number, _)| *number != self.number);
        }
    }
}

#[cfg(test)]
mod tests;
