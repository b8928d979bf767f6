//! Calls: their transfer methods, their ends, and the owner of their memory until then.

use rpcrdma_proto::connection::{
    Action, CallFailure, CallRegion, Config, Event, Exposure, ReplyError, SendOwner,
    SessionCallError,
};
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::{CallSpec, DataItem, ResultSpec, TransferError};

use crate::pair::{
    End, Holds, LONG_REPLY, NULL, REPLY, RESULT, exchange, key, one, settled, words, works,
};
use crate::properties::{DRAFTS, client_of, server_of};

pub(crate) fn warm() -> (End, End) {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    client.actions.clear();
    client.events.clear();
    (client, server)
}

fn fences(end: &End) -> usize {
    end.actions
        .iter()
        .filter(|action| matches!(action, Action::Fence { .. }))
        .count()
}

// ---- How they travel ----------------------------------------------------------------------------

/// The largest item is reduced, and no more items than the peer reassembles: Linux before 6.12
/// accepts one.
#[test]
fn read_chunks_are_limited_to_those_that_the_peer_reassembles() {
    let items = [
        DataItem {
            position: 100,
            length: 8_000,
        },
        DataItem {
            position: 8_104,
            length: 16_000,
        },
    ];
    let call = CallSpec {
        length: 24_200,
        items: &items,
        max_reply: 24,
        results: &[],
        reducible: true,
    };
    for (read_chunks, regions) in [
        (2, vec![CallRegion::Item(0), CallRegion::Item(1)]),
        (1, vec![CallRegion::Call]),
    ] {
        let (mut client, mut server) = settled(
            Config {
                max_read_chunks: read_chunks,
                ..Config::client()
            },
            Config::server(),
        );
        client.holds.exposing = true;
        let xid = client.session.call(&call, None).unwrap();
        client.act();
        assert_eq!(
            client
                .session
                .exposures(xid)
                .map(|one| one.region)
                .collect::<Vec<_>>(),
            regions
        );
        client.expose(xid);
        exchange(&mut client, &mut server);
        let given = server.arrived()[0];
        assert_eq!(server.session.call_length(given), Some(24_200));
    }
}

/// Only the memory that the header needs is exposed.
// spec: v2-2.2-a, v2-2.1-d, v2-2.1-e
// spec: rfc8166-3.4.6-a
#[test]
fn memory_is_exposed_only_for_large_messages() {
    let (mut client, _) = warm();
    client.holds.exposing = true;
    let mut exposed = |call: &CallSpec<'_>| {
        let xid = client.session.call(call, None).unwrap();
        client.act();
        let exposed: Vec<_> = client
            .session
            .exposures(xid)
            .map(|Exposure { region, length }| (region, length))
            .collect();
        assert_eq!(
            client.send().is_some(),
            exposed.is_empty(),
            "not sent before its memory is exposed"
        );
        exposed
    };
    assert_eq!(exposed(&NULL), []);
    assert_eq!(exposed(&RESULT), [(CallRegion::Result(0), 65_536)]);
    assert_eq!(exposed(&LONG_REPLY), [(CallRegion::Reply, 9_000)]);
    assert_eq!(
        exposed(&CallSpec {
            length: 5_000,
            ..NULL
        }),
        [(CallRegion::Call, 5_000)]
    );
    // Protected bytes cannot be reduced.
    assert_eq!(
        exposed(&CallSpec {
            reducible: false,
            ..RESULT
        }),
        [(CallRegion::Reply, 65_700)]
    );
}

