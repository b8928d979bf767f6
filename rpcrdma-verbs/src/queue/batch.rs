//! The requests that are posted next.
//!
//! The indices of `slices` are valid until the post, which clears all lists. `InlineData` must not
//! reallocate between `commit` and the post, since the requests contain its address; `expose` must
//! precede the post.

use crate::provider::{Receive, Sge, WorkRequest};

/// The requests that are posted next. All endpoints use its allocations in turn.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(super) requests: Vec<WorkRequest>,
    pub(super) receives: Vec<Receive>,
    pub(super) slices: Vec<Sge>,
    pub(super) receive_slices: Vec<Sge>,
    pub(super) inline: InlineData,
}

/// The messages of inline requests. Every batch reuses this memory, so it stays in the processor's
/// cache.
#[derive(Debug, Default)]
pub(super) struct InlineData {
    bytes: Box<[u8]>,
    pub(super) used: usize,
}

/// The capacity of [`InlineData`].
const INLINE_BYTES: usize = 8192;

impl InlineData {
    /// Returns `bytes` bytes of free memory, if there are as many.
    #[inline]
    pub(super) fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; INLINE_BYTES].into();
        }
        self.bytes.get_mut(self.used..self.used + bytes)
    }

    /// Reserves the beginning of the free memory for a request.
    #[inline]
    pub(super) fn commit(&mut self, bytes: u32) -> Sge {
        let length = (bytes as usize).min(self.bytes.len() - self.used);
        debug_assert_eq!(length, bytes as usize, "there was room");
        let address = self.bytes.as_ptr().addr() + self.used;
        self.used += length;
        Sge {
            address: address as u64,
            length: length as u32,
            key: 0,
        }
    }

    /// Exposes the memory to the device, before the requests are posted, and makes it free for the
    /// next batch.
    #[inline]
    pub(super) fn expose(&mut self) {
        self.bytes.as_mut_ptr().expose_provenance();
        self.used = 0;
    }
}
