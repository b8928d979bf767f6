use super::support::CODES;
use super::*;
use crate::v2::properties::{Reqprop, Resprop};
use crate::xdr::ErrorKind;
use proptest::prelude::*;
use std::vec::Vec;

const LARGE: Propval<'_> = Propval {
    which: PROP_RBSIZ,
    data: &[0, 0, 0x20, 0],
};
const INVALIDATE: Propval<'_> = Propval {
    which: PROP_REQREMINV,
    data: &[0, 0, 0, 1],
};
const GENERAL: Propval<'_> = Propval {
    which: PROP_BRS,
    data: &[0, 0, 0, 2],
};
const UNKNOWN: Propval<'_> = Propval {
    which: 0xffff_ff77,
    data: &[1, 2, 3],
};

fn connected(start: &[Propval<'_>], nochg: &[u32]) -> (PeerProperties, xdr::Result<()>) {
    let mut peer = PeerProperties::new();
    let verdict = peer.connected(&Connprop {
        start: start.into(),
        nochg: nochg.into(),
    });
    (peer, verdict)
}

fn updated(peer: &mut PeerProperties, now: &[Propval<'_>]) -> xdr::Result<()> {
    peer.on_updprop(&Updprop { now: now.into() })
}

// spec: xc3-3-d, xc3-3-e, xc3-3-f, xc3-3-g, xc3-4.1-h
#[test]
fn silent_peer_has_the_defaults() {
    let peer = PeerProperties::new();
    let values = *peer.values();
    assert_eq!(
        (values.receive_buffer_size, values.remote_invalidation),
        (4096, false)
    );
    assert_eq!(values.backward_support, Bkreqsup::Inline);
    assert!(CODES.iter().all(|code| !peer.may_change(*code)));
}

// spec: xc3-2.1-c, xc3-2.1-d, xc3-2.1-f, xc3-2.1-j, xc3-2.1-k, xc3-2.1-l, xc3-2.1-m, xc3-4.1-j
// spec: xc3-4.1-k
#[test]
fn set_applies_in_any_order_and_unknown_properties_are_ignored() {
    for start in [
        [UNKNOWN, LARGE, GENERAL, INVALIDATE],
        [INVALIDATE, GENERAL, LARGE, UNKNOWN],
    ] {
        let (peer, verdict) = connected(&start, &[]);
        assert_eq!(verdict, Ok(()));
        let expected = PropertyValues {
            receive_buffer_size: 8192,
            remote_invalidation: true,
            backward_support: Bkreqsup::Genl,
        };
        assert_eq!((*peer.values(), peer.ignored()), (expected, 0));
    }
}

// spec: xc3-2.1-e
#[test]
fn empty_value_is_the_default() {
    let (mut peer, _) = connected(&[LARGE, INVALIDATE, GENERAL], &[]);
    let empty = [LARGE, INVALIDATE, GENERAL].map(|value| Propval { data: &[], ..value });
    updated(&mut peer, &empty).unwrap();
    assert_eq!(*peer.values(), PropertyValues::DEFAULT);
}

#[test]
fn malformed_value_invalidates_the_message() {
    let cases: [(Propid, &[u8], ErrorKind); 5] = [
        (PROP_RBSIZ, &[0, 0, 1], ErrorKind::UnexpectedEnd),
        (
            PROP_RBSIZ,
            &[0, 0, 1, 0, 0, 0, 0, 0],
            ErrorKind::TrailingBytes,
        ),
        (PROP_REQREMINV, &[0, 0, 0, 2], ErrorKind::InvalidBool),
        (PROP_BRS, &[0, 0, 0, 3], ErrorKind::InvalidEnum),
        (PROP_BRS, &[0], ErrorKind::UnexpectedEnd),
    ];
    for (which, data, kind) in cases {
        let wrong = Propval { which, data };
        let (peer, verdict) = connected(&[LARGE, wrong], &[]);
        assert_eq!(
            (verdict.unwrap_err().kind(), peer),
            (kind, PeerProperties::new()),
            "nothing is taken over"
        );
        let (mut peer, _) = connected(&[LARGE, INVALIDATE, GENERAL], &[]);
        let before = peer.clone();
        assert_eq!(
            updated(&mut peer, &[GENERAL, wrong]).unwrap_err().kind(),
            kind
        );
        assert_eq!(peer, before);
    }
}

// spec: xc3-2.1-n, xc3-2.1-o, xc3-2.1-p, xc3-2.1-q, xc3-2.1-r, xc3-4.1-d, xc3-4.1-i
#[test]
fn fixed_properties_do_not_change() {
    let (mut peer, _) = connected(&[UNKNOWN, LARGE, GENERAL], &[0b010]);
    assert!(!peer.may_change(PROP_RBSIZ) && peer.may_change(PROP_BRS));
    assert!(!peer.may_change(PROP_REQREMINV), "it was not named");
    assert!(!peer.may_change(UNKNOWN.which));
    let other = Propval {
        data: &[0, 0, 0x10, 0],
        ..LARGE
    };
    updated(
        &mut peer,
        &[
            other,
            INVALIDATE,
            Propval {
                data: &[0, 0, 0, 0],
                ..GENERAL
            },
            UNKNOWN,
        ],
    )
    .unwrap();
    let expected = PropertyValues {
        receive_buffer_size: 8192,
        remote_invalidation: false,
        backward_support: Bkreqsup::None,
    };
    assert_eq!((*peer.values(), peer.ignored()), (expected, 2));
}

// spec: xc3-4.4-a, xc3-4.4-c
#[test]
fn updates_change_what_may_change() {
    let (mut peer, _) = connected(&[LARGE, INVALIDATE], &[]);
    updated(
        &mut peer,
        &[Propval {
            data: &[0, 1, 0, 0],
            ..LARGE
        }],
    )
    .unwrap();
    assert_eq!(peer.values().receive_buffer_size, 65536);
    peer.on_changed(BasicProperty::ReceiveBufferSize(5000));
    assert_eq!(peer.values().receive_buffer_size, 5000);
}

#[test]
fn only_the_first_announcement_applies() {
    let (mut peer, _) = connected(
        &[
            LARGE,
            Propval {
                data: &[0, 1, 0, 0],
                ..LARGE
            },
        ],
        &[],
    );
    assert_eq!(peer.values().receive_buffer_size, 8192);
    peer.connected(&Connprop {
        start: (&[GENERAL]).into(),
        nochg: (&[]).into(),
    })
    .unwrap();
    assert_eq!(
        (peer.values().backward_support, peer.ignored()),
        (Bkreqsup::Inline, 1)
    );
}

// spec: xc3-2.1-s, xc3-4.3-c, xc3-4.3-d, xc3-4.3-e, xc3-4.3-i, xc3-4.3-j, xc3-4.3-l, xc3-4.3-n
#[test]
fn missing_or_repeated_result_is_a_rejection() {
    use Disposition::{Done, Other, Pending, Rejected};
    let want = [LARGE, INVALIDATE, GENERAL];
    let less = Propval {
        data: &[0, 0, 0x10, 0],
        ..LARGE
    };
    let of = |done: u32, rej: u32, other: &[Propval<'static>]| -> Vec<Disposition<'static>> {
        let (done, rej) = ([done], [rej]);
        let response = Resprop {
            done: (&done).into(),
            rej: (&rej).into(),
            other: other.into(),
        };
        let request = Reqprop {
            want: (&want).into(),
        };
        // The slices of the response end here, so the outcomes are mapped to static values.
        dispositions(&request, &response)
            .map(|found| match found {
                Done(value) => Done(want.into_iter().find(|wanted| *wanted == value).unwrap()),
                Rejected(value) => {
                    Rejected(want.into_iter().find(|wanted| *wanted == value).unwrap())
                }
                Other(value) => Other(if value == less { less } else { UNKNOWN }),
                Pending(_) => panic!("there is no such answer"),
            })
            .collect()
    };
    assert_eq!(of(0b111, 0, &[]), want.map(Done));
    assert_eq!(
        of(0b001, 0b110, &[]),
        [Done(LARGE), Rejected(INVALIDATE), Rejected(GENERAL)]
    );
    assert_eq!(
        of(0b010, 0b100, &[less]),
        [Other(less), Done(INVALIDATE), Rejected(GENERAL)]
    );
    assert_eq!(
        of(0b001, 0, &[]),
        [Done(LARGE), Rejected(INVALIDATE), Rejected(GENERAL)],
        "left out"
    );
    assert_eq!(
        of(0b011, 0b001, &[])[0],
        Rejected(LARGE),
        "done and rejected"
    );
    assert_eq!(
        of(0b001, 0, &[less])[0],
        Rejected(LARGE),
        "done and another value"
    );
    assert_eq!(of(0, 0, &[less, less])[0], Rejected(LARGE), "two values");
    assert_eq!(
        of(0b111, 0, &[UNKNOWN]),
        want.map(Done),
        "a value that nobody asked for"
    );
}

proptest! {
    /// A bit of a subset does not depend on the others.
    // spec: xc3-2.1-p, xc3-2.1-q
    #[test]
    fn subset_has_one_bit_for_each_position(words: [u32; 3], position in 0usize..200) {
        let expected = words.get(position / 32).is_some_and(|word| word & (1 << (position % 32)) != 0);
        prop_assert_eq!(in_subset(&(&words[..]).into(), position), expected);
    }

    /// Any set gives an error and no change, or known values.
    #[test]
    fn any_set_is_applied_or_refused(values in proptest::collection::vec((0u32..6, proptest::collection::vec(0u8..3, 0..9)), 0..6), nochg: u32) {
        let start: Vec<_> = values.iter().map(|(which, data)| Propval { which: *which, data }).collect();
        let (mut peer, verdict) = connected(&start, &[nochg]);
        prop_assert_eq!(verdict.is_ok(), start.iter().all(|value| BasicProperty::from_propval(value).is_ok()));
        let before = peer.clone();
        if updated(&mut peer, &start).is_err() {
            prop_assert_eq!(peer, before);
        }
    }
}

/// Our answer, as the peer decodes it.
fn answered(
    want: &[Propval<'_>],
    decide: impl FnMut(BasicProperty) -> Decision,
) -> Vec<&'static str> {
    let request = Reqprop { want: want.into() };
    let answer =
        PropertyResponse::answering(&request, PropertySupport::PROPERTIES, decide).unwrap();
    answer.with_properties(|response| {
        let found = dispositions(&request, &response).map(|found| match found {
            Disposition::Done(_) => "done",
            Disposition::Rejected(_) => "rejected",
            Disposition::Other(_) => "other",
            Disposition::Pending(_) => "pending",
        });
        found.collect()
    })
}

/// A change for which the answer has no bit is not made: there are 256.
#[test]
fn a_change_that_cannot_be_answered_is_not_made() {
    for (before, made) in [(255, 1), (256, 0)] {
        let mut want = std::vec![UNKNOWN; before];
        want.push(LARGE);
        let mut asked = 0;
        let found = answered(&want, |_| {
            asked += 1;
            Decision::Accept
        });
        assert_eq!((asked, found.len()), (made, before + 1));
        let last = if made == 1 { "done" } else { "rejected" };
        assert_eq!(found.last(), Some(&last));
    }
}

// spec: xc3-3-j, xc3-3-k, xc3-3-l, xc3-4.2-d, xc3-4.2-e, xc3-4.3-f, xc3-4.3-g, xc3-4.3-h
#[test]
fn every_requested_change_is_answered() {
    let want = [UNKNOWN, LARGE, INVALIDATE, GENERAL];
    assert_eq!(
        answered(&want, |_| Decision::Accept),
        ["rejected", "done", "done", "done"]
    );
    assert_eq!(answered(&want, |_| Decision::Reject), ["rejected"; 4]);
    assert_eq!(
        answered(&want, |_| Decision::Defer),
        ["rejected"; 4],
        "there is no other word for it"
    );
    let mixed = |wanted| match wanted {
        BasicProperty::ReceiveBufferSize(_) => {
            Decision::Substitute(BasicProperty::ReceiveBufferSize(5000))
        }
        BasicProperty::RemoteInvalidation(_) => Decision::Reject,
        BasicProperty::BackwardSupport(_) => Decision::Accept,
    };
    assert_eq!(
        answered(&want, mixed),
        ["rejected", "other", "rejected", "done"]
    );
    assert!(answered(&[], |_| Decision::Accept).is_empty());
}

/// Section 4.3: no change is in two lists, and no value is of a property that was not requested.
// spec: xc3-4.3-k, xc3-4.3-m
#[test]
fn no_change_is_answered_twice_or_unrequested() {
    let mut asked = 0;
    let decide = |_| {
        asked += 1;
        Decision::Substitute(BasicProperty::ReceiveBufferSize(5000))
    };
    assert_eq!(
        answered(&[LARGE, LARGE, INVALIDATE], decide),
        ["other", "rejected", "rejected"]
    );
    assert_eq!(asked, 2);
    let wrong = Propval {
        data: &[1],
        ..LARGE
    };
    assert!(
        PropertyResponse::answering(
            &Reqprop {
                want: (&[GENERAL, wrong]).into()
            },
            PropertySupport::PROPERTIES,
            |_| { Decision::Accept }
        )
        .is_err()
    );
    // More than there are bits for are rejected, the last of them without a word.
    let many: Vec<_> = std::iter::repeat_n(UNKNOWN, 300).chain([LARGE]).collect();
    assert_eq!(
        answered(&many, |_| panic!("nobody could be told")),
        std::vec!["rejected"; 301]
    );
}
