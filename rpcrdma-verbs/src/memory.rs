//! Owned registered memory: code cannot access a buffer while it is posted or exposed.
//!
//! A [`Buf`] is a registered buffer with one owner. To be sent, exposed, or used as a sink, it is
//! converted to a [`PostedBuf`], which gives no access to its bytes while it is shared.
//! [`PostedBuf::into_buf`] converts it back when nothing else uses it. So there is never a slice of
//! memory that a peer may write.
//!
//! Buffers come from a [`Pool`], which registers large blocks once and divides them into slots, or
//! from the caller's own memory ([`Buf::adopt`]), which is a block with one slot. A buffer is a
//! counted reference to its slot. All bytes up to its capacity are initialised: pages are zeroed,
//! and so is the spare capacity of a vector. Whatever a device or a peer may still access must hold
//! a reference to the slot, or leak it if the end of the access cannot be known.
//!
//! The key of a block gives a peer no right, on any device. Memory that a peer may access has a key
//! of its own, of a window or of a registration; the window or registration holds a reference to
//! the slot. So no peer can access memory that safe code uses, whatever keys it knows or guesses.
//! There is one exception: some devices' windows do not confine a peer. They are used only for
//! peers that are [trusted](crate::driver::Driver::trust_peers_with_windows).
//!
//! ```
//! use rpcrdma_verbs::memory::{Budget, Frozen, Pool};
//! use rpcrdma_verbs::provider::software::Fabric;
//!
//! // At most 1 MiB is registered.
//! let pool = Pool::new(&Fabric::new().device(), &Budget::new(1 << 20));
//! let mut buf = pool.take(4096)?;
//! buf.extend_from_slice(b"a cached block");
//! // From here on nothing writes it, and it may be sent any number of times.
//! let block = Frozen::from(buf);
//! let part = block.part(2, 6).expect("it has so many bytes");
//! assert_eq!(&*part, b"cached");
//! # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
//! ```

#![allow(
    unsafe_code,
    reason = "the bytes of a slot belong to the owner of its only reference"
)]

mod block;
mod cache;
mod pool;
mod registration;
mod returns;
mod shared;
mod slabs;

use std::fmt;
use std::ops::{Deref, DerefMut};

use block::BlockRange;
pub use block::Budget;
pub(crate) use cache::BufCache;
use pool::SlotRef;
pub use pool::{Pool, PoolStats};
pub(crate) use registration::Registration;

use crate::provider::{Access, Device, Sge, VerbError};

/// A registered buffer with one owner. It has `len` bytes of its `capacity`.
///
/// ```
/// use rpcrdma_verbs::memory::{Budget, Buf, PostedBuf, Pool};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let device = Fabric::new().device();
/// let pool = Pool::new(&device, &Budget::new(1 << 20));
/// let mut buf = pool.take(4096)?;
/// buf.extend_from_slice(b"bytes");
/// assert_eq!((&*buf, buf.capacity()), (b"bytes".as_slice(), 4096));
///
/// // The caller's own memory, registered as it is.
/// let own = Buf::adopt(&device, &Budget::new(1 << 20), vec![7; 100])?;
/// let posted = PostedBuf::from(own);
/// let back = posted.into_buf().expect("nobody else has it");
/// assert_eq!(back.into_vec(), Some(vec![7; 100]));
/// # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
/// ```
pub struct Buf {
    /// The only reference to its slot.
    slot: SlotRef,
    length: u32,
}

/// The reason why no memory is available.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryError {
    /// The budget is used up. Wait for buffers to be dropped, or raise the budget.
    Budget {
        /// The number of bytes requested.
        requested: usize,
        /// The limit of the budget in bytes.
        limit: usize,
    },
    /// The capacity of the buffer would not have 32 bits, as the length of a work request has.
    TooLarge(usize),
    /// The device cannot register the memory, or the system has none.
    Device(VerbError),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget { requested, limit } => write!(
                f,
                "{requested} more bytes would exceed the budget of {limit} bytes of registered \
                memory: raise it, or have fewer calls in flight"
            ),
            Self::TooLarge(bytes) => {
                write!(f, "{bytes} bytes exceed the maximum length of a buffer")
            }
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Device(error) = self {
            error.source()
        } else {
            None
        }
    }
}

