//! Conversions between buffers of this crate and [`SharedBytes`], the bytes of an item
//! ([`Item`](xdrgen_runtime::Item)) of a message.
//!
//! A [`PoolSlot`] is the buffer behind such bytes. Each [`SharedBytes`] has one reference to it, as
//! a [`SlotRef`] has: the last of either returns the slot to its pool.

#![allow(
    unsafe_code,
    reason = "the bytes of a slot belong to whoever has its references"
)]

use std::sync::Arc;

use xdrgen_runtime::{SharedBuffer, SharedBytes};

use super::pool::{PoolSlot, SlotRef};
use super::{Buf, Frozen, PostedBuf};
use crate::provider::ProtectionDomainId;

impl SharedBuffer for PoolSlot {
    fn bytes(&self) -> &[u8] {
        // SAFETY: only `From<Frozen>`, below, makes a shared buffer of a slot, and all bytes of its
        // capacity are initialised (see `memory`). While there are references beside this one
        // nothing writes the bytes of a frozen buffer (see `Frozen`); `bytes_mut` borrows the last
        // one mutably.
        unsafe { self.range.bytes(self.range.capacity()) }
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: every reference to a slot, also that of a posted request, is a counted one. Only
        // who has the last one can borrow the slot mutably, and does so while the bytes are used.
        Some(unsafe { self.range.bytes_mut(self.range.capacity()) })
    }

    fn release(self: Arc<Self>) {
        // The drop of a `SlotRef`, unlike that of an `Arc`, returns the slot to its pool.
        drop(SlotRef::from_arc(self));
    }
}

/// Shares the buffer. Nothing is copied. The buffer returns to its pool when the last share is
/// dropped, on any thread.
///
/// ```
/// use rpcrdma_verbs::memory::{Budget, Frozen, Pool};
/// use rpcrdma_verbs::provider::software::Fabric;
/// use xdrgen_runtime::{Item, SharedBytes};
///
/// let pool = Pool::new(&Fabric::new().device(), &Budget::new(1 << 20));
/// let mut buf = pool.take(4096)?;
/// buf.extend_from_slice(b"bytes");
/// let address = buf.as_ptr();
/// let item = Item::from(SharedBytes::from(Frozen::from(buf)));
/// assert_eq!((item.as_bytes().as_ptr(), item.len()), (address, 5));
/// drop(item);
/// assert_eq!(pool.stats().used, 0);
/// # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
/// ```
impl From<Frozen> for SharedBytes {
    fn from(frozen: Frozen) -> Self {
        let Frozen { buf, from, length } = frozen;
        let range = from as usize..(from + length) as usize;
        // A frozen buffer is within its slot, so that `new` never returns `None`.
        Self::new(buf.slot.into_arc(), range).unwrap_or_default()
    }
}

impl Buf {
    /// Returns the buffer of these bytes, with the length zero, for reuse. Returns `None`, and
    /// drops the bytes, if their memory is not registered or something else refers to it.
    pub(crate) fn from_shared(bytes: SharedBytes) -> Option<Self> {
        let slot = SlotRef::from_arc(bytes.into_buffer_arc::<PoolSlot>()?);
        let buf = PostedBuf { slot, length: 0 };
        buf.into_buf().ok()
    }
}

impl Frozen {
    /// Returns the frozen buffer that these bytes share, or `None` if they are in other memory.
    #[must_use]
    pub fn from_shared(bytes: &SharedBytes) -> Option<Self> {
        let (slot, from) = bytes.buffer_arc_as::<PoolSlot>()?;
        let slot = SlotRef::from_arc(slot);
        let (from, length) = (u32::try_from(from).ok()?, u32::try_from(bytes.len()).ok()?);
        let length_of_all = from.checked_add(length)?;
        Some(Self {
            buf: PostedBuf {
                slot,
                length: length_of_all,
            },
            from,
            length,
        })
    }

    /// Returns the protection domain in which it is registered.
    #[must_use]
    pub fn protection_domain(&self) -> ProtectionDomainId {
        self.buf.slot.domain()
    }
}