/// A transport may say that memory can't be exposed, or bring more segments than there is room for.
#[test]
fn a_call_whose_memory_is_not_exposed_fails() {
    let (mut client, mut server) = warm();
    client.holds = Holds {
        exposing: true,
        fencing: true,
        ..Holds::default()
    };
    let [refused, split] = [RESULT, RESULT].map(|call| client.session.call(&call, None).unwrap());
    client.act();
    client.session.expose_failed(refused);
    let segment = rpcrdma_proto::chunk::Segment {
        handle: 1,
        length: 1,
        offset: 0,
    };
    client.session.exposed(split, [&[segment; 65][..]]);
    client.act();
    assert!(client.events.is_empty(), "some of it may be exposed");
    for xid in [refused, split] {
        client.session.fenced(xid);
    }
    client.act();
    assert_eq!(client.failures(refused), [CallFailure::Memory]);
    assert_eq!(
        client.failures(split),
        [CallFailure::Transfer(TransferError::TooManySegments)]
    );
    client.holds = Holds::default();
    works(&mut client, &mut server);
}

/// Send With Invalidate answers a call whose chunks have one key, where its requester wants it and
/// its responder can.
// spec: xc3-3.2-a, xc3-3.2-b, xc3-3.2-c
// spec: xc2-3.2-a, xc2-3.2-b, xc2-3.2-c
#[test]
fn one_key_is_invalidated_if_both_ends_agree() {
    let both = CallSpec {
        max_reply: 140_000,
        results: &[
            ResultSpec::whole_call(65_536),
            ResultSpec::whole_call(65_536),
        ],
        ..RESULT
    };
    let item = CallSpec {
        length: 9_000,
        items: &[DataItem {
            position: 40,
            length: 8_000,
        }],
        ..NULL
    };
    let mixed = CallSpec {
        length: 9_000,
        items: &[DataItem {
            position: 40,
            length: 8_000,
        }],
        ..RESULT
    };
    for (version_one, draft) in [(false, DRAFTS[0]), (false, DRAFTS[1]), (true, DRAFTS[0])] {
        for (wanted, can) in [(true, true), (true, false), (false, true)] {
            let client = Config {
                remote_invalidation: wanted,
                ..client_of(draft)
            };
            let server = Config {
                send_with_invalidate: can,
                ..server_of(draft)
            };
            let (client, server) = if version_one {
                (one(client), one(server))
            } else {
                (client, server)
            };
            let (mut client, mut server) = settled(client, server);
            works(&mut client, &mut server);
            let calls = [NULL, RESULT, both, item, mixed]
                .map(|call| client.session.call(&call, None).unwrap());
            exchange(&mut client, &mut server);
            let mut found = Vec::new();
            for call in server.arrived() {
                server.session.reply(call, REPLY, &[]).unwrap();
                let packet = server.send().unwrap();
                found.push(packet.invalidate);
                client.receive_with(&packet.bytes, packet.invalidate);
            }
            let agreed = (wanted && can).then_some(key(calls[1], 1));
            let of_item = (wanted && can).then_some(key(calls[3], 1));
            assert_eq!(
                found,
                [None, agreed, None, of_item, None],
                "a key where there is one, and not two"
            );
            let told = Action::Fence {
                xid: calls[1],
                invalidated: agreed,
            };
            assert!(
                client.actions.contains(&told),
                "the fence knows what is done already"
            );
            assert_eq!(
                (client.closing(), client.session.outstanding()),
                (None, (0, 0))
            );
        }
    }
}

/// In Version Two only the property determines whether invalidation is wanted, and it may change on
/// a connection (decision D18).
// spec: xc3-3.2-b, xc3-3.2-c
// spec: xc2-3.2-b, xc2-3.2-c
#[test]
fn invalidation_follows_the_property() {
    for draft in DRAFTS {
        let server = Config {
            send_with_invalidate: true,
            ..server_of(draft)
        };
        let (mut client, mut server) = settled(
            Config {
                remote_invalidation: true,
                ..client_of(draft)
            },
            server,
        );
        works(&mut client, &mut server);
        for wanted in [false, true] {
            client
                .session
                .set_property(BasicProperty::RemoteInvalidation(wanted))
                .unwrap();
            exchange(&mut client, &mut server);
            let xid = client.session.call(&RESULT, None).unwrap();
            exchange(&mut client, &mut server);
            let call = server.arrived()[0];
            server.session.reply(call, REPLY, &[]).unwrap();
            let packet = server.send().unwrap();
            assert_eq!(packet.invalidate, wanted.then_some(key(xid, 1)));
            client.receive_with(&packet.bytes, packet.invalidate);
        }
    }
}

