//! Regions and windows of a device, by the numbers that requests name them by.

use std::cell::RefCell;
use std::rc::Rc;

use super::numbers::Numbers;
use super::sys::{Region, Window};
use crate::provider::{Slice, Status};

/// What is registered, and the windows.
#[derive(Default)]
pub(super) struct Tables {
    regions: RefCell<Numbers<Rc<Region>>>,
    windows: RefCell<Windows>,
}

#[derive(Default)]
struct Windows {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Where a key's window is. Binds change the lowest octet alone.
    by_key: Numbers<usize>,
}

struct Entry {
    window: Rc<Window>,
    /// The key that it has, or will have when what is being posted is done.
    key: u32,
    /// What it may be bound to.
    bound: Option<Bound>,
}

#[derive(Clone, Copy)]
struct Bound {
    /// The queue pair, and the local key of the region.
    pair: u32,
    region: u32,
    /// Whether nothing was posted that unbinds it.
    holds: bool,
}

/// What of a key is its window's.
const fn index(key: u32) -> u32 {
    key >> 8
}

impl Windows {
    fn by_key(&mut self, key: u32) -> Option<&mut Entry> {
        let at = *self.by_key.get(&index(key))?;
        self.entries.get_mut(at)?.as_mut().filter(|entry| entry.key == key)
    }

    fn take(&mut self, at: usize) -> Option<Entry> {
        let entry = self.entries.get_mut(at)?.take()?;
        self.by_key.remove(&index(entry.key));
        Some(entry)
    }

    /// Takes those that may be bound so. Their places stay theirs, empty.
    fn take_bound(&mut self, so: impl Fn(&Bound) -> bool) -> Vec<Entry> {
        let bound =
            |entry: &Option<Entry>| entry.as_ref().and_then(|entry| entry.bound).is_some_and(|bound| so(&bound));
        let found: Vec<usize> = (0..self.entries.len()).filter(|at| bound(&self.entries[*at])).collect();
        found.into_iter().filter_map(|at| self.take(at)).collect()
    }
}

impl Tables {
    pub(super) fn add_region(&self, region: &Rc<Region>) {
        self.regions.borrow_mut().insert(region.local_key(), region.clone());
    }

    /// Forgets a region, and ends it: if the device refuses because windows are bound to it, they go first.
    pub(super) fn end_region(&self, region: &Region) {
        let key = region.local_key();
        self.regions.borrow_mut().remove(&key);
        if region.end().is_err() {
            let bound = self.windows.borrow_mut().take_bound(|bound| bound.region == key);
            tracing::debug!(windows = bound.len(), "windows go with the memory that they are bound to");
        }
    }

    /// Whether all slices are of registered memory.
    pub(super) fn holds(&self, slices: &[Slice]) -> bool {
        let regions = self.regions.borrow();
        slices.iter().all(|slice| regions.get(&slice.key).is_some_and(|region| region.holds(slice)))
    }

    /// Adds a window: its number.
    pub(super) fn add_window(&self, window: Window) -> u32 {
        let windows = &mut *self.windows.borrow_mut();
        let at = windows.free.pop().unwrap_or_else(|| {
            windows.entries.push(None);
            windows.entries.len() - 1
        });
        let key = window.key();
        windows.by_key.insert(index(key), at);
        windows.entries[at] = Some(Entry { window: Rc::new(window), key, bound: None });
        // A device has not so many.
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Ends a window, and gives its number to the next.
    pub(super) fn end_window(&self, number: u32) {
        let mut windows = self.windows.borrow_mut();
        let entry = windows.take(number as usize);
        windows.free.push(number as usize);
        drop(windows);
        drop(entry);
    }

    /// A window is to be bound to a range of a region by this key, on this queue pair.
    pub(super) fn bind(
        &self,
        (number, key): (u32, u32),
        range: &Slice,
        pair: u32,
    ) -> Result<(Rc<Window>, Rc<Region>), Status> {
        let region = self.regions.borrow().get(&range.key).cloned().ok_or(Status::Bind)?;
        let mut windows = self.windows.borrow_mut();
        let entry = windows.entries.get_mut(number as usize).and_then(Option::as_mut).ok_or(Status::Bind)?;
        if index(entry.key) != index(key) {
            return Err(Status::Bind);
        }
        entry.key = key;
        entry.bound = Some(Bound { pair, region: range.key, holds: true });
        Ok((entry.window.clone(), region))
    }

    /// A window is to be unbound, by a request on this queue pair.
    pub(super) fn unbind(&self, key: u32, pair: u32) -> Result<(), Status> {
        let mut windows = self.windows.borrow_mut();
        let bound = windows.by_key(key).and_then(|entry| entry.bound.as_mut());
        let bound = bound.filter(|bound| bound.holds && bound.pair == pair).ok_or(Status::LocalProtection)?;
        // It may be flushed, and the window stay bound.
        bound.holds = false;
        Ok(())
    }

    /// The peer has unbound a window.
    pub(super) fn unbound(&self, key: u32) {
        if let Some(entry) = self.windows.borrow_mut().by_key(key) {
            entry.bound = None;
        }
    }

    /// Ends the windows that may be bound on a queue pair. Soft-RoCE would wait for them, before the queue pair goes.
    pub(super) fn end_pair(&self, pair: u32) {
        let bound = self.windows.borrow_mut().take_bound(|bound| bound.pair == pair);
        drop(bound);
    }
}
