//! Messages in transmissions of rtrext-02: how they go, and what arrives (`broken` has what becomes
//! of those that are broken).

use rpcrdma_proto::chunk::{ChunkError, ChunkLimits};
use rpcrdma_proto::connection::{Action, CallFailure, CallLocation, Config, Event, ServedCallId};
use rpcrdma_proto::continuation::{
    GroupError, OperationSet, ReassembledMessage, Reduction, RtrExtConfig, Source,
};
use rpcrdma_proto::placement::{self, BufferStructure};
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultItem, ResultPlacement, ResultSpec, TransferMethod,
};

use crate::pair::{End, OFFSET, Packet, byte, exchange, key, settled, words, works};
use crate::properties::DRAFTS;

/// Receive buffers of 4 KiB and one target of 64 KiB.
pub(crate) fn structure() -> BufferStructure {
    let head = placement::BufferSegment {
        length: 4096,
        align: 8,
        target: false,
    };
    let bulk = placement::BufferSegment {
        length: 65_536,
        align: 4096,
        target: true,
    };
    BufferStructure::new(&[head, bulk]).unwrap()
}

pub(crate) fn plain(rtr: RtrExtConfig, config: Config) -> Config {
    Config {
        rtr: Some(rtr),
        ..config
    }
}

pub(crate) fn placing(rtr: RtrExtConfig, config: Config) -> Config {
    config.with_rtr(RtrExtConfig {
        structure: Some(structure()),
        ..rtr
    })
}

/// Two ends that have told each other all, and whose credits are there.
pub(crate) fn warm(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = settled(client, server);
    works(&mut client, &mut server);
    for end in [&mut client, &mut server] {
        (end.keeps, end.actions) = (true, Vec::new());
        end.events.clear();
    }
    (client, server)
}

pub(crate) const SHORT: CallSpec<'_> = CallSpec {
    length: 160,
    items: &[],
    max_reply: 200,
    results: &[],
    reducible: true,
};
/// 16 KiB without bulk data.
pub(crate) const LONG: CallSpec<'_> = CallSpec {
    length: 16_384,
    ..SHORT
};
pub(crate) const LONG_REPLY: CallSpec<'_> = CallSpec {
    max_reply: 16_384,
    ..SHORT
};
pub(crate) const READ: CallSpec<'_> = CallSpec {
    max_reply: 65_700,
    results: &[ResultSpec::whole_call(65_536)],
    ..SHORT
};

pub(crate) fn write(items: &[DataItem]) -> CallSpec<'_> {
    let end = items
        .iter()
        .map(|item| item.length.next_multiple_of(4))
        .sum::<u32>();
    CallSpec {
        length: 200 + end,
        items,
        ..SHORT
    }
}

/// The bytes of a message that came in transmissions; what is to be read counts as read.
pub(crate) fn whole(end: &End, message: &ReassembledMessage, xid: u32, reply: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for source in message.sources() {
        match source {
            Source::Received { at, from } => {
                assert_eq!(at as usize, bytes.len());
                let buffer = &end.kept[&from.buffer.0];
                bytes
                    .extend_from_slice(&buffer[from.range.start as usize..from.range.end as usize]);
            }
            Source::Read { at, from } => {
                assert_eq!(at as usize, bytes.len());
                bytes.extend((at..at + from.length).map(|at| byte(xid, reply, at)));
            }
            Source::Padding { at, length } => {
                bytes.extend((at..at + length).map(|at| byte(xid, reply, at)))
            }
        }
    }
    assert_eq!(bytes.len(), message.length as usize);
    bytes
}

pub(crate) fn expected(xid: u32, reply: bool, length: u32) -> Vec<u8> {
    (0..length).map(|at| byte(xid, reply, at)).collect()
}

/// The call that has arrived, and its message if it came in transmissions.
pub(crate) fn arrived(end: &mut End) -> (ServedCallId, u32, Option<Box<ReassembledMessage>>) {
    let at = end
        .events
        .iter()
        .position(|event| matches!(event, Event::CallArrived { .. }))
        .unwrap();
    let Event::CallArrived { call, xid, message } = end.events.remove(at) else {
        unreachable!()
    };
    (
        call,
        xid,
        if let CallLocation::Reassembled(message) = message {
            Some(message)
        } else {
            None
        },
    )
}

