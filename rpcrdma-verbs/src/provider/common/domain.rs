//! Keys, and the memory that they name. `Domain` decides every access of `software` and `iwarp` to
//! registered memory. The software fabric accesses memory in this module only, iWARP in
//! `iwarp::memory`.
//!
//! The result of a check holds only while the table stays locked: `forget` removes a key under the
//! lock for writing, and the owner frees the memory afterwards. Two tables are locked by
//! `TableLocks` or `ReadLocks` alone, in the order of their addresses. A key has a number (20 bits)
//! and a tag (12 bits), of which a bind chooses the lowest 8. A hidden domain also permutes the
//! highest 24 bits, since an iWARP peer must not guess keys (RFC 5040, section 8.1.1; RFC 5041,
//! section 8.3.1).

#![allow(
    unsafe_code,
    reason = "registered memory is reached by address, as a device would"
)]

#[cfg(feature = "iwarp")]
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::random::Random;
use crate::provider::{Access, Cause, RemoteMemory, Result, Sge, Status, VerbError};

/// A protection domain: the keys of one device.
#[derive(Debug)]
pub(in crate::provider) struct Domain {
    table: RwLock<KeyTable>,
    /// True if the device refuses to end objects.
    refuses: AtomicBool,
}

/// The keys of a domain, indexed by the number in their high bits.
#[derive(Debug)]
pub(in crate::provider) struct KeyTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    random: Random,
    /// The secret that hides keys; `None` if they are not hidden.
    secret: Option<Secret>,
}

/// Permutes the numbers in keys, so that a peer that knows some keys cannot guess others.
///
/// This is a Feistel network over the highest 24 bits of a key. The lowest 8 bits stay: a bind
/// chooses them.
#[derive(Clone, Copy, Debug)]
struct Secret([u32; 4]);

impl Secret {
    #[cfg(feature = "iwarp")]
    fn random() -> Self {
        let state = RandomState::new();
        let [a, b] = [0, 1].map(|number: u64| state.hash_one(number));
        Self([a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32])
    }

    const fn round(half: u32, key: u32) -> u32 {
        let mixed = (half ^ key).wrapping_mul(0x9e37_79b1);
        (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b) >> 20
    }

    const fn hide(self, key: u32) -> u32 {
        // rfc: 5040-8.1.1-i, 5040-8.1.1-j
        let [a, b, c, d] = self.0;
        let (mut left, mut right) = (key >> 20, key >> 8 & 0xfff);
        left ^= Self::round(right, a);
        right ^= Self::round(left, b);
        left ^= Self::round(right, c);
        right ^= Self::round(left, d);
        left << 20 | right << 8 | key & VARIANT
    }

    const fn reveal(self, key: u32) -> u32 {
        let [a, b, c, d] = self.0;
        let (mut left, mut right) = (key >> 20, key >> 8 & 0xfff);
        right ^= Self::round(left, d);
        left ^= Self::round(right, c);
        right ^= Self::round(left, b);
        left ^= Self::round(right, a);
        left << 20 | right << 8 | key & VARIANT
    }
}

/// The reason why a peer cannot access memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::provider) enum RemoteError {
    /// The key names nothing that is exposed.
    Key,
    /// The key is for the peer of another queue pair.
    OtherQueuePair,
    /// The range exceeds the exposed one.
    Bounds,
    /// The end of the range exceeds 64 bits.
    Wrap,
    /// The key does not give this right.
    Access,
}

impl From<RemoteError> for Status {
    fn from(_: RemoteError) -> Self {
        Self::RemoteAccess
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Free,
    Region(MemoryRange),
    /// An unbound window.
    Unbound,
    /// A window, the region to which it is bound, and the only queue pair on which it works (type
    /// 2B).
    Bound {
        range: MemoryRange,
        region: u32,
        queue_pair: u32,
    },
}

/// Memory with access rights.
#[derive(Clone, Copy, Debug)]
struct MemoryRange {
    address: u64,
    length: u64,
    access: Access,
}

impl MemoryRange {
    fn holds(&self, address: u64, length: u32) -> bool {
        let end = address.checked_add(u64::from(length));
        address >= self.address && end.is_some_and(|end| end <= self.address + self.length)
    }
}

/// The use of local memory by a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::provider) enum BufferUse {
    /// As the source of a Send or Write.
    Send,
    /// As the target of a receive or Read.
    Receive,
    /// As the target of a Read, on a device where the peer writes the sink (iWARP).
    ExposedSink,
}

