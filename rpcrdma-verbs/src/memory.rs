//! Registered memory, owned: what is posted or exposed can't be touched, since nobody has it.
//!
//! A [`Buf`] is a registered buffer with one owner. To be sent, read into or exposed it is turned into a [`Lent`], which gives
//! no access to its octets; when nothing uses it any more, [`Lent::into_buf`] gives it back. So what a peer may still write is
//! never seen as a slice.
//!
//! Buffers come from a [`Pool`], which registers large blocks once, or from the caller's own memory ([`Buf::adopt`]).

#![allow(unsafe_code, reason = "the octets of a place belong to whoever has its only share")]

mod block;
mod pool;

use std::fmt;
use std::ops::{Deref, DerefMut};

pub use block::Budget;
use block::Place;
use pool::Share;
pub use pool::{Pool, PoolStats};

use crate::provider::{Access, Device, Slice, VerbError};

/// A registered buffer with one owner: `len` octets of its `capacity`.
///
/// ```
/// use rpcrdma_verbs::memory::{Budget, Buf, Lent, Pool};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let device = Fabric::new().device();
/// let pool = Pool::new(&device, &Budget::new(1 << 20));
/// let mut buf = pool.take(4096)?;
/// buf.extend_from_slice(b"octets");
/// assert_eq!((&*buf, buf.capacity()), (b"octets".as_slice(), 4096));
///
/// // The caller's own memory, registered as it is.
/// let own = Buf::adopt(&device, &Budget::new(1 << 20), vec![7; 100])?;
/// let lent = Lent::from(own);
/// let back = lent.into_buf().expect("nobody else has it");
/// assert_eq!(back.into_vec(), Some(vec![7; 100]));
/// # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
/// ```
pub struct Buf {
    /// The only share in its place.
    share: Share,
    length: u32,
}

/// Why there is no memory.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryError {
    /// The budget is used up: wait for buffers to come back, or allow for more.
    Budget {
        /// Octets that were asked for.
        wanted: usize,
        /// Octets that the budget has.
        limit: usize,
    },
    /// A buffer of more octets than a work request can have.
    TooLarge(usize),
    /// The device can't register it.
    Device(VerbError),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget { wanted, limit } => write!(
                f,
                "{wanted} octets more would exceed the budget of {limit} octets of registered memory: raise it, or have less under way"
            ),
            Self::TooLarge(octets) => write!(f, "{octets} octets are more than one buffer can have"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Device(error) = self { Some(error) } else { None }
    }
}

impl From<VerbError> for MemoryError {
    fn from(error: VerbError) -> Self {
        Self::Device(error)
    }
}

impl Buf {
    /// Registers a vector's memory: its octets become the buffer's, and its capacity too. Nothing is copied.
    ///
    /// # Errors
    /// The budget is used up, or the device can't.
    pub fn adopt<D: Device>(device: &D, budget: &Budget, memory: Vec<u8>) -> Result<Self, MemoryError> {
        let length = u32::try_from(memory.len()).map_err(|_| MemoryError::TooLarge(memory.len()))?;
        let share = Share::adopted(Place::adopt(device, budget, memory)?);
        Ok(Self { share, length })
    }

    /// An empty buffer of a place that nobody else has.
    fn of(share: Share) -> Self {
        debug_assert!(share.is_only());
        Self { share, length: 0 }
    }

    /// Octets that it can have.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.share.capacity()
    }

    /// Makes it so many octets long, up to its capacity; new ones are what was there before. How many they are.
    pub fn set_len(&mut self, length: u32) -> u32 {
        self.length = length.min(self.capacity());
        self.length
    }

    /// All octets that it can have, those beyond its length as they were left.
    pub fn as_full_mut(&mut self) -> &mut [u8] {
        // SAFETY: a buffer has the only share in its place, so that nothing is lent of it; and it is borrowed mutably.
        unsafe { self.share.octets_mut(self.share.capacity()) }
    }

    /// Adds octets at its end: as many as there is room for, which is told.
    pub fn extend_from_slice(&mut self, octets: &[u8]) -> usize {
        let from = self.length as usize;
        let room = self.as_full_mut().get_mut(from..).unwrap_or_default();
        let count = octets.len().min(room.len());
        let (Some(room), Some(octets)) = (room.get_mut(..count), octets.get(..count)) else { return 0 };
        room.copy_from_slice(octets);
        // Within the capacity, of 32 bits.
        self.length += u32::try_from(count).unwrap_or(0);
        count
    }

    /// The vector that it was made of, with its present octets; none if it is a pool's.
    #[must_use]
    pub fn into_vec(self) -> Option<Vec<u8>> {
        // A pool's goes home.
        if !self.share.is_adopted() {
            return None;
        }
        self.share.into_place()?.into_vec(self.length)
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: a buffer has the only share in its place, so that nothing is lent of it; and it is borrowed.
        unsafe { self.share.octets(self.length) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: a buffer has the only share in its place, so that nothing is lent of it; and it is borrowed mutably.
        unsafe { self.share.octets_mut(self.length) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} octets)", self.length, self.capacity())
    }
}