/// Sends a call and checks that it arrives whole: the call, and how many messages it took.
pub(crate) fn sent(
    client: &mut End,
    server: &mut End,
    call: &CallSpec<'_>,
) -> (ServedCallId, u32, usize) {
    let xid = client.session.call(call, None).unwrap();
    let messages = exchange(client, server);
    let (served, found, message) = arrived(server);
    assert_eq!(found, xid);
    if let Some(message) = message {
        assert_eq!(
            whole(server, &message, xid, false),
            expected(xid, false, call.length)
        );
        server.session.recycle(message);
    }
    (served, xid, messages)
}

/// Answers it, and checks that the reply arrives whole: how many messages it took.
pub(crate) fn answered(
    client: &mut End,
    server: &mut End,
    (call, xid): (ServedCallId, u32),
    length: u32,
    results: &[ResultItem],
) -> usize {
    server.session.reply(call, length, results).unwrap();
    let messages = exchange(client, server);
    let replies = client.replies(xid);
    assert_eq!((replies.len(), client.failures(xid)), (1, vec![]));
    if let Some(message) = &replies[0].reassembled {
        assert_eq!(
            whole(client, message, xid, true),
            expected(xid, true, length)
        );
    }
    client.events.clear();
    messages
}

pub(crate) fn exposes(end: &End) -> usize {
    end.actions
        .iter()
        .filter(|action| matches!(action, Action::Expose { .. }))
        .count()
}

/// The transmissions of the long call, not delivered yet.
pub(crate) fn transmissions(client: &mut End, call: &CallSpec<'_>) -> (u32, Vec<Packet>) {
    let xid = client.session.call(call, None).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = client.send() {
        packets.push(packet);
    }
    (xid, packets)
}

pub(crate) fn reports(end: &End) -> Vec<(GroupError, bool)> {
    let told = end.events.iter().filter_map(|event| match event {
        Event::GroupFailed {
            report,
            sent_here: ours,
        } => Some((report.why, *ours)),
        _ => None,
    });
    told.collect()
}

// spec: rtr-4.2-a, rtr-4.3-c, rtr-8.4-b
#[test]
fn a_long_call_goes_in_several_transmissions() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (call, xid, messages) = sent(&mut client, &mut server, &LONG);
    assert_eq!(
        (messages, exposes(&client)),
        (5, 0),
        "4,096 bytes each, less the headers"
    );
    assert_eq!(
        client.session.available_credits(),
        32 - 5,
        "each takes a credit"
    );
    assert_eq!(answered(&mut client, &mut server, (call, xid), 200, &[]), 1);
    assert_eq!(
        (
            client.session.available_credits(),
            client.session.outstanding(),
            server.session.outstanding()
        ),
        (32, (0, 0), (0, 0))
    );
    let wanted = server.session.posted_receives();
    works(&mut client, &mut server);
    assert_eq!(
        server.session.posted_receives(),
        wanted,
        "all receives are there again"
    );
}

// spec: rtr-4.2-a, rtr-4.3-i, rtr-4.3-j
#[test]
fn a_long_reply_goes_in_several_transmissions_for_which_receives_are_reserved() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let before = client.session.posted_receives();
    let (call, xid, messages) = sent(&mut client, &mut server, &LONG_REPLY);
    assert_eq!((messages, exposes(&client)), (1, 0));
    assert_eq!(
        client.session.posted_receives(),
        before + 5,
        "one, and as many as the largest reply needs"
    );
    assert_eq!(
        answered(&mut client, &mut server, (call, xid), 16_384, &[]),
        5
    );
    // A short reply uses one of them.
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    assert_eq!(answered(&mut client, &mut server, (call, xid), 100, &[]), 1);
    assert!(client.session.posted_receives() >= before);
    assert_eq!(client.session.outstanding(), (0, 0));
}

