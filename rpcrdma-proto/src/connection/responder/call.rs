//! One incoming call, and the reply to it.
//!
//! `Responder` decides all transitions and stores the checked chunks. `assign_chunks` must run
//! once, after the reply is planned and before its header and `writes`: it replaces the offered
//! lengths by those of the results. `scatter` adds to offsets without a check, because segments are
//! validated when a call arrives. `begin` must set each field, because slots are reused.

use core::ops::Range;

use arrayvec::ArrayVec;

use super::offered_chunks::{OfferedChunks, OfferedLists};
use crate::chunk::Segment;
use crate::connection::inline_parts::{InlineParts, no_parts, parts, total_len};
use crate::connection::output::{BufferId, CallLocation, RdmaWrite};
use crate::connection::rtr::group_sender::MAX_REDUCED;
use crate::connection::slab::Reset;
use crate::connection::states::{ServedEvent, ServedState};
use crate::sizes;
use crate::transfer::{DataItem, DirectionMatch, MAX_RESULTS, ReplyPlan, ResultItem};
use crate::v2;
use crate::version::Version;

/// An incoming call.
#[derive(Debug)]
pub(super) struct ServedCall {
    pub(super) state: ServedState,
    pub(super) xid: u32,
    pub(super) version: Version,
    /// The number of credits that it requested.
    pub(super) requested_credits: u32,
    pub(super) buffer: BufferId,
    /// The range of the buffer that holds its inline part.
    pub(super) inline: Option<Range<u32>>,
    /// The length of the whole call.
    pub(super) length: u32,
    pub(super) offered: OfferedChunks,
    pub(super) keys: ChunkKeys,
    pub(super) reply: OutgoingReply,
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct OutgoingReply {
    pub(super) length: u32,
    pub(super) results: ArrayVec<DataItem, MAX_RESULTS>,
    pub(super) plan: ReplyPlan,
    /// Which chunk or direction each result takes.
    pub(super) matched: DirectionMatch,
}

impl OutgoingReply {
    const NONE: Self = Self {
        length: 0,
        results: ArrayVec::new_const(),
        plan: ReplyPlan {
            reduced: 0,
            long: false,
        },
        matched: DirectionMatch::IN_ORDER,
    };

    /// Begins an inline reply in a slot that another reply may have used.
    pub(super) fn begin(&mut self, bytes: u32, items: &[ResultItem]) {
        let Self {
            length,
            results,
            plan: its_plan,
            matched,
        } = self;
        (*length, *its_plan, *matched) = (
            bytes,
            ReplyPlan {
                reduced: 0,
                long: false,
            },
            DirectionMatch::IN_ORDER,
        );
        results.clear();
        results.extend(items.iter().map(|result| result.item).take(MAX_RESULTS));
    }

    /// Returns the results of a set.
    pub(super) fn chosen(&self, set: u8) -> ArrayVec<DataItem, MAX_REDUCED> {
        let results = self
            .results
            .iter()
            .enumerate()
            .filter(|(at, _)| set >> at & 1 == 1);
        results.map(|(_, item)| *item).take(MAX_REDUCED).collect()
    }

    /// Returns the results that are written to offered memory, each with the number of its chunk or
    /// direction.
    fn reduced(&self) -> impl Iterator<Item = (usize, DataItem)> + use<'_> {
        let (reduced, matched) = (self.plan.reduced, self.matched);
        let results = self
            .results
            .iter()
            .copied()
            .enumerate()
            .filter(move |(at, _)| reduced >> at & 1 == 1);
        results.filter_map(move |(at, item)| Some((matched.direction(at)?, item)))
    }

    /// Returns the ranges of the reply that are not reduced.
    fn remaining(&self) -> InlineParts<'_> {
        parts(self.length, &self.results, self.plan.reduced)
    }

    /// Returns the ranges that follow the header.
    pub(super) fn parts(&self) -> InlineParts<'_> {
        if self.plan.long {
            no_parts()
        } else {
            self.remaining()
        }
    }

    /// Returns the number of bytes that follow the header.
    pub(super) fn inline_len(&self) -> u32 {
        match self.plan {
            ReplyPlan {
                reduced: 0,
                long: false,
            } => self.length,
            _ => total_len(self.parts()),
        }
    }
}

/// The different keys of the chunks of one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChunkKeys {
    None,
    One(u32),
    Many,
}

impl ChunkKeys {
    pub(super) fn add(&mut self, keys: impl Iterator<Item = u32>) {
        for key in keys {
            *self = match *self {
                Self::None => Self::One(key),
                Self::One(one) if one == key => Self::One(one),
                _ => Self::Many,
            };
        }
    }

    /// Returns the key, if there is exactly one.
    // spec: xc3-3.2-a
    pub(super) fn single(self) -> Option<u32> {
        if let Self::One(key) = self {
            Some(key)
        } else {
            None
        }
    }
}

impl Reset for ServedCall {
    const EMPTY: Self = Self {
        state: ServedState::Delivered,
        xid: 0,
        version: Version::Two,
        requested_credits: 0,
        buffer: BufferId(0),
        inline: None,
        length: 0,
        offered: OfferedChunks::EMPTY,
        keys: ChunkKeys::None,
        reply: OutgoingReply::NONE,
    };
}