// ---- How they end -------------------------------------------------------------------------------

/// Memory that the peer may reach is fenced before the call ends, and what a Send needs is
/// released.
// spec: v2-2.2-b
#[test]
fn call_ends_when_its_memory_is_released() {
    let (mut client, mut server) = warm();
    client.holds = Holds {
        fencing: true,
        releasing: true,
        ..Holds::default()
    };
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reply(call, 9_000, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!((fences(&client), client.replies(xid)), (1, vec![]));
    client.session.fenced(xid);
    client.act();
    assert_eq!(client.replies(xid), [], "the Send has its memory");
    client.released(SendOwner::Call { xid });
    client.act();
    assert_eq!(client.replies(xid).len(), 1);
    // A repeated call has no effect.
    client.session.fenced(xid);
    client.released(SendOwner::Call { xid });
    client.act();
    assert_eq!(
        (client.replies(xid).len(), client.session.outstanding()),
        (1, (0, 0))
    );
}

/// A call can be given up in each of its states. It fails once, after the fence, and its credit is
/// not lost.
#[test]
fn a_call_can_be_cancelled_at_any_time() {
    for state in ["waiting", "exposing", "ready", "sent", "served"] {
        let (mut client, mut server) = warm();
        let free = client.session.available_credits();
        client.holds = Holds {
            exposing: state == "exposing",
            fencing: true,
            ..Holds::default()
        };
        let xid = client.session.call(&LONG_REPLY, None).unwrap();
        match state {
            "waiting" => {}
            "exposing" | "ready" => client.act(),
            "sent" => assert!(client.send().is_some()),
            _ => drop(exchange(&mut client, &mut server)),
        }
        assert!(
            client.session.cancel(xid) && !client.session.cancel(xid),
            "{state}"
        );
        client.act();
        if state != "waiting" {
            assert_eq!(
                (fences(&client), client.failures(xid)),
                (1, vec![]),
                "{state}: not before the fence"
            );
            client.session.fenced(xid);
            client.act();
        }
        assert_eq!(client.failures(xid), [CallFailure::Cancelled], "{state}");
        client.expose(xid);
        client.act();
        assert_eq!(
            (fences(&client), client.events.len()),
            (usize::from(state != "waiting"), 1),
            "{state}"
        );
        // Its credit is returned, or will be with its reply.
        let taken = u32::from(matches!(state, "sent" | "served"));
        assert_eq!(
            (
                client.session.available_credits(),
                client.session.outstanding().0
            ),
            (free - taken, taken as usize),
            "{state}"
        );
        if state == "served" {
            let call = server.arrived()[0];
            server.session.reply(call, 9_000, &[]).unwrap();
            exchange(&mut client, &mut server);
            assert_eq!(
                (
                    client.session.available_credits(),
                    client.session.outstanding().0
                ),
                (free, 0)
            );
            assert_eq!(
                (client.events.len(), client.session.counters().unexpected),
                (1, 0),
                "no second end"
            );
        }
    }
}

/// A requester that can't fence the memory of an answered call closes the connection. The call ends
/// when its memory is fenced with the connection, and not before.
// spec: rfc8166-4.5.4-a
#[test]
fn an_answered_call_outlives_its_connection_until_it_is_fenced() {
    let (mut client, mut server) = warm();
    client.holds.fencing = true;
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reply(call, 9_000, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(fences(&client), 1);
    for loses in [false, true] {
        if loses {
            client.lose(10);
        }
        assert!(client.replies(xid).is_empty() && client.failures(xid).is_empty());
        assert_eq!(client.session.outstanding(), (1, 0));
    }
    client.session.fenced(xid);
    client.act();
    assert_eq!((fences(&client), client.replies(xid).len()), (1, 1));
}

/// A cancelled call leaves no state when its connection is lost, since no reply will arrive.
#[test]
fn a_cancelled_call_does_not_outlive_its_connection() {
    for fenced_first in [true, false] {
        let (mut client, mut server) = warm();
        client.holds.fencing = true;
        let xid = client.session.call(&LONG_REPLY, None).unwrap();
        exchange(&mut client, &mut server);
        client.session.cancel(xid);
        client.act();
        if fenced_first {
            client.session.fenced(xid);
        }
        client.lose(10);
        client.session.fenced(xid);
        client.act();
        assert_eq!(
            (client.failures(xid), client.session.outstanding()),
            (vec![CallFailure::Cancelled], (0, 0))
        );
    }
}

/// A late reply does not end a call twice, and a reply to an unsent call is unexpected.
// spec: bd-2-e
#[test]
fn reply_to_an_unsent_call_is_unexpected() {
    let (mut client, mut server) = warm();
    client.holds.exposing = true;
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    client.act();
    let before = client.session.available_credits();
    let reply = words(&[xid, 2, 32, 0, 1, 0, 0, 0, xid, 1, 0, 0, 0, 0]);
    client.receive(&reply);
    assert_eq!(
        (
            client.session.counters().unexpected,
            client.session.available_credits()
        ),
        (1, before)
    );
    client.receive(&words(&[xid, 2, 32, 4, 2]));
    assert_eq!(
        (
            client.session.counters().unexpected,
            client.session.available_credits()
        ),
        (2, before)
    );
    // The call continues unaffected.
    client.expose(xid);
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(xid).len(), 1);
}

/// Deadlines pass for calls that wait and for those that were sent.
#[test]
fn a_deadline_ends_a_call() {
    let (mut client, mut server) = warm();
    let [early, late] =
        [1_000, 2_000].map(|deadline| client.session.call(&NULL, Some(deadline)).unwrap());
    assert_eq!(client.session.poll_timeout(), Some(1_000));
    exchange(&mut client, &mut server);
    client.session.timeout(999);
    client.act();
    assert!(client.events.is_empty());
    client.session.timeout(1_000);
    client.act();
    assert_eq!(
        (client.failures(early), client.failures(late)),
        (vec![CallFailure::TimedOut], vec![])
    );
    assert_eq!(client.session.poll_timeout(), Some(2_000));
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.replies(early).len(), client.replies(late).len()),
        (0, 1)
    );
    let waiting = client.session.call(&NULL, Some(3_000)).unwrap();
    client.session.timeout(3_000);
    client.act();
    assert_eq!(client.failures(waiting), [CallFailure::TimedOut]);
}

