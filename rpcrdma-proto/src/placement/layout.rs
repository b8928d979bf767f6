//! How one message is laid into the receive buffers that its transmissions will take.

use core::ops::Range;

use arrayvec::ArrayVec;

use super::{BufferStructure, MAX_BUFFER_SEGMENTS};

/// Bytes between two pieces of data that are better sent as zeros than saved by another
/// transmission.
const MAX_GAP: u32 = 4096;

/// Pieces of data, with a gap or another item between them, in one transmission: each takes slices
/// of its Send.
const MAX_RUNS: usize = 3;

/// A message, to be laid into receive buffers of one structure: its Payload stream, and the items
/// that are placed apart.
///
/// The stream goes behind the header of each transmission, up to the first target that data are
/// placed into. Data begin at a target's beginning, go on through the targets that follow, and are
/// preceded by zeros. What is left of the stream when all data are placed has the buffers to
/// itself.
///
/// ```
/// use rpcrdma_proto::placement::{Layout, BufferSegment, BufferStructure};
///
/// let head = BufferSegment { length: 4096, align: 8, target: false };
/// let bulk = BufferSegment { length: 65536, align: 4096, target: true };
/// let structure = BufferStructure::new(&[head, bulk])?;
/// // A header of 100 bytes, a stream of 200, and an item that takes two buffers.
/// let layout = Layout { structure: &structure, first_header: 100, header: 40, stream: 200, items: &[100_000] };
/// let all: Vec<_> = layout.transmissions().collect();
/// assert_eq!((all[0].section.clone(), all[0].placed[0].range.clone()), (0..200, 0..65536));
/// assert_eq!((all[1].section.clone(), all[1].placed[0].range.clone()), (200..200, 65536..100_000));
/// assert_eq!((all[1].placed[0].target, all[1].placed[0].at, all.len()), (1, 4096, 2));
/// # Ok::<(), rpcrdma_proto::placement::StructureError>(())
/// ```
// spec: rtr-7.2-a, rtr-7.2-m
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// The receiver's buffers.
    pub structure: &'a BufferStructure,
    /// Bytes of the first header.
    pub first_header: u32,
    /// Bytes of each that follows.
    pub header: u32,
    /// Bytes of the Payload stream: a multiple of four.
    pub stream: u32,
    /// Bytes of each item that is placed, in their order.
    pub items: &'a [u32],
}

/// One transmission of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// Bytes of its header.
    pub header: u32,
    /// Which bytes of the Payload stream follow it.
    pub section: Range<u32>,
    /// The data that are placed, in the order of the buffer.
    pub placed: ArrayVec<PlacedData, MAX_BUFFER_SEGMENTS>,
}

/// Data in one target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedData {
    /// The target's number in the group.
    pub target: u32,
    /// Where it begins, in bytes of the transmission.
    pub at: u32,
    /// Which item.
    pub item: usize,
    /// Which bytes of it.
    pub range: Range<u32>,
}

/// The transmissions of a [`Layout`]: endless if it makes no progress, so it is to be bounded.
#[derive(Clone, Debug)]
pub struct Transmissions<'a> {
    layout: Layout<'a>,
    number: u32,
    stream: u32,
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
    /// Returns whether the whole message is in the transmissions so far.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.number > 0 && self.stream == self.layout.stream && !self.has_data()
    }

    fn has_data(&self) -> bool {
        let left = self.layout.items.get(self.item..).unwrap_or_default();
        left.iter().any(|length| *length > 0)
    }

    /// Places as much data as the targets from `at` on take.
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
