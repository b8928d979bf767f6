//! The memory limit of a file system.
//!
//! `tree` counts objects, `naming` counts names, and `data` counts pages. Each must give back what
//! it took, or the free space shrinks. `used` never exceeds `limit`, on which `free` relies. Their
//! hash tables must `shrink`, since removed entries no longer count.

use std::collections::HashMap;
use std::hash::Hash;

use crate::nfs3::Nfsstat3;

/// The used bytes, and their limit.
#[derive(Debug)]
pub(super) struct Budget {
    used: u64,
    limit: u64,
}

/// The entries below which a hash table does not shrink further.
const MIN_ENTRIES: usize = 16;

/// Frees the memory of a hash table that has lost most of its entries, which it would keep for
/// later ones.
pub(super) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    // A table shrinks only after it has lost three quarters of its entries: the time of a removal
    // stays constant on average.
    if table.capacity() / 4 > table.len().max(MIN_ENTRIES) {
        table.shrink_to_fit();
    }
}

impl Budget {
    pub(super) const fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    /// Takes bytes from the budget, or fails with NFS3ERR_NOSPC.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Nfsstat3> {
        let used = self.used.saturating_add(bytes);
        if used > self.limit {
            return Err(Nfsstat3::Nospc);
        }
        self.used = used;
        Ok(())
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn free(&self) -> u64 {
        self.limit - self.used
    }
}
