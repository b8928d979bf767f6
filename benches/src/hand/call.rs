//! The header of an RPC call with credentials of AUTH_SYS and a verifier of AUTH_NONE (RFC 5531,
//! sections 9 and A).

use super::{In, Out, put, word};

/// Returns the sum of all fields and of each byte of the machine's name.
pub(crate) fn visit(bytes: &[u8]) -> Option<u64> {
    let (fixed, mut credentials, verifier) = parts(bytes)?;
    let words = [0, 8, 12, 16, 20].map(|at| u64::from(word(fixed, at)));
    let mut sum = words.iter().sum::<u64>() + u64::from(word(verifier, 0));
    sum += u64::from(credentials.u32()?);
    sum += credentials
        .opaque(255)?
        .iter()
        .map(|byte| u64::from(*byte))
        .sum::<u64>();
    let ids = credentials.words::<12>()?;
    let count = word(ids, 8);
    if count > 16 {
        return None;
    }
    sum += u64::from(word(ids, 0)) + u64::from(word(ids, 4));
    for gid in credentials.take(4 * count as usize)?.as_chunks::<4>().0 {
        sum += u64::from(u32::from_be_bytes(*gid));
    }
    credentials.0.is_empty().then_some(sum)
}

/// Returns the fixed part, the credentials, of which only the flavor and the length are checked,
/// and the verifier.
pub(crate) fn locate(bytes: &[u8]) -> Option<(&[u8; 28], &[u8], &[u8; 8])> {
    parts(bytes).map(|(fixed, credentials, verifier)| (fixed, credentials.0, verifier))
}

#[inline(always)]
fn parts(bytes: &[u8]) -> Option<(&[u8; 28], In<'_>, &[u8; 8])> {
    let mut input = In(bytes);
    let fixed = input.words::<28>()?;
    if word(fixed, 4) != 0 || word(fixed, 24) != 1 {
        return None;
    }
    let credentials = input.opaque(400)?;
    let verifier = input.words::<8>()?;
    let whole = word(verifier, 0) == 0 && word(verifier, 4) == 0 && input.0.is_empty();
    whole.then_some((fixed, In(credentials), verifier))
}

/// The fields of a call, as slices.
pub(crate) struct Call<'a> {
    pub(crate) xid: u32,
    /// The program, the version and the procedure.
    pub(crate) procedure: [u32; 3],
    pub(crate) stamp: u32,
    pub(crate) machine: &'a [u8],
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) gids: &'a [u32],
}

/// Encodes the header into `buffer`, and returns its length.
pub(crate) fn encode(call: &Call<'_>, buffer: &mut [u8]) -> Option<usize> {
    let credentials = 4 + super::opaque_len(call.machine.len()) + 12 + 4 * call.gids.len();
    let length = 28 + 4 + credentials + 8;
    let mut out = Out(buffer.get_mut(..length)?);
    let head = out.next::<36>()?;
    let [program, version, procedure] = call.procedure;
    let words = [
        call.xid,
        0,
        2,
        program,
        version,
        procedure,
        1,
        u32::try_from(credentials).ok()?,
        call.stamp,
    ];
    for (at, word) in words.into_iter().enumerate() {
        put(head, 4 * at, word.to_be_bytes());
    }
    out.opaque(call.machine)?;
    let ids = out.next::<12>()?;
    put(ids, 0, call.uid.to_be_bytes());
    put(ids, 4, call.gid.to_be_bytes());
    put(ids, 8, u32::try_from(call.gids.len()).ok()?.to_be_bytes());
    for gid in call.gids {
        out.u32(*gid)?;
    }
    *out.next::<8>()? = [0; 8];
    Some(length)
}
