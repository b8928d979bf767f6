//! Pools of registered buffers, by classes of size.

#![allow(unsafe_code, reason = "places of one block are handed out apart")]

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use super::block::{Block, Place};
use super::{Budget, Buf, MemoryError};
use crate::provider::Device;

/// A pool of registered buffers for one core. Clones are of the same pool.
///
/// Buffers have the sizes 256 octets, 1 KiB, 4 KiB, 16 KiB and so on by fours, up to 1 MiB and beyond, and come back when they
/// are dropped. Small ones share blocks, which are registered once.
#[derive(Clone, Debug)]
pub struct Pool<D: Device> {
    device: D,
    shelves: Rc<Shelves>,
}

/// The buffers that are free.
#[derive(Debug)]
struct Shelves {
    budget: Budget,
    classes: [RefCell<Vec<Rc<Kept>>>; CLASSES],
    taken: Cell<u64>,
    made: Cell<u64>,
}

/// A place, and where it goes when no buffer has it any more: nowhere, once the pool is gone, or if it is no pool's.
#[derive(Debug)]
struct Kept {
    place: Place,
    home: Weak<Shelves>,
    class: usize,
}

/// A share in a place. The last one brings it home.
pub(super) struct Share(ManuallyDrop<Rc<Kept>>);

/// What a pool has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolStats {
    /// Buffers that were handed out.
    pub taken: u64,
    /// Blocks that were allocated and registered.
    pub blocks: u64,
}

/// Classes of size, and octets of the smallest.
const CLASSES: usize = 12;
const SMALLEST: u32 = 256;
/// Octets of a block of small buffers.
const BLOCK: usize = 1 << 18;

/// The class of buffers that have room for so many octets, and what they have room for.
#[inline]
fn class(octets: u32) -> Option<(usize, u32)> {
    // Bits of the smallest size that are not enough, two of which are a class.
    let bits = u32::BITS - (octets.max(1) - 1).leading_zeros();
    let class = bits.saturating_sub(SMALLEST.trailing_zeros()).div_ceil(2) as usize;
    (class < CLASSES).then(|| (class, SMALLEST << (2 * class)))
}

#[cfg(test)]
#[test]
fn a_class_is_the_smallest_that_has_room() {
    for (octets, size) in [(0, 256), (1, 256), (256, 256), (257, 1024), (1024, 1024), (1025, 4096), (1 << 30, 1 << 30)]
    {
        assert_eq!(class(octets).map(|(_, size)| size), Some(size), "{octets}");
    }
    assert_eq!(class((1 << 30) + 1), None);
}

/// Brings a place home.
#[inline]
fn bring_home(kept: Rc<Kept>) {
    if let Some(shelves) = kept.home.upgrade()
        && let Some(shelf) = shelves.classes.get(kept.class)
    {
        shelf.borrow_mut().push(kept);
    }
}

impl Share {
    /// The only share in a place that is no pool's.
    pub(super) fn adopted(place: Place) -> Self {
        Self(ManuallyDrop::new(Rc::new(Kept { place, home: Weak::new(), class: 0 })))
    }

    /// Whether nobody else has a share.
    #[inline]
    pub(super) fn is_only(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    /// The place, if nobody else has a share.
    pub(super) fn into_place(self) -> Option<Place> {
        let mut share = ManuallyDrop::new(self);
        // SAFETY: the share is not dropped: what it has is taken here, once.
        let kept = unsafe { ManuallyDrop::take(&mut share.0) };
        Rc::into_inner(kept).map(|kept| kept.place)
    }
}

impl Clone for Share {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Deref for Share {
    type Target = Place;

    #[inline]
    fn deref(&self) -> &Place {
        &self.0.place
    }
}

impl Drop for Share {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is taken once, as the share goes.
        let kept = unsafe { ManuallyDrop::take(&mut self.0) };
        if Rc::strong_count(&kept) == 1 {
            bring_home(kept);
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
    #[inline]
    pub fn take(&self, octets: u32) -> Result<Buf, MemoryError> {
        let Some((class, size)) = class(octets) else { return Err(MemoryError::TooLarge(octets as usize)) };
        let Some(shelf) = self.shelves.classes.get(class) else { return Err(MemoryError::TooLarge(octets as usize)) };
        let mut shelf = shelf.borrow_mut();
        if shelf.is_empty() {
            self.fill(&mut shelf, class, size)?;
        }
        let Some(kept) = shelf.pop() else { return Err(MemoryError::TooLarge(octets as usize)) };
        self.shelves.taken.set(self.shelves.taken.get() + 1);
        Ok(Buf::of(Share(ManuallyDrop::new(kept))))
    }

    /// Cuts a new block into places of one size.
    #[cold]
    fn fill(&self, shelf: &mut Vec<Rc<Kept>>, class: usize, capacity: u32) -> Result<(), MemoryError> {
        let size = capacity as usize;
        let count = (BLOCK / size).max(1);
        let block = Block::allocate(&self.device, &self.shelves.budget, count * size)?;
        self.shelves.made.set(self.shelves.made.get() + 1);
        // All of them come back to this shelf, without growing it then.
        shelf.reserve(count);
        shelf.extend((0..count).rev().map(|at| {
            // SAFETY: the block has room for `count` places of this size, and this is the only one at its number.
            let place = unsafe { Place::new(block.clone(), at * size, capacity) };
            Rc::new(Kept { place, home: Rc::downgrade(&self.shelves), class })
        }));
        Ok(())
    }
}
