use std::vec::Vec;

use super::*;
use crate::{
    Array, DdpArray, DdpList, DdpNested, Decode, Decoder, Encode, Limits, List, NoTrace, Result,
    Sink, Trace, Wire,
};

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

/// Asserts that the elements of a borrowed array find their items, in any order and repeatedly, and
/// that the array is encoded again with all items in place.
fn assert_lazy(list: &ItemList<'_>, whole: &[u8]) {
    let mut d = Decoder::with_items(list, &Limits::DEFAULT).unwrap();
    let array = DdpArray::<Record<'_>>::decode(&mut d).unwrap();
    d.finish().unwrap();
    assert!(list.is_used_up());
    for at in [2, 0, 1, 2] {
        let expected = [
            record(1, b"hello"),
            record(2, b"ab"),
            record(3, b"12345678"),
        ];
        assert_eq!(array.get(at).as_ref(), expected.get(at));
    }
    for _ in 0..2 {
        assert_records(&array.iter().collect::<Vec<_>>(), whole);
    }
    assert_eq!(array.encode_to_vec().unwrap(), whole);
    assert_eq!(array, DdpArray::from_bytes(whole).unwrap());
}

#[test]
fn elements_of_a_borrowed_sequence_find_their_items() {
    let (whole, reduced) = messages();
    let items = [item(12, b"hello"), item(40, b"12345678")];
    assert_lazy(
        &ItemList::new(&reduced, &items, Matching::ByPosition),
        &whole,
    );
    let items = [item(0, b"hello"), item(0, b""), item(0, b"12345678")];
    assert_lazy(&ItemList::new(&reduced, &items, Matching::InOrder), &whole);
    assert_lazy(&ItemList::new(&whole, &[], Matching::ByPosition), &whole);
    let home = SharedBytes::from(whole.clone());
    assert_lazy(&ItemList::shared(&home), &whole);
}

#[test]
fn elements_of_a_borrowed_list_and_nested_values_find_their_items() {
    let records = [record(1, b"hello"), record(2, b"ab")];
    let whole = List::from(&records).encode_to_vec().unwrap();
    let reduced = [&whole[..12], &whole[20..]].concat();
    let items = [item(12, b"hello")];
    let list = ItemList::new(&reduced, &items, Matching::ByPosition);
    let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
    let decoded = DdpList::<Record<'_>>::decode(&mut d).unwrap();
    assert!(list.is_used_up());
    assert_eq!(decoded.get(0), Some(record(1, b"hello")));
    assert_eq!(decoded.encode_to_vec().unwrap(), whole);

    let whole = record(1, b"hello").encode_to_vec().unwrap();
    let items = [item(8, b"hello")];
    let list = ItemList::new(&whole[..8], &items, Matching::ByPosition);
    let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
    let nested = DdpNested::<Record<'_>>::decode(&mut d).unwrap();
    assert_eq!(nested.get(), Ok(record(1, b"hello")));
    assert_eq!(nested.encode_to_vec().unwrap(), whole);
}

#[test]
fn an_item_of_an_element_is_as_long_as_the_stream_says() {
    let (_, reduced) = messages();
    let items = [item(12, b"hell"), item(40, b"12345678")];
    let list = ItemList::new(&reduced, &items, Matching::ByPosition);
    let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
    let error = DdpArray::<Record<'_>>::decode(&mut d).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::UnexpectedEnd, 8)
    );
}

/// RFC 8267, section 6.4.1: the result of a READ that failed has a Write chunk, which is empty.
#[test]
fn a_result_without_an_item_consumes_an_empty_one() {
    let stream = [[0, 0, 0, 1], [0, 0, 0, 5]].concat();
    let find = |items: &[ReceivedItem], passes_over: bool| {
        let list = ItemList::new(&stream, items, Matching::InOrder);
        let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
        d.u32().unwrap();
        if passes_over {
            d.no_item();
        }
        d.item(u32::MAX).map(|found| found.to_vec())
    };
    let both = [item(0, b""), item(0, b"hello")];
    assert_eq!(find(&both, true).unwrap(), b"hello");
    assert_eq!(
        find(&both, false).unwrap_err().kind(),
        ErrorKind::UnexpectedEnd
    );
    // A server that consumes no chunk for it.
    assert_eq!(find(&both[1..], true).unwrap(), b"hello");
}

/// Linux's NFS server moves the data of a READ into the chunk of the empty READ before it.
#[test]
fn a_field_without_bytes_leaves_a_filled_item_to_the_next() {
    let stream = [[0, 0, 0, 0], [0, 0, 0, 5]].concat();
    for items in [
        [item(0, b"hello"), item(0, b"")],
        [item(0, b""), item(0, b"hello")],
    ] {
        let list = ItemList::new(&stream, &items, Matching::InOrder);
        for _ in 0..2 {
            let mut d = Decoder::with_items(&list, &Limits::DEFAULT).unwrap();
            assert_eq!(*d.item(u32::MAX).unwrap(), *b"");
            assert_eq!(*d.item(u32::MAX).unwrap(), *b"hello");
            d.finish().unwrap();
            assert!(list.is_used_up());
        }
    }
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
