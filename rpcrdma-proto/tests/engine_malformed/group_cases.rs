//! The cases of rtrext-02.

use rpcrdma_proto::connection::Role;
use rpcrdma_proto::continuation::OperationSet;

use crate::To;
use crate::cases::{CONNPROP, Case, NONE, SEGMENT, UPDPROP, case, offered};
use crate::pair::key;
use crate::raw::{
    At, BULK, CALL, ERROR, NO_ITEM, REPLY, REPTERR, Raw, TOO_SHORT, Transmission, XMTREQ, XMTRESP,
    call, fixed, operation, reply, report, request, response,
};

/// Types of directions.
const EXRW: u32 = 1;
const TBSN: u32 = 2;
const CHOICE: u32 = 3;
const BYSIZE: u32 = 4;

/// Errors of ROPT_REPTERR.
const BADHMT: u32 = 1;
const BADCONT: u32 = 3;
const BADSEQ: u32 = 4;
const BADPL: u32 = 8;

/// A reason that tells nothing more.
const NOTHING: &[u32] = &[BADCONT];

type Messages = Option<Vec<Vec<u8>>>;

pub(crate) fn all() -> Vec<Case> {
    let all = [
        shapes(),
        sections(),
        placements(),
        items(),
        directions(),
        groups(),
        between(),
        replies(),
    ];
    all.into_iter()
        .chain([results(), reports(), abilities(), invalidation()])
        .flatten()
        .collect()
}

#[expect(clippy::unnecessary_wraps, reason = "as the cases want it")]
fn one(transmission: &Transmission) -> Messages {
    Some(vec![transmission.octets()])
}

/// A group of so many transmissions, all of them there.
fn group(first: &Transmission, count: u32) -> Vec<Vec<u8>> {
    let first = first.clone().of(count);
    let more = (1..count).map(|number| first.more(number).octets());
    [first.octets()].into_iter().chain(more).collect()
}

/// A call of two transmissions, and messages between them.
fn interrupted(by: &[Vec<u8>]) -> Messages {
    let mut messages = group(&request(NONE), 2);
    messages.splice(1..1, by.iter().cloned());
    Some(messages)
}

fn client(to: &To, messages: impl FnOnce() -> Messages) -> Messages {
    if to.role == Role::Client {
        messages()
    } else {
        None
    }
}

