use super::*;
use crate::ErrorKind::*;
use crate::{Encode, List, Opaque};
use proptest::prelude::*;
use std::vec::Vec;

/// Encodes a message in pieces, and compares it with the message in one piece.
fn pieces(
    message: &impl Encode,
    room: usize,
    entries: usize,
    min_len: usize,
) -> Result<Vec<Vec<u8>>> {
    let (mut buf, mut entries) = (
        std::vec![0xee; room],
        std::vec![GatherEntry::default(); entries],
    );
    let mut gather = GatherEncoder::new(&mut buf, &mut entries).with_min_len(min_len);
    message.encode(&mut gather)?;
    assert_eq!(gather.offset(), message.encoded_len()?);
    let list = gather.finish();
    let found: Vec<Vec<u8>> = list.pieces().map(Vec::from).collect();
    assert_eq!(found.concat(), message.encode_to_vec()?);
    assert_eq!(
        (list.len(), list.is_empty()),
        (found.concat().len(), found.is_empty())
    );
    if min_len == GatherEncoder::MIN_LEN {
        let size = GatherSize {
            bytes: list.copied().len(),
            entries: list.entries.len(),
        };
        assert_eq!(message.gather_size(), Ok(size));
    }
    Ok(found)
}

fn lengths(message: &impl Encode, room: usize, entries: usize, min_len: usize) -> Vec<usize> {
    pieces(message, room, entries, min_len)
        .unwrap()
        .iter()
        .map(Vec::len)
        .collect()
}

#[test]
fn long_opaques_are_referenced() {
    let (long, short) = ([1u8; 30], [2u8; 5]);
    let message = (7u32, &long[..], &short[..], Some(&long[..]));
    assert_eq!(
        lengths(&message, 128, 4, 30),
        [8, 30, 2 + 4 + 8 + 4 + 4, 30, 2]
    );
    assert_eq!(lengths(&message, 128, 4, 31), [4 + 36 + 12 + 4 + 36]);
    assert_eq!(lengths(&message, 8 + 2 + 12 + 8 + 2, 4, 30).len(), 5);
}

/// An item without an entry is an error and not copied: it may be a megabyte.
#[test]
fn items_without_an_entry_are_rejected() {
    let long = [1u8; 32];
    let message = (&long[..], &long[..]);
    assert_eq!(lengths(&message, 8, 2, 8), [4, 32, 4, 32]);
    assert_eq!(
        pieces(&message, 72, 1, 8).unwrap_err(),
        Error::new(ListFull, 40)
    );
    assert_eq!(
        pieces(&message, 72, 0, 8).unwrap_err(),
        Error::new(ListFull, 4)
    );
    assert_eq!(lengths(&message, 72, 0, 33), [72]);
}

#[test]
fn sizes_match_the_list() {
    let long = [3u8; GatherEncoder::MIN_LEN];
    let message = (7u32, &long[..], &long[1..], Some(&long[..]));
    let size = message.gather_size().unwrap();
    assert_eq!(
        size,
        GatherSize {
            bytes: 4 + 4 + 4 + 512 + 4 + 4,
            entries: 2
        }
    );
    assert_eq!(
        lengths(&message, size.bytes, size.entries, GatherEncoder::MIN_LEN).len(),
        4
    );
}

#[test]
fn adjacent_items_have_no_piece_between_them() {
    let long = [1u8; 32];
    assert_eq!(lengths(&[[1u8; 32], [2; 32]], 0, 2, 8), [32, 32]);
    assert_eq!(lengths(&(&long[..], 5u32), 12, 2, 8), [4, 32, 4]);
    assert_eq!(lengths(&(), 0, 0, 8), []);
    let empty = Opaque::<4>::default();
    assert_eq!(lengths(&(empty, empty), 8, 2, 0), [8]);
}

#[test]
fn a_full_buffer_has_its_offset_in_the_message() {
    let long = [1u8; 32];
    let message = (&long[..], 5u32, 6u32);
    assert_eq!(
        pieces(&message, 8, 1, 8).unwrap_err(),
        Error::new(BufferFull, 40)
    );
    assert_eq!(
        pieces(&message, 8, 0, 64).unwrap_err(),
        Error::new(BufferFull, 4)
    );
    assert_eq!(
        pieces(&List::from(&[long; 2]), 8, 2, 8).unwrap_err(),
        Error::new(BufferFull, 72)
    );
}

#[test]
fn encode_gathers_with_the_default_threshold() {
    let bytes = [3u8; GatherEncoder::MIN_LEN];
    let (mut buf, mut entries) = ([0; 16], [GatherEntry::default(); 1]);
    let message = (&bytes[..], &bytes[1..2]);
    let list = message.gather(&mut buf, &mut entries).unwrap();
    assert_eq!(
        list.pieces().map(<[u8]>::len).collect::<Vec<_>>(),
        [4, 512, 8]
    );
    assert!(list.pieces().any(|piece| std::ptr::eq(piece, &bytes[..])));
}

proptest! {
    #[test]
    fn gather_list_equals_the_message(
        items: Vec<Vec<u8>>,
        entries in 0usize..5,
        min_len in 0usize..40,
    ) {
        match pieces(&items, 1 << 14, entries, min_len) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ListFull),
        }
        let _ = pieces(&items, 1 << 14, entries, GatherEncoder::MIN_LEN).unwrap();
    }
}
