//! Backward calls (RFC 8167): when they are allowed, with which chunks, and that they share only
//! the receives with forward calls.

use rpcrdma_proto::connection::{Action, CallFailure, Config, Properties, Role};
use rpcrdma_proto::transfer::{CallSpec, DataItem, ResultSpec, TransferError};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use crate::pair::{
    End, NULL, Packet, REPLY, connect, exchange, one, pair, reconnect, role, settled, words, works,
};
use crate::properties::{DRAFTS, client_of, server_of};

const LONG: CallSpec<'_> = CallSpec {
    length: 9_000,
    items: &[],
    max_reply: 24,
    results: &[],
    reducible: true,
};
const LONG_REPLY: CallSpec<'_> = CallSpec {
    length: 40,
    items: &[],
    max_reply: 9_000,
    results: &[],
    reducible: true,
};

/// Both ends, after the client's consumer has announced that it accepts calls.
fn ready(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = settled(client, server);
    say_ready(&mut client, &mut server);
    client.events.clear();
    server.events.clear();
    (client, server)
}

fn say_ready(client: &mut End, server: &mut End) {
    client.session.call(&NULL, None).unwrap();
    exchange(client, server);
    let said_in = *server.arrived().last().unwrap();
    assert!(server.session.peer_ready(said_in));
    server.session.reply(said_in, REPLY, &[]).unwrap();
    exchange(client, server);
}

fn supporting(draft: Properties, backward: Bkreqsup) -> Config {
    Config {
        backward_support: backward,
        ..client_of(draft)
    }
}

/// Forward only, backward only, and both at once, on one connection that the client has made.
// spec: bd-2-a, bd-2-b, bd-2-c, bd-2-d, bd-2-f, bd-2.2-a, bd-2.3-a, bd-2.3-b, xc3-1.3-a, xc3-1.3-b
// spec: xc3-1.3-c, xc3-1.3-e
// spec: v2-4.2.2-a, v2-3.2-a, v2-3.2-b, v2-3.2-c, bd-5.1-d, bd-5.2-d, v2-4.2.2-b, v2-4.2.2-f
// spec: bd-5.1-a, bd-5.2-a
// spec: xc2-1.3-a, xc2-1.3-b, xc2-1.3-c, xc2-1.3-e
// spec: rfc8166-4-b
#[test]
fn both_ends_call_and_serve() {
    for draft in DRAFTS {
        let (mut client, mut server) = ready(client_of(draft), server_of(draft));
        assert_eq!((role(&client), role(&server)), (Role::Client, Role::Server));
        assert_eq!(
            client
                .actions
                .iter()
                .filter(|action| **action == Action::Connect)
                .count(),
            1
        );
        assert!(
            !server.actions.contains(&Action::Connect),
            "it waits to be connected to"
        );
        works(&mut server, &mut client);
        for (forward, backward) in [(3, 0), (0, 3), (3, 3)] {
            let there: Vec<_> = (0..forward)
                .map(|_| client.session.call(&NULL, None).unwrap())
                .collect();
            let back: Vec<_> = (0..backward)
                .map(|_| server.session.call(&NULL, None).unwrap())
                .collect();
            for _ in 0..forward {
                let call = client.send().unwrap();
                assert_eq!(
                    (call.word(1), call.word(4), call.word(8), call.word(9)),
                    (2, 0, call.word(0), 0),
                    "a CALL"
                );
                server.receive(&call.bytes);
            }
            exchange(&mut client, &mut server);
            for call in server.arrived() {
                server.session.reply(call, REPLY, &[]).unwrap();
            }
            for call in client.arrived() {
                client.session.reply(call, REPLY, &[]).unwrap();
                let reply = client.send().unwrap();
                assert_eq!(
                    (reply.word(1), reply.word(4), reply.word(8), reply.word(9)),
                    (2, 1, reply.word(0), 1)
                );
                assert!(back.contains(&reply.word(0)), "the XID of the call");
                server.receive(&reply.bytes);
            }
            exchange(&mut client, &mut server);
            assert!(there.iter().all(|xid| client.replies(*xid).len() == 1));
            assert!(back.iter().all(|xid| server.replies(*xid).len() == 1));
        }
    }
}

