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
    classes: [RefCell<Vec<Rc<Place>>>; CLASSES],
    taken: Cell<u64>,
    made: Cell<u64>,
}

/// Where a place goes when no buffer has it any more: nowhere, once the pool is gone, or if it is no pool's.
#[derive(Clone, Default, Debug)]
pub(super) struct Home(Weak<Shelves>);

/// A share in a place. The last one brings it home.
pub(super) struct Share {
    place: ManuallyDrop<Rc<Place>>,
    home: Home,
}

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
fn class(octets: u32) -> Option<(usize, u32)> {
    (0..CLASSES).map(|class| (class, SMALLEST << (2 * class))).find(|(_, size)| *size >= octets)
}

impl Home {
    fn back(&self, place: Rc<Place>) {
        if let (Some(shelves), Some((class, _))) = (self.0.upgrade(), class(place.capacity()))
            && let Some(shelf) = shelves.classes.get(class)
        {
            shelf.borrow_mut().push(place);
        }
    }
}

impl Share {
    /// The only share in a place that is no pool's.
    pub(super) fn adopted(place: Place) -> Self {
        Self { place: ManuallyDrop::new(Rc::new(place)), home: Home::default() }
    }

    /// Whether nobody else has a share.
    pub(super) fn is_only(&self) -> bool {
        Rc::strong_count(&self.place) == 1
    }

    /// The place, if nobody else has a share.
    pub(super) fn into_place(self) -> Option<Place> {
        let mut share = ManuallyDrop::new(self);
        // SAFETY: the share is not dropped: what it has is taken here, once.
        let (place, home) = unsafe { (ManuallyDrop::take(&mut share.place), std::ptr::read(&raw const share.home)) };
        drop(home);
        Rc::into_inner(place)
    }
}

impl Clone for Share {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), home: self.home.clone() }
    }
}

impl Deref for Share {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // SAFETY: it is taken once, as the share goes.
        let place = unsafe { ManuallyDrop::take(&mut self.place) };
        if Rc::strong_count(&place) == 1 {
            self.home.back(place);
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
        let place = shelf.borrow_mut().pop().ok_or(MemoryError::TooLarge(octets as usize))?;
        self.shelves.taken.set(self.shelves.taken.get() + 1);
        let home = Home(Rc::downgrade(&self.shelves));
        Ok(Buf::of(Share { place: ManuallyDrop::new(place), home }))
    }

    /// Cuts a new block into places of one size.
    fn fill(&self, shelf: &mut Vec<Rc<Place>>, capacity: u32) -> Result<(), MemoryError> {
        let size = capacity as usize;
        let count = (BLOCK / size).max(1);
        let block = Block::allocate(&self.device, &self.shelves.budget, count * size)?;
        self.shelves.made.set(self.shelves.made.get() + 1);
        // All of them come back to this shelf, without growing it then.
        shelf.reserve(count);
        shelf.extend((0..count).rev().map(|at| {
            // SAFETY: the block has room for `count` places of this size, and this is the only one at its number.
            Rc::new(unsafe { Place::new(block.clone(), at * size, capacity) })
        }));
        Ok(())
    }
}
