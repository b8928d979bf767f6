//! Pools of registered buffers, by size class.
//!
//! This module owns the size classes, the references to slots, and the policy for idle blocks;
//! `memory::slabs` chooses blocks, and `memory::returns` takes slots back from any thread. A slot
//! never has weak references, since `is_unique` proves that no device and no thread uses the
//! memory. The last reference must be dropped as a `SlotRef`: the drop of a plain `Arc` loses the
//! slot. The lock of a pool is not held while a block is freed, because the device may take long.

#![allow(unsafe_code, reason = "places of one block are handed out apart")]

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block::{Block, BlockRange, Member};
use super::returns::{Link, Linked, Returns};
use super::slabs::Slabs;
use super::{Budget, Buf, MemoryError};
use crate::provider::Device;

/// A pool of registered buffers. Any thread can use it, and its buffers can be dropped on any
/// thread. Clones refer to the same pool.
///
/// The buffer sizes are 256 bytes, 1 KiB, 4 KiB, 16 KiB and so on by factors of four. From 256 KiB
/// on there are also sizes of five quarters, for a message with an item of such a size. Dropped
/// buffers return to the pool, which takes them back when it is used next, when another pool of its
/// budget lacks memory, or by [`collect`](Self::collect). Small buffers share blocks, which are
/// registered once.
///
/// Free blocks are kept for the next buffer of their size, with two exceptions. If the budget has
/// no room for another block, as many free blocks as needed are released, beginning with the block
/// that has been free for the longest time. If free and partly used blocks have more than a quarter
/// of the budget (divided by the pools that share it), free blocks are released until they have an
/// eighth. So taking and dropping buffers registers nothing, as long as the buffers that are
/// dropped before others are taken have less than an eighth of the budget. A partly used block
/// cannot be released, because buffers do not move. The fullest blocks are used first, so that
/// others become free.
///
/// ```
/// use rpcrdma_verbs::memory::{Budget, Pool};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let pool = Pool::new(&Fabric::new().device(), &Budget::new(1 << 20));
/// let mut buf = pool.take(1 << 16)?;
/// // Another thread fills it, and drops it.
/// std::thread::spawn(move || buf.extend_from_slice(&[7; 1000]))
///     .join()
///     .expect("no panic");
/// assert_eq!(pool.stats().used, 0);
/// # Ok::<(), rpcrdma_verbs::memory::MemoryError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool<D: Device> {
    device: D,
    shared: Arc<PoolState>,
}

/// The state that the clones of a pool share. Its slots do not refer to it, so that it ends with
/// the last clone.
#[derive(Debug)]
struct PoolState {
    budget: Budget,
    state: Mutex<State>,
    returns: Arc<Returns<PoolSlot>>,
}

#[derive(Debug)]
struct State {
    slabs: Slabs<Arc<PoolSlot>>,
    taken: u64,
    allocated: u64,
    freed: u64,
}

/// A range with the stack by which it returns to its pool when no buffer uses it; none if the
/// memory is adopted.
#[derive(Debug)]
pub(super) struct PoolSlot {
    pub(super) range: BlockRange,
    returns: Option<Arc<Returns<PoolSlot>>>,
    /// The number of its block in the pool.
    slab: u32,
    link: Link<Self>,
}

// SAFETY: each slot has a link of its own.
unsafe impl Linked for PoolSlot {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

/// A reference to a slot. Dropping the last reference returns the slot to its pool.
pub(super) struct SlotRef(ManuallyDrop<Arc<PoolSlot>>);

/// Statistics of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolStats {
    /// Buffers that were taken.
    pub taken: u64,
    /// Blocks that were allocated and registered.
    pub blocks: u64,
    /// Blocks that were deregistered and freed.
    pub freed: u64,
    /// The bytes of the blocks that are now free or partly used.
    pub idle: usize,
    /// The bytes of the buffers that are now in use.
    pub used: usize,
}