// spec: rtr-3.3-b, rtr-6.2-r, rtr-7.1-g, rtr-7.2-a, rtr-7.2-b, rtr-7.2-c, rtr-7.2-e, rtr-7.2-m
// spec: rtr-7.3-d, rtr-7.3-m
// spec: rtr-11-d, rtr-11-e
#[test]
fn the_data_of_a_write_land_in_their_target() {
    let (mut client, mut server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let items = [DataItem {
        position: 120,
        length: 65_536,
    }];
    let xid = client.session.call(&write(&items), None).unwrap();
    assert_eq!(
        (exchange(&mut client, &mut server), exposes(&client)),
        (1, 0),
        "one transmission, nothing registered"
    );
    let (call, _, message) = arrived(&mut server);
    let message = message.unwrap();
    assert_eq!((message.stream.len(), message.places.len()), (1, 1));
    assert_eq!(message.places[0].range, 4096..69_632, "all of the target");
    assert_eq!(
        whole(&server, &message, xid, false),
        expected(xid, false, 65_736)
    );
    // What is before it is zeros.
    let (end, buffer) = (
        message.stream[0].range.end as usize,
        &server.kept[&message.places[0].buffer.0],
    );
    assert!(buffer[end..4096].iter().all(|byte| *byte == 0));
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

// spec: rtr-6.2-n, rtr-7.3-m, rtr-7.4-f, rtr-7.4-n
#[test]
fn the_data_of_a_read_land_in_their_target() {
    let (mut client, mut server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    for length in [65_536u32, 5_001, 1_024] {
        let (call, xid, _) = sent(&mut client, &mut server, &READ);
        server
            .session
            .reply(
                call,
                104 + length.next_multiple_of(4),
                &[DataItem {
                    position: 100,
                    length,
                }
                .into()],
            )
            .unwrap();
        assert_eq!(exchange(&mut client, &mut server), 1);
        let reply = client.replies(xid).pop().unwrap();
        let message = reply.reassembled.unwrap();
        assert_eq!(
            (message.items[0].result, message.items[0].length),
            (Some(0), length)
        );
        assert_eq!(message.places[0].range, 4096..4096 + length);
        assert_eq!(
            (reply.results.as_slice(), exposes(&client)),
            ([0].as_slice(), 0)
        );
        assert_eq!(
            whole(&client, &message, xid, true),
            expected(xid, true, 104 + length.next_multiple_of(4))
        );
        client.events.clear();
    }
}

/// What rtrext-02 adds is told by the operations of either draft.
#[test]
fn messages_go_in_transmissions_over_properties_and_over_characteristics() {
    for properties in DRAFTS {
        let client = Config {
            properties,
            ..placing(RtrExtConfig::ALL, Config::client())
        };
        let server = Config {
            properties,
            ..placing(RtrExtConfig::ALL, Config::server())
        };
        let (mut client, mut server) = warm(client, server);
        let items = [DataItem {
            position: 120,
            length: 65_536,
        }];
        for call in [&write(&items), &LONG, &READ] {
            let (served, xid, went) = sent(&mut client, &mut server, call);
            assert_eq!((went, exposes(&client)), (1, 0), "{properties:?}");
            let length = call.results.iter().map(|result| result.max_length).sum();
            let results = [DataItem {
                position: 100,
                length,
            }
            .into()];
            let results = if call.results.is_empty() {
                &[]
            } else {
                &results[..]
            };
            let length = 200
                + results
                    .iter()
                    .map(|result: &ResultItem| result.item.length)
                    .sum::<u32>();
            assert_eq!(
                answered(&mut client, &mut server, (served, xid), length, results),
                1,
                "{properties:?}"
            );
        }
    }
}

// spec: rtr-6.2-v, rtr-6.2-w, rtr-6.2-x, rtr-6.2-y, rtr-7.4-h, rtr-7.4-v, rtr-7.4-x
#[test]
fn results_that_are_short_or_missing_are_told_so() {
    let (mut client, mut server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let both = CallSpec {
        max_reply: 65_700 + 8_192,
        results: &[
            ResultSpec::whole_call(65_536),
            ResultSpec::whole_call(8_192),
        ],
        ..SHORT
    };
    let (call, xid, _) = sent(&mut client, &mut server, &both);
    server
        .session
        .reply(
            call,
            204,
            &[DataItem {
                position: 100,
                length: 100,
            }
            .into()],
        )
        .unwrap();
    exchange(&mut client, &mut server);
    let message = client.replies(xid).pop().unwrap().reassembled.unwrap();
    let items: Vec<_> = message
        .items
        .iter()
        .map(|item| (item.position, item.length, item.reduction.clone()))
        .collect();
    assert_eq!(
        items,
        [(100, 100, Reduction::TooShort), (0, 0, Reduction::NoItem)]
    );
    assert_eq!(
        whole(&client, &message, xid, true),
        expected(xid, true, 204)
    );
}

/// A direction is for the result that it stands for, whatever the results before are worth.
#[test]
fn a_result_is_placed_as_itself_behind_one_that_is_not_worth_it() {
    let directed = [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(32_768),
    ];
    for direct in directed {
        let rtr = RtrExtConfig {
            placement: direct,
            preference: MethodPreference::Groups,
            ..RtrExtConfig::ALL
        };
        let (mut client, mut server) = warm(
            placing(rtr, Config::client()),
            placing(RtrExtConfig::ALL, Config::server()),
        );
        let both = CallSpec {
            max_reply: 67_900,
            results: &[
                ResultSpec::whole_call(2_000),
                ResultSpec::whole_call(65_536),
                ResultSpec::whole_call(100),
            ],
            ..SHORT
        };
        let results = [(100, 2_000), (2_104, 65_536), (67_644, 100)]
            .map(|(position, length)| DataItem { position, length }.into());
        let (call, xid, _) = sent(&mut client, &mut server, &both);
        server.session.reply(call, 67_744, &results).unwrap();
        exchange(&mut client, &mut server);
        let reply = client.replies(xid).pop().unwrap();
        let message = reply.reassembled.unwrap();
        let items: Vec<_> = message
            .items
            .iter()
            .map(|item| (item.result, item.position, item.length))
            .collect();
        assert_eq!(
            items,
            [(Some(0), 100, 2_000), (Some(1), 2_104, 65_536)],
            "{direct:?}"
        );
        assert_eq!(message.items[0].reduction, Reduction::TooShort);
        assert!(!matches!(
            message.items[1].reduction,
            Reduction::TooShort | Reduction::NoItem
        ));
        assert_eq!((message.length, reply.results.len()), (67_744, 3));
    }
}

/// What is taken of a peer's own is no limit to what we have asked it for.
#[test]
fn a_reply_may_be_as_long_as_was_asked_for() {
    for direct in [ResultPlacement::Cheaper, ResultPlacement::Explicit] {
        let rtr = RtrExtConfig {
            placement: direct,
            preference: MethodPreference::Groups,
            ..RtrExtConfig::ALL
        };
        let limits = ChunkLimits {
            max_bytes: 16_384,
            max_segments: 0,
        };
        let client = Config {
            limits,
            ..placing(rtr, Config::client())
        };
        let (mut client, mut server) = warm(client, placing(RtrExtConfig::ALL, Config::server()));
        let (call, xid, _) = sent(&mut client, &mut server, &READ);
        let result = [DataItem {
            position: 100,
            length: 65_536,
        }
        .into()];
        answered(&mut client, &mut server, (call, xid), 65_640, &result);
    }
}

/// Memory that a request directs to is no Write list: a reply without rtrext-02 has used none of
/// it.
#[test]
fn a_plain_reply_returns_nothing_that_was_directed() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Explicit,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    for returns in [false, true] {
        let (mut client, mut server) = warm(
            placing(rtr, Config::client()),
            placing(RtrExtConfig::ALL, Config::server()),
        );
        let both = CallSpec {
            max_reply: 67_900,
            results: &[ResultSpec::whole_call(100), ResultSpec::whole_call(65_536)],
            ..SHORT
        };
        let (_, xid, _) = sent(&mut client, &mut server, &both);
        let chunk = [1, 1, key(xid, 1), 65_536, 0, u32::try_from(OFFSET).unwrap()];
        let writes = if returns { &chunk[..] } else { &[] };
        client.receive(&words(
            &[&[xid, 2, 32, 0, 1, 0], writes, &[0, 0, xid, 1, 0, 0]].concat(),
        ));
        let results: Vec<_> = client
            .replies(xid)
            .iter()
            .map(|reply| reply.results.len())
            .collect();
        let (wanted, failed) = if returns {
            (vec![], vec![CallFailure::Reply(ChunkError::NotAsOffered)])
        } else {
            (vec![0], vec![])
        };
        assert_eq!((results, client.failures(xid)), (wanted, failed));
    }
}

// spec: rtr-4.3-a, rtr-4.3-b, rtr-4.3-c, rtr-4.3-d
#[test]
fn without_all_its_credits_a_call_goes_by_explicit_rdma() {
    let server = Config {
        max_served: 4,
        ..Config::server()
    };
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, server),
    );
    let xid = client.session.call(&LONG, None).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        client.session.transfer_plan(xid).unwrap().method,
        TransferMethod::Long,
        "it would take five, and there are four"
    );
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
    // One of three takes three of them: the second goes by other means, since one is left.
    let three = CallSpec {
        length: 9_000,
        ..SHORT
    };
    let xids = [&three, &three].map(|call| client.session.call(call, None).unwrap());
    exchange(&mut client, &mut server);
    let ways = xids.map(|xid| {
        matches!(
            client.session.transfer_plan(xid).unwrap().method,
            TransferMethod::Grouped(_)
        )
    });
    assert_eq!(ways, [true, false]);
    assert_eq!(server.arrived().len(), 2);
}

