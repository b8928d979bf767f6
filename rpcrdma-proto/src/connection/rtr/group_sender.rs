//! The sender of a message in transmissions of rtrext-02. No other message is sent between them.
//!
//! The requester or the responder writes the first header; this module writes the others and
//! returns the bytes of each. `placement::Layout` decides where data go. The layout is computed
//! anew for each transmission, so nothing it depends on may change after `new`: `structure` is a
//! copy. `payload_pieces` is valid until the next call of `next`.

use core::ops::Range;

use alloc::boxed::Box;

use arrayvec::ArrayVec;

use super::headers::write_more;
use crate::connection::output::{PayloadPiece, SendOwner, TransmissionIndex, Transmit};
use crate::placement::{BufferStructure, Layout, MAX_BUFFER_SEGMENTS, PlacedData, Transmission};
use crate::transfer::headers::{self, PlacementTargets};
use crate::transfer::{self, DataItem, MAX_ITEMS, MAX_RESULTS};
use crate::v2::MsgType;
use crate::v2::rtr::Cont;

/// The maximum number of items of one message, arguments or results.
pub(in crate::connection) const MAX_REDUCED: usize = if MAX_ITEMS > MAX_RESULTS {
    MAX_ITEMS
} else {
    MAX_RESULTS
};

/// A message that is being sent, transmission by transmission.
// spec: rtr-3.3-b
#[derive(Clone, Debug)]
pub(in crate::connection) struct GroupSender {
    pub(in crate::connection) owner: SendOwner,
    pub(in crate::connection) xid: u32,
    pub(in crate::connection) direction: MsgType,
    /// The operation of the first transmission.
    pub(in crate::connection) opener: u32,
    pub(in crate::connection) credits: u32,
    /// The length of the first header in bytes.
    pub(in crate::connection) header: u32,
    pub(in crate::connection) count: u32,
    /// The structure of the receiver's buffers when the message began.
    pub(in crate::connection) structure: BufferStructure,
    /// The length of the whole message in bytes, and its items that are not in the Payload stream.
    pub(in crate::connection) length: u32,
    pub(in crate::connection) reduced: ArrayVec<DataItem, MAX_REDUCED>,
    /// The items that the Sends place.
    pub(in crate::connection) placed: ArrayVec<DataItem, MAX_REDUCED>,
    /// The number of polled transmissions, and the last one.
    sent: u32,
    last: Option<Transmission>,
}

/// The properties of a message for [`GroupSender`].
pub(in crate::connection) struct GroupOutline {
    pub(in crate::connection) owner: SendOwner,
    pub(in crate::connection) xid: u32,
    pub(in crate::connection) direction: MsgType,
    pub(in crate::connection) opener: u32,
    pub(in crate::connection) credits: u32,
    pub(in crate::connection) structure: BufferStructure,
    pub(in crate::connection) length: u32,
}

impl GroupSender {
    /// Begins a message whose first header has `header` bytes.
    pub(in crate::connection) fn new(
        outline: GroupOutline,
        header: u32,
        count: u32,
        reduced: ArrayVec<DataItem, MAX_REDUCED>,
        placed: ArrayVec<DataItem, MAX_REDUCED>,
    ) -> Self {
        let GroupOutline {
            owner: what,
            xid,
            direction,
            opener,
            credits,
            structure,
            length,
        } = outline;
        let mut sending = Self {
            owner: what,
            xid,
            direction,
            opener,
            credits,
            header,
            count,
            structure,
            length,
            reduced,
            placed,
            sent: 0,
            last: None,
        };
        sending.advance();
        sending
    }

    /// Replaces the previous message, which is sent completely.
    pub(in crate::connection) fn replace(self, place: &mut Option<Box<Self>>) {
        match place {
            Some(before) => **before = self,
            None => *place = Some(Box::new(self)),
        }
    }

    /// Returns whether all transmissions were polled.
    pub(in crate::connection) const fn is_complete(&self) -> bool {
        self.sent >= self.count
    }

    fn stream_length(&self) -> u32 {
        let reduced: u32 = self
            .reduced
            .iter()
            .map(|item| item.length.next_multiple_of(4))
            .sum();
        self.length.saturating_sub(reduced)
    }

    fn placed_lengths(&self) -> ArrayVec<u32, MAX_REDUCED> {
        self.placed.iter().map(|item| item.length).collect()
    }

