use super::*;
use crate::v2::properties::Bkreqsup;

/// What becomes of each change that a peer may ask for, where our receives have 8192 octets and may have 10,000, and backward
/// calls go inline.
// spec: xc3-3.1-h, xc3-3.1-i, xc2-3.1-h, xc2-3.1-i, xc2-4.3-i
#[test]
fn what_becomes_of_a_change() {
    let ours = Values { receive_buffer_size: 8192, remote_invalidation: false, backward_support: Bkreqsup::Inline };
    let size = Basic::ReceiveBufferSize;
    let means = [Draft::Properties, Draft::Characteristics].map(|draft| Means {
        draft,
        can_invalidate: false,
        most: 10_000,
        posted: 8192,
    });
    for (wanted, decisions) in [
        (size(8192), [Decision::Accept; 2]),
        (size(4096), [Decision::Accept; 2]),
        (size(8193), [Decision::Reject, Decision::Pend]),
        (size(u32::MAX), [Decision::Reject, Decision::Pend]),
        (size(4095), [Decision::Instead(size(4096)), Decision::Reject]),
        (size(0), [Decision::Instead(size(4096)), Decision::Reject]),
        (Basic::RemoteInvalidation(false), [Decision::Accept; 2]),
        (Basic::RemoteInvalidation(true), [Decision::Reject; 2]),
        (Basic::BackwardSupport(Bkreqsup::None), [Decision::Accept; 2]),
        (Basic::BackwardSupport(Bkreqsup::Inline), [Decision::Accept; 2]),
        (Basic::BackwardSupport(Bkreqsup::Genl), [Decision::Reject; 2]),
    ] {
        for (means, decision) in means.iter().zip(decisions) {
            assert_eq!(means.decide(wanted, &ours), decision, "{wanted:?} of {:?}", means.draft);
        }
    }
    for means in means {
        let can = Means { can_invalidate: true, ..means };
        assert_eq!(can.decide(Basic::RemoteInvalidation(true), &ours), Decision::Accept);
        let least = Values { receive_buffer_size: 4096, ..ours };
        assert_eq!(can.decide(size(4095), &least), Decision::Reject, "there is nothing less to be had");
    }
}

/// A larger size is pending if what will come of it is something.
// spec: xc2-4.3-i, xc2-4.3-j
#[test]
fn what_will_not_come_is_not_pending() {
    let ours = Values { receive_buffer_size: 8192, ..Values::DEFAULT };
    let decide = |wanted, most, posted| {
        let means = Means { draft: Draft::Characteristics, can_invalidate: false, most, posted };
        means.decide(Basic::ReceiveBufferSize(wanted), &ours)
    };
    assert_eq!(decide(9000, 8192, 8192), Decision::Reject, "there is no more");
    assert_eq!(decide(9000, 8200, 8192), Decision::Pend, "some of it");
    assert_eq!(decide(9000, 16_384, 9000), Decision::Pend, "it is on its way");
    assert_eq!(decide(9000, 16_384, 12_288), Decision::Reject, "more is on its way, which is not for that");
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
    assert!(exchange.changed.as_slice().iter().map(|change| change.value).eq(last));
    exchange.connected();
    assert!(exchange.changed.is_empty(), "a new connection begins with all of them");
}