/// A reply without a transfer method ends its call with an error at both ends.
#[test]
fn reply_without_a_transfer_method_is_an_error() {
    let (mut client, mut server) = warm();
    let calls = [NULL, RESULT].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    let given = server.arrived();
    let too_long = Err(ReplyError::Transfer(TransferError::ReplyTooLong));
    assert_eq!(server.session.reply(given[0], 5_000, &[]), too_long);
    let result = [DataItem {
        position: 100,
        length: 65_537,
    }
    .into()];
    assert_eq!(
        server.session.reply(given[1], 65_700, &result),
        Err(ReplyError::Transfer(TransferError::ResultTooLong))
    );
    assert_eq!(
        server.session.reply(given[0], REPLY, &[]),
        Err(ReplyError::Ended)
    );
    exchange(&mut client, &mut server);
    for xid in calls {
        assert_eq!(client.failures(xid), [CallFailure::Peer(PeerError::Header)]);
        assert_eq!(client.may_be_executed(xid), Some(true));
    }
    let ended = |event: &&Event| matches!(event, Event::CallEnded { answered: true, .. });
    assert_eq!(
        server.events.iter().filter(ended).count(),
        3,
        "with that of the warming up"
    );
}

/// The consumer may decline a call; it can answer none twice.
// spec: bd-2-e
#[test]
fn a_call_is_answered_once() {
    let (mut client, mut server) = warm();
    let [declined, answered] = [NULL, NULL].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    let given = server.arrived();
    server.session.reject(given[0]).unwrap();
    server.session.reply(given[1], REPLY, &[]).unwrap();
    for call in given {
        assert_eq!(
            server.session.reply(call, REPLY, &[]),
            Err(ReplyError::Ended)
        );
        assert_eq!(server.session.reject(call), Err(ReplyError::Ended));
    }
    exchange(&mut client, &mut server);
    assert_eq!(
        client.failures(declined),
        [CallFailure::Peer(PeerError::Header)]
    );
    assert_eq!(client.replies(answered).len(), 1);
}