/// What does not conform to the XDR, or to the direction of its operation.
fn shapes() -> Vec<Case> {
    vec![
        case("`ROPT_XMTREQ` cut off", |_| Some(vec![request(NONE).cut()])),
        case("`ROPT_XMTREQ` with octets behind", |_| {
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
        case("`ROPT_XMTREQ` of more octets than there are", |to| {
            Some(vec![fixed(to, NONE, 5, &[CALL, XMTREQ, 64, 0, 0])])
        }),
        case("`ROPT_XMTRESP` cut off", |to| {
            Some(vec![response(to.plain).cut()])
        }),
        case("`ROPT_XMTRESP` with octets behind", |to| {
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
            Some(vec![first.octets(), first.more(1).cut()])
        }),
        case(
            "`ROPT_XMTCONT` cut off, of another XID than the group that waits",
            |_| {
                Some(vec![
                    request(NONE).of(2).octets(),
                    request(NONE + 1).more(1).cut(),
                ])
            },
        ),
        case("`ROPT_XMTCONT` with octets behind", |_| {
            Some(vec![request(NONE).more(1).lengthened()])
        }),
        case("an item of a type that there is not", |_| {
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
fn sections() -> Vec<Case> {
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
        case("a section of more octets than there are", |_| {
            one(&Transmission {
                section: Some(44),
                ..request(NONE)
            })
        }),
        case("a section of the most octets that can be told", |_| {
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
            "a section of more octets than there are, in a continuation",
            |_| {
                let first = request(NONE).of(2);
                Some(vec![
                    first.octets(),
                    Transmission {
                        section: Some(20),
                        ..first.more(1)
                    }
                    .octets(),
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
        case("four octets of a Payload stream", |_| {
            one(&Transmission {
                payload: vec![NONE],
                ..request(NONE)
            })
        }),
        case("four octets in all of a reply's Payload stream", |to| {
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
                first.octets(),
                Transmission {
                    payload: Vec::new(),
                    ..first.more(1)
                }
                .octets(),
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
                Some(vec![first.octets(), more.octets()])
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
                    first.octets(),
                    Transmission {
                        payload: request(NONE).payload,
                        ..first.more(1)
                    }
                    .octets(),
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
                Some(vec![first.octets(), more.octets()])
            },
        ),
    ]
}

/// Items that the Send places.
fn placements() -> Vec<Case> {
    vec![
        case("a target that there is not", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 64, At::Targets(0, vec![1]))
            })
        }),
        case("a target with the highest number", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 64, At::Targets(0, vec![u32::MAX]))
            })
        }),
        case("a target that has not come", |_| {
            one(&request(NONE).item(8, 64, At::Targets(0, vec![0])))
        }),
        case("a target of which less has come", |_| {
            one(&Transmission {
                data: 60,
                ..request(NONE).item(8, 64, At::Targets(0, vec![0]))
            })
        }),
        case("a target that holds the Payload stream", |_| {
            let long = Transmission {
                payload: vec![NONE; 1100],
                ..request(NONE)
            };
            let mut long = Transmission {
                data: 64,
                ..long.item(8, 64, At::Targets(0, vec![0]))
            };
            long.payload[1] = CALL;
            one(&long)
        }),
        case("a target of a transmission that has none of it", |_| {
            let first = request(NONE).of(2).item(8, 64, At::Targets(0, vec![1]));
            Some(vec![first.octets(), first.more(1).octets()])
        }),
        case("an offset beyond its target", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 4, At::Targets(BULK, vec![0]))
            })
        }),
        case("an offset that is no multiple of four", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 4, At::Targets(2, vec![0]))
            })
        }),
        case("an item longer than its targets", |_| {
            one(&Transmission {
                data: 65_536,
                ..request(NONE).item(8, BULK + 1, At::Targets(0, vec![0]))
            })
        }),
        case("an item without targets", |_| {
            one(&request(NONE).item(8, 64, At::Targets(0, vec![])))
        }),
        case("a target named twice by one item", |_| {
            let item = At::Targets(0, vec![0, 0]);
            one(&Transmission {
                data: 65_536,
                ..request(NONE).item(8, BULK + 4, item)
            })
        }),
        case("two items at the same octets of a target", |_| {
            let first = request(NONE).item(8, 64, At::Targets(0, vec![0]));
            one(&Transmission {
                data: 128,
                ..first.item(100, 64, At::Targets(32, vec![0]))
            })
        }),
        case("an item of the reply at a target that there is not", |to| {
            one(&Transmission {
                data: 64,
                ..response(to.result).item(8, 64, At::Targets(0, vec![1]))
            })
        }),
        case("an item of the reply at a target that has not come", |to| {
            one(&response(to.result).item(8, 64, At::Targets(0, vec![0])))
        }),
    ]
}

/// Where items belong, and what they are.
fn items() -> Vec<Case> {
    const AT: fn() -> At = || At::Targets(0, vec![0]);
    vec![
        case("an item at a position that is no multiple of four", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(6, 64, AT())
            })
        }),
        case("an item beyond the message", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(44, 64, AT())
            })
        }),
        case("an item in place of the RPC message's direction", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(4, 64, AT())
            })
        }),
        case("items out of order", |_| {
            let first = request(NONE).item(80, 8, AT());
            one(&Transmission {
                data: 64,
                ..first.item(8, 8, At::Targets(8, vec![0]))
            })
        }),
        case("items that overlap", |_| {
            let first = request(NONE).item(8, 8, AT());
            one(&Transmission {
                data: 64,
                ..first.item(12, 8, At::Targets(8, vec![0]))
            })
        }),
        case("an item of `XMPTYPE_TOOSHORT`, in a call", |_| {
            one(&request(NONE).item(8, 4, At::Type(TOO_SHORT)))
        }),
        case("an item of `XMPTYPE_NOITEM`, in a call", |_| {
            one(&request(NONE).item(0, 0, At::Type(NO_ITEM)))
        }),
        case("an item of fewer octets of memory than it has", |_| {
            one(&request(NONE).item(8, 4097, At::Memory(vec![SEGMENT])))
        }),
        case("an item in 257 segments", |_| {
            one(&request(NONE).item(8, 4, At::Memory(vec![[9, 4, 0, 0]; 257])))
        }),
        case("an item beyond the address space", |_| {
            one(&request(NONE).item(8, 2, At::Memory(vec![[9, 2, u32::MAX, u32::MAX]])))
        }),
        case("a call of more octets than are taken", |_| {
            one(&request(NONE).item(8, 1 << 25, At::Memory(vec![[9, 1 << 25, 0, 0]])))
        }),
        case(
            "an item that is to be read, where no chunks are taken",
            |to| {
                client(to, || {
                    one(&request(NONE).item(8, 4096, At::Memory(vec![SEGMENT])))
                })
            },
        ),
    ]
}

