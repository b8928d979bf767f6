//! Exact bytes of real messages, written by hand from the drafts and RFCs, in both shapes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "wire/continuation.rs"]
mod continuation;
#[path = "wire/onc_rpc.rs"]
mod onc_rpc;
#[path = "wire/transport_characteristics.rs"]
mod transport_characteristics;
#[path = "wire/transport_properties.rs"]
mod transport_properties;
#[path = "wire/version_one.rs"]
mod version_one;
#[path = "wire/version_two.rs"]
mod version_two;

use std::fmt::Debug;

use rpcrdma_proto::v2::{self, characteristics, properties, rtr};
use rpcrdma_proto::{rpc, v1};
use xdrgen_runtime::{Decode, Encode, ErrorKind, Limits, Owned};

/// The bytes of hexadecimal digits; what follows a `#` on a line is a remark.
fn hex(text: &str) -> &'static [u8] {
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
fn exact<'a, T: Decode<'a> + Encode + Debug + PartialEq>(bytes: &'a [u8]) -> T {
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
fn both<'a, O>(bytes: &'a [u8]) -> (O::Borrowed<'a>, O)
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
fn why<'a, T: Decode<'a>>(bytes: &'a [u8]) -> String {
    T::explain(bytes, &Limits::DEFAULT)
        .map_or("accepted".to_owned(), |explanation| explanation.to_string())
}

/// A header of RDMA2_OPTIONAL with this operation and content, in the direction of a call.
fn optional(code: &str, content: &str) -> &'static [u8] {
    let content = hex(content);
    let mut bytes = hex(&format!(
        "0000002a 00000002 00000004 00000005 00000000 {code}"
    ))
    .to_vec();
    bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.leak()
}

/// The `rdma_optional` of a message of it, in both shapes.
fn carrier(bytes: &'static [u8]) -> (v2::Optional<'static>, v2::owned::Optional) {
    let (header, owned) = both::<v2::owned::XprtHdr>(bytes);
    let (v2::Body::Optional(carrier), v2::owned::Body::Optional(owned)) = (header.body, owned.body)
    else {
        panic!("{header:?}")
    };
    assert_eq!((header.xid, carrier.optdir), (42, v2::MsgType::Call));
    (carrier, *owned)
}

/// The content of an operation, in both shapes, encoded again to the same bytes.
fn operation(
    code: &str,
    content: &str,
) -> (properties::OptInfo<'static>, properties::owned::OptInfo) {
    let (carrier, owned) = carrier(optional(code, content));
    let info = properties::OptInfo::of(&carrier).unwrap();
    let info_owned = properties::owned::OptInfo::of(&owned).unwrap();
    assert_eq!(
        (info.code(), info_owned.code()),
        (carrier.opttype, carrier.opttype)
    );
    assert_eq!(info.encode_to_vec().unwrap(), carrier.optinfo);
    assert_eq!(info_owned.encode_to_vec().unwrap(), carrier.optinfo);
    for end in 0..carrier.optinfo.len() {
        let cut = properties::OptInfo::decode(carrier.opttype, &carrier.optinfo[..end]);
        let cut_owned =
            properties::owned::OptInfo::decode(carrier.opttype, &carrier.optinfo[..end]);
        assert_eq!(cut.unwrap_err().kind(), ErrorKind::UnexpectedEnd);
        assert_eq!(cut_owned.unwrap_err().kind(), ErrorKind::UnexpectedEnd);
    }
    let longer: &'static [u8] = [carrier.optinfo, &[0; 4]].concat().leak();
    let error = properties::OptInfo::decode(carrier.opttype, longer).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::TrailingBytes, carrier.optinfo.len())
    );
    (info, info_owned)
}
