//! The memory limit of a file system.
//!
//! `tree` counts objects, `naming` counts names, and `data` counts pages. Each must give back what
//! it took, or the free space shrinks. `used` never exceeds `limit`, on which `free` relies.

use crate::nfs3::Nfsstat3;

/// The used bytes, and their limit.
#[derive(Debug)]
pub(super) struct Budget {
    used: u64,
    limit: u64,
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
