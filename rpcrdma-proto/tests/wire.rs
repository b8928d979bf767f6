//! Exact bytes of real messages, written by hand from the drafts and RFCs, in both shapes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "wire/continuation.rs"]
mod continuation;
#[path = "wire/exact.rs"]
mod exact;
#[path = "wire/transport_characteristics.rs"]
mod transport_characteristics;
#[path = "wire/transport_properties.rs"]
mod transport_properties;
#[path = "wire/version_one.rs"]
mod version_one;
#[path = "wire/version_two.rs"]
mod version_two;

use exact::{both, hex, why};
use rpcrdma_proto::v1;
use rpcrdma_proto::v2::{self, characteristics, properties, rtr};
use xdrgen_runtime::{Decode, Encode, ErrorKind, Limits};

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
