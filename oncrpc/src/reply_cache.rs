//! The reply cache: a call that comes again is answered again, and not executed again.

use std::collections::{HashMap, VecDeque, hash_map};
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::header::CallHeader;
use crate::keyed_hash::KeyedHash;
use crate::message::{OutgoingReply, ReceivedMessage};
use crate::service::{ConnectionStatus, Peer};

/// Settings of a [`ReplyCache`].
///
/// ```
/// use std::time::Duration;
/// use oncrpc::{ReplyCacheConfig, Router};
///
/// let config = ReplyCacheConfig::new().max_bytes(1 << 20).max_age(Duration::from_secs(60));
/// let router = Router::new().reply_cache(config);
/// # let _ = router;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyCacheConfig {
    max_bytes: usize,
    max_replies: usize,
    max_reply: usize,
    max_age: Duration,
}

impl ReplyCacheConfig {
    /// Returns the default settings: 65,536 replies of up to 16 MiB in all and 64 KiB each, for up
    /// to 120 seconds.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_bytes: 16 << 20,
            max_replies: 65_536,
            max_reply: 64 << 10,
            max_age: Duration::from_secs(120),
        }
    }

    /// Sets how many bytes the replies may take, each with 256 bytes for what it is found by. Of
    /// more than that the oldest are forgotten; 0 keeps none.
    #[must_use]
    pub const fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Sets how many replies are kept. Of more than that the oldest are forgotten; 0 keeps none.
    #[must_use]
    pub const fn max_replies(self, max_replies: usize) -> Self {
        Self {
            max_replies,
            ..self
        }
    }

    /// Sets how long, in bytes, a reply may be that is kept. If a call comes again whose reply was
    /// longer, it is answered by SYSTEM_ERR, and not executed again.
    #[must_use]
    pub const fn max_reply(self, max_reply: usize) -> Self {
        Self { max_reply, ..self }
    }

    /// Sets how long a reply is kept.
    #[must_use]
    pub const fn max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// Returns the bounds of one of several parts.
    fn part(self, parts: usize) -> Self {
        Self {
            max_bytes: self.max_bytes / parts,
            max_replies: self.max_replies / parts,
            max_reply: self.max_reply.min(self.max_bytes / parts),
            ..self
        }
    }
}

impl Default for ReplyCacheConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// The replies to calls of procedures that are not idempotent.
///
/// A call is known by its transport, the address and port of its caller, its XID, its procedure,
/// its length, and a keyed hash of all its bytes, which include the credentials and the arguments:
/// a client that lost its connection sends it again with all of these the same.
///
/// Over RDMA the port counts for nothing, since a client that connects again has another. While a
/// connection is open, what comes by another one from the same address is a call of another client.
/// When it is gone, the first connection that brings the call again is taken for the client's next.
///
/// A call that comes again while it is executed waits, and gets its reply over the connection by
/// which it came again.
///
/// Clones are handles to the same cache. Routers that serve the same clients share one.
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
    /// Each has its own lock, and a part of the calls by their hashes.
    shards: Vec<Mutex<Shard>>,
}

struct Shard {
    /// The bounds of this part.
    config: ReplyCacheConfig,
    entries: HashMap<Key, Entry>,
    /// The callers of equal calls that came by several connections; keys are without a number.
    callers: HashMap<Key, Vec<ByConnection>>,
    next_call: u64,
    /// The replies, the oldest first.
    order: VecDeque<(Instant, Key)>,
    bytes: usize,
    next_waiter: u64,
    stats: ReplyCacheStats,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    address: SocketAddr,
    transport: &'static str,
    xid: u32,
    procedure: [u32; 3],
    len: usize,
    hash: u64,
    /// Tells apart equal calls that came by several connections, where callers are known by their
    /// connections; else 0.
    number: u64,
}

/// A call whose caller is known by its connection.
struct ByConnection {
    number: u64,
    /// The last connection by which the caller sent it.
    connection: ConnectionStatus,
}

enum Entry {
    /// It is executed; who waits for the reply.
    InProgress(Vec<(u64, Waker)>),
    Done(Box<OutgoingReply>),
    /// It was executed, and its reply was too large.
    TooLarge,
}

/// The most parts, and the fewest bytes and replies of each.
const SHARDS: usize = 16;
const SHARD_BYTES: usize = 256 << 10;
const SHARD_REPLIES: usize = 64;
/// Bytes that an entry takes beside its reply.
const OVERHEAD: usize = 256;

