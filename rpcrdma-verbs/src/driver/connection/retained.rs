//! Receive buffers that the session has retained, and their segments.
//!
//! The session refers to a buffer by the id of `take_id`, and decides when the buffer is released.
//! An id that is neither discarded nor released keeps its memory until the connection is dropped. A
//! taken segment is missing from later copies, so `has_own_targets` must be checked before the
//! first segment of a message is taken. The lengths of segments come from the advertised structure.

use std::ops::Range;

use rpcrdma_proto::connection::BufferId;
use rpcrdma_proto::continuation::{BufferRange, ReassembledMessage, Reduction};
use rpcrdma_proto::placement::{self, BufferStructure};

use crate::driver::events::Items;
use crate::memory::{Buf, PostedBuf};
use crate::queue::{ExtraSegments, ReceiveBuffer};

/// The receive buffers that the session has retained, indexed by their ids, and memory for lists
/// of their segments.
#[derive(Debug, Default)]
pub(super) struct RetainedReceives {
    buffers: Vec<Option<RetainedReceive>>,
    free_ids: Vec<BufferId>,
    /// Memory for the segment lists of receive buffers, and for the item lists of messages.
    #[expect(clippy::vec_box, reason = "the boxes are used as they are")]
    spare_segments: Vec<Box<ExtraSegments>>,
    #[expect(clippy::vec_box, reason = "the boxes are used as they are")]
    spare_items: Vec<Box<Items>>,
}

impl RetainedReceives {
    /// Returns a free id, for a buffer that is passed to the session.
    #[inline(always)]
    pub(super) fn take_id(&mut self) -> BufferId {
        self.free_ids.pop().unwrap_or_else(|| {
            self.buffers.push(None);
            BufferId(self.buffers.len() as u64 - 1)
        })
    }

    /// Retains a buffer under an id that was taken.
    #[inline(always)]
    pub(super) fn retain(&mut self, id: BufferId, buffer: ReceiveBuffer) {
        if let Some(place) = self.place(id) {
            *place = Some(RetainedReceive {
                head: Some(buffer.first.into()),
                tail: buffer.extra,
            });
        }
    }

    /// Frees the id of a buffer that is not retained, and the buffer.
    #[inline(always)]
    pub(super) fn discard(&mut self, id: BufferId, buffer: ReceiveBuffer) {
        self.recycle_segments(buffer.extra);
        self.free_ids.push(id);
    }

    /// Releases a retained buffer, and returns its first segment. The others go back to the pool.
    #[inline]
    pub(super) fn release(&mut self, id: BufferId) -> Option<Buf> {
        let RetainedReceive { head, tail } = self.place(id)?.take()?;
        self.free_ids.push(id);
        self.recycle_segments(tail);
        head?.into_buf().ok()
    }

    /// Returns an empty segment list.
    pub(super) fn segment_list(&mut self) -> Box<ExtraSegments> {
        self.spare_segments.pop().unwrap_or_default()
    }

    /// Recycles the memory of a segment list.
    #[inline(always)]
    pub(super) fn recycle_segments(&mut self, list: Option<Box<ExtraSegments>>) {
        if let Some(mut list) = list {
            list.clear();
            self.spare_segments.push(list);
        }
    }

    /// Returns an empty item list.
    pub(super) fn item_list(&mut self) -> Box<Items> {
        self.spare_items.pop().unwrap_or_default()
    }

    /// Recycles the memory of an item list.
    pub(super) fn recycle_items(&mut self, mut list: Box<Items>) {
        list.clear();
        self.spare_items.push(list);
    }

    #[inline(always)]
    fn place(&mut self, id: BufferId) -> Option<&mut Option<RetainedReceive>> {
        self.buffers.get_mut(usize::try_from(id.0).ok()?)
    }

    /// Returns the segment that contains a range, and the range within it, or `None` if several
    /// segments contain it.
    fn find(
        &mut self,
        from: &BufferRange,
        structure: Option<&BufferStructure>,
    ) -> Option<(&mut Option<PostedBuf>, Range<u32>)> {
        self.place(from.buffer)?
            .as_mut()?
            .find(&from.range, structure)
    }

