//! The negotiation of the version, and the first messages.

use rpcrdma_proto::connection::{
    Action, CallFailure, CloseReason, Config, ConnState, Event, Properties, SessionCallError,
};
use rpcrdma_proto::error::{PeerError, RefusalReason};
use rpcrdma_proto::transfer::CallSpec;
use rpcrdma_proto::version::Version;

use crate::pair::{
    End, NULL, REPLY, connect, exchange, one, pair, pass, settled, word, words, works,
};

fn without_properties(config: Config) -> Config {
    Config {
        properties: Properties::None,
        ..config
    }
}

fn call(length: u32, largest_reply: u32) -> CallSpec<'static> {
    CallSpec {
        length,
        items: &[],
        max_reply: largest_reply,
        results: &[],
        reducible: true,
    }
}

/// Without properties the first call asks, and nothing else goes until it is answered (decision
/// D7).
// spec: v2-5-a, v2-5-b, v2-5-c, v2-5.1-a, v2-5.1-b
#[test]
fn first_call_probes_the_version_without_properties() {
    let (mut client, mut server) = pair(
        without_properties(Config::client()),
        without_properties(Config::server()),
    );
    let first = client.session.call(&NULL, None).unwrap();
    client.session.call(&NULL, None).unwrap();
    let packet = client.send().unwrap();
    assert_eq!(
        (packet.word(0), packet.word(1), packet.word(3)),
        (first, 2, 0)
    );
    assert!(client.send().is_none(), "one message until the answer");
    assert_eq!(client.session.version(), None);
    server.receive(&packet.bytes);
    assert_eq!(server.session.version(), Some(Version::Two));
    let given = server.arrived()[0];
    server.session.reply(given, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.session.version(), client.replies(first).len()),
        (Some(Version::Two), 1)
    );
    assert!(client.events.contains(&Event::Ready {
        version: Version::Two
    }));
    assert_eq!(server.arrived().len(), 1, "the second call follows");
}

/// Until the answer a message has 1024 bytes at most, and so has the first reply; then 4096
/// (decision D8).
// spec: v2-5-d, v2-5.1-b, v2-2.1-d, v2-2.1-e, v2-2.3-c, v2-5.2-g
#[test]
fn the_first_messages_have_no_more_than_1024_bytes() {
    for (length, largest, header) in [(992, 992, 32), (996, 24, 56), (40, 1000, 52)] {
        let (mut client, mut server) = pair(
            without_properties(Config::client()),
            without_properties(Config::server()),
        );
        let xid = client.session.call(&call(length, largest), None).unwrap();
        let packet = client.send().unwrap();
        assert_eq!((packet.header, packet.bytes.len() <= 1024), (header, true));
        server.receive(&packet.bytes);
        let given = server.arrived()[0];
        server.session.reply(given, largest, &[]).unwrap();
        let packet = server.send().unwrap();
        assert!(packet.bytes.len() <= 1024);
        client.receive(&packet.bytes);
        assert_eq!(
            client.replies(xid)[0].long,
            (largest == 1000).then_some(1000)
        );
        // From now on it is 4096, and no connection was lost for it.
        client.session.call(&call(4064, 4064), None).unwrap();
        let packet = client.send().unwrap();
        assert_eq!((packet.header, packet.bytes.len()), (32, 4096));
        server.receive(&packet.bytes);
        let given = server.arrived()[0];
        server.session.reply(given, 4064, &[]).unwrap();
        assert_eq!(server.send().unwrap().bytes.len(), 4096);
        client.session.call(&call(4065, 24), None).unwrap();
        assert_eq!(client.send().unwrap().bytes.len(), 56, "a long call");
        assert_eq!(client.session.counters().connections, 1);
    }
}

