//! Blocks of registered memory, their ranges, and the budget. All accesses to the memory of buffers
//! are in this module.
//!
//! A block counts in its budget (`BudgetShare`) from before its registration until the registration
//! has ended. If the device refuses to end it, the block is leaked and counts for ever. Ranges must
//! not overlap: `memory::pool` divides blocks and decides when they are freed. All bytes of a block
//! are initialised from the start, because `Buf` gives access to its whole capacity.
//!
//! Each pool calls `Budget::add` when it begins and `remove_ended` when it ends. `trim_all` must
//! not hold the lock of the list of pools while it trims, since a pool that ends takes the lock.

#![allow(
    unsafe_code,
    reason = "buffers access separate ranges of one block, and devices access them by address"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::{MemoryError, block_access};
use crate::provider::{Cause, Device, MemoryRegion, ProtectionDomainId, VerbError};

/// A limit on the memory that is registered at once by all pools and buffers that share the budget.
///
/// ```
/// let budget = rpcrdma_verbs::memory::Budget::new(1 << 30);
/// assert_eq!((budget.used(), budget.limit()), (0, 1 << 30));
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    limit: usize,
    used: AtomicUsize,
    leaked: AtomicUsize,
    refused: AtomicU64,
    /// The pools that use the budget.
    pools: Mutex<Vec<Weak<dyn Member>>>,
    /// Their number, without the lock.
    pool_count: AtomicUsize,
}

/// A pool that uses a budget.
pub(super) trait Member: fmt::Debug + Send + Sync {
    /// Frees idle memory, if it takes too much of the pool's part of the budget.
    fn trim(&self);
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(BudgetState {
            limit,
            used: AtomicUsize::new(0),
            leaked: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            pools: Mutex::default(),
            pool_count: AtomicUsize::new(0),
        }))
    }

    /// Adds a pool.
    pub(super) fn add(&self, pool: Weak<dyn Member>) {
        self.pools().push(pool);
        self.0.pool_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a pool that has ended.
    pub(super) fn remove_ended(&self) {
        self.pools().retain(|pool| pool.strong_count() > 0);
        self.0.pool_count.fetch_sub(1, Ordering::Relaxed);
    }

    fn pools(&self) -> MutexGuard<'_, Vec<Weak<dyn Member>>> {
        self.0.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all pools free idle memory beyond their parts of the budget.
    pub(super) fn trim_all(&self) {
        // A separate statement, so that the lock is released: a pool may end below, and takes it.
        let pools: Vec<_> = self.pools().iter().filter_map(Weak::upgrade).collect();
        pools.iter().for_each(|pool| pool.trim());
    }

    /// Returns the limit, divided by the number of pools.
    pub(super) fn limit_per_pool(&self) -> usize {
        self.limit() / self.0.pool_count.load(Ordering::Relaxed).max(1)
    }

    /// Returns the number of bytes that are registered, or about to be.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that were leaked because a device may still access them, or
    /// refused to end their registration. Their blocks count as used for ever.
    #[must_use]
    pub fn leaked(&self) -> usize {
        self.0.leaked.load(Ordering::Relaxed)
    }

    fn leak(&self, bytes: usize) {
        self.0.leaked.fetch_add(bytes, Ordering::Relaxed);
        tracing::error!(bytes, "memory is leaked: a device may still reach it");
    }

    /// Returns how often memory was refused because of the limit ([`MemoryError::Budget`]).
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    fn reserve(&self, bytes: usize) -> Result<BudgetShare, MemoryError> {
        let limit = self.0.limit;
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        match self
            .0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        {
            Ok(_) => Ok(BudgetShare {
                budget: self.clone(),
                bytes,
            }),
            Err(_) => {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                Err(MemoryError::Budget {
                    requested: bytes,
                    limit,
                })
            }
        }
    }
}

