//! The use of groups of rtrext-02, which the announced capabilities decide.

use rpcrdma_proto::connection::{Action, CallRegion, Config};
use rpcrdma_proto::continuation::{OperationSet, Reduction, RtrExtConfig};
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, ResultItem, ResultPlacement, ResultSpec, TransferMethod,
};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use crate::groups::{
    LONG, LONG_REPLY, READ, SHORT, answered, arrived, expected, exposes, placing, plain, sent,
    warm, whole, write,
};
use crate::pair::{End, both_ways, exchange, one, settled, works};
use crate::transmissions::{GROUPS, grouped};

/// A client that takes calls, none of them with chunks, and its server, which has sent one.
fn backward() -> (End, End) {
    let client = Config {
        backward_support: Bkreqsup::Inline,
        max_served: 16,
        ..plain(RtrExtConfig::ALL, Config::client())
    };
    let (mut client, mut server) = both_ways(client, plain(RtrExtConfig::ALL, Config::server()));
    (client.keeps, server.keeps) = (true, true);
    (client, server)
}

/// A server is a requester, too, and its client a responder: the one has calls and the other
/// replies in transmissions.
// spec: rtr-1.4-a, rtr-1.4-b, rtr-1.4-c, rtr-1.4-d
#[test]
fn backward_calls_and_replies_are_sent_in_groups() {
    let (mut client, mut server) = backward();
    // Forward calls are in flight at the same time.
    let forward = client.session.call(&LONG_REPLY, None).unwrap();
    let both = CallSpec {
        max_reply: 16_384,
        ..LONG
    };
    let (back, xid, messages) = sent(&mut server, &mut client, &both);
    assert_eq!(messages, 1 + 5);
    let (call, ..) = arrived(&mut server);
    assert_eq!(
        answered(&mut server, &mut client, (back, xid), 16_384, &[]),
        5
    );
    answered(&mut client, &mut server, (call, forward), 16_384, &[]);
}

/// If chunks are not allowed, a call without all of its credits waits for them while replies are
/// outstanding.
// spec: rtr-4.3-a
#[test]
fn call_without_another_method_waits_for_its_credits() {
    let (mut client, mut server) = backward();
    let xids: Vec<_> = (0..9)
        .map(|_| server.session.call(&LONG, None).unwrap())
        .collect();
    exchange(&mut server, &mut client);
    assert!(
        server.session.available_credits() < 5,
        "the last of them find no credits"
    );
    for xid in xids {
        let (back, found, message) = arrived(&mut client);
        assert!(found == xid && message.is_some());
        answered(&mut server, &mut client, (back, xid), 200, &[]);
        assert!(xid == found && server.failures(xid).is_empty());
        exchange(&mut server, &mut client);
    }
    assert_eq!(server.session.outstanding().0, 0);
}

