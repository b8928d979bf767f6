//! Receive buffers that the session has retained.

use std::ops::Range;

use rpcrdma_proto::placement::{self, BufferStructure};

use crate::memory::PostedBuf;
use crate::queue::ExtraSegments;

/// A receive buffer that the session has retained. Its segments can be taken one by one.
#[derive(Debug)]
pub(super) struct RetainedReceive {
    pub(super) head: Option<PostedBuf>,
    pub(super) tail: Option<Box<ExtraSegments>>,
}

impl RetainedReceive {
    /// Returns the segments.
    pub(super) fn segments(&mut self) -> impl Iterator<Item = &mut Option<PostedBuf>> {
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
    pub(super) fn find(
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
    pub(super) fn copy(
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
