use super::*;
use crate::v2::properties::{PROP_RBSIZ, PROP_REQREMINV, Propval};

const fn size(bytes: u32) -> BasicProperty {
    BasicProperty::ReceiveBufferSize(bytes)
}

fn values(bytes: u32) -> PropertyValues {
    PropertyValues {
        receive_buffer_size: bytes,
        ..PropertyValues::DEFAULT
    }
}

/// The current value tells the outcome of a change that is no longer pending.
// spec: xc2-4.4-h, xc2-4.4-j, xc2-4.4-k, xc2-4.4-l, xc2-4.4-m
#[test]
fn pending_change_ends_with_the_current_value() {
    for (asked, before, now, value) in [
        (8192, 4096, 8192, Some(8192)),
        (8192, 4096, 6000, Some(6000)),
        (8192, 4096, 4096, None),
        (4096, 8192, 4096, Some(4096)),
        (4096, 8192, 8192, None),
        (4096, 4096, 4096, Some(4096)),
        (4096, 4096, 8192, Some(8192)),
    ] {
        let ended = RequestedChange::new(size(asked), &values(before)).outcome(&values(now));
        assert_eq!(
            ended,
            ChangeOutcome {
                requested: size(asked),
                value: value.map(size)
            }
        );
    }
}

/// An update ends the change of its own property alone.
// spec: xc2-4.3-k, xc2-4.4-d, xc2-4.4-g
#[test]
fn update_clears_only_its_own_property() {
    let mut wishes = PendingChanges::default();
    wishes.push(RequestedChange::new(size(8192), &PropertyValues::DEFAULT));
    wishes.push(RequestedChange::new(
        BasicProperty::RemoteInvalidation(true),
        &PropertyValues::DEFAULT,
    ));
    let now = |which| {
        [Propval {
            which,
            data: &[0, 0, 32, 0],
        }]
    };
    assert_eq!(wishes.cleared(&(&now(77)).into(), &values(8192)), None);
    assert_eq!(
        wishes
            .cleared(&(&now(PROP_RBSIZ)).into(), &values(8192))
            .map(|ended| ended.requested),
        Some(size(8192))
    );
    assert!(!wishes.has(PROP_RBSIZ) && wishes.has(PROP_REQREMINV));
    assert_eq!(
        wishes.cleared(&(&now(PROP_RBSIZ)).into(), &values(8192)),
        None,
        "nothing of it is pending any more"
    );
    assert_eq!((wishes.take().count(), wishes.take().count()), (1, 0));
}

/// The update that clears a change is the last one for the request.
// spec: xc2-4.4-b, xc2-4.4-c, xc2-4.4-d, xc2-4.4-i, xc2-4.4-j, xc2-4.4-n, xc2-4.4-p
#[test]
fn requested_growth_is_cleared_once() {
    let mut changes = LocalChanges::default();
    changes.push(size(5000));
    let clears = |changes: &LocalChanges| {
        changes
            .as_slice()
            .iter()
            .map(|change| change.clears)
            .collect::<std::vec::Vec<_>>()
    };
    assert_eq!(clears(&changes), [false], "nobody has asked for it");
    changes.defer_growth();
    changes.push(BasicProperty::RemoteInvalidation(true));
    assert_eq!(clears(&changes), [false, false]);
    changes.push(size(8192));
    assert_eq!(clears(&changes), [false, true]);
    changes.push(size(9000));
    assert_eq!(
        (clears(&changes), changes.growth_pending),
        (std::vec![false, true], false),
        "it is still to be told"
    );
    // Before it was, the peer has asked for more: it would take it for the answer to that.
    changes.defer_growth();
    assert_eq!(
        (clears(&changes), changes.growth_pending),
        (std::vec![false, false], true)
    );
    changes.mark_sent(1);
    changes.push(size(9500));
    assert_eq!(clears(&changes), [true]);
    changes.mark_sent(7);
    assert!(changes.is_empty());
}
