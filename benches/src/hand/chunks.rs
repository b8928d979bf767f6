//! The transport header with its chunk lists. Version One lacks the direction of Version Two.

use std::hint::black_box;

use rpcrdma_proto::v2::{ReadSegment, Segment};

use super::{In, Out, put, word};

/// A validated header with the locations of its lists.
#[expect(
    dead_code,
    reason = "what a decoder returns need not be read to be timed"
)]
pub(crate) struct Located<'a> {
    pub(crate) xid: u32,
    pub(crate) vers: u32,
    pub(crate) credit: u32,
    pub(crate) procedure: u32,
    pub(crate) direction: u32,
    pub(crate) reads: (&'a [u8], u32),
    pub(crate) writes: (&'a [u8], u32),
    pub(crate) reply: Option<&'a [u8]>,
}

/// Returns the sum of all fields of `RDMA2_MSG` or `RDMA2_NOMSG`.
pub(crate) fn visit<const VERSION: u32>(bytes: &[u8]) -> Option<u64> {
    let mut input = In(bytes);
    let fixed = input.words::<16>()?;
    if word(fixed, 12) > 1 || (VERSION == 2 && input.u32()? > 1) {
        return None;
    }
    let mut sum = u64::from(word(fixed, 0)) + u64::from(word(fixed, 4)) + u64::from(word(fixed, 8));
    while present(&mut input)? {
        let read = input.words::<20>()?;
        sum += u64::from(word(read, 0)) + u64::from(word(read, 4)) + u64::from(word(read, 8));
        sum = sum.wrapping_add(u64::from(word(read, 12)) << 32 | u64::from(word(read, 16)));
    }
    while present(&mut input)? {
        sum = sum.wrapping_add(segments(&mut input)?);
    }
    if present(&mut input)? {
        sum = sum.wrapping_add(segments(&mut input)?);
    }
    input.0.is_empty().then_some(sum)
}

#[inline(always)]
fn present(input: &mut In<'_>) -> Option<bool> {
    match input.u32()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Visits a counted array of segments.
#[inline(always)]
pub(crate) fn segments(input: &mut In<'_>) -> Option<u64> {
    let count = input.u32()? as usize;
    let mut sum = 0u64;
    for segment in input.take(count.checked_mul(16)?)?.as_chunks::<16>().0 {
        sum += u64::from(word(segment, 0)) + u64::from(word(segment, 4));
        sum = sum.wrapping_add(u64::from(word(segment, 8)) << 32 | u64::from(word(segment, 12)));
    }
    Some(sum)
}

/// Validates the header without reading the elements. If `LIMITED`, counts them against a limit, as
/// generated code does.
pub(crate) fn locate<const VERSION: u32, const LIMITED: bool>(bytes: &[u8]) -> Option<Located<'_>> {
    let mut input = In(bytes);
    let mut budget = Budget::<LIMITED>(black_box(1 << 24));
    let fixed = input.words::<16>()?;
    let procedure = word(fixed, 12);
    let direction = if VERSION == 2 { input.u32()? } else { 0 };
    if procedure > 1 || direction > 1 {
        return None;
    }
    let (before, mut count) = (input, 0);
    while present(&mut input)? {
        budget.charge(1)?;
        input.words::<20>()?;
        count += 1;
    }
    let reads = (input.since(before), count);
    let (before, mut count) = (input, 0);
    while present(&mut input)? {
        budget.charge(1)?;
        chunk(&mut input, &mut budget)?;
        count += 1;
    }
    let writes = (input.since(before), count);
    let reply = if present(&mut input)? {
        Some(chunk(&mut input, &mut budget)?)
    } else {
        None
    };
    let (xid, vers, credit) = (word(fixed, 0), word(fixed, 4), word(fixed, 8));
    input.0.is_empty().then_some(Located {
        xid,
        vers,
        credit,
        procedure,
        direction,
        reads,
        writes,
        reply,
    })
}

#[inline(always)]
fn chunk<'a, const LIMITED: bool>(
    input: &mut In<'a>,
    budget: &mut Budget<LIMITED>,
) -> Option<&'a [u8]> {
    let count = input.u32()?;
    budget.charge(count)?;
    input.take((count as usize).checked_mul(16)?)
}

/// The number of elements that are still allowed.
struct Budget<const LIMITED: bool>(u32);

impl<const LIMITED: bool> Budget<LIMITED> {
    #[inline(always)]
    fn charge(&mut self, count: u32) -> Option<()> {
        if LIMITED {
            self.0 = self.0.checked_sub(count)?;
        }
        Some(())
    }
}

/// The fields of a header, as slices.
pub(crate) struct Header<'a> {
    pub(crate) fixed: [u32; 4],
    pub(crate) direction: u32,
    pub(crate) reads: &'a [ReadSegment],
    pub(crate) writes: &'a [&'a [Segment]],
    pub(crate) reply: Option<&'a [Segment]>,
}

/// Encodes the header into `buffer`, and returns its length.
pub(crate) fn encode<const VERSION: u32>(header: &Header<'_>, buffer: &mut [u8]) -> Option<usize> {
    let writes: usize = header
        .writes
        .iter()
        .map(|target| 8 + 16 * target.len())
        .sum();
    let reply = header.reply.map_or(4, |target| 8 + 16 * target.len());
    let direction = if VERSION == 2 { 4 } else { 0 };
    let length = 16 + direction + 24 * header.reads.len() + 4 + writes + 4 + reply;
    let mut out = Out(buffer.get_mut(..length)?);
    let fixed = out.next::<16>()?;
    for (at, word) in header.fixed.iter().enumerate() {
        put(fixed, 4 * at, word.to_be_bytes());
    }
    if VERSION == 2 {
        out.u32(header.direction)?;
    }
    for read in header.reads {
        let bytes = out.next::<24>()?;
        put(bytes, 0, 1u32.to_be_bytes());
        put(bytes, 4, read.position.to_be_bytes());
        put(bytes, 8, read.target.handle.to_be_bytes());
        put(bytes, 12, read.target.length.to_be_bytes());
        put(bytes, 16, read.target.offset.to_be_bytes());
    }
    out.u32(0)?;
    for target in header.writes {
        out.u32(1)?;
        put_segments(&mut out, target)?;
    }
    out.u32(0)?;
    match header.reply {
        None => out.u32(0)?,
        Some(target) => {
            out.u32(1)?;
            put_segments(&mut out, target)?;
        }
    }
    Some(length)
}

#[inline(always)]
pub(crate) fn put_segments(out: &mut Out<'_>, segments: &[Segment]) -> Option<()> {
    out.u32(u32::try_from(segments.len()).ok()?)?;
    let (bytes, rest) = std::mem::take(&mut out.0).split_at_mut_checked(16 * segments.len())?;
    out.0 = rest;
    for (segment, bytes) in segments.iter().zip(bytes.as_chunks_mut::<16>().0) {
        put(bytes, 0, segment.handle.to_be_bytes());
        put(bytes, 4, segment.length.to_be_bytes());
        put(bytes, 8, segment.offset.to_be_bytes());
    }
    Some(())
}
