//! One call of the peer's.

use core::ops::Range;

use arrayvec::ArrayVec;

use super::offered::{Lists, Offered};
use crate::chunk::Segment;
use crate::connection::life::{Service, Step};
use crate::connection::output::{Buffer, Message, Write};
use crate::connection::parts::{Parts, no_parts, octets, parts};
use crate::connection::sending::APART;
use crate::connection::slots::Tenant;
use crate::travel::{GroupReturn, Item, Matched, RESULTS, ResultItem, Return};
use crate::v2;
use crate::version::Version;

/// A call of the peer's.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) life: Service,
    pub(super) xid: u32,
    pub(super) version: Version,
    /// Credits that it asked for.
    pub(super) asked: u32,
    pub(super) buffer: Buffer,
    /// Its octets in the buffer.
    pub(super) inline: Option<Range<u32>>,
    /// Octets of the whole call.
    pub(super) length: u32,
    pub(super) offered: Offered,
    pub(super) keys: Keys,
    /// Transmissions in which it came.
    pub(super) parts: u32,
    /// Receives that are reserved for its reply, if it came by rtrext-02.
    pub(super) reserve: Option<u32>,
    /// Whether its reply is to be kept when it is sent, and whether it was sent again.
    pub(super) keeps: bool,
    pub(super) again: bool,
    pub(super) answer: Reply,
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) length: u32,
    pub(super) results: ArrayVec<Item, RESULTS>,
    pub(super) way: Return,
    /// How it goes in transmissions of rtrext-02.
    pub(super) group: Option<GroupReturn>,
}

impl Reply {
    const NONE: Self =
        Self { length: 0, results: ArrayVec::new_const(), way: Return { moved: 0, long: false }, group: None };

    /// A reply that goes inline, where another may have been.
    pub(super) fn begin(&mut self, octets: u32, items: &[ResultItem]) {
        let Self { length, results, way, group } = self;
        (*length, *way, *group) = (octets, Return { moved: 0, long: false }, None);
        results.clear();
        results.extend(items.iter().map(|result| result.item).take(RESULTS));
    }

    /// The results that are in a set.
    pub(super) fn chosen(&self, set: u8) -> ArrayVec<Item, APART> {
        let results = self.results.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        results.map(|(_, item)| *item).take(APART).collect()
    }

    /// The results that are written to memory that was offered, each with the number of its chunk or direction.
    fn moved(&self) -> impl Iterator<Item = (usize, Item)> + use<'_> {
        let moved = self.way.moved;
        let matched = self.group.map_or(Matched::IN_ORDER, |group| group.matched);
        let results = self.results.iter().copied().enumerate().filter(move |(at, _)| moved >> at & 1 == 1);
        results.filter_map(move |(at, item)| Some((matched.direction(at)?, item)))
    }

    /// The octets that are left of it.
    fn left(&self) -> Parts<'_> {
        parts(self.length, &self.results, self.way.moved)
    }

    /// Those that follow the header.
    pub(super) fn parts(&self) -> Parts<'_> {
        if self.way.long { no_parts() } else { self.left() }
    }

    /// How many.
    pub(super) fn inline(&self) -> u32 {
        match self.way {
            Return { moved: 0, long: false } => self.length,
            _ => octets(self.parts()),
        }
    }
}

/// The different keys of the chunks of one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    None,
    One(u32),
    Many,
}

impl Keys {
    pub(super) fn add(&mut self, keys: impl Iterator<Item = u32>) {
        for key in keys {
            *self = match *self {
                Self::None => Self::One(key),
                Self::One(one) if one == key => Self::One(one),
                _ => Self::Many,
            };
        }
    }

    /// The key, if there is exactly one.
    // spec: xc3-3.2-a
    pub(super) fn single(self) -> Option<u32> {
        if let Self::One(key) = self { Some(key) } else { None }
    }
}

impl Tenant for Call {
    const NOBODY: Self = Self {
        life: Service::Given,
        xid: 0,
        version: Version::Two,
        asked: 0,
        buffer: Buffer(0),
        inline: None,
        length: 0,
        offered: Offered::NOTHING,
        keys: Keys::None,
        parts: 1,
        reserve: None,
        keeps: false,
        again: false,
        answer: Reply::NONE,
    };
}

