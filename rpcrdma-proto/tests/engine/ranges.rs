//! Results of single operations of a call, each of which has its own directions (rtrext-02, section
//! 7.4; decisions D21, D30).

use rpcrdma_proto::connection::{Config, SessionCallError};
use rpcrdma_proto::continuation::{Reduction, RtrExtConfig};
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultItem, ResultPlacement, ResultSpec, Span,
    TransferMethod,
};

use crate::groups::{SHORT, arrived, expected, placing, sent, transmissions, warm, whole};
use crate::pair::{End, exchange, key};
use crate::transmissions::{XMTREQ, XMTRESP, operation, replying};

/// Three operations of one call: the first has one result, the second two, and the third one.
const FIRST: Span = Span { begin: 60, end: 80 };
const SECOND: Span = Span {
    begin: 80,
    end: 120,
};
const THIRD: Span = Span {
    begin: 140,
    end: 160,
};
const CALL: CallSpec<'_> = CallSpec {
    max_reply: 200_000,
    results: &[
        ResultSpec {
            max_length: 40_000,
            of: FIRST,
        },
        ResultSpec {
            max_length: 30_000,
            of: SECOND,
        },
        ResultSpec {
            max_length: 20_000,
            of: SECOND,
        },
        ResultSpec {
            max_length: 10_000,
            of: THIRD,
        },
    ],
    ..SHORT
};