/// An XID means nothing in the other direction: a peer may use ours at the same time.
// spec: bd-2.4-a, bd-2.4-b, bd-2.4-c, bd-2.4-d, bd-2.4-e
#[test]
fn the_same_xid_is_two_transactions() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    let own = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let forward = server.arrived()[0];
    client.receive(&words(&[own, 2, 8, 0, 0, 0, 0, 0, own, 0]));
    let backward = client.arrived()[0];
    assert_eq!(client.session.outstanding(), (1, 1));
    client.session.reply(backward, REPLY, &[]).unwrap();
    let reply = client.send().unwrap();
    assert_eq!((reply.word(0), reply.word(4)), (own, 1));
    assert_eq!(
        client.session.outstanding(),
        (1, 0),
        "our own waits for its reply"
    );
    server.session.reply(forward, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.replies(own).len(), client.session.outstanding()),
        (1, (0, 0))
    );
}

/// Open calls of one requester all have different XIDs, also once places were used again, and none
/// is that of a call it serves.
// spec: bd-2.4-b, bd-2-b
#[test]
fn xids_are_unique_among_open_calls() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let open: Vec<_> = (0..32)
            .map(|_| client.session.call(&NULL, None).unwrap())
            .collect();
        assert!(
            open.iter().all(|xid| seen.insert(*xid)),
            "an XID is not used again soon"
        );
        exchange(&mut client, &mut server);
        for call in server.arrived() {
            server.session.reply(call, REPLY, &[]).unwrap();
        }
        exchange(&mut client, &mut server);
    }
}

/// Credits are counted separately for each direction.
// spec: bd-4.1-a, bd-4.1-b, bd-4.1-c, bd-4.1-d, bd-4-c, bd-5.1-c, bd-5.2-c, v2-4.2.2-g
#[test]
fn credits_of_both_directions_are_separate() {
    let client = Config {
        credits: 4,
        max_calls: 16,
        max_served: 3,
        ..Config::client()
    };
    let server = Config {
        max_served: 6,
        credits: 5,
        ..Config::server()
    };
    let (mut client, mut server) = ready(client, server);
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reply(call, REPLY, &[]).unwrap();
    let reply = server.send().unwrap();
    assert_eq!(
        reply.word(2),
        4,
        "what the client asked for, of the six that could be granted"
    );
    client.receive(&reply.bytes);
    let asks = server.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = client.arrived()[0];
    client.session.reply(call, REPLY, &[]).unwrap();
    let reply = client.send().unwrap();
    assert_eq!(
        reply.word(2),
        3,
        "what the client serves at once, of the five that were asked for"
    );
    server.receive(&reply.bytes);
    assert_eq!(server.replies(asks).len(), 1);
    assert_eq!(
        (
            client.session.available_credits(),
            server.session.available_credits()
        ),
        (4, 3)
    );
    for _ in 0..6 {
        client.session.call(&NULL, None).unwrap();
        server.session.call(&NULL, None).unwrap();
    }
    let first = server.send().unwrap();
    assert_eq!(first.word(2), 5, "what a backward call asks for");
    client.receive(&first.bytes);
    exchange(&mut client, &mut server);
    assert_eq!(
        (server.arrived().len(), client.arrived().len()),
        (4, 3),
        "no more than was granted"
    );
    assert_eq!(
        (
            client.session.available_credits(),
            server.session.available_credits()
        ),
        (0, 0)
    );
    assert_eq!((client.closing(), server.closing()), (None, None));
}

/// Receives are posted for all possible messages: granted calls, expected replies, and messages
/// without credits. They are posted before the message that allows them, and again on each
/// connection.
// spec: bd-4-a, bd-4.3-a, bd-4.3.1-a, bd-4.3.1-b, bd-4.3.1-c, bd-4.3.1-d, bd-6-b
// spec: bd-4.3.2-a, bd-4.3.2-b, bd-4.3.2-c, bd-4.3.2-d, bd-4.3.2-e, rfc8166-3.3.1-d
#[test]
fn receives_are_posted_for_every_possible_message() {
    let client = Config {
        credits: 5,
        max_served: 3,
        reserved_receives: 2,
        ..Config::client()
    };
    let server = Config {
        max_served: 7,
        max_calls: 6,
        credits: 6,
        reserved_receives: 4,
        ..Config::server()
    };
    let (mut client, mut server) = pair(client, server);
    let mut place = [0; 4096];
    assert!(
        client.session.poll_transmit(0, &mut place).is_none(),
        "not before the receives are posted"
    );
    client.act();
    server.act();
    // One call is granted at first; the client requests properties, and announces its own.
    assert_eq!(
        (
            client.session.posted_receives(),
            server.session.posted_receives()
        ),
        (1 + 1 + 2, 1 + 1 + 4)
    );
    exchange(&mut client, &mut server);
    say_ready(&mut client, &mut server);
    for _ in 0..3 {
        client.session.call(&NULL, None).unwrap();
        server.session.call(&NULL, None).unwrap();
        exchange(&mut client, &mut server);
    }
    let held = (client.arrived().len(), server.arrived().len());
    assert_eq!(
        held,
        (1, 3),
        "one backward call until its reply tells of more"
    );
    // A call that is being served keeps its buffer: with it, there are as many as the next reply
    // may grant, and one for each message in flight: three calls, and a backward one after what
    // tells the server's properties.
    assert_eq!(
        (
            client.session.posted_receives() + 1,
            server.session.posted_receives() + 3
        ),
        (3 + 3 + 2, 7 + 2 + 4)
    );
    reconnect(&mut client, &mut server);
    client.act();
    server.act();
    assert_eq!(
        (
            client.session.posted_receives(),
            server.session.posted_receives()
        ),
        (1 + 1 + 2, 1 + 1 + 4)
    );
}