/// A buffer that work requests or the peer may be using: its octets can't be seen or changed.
#[derive(Clone)]
pub struct Lent {
    share: Share,
    length: u32,
}

impl From<Buf> for Lent {
    fn from(buf: Buf) -> Self {
        Self { share: buf.share, length: buf.length }
    }
}

impl Lent {
    /// The buffer, if nothing uses it any more; else itself.
    ///
    /// # Errors
    /// Something still uses it.
    pub fn into_buf(self) -> Result<Buf, Self> {
        if self.share.is_only() { Ok(Buf { share: self.share, length: self.length }) } else { Err(self) }
    }

    /// Whether it is the caller's own memory, and no pool's.
    pub(crate) fn is_adopted(&self) -> bool {
        self.share.is_adopted()
    }

    /// Its octets, if nothing else uses it: borrowed mutably, so that nothing begins to meanwhile.
    pub(crate) fn octets(&mut self) -> Option<&[u8]> {
        // SAFETY: it has the only share in its place, and no other can come about while it is borrowed mutably.
        self.share.is_only().then(|| unsafe { self.share.octets(self.length) })
    }

    /// Its octets as a work request names them: `length` of them from `from` on; none if it has not so many.
    pub(crate) fn slice(&self, from: u32, length: u32) -> Option<Slice> {
        from.checked_add(length).filter(|end| *end <= self.capacity())?;
        Some(Slice { address: self.share.address() + u64::from(from), length, key: self.share.key() })
    }

    /// Octets that it can have.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.share.capacity()
    }

    /// Makes it so many octets long, up to its capacity. How many they are.
    pub(crate) fn set_len(&mut self, length: u32) -> u32 {
        self.length = length.min(self.capacity());
        self.length
    }

    /// Octets that it has.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} of {} octets)", self.length, self.capacity())
    }
}

/// A registered buffer whose octets change no more, or a part of it: what a cache keeps. Clones share the octets.
///
/// It can be sent, and be read by the peer, while others see it, too: nothing writes it.
///
/// ```
/// use rpcrdma_verbs::memory::{Budget, Buf, Frozen};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let buf = Buf::adopt(&Fabric::new().device(), &Budget::new(1 << 20), (0..100).collect())?;
/// let block = Frozen::from(buf);
/// let part = block.part(10, 20).expect("it has so many octets");
/// assert_eq!((&part[..2], part.len()), ([10, 11].as_slice(), 20));
/// # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
/// ```
#[derive(Clone)]
pub struct Frozen {
    lent: Lent,
    from: u32,
    length: u32,
}

impl From<Buf> for Frozen {
    fn from(buf: Buf) -> Self {
        Self { from: 0, length: buf.length, lent: buf.into() }
    }
}

impl Frozen {
    /// `length` octets of it from `from` on, sharing its memory; none if it has not so many.
    #[must_use]
    pub fn part(&self, from: u32, length: u32) -> Option<Self> {
        from.checked_add(length).filter(|end| *end <= self.length)?;
        Some(Self { lent: self.lent.clone(), from: self.from + from, length })
    }

    /// The buffer, if nobody else has a part of it; else itself.
    ///
    /// # Errors
    /// Somebody else has.
    pub fn into_buf(self) -> Result<Buf, Self> {
        let Self { lent, from, length } = self;
        lent.into_buf().map_err(|lent| Self { lent, from, length })
    }

    /// The buffer that it is a part of, and where it begins there: to be sent or read by the peer, and nothing else.
    pub(crate) fn source(&self) -> (&Lent, u32) {
        (&self.lent, self.from)
    }
}

impl Deref for Frozen {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: it was made of a buffer, which had the only share in its place; since then shares of it were lent to be
        // read from alone, so that nobody writes the octets, and nobody has them mutably.
        let octets = unsafe { self.lent.share.octets(self.from + self.length) };
        octets.get(self.from as usize..).unwrap_or_default()
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frozen({} octets from {} on)", self.length, self.from)
    }
}

/// The rights with which buffers are registered: windows give the peer its own.
fn rights<D: Device>(device: &D) -> Access {
    if device.capabilities().windows {
        Access::BOUND
    } else if device.capabilities().read_sink_is_exposed {
        Access { remote_write: true, ..Access::LOCAL_WRITE }
    } else {
        Access::LOCAL_WRITE
    }
}

#[cfg(test)]
mod tests;