// spec: rtr-2-a
#[test]
fn version_one_peer_gets_no_groups() {
    let (mut client, mut server) =
        settled(placing(GROUPS, Config::client()), one(Config::server()));
    let items = [DataItem {
        position: 120,
        length: 65_536,
    }];
    for call in [LONG, LONG_REPLY, READ, write(&items)] {
        let xid = client.session.call(&call, None).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(
            (client.session.version(), grouped(&client, xid)),
            (Some(Version::One), None)
        );
        let call = server.arrived()[0];
        server.session.reply(call, 200, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(client.replies(xid).len(), 1);
    }
    let (mut client, mut server) =
        settled(one(Config::client()), placing(GROUPS, Config::server()));
    works(&mut client, &mut server);
    assert_eq!(server.session.version(), Some(Version::One));
}

/// A call of five transmissions to a server with a limit of four or one, or with only that limit
/// announced.
// spec: rtr-5.2-a, rtr-5.2-b, rtr-5.2-c, rtr-8.4-b
#[test]
fn call_beyond_the_limit_of_transmissions_is_read() {
    for (limit, goes) in [(5, true), (4, false), (1, false)] {
        let server = plain(
            RtrExtConfig {
                request_limit: limit,
                ..RtrExtConfig::ALL
            },
            Config::server(),
        );
        let (mut client, mut server) = warm(plain(GROUPS, Config::client()), server);
        let (call, xid, messages) = sent(&mut client, &mut server, &LONG);
        let way = client.session.transfer_plan(xid).unwrap().method;
        assert_eq!(
            (way == TransferMethod::Long, messages, exposes(&client)),
            (!goes, if goes { 5 } else { 1 }, usize::from(!goes))
        );
        answered(&mut client, &mut server, (call, xid), 200, &[]);
    }
}

/// A reply of five transmissions, where the server sends four or one, and where the client has
/// receives for as many.
// spec: rtr-4.3-e, rtr-4.3-f, rtr-4.3-g, rtr-4.3-h, rtr-4.3-i, rtr-5.2-e, rtr-5.2-f, rtr-5.2-g
// spec: rtr-5.2-h, rtr-8.5-a
// spec: rtr-9.2-d, rtr-9.4-c
#[test]
fn reply_beyond_the_limit_of_transmissions_has_a_reply_chunk() {
    let lacking = RtrExtConfig {
        operations: OperationSet::REQUESTS.union(OperationSet::RESPONSES),
        ..GROUPS
    };
    let cases = [
        (GROUPS, 5, Some(5)),
        (GROUPS, 4, None),
        (GROUPS, 1, None),
        (
            RtrExtConfig {
                reply_receives: 5,
                ..GROUPS
            },
            8,
            Some(5),
        ),
        (
            RtrExtConfig {
                reply_receives: 4,
                ..GROUPS
            },
            8,
            None,
        ),
        (lacking, 8, None),
    ];
    for (ours, limit, reserve) in cases {
        let server = plain(
            RtrExtConfig {
                response_limit: limit,
                ..RtrExtConfig::ALL
            },
            Config::server(),
        );
        let (mut client, mut server) = warm(plain(ours, Config::client()), server);
        let before = client.session.posted_receives();
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        assert_eq!(
            grouped(&client, xid).map(|grouped| grouped.reply_receives),
            reserve,
            "{limit}"
        );
        let regions: Vec<_> = client
            .session
            .exposures(xid)
            .map(|exposure| exposure.region)
            .collect();
        assert_eq!(
            regions,
            if reserve.is_some() {
                vec![]
            } else {
                vec![CallRegion::Reply]
            }
        );
        assert_eq!(
            client.session.posted_receives(),
            before + reserve.unwrap_or(0),
            "beside the one for each reply"
        );
        let messages = answered(&mut client, &mut server, (call, xid), 16_384, &[]);
        assert_eq!(messages, reserve.map_or(1, |_| 5));
    }
}

/// Unused reserved receives serve the next messages.
// spec: rtr-4.3-j, rtr-4.3-k, rtr-4.3-l, rtr-4.3-m, rtr-4.3-n
#[test]
fn unused_reserved_receives_serve_other_replies() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let before = client.session.posted_receives();
    for length in [100, 4_000, 8_000, 16_384] {
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        assert!(client.session.posted_receives() >= before + 5);
        let messages = answered(&mut client, &mut server, (call, xid), length, &[]);
        assert_eq!(messages, length.div_ceil(4_056) as usize);
        assert!(client.session.posted_receives() >= before, "{length}");
    }
    client.actions.clear();
    works(&mut client, &mut server);
    let posts = client
        .actions
        .iter()
        .any(|action| matches!(action, Action::PostReceives { .. }));
    assert!(!posts, "those that are left are enough");
}

/// Where there is no target data are read and written, and other directions are as good as before.
// spec: rtr-5.3-a, rtr-5.3-b, rtr-5.3-c, rtr-5.3-d, rtr-5.3-f, rtr-5.3-g, rtr-5.3-i, rtr-5.3-k
#[test]
fn data_are_placed_where_the_receiver_has_targets() {
    let items = [DataItem {
        position: 120,
        length: 65_536,
    }];
    let both = CallSpec {
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        ..write(&items)
    };
    type Ends = fn(RtrExtConfig, Config) -> Config;
    let ends: [Ends; 2] = [plain, placing];
    for (at, bt) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        // Each end may send what the other's buffers take.
        let [client, server] = [Config::client(), Config::server()].map(|end| Config {
            send_size: 1 << 17,
            ..end
        });
        let (client, server) = (
            ends[at](GROUPS, client),
            ends[bt](RtrExtConfig::ALL, server),
        );
        let (mut client, mut server) = warm(client, server);
        let (call, xid, messages) = sent_reading(&mut client, &mut server, &both);
        assert_eq!(messages, 1);
        match client.session.transfer_plan(xid).unwrap().method {
            TransferMethod::Grouped(travel) => {
                assert_eq!((bt, travel.placed, travel.read), (1, 1, 0));
                assert_eq!(
                    (travel.send, travel.explicit),
                    if at == 1 { (1, 0) } else { (0, 1) }
                );
            }
            way => assert_eq!((bt, way), (0, TransferMethod::Reduced(1))),
        }
        let result = [DataItem {
            position: 100,
            length: 65_536,
        }
        .into()];
        answered(&mut client, &mut server, (call, xid), 65_700, &result);
    }
}

/// Sends a call which the server may have to put together.
fn sent_reading(
    client: &mut End,
    server: &mut End,
    call: &CallSpec<'_>,
) -> (rpcrdma_proto::connection::ServedCallId, u32, usize) {
    let xid = client.session.call(call, None).unwrap();
    let messages = exchange(client, server);
    let (served, found, _) = arrived(server);
    assert_eq!(found, xid);
    (served, xid, messages)
}

