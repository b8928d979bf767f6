//! Transport properties (xcharext-03): announcements, requests, answers and updates, and their
//! effect on later messages. Tests of behaviour that transport characteristics (xcharext-02) share
//! run for both; the others are in `characteristics`.

use rpcrdma_proto::connection::{Action, Config, Event, Properties, PropertyError};
use rpcrdma_proto::property::{BasicProperty, PropertyValues};
use rpcrdma_proto::transfer::CallSpec;
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::pair::{End, NULL, REPLY, exchange, one, pair, pass, settled, words, works};

pub(crate) const CALL: u32 = 0;
pub(crate) const REPLY_DIRECTION: u32 = 1;

/// The two drafts.
pub(crate) const DRAFTS: [Properties; 2] = [Properties::Properties, Properties::Characteristics];

pub(crate) fn client_of(draft: Properties) -> Config {
    Config {
        properties: draft,
        ..Config::client()
    }
}

pub(crate) fn server_of(draft: Properties) -> Config {
    Config {
        properties: draft,
        ..Config::server()
    }
}

/// The content of an unsolicited update of one value.
pub(crate) fn update(draft: Properties, which: u32, value: u32) -> [u32; 4] {
    match draft {
        Properties::Characteristics => [which, 4, value, 0],
        _ => [1, which, 4, value],
    }
}

/// Settings with which receive buffers may grow.
pub(crate) fn growing(config: Config) -> Config {
    Config {
        max_receive_size: 65_536,
        ..config
    }
}

pub(crate) fn sized(size: u32, config: Config) -> Config {
    Config {
        receive_size: size,
        max_receive_size: 65_536,
        ..config
    }
}

pub(crate) fn call(length: u32, largest_reply: u32) -> CallSpec<'static> {
    CallSpec {
        length,
        items: &[],
        max_reply: largest_reply,
        results: &[],
        reducible: true,
    }
}

/// How an RPC of these lengths travels: bytes of the call's Send and of the reply's.
pub(crate) fn travels(
    client: &mut End,
    server: &mut End,
    length: u32,
    reply: u32,
) -> (usize, usize) {
    let xid = client.session.call(&call(length, reply), None).unwrap();
    let there = loop {
        let packet = client.send().unwrap();
        server.receive(&packet.bytes);
        if packet.word(0) == xid {
            break packet;
        }
        exchange(client, server);
    };
    let given = *server.arrived().last().unwrap();
    server.session.reply(given, reply, &[]).unwrap();
    let back = loop {
        let packet = server.send().unwrap();
        client.receive(&packet.bytes);
        if packet.word(0) == xid {
            break packet;
        }
    };
    assert_eq!(client.replies(xid).len(), 1);
    (there.bytes.len(), back.bytes.len())
}

/// An operation, in words.
pub(crate) fn operation(xid: u32, direction: u32, code: u32, info: &[u32]) -> Vec<u8> {
    let bytes = u32::try_from(4 * info.len()).unwrap();
    words(&[&[xid, 2, 8, 5, direction, code, bytes][..], info].concat())
}

// ---- What is told at the beginning
// ----------------------------------------------------------------------------------

/// The messages of a beginning, byte by byte.
// spec: xc3-2.1-a, xc3-2.1-b, xc3-2.3-a, xc3-2.3-b, xc3-2.3-c, xc3-2.3-e, xc3-2.3-f, xc3-2.3-g
// spec: xc3-3-a, xc3-3-b, xc3-3-c
// spec: xc3-3-h, xc3-3-i, xc3-4-a, xc3-4-b, xc3-4-c, xc3-4-d, xc3-4-e, xc3-4-f, xc3-4-g, xc3-4.1-a
// spec: xc3-4.1-b, xc3-4.1-e
// spec: xc3-4.2-b, xc3-4.3-a, xc3-4.3-b, v2-3.1-b, v2-3.1-d, v2-3.2-d, v2-3.2-e, v2-4.2-a
// spec: v2-4.2.2-e, v2-4.2.2-g, v2-4.2.1-c
// spec: xc2-4.3-a, xc2-4.3-b, xc2-4.1-a, xc2-4.1-b, xc2-4.1-e, xc2-2.3-a, xc2-2.3-b, xc2-2.3-c
#[test]
fn a_connection_begins_with_the_properties() {
    for draft in DRAFTS {
        let client = Config {
            remote_invalidation: true,
            credits: 20,
            ..sized(8192, client_of(draft))
        };
        let (mut client, mut server) = pair(
            client,
            Config {
                backward_support: Bkreqsup::Inline,
                max_served: 16,
                ..server_of(draft)
            },
        );
        let ask = client.send().unwrap();
        let xid = ask.word(0);
        assert_eq!(
            ask.bytes,
            words(&[xid, 2, 20, 5, CALL, 2, 4, 0]),
            "a ROPT_REQPROP of nothing"
        );
        server.receive(&ask.bytes);
        let connprop = server.send().unwrap();
        let values =
            |size, invalidation, support| [3, 1, 4, size, 2, 4, invalidation, 3, 4, support, 0];
        let told = |xid, credits, values: [u32; 11]| {
            words(&[&[xid, 2, credits, 5, CALL, 1, 44][..], &values].concat())
        };
        assert_eq!(
            connprop.bytes,
            told(connprop.word(0), 8, values(4096, 0, 1))
        );
        assert_ne!(connprop.word(0), xid);
        let answer = server.send().unwrap();
        assert_eq!(
            answer.bytes,
            words(&[xid, 2, 16, 5, REPLY_DIRECTION, 3, 12, 0, 0, 0]),
            "a ROPT_RESPROP of nothing"
        );
        assert!(server.send().is_none() && client.send().is_none());
        client.receive(&connprop.bytes);
        client.receive(&answer.bytes);
        let connprop = client.send().unwrap();
        assert_eq!(
            connprop.bytes,
            told(connprop.word(0), 20, values(8192, 1, 2))
        );
        server.receive(&connprop.bytes);
        assert!(client.send().is_none() && server.send().is_none());
        assert_eq!(
            *server.session.peer_properties(),
            PropertyValues {
                receive_buffer_size: 8192,
                remote_invalidation: true,
                backward_support: Bkreqsup::Genl
            }
        );
        assert_eq!(
            client.session.peer_properties().backward_support,
            Bkreqsup::Inline
        );
        assert_eq!(
            (
                client.session.counters().sent,
                server.session.counters().sent
            ),
            (2, 2)
        );
        // A ROPT_CONNPROP takes a credit, which the reply to a later call returns (decision D9).
        assert_eq!(client.session.available_credits(), 15);
        works(&mut client, &mut server);
        assert_eq!(client.session.available_credits(), 16);
    }
}

