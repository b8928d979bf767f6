//! A message that is being sent in transmissions of rtrext-02: no other goes between them.

use core::ops::Range;

use alloc::boxed::Box;

use arrayvec::ArrayVec;

use super::headers::write_more;
use super::output::{Laid, Sent, Share, Transmit};
use crate::placement::{Layout, Placed, SEGMENTS, Structure, Transmission};
use crate::travel::{self, ITEMS, Item, RESULTS, headers};
use crate::v2::MsgType;
use crate::v2::rtr::Cont;

/// Items of one message: arguments or results.
pub(super) const APART: usize = if ITEMS > RESULTS { ITEMS } else { RESULTS };

/// What is left to be sent of a message.
// spec: rtr-3.3-b
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) what: Sent,
    pub(super) xid: u32,
    pub(super) direction: MsgType,
    /// The operation that began it.
    pub(super) opener: u32,
    pub(super) credits: u32,
    /// Octets of the first header.
    pub(super) header: u32,
    pub(super) count: u32,
    /// The receiver's buffers, as they were when it began.
    pub(super) structure: Structure,
    /// Octets of the whole message, and what of it is not in the Payload stream.
    pub(super) length: u32,
    pub(super) apart: ArrayVec<Item, APART>,
    /// What of that the Sends place.
    pub(super) placed: ArrayVec<Item, APART>,
    /// How many transmissions were polled, and the last one.
    sent: u32,
    last: Option<Transmission>,
}

/// What a message is, of which [`Sending`] sends the transmissions.
pub(super) struct Outline {
    pub(super) what: Sent,
    pub(super) xid: u32,
    pub(super) direction: MsgType,
    pub(super) opener: u32,
    pub(super) credits: u32,
    pub(super) structure: Structure,
    pub(super) length: u32,
}

impl Sending {
    /// A message whose first header has so many octets.
    pub(super) fn new(
        outline: Outline,
        header: u32,
        count: u32,
        apart: ArrayVec<Item, APART>,
        placed: ArrayVec<Item, APART>,
    ) -> Self {
        let Outline { what, xid, direction, opener, credits, structure, length } = outline;
        let mut sending = Self {
            what,
            xid,
            direction,
            opener,
            credits,
            header,
            count,
            structure,
            length,
            apart,
            placed,
            sent: 0,
            last: None,
        };
        sending.advance();
        sending
    }

    /// Takes the place of the message before, of which all has gone.
    pub(super) fn put(self, place: &mut Option<Box<Self>>) {
        match place {
            Some(before) => **before = self,
            None => *place = Some(Box::new(self)),
        }
    }

    /// Whether all of its transmissions were polled.
    pub(super) const fn is_done(&self) -> bool {
        self.sent >= self.count
    }

    fn stream_length(&self) -> u32 {
        let apart: u32 = self.apart.iter().map(|item| item.length.next_multiple_of(4)).sum();
        self.length.saturating_sub(apart)
    }

    /// Goes on to the next transmission.
    fn advance(&mut self) {
        let items: ArrayVec<u32, APART> = self.placed.iter().map(|item| item.length).collect();
        let (stream, structure) = (self.stream_length(), &self.structure);
        let layout = Layout { structure, opener: self.header, header: headers::MORE, stream, items: &items };
        self.last = layout.transmissions().nth(self.sent as usize);
        self.sent += 1;
    }

    /// The first transmission, whose header is written already.
    pub(super) fn first(&self, invalidate: Option<u32>) -> Transmit {
        let share = Share { number: 0, last: self.count == 1 };
        Transmit { what: self.what, header: self.header as usize, inline: 0, invalidate, share: Some(share) }
    }

    /// Writes the header of the next transmission; none if the buffer is too small.
    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        self.advance();
        let last = self.last.as_ref()?;
        let number = self.sent - 1;
        let more = Cont { xnum: number, itype: self.opener, pslen: last.section.end - last.section.start };
        let header = write_more(buffer, self.xid, self.credits, self.direction, more)?;
        let share = Share { number, last: self.is_done() };
        Some(Transmit { what: self.what, header, inline: 0, invalidate: None, share: Some(share) })
    }

    /// Octets of the Payload stream in the first transmission.
    pub(super) fn section(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.section.end - last.section.start)
    }

    /// What follows the header of the transmission that was polled last.
    // spec: rtr-11-d, rtr-11-e
    pub(super) fn laid(&self) -> impl Iterator<Item = Laid> + use<'_> {
        let last = self.last.as_ref();
        let section = last.map_or(0..0, |last| last.section.clone());
        let stream = window(travel::left(self.length, self.apart.iter().copied()), section.clone());
        let header = if self.sent == 1 { self.header } else { headers::MORE };
        let end = header + (section.end - section.start);
        let data = last.map(|last| data(&last.placed, &self.placed, end));
        stream.map(Laid::Octets).chain(data.into_iter().flatten())
    }
}

/// The data of a transmission, and the zeros before them; pieces that follow each other in both are one.
fn data(placed: &[Placed], items: &[Item], mut end: u32) -> ArrayVec<Laid, { 2 * SEGMENTS }> {
    let mut laid = ArrayVec::<Laid, { 2 * SEGMENTS }>::new();
    for one in placed {
        let position = items.get(one.item).map_or(0, |item| item.position);
        let octets = position + one.octets.start..position + one.octets.end;
        let gap = one.at.saturating_sub(end);
        end = one.at + (octets.end - octets.start);
        match laid.last_mut() {
            Some(Laid::Data(before)) if gap == 0 && before.end == octets.start => before.end = octets.end,
            _ => {
                if gap > 0 {
                    laid.push(Laid::Zeros(gap));
                }
                laid.push(Laid::Data(octets));
            }
        }
    }
    laid
}

/// What of a stream, made of ranges, is within `section`, counted in octets of the stream.
fn window(ranges: impl Iterator<Item = Range<u32>>, section: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let mut at = 0u32;
    let within = ranges.map(move |range| {
        let begin = at;
        at += range.end - range.start;
        let (from, to) = (section.start.max(begin), section.end.min(at));
        if from < to { range.start + (from - begin)..range.start + (to - begin) } else { 0..0 }
    });
    within.filter(|range| !range.is_empty())
}
