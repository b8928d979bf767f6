use super::*;
use crate::v2::properties::{PROP_RBSIZ, PROP_REQREMINV, Propval};

const fn size(octets: u32) -> Basic {
    Basic::ReceiveBufferSize(octets)
}

fn values(octets: u32) -> Values {
    Values { receive_buffer_size: octets, ..Values::DEFAULT }
}

/// What has become of a change is told by what holds when it is no longer pending.
// spec: xc2-4.4-h, xc2-4.4-j, xc2-4.4-k, xc2-4.4-l, xc2-4.4-m
#[test]
fn what_holds_at_the_end_is_what_has_become_of_it() {
    for (asked, before, now, value) in [
        (8192, 4096, 8192, Some(8192)),
        (8192, 4096, 6000, Some(6000)),
        (8192, 4096, 4096, None),
        (4096, 8192, 4096, Some(4096)),
        (4096, 8192, 8192, None),
        (4096, 4096, 4096, Some(4096)),
        (4096, 4096, 8192, Some(8192)),
    ] {
        let ended = Wish::new(size(asked), &values(before)).ended(&values(now));
        assert_eq!(ended, Ended { asked: size(asked), value: value.map(size) });
    }
}

/// An update ends the change of its own property alone.
// spec: xc2-4.3-k, xc2-4.4-d, xc2-4.4-g
#[test]
fn an_update_clears_its_own_property() {
    let mut wishes = Wishes::default();
    wishes.push(Wish::new(size(8192), &Values::DEFAULT));
    wishes.push(Wish::new(Basic::RemoteInvalidation(true), &Values::DEFAULT));
    let now = |which| [Propval { which, data: &[0, 0, 32, 0] }];
    assert_eq!(wishes.cleared(&(&now(77)).into(), &values(8192)), None);
    assert_eq!(wishes.cleared(&(&now(PROP_RBSIZ)).into(), &values(8192)).map(|ended| ended.asked), Some(size(8192)));
    assert!(!wishes.has(PROP_RBSIZ) && wishes.has(PROP_REQREMINV));
    assert_eq!(wishes.cleared(&(&now(PROP_RBSIZ)).into(), &values(8192)), None, "nothing of it is pending any more");
    assert_eq!((wishes.take().count(), wishes.take().count()), (1, 0));
}

/// A size that was asked for binds until something larger holds, and while it may still come.
// spec: xc2-3.1-j
#[test]
fn a_size_binds_while_it_is_pending() {
    for (size, is_pending, lifts) in
        [(8192, false, false), (8193, false, true), (8192, true, false), (8193, true, false)]
    {
        assert_eq!(super::lifts(size, 8192, is_pending), lifts);
    }
}

/// The update that says that nothing is pending any more is the last for what was asked.
// spec: xc2-4.4-b, xc2-4.4-c, xc2-4.4-d, xc2-4.4-i, xc2-4.4-j, xc2-4.4-n, xc2-4.4-p
#[test]
fn what_was_asked_for_is_cleared_once() {
    let mut changes = Changes::default();
    changes.push(size(5000));
    let clears =
        |changes: &Changes| changes.as_slice().iter().map(|change| change.clears).collect::<std::vec::Vec<_>>();
    assert_eq!(clears(&changes), [false], "nobody has asked for it");
    changes.pend();
    changes.push(Basic::RemoteInvalidation(true));
    assert_eq!(clears(&changes), [false, false]);
    changes.push(size(8192));
    assert_eq!(clears(&changes), [false, true]);
    changes.push(size(9000));
    assert_eq!((clears(&changes), changes.grows), (std::vec![false, true], false), "it is still to be told");
    // Before it was, the peer has asked for more: it would take it for the answer to that.
    changes.pend();
    assert_eq!((clears(&changes), changes.grows), (std::vec![false, false], true));
    changes.told(1);
    changes.push(size(9500));
    assert_eq!(clears(&changes), [true]);
    changes.told(7);
    assert!(changes.is_empty());
}
