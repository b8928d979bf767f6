//! Which bytes of a message follow its header: all but the reduced items and their padding.
//!
//! `transfer` chooses the items that are reduced. A bit of `reduced` is the index of an item in
//! `items`, which must be in order of position. The length that is compared with the inline
//! threshold and the bytes that the transport gathers (`Session::inline_parts`) both come from this
//! module.

use core::slice;

use crate::transfer::{self, DataItem, Remaining};

/// The parts of a call or a reply that are sent with its header, as ranges of the message.
pub(super) type InlineParts<'a> = Remaining<ReducedIter<'a>>;

/// Returns the inline parts of a message of `length` bytes. `reduced` has a bit for each item that
/// is reduced.
pub(super) fn parts(length: u32, items: &[DataItem], reduced: u64) -> InlineParts<'_> {
    transfer::remaining(
        length,
        ReducedIter {
            items: items.iter(),
            reduced,
        },
    )
}

/// Returns the total length of the parts.
pub(super) fn total_len(parts: InlineParts<'_>) -> u32 {
    parts.fold(0, |bytes, part| bytes.saturating_add(part.end - part.start))
}

/// Returns no parts.
pub(super) fn no_parts<'a>() -> InlineParts<'a> {
    parts(0, &[], 0)
}

/// The items of a message that are reduced.
#[derive(Clone, Debug)]
pub(super) struct ReducedIter<'a> {
    items: slice::Iter<'a, DataItem>,
    /// A bit for each remaining item, the lowest for the next one.
    reduced: u64,
}

impl Iterator for ReducedIter<'_> {
    type Item = DataItem;

    fn next(&mut self) -> Option<DataItem> {
        for item in &mut self.items {
            let is_reduced = self.reduced & 1 == 1;
            self.reduced >>= 1;
            if is_reduced {
                return Some(*item);
            }
        }
        None
    }
}