/// The number of size classes by factors of four, and the size of the smallest.
const POWERS: usize = 12;
const SMALLEST_SIZE: u32 = 256;
/// The first of the classes, 1 MiB, before which there is one of five quarters of the size before.
/// Those have the numbers that follow.
const FIRST_LARGE: usize = 6;
const CLASSES: usize = POWERS + POWERS - FIRST_LARGE;
/// The size of a block of small buffers.
const BLOCK_BYTES: usize = 1 << 18;
/// Blocks that are not full may have the budget divided by this.
const IDLE_DIVISOR: usize = 4;

/// Returns the smallest size class with room for `bytes` bytes, and its size.
#[inline]
fn size_class(bytes: u32) -> Option<(usize, u32)> {
    // The bits by which the smallest size is exceeded; each class adds two.
    let bits = u32::BITS - (bytes.max(1) - 1).leading_zeros();
    let class = bits
        .saturating_sub(SMALLEST_SIZE.trailing_zeros())
        .div_ceil(2) as usize;
    if class >= POWERS {
        return None;
    }
    let size = SMALLEST_SIZE << (2 * class);
    // Five quarters of the size before.
    let between = size / 16 * 5;
    Some(if class >= FIRST_LARGE && bytes <= between {
        (POWERS + class - FIRST_LARGE, between)
    } else {
        (class, size)
    })
}

#[cfg(test)]
#[test]
fn a_class_is_the_smallest_that_has_room() {
    const KIB: u32 = 1 << 10;
    for (bytes, size) in [
        (0, 256),
        (1, 256),
        (256, 256),
        (257, KIB),
        (KIB, KIB),
        (KIB + 1, 4 * KIB),
        (65 * KIB, 256 * KIB),
        (256 * KIB, 256 * KIB),
        (256 * KIB + 1, 320 * KIB),
        (320 * KIB + 1, KIB * KIB),
        (KIB * KIB + 1, 1280 * KIB),
        (1280 * KIB + 1, 4096 * KIB),
        (1 << 30, 1 << 30),
    ] {
        assert_eq!(
            size_class(bytes).map(|(_, size)| size),
            Some(size),
            "{bytes}"
        );
    }
    assert_eq!(size_class((1 << 30) + 1), None);
}

/// Each class has a number of its own.
#[cfg(test)]
#[test]
fn classes_are_numbered_one_by_one() {
    let sizes = (0..POWERS).flat_map(|power| {
        let size = SMALLEST_SIZE << (2 * power);
        [size, size + size / 4]
    });
    let mut classes: Vec<_> = sizes.filter_map(size_class).collect();
    classes.sort_unstable();
    classes.dedup();
    let numbers: Vec<_> = classes.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..CLASSES).collect::<Vec<_>>());
}

/// Returns a slot, to which there is no other reference, to its pool.
#[inline]
fn return_to_pool(slot: Arc<PoolSlot>) {
    let returned = match &slot.returns {
        // The stack lives until the slot is on it, because the slot refers to it.
        Some(returns) => Arc::as_ptr(returns),
        // The memory of a vector: its block ends here.
        None => return,
    };
    // SAFETY: the slot refers to the stack, and `add` uses the stack only while it has the slot.
    // A slot that comes back, because the pool is gone, is dropped here.
    drop(unsafe { &*returned }.add(slot));
}

impl SlotRef {
    /// Creates the only reference to adopted memory.
    pub(super) fn adopted(range: BlockRange) -> Self {
        Self(ManuallyDrop::new(Arc::new(PoolSlot {
            range,
            returns: None,
            slab: 0,
            link: Link::new(),
        })))
    }

    /// Returns true if there is no other reference.
    ///
    /// A slot has no weak references, so that nothing can create another reference meanwhile.
    #[inline]
    pub(super) fn is_unique(&self) -> bool {
        let is_unique = Arc::strong_count(&self.0) == 1;
        // The owners of the other references have finished with the memory.
        fence(Ordering::Acquire);
        is_unique
    }

    /// Leaks the reference: the slot never returns to its pool, and its block is never freed.
    pub(super) fn leak(self) {
        self.0.range.count_leak();
        // The destructor must not run.
        let _ = ManuallyDrop::new(self);
    }