    /// Takes the segment that contains a range, and returns the range within it. `None` means that
    /// something else uses the segment, or that several segments contain the range.
    pub(super) fn take_segment(
        &mut self,
        from: &BufferRange,
        structure: Option<&BufferStructure>,
    ) -> Option<(Buf, Range<u32>)> {
        let (segment, range) = self.find(from, structure)?;
        Some((segment.take()?.into_buf().ok()?, range))
    }

    /// Takes the segment that begins with a range, shortened to the range. `None` means that there
    /// is no such segment, or that something else uses it.
    pub(super) fn take_target(
        &mut self,
        from: &BufferRange,
        structure: Option<&BufferStructure>,
    ) -> Option<Buf> {
        let (segment, range) = self.find(from, structure)?;
        let mut buf = segment.take_if(|_| range.start == 0)?.into_buf().ok()?;
        buf.set_len(range.end);
        Some(buf)
    }

    /// Copies a range, which may be in several segments. Returns `None` if some of it is missing.
    pub(super) fn copy(
        &mut self,
        from: &BufferRange,
        structure: Option<&BufferStructure>,
        out: &mut [u8],
    ) -> Option<()> {
        self.place(from.buffer)?
            .as_mut()?
            .copy(&from.range, structure, out)
    }

    /// Returns true if each part of each item is alone at the start of a segment, so that the
    /// segment can be given away. An item of no bytes has no segment.
    pub(super) fn has_own_targets(
        &mut self,
        message: &ReassembledMessage,
        structure: Option<&BufferStructure>,
    ) -> bool {
        let is_empty =
            |one: &Reduction| matches!(one, Reduction::Placed(places) if places.is_empty());
        if message.items.iter().any(|item| is_empty(&item.reduction)) {
            return false;
        }
        message.places.iter().all(|place| {
            self.find(place, structure)
                .is_some_and(|(_, range)| range.start == 0)
        })
    }
}

/// A receive buffer that the session has retained. Its segments can be taken one by one.
#[derive(Debug)]
struct RetainedReceive {
    head: Option<PostedBuf>,
    tail: Option<Box<ExtraSegments>>,
}

impl RetainedReceive {
    /// Returns the segments.
    fn segments(&mut self) -> impl Iterator<Item = &mut Option<PostedBuf>> {
        std::iter::once(&mut self.head).chain(self.tail.iter_mut().flat_map(|tail| tail.iter_mut()))
    }

    /// Returns the lengths of the segments, if there are several.
    fn lengths<'a>(
        &self,
        structure: Option<&'a BufferStructure>,
    ) -> &'a [placement::BufferSegment] {
        structure
            .filter(|_| self.tail.is_some())
            .map(BufferStructure::segments)
            .unwrap_or_default()
    }

    /// Returns the segment that contains this range, and the range within it, or `None` if several
    /// segments contain it.
    fn find(
        &mut self,
        range: &Range<u32>,
        structure: Option<&BufferStructure>,
    ) -> Option<(&mut Option<PostedBuf>, Range<u32>)> {
        let lengths = self.lengths(structure);
        if lengths.is_empty() {
            return Some((&mut self.head, range.clone()));
        }
        let mut begin = 0;
        for (buf, segment) in self.segments().zip(lengths) {
            let end = begin + segment.length;
            if (begin..end).contains(&range.start) {
                return (range.end <= end).then(|| (buf, range.start - begin..range.end - begin));
            }
            begin = end;
        }
        None
    }

    /// Copies a range, which may be in several segments. Returns `None` if some of it is missing.
    fn copy(
        &mut self,
        range: &Range<u32>,
        structure: Option<&BufferStructure>,
        out: &mut [u8],
    ) -> Option<()> {
        let lengths = self.lengths(structure);
        let (mut from, mut begin) = (range.start, 0u32);
        for (number, buf) in self.segments().enumerate() {
            let length = lengths
                .get(number)
                .map_or(u32::MAX, |segment| segment.length);
            let end = begin.saturating_add(length).min(range.end);
            if from < end
                && let Some(source) = buf.as_mut().and_then(PostedBuf::bytes)
                && let Some(source) = source.get((from - begin) as usize..(end - begin) as usize)
                && let Some(out) =
                    out.get_mut((from - range.start) as usize..(end - range.start) as usize)
            {
                out.copy_from_slice(source);
                from = end;
            }
            begin = begin.saturating_add(length);
        }
        (from >= range.end).then_some(())
    }
}
