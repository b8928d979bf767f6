//! Keys, and the memory behind them. All memory that the software fabric touches is touched here.

#![allow(unsafe_code, reason = "registered memory is reached by address, as a device would")]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::faults::Random;
use crate::provider::{Access, Cause, Remote, Result, Slice, Status, VerbError};

/// A protection domain: the keys of one device.
#[derive(Debug)]
pub(super) struct Domain {
    table: RwLock<Table>,
}

/// The keys of a domain, by the number in their high bits.
#[derive(Debug)]
pub(super) struct Table {
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
    Region(Range),
    /// A window that nobody reaches.
    Unbound,
    /// A window, the region that it is bound to, and the one queue pair that it can be reached through (type 2B).
    Bound {
        range: Range,
        region: u32,
        queue_pair: u32,
    },
}

/// Memory with rights.
#[derive(Clone, Copy, Debug)]
struct Range {
    address: u64,
    length: u64,
    access: Access,
}

impl Range {
    fn holds(&self, address: u64, length: u32) -> bool {
        let end = address.checked_add(u64::from(length));
        address >= self.address && end.is_some_and(|end| end <= self.address + self.length)
    }
}

/// What a work request does with memory of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// It sends it.
    Send,
    /// It receives or reads into it.
    Receive,
    /// It reads into it, on a device whose sinks the peer writes (iWARP).
    ExposedSink,
}

impl Use {
    const fn is_allowed(self, access: Access) -> bool {
        match self {
            Self::Send => true,
            Self::Receive => access.local_write,
            Self::ExposedSink => access.local_write && access.remote_write,
        }
    }
}

/// Bits of a key that are drawn anew whenever its number is let again.
const TAG: u32 = 12;
/// Those of them that a bind chooses.
const VARIANT: u32 = 0xff;

impl Domain {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let table = Table { entries: Vec::new(), free: Vec::new(), random: Random::new(seed) };
        Arc::new(Self { table: RwLock::new(table) })
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        // The table holds plain numbers, and no panic comes between two of its changes.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory.
    ///
    /// # Safety
    /// It stays until the key is dropped.
    pub(super) unsafe fn register(&self, memory: NonNull<u8>, length: usize, access: Access) -> Result<u32> {
        let range = Range { address: memory.as_ptr().expose_provenance() as u64, length: length as u64, access };
        self.write().insert(Kind::Region(range)).ok_or(VerbError { verb: "register", cause: Cause::Full })
    }

    pub(super) fn window(&self) -> Result<u32> {
        self.write().insert(Kind::Unbound).ok_or(VerbError { verb: "window", cause: Cause::Full })
    }

    /// Forgets a region or a window. Windows of the region can no longer be reached.
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

/// The tables of the two ends of a connection, locked.
pub(super) struct Tables<G> {
    ours: G,
    /// None if it is the same one.
    theirs: Option<G>,
}

impl<G: Deref<Target = Table>> Tables<G> {
    /// Locks the tables of two domains: always in the same order, so that two connections which are busy in opposite
    /// directions, in two threads, never wait for each other.
    pub(super) fn lock<'d>(ours: &'d Arc<Domain>, theirs: &'d Arc<Domain>, lock: impl Fn(&'d Domain) -> G) -> Self {
        if Arc::ptr_eq(ours, theirs) {
            return Self { ours: lock(ours), theirs: None };
        }
        if Arc::as_ptr(ours) < Arc::as_ptr(theirs) {
            let ours = lock(ours);
            Self { ours, theirs: Some(lock(theirs)) }
        } else {
            let theirs = lock(theirs);
            Self { ours: lock(ours), theirs: Some(theirs) }
        }
    }

    pub(super) fn ours(&self) -> &Table {
        &self.ours
    }

    pub(super) fn theirs(&self) -> &Table {
        self.theirs.as_ref().unwrap_or(&self.ours)
    }
}

/// The tables of two domains, to be read: locked once for a batch of requests, which mostly do nothing else with them.
pub(super) struct Reading<'d> {
    domains: [&'d Arc<Domain>; 2],
    tables: Option<Tables<RwLockReadGuard<'d, Table>>>,
}

impl<'d> Reading<'d> {
    pub(super) fn new(domains: [&'d Arc<Domain>; 2]) -> Self {
        Self { domains, tables: None }
    }

    pub(super) fn tables(&mut self) -> &Tables<RwLockReadGuard<'d, Table>> {
        let [ours, theirs] = self.domains;
        self.tables.get_or_insert_with(|| Tables::lock(ours, theirs, Domain::read))
    }

    /// Lets go of the locks: to be done before a table is locked in any other way.
    pub(super) fn pause(&mut self) {
        self.tables = None;
    }
}

/// The number in a key.
pub(super) const fn number(key: u32) -> u32 {
    key >> TAG
}

