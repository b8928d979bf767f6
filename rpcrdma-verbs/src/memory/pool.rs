//! Pools of registered buffers, by classes of size.

#![allow(unsafe_code, reason = "places of one block are handed out apart")]

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::block::{Block, Place};
use super::{Budget, Buf, MemoryError};
use crate::provider::Device;

/// A pool of registered buffers for one core. Clones are of the same pool.
///
/// Buffers have the sizes 1 KiB, 4 KiB, 16 KiB and so on by fours, up to 1 MiB and beyond, and come back when they are
/// dropped. Small ones share blocks, which are registered once.
#[derive(Clone, Debug)]
pub struct Pool<D: Device> {
    device: D,
    shelves: Rc<Shelves>,
}

/// The buffers that are free.
#[derive(Debug)]
struct Shelves {
    budget: Budget,
    classes: [RefCell<Vec<Free>>; CLASSES],
    taken: std::cell::Cell<u64>,
    made: std::cell::Cell<u64>,
}

/// A place that no buffer has.
#[derive(Debug)]
struct Free {
    block: Arc<Block>,
    at: usize,
}

/// Where a place goes when its buffer is dropped: nowhere, once the pool is gone.
pub(super) struct Home(Weak<Shelves>);

/// What a pool has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolStats {
    /// Buffers that were handed out.
    pub taken: u64,
    /// Blocks that were allocated and registered.
    pub blocks: u64,
}

/// Classes of size, and octets of the smallest.
const CLASSES: usize = 11;
const SMALLEST: u32 = 1024;
/// Octets of a block of small buffers.
const BLOCK: usize = 1 << 18;

/// The class of buffers that have room for so many octets, and what they have room for.
fn class(octets: u32) -> Option<(usize, u32)> {
    (0..CLASSES).map(|class| (class, SMALLEST << (2 * class))).find(|(_, size)| *size >= octets)
}

impl Home {
    pub(super) fn back(self, block: Arc<Block>, at: usize, capacity: u32) {
        if let (Some(shelves), Some((class, _))) = (self.0.upgrade(), class(capacity))
            && let Some(shelf) = shelves.classes.get(class)
        {
            shelf.borrow_mut().push(Free { block, at });
        }
    }
}

impl<D: Device> Pool<D> {
    /// A pool of buffers that are registered with this device, within a budget.
    #[must_use]
    pub fn new(device: &D, budget: &Budget) -> Self {
        let shelves = Shelves {
            budget: budget.clone(),
            classes: std::array::from_fn(|_| RefCell::default()),
            taken: 0.into(),
            made: 0.into(),
        };
        Self { device: device.clone(), shelves: Rc::new(shelves) }
    }

    /// The device that its buffers are registered with.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.shelves.budget
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        PoolStats { taken: self.shelves.taken.get(), blocks: self.shelves.made.get() }
    }

    /// An empty buffer with room for so many octets.
    ///
    /// # Errors
    /// The budget is used up, or the device can't register more.
    pub fn take(&self, octets: u32) -> Result<Buf, MemoryError> {
        let (class, size) = class(octets).ok_or(MemoryError::TooLarge(octets as usize))?;
        let Some(shelf) = self.shelves.classes.get(class) else { return Err(MemoryError::TooLarge(octets as usize)) };
        if shelf.borrow().is_empty() {
            self.fill(&mut shelf.borrow_mut(), size)?;
        }
        let Some(Free { block, at }) = shelf.borrow_mut().pop() else {
            return Err(MemoryError::TooLarge(octets as usize));
        };
        self.shelves.taken.set(self.shelves.taken.get() + 1);
        let home = Home(Rc::downgrade(&self.shelves));
        // SAFETY: a free place is within its block, and stands on one shelf alone: it was cut from the block once (`fill`),
        // and came back from the one place that had it.
        Ok(Buf::of(unsafe { Place::new(block, at, size, home) }))
    }

    /// Cuts a new block into places of one size.
    fn fill(&self, shelf: &mut Vec<Free>, size: u32) -> Result<(), MemoryError> {
        let size = size as usize;
        let count = (BLOCK / size).max(1);
        let block = Block::allocate(&self.device, &self.shelves.budget, count * size)?;
        self.shelves.made.set(self.shelves.made.get() + 1);
        // All of them come back to this shelf, without growing it then.
        shelf.reserve(count);
        shelf.extend((0..count).rev().map(|at| Free { block: block.clone(), at: at * size }));
        Ok(())
    }
}
