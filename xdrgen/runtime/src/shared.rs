//! Shared, counted ranges of buffers.
//!
//! Each [`SharedBytes`] with a buffer is one share: `new` and `clone` call `SharedBuffer::retain`,
//! and the drop calls `SharedBuffer::release`, which returns the memory of a pool (`memory::shared`
//! in `rpcrdma-verbs`). The constructors of vectors and copies do not call `retain`, because these
//! buffers count nothing; neither does `buffer_arc_as`. Only the holder of the only `Arc` may
//! write.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::{Deref, Range};

/// A buffer whose bytes do not change while several [`SharedBytes`] refer to it.
///
/// A transport implements it for its registered memory, and recognizes its own memory by
/// [`SharedBytes::buffer_as`], so that it can send a range without a copy. A pool that reuses
/// buffers counts the shares in [`retain`](Self::retain) and [`release`](Self::release), because
/// the count of the `Arc` does not show which of two threads that drop a share at once is the last.
pub trait SharedBuffer: Any + Send + Sync {
    /// Returns all bytes of the buffer.
    fn bytes(&self) -> &[u8];

    /// Returns all bytes of the buffer for writing, if it is writable. The caller has the only
    /// share.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Counts a share.
    fn retain(&self) {}

    /// Ends a share. The release of the last share may put the `Arc` into a pool.
    fn release(self: Arc<Self>) {}
}

impl SharedBuffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(self)
    }
}

/// A short copy, stored next to the counts of its `Arc`: a copy is one allocation. With the lengths
/// that [`SharedBytes::copy_of`] uses, an item with a copy takes no more than nine times its XDR.
struct ShortBuffer<const MAX: usize> {
    len: u8,
    bytes: [u8; MAX],
}

impl<const MAX: usize> ShortBuffer<MAX> {
    /// Creates a buffer of `len` zeros; returns `None` if there are too many.
    fn zeroed(len: usize) -> Option<Arc<dyn SharedBuffer>> {
        let len = u8::try_from(len)
            .ok()
            .filter(|len| usize::from(*len) <= MAX)?;
        let bytes = [0; MAX];
        Some(Arc::new(Self { len, bytes }))
    }
}

impl<const MAX: usize> SharedBuffer for ShortBuffer<MAX> {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes.get_mut(..self.len.into())
    }
}

/// A share in a range of a buffer. Clones share the bytes. It can be sent to other threads.
///
/// ```
/// use xdrgen_runtime::SharedBytes;
///
/// let all = SharedBytes::from(vec![1, 2, 3, 4]);
/// let part = all.slice(1..3).expect("in range");
/// drop(all);
/// assert_eq!(*part, [2, 3]);
/// let (buffer, from) = part.buffer_as::<Vec<u8>>().expect("a vector");
/// assert_eq!((buffer.len(), from), (4, 1));
/// assert!(part.slice(1..3).is_none());
/// ```
///
/// A received item becomes a `bytes::Bytes` without a copy: the `Bytes` owns the share, and so the
/// transport's memory until it is dropped. An item that is sent from a `Bytes` borrows it, and the
/// transport copies it: over RDMA once, into registered memory.
///
/// ```
/// use bytes::Bytes;
/// use xdrgen_runtime::{Item, SharedBytes};
///
/// fn keep(received: Item<'_>) -> Bytes {
///     Bytes::from_owner(received.into_shared())
/// }
///
/// fn to_send(bytes: &Bytes) -> Item<'_> {
///     Item::from(&bytes[..])
/// }
///
/// let received = Item::from(SharedBytes::from(vec![7; 100_000]));
/// let address = received.as_ptr();
/// let kept = keep(received);
/// assert_eq!((kept.as_ptr(), kept.len()), (address, 100_000));
/// assert_eq!(to_send(&kept).as_ptr(), address);
/// ```
#[derive(Default)]
pub struct SharedBytes {
    /// None if there are no bytes.
    buffer: Option<Arc<dyn SharedBuffer>>,
    from: usize,
    len: usize,
}

impl SharedBytes {
    /// Creates a share in a range of a buffer; `None` if the range is not in it.
    #[must_use]
    pub fn new(buffer: Arc<dyn SharedBuffer>, range: Range<usize>) -> Option<Self> {
        buffer.bytes().get(range.clone())?;
        buffer.retain();
        Some(Self {
            buffer: Some(buffer),
            from: range.start,
            len: range.end - range.start,
        })
    }

