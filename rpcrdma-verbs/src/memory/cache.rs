//! Free buffers of a driver's own, which the receives of its connections take.
//!
//! The budget and the pool count a cached buffer as used, so the cache is small and has one size. A
//! size serves all requests for more than a quarter of it, because the small size classes of
//! `memory::pool` grow by factors of four.

use arrayvec::ArrayVec;

use super::{Buf, MemoryError, Pool};
use crate::provider::Device;

/// Free buffers of the size of a driver's receives, which are taken and put back without atomic
/// operations. The pool counts them as used.
#[derive(Debug, Default)]
pub(crate) struct BufCache {
    /// The capacity of the buffers.
    size: u32,
    free: ArrayVec<Buf, CACHED>,
}

/// The maximum number of buffers in a cache, and the number that it takes at once.
const CACHED: usize = 32;
const TAKEN_AT_ONCE: usize = 16;
/// Larger buffers, in bytes, are not cached: others would lack them.
const MAX_CACHED_SIZE: u32 = 1 << 14;

impl BufCache {
    /// Returns an empty buffer with a capacity of at least `bytes` bytes.
    ///
    /// # Errors
    /// As for [`Pool::take`].
    #[inline]
    pub(crate) fn take<D: Device>(
        &mut self,
        bytes: u32,
        pool: &Pool<D>,
    ) -> Result<Buf, MemoryError> {
        // Buffers of a quarter of the size have a class of their own.
        if bytes <= self.size
            && bytes > self.size / 4
            && let Some(buf) = self.free.pop()
        {
            return Ok(buf);
        }
        self.refill(bytes, pool)
    }

    #[cold]
    fn refill<D: Device>(&mut self, bytes: u32, pool: &Pool<D>) -> Result<Buf, MemoryError> {
        // The pool may need those of another size.
        self.free.clear();
        let buf = pool.take(bytes)?;
        if bytes <= MAX_CACHED_SIZE {
            self.size = buf.capacity();
            pool.take_free(bytes, TAKEN_AT_ONCE, &mut self.free);
        }
        Ok(buf)
    }

    /// Takes back a buffer. A buffer that does not fit here returns to its pool.
    #[inline]
    pub(crate) fn put(&mut self, mut buf: Buf) {
        if buf.capacity() == self.size && !buf.is_adopted() {
            buf.set_len(0);
            // Without room it is dropped.
            let _ = self.free.try_push(buf);
        }
    }
}