/// No support: no call ever goes, and none would be taken.
// spec: xc3-3.3-a, xc3-3.3-b, bd-6-a, bd-6-c
// spec: xc2-3.3-a, xc2-3.3-b
#[test]
fn a_client_without_support_is_not_called() {
    for draft in DRAFTS {
        let (mut client, mut server) = ready(supporting(draft, Bkreqsup::None), server_of(draft));
        let xid = server.session.call(&NULL, None).unwrap();
        assert_eq!(exchange(&mut client, &mut server), 0);
        client.receive(&words(&[77, 2, 8, 0, 0, 0, 0, 0, 77, 0]));
        assert_eq!(client.send().unwrap().bytes, words(&[77, 2, 1, 4, 2]));
        // Nor after a reconnection.
        reconnect(&mut client, &mut server);
        exchange(&mut client, &mut server);
        say_ready(&mut client, &mut server);
        assert!(client.arrived().is_empty() && server.failures(xid).is_empty());
        works(&mut client, &mut server);
    }
}

/// With inline support, a call that does not fit inline has no transfer method.
// spec: xc3-3.3-c, xc3-3.3-e, xc3-3.3-f, bd-5.3-c, bd-5.3-d, bd-5.3-e
// spec: xc2-3.3-c, xc2-3.3-e, xc2-3.3-f
#[test]
fn inline_support_refuses_chunks() {
    for draft in DRAFTS {
        let (client, server) = (supporting(draft, Bkreqsup::Inline), server_of(draft));
        let version_one = |config| Config {
            backward_v1: true,
            ..one(config)
        };
        for (client, server) in [
            (client.clone(), server.clone()),
            (version_one(client), version_one(server)),
        ] {
            let (mut client, mut server) = ready(client, server);
            let [call, reply] =
                [LONG, LONG_REPLY].map(|call| server.session.call(&call, None).unwrap());
            exchange(&mut client, &mut server);
            assert_eq!(
                server.failures(call),
                [CallFailure::Transfer(TransferError::CallTooLong)]
            );
            assert_eq!(
                server.failures(reply),
                [CallFailure::Transfer(TransferError::ReplyTooLong)]
            );
            works(&mut server, &mut client);
        }
    }
}

/// General support: chunks work as they do forward.
// spec: xc3-3.3-d, xc3-3.3-e, xc3-3.3-f, bd-5.3-a, bd-5.3-b
// spec: xc2-3.3-d, xc2-3.3-e, xc2-3.3-f
#[test]
fn general_support_accepts_chunks() {
    for draft in DRAFTS {
        let (mut client, mut server) = ready(supporting(draft, Bkreqsup::Genl), server_of(draft));
        let data = DataItem {
            position: 120,
            length: 65_535,
        };
        let item = CallSpec {
            length: 65_656,
            items: &[data],
            max_reply: 200,
            results: &[],
            reducible: true,
        };
        let result = CallSpec {
            length: 160,
            items: &[],
            max_reply: 65_700,
            results: &[ResultSpec::whole_call(65_536)],
            reducible: true,
        };
        for (call, length, results) in [
            (item, 200, vec![]),
            (
                result,
                65_664,
                vec![
                    DataItem {
                        position: 128,
                        length: 65_530,
                    }
                    .into(),
                ],
            ),
            (LONG_REPLY, 9_000, vec![]),
        ] {
            let xid = server.session.call(&call, None).unwrap();
            exchange(&mut client, &mut server);
            let given = client.arrived()[0];
            assert_eq!(client.session.call_length(given), Some(call.length));
            client.session.reply(given, length, &results).unwrap();
            exchange(&mut client, &mut server);
            assert_eq!(server.replies(xid).len(), 1);
        }
    }
}