// spec: rtr-5.1-c, rtr-5.2-b, rtr-5.2-d, rtr-5.2-g, rtr-5.3-a, rtr-5.3-j, rtr-7.1-i, rtr-7.1-j
// spec: rtr-9.4-c, rtr-9.4-f
#[test]
fn what_the_peer_has_not_told_is_not_used() {
    let subsets = (0..8).map(OperationSet::from_bits);
    for operations in subsets {
        for limit in [1, 8] {
            let rtr = RtrExtConfig {
                operations,
                request_limit: limit,
                response_limit: limit,
                ..RtrExtConfig::ALL
            };
            let (mut client, mut server) = warm(
                placing(RtrExtConfig::ALL, Config::client()),
                placing(rtr, Config::server()),
            );
            let items = [DataItem {
                position: 120,
                length: 200_000,
            }];
            let calls = [SHORT, LONG, LONG_REPLY, READ, write(&items)];
            for call in &calls {
                let (served, xid, _) = sent(&mut client, &mut server, call);
                if let Some(travel) = client.session.transfer_plan(xid)
                    && let TransferMethod::Grouped(grouped) = travel.method
                {
                    assert!(operations.contains(OperationSet::REQUESTS));
                    assert!(
                        grouped.count == 1
                            || (limit > 1 && operations.contains(OperationSet::CONTINUATIONS))
                    );
                    assert!(grouped.send == 0 || operations.contains(OperationSet::RESPONSES));
                }
                let result = [DataItem {
                    position: 100,
                    length: 65_536,
                }
                .into()];
                let (length, results) = if call.results.is_empty() {
                    (call.max_reply, &[][..])
                } else {
                    (65_700, &result[..])
                };
                answered(&mut client, &mut server, (served, xid), length, results);
            }
            assert_eq!(
                (client.session.outstanding(), server.session.outstanding()),
                ((0, 0), (0, 0)),
                "{operations:?} {limit}"
            );
            assert_eq!(
                server.session.counters().refused,
                0,
                "nothing was merely tried"
            );
        }
    }
}

