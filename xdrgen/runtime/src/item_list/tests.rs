use std::vec::Vec;

use super::*;
use crate::{Array, Decode, Decoder, Encode, Limits, NoTrace, Result, Sink, Trace, Wire};

/// A number and an item, as generated code would define them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record<'a> {
    number: u32,
    data: Item<'a>,
}

impl Wire for Record<'_> {
    const MIN: usize = 8;
    const MAX: Option<usize> = None;
    const PLAIN: bool = false;
}

impl<'a> Decode<'a> for Record<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        Ok(Self {
            number: d.u32()?,
            data: d.item(100)?,
        })
    }

    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        d.u32()?;
        d.skip_item(100)
    }
}

impl Encode for Record<'_> {
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.u32(self.number)?;
        sink.item(&self.data, 100)
    }
}

fn record(number: u32, data: &[u8]) -> Record<'_> {
    Record {
        number,
        data: data.into(),
    }
}

fn item(position: u32, bytes: &[u8]) -> ReceivedItem {
    ReceivedItem {
        position,
        bytes: bytes.to_vec().into(),
    }
}

/// Three records with items of 5, 2 and 8 bytes: the whole message, and the message without the
/// bytes of the first and the third item.
fn messages() -> (Vec<u8>, Vec<u8>) {
    let records = [
        record(1, b"hello"),
        record(2, b"ab"),
        record(3, b"12345678"),
    ];
    let whole = Array::<Record<'_>>::from(&records).encode_to_vec().unwrap();
    let reduced = [&whole[..12], &whole[20..40]].concat();
    (whole, reduced)
}

/// Decodes the records one by one, as the owned shape of an array does.
fn decode<'a>(list: &'a ItemList<'a>) -> Result<Vec<Record<'a>>> {
    let mut d = Decoder::with_items(list, &Limits::DEFAULT)?;
    let count = d.u32()?;
    let records = (0..count)
        .map(|_| Record::decode(&mut d))
        .collect::<Result<_>>()?;
    d.finish()?;
    Ok(records)
}

fn assert_records(records: &[Record<'_>], whole: &[u8]) {
    let expected = [
        record(1, b"hello"),
        record(2, b"ab"),
        record(3, b"12345678"),
    ];
    assert_eq!(records, expected);
    assert_eq!(
        Array::<Record<'_>>::from(records).encode_to_vec().unwrap(),
        whole
    );
}

#[test]
fn items_are_matched_by_position() {
    let (whole, reduced) = messages();
    let items = [item(12, b"hello"), item(40, b"12345678")];
    let list = ItemList::new(&reduced, &items, Matching::ByPosition);
    assert_records(&decode(&list).unwrap(), &whole);
    assert!(list.is_used_up());
}

#[test]
fn items_are_matched_in_order_and_empty_items_are_inline() {
    let (whole, reduced) = messages();
    let items = [item(0, b"hello"), item(0, b""), item(0, b"12345678")];
    let list = ItemList::new(&reduced, &items, Matching::InOrder);
    assert_records(&decode(&list).unwrap(), &whole);
    assert!(list.is_used_up());
}

#[test]
fn length_in_the_stream_takes_precedence() {
    let (whole, reduced) = messages();
    // NFS-Ganesha returns the padding as a part of the item.
    let longer = [item(0, b"hello\0\0\0"), item(0, b""), item(0, b"12345678")];
    let list = ItemList::new(&reduced, &longer, Matching::InOrder);
    assert_records(&decode(&list).unwrap(), &whole);
    let shorter = [item(0, b"hell"), item(0, b""), item(0, b"12345678")];
    let list = ItemList::new(&reduced, &shorter, Matching::InOrder);
    let error = decode(&list).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::UnexpectedEnd, 8)
    );
}

#[test]
fn item_without_a_field_is_not_used() {
    let (_, reduced) = messages();
    let items = [item(12, b"hello"), item(16, b"xxxx"), item(40, b"12345678")];
    let list = ItemList::new(&reduced, &items, Matching::ByPosition);
    assert!(decode(&list).is_err() || !list.is_used_up());
    let items = [item(12, b"hello"), item(40, b"12345678"), item(48, b"more")];
    let list = ItemList::new(&reduced, &items, Matching::ByPosition);
    assert!(decode(&list).is_ok() && !list.is_used_up());
}

#[test]
fn items_of_a_shared_message_share_its_memory() {
    let (whole, _) = messages();
    let home = SharedBytes::from(whole.clone());
    let list = ItemList::shared(&home);
    let records = decode(&list).unwrap();
    assert_records(&records, &whole);
    let kept = records[0].data.to_static();
    let (buffer, from) = kept.shared().unwrap().buffer_as::<Vec<u8>>().unwrap();
    assert_eq!((buffer, from), (&whole, 12));
}

#[test]
fn borrowed_sequence_rejects_items_outside_the_stream() {
    let (whole, reduced) = messages();
    let items = [item(12, b"hello"), item(40, b"12345678")];
    let list = ItemList::new(&reduced, &items, Matching::ByPosition);
    let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
    let error = Array::<Record<'_>>::decode(&mut d).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::UnexpectedEnd, 8)
    );

    let list = ItemList::new(&whole, &[], Matching::ByPosition);
    let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
    let array = Array::<Record<'_>>::decode(&mut d).unwrap();
    assert_eq!(array.get(1), Some(record(2, b"ab")));
}

#[test]
fn item_longer_than_its_bound_is_rejected() {
    let long = record(1, &[7; 101]);
    assert_eq!(long.encode_to_vec().unwrap_err().kind(), ErrorKind::TooLong);
    let mut bytes = record(1, &[7; 100]).encode_to_vec().unwrap();
    assert!(Record::from_bytes(&bytes).is_ok());
    bytes[7] = 101;
    let error = Record::from_bytes(&bytes).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::TooLong, 4));
    assert!(Record::skip(&mut Decoder::new(&bytes), &mut NoTrace).is_err());
}
