//! Messages in transmissions of rtrext-02: how they go, and what arrives (`broken` has what becomes
//! of those that are broken).

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{Action, CallLocation, Config, Event, ServedCallId};
use rpcrdma_proto::continuation::{
    GroupError, OperationSet, ReassembledMessage, RtrExtConfig, Source,
};
use rpcrdma_proto::placement::{self, BufferStructure};
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultItem, ResultPlacement, ResultSpec, TransferMethod,
};

use crate::pair::{End, Packet, byte, exchange, settled, works};
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

/// Two ends that have exchanged their properties, and have credits.
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

/// The bytes of a message in transmissions. Data of RDMA Reads count as read.
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

/// The arrived call, and its message if it arrived in transmissions.
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
fn long_call_is_sent_in_several_transmissions() {
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
fn long_reply_uses_reserved_receives() {
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

/// The properties of rtrext-02 are exchanged by the operations of either draft.
#[test]
fn groups_work_with_properties_and_with_characteristics() {
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

/// The limit of our requests does not follow from the peer's own limits.
#[test]
fn reply_may_have_its_maximum_length() {
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

// spec: rtr-4.3-a, rtr-4.3-b, rtr-4.3-c, rtr-4.3-d
#[test]
fn call_without_its_credits_uses_explicit_rdma() {
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
fn unannounced_operations_are_not_used() {
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

/// An end without continuations refuses the beginning of a group at once, since the peer would wait
/// for a reply in vain.
// spec: rtr-5.1-b, rtr-9.4-c
#[test]
fn group_is_refused_without_support_for_continuations() {
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
fn unannounced_operations_are_probed() {
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