/// The responder's Sends may stay with their transport: the next calls that it granted have room
/// all the same.
#[test]
fn unreleased_replies_do_not_limit_calls() {
    let (mut client, mut server) = settled(
        Config::client(),
        Config {
            max_served: 4,
            ..Config::server()
        },
    );
    works(&mut client, &mut server);
    server.holds.releasing = true;
    for _ in 0..4 {
        let calls: Vec<_> = (0..4)
            .map(|_| client.session.call(&NULL, None).unwrap())
            .collect();
        exchange(&mut client, &mut server);
        let mut sent = Vec::new();
        for call in server.arrived() {
            server.session.reply(call, REPLY, &[]).unwrap();
            sent.push(SendOwner::Reply { call });
        }
        exchange(&mut client, &mut server);
        // The next four arrive before the first of these is released.
        for xid in calls {
            assert_eq!((client.replies(xid).len(), server.closing()), (1, None));
        }
        let more: Vec<_> = (0..4)
            .map(|_| client.session.call(&NULL, None).unwrap())
            .collect();
        exchange(&mut client, &mut server);
        assert_eq!(server.closing(), None, "the peer has kept to its grant");
        sent.into_iter().for_each(|what| server.released(what));
        let given = server.arrived();
        assert_eq!(given.len(), 4);
        for call in given {
            server.session.reply(call, REPLY, &[]).unwrap();
            exchange(&mut client, &mut server);
            server.released(SendOwner::Reply { call });
        }
        exchange(&mut client, &mut server);
        assert!(more.iter().all(|xid| client.replies(*xid).len() == 1));
    }
}

#[test]
fn no_more_calls_than_were_configured() {
    let config = Config {
        max_calls: 2,
        credits: 2,
        ..Config::client()
    };
    let (mut client, mut server) = settled(config, Config::server());
    client.session.call(&NULL, None).unwrap();
    client.session.call(&NULL, None).unwrap();
    assert_eq!(
        client.session.call(&NULL, None),
        Err(SessionCallError::Full)
    );
    client.session.drain();
    assert_eq!(
        client.session.call(&NULL, None),
        Err(SessionCallError::Closing)
    );
    exchange(&mut client, &mut server);
}

// A call that was cancelled after it was sent occupies its credit, but not a place of another call.
#[test]
fn cancelled_call_leaves_its_place() {
    let config = Config {
        max_calls: 2,
        credits: 2,
        ..Config::client()
    };
    let (mut client, mut server) = settled(config, Config::server());
    works(&mut client, &mut server);
    let mut begin = |client: &mut End| {
        let calls = [(); 2].map(|()| client.session.call(&NULL, None).unwrap());
        let full = client.session.call(&NULL, None);
        assert_eq!(full, Err(SessionCallError::Full));
        exchange(client, &mut server);
        calls
    };
    for xid in begin(&mut client) {
        assert!(client.session.cancel(xid));
    }
    // These wait for the credits of the cancelled calls.
    let waiting = begin(&mut client);
    let cancelled = [(); 2].map(|()| server.take_arrived().unwrap());
    assert!(server.take_arrived().is_none());
    for call in cancelled {
        server.session.reply(call, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
    }
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert!(waiting.iter().all(|xid| client.replies(*xid).len() == 1));
    assert_eq!(client.session.outstanding(), (0, 0));
}