    /// Returns the layout of the message, whose placed items have these lengths.
    fn layout<'a>(&'a self, placed_lengths: &'a [u32]) -> Layout<'a> {
        Layout {
            structure: &self.structure,
            first_header: self.header,
            header: headers::CONTINUATION,
            stream: self.stream_length(),
            items: placed_lengths,
        }
    }

    /// Returns the targets of the placed items; `None` if they are too many.
    pub(in crate::connection) fn targets(&self) -> Option<PlacementTargets> {
        PlacementTargets::of(self.layout(&self.placed_lengths()), self.count)
    }

    /// Advances to the next transmission.
    fn advance(&mut self) {
        let lengths = self.placed_lengths();
        let layout = self.layout(&lengths);
        let next = layout.transmissions().nth(self.sent as usize);
        self.last = next;
        self.sent += 1;
    }

    /// Returns the first transmission. Its header is written already.
    pub(in crate::connection) fn first(&self, invalidate: Option<u32>) -> Transmit {
        let share = TransmissionIndex {
            number: 0,
            last: self.count == 1,
        };
        Transmit {
            owner: self.owner,
            header: self.header as usize,
            inline: 0,
            invalidate,
            transmission: Some(share),
        }
    }

    /// Writes the header of the next transmission. Returns `None` if the buffer is too small; the
    /// transmission is then skipped, and a later call returns the one after it.
    pub(in crate::connection) fn next(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        self.advance();
        let last = self.last.as_ref()?;
        let number = self.sent - 1;
        let more = Cont {
            xnum: number,
            itype: self.opener,
            pslen: last.section.end - last.section.start,
        };
        let header = write_more(buffer, self.xid, self.credits, self.direction, more)?;
        let share = TransmissionIndex {
            number,
            last: self.is_complete(),
        };
        Some(Transmit {
            owner: self.owner,
            header,
            inline: 0,
            invalidate: None,
            transmission: Some(share),
        })
    }

    /// Returns the number of bytes of the Payload stream in the first transmission.
    pub(in crate::connection) fn section(&self) -> u32 {
        // The first section starts at the beginning of the stream.
        self.last.as_ref().map_or(0, |last| last.section.end)
    }

    /// Returns the pieces that follow the header of the last polled transmission.
    // spec: rtr-11-d, rtr-11-e
    pub(in crate::connection) fn payload_pieces(
        &self,
    ) -> impl Iterator<Item = PayloadPiece> + use<'_> {
        let last = self.last.as_ref();
        let section = last.map_or(0..0, |last| last.section.clone());
        let stream = window(
            transfer::remaining(self.length, self.reduced.iter().copied()),
            section.clone(),
        );
        let header = if self.sent == 1 {
            self.header
        } else {
            headers::CONTINUATION
        };
        let end = header + (section.end - section.start);
        let data = last.map(|last| data(&last.placed, &self.placed, end));
        stream
            .map(PayloadPiece::Bytes)
            .chain(data.into_iter().flatten())
    }
}

/// Returns the data of a transmission with the padding before them. Adjacent pieces are joined.
fn data(
    placed: &[PlacedData],
    items: &[DataItem],
    mut end: u32,
) -> ArrayVec<PayloadPiece, { 2 * MAX_BUFFER_SEGMENTS }> {
    let mut laid = ArrayVec::<PayloadPiece, { 2 * MAX_BUFFER_SEGMENTS }>::new();
    for one in placed {
        let position = items.get(one.item).map_or(0, |item| item.position);
        let bytes = position + one.range.start..position + one.range.end;
        let gap = one.at.saturating_sub(end);
        end = one.at + (bytes.end - bytes.start);
        match laid.last_mut() {
            Some(PayloadPiece::Data(before)) if gap == 0 && before.end == bytes.start => {
                before.end = bytes.end
            }
            _ => {
                if gap > 0 {
                    laid.push(PayloadPiece::Zeros(gap));
                }
                laid.push(PayloadPiece::Data(bytes));
            }
        }
    }
    laid
}

/// Returns the parts of a stream of ranges that lie within `section`, in bytes of the stream.
fn window(
    ranges: impl Iterator<Item = Range<u32>>,
    section: Range<u32>,
) -> impl Iterator<Item = Range<u32>> {
    let mut at = 0u32;
    ranges.filter_map(move |range| {
        let begin = at;
        at += range.end - range.start;
        let (from, to) = (section.start.max(begin), section.end.min(at));
        (from < to).then(|| range.start + (from - begin)..range.start + (to - begin))
    })
}