    /// Creates a reference from a counted one.
    pub(super) fn from_arc(slot: Arc<PoolSlot>) -> Self {
        Self(ManuallyDrop::new(slot))
    }

    /// Returns a counted reference, whose owner drops it by [`Self::from_arc`].
    pub(super) fn into_arc(self) -> Arc<PoolSlot> {
        let mut slot = ManuallyDrop::new(self);
        // SAFETY: the destructor does not run, so the value is taken once.
        unsafe { ManuallyDrop::take(&mut slot.0) }
    }

    /// Returns the slot if there is no other reference.
    fn into_slot(self) -> Option<Arc<PoolSlot>> {
        let is_unique = self.is_unique();
        let slot = self.into_arc();
        if is_unique {
            return Some(slot);
        }
        // If several threads drop their references at once, one of them gets the slot.
        Arc::into_inner(slot).map(Arc::new)
    }

    /// Returns the range if there is no other reference.
    pub(super) fn into_range(self) -> Option<BlockRange> {
        Arc::into_inner(self.into_slot()?).map(|slot| slot.range)
    }
}

impl Clone for SlotRef {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Deref for SlotRef {
    type Target = BlockRange;

    #[inline]
    fn deref(&self) -> &BlockRange {
        &self.0.range
    }
}

impl Drop for SlotRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the destructor runs once, so the value is taken once.
        let reference = Self(ManuallyDrop::new(unsafe {
            ManuallyDrop::take(&mut self.0)
        }));
        if let Some(slot) = reference.into_slot() {
            return_to_pool(slot);
        }
    }
}

impl State {
    /// Takes back the slots that were dropped.
    fn collect(&mut self, returns: &Returns<PoolSlot>) {
        for slot in returns.take_all() {
            self.slabs.put(slot.slab, slot);
        }
    }
}

impl PoolState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free slot of a class, after taking back the slots that were dropped. Returns `None`
    /// if all blocks of the class are full.
    #[inline]
    fn take(&self, class: usize) -> Option<Arc<PoolSlot>> {
        if self.returns.has_some() {
            self.trim();
        }
        let mut state = self.lock();
        let slot = state.slabs.take(class)?;
        state.taken += 1;
        Some(slot)
    }

    /// Frees blocks while there are free ones and `wants_more` holds.
    #[cold]
    fn free_blocks_while(&self, wants_more: impl Fn() -> bool) {
        while wants_more() {
            let slots = self.lock().slabs.take_free();
            let Some(slots) = slots else { return };
            // Dropping the last slot frees the block.
            drop(slots);
            self.lock().freed += 1;
        }
    }
}

impl Member for PoolState {
    /// Takes back the slots that were dropped, and frees blocks, if blocks that are not full have
    /// too much of the budget.
    fn trim(&self) {
        let most = self.budget.limit_per_pool() / IDLE_DIVISOR;
        let mut state = self.lock();
        state.collect(&self.returns);
        let idle = state.slabs.idle();
        drop(state);
        // Even with a small budget one block is kept, so that the next buffer needs none.
        if idle > most.max(BLOCK_BYTES) {
            let kept = (most / 2).max(BLOCK_BYTES);
            self.free_blocks_while(|| self.lock().slabs.idle() > kept);
        }
    }
}

impl Drop for PoolState {
    fn drop(&mut self) {
        self.budget.remove_ended();
        // A slot that returns later is dropped by the thread that returns it.
        drop(self.returns.close());
    }
}

impl<D: Device> Pool<D> {
    /// Creates a pool of buffers that are registered with this device, within a budget.
    #[must_use]
    pub fn new(device: &D, budget: &Budget) -> Self {
        let state = State {
            slabs: Slabs::new(CLASSES),
            taken: 0,
            allocated: 0,
            freed: 0,
        };
        let shared = Arc::new(PoolState {
            budget: budget.clone(),
            state: Mutex::new(state),
            returns: Returns::new(),
        });
        let member = Arc::downgrade(&shared);
        budget.add(member);
        Self {
            device: device.clone(),
            shared,
        }
    }

