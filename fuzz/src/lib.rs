//! Helpers of the fuzz targets: the laws of all decoders, documents with arbitrary text, and a
//! client of NFS.

#[path = "../../tests/fixtures/tests/support/agree.rs"]
pub mod agree;
#[path = "../../tests/fixtures/tests/support/debug.rs"]
pub mod debug;
pub mod documents;
pub mod nfs;
pub mod schema;

use std::fmt::Debug;

use allocation_counter::measure;
use xdrgen_runtime::{
    Decode, Decoder, Encode, ErrorKind, GatherEncoder, GatherEntry, Limits, NoTrace, Owned,
};

/// The maximum memory of a decode: a multiple of its input, plus a constant.
const RATIO: u64 = 8;
/// The multiple for types with items: an empty one takes 40 bytes for its 4.
const RATIO_OF_ITEMS: u64 = 10;
const ALLOWANCE: u64 = 4096;

/// Enough for any fuzzer input; without it, arrays of elements without bytes would have millions.
pub const LIMITS: Limits = Limits {
    elements: 1 << 12,
    ..Limits::DEFAULT
};

/// Checks a type in both shapes.
pub fn both<'a, T>(bytes: &'a [u8])
where
    T: Owned + Decode<'a> + PartialEq + Debug + From<T::Borrowed<'a>>,
    for<'b> T::Borrowed<'b>: Encode + PartialEq + Debug + Clone,
{
    let borrowed = one::<T::Borrowed<'a>>(bytes);
    let owned = one::<T>(bytes);
    assert_eq!(borrowed.is_some(), owned.is_some());
    let Some((borrowed, owned)) = borrowed.zip(owned) else {
        return;
    };
    let equal = |one: &T, other: &T| one == other;
    let converted = T::from(borrowed);
    // A NaN does not equal itself.
    assert!(
        equal(&owned, &converted) || !equal(&owned, &owned),
        "{owned:?} {converted:?}"
    );
    let mut buffer = Vec::new();
    assert!(
        matches!(owned.borrow_in(&mut buffer), Ok(again) if again.encode_to_vec() == owned.encode_to_vec())
    );
}

/// Checks a type in one shape, and returns the value at the start of the bytes.
///
/// `decode`, `skip` and `explain` accept the same input and end at the same byte. The decoded value
/// encodes to its input, as one piece and as several, and no step exceeds the memory bound.
pub fn one<'a, T: Decode<'a> + Encode + PartialEq + Debug>(bytes: &'a [u8]) -> Option<T> {
    let explained = T::explain(bytes, &LIMITS);
    assert_eq!(
        explained.is_none(),
        T::from_bytes_with(bytes, &LIMITS).is_ok(),
        "{explained:?}"
    );
    let mut decoder = Decoder::with_limits(bytes, &LIMITS).ok()?;
    let skipped = T::skip(&mut decoder, &mut NoTrace);
    let mut decoded = None;
    let held = measure(|| decoded = Some(T::from_prefix_with(bytes, &LIMITS)));
    let ratio = match std::any::type_name::<T>().contains("items::") {
        true => RATIO_OF_ITEMS,
        false => RATIO,
    };
    assert!(
        held.bytes_max <= ratio * bytes.len() as u64 + ALLOWANCE,
        "{} bytes held",
        held.bytes_max
    );
    let decoded = decoded?;
    assert_eq!(skipped.is_ok(), decoded.is_ok(), "{skipped:?} {decoded:?}");
    let (value, rest) = decoded.ok()?;
    assert_eq!(decoder.remaining(), rest);
    let used = &bytes[..bytes.len() - rest.len()];
    assert!(T::MIN <= used.len() && T::MAX.is_none_or(|max| used.len() <= max));
    assert_eq!(value.encoded_len(), Ok(used.len()));
    let mut buffer = vec![0xee; used.len()];
    assert_eq!(value.encode_to_slice(&mut buffer), Ok(used.len()));
    assert_eq!(buffer, used);
    gathers(&value, used, &mut buffer);
    Some(value)
}

/// Gathers the value with as many entries as possible, or checks that too few entries are an error.
fn gathers<T: Encode>(value: &T, bytes: &[u8], buffer: &mut [u8]) {
    let mut entries = [GatherEntry::default(); 16];
    let mut gather = GatherEncoder::new(buffer, &mut entries).with_min_len(1);
    match value.encode(&mut gather) {
        Ok(()) => assert!(gather.finish().pieces().flatten().eq(bytes)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ListFull),
    }
}