/// A server obeys a reduction of support during the connection.
// spec: xc3-3.3-b, xc3-4.4-b
// spec: xc2-3.3-b, xc2-4.4-c
#[test]
fn support_may_be_withdrawn() {
    for draft in DRAFTS {
        let (mut client, mut server) = ready(supporting(draft, Bkreqsup::Genl), server_of(draft));
        works(&mut server, &mut client);
        client
            .session
            .set_property(rpcrdma_proto::property::BasicProperty::BackwardSupport(
                Bkreqsup::None,
            ))
            .unwrap();
        exchange(&mut client, &mut server);
        server.session.call(&NULL, None).unwrap();
        assert_eq!(exchange(&mut client, &mut server), 0);
        client
            .session
            .set_property(rpcrdma_proto::property::BasicProperty::BackwardSupport(
                Bkreqsup::Inline,
            ))
            .unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(client.arrived().len(), 1);
    }
}

/// Backward calls start when the peer's consumer has announced it, in a call that is being served,
/// and end with the connection.
// spec: bd-6-e, bd-5.4-a, bd-5.4-c, bd-6-c
#[test]
fn readiness_ends_with_the_connection() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    let xid = server.session.call(&NULL, None).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 0);
    say_ready(&mut client, &mut server);
    assert_eq!(client.arrived().len(), 1, "now it goes");
    reconnect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    assert!(
        client.arrived().is_empty(),
        "the consumer at the other end may be another"
    );
    say_ready(&mut client, &mut server);
    let again = client.arrived();
    client.session.reply(again[0], REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(server.replies(xid).len(), 1);
    server.session.peer_unready();
    server.session.call(&NULL, None).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 0);
}

/// An announcement in an ended call has no effect.
// spec: bd-6-e
#[test]
fn readiness_needs_an_open_call() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let said_in = server.arrived()[0];
    server.session.reply(said_in, REPLY, &[]).unwrap();
    assert!(!server.session.peer_ready(said_in));
    exchange(&mut client, &mut server);
    server.session.call(&NULL, None).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 0);
}

/// A server can't connect: its calls wait for the client, which makes a connection for them alone
/// as long as it is to keep one.
// spec: bd-2-f, bd-2.2-b, bd-5.4-a, bd-5.4-b, bd-5.4-c, bd-5.4-d, bd-7-c
#[test]
fn a_client_keeps_a_connection_for_backward_calls() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    client.lose(10);
    server.lose(10);
    let xid = server.session.call(&NULL, None).unwrap();
    assert_eq!(server.session.poll_timeout(), None, "however long it takes");
    server.session.timeout(u64::MAX / 2);
    server.act();
    assert!(!server.actions.contains(&Action::Connect) && server.failures(xid).is_empty());
    let at = client.session.poll_timeout().unwrap();
    client.session.timeout(at);
    client.act();
    assert_eq!(
        client.actions.last(),
        Some(&Action::Connect),
        "without any work of its own"
    );
    (client.now, server.now) = (at, at);
    connect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    say_ready(&mut client, &mut server);
    assert_eq!(client.arrived().len(), 1);
}

/// Backward calls use the version of the forward ones, and Version One only if both ends are
/// configured for it.
// spec: bd-5.1-b, bd-5.2-b
#[test]
fn backward_calls_use_the_version_of_the_connection() {
    for (highest, backward_one, goes) in [
        (Version::Two, false, true),
        (Version::One, true, true),
        (Version::One, false, false),
    ] {
        let client = Config {
            max_version: highest,
            backward_v1: backward_one,
            ..Config::client()
        };
        let server = Config {
            backward_v1: backward_one,
            ..Config::server()
        };
        let (mut client, mut server) = ready(client, server);
        server.session.call(&NULL, None).unwrap();
        let sent = server.send();
        assert_eq!(sent.is_some(), goes);
        if let Some(packet) = sent {
            assert_eq!(packet.word(1), highest.number());
            client.receive(&packet.bytes);
            let given = client.arrived()[0];
            client.session.reply(given, REPLY, &[]).unwrap();
            assert_eq!(client.send().unwrap().word(1), highest.number());
        }
    }
}

/// A long reply of Version One, by the Reply chunk that a call has offered.
fn long_reply(call: &Packet, xid: u32, credits: u32) -> Vec<u8> {
    let chunk: Vec<u32> = (0..4)
        .map(|at| call.word(call.header / 4 - 4 + at))
        .collect();
    words(&[&[xid, 1, credits, 1, 0, 0, 1, 1][..], &chunk].concat())
}

