//! A cache of recently used descriptors.
//!
//! Opening and closing a handle costs more than reading a page. So a descriptor stays open for some
//! seconds after its last use. Their number is limited: the least recently used one is closed. An
//! object without a name occupies the disk as long as it is open. So its descriptor is closed at
//! once when a client removes the last name, and after these seconds when a process of the host
//! removes it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::in_place;
use super::table::Id;

/// How long a value stays after its last use.
pub(super) const KEPT: Duration = Duration::from_secs(2);

/// Recently used values by their keys. Each key belongs to an object.
#[derive(Debug)]
pub(super) struct RecentCache<K, V> {
    entries: Mutex<Entries<K, V>>,
    limit: usize,
}

#[derive(Debug)]
struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    by_object: HashMap<Id, Vec<K>>,
    /// The keys in the order of their last use.
    by_use: BTreeMap<u64, K>,
    /// The number of uses so far.
    now: u64,
}

#[derive(Debug)]
struct Entry<V> {
    object: Id,
    value: V,
    used: u64,
    at: Instant,
}

impl<K: Clone + Eq + Hash, V: Clone> Entries<K, V> {
    fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.by_key.remove(key)?;
        self.by_use.remove(&entry.used);
        if let Some(keys) = self.by_object.get_mut(&entry.object) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.by_object.remove(&entry.object);
            }
        }
        Some(entry.value)
    }

    fn touch(&mut self, key: &K, at: Instant) -> Option<V> {
        let entry = self.by_key.get_mut(key)?;
        // The key moves from its earlier use to this one.
        let key = self.by_use.remove(&entry.used)?;
        self.now += 1;
        (entry.used, entry.at) = (self.now, at);
        self.by_use.insert(self.now, key);
        Some(entry.value.clone())
    }

    fn add(&mut self, key: K, entry: Entry<V>) {
        self.by_use.insert(entry.used, key.clone());
        let of_object = self.by_object.entry(entry.object).or_default();
        of_object.push(key.clone());
        self.by_key.insert(key, entry);
    }

    /// Removes the oldest value if it is older than `KEPT`, or if there are more than `limit`. In
    /// place only the limit counts: closing takes time.
    fn take_oldest(&mut self, at: Instant, limit: usize) -> Option<V> {
        let key = self.by_use.values().next()?.clone();
        let used = self.by_key.get(&key)?.at;
        let is_old = at.saturating_duration_since(used) > KEPT && !in_place::is_running();
        if is_old || self.by_key.len() > limit {
            return self.remove(&key);
        }
        None
    }
}

impl<K: Clone + Eq + Hash, V: Clone> RecentCache<K, V> {
    /// Creates a store of at most `limit` values.
    pub(super) fn new(limit: usize) -> Self {
        let entries = Entries {
            by_key: HashMap::new(),
            by_object: HashMap::new(),
            by_use: BTreeMap::new(),
            now: 0,
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
        let _replaced = {
            let mut entries = self.lock();
            let replaced = entries.remove(&key);
            entries.now += 1;
            let used = entries.now;
            let entry = Entry {
                object,
                value,
                used,
                at,
            };
            entries.add(key, entry);
            replaced
        };
        self.sweep(at);
    }

    /// Removes the values that were not used for `KEPT` before `at`, and those beyond the limit.
    pub(super) fn sweep(&self, at: Instant) {
        loop {
            // Closing takes time: the lock is not held during it.
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
        let key = entries.by_object.get(&object)?.first()?;
        entries.by_key.get(key).map(|entry| entry.value.clone())
    }

    /// Removes the value of a key.
    pub(super) fn remove(&self, key: &K) {
        let _removed = self.lock().remove(key);
    }

    /// Removes the values of all keys of an object.
    pub(super) fn forget(&self, object: Id) {
        let removed: Vec<_> = {
            let mut entries = self.lock();
            let keys = entries.by_object.remove(&object).unwrap_or_default();
            keys.iter().filter_map(|key| entries.remove(key)).collect()
        };
        drop(removed);
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
        assert!(entries.by_use.is_empty() && entries.by_object.is_empty());
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
