use super::*;
use crate::v2::properties::Bkreqsup;

/// What becomes of each change that a peer may ask for, where our receives have 8192 octets and backward calls go inline.
// spec: xc3-3.1-h, xc3-3.1-i
#[test]
fn what_becomes_of_a_change() {
    let ours = Values { receive_buffer_size: 8192, remote_invalidation: false, backward_support: Bkreqsup::Inline };
    let size = Basic::ReceiveBufferSize;
    for (wanted, decision) in [
        (size(8192), Decision::Accept),
        (size(4096), Decision::Accept),
        (size(8193), Decision::Reject),
        (size(u32::MAX), Decision::Reject),
        (size(4095), Decision::Instead(size(4096))),
        (size(0), Decision::Instead(size(4096))),
        (Basic::RemoteInvalidation(false), Decision::Accept),
        (Basic::RemoteInvalidation(true), Decision::Reject),
        (Basic::BackwardSupport(Bkreqsup::None), Decision::Accept),
        (Basic::BackwardSupport(Bkreqsup::Inline), Decision::Accept),
        (Basic::BackwardSupport(Bkreqsup::Genl), Decision::Reject),
    ] {
        assert_eq!(decide(wanted, &ours, false), decision, "{wanted:?}");
    }
    assert_eq!(decide(Basic::RemoteInvalidation(true), &ours, true), Decision::Accept);
    let least = Values { receive_buffer_size: 4096, ..ours };
    assert_eq!(decide(size(4095), &least, false), Decision::Reject, "there is nothing less to be had");
}

/// The last value of a property is told, once.
#[test]
fn changes_of_one_property_are_one() {
    let mut exchange = Exchange::new(&Config::client());
    for size in [8192, 16_384] {
        exchange.update(Basic::ReceiveBufferSize(size));
        exchange.update(Basic::RemoteInvalidation(size == 8192));
    }
    exchange.update(Basic::BackwardSupport(Bkreqsup::None));
    let last =
        [Basic::ReceiveBufferSize(16_384), Basic::RemoteInvalidation(false), Basic::BackwardSupport(Bkreqsup::None)];
    assert_eq!(exchange.changed[..], last);
    exchange.connected();
    assert!(exchange.changed.is_empty(), "a new connection begins with all of them");
}