impl BufferUse {
    const fn is_allowed(self, access: Access, bytes: u32) -> bool {
        match self {
            Self::Send => true,
            Self::Receive => access.local_write,
            // A Read of no bytes writes nothing.
            Self::ExposedSink => access.local_write && (access.remote_write || bytes == 0),
        }
    }
}

/// The number of tag bits in a key, which are drawn anew when its number is reused.
const TAG: u32 = 12;
/// The tag bits that a bind chooses.
const VARIANT: u32 = 0xff;

impl Domain {
    pub(in crate::provider) fn new(seed: u64) -> Arc<Self> {
        let table = KeyTable {
            entries: Vec::new(),
            free: Vec::new(),
            random: Random::new(seed),
            secret: None,
        };
        Arc::new(Self {
            table: RwLock::new(table),
            refuses: AtomicBool::new(false),
        })
    }

    /// Creates a domain whose keys a peer cannot guess.
    #[cfg(feature = "iwarp")]
    pub(in crate::provider) fn hidden() -> Arc<Self> {
        let domain = Self::new(RandomState::new().hash_one(0u64));
        domain.write().secret = Some(Secret::random());
        domain
    }

    /// Returns the number of the region or window with this key.
    pub(in crate::provider) fn number(&self, key: u32) -> u32 {
        self.read().number(key)
    }

    pub(in crate::provider) fn read(&self) -> RwLockReadGuard<'_, KeyTable> {
        // The table contains plain numbers, and no panic separates two changes.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::provider) fn write(&self) -> RwLockWriteGuard<'_, KeyTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory. An empty range is refused, as by RDMA devices.
    ///
    /// # Safety
    /// The memory stays valid until the key is removed.
    pub(in crate::provider) unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<u32> {
        if length == 0 {
            return Err(VerbError {
                verb: "register",
                cause: Cause::Limit,
            });
        }
        // rfc: 5040-8.1.1-f, 5041-8.3.1-f
        let range = MemoryRange {
            address: memory.as_ptr().expose_provenance() as u64,
            length: length as u64,
            access,
        };
        self.write().insert(Kind::Region(range)).ok_or(VerbError {
            verb: "register",
            cause: Cause::Full,
        })
    }

    pub(in crate::provider) fn window(&self) -> Result<u32> {
        self.write().insert(Kind::Unbound).ok_or(VerbError {
            verb: "window",
            cause: Cause::Full,
        })
    }

    pub(in crate::provider) fn refuse_ends(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Calls `end`, unless the device refuses. Returns whether it was called.
    pub(in crate::provider) fn end_unless_refused(&self, end: impl FnOnce()) -> bool {
        let agrees = !self.refuses.load(Ordering::Relaxed);
        if agrees {
            end();
        }
        agrees
    }

    /// Removes a region or a window. Windows of the region become inaccessible.
    pub(in crate::provider) fn forget(&self, number: u32) {
        // rfc: 5040-8.1.1-g, 5041-8.3.1-g
        let mut table = self.write();
        let ended = table.entries.get(number as usize).map(|entry| entry.kind);
        if matches!(ended, Some(Kind::Region(_))) {
            for entry in &mut table.entries {
                if matches!(entry.kind, Kind::Bound { region, .. } if region == number) {
                    entry.kind = Kind::Unbound;
                }
            }
        }
        if let Some(entry) = table.entries.get_mut(number as usize) {
            entry.kind = Kind::Free;
            table.free.push(number);
        }
    }
}

/// The locked tables of both ends of a connection.
pub(in crate::provider) struct TableLocks<G> {
    ours: G,
    /// `None` if both have the same table.
    theirs: Option<G>,
}

impl<G: Deref<Target = KeyTable>> TableLocks<G> {
    /// Locks the tables of two domains in a fixed order, so that two connections that are busy in
    /// opposite directions in two threads do not deadlock.
    pub(in crate::provider) fn lock<'d>(
        ours: &'d Arc<Domain>,
        theirs: &'d Arc<Domain>,
        lock: impl Fn(&'d Domain) -> G,
    ) -> Self {
        if Arc::ptr_eq(ours, theirs) {
            return Self {
                ours: lock(ours),
                theirs: None,
            };
        }
        if Arc::as_ptr(ours) < Arc::as_ptr(theirs) {
            let ours = lock(ours);
            Self {
                ours,
                theirs: Some(lock(theirs)),
            }
        } else {
            let theirs = lock(theirs);
            Self {
                ours: lock(ours),
                theirs: Some(theirs),
            }
        }
    }

