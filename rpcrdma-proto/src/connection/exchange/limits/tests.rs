use super::*;
use crate::v2::properties::Bkreqsup;

/// The decision about each change that a peer may request. Our receives have 8192 bytes and may
/// grow to 10,000, and backward calls are inline.
// spec: xc3-3.1-h, xc3-3.1-i, xc2-3.1-h, xc2-3.1-i, xc2-4.3-i
#[test]
fn decisions_about_requested_changes() {
    let ours = PropertyValues {
        receive_buffer_size: 8192,
        remote_invalidation: false,
        backward_support: Bkreqsup::Inline,
    };
    let size = BasicProperty::ReceiveBufferSize;
    let limits =
        [PropertyDraft::Properties, PropertyDraft::Characteristics].map(|draft| ChangeLimits {
            draft,
            can_invalidate: false,
            most: 10_000,
            posted: 8192,
        });
    for (wanted, decisions) in [
        (size(8192), [Decision::Accept; 2]),
        (size(4096), [Decision::Accept; 2]),
        (size(8193), [Decision::Reject, Decision::Defer]),
        (size(u32::MAX), [Decision::Reject, Decision::Defer]),
        (
            size(4095),
            [Decision::Substitute(size(4096)), Decision::Reject],
        ),
        (
            size(0),
            [Decision::Substitute(size(4096)), Decision::Reject],
        ),
        (
            BasicProperty::RemoteInvalidation(false),
            [Decision::Accept; 2],
        ),
        (
            BasicProperty::RemoteInvalidation(true),
            [Decision::Reject; 2],
        ),
        (
            BasicProperty::BackwardSupport(Bkreqsup::None),
            [Decision::Accept; 2],
        ),
        (
            BasicProperty::BackwardSupport(Bkreqsup::Inline),
            [Decision::Accept; 2],
        ),
        (
            BasicProperty::BackwardSupport(Bkreqsup::Genl),
            [Decision::Reject; 2],
        ),
    ] {
        for (limits, decision) in limits.iter().zip(decisions) {
            assert_eq!(
                limits.decide(wanted, &ours),
                decision,
                "{wanted:?} of {:?}",
                limits.draft
            );
        }
    }
    for limits in limits {
        let can = ChangeLimits {
            can_invalidate: true,
            ..limits
        };
        assert_eq!(
            can.decide(BasicProperty::RemoteInvalidation(true), &ours),
            Decision::Accept
        );
        let least = PropertyValues {
            receive_buffer_size: 4096,
            ..ours
        };
        assert_eq!(
            can.decide(size(4095), &least),
            Decision::Reject,
            "there is nothing less to be had"
        );
    }
}

/// A larger size is pending only if the receives will grow.
// spec: xc2-4.3-i, xc2-4.3-j
#[test]
fn growth_is_pending_only_if_it_will_happen() {
    let ours = PropertyValues {
        receive_buffer_size: 8192,
        ..PropertyValues::DEFAULT
    };
    let decide = |wanted, most, posted| {
        let limits = ChangeLimits {
            draft: PropertyDraft::Characteristics,
            can_invalidate: false,
            most,
            posted,
        };
        limits.decide(BasicProperty::ReceiveBufferSize(wanted), &ours)
    };
    assert_eq!(
        decide(9000, 8192, 8192),
        Decision::Reject,
        "there is no more"
    );
    assert_eq!(decide(9000, 8200, 8192), Decision::Defer, "some of it");
    assert_eq!(
        decide(9000, 16_384, 9000),
        Decision::Defer,
        "it is on its way"
    );
    assert_eq!(
        decide(9000, 16_384, 12_288),
        Decision::Reject,
        "more is on its way, which is not for that"
    );
}
