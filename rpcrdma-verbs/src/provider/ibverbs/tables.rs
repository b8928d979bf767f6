//! The regions and windows of a device, by the numbers in requests. They decide whether a window
//! may be bound, or invalidated: some devices would execute what must be rejected, or crash.
//!
//! `bind` and `unbind` record what posted requests will do, in posting order; a peer's invalidation
//! is recorded when its completion is taken. So `Bound` is a window that may be bound. `end_pair`
//! ends the windows of a queue pair, and `end_region` those of a region that the device refuses to
//! end because of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::number_map::NumberMap;
use super::sys::{Region, Window};
use crate::provider::{Sge, Status};

/// The registered regions, and the windows.
///
/// A region or a window is removed before it ends. A list that binds windows is posted under the
/// lock. So a thread that ends a region or a window waits until the list is posted, and objects in
/// a list do not end before that. Nothing ends under the lock, since the device may be slow.
#[derive(Default)]
pub(super) struct Tables(Mutex<TableState>);

#[derive(Default)]
pub(super) struct TableState {
    regions: NumberMap<Arc<Region>>,
    windows: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// The index of the window of a key. Binds change only the lowest byte.
    by_key: NumberMap<usize>,
}

/// The tables, which are locked when they are first needed.
pub(super) struct LazyTables<'a> {
    tables: &'a Tables,
    locked: Option<MutexGuard<'a, TableState>>,
}

/// A window, until its owner ends it.
struct Entry {
    window: Arc<Window>,
    /// The key after the requests that are being posted.
    key: u32,
    /// The regions to which it may be bound.
    bound: Option<Bound>,
    /// True after it was ended with its region or queue pair. It cannot be bound again.
    is_retired: bool,
    /// True if it gives no access even though the device has refused to end it, because its queue
    /// pair has ended.
    is_cut_off: bool,
}

/// A window that the device has refused to end, with its index.
pub(super) type RefusedWindow = (usize, Arc<Window>);

#[derive(Clone, Copy)]
struct Bound {
    /// The queue pair, and the local key of the region.
    pair: u32,
    region: u32,
    /// True if no posted request unbinds it.
    holds: bool,
}

/// Returns the part of a key that identifies its window.
const fn index(key: u32) -> u32 {
    key >> 8
}

impl TableState {
    fn by_key(&mut self, key: u32) -> Option<&mut Entry> {
        let at = *self.by_key.get(&index(key))?;
        self.windows
            .get_mut(at)?
            .as_mut()
            .filter(|entry| entry.key == key)
    }

    /// Retires the windows whose possible binding matches `so`, and returns them with their
    /// indices.
    fn retire_bound(&mut self, so: impl Fn(&Bound) -> bool) -> Vec<(usize, Arc<Window>)> {
        let mut retired = Vec::new();
        for (at, entry) in self.windows.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            if entry.bound.as_ref().is_some_and(&so) {
                entry.bound = None;
                entry.is_retired = true;
                self.by_key.remove(&index(entry.key));
                retired.push((at, entry.window.clone()));
            }
        }
        retired
    }

    /// Returns true if all entries are in registered memory.
    pub(super) fn holds(&self, slices: &[Sge]) -> bool {
        slices.iter().all(|slice| {
            self.regions
                .get(&slice.key)
                .is_some_and(|region| region.holds(slice))
        })
    }

    /// Records that a request on this queue pair binds a window to a range of a region, with this
    /// key.
    pub(super) fn bind(
        &mut self,
        (number, key): (u32, u32),
        range: &Sge,
        pair: u32,
    ) -> Result<(Arc<Window>, Arc<Region>), Status> {
        let region = self.regions.get(&range.key).cloned().ok_or(Status::Bind)?;
        let entry = self
            .windows
            .get_mut(number as usize)
            .and_then(Option::as_mut)
            .ok_or(Status::Bind)?;
        if entry.is_retired || index(entry.key) != index(key) {
            return Err(Status::Bind);
        }
        entry.key = key;
        entry.bound = Some(Bound {
            pair,
            region: range.key,
            holds: true,
        });
        Ok((entry.window.clone(), region))
    }

    /// Records that a request on this queue pair unbinds a window.
    pub(super) fn unbind(&mut self, key: u32, pair: u32) -> Result<(), Status> {
        let bound = self.by_key(key).and_then(|entry| entry.bound.as_mut());
        let bound = bound
            .filter(|bound| bound.holds && bound.pair == pair)
            .ok_or(Status::LocalProtection)?;
        // The request may be flushed, so that the window stays bound.
        bound.holds = false;
        Ok(())
    }

    /// Records that the peer has unbound a window.
    pub(super) fn unbound(&mut self, key: u32) {
        if let Some(entry) = self.by_key(key) {
            entry.bound = None;
        }
    }
}

