//! Bounds on the work and the state that a peer can cause: the settings limit both, and nothing is
//! half applied.

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{BufferId, CloseReason, Config, Event, Properties};
use rpcrdma_proto::error::RefusalReason;
use rpcrdma_proto::v2::properties::{PROP_BRS, PROP_RBSIZ, PROP_REQREMINV, ROPT_REQPROP};

use crate::pair::{End, NULL, both_ways, exchange, one, settled, words, works};
use crate::properties::{CALL, DRAFTS, operation};

/// Version Two, and no RPC message: RDMA2_ERR_BAD_HEADER answers it.
fn bad_message(xid: u32) -> Vec<u8> {
    words(&[xid, 2, 1, 0, 0, 0, 0, 0])
}

/// Delivers a message without polling the end, as a busy consumer does.
fn deliver(end: &mut End, message: &[u8]) {
    let _ = end.session.received(BufferId(0), message, None);
}

/// A request of which one value is malformed changes nothing, wherever that value stands: neither
/// the properties, nor the receive buffers, nor the credits.
// spec: xc3-2.1-g, xc3-4.2-a, xc2-4.2-a
#[test]
fn a_malformed_request_changes_nothing() {
    let server = |properties| Config {
        properties,
        receive_size: 16_384,
        max_receive_size: 65_536,
        remote_invalidation: true,
        ..Config::server()
    };
    let size = [PROP_RBSIZ, 4, 4_096];
    let growth = [PROP_RBSIZ, 4, 65_536];
    let invalidation = [PROP_REQREMINV, 4, 0];
    // Three bytes are no word.
    let malformed = [PROP_BRS, 3, 0];
    for draft in DRAFTS {
        for values in [
            [size, invalidation, malformed],
            [malformed, invalidation, size],
            [growth, malformed, invalidation],
        ] {
            let client = Config {
                properties: draft,
                ..Config::client()
            };
            let (mut client, mut server) = settled(client, server(draft));
            works(&mut client, &mut server);
            let before = *server.session.properties();
            server.actions.clear();
            let request = [&[3][..], values.concat().as_slice()].concat();
            // More often than there are credits: none is lost.
            for xid in 1_000..1_100 {
                server.receive(&operation(xid, CALL, ROPT_REQPROP, &request));
                let error = server.send().unwrap();
                assert_eq!(
                    (error.word(0), error.word(3), error.word(4)),
                    (xid, 4, 2),
                    "{values:?}"
                );
            }
            assert_eq!(
                (*server.session.properties(), server.closing()),
                (before, None)
            );
            for _ in 0..40 {
                works(&mut client, &mut server);
            }
            assert_eq!(client.session.peer_properties(), &before);
            assert!(
                server.actions.iter().all(|action| !matches!(
                    action,
                    rpcrdma_proto::connection::Action::PostReceives { size, .. } if *size != 16_384
                )),
                "the receive buffers stay as they are"
            );
        }
    }
}

/// No more errors wait to be sent than there are receives and calls; the calls being served, each
/// of which may need an error, have their places. A message for whose error there is no room closes
/// the connection: its sender would wait for the error.
// spec: rfc8166-4.5.4-b
#[test]
fn queued_errors_are_bounded_by_the_grant() {
    for served in [0, 3] {
        let server = Config {
            max_calls: 4,
            credits: 3,
            max_served: 5,
            reserved_receives: 2,
            ..Config::server()
        };
        let (mut client, mut server) = settled(Config::client(), server);
        works(&mut client, &mut server);
        for _ in 0..served {
            client.session.call(&NULL, None).unwrap();
        }
        exchange(&mut client, &mut server);
        // Credits, reserved receives, and twice the calls served.
        let room = 3 + 2 + 5 + 5 - served;
        let refused = server.session.counters().refused;
        for first in [1_000, 2_000] {
            for xid in first..first + room {
                deliver(&mut server, &bad_message(xid));
            }
            let mut sent = Vec::new();
            while let Some(error) = server.send() {
                sent.push(error.word(0));
            }
            let all: Vec<_> = (first..first + room).collect();
            assert_eq!(sent, all, "with those sent, there is room again");
        }
        for xid in 3_000..3_000 + room {
            deliver(&mut server, &bad_message(xid));
        }
        server.act();
        assert_eq!(server.closing(), None);
        deliver(&mut server, &bad_message(4_000));
        server.act();
        assert_eq!(server.closing(), Some(CloseReason::CreditOverrun));
        let counters = server.session.counters();
        let answered = u64::from(3 * room);
        assert_eq!(
            (counters.refused - refused, counters.dropped),
            (answered, 1)
        );
        assert!(server.send().is_none());
    }
}