/// The bytes of one block in its budget. Dropping it returns them.
#[derive(Debug)]
struct BudgetShare {
    budget: Budget,
    bytes: usize,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Memory that is registered while it exists. The registration gives a peer no access: only the
/// work requests of this end can use its key.
pub(super) struct Block {
    /// The device's region. It ends before the memory is freed.
    region: ManuallyDrop<Box<dyn MemoryRegion + Send + Sync>>,
    key: u32,
    domain: ProtectionDomainId,
    memory: NonNull<u8>,
    capacity: usize,
    allocation: Allocation,
    share: ManuallyDrop<BudgetShare>,
}

// SAFETY: the block owns its memory, as a `Box` does, and gives no access to it: only its ranges
// do.
unsafe impl Send for Block {}
// SAFETY: as above; what is shared of it is not changed, apart from counters that are atomic.
unsafe impl Sync for Block {}

/// The origin of the memory.
enum Allocation {
    /// Anonymous pages, which the system fills with zeros, as late as their first use if the device
    /// allows it. The block begins on a page, so that large buffers cover whole pages.
    Pages,
    /// The memory of a vector of the caller ([`super::Buf::adopt`]).
    Vec,
}

impl Block {
    /// Allocates and registers zeroed memory.
    pub(super) fn allocate<D: Device>(
        device: &D,
        budget: &Budget,
        bytes: usize,
    ) -> Result<Arc<Self>, MemoryError> {
        let share = budget.reserve(bytes)?;
        Self::register(device, map(bytes)?, bytes, Allocation::Pages, share)
    }

    /// Registers the memory of a vector with a capacity above zero. A failure drops the vector.
    fn adopt<D: Device>(
        device: &D,
        budget: &Budget,
        memory: Vec<u8>,
    ) -> Result<Arc<Self>, MemoryError> {
        let share = budget.reserve(memory.capacity())?;
        let mut memory = ManuallyDrop::new(memory);
        let capacity = memory.capacity();
        // The memory beyond the length was never written, and the buffer gives access to it.
        memory
            .spare_capacity_mut()
            .fill(std::mem::MaybeUninit::new(0));
        // The pointer of a vector is never null.
        let Some(start) = NonNull::new(memory.as_mut_ptr()) else {
            return Err(MemoryError::TooLarge(0));
        };
        Self::register(device, start, capacity, Allocation::Vec, share)
    }

    /// Registers memory. A failure frees it.
    fn register<D: Device>(
        device: &D,
        memory: NonNull<u8>,
        capacity: usize,
        allocation: Allocation,
        share: BudgetShare,
    ) -> Result<Arc<Self>, MemoryError> {
        // SAFETY: the block owns the memory, and frees it after the region has ended, or never.
        // Only ranges access it. A range belongs to a buffer, which gives no access while a work
        // request uses it (`PostedBuf`) or the peer can access it.
        let region = match unsafe { device.register(memory, capacity, block_access(device)) } {
            Ok(region) => region,
            Err(error) => {
                free(memory, capacity, &allocation);
                return Err(error.into());
            }
        };
        let key = region.local_key();
        let region = ManuallyDrop::new(Box::new(region) as Box<dyn MemoryRegion + Send + Sync>);
        let share = ManuallyDrop::new(share);
        Ok(Arc::new(Self {
            region,
            key,
            domain: device.protection_domain(),
            memory,
            capacity,
            allocation,
            share,
        }))
    }
}

/// Maps pages of zeros.
fn map(bytes: usize) -> Result<NonNull<u8>, MemoryError> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses an address at which nothing is mapped.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    let mapped = mapped.map_err(|error| VerbError {
        verb: "mmap",
        cause: Cause::System(error.into()),
    })?;
    NonNull::new(mapped.cast()).ok_or(MemoryError::TooLarge(bytes))
}

/// Frees memory according to its origin.
fn free(memory: NonNull<u8>, capacity: usize, allocation: &Allocation) {
    match allocation {
        // SAFETY: the memory was mapped with this length. It is unmapped once, by its block, or by
        // `register` if there is no block; and nothing refers to it any more.
        Allocation::Pages => {
            let unmapped = unsafe { munmap(memory.as_ptr().cast(), capacity) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
        // SAFETY: these are the parts of a vector that was disassembled; with length zero, no byte
        // needs to be initialised.
        Allocation::Vec => drop(unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, capacity) }),
    }
}

impl Block {
    /// Ends the registration, and then counts the bytes as unused. Returns true if the caller must
    /// free the memory. If the device refuses, everything is leaked, and the result is false.
    ///
    /// # Safety
    /// The block is being dropped or disassembled, and this is called once.
    unsafe fn end(&mut self) -> bool {
        if !self.region.deregister() {
            self.share.budget.leak(self.capacity);
            return false;
        }
        // SAFETY: both are dropped here, once, as the caller promises, and are not used afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.region);
            ManuallyDrop::drop(&mut self.share);
        }
        true
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block is being dropped, and this is the only call.
        if unsafe { self.end() } {
            free(self.memory, self.capacity, &self.allocation);
        }
    }
}