    pub(in crate::provider) fn ours(&self) -> &KeyTable {
        &self.ours
    }

    pub(in crate::provider) fn theirs(&self) -> &KeyTable {
        self.theirs.as_ref().unwrap_or(&self.ours)
    }
}

/// The tables of two domains, locked for reading. The locks are held for a batch of requests, most
/// of which only read.
pub(in crate::provider) struct ReadLocks<'d> {
    domains: [&'d Arc<Domain>; 2],
    tables: Option<TableLocks<RwLockReadGuard<'d, KeyTable>>>,
}

impl<'d> ReadLocks<'d> {
    pub(in crate::provider) fn new(domains: [&'d Arc<Domain>; 2]) -> Self {
        Self {
            domains,
            tables: None,
        }
    }

    pub(in crate::provider) fn tables(&mut self) -> &TableLocks<RwLockReadGuard<'d, KeyTable>> {
        let [ours, theirs] = self.domains;
        self.tables
            .get_or_insert_with(|| TableLocks::lock(ours, theirs, Domain::read))
    }

    /// Releases the locks. Call it before a table is locked in another way.
    pub(in crate::provider) fn release(&mut self) {
        self.tables = None;
    }
}

impl KeyTable {
    /// Returns the number in a key.
    fn number(&self, key: u32) -> u32 {
        match self.secret {
            Some(secret) => secret.reveal(key) >> TAG,
            None => key >> TAG,
        }
    }