impl Call {
    /// A call without chunks comes, all of it in these octets of a receive buffer, where another may have been.
    pub(super) fn begin(
        &mut self,
        (xid, version, asked): (u32, Version, u32),
        buffer: Buffer,
        octets: Option<Range<u32>>,
    ) {
        // Nothing is left of that: what is not named here would be.
        let Self {
            life,
            xid: its_xid,
            version: its_version,
            asked: its_asked,
            buffer: its_buffer,
            inline,
            length,
            offered,
            keys,
            parts,
            reserve,
            keeps,
            again,
            answer,
        } = self;
        (*life, *its_xid, *its_version, *its_asked, *its_buffer) = (Service::Given, xid, version, asked, buffer);
        *length = octets.as_ref().map_or(0, |octets| octets.end - octets.start);
        (*inline, *keys) = (octets, Keys::None);
        offered.begin();
        (*parts, *reserve, *keeps, *again) = (1, None, false, false);
        answer.begin(0, &[]);
    }

    /// Takes a step; false, and nothing has changed, if it can't happen.
    pub(super) fn step(&mut self, step: Step) -> bool {
        match self.life.next(step) {
            Some(next) => {
                self.life = next;
                true
            }
            None => false,
        }
    }

    /// Where its octets are.
    pub(super) fn message(&self) -> Message {
        match &self.inline {
            Some(octets) if self.offered.reads().is_empty() => {
                Message::Inline { buffer: self.buffer, octets: octets.clone() }
            }
            _ => Message::Placed { length: self.length },
        }
    }

    /// Octets of its reply's header, which returns all that was offered.
    pub(super) fn header(&self) -> u32 {
        let octets = |(number, mine): (Option<usize>, &[v2::Segment])| {
            // No more than a call may have, of 16 bits.
            let segments = 16 * u32::try_from(mine.len()).unwrap_or(u32::MAX / 16);
            segments + if number.is_some() { 8 } else { 4 }
        };
        self.version.header() + self.offered.chunks().map(octets).sum::<u32>()
    }

    /// Makes the segments that were offered those that are returned: each with the octets that the reply fills.
    // spec: xc3-3.1-f, xc2-3.1-f
    #[inline]
    pub(super) fn fill(&mut self) {
        let Self { offered, answer, .. } = self;
        let Some(Lists { segments, writes, reply, .. }) = offered.lists_mut() else { return };
        let mut rest = segments.iter_mut();
        let mut fill = |count: u16, octets: u32| {
            let mut left = octets;
            for segment in rest.by_ref().take(usize::from(count)) {
                segment.length = segment.length.min(left);
                left -= segment.length;
            }
        };
        for (at, count) in writes.iter().enumerate() {
            let moved = answer.moved().find(|(moved, _)| *moved == at);
            fill(*count, moved.map_or(0, |(_, item)| item.length));
        }
        if let Some(count) = *reply {
            let octets = answer.left().map(|range| range.end - range.start).sum();
            fill(count, if answer.way.long { octets } else { 0 });
        }
    }

    /// What of the reply is written, and where to, once the segments are filled.
    pub(super) fn writes(&self) -> impl Iterator<Item = Write> {
        let long = self.answer.way.long;
        self.offered.chunks().flat_map(move |(at, mine)| {
            let result = self.answer.moved().find(|(moved, _)| at == Some(*moved));
            let result = result.map(|(_, item)| item.position..item.position.saturating_add(item.length));
            let rest = self.answer.left().filter(move |_| at.is_none() && long);
            scatter(result.into_iter().chain(rest), mine.iter().copied().map(Segment::from))
        })
    }
}

/// Lays ranges of octets into segments, each of which is filled before the next.
fn scatter(
    mut ranges: impl Iterator<Item = Range<u32>>,
    mut segments: impl Iterator<Item = Segment>,
) -> impl Iterator<Item = Write> {
    let (mut range, mut room) = (0..0, Segment::default());
    core::iter::from_fn(move || {
        while range.is_empty() {
            range = ranges.next()?;
        }
        while room.length == 0 {
            room = segments.next()?;
        }
        let length = room.length.min(range.end - range.start);
        let write = Write { target: Segment { length, ..room }, octets: range.start..range.start + length };
        range.start += length;
        room = Segment { length: room.length - length, offset: room.offset + u64::from(length), ..room };
        Some(write)
    })
}
