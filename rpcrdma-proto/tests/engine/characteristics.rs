//! Transport characteristics (xcharext-02), where they are not what transport properties are: one
//! value in an update, changes that are pending, and no empty values. And two ends that speak one
//! draft each.

use rpcrdma_proto::connection::{Config, Event, Properties, PropertyError};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::property::{BasicProperty, PropertyValues};
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::pair::{End, exchange, pair, pass, reconnect, settled, words, works};
use crate::properties::{CALL, DRAFTS, REPLY_DIRECTION, call, operation, sized, travels};

const INITXCH: u32 = 1;
const REQXCH: u32 = 2;
const RESPXCH: u32 = 3;
const UPDXCH: u32 = 4;

fn client() -> Config {
    Config {
        properties: Properties::Characteristics,
        ..Config::client()
    }
}

fn server() -> Config {
    Config {
        // Its XIDs are none of the client's.
        xid_seed: 1 << 31,
        properties: Properties::Characteristics,
        ..Config::server()
    }
}

const fn size(bytes: u32) -> BasicProperty {
    BasicProperty::ReceiveBufferSize(bytes)
}

/// Settled, and with a call answered: the server's receives have `bytes`.
fn joined(bytes: u32) -> (End, End) {
    let (mut client, mut server) = settled(client(), sized(bytes, server()));
    works(&mut client, &mut server);
    client.events.clear();
    (client, server)
}

/// A ROPT_UPDXCH of the size.
fn updated(bytes: u32, clears: bool) -> Vec<u8> {
    operation(77, CALL, UPDXCH, &[1, 4, bytes, u32::from(clears)])
}

/// Bytes of the next call, whose message has `length`, without its reply.
fn next_call(end: &mut End, length: u32) -> usize {
    end.session.call(&call(length, 24), None).unwrap();
    end.send().unwrap().bytes.len()
}

/// The outcomes of requested changes.
fn ended(end: &mut End) -> Vec<(BasicProperty, Option<BasicProperty>)> {
    let events = std::mem::take(&mut end.events);
    let ended = events.into_iter().filter_map(|event| match event {
        Event::PropertyAnswered {
            requested: asked,
            value,
        } => Some((asked, value)),
        _ => None,
    });
    ended.collect()
}

/// The next message of an end that is this operation; what goes before it is delivered.
fn next(code: u32, from: &mut End, to: &mut End) -> Vec<u8> {
    loop {
        let packet = from.send().unwrap();
        if packet.word(3) == 5 && packet.word(5) == code {
            return packet.bytes;
        }
        to.receive(&packet.bytes);
        while pass(to, from) {}
    }
}

// ---- A change that is pending
// ---------------------------------------------------------------------------------------

/// A larger size is pending until the smaller receives are gone; then the reached size is
/// announced.
// spec: xc2-4-h, xc2-2.3-d, xc2-3.1-g, xc2-4-a, xc2-4-b, xc2-4-c, xc2-4-d, xc2-4-g, xc2-4.3-i
// spec: xc2-4.3-j, xc2-4.3-k, xc2-4.4-a, xc2-4.4-b
// spec: xc2-4.4-e, xc2-4.4-f, xc2-4.4-g, xc2-4.4-j, xc2-4.4-m
#[test]
fn a_larger_size_is_pending_until_it_holds() {
    let (mut client, mut server) = settled(
        client(),
        Config {
            max_receive_size: 12_288,
            ..server()
        },
    );
    works(&mut client, &mut server);
    client.session.request_property(size(65_536)).unwrap();
    let asked = client.send().unwrap();
    assert_eq!(
        asked.bytes,
        words(&[asked.word(0), 2, 32, 5, CALL, REQXCH, 16, 1, 1, 4, 65_536])
    );
    server.receive(&asked.bytes);
    let answer = server.send().unwrap();
    assert_eq!(
        answer.bytes,
        words(&[
            asked.word(0),
            2,
            32,
            5,
            REPLY_DIRECTION,
            RESPXCH,
            16,
            0,
            0,
            1,
            1
        ])
    );
    client.receive(&answer.bytes);
    assert_eq!(ended(&mut client), []);
    assert_eq!(
        client.session.request_property(size(8192)),
        Err(PropertyError::Busy),
        "of that property"
    );
    client
        .session
        .request_property(BasicProperty::RemoteInvalidation(true))
        .unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        ended(&mut client),
        [(BasicProperty::RemoteInvalidation(true), None)],
        "another is answered meanwhile"
    );
    assert_eq!(
        client.session.request_property(size(8192)),
        Err(PropertyError::Busy)
    );
    for _ in 0..=server.session.posted_receives() {
        assert_eq!(server.session.properties().receive_buffer_size, 4096);
        client.session.call(&call(40, 24), None).unwrap();
        assert!(pass(&mut client, &mut server));
        if server.session.properties().receive_buffer_size > 4096 {
            break;
        }
        let given = server.arrived()[0];
        server.session.reply(given, 24, &[]).unwrap();
        exchange(&mut client, &mut server);
    }
    let update = next(UPDXCH, &mut server, &mut client);
    assert_eq!(
        update[4..],
        words(&[2, 8, 5, CALL, UPDXCH, 16, 1, 4, 12_288, 1])
    );
    assert_ne!(update[..4], asked.bytes[..4]);
    client.receive(&update);
    assert!(client.events.contains(&Event::PropertiesChanged));
    assert_eq!(ended(&mut client), [(size(65_536), Some(size(12_288)))]);
    assert_eq!(travels(&mut client, &mut server, 12_256, 24).0, 12_288);
    assert_eq!(client.session.request_property(size(65_536)), Ok(()));
    exchange(&mut client, &mut server);
    assert_eq!(
        ended(&mut client),
        [(size(65_536), None)],
        "there is no more"
    );
}