/// None of this needs continuations or targets: directions alone are of use.
// spec: rtr-3.4-e, rtr-5.1-a, rtr-5.3-h
#[test]
fn directions_work_without_placement_and_continuations() {
    let operations = OperationSet::REQUESTS.union(OperationSet::RESPONSES);
    let rtr = RtrExtConfig {
        operations,
        ..GROUPS
    };
    let (mut client, mut server) = warm(plain(rtr, Config::client()), plain(rtr, Config::server()));
    let two = CallSpec {
        max_reply: 127_000,
        results: &[
            ResultSpec::whole_call(65_536),
            ResultSpec::whole_call(60_000),
        ],
        ..SHORT
    };
    let (call, xid, _) = sent(&mut client, &mut server, &two);
    assert_eq!(grouped(&client, xid).unwrap().explicit, 0b11);
    let results = [
        DataItem {
            position: 100,
            length: 500,
        },
        DataItem {
            position: 600,
            length: 60_000,
        },
    ]
    .map(ResultItem::from);
    server.session.reply(call, 60_700, &results).unwrap();
    exchange(&mut client, &mut server);
    let reply = client.replies(xid).pop().unwrap();
    let hows: Vec<_> = reply
        .reassembled
        .unwrap()
        .items
        .iter()
        .map(|item| item.reduction.clone())
        .collect();
    assert_eq!(
        (hows, reply.results.as_slice()),
        (
            vec![Reduction::TooShort, Reduction::Explicit(0..1)],
            [0, 60_000].as_slice()
        )
    );
}

/// Without credits for all of a group, its data are read, or all of it is.
// spec: rtr-4.3-d, rtr-5.3-e, rtr-5.3-m
#[test]
fn without_credits_items_are_read() {
    let server = Config {
        max_served: 3,
        ..Config::server()
    };
    let (mut client, mut server) = warm(
        placing(GROUPS, Config::client()),
        placing(RtrExtConfig::ALL, server),
    );
    let items = [DataItem {
        position: 120,
        length: 200_000,
    }];
    let (_, xid, messages) = sent_reading(&mut client, &mut server, &write(&items));
    let travel = grouped(&client, xid).unwrap();
    assert_eq!(
        (travel.read, travel.count, messages),
        (1, 1, 1),
        "it would take four, and there are three"
    );
    let long = CallSpec {
        length: 300_000,
        ..SHORT
    };
    let (_, xid, _) = sent_reading(&mut client, &mut server, &long);
    assert_eq!(
        client.session.transfer_plan(xid).unwrap().method,
        TransferMethod::Long
    );
}

/// Any direction may stay unused. Its memory is then fenced.
// spec: rtr-6.2-v, rtr-6.2-w, rtr-7.4-l, rtr-7.4-m, rtr-7.4-n, rtr-7.4-o, rtr-7.4-p, rtr-7.4-w
#[test]
fn every_direction_may_stay_unused() {
    for direct in [
        ResultPlacement::Explicit,
        ResultPlacement::Cheaper,
        ResultPlacement::Choice,
        ResultPlacement::BySize(32_768),
    ] {
        for results in [
            &[DataItem {
                position: 100,
                length: 96,
            }
            .into()][..],
            &[],
        ] {
            let rtr = RtrExtConfig {
                placement: direct,
                ..GROUPS
            };
            let (mut client, mut server) = warm(
                placing(rtr, Config::client()),
                placing(RtrExtConfig::ALL, Config::server()),
            );
            let (call, xid, _) = sent(&mut client, &mut server, &READ);
            let exposed = exposes(&client);
            assert_eq!(exposed, usize::from(direct != ResultPlacement::Cheaper));
            server.session.reply(call, 200, results).unwrap();
            assert_eq!(server.session.writes(call).count(), 0);
            exchange(&mut client, &mut server);
            let reply = client.replies(xid).pop().unwrap();
            let how = if results.is_empty() {
                Reduction::NoItem
            } else {
                Reduction::TooShort
            };
            let message = reply.reassembled.unwrap();
            assert_eq!(
                (message.items[0].reduction.clone(), reply.results.as_slice()),
                (how, [0].as_slice()),
                "{direct:?}"
            );
            assert_eq!(
                whole(&client, &message, xid, true),
                expected(xid, true, 200)
            );
            let fences = client
                .actions
                .iter()
                .filter(|action| matches!(action, Action::Fence { .. }))
                .count();
            assert_eq!(fences, exposed, "{direct:?}");
        }
    }
}

/// The responder writes a result with a choice if it cannot place it.
// spec: rtr-6.2-t, rtr-7.4-d, rtr-7.4-e, rtr-7.4-o
#[test]
fn responder_decides_a_choice() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Choice,
        reply_receives: 1,
        ..GROUPS
    };
    let (mut client, mut server) = warm(
        placing(rtr, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let large = CallSpec {
        max_reply: 200_100,
        results: &[ResultSpec::whole_call(200_000)],
        ..SHORT
    };
    for (length, written) in [(65_536, false), (200_000, true)] {
        let (call, xid, _) = sent(&mut client, &mut server, &large);
        server
            .session
            .reply(
                call,
                100 + length,
                &[DataItem {
                    position: 100,
                    length,
                }
                .into()],
            )
            .unwrap();
        exchange(&mut client, &mut server);
        let reply = client.replies(xid).pop().unwrap();
        assert_eq!(
            matches!(
                reply.reassembled.unwrap().items[0].reduction,
                Reduction::Explicit(_)
            ),
            written,
            "{length}"
        );
    }
}
