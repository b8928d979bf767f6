//! Transmissions that form no group, or arrive out of place.

use super::{BADCONT, group, interrupted, one};
use crate::cases::{CONNPROP, Case, NONE, SEGMENT, UPDPROP, case};
use crate::raw::{
    CALL, ERROR, MSG, OPTIONAL, REPLY, Raw, Transmission, XMTCONT, XMTREQ, XMTRESP, call, fixed,
    operation, reply, report, request, response,
};

/// Transmissions that make no group, and groups that are no calls.
pub(super) fn groups() -> Vec<Case> {
    vec![
        case("a continuation of no call", |_| one(&request(NONE).more(1))),
        case("a continuation of no reply", |to| {
            one(&response(to.plain).more(1))
        }),
        case("a continuation of a call that is whole", |_| {
            Some(vec![request(NONE).bytes(), request(NONE).more(1).bytes()])
        }),
        case("a continuation of a call that is refused whole", |_| {
            let call = Transmission {
                section: Some(38),
                ..request(NONE)
            };
            Some(vec![call.bytes(), request(NONE).more(1).bytes()])
        }),
        case("a continuation behind a last one that is refused", |_| {
            let first = Transmission {
                payload: Vec::new(),
                ..request(NONE).of(2)
            };
            let last = Transmission {
                payload: vec![NONE + 1, CALL, 0, 0],
                ..first.more(1)
            };
            let beyond = request(NONE).more(2);
            Some(vec![first.bytes(), last.bytes(), beyond.bytes()])
        }),
        case("a continuation with another number", |_| {
            Some(vec![
                request(NONE).of(3).bytes(),
                request(NONE).more(2).bytes(),
            ])
        }),
        case("a continuation with the number of the beginning", |_| {
            let first = request(NONE).of(2);
            Some(vec![first.bytes(), first.more(0).bytes()])
        }),
        case("such a continuation of another XID", |_| {
            let first = request(NONE).of(2);
            Some(vec![first.bytes(), request(NONE + 1).more(0).bytes()])
        }),
        case("a continuation that comes twice", |_| {
            let first = request(NONE).of(3);
            Some(vec![
                first.bytes(),
                first.more(1).bytes(),
                first.more(1).bytes(),
                first.more(2).bytes(),
            ])
        }),
        case("a continuation of another operation", |_| {
            let first = request(NONE).of(2);
            Some(vec![
                first.bytes(),
                Transmission {
                    opener: XMTRESP,
                    ..first.more(1)
                }
                .bytes(),
            ])
        }),
        case("a continuation of the other direction", |_| {
            let first = request(NONE).of(2);
            Some(vec![
                first.bytes(),
                Transmission {
                    direction: REPLY,
                    ..first.more(1)
                }
                .bytes(),
            ])
        }),
        case("a continuation of another XID", |_| {
            Some(vec![
                request(NONE).of(2).bytes(),
                request(NONE + 1).more(1).bytes(),
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
pub(super) fn between() -> Vec<Case> {
    vec![
        case("between the transmissions of a call: a call", |to| {
            interrupted(&[call(to, NONE + 1).bytes()])
        }),
        case("between them: a long call", |to| {
            interrupted(&[Raw {
                reads: vec![(0, SEGMENT)],
                ..call(to, NONE + 1)
            }
            .long()
            .bytes()])
        }),
        case("between them: a call in one transmission", |_| {
            interrupted(&[request(NONE + 1).bytes()])
        }),
        case("between them: the beginning of another group", |_| {
            let first = request(NONE + 1).of(2);
            interrupted(&[first.bytes(), first.more(1).bytes()])
        }),
        case("between them: a reply", |to| {
            interrupted(&[reply(to, to.plain).bytes()])
        }),
        case("between them: a reply in one transmission", |to| {
            interrupted(&[response(to.plain).bytes()])
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
        case("between them: an operation that can't be read", |to| {
            interrupted(&[fixed(to, NONE + 1, OPTIONAL, &[CALL, UPDPROP, 8, 0])])
        }),
        case("between them: an operation whose code is cut off", |to| {
            interrupted(&[fixed(to, NONE + 1, OPTIONAL, &[CALL])])
        }),
        case("between them: a continuation that can't be read", |to| {
            interrupted(&[fixed(to, NONE, OPTIONAL, &[CALL, XMTCONT, 8, 0])])
        }),
        case("between them: such a continuation of another XID", |to| {
            interrupted(&[fixed(to, NONE + 1, OPTIONAL, &[CALL, XMTCONT, 8, 0])])
        }),
        case("between them: a reply that can't be read", |to| {
            interrupted(&[fixed(to, to.plain, MSG, &[REPLY, 2])])
        }),
        case("between the transmissions of a reply: a call", |to| {
            let mut messages = group(&response(to.long), 2);
            messages.insert(1, call(to, NONE).bytes());
            Some(messages)
        }),
        case("between them: the reply to another call", |to| {
            let mut messages = group(&response(to.long), 2);
            messages.insert(1, response(to.plain).bytes());
            Some(messages)
        }),
    ]
}

/// Replies that are in the wrong transmissions.
pub(super) fn replies() -> Vec<Case> {
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
            messages[1] = response(to.long).more(2).bytes();
            Some(messages)
        }),
        case("a reply with a continuation that can't be read", |to| {
            let mut messages = group(&response(to.long), 2);
            messages[1] = fixed(to, to.long, OPTIONAL, &[REPLY, XMTCONT, 8, 0]);
            Some(messages)
        }),
        case("a reply with `ROPT_XMTCONT` cut off", |to| {
            let mut messages = group(&response(to.long), 2);
            messages[1] = operation(to, to.long, REPLY, XMTCONT, &[XMTRESP]);
            Some(messages)
        }),
        case("a reply that goes on as a call", |to| {
            let first = response(to.long).of(2);
            Some(vec![
                first.bytes(),
                Transmission {
                    opener: XMTREQ,
                    ..first.more(1)
                }
                .bytes(),
            ])
        }),
    ]
}
