//! The differences of transport characteristics (xcharext-02).

use std::vec::Vec;

use super::*;
use crate::property::{
    Decision, Disposition, PeerProperties, PropertyResponse, PropertyValues,
    characteristic_dispositions,
};
use crate::v2::characteristics::{Initxch, Reqxch, Xcharval};
use crate::v2::properties::{Connprop, Reqprop, Updprop};
use crate::xdr::Encode;

const SIZE: Propval<'_> = Propval {
    which: PROP_RBSIZ,
    data: &[0, 0, 0x20, 0],
};
const INVALIDATE: Propval<'_> = Propval {
    which: PROP_REQREMINV,
    data: &[0, 0, 0, 1],
};
const SUPPORT: Propval<'_> = Propval {
    which: PROP_BRS,
    data: &[0, 0, 0, 2],
};
const UNKNOWN: Propval<'_> = Propval {
    which: 0xffff_ff77,
    data: &[],
};

fn connected(support: PropertySupport, start: &[Propval<'_>]) -> (PeerProperties, xdr::Result<()>) {
    let mut peer = PeerProperties::with_support(support);
    let verdict = peer.connected(&Connprop {
        start: start.into(),
        nochg: (&[]).into(),
    });
    (peer, verdict)
}

/// Known properties of both drafts apply, and unknown ones are ignored.
// spec: xc2-2.1-a, xc2-2.1-b, xc2-2.1-g, xc2-2.1-h, xc2-2.1-i, xc2-2.1-j, xc2-3-a, xc2-3-b, xc2-3-c
// spec: xc2-3-d
// spec: xc2-4.1-h, xc2-4.1-i, xc2-4.4-a, xc2-4.4-f, xc2-4.3-d
#[test]
fn characteristics_decode_as_properties() {
    assert_eq!(
        *PeerProperties::with_support(PropertySupport::CHARACTERISTICS).values(),
        PropertyValues::DEFAULT
    );
    for support in [
        PropertySupport::CHARACTERISTICS,
        PropertySupport::PROPERTIES,
    ] {
        for start in [
            [UNKNOWN, SIZE, INVALIDATE, SUPPORT],
            [SUPPORT, INVALIDATE, SIZE, UNKNOWN],
        ] {
            let (mut peer, verdict) = connected(support, &start);
            assert_eq!((verdict, peer.values().receive_buffer_size), (Ok(()), 8192));
            assert!(
                peer.values().remote_invalidation && peer.values().backward_support.value() == 2
            );
            let now = [Propval {
                data: &[0, 0, 0x30, 0],
                ..SIZE
            }];
            assert_eq!(peer.on_updprop(&Updprop { now: (&now).into() }), Ok(()));
            assert_eq!(peer.values().receive_buffer_size, 12_288);
            peer.on_changed(BasicProperty::ReceiveBufferSize(4096));
            assert_eq!(peer.values().receive_buffer_size, 4096);
        }
    }
}

/// The announcement and the request have the same bytes in both drafts.
// spec: xc2-4.1-a, xc2-4.2-c
#[test]
fn start_and_request_have_the_same_bytes() {
    let [size, support] = [SIZE, SUPPORT].map(|Propval { which, data }| Xcharval { which, data });
    let (start, want) = ([size, support], [support]);
    let initxch = Initxch {
        start: (&start).into(),
        nochg: (&[2, 1]).into(),
    };
    let connprop = Connprop {
        start: (&[SIZE, SUPPORT]).into(),
        nochg: (&[2, 1]).into(),
    };
    assert_eq!(initxch.encode_to_vec(), connprop.encode_to_vec());
    let reqxch = Reqxch {
        want: (&want).into(),
    };
    assert_eq!(
        reqxch.encode_to_vec(),
        Reqprop {
            want: (&[SUPPORT]).into()
        }
        .encode_to_vec()
    );
}

/// No bytes are no default, but an error, for each value that is known and no other.
// spec: xc2-2.1-c, xc2-2.1-e, xc2-2.1-f
#[test]
fn empty_value_is_an_error() {
    for (support, known) in [
        (PropertySupport::CHARACTERISTICS, 3),
        (
            PropertySupport {
                rtr: true,
                ..PropertySupport::CHARACTERISTICS
            },
            CODES.len(),
        ),
    ] {
        for (position, code) in CODES.into_iter().enumerate() {
            let empty = Propval {
                which: code,
                data: &[],
            };
            let is_error = position < known;
            let (mut peer, verdict) = connected(support, &[SIZE, empty]);
            assert_eq!(verdict.is_err(), is_error, "{code} at the beginning");
            let before = peer.clone();
            assert_eq!(
                peer.on_updprop(&Updprop {
                    now: (&[empty]).into()
                })
                .is_err(),
                is_error,
                "{code} in an update"
            );
            assert_eq!(peer, before, "nothing is taken over");
            let want = [empty];
            let request = Reqprop {
                want: (&want).into(),
            };
            assert_eq!(
                PropertyResponse::answering(&request, support, |_| Decision::Accept).is_err(),
                is_error,
                "{code} in a request"
            );
            let of_properties = PropertySupport {
                empty_is_default: true,
                ..support
            };
            assert!(
                PropertyResponse::answering(&request, of_properties, |_| Decision::Accept).is_ok()
            );
        }
    }
    let (peer, verdict) = connected(
        PropertySupport::CHARACTERISTICS,
        &[Propval {
            data: &[0, 0, 0, 3],
            ..SUPPORT
        }],
    );
    assert_eq!(
        (verdict.unwrap_err().kind(), *peer.values()),
        (ErrorKind::InvalidEnum, PropertyValues::DEFAULT)
    );
    let (_, verdict) = connected(
        PropertySupport::CHARACTERISTICS,
        &[Propval {
            data: &[0, 0, 1],
            ..SIZE
        }],
    );
    assert_eq!(verdict.unwrap_err().kind(), ErrorKind::UnexpectedEnd);
}

/// Each change that is asked for is in one of the three subsets.
// spec: xc2-2.1-k, xc2-2.1-l, xc2-2.1-m, xc2-2.1-n, xc2-3-f, xc2-3-g, xc2-3-h, xc2-4.2-b, xc2-4.2-c
// spec: xc2-4.3-c, xc2-4.3-e
// spec: xc2-4.3-f, xc2-4.3-g, xc2-4.3-h, xc2-4.3-i, xc2-4.3-l
#[test]
fn changes_are_made_rejected_or_pending() {
    let want = [UNKNOWN, SIZE, INVALIDATE, SUPPORT, SIZE];
    let request = Reqprop {
        want: (&want).into(),
    };
    let answer =
        PropertyResponse::answering(&request, PropertySupport::CHARACTERISTICS, |wanted| {
            match wanted {
                BasicProperty::ReceiveBufferSize(_) => Decision::Defer,
                BasicProperty::RemoteInvalidation(_) => Decision::Accept,
                // There is no place for it.
                BasicProperty::BackwardSupport(_) => Decision::Substitute(wanted),
            }
        });
    answer.unwrap().with_characteristics(|response| {
        let subsets = [response.done, response.rej, response.pend]
            .map(|subset| subset.iter().collect::<Vec<_>>());
        assert_eq!(subsets, [[0b0_0100], [0b1_1001], [0b0_0010]]);
        let found: Vec<_> = characteristic_dispositions(&request, &response).collect();
        let [unknown, size, invalidate, support, again] = want;
        let expected = [
            Disposition::Rejected(unknown),
            Disposition::Pending(size),
            Disposition::Done(invalidate),
            Disposition::Rejected(support),
            Disposition::Rejected(again),
        ];
        assert_eq!(found, expected);
    });
}

/// A subset may have fewer words than another: those that it lacks are zero.
// spec: xc2-2.1-n
#[test]
fn missing_words_of_a_subset_are_zero() {
    let response = crate::v2::characteristics::Respxch {
        done: (&[0, 1]).into(),
        rej: (&[0]).into(),
        pend: (&[]).into(),
    };
    let want = [SIZE; 33];
    let request = Reqprop {
        want: (&want).into(),
    };
    let found: Vec<_> = characteristic_dispositions(&request, &response).collect();
    assert_eq!(found[32], Disposition::Done(SIZE));
    assert_eq!(found[..32], [Disposition::Rejected(SIZE); 32]);
}

/// A change with no outcome, or with two, counts as rejected.
// spec: xc2-4.3-l
#[test]
fn missing_or_repeated_outcome_is_a_rejection() {
    for (done, rej, pend) in [
        (0, 0, 0),
        (1, 1, 0),
        (1, 0, 1),
        (0, 1, 1),
        (1, 1, 1),
        (2, 0, 2),
    ] {
        let (done, rej, pend) = ([done], [rej], [pend]);
        let response = crate::v2::characteristics::Respxch {
            done: (&done).into(),
            rej: (&rej).into(),
            pend: (&pend).into(),
        };
        let want = [SIZE];
        let request = Reqprop {
            want: (&want).into(),
        };
        let found: Vec<_> = characteristic_dispositions(&request, &response).collect();
        assert_eq!(found, [Disposition::Rejected(SIZE)]);
    }
}