/// A server that speaks Version Two without properties: its error is the answer, and the next reply
/// may be as long as any.
// spec: v2-3.1-a, v2-3.3-a, xc3-3-m, xc3-4-i, xc3-4-j
#[test]
fn server_without_properties_gets_version_two() {
    let (mut client, mut server) = pair(Config::client(), without_properties(Config::server()));
    let probe = client.send().unwrap();
    assert_eq!((probe.word(3), probe.word(5)), (5, 2), "a ROPT_REQPROP");
    server.receive(&probe.bytes);
    let error = server.send().unwrap();
    assert_eq!(error.bytes, words(&[probe.word(0), 2, 1, 4, 3]));
    client.receive(&error.bytes);
    assert_eq!(client.session.version(), Some(Version::Two));
    let xid = client.session.call(&call(40, 4000), None).unwrap();
    exchange(&mut client, &mut server);
    let given = server.arrived()[0];
    server.session.reply(given, 4000, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(xid)[0].inline.len(), 4000);
    assert_eq!(client.session.peer_properties().receive_buffer_size, 4096);
    assert_eq!(
        client.session.counters().sent,
        2,
        "no properties for who does not speak of them"
    );
    assert!(
        client
            .session
            .request_property(rpcrdma_proto::property::BasicProperty::RemoteInvalidation(
                true
            ))
            .is_err()
    );
}

/// The range in a version error decides (decision D8).
// spec: v2-5.2-a, v2-5.2-b, v2-5.2-c, v2-5.2-f
#[test]
fn the_range_of_an_error_about_versions_decides() {
    for (low, high, fallback) in [
        (1, 1, true),
        (0, 1, true),
        (1, 2, true),
        (0, 9, true),
        (2, 2, false),
        (2, 1, false),
        (0, 0, false),
        (3, 9, false),
    ] {
        let (mut client, _) = pair(without_properties(Config::client()), Config::server());
        let xid = client.session.call(&NULL, None).unwrap();
        client.send().unwrap();
        client.receive(&words(&[xid, 2, 64, 4, 1, low, high]));
        if fallback {
            let again = client.send().unwrap();
            assert_eq!(
                (again.word(0), again.word(1), again.header),
                (xid, 1, 28),
                "{low} to {high}"
            );
            assert_eq!(client.session.version(), Some(Version::One));
        } else {
            assert_eq!(
                client.closing(),
                Some(CloseReason::NoVersion),
                "{low} to {high}"
            );
            assert_eq!(
                client.failures(xid),
                [CallFailure::Peer(PeerError::Versions { low, high })]
            );
            client.lose(1);
            assert_eq!(
                client.events.last(),
                Some(&Event::Closed {
                    reason: CloseReason::NoVersion,
                    is_final: true
                })
            );
            let refused = client.session.call(&NULL, None).unwrap_err();
            assert_eq!(refused, SessionCallError::Ended(CloseReason::NoVersion));
            assert_eq!(
                refused.to_string(),
                "the session has ended: the two ends have no version in common"
            );
        }
    }
}

/// A server of Version One refuses with the XID and the version of the question.
// spec: v2-5.2-a
#[test]
fn version_one_server_reports_its_range() {
    let (mut client, mut server) = pair(Config::client(), one(Config::server()));
    let probe = client.send().unwrap();
    server.receive(&probe.bytes);
    assert_eq!(
        server.send().unwrap().bytes,
        words(&[probe.word(0), 2, 1, 4, 1, 1, 1])
    );
    assert_eq!(client.session.version(), None);
}

