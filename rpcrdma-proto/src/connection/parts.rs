//! Which octets of a message follow its header.

use core::slice;

use crate::travel::{self, Item, Left};

/// The parts of a call or a reply that are sent with its header, as ranges of the message.
pub(super) type Parts<'a> = Left<Moved<'a>>;

/// Those of a message of `length` octets with these items, of which those with a bit in `moved` are moved apart.
pub(super) fn parts(length: u32, items: &[Item], moved: u64) -> Parts<'_> {
    travel::left(length, Moved { items: items.iter(), moved })
}

/// How many octets they have.
pub(super) fn octets(parts: Parts<'_>) -> u32 {
    parts.fold(0, |octets, part| octets.saturating_add(part.end - part.start))
}

/// None.
pub(super) fn no_parts<'a>() -> Parts<'a> {
    parts(0, &[], 0)
}

/// The items of a message that are moved apart.
#[derive(Clone, Debug)]
pub(super) struct Moved<'a> {
    items: slice::Iter<'a, Item>,
    /// A bit for each that is to come, the next one's lowest.
    moved: u64,
}

impl Iterator for Moved<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        for item in &mut self.items {
            let is_moved = self.moved & 1 == 1;
            self.moved >>= 1;
            if is_moved {
                return Some(*item);
            }
        }
        None
    }
}