/// What a call directs about its reply.
fn directions() -> Vec<Case> {
    vec![
        case("a range that ends before it begins", |_| {
            one(&request(NONE).range(8, 4, &[&[0, TBSN]]))
        }),
        case("ranges out of order", |_| {
            one(&request(NONE)
                .range(20, 40, &[&[0, TBSN]])
                .range(0, 20, &[&[0, TBSN]]))
        }),
        case("ranges that overlap", |_| {
            one(&request(NONE)
                .range(0, 24, &[&[0, TBSN]])
                .range(20, 40, &[&[0, TBSN]]))
        }),
        case("17 directions", |_| {
            let all: [&[u32]; 17] = [&[0, TBSN]; 17];
            one(&request(NONE).range(0, 40, &all))
        }),
        case("a direction with 257 segments", |_| {
            let segments = [[9, 4, 0, 0]; 257];
            let words = [&[0, EXRW, 257][..], segments.as_flattened()].concat();
            one(&request(NONE).range(0, 40, &[&words]))
        }),
        case("a direction with memory beyond the address space", |_| {
            one(&request(NONE).range(0, 40, &[&[0, EXRW, 1, 9, 2, u32::MAX, u32::MAX]]))
        }),
        case(
            "a direction with more octets of memory than 32 bits tell",
            |_| {
                one(&request(NONE).range(
                    0,
                    40,
                    &[&[0, BYSIZE, 64, 2, 9, u32::MAX, 0, 0, 9, u32::MAX, 0, 0]],
                ))
            },
        ),
        case("a direction with memory, where no chunks are taken", |to| {
            client(to, || {
                one(&request(NONE).range(0, 40, &[&[0, CHOICE, 1, 9, 64, 0, 0]]))
            })
        }),
    ]
}

/// Transmissions that make no group, and groups that are no calls.
fn groups() -> Vec<Case> {
    vec![
        case("a continuation of no call", |_| one(&request(NONE).more(1))),
        case("a continuation of no reply", |to| {
            one(&response(to.plain).more(1))
        }),
        case("a continuation of a call that is whole", |_| {
            Some(vec![request(NONE).octets(), request(NONE).more(1).octets()])
        }),
        case("a continuation with another number", |_| {
            Some(vec![
                request(NONE).of(3).octets(),
                request(NONE).more(2).octets(),
            ])
        }),
        case("a continuation that comes twice", |_| {
            let first = request(NONE).of(3);
            Some(vec![
                first.octets(),
                first.more(1).octets(),
                first.more(1).octets(),
                first.more(2).octets(),
            ])
        }),
        case("a continuation of another operation", |_| {
            let first = request(NONE).of(2);
            Some(vec![
                first.octets(),
                Transmission {
                    opener: XMTRESP,
                    ..first.more(1)
                }
                .octets(),
            ])
        }),
        case("a continuation of the other direction", |_| {
            let first = request(NONE).of(2);
            Some(vec![
                first.octets(),
                Transmission {
                    direction: REPLY,
                    ..first.more(1)
                }
                .octets(),
            ])
        }),
        case("a continuation of another XID", |_| {
            Some(vec![
                request(NONE).of(2).octets(),
                request(NONE + 1).more(1).octets(),
            ])
        }),
        case("more transmissions than were granted", |_| {
            Some(
                (0..40)
                    .flat_map(|at| group(&request(NONE + at), 2))
                    .collect(),
            )
        }),
        case(
            "a call in transmissions with the XID of one that is being served",
            |to| Some(group(&request(to.given), 2)),
        ),
    ]
}

