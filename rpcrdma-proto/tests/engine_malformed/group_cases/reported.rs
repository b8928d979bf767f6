//! Results that are not as they were directed, reports of broken groups, and what an end does not
//! take.

use rpcrdma_proto::continuation::OperationSet;

use super::{BADCONT, BADHMT, BADPL, BADSEQ, NOTHING, client, group, one};
use crate::cases::{Case, NONE, SEGMENT, case, offered};
use crate::pair::key;
use crate::raw::{
    At, CALL, NO_ITEM, REPLY, REPTERR, TOO_SHORT, Transmission, call, operation, report, request,
    response,
};

/// Results that are not as they were directed (table 2).
pub(super) fn results() -> Vec<Case> {
    vec![
        case("a result in memory, where it was to be placed", |to| {
            one(&response(to.result).item(8, 4096, At::Memory(vec![SEGMENT])))
        }),
        case("a result of more bytes than it may have", |to| {
            let item = At::Targets(0, vec![0]);
            one(&Transmission {
                data: 60_004,
                ..response(to.result).item(8, 60_004, item)
            })
        }),
        case("a reply without the result that was directed", |to| {
            one(&response(to.result))
        }),
        case("a reply with a result more than were directed", |to| {
            let first = response(to.result).item(8, 4, At::Type(TOO_SHORT));
            one(&first.item(0, 0, At::Type(NO_ITEM)))
        }),
        case("a result, where none was directed", |to| {
            one(&Transmission {
                data: 64,
                ..response(to.plain).item(8, 64, At::Targets(0, vec![0]))
            })
        }),
        case(
            "a result that was placed, where it was to be written",
            |to| {
                client(to, || {
                    one(&Transmission {
                        data: 64,
                        ..response(to.written).item(8, 64, At::Targets(0, vec![0]))
                    })
                })
            },
        ),
        case("a result written to other memory", |to| {
            client(to, || {
                one(&response(to.written).item(8, 4096, At::Memory(vec![SEGMENT])))
            })
        }),
        case(
            "a result written to more segments than were offered",
            |to| {
                client(to, || {
                    one(&response(to.written).item(
                        8,
                        8,
                        At::Memory(vec![offered(to.written, 4); 2]),
                    ))
                })
            },
        ),
        case(
            "a result written with another length than its memory tells",
            |to| {
                client(to, || {
                    one(&response(to.written).item(8, 8, At::Memory(vec![offered(to.written, 12)])))
                })
            },
        ),
        case("a result written with more bytes than were offered", |to| {
            client(to, || {
                one(&response(to.written).item(
                    8,
                    2_000_001,
                    At::Memory(vec![offered(to.written, 2_000_001)]),
                ))
            })
        }),
    ]
}

/// Reports of broken groups.
pub(super) fn reports() -> Vec<Case> {
    vec![
        case("`ROPT_REPTERR` cut off", |to| {
            Some(vec![operation(
                to,
                to.plain,
                REPLY,
                REPTERR,
                &[to.plain, CALL, 0, 0, BADSEQ, 1],
            )])
        }),
        case("`ROPT_REPTERR` of an unknown error", |to| {
            Some(vec![report(REPLY, [to.plain, CALL, 0], None, &[9])])
        }),
        case("`ROPT_REPTERR` of an unknown direction", |to| {
            Some(vec![report(REPLY, [to.plain, 2, 0], None, NOTHING)])
        }),
        case("`ROPT_REPTERR` with bytes behind", |to| {
            Some(vec![report(
                REPLY,
                [to.plain, CALL, 0],
                None,
                &[BADCONT, 0],
            )])
        }),
        case("`ROPT_REPTERR` with an RPC message", |to| {
            let report = report(REPLY, [to.plain, CALL, 0], None, NOTHING);
            Some(vec![
                [report, crate::pair::words(&[to.plain, REPLY])].concat(),
            ])
        }),
        case("`ROPT_REPTERR` about no call", |_| {
            Some(vec![report(REPLY, [NONE, CALL, 0], None, NOTHING)])
        }),
        case(
            "`ROPT_REPTERR` about the call of the other direction",
            |to| Some(vec![report(REPLY, [to.given, CALL, 0], None, NOTHING)]),
        ),
        case("`ROPT_REPTERR` about an open call", |to| {
            Some(vec![report(
                REPLY,
                [to.plain, CALL, 0],
                None,
                &[BADPL, 41, 0, 40],
            )])
        }),
        case("`ROPT_REPTERR` about an open call, twice", |to| {
            Some(vec![report(REPLY, [to.plain, CALL, 0], None, NOTHING); 2])
        }),
        case(
            "`ROPT_REPTERR` about a call that goes by other means already, which came between \
            others",
            |to| {
                let between = report(REPLY, [to.plain, CALL, 0], None, &[BADHMT, 5, 0]);
                Some(vec![
                    report(REPLY, [to.plain, CALL, 0], None, NOTHING),
                    between,
                ])
            },
        ),
        case(
            "`ROPT_REPTERR` about an open call, led to by another",
            |to| {
                let lead = Some([to.result, CALL, 0]);
                Some(vec![report(
                    REPLY,
                    [to.plain, CALL, 0],
                    lead,
                    &[BADHMT, 5, 0],
                )])
            },
        ),
        case("`ROPT_REPTERR` about a reply that is kept", |to| {
            Some(vec![report(
                CALL,
                [to.kept, REPLY, 1],
                Some([to.kept, REPLY, 0]),
                &[BADSEQ, 1, 2],
            )])
        }),
        case("`ROPT_REPTERR` about a reply that is kept, twice", |to| {
            Some(vec![
                report(CALL, [to.kept, REPLY, 1], None, &[BADSEQ, 1, 2]);
                2
            ])
        }),
        case(
            "`ROPT_REPTERR` about a reply that is kept and one that is not",
            |to| {
                let lead = Some([to.kept, REPLY, 0]);
                Some(vec![report(CALL, [NONE, REPLY, 0], lead, &[BADHMT, 5, 0])])
            },
        ),
        case("`ROPT_REPTERR` about a reply that is not kept", |_| {
            Some(vec![report(CALL, [NONE, REPLY, 0], None, NOTHING)])
        }),
        case(
            "`ROPT_REPTERR` about the reply to a call that is being served",
            |to| Some(vec![report(CALL, [to.given, REPLY, 0], None, NOTHING)]),
        ),
    ]
}