impl ServedCall {
    /// Begins a call without chunks in a slot that another call may have used. Its message is in
    /// this range of a receive buffer.
    pub(super) fn begin(
        &mut self,
        (xid, version, asked): (u32, Version, u32),
        buffer: BufferId,
        bytes: Option<Range<u32>>,
    ) {
        // All fields are named, so that none keeps the value of the earlier call.
        let Self {
            state: its_state,
            xid: its_xid,
            version: its_version,
            requested_credits: its_credits,
            buffer: its_buffer,
            inline,
            length,
            offered,
            keys,
            reply: answer,
        } = self;
        (
            *its_state,
            *its_xid,
            *its_version,
            *its_credits,
            *its_buffer,
        ) = (ServedState::Delivered, xid, version, asked, buffer);
        *length = bytes.as_ref().map_or(0, |bytes| bytes.end - bytes.start);
        (*inline, *keys) = (bytes, ChunkKeys::None);
        offered.begin();
        answer.begin(0, &[]);
    }

    /// Applies an event to the state. Returns false if it cannot happen in this state.
    pub(super) fn advance(&mut self, step: ServedEvent) -> bool {
        match self.state.next(step) {
            Some(next) => {
                self.state = next;
                true
            }
            None => false,
        }
    }

    /// Returns the location of the message.
    pub(super) fn message(&self) -> CallLocation {
        match &self.inline {
            Some(bytes) if self.offered.reads().is_empty() => CallLocation::Inline {
                buffer: self.buffer,
                range: bytes.clone(),
            },
            _ => CallLocation::Placed {
                length: self.length,
            },
        }
    }

    /// Returns the length of the header of the reply, with all offered segments.
    pub(super) fn reply_header_len(&self) -> u32 {
        let bytes = |(number, mine): (Option<usize>, &[v2::Segment])| {
            // The number of segments of a call has 16 bits.
            let segments = u32::from(u16::try_from(mine.len()).unwrap_or(u16::MAX));
            let chunk = number.map_or(sizes::REPLY_CHUNK, |_| sizes::WRITE_CHUNK);
            chunk + sizes::SEGMENT * segments
        };
        self.version.header_len() + self.offered.chunks().map(bytes).sum::<u32>()
    }

    /// Sets the length of each offered segment to the number of bytes that the reply fills.
    // spec: xc3-3.1-f, xc2-3.1-f
    // spec: rfc8166-3.4.6-b, rfc8166-3.4.6.2-c, rfc8166-4.3.2.2-c, rfc8166-4.3.3-c
    #[inline]
    pub(super) fn assign_chunks(&mut self) {
        let Self {
            offered,
            reply: answer,
            ..
        } = self;
        let Some(OfferedLists {
            segments,
            writes,
            reply,
            ..
        }) = offered.lists_mut()
        else {
            return;
        };
        let mut rest = segments.iter_mut();
        let mut fill = |count: usize, bytes: u32| {
            let mut left = bytes;
            for segment in rest.by_ref().take(count) {
                segment.length = segment.length.min(left);
                left -= segment.length;
            }
        };
        for (at, count) in writes.iter().enumerate() {
            let reduced = answer.reduced().find(|(reduced, _)| *reduced == at);
            fill(*count, reduced.map_or(0, |(_, item)| item.length));
        }
        if let Some(count) = *reply {
            let bytes = answer
                .remaining()
                .map(|range| range.end - range.start)
                .sum();
            fill(count, if answer.plan.long { bytes } else { 0 });
        }
    }

    /// Returns the RDMA Writes of the reply, once its chunks are assigned.
    // spec: rfc8166-3.4.6.2-b, rfc8166-4.3.2-a
    pub(super) fn writes(&self) -> impl Iterator<Item = RdmaWrite> {
        let long = self.reply.plan.long;
        self.offered.chunks().flat_map(move |(at, mine)| {
            let result = self
                .reply
                .reduced()
                .find(|(reduced, _)| at == Some(*reduced));
            let result =
                result.map(|(_, item)| item.position..item.position.saturating_add(item.length));
            // A Write chunk has room for its result alone.
            let rest = self.reply.remaining().filter(move |_| long);
            scatter(
                result.into_iter().chain(rest),
                mine.iter().copied().map(Segment::from),
            )
        })
    }
}

/// Distributes ranges over segments. Each segment is filled before the next.
fn scatter(
    mut ranges: impl Iterator<Item = Range<u32>>,
    mut segments: impl Iterator<Item = Segment>,
) -> impl Iterator<Item = RdmaWrite> {
    let (mut range, mut room) = (0..0, Segment::default());
    core::iter::from_fn(move || {
        while range.is_empty() {
            range = ranges.next()?;
        }
        while room.length == 0 {
            room = segments.next()?;
        }
        let length = room.length.min(range.end - range.start);
        let write = RdmaWrite {
            target: Segment { length, ..room },
            range: range.start..range.start + length,
        };
        range.start += length;
        room = Segment {
            length: room.length - length,
            offset: room.offset + u64::from(length),
            ..room
        };
        Some(write)
    })
}
