//! The locations of the parts of a message that arrived in transmissions of rtrext-02.
//!
//! `connection::rtr::reassembly` fills them, and calls `finish` when the message is complete.
//! `sources` relies on `finish` for the order of the items and the length, and computes without
//! checks. Of a message that was abandoned, only `buffers` has a meaning. The transport must repost
//! each buffer in `buffers` once, and may return the lists by `Session::recycle`.

use alloc::vec::Vec;
use core::ops::Range;

use crate::chunk::{ChunkError, Segment};
use crate::placement::BufferId;

/// Bytes of a receive buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: BufferId,
    /// Which of its bytes, over all of its segments.
    pub range: Range<u32>,
}

/// A message that arrived in transmissions: its Payload stream, and the items reduced from it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReassembledMessage {
    /// Bytes of XDR, with everything in place.
    pub length: u32,
    /// The sections of the Payload stream, in their order.
    pub stream: Vec<BufferRange>,
    /// The items that were excised, in their order.
    pub items: Vec<ReducedItem>,
    /// The ranges of the items that Sends have placed. Until the last transmission has arrived,
    /// `buffer` is the number of a target, and `range` is within that target.
    pub places: Vec<BufferRange>,
    /// The memory of the items that were read or written explicitly.
    pub segments: Vec<Segment>,
    /// Every receive buffer of the message. The range is what follows the section of the Payload
    /// stream in it.
    pub buffers: Vec<BufferRange>,
}

/// An item that was excised from the Payload stream.
// spec: rtr-6.2-b
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReducedItem {
    /// Where its data begin in the whole message.
    pub position: u32,
    /// Bytes, without padding.
    pub length: u32,
    /// Where it is.
    pub reduction: Reduction,
    /// Of a reply: the number of the call's result that it is.
    pub result: Option<usize>,
}

/// Where an item is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// The item is in these of the message's `places`, in order.
    Placed(Range<usize>),
    /// The item is in these of the message's `segments`: memory of the requester.
    Explicit(Range<usize>),
    /// The item is in the Payload stream: it was too short to be reduced. Only in replies.
    TooShort,
    /// The reply has no such item.
    NoItem,
}

/// Bytes of a whole message, and where they come from. `at` is where they belong. Only a call has
/// parts to read: the explicit items of a reply were written by the responder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Bytes that were received.
    Received {
        /// Where they belong.
        at: u32,
        /// Where they are.
        from: BufferRange,
    },
    /// The data of an RDMA Read of this segment.
    Read {
        /// Where it belongs.
        at: u32,
        /// The memory to read.
        from: Segment,
    },
    /// Padding behind an item: zeros.
    Padding {
        /// Where it belongs.
        at: u32,
        /// How many bytes: up to three.
        length: u32,
    },
}

impl ReassembledMessage {
    /// Empties all lists, and keeps their capacity.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        self.stream.clear();
        self.items.clear();
        self.places.clear();
        self.segments.clear();
        self.buffers.clear();
    }

    /// Returns the length of the Payload stream.
    #[must_use]
    pub fn stream_length(&self) -> u32 {
        self.stream.iter().fold(0, |sum, part| {
            sum.saturating_add(part.range.end - part.range.start)
        })
    }

    /// Returns whether the responder must read parts of a call.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.items
            .iter()
            .any(|item| matches!(item.reduction, Reduction::Explicit(_)))
    }

    /// Returns the items that are not in the Payload stream.
    fn reduced_items(&self) -> impl Iterator<Item = &ReducedItem> {
        self.items.iter().filter(|item| is_reduced(item))
    }

    /// Returns the first such item from number `from` on, with its number.
    fn next_reduced(&self, from: usize) -> Option<(usize, &ReducedItem)> {
        self.items
            .iter()
            .enumerate()
            .skip(from)
            .find(|(_, item)| is_reduced(item))
    }

    /// Checks the items' positions against the Payload stream, and computes the length.
    ///
    /// # Errors
    /// The positions are out of order, not aligned or beyond the stream; or the message is longer
    /// than `most`.
    // spec: rtr-6.2-e, rtr-6.2-f, rtr-7.3-a, rtr-7.3-g, rtr-7.3-k
    pub(crate) fn finish(&mut self, most: u32) -> Result<(), ChunkError> {
        let stream = u64::from(self.stream_length());
        let (mut end, mut reduced) = (0u64, 0u64);
        for item in self.reduced_items() {
            let position = u64::from(item.position);
            if position % 4 != 0 {
                return Err(ChunkError::MisalignedPosition);
            }
            // An RPC message begins with its XID and direction, which are no items.
            if position < 8 {
                return Err(ChunkError::PositionZeroInline);
            }
            if position < end {
                return Err(ChunkError::OverlappingPosition);
            }
            if position - reduced > stream {
                return Err(ChunkError::PositionBeyondMessage);
            }
            let padded = u64::from(item.length).next_multiple_of(4);
            (end, reduced) = (position + padded, reduced + padded);
        }
        let whole = u32::try_from(stream.saturating_add(reduced))
            .ok()
            .filter(|whole| *whole <= most);
        self.length = whole.ok_or(ChunkError::TooLong)?;
        Ok(())
    }

    /// Returns the pieces of the message in order.
    // spec: rtr-3.3-e, rtr-4.2-e, rtr-6.2-d, rtr-9.4-h
    #[must_use]
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            message: self,
            at: 0,
            section: 0,
            from: 0,
            item: 0,
            piece: 0,
            taken: 0,
        }
    }
}

