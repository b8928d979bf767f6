//! Memory for outgoing items.
//!
//! A transport with memory of its own implements [`ItemMemory`]: `rpc_transport::message` of
//! `rpcrdma-verbs`. A buffer that [`ItemMemory::take`] returns must have the requested length, and
//! nothing else may share it, or [`ItemBuf`] gives its user no bytes to write. Without such memory
//! the buffer is plain, so that a caller always gets one.

use std::fmt;
use std::sync::Arc;

use xdrgen_runtime::{Item, SharedBytes};

/// The memory of a transport for items, from which it sends them without a copy.
pub trait ItemMemory: fmt::Debug + Send + Sync {
    /// Returns a buffer of exactly `len` bytes with unspecified content, which can be written
    /// ([`SharedBytes::get_mut`]) since it is not shared; `None` if no memory is left, or if the
    /// transport gives none for so many bytes.
    fn take(&self, len: usize) -> Option<SharedBytes>;
}

/// Allocates buffers for items of a reply, on any thread:
/// [`Context::item_allocator`](crate::Context::item_allocator) returns it.
///
/// ```
/// use oncrpc::ItemAllocator;
///
/// let allocator = ItemAllocator::default();
/// let mut buf = allocator.alloc(4096);
/// buf[..5].copy_from_slice(b"bytes");
/// assert_eq!(buf.into_item(5).as_bytes(), b"bytes");
/// ```
#[derive(Clone, Default, Debug)]
pub struct ItemAllocator(Option<Arc<dyn ItemMemory>>);

impl ItemAllocator {
    /// Creates an allocator of a transport's memory; of plain memory if it is `None`.
    pub(crate) fn new(memory: Option<Arc<dyn ItemMemory>>) -> Self {
        Self(memory)
    }

    /// Returns a buffer for an item of `len` bytes, from which the transport sends it without a
    /// copy if it can.
    #[must_use]
    pub fn alloc(&self, len: usize) -> ItemBuf {
        ItemBuf::new(self.0.as_ref(), len)
    }
}

/// A buffer for one outgoing item: [`Context::item_buf`](crate::Context::item_buf) and
/// [`Channel::item_buf`](crate::Channel::item_buf) return it. Its initial content is unspecified,
/// and may be bytes of an earlier message.
///
/// Over RDMA it is registered memory, which the same device sends without a copy. If the transport
/// has no own memory, none left, or none for so many bytes, it is plain memory. A buffer for more
/// than 1 GiB has 1 GiB: use a lower bound for lengths that a peer chooses.
///
/// ```
/// let (channel, _submissions) = oncrpc::Channel::new("server");
/// let mut buf = channel.item_buf(4096);
/// buf[..5].copy_from_slice(b"bytes");
/// let item = buf.into_item(5);
/// assert_eq!(item.as_bytes(), b"bytes");
/// ```
pub struct ItemBuf {
    /// The buffer, which is not shared.
    bytes: SharedBytes,
}

/// The maximum size of a buffer in bytes.
const MAX_LEN: usize = 1 << 30;

impl ItemBuf {
    /// Takes `len` bytes from the memory of a transport, if it has any.
    #[must_use]
    pub(crate) fn new(memory: Option<&Arc<dyn ItemMemory>>, len: usize) -> Self {
        let len = len.min(MAX_LEN);
        let taken = memory.and_then(|memory| memory.take(len));
        Self {
            bytes: taken.unwrap_or_else(|| vec![0; len].into()),
        }
    }

    /// Returns the first `len` bytes, or all of them if there are fewer.
    #[must_use]
    pub fn into_shared(mut self, len: usize) -> SharedBytes {
        self.bytes.truncate(len);
        self.bytes
    }

    /// Returns an item of the first `len` bytes, or of all of them if there are fewer.
    #[must_use]
    pub fn into_item(self, len: usize) -> Item<'static> {
        self.into_shared(len).into()
    }
}

impl std::ops::Deref for ItemBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for ItemBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // Nothing else shares the buffer.
        self.bytes.get_mut().unwrap_or_default()
    }
}

impl fmt::Debug for ItemBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ItemBuf({} bytes)", self.len())
    }
}