/// Operations that the end does not take.
pub(super) fn capabilities() -> Vec<Case> {
    let lacking = |lacks, case| Case { lacks, ..case };
    vec![
        lacking(
            OperationSet::REQUESTS,
            case("`ROPT_XMTREQ`, where it is not taken", |_| {
                one(&request(NONE))
            }),
        ),
        lacking(
            OperationSet::RESPONSES,
            case("`ROPT_XMTRESP`, where it is not taken", |to| {
                one(&response(to.plain))
            }),
        ),
        lacking(
            OperationSet::CONTINUATIONS,
            case("`ROPT_XMTCONT`, where it is not taken", |_| {
                one(&request(NONE).more(1))
            }),
        ),
        lacking(
            OperationSet::CONTINUATIONS,
            case(
                "a call in two transmissions, where `ROPT_XMTCONT` is not taken",
                |_| Some(group(&request(NONE), 2)),
            ),
        ),
        lacking(
            OperationSet::CONTINUATIONS,
            case(
                "a call in two transmissions, where `ROPT_XMTCONT` is not taken, and another call",
                |to| {
                    let mut messages = group(&request(NONE), 2);
                    messages.push(call(to, NONE + 1).bytes());
                    Some(messages)
                },
            ),
        ),
        lacking(
            OperationSet::CONTINUATIONS,
            case(
                "a reply in two transmissions, where `ROPT_XMTCONT` is not taken",
                |to| Some(group(&response(to.long), 2)),
            ),
        ),
        lacking(
            OperationSet::ALL,
            case(
                "`ROPT_REPTERR` about an open call, where no operation is taken",
                |to| Some(vec![report(REPLY, [to.plain, CALL, 0], None, NOTHING)]),
            ),
        ),
    ]
}

/// Send With Invalidate where it must not be.
pub(super) fn invalidation() -> Vec<Case> {
    vec![
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("`ROPT_XMTREQ` that invalidates", |_| one(&request(NONE)))
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("`ROPT_REPTERR` that invalidates, `CALL`", |to| {
                Some(vec![report(CALL, [to.kept, REPLY, 0], None, &[BADCONT])])
            })
        },
        Case {
            invalidates: Some(|to| key(to.written, 1)),
            ..case("`ROPT_REPTERR` that invalidates, `REPLY`", |to| {
                Some(vec![report(REPLY, [to.written, CALL, 0], None, &[BADCONT])])
            })
        },
        Case {
            invalidates: Some(|to| key(to.written, 1)),
            ..case("`ROPT_XMTRESP` that invalidates another key", |to| {
                one(&response(to.plain))
            })
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("`ROPT_XMTRESP` to no call that invalidates", |_| {
                one(&response(NONE))
            })
        },
        Case {
            invalidates: Some(|to| key(to.written, 1)),
            ..case("`ROPT_XMTRESP` cut off, which invalidates", |to| {
                client(to, || Some(vec![response(to.written).cut()]))
            })
        },
        Case {
            invalidates: Some(|to| key(to.written, 1)),
            ..case("`ROPT_XMTRESP` that invalidates, and is broken", |to| {
                client(to, || {
                    one(&Transmission {
                        section: Some(2),
                        ..response(to.written)
                    })
                })
            })
        },
        Case {
            invalidates: Some(|to| key(to.long, 1)),
            ..case("`ROPT_XMTCONT` of nothing, which invalidates", |to| {
                one(&response(to.long).more(1))
            })
        },
        Case {
            invalidates: Some(|to| key(to.written, 1)),
            ..case(
                "`ROPT_XMTRESP` that invalidates, is refused, and goes on",
                |to| client(to, || Some(group(&response(to.written), 2))),
            )
        },
        Case {
            invalidates: Some(|to| key(to.written, 1)),
            ..case(
                "`ROPT_XMTRESP` that invalidates, and waits, and then another message",
                |to| {
                    client(to, || {
                        Some(vec![
                            response(to.long).of(2).bytes(),
                            response(to.plain).bytes(),
                        ])
                    })
                },
            )
        },
    ]
}