/// A peer that does not answer, or drops the connection, gets Version One for a while, and is then
/// probed again.
// spec: v2-5.2-d, v2-5.2-e
#[test]
fn a_peer_that_does_not_answer_is_remembered_for_a_while() {
    for drops in [false, true] {
        let config = Config {
            negotiation_timeout: 5_000,
            version_cache_ttl: 1_000_000,
            reconnect_delay: 10,
            ..Config::client()
        };
        let (mut client, mut server) = pair(config, Config::server());
        let xid = client.session.call(&NULL, None).unwrap();
        client.now = 100;
        client.send().unwrap();
        assert_eq!(client.session.poll_timeout(), Some(5_100));
        if !drops {
            client.session.timeout(5_099);
            client.act();
            assert_eq!(client.closing(), None);
            client.session.timeout(5_100);
            client.act();
            assert_eq!(client.closing(), Some(CloseReason::NegotiationTimeout));
        }
        server.lose(6_000);
        client.lose(6_000);
        let why = if drops {
            CloseReason::Lost
        } else {
            CloseReason::NegotiationTimeout
        };
        assert_eq!(
            client.events.last(),
            Some(&Event::Closed {
                reason: why,
                is_final: false
            })
        );
        for (now, version) in [(6_020, Version::One), (1_006_001, Version::Two)] {
            (client.now, server.now) = (now, now);
            client.session.timeout(now);
            client.act();
            assert_eq!(client.actions.last(), Some(&Action::Connect));
            connect(&mut client, &mut server);
            exchange(&mut client, &mut server);
            for call in server.arrived() {
                server.session.reply(call, REPLY, &[]).unwrap();
            }
            exchange(&mut client, &mut server);
            assert_eq!(client.session.version(), Some(version));
            server.lose(now + 1);
            client.lose(now + 1);
        }
        assert_eq!(client.replies(xid).len(), 1);
    }
}

/// A server initiates no message before it has received one in Version Two (decision D7).
#[test]
fn server_waits_for_the_first_message() {
    let (mut client, mut server) = pair(one(Config::client()), Config::server());
    server.session.call(&NULL, None).unwrap();
    assert!(server.send().is_none());
    works(&mut client, &mut server);
    assert!(
        server.send().is_none(),
        "and not in Version Two after Version One"
    );
    assert_eq!(server.session.version(), Some(Version::One));
}

/// A reply has the version of its call, regardless of earlier messages.
// spec: v2-5.3-a, bd-5.2-b
#[test]
fn replies_use_the_version_of_their_calls() {
    let (_, mut server) = settled(Config::client(), Config::server());
    for (version, header) in [(1, 28), (2, 32)] {
        let lists = if version == 1 {
            &[0, 0, 0][..]
        } else {
            &[0, 0, 0, 0]
        };
        server.receive(&words(
            &[&[9, version, 1, 0], lists, &[9, 0, 0, 0]].concat(),
        ));
        let given = server.arrived()[0];
        server.session.reply(given, REPLY, &[]).unwrap();
        let packet = server.send().unwrap();
        assert_eq!(
            (packet.word(0), packet.word(1), packet.header),
            (9, version, header)
        );
    }
    assert_eq!(
        server.session.version(),
        Some(Version::Two),
        "of what it says by itself, nothing changes"
    );
    let ready = |event: &&Event| matches!(event, Event::Ready { .. });
    assert_eq!(server.events.iter().filter(ready).count(), 1);
}

/// A version error after the negotiation ends only the call that it answers.
// spec: v2-5.1-a
#[test]
fn version_error_does_not_change_a_negotiated_version() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    client.send().unwrap();
    client.receive(&words(&[xid, 2, 64, 4, 1, 1, 1]));
    assert_eq!(
        client.failures(xid),
        [CallFailure::Peer(PeerError::Versions { low: 1, high: 1 })]
    );
    assert_eq!(client.may_be_executed(xid), Some(false));
    assert_eq!(
        (client.session.version(), client.closing()),
        (Some(Version::Two), None)
    );
    works(&mut client, &mut server);
}

/// A client that speaks Version One here offers no other: its range is that of the connection. It
/// serves backward calls, as it would send no error otherwise.
// spec: bd-5.1-b
#[test]
fn version_two_is_refused_after_version_one_is_negotiated() {
    let config = Config {
        backward_v1: true,
        ..Config::client()
    };
    let (mut client, _) = settled(config, one(Config::server()));
    assert_eq!(client.session.version(), Some(Version::One));
    client.receive(&words(&[77, 2, 1, 0, 0, 0, 0, 0, 77, 0]));
    assert_eq!(client.send().unwrap().bytes, words(&[77, 2, 1, 4, 1, 1, 1]));
}

