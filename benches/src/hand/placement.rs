//! `XMTREQ` in an `RDMA2_OPTIONAL`, with placed items and directions for the response.

use rpcrdma_proto::v2::Segment;

use super::chunks::{put_segments, segments};
use super::{In, Out, opaque_len, put, word};

/// The location of an item, or the allowed location of a result.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// `XMPTYPE_EXRW`
    Explicit(&'a [Segment]),
    /// `XMPTYPE_TBSN` of an item: the offset and the buffer segments.
    Buffers(u32, &'a [u32]),
    /// `XMPTYPE_TBSN` of a result.
    AnyBuffer,
    /// `XMPTYPE_BYSIZE`: the maximum length of a result in a buffer, and the segments for longer
    /// results.
    BySize(u32, &'a [Segment]),
    /// `XMPTYPE_TOOSHORT`
    TooShort,
}

/// The minimum length of a result, and its location.
pub(crate) type Result<'a> = (u32, Place<'a>);
/// A range of results, and the results in it.
pub(crate) type Set<'a> = (u32, u32, &'a [Result<'a>]);

/// The fields of the operation, as slices.
pub(crate) struct Request<'a> {
    pub(crate) fixed: [u32; 3],
    /// The displacement, the length and the location of each item.
    pub(crate) items: &'a [(u32, u32, Place<'a>)],
    pub(crate) sets: &'a [Set<'a>],
    pub(crate) tail: [u32; 3],
}

fn info(bytes: &[u8]) -> Option<(&[u8; 24], In<'_>)> {
    let mut input = In(bytes);
    let fixed = input.words::<24>()?;
    if word(fixed, 12) != 5 || word(fixed, 16) > 1 || word(fixed, 20) != 5 {
        return None;
    }
    let info = In(input.opaque(u32::MAX)?);
    input.0.is_empty().then_some((fixed, info))
}

/// Returns the sum of all fields.
pub(crate) fn visit(bytes: &[u8]) -> Option<u64> {
    let (fixed, mut info) = info(bytes)?;
    let mut sum = u64::from(word(fixed, 0)) + u64::from(word(fixed, 4)) + u64::from(word(fixed, 8));
    for _ in 0..info.u32()? {
        let item = info.words::<12>()?;
        sum += u64::from(word(item, 0)) + u64::from(word(item, 4));
        sum = sum.wrapping_add(item_place(word(item, 8), &mut info)?);
    }
    for _ in 0..info.u32()? {
        let set = info.words::<12>()?;
        sum += u64::from(word(set, 0)) + u64::from(word(set, 4));
        for _ in 0..word(set, 8) {
            let result = info.words::<8>()?;
            sum += u64::from(word(result, 0));
            sum = sum.wrapping_add(result_place(word(result, 4), &mut info)?);
        }
    }
    let tail = info.words::<12>()?;
    sum += u64::from(word(tail, 0)) + u64::from(word(tail, 4)) + u64::from(word(tail, 8));
    info.0.is_empty().then_some(sum)
}

#[inline(always)]
fn item_place(kind: u32, info: &mut In<'_>) -> Option<u64> {
    match kind {
        1 => segments(info),
        2 => {
            let fixed = info.words::<8>()?;
            let numbers = info
                .take((word(fixed, 4) as usize).checked_mul(4)?)?
                .as_chunks::<4>()
                .0;
            Some(
                numbers
                    .iter()
                    .fold(u64::from(word(fixed, 0)), |sum, number| {
                        sum + u64::from(u32::from_be_bytes(*number))
                    }),
            )
        }
        5 | 6 => Some(0),
        _ => None,
    }
}

#[inline(always)]
fn result_place(kind: u32, info: &mut In<'_>) -> Option<u64> {
    match kind {
        1 | 3 => segments(info),
        4 => {
            let limit = info.u32()?;
            Some(segments(info)?.wrapping_add(u64::from(limit)))
        }
        2 => Some(0),
        _ => None,
    }
}

/// The locations of the parts of a request.
#[expect(
    dead_code,
    reason = "what a decoder returns need not be read to be timed"
)]
pub(crate) struct Located<'a> {
    fixed: &'a [u8; 24],
    items: &'a [u8],
    sets: &'a [u8],
    tail: &'a [u8; 12],
}

