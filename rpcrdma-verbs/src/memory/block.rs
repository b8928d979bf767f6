//! Blocks of registered memory, and the places in them. The memory of every buffer is reached here.

#![allow(unsafe_code, reason = "places of one block are handed out apart, and are reached by address")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{MemoryError, rights};
use crate::provider::{Device, Region};

/// How much memory may be registered at once, over all pools and buffers that share the budget.
///
/// ```
/// let budget = rpcrdma_verbs::memory::Budget::new(1 << 30);
/// assert_eq!((budget.used(), budget.limit()), (0, 1 << 30));
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A budget of so many octets.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account { limit, used: AtomicUsize::new(0) }))
    }

    /// Octets that are registered.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Octets that may be.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    fn take(&self, octets: usize) -> Result<Share, MemoryError> {
        let limit = self.0.limit;
        let more = |used: usize| used.checked_add(octets).filter(|used| *used <= limit);
        match self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Share { budget: self.clone(), octets }),
            Err(_) => Err(MemoryError::Budget { wanted: octets, limit }),
        }
    }
}

/// A part of a budget that is used, until it is dropped.
#[derive(Debug)]
struct Share {
    budget: Budget,
    octets: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

/// Memory that is registered as long as it lives.
pub(super) struct Block {
    /// The device's region. It goes before the memory does.
    region: ManuallyDrop<Box<dyn Any>>,
    key: u32,
    memory: NonNull<u8>,
    capacity: usize,
    owner: Owner,
    _share: Share,
}

/// How the memory was come by.
enum Owner {
    Allocated(Layout),
    /// The parts of a vector: its length is that of its buffer.
    Vec,
}

/// Where blocks begin: as pages do, so that large buffers cover whole ones.
const ALIGNMENT: usize = 4096;

impl Block {
    /// Allocates and registers memory, zeroed.
    pub(super) fn allocate<D: Device>(device: &D, budget: &Budget, octets: usize) -> Result<Arc<Self>, MemoryError> {
        let share = budget.take(octets)?;
        let layout = Layout::from_size_align(octets.max(1), ALIGNMENT).map_err(|_| MemoryError::TooLarge(octets))?;
        // SAFETY: the layout is not of zero octets.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        Self::register(device, memory, octets, Owner::Allocated(layout), share)
    }

    fn adopt<D: Device>(device: &D, budget: &Budget, memory: Vec<u8>) -> Result<Arc<Self>, MemoryError> {
        let share = budget.take(memory.capacity())?;
        let mut memory = ManuallyDrop::new(memory);
        let capacity = memory.capacity();
        // What is beyond its length has never been written; it will be shown.
        memory.spare_capacity_mut().fill(std::mem::MaybeUninit::new(0));
        let Some(place) = NonNull::new(memory.as_mut_ptr()) else { return Err(MemoryError::TooLarge(0)) };
        Self::register(device, place, capacity, Owner::Vec, share)
    }

    fn register<D: Device>(
        device: &D,
        memory: NonNull<u8>,
        capacity: usize,
        owner: Owner,
        share: Share,
    ) -> Result<Arc<Self>, MemoryError> {
        // SAFETY: the memory is the block's, which drops the region before it frees it; and it is used by places alone,
        // which are owned by buffers that are lent while something is posted or exposed.
        let region = match unsafe { device.register(memory, capacity, rights(device)) } {
            Ok(region) => region,
            Err(error) => {
                free(memory, capacity, &owner);
                return Err(error.into());
            }
        };
        let key = region.local_key();
        let region = ManuallyDrop::new(Box::new(region) as Box<dyn Any>);
        #[expect(clippy::arc_with_non_send_sync, reason = "a block stays with its pool's core")]
        Ok(Arc::new(Self { region, key, memory, capacity, owner, _share: share }))
    }
}

/// Gives memory back to where it came from.
fn free(memory: NonNull<u8>, capacity: usize, owner: &Owner) {
    match owner {
        // SAFETY: it was allocated with this layout, and is freed once: by the block that owns it, or for want of one.
        Owner::Allocated(layout) => unsafe { dealloc(memory.as_ptr(), *layout) },
        // SAFETY: these are the parts of a vector that was taken apart; zero of its octets need to be initialised.
        Owner::Vec => drop(unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, capacity) }),
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it is dropped here, once.
        unsafe { ManuallyDrop::drop(&mut self.region) };
        free(self.memory, self.capacity, &self.owner);
    }
}

/// A part of a block, for one buffer at a time.
#[derive(Debug)]
pub(super) struct Place {
    block: Arc<Block>,
    memory: NonNull<u8>,
    capacity: u32,
    key: u32,
}

impl Place {
    /// A part of a block.
    ///
    /// # Safety
    /// It is within the block, and no other place has an octet of it.
    pub(super) unsafe fn new(block: Arc<Block>, at: usize, capacity: u32) -> Self {
        // SAFETY: it is within the block, as the caller promises.
        let memory = unsafe { block.memory.add(at) };
        let key = block.key;
        Self { block, memory, capacity, key }
    }

    pub(super) fn adopt<D: Device>(device: &D, budget: &Budget, memory: Vec<u8>) -> Result<Self, MemoryError> {
        let capacity = u32::try_from(memory.capacity()).map_err(|_| MemoryError::TooLarge(memory.capacity()))?;
        let block = Block::adopt(device, budget, memory)?;
        let (memory, key) = (block.memory, block.key);
        Ok(Self { block, memory, capacity, key })
    }

    /// Whether it is a vector's, and no pool's.
    pub(super) fn is_adopted(&self) -> bool {
        matches!(self.block.owner, Owner::Vec)
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Its first octets.
    ///
    /// # Safety
    /// No device uses them, and nobody has them mutably.
    pub(super) unsafe fn octets(&self, length: u32) -> &[u8] {
        // SAFETY: the octets are within the place, were initialised when the block was made, and are used by nobody else, as
        // the caller promises.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), length.min(self.capacity) as usize) }
    }

    /// Its first octets, to be changed.
    ///
    /// # Safety
    /// No device uses them, and nobody else has them.
    #[expect(clippy::mut_from_ref, reason = "the buffer that has the place is borrowed mutably")]
    pub(super) unsafe fn octets_mut(&self, length: u32) -> &mut [u8] {
        // SAFETY: as `octets`, and nobody else has them, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), length.min(self.capacity) as usize) }
    }

    /// The vector that it was adopted from; none if it was not.
    pub(super) fn into_vec(self, length: u32) -> Option<Vec<u8>> {
        if !self.is_adopted() {
            return None;
        }
        let block = Arc::into_inner(self.block)?;
        let mut block = ManuallyDrop::new(block);
        // SAFETY: the block is not dropped: what it has is dropped here, once, the region before the memory goes on.
        unsafe {
            ManuallyDrop::drop(&mut block.region);
            std::ptr::drop_in_place(&raw mut block._share);
        }
        // SAFETY: these are the parts of a vector that was taken apart; all of its octets are initialised.
        Some(unsafe { Vec::from_raw_parts(block.memory.as_ptr(), length as usize, block.capacity) })
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} octets)", self.capacity)
    }
}