/// A requested size limits our Sends until it is rejected, or until a larger size applies and no
/// change is pending. Updates in between are applied, and do not end the request.
// spec: xc2-3.1-j, xc2-4.3-j, xc2-4.3-k, xc2-4.4-d, xc2-4.4-h, xc2-4.4-k, xc2-4.4-l, xc2-4.4-m
// spec: xc2-4.4-n, xc2-4.4-o, xc2-4.4-p
#[test]
fn pending_smaller_size_limits_sends() {
    for (last, held) in [(16_384, None), (12_288, Some(12_288)), (8192, Some(8192))] {
        let (mut client, _) = joined(16_384);
        client.session.request_property(size(8192)).unwrap();
        let xid = client.send().unwrap().word(0);
        client.receive(&operation(xid, REPLY_DIRECTION, RESPXCH, &[0, 0, 1, 1]));
        assert_eq!(next_call(&mut client, 10_000), 56, "8192 is the limit");
        for between in [12_288, 14_000] {
            client.receive(&updated(between, false));
            assert_eq!(client.events, [Event::PropertiesChanged]);
            client.events.clear();
            assert_eq!(
                client.session.peer_properties().receive_buffer_size,
                between
            );
            assert_eq!(next_call(&mut client, 10_000), 56, "after {between}");
            assert_eq!(
                client.session.request_property(size(4096)),
                Err(PropertyError::Busy)
            );
        }
        client.receive(&updated(last, true));
        assert_eq!(ended(&mut client), [(size(8192), held.map(size))]);
        let fits = last > 10_032;
        assert_eq!(
            next_call(&mut client, 10_000),
            if fits { 10_032 } else { 56 },
            "after {last}"
        );
        assert_eq!(client.session.request_property(size(4096)), Ok(()));
    }
}

/// An update before the answer does not end the request, and is not the answer.
// spec: xc2-3.1-j, xc2-4.4-d, xc2-4.4-e, xc2-4.4-p
#[test]
fn an_update_is_no_answer() {
    let (mut client, mut server) = joined(16_384);
    client.session.request_property(size(8192)).unwrap();
    let asked = client.send().unwrap();
    client.receive(&updated(12_288, false));
    client.receive(&operation(asked.word(0), CALL, UPDXCH, &[1, 4, 13_000, 0]));
    assert_eq!(ended(&mut client), []);
    assert_eq!(next_call(&mut client, 10_000), 56);
    server.receive(&asked.bytes);
    exchange(&mut client, &mut server);
    assert_eq!(ended(&mut client), [(size(8192), Some(size(8192)))]);
}

