//! What the calls of one peer may have of the registered memory that all peers share.

use std::fmt;
use std::sync::Arc;

/// Counts the memory of a peer's calls, over all of its connections.
pub(crate) trait MemoryLimit: fmt::Debug + Send + Sync {
    /// Counts bytes. Returns false, and counts nothing, if the peer would have too many.
    fn hold(&self, bytes: usize, is_scarce: bool) -> bool;

    /// Gives back bytes that were counted.
    fn release(&self, bytes: usize);
}

/// Bytes that a call of a peer has until this is dropped.
#[derive(Debug)]
pub(super) struct HeldMemory {
    limit: Arc<dyn MemoryLimit>,
    bytes: usize,
}

impl HeldMemory {
    /// Counts bytes, unless the peer would have too many.
    pub(super) fn new(limit: &Arc<dyn MemoryLimit>, bytes: usize, is_scarce: bool) -> Option<Self> {
        limit.hold(bytes, is_scarce).then(|| Self {
            limit: limit.clone(),
            bytes,
        })
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.limit.release(self.bytes);
    }
}
