//! The directions of a request about its reply (rtrext-02, section 7.4).
//!
//! `take` validates the segments, on which the responder relies when it writes results. Spans must
//! be in order and must not overlap: `transfer::results` matches results with directions in one
//! pass.

use alloc::vec::Vec;
use core::ops::Range;

use arrayvec::ArrayVec;

use crate::chunk::{ChunkError, ChunkLimits, Segment};
use crate::connection::config::MAX_WRITE_CHUNKS;
use crate::transfer::{ResultDirection, Span};
use crate::v2;
use crate::v2::rtr::{Rsdgroup, Rsdloc};

/// The directions of a request about its reply.
#[derive(Clone, Default, Debug)]
pub(in crate::connection) struct ReplyDirections {
    /// The number of receives reserved for the reply, in addition to the one that is always posted.
    pub(in crate::connection) reply_receives: u32,
    pub(in crate::connection) directions: ArrayVec<ResultDirection, MAX_WRITE_CHUNKS>,
    /// The memory that the directions offer, in order.
    pub(in crate::connection) segments: Vec<v2::Segment>,
}

impl ReplyDirections {
    /// Stores the directions of a request about its reply.
    // spec: rtr-7.4-a, rtr-7.4-q, rtr-7.4-z, rtr-7.4-aa
    pub(super) fn take(
        &mut self,
        sets: &Rsdgroup<'_>,
        limits: &ChunkLimits,
    ) -> Result<(), ChunkError> {
        let mut end = 0;
        for set in sets.iter() {
            let Range { start, end: stop } = set.range.begin..set.range.end;
            if start < end || stop < start {
                return Err(ChunkError::OverlappingPosition);
            }
            end = stop;
            for item in set.items.iter() {
                let of = Span {
                    begin: start,
                    end: stop,
                };
                let direction = self.direction(of, item.minlen, &item.loc, limits)?;
                self.directions
                    .try_push(direction)
                    .map_err(|_| ChunkError::TooManySegments)?;
            }
        }
        Ok(())
    }

    // spec: rtr-6.2-l, rtr-6.2-s, rtr-6.2-ab, rtr-6.2-ac, rtr-6.2-ad, rtr-6.2-ae, rtr-7.4-b
    // spec: rtr-7.4-c, rtr-7.4-d
    // spec: rtr-7.4-e, rtr-7.4-f, rtr-7.4-g, rtr-7.4-t
    fn direction(
        &mut self,
        of: Span,
        least: u32,
        place: &Rsdloc<'_>,
        limits: &ChunkLimits,
    ) -> Result<ResultDirection, ChunkError> {
        let (memory, send, by_size) = match place {
            Rsdloc::Tbsn => (None, true, None),
            Rsdloc::Exrw(memory) => (Some(memory), false, None),
            Rsdloc::Choice(memory) => (Some(memory), true, None),
            Rsdloc::Bysize(either) => (Some(&either.bsex), true, Some(either.dsdov)),
        };
        let from = self.segments.len();
        let mut bytes = 0u32;
        for segment in memory.into_iter().flat_map(|memory| memory.iter()) {
            if self.segments.len() >= limits.max_segments as usize {
                return Err(ChunkError::TooManySegments);
            }
            let length = Segment::from(segment).validated()?.length;
            bytes = bytes.checked_add(length).ok_or(ChunkError::TooLong)?;
            self.segments.push(segment);
        }
        let segments =
            u32::try_from(self.segments.len() - from).map_err(|_| ChunkError::TooManySegments)?;
        Ok(ResultDirection {
            of,
            min_length: least,
            memory: memory.map(|_| bytes),
            send,
            by_size,
            segments,
        })
    }
}
