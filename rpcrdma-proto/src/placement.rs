//! Send-based data placement (rtrext-02, sections 6.2 and 7): receive buffers that consist of
//! segments, and the layout of a message in them that puts bulk data into target segments.
//!
//! [`BufferStructure`] is what either end announces, and numbers the targets. [`Layout`] is a
//! choice of the sender alone: a receiver takes the targets from the header.
//!
//! ```
//! use rpcrdma_proto::placement::{BufferSegment, BufferStructure, Layout};
//!
//! // Receive buffers of 4 KiB for messages, and 64 KiB for bulk data.
//! let head = BufferSegment { length: 4096, align: 8, target: false };
//! let bulk = BufferSegment { length: 65536, align: 4096, target: true };
//! let structure = BufferStructure::new(&[head, bulk])?;
//! // A WRITE of 100,000 bytes takes two Sends.
//! let layout = Layout {
//!     structure: &structure,
//!     first_header: 100,
//!     header: 40,
//!     stream: 200,
//!     items: &[100_000],
//! };
//! let placed: Vec<_> = layout.transmissions().map(|send| send.placed[0].range.clone()).collect();
//! assert_eq!(placed, [0..65536, 65536..100_000]);
//! # Ok::<(), rpcrdma_proto::placement::StructureError>(())
//! ```

mod layout;

use arrayvec::ArrayVec;

use crate::v2::rtr::{Buf, Group, Seg, XMRSFLAG_PLT};
use crate::xdr::Array;

pub use layout::{Layout, MAX_GAP, MAX_RUNS, PlacedData, Transmission};

/// A receive buffer, identified by a number that the transport chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferId(pub u64);

/// The maximum number of segments of a receive buffer. A peer's structure with more segments counts
/// as one plain segment.
pub const MAX_BUFFER_SEGMENTS: usize = 16;

/// A segment of a receive buffer (rtrext-02, section 7.2).
// spec: rtr-7.2-f, rtr-7.2-g, rtr-7.2-h
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferSegment {
    /// The length in bytes.
    pub length: u32,
    /// The alignment of its address in bytes; 0 or 1 for none.
    pub align: u32,
    /// Whether bulk data may be placed into it.
    pub target: bool,
}

/// The structure of each receive buffer of one end: a sequence of segments.
///
/// ```
/// use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
///
/// let head = BufferSegment { length: 4096, align: 8, target: false };
/// let bulk = BufferSegment { length: 65536, align: 4096, target: true };
/// let structure = BufferStructure::new(&[head, bulk])?;
/// assert_eq!(structure.length(), 69632);
/// assert_eq!(structure.targets().collect::<Vec<_>>(), [4096..69632]);
/// # Ok::<(), rpcrdma_proto::placement::StructureError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferStructure {
    /// Entries beyond the count are [`NONE`].
    segments: [BufferSegment; MAX_BUFFER_SEGMENTS],
    count: u8,
    length: u32,
}

/// No segment.
const NONE: BufferSegment = BufferSegment {
    length: 0,
    align: 0,
    target: false,
};

/// Describes why segments are not a valid structure of a receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StructureError {
    /// There is no segment, or there are more than [`MAX_BUFFER_SEGMENTS`].
    Count,
    /// The length of a segment is 0 or not a multiple of 4, or the total length exceeds 32 bits.
    Length,
    /// The structure's length is not the sum of its groups' lengths (decision D21).
    Sum,
}

impl core::fmt::Display for StructureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Count => write!(
                f,
                "a receive buffer has 1 to {MAX_BUFFER_SEGMENTS} segments"
            ),
            Self::Length => {
                f.write_str("a segment has a multiple of four bytes, and at least four")
            }
            Self::Sum => f.write_str("the length of a receive buffer is the sum of its segments'"),
        }
    }
}

impl core::error::Error for StructureError {}

impl BufferStructure {
    /// Creates a structure of one segment that is no target: the default for a peer that announced
    /// only a size.
    // spec: rtr-8.1-i, rtr-8.3-d
    #[must_use]
    pub const fn plain(length: u32) -> Self {
        let mut segments = [NONE; MAX_BUFFER_SEGMENTS];
        segments[0].length = length;
        Self {
            segments,
            count: 1,
            length,
        }
    }

