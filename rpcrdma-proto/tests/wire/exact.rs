//! Values that are encoded by exactly these bytes.
#![allow(unreachable_pub, reason = "a module of tests")]

use std::fmt::Debug;

use xdrgen_runtime::{Decode, Encode, ErrorKind, Limits, Owned};

/// The bytes of hexadecimal digits; what follows a `#` on a line is a remark.
pub fn hex(text: &str) -> &'static [u8] {
    let digits: String = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect();
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte");
    let bytes = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap());
    bytes.collect::<Vec<u8>>().leak()
}

/// The value of these bytes, which encodes to them, and to which no prefix of them and nothing
/// longer decodes.
pub fn exact<'a, T: Decode<'a> + Encode + Debug + PartialEq>(bytes: &'a [u8]) -> T {
    let value = T::from_bytes(bytes)
        .unwrap_or_else(|_| panic!("{:?}", T::explain(bytes, &Limits::DEFAULT)));
    assert_eq!(value.encoded_len(), Ok(bytes.len()));
    assert_eq!(value.encode_to_vec().unwrap(), bytes);
    assert!(T::MIN <= bytes.len() && T::MAX.is_none_or(|max| bytes.len() <= max));
    assert_eq!(T::explain(bytes, &Limits::DEFAULT), None);
    for end in 0..bytes.len() {
        let error = T::from_bytes(&bytes[..end]).expect_err("a prefix was accepted");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEnd);
        assert!(error.offset() <= end);
        let explained = T::explain(&bytes[..end], &Limits::DEFAULT).unwrap().error();
        assert_eq!(explained.kind(), ErrorKind::UnexpectedEnd);
        assert!((error.offset()..=end).contains(&explained.offset()));
    }
    for extra in 1..8 {
        let longer: &'static [u8] = [bytes, &[0; 8][..extra]].concat().leak();
        let error = T::from_bytes(longer).expect_err("trailing bytes were accepted");
        assert_eq!(
            (error.kind(), error.offset()),
            (ErrorKind::TrailingBytes, bytes.len())
        );
        let (prefix, rest) = T::from_prefix(longer).unwrap();
        assert_eq!((prefix, rest.len()), (T::from_bytes(bytes).unwrap(), extra));
    }
    value
}

/// [`exact`] in both shapes, which convert into each other.
pub fn both<'a, O>(bytes: &'a [u8]) -> (O::Borrowed<'a>, O)
where
    O: Owned + Decode<'a> + Debug + PartialEq + From<O::Borrowed<'a>>,
    O::Borrowed<'a>: Encode + Debug + PartialEq + Copy,
{
    let (borrowed, owned) = (exact::<O::Borrowed<'a>>(bytes), exact::<O>(bytes));
    assert_eq!(O::from(borrowed), owned);
    let buf: &'static mut Vec<u8> = Box::leak(Box::default());
    assert_eq!(owned.borrow_in(buf).unwrap(), borrowed);
    (borrowed, owned)
}

/// Why bytes are refused, with the path of the field.
pub fn why<'a, T: Decode<'a>>(bytes: &'a [u8]) -> String {
    T::explain(bytes, &Limits::DEFAULT)
        .map_or("accepted".to_owned(), |explanation| explanation.to_string())
}