/// Eight events that a peer brings about at will wait for the consumer at most. Those of calls are
/// not among them.
#[test]
fn queued_notices_are_bounded() {
    const CODE: u32 = 4_294_967_041;
    let (mut client, mut server) = both_ways(Config::client(), Config::server());
    client.session.register_operation(CODE).unwrap();
    client.events.clear();
    let events = |client: &mut End| {
        let mut events = Vec::new();
        while let Some(event) = client.session.poll_event() {
            events.push(event);
        }
        events
    };
    for _ in 0..3 {
        for xid in 1_000..1_100 {
            // An error that answers nothing.
            deliver(&mut client, &words(&[xid, 2, 1, 4, 2]));
        }
        server.session.call(&NULL, None).unwrap();
        let call = server.send().unwrap();
        deliver(&mut client, &call.bytes);
        let found = events(&mut client);
        let notices = found
            .iter()
            .filter(|event| matches!(event, Event::PeerError { .. }));
        assert_eq!((notices.count(), found.len()), (8, 9));
        assert!(matches!(found[8], Event::CallArrived { .. }));
        let Event::CallArrived { call, .. } = found[8] else {
            unreachable!()
        };
        client.session.reply(call, 24, &[]).unwrap();
        exchange(&mut client, &mut server);
    }
    let dropped = client.session.counters().dropped;
    // An operation that has no place is dropped, and its buffer is free.
    for xid in 0..20 {
        deliver(&mut client, &operation(xid, CALL, CODE, &[xid]));
    }
    assert_eq!(events(&mut client).len(), 8);
    assert_eq!(client.session.counters().dropped, dropped + 12);
    let refusal = client.session.take_refusal().unwrap();
    assert_eq!(refusal.reason, RefusalReason::TooManyEvents);
}

/// The limit on segments is for all Write chunks of a call and its Reply chunk together.
// spec: v2-2.2-a
#[test]
fn the_segments_of_several_write_chunks_are_limited_together() {
    let server = one(Config {
        limits: ChunkLimits {
            max_segments: 4,
            ..ChunkLimits::DEFAULT
        },
        ..Config::server()
    });
    let chunk = |segments: u32| {
        let mut words = vec![1, segments];
        words.extend((0..segments).flat_map(|at| [at + 1, 64, 0, 4096]));
        words
    };
    for (writes, reply, is_served) in [
        (&[4][..], 0, true),
        (&[2, 2], 0, true),
        (&[2, 1], 1, true),
        (&[1], 3, true),
        (&[2, 3], 0, false),
        (&[1, 1, 1, 1, 1], 0, false),
        (&[2, 2], 1, false),
        (&[1], 4, false),
        (&[5], 0, false),
    ] {
        let (_, mut server) = settled(one(Config::client()), server.clone());
        let mut message = vec![7, 1, 1, 0, 0];
        writes
            .iter()
            .for_each(|count| message.extend(chunk(*count)));
        message.push(0);
        message.extend(if reply > 0 { chunk(reply) } else { vec![0] });
        message.extend([7, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        server.receive(&words(&message));
        assert_eq!(
            server.arrived().len(),
            usize::from(is_served),
            "{writes:?} and {reply}"
        );
        let error = server.send().map(|error| (error.word(3), error.word(4)));
        assert_eq!(error, (!is_served).then_some((4, 2)));
    }
}

/// A client that has not offered to serve backward calls refuses them, in either version.
// spec: bd-6-a, xc3-3.3-a
#[test]
fn backward_calls_that_were_not_offered_are_refused() {
    let backward = |version: u32| {
        let lists = if version == 1 {
            &[0, 0, 0][..]
        } else {
            &[0, 0, 0, 0]
        };
        words(
            &[
                &[77, version, 1, 0],
                lists,
                &[77, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ]
            .concat(),
        )
    };
    let offers = Config {
        backward_v1: true,
        ..Config::client()
    };
    for (config, version, is_served) in [
        (one(offers.clone()), 1, true),
        (
            one(Config {
                backward_v1: false,
                ..offers.clone()
            }),
            1,
            false,
        ),
        (
            one(Config {
                max_served: 0,
                ..offers.clone()
            }),
            1,
            false,
        ),
        (offers.clone(), 2, true),
        (
            Config {
                max_served: 0,
                ..offers.clone()
            },
            2,
            false,
        ),
        (
            Config {
                properties: Properties::None,
                ..offers
            },
            2,
            true,
        ),
    ] {
        let (mut client, mut server) = settled(config, Config::server());
        works(&mut client, &mut server);
        client.receive(&backward(version));
        assert_eq!(client.arrived().len(), usize::from(is_served));
        let error = client
            .send()
            .map(|error| (error.word(0), error.word(1), error.word(3), error.word(4)));
        assert_eq!(error, (!is_served).then_some((77, version, 4, 2)));
    }
}
