//! Keys, and the memory that they name. The software fabric accesses memory in this module only.

#![allow(
    unsafe_code,
    reason = "registered memory is reached by address, as a device would"
)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::faults::Random;
use crate::provider::{Access, Cause, RemoteMemory, Result, Sge, Status, VerbError};

/// A protection domain: the keys of one device.
#[derive(Debug)]
pub(super) struct Domain {
    table: RwLock<KeyTable>,
    /// True if the device refuses to end anything.
    refuses: AtomicBool,
}

/// The keys of a domain, indexed by the number in their high bits.
#[derive(Debug)]
pub(super) struct KeyTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    random: Random,
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

/// How a work request uses our memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BufferUse {
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
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let table = KeyTable {
            entries: Vec::new(),
            free: Vec::new(),
            random: Random::new(seed),
        };
        Arc::new(Self {
            table: RwLock::new(table),
            refuses: AtomicBool::new(false),
        })
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, KeyTable> {
        // The table contains plain numbers, and no panic separates two changes.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, KeyTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory.
    ///
    /// # Safety
    /// The memory stays valid until the key is removed.
    pub(super) unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<u32> {
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

    pub(super) fn window(&self) -> Result<u32> {
        self.write().insert(Kind::Unbound).ok_or(VerbError {
            verb: "window",
            cause: Cause::Full,
        })
    }

    pub(super) fn refuse_ends(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Runs `end`, unless the device refuses. Returns whether it ran.
    pub(super) fn end_unless_refused(&self, end: impl FnOnce()) -> bool {
        let agrees = !self.refuses.load(Ordering::Relaxed);
        if agrees {
            end();
        }
        agrees
    }

    /// Removes a region or a window. Windows of the region become inaccessible.
    pub(super) fn forget(&self, number: u32) {
        let mut table = self.write();
        for entry in &mut table.entries {
            if matches!(entry.kind, Kind::Bound { region, .. } if region == number) {
                entry.kind = Kind::Unbound;
            }
        }
        if let Some(entry) = table.entries.get_mut(number as usize) {
            entry.kind = Kind::Free;
            table.free.push(number);
        }
    }
}

/// The locked tables of both ends of a connection.
pub(super) struct TableLocks<G> {
    ours: G,
    /// `None` if both have the same table.
    theirs: Option<G>,
}

impl<G: Deref<Target = KeyTable>> TableLocks<G> {
    /// Locks the tables of two domains in a fixed order, so that two connections that are busy in
    /// opposite directions in two threads do not deadlock.
    pub(super) fn lock<'d>(
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

    pub(super) fn ours(&self) -> &KeyTable {
        &self.ours
    }

    pub(super) fn theirs(&self) -> &KeyTable {
        self.theirs.as_ref().unwrap_or(&self.ours)
    }
}

/// The tables of two domains, locked for reading. The locks are held for a batch of requests, most
/// of which only read.
pub(super) struct ReadLocks<'d> {
    domains: [&'d Arc<Domain>; 2],
    tables: Option<TableLocks<RwLockReadGuard<'d, KeyTable>>>,
}

impl<'d> ReadLocks<'d> {
    pub(super) fn new(domains: [&'d Arc<Domain>; 2]) -> Self {
        Self {
            domains,
            tables: None,
        }
    }

    pub(super) fn tables(&mut self) -> &TableLocks<RwLockReadGuard<'d, KeyTable>> {
        let [ours, theirs] = self.domains;
        self.tables
            .get_or_insert_with(|| TableLocks::lock(ours, theirs, Domain::read))
    }

    /// Releases the locks. Call it before a table is locked in another way.
    pub(super) fn release(&mut self) {
        self.tables = None;
    }
}

/// Returns the number in a key.
pub(super) const fn number(key: u32) -> u32 {
    key >> TAG
}

impl KeyTable {
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
        let key = number << TAG | tag;
        *self.entries.get_mut(number as usize)? = Entry { key, kind };
        Some(key)
    }

    fn find(&self, key: u32) -> Option<&Entry> {
        self.entries
            .get(number(key) as usize)
            .filter(|entry| entry.key == key)
    }

    /// Checks that our memory may be used like this.
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

    /// Checks that all entries may be used like this.
    pub(super) fn check_local(
        &self,
        slices: &[Sge],
        using: BufferUse,
    ) -> std::result::Result<(), Status> {
        slices
            .iter()
            .try_for_each(|slice| self.check_entry(slice, using))
    }

    /// Checks that the peer may access `length` bytes on this queue pair of ours. Zero bytes need
    /// no key.
    pub(super) fn check_remote(
        &self,
        to: RemoteMemory,
        length: u32,
        write: bool,
        queue_pair: u32,
    ) -> std::result::Result<(), Status> {
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
            _ => return Err(Status::RemoteAccess),
        };
        let allowed = if write {
            range.access.remote_write
        } else {
            range.access.remote_read
        };
        if allowed && range.holds(to.address, length) {
            Ok(())
        } else {
            Err(Status::RemoteAccess)
        }
    }

    /// Binds a window to a range of a region.
    pub(super) fn bind(
        &mut self,
        window: u32,
        key: u32,
        slice: &Sge,
        access: Access,
        queue_pair: u32,
    ) -> std::result::Result<(), Status> {
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
        match self.entries.get_mut(window as usize) {
            Some(entry)
                if matches!(entry.kind, Kind::Unbound) && (entry.key ^ key) & !VARIANT == 0 =>
            {
                *entry = Entry {
                    key,
                    kind: Kind::Bound {
                        range,
                        region: number(slice.key),
                        queue_pair,
                    },
                };
                Ok(())
            }
            _ => Err(Status::Bind),
        }
    }

    /// Invalidates a window: at our own request, or at that of the peer on this queue pair.
    pub(super) fn invalidate(&mut self, key: u32, peer_on: Option<u32>) -> bool {
        let Some(entry) = self
            .entries
            .get_mut(number(key) as usize)
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
pub(super) fn total_length(slices: &[Sge]) -> u64 {
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
pub(super) unsafe fn copy_inline(slices: &[Sge]) -> Vec<u8> {
    let mut taken = vec![0; usize::try_from(total_length(slices)).unwrap_or(usize::MAX)];
    // SAFETY: the caller promises that the source is valid; `taken` is ours, and has the same
    // length.
    unsafe {
        copy(slices, &[inline_entry(&mut taken)]);
    }
    taken
}

/// Returns an entry for the bytes of an inline request, which needs no key. The bytes stay in place
/// when the vector moves.
pub(super) fn inline_entry(taken: &mut Vec<u8>) -> Sge {
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
pub(super) unsafe fn copy(from: &[Sge], to: &[Sge]) {
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
