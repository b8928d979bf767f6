use proptest::prelude::*;
use std::vec::Vec;

use super::*;
use crate::placement::BufferSegment;
use crate::property::{BasicProperty, PeerProperties, PropertySupport};
use crate::v2::properties::{Connprop, PROP_RBSIZ, Updprop};

const RTR: PropertySupport = PropertySupport {
    rtr: true,
    ..PropertySupport::PROPERTIES
};
const SUPPORT: Propval<'_> = Propval {
    which: XPROP_RTRSUPP,
    data: &[0, 0, 0, 5],
};
const REQUESTS: Propval<'_> = Propval {
    which: XPROP_REQRXLIM,
    data: &[0, 0, 0, 9],
};
const RESPONSES: Propval<'_> = Propval {
    which: XPROP_RESPSXLIM,
    data: &[0, 0, 0, 7],
};
/// 4096 bytes, and 8192 for bulk data.
const STRUCTURED: Propval<'_> = Propval {
    which: XPROP_RBSTRUCT,
    data: &[
        0, 0, 0x30, 0, 0, 0, 0, 2, //
        0, 0, 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, //
        0, 0, 0, 1, 0, 0, 0x20, 0, 0, 0, 0x10, 0, 0, 0, 0, 1,
    ],
};
const ALL: [Propval<'_>; CAPABILITIES] = [SUPPORT, STRUCTURED, REQUESTS, RESPONSES];

fn structure() -> BufferStructure {
    let head = BufferSegment {
        length: 4096,
        align: 0,
        target: false,
    };
    let bulk = BufferSegment {
        length: 8192,
        align: 4096,
        target: true,
    };
    BufferStructure::new(&[head, bulk]).unwrap()
}

fn abilities() -> RtrCapabilities {
    let operations = Some(OperationSet::REQUESTS.union(OperationSet::CONTINUATIONS));
    RtrCapabilities {
        operations,
        structure: Some(structure()),
        request_limit: 9,
        response_limit: 7,
    }
}

fn size(size: &[u8; 4]) -> Propval<'_> {
    Propval {
        which: PROP_RBSIZ,
        data: size,
    }
}

