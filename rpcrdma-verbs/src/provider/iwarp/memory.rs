//! The bytes of registered memory. Only this module of the provider accesses them. It checks no
//! key: its callers check entries in `common::domain`, under the conditions of `Parts`.

#![allow(
    unsafe_code,
    reason = "registered memory is reached by address, as a device would"
)]

use std::io::IoSliceMut;

use arrayvec::ArrayVec;

use crate::provider::Sge;

/// The maximum number of scatter/gather entries of a work request.
pub(super) const MAX_SGE: usize = 16;

/// Successive ranges of memory.
///
/// The code that creates a value has checked its entries, and guarantees that the memory is valid
/// and without conflicting use while the value is used:
/// - entries of a posted request or receive, before its completion: guaranteed by the poster;
/// - exposed memory, while the table of keys in which it was found is locked: a region is removed
///   under the lock before its memory is freed. Memory that a window exposes to writes is exposed
///   by nothing else, as `post` demands, and one queue pair writes it. Several can write memory
///   that a region exposes: it is written with the table locked for writing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    slices: &'a [Sge],
    skip: u64,
    length: u64,
}

impl<'a> Parts<'a> {
    /// Returns `length` bytes from `offset` on, or fewer if the memory ends before.
    pub(super) const fn new(slices: &'a [Sge], offset: u64, length: u64) -> Self {
        Self {
            slices,
            skip: offset,
            length,
        }
    }

    /// Returns addresses and lengths. No range is empty.
    fn ranges(self) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let (mut skip, mut left) = (self.skip, self.length);
        self.slices.iter().filter_map(move |slice| {
            let skipped = skip.min(slice.length.into());
            skip -= skipped;
            let length = left.min(u64::from(slice.length) - skipped);
            left -= length;
            // Addresses and lengths belong to memory of this process.
            let address = (slice.address + skipped) as usize;
            (length > 0).then_some((address, length as usize))
        })
    }

    /// Returns the first `length` bytes.
    pub(super) fn first(self, length: u64) -> Self {
        Self {
            length: length.min(self.length),
            ..self
        }
    }

    /// Returns the bytes for sending or checksums.
    pub(super) fn bytes(self) -> impl Iterator<Item = &'a [u8]> {
        self.ranges().map(|(address, length)| {
            let from = std::ptr::with_exposed_provenance(address);
            // SAFETY: the range is within an entry that the creator of `self` guarantees to be
            // valid and unchanged while it is sent. Its memory was zeroed when it was allocated, so
            // that it is initialized.
            unsafe { std::slice::from_raw_parts(from, length) }
        })
    }

    /// Returns the bytes for a system call that writes them.
    pub(super) fn to_receive(self) -> ArrayVec<IoSliceMut<'a>, { MAX_SGE + 1 }> {
        let slices = self.ranges().map(|(address, length)| {
            let to = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: as for `bytes`; and nothing else uses the memory, as the creator of `self`
            // guarantees. The ranges of one request may overlap only if its poster has posted the
            // same memory twice, which `post` forbids.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(to, length) })
        });
        slices.take(MAX_SGE).collect()
    }

    /// Writes as many of `bytes` as there is room for.
    pub(super) fn write(self, mut bytes: &[u8]) {
        for (address, length) in self.ranges() {
            let (part, rest) = bytes.split_at(bytes.len().min(length));
            let to = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: as for `to_receive`. `bytes` is not registered memory: it was received into a
            // buffer of this provider.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len()) };
            bytes = rest;
        }
    }
}