impl Table {
    fn insert(&mut self, kind: Kind) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.entries.len()).ok().filter(|number| *number < 1 << (32 - TAG))?;
                self.entries.push(Entry { key: 0, kind: Kind::Free });
                number
            }
        };
        let tag = (self.random.next() >> (64 - TAG)) as u32;
        let key = number << TAG | tag;
        *self.entries.get_mut(number as usize)? = Entry { key, kind };
        Some(key)
    }

    fn find(&self, key: u32) -> Option<&Entry> {
        self.entries.get(number(key) as usize).filter(|entry| entry.key == key)
    }

    /// Memory of ours in a work request: to be written or read by the device.
    fn local(&self, slice: &Slice, using: Use) -> std::result::Result<(), Status> {
        match self.find(slice.key).map(|entry| entry.kind) {
            Some(Kind::Region(range)) if range.holds(slice.address, slice.length) && using.is_allowed(range.access) => {
                Ok(())
            }
            _ => Err(Status::LocalProtection),
        }
    }

    /// Whether all slices may be used so.
    pub(super) fn all_local(&self, slices: &[Slice], using: Use) -> std::result::Result<(), Status> {
        slices.iter().try_for_each(|slice| self.local(slice, using))
    }

    /// Whether the peer, on this queue pair of ours, may reach so many octets: no key is asked for none of them.
    pub(super) fn remote(
        &self,
        to: Remote,
        length: u32,
        write: bool,
        queue_pair: u32,
    ) -> std::result::Result<(), Status> {
        if length == 0 {
            return Ok(());
        }
        let range = match self.find(to.key).map(|entry| entry.kind) {
            Some(Kind::Region(range)) => range,
            Some(Kind::Bound { range, queue_pair: bound, .. }) if bound == queue_pair => range,
            _ => return Err(Status::RemoteAccess),
        };
        let allowed = if write { range.access.remote_write } else { range.access.remote_read };
        if allowed && range.holds(to.address, length) { Ok(()) } else { Err(Status::RemoteAccess) }
    }

    /// Binds a window to a slice of a region.
    pub(super) fn bind(
        &mut self,
        window: u32,
        key: u32,
        slice: &Slice,
        access: Access,
        queue_pair: u32,
    ) -> std::result::Result<(), Status> {
        let region = match self.find(slice.key).map(|entry| entry.kind) {
            Some(Kind::Region(range)) if range.access.bind && range.holds(slice.address, slice.length) => range,
            _ => return Err(Status::Bind),
        };
        // The peer can't be given a right that we have not.
        if access.remote_write && !region.access.local_write {
            return Err(Status::Bind);
        }
        let range = Range { address: slice.address, length: slice.length.into(), access };
        match self.entries.get_mut(window as usize) {
            Some(entry) if matches!(entry.kind, Kind::Unbound) && (entry.key ^ key) & !VARIANT == 0 => {
                *entry = Entry { key, kind: Kind::Bound { range, region: number(slice.key), queue_pair } };
                Ok(())
            }
            _ => Err(Status::Bind),
        }
    }

    /// Makes a window unreachable, at our own request, or at the peer's on this queue pair.
    pub(super) fn invalidate(&mut self, key: u32, peer_on: Option<u32>) -> bool {
        let Some(entry) = self.entries.get_mut(number(key) as usize).filter(|entry| entry.key == key) else {
            return false;
        };
        match entry.kind {
            Kind::Bound { queue_pair, .. } if peer_on.is_none_or(|peer_on| peer_on == queue_pair) => {
                entry.kind = Kind::Unbound;
                true
            }
            _ => false,
        }
    }
}

/// Octets of slices.
pub(super) fn total(slices: &[Slice]) -> u64 {
    match slices {
        [one] => one.length.into(),
        _ => slices.iter().map(|slice| u64::from(slice.length)).sum(),
    }
}

/// The octets of slices, to be kept.
///
/// # Safety
/// They are of a work request that takes them along, and is being posted: memory that is there, and that nobody changes.
pub(super) unsafe fn take(slices: &[Slice]) -> Vec<u8> {
    let mut taken = vec![0; usize::try_from(total(slices)).unwrap_or(usize::MAX)];
    // SAFETY: what is read is there, as the caller says; `taken` is ours, and as long.
    unsafe {
        copy(slices, &[whole(&mut taken)]);
    }
    taken
}

/// What was taken along, as the slice of a request: it needs no key. It stays where it is when the vector moves.
pub(super) fn whole(taken: &mut Vec<u8>) -> Slice {
    // No longer than what a request may take along, of 32 bits.
    let length = u32::try_from(taken.len()).unwrap_or(u32::MAX);
    Slice { address: taken.as_mut_ptr().expose_provenance() as u64, length, key: 0 }
}

/// Copies the octets of slices to other slices, which have room for them.
///
/// # Safety
/// All slices were found in tables that are locked since, for what is done to them; or are remote memory that was found so,
/// with the table locked for writing where it is written; or are of a request that takes them along. So the memory is there (a
/// region is forgotten under the lock before its memory goes), and nobody else touches it: memory of work requests belongs to
/// the device until their completion, and exposed memory is changed under the lock alone.
pub(super) unsafe fn copy(from: &[Slice], to: &[Slice]) {
    let (mut targets, mut room) = (to.iter(), (0u64, 0usize));
    for slice in from {
        let (mut source, mut left) = (slice.address, slice.length as usize);
        while left > 0 {
            while room.1 == 0 {
                let Some(next) = targets.next() else { return };
                room = (next.address, next.length as usize);
            }
            let octets = left.min(room.1);
            let (read, write) = (
                std::ptr::with_exposed_provenance::<u8>(source as usize),
                std::ptr::with_exposed_provenance_mut::<u8>(room.0 as usize),
            );
            // SAFETY: both ranges are within registered memory, as the caller has found under the tables' locks, or within what
            // is taken along, and neither wraps. `copy` and not `copy_nonoverlapping`: a queue pair may be connected to another
            // of the same process, and read and write the same region.
            unsafe { std::ptr::copy(read, write, octets) };
            (source, left) = (source + octets as u64, left - octets);
            room = (room.0 + octets as u64, room.1 - octets);
        }
    }
}