/// An update may say that nothing is pending where nothing was: then it is one like any other.
// spec: xc2-4.4-c, xc2-4.4-g, xc2-4.4-i
#[test]
fn unsolicited_updates_clear_nothing() {
    let (mut client, mut server) = joined(4096);
    client.receive(&updated(8192, true));
    assert_eq!(client.events, [Event::PropertiesChanged]);
    assert_eq!(client.session.peer_properties().receive_buffer_size, 8192);
    // Each of our updates has one value, and takes a credit.
    client
        .session
        .set_property(BasicProperty::RemoteInvalidation(true))
        .unwrap();
    client
        .session
        .set_property(BasicProperty::BackwardSupport(Bkreqsup::None))
        .unwrap();
    let available = client.session.available_credits();
    for (at, value) in [[2, 4, 1, 0], [3, 4, 0, 0]].into_iter().enumerate() {
        let update = client.send().unwrap();
        assert_eq!(
            update.bytes[20..],
            words(&[&[UPDXCH, 16][..], &value].concat())
        );
        assert_eq!(
            client.session.available_credits(),
            available - 1 - u32::try_from(at).unwrap()
        );
        server.receive(&update.bytes);
    }
    assert!(client.send().is_none());
    assert_eq!(
        server.session.peer_properties(),
        client.session.properties()
    );
}

/// A size that is given up, or of which the peer wants the contrary, is no longer pending.
// spec: xc2-3.1-h, xc2-4.3-k, xc2-4.4-d, xc2-4.4-h, xc2-4.4-l
#[test]
fn impossible_growth_is_cleared() {
    let (mut client, mut server) = joined(8192);
    client.session.request_property(size(16_384)).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(ended(&mut client), []);
    server.session.set_property(size(8192)).unwrap();
    let update = next(UPDXCH, &mut server, &mut client);
    assert_eq!(update[28..], words(&[1, 4, 8192, 1]), "as it was");
    client.receive(&update);
    assert_eq!(ended(&mut client), [(size(16_384), None)]);
    for (bytes, answer) in [(12_288, &[0, 0, 1, 1][..]), (4096, &[1, 1, 0, 0])] {
        server.receive(&operation(99, CALL, REQXCH, &[1, 1, 4, bytes]));
        assert_eq!(next(RESPXCH, &mut server, &mut client)[28..], words(answer));
    }
    assert_eq!(
        next(UPDXCH, &mut server, &mut client)[28..],
        words(&[1, 4, 4096, 1])
    );
}

/// Pending changes end with the connection.
// spec: xc2-3-i
#[test]
fn nothing_is_pending_on_another_connection() {
    let (mut client, mut server) = joined(4096);
    client.session.request_property(size(8192)).unwrap();
    exchange(&mut client, &mut server);
    client
        .session
        .request_property(BasicProperty::RemoteInvalidation(true))
        .unwrap();
    client.send().unwrap();
    reconnect(&mut client, &mut server);
    assert_eq!(
        ended(&mut client),
        [
            (BasicProperty::RemoteInvalidation(true), None),
            (size(8192), None)
        ]
    );
    exchange(&mut client, &mut server);
    works(&mut client, &mut server);
    client.session.request_property(size(8192)).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(ended(&mut client), [], "it is pending again");
    for _ in 0..=2 * server.session.posted_receives() {
        works(&mut client, &mut server);
    }
    assert_eq!(client.session.peer_properties().receive_buffer_size, 8192);
}

/// Fixed properties are not requested, and updates of them are ignored. All others may be
/// requested.
// spec: xc2-3-e, xc2-4.1-d
#[test]
fn fixed_properties_are_announced_at_the_start() {
    let (mut client, _) = pair(client(), server());
    let ask = client.send().unwrap();
    client.receive(&operation(
        7,
        CALL,
        INITXCH,
        &[2, 1, 4, 8192, 2, 4, 0, 1, 0b01],
    ));
    client.receive(&operation(
        ask.word(0),
        REPLY_DIRECTION,
        RESPXCH,
        &[0, 0, 0],
    ));
    assert_eq!(
        client.session.request_property(size(4096)),
        Err(PropertyError::Fixed)
    );
    client.receive(&updated(4096, false));
    assert_eq!(client.session.peer_properties().receive_buffer_size, 8192);
    assert_eq!(
        client
            .session
            .request_property(BasicProperty::RemoteInvalidation(true)),
        Ok(())
    );
}

// ---- Answers
// --------------------------------------------------------------------------------------------------------

