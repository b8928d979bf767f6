//! A shard of a reply cache: its calls, their replies, and the bounds of both.
//!
//! `order` has one element for each entry that is not in progress, and `bytes` is the sum of the
//! sizes of these entries. `callers` has one element for each entry whose key has a number. So only
//! `remove` removes an entry, and only `expire` calls it for an entry that is in `order`. No timer
//! runs: `begin` and `finish` call `expire`.

use std::collections::{HashMap, VecDeque, hash_map};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

use super::config::{OVERHEAD, ReplyCacheConfig};
use crate::message::OutgoingReply;
use crate::service::ConnectionStatus;

/// A shard: the calls whose hashes select it.
pub(super) struct Shard {
    /// The bounds of this shard.
    config: ReplyCacheConfig,
    pub(super) entries: Table<Entry>,
    /// The callers of equal calls that arrived over several connections, by keys without a number.
    pub(super) callers: Table<Vec<ByConnection>>,
    next_call: u64,
    /// The replies, the oldest first.
    pub(super) order: VecDeque<(Instant, Key)>,
    pub(super) bytes: usize,
    pub(super) next_waiter: u64,
    pub(super) stats: ReplyCacheStats,
    created: Instant,
}

/// A table of calls.
type Table<V> = HashMap<Key, V, BuildHasherDefault<HashOfKey>>;

/// Identifies a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(super) address: SocketAddr,
    pub(super) transport: &'static str,
    pub(super) xid: u32,
    pub(super) procedure: [u32; 3],
    pub(super) len: usize,
    /// A keyed hash of the caller and the call.
    pub(super) hash: u64,
    /// Distinguishes equal calls that arrived over several connections, if a caller is identified
    /// by its connection; otherwise 0.
    pub(super) number: u64,
}

impl Hash for Key {
    /// Passes on the hash that the key has: its own key is secret, so that no peer can choose keys
    /// of equal hashes. Another number is another hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash ^ self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// Returns the hash that a [`Key`] passes on.
#[derive(Default)]
pub(super) struct HashOfKey(u64);

impl Hasher for HashOfKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        // A key writes one number.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

/// The caller of a call, identified by its connection.
pub(super) struct ByConnection {
    number: u64,
    /// The last connection over which the caller sent the call.
    connection: ConnectionStatus,
}

/// The state of a call.
pub(super) enum Entry {
    /// The call is being executed. Its retransmissions wait for the reply.
    InProgress(Vec<(u64, Waker)>),
    Done(Box<OutgoingReply>),
    /// The call was executed, and its reply was too large to keep.
    TooLarge,
}

/// The outcome of a call that was executed.
pub(crate) enum Outcome {
    Reply(OutgoingReply),
    /// The reply was too large to keep.
    TooLarge,
    /// The call had no reply.
    NoReply,
}

/// The counters of a [`ReplyCache`](crate::ReplyCache).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ReplyCacheStats {
    /// The number of calls that were executed.
    pub executed: u64,
    /// The number of those that were executed before the cache had existed for its maximum age. A
    /// retransmission of a call that an earlier server executed is among them.
    pub after_start: u64,
    /// The number of retransmissions that were answered with the reply of the first execution.
    pub hits: u64,
    /// The number of retransmissions that arrived while their call was being executed.
    pub in_progress: u64,
    /// The number of replies that were evicted because the cache was full. A later retransmission
    /// of such a call is executed again.
    pub evicted: u64,
    /// The number of replies that exceeded the maximum age.
    pub expired: u64,
    /// The number of replies that were too large to keep.
    pub too_large: u64,
    /// The current number of replies.
    pub replies: usize,
    /// The current size of the replies in bytes.
    pub bytes: usize,
}

pub(super) fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Every change is complete before anything can panic under the lock.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    pub(super) fn new(config: ReplyCacheConfig) -> Self {
        Self {
            config,
            entries: Table::default(),
            callers: Table::default(),
            next_call: 0,
            order: VecDeque::new(),
            bytes: 0,
            next_waiter: 0,
            stats: ReplyCacheStats::default(),
            created: Instant::now(),
        }
    }

    /// Counts the execution of a call.
    pub(super) fn count_execution(&mut self, now: Instant) {
        self.stats.executed += 1;
        if now.duration_since(self.created) < self.config.max_age {
            self.stats.after_start += 1;
        }
    }

    /// Returns the key, with its number, of a call that arrived over a connection. The call is one
    /// that arrived over this connection before; otherwise one whose connection is closed;
    /// otherwise a new one.
    pub(super) fn by_connection(&mut self, key: Key, connection: &ConnectionStatus) -> Key {
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

    /// Removes a call.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Entry> {
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

    /// Returns the outcome of a call; `None` if the call is new.
    pub(super) fn outcome(&self, key: &Key) -> Option<Poll<Outcome>> {
        Some(match self.entries.get(key)? {
            Entry::InProgress(_) => Poll::Pending,
            Entry::Done(reply) => Poll::Ready(Outcome::Reply(OutgoingReply::clone(reply))),
            Entry::TooLarge => Poll::Ready(Outcome::TooLarge),
        })
    }

    /// Stores the reply to a call. Returns the wakers of its retransmissions.
    pub(super) fn finish(&mut self, key: Key, reply: &OutgoingReply) -> Vec<(u64, Waker)> {
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

    /// Removes replies that exceed the maximum age or the bounds.
    pub(super) fn expire(&mut self, now: Instant) {
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

/// Returns the size of an entry in bytes.
fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Done(reply) => OVERHEAD + reply.header.len() + reply.body.len(),
        Entry::InProgress(_) | Entry::TooLarge => OVERHEAD,
    }
}