/// What begins a group is refused at once by an end that takes no continuations: the peer would wait
/// for a reply in vain.
// spec: rtr-5.1-b, rtr-9.4-c
#[test]
fn a_group_is_refused_where_no_continuation_is_taken() {
    let ends = |operations| {
        let server = RtrExtConfig {
            operations,
            ..RtrExtConfig::ALL
        };
        warm(
            plain(RtrExtConfig::ALL, Config::client()),
            plain(server, Config::server()),
        )
    };
    let (mut client, _) = ends(OperationSet::ALL);
    let (xid, packets) = transmissions(&mut client, &LONG);
    let lacking = OperationSet::ALL.difference(OperationSet::CONTINUATIONS);
    let (_, mut server) = ends(lacking);
    server.receive(&packets[0].bytes);
    let answer = server.send().expect("RDMA2_ERR_INVAL_OPTION");
    assert_eq!(
        (answer.word(0), answer.word(3), answer.word(4)),
        (xid, 4, 3)
    );
    assert_eq!(server.arrived(), []);
}

// spec: rtr-5.1-b
#[test]
fn operations_are_tried_where_nothing_is_told_of_them() {
    // The peer knows properties, and nothing of rtrext-02.
    let tries = RtrExtConfig {
        probe: true,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    let (mut client, mut server) = settled(placing(tries, Config::client()), Config::server());
    let xid = client.session.call(&SHORT, None).unwrap();
    // The attempt, RDMA2_ERR_INVAL_OPTION, and the call by other means.
    let messages = exchange(&mut client, &mut server);
    assert_eq!(messages, 3);
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
    let (call, xid, messages) = sent(&mut client, &mut server, &SHORT);
    assert_eq!(messages, 1, "it is not tried twice");
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

// spec: rtr-3.4-c, rtr-6.2-t, rtr-6.2-u, rtr-7.3-l, rtr-7.4-c, rtr-7.4-d, rtr-7.4-e, rtr-7.4-g
// spec: rtr-7.4-i, rtr-7.4-l
// spec: rtr-7.4-m, rtr-7.4-n, rtr-7.4-o, rtr-7.4-p
#[test]
fn results_go_as_they_are_directed() {
    let cases = [
        (ResultPlacement::Explicit, 65_536u32, true),
        (ResultPlacement::Choice, 65_536, false),
        (ResultPlacement::BySize(32_768), 65_536, true),
        (ResultPlacement::BySize(32_768), 32_767, false),
        (ResultPlacement::Cheaper, 65_536, false),
    ];
    for (direct, length, written) in cases {
        let rtr = RtrExtConfig {
            placement: direct,
            preference: MethodPreference::Groups,
            ..RtrExtConfig::ALL
        };
        let (mut client, mut server) = warm(
            placing(rtr, Config::client()),
            placing(RtrExtConfig::ALL, Config::server()),
        );
        let (call, xid, _) = sent(&mut client, &mut server, &READ);
        assert_eq!(
            exposes(&client),
            usize::from(direct != ResultPlacement::Cheaper)
        );
        let result = [DataItem {
            position: 100,
            length,
        }
        .into()];
        server
            .session
            .reply(call, 104 + length.next_multiple_of(4), &result)
            .unwrap();
        let writes: Vec<_> = server
            .session
            .writes(call)
            .map(|write| write.range)
            .collect();
        let expected = Some(100..100 + length).filter(|_| written);
        assert_eq!(writes, Vec::from_iter(expected), "{direct:?}");
        exchange(&mut client, &mut server);
        let reply = client.replies(xid).pop().unwrap();
        assert_eq!(reply.results[0], if written { length } else { 0 });
        let how = &reply.reassembled.as_ref().unwrap().items[0].reduction;
        assert_eq!(matches!(how, Reduction::Explicit(_)), written);
        let fences = client
            .actions
            .iter()
            .filter(|action| matches!(action, Action::Fence { .. }))
            .count();
        assert_eq!(
            fences,
            exposes(&client),
            "what was registered is not any more, whatever was used"
        );
    }
}

// spec: rtr-3.4-a, rtr-6.2-j, rtr-6.2-q, rtr-7.3-c, rtr-7.3-n
#[test]
fn a_call_may_have_items_that_are_placed_and_such_that_are_read() {
    let (mut client, mut server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    server.holds.reading = true;
    let items = [
        DataItem {
            position: 120,
            length: 65_536,
        },
        DataItem {
            position: 65_660,
            length: 1_000_000,
        },
    ];
    let mixed = CallSpec {
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        ..write(&items)
    };
    let xid = client.session.call(&mixed, None).unwrap();
    exchange(&mut client, &mut server);
    let Some(TransferMethod::Grouped(grouped)) = client
        .session
        .transfer_plan(xid)
        .map(|travel| travel.method)
    else {
        panic!("grouped")
    };
    assert_eq!(
        (grouped.placed, grouped.read, grouped.count),
        (0b01, 0b10, 1)
    );
    let gathered = server.actions.iter().find_map(|action| match action {
        Action::Gather { call, message } => Some((*call, message.clone())),
        _ => None,
    });
    let (call, message) = gathered.unwrap();
    assert_eq!(
        whole(&server, &message, xid, false),
        expected(xid, false, mixed.length)
    );
    server.session.read_done(call);
    server.act();
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}
