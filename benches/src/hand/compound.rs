//! An NFSv4.1 COMPOUND reply of SEQUENCE, PUTFH, READ and GETATTR, the operations of reading a file
//! (RFC 5662).

use super::{In, Out, put, word};

/// Returns the sum of all fields, the words of the attributes, and the length of the data.
pub(crate) fn visit(bytes: &[u8]) -> Option<u64> {
    let mut input = In(bytes);
    let status = input.u32()?;
    let tag = input.opaque(u32::MAX)?;
    let mut sum = u64::from(status) + tag.len() as u64;
    for _ in 0..input.u32()? {
        let result = input.words::<8>()?;
        let (operation, status) = (word(result, 0), word(result, 4));
        sum += u64::from(operation) + u64::from(status);
        sum += match (operation, status) {
            (53, 0) => sequence(input.words()?),
            (22, _) => 0,
            (25, 0) => {
                let eof = input.u32()?;
                if eof > 1 {
                    return None;
                }
                u64::from(eof) + input.opaque(u32::MAX)?.len() as u64
            }
            (9, 0) => attributes(&mut input)?,
            _ => return None,
        };
    }
    input.0.is_empty().then_some(sum)
}

#[inline(always)]
fn sequence(bytes: &[u8; 36]) -> u64 {
    bytes[..16].iter().map(|byte| u64::from(*byte)).sum::<u64>()
        + [16, 20, 24, 28, 32]
            .map(|at| u64::from(word(bytes, at)))
            .iter()
            .sum::<u64>()
}

#[inline(always)]
fn attributes(input: &mut In<'_>) -> Option<u64> {
    let count = input.u32()? as usize;
    let mask = input.take(count.checked_mul(4)?)?.as_chunks::<4>().0;
    let sum = mask
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum::<u64>();
    Some(sum + input.opaque(u32::MAX)?.len() as u64)
}

/// Returns the status, the tag, and the location of the results.
pub(crate) fn locate(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let mut input = In(bytes);
    let status = input.u32()?;
    let tag = input.opaque(u32::MAX)?;
    let before = input;
    for _ in 0..input.u32()? {
        let result = input.words::<8>()?;
        match (word(result, 0), word(result, 4)) {
            (53, 0) => input.words::<36>().map(|_| ())?,
            (22, _) => {}
            (25, 0) => {
                if input.u32()? > 1 {
                    return None;
                }
                input.opaque(u32::MAX)?;
            }
            (9, 0) => {
                let count = input.u32()? as usize;
                input.take(count.checked_mul(4)?)?;
                input.opaque(u32::MAX)?;
            }
            _ => return None,
        }
    }
    input
        .0
        .is_empty()
        .then_some((status, tag, input.since(before)))
}

/// The fields of a reply, as slices.
pub(crate) struct Reply<'a> {
    pub(crate) tag: &'a [u8],
    pub(crate) session: [u8; 16],
    /// The sequence id, the slot, the highest slot, the target highest slot and the status flags.
    pub(crate) sequence: [u32; 5],
    pub(crate) eof: bool,
    pub(crate) data: &'a [u8],
    pub(crate) mask: &'a [u32],
    pub(crate) attributes: &'a [u8],
}

/// Encodes the reply into `buffer`, and returns its length.
pub(crate) fn encode(reply: &Reply<'_>, buffer: &mut [u8]) -> Option<usize> {
    use super::opaque_len;
    let read = 12 + opaque_len(reply.data.len());
    let attributes = 12 + 4 * reply.mask.len() + opaque_len(reply.attributes.len());
    let length = 4 + opaque_len(reply.tag.len()) + 4 + 44 + 8 + read + attributes;
    let mut out = Out(buffer.get_mut(..length)?);
    out.u32(0)?;
    out.opaque(reply.tag)?;
    let head = out.next::<68>()?;
    put(head, 0, 4u32.to_be_bytes());
    put(head, 4, 53u32.to_be_bytes());
    put(head, 8, 0u32.to_be_bytes());
    put(head, 12, reply.session);
    for (at, word) in reply
        .sequence
        .into_iter()
        .chain([22, 0, 25, 0, u32::from(reply.eof)])
        .enumerate()
    {
        put(head, 28 + 4 * at, word.to_be_bytes());
    }
    out.opaque(reply.data)?;
    let head = out.next::<12>()?;
    put(head, 0, 9u32.to_be_bytes());
    put(head, 4, 0u32.to_be_bytes());
    put(head, 8, u32::try_from(reply.mask.len()).ok()?.to_be_bytes());
    for word in reply.mask {
        out.u32(*word)?;
    }
    out.opaque(reply.attributes)?;
    Some(length)
}
