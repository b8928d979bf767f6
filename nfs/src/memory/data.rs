//! The bytes of a regular file, in pages. Pages that were never written do not exist.
//!
//! READ shares a page with its reply, and a later WRITE copies a page that is shared: a reply in
//! flight never changes. The bytes of a page beyond the size of the file are zeros, on which growth
//! relies. `allocated` must equal what `budget` has given, since `tree` gives it back with the
//! file. The callers reject offsets beyond `MAX_SIZE` of `setting`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use oncrpc::xdr::{Item, SharedBytes};

use super::budget::Budget;
use crate::nfs3::Nfsstat3;

/// The maximum bytes of a page.
const PAGE: usize = 128 << 10;
/// The minimum bytes of a page.
const MIN_PAGE: usize = 64;
/// The cost of a page beyond its bytes.
const PAGE_COST: u64 = 64;

/// The bytes of a file. A page may have fewer bytes than [`PAGE`]: the rest of it is zeros.
#[derive(Debug, Default)]
pub(super) struct Data {
    pages: BTreeMap<u64, Arc<Vec<u8>>>,
    size: u64,
    /// The bytes taken from the budget.
    allocated: u64,
}

/// Returns the page of an offset, and the offset within it.
fn split(offset: u64) -> (u64, usize) {
    // Less than `PAGE`.
    let within = usize::try_from(offset % PAGE as u64).unwrap_or(0);
    (offset / PAGE as u64, within)
}

/// Returns the length of a page that holds this many bytes.
fn page_len(bytes: usize) -> usize {
    bytes.next_power_of_two().clamp(MIN_PAGE, PAGE)
}

impl Data {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Returns at most `count` bytes. Bytes of a single page are shared, not copied.
    pub(super) fn read(&self, offset: u64, count: u32) -> Item<'static> {
        let left = self.size.saturating_sub(offset).min(count.into());
        let count = usize::try_from(left).unwrap_or(0);
        let (page, within) = split(offset);
        self.share(page, within..within + count)
            .unwrap_or_else(|| self.copy(offset, count).into())
    }

    fn share(&self, page: u64, range: Range<usize>) -> Option<Item<'static>> {
        let page = self.pages.get(&page)?.clone();
        SharedBytes::new(page, range).map(Item::from)
    }

    fn copy(&self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        for (offset, range) in pieces(offset, count) {
            let (page, within) = split(offset);
            let from = self.pages.get(&page).and_then(|page| page.get(within..));
            if let Some((from, to)) = from.zip(bytes.get_mut(range)) {
                let len = from.len().min(to.len());
                if let Some((from, to)) = from.get(..len).zip(to.get_mut(..len)) {
                    to.copy_from_slice(from);
                }
            }
        }
        bytes
    }

    /// Writes as many bytes as the budget allows. Fails if it allows none.
    pub(super) fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<usize, Nfsstat3> {
        let mut written = 0;
        for (at, range) in pieces(offset, bytes.len()) {
            let piece = bytes.get(range).unwrap_or_default();
            if let Err(error) = self.write_page(at, piece, budget) {
                return if written == 0 {
                    Err(error)
                } else {
                    Ok(written)
                };
            }
            written += piece.len();
            self.size = self.size.max(at + piece.len() as u64);
        }
        Ok(written)
    }

    fn write_page(
        &mut self,
        offset: u64,
        piece: &[u8],
        budget: &mut Budget,
    ) -> Result<(), Nfsstat3> {
        let (number, within) = split(offset);
        let needed = page_len(within + piece.len());
        let (before, new) = self
            .pages
            .get(&number)
            .map_or((0, PAGE_COST), |page| (page.len(), 0));
        let more = new + needed.saturating_sub(before) as u64;
        budget.take(more)?;
        self.allocated += more;
        let page = Arc::make_mut(self.pages.entry(number).or_default());
        if needed > before {
            page.reserve_exact(needed - before);
            page.resize(needed, 0);
        }
        if let Some(place) = page.get_mut(within..within + piece.len()) {
            place.copy_from_slice(piece);
        }
        Ok(())
    }

    /// Sets the size. Added bytes are zeros and take no memory.
    pub(super) fn set_size(&mut self, size: u64, budget: &mut Budget) {
        if size < self.size {
            self.cut(size);
            let kept = self.pages.values();
            let allocated = kept.map(|page| page.len() as u64 + PAGE_COST).sum();
            budget.give_back(self.allocated.saturating_sub(allocated));
            self.allocated = allocated;
        }
        self.size = size;
    }

    fn cut(&mut self, size: u64) {
        let (last, within) = split(size);
        self.pages.split_off(&(last + u64::from(within > 0)));
        if within == 0 {
            return;
        }
        if let Some(page) = self.pages.get_mut(&last) {
            let page = Arc::make_mut(page);
            page.truncate(page_len(within));
            page.shrink_to_fit();
            if let Some(rest) = page.get_mut(within..) {
                rest.fill(0);
            }
        }
    }
}

/// Splits a range at page boundaries: returns the offset of each piece, and its range of the bytes.
fn pieces(offset: u64, count: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == count {
            return None;
        }
        let start = offset + done as u64;
        let len = (PAGE - split(start).1).min(count - done);
        let range = done..done + len;
        done += len;
        Some((start, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(1 << 30)
    }

    #[test]
    fn bytes_in_one_page_are_shared() {
        let (mut data, mut budget) = (Data::default(), budget());
        data.write(0, &[7; 100], &mut budget).unwrap();
        let first = data.read(0, 100);
        let second = data.read(10, 20);
        assert_eq!(second.as_ptr(), first[10..].as_ptr());
    }

    #[test]
    fn a_write_does_not_change_read_data() {
        let (mut data, mut budget) = (Data::default(), budget());
        data.write(0, b"before", &mut budget).unwrap();
        let read = data.read(0, 6);
        data.write(0, b"after!", &mut budget).unwrap();
        assert_eq!(
            (&*read, &*data.read(0, 6)),
            (&b"before"[..], &b"after!"[..])
        );
    }

    #[test]
    fn truncated_bytes_are_zeros_after_growth() {
        let (mut data, mut budget) = (Data::default(), budget());
        let end = PAGE as u64 * 3 + 17;
        data.write(0, &vec![9; PAGE * 4], &mut budget).unwrap();
        data.set_size(end, &mut budget);
        data.set_size(end + 10, &mut budget);
        assert_eq!(
            *data.read(end - 2, 12),
            [9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        data.set_size(0, &mut budget);
        assert_eq!((data.allocated(), budget.free()), (0, budget.limit()));
    }

    #[test]
    fn a_write_beyond_the_budget_is_short_or_fails() {
        let (mut data, mut budget) = (Data::default(), Budget::new(PAGE as u64 + PAGE_COST));
        let bytes = vec![1; PAGE * 2];
        assert_eq!(data.write(0, &bytes, &mut budget), Ok(PAGE));
        assert_eq!(data.size(), PAGE as u64);
        let again = data.write(PAGE as u64, &bytes, &mut budget);
        assert_eq!(again, Err(Nfsstat3::Nospc));
    }
}
