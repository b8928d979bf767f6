//! The lengths of headers of rtrext-02, on which the layout of a message depends.
//!
//! Each length must be exactly that of the header that `connection::requester::grouped` or
//! `connection::responder::grouped` writes. Both modules compare the lengths before a message is
//! sent: after a difference a call is planned again without end, and a reply blocks the replies
//! behind it. `connection::rtr::headers` writes no content of more than `MAX_INFO` bytes.

use arrayvec::ArrayVec;

use crate::placement::{BufferStructure, Layout};
use crate::sizes::{self, OPERATION};
use crate::v2::rtr::{Cont, LocTbsn, Mitem, Req, Resp, Rsditem, Rsdset};

/// A ROPT_XMTREQ without items and directions.
const REQUEST: u32 = OPERATION + sizes::of::<Req<'_>>();
/// A ROPT_XMTRESP without items.
pub(crate) const REPLY: u32 = OPERATION + sizes::of::<Resp<'_>>();
/// A ROPT_XMTCONT.
pub(crate) const CONTINUATION: u32 = OPERATION + sizes::of::<Cont>();
/// A set of directions, without the directions.
const RESULT_SET: u32 = sizes::of::<Rsdset<'_>>();
/// An item in memory of the peer, without its segments.
pub(crate) const EXPLICIT_ITEM: u32 = sizes::of::<Mitem<'_>>() + sizes::WORD;
/// A direction, without the memory that it offers.
const DIRECTION: u32 = sizes::of::<Rsditem<'_>>();
/// The memory that a direction offers, without its segments.
const OFFERED_MEMORY: u32 = sizes::WORD;
/// A placed item, without the numbers of its targets.
const PLACED_ITEM: u32 = sizes::of::<Mitem<'_>>() + sizes::of::<LocTbsn<'_>>();
/// An item for a direction that no result follows.
pub(crate) const UNUSED_DIRECTION: u32 = sizes::of::<Mitem<'_>>();

/// The maximum number of targets in one message. Further targets are not worth their bytes in the
/// header.
pub(crate) const MAX_TARGETS: usize = 64;

/// The maximum length in bytes of an operation's content, given the sender's buffer for headers.
pub(crate) const MAX_INFO: usize = 3072;

/// The targets of each item that is placed, in their order.
#[derive(Clone, Debug)]
pub(crate) struct PlacementTargets {
    numbers: ArrayVec<u32, MAX_TARGETS>,
    /// Where those of each item end.
    #[cfg_attr(
        not(feature = "alloc"),
        expect(dead_code, reason = "sessions write them")
    )]
    ends: ArrayVec<usize, { super::MAX_ITEMS }>,
}

impl PlacementTargets {
    /// Returns the targets of a layout of `count` transmissions; `None` if they are too many.
    pub(crate) fn of(layout: Layout<'_>, count: u32) -> Option<Self> {
        let mut numbers = ArrayVec::new();
        let mut ends = ArrayVec::new();
        let all = layout
            .transmissions()
            .take(count as usize)
            .flat_map(|one| one.placed);
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

    /// Returns the targets of the placed item with this number.
    #[cfg(feature = "alloc")]
    pub(crate) fn of_item(&self, item: usize) -> &[u32] {
        let from = item
            .checked_sub(1)
            .map_or(Some(0), |before| self.ends.get(before).copied());
        let range = from.zip(self.ends.get(item).copied());
        range
            .and_then(|(from, to)| self.numbers.get(from..to))
            .unwrap_or_default()
    }
}

/// The properties of a request's items and results on which the length of its header depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContents {
    /// Sets of results: those that may be placed by Sends, and those with offered memory.
    pub(crate) send: u64,
    pub(crate) explicit: u64,
    /// The number of directed results, with those that are to stay in the message, and the number
    /// of their sets.
    pub(crate) directed: u32,
    pub(crate) sets: u32,
    /// Whether a result in both says from which size on it is which.
    pub(crate) by_size: bool,
    /// The items that are read.
    pub(crate) read: u64,
    /// Segments of all of these.
    pub(crate) segments: u64,
}

impl RequestContents {
    /// Returns the length of a ROPT_XMTREQ without its placed items.
    pub(crate) fn bytes(self) -> Option<u32> {
        let both = self.send & self.explicit;
        let offers = self.explicit.count_ones() + if self.by_size { both.count_ones() } else { 0 };
        let directions =
            RESULT_SET * self.sets + DIRECTION * self.directed + OFFERED_MEMORY * offers;
        let fixed = REQUEST + directions + EXPLICIT_ITEM * self.read.count_ones();
        u32::try_from(self.segments.checked_mul(sizes::SEGMENT.into())?)
            .ok()?
            .checked_add(fixed)
    }
}

/// Returns the length of the first header of a message, and the number of transmissions; `None` if
/// there are more than `most`. The header has `fixed` bytes without its placed items.
pub(crate) fn first_header(
    structure: &BufferStructure,
    fixed: u32,
    stream: u32,
    items: &[u32],
    most: u32,
) -> Option<(u32, u32)> {
    let fixed = fixed.checked_add(PLACED_ITEM * u32::try_from(items.len()).ok()?)?;
    if fixed as usize > MAX_INFO {
        return None;
    }
    let mut header = fixed;
    // A longer header may put data into other targets, and so name more of them: it never becomes
    // shorter.
    for _ in 0..4 {
        let layout = Layout {
            structure,
            first_header: header,
            header: CONTINUATION,
            stream,
            items,
        };
        let count = layout.count(most)?;
        let targets = PlacementTargets::of(layout, count)?.numbers.len();
        let wanted = fixed + sizes::WORD * u32::try_from(targets).ok()?;
        if wanted <= header {
            return (wanted == header).then_some((header, count));
        }
        header = wanted;
    }
    None
}