    /// Creates a structure of these segments.
    ///
    /// # Errors
    /// They are not a valid structure.
    // spec: rtr-7.2-d
    pub fn new(segments: &[BufferSegment]) -> Result<Self, StructureError> {
        let mut all = [NONE; MAX_BUFFER_SEGMENTS];
        all.get_mut(..segments.len())
            .ok_or(StructureError::Count)?
            .copy_from_slice(segments);
        let count = u8::try_from(segments.len()).map_err(|_| StructureError::Count)?;
        let is_whole =
            |segment: &BufferSegment| segment.length > 0 && segment.length.is_multiple_of(4);
        if !segments.iter().all(is_whole) {
            return Err(StructureError::Length);
        }
        let sum = segments
            .iter()
            .try_fold(0u32, |sum, segment| sum.checked_add(segment.length));
        match sum {
            Some(0) => Err(StructureError::Count),
            Some(length) => Ok(Self {
                segments: all,
                count,
                length,
            }),
            None => Err(StructureError::Length),
        }
    }

    /// Converts the structure that a peer has announced. If it has too many or unusual segments,
    /// only its length is used.
    ///
    /// # Errors
    /// Its length is not the sum of its groups' lengths, or exceeds 32 bits.
    // spec: rtr-7.2-j, rtr-7.2-l
    pub fn from_xdr(buf: &Buf<'_>) -> Result<Self, StructureError> {
        let groups = || buf.groups.iter();
        let sum = groups().map(|group| u64::from(group.count) * u64::from(group.info.length));
        let sum = sum.fold(0u64, u64::saturating_add);
        if sum != u64::from(buf.length) {
            return Err(StructureError::Sum);
        }
        let count = groups()
            .map(|group| u64::from(group.count))
            .fold(0u64, u64::saturating_add);
        if count > MAX_BUFFER_SEGMENTS as u64 {
            return Ok(Self::plain(buf.length));
        }
        let segments: ArrayVec<BufferSegment, MAX_BUFFER_SEGMENTS> = groups()
            .flat_map(|group| core::iter::repeat_n(group.info, group.count as usize))
            .map(BufferSegment::from)
            .take(MAX_BUFFER_SEGMENTS)
            .collect();
        Ok(Self::new(&segments).unwrap_or_else(|_| Self::plain(buf.length)))
    }

    /// Passes the structure to `f` in the form of the draft, in which consecutive equal segments
    /// are one group.
    // spec: rtr-3.3-a, rtr-7.2-m
    pub fn with_xdr<R>(&self, f: impl FnOnce(Buf<'_>) -> R) -> R {
        let mut groups = ArrayVec::<Group, MAX_BUFFER_SEGMENTS>::new();
        for segment in self.segments() {
            let info = Seg {
                length: segment.length,
                align: segment.align,
                flags: u32::from(segment.target),
            };
            match groups.last_mut() {
                Some(last) if last.info == info => last.count += 1,
                _ => groups.push(Group { count: 1, info }),
            }
        }
        f(Buf {
            length: self.length,
            groups: Array::from(groups.as_slice()),
        })
    }

    /// Returns the length of a whole buffer: the Receive Buffer Size.
    #[must_use]
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// Returns the segments.
    #[must_use]
    pub fn segments(&self) -> &[BufferSegment] {
        self.segments.get(..self.count.into()).unwrap_or_default()
    }

    /// Returns the ranges of the target segments in the buffer.
    // spec: rtr-7.2-k
    pub fn targets(&self) -> impl Iterator<Item = core::ops::Range<u32>> + Clone + use<'_> {
        let mut end = 0;
        let ranges = self.segments().iter().map(move |segment| {
            let begin = end;
            end += segment.length;
            (begin..end, segment.target)
        });
        ranges.filter(|(_, target)| *target).map(|(range, _)| range)
    }

    /// Returns the number of targets. Each transmission of a group counts all targets of its buffer
    /// (rtrext-02, section 6.2).
    // spec: rtr-6.2-i
    #[must_use]
    pub fn target_count(&self) -> u32 {
        // At most `MAX_BUFFER_SEGMENTS`.
        self.segments()
            .iter()
            .fold(0, |count, segment| count + u32::from(segment.target))
    }

    /// Returns the transmission and the range of a target. Targets are numbered from the first
    /// transmission of the group.
    // spec: rtr-6.2-g, rtr-6.2-h, rtr-6.2-i
    #[must_use]
    pub fn find(&self, target: u32) -> Option<(u32, core::ops::Range<u32>)> {
        let count = self.target_count();
        let transmission = target.checked_div(count)?;
        let range = self.targets().nth((target % count) as usize)?;
        Some((transmission, range))
    }
}

// spec: rtr-7.2-i
impl From<Seg> for BufferSegment {
    fn from(segment: Seg) -> Self {
        let Seg {
            length,
            align,
            flags,
        } = segment;
        Self {
            length,
            align,
            target: flags & XMRSFLAG_PLT != 0,
        }
    }
}

#[cfg(test)]
mod tests;
