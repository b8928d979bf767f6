//! Objects by numbers, for file systems whose kernel handles are missing or cannot be opened.
//!
//! The table keeps a descriptor of each object, so that its inode number is not reused. The table
//! is bounded: at the limit, the least recently used object is removed, and its handle becomes
//! stale.

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

/// The device and the inode of an object.
pub(super) type Id = (u64, u64);

/// The number of the root. The root is never removed, and so is not in the table.
pub(super) const ROOT: u64 = 0;

/// Descriptors by numbers.
pub(super) struct Table {
    entries: Mutex<Entries>,
    limit: usize,
}

struct Entries {
    /// In the order of their last use. `Table` limits the number.
    by_number: LruCache<u64, Entry, RandomState>,
    by_id: HashMap<Id, u64>,
    /// The number of numbers assigned.
    given: u64,
}

struct Entry {
    id: Id,
    object: Arc<OwnedFd>,
}

impl Table {
    /// Creates a table of at most `limit` objects.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                by_number: LruCache::unbounded_with_hasher(RandomState::new()),
                by_id: HashMap::new(),
                given: 0,
            }),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of an object. It stays the same as long as the object is in the table.
    pub(super) fn number(&self, id: Id, object: &Arc<OwnedFd>) -> u64 {
        let mut entries = self.lock();
        if let Some(number) = entries.by_id.get(&id).copied() {
            entries.by_number.promote(&number);
            return number;
        }
        if entries.by_number.len() >= self.limit
            && let Some((_, oldest)) = entries.by_number.pop_lru()
        {
            entries.by_id.remove(&oldest.id);
        }
        entries.given += 1;
        let number = ROOT + entries.given;
        let object = object.clone();
        entries.by_id.insert(id, number);
        entries.by_number.put(number, Entry { id, object });
        number
    }

    /// Returns the object of a number, if it is in the table.
    pub(super) fn get(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut entries = self.lock();
        let entry = entries.by_number.get(&number)?;
        Some(entry.object.clone())
    }

    /// Returns the descriptor of an object, if it is in the table.
    pub(super) fn of(&self, id: Id) -> Option<Arc<OwnedFd>> {
        let entries = self.lock();
        let number = entries.by_id.get(&id)?;
        let entry = entries.by_number.peek(number)?;
        Some(entry.object.clone())
    }

    /// Replaces the descriptor of an object, if it is in the table.
    pub(super) fn replace(&self, id: Id, object: &Arc<OwnedFd>) {
        let mut entries = self.lock();
        let Some(number) = entries.by_id.get(&id).copied() else {
            return;
        };
        let entry = entries.by_number.peek_mut(&number);
        let replaced = entry.map(|entry| std::mem::replace(&mut entry.object, object.clone()));
        drop(entries);
        // Closing takes time: the lock is not held during it.
        drop(replaced);
    }

    /// Closes the descriptor of an object that has no name any more.
    pub(super) fn forget(&self, id: Id) {
        let mut entries = self.lock();
        // It is empty if all handles are of the kernel.
        if !entries.by_id.is_empty()
            && let Some(number) = entries.by_id.remove(&id)
        {
            entries.by_number.pop(&number);
        }
    }
}

/// Does not show the objects.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/").unwrap().into())
    }

    #[test]
    fn the_least_recently_used_object_is_evicted() {
        let (table, object) = (Table::new(2), object());
        let numbers = [(0, 1), (0, 2)].map(|id| table.number(id, &object));
        assert_eq!(table.number((0, 1), &object), numbers[0]);
        let third = table.number((0, 3), &object);
        assert!(table.get(numbers[0]).is_some() && table.get(third).is_some());
        assert!(table.get(numbers[1]).is_none());
        // A number is never reused.
        assert!(table.number((0, 2), &object) > third);
    }

    #[test]
    fn a_replaced_descriptor_is_closed() {
        let (table, [old, new]) = (Table::new(2), [object(), object()]);
        let number = table.number((0, 1), &old);
        table.replace((0, 1), &new);
        table.replace((0, 2), &new);
        assert!(Arc::ptr_eq(&table.get(number).unwrap(), &new));
        assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (1, 2));
    }

    #[test]
    fn a_forgotten_object_is_closed() {
        let (table, object) = (Table::new(2), object());
        let number = table.number((0, 1), &object);
        assert_eq!(Arc::strong_count(&object), 2);
        table.forget((0, 1));
        assert!(table.get(number).is_none());
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