/// Validates the framing without reading the parts.
pub(crate) fn locate(bytes: &[u8]) -> Option<Located<'_>> {
    let (fixed, mut info) = info(bytes)?;
    let before = info;
    for _ in 0..info.u32()? {
        let item = info.words::<12>()?;
        pass_item(word(item, 8), &mut info)?;
    }
    let items = info.since(before);
    let before = info;
    for _ in 0..info.u32()? {
        let set = info.words::<12>()?;
        for _ in 0..word(set, 8) {
            let result = info.words::<8>()?;
            pass_result(word(result, 4), &mut info)?;
        }
    }
    let sets = info.since(before);
    let tail = info.words::<12>()?;
    info.0.is_empty().then_some(Located {
        fixed,
        items,
        sets,
        tail,
    })
}

#[inline(always)]
fn pass(info: &mut In<'_>, size: usize) -> Option<()> {
    let count = info.u32()? as usize;
    info.take(count.checked_mul(size)?).map(|_| ())
}

#[inline(always)]
fn pass_item(kind: u32, info: &mut In<'_>) -> Option<()> {
    match kind {
        1 => pass(info, 16),
        2 => {
            info.u32()?;
            pass(info, 4)
        }
        5 | 6 => Some(()),
        _ => None,
    }
}

#[inline(always)]
fn pass_result(kind: u32, info: &mut In<'_>) -> Option<()> {
    match kind {
        1 | 3 => pass(info, 16),
        4 => {
            info.u32()?;
            pass(info, 16)
        }
        2 => Some(()),
        _ => None,
    }
}

fn place_len(place: &Place<'_>) -> usize {
    match place {
        Place::Explicit(segments) => 4 + 16 * segments.len(),
        Place::Buffers(_, numbers) => 8 + 4 * numbers.len(),
        Place::BySize(_, segments) => 8 + 16 * segments.len(),
        Place::AnyBuffer | Place::TooShort => 0,
    }
}

/// Encodes the message into `buffer`, and returns its length.
pub(crate) fn encode(request: &Request<'_>, buffer: &mut [u8]) -> Option<usize> {
    let items: usize = request
        .items
        .iter()
        .map(|(_, _, place)| 12 + place_len(place))
        .sum();
    let results = |results: &[Result<'_>]| {
        results
            .iter()
            .map(|(_, place)| 8 + place_len(place))
            .sum::<usize>()
    };
    let sets: usize = request
        .sets
        .iter()
        .map(|(_, _, set)| 12 + results(set))
        .sum();
    let info = 4 + items + 4 + sets + 12;
    let length = 24 + opaque_len(info);
    let mut out = Out(buffer.get_mut(..length)?);
    let head = out.next::<32>()?;
    for (at, word) in request.fixed.into_iter().chain([5, 0, 5]).enumerate() {
        put(head, 4 * at, word.to_be_bytes());
    }
    put(head, 24, u32::try_from(info).ok()?.to_be_bytes());
    put(
        head,
        28,
        u32::try_from(request.items.len()).ok()?.to_be_bytes(),
    );
    for (displacement, length, place) in request.items {
        let bytes = out.next::<8>()?;
        put(bytes, 0, displacement.to_be_bytes());
        put(bytes, 4, length.to_be_bytes());
        put_place(&mut out, place)?;
    }
    out.u32(u32::try_from(request.sets.len()).ok()?)?;
    for (begin, end, results) in request.sets {
        let bytes = out.next::<12>()?;
        put(bytes, 0, begin.to_be_bytes());
        put(bytes, 4, end.to_be_bytes());
        put(bytes, 8, u32::try_from(results.len()).ok()?.to_be_bytes());
        for (least, place) in *results {
            out.u32(*least)?;
            put_place(&mut out, place)?;
        }
    }
    let tail = out.next::<12>()?;
    for (at, word) in request.tail.into_iter().enumerate() {
        put(tail, 4 * at, word.to_be_bytes());
    }
    Some(length)
}

#[inline(always)]
fn put_place(out: &mut Out<'_>, place: &Place<'_>) -> Option<()> {
    match place {
        Place::Explicit(segments) => {
            out.u32(1)?;
            put_segments(out, segments)
        }
        Place::Buffers(offset, numbers) => {
            let bytes = out.next::<12>()?;
            put(bytes, 0, 2u32.to_be_bytes());
            put(bytes, 4, offset.to_be_bytes());
            put(bytes, 8, u32::try_from(numbers.len()).ok()?.to_be_bytes());
            numbers.iter().try_for_each(|number| out.u32(*number))
        }
        Place::AnyBuffer => out.u32(2),
        Place::BySize(limit, segments) => {
            let bytes = out.next::<8>()?;
            put(bytes, 0, 4u32.to_be_bytes());
            put(bytes, 4, limit.to_be_bytes());
            put_segments(out, segments)
        }
        Place::TooShort => out.u32(5),
    }
}