/// A long reply in Version One has no direction. An open outgoing call with an offered Reply chunk
/// decides it: a server that always uses the Reply chunk grants only by such replies.
// spec: bd-4.1-e, bd-4.1-f
#[test]
fn long_reply_grants_if_the_context_gives_its_direction() {
    let (mut client, _) = settled(one(Config::client()), one(Config::server()));
    assert_eq!(client.session.available_credits(), 1);
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    let call = client.send().unwrap();
    client.receive(&long_reply(&call, xid, 8));
    assert_eq!(
        (
            client.replies(xid)[0].long,
            client.session.available_credits()
        ),
        (Some(9_000), 8)
    );
    assert_eq!(client.closing(), None);
}

/// Where a call of the peer's has the same XID, the message may be that call once more.
// spec: bd-4.1-e, bd-4.1-f
#[test]
fn credits_without_a_direction_are_ignored() {
    let (mut client, server) = ready(
        one(Config {
            backward_v1: true,
            ..Config::client()
        }),
        one(Config::server()),
    );
    let granted = client.session.available_credits();
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    let call = client.send().unwrap();
    client.receive(&words(&[xid, 1, 1, 0, 0, 0, 0, xid, 0]));
    assert_eq!(client.arrived().len(), 1);
    client.receive(&long_reply(&call, xid, 2));
    assert_eq!(
        (
            client.replies(xid)[0].long,
            client.session.available_credits()
        ),
        (Some(9_000), granted)
    );
    assert_eq!((client.closing(), server.closing()), (None, None));
}

/// An error answers a call, and its credit value is a grant: but the first is that of a message
/// which is no error.
// spec: v2-4.2.2-c, v2-5-b
#[test]
fn error_repeats_the_grant_of_the_last_reply() {
    for highest in [Version::One, Version::Two] {
        let config = Config {
            max_version: highest,
            properties: Properties::None,
            ..Config::client()
        };
        let server = Config {
            max_version: highest,
            properties: Properties::None,
            ..Config::server()
        };
        let (mut client, mut server) = settled(config, server);
        let (version, bad_header) = (highest.number(), 2);
        let fails = |client: &mut End, credits| {
            let xid = client.session.call(&NULL, None).unwrap();
            client.send().unwrap();
            client.receive(&words(&[xid, version, credits, 4, bad_header]));
            assert_eq!(client.failures(xid).len(), 1);
        };
        fails(&mut client, 8);
        assert_eq!(
            client.session.available_credits(),
            1,
            "it never opens the first window"
        );
        works(&mut client, &mut server);
        fails(&mut client, 8);
        assert_eq!(client.session.available_credits(), 8);
        client.receive(&words(&[0x1234_5678, version, 2, 4, bad_header]));
        assert_eq!(
            client.session.available_credits(),
            8,
            "it answers no call of ours"
        );
        assert_eq!(client.closing(), None);
    }
}

/// Other messages in the direction of replies repeat the last grant, as a peer may take them for a
/// grant.
// spec: v2-4.2.2-g
#[test]
fn errors_and_answers_repeat_the_grant_of_replies() {
    const CODE: u32 = 4_294_967_041;
    let (mut client, mut server) = pair(Config::client(), Config::server());
    for end in [&mut client, &mut server] {
        end.session.register_operation(CODE).unwrap();
    }
    exchange(&mut client, &mut server);
    works(&mut client, &mut server);
    let granted = client.session.available_credits();
    assert_eq!(granted, 32);
    server.receive(&words(&[77, 2, 4, 1, 0, 0, 0, 0, 0]));
    let error = server.send().unwrap();
    assert_eq!(
        (error.word(0), error.word(2), error.word(3)),
        (77, granted, 4)
    );
    server
        .session
        .send_operation(CODE, false, Some(78), &[])
        .unwrap();
    let answer = server.send().unwrap();
    assert_eq!(
        (answer.word(0), answer.word(2), answer.word(4)),
        (78, granted, 1)
    );
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.take_arrived().unwrap();
    server.session.reject(call).unwrap();
    let declined = server.send().unwrap();
    assert_eq!(
        (declined.word(0), declined.word(2), declined.word(3)),
        (xid, granted, 4)
    );
    server.session.grant_up_to(3);
    server.receive(&words(&[79, 2, 4, 1, 0, 0, 0, 0, 0]));
    assert_eq!(server.send().unwrap().word(2), 3);
}

/// A new connection grants one message, until a reply says more.
// spec: v2-5-b
#[test]
fn an_error_before_any_reply_grants_one_message() {
    let mut server = pair(Config::client(), Config::server()).1;
    server.receive(&words(&[77, 9, 32, 0, 0, 0, 0, 77, 0]));
    let error = server.send().unwrap();
    assert_eq!((error.word(2), error.word(3), error.word(4)), (1, 4, 1));
}