/// Messages between the transmissions of a group. A call among them is not taken.
fn between() -> Vec<Case> {
    vec![
        case("between the transmissions of a call: a call", |to| {
            interrupted(&[call(to, NONE + 1).octets()])
        }),
        case("between them: a long call", |to| {
            interrupted(&[Raw {
                reads: vec![(0, SEGMENT)],
                ..call(to, NONE + 1)
            }
            .long()
            .octets()])
        }),
        case("between them: a call in one transmission", |_| {
            interrupted(&[request(NONE + 1).octets()])
        }),
        case("between them: the beginning of another group", |_| {
            let first = request(NONE + 1).of(2);
            interrupted(&[first.octets(), first.more(1).octets()])
        }),
        case("between them: a reply", |to| {
            interrupted(&[reply(to, to.plain).octets()])
        }),
        case("between them: a reply in one transmission", |to| {
            interrupted(&[response(to.plain).octets()])
        }),
        case("between them: an error", |to| {
            interrupted(&[fixed(to, NONE, ERROR, &[2])])
        }),
        case("between them: `ROPT_CONNPROP`", |to| {
            interrupted(&[operation(to, NONE + 1, CALL, CONNPROP, &[0, 0])])
        }),
        case("between them: `ROPT_UPDPROP`", |to| {
            interrupted(&[operation(to, NONE + 1, CALL, UPDPROP, &[0])])
        }),
        case("between them: `ROPT_REPTERR`", |_| {
            interrupted(&[report(REPLY, [NONE, CALL, 0], None, &[BADCONT])])
        }),
        case("between them: an unknown operation", |to| {
            interrupted(&[operation(to, NONE + 1, CALL, 77, &[])])
        }),
        case("between them: what can't be read", |to| {
            interrupted(&[fixed(to, NONE + 1, 99, &[0, 0])])
        }),
        case("between the transmissions of a reply: a call", |to| {
            let mut messages = group(&response(to.long), 2);
            messages.insert(1, call(to, NONE).octets());
            Some(messages)
        }),
        case("between them: the reply to another call", |to| {
            let mut messages = group(&response(to.long), 2);
            messages.insert(1, response(to.plain).octets());
            Some(messages)
        }),
    ]
}

/// Replies that are in the wrong transmissions.
fn replies() -> Vec<Case> {
    vec![
        case("a reply in a transmission, to no call", |_| {
            one(&response(NONE))
        }),
        case(
            "a reply in a transmission, to the call of the other direction",
            |to| one(&response(to.given)),
        ),
        case("a reply in two transmissions, to no call", |_| {
            Some(group(&response(NONE), 2))
        }),
        case(
            "a reply in two transmissions, where one is expected",
            |to| Some(group(&response(to.plain), 2)),
        ),
        case("a reply in more transmissions than were reserved", |to| {
            Some(group(&response(to.long), 8))
        }),
        case("a reply of which a transmission is missing", |to| {
            let mut messages = group(&response(to.long), 2);
            messages[1] = response(to.long).more(2).octets();
            Some(messages)
        }),
        case("a reply that goes on as a call", |to| {
            let first = response(to.long).of(2);
            Some(vec![
                first.octets(),
                Transmission {
                    opener: XMTREQ,
                    ..first.more(1)
                }
                .octets(),
            ])
        }),
    ]
}

/// Results that are not as they were directed (table 2).
fn results() -> Vec<Case> {
    vec![
        case("a result in memory, where it was to be placed", |to| {
            one(&response(to.result).item(8, 4096, At::Memory(vec![SEGMENT])))
        }),
        case("a result of more octets than it may have", |to| {
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
        case(
            "a result written with more octets than were offered",
            |to| {
                client(to, || {
                    one(&response(to.written).item(
                        8,
                        2_000_001,
                        At::Memory(vec![offered(to.written, 2_000_001)]),
                    ))
                })
            },
        ),
    ]
}

/// Reports of broken groups.
fn reports() -> Vec<Case> {
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
        case("`ROPT_REPTERR` of an error that there is not", |to| {
            Some(vec![report(REPLY, [to.plain, CALL, 0], None, &[9])])
        }),
        case("`ROPT_REPTERR` of a direction that there is not", |to| {
            Some(vec![report(REPLY, [to.plain, 2, 0], None, NOTHING)])
        }),
        case("`ROPT_REPTERR` with octets behind", |to| {
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
            "`ROPT_REPTERR` about a call that goes by other means already, which came between others",
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
fn abilities() -> Vec<Case> {
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
                    messages.push(call(to, NONE + 1).octets());
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
fn invalidation() -> Vec<Case> {
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
                            response(to.long).of(2).octets(),
                            response(to.plain).octets(),
                        ])
                    })
                },
            )
        },
    ]
}
