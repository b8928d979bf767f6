//! Real messages, as values of generated types.
//!
//! Each module adds the jobs of all codecs of this process for its messages; `peers` finds the
//! messages by their names. A sum here covers the same fields as `visit` of its module in `hand`:
//! `message::Message` compares the two.

mod bulk;
mod call;
#[cfg(nfs)]
mod compound;
mod version_one;
mod version_two;

use xdrgen_runtime::Encode;

use crate::message::Message;

/// Returns all messages of the benchmark.
pub(crate) fn all() -> Vec<Message> {
    let mut all = version_two::all();
    all.extend(version_one::all());
    all.push(call::call());
    #[cfg(nfs)]
    all.push(compound::reply());
    all.extend(bulk::all());
    all
}

/// Encodes a value into `buffer` and returns its length, or zero if it does not fit, which differs
/// from the result of every other encoder.
fn encoded(value: &impl Encode, buffer: &mut [u8]) -> usize {
    value.encode_to_slice(buffer).unwrap_or_default()
}