fn connected(start: &[Propval<'_>], nochg: &[u32]) -> (PeerProperties, xdr::Result<()>) {
    let mut peer = PeerProperties::with_support(RTR);
    let verdict = peer.connected(&Connprop {
        start: start.into(),
        nochg: nochg.into(),
    });
    (peer, verdict)
}

fn updated(peer: &mut PeerProperties, now: &[Propval<'_>]) -> xdr::Result<()> {
    peer.on_updprop(&Updprop { now: now.into() })
}

// spec: rtr-8.1-a, rtr-8.1-b, rtr-8.1-c, rtr-8.3-a, rtr-8.3-e
#[test]
fn announced_capabilities_are_applied() {
    abilities().with_xdr(|told| assert_eq!(told, ALL));
    let (peer, verdict) = connected(&ALL, &[]);
    assert_eq!((*peer.capabilities(), verdict), (abilities(), Ok(())));
    assert_eq!(
        peer.values().receive_buffer_size,
        12_288,
        "what the segments have together"
    );
    assert!(ALL.iter().all(|value| peer.may_change(value.which)));
    let plain = RtrCapabilities {
        structure: None,
        ..abilities()
    };
    plain.with_xdr(|told| assert_eq!(told, [SUPPORT, REQUESTS, RESPONSES]));
    RtrCapabilities::DEFAULT
        .with_xdr(|told| assert_eq!(told.len(), 2, "of the operations nothing is told"));
}

/// As many segments as there may be, each unlike the one before.
#[test]
fn longest_structure_is_announced() {
    let segment = |at: u32| BufferSegment {
        length: 4096,
        align: at,
        target: at % 2 == 1,
    };
    let segments: Vec<_> = (0..).map(segment).take(MAX_BUFFER_SEGMENTS).collect();
    let structure = Some(BufferStructure::new(&segments).unwrap());
    RtrCapabilities {
        structure,
        ..RtrCapabilities::DEFAULT
    }
    .with_xdr(|told| {
        assert_eq!(told[0].data.len(), MAX_STRUCTURE_LEN);
        assert_eq!(connected(told, &[]).0.capabilities().structure, structure);
    });
}

// spec: rtr-8.1-d, rtr-8.1-e, rtr-8.1-f, rtr-8.1-g, rtr-8.1-h
#[test]
fn silent_peer_has_the_defaults() {
    let peer = PeerProperties::with_support(RTR);
    assert_eq!(
        *peer.capabilities(),
        RtrCapabilities {
            operations: None,
            structure: None,
            request_limit: 1,
            response_limit: 1
        }
    );
    assert!(ALL.iter().all(|value| !peer.may_change(value.which)));
    // An empty value is also the default, but it announces that no operation is accepted.
    let (mut peer, _) = connected(&ALL, &[]);
    updated(&mut peer, &ALL.map(|value| Propval { data: &[], ..value })).unwrap();
    assert_eq!(
        *peer.capabilities(),
        RtrCapabilities {
            operations: Some(OperationSet::NONE),
            ..RtrCapabilities::DEFAULT
        }
    );
    assert_eq!(peer.values().receive_buffer_size, 4096);
}

/// An end without rtrext-02 ignores its properties, with any content.
#[test]
fn capabilities_are_unknown_without_rtrext() {
    let mut peer = PeerProperties::new();
    let wrong = Propval {
        data: &[1],
        ..REQUESTS
    };
    peer.connected(&Connprop {
        start: (&[STRUCTURED, SUPPORT, wrong]).into(),
        nochg: (&[]).into(),
    })
    .unwrap();
    updated(&mut peer, &[RESPONSES]).unwrap();
    assert_eq!(
        (*peer.capabilities(), peer.ignored()),
        (RtrCapabilities::DEFAULT, 0)
    );
    assert_eq!(peer.values().receive_buffer_size, 4096);
}

#[test]
fn malformed_capability_invalidates_the_message() {
    let sum = [&[0, 0, 0x31][..], &STRUCTURED.data[3..]].concat();
    let cases: [(Propid, &[u8], ErrorKind); 9] = [
        (XPROP_RTRSUPP, &[0, 0, 5], ErrorKind::UnexpectedEnd),
        (
            XPROP_RTRSUPP,
            &[0, 0, 0, 5, 0, 0, 0, 0],
            ErrorKind::TrailingBytes,
        ),
        (
            XPROP_RBSTRUCT,
            &STRUCTURED.data[..36],
            ErrorKind::UnexpectedEnd,
        ),
        (
            XPROP_RBSTRUCT,
            &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            ErrorKind::ElementLimit,
        ),
        (XPROP_RBSTRUCT, &sum, ErrorKind::TooLong),
        (XPROP_REQRXLIM, &[0], ErrorKind::UnexpectedEnd),
        (XPROP_REQRXLIM, &[0; 4], ErrorKind::InvalidEnum),
        (XPROP_RESPSXLIM, &[0; 4], ErrorKind::InvalidEnum),
        (XPROP_RESPSXLIM, &[0; 5], ErrorKind::TrailingBytes),
    ];
    for (which, data, kind) in cases {
        let wrong = Propval { which, data };
        let (peer, verdict) = connected(&[SUPPORT, wrong], &[]);
        assert_eq!(
            (verdict.unwrap_err().kind(), peer),
            (kind, PeerProperties::with_support(RTR)),
            "nothing is taken over"
        );
        let (mut peer, _) = connected(&ALL, &[]);
        let before = peer.clone();
        let less = Propval {
            data: &[0, 0, 0, 1],
            ..SUPPORT
        };
        assert_eq!(updated(&mut peer, &[less, wrong]).unwrap_err().kind(), kind);
        assert_eq!(peer, before);
    }
}

#[test]
fn fixed_properties_do_not_change() {
    let (mut peer, _) = connected(
        &[
            SUPPORT,
            REQUESTS,
            Propval {
                data: &[0, 0, 0, 2],
                ..REQUESTS
            },
        ],
        &[0b010],
    );
    assert_eq!(
        peer.capabilities().request_limit,
        9,
        "the first value counts"
    );
    let more = [SUPPORT, REQUESTS, RESPONSES].map(|value| Propval {
        data: &[0, 0, 0, 4],
        ..value
    });
    updated(&mut peer, &more).unwrap();
    let operations = Some(OperationSet::CONTINUATIONS);
    assert_eq!(
        *peer.capabilities(),
        RtrCapabilities {
            operations,
            request_limit: 9,
            ..RtrCapabilities::DEFAULT
        }
    );
    assert_eq!(peer.ignored(), 2, "one stays, and one was not named");
}

/// The size and the structure, for a peer that announced one, both or neither.
// spec: rtr-8.1-i, rtr-8.1-j, rtr-8.3-b, rtr-8.3-c, rtr-8.3-d, rtr-8.3-e
#[test]
fn size_and_structure_are_reconciled() {
    let plain = Propval {
        data: &[
            0, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        ..STRUCTURED
    };
    let cases: [(&[Propval<'_>], u32, bool); 7] = [
        (&[], 4096, false),
        (&[size(&[0, 0, 0x20, 0])], 8192, false),
        (&[STRUCTURED], 12_288, true),
        (&[plain], 8192, false),
        (&[size(&[0, 0, 0x30, 0]), STRUCTURED], 12_288, true),
        (&[STRUCTURED, size(&[0, 0, 0x20, 0])], 8192, false),
        (&[size(&[0, 0, 0x40, 0]), STRUCTURED], 12_288, false),
    ];
    for (told, length, is_structured) in cases {
        let expected = (length, is_structured.then(structure));
        let found = |peer: &PeerProperties| {
            (
                peer.values().receive_buffer_size,
                peer.capabilities().structure,
            )
        };
        assert_eq!(found(&connected(told, &[]).0), expected, "{told:?}");
        let mut peer = connected(&[size(&[0, 0, 0x10, 0]), plain], &[]).0;
        assert_eq!(found(&peer), (4096, None));
        let size = told.iter().find(|value| value.which == PROP_RBSIZ);
        let structured = told.iter().find(|value| value.which == XPROP_RBSTRUCT);
        if let (Some(size), Some(structured)) = (size, structured) {
            updated(&mut peer, &[*structured, *size]).unwrap();
            assert_eq!(found(&peer), expected, "an update to {told:?}");
        }
    }
}

/// One after the other they may be updated, and agree in the end.
// spec: rtr-8.3-b
#[test]
fn updates_of_size_and_structure_are_reconciled() {
    let (mut peer, _) = connected(&[STRUCTURED, size(&[0, 0, 0x30, 0])], &[]);
    peer.on_changed(BasicProperty::ReceiveBufferSize(8192));
    assert_eq!(
        (
            peer.values().receive_buffer_size,
            peer.capabilities().structure
        ),
        (8192, None)
    );
    updated(&mut peer, &[size(&[0, 0, 0x30, 0])]).unwrap();
    assert_eq!(
        (
            peer.values().receive_buffer_size,
            peer.capabilities().structure
        ),
        (12_288, Some(structure()))
    );
}

proptest! {
    /// Any set gives an error and no change, or consistent values.
    #[test]
    fn any_set_is_applied_or_refused(
        values in proptest::collection::vec((0u32..8, proptest::collection::vec(prop::sample::select(&[0u8, 0, 0, 1, 4][..]), 0..28)), 0..6),
        nochg: u32,
    ) {
        let code = |which| if which == 7 { XPROP_RTRSUPP } else { which };
        let start: Vec<_> = values.iter().map(|(which, data)| Propval { which: code(*which), data }).collect();
        let (mut peer, verdict) = connected(&start, &[nochg]);
        prop_assert_eq!(verdict.is_ok(), start.iter().all(|one| BasicProperty::from_propval(one).is_ok() && RtrCapability::from_propval(one).is_ok()));
        let before = peer.clone();
        if updated(&mut peer, &start).is_err() {
            prop_assert_eq!(&peer, &before);
        }
        let RtrCapabilities { structure, request_limit, response_limit, .. } = *peer.capabilities();
        prop_assert!(request_limit > 0 && response_limit > 0);
        prop_assert!(structure.is_none_or(|structure| structure.length() == peer.values().receive_buffer_size));
    }
}