/// What is known of a call.
pub(crate) enum Lookup<'c> {
    /// It is new. It has to be executed, and its reply to be kept.
    New(Execution<'c>),
    /// It is executed.
    InProgress(Waiting<'c>),
    /// It was executed, with this outcome.
    Done(Outcome),
}

/// What there is for a call that comes again.
pub(crate) enum Outcome {
    Reply(OutgoingReply),
    /// Its reply was too large to be kept.
    TooLarge,
    /// It had no reply.
    NoReply,
}

/// What a [`ReplyCache`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ReplyCacheStats {
    /// Calls that were executed.
    pub executed: u64,
    /// Calls that came again after they were executed, and got the same reply.
    pub hits: u64,
    /// Calls that came again while they were executed.
    pub in_progress: u64,
    /// Replies that were forgotten because there were too many. A call that comes again later is
    /// executed again.
    pub evicted: u64,
    /// Replies that were forgotten because they were too old.
    pub expired: u64,
    /// Replies that were too large to be kept.
    pub too_large: u64,
    /// Replies that are kept.
    pub replies: usize,
    /// Bytes that they take.
    pub bytes: usize,
}

impl ReplyCache {
    /// Creates a cache.
    #[must_use]
    pub fn new(config: ReplyCacheConfig) -> Self {
        let parts = (config.max_bytes / SHARD_BYTES).min(config.max_replies / SHARD_REPLIES);
        let parts = parts.clamp(1, SHARDS);
        let shard = |_| Mutex::new(Shard::new(config.part(parts)));
        Self(Arc::new(Inner {
            is_off: config.max_bytes == 0 || config.max_replies == 0,
            hasher: KeyedHash::new(),
            shards: (0..parts).map(shard).collect(),
        }))
    }

    /// Returns what the cache has counted until now.
    #[must_use]
    pub fn stats(&self) -> ReplyCacheStats {
        let mut sum = ReplyCacheStats::default();
        for shard in &self.0.shards {
            let shard = lock(shard);
            sum.executed += shard.stats.executed;
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

    /// Returns the key of a call; `None` if no reply is kept, or if its caller has no address.
    pub(crate) fn key(
        &self,
        peer: &Peer,
        header: &CallHeader,
        message: &ReceivedMessage,
    ) -> Option<Key> {
        let address = peer.address.filter(|_| !self.0.is_off)?;
        let (hash, len) = self.0.hasher.hash(message.pieces());
        let port = match peer.status {
            Some(_) => 0,
            None => address.port(),
        };
        Some(Key {
            address: SocketAddr::new(address.ip().to_canonical(), port),
            transport: peer.transport,
            xid: header.xid,
            procedure: [header.program, header.version, header.number],
            len,
            hash,
            number: 0,
        })
    }

    /// Looks up a call that came by a connection, if the caller is known by it, and notes that it
    /// is executed if it is new.
    pub(crate) fn begin(&self, key: Key, connection: Option<&ConnectionStatus>) -> Lookup<'_> {
        let shard = self.shard(&key);
        let mut state = lock(shard);
        state.expire(Instant::now());
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
                Lookup::InProgress(Waiting { shard, key, number })
            }
            None => {
                state.stats.executed += 1;
                state.entries.insert(key, Entry::InProgress(Vec::new()));
                Lookup::New(Execution { shard, key })
            }
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        let number = key.hash % self.0.shards.len() as u64;
        // There is at least one, and the number is less than how many there are.
        &self.0.shards[usize::try_from(number).unwrap_or(0)]
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Every change is complete before the lock is released, or a panic passes.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn new(config: ReplyCacheConfig) -> Self {
        Self {
            config,
            entries: HashMap::new(),
            callers: HashMap::new(),
            next_call: 0,
            order: VecDeque::new(),
            bytes: 0,
            next_waiter: 0,
            stats: ReplyCacheStats::default(),
        }
    }

    /// Returns the key, with its number, of a call that came by a connection: of the call that came
    /// by it before, else of one whose connection is gone, else of a new one.
    fn by_connection(&mut self, key: Key, connection: &ConnectionStatus) -> Key {
        let callers = self.callers.entry(key).or_default();
        let same = |caller: &ByConnection| caller.connection.is_same(connection);
        let gone = |caller: &ByConnection| !caller.connection.is_open();
        let known = callers.iter().position(same);
        let number = match known.or_else(|| callers.iter().position(gone)) {
            Some(place) => {
                callers[place].connection = connection.clone();
                callers[place].number
            }
            None => {
                self.next_call += 1;
                callers.push(ByConnection {
                    number: self.next_call,
                    connection: connection.clone(),
                });
                self.next_call
            }
        };
        Key { number, ..key }
    }

    /// Forgets a call.
    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if key.number != 0 {
            let call = Key { number: 0, ..*key };
            if let hash_map::Entry::Occupied(mut callers) = self.callers.entry(call) {
                callers
                    .get_mut()
                    .retain(|caller| caller.number != key.number);
                if callers.get().is_empty() {
                    callers.remove();
                }
            }
        }
        Some(entry)
    }

