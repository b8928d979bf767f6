//! Invalid XDR, counts, and sections of the Payload stream.

use super::{BYSIZE, CHOICE, group, one};
use crate::cases::{Case, NONE, case};
use crate::raw::{
    At, CALL, NO_ITEM, REPLY, TOO_SHORT, Transmission, XMTREQ, fixed, request, response,
};

/// Invalid XDR, or a wrong direction of the operation.
pub(super) fn shapes() -> Vec<Case> {
    vec![
        case("`ROPT_XMTREQ` cut off", |_| Some(vec![request(NONE).cut()])),
        case("`ROPT_XMTREQ` with bytes behind", |_| {
            Some(vec![request(NONE).lengthened()])
        }),
        case("`ROPT_XMTREQ` with `REPLY`", |_| {
            one(&Transmission {
                direction: REPLY,
                ..request(NONE)
            })
        }),
        case("`ROPT_XMTREQ` of a direction that is neither", |_| {
            one(&Transmission {
                direction: 7,
                ..request(NONE)
            })
        }),
        case("`ROPT_XMTREQ` of more bytes than there are", |to| {
            Some(vec![fixed(to, NONE, 5, &[CALL, XMTREQ, 64, 0, 0])])
        }),
        case("`ROPT_XMTRESP` cut off", |to| {
            Some(vec![response(to.plain).cut()])
        }),
        case("`ROPT_XMTRESP` with bytes behind", |to| {
            Some(vec![response(to.plain).lengthened()])
        }),
        case("`ROPT_XMTRESP` with `CALL`", |_| {
            one(&Transmission {
                direction: CALL,
                ..response(NONE)
            })
        }),
        case("`ROPT_XMTCONT` cut off", |_| {
            Some(vec![request(NONE).more(1).cut()])
        }),
        case("`ROPT_XMTCONT` cut off, of a group", |_| {
            let first = request(NONE).of(2);
            Some(vec![first.bytes(), first.more(1).cut()])
        }),
        case(
            "`ROPT_XMTCONT` cut off, of another XID than the group that waits",
            |_| {
                Some(vec![
                    request(NONE).of(2).bytes(),
                    request(NONE + 1).more(1).cut(),
                ])
            },
        ),
        case("`ROPT_XMTCONT` with bytes behind", |_| {
            Some(vec![request(NONE).more(1).lengthened()])
        }),
        case("an item of an unknown type", |_| {
            one(&request(NONE).item(8, 4, At::Type(9)))
        }),
        case("an item of `XMPTYPE_CHOICE`", |_| {
            one(&request(NONE).item(8, 4, At::Type(CHOICE)))
        }),
        case("an item of `XMPTYPE_BYSIZE`", |_| {
            one(&request(NONE).item(8, 4, At::Type(BYSIZE)))
        }),
        case("an item of `XMPTYPE_CHOICE`, in a reply", |to| {
            one(&response(to.result).item(8, 4, At::Type(CHOICE)))
        }),
        case("a direction of `XMPTYPE_TOOSHORT`", |_| {
            one(&request(NONE).range(0, 40, &[&[0, TOO_SHORT]]))
        }),
        case("a direction of `XMPTYPE_NOITEM`", |_| {
            one(&request(NONE).range(0, 40, &[&[0, NO_ITEM]]))
        }),
    ]
}

/// Counts, and sections of the Payload stream.
pub(super) fn sections() -> Vec<Case> {
    vec![
        case("a count of zero", |_| one(&request(NONE).of(0))),
        case("a count above the limit", |_| {
            Some(group(&request(NONE), 9))
        }),
        case("a count that no message has", |_| {
            one(&request(NONE).of(u32::MAX))
        }),
        case("a reply with a count of zero", |to| {
            one(&response(to.plain).of(0))
        }),
        case("a section of more bytes than there are", |_| {
            one(&Transmission {
                section: Some(44),
                ..request(NONE)
            })
        }),
        case("a section of the most bytes that can be told", |_| {
            one(&Transmission {
                section: Some(u32::MAX),
                ..request(NONE)
            })
        }),
        case("a section that is no multiple of four", |_| {
            one(&Transmission {
                section: Some(38),
                ..request(NONE)
            })
        }),
        case(
            "a section of more bytes than there are, in a continuation",
            |_| {
                let first = request(NONE).of(2);
                Some(vec![
                    first.bytes(),
                    Transmission {
                        section: Some(20),
                        ..first.more(1)
                    }
                    .bytes(),
                ])
            },
        ),
        case("a section that is no multiple of four, in a reply", |to| {
            one(&Transmission {
                section: Some(22),
                ..response(to.plain)
            })
        }),
        case("no Payload stream", |_| {
            one(&Transmission {
                payload: Vec::new(),
                ..request(NONE)
            })
        }),
        case("four bytes of a Payload stream", |_| {
            one(&Transmission {
                payload: vec![NONE],
                ..request(NONE)
            })
        }),
        case("four bytes in all of a reply's Payload stream", |to| {
            one(&Transmission {
                payload: vec![to.plain],
                ..response(to.plain)
            })
        }),
        case("two transmissions without a Payload stream", |_| {
            let first = Transmission {
                payload: Vec::new(),
                ..request(NONE).of(2)
            };
            Some(vec![
                first.bytes(),
                Transmission {
                    payload: Vec::new(),
                    ..first.more(1)
                }
                .bytes(),
            ])
        }),
        case("an RPC message of another XID, in a call", |_| {
            one(&Transmission {
                payload: vec![NONE + 1, CALL],
                ..request(NONE)
            })
        }),
        case("an RPC reply in a call", |_| {
            one(&Transmission {
                payload: vec![NONE, REPLY],
                ..request(NONE)
            })
        }),
        case("an RPC message of another XID, in a reply", |to| {
            one(&Transmission {
                payload: vec![NONE, REPLY],
                ..response(to.plain)
            })
        }),
        case(
            "an RPC message of another XID, which begins in the second transmission",
            |_| {
                let first = Transmission {
                    payload: Vec::new(),
                    ..request(NONE).of(2)
                };
                let more = Transmission {
                    payload: vec![NONE + 1, CALL, 0, 0],
                    ..first.more(1)
                };
                Some(vec![first.bytes(), more.bytes()])
            },
        ),
        case(
            "an empty section before data, and the RPC message in the second transmission",
            |_| {
                let first = request(NONE).of(2).item(8, 64, At::Targets(0, vec![0]));
                let first = Transmission {
                    payload: Vec::new(),
                    data: 64,
                    ..first
                };
                Some(vec![
                    first.bytes(),
                    Transmission {
                        payload: request(NONE).payload,
                        ..first.more(1)
                    }
                    .bytes(),
                ])
            },
        ),
        case(
            "an RPC reply in a call, cut between its first two words",
            |_| {
                let first = Transmission {
                    payload: vec![NONE],
                    ..request(NONE).of(2)
                };
                let more = Transmission {
                    payload: vec![REPLY, 0, 0],
                    ..first.more(1)
                };
                Some(vec![first.bytes(), more.bytes()])
            },
        ),
    ]
}