    /// Returns true if more than half of the budget is used.
    pub(crate) fn is_scarce(&self) -> bool {
        let budget = &self.shared.budget;
        budget.used() > budget.limit() / 2
    }

    /// Returns the device with which the buffers are registered.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Returns the budget.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// Returns the statistics.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.collect();
        let state = self.shared.lock();
        PoolStats {
            taken: state.taken,
            blocks: state.allocated,
            freed: state.freed,
            idle: state.slabs.idle(),
            used: state.slabs.used(),
        }
    }

    /// Returns the capacity of a buffer for this number of bytes.
    pub(crate) fn capacity(bytes: u32) -> u32 {
        size_class(bytes).map_or(bytes, |(_, size)| size)
    }

    /// Returns an empty buffer with a capacity of at least `bytes` bytes.
    ///
    /// # Errors
    /// Fails if the budget is used up, or if the device cannot register more memory.
    pub fn take(&self, bytes: u32) -> Result<Buf, MemoryError> {
        let Some((class, size)) = size_class(bytes) else {
            return Err(MemoryError::TooLarge(bytes as usize));
        };
        let slot = match self.shared.take(class) {
            Some(slot) => slot,
            None => self.add_block(class, size)?,
        };
        Ok(Buf::from_slot(SlotRef(ManuallyDrop::new(slot))))
    }

    /// Appends up to `count` buffers of at least `bytes` bytes to a list, as far as they are free.
    pub(super) fn take_free(&self, bytes: u32, count: usize, bufs: &mut impl Extend<Buf>) {
        let Some((class, _)) = size_class(bytes) else {
            return;
        };
        let mut state = self.shared.lock();
        let mut taken = 0;
        bufs.extend((0..count).map_while(|_| {
            let slot = state.slabs.take(class)?;
            taken += 1;
            Some(Buf::from_slot(SlotRef(ManuallyDrop::new(slot))))
        }));
        state.taken += taken;
    }

    /// Takes back dropped buffers, and frees idle memory beyond the limits. A driver calls this
    /// before it sleeps.
    #[inline]
    pub fn collect(&self) {
        if self.shared.returns.has_some() {
            self.shared.trim();
        }
    }

    /// Adds a block with slots of one size, and takes the first slot.
    #[cold]
    fn add_block(&self, class: usize, capacity: u32) -> Result<Arc<PoolSlot>, MemoryError> {
        let size = capacity as usize;
        let count = (BLOCK_BYTES / size).max(1);
        let block = self.allocate(count * size)?;
        let returns = &self.shared.returns;
        let mut state = self.shared.lock();
        state.allocated += 1;
        state.slabs.add(class, count * size, count, |at, slab| {
            // SAFETY: the block has room for `count` ranges of this size, and each number is used
            // once.
            let range = unsafe { BlockRange::new(block.clone(), at * size, capacity) };
            Arc::new(PoolSlot {
                range,
                returns: Some(returns.clone()),
                slab,
                link: Link::new(),
            })
        });
        let taken = state.slabs.take(class);
        state.taken += 1;
        drop(state);
        self.shared.trim();
        taken.ok_or(MemoryError::TooLarge(size))
    }

    /// Allocates a block. If the budget has no room for it, free blocks are released first.
    fn allocate(&self, bytes: usize) -> Result<Arc<Block>, MemoryError> {
        let budget = &self.shared.budget;
        let room = || budget.limit().saturating_sub(budget.used());
        let evict = || {
            let mut state = self.shared.lock();
            state.collect(&self.shared.returns);
            let free = state.slabs.free();
            drop(state);
            // A block that would not fit even then evicts nothing.
            if room() < bytes && room().saturating_add(free) >= bytes {
                self.shared.free_blocks_while(|| room() < bytes);
            }
        };
        evict();
        if room() < bytes {
            // Others may not have noticed yet that their buffers were dropped.
            budget.trim_all();
            evict();
        }
        Block::allocate(&self.device, budget, bytes)
    }
}