    /// Returns what there is for a call; `None` if it is new.
    fn outcome(&self, key: &Key) -> Option<Poll<Outcome>> {
        Some(match self.entries.get(key)? {
            Entry::InProgress(_) => Poll::Pending,
            Entry::Done(reply) => Poll::Ready(Outcome::Reply(OutgoingReply::clone(reply))),
            Entry::TooLarge => Poll::Ready(Outcome::TooLarge),
        })
    }

    /// Keeps the reply to a call. Returns who waits for it.
    fn finish(&mut self, key: Key, reply: &OutgoingReply) -> Vec<(u64, Waker)> {
        let now = Instant::now();
        let is_kept = reply.header.len() + reply.body.len() <= self.config.max_reply;
        self.stats.too_large += u64::from(!is_kept);
        let entry = if is_kept {
            Entry::Done(Box::new(reply.detached()))
        } else {
            Entry::TooLarge
        };
        self.bytes += size(&entry);
        self.order.push_back((now, key));
        let before = self.entries.insert(key, entry);
        self.expire(now);
        match before {
            Some(Entry::InProgress(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// Forgets replies that are too old, or too many.
    fn expire(&mut self, now: Instant) {
        while let Some((since, key)) = self.order.front().copied() {
            let is_old = now.saturating_duration_since(since) >= self.config.max_age;
            let too_many =
                self.bytes > self.config.max_bytes || self.order.len() > self.config.max_replies;
            if !is_old && !too_many {
                return;
            }
            self.stats.expired += u64::from(is_old);
            self.stats.evicted += u64::from(!is_old);
            self.order.pop_front();
            if let Some(entry) = self.remove(&key) {
                self.bytes -= size(&entry);
            }
        }
    }
}

/// Returns the bytes that an entry takes.
fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Done(reply) => OVERHEAD + reply.header.len() + reply.body.len(),
        Entry::InProgress(_) | Entry::TooLarge => OVERHEAD,
    }
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

/// A call that is executed. If it is dropped without a reply, the call is forgotten, so that it can
/// be executed when it comes again.
pub(crate) struct Execution<'c> {
    shard: &'c Mutex<Shard>,
    key: Key,
}

impl Execution<'_> {
    /// Keeps the reply.
    pub(crate) fn finish(self, reply: &OutgoingReply) {
        let waiting = lock(self.shard).finish(self.key, reply);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        let mut shard = lock(self.shard);
        if let Some(Entry::InProgress(_)) = shard.entries.get(&self.key)
            && let Some(Entry::InProgress(waiting)) = shard.remove(&self.key)
        {
            drop(shard);
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }
}

/// A call that has come again while it is executed.
pub(crate) struct Waiting<'c> {
    shard: &'c Mutex<Shard>,
    key: Key,
    number: u64,
}

impl Waiting<'_> {
    /// Waits until the call was executed.
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
        // Forgotten: it had no reply, or there were too many.
        let forgotten = Poll::Ready(Outcome::NoReply);
        shard.outcome(&self.key).unwrap_or(forgotten)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(Entry::InProgress(waiting)) = lock(self.shard).entries.get_mut(&self.key) {
            waiting.retain(|(number, _)| *number != self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use xdrgen_runtime::{Item, SharedBytes, Sink as _};

    use super::*;
    use crate::auth::Credentials;

    fn key(cache: &ReplyCache, port: u16, xid: u32, message: &[u8]) -> Key {
        let peer = Peer {
            address: Some(([127, 0, 0, 1], port).into()),
            transport: "tcp",
            memory: None,
            caller: Err(crate::BackwardError::Transport),
            status: None,
        };
        let header = CallHeader {
            xid,
            program: 1,
            version: 2,
            number: 3,
            credentials: Credentials::None,
        };
        let message = ReceivedMessage::whole(message.to_vec().into());
        cache.key(&peer, &header, &message).unwrap()
    }

    fn reply(len: usize) -> OutgoingReply {
        OutgoingReply {
            header: vec![7; len],
            ..OutgoingReply::default()
        }
    }

    fn begin(cache: &ReplyCache, key: Key) -> Execution<'_> {
        match cache.begin(key, None) {
            Lookup::New(execution) => execution,
            _ => panic!("not new"),
        }
    }

    fn execute(cache: &ReplyCache, key: Key, len: usize) {
        begin(cache, key).finish(&reply(len));
    }

    fn is_done(cache: &ReplyCache, key: Key) -> bool {
        matches!(cache.begin(key, None), Lookup::Done(Outcome::Reply(_)))
    }

    #[test]
    fn a_call_is_known_by_its_caller_number_and_bytes() {
        let cache = ReplyCache::default();
        let long = [&[0; 5000][..], b"end"].concat();
        execute(&cache, key(&cache, 700, 5, &long), 1);
        assert!(is_done(&cache, key(&cache, 700, 5, &long)));
        let mut longer = long.clone();
        longer.push(0);
        let mut other_end = long.clone();
        other_end[5000] = 0;
        let rdma = Key {
            transport: "rdma",
            ..key(&cache, 700, 5, &long)
        };
        let version = Key {
            procedure: [1, 3, 3],
            ..key(&cache, 700, 5, &long)
        };
        for other in [
            key(&cache, 701, 5, &long),
            key(&cache, 700, 6, &long),
            key(&cache, 700, 5, &other_end),
            key(&cache, 700, 5, &longer),
            rdma,
            version,
        ] {
            assert!(
                matches!(cache.begin(other, None), Lookup::New(_)),
                "{other:?}"
            );
        }
        let stats = cache.stats();
        assert_eq!((stats.executed, stats.hits, stats.replies), (7, 1, 1));
    }

    /// Two clients of one address may have equal XIDs and arguments: two CREATEs, say.
    #[test]
    fn over_rdma_a_call_is_of_its_connection_or_of_one_that_is_gone() {
        let cache = ReplyCache::default();
        let peer = |port, status: &ConnectionStatus| Peer {
            address: Some(([10, 0, 0, 1], port).into()),
            transport: "rdma",
            memory: None,
            caller: Err(crate::BackwardError::Transport),
            status: Some(status.clone()),
        };
        let header = CallHeader {
            xid: 5,
            program: 1,
            version: 2,
            number: 3,
            credentials: Credentials::None,
        };
        let message = ReceivedMessage::whole(b"call".to_vec().into());
        let come = |port, status: &ConnectionStatus, bytes| {
            let key = cache.key(&peer(port, status), &header, &message).unwrap();
            match cache.begin(key, Some(status)) {
                Lookup::New(execution) => {
                    execution.finish(&reply(bytes));
                    None
                }
                Lookup::Done(Outcome::Reply(reply)) => Some(reply.header.len()),
                _ => panic!("in progress"),
            }
        };
        let [one, other, again, third] = [(); 4].map(|()| ConnectionStatus::open());
        assert_eq!(come(700, &one, 1), None);
        assert_eq!(come(700, &one, 9), Some(1), "the client itself");
        assert_eq!(come(701, &other, 2), None, "another client");
        assert_eq!(come(701, &other, 9), Some(2));
        one.close();
        assert_eq!(
            come(702, &again, 9),
            Some(1),
            "the client's next connection"
        );
        assert_eq!(come(702, &again, 9), Some(1));
        assert_eq!(come(701, &other, 9), Some(2));
        // The first client is known by its next connection now.
        assert_eq!(come(703, &third, 3), None, "a third client");
        assert_eq!(cache.stats().executed, 3);
    }

    #[test]
    fn calls_by_connections_that_are_forgotten_take_no_memory() {
        let cache = ReplyCache::new(ReplyCacheConfig::new().max_replies(10));
        for xid in 0..1000 {
            let status = ConnectionStatus::open();
            let key = key(&cache, 700, xid, b"");
            match cache.begin(key, Some(&status)) {
                Lookup::New(execution) if xid % 2 == 0 => execution.finish(&reply(1)),
                Lookup::New(execution) => drop(execution),
                _ => panic!("not new"),
            }
        }
        let shards = cache.0.shards.iter().map(|shard| lock(shard).callers.len());
        assert_eq!(shards.sum::<usize>(), 10);
    }

    #[test]
    fn a_call_in_progress_gets_the_reply_and_one_without_reply_is_new_again() {
        let cache = ReplyCache::default();
        let key = key(&cache, 700, 5, b"call");
        let mut cx = Context::from_waker(Waker::noop());
        for has_reply in [false, true] {
            let first = begin(&cache, key);
            let Lookup::InProgress(waiting) = cache.begin(key, None) else {
                panic!("not in progress")
            };
            let mut waiting = pin!(waiting.outcome());
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
            let Lookup::InProgress(gives_up) = cache.begin(key, None) else {
                panic!("not in progress")
            };
            assert!(gives_up.poll(&mut cx).is_pending());
            drop(gives_up);
            if has_reply {
                first.finish(&reply(9));
            } else {
                drop(first);
            }
            let Poll::Ready(outcome) = waiting.poll(&mut cx) else {
                panic!("still in progress")
            };
            match outcome {
                Outcome::Reply(reply) => assert_eq!((has_reply, reply.header.len()), (true, 9)),
                _ => assert!(!has_reply),
            }
        }
        let stats = cache.stats();
        assert_eq!((stats.executed, stats.in_progress, stats.hits), (2, 4, 0));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go_first() {
        let bytes = ReplyCacheConfig::new().max_bytes(10 * (OVERHEAD + 100));
        let replies = ReplyCacheConfig::new().max_bytes(100_000).max_replies(10);
        for config in [bytes, replies] {
            let cache = ReplyCache::new(config);
            for xid in 0..100 {
                execute(&cache, key(&cache, 700, xid, b""), 100);
            }
            let kept: Vec<u32> = (0..100)
                .filter(|xid| is_done(&cache, key(&cache, 700, *xid, b"")))
                .collect();
            assert_eq!(kept, (90..100).collect::<Vec<_>>());
            let stats = cache.stats();
            let expected = (10, 10 * (OVERHEAD + 100), 90);
            assert_eq!((stats.replies, stats.bytes, stats.evicted), expected);
        }
    }

    #[test]
    fn the_parts_together_are_bounded() {
        let config = ReplyCacheConfig::new().max_bytes(4 << 20);
        let cache = ReplyCache::new(config);
        for xid in 0..100_000u32 {
            execute(&cache, key(&cache, 700, xid, &xid.to_be_bytes()), 1000);
        }
        let stats = cache.stats();
        assert!(stats.bytes <= 4 << 20 && stats.bytes > 3 << 20, "{stats:?}");
        assert_eq!(stats.replies as u64 + stats.evicted, 100_000);
    }

    /// An item is a share in a buffer that may be much larger: it is copied.
    #[test]
    fn kept_replies_keep_no_buffers_of_others() {
        let cache = ReplyCache::default();
        let key = key(&cache, 700, 5, b"call");
        let buffer = SharedBytes::from(vec![7; 1 << 20]);
        let item = Item::from(buffer.slice(10..2010).unwrap());
        let mut reply = reply(1);
        reply
            .body
            .encode_with(|sink| sink.item(&item, 9999))
            .unwrap();
        begin(&cache, key).finish(&reply);
        let Lookup::Done(Outcome::Reply(kept)) = cache.begin(key, None) else {
            panic!("not kept")
        };
        assert_eq!(kept.body.to_vec(), reply.body.to_vec());
        let (owner, from) = kept.body.items()[0].bytes.buffer_as::<Vec<u8>>().unwrap();
        assert_eq!((owner.len(), from), (2000, 0));
    }

    #[test]
    fn a_call_whose_reply_is_too_large_is_not_executed_again() {
        let cache = ReplyCache::new(ReplyCacheConfig::new().max_reply(100));
        let key = key(&cache, 700, 5, b"call");
        execute(&cache, key, 101);
        let again = cache.begin(key, None);
        assert!(matches!(again, Lookup::Done(Outcome::TooLarge)));
        let stats = cache.stats();
        assert_eq!((stats.too_large, stats.bytes), (1, OVERHEAD));
    }

    #[test]
    fn replies_grow_old() {
        let cache = ReplyCache::new(ReplyCacheConfig::new().max_age(Duration::ZERO));
        let key = key(&cache, 700, 5, b"call");
        execute(&cache, key, 1);
        assert!(!is_done(&cache, key));
        assert_eq!(cache.stats().expired, 1);
    }
}