/// Each of several changes has its answer: made, or not made. There is no third value.
// spec: xc2-3-f, xc2-3-g, xc2-3-h, xc2-4.2-a, xc2-4.2-b, xc2-4.2-c, xc2-4.3-a, xc2-4.3-b, xc2-4.3-c
// spec: xc2-4.3-e, xc2-4.3-f, xc2-4.3-g
// spec: xc2-4.3-h, xc2-4.3-l
#[test]
fn each_change_is_answered_separately() {
    let (mut client, mut server) = settled(
        Config {
            receive_size: 16_384,
            ..client()
        },
        server(),
    );
    works(&mut client, &mut server);
    let info = [5, 3, 4, 1, 2, 4, 1, 99, 0, 1, 4, 1024, 1, 4, 65_536];
    client.receive(&operation(7, CALL, REQXCH, &info));
    let answer = client.send().unwrap();
    assert_eq!(
        answer.bytes,
        words(&[
            7,
            2,
            8,
            5,
            REPLY_DIRECTION,
            RESPXCH,
            20,
            1,
            0b00001,
            1,
            0b11110,
            0
        ])
    );
    let held = PropertyValues {
        receive_buffer_size: 16_384,
        remote_invalidation: false,
        backward_support: Bkreqsup::Inline,
    };
    assert_eq!(*client.session.properties(), held);
    // An accepted change applies at once.
    server
        .session
        .request_property(BasicProperty::BackwardSupport(Bkreqsup::None))
        .unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        server.session.peer_properties().backward_support,
        Bkreqsup::None
    );
}

/// Below what every receiver takes there is nothing: then the old limit holds again.
// spec: xc2-3.1-j, xc2-4.3-d, xc2-4.3-h
#[test]
fn a_size_below_the_least_is_rejected() {
    let (mut client, mut server) = joined(16_384);
    client.session.request_property(size(2048)).unwrap();
    let asked = client.send().unwrap();
    assert_eq!(next_call(&mut client, 3000), 56, "2048 until the answer");
    server.receive(&asked.bytes);
    assert!(pass(&mut server, &mut client));
    assert_eq!(ended(&mut client), [(size(2048), None)]);
    assert_eq!(next_call(&mut client, 16_352), 16_384);
}

/// An error rejects. After an answer that can't be read the smaller size may hold, and is taken to.
// spec: xc2-3-i, xc2-3.1-j
#[test]
fn request_with_an_invalid_answer_counts_as_rejected() {
    for (answer, sends) in [("error", 10_032), ("malformed", 56)] {
        let (mut client, _) = joined(16_384);
        client.session.request_property(size(8192)).unwrap();
        let xid = client.send().unwrap().word(0);
        match answer {
            "error" => client.receive(&words(&[xid, 2, 32, 4, 3])),
            // The answer of xcharext-03 with another value.
            _ => client.receive(&operation(
                xid,
                REPLY_DIRECTION,
                RESPXCH,
                &[0, 0, 1, 1, 4, 8192],
            )),
        }
        assert_eq!(ended(&mut client), [(size(8192), None)], "{answer}");
        assert_eq!(next_call(&mut client, 10_000), sends, "{answer}");
        client.receive(&updated(12_288, false));
        assert_eq!(next_call(&mut client, 10_000), 10_032, "{answer}");
    }
}

/// An empty value is an error in each operation, and is ignored for an unknown property.
// spec: xc2-2.1-c, xc2-2.1-d, xc2-2.1-e, xc2-2.1-f, xc2-2.1-g, xc2-2.1-h, xc2-4.1-h, xc2-4.1-i
#[test]
fn empty_values_are_errors() {
    let (mut client, _) = pair(client(), server());
    let ask = client.send().unwrap();
    client.receive(&operation(
        ask.word(0),
        REPLY_DIRECTION,
        RESPXCH,
        &[0, 0, 0],
    ));
    let mut refused = |code, info: &[u32]| {
        client.receive(&operation(99, CALL, code, info));
        let sent = std::iter::from_fn(|| client.send()).find(|packet| packet.word(3) == 4);
        sent.map(|packet| packet.word(4))
    };
    for which in 1..=3 {
        assert_eq!(
            refused(INITXCH, &[1, which, 0, 0]),
            Some(2),
            "RDMA2_ERR_BAD_HEADER"
        );
        assert_eq!(refused(REQXCH, &[1, which, 0]), Some(2));
        assert_eq!(refused(UPDXCH, &[which, 0, 0]), Some(2));
    }
    assert_eq!(
        refused(UPDXCH, &[1, 64, 8192, 0]),
        Some(2),
        "beyond the message"
    );
    assert_eq!(
        refused(UPDXCH, &[3, 4, 99, 0]),
        Some(2),
        "no value of its type"
    );
    assert_eq!(refused(INITXCH, &[2, 99, 0, 1, 4, 8192, 0]), None);
    assert_eq!(client.session.peer_properties().receive_buffer_size, 8192);
}