/// A range of a block, which at most one buffer uses.
#[derive(Debug)]
pub(super) struct BlockRange {
    block: Arc<Block>,
    memory: NonNull<u8>,
    capacity: u32,
    key: u32,
}

// SAFETY: ranges do not overlap. A caller of `bytes` or `bytes_mut` promises that nothing else
// uses the bytes meanwhile, on any thread.
unsafe impl Send for BlockRange {}
// SAFETY: as above.
unsafe impl Sync for BlockRange {}

impl BlockRange {
    /// Creates a range of a block.
    ///
    /// # Safety
    /// The range is within the block, and overlaps no other range.
    pub(super) unsafe fn new(block: Arc<Block>, at: usize, capacity: u32) -> Self {
        // SAFETY: the range is within the block, as the caller promises.
        let memory = unsafe { block.memory.add(at) };
        let key = block.key;
        Self {
            block,
            memory,
            capacity,
            key,
        }
    }

    /// Registers the memory of a vector as one range. A failure drops the vector.
    pub(super) fn adopt<D: Device>(
        device: &D,
        budget: &Budget,
        mut memory: Vec<u8>,
    ) -> Result<Self, MemoryError> {
        // Devices refuse to register an empty range.
        if memory.capacity() == 0 {
            memory.reserve(1);
        }
        let capacity = u32::try_from(memory.capacity())
            .map_err(|_| MemoryError::TooLarge(memory.capacity()))?;
        let block = Block::adopt(device, budget, memory)?;
        let (memory, key) = (block.memory, block.key);
        Ok(Self {
            block,
            memory,
            capacity,
            key,
        })
    }

    /// Counts the range as leaked, because a device may still access it. The caller forgets the
    /// range, so that its block stays registered.
    pub(super) fn count_leak(&self) {
        self.block.share.budget.leak(self.capacity as usize);
    }

    /// Returns true if the memory is a vector's, and not a pool's.
    pub(super) fn is_adopted(&self) -> bool {
        matches!(self.block.allocation, Allocation::Vec)
    }

    /// Returns the protection domain in which it is registered.
    pub(super) fn domain(&self) -> ProtectionDomainId {
        self.block.domain
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the address for work requests. Devices in software turn it into a pointer, so its
    /// provenance is exposed.
    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Returns the first `length` bytes, or all if there are fewer.
    ///
    /// # Safety
    /// No device uses the bytes, and there is no mutable reference to them.
    pub(super) unsafe fn bytes(&self, length: u32) -> &[u8] {
        // SAFETY: the bytes are within the range, were initialised when the block was made, and
        // nothing else uses them, as the caller promises.
        unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr(), length.min(self.capacity) as usize)
        }
    }

    /// Returns the first `length` bytes, or all if there are fewer, mutably.
    ///
    /// # Safety
    /// No device uses the bytes, and there is no other reference to them.
    #[expect(
        clippy::mut_from_ref,
        reason = "the buffer that has the range is borrowed mutably"
    )]
    pub(super) unsafe fn bytes_mut(&self, length: u32) -> &mut [u8] {
        // SAFETY: as in `bytes`, and there is no other reference, as the caller promises.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_ptr(), length.min(self.capacity) as usize)
        }
    }

    /// Returns the vector that the memory was adopted from, with this length, or its capacity if
    /// that is less. Returns `None` if the memory is a pool's, and if the device refuses to end the
    /// registration, which leaks the memory.
    pub(super) fn into_vec(self, length: u32) -> Option<Vec<u8>> {
        if !self.is_adopted() {
            return None;
        }
        let block = Arc::into_inner(self.block)?;
        let mut block = ManuallyDrop::new(block);
        // SAFETY: the block is not dropped but disassembled here, once. Its other fields need no
        // drop.
        if !unsafe { block.end() } {
            return None;
        }
        let length = block.capacity.min(length as usize);
        // SAFETY: these are the parts of a vector that was disassembled. The length is at most its
        // capacity, and all of its bytes are initialised.
        Some(unsafe { Vec::from_raw_parts(block.memory.as_ptr(), length, block.capacity) })
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.capacity)
    }
}
