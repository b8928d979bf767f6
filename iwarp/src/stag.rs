//! STags: the memory that a peer may access (RFC 5040, section 8.1.1; RFC 5041, section 8.3).
//!
//! [`StagTable`] is for users of this crate without a table of keys; `rpcrdma-verbs` has its own,
//! and uses [`StagAccess`] and [`StagError`] alone. `fpdu_receiver` maps each error to the code of
//! a Terminate. The table does not own memory: its user removes an STag before it frees the memory,
//! and when `IwarpEvent::Received` names it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

/// The kind of an access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StagAccess {
    /// The peer's RDMA Write.
    Write,
    /// The peer's RDMA Read, with the memory as its source.
    Read,
    /// The response to an RDMA Read of this end.
    ReadResponse,
}

/// The reason why an access is denied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StagError {
    /// No memory has the STag.
    Invalid,
    /// The range exceeds the memory.
    Bounds,
    /// The memory does not allow the access.
    Access,
    /// The STag belongs to another connection.
    OtherStream,
    /// Offset and length exceed 64 bits.
    Wrap,
}

/// Memory that has an STag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagRegion {
    /// The tagged offset of the first byte.
    pub base: u64,
    /// The length in bytes.
    pub len: u64,
    /// Whether the peer may read.
    pub remote_read: bool,
    /// Whether the peer may write, including by the response to an RDMA Read.
    pub remote_write: bool,
    /// The connection whose peer may use the STag, by a number of the caller's choice.
    pub connection: u64,
}

/// The STags of a device. Each STag is a keyed hash of a counter: it is unpredictable, and is not
/// reused soon.
///
/// ```
/// use rpcrdma_iwarp::{StagAccess, StagError, StagRegion, StagTable};
///
/// let mut table = StagTable::new();
/// let region =
///     StagRegion { base: 0, len: 64, remote_read: true, remote_write: false, connection: 1 };
/// let stag = table.insert(region).expect("few are in use");
/// assert_eq!(table.check(1, stag, 32, 32, StagAccess::Read), Ok(()));
/// assert_eq!(table.check(1, stag, 33, 32, StagAccess::Read), Err(StagError::Bounds));
/// assert_eq!(table.check(2, stag, 0, 1, StagAccess::Read), Err(StagError::OtherStream));
/// ```
#[derive(Debug, Default)]
pub struct StagTable {
    regions: HashMap<u32, StagRegion>,
    secret: RandomState,
    generation: u64,
}

impl StagTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Assigns an STag to memory. An STag is never 0. Returns `None` if 2^31 are in use.
    pub fn insert(&mut self, region: StagRegion) -> Option<u32> {
        // rfc: 5040-8.1.1-i, 5040-8.1.1-j
        while self.regions.len() < 1 << 31 {
            self.generation = self.generation.wrapping_add(1);
            let [a, b, c, d, ..] = self.secret.hash_one(self.generation).to_ne_bytes();
            let stag = u32::from_ne_bytes([a, b, c, d]);
            if stag != 0 && !self.regions.contains_key(&stag) {
                self.regions.insert(stag, region);
                return Some(stag);
            }
        }
        None
    }

    /// Removes an STag. Returns its memory, if there was one.
    pub fn remove(&mut self, stag: u32) -> Option<StagRegion> {
        self.regions.remove(&stag)
    }

    /// Checks an access of the peer of `connection` to `len` bytes at the tagged offset `offset`.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the access violates.
    pub fn check(
        &self,
        connection: u64,
        stag: u32,
        offset: u64,
        len: u64,
        access: StagAccess,
    ) -> Result<(), StagError> {
        // rfc: 5040-7.2-e, 5040-8.1.1-d, 5041-8.3-d, 5041-8.3.1-d
        let region = self.regions.get(&stag).ok_or(StagError::Invalid)?;
        if region.connection != connection {
            return Err(StagError::OtherStream);
        }
        offset.checked_add(len).ok_or(StagError::Wrap)?;
        let start = offset.checked_sub(region.base).ok_or(StagError::Bounds)?;
        if start > region.len || len > region.len - start {
            return Err(StagError::Bounds);
        }
        let allowed = match access {
            StagAccess::Read => region.remote_read,
            StagAccess::Write | StagAccess::ReadResponse => region.remote_write,
        };
        if allowed {
            Ok(())
        } else {
            Err(StagError::Access)
        }
    }

    /// Returns true if the peer of `connection` may invalidate the STag.
    pub fn may_invalidate(&self, connection: u64, stag: u32) -> bool {
        // rfc: 5040-8.1.1-h
        self.regions
            .get(&stag)
            .is_some_and(|region| region.connection == connection)
    }
}