/// Larger announced receives allow larger inline messages each way, and no Reply chunk is offered
/// for a reply that fits.
// spec: v2-2.1-a, v2-2.1-b, v2-2.2-c, v2-2.3-b, v2-5.2-g, xc3-3.1-a, xc3-3.1-b, xc3-3.1-c
// spec: xc3-3.1-d, xc3-3.1-e, xc3-3.1-f
// spec: xc2-3.1-a, xc2-3.1-b, xc2-3.1-c, xc2-3.1-d, xc2-3.1-e, xc2-3.1-f
#[test]
fn announced_sizes_set_the_thresholds() {
    for draft in DRAFTS {
        let (client, server) = (
            sized(8192, client_of(draft)),
            sized(16_384, server_of(draft)),
        );
        let (mut client, mut server) = settled(client, server);
        works(&mut client, &mut server);
        assert_eq!(
            travels(&mut client, &mut server, 16_352, 8160),
            (16_384, 8192)
        );
        assert_eq!(
            travels(&mut client, &mut server, 16_356, 8160).0,
            56,
            "a Position-Zero Read chunk"
        );
        assert_eq!(
            travels(&mut client, &mut server, 40, 8164),
            (92, 52),
            "a Reply chunk, offered and used"
        );
        let Some(Action::PostReceives { size, .. }) = server.actions.first().cloned() else {
            panic!()
        };
        assert_eq!(size, 16_384);
    }
}

/// The threshold is the minimum of our maximum Send and the peer's receives.
// spec: v2-2.1-b
#[test]
fn no_end_sends_more_than_its_own_maximum() {
    let client = Config {
        send_size: 8192,
        ..Config::client()
    };
    let (mut client, mut server) = settled(client, sized(16_384, Config::server()));
    works(&mut client, &mut server);
    assert_eq!(travels(&mut client, &mut server, 8160, 24).0, 8192);
    assert_eq!(travels(&mut client, &mut server, 8164, 24).0, 56);
}

/// Backward messages go by the same sizes: the call threshold of one direction is the reply
/// threshold of the other.
// spec: bd-4.2-a, bd-4.2-b, bd-4.2-c, v2-2.2-c
#[test]
fn both_directions_share_the_receives() {
    for draft in DRAFTS {
        let (client, server) = (
            sized(8192, client_of(draft)),
            sized(16_384, server_of(draft)),
        );
        let (mut client, mut server) = settled(client, server);
        client.session.call(&NULL, None).unwrap();
        exchange(&mut client, &mut server);
        let given = server.arrived()[0];
        server.session.peer_ready(given);
        assert_eq!(
            travels(&mut server, &mut client, 8160, 16_352),
            (8192, 16_384)
        );
        assert_eq!(travels(&mut server, &mut client, 8164, 24).0, 56);
    }
}

/// A silent peer accepts 4096 bytes, and no invalidation.
// spec: v2-2.1-c, v2-2.3-a, v2-2.3-c, xc3-4.1-c
// spec: xc2-4.1-c
#[test]
fn silent_peer_has_the_default_size() {
    for draft in DRAFTS {
        let server = Config {
            properties: Properties::None,
            ..sized(16_384, server_of(draft))
        };
        let (mut client, mut server) = settled(sized(8192, client_of(draft)), server);
        works(&mut client, &mut server);
        assert_eq!(*client.session.peer_properties(), PropertyValues::DEFAULT);
        assert_eq!(travels(&mut client, &mut server, 4064, 4064), (4096, 4096));
        assert_eq!(travels(&mut client, &mut server, 4068, 4068), (76, 52));
        for small in [1024, 2048, 4092] {
            assert!(
                sized(small, client_of(draft)).check().is_err(),
                "less than every peer may send"
            );
            assert!(one(sized(small, client_of(draft))).check().is_ok());
        }
    }
}