impl From<VerbError> for MemoryError {
    fn from(error: VerbError) -> Self {
        Self::Device(error)
    }
}

impl Buf {
    /// Registers the memory of a vector, with its length and capacity. Nothing is copied.
    ///
    /// # Errors
    /// Fails if the budget is used up, if the capacity does not have 32 bits, or if the device
    /// refuses.
    pub fn adopt<D: Device>(
        device: &D,
        budget: &Budget,
        memory: Vec<u8>,
    ) -> Result<Self, MemoryError> {
        let length =
            u32::try_from(memory.len()).map_err(|_| MemoryError::TooLarge(memory.len()))?;
        let slot = SlotRef::adopted(BlockRange::adopt(device, budget, memory)?);
        Ok(Self { slot, length })
    }

    /// Creates an empty buffer from the only reference to a slot.
    fn from_slot(slot: SlotRef) -> Self {
        debug_assert!(slot.is_unique());
        Self { slot, length: 0 }
    }

    /// Returns the capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.slot.capacity()
    }

    /// Sets the length, up to the capacity, and returns it. Bytes beyond the old length are zero or
    /// what earlier users of the memory left.
    pub fn set_len(&mut self, length: u32) -> u32 {
        self.length = length.min(self.capacity());
        self.length
    }

    /// Returns all bytes of the capacity. Those beyond the length are zero or what earlier users of
    /// the memory left.
    pub fn as_full_mut(&mut self) -> &mut [u8] {
        // SAFETY: a buffer has the only reference to its slot, so that no request uses the memory;
        // and it is borrowed mutably.
        unsafe { self.slot.bytes_mut(self.slot.capacity()) }
    }

    /// Appends as many of the bytes as there is room for, and returns their number.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> usize {
        let from = self.length as usize;
        let room = self.as_full_mut().get_mut(from..).unwrap_or_default();
        let count = bytes.len().min(room.len());
        let (Some(room), Some(bytes)) = (room.get_mut(..count), bytes.get(..count)) else {
            return 0;
        };
        room.copy_from_slice(bytes);
        // The new length is at most the capacity, which has 32 bits.
        self.length += u32::try_from(count).unwrap_or(0);
        count
    }

    /// Returns true if it is the caller's own memory, and not from a pool.
    pub(crate) fn is_adopted(&self) -> bool {
        self.slot.is_adopted()
    }

    /// Returns the vector that the buffer was made of, with the length of the buffer. A buffer from
    /// a pool returns to the pool, and the result is `None`.
    #[must_use]
    pub fn into_vec(self) -> Option<Vec<u8>> {
        if !self.slot.is_adopted() {
            return None;
        }
        self.slot.into_range()?.into_vec(self.length)
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: a buffer has the only reference to its slot, so that no request uses the memory;
        // and it is borrowed.
        unsafe { self.slot.bytes(self.length) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: a buffer has the only reference to its slot, so that no request uses the memory;
        // and it is borrowed mutably.
        unsafe { self.slot.bytes_mut(self.length) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.length, self.capacity())
    }
}

/// A buffer that work requests or the peer may be using. It gives no access to its bytes.
#[derive(Clone)]
pub struct PostedBuf {
    slot: SlotRef,
    length: u32,
}

impl From<Buf> for PostedBuf {
    fn from(buf: Buf) -> Self {
        Self {
            slot: buf.slot,
            length: buf.length,
        }
    }
}

impl PostedBuf {
    /// Returns the buffer if nothing else uses it, and otherwise itself.
    ///
    /// # Errors
    /// Fails if something else uses it.
    pub fn into_buf(self) -> Result<Buf, Self> {
        if self.slot.is_unique() {
            Ok(Buf {
                slot: self.slot,
                length: self.length,
            })
        } else {
            Err(self)
        }
    }

