//! A cache of recently used descriptors.
//!
//! Opening and closing a handle costs more than reading a page. So a descriptor stays open for some
//! seconds after its last use. Their number is limited: the least recently used one is closed. An
//! object without a name occupies the disk as long as it is open. So its descriptor is closed at
//! once when a client removes the last name, and after these seconds when a process of the host
//! removes it.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::fmt;
use std::hash::{Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use super::in_place;
use super::table::Id;

/// How long a value stays after its last use.
pub(super) const KEPT: Duration = Duration::from_secs(2);

/// Recently used values by their keys. Each key belongs to an object.
pub(super) struct RecentCache<K, V> {
    entries: Mutex<Entries<K, V>>,
    limit: usize,
}

struct Entries<K, V> {
    /// In the order of their last use. `RecentCache` limits the number.
    by_key: LruCache<K, Entry<V>, RandomState>,
    by_object: HashMap<Id, Keys<K>>,
}

struct Entry<V> {
    object: Id,
    value: V,
    at: Instant,
}

/// The keys of an object: most objects have one.
enum Keys<K> {
    One(K),
    Several(Vec<K>),
}

impl<K: Clone + Eq> Keys<K> {
    fn as_slice(&self) -> &[K] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Several(keys) => keys,
        }
    }

    fn add(&mut self, key: K) {
        match self {
            Self::One(first) => *self = Self::Several(vec![first.clone(), key]),
            Self::Several(keys) => keys.push(key),
        }
    }

    /// Removes a key. Returns true if none is left.
    fn remove(&mut self, key: &K) -> bool {
        match self {
            Self::One(only) => only == key,
            Self::Several(keys) => {
                keys.retain(|other| other != key);
                keys.is_empty()
            }
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Entries<K, V> {
    fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.by_key.pop(key)?;
        self.unlink(key, entry.object);
        Some(entry.value)
    }

    fn touch(&mut self, key: &K, at: Instant) -> Option<V> {
        let entry = self.by_key.get_mut(key)?;
        entry.at = at;
        Some(entry.value.clone())
    }

    /// Adds a value, and returns the one that it replaces.
    fn add(&mut self, key: K, entry: Entry<V>) -> Option<V> {
        let object = entry.object;
        let replaced = self.by_key.put(key.clone(), entry);
        if replaced.as_ref().is_some_and(|old| old.object == object) {
            return replaced.map(|old| old.value);
        }
        if let Some(old) = &replaced {
            self.unlink(&key, old.object);
        }
        match self.by_object.entry(object) {
            Occupied(mut keys) => keys.get_mut().add(key),
            Vacant(none) => drop(none.insert(Keys::One(key))),
        }
        replaced.map(|old| old.value)
    }

    /// Removes a key from those of an object.
    fn unlink(&mut self, key: &K, object: Id) {
        if let Some(keys) = self.by_object.get_mut(&object)
            && keys.remove(key)
        {
            self.by_object.remove(&object);
        }
    }

    /// Removes the oldest value if it is older than `KEPT`, or if there are more than `limit`. In
    /// place only the limit counts: closing takes time.
    fn take_oldest(&mut self, at: Instant, limit: usize) -> Option<V> {
        let (key, oldest) = self.by_key.peek_lru()?;
        let is_old = at.saturating_duration_since(oldest.at) > KEPT && !in_place::is_running();
        if is_old || self.by_key.len() > limit {
            let key = key.clone();
            return self.remove(&key);
        }
        None
    }
}

impl<K: Clone + Eq + Hash, V: Clone> RecentCache<K, V> {
    /// Creates a store of at most `limit` values.
    pub(super) fn new(limit: usize) -> Self {
        let entries = Entries {
            by_key: LruCache::unbounded_with_hasher(RandomState::new()),
            by_object: HashMap::new(),
        };
        Self {
            entries: Mutex::new(entries),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of a key, and counts this as a use.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.lock().touch(key, Instant::now())
    }

    /// Stores the value of a key of an object.
    pub(super) fn insert(&self, key: K, object: Id, value: V) {
        let at = Instant::now();
        let replaced = self.lock().add(key, Entry { object, value, at });
        // Closing takes time: the lock is not held during it.
        drop(replaced);
        self.sweep(at);
    }

    /// Removes the values that were not used for `KEPT` before `at`, and those beyond the limit.
    pub(super) fn sweep(&self, at: Instant) {
        loop {
            let oldest = self.lock().take_oldest(at, self.limit);
            if oldest.is_none() {
                return;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().by_key.is_empty()
    }

    /// Returns a value of an object.
    pub(super) fn of(&self, object: Id) -> Option<V> {
        let entries = self.lock();
        let key = entries.by_object.get(&object)?.as_slice().first()?;
        entries.by_key.peek(key).map(|entry| entry.value.clone())
    }

    /// Replaces the values of an object. This is no use of them.
    pub(super) fn replace(&self, object: Id, value: &V) {
        let mut entries = self.lock();
        let Entries { by_key, by_object } = &mut *entries;
        let keys = by_object.get(&object).map_or(&[][..], Keys::as_slice);
        let entries_of = keys.iter().filter_map(|key| {
            let entry = by_key.peek_mut(key)?;
            Some(std::mem::replace(&mut entry.value, value.clone()))
        });
        let replaced: Vec<V> = entries_of.collect();
        drop(entries);
        // Closing takes time: the lock is not held during it.
        drop(replaced);
    }

    /// Removes the value of a key.
    pub(super) fn remove(&self, key: &K) {
        let _removed = self.lock().remove(key);
    }

    /// Removes the values of all keys of an object.
    pub(super) fn forget(&self, object: Id) {
        let mut entries = self.lock();
        if entries.by_object.is_empty() {
            return;
        }
        let removed = match entries.by_object.remove(&object) {
            None => return,
            Some(Keys::One(key)) => (entries.by_key.pop(&key), Vec::new()),
            Some(Keys::Several(keys)) => {
                let values = keys.iter().filter_map(|key| entries.by_key.pop(key));
                (None, values.collect())
            }
        };
        drop(entries);
        drop(removed);
    }
}

/// Does not show the values.
impl<K, V> fmt::Debug for RecentCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentCache")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_least_recently_used_value_is_evicted() {
        let recent = RecentCache::new(2);
        recent.insert('a', (0, 1), 1);
        recent.insert('b', (0, 2), 2);
        assert_eq!(recent.get(&'a'), Some(1));
        recent.insert('c', (0, 3), 3);
        assert_eq!(
            ['a', 'b', 'c'].map(|key| recent.get(&key)),
            [Some(1), None, Some(3)]
        );
        recent.insert('c', (0, 4), 4);
        assert_eq!(['a', 'c'].map(|key| recent.get(&key)), [Some(1), Some(4)]);
        recent.forget((0, 3));
        assert_eq!(recent.get(&'c'), Some(4));
    }

    #[test]
    fn forgetting_an_object_removes_its_values() {
        let (recent, value) = (RecentCache::new(8), Arc::new(()));
        recent.insert('a', (0, 1), value.clone());
        recent.insert('b', (0, 1), value.clone());
        recent.insert('c', (0, 2), value.clone());
        recent.forget((0, 1));
        assert_eq!(Arc::strong_count(&value), 2);
        recent.remove(&'c');
        assert_eq!(Arc::strong_count(&value), 1);
        let entries = recent.lock();
        assert!(entries.by_key.is_empty() && entries.by_object.is_empty());
    }

    #[test]
    fn the_values_of_an_object_are_replaced() {
        let (recent, [old, new]) = (RecentCache::new(8), [1, 2].map(Arc::new));
        for (key, object) in [('a', 1), ('b', 1), ('c', 2)] {
            recent.insert(key, (0, object), old.clone());
        }
        recent.replace((0, 1), &new);
        recent.replace((0, 3), &new);
        let values = ['a', 'b', 'c'].map(|key| *recent.get(&key).unwrap());
        assert_eq!(values, [2, 2, 1]);
        assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (2, 3));
    }

    #[test]
    fn values_expire_after_their_last_use() {
        let recent = RecentCache::new(8);
        let start = Instant::now();
        recent.insert('a', (0, 1), ());
        recent.sweep(start + KEPT);
        assert!(recent.get(&'a').is_some());
        recent.sweep(Instant::now() + KEPT + Duration::from_millis(1));
        assert!(recent.get(&'a').is_none());
    }
}
