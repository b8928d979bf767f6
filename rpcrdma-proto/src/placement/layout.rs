//! The layout of one message in the receive buffers of its transmissions.
//!
//! A receiver reads from the header which targets have data, so the choice of targets may change
//! within rtrext-02, section 7.2. The transmissions must depend on the fields of [`Layout`] alone:
//! `transfer::headers` computes the first header from them, and `connection::rtr::group_sender`
//! computes them again for each Send.
//!
//! A driver gathers the data of a transmission and the zeros between them: `MAX_RUNS` and `MAX_GAP`
//! bound its gather entries and its zeros.

use core::ops::Range;

use arrayvec::ArrayVec;

use super::{BufferStructure, MAX_BUFFER_SEGMENTS};

/// The maximum gap in bytes between two targets with data that is sent as zeros. A larger gap
/// starts another transmission. The gap before the first target has no maximum.
pub const MAX_GAP: u32 = 4096;

/// The maximum number of runs in one transmission: adjacent data of one item, without zeros between
/// them. Each takes a gather entry of its Send, and so do the zeros between two runs.
pub const MAX_RUNS: usize = 3;

/// The parts of a message that is laid out in receive buffers of one structure: its Payload stream,
/// and the items that are placed in targets.
///
/// In each transmission the stream follows the header, up to the first target that receives data.
/// Zeros fill the space before that target. An item starts at the beginning of a target and
/// continues through the targets that follow. After the last item, the rest of the stream uses
/// whole buffers.
///
/// ```
/// use rpcrdma_proto::placement::{Layout, BufferSegment, BufferStructure};
///
/// let head = BufferSegment { length: 4096, align: 8, target: false };
/// let bulk = BufferSegment { length: 65536, align: 4096, target: true };
/// let structure = BufferStructure::new(&[head, bulk])?;
/// // A header of 100 bytes, a stream of 200, and an item that takes two buffers.
/// let (structure, items) = (&structure, &[100_000]);
/// let layout = Layout { structure, first_header: 100, header: 40, stream: 200, items };
/// let all: Vec<_> = layout.transmissions().collect();
/// assert_eq!((all[0].section.clone(), all[0].placed[0].range.clone()), (0..200, 0..65536));
/// assert_eq!(all[1].section, 200..200);
/// assert_eq!(all[1].placed[0].range, 65536..100_000);
/// assert_eq!((all[1].placed[0].target, all[1].placed[0].at, all.len()), (1, 4096, 2));
/// # Ok::<(), rpcrdma_proto::placement::StructureError>(())
/// ```
// spec: rtr-7.2-a, rtr-7.2-m
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// The receiver's buffers.
    pub structure: &'a BufferStructure,
    /// The size of the first header in bytes.
    pub first_header: u32,
    /// The size of each following header in bytes.
    pub header: u32,
    /// The length of the Payload stream in bytes, a multiple of 4.
    pub stream: u32,
    /// The length of each placed item in bytes, in order.
    pub items: &'a [u32],
}

/// One transmission of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// The size of its header in bytes.
    pub header: u32,
    /// The range of the Payload stream that follows the header.
    pub section: Range<u32>,
    /// The placed data, in the order of the buffer.
    pub placed: ArrayVec<PlacedData, MAX_BUFFER_SEGMENTS>,
}

/// Data in one target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedData {
    /// The number of the target in the group.
    pub target: u32,
    /// The offset in the transmission in bytes.
    pub at: u32,
    /// The index of the item.
    pub item: usize,
    /// The range of the item.
    pub range: Range<u32>,
}

/// The transmissions of a [`Layout`]. The iterator is infinite if the headers leave no room, so the
/// caller bounds it.
#[derive(Clone, Debug)]
pub struct Transmissions<'a> {
    layout: Layout<'a>,
    /// The number of transmissions so far.
    number: u32,
    /// The number of bytes of the stream in them.
    stream: u32,
    /// The item that continues in the next one, and the byte at which it does.
    item: usize,
    byte: u32,
}

impl<'a> Layout<'a> {
    /// Returns the transmissions in order. The iterator is infinite if the headers leave no room.
    #[must_use]
    pub fn transmissions(self) -> Transmissions<'a> {
        Transmissions {
            layout: self,
            number: 0,
            stream: 0,
            item: 0,
            byte: 0,
        }
    }

    /// Returns the number of transmissions; `None` if there are more than `most`.
    #[must_use]
    pub fn count(self, most: u32) -> Option<u32> {
        let length = self.structure.length();
        let mut all = self.transmissions();
        let count = (1..=most).find(|_| {
            all.next();
            all.is_done()
        })?;
        // A later header that does not fit leaves no room for anything, so that there is no end.
        (self.first_header <= length).then_some(count)
    }
}

impl Transmissions<'_> {
    /// Returns whether the transmissions so far contain the whole message.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.number > 0 && self.stream == self.layout.stream && !self.has_data()
    }

    fn has_data(&self) -> bool {
        let left = self.layout.items.get(self.item..).unwrap_or_default();
        left.iter().any(|length| *length > 0)
    }

    /// Places as much data as fits into the targets from `at` on.
    // spec: rtr-7.2-b, rtr-7.2-c
    fn place(&mut self, at: u32) -> ArrayVec<PlacedData, MAX_BUFFER_SEGMENTS> {
        let targets = self.layout.structure.targets();
        let base = self.number * self.layout.structure.target_count();
        let (mut placed, mut at, mut runs) =
            (ArrayVec::<PlacedData, MAX_BUFFER_SEGMENTS>::new(), at, 0);
        for (number, range) in (base..).zip(targets) {
            while self
                .layout
                .items
                .get(self.item)
                .is_some_and(|length| *length == self.byte)
            {
                (self.item, self.byte) = (self.item + 1, 0);
            }
            let Some(length) = self.layout.items.get(self.item) else {
                break;
            };
            if range.start < at {
                continue;
            }
            let gap = range.start - at;
            let joins = gap == 0 && self.byte > 0 && runs > 0;
            runs += usize::from(!joins);
            if runs > MAX_RUNS || (!placed.is_empty() && gap > MAX_GAP) {
                break;
            }
            let count = (range.end - range.start).min(length - self.byte);
            let bytes = self.byte..self.byte + count;
            placed.push(PlacedData {
                target: number,
                at: range.start,
                item: self.item,
                range: bytes,
            });
            (self.byte, at) = (self.byte + count, range.start + count);
        }
        while self
            .layout
            .items
            .get(self.item)
            .is_some_and(|length| *length == self.byte)
        {
            (self.item, self.byte) = (self.item + 1, 0);
        }
        placed
    }
}

impl Iterator for Transmissions<'_> {
    type Item = Transmission;

    fn next(&mut self) -> Option<Transmission> {
        if self.is_done() {
            return None;
        }
        let Layout {
            structure,
            first_header: opener,
            header,
            stream,
            ..
        } = self.layout;
        let header = if self.number == 0 { opener } else { header };
        let first = structure
            .targets()
            .find(|range| range.start >= header)
            .filter(|_| self.has_data());
        let end = first.map_or(structure.length(), |range| range.start);
        // The sections of an XDR stream are whole words.
        let room = end.saturating_sub(header) & !3;
        let section = self.stream..self.stream + room.min(stream - self.stream);
        self.stream = section.end;
        let placed = self.place(header + (section.end - section.start));
        self.number += 1;
        Some(Transmission {
            header,
            section,
            placed,
        })
    }
}
