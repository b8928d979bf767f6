//! What the targets share: the laws that every decoder keeps, whatever the octets are, and documents of any text.

#[path = "../../tests/fixtures/tests/support/agree.rs"]
pub mod agree;
#[path = "../../tests/fixtures/tests/support/debug.rs"]
pub mod debug;
pub mod documents;
pub mod schema;

use std::fmt::Debug;

use allocation_counter::measure;
use xdrgen_runtime::{Decode, Decoder, Encode, ErrorKind, Gather, Kept, Limits, NoTrace, Owned};

/// What a decode may hold in memory: so many times its input, and this much.
const TIMES: u64 = 8;
const AND: u64 = 4096;

/// Enough for any input of a fuzzer's; elements of no octets at all would come by the million.
pub const LIMITS: Limits = Limits { elements: 1 << 12, ..Limits::DEFAULT };

/// A type in both shapes.
pub fn both<'a, T>(octets: &'a [u8])
where
    T: Owned + Decode<'a> + PartialEq + Debug + From<T::Borrowed<'a>>,
    for<'b> T::Borrowed<'b>: Encode + PartialEq + Debug + Clone,
{
    let borrowed = one::<T::Borrowed<'a>>(octets);
    let owned = one::<T>(octets);
    assert_eq!(borrowed.is_some(), owned.is_some());
    let Some((borrowed, owned)) = borrowed.zip(owned) else { return };
    let equal = |one: &T, other: &T| one == other;
    let converted = T::from(borrowed);
    // A NaN equals nothing.
    assert!(equal(&owned, &converted) || !equal(&owned, &owned), "{owned:?} {converted:?}");
    let mut buffer = Vec::new();
    assert!(matches!(owned.borrow_in(&mut buffer), Ok(again) if again.encode_to_vec() == owned.encode_to_vec()));
}

/// A type in one shape: the value that the octets begin with.
///
/// `decode`, `skip` and `explain` accept the same and end at the same octet; what was decoded encodes to the octets that
/// it came from, in one piece and in several; and nobody holds more memory than they may.
pub fn one<'a, T: Decode<'a> + Encode + PartialEq + Debug>(octets: &'a [u8]) -> Option<T> {
    let explained = T::explain(octets, &LIMITS);
    assert_eq!(explained.is_none(), T::from_bytes_with(octets, &LIMITS).is_ok(), "{explained:?}");
    let mut decoder = Decoder::with_limits(octets, &LIMITS).ok()?;
    let skipped = T::skip(&mut decoder, &mut NoTrace);
    let mut decoded = None;
    let held = measure(|| decoded = Some(T::from_prefix_with(octets, &LIMITS)));
    assert!(held.bytes_max <= TIMES * octets.len() as u64 + AND, "{} octets held", held.bytes_max);
    let decoded = decoded?;
    assert_eq!(skipped.is_ok(), decoded.is_ok(), "{skipped:?} {decoded:?}");
    let (value, rest) = decoded.ok()?;
    assert_eq!(decoder.remaining(), rest);
    let used = &octets[..octets.len() - rest.len()];
    assert!(T::MIN <= used.len() && T::MAX.is_none_or(|max| used.len() <= max));
    assert_eq!(value.encoded_len(), Ok(used.len()));
    let mut buffer = vec![0xee; used.len()];
    assert_eq!(value.encode_to_slice(&mut buffer), Ok(used.len()));
    assert_eq!(buffer, used);
    gathers(&value, used, &mut buffer);
    Some(value)
}

/// The value in pieces, as many as there can be, or refused for want of places.
fn gathers<T: Encode>(value: &T, octets: &[u8], buffer: &mut [u8]) {
    let mut kept = [Kept::default(); 16];
    let mut gather = Gather::new(buffer, &mut kept).at_least(1);
    match value.encode(&mut gather) {
        Ok(()) => assert!(gather.finish().pieces().flatten().eq(octets)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ListFull),
    }
}
