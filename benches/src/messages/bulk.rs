//! Long messages: an opaque of a megabyte, and arrays of integers.

use std::hint::black_box;

use xdrgen_runtime::{Array, Decode, Encode, GatherEntry};

use super::encoded;
use crate::codec::Codec;
use crate::message::Message;

/// The data length of a READ result (`eof` and data), which requires padding.
const READ: usize = (1 << 20) - 3;

pub(super) fn all() -> Vec<Message> {
    vec![
        opaque(),
        integers("integers-64K", 1 << 14),
        integers("integers-1M", 1 << 18),
    ]
}

fn opaque() -> Message {
    let data: &'static [u8] = vec![0x5a; READ].leak();
    let value = (true, data);
    let message = Message::new("opaque-1M", move |buffer| encoded(&value, buffer));
    let bytes = message.bytes;
    message
        .encode(Codec::Memcpy, move |buffer| copy(bytes, buffer))
        .decode(Codec::Generated, <(bool, &[u8])>::from_bytes)
        .decode(Codec::Memcpy, |bytes| Some(bytes.to_vec()))
        .gather(Codec::Generated, move || {
            let (mut buf, mut entries) = ([0; 64], [GatherEntry::default(); 4]);
            black_box(&value)
                .gather(&mut buf, &mut entries)
                .ok()
                .map(|list| list.len())
        })
}

fn copy(bytes: &[u8], buffer: &mut [u8]) -> Option<usize> {
    buffer
        .get_mut(..bytes.len())?
        .copy_from_slice(black_box(bytes));
    Some(bytes.len())
}

/// Returns an array of `count` integers.
fn integers(name: &'static str, count: u32) -> Message {
    let integers: &'static [u32] = (0..count)
        .map(|at| at.wrapping_mul(0x9e37_79b9))
        .collect::<Vec<_>>()
        .leak();
    let value = Array::<u32>::from(integers);
    let message = Message::new(name, move |buffer| encoded(&value, buffer));
    let bytes = message.bytes;
    let place = std::cell::RefCell::new(vec![0; integers.len()]);
    let sum = |array: Array<'_, u32>| array.iter().map(u64::from).sum::<u64>();
    message
        .encode(Codec::Memcpy, move |buffer| copy(bytes, buffer))
        .decode(Codec::Generated, move |bytes| {
            let array = Array::<u32>::from_bytes(bytes)?;
            Ok::<_, xdrgen_runtime::Error>(array.copy_to_slice(black_box(&mut place.borrow_mut())))
        })
        .decode(Codec::Owned, Vec::<u32>::from_bytes)
        .decode(Codec::Memcpy, |bytes| Some(bytes.to_vec()))
        .visit(Codec::Generated, move |bytes| {
            Some(sum(Array::from_bytes(bytes).ok()?))
        })
        .visit(Codec::Hand, |bytes| {
            let words = bytes.get(4..)?.as_chunks::<4>().0;
            Some(
                words
                    .iter()
                    .map(|word| u64::from(u32::from_be_bytes(*word)))
                    .sum(),
            )
        })
}
