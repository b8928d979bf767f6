use super::*;
use crate::ErrorKind::*;
use crate::{Encode, List, Opaque};
use proptest::prelude::*;
use std::vec::Vec;

/// The message in pieces, checked against the message in one.
fn pieces(message: &impl Encode, room: usize, places: usize, least: usize) -> Result<Vec<Vec<u8>>> {
    let (mut buf, mut kept) = (std::vec![0xee; room], std::vec![Kept::default(); places]);
    let mut gather = Gather::new(&mut buf, &mut kept).at_least(least);
    message.encode(&mut gather)?;
    assert_eq!(gather.offset(), message.encoded_len()?);
    let gathered = gather.finish();
    let found: Vec<Vec<u8>> = gathered.pieces().map(Vec::from).collect();
    assert_eq!(found.concat(), message.encode_to_vec()?);
    assert_eq!((gathered.len(), gathered.is_empty()), (found.concat().len(), found.is_empty()));
    if least == Gather::LEAST {
        let needs = Needs { octets: gathered.copied().len(), places: gathered.kept.len() };
        assert_eq!(message.gather_needs(), Ok(needs));
    }
    Ok(found)
}

fn lengths(message: &impl Encode, room: usize, places: usize, least: usize) -> Vec<usize> {
    pieces(message, room, places, least).unwrap().iter().map(Vec::len).collect()
}

#[test]
fn long_opaques_are_referred_to() {
    let (long, short) = ([1u8; 30], [2u8; 5]);
    let message = (7u32, &long[..], &short[..], Some(&long[..]));
    assert_eq!(lengths(&message, 128, 4, 30), [8, 30, 2 + 4 + 8 + 4 + 4, 30, 2]);
    assert_eq!(lengths(&message, 128, 4, 31), [4 + 36 + 12 + 4 + 36]);
    assert_eq!(lengths(&message, 8 + 2 + 12 + 8 + 2, 4, 30).len(), 5);
}

/// Never copied by mistake: that would be a megabyte.
#[test]
fn without_a_place_they_are_refused() {
    let long = [1u8; 32];
    let message = (&long[..], &long[..]);
    assert_eq!(lengths(&message, 8, 2, 8), [4, 32, 4, 32]);
    assert_eq!(pieces(&message, 72, 1, 8).unwrap_err(), Error::new(ListFull, 40));
    assert_eq!(pieces(&message, 72, 0, 8).unwrap_err(), Error::new(ListFull, 4));
    assert_eq!(lengths(&message, 72, 0, 33), [72]);
}

#[test]
fn needs_are_what_the_list_takes() {
    let long = [3u8; Gather::LEAST];
    let message = (7u32, &long[..], &long[1..], Some(&long[..]));
    let needs = message.gather_needs().unwrap();
    assert_eq!(needs, Needs { octets: 4 + 4 + 4 + 512 + 4 + 4, places: 2 });
    assert_eq!(lengths(&message, needs.octets, needs.places, Gather::LEAST).len(), 4);
}

#[test]
fn neighbours_have_nothing_between_them() {
    let long = [1u8; 32];
    assert_eq!(lengths(&[[1u8; 32], [2; 32]], 0, 2, 8), [32, 32]);
    assert_eq!(lengths(&(&long[..], 5u32), 12, 2, 8), [4, 32, 4]);
    assert_eq!(lengths(&(), 0, 0, 8), []);
    let empty = Opaque::<4>::default();
    assert_eq!(lengths(&(empty, empty), 8, 2, 0), [8]);
}

#[test]
fn a_full_buffer_is_told_at_its_place_in_the_message() {
    let long = [1u8; 32];
    let message = (&long[..], 5u32, 6u32);
    assert_eq!(pieces(&message, 8, 1, 8).unwrap_err(), Error::new(BufferFull, 40));
    assert_eq!(pieces(&message, 8, 0, 64).unwrap_err(), Error::new(BufferFull, 4));
    assert_eq!(pieces(&List::from(&[long; 2]), 8, 2, 8).unwrap_err(), Error::new(BufferFull, 72));
}

#[test]
fn encode_gathers_with_the_usual_threshold() {
    let octets = [3u8; Gather::LEAST];
    let (mut buf, mut kept) = ([0; 16], [Kept::default(); 1]);
    let message = (&octets[..], &octets[1..2]);
    let gathered = message.gather(&mut buf, &mut kept).unwrap();
    assert_eq!(gathered.pieces().map(<[u8]>::len).collect::<Vec<_>>(), [4, 512, 8]);
    assert!(gathered.pieces().any(|piece| std::ptr::eq(piece, &octets[..])));
}

proptest! {
    #[test]
    fn any_list_is_the_message(items: Vec<Vec<u8>>, places in 0usize..5, least in 0usize..40) {
        match pieces(&items, 1 << 14, places, least) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ListFull),
        }
        let _ = pieces(&items, 1 << 14, places, Gather::LEAST).unwrap();
    }
}
