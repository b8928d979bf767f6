//! How long headers of rtrext-02 are, which the layout of a message depends on.

use arrayvec::ArrayVec;

use crate::placement::{Layout, Structure};

/// Octets before what an operation says: the fixed words, the direction, the operation's number, and its length.
const BEFORE: u32 = 28;
/// A ROPT_XMTREQ that places and directs nothing.
const REQUEST: u32 = BEFORE + 20;
/// A ROPT_XMTRESP that places nothing.
pub(crate) const REPLY: u32 = BEFORE + 12;
/// A ROPT_XMTCONT.
pub(crate) const MORE: u32 = BEFORE + 12;
/// A set of directions, without its items.
const SET: u32 = 12;
/// An item that is in memory of a peer's, without its segments.
pub(crate) const EXPLICIT: u32 = 16;
/// A direction, without the places that it offers; and each of those, without its segments.
const DIRECTION: u32 = 8;
const OFFER: u32 = 4;
/// A segment.
const SEGMENT: u64 = 16;
/// An item that is placed, without the numbers of its targets.
const PLACED: u32 = 20;
/// A direction that came to nothing.
pub(crate) const NOTHING: u32 = 12;

/// Targets that one message may name: more are not worth their places in the header.
pub(crate) const TARGETS: usize = 64;

/// Octets of an operation's own that a message may have: what the sender's buffer for headers has room for.
pub(crate) const INFO: usize = 3072;

/// The targets of each item that is placed, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    numbers: ArrayVec<u32, TARGETS>,
    /// Where those of each item end.
    #[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "sessions write them"))]
    ends: ArrayVec<usize, { super::ITEMS }>,
}

impl Targets {
    /// Those of a layout of so many transmissions; none if they are too many.
    pub(crate) fn of(layout: Layout<'_>, count: u32) -> Option<Self> {
        let mut numbers = ArrayVec::new();
        let mut ends = ArrayVec::new();
        let all = layout.transmissions().take(count as usize).flat_map(|one| one.placed);
        for placed in all {
            while ends.len() < placed.item {
                ends.try_push(numbers.len()).ok()?;
            }
            numbers.try_push(placed.target).ok()?;
        }
        while ends.len() < layout.items.len() {
            ends.try_push(numbers.len()).ok()?;
        }
        Some(Self { numbers, ends })
    }

    /// Those of the item of this number among those that are placed.
    #[cfg(feature = "alloc")]
    pub(crate) fn of_item(&self, item: usize) -> &[u32] {
        let from = item.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = from.zip(self.ends.get(item).copied());
        range.and_then(|(from, to)| self.numbers.get(from..to)).unwrap_or_default()
    }
}

/// What a request says of its items and its results, as far as its header's length depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents {
    /// Sets of results: those that may be placed by Sends, and those that memory is offered for.
    pub(crate) send: u64,
    pub(crate) explicit: u64,
    /// Results that something is directed about, those that are to stay in the message included; and the sets that these are in.
    pub(crate) directed: u32,
    pub(crate) sets: u32,
    /// Whether a result in both says from which size on it is which.
    pub(crate) by_size: bool,
    /// Items that are to be read.
    pub(crate) read: u64,
    /// Segments of all of these.
    pub(crate) segments: u64,
}

impl Contents {
    /// Octets of a ROPT_XMTREQ without its placed items.
    pub(crate) fn octets(self) -> Option<u32> {
        let both = self.send & self.explicit;
        let offers = self.explicit.count_ones() + if self.by_size { both.count_ones() } else { 0 };
        let directions = SET * self.sets + DIRECTION * self.directed + OFFER * offers;
        let fixed = REQUEST + directions + EXPLICIT * self.read.count_ones();
        u32::try_from(self.segments.checked_mul(SEGMENT)?).ok()?.checked_add(fixed)
    }
}

/// Octets of the first header of a message, of which `fixed` are there without its placed items, and how many transmissions it
/// takes; none if they are more than `most`.
pub(crate) fn opener(structure: &Structure, fixed: u32, stream: u32, items: &[u32], most: u32) -> Option<(u32, u32)> {
    let fixed = fixed.checked_add(PLACED * u32::try_from(items.len()).ok()?)?;
    if fixed as usize > INFO {
        return None;
    }
    let mut header = fixed;
    // A longer header may put data into other targets, and so name more of them: it never becomes shorter.
    for _ in 0..4 {
        let layout = Layout { structure, opener: header, header: MORE, stream, items };
        let count = layout.count(most)?;
        let targets = Targets::of(layout, count)?.numbers.len();
        let wanted = fixed + 4 * u32::try_from(targets).ok()?;
        if wanted <= header {
            return (wanted == header).then_some((header, count));
        }
        header = wanted;
    }
    None
}