/// In Version One the private data of the connection set the threshold of each direction (RFC
/// 8797).
// spec: v2-2.1-b, bd-4.2-c
#[test]
fn private_data_set_the_thresholds_of_version_one() {
    let client = one(Config {
        send_size: 2048,
        receive_size: 8192,
        ..Config::client()
    });
    let server = one(Config {
        send_size: 4096,
        receive_size: 65_536,
        ..Config::server()
    });
    let (mut client, mut server) = settled(client, server);
    works(&mut client, &mut server);
    let mut inline = |length, largest| {
        let xid = client.session.call(&call(length, largest), None).unwrap();
        let packet = client.send().unwrap();
        server.receive(&packet.bytes);
        let given = *server.arrived().last().unwrap();
        server.session.reply(given, largest, &[]).unwrap();
        let reply = server.send().unwrap();
        client.receive(&reply.bytes);
        assert_eq!(client.replies(xid).len(), 1);
        (
            packet.bytes.len(),
            packet.word(3),
            reply.bytes.len(),
            reply.word(3),
        )
    };
    assert_eq!(inline(2020, 4068), (2048, 0, 4096, 0));
    assert_eq!(inline(2024, 24).1, 1, "above what the client sends");
    assert_eq!(inline(40, 4072).3, 1, "above what the server sends");
}

/// Without private data it is 1024 each way.
// spec: rfc8166-3.3.3-c
#[test]
fn version_one_without_private_data_has_1024_bytes() {
    let mut client = End::new(one(Config::client()));
    client.act();
    client
        .session
        .connected(0, rpcrdma_proto::private_data::PrivateData::DEFAULT)
        .unwrap();
    client.session.call(&call(996, 996), None).unwrap();
    assert_eq!(client.send().unwrap().bytes.len(), 1024);
    client.receive(&words(&[0; 9]));
    let mut server = End::new(one(Config::server()));
    server
        .session
        .connected(0, rpcrdma_proto::private_data::PrivateData::DEFAULT)
        .unwrap();
    client.lose(1);
    client.session.timeout(10_000_000);
    client.act();
    client
        .session
        .connected(
            10_000_000,
            rpcrdma_proto::private_data::PrivateData::DEFAULT,
        )
        .unwrap();
    client.session.call(&call(1000, 24), None).unwrap();
    assert!(pass(&mut client, &mut server));
    let call = server.arrived()[0];
    server.session.reply(call, 996, &[]).unwrap();
    let reply = server.send().unwrap();
    assert_eq!(reply.bytes.len(), 1024);
    client.receive(&reply.bytes);
    let long = client.send().unwrap();
    assert_eq!((word(&long.bytes, 3), long.bytes.len()), (1, 52));
}

/// Makes a connection when the client wants the next, which is after so long.
fn connects_after(client: &mut End, server: &mut End) -> u64 {
    let lost_at = client.now;
    let due = client.session.poll_timeout().unwrap();
    (client.now, server.now) = (due, due);
    client.session.timeout(due);
    client.act();
    assert_eq!(client.session.state(), ConnState::Connecting);
    connect(client, server);
    due - lost_at
}

fn lose_both(client: &mut End, server: &mut End) {
    let now = client.now + 1;
    server.lose(now);
    client.lose(now);
    server.now = now;
}

