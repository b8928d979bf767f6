//! The items that were removed from the Payload stream of a group (rtrext-02, sections 6.2 and
//! 7.3).
//!
//! `excised` reads the first header: a place then has the number of a target in `buffer`. `placed`
//! replaces this number when the group is complete, before `ReassembledMessage::finish`. Each byte
//! of a target belongs to one item (decision D30). The range in a report contains the rejected
//! value only if the value is misaligned (decision D25).

use alloc::vec::Vec;

use super::{FragmentError, FragmentLimits, IncomingGroup};
use crate::chunk::{ChunkError, ChunkLimits, Segment};
use crate::connection::output::BufferId;
use crate::continuation::{
    self, BufferRange, GroupError, ReassembledMessage, ReducedItem, Reduction,
};
use crate::placement::BufferStructure;
use crate::v2::MsgType;
use crate::v2::rtr::{Grpinfo, Loc, LocTbsn};

/// The maximum number of places in one message.
const MAX_PLACES: usize = 1024;

impl IncomingGroup {
    /// Stores the items that are not in the Payload stream.
    // spec: rtr-3.4-a, rtr-6.2-a, rtr-6.2-j, rtr-6.2-k, rtr-6.2-p, rtr-6.2-z, rtr-6.2-ab
    // spec: rtr-6.2-ac, rtr-6.2-af
    // spec: rtr-6.2-ag, rtr-7.3-b, rtr-7.3-f, rtr-7.3-h, rtr-7.3-i, rtr-7.3-j, rtr-7.3-k, rtr-7.3-n
    pub(super) fn excised(
        &mut self,
        items: &Grpinfo<'_>,
        limits: FragmentLimits<'_>,
        count: u32,
    ) -> Result<(), FragmentError> {
        if items.len() > limits.limits.max_segments as usize {
            return Err(ChunkError::TooManySegments.into());
        }
        for item in items.iter() {
            let how = match item.r#where {
                Loc::Exrw(segments) => self.explicit(
                    segments.iter().map(Segment::from),
                    item.length,
                    limits.limits,
                )?,
                Loc::Tbsn(place) => self.targets(&place, item.length, limits.structure, count)?,
                Loc::Tooshort | Loc::Noitem if self.direction == MsgType::Call => {
                    return Err(ChunkError::NoPayload.into());
                }
                Loc::Tooshort => Reduction::TooShort,
                Loc::Noitem => Reduction::NoItem,
            };
            self.message.items.push(ReducedItem {
                position: item.disp,
                length: item.length,
                reduction: how,
                result: None,
            });
        }
        Ok(())
    }

    /// Takes the targets of an item. Until all has come a place is a target's number, and bytes of
    /// that.
    // spec: rtr-6.2-r, rtr-7.1-i, rtr-7.1-j, rtr-7.3-d, rtr-7.3-e, rtr-7.3-m, rtr-9.5-j, rtr-9.5-k
    fn targets(
        &mut self,
        header: &LocTbsn<'_>,
        item: u32,
        structure: &BufferStructure,
        count: u32,
    ) -> Result<Reduction, FragmentError> {
        let targets = count.saturating_mul(structure.target_count());
        let from = self.message.places.len();
        let (mut left, mut offset) = (item, header.offset);
        for target in header.bsnum.iter() {
            if self.message.places.len() >= MAX_PLACES {
                return Err(ChunkError::TooManySegments.into());
            }
            let absent = outside(target, 0, targets.checked_sub(1));
            let found = structure.find(target).filter(|_| target < targets);
            let length = found
                .map(|(_, range)| range.end - range.start)
                .ok_or(absent)?;
            if offset >= length || !offset.is_multiple_of(4) {
                let most = length.saturating_sub(1) & !3;
                return Err(GroupError::Offset(continuation::OutOfRange {
                    value: offset,
                    min: 0,
                    max: most,
                })
                .into());
            }
            let bytes = offset..offset + (length - offset).min(left);
            left -= bytes.end - bytes.start;
            offset = 0;
            // An item without bytes has no place, so another item may use the target.
            if !bytes.is_empty() {
                self.message.places.push(BufferRange {
                    buffer: BufferId(target.into()),
                    range: bytes,
                });
            }
        }
        if left > 0 {
            // The item would need a further target, whose number is unknown. The report has the
            // number of bytes.
            let most = item - left;
            return Err(GroupError::Target(continuation::OutOfRange {
                value: item,
                min: 0,
                max: most,
            })
            .into());
        }
        Ok(Reduction::Placed(from..self.message.places.len()))
    }

    /// Takes memory of the requester's.
    // spec: rtr-6.2-q, rtr-7.3-c, rtr-7.3-l
    fn explicit(
        &mut self,
        segments: impl Iterator<Item = Segment>,
        length: u32,
        limits: &ChunkLimits,
    ) -> Result<Reduction, ChunkError> {
        let from = self.message.segments.len();
        let mut bytes = 0u64;
        for segment in segments {
            if self.message.segments.len() >= limits.max_segments as usize {
                return Err(ChunkError::TooManySegments);
            }
            bytes += u64::from(segment.validated()?.length);
            self.message.segments.push(segment);
        }
        if bytes >= u64::from(length) {
            Ok(Reduction::Explicit(from..self.message.segments.len()))
        } else {
            Err(ChunkError::NotAsOffered)
        }
    }

    /// Locates the placed data. Their targets must have arrived, and each byte belongs to one item
    /// only.
    // spec: rtr-5.4-e, rtr-6.2-h, rtr-7.2-e
    pub(super) fn placed(&mut self, structure: &BufferStructure) -> Result<(), GroupError> {
        let most = self
            .count
            .saturating_mul(structure.target_count())
            .checked_sub(1);
        let Self {
            message, by_target, ..
        } = self;
        let ReassembledMessage {
            places, buffers, ..
        } = &mut **message;
        if let Some(target) = taken_twice(places, by_target) {
            return Err(outside(target, target.saturating_add(1), most));
        }
        for place in places {
            let target = target_of(place);
            let absent = outside(target, 0, target.checked_sub(1));
            let (transmission, range) = structure.find(target).ok_or(absent)?;
            let fragment = buffers.get(transmission as usize).ok_or(absent)?;
            let bytes = range.start + place.range.start..range.start + place.range.end;
            if bytes.end > fragment.range.end {
                return Err(absent);
            }
            if bytes.start < fragment.range.start {
                return Err(outside(target, target.saturating_add(1), most));
            }
            *place = BufferRange {
                buffer: fragment.buffer,
                range: bytes,
            };
        }
        Ok(())
    }
}