fn ends(direct: ResultPlacement) -> (End, End) {
    let rtr = RtrExtConfig {
        placement: direct,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    warm(
        placing(rtr, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    )
}

/// Results that answer what stands at these positions of the call, one after the other, with a word
/// between them.
fn results(all: &[(Option<u32>, u32)]) -> (u32, Vec<ResultItem>) {
    let mut at = 100;
    let result = |(asked, length): &(Option<u32>, u32)| {
        let item = DataItem {
            position: at,
            length: *length,
        };
        at += length.next_multiple_of(4) + 4;
        ResultItem {
            item,
            answers: *asked,
        }
    };
    let all = all.iter().map(result).collect();
    (at, all)
}

fn reserve(client: &End, xid: u32) -> u32 {
    let TransferMethod::Grouped(grouped) = client.session.transfer_plan(xid).unwrap().method else {
        panic!("in transmissions")
    };
    grouped.reply_receives
}

/// The directions of each operation are in a set of their own, which says where it stands.
// spec: rtr-7.4-q, rtr-7.4-s, rtr-7.4-y, rtr-7.4-z, rtr-7.4-aa
#[test]
fn each_operation_has_its_own_directions() {
    let (mut client, _) = ends(ResultPlacement::Cheaper);
    let (xid, packets) = transmissions(&mut client, &CALL);
    let placed = [1024, 2];
    let directed = [
        &[3, 60, 80, 1][..],
        &placed,
        &[80, 120, 2],
        &placed,
        &placed,
        &[140, 160, 1],
        &placed,
    ];
    let reserve = reserve(&client, xid);
    let said = [&[0][..], &directed.concat(), &[1, reserve, CALL.length]];
    let header = operation(xid, client.session.config().credits, 0, XMTREQ, &said);
    assert_eq!(packets[0].bytes[..packets[0].header], header);
}

/// Those before the last one of an operation that is worth it are directed to stay in the message,
/// and those of operations without such a one are not directed.
#[test]
fn operations_with_short_results_have_no_directions() {
    let (mut client, _) = ends(ResultPlacement::Explicit);
    let results = [
        ResultSpec {
            max_length: 500,
            of: FIRST,
        },
        ResultSpec {
            max_length: 500,
            of: SECOND,
        },
        ResultSpec {
            max_length: 30_000,
            of: SECOND,
        },
        ResultSpec {
            max_length: 500,
            of: SECOND,
        },
    ];
    let (xid, packets) = transmissions(
        &mut client,
        &CallSpec {
            results: &results,
            ..CALL
        },
    );
    let stays = [u32::MAX, 2];
    let written = [1024, 1, 1, key(xid, 1), 30_000, 0, 4096];
    let directed = [&[1, 80, 120, 2][..], &stays, &written];
    let reserve = reserve(&client, xid);
    let header = operation(
        xid,
        client.session.config().credits,
        0,
        XMTREQ,
        &[&[0], &directed.concat(), &[1, reserve, CALL.length]],
    );
    assert_eq!(packets[0].bytes[..packets[0].header], header);
}

/// The methods of results if some operations have fewer or more than expected.
// spec: rtr-3.4-b, rtr-6.2-w, rtr-7.4-r, rtr-7.4-s, rtr-7.4-v, rtr-7.4-y
#[test]
fn result_takes_only_directions_of_its_operation() {
    /// Positions of the call with the bytes of a result, and which result has each of the four
    /// directions.
    type Case = (&'static [(Option<u32>, u32)], [Option<usize>; 4]);
    let cases: [Case; 6] = [
        (
            &[
                (Some(60), 40_000),
                (Some(80), 30_000),
                (Some(84), 20_000),
                (Some(140), 10_000),
            ],
            [Some(0), Some(1), Some(2), Some(3)],
        ),
        // The first has none, and the second one: without ranges the third's would be in the
        // first's memory.
        (
            &[(Some(100), 30_000), (Some(140), 10_000)],
            [None, Some(0), None, Some(1)],
        ),
        (&[(Some(140), 10_000)], [None, None, None, Some(0)]),
        // One too many, one without a direction, and one of an unknown operation.
        (
            &[(Some(60), 9_000), (Some(64), 1_101), (Some(159), 9_002)],
            [Some(0), None, None, Some(2)],
        ),
        (
            &[(Some(120), 1_100), (Some(139), 1_101), (Some(160), 1_102)],
            [None; 4],
        ),
        (
            &[(None, 1_100), (Some(80), 9_001)],
            [None, Some(1), None, None],
        ),
    ];
    for direct in [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(25_000),
    ] {
        for (given, directed) in &cases {
            goes_as_directed(direct, given, *directed);
        }
    }
}

fn goes_as_directed(
    direct: ResultPlacement,
    given: &[(Option<u32>, u32)],
    directed: [Option<usize>; 4],
) {
    let (mut client, mut server) = ends(direct);
    let (call, xid, _) = sent(&mut client, &mut server, &CALL);
    let (length, results) = results(given);
    server.session.reply(call, length, &results).unwrap();
    let memory: Vec<u32> = server
        .session
        .writes(call)
        .map(|write| write.target.handle)
        .collect();
    exchange(&mut client, &mut server);
    let reply = client.replies(xid).pop().unwrap();
    let message = reply.reassembled.as_deref().unwrap();
    let mut written = Vec::new();
    for (number, (item, result)) in message.items.iter().zip(directed).enumerate() {
        let result = result.map(|result| results[result].item);
        let is_written = matches!(item.reduction, Reduction::Explicit(_));
        assert_eq!(
            (item.result, item.reduction == Reduction::NoItem),
            (Some(number), result.is_none()),
            "{direct:?} {given:?}"
        );
        let place = result.map_or((0, 0), |result| (result.position, result.length));
        assert_eq!((item.position, item.length), place);
        assert_eq!(
            reply.results[number],
            if is_written { item.length } else { 0 }
        );
        written.extend(is_written.then(|| key(xid, u32::try_from(number).unwrap() + 1)));
        let should = match direct {
            ResultPlacement::Cheaper => false,
            // As it fits.
            ResultPlacement::Choice => is_written,
            ResultPlacement::Explicit => result.is_some(),
            ResultPlacement::BySize(from) => result.is_some_and(|result| result.length >= from),
        };
        assert_eq!(is_written, should, "{direct:?} {given:?}");
    }
    assert_eq!(
        (message.items.len(), memory),
        (4, written),
        "{direct:?} {given:?}"
    );
    assert_eq!(
        whole(&client, message, xid, true),
        expected(xid, true, length)
    );
}

/// The reply's directions are in the order of the request's, with nothing where there was nothing.
// spec: rtr-6.2-w, rtr-6.2-x, rtr-7.4-h, rtr-7.4-x
#[test]
fn a_reply_says_which_directions_had_no_result() {
    let (mut client, mut server) = ends(ResultPlacement::Cheaper);
    let (call, xid, _) = sent(&mut client, &mut server, &CALL);
    let (length, results) = results(&[(Some(80), 30_000), (Some(140), 10_000)]);
    let packets = replying(&mut server, call, length, &results);
    let none = [0, 0, 6];
    let placed =
        |result: &ResultItem, target| [result.item.position, result.item.length, 2, 0, 1, target];
    let said = [
        &[4][..],
        &none,
        &placed(&results[0], 0),
        &none,
        &placed(&results[1], 1),
        &[2, length - 40_000],
    ];
    let header = operation(xid, packets[0].word(2), 1, XMTRESP, &said);
    assert_eq!(packets[0].bytes[..packets[0].header], header);
}

/// A peer would refuse ranges that overlap or go back: such a call is not begun.
// spec: rtr-7.4-aa
#[test]
fn spans_that_are_not_in_order_are_refused() {
    let (mut client, mut server) = ends(ResultPlacement::Cheaper);
    let wanted = |of: &[Span]| {
        of.iter()
            .map(|of| ResultSpec {
                max_length: 9_000,
                of: *of,
            })
            .collect::<Vec<_>>()
    };
    for spans in [
        &[SECOND, FIRST][..],
        &[Span { begin: 60, end: 81 }, SECOND],
        &[FIRST, Span::CALL],
    ] {
        let call = CallSpec {
            results: &wanted(spans),
            ..CALL
        };
        assert_eq!(
            client.session.call(&call, None),
            Err(SessionCallError::Spans),
            "{spans:?}"
        );
    }
    assert_eq!(client.session.outstanding(), (0, 0));
    // A span beyond the call has no result, and the call sends no range that the peer would refuse.
    let beyond = CallSpec {
        results: &wanted(&[
            FIRST,
            Span {
                begin: 150,
                end: 500,
            },
            Span {
                begin: 500,
                end: 501,
            },
        ]),
        ..CALL
    };
    let (xid, packets) = transmissions(&mut client, &beyond);
    // The second ends with the call, and the third is left out.
    let said = [
        &[0, 2, 60, 80, 1, 1024, 2, 150, 160, 1, 1024, 2][..],
        &[1, reserve(&client, xid), CALL.length],
    ];
    let header = operation(xid, client.session.config().credits, 0, XMTREQ, &said);
    assert_eq!(packets[0].bytes[..packets[0].header], header);
    server.receive(&packets[0].bytes);
    assert_eq!(arrived(&mut server).1, xid);
}
