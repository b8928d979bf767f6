//! The bounds of a reply cache.

use std::time::Duration;

/// The number of bytes that an entry takes in addition to its reply: its places in the table and in
/// the list by age, either of which may be half empty, and the reply's own buffers.
pub(super) const OVERHEAD: usize = 512;

/// The settings of a [`ReplyCache`](super::ReplyCache).
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
    pub(super) max_bytes: usize,
    pub(super) max_replies: usize,
    pub(super) max_reply: usize,
    pub(super) max_age: Duration,
}

impl ReplyCacheConfig {
    /// Returns the default settings: 32,768 replies of up to 16 MiB in all and 64 KiB each, for up
    /// to 120 seconds.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_bytes: 16 << 20,
            max_replies: 32_768,
            max_reply: 64 << 10,
            max_age: Duration::from_secs(120),
        }
    }

    /// Sets the maximum size of all replies in bytes (default 16 MiB). Each reply counts 512 bytes
    /// in addition to its own. The oldest replies are evicted first; 0 disables the cache.
    #[must_use]
    pub const fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Sets the maximum number of replies (default 32,768). The oldest replies are evicted first; 0
    /// disables the cache.
    #[must_use]
    pub const fn max_replies(self, max_replies: usize) -> Self {
        Self {
            max_replies,
            ..self
        }
    }

    /// Sets the maximum size in bytes of a reply that is kept (default 64 KiB). A retransmission of
    /// a call with a longer reply is answered with SYSTEM_ERR, and is not executed.
    #[must_use]
    pub const fn max_reply(self, max_reply: usize) -> Self {
        Self { max_reply, ..self }
    }

    /// Sets the maximum age of a reply (default 120 seconds).
    #[must_use]
    pub const fn max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// Returns the bounds of one of several shards.
    pub(super) fn of_shard(self, shards: usize) -> Self {
        let max_bytes = self.max_bytes / shards;
        // A longer reply would be evicted at once, and its call be executed again.
        let max_reply = self.max_reply.min(max_bytes.saturating_sub(OVERHEAD));
        Self {
            max_bytes,
            max_replies: self.max_replies / shards,
            max_reply,
            ..self
        }
    }
}

impl Default for ReplyCacheConfig {
    fn default() -> Self {
        Self::new()
    }
}