    fn insert(&mut self, kind: Kind) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.entries.len())
                    .ok()
                    .filter(|number| *number < 1 << (32 - TAG))?;
                self.entries.push(Entry {
                    key: 0,
                    kind: Kind::Free,
                });
                number
            }
        };
        let tag = (self.random.next() >> (64 - TAG)) as u32;
        let plain = number << TAG | tag;
        let key = self.secret.map_or(plain, |secret| secret.hide(plain));
        *self.entries.get_mut(number as usize)? = Entry { key, kind };
        Some(key)
    }

    fn find(&self, key: u32) -> Option<&Entry> {
        self.entries
            .get(self.number(key) as usize)
            .filter(|entry| entry.key == key)
    }

    /// Checks that local memory may be used in this way.
    fn check_entry(&self, slice: &Sge, using: BufferUse) -> std::result::Result<(), Status> {
        match self.find(slice.key).map(|entry| entry.kind) {
            Some(Kind::Region(range))
                if range.holds(slice.address, slice.length)
                    && using.is_allowed(range.access, slice.length) =>
            {
                Ok(())
            }
            _ => Err(Status::LocalProtection),
        }
    }

    /// Checks that all entries may be used in this way.
    pub(in crate::provider) fn check_local(
        &self,
        slices: &[Sge],
        using: BufferUse,
    ) -> std::result::Result<(), Status> {
        slices
            .iter()
            .try_for_each(|slice| self.check_entry(slice, using))
    }

    /// Checks that the peer may access `length` bytes on this queue pair. Zero bytes need no key.
    pub(in crate::provider) fn check_remote(
        &self,
        to: RemoteMemory,
        length: u32,
        write: bool,
        queue_pair: u32,
    ) -> std::result::Result<(), RemoteError> {
        // rfc: 5040-8.1.1-b, 5040-8.1.1-c, 5040-8.1.1-d, 5041-8.2-a, 5041-8.2-b, 5041-8.3.1-b
        // rfc: 5041-8.3.1-c, 5041-8.3.1-d
        if length == 0 {
            return Ok(());
        }
        let range = match self.find(to.key).map(|entry| entry.kind) {
            Some(Kind::Region(range)) => range,
            Some(Kind::Bound {
                range,
                queue_pair: bound,
                ..
            }) if bound == queue_pair => range,
            Some(Kind::Bound { .. }) => return Err(RemoteError::OtherQueuePair),
            _ => return Err(RemoteError::Key),
        };
        let allowed = if write {
            range.access.remote_write
        } else {
            range.access.remote_read
        };
        if to.address.checked_add(length.into()).is_none() {
            return Err(RemoteError::Wrap);
        }
        if !range.holds(to.address, length) {
            return Err(RemoteError::Bounds);
        }
        allowed.then_some(()).ok_or(RemoteError::Access)
    }

    /// Returns true if the key belongs to a region, which several queue pairs can access.
    #[cfg(feature = "iwarp")]
    pub(in crate::provider) fn is_region(&self, key: u32) -> bool {
        let entry = self.find(key);
        entry.is_some_and(|entry| matches!(entry.kind, Kind::Region(_)))
    }

    /// Returns true if the peer on this queue pair may invalidate a key.
    #[cfg(feature = "iwarp")]
    pub(in crate::provider) fn may_invalidate(&self, key: u32, peer_on: u32) -> bool {
        // rfc: 5040-8.1.1-h
        self.find(key).is_some_and(
            |entry| matches!(entry.kind, Kind::Bound { queue_pair, .. } if queue_pair == peer_on),
        )
    }

    /// Binds a window to a range of a region.
    pub(in crate::provider) fn bind(
        &mut self,
        window: u32,
        key: u32,
        slice: &Sge,
        access: Access,
        queue_pair: u32,
    ) -> std::result::Result<(), Status> {
        // rfc: 5040-8.1.1-e, 5040-8.1.1-f, 5041-8.2-c, 5041-8.2-d, 5041-8.3-a, 5041-8.3-c
        // rfc: 5041-8.3.1-e, 5041-8.3.1-f
        let region = match self.find(slice.key).map(|entry| entry.kind) {
            Some(Kind::Region(range))
                if range.access.bind && range.holds(slice.address, slice.length) =>
            {
                range
            }
            _ => return Err(Status::Bind),
        };
        // The peer cannot get a right that the region lacks.
        if access.remote_write && !region.access.local_write {
            return Err(Status::Bind);
        }
        let range = MemoryRange {
            address: slice.address,
            length: slice.length.into(),
            access,
        };
        let region_number = self.number(slice.key);
        match self.entries.get_mut(window as usize) {
            Some(entry)
                if matches!(entry.kind, Kind::Unbound) && (entry.key ^ key) & !VARIANT == 0 =>
            {
                *entry = Entry {
                    key,
                    kind: Kind::Bound {
                        range,
                        region: region_number,
                        queue_pair,
                    },
                };
                Ok(())
            }
            _ => Err(Status::Bind),
        }
    }

    /// Invalidates a window, at a local request or at that of the peer on this queue pair.
    pub(in crate::provider) fn invalidate(&mut self, key: u32, peer_on: Option<u32>) -> bool {
        // rfc: 5040-5.3-m, 5040-8.1.1-g, 5041-8.3-b, 5041-8.3.1-g
        let number = self.number(key) as usize;
        let Some(entry) = self
            .entries
            .get_mut(number)
            .filter(|entry| entry.key == key)
        else {
            return false;
        };
        match entry.kind {
            Kind::Bound { queue_pair, .. }
                if peer_on.is_none_or(|peer_on| peer_on == queue_pair) =>
            {
                entry.kind = Kind::Unbound;
                true
            }
            _ => false,
        }
    }
}