/// A server that refuses Version Two and closes the connection is not asked again for a while, and
/// attempts have longer and longer pauses until it answers a call.
// spec: v2-5.2-d
#[test]
fn a_peer_that_refuses_version_two_and_closes_is_remembered() {
    let config = Config {
        version_cache_ttl: 1_000_000,
        reconnect_delay: 100,
        max_reconnect_delay: 1_000,
        ..Config::client()
    };
    let (mut client, mut server) = pair(config, one(Config::server()));
    client.session.call(&NULL, None).unwrap();
    let question = client.send().unwrap();
    assert_eq!(question.word(1), 2);
    server.receive(&question.bytes);
    client.receive(&server.send().unwrap().bytes);
    for pause in [100, 200, 400, 800, 1_000, 1_000] {
        lose_both(&mut client, &mut server);
        assert_eq!(connects_after(&mut client, &mut server), pause);
        assert_eq!(client.send().unwrap().word(1), 1, "it is remembered");
    }
    lose_both(&mut client, &mut server);
    connects_after(&mut client, &mut server);
    exchange(&mut client, &mut server);
    let call = server.take_arrived().unwrap();
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    lose_both(&mut client, &mut server);
    assert_eq!(connects_after(&mut client, &mut server), 100);
    client.lose(1_100_000);
    server.lose(1_100_000);
    connects_after(&mut client, &mut server);
    assert_eq!(
        client.send().unwrap().word(1),
        2,
        "what is remembered expires"
    );
}

/// A connection that has lasted was a good one, even if nothing was done on it.
#[test]
fn lasting_connection_resets_the_backoff() {
    let config = one(Config {
        reconnect_delay: 100,
        max_reconnect_delay: 1_000,
        ..Config::client()
    });
    let (mut client, mut server) = pair(config, one(Config::server()));
    for (lasts, pause) in [(1, 100), (999, 200), (1_000, 100), (5, 200)] {
        client.now += lasts - 1;
        lose_both(&mut client, &mut server);
        assert_eq!(connects_after(&mut client, &mut server), pause);
    }
}

/// A server that refuses the version that it offered leaves no version.
// spec: v2-5.2-c
#[test]
fn a_second_error_about_versions_ends_the_session() {
    let (mut client, _) = pair(without_properties(Config::client()), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    client.send().unwrap();
    client.receive(&words(&[xid, 2, 64, 4, 1, 1, 2]));
    assert_eq!(client.send().unwrap().word(1), 1);
    client.receive(&words(&[xid, 1, 64, 4, 1, 1, 2]));
    assert_eq!(client.closing(), Some(CloseReason::NoVersion));
}

/// A server of Version One that can't read the first message says so in its own version.
// spec: v2-5.2-c
#[test]
fn a_bad_header_of_version_one_leads_to_it_at_once() {
    for config in [Config::client(), without_properties(Config::client())] {
        let (mut client, _) = pair(config, Config::server());
        let xid = client.session.call(&NULL, None).unwrap();
        let question = client.send().unwrap();
        client.receive(&words(&[question.word(0), 1, 64, 4, 2]));
        let again = client.send().unwrap();
        assert_eq!((again.word(0), again.word(1)), (xid, 1));
        assert_eq!(
            (client.session.version(), client.failures(xid).len()),
            (Some(Version::One), 0)
        );
    }
}

/// A server of both versions refuses Version Two after Version One was negotiated.
// spec: v2-5.2-f
#[test]
fn server_serves_no_version_two_after_version_one() {
    let (mut client, mut server) = settled(one(Config::client()), Config::server());
    works(&mut client, &mut server);
    server.receive(&words(&[77, 2, 1, 0, 0, 0, 0, 0, 77, 0]));
    assert!(server.arrived().is_empty());
    let error = server.send().unwrap();
    assert_eq!(
        (
            error.word(0),
            error.word(3),
            error.word(4),
            error.word(5),
            error.word(6)
        ),
        (77, 4, 1, 1, 1)
    );
}

/// A reply is of the version of its call (version-two-01, section 5.3).
// spec: v2-5.3-a
#[test]
fn reply_of_another_version_is_counted_and_dropped() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    client.receive(&words(&[xid, 1, 1, 0, 0, 0, 0, xid, 1]));
    assert_eq!(
        (client.replies(xid).len(), client.session.counters().dropped),
        (0, 1)
    );
    let refusal = client.session.take_refusal().unwrap();
    assert_eq!(
        (refusal.xid, refusal.reason),
        (xid, RefusalReason::ReplyVersion)
    );
    let call = server.take_arrived().unwrap();
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.replies(xid).len(), client.session.counters().dropped),
        (1, 1)
    );
}

