//! A message that has come in transmissions of rtrext-02: where its octets are.

use alloc::vec::Vec;
use core::ops::Range;

use crate::chunk::{Fault, Segment};
use crate::placement::Buffer;

/// Octets of a receive buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Octets {
    /// The buffer.
    pub buffer: Buffer,
    /// Which of its octets, over all of its segments.
    pub octets: Range<u32>,
}

impl Octets {
    /// Whether some of them are among others.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (from, to) = (self.octets.start.max(other.octets.start), self.octets.end.min(other.octets.end));
        self.buffer == other.buffer && from < to
    }
}

/// A message, transmission by transmission: its Payload stream, and what was excised from it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Gathered {
    /// Octets of XDR, with everything in place.
    pub length: u32,
    /// The sections of the Payload stream, in their order.
    pub stream: Vec<Octets>,
    /// The items that were excised, in their order.
    pub items: Vec<Excised>,
    /// Where the items are that the Sends have placed.
    pub places: Vec<Octets>,
    /// The memory of the items that were read or written explicitly.
    pub segments: Vec<Segment>,
    /// Every buffer of the message, with those of its octets that have come behind the section.
    pub buffers: Vec<Octets>,
}

/// An item that was excised from the Payload stream.
// spec: rtr-6.2-b
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excised {
    /// Where its data begin in the whole message.
    pub position: u32,
    /// Octets, without padding.
    pub length: u32,
    /// Where it is.
    pub how: How,
    /// Of a reply: the number of the call's result that it is.
    pub result: Option<usize>,
}

/// Where an item is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum How {
    /// In these of the message's `places`, one after the other.
    Placed(Range<usize>),
    /// In these of its `segments`: memory of the requester's.
    Explicit(Range<usize>),
    /// In the Payload stream: it was too short to be excised.
    TooShort,
    /// Nowhere: there was none.
    NoItem,
}

/// Octets of a whole message, and where they come from. `at` is where they belong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Octets that have come.
    Octets {
        /// Where they belong.
        at: u32,
        /// Where they are.
        from: Octets,
    },
    /// What an RDMA Read of this segment brings.
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
        /// How many octets: up to three.
        length: u32,
    },
}

impl Gathered {
    /// Forgets all but its memory.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        self.stream.clear();
        self.items.clear();
        self.places.clear();
        self.segments.clear();
        self.buffers.clear();
    }

    /// Octets of the Payload stream.
    #[must_use]
    pub fn stream_length(&self) -> u32 {
        self.stream.iter().fold(0, |sum, part| sum.saturating_add(part.octets.end - part.octets.start))
    }

    /// Whether the responder is to read parts of it.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.items.iter().any(|item| matches!(item.how, How::Explicit(_)))
    }

    /// Items that are not in the Payload stream.
    fn apart(&self) -> impl Iterator<Item = &Excised> {
        self.items.iter().filter(|item| matches!(item.how, How::Placed(_) | How::Explicit(_)))
    }

    /// Holds the items' positions against the Payload stream, and fills in the length.
    ///
    /// # Errors
    /// They are not in order, not aligned or beyond it, or the whole is longer than `most`.
    // spec: rtr-6.2-e, rtr-6.2-f, rtr-7.3-a, rtr-7.3-g, rtr-7.3-k
    pub(crate) fn finish(&mut self, most: u32) -> Result<(), Fault> {
        let stream = u64::from(self.stream_length());
        let (mut end, mut moved) = (0u64, 0u64);
        for item in self.apart() {
            let position = u64::from(item.position);
            if position % 4 != 0 {
                return Err(Fault::MisalignedPosition);
            }
            // An RPC message begins with its XID and direction, which are no items.
            if position < 8 {
                return Err(Fault::PositionZeroInline);
            }
            if position < end {
                return Err(Fault::OverlappingPosition);
            }
            if position - moved > stream {
                return Err(Fault::PositionBeyondMessage);
            }
            let padded = u64::from(item.length).next_multiple_of(4);
            (end, moved) = (position + padded, moved + padded);
        }
        let whole = u32::try_from(stream.saturating_add(moved)).ok().filter(|whole| *whole <= most);
        self.length = whole.ok_or(Fault::TooLong)?;
        Ok(())
    }

    /// The message's octets in their order, piece by piece.
    // spec: rtr-3.3-e, rtr-4.2-e, rtr-6.2-d, rtr-9.4-h
    #[must_use]
    pub fn sources(&self) -> Sources<'_> {
        Sources { message: self, at: 0, section: 0, from: 0, item: 0, piece: 0, taken: 0 }
    }
}

/// The pieces of a [`Gathered`].
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    message: &'a Gathered,
    /// Octets of the message that were told.
    at: u32,
    /// The section of the stream that is being told, and how much of it was.
    section: usize,
    from: u32,
    /// The item that comes next, its next piece, and how much of it was told.
    item: usize,
    piece: usize,
    taken: u32,
}

impl Sources<'_> {
    /// The next octets of the stream, up to a position.
    fn stream(&mut self, until: u32) -> Option<Source> {
        loop {
            let section = self.message.stream.get(self.section)?;
            let left = section.octets.start.saturating_add(self.from)..section.octets.end;
            if left.is_empty() {
                (self.section, self.from) = (self.section + 1, 0);
                continue;
            }
            let length = (left.end - left.start).min(until.saturating_sub(self.at));
            if length == 0 {
                return None;
            }
            let octets = left.start..left.start + length;
            let source = Source::Octets { at: self.at, from: Octets { buffer: section.buffer, octets } };
            (self.from, self.at) = (self.from + length, self.at + length);
            return Some(source);
        }
    }

    /// The next piece of an item, or its padding.
    fn piece(&mut self, item: &Excised) -> Option<Source> {
        let left = item.length - self.taken;
        let at = self.at;
        let (source, length) = match &item.how {
            _ if left == 0 => {
                let length = item.length.wrapping_neg() & 3;
                (self.item, self.piece, self.taken) = (self.item + 1, 0, 0);
                self.at += length;
                return (length > 0).then_some(Source::Padding { at, length });
            }
            How::Placed(range) => {
                let place = self.message.places.get(range.start + self.piece)?;
                let length = (place.octets.end - place.octets.start).min(left);
                let octets = place.octets.start..place.octets.start + length;
                (Source::Octets { at, from: Octets { buffer: place.buffer, octets } }, length)
            }
            How::Explicit(range) => {
                let segment = *self.message.segments.get(range.start + self.piece)?;
                let length = segment.length.min(left);
                (Source::Read { at, from: Segment { length, ..segment } }, length)
            }
            How::TooShort | How::NoItem => return None,
        };
        (self.piece, self.taken, self.at) = (self.piece + 1, self.taken + length, at + length);
        Some(source)
    }
}

impl Iterator for Sources<'_> {
    type Item = Source;

    fn next(&mut self) -> Option<Source> {
        let message = self.message;
        while let Some(item) = message.apart().nth(self.item) {
            if let Some(source) = self.stream(item.position) {
                return Some(source);
            }
            let item_number = self.item;
            if let Some(source) = self.piece(item) {
                return Some(source);
            }
            if self.item == item_number {
                // It has fewer octets than it says, which was refused.
                return None;
            }
        }
        self.stream(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