// ---- Which draft
// ----------------------------------------------------------------------------------------------------

/// An end with neither draft refuses the operations, and its calls continue.
// spec: xc2-4-e, xc2-4-f, xc2-4.1-c, xc2-3-i
#[test]
fn unsupported_operations_are_refused() {
    let none = Config {
        properties: Properties::None,
        ..sized(16_384, Config::server())
    };
    let (mut client, mut server) = settled(client(), none);
    works(&mut client, &mut server);
    assert_eq!(*client.session.peer_properties(), PropertyValues::DEFAULT);
    for code in 1..=4 {
        server.receive(&operation(99, CALL, code, &[0, 0]));
        assert_eq!(
            server.send().unwrap().bytes,
            words(&[99, 2, 32, 4, 3]),
            "RDMA2_ERR_INVAL_OPTION"
        );
    }
    assert_eq!(
        client.session.request_property(size(8192)),
        Err(PropertyError::Unsupported)
    );
    works(&mut client, &mut server);
}

/// Of two drafts each end knows what the other was at the beginning, and no update of it; and never
/// takes its receives for larger than they are (decision D5).
#[test]
fn both_drafts_share_the_announcement() {
    for [ours, theirs] in [DRAFTS, [DRAFTS[1], DRAFTS[0]]] {
        let client = Config {
            properties: ours,
            ..sized(8192, Config::client())
        };
        let server = Config {
            properties: theirs,
            ..sized(16_384, Config::server())
        };
        let (mut client, mut server) = settled(client, server);
        works(&mut client, &mut server);
        assert_eq!(
            client.session.peer_properties(),
            server.session.properties()
        );
        assert_eq!(
            server.session.peer_properties(),
            client.session.properties()
        );
        assert_eq!(travels(&mut client, &mut server, 16_352, 24).0, 16_384);
        server
            .session
            .set_property(BasicProperty::RemoteInvalidation(true))
            .unwrap();
        exchange(&mut client, &mut server);
        assert!(!client.session.peer_properties().remote_invalidation);
        for bytes in [2048, 32_768, 12_288, 4096] {
            let known = |client: &End| client.session.peer_properties().receive_buffer_size;
            let _ = client.session.request_property(size(bytes));
            exchange(&mut client, &mut server);
            for _ in 0..=server.session.posted_receives() {
                works(&mut client, &mut server);
                assert!(
                    known(&client) <= server.session.properties().receive_buffer_size,
                    "{ours:?} asks for {bytes}"
                );
            }
        }
        works(&mut client, &mut server);
        assert_eq!((client.closing(), server.closing()), (None, None));
    }
}

/// The properties of rtrext-02 travel by either draft, with the same codes.
// spec: xc2-6.1-a, xc2-6.1-c
#[test]
fn capabilities_are_announced_in_both_drafts() {
    let (mut client, _) = pair(
        Config {
            rtr: Some(RtrExtConfig::ALL),
            ..client()
        },
        server(),
    );
    client.send().unwrap();
    let segments = [4, 24, 8192, 1, 1, 8192, 0, 1];
    client.receive(&operation(
        7,
        CALL,
        INITXCH,
        &[&[2, 5, 4, 3][..], &segments, &[0]].concat(),
    ));
    assert_eq!(client.session.peer_capabilities().request_limit, 3);
    client.receive(&operation(8, CALL, UPDXCH, &[5, 4, 2, 0]));
    assert_eq!(client.session.peer_capabilities().request_limit, 2);
    client.receive(&operation(
        8,
        CALL,
        UPDXCH,
        &[4, 24, 16_384, 1, 1, 16_384, 0, 1, 0],
    ));
    assert_eq!(client.session.peer_properties().receive_buffer_size, 16_384);
    let refused = client.session.counters().refused;
    client.receive(&operation(8, CALL, UPDXCH, &[5, 0, 0]));
    assert_eq!(
        (
            client.session.peer_capabilities().request_limit,
            client.session.counters().refused
        ),
        (2, refused + 1)
    );
}
