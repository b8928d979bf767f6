//! Items of messages in transmissions of rtrext-02: placed, read or written.

use rpcrdma_proto::chunk::ChunkError;
use rpcrdma_proto::connection::{Action, CallFailure, Config};
use rpcrdma_proto::continuation::{Reduction, RtrExtConfig};
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultPlacement, ResultSpec, TransferMethod,
};

use crate::groups::{
    READ, SHORT, answered, arrived, expected, exposes, placing, sent, warm, whole, write,
};
use crate::pair::{OFFSET, exchange, key, words};

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
    // The bytes before it are zeros.
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

// spec: rtr-6.2-v, rtr-6.2-w, rtr-6.2-x, rtr-6.2-y, rtr-7.4-h, rtr-7.4-v, rtr-7.4-x
#[test]
fn short_and_missing_results_are_reported() {
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

/// A direction applies to its own result, even if earlier results are short.
#[test]
fn result_is_placed_after_a_short_one() {
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

/// Memory that a request directs to is no Write list: a reply without rtrext-02 has used none of
/// it.
#[test]
fn inline_reply_returns_no_directed_result() {
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

// spec: rtr-3.4-c, rtr-6.2-t, rtr-6.2-u, rtr-7.3-l, rtr-7.4-c, rtr-7.4-d, rtr-7.4-e, rtr-7.4-g
// spec: rtr-7.4-i, rtr-7.4-l
// spec: rtr-7.4-m, rtr-7.4-n, rtr-7.4-o, rtr-7.4-p
#[test]
fn results_follow_their_directions() {
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
fn call_may_have_placed_and_read_items() {
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