    /// Returns true if nothing else uses it.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.slot.is_unique()
    }

    /// Returns true if it is the caller's own memory, and not from a pool.
    pub(crate) fn is_adopted(&self) -> bool {
        self.slot.is_adopted()
    }

    /// Returns its bytes if nothing else uses it. The mutable borrow prevents new uses.
    pub(crate) fn bytes(&mut self) -> Option<&[u8]> {
        if !self.slot.is_unique() {
            return None;
        }
        // SAFETY: this is the only reference to the slot, and no other can be created while it is
        // borrowed mutably.
        Some(unsafe { self.slot.bytes(self.length) })
    }

    /// Returns a scatter/gather entry for `length` bytes that begin at `from`, or `None` if they
    /// exceed the capacity.
    pub(crate) fn slice(&self, from: u32, length: u32) -> Option<Sge> {
        from.checked_add(length)
            .filter(|end| *end <= self.capacity())?;
        Some(Sge {
            address: self.slot.address() + u64::from(from),
            length,
            key: self.slot.key(),
        })
    }

    /// Returns the capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.slot.capacity()
    }

    /// Leaks the buffer: it is never reused and never freed, because a device may still access it.
    pub(crate) fn leak(self) {
        self.slot.leak();
    }

    /// Sets the length, up to the capacity, and returns it.
    pub(crate) fn set_len(&mut self, length: u32) -> u32 {
        self.length = length.min(self.capacity());
        self.length
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns true if the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Debug for PostedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostedBuf({} of {} bytes)", self.length, self.capacity())
    }
}

/// A read-only registered buffer, or a part of one. Clones share the memory.
///
/// It can be sent and exposed for reading while others read it, because nothing writes it.
///
/// ```
/// use rpcrdma_verbs::memory::{Budget, Buf, Frozen};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let buf = Buf::adopt(&Fabric::new().device(), &Budget::new(1 << 20), (0..100).collect())?;
/// let block = Frozen::from(buf);
/// let part = block.part(10, 20).expect("it has so many bytes");
/// assert_eq!((&part[..2], part.len()), ([10, 11].as_slice(), 20));
/// # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
/// ```
#[derive(Clone)]
pub struct Frozen {
    buf: PostedBuf,
    from: u32,
    length: u32,
}

impl From<Buf> for Frozen {
    fn from(buf: Buf) -> Self {
        Self {
            from: 0,
            length: buf.length,
            buf: buf.into(),
        }
    }
}

impl Frozen {
    /// Returns `length` bytes that begin at `from`, which share the memory, or `None` if they
    /// exceed the buffer.
    #[must_use]
    pub fn part(&self, from: u32, length: u32) -> Option<Self> {
        self.clone().into_part(from, length)
    }

    /// Returns `length` bytes that begin at `from`, or `None` if they exceed the buffer.
    pub(crate) fn into_part(self, from: u32, length: u32) -> Option<Self> {
        from.checked_add(length).filter(|end| *end <= self.length)?;
        Some(Self {
            buf: self.buf,
            from: self.from + from,
            length,
        })
    }

    /// Returns the whole buffer, of which this may be a part, if there is no other reference to it,
    /// and otherwise itself.
    ///
    /// # Errors
    /// Fails if the buffer has another reference.
    pub fn into_buf(self) -> Result<Buf, Self> {
        let Self { buf, from, length } = self;
        buf.into_buf().map_err(|buf| Self { buf, from, length })
    }

    /// Returns the buffer and the offset of this part.
    ///
    /// [`Self::deref`] is sound only while nothing writes the memory: the caller may use the buffer
    /// only in Sends, as the source of RDMA Writes, and in registrations and windows that the peer
    /// may only read. Never may it be a receive, the sink of a read, or writable by the peer.
    pub(crate) fn source(&self) -> (&PostedBuf, u32) {
        (&self.buf, self.from)
    }
}

impl Deref for Frozen {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: it was made of a buffer, which had the only reference to its slot. Since then,
        // references were given only to requests of ours that read the memory, and to keys that
        // allow the peer only to read. The key of the block gives a peer no right. So nothing
        // writes the bytes, and no mutable reference to them exists.
        let bytes = unsafe { self.buf.slot.bytes(self.from + self.length) };
        bytes.get(self.from as usize..).unwrap_or_default()
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frozen({} bytes from {} on)", self.length, self.from)
    }
}

/// Returns the access rights of blocks, which must give the peer none. ([`Access::BOUND`] lets
/// windows be bound to a block; a window has rights of its own, and so does a [`Registration`].)
fn block_access<D: Device>(device: &D) -> Access {
    if device.capabilities().windows {
        Access::BOUND
    } else {
        Access::LOCAL_WRITE
    }
}

#[cfg(test)]
mod tests;