// ---- Changes of our own
// ---------------------------------------------------------------------------------------------

/// Receives grow at once, and are announced only when the old ones are gone (decision D17).
// spec: xc3-3.1-b, xc3-3.1-g, xc3-4.4-b, xc3-3-n, xc3-2.3-d, xc3-4-h, v2-5.2-g
// spec: xc2-3.1-b, xc2-3.1-g, xc2-4.4-c, xc2-3-j
#[test]
fn larger_size_is_announced_after_the_smaller_receives() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), growing(server_of(draft)));
        works(&mut client, &mut server);
        let old = server.session.posted_receives();
        server.actions.clear();
        server
            .session
            .set_property(BasicProperty::ReceiveBufferSize(8192))
            .unwrap();
        server.act();
        assert_eq!(server.session.properties().receive_buffer_size, 4096);
        for used in 1..old {
            assert_eq!(
                travels(&mut client, &mut server, 4068, 24).0,
                56,
                "as long as it is 4096 for the peer"
            );
            assert_eq!(
                server.session.properties().receive_buffer_size,
                4096,
                "after {used} of {old}"
            );
        }
        let smaller =
            |action: &Action| matches!(action, Action::PostReceives { size, .. } if *size != 8192);
        assert!(!server.actions.iter().any(smaller));
        client.session.call(&NULL, None).unwrap();
        assert!(pass(&mut client, &mut server));
        assert_eq!(server.session.properties().receive_buffer_size, 8192);
        // A server that has made no call has one credit, which its ROPT_CONNPROP took: an empty
        // request brings it back.
        let told = loop {
            let packet = server.send().unwrap();
            client.receive(&packet.bytes);
            if packet.word(5) == 4 {
                break packet;
            }
            while pass(&mut client, &mut server) {}
        };
        assert_eq!(
            told.bytes,
            operation(told.word(0), CALL, 4, &update(draft, 1, 8192))
        );
        assert!(client.events.contains(&Event::PropertiesChanged));
        assert_eq!(travels(&mut client, &mut server, 8160, 24).0, 8192);
        assert_eq!(client.session.counters().connections, 1);
    }
}

// spec: xc3-3.1-i
// spec: xc2-3.1-i
#[test]
fn properties_that_cannot_be_set() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(sized(8192, client_of(draft)), server_of(draft));
        assert_eq!(
            client
                .session
                .set_property(BasicProperty::ReceiveBufferSize(4096)),
            Err(PropertyError::Smaller)
        );
        assert_eq!(
            client
                .session
                .set_property(BasicProperty::ReceiveBufferSize(65_537)),
            Err(PropertyError::Larger)
        );
        client.lose(1);
        server.lose(1);
        assert_eq!(
            client
                .session
                .set_property(BasicProperty::RemoteInvalidation(true)),
            Err(PropertyError::Unsupported)
        );
        let mut none = settled(
            Config {
                properties: Properties::None,
                ..client_of(draft)
            },
            server_of(draft),
        )
        .0;
        assert_eq!(
            none.session
                .set_property(BasicProperty::RemoteInvalidation(true)),
            Err(PropertyError::Unsupported)
        );
        assert_eq!(
            none.session
                .request_property(BasicProperty::RemoteInvalidation(true)),
            Err(PropertyError::Unsupported)
        );
    }
}

/// A grant of one message suffices to announce a change, without endless messages.
// spec: v2-4.2.2-g
#[test]
fn change_is_announced_with_a_grant_of_one() {
    for draft in DRAFTS {
        for serve in [1, 2] {
            let (mut client, mut server) = settled(
                client_of(draft),
                Config {
                    max_served: serve,
                    ..server_of(draft)
                },
            );
            works(&mut client, &mut server);
            for waits in [false, true] {
                let xid = waits.then(|| client.session.call(&NULL, None).unwrap());
                exchange(&mut client, &mut server);
                client
                    .session
                    .set_property(BasicProperty::RemoteInvalidation(!waits))
                    .unwrap();
                exchange(&mut client, &mut server);
                if xid.is_some() {
                    let given = server.arrived()[0];
                    server.session.reply(given, REPLY, &[]).unwrap();
                    exchange(&mut client, &mut server);
                }
                assert_eq!(server.session.peer_properties().remote_invalidation, !waits);
            }
            assert!(client.session.counters().sent < 20);
            works(&mut client, &mut server);
        }
    }
}

/// An error that answers a later call shows as well as a reply that a change has been taken out of
/// its receive.
// spec: v2-4.2.2-g
#[test]
fn an_error_returns_the_credit_of_a_change() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    let granted = client.session.available_credits();
    client
        .session
        .set_property(BasicProperty::RemoteInvalidation(true))
        .unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.session.available_credits(), granted - 1);
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reject(call).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.session.available_credits(), granted);
}