/// Returns the number of bytes of all entries.
pub(in crate::provider) fn total_length(slices: &[Sge]) -> u64 {
    match slices {
        [one] => one.length.into(),
        _ => slices.iter().map(|slice| u64::from(slice.length)).sum(),
    }
}

/// Copies the bytes of the entries of an inline request.
///
/// # Safety
/// The entries are of an inline request that is being posted: the memory is valid, and nothing
/// changes it.
pub(in crate::provider) unsafe fn copy_inline(slices: &[Sge]) -> Vec<u8> {
    let mut taken = vec![0; usize::try_from(total_length(slices)).unwrap_or(usize::MAX)];
    // SAFETY: the caller promises that the source is valid; this function owns `taken`, which has
    // the same length.
    unsafe {
        copy(slices, &[inline_entry(&mut taken)]);
    }
    taken
}

/// Returns an entry for the bytes of an inline request, which needs no key. The bytes stay in place
/// when the vector moves.
pub(in crate::provider) fn inline_entry(taken: &mut Vec<u8>) -> Sge {
    // It is at most the limit of inline requests, which has 32 bits.
    let length = u32::try_from(taken.len()).unwrap_or(u32::MAX);
    Sge {
        address: taken.as_mut_ptr().expose_provenance() as u64,
        length,
        key: 0,
    }
}

/// Copies the bytes of entries to other entries, which have room for them.
///
/// # Safety
/// Each entry was checked for its use in a table that has been locked since; or it is remote memory
/// that was checked like this, with the table locked for writing if it is written; or it belongs to
/// an inline request. So the memory is valid (a region is removed under the lock before its memory
/// is freed), and nothing else uses it: memory of work requests belongs to the device until their
/// completion, and exposed memory is changed only under the lock.
pub(in crate::provider) unsafe fn copy(from: &[Sge], to: &[Sge]) {
    let (mut targets, mut room) = (to.iter(), (0u64, 0usize));
    for slice in from {
        let (mut source, mut left) = (slice.address, slice.length as usize);
        while left > 0 {
            while room.1 == 0 {
                let Some(next) = targets.next() else { return };
                room = (next.address, next.length as usize);
            }
            let bytes = left.min(room.1);
            let (read, write) = (
                std::ptr::with_exposed_provenance::<u8>(source as usize),
                std::ptr::with_exposed_provenance_mut::<u8>(room.0 as usize),
            );
            // SAFETY: both ranges are within registered memory, which the caller has checked under
            // the locks of the tables, or within inline bytes, and neither wraps. This is `copy`
            // and not `copy_nonoverlapping`, because a queue pair may be connected to another of
            // the same process, and read and write the same region.
            unsafe { std::ptr::copy(read, write, bytes) };
            (source, left) = (source + bytes as u64, left - bytes);
            room = (room.0 + bytes as u64, room.1 - bytes);
        }
    }
}

#[cfg(all(test, feature = "iwarp"))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hidden_keys_round_trip() {
        // rfc: 5040-8.1.1-i, 5040-8.1.1-j
        let secret = Secret::random();
        let keys: HashSet<u32> = (0..1 << 16)
            .map(|number| {
                let plain = number << TAG | 0x2a5;
                let key = secret.hide(plain);
                assert_eq!((secret.reveal(key), key & VARIANT), (plain, 0xa5));
                key
            })
            .collect();
        assert_eq!(keys.len(), 1 << 16);
        // Keys of adjacent numbers differ in about half of their bits.
        let differences = (0..1 << 12).map(|number: u32| {
            (secret.hide(number << TAG) ^ secret.hide((number + 1) << TAG)).count_ones()
        });
        let mean = f64::from(differences.sum::<u32>()) / f64::from(1 << 12);
        assert!((10.0..14.0).contains(&mean), "{mean} bits");
    }
}