/// A reply of another version that invalidates a key closes the connection, since it answers no
/// call.
// spec: v2-5.3-a
#[test]
fn a_reply_of_another_version_that_invalidates_ends_the_connection() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    client.receive_with(&words(&[xid, 1, 1, 0, 0, 0, 0, xid, 1]), Some(99));
    assert_eq!(client.closing(), Some(CloseReason::Invalidated));
}

/// However short the memory and long the way to the next connection, that begins in Version One:
/// else none would ever work.
// spec: v2-5.2-d
#[test]
fn a_refusal_is_remembered_for_the_next_connection_at_least() {
    let config = Config {
        version_cache_ttl: 1,
        reconnect_delay: 100,
        ..Config::client()
    };
    let (mut client, mut server) = pair(config, one(Config::server()));
    let question = client.send().unwrap();
    server.receive(&question.bytes);
    client.receive(&server.send().unwrap().bytes);
    lose_both(&mut client, &mut server);
    connects_after(&mut client, &mut server);
    assert_eq!(client.session.version(), Some(Version::One));
    works(&mut client, &mut server);
}

/// A server of Version Two that can't read the question has answered it in Version Two: calls go in
/// that, and the peer's properties are the defaults.
// spec: v2-5.2-a, v2-5.1-b
#[test]
fn a_bad_header_of_version_two_settles_it() {
    for error in [2, 3] {
        let (mut client, mut server) = pair(Config::client(), without_properties(Config::server()));
        let xid = client.session.call(&NULL, None).unwrap();
        let question = client.send().unwrap();
        assert!(client.send().is_none());
        client.receive(&words(&[question.word(0), 2, 64, 4, error]));
        assert_eq!(
            (client.session.version(), client.closing()),
            (Some(Version::Two), None)
        );
        let call = client.send().unwrap();
        assert_eq!((call.word(0), call.word(1)), (xid, 2));
        server.receive(&call.bytes);
        let given = server.arrived()[0];
        server.session.reply(given, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(client.replies(xid).len(), 1);
    }
}

/// Nothing of Version One settles Version Two: neither a backward call, nor a reply.
// spec: v2-5-c, v2-5.1-b
#[test]
fn a_message_of_version_one_does_not_settle_version_two() {
    let config = Config {
        backward_v1: true,
        ..without_properties(Config::client())
    };
    let (mut client, mut server) = pair(config, without_properties(Config::server()));
    let xid = client.session.call(&NULL, None).unwrap();
    client.session.call(&NULL, None).unwrap();
    let question = client.send().unwrap();
    client.receive(&words(&[
        77, 1, 1, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]));
    assert_eq!(client.arrived().len(), 1);
    client.receive(&words(&[xid, 1, 8, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0]));
    assert_eq!(
        (client.session.version(), client.replies(xid).len()),
        (None, 0)
    );
    assert!(client.send().is_none(), "the version is still asked for");
    server.receive(&question.bytes);
    let given = server.arrived()[0];
    server.session.reply(given, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.session.version(), client.replies(xid).len()),
        (Some(Version::Two), 1)
    );
}

/// The first reply in Version Two has at most 1024 bytes, even after earlier errors: an error of
/// Version One or about versions is no answer in Version Two.
// spec: v2-5.2-g
#[test]
fn an_error_of_another_version_is_no_answer_in_version_two() {
    for bad in [
        words(&[99, 1, 1, 99, 0, 0, 0]),
        words(&[99, 3, 1, 0, 0, 0, 0, 0]),
    ] {
        let (mut client, mut server) = pair(
            without_properties(Config::client()),
            without_properties(Config::server()),
        );
        client.session.call(&call(40, 4_000), None).unwrap();
        let first = client.send().unwrap();
        server.receive(&bad);
        assert_eq!(server.send().unwrap().word(3), 4);
        server.receive(&first.bytes);
        let given = server.arrived()[0];
        server.session.reply(given, 4_000, &[]).unwrap();
        assert!(server.send().unwrap().bytes.len() <= 1024);
    }
}
