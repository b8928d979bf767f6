//! `CONNPROP` in an `RDMA2_OPTIONAL`: any number of the three properties of this message, in any
//! order.

use super::{In, Out, opaque_len, put, word};

/// The properties that the engine knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Property {
    BufferSize(u32),
    RemoteInvalidation(bool),
    BackwardSupport(u32),
}

/// Returns the sum of all fields.
pub(crate) fn visit(bytes: &[u8]) -> Option<u64> {
    let mut input = In(bytes);
    let fixed = input.words::<24>()?;
    if word(fixed, 12) != 5 || word(fixed, 16) > 1 || word(fixed, 20) != 1 {
        return None;
    }
    let mut sum = u64::from(word(fixed, 0)) + u64::from(word(fixed, 4)) + u64::from(word(fixed, 8));
    let mut info = In(input.opaque(u32::MAX)?);
    for _ in 0..info.u32()? {
        let which = info.u32()?;
        let data = In(info.opaque(u32::MAX)?);
        sum += u64::from(which) + value(which, data)?;
    }
    for _ in 0..info.u32()? {
        sum += u64::from(info.u32()?);
    }
    (input.0.is_empty() && info.0.is_empty()).then_some(sum)
}

#[inline(always)]
fn value(which: u32, mut data: In<'_>) -> Option<u64> {
    let value = data.u32()?;
    let most = match which {
        1 => u32::MAX,
        2 => 1,
        3 => 2,
        _ => return None,
    };
    (value <= most && data.0.is_empty()).then_some(u64::from(value))
}

/// Returns the fixed part, and the locations of the properties and of the list of constant
/// properties.
pub(crate) fn locate(bytes: &[u8]) -> Option<(&[u8; 24], &[u8], &[u8])> {
    let mut input = In(bytes);
    let fixed = input.words::<24>()?;
    if word(fixed, 12) != 5 || word(fixed, 16) > 1 || word(fixed, 20) != 1 {
        return None;
    }
    let mut info = In(input.opaque(u32::MAX)?);
    let before = info;
    for _ in 0..info.u32()? {
        info.u32()?;
        info.opaque(u32::MAX)?;
    }
    let start = info.since(before);
    let count = info.u32()? as usize;
    let nochg = info.take(count.checked_mul(4)?)?;
    (input.0.is_empty() && info.0.is_empty()).then_some((fixed, start, nochg))
}

/// Encodes the message into `buffer`, and returns its length.
pub(crate) fn encode(
    fixed: [u32; 3],
    properties: &[Property],
    nochg: &[u32],
    buffer: &mut [u8],
) -> Option<usize> {
    let info = 4 + properties.len() * 12 + 4 + nochg.len() * 4;
    let length = 24 + opaque_len(info);
    let mut out = Out(buffer.get_mut(..length)?);
    let head = out.next::<32>()?;
    for (at, word) in fixed.into_iter().chain([5, 0, 1]).enumerate() {
        put(head, 4 * at, word.to_be_bytes());
    }
    put(head, 24, u32::try_from(info).ok()?.to_be_bytes());
    put(
        head,
        28,
        u32::try_from(properties.len()).ok()?.to_be_bytes(),
    );
    for property in properties {
        let (which, value) = match *property {
            Property::BufferSize(size) => (1u32, size),
            Property::RemoteInvalidation(on) => (2, u32::from(on)),
            Property::BackwardSupport(support) => (3, support),
        };
        let bytes = out.next::<12>()?;
        put(bytes, 0, which.to_be_bytes());
        put(bytes, 4, 4u32.to_be_bytes());
        put(bytes, 8, value.to_be_bytes());
    }
    out.u32(u32::try_from(nochg.len()).ok()?)?;
    for which in nochg {
        out.u32(*which)?;
    }
    Some(length)
}