    /// Creates a share in a copy of the bytes.
    ///
    /// ```
    /// let copy = xdrgen_runtime::SharedBytes::copy_of(&[1, 2, 3]);
    /// assert_eq!(*copy, [1, 2, 3]);
    /// ```
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        match copy.get_mut() {
            Some(place) => {
                place.copy_from_slice(bytes);
                copy
            }
            None => bytes.to_vec().into(),
        }
    }

    /// Creates the only share in a buffer of `len` zeros, which can be written.
    ///
    /// ```
    /// let mut bytes = xdrgen_runtime::SharedBytes::zeroed(100);
    /// bytes.get_mut().expect("the only share")[99] = 1;
    /// assert_eq!((bytes.len(), bytes[99]), (100, 1));
    /// ```
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let short = match len {
            0..=15 => ShortBuffer::<15>::zeroed(len),
            16..=63 => ShortBuffer::<63>::zeroed(len),
            64..=247 => ShortBuffer::<247>::zeroed(len),
            _ => None,
        };
        Self {
            buffer: Some(short.unwrap_or_else(|| Arc::new(alloc::vec![0; len]))),
            from: 0,
            len,
        }
    }

    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let bytes = self
            .buffer
            .as_ref()
            .map_or(&[][..], |buffer| buffer.bytes());
        bytes
            .get(self.from..)
            .and_then(|bytes| bytes.get(..self.len))
            .unwrap_or_default()
    }

    /// Returns the bytes for writing, if this is the only share in the buffer and the buffer can be
    /// written.
    ///
    /// ```
    /// use xdrgen_runtime::SharedBytes;
    ///
    /// let mut bytes = SharedBytes::from(vec![1, 2, 3]);
    /// bytes.get_mut().expect("the only share")[0] = 7;
    /// let share = bytes.clone();
    /// assert!(bytes.get_mut().is_none());
    /// assert_eq!(*share, [7, 2, 3]);
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let buffer = Arc::get_mut(self.buffer.as_mut()?)?;
        buffer
            .bytes_mut()?
            .get_mut(self.from..)?
            .get_mut(..self.len)
    }

    /// Drops the bytes after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Returns the number of bytes.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a share in a part of the bytes; `None` if the range is not in them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        let mut part = self.clone();
        part.from += range.start;
        part.len = range.end - range.start;
        Some(part)
    }

    /// Returns the buffer if it has this type, and the offset of the first byte in it.
    #[inline]
    #[must_use]
    pub fn buffer_as<T: SharedBuffer>(&self) -> Option<(&T, usize)> {
        let any: &dyn Any = self.buffer.as_deref()?;
        any.downcast_ref().map(|buffer| (buffer, self.from))
    }

    /// Returns the buffer if it has this type, and the offset of the first byte in it. End the
    /// returned `Arc` by [`SharedBuffer::release`], because it may be the last share.
    #[must_use]
    pub fn buffer_arc_as<T: SharedBuffer>(&self) -> Option<(Arc<T>, usize)> {
        // Do not count a share of a buffer of another type.
        self.buffer_as::<T>()?;
        let any: Arc<dyn Any + Send + Sync> = self.buffer.clone()?;
        Some((any.downcast().ok()?, self.from))
    }

    /// Consumes the share, and returns its buffer if the buffer has this type. End the returned
    /// `Arc` by [`SharedBuffer::release`], because it may be the last share.
    #[must_use]
    pub fn into_buffer_arc<T: SharedBuffer>(mut self) -> Option<Arc<T>> {
        // A buffer of another type is released as the share is dropped.
        self.buffer_as::<T>()?;
        let any: Arc<dyn Any + Send + Sync> = self.buffer.take()?;
        any.downcast().ok()
    }
}

impl Clone for SharedBytes {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(buffer) = &self.buffer {
            buffer.retain();
        }
        Self {
            buffer: self.buffer.clone(),
            ..*self
        }
    }
}

impl Drop for SharedBytes {
    #[inline]
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.release();
        }
    }
}

/// Takes over the vector's memory. Nothing is copied.
impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self {
            buffer: Some(Arc::new(bytes)),
            from: 0,
            len,
        }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for SharedBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Shares are equal if their bytes are.
impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} bytes)", self.len)
    }
}