/// The target of a place, until all has come.
fn target_of(place: &BufferRange) -> u32 {
    u32::try_from(place.buffer.0).unwrap_or(u32::MAX)
}

/// Returns a target of which some bytes belong to two places. Only places in one target can
/// overlap, and sorting makes them adjacent, since the peer chooses their order.
fn taken_twice(places: &[BufferRange], by_target: &mut Vec<(u32, u32, u32)>) -> Option<u32> {
    // The data of most messages are in the order of their targets.
    if places.is_sorted_by(|one, other| target_of(one) < target_of(other)) {
        return None;
    }
    by_target.clear();
    by_target.extend(
        places
            .iter()
            .map(|place| (target_of(place), place.range.start, place.range.end)),
    );
    by_target.sort_unstable();
    let mut neighbours = by_target.iter().zip(by_target.iter().skip(1));
    neighbours
        .find(|(one, other)| one.0 == other.0 && other.1 < one.2)
        .map(|(one, _)| one.0)
}

/// Returns the error for a target that may not be named, with the range of valid targets. The range
/// never contains the target, since that would mean that it is misaligned. Without valid targets
/// the range ends before it begins.
// spec: rtr-9.5-j, rtr-9.5-r
fn outside(value: u32, least: u32, most: Option<u32>) -> GroupError {
    let (least, most) = most.map_or((1, 0), |most| (least, most));
    GroupError::Target(continuation::OutOfRange {
        value,
        min: least,
        max: most,
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{BufferId, BufferRange, MAX_PLACES, taken_twice};

    /// The maximum number of targets, in reverse order.
    #[test]
    fn bytes_that_are_taken_twice_are_found_in_any_order() {
        let place = |target: usize, bytes| BufferRange {
            buffer: BufferId(target as u64),
            range: bytes,
        };
        let mut places: Vec<_> = (0..MAX_PLACES)
            .rev()
            .map(|target| place(target, 0..8))
            .collect();
        let mut by_target = Vec::new();
        assert_eq!(taken_twice(&places, &mut by_target), None);
        places[0].range = 0..4;
        places[1] = place(MAX_PLACES - 1, 4..8);
        assert_eq!(
            taken_twice(&places, &mut by_target),
            None,
            "bytes of one target in two places"
        );
        for (bytes, is_taken) in [(3..8, true), (0..1, true), (0..8, true), (8..12, false)] {
            places[MAX_PLACES / 2] = place(MAX_PLACES - 1, bytes);
            let found = taken_twice(&places, &mut by_target);
            assert_eq!(found, is_taken.then_some(MAX_PLACES as u32 - 1));
        }
    }
}