impl<'a> LazyTables<'a> {
    pub(super) fn get(&mut self) -> &mut TableState {
        self.locked.get_or_insert_with(|| self.tables.lock())
    }

    /// Unlocks the tables until they are needed again.
    pub(super) fn release(&mut self) {
        self.locked = None;
    }
}

/// Ends windows, and returns those that the device has refused to end.
fn end_all(windows: Vec<(usize, Arc<Window>)>) -> Vec<RefusedWindow> {
    let refuses = |(_, window): &(usize, Arc<Window>)| !window.end();
    windows.into_iter().filter(refuses).collect()
}

impl Tables {
    fn lock(&self) -> MutexGuard<'_, TableState> {
        // No panic can occur between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lazy(&self) -> LazyTables<'_> {
        LazyTables {
            tables: self,
            locked: None,
        }
    }

    pub(super) fn add_region(&self, region: &Arc<Region>) {
        let key = region.local_key();
        let gone = self.lock().regions.insert(key, region.clone());
        drop(gone);
    }

    /// Removes a region and ends it. If the device refuses because windows are bound to it, they
    /// are ended first. Returns true if the device can no longer access the memory.
    pub(super) fn end_region(&self, region: &Region) -> bool {
        let key = region.local_key();
        let gone = self.lock().regions.remove(&key);
        drop(gone);
        if region.end().is_ok() {
            return true;
        }
        tracing::debug!("windows go with the memory that they are bound to");
        let bound = self.lock().retire_bound(|bound| bound.region == key);
        end_all(bound);
        // If it is refused again, the final drop reports it.
        region.end().is_ok()
    }

    /// Adds a window, and returns its number.
    pub(super) fn add_window(&self, window: Window) -> u32 {
        let state = &mut *self.lock();
        let at = state.free.pop().unwrap_or_else(|| {
            state.windows.push(None);
            state.windows.len() - 1
        });
        let key = window.key();
        state.by_key.insert(index(key), at);
        state.windows[at] = Some(Entry {
            window: Arc::new(window),
            key,
            bound: None,
            is_retired: false,
            is_cut_off: false,
        });
        // No device has this many windows.
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Ends a window, and returns true if it gives no access any more. Its number is then reused.
    /// Its owner calls this once.
    pub(super) fn end_window(&self, number: u32) -> bool {
        let at = number as usize;
        let entry = {
            let state = &mut *self.lock();
            let entry = state.windows.get_mut(at).and_then(Option::take);
            if let Some(entry) = entry.as_ref().filter(|entry| !entry.is_retired) {
                state.by_key.remove(&index(entry.key));
            }
            entry
        };
        // This waits for a thread that ends the window with its region or queue pair.
        let ended = entry.is_none_or(|entry| entry.window.end() || entry.is_cut_off);
        if ended {
            self.lock().free.push(at);
        }
        ended
    }

    /// Ends the windows that may be bound on a queue pair, and returns those that cannot be ended.
    /// Soft-RoCE would wait for them at the end of the queue pair.
    pub(super) fn end_pair(&self, pair: u32) -> Vec<RefusedWindow> {
        let bound = self.lock().retire_bound(|bound| bound.pair == pair);
        end_all(bound)
    }

    /// Records that the queue pair of windows that could not be ended has ended, so that the
    /// windows give no access.
    pub(super) fn cut_off(&self, windows: &[RefusedWindow]) {
        if windows.is_empty() {
            return;
        }
        let mut state = self.lock();
        for (at, window) in windows {
            let entry = state.windows.get_mut(*at).and_then(Option::as_mut);
            // Its owner may have ended it, and another window may have its number.
            if let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.window, window)) {
                entry.is_cut_off = true;
            }
        }
    }
}