fn is_reduced(item: &ReducedItem) -> bool {
    matches!(
        item.reduction,
        Reduction::Placed(_) | Reduction::Explicit(_)
    )
}

/// The pieces of a [`ReassembledMessage`].
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    message: &'a ReassembledMessage,
    /// The number of bytes that were returned.
    at: u32,
    /// The current section of the stream, and the number of its bytes that were returned.
    section: usize,
    from: u32,
    /// The next item, its next piece, and the number of its bytes that were returned.
    item: usize,
    piece: usize,
    taken: u32,
}

impl Sources<'_> {
    /// Returns the next bytes of the stream, up to a position.
    fn stream(&mut self, until: u32) -> Option<Source> {
        loop {
            let section = self.message.stream.get(self.section)?;
            let left = section.range.start.saturating_add(self.from)..section.range.end;
            if left.is_empty() {
                (self.section, self.from) = (self.section + 1, 0);
                continue;
            }
            let length = (left.end - left.start).min(until.saturating_sub(self.at));
            if length == 0 {
                return None;
            }
            let bytes = left.start..left.start + length;
            let source = Source::Received {
                at: self.at,
                from: BufferRange {
                    buffer: section.buffer,
                    range: bytes,
                },
            };
            (self.from, self.at) = (self.from + length, self.at + length);
            return Some(source);
        }
    }

    /// Returns the next piece of an item, or its padding.
    fn piece(&mut self, item: &ReducedItem) -> Option<Source> {
        let left = item.length - self.taken;
        let at = self.at;
        let (source, length) = match &item.reduction {
            _ if left == 0 => {
                let length = item.length.wrapping_neg() & 3;
                (self.item, self.piece, self.taken) = (self.item + 1, 0, 0);
                self.at += length;
                return (length > 0).then_some(Source::Padding { at, length });
            }
            Reduction::Placed(range) => {
                let place = self.message.places.get(range.start + self.piece)?;
                let length = (place.range.end - place.range.start).min(left);
                let bytes = place.range.start..place.range.start + length;
                (
                    Source::Received {
                        at,
                        from: BufferRange {
                            buffer: place.buffer,
                            range: bytes,
                        },
                    },
                    length,
                )
            }
            Reduction::Explicit(range) => {
                let segment = *self.message.segments.get(range.start + self.piece)?;
                let length = segment.length.min(left);
                (
                    Source::Read {
                        at,
                        from: Segment { length, ..segment },
                    },
                    length,
                )
            }
            Reduction::TooShort | Reduction::NoItem => return None,
        };
        (self.piece, self.taken, self.at) = (self.piece + 1, self.taken + length, at + length);
        Some(source)
    }
}

impl Iterator for Sources<'_> {
    type Item = Source;

    fn next(&mut self) -> Option<Source> {
        let message = self.message;
        while let Some((number, item)) = message.next_reduced(self.item) {
            self.item = number;
            if let Some(source) = self.stream(item.position) {
                return Some(source);
            }
            if let Some(source) = self.piece(item) {
                return Some(source);
            }
            if self.item == number {
                // It has fewer bytes than its length, which `Reassembly` has refused.
                return None;
            }
        }
        self.stream(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
