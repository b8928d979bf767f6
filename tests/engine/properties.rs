//! Transport properties (xcharext-03): what is told, asked, answered and changed, and what it does to the messages that follow.
//! What is the same for transport characteristics (xcharext-02) is held of both; the rest of those is in `characteristics`.

use rpcrdma_proto::connection::{Action, Config, Event, Properties, RegisterError, Role, Sent, SetError};
use rpcrdma_proto::continuation::{Abilities, Operations, Rtr};
use rpcrdma_proto::placement::{Segment, Structure};
use rpcrdma_proto::property::{Basic, Values};
use rpcrdma_proto::travel::Call;
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::pair::{End, NULL, REPLY, exchange, one, pair, pass, settled, words, works};

pub(crate) const CALL: u32 = 0;
pub(crate) const REPLY_DIRECTION: u32 = 1;
/// The first code for experiments.
const EXPERIMENT: u32 = 4_294_967_040;

/// The two drafts.
pub(crate) const DRAFTS: [Properties; 2] = [Properties::Properties, Properties::Characteristics];

pub(crate) fn client_of(draft: Properties) -> Config {
    Config { properties: draft, ..Config::client() }
}

pub(crate) fn server_of(draft: Properties) -> Config {
    Config { properties: draft, ..Config::server() }
}

/// What an update of one value says that nobody has asked for.
fn update(draft: Properties, which: u32, value: u32) -> [u32; 4] {
    match draft {
        Properties::Characteristics => [which, 4, value, 0],
        _ => [1, which, 4, value],
    }
}

pub(crate) fn sized(size: u32, config: Config) -> Config {
    Config { receive_size: size, receive_size_most: 65_536, ..config }
}

pub(crate) fn call(length: u32, largest_reply: u32) -> Call<'static> {
    Call { length, items: &[], largest_reply, results: &[], reducible: true }
}

/// How an RPC of these lengths travels: octets of the call's Send and of the reply's.
pub(crate) fn travels(client: &mut End, server: &mut End, length: u32, reply: u32) -> (usize, usize) {
    let xid = client.session.call(&call(length, reply), None).unwrap();
    let there = loop {
        let packet = client.send().unwrap();
        server.receive(&packet.octets);
        if packet.word(0) == xid {
            break packet;
        }
        exchange(client, server);
    };
    let given = *server.arrived().last().unwrap();
    server.session.reply(given, reply, &[]).unwrap();
    let back = loop {
        let packet = server.send().unwrap();
        client.receive(&packet.octets);
        if packet.word(0) == xid {
            break packet;
        }
    };
    assert_eq!(client.replies(xid).len(), 1);
    (there.octets.len(), back.octets.len())
}

/// An operation, in words.
pub(crate) fn operation(xid: u32, direction: u32, code: u32, info: &[u32]) -> Vec<u8> {
    let octets = u32::try_from(4 * info.len()).unwrap();
    words(&[&[xid, 2, 8, 5, direction, code, octets][..], info].concat())
}

// ---- What is told at the beginning ----------------------------------------------------------------------------------

/// The messages of a beginning, octet by octet.
// spec: xc3-2.1-a, xc3-2.1-b, xc3-2.3-a, xc3-2.3-b, xc3-2.3-c, xc3-2.3-e, xc3-2.3-f, xc3-2.3-g, xc3-3-a, xc3-3-b, xc3-3-c
// spec: xc3-3-h, xc3-3-i, xc3-4-a, xc3-4-b, xc3-4-c, xc3-4-d, xc3-4-e, xc3-4-f, xc3-4-g, xc3-4.1-a, xc3-4.1-b, xc3-4.1-e
// spec: xc3-4.2-b, xc3-4.3-a, xc3-4.3-b, v2-3.1-b, v2-3.1-d, v2-3.2-d, v2-3.2-e, v2-4.2-a, v2-4.2.2-e, v2-4.2.2-g, v2-4.2.1-c
// spec: xc2-4.3-a, xc2-4.3-b, xc2-4.1-a, xc2-4.1-b, xc2-4.1-e, xc2-2.3-a, xc2-2.3-b, xc2-2.3-c
#[test]
fn a_connection_begins_with_the_properties() {
    for draft in DRAFTS {
        let client = Config { remote_invalidation: true, credits: 20, ..sized(8192, client_of(draft)) };
        let (mut client, mut server) =
            pair(client, Config { backward: Bkreqsup::Inline, serve: 16, ..server_of(draft) });
        let ask = client.send().unwrap();
        let xid = ask.word(0);
        assert_eq!(ask.octets, words(&[xid, 2, 20, 5, CALL, 2, 4, 0]), "a ROPT_REQPROP of nothing");
        server.receive(&ask.octets);
        let connprop = server.send().unwrap();
        let values = |size, invalidation, support| [3, 1, 4, size, 2, 4, invalidation, 3, 4, support, 0];
        let told = |xid, credits, values: [u32; 11]| words(&[&[xid, 2, credits, 5, CALL, 1, 44][..], &values].concat());
        assert_eq!(connprop.octets, told(connprop.word(0), 8, values(4096, 0, 1)));
        assert_ne!(connprop.word(0), xid);
        let answer = server.send().unwrap();
        assert_eq!(
            answer.octets,
            words(&[xid, 2, 16, 5, REPLY_DIRECTION, 3, 12, 0, 0, 0]),
            "a ROPT_RESPROP of nothing"
        );
        assert!(server.send().is_none() && client.send().is_none());
        client.receive(&connprop.octets);
        client.receive(&answer.octets);
        let connprop = client.send().unwrap();
        assert_eq!(connprop.octets, told(connprop.word(0), 20, values(8192, 1, 2)));
        server.receive(&connprop.octets);
        assert!(client.send().is_none() && server.send().is_none());
        assert_eq!(
            *server.session.peer_properties(),
            Values { receive_buffer_size: 8192, remote_invalidation: true, backward_support: Bkreqsup::Genl }
        );
        assert_eq!(client.session.peer_properties().backward_support, Bkreqsup::Inline);
        assert_eq!((client.session.counters().sent, server.session.counters().sent), (2, 2));
        // A ROPT_CONNPROP has a credit, which comes back with the reply to a later call (decision D9).
        assert_eq!(client.session.available(), 15);
        works(&mut client, &mut server);
        assert_eq!(client.session.available(), 16);
    }
}

/// Larger receives that were told let larger messages go inline, each way; and no Reply chunk is offered where the reply fits.
// spec: v2-2.1-a, v2-2.1-b, v2-2.2-c, v2-2.3-b, v2-5.2-g, xc3-3.1-a, xc3-3.1-b, xc3-3.1-c, xc3-3.1-d, xc3-3.1-e, xc3-3.1-f
// spec: xc2-3.1-a, xc2-3.1-b, xc2-3.1-c, xc2-3.1-d, xc2-3.1-e, xc2-3.1-f
#[test]
fn what_was_told_sets_the_thresholds() {
    for draft in DRAFTS {
        let (client, server) = (sized(8192, client_of(draft)), sized(16_384, server_of(draft)));
        let (mut client, mut server) = settled(client, server);
        works(&mut client, &mut server);
        assert_eq!(travels(&mut client, &mut server, 16_352, 8160), (16_384, 8192));
        assert_eq!(travels(&mut client, &mut server, 16_356, 8160).0, 56, "a Position-Zero Read chunk");
        assert_eq!(travels(&mut client, &mut server, 40, 8164), (92, 52), "a Reply chunk, offered and used");
        let Some(Action::PostReceives { size, .. }) = server.actions.first().cloned() else { panic!() };
        assert_eq!(size, 16_384);
    }
}

/// What this end sends at most is not what the other takes at most: the less of both counts.
// spec: v2-2.1-b
#[test]
fn no_end_sends_more_than_it_can() {
    let client = Config { send_size: 8192, ..Config::client() };
    let (mut client, mut server) = settled(client, sized(16_384, Config::server()));
    works(&mut client, &mut server);
    assert_eq!(travels(&mut client, &mut server, 8160, 24).0, 8192);
    assert_eq!(travels(&mut client, &mut server, 8164, 24).0, 56);
}

/// Backward messages go by the same sizes: the call threshold of one direction is the reply threshold of the other.
// spec: bd-4.2-a, bd-4.2-b, bd-4.2-c, v2-2.2-c
#[test]
fn both_directions_share_the_receives() {
    for draft in DRAFTS {
        let (client, server) = (sized(8192, client_of(draft)), sized(16_384, server_of(draft)));
        let (mut client, mut server) = settled(client, server);
        client.session.call(&NULL, None).unwrap();
        exchange(&mut client, &mut server);
        let given = server.arrived()[0];
        server.session.peer_ready(given);
        assert_eq!(travels(&mut server, &mut client, 8160, 16_352), (8192, 16_384));
        assert_eq!(travels(&mut server, &mut client, 8164, 24).0, 56);
    }
}

/// Who tells nothing takes 4096 octets, and no invalidation.
// spec: v2-2.1-c, v2-2.3-a, v2-2.3-c, xc3-4.1-c
// spec: xc2-4.1-c
#[test]
fn who_tells_nothing_has_the_default() {
    for draft in DRAFTS {
        let server = Config { properties: Properties::None, ..sized(16_384, server_of(draft)) };
        let (mut client, mut server) = settled(sized(8192, client_of(draft)), server);
        works(&mut client, &mut server);
        assert_eq!(*client.session.peer_properties(), Values::DEFAULT);
        assert_eq!(travels(&mut client, &mut server, 4064, 4064), (4096, 4096));
        assert_eq!(travels(&mut client, &mut server, 4068, 4068), (76, 52));
        for small in [1024, 2048, 4092] {
            assert!(sized(small, client_of(draft)).check().is_err(), "less than every peer may send");
            assert!(one(sized(small, client_of(draft))).check().is_ok());
        }
    }
}

// ---- Changes of our own ---------------------------------------------------------------------------------------------

/// Receives grow at once, and are told when the old ones are gone: not before (decision D17).
// spec: xc3-3.1-b, xc3-3.1-g, xc3-4.4-b, xc3-3-n, xc3-2.3-d, xc3-4-h, v2-5.2-g
// spec: xc2-3.1-b, xc2-3.1-g, xc2-4.4-c, xc2-3-j
#[test]
fn larger_receives_are_told_when_the_smaller_ones_are_gone() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), server_of(draft));
        works(&mut client, &mut server);
        let old = server.session.posted();
        server.actions.clear();
        server.session.set(Basic::ReceiveBufferSize(8192)).unwrap();
        server.act();
        assert_eq!(server.session.properties().receive_buffer_size, 4096);
        for used in 1..old {
            assert_eq!(travels(&mut client, &mut server, 4068, 24).0, 56, "as long as it is 4096 for the peer");
            assert_eq!(server.session.properties().receive_buffer_size, 4096, "after {used} of {old}");
        }
        let smaller = |action: &Action| matches!(action, Action::PostReceives { size, .. } if *size != 8192);
        assert!(!server.actions.iter().any(smaller));
        client.session.call(&NULL, None).unwrap();
        assert!(pass(&mut client, &mut server));
        assert_eq!(server.session.properties().receive_buffer_size, 8192);
        // A server that has made no call has one credit, which its ROPT_CONNPROP took: an empty request brings it back.
        let told = loop {
            let packet = server.send().unwrap();
            client.receive(&packet.octets);
            if packet.word(5) == 4 {
                break packet;
            }
            while pass(&mut client, &mut server) {}
        };
        assert_eq!(told.octets, operation(told.word(0), CALL, 4, &update(draft, 1, 8192)));
        assert!(client.events.contains(&Event::PropertiesChanged));
        assert_eq!(travels(&mut client, &mut server, 8160, 24).0, 8192);
        assert_eq!(client.session.counters().connections, 1);
    }
}

// spec: xc3-3.1-i
// spec: xc2-3.1-i
#[test]
fn what_can_not_be_set() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(sized(8192, client_of(draft)), server_of(draft));
        assert_eq!(client.session.set(Basic::ReceiveBufferSize(4096)), Err(SetError::Smaller));
        assert_eq!(client.session.set(Basic::ReceiveBufferSize(65_537)), Err(SetError::Larger));
        client.lose(1);
        server.lose(1);
        assert_eq!(client.session.set(Basic::RemoteInvalidation(true)), Err(SetError::Unsupported));
        let mut none = settled(Config { properties: Properties::None, ..client_of(draft) }, server_of(draft)).0;
        assert_eq!(none.session.set(Basic::RemoteInvalidation(true)), Err(SetError::Unsupported));
        assert_eq!(none.session.ask(Basic::RemoteInvalidation(true)), Err(SetError::Unsupported));
    }
}

/// Where one message alone is granted, a change is told all the same, and nobody talks without end.
// spec: v2-4.2.2-g
#[test]
fn a_change_is_told_within_the_least_grant() {
    for draft in DRAFTS {
        for serve in [1, 2] {
            let (mut client, mut server) = settled(client_of(draft), Config { serve, ..server_of(draft) });
            works(&mut client, &mut server);
            for waits in [false, true] {
                let xid = waits.then(|| client.session.call(&NULL, None).unwrap());
                exchange(&mut client, &mut server);
                client.session.set(Basic::RemoteInvalidation(!waits)).unwrap();
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

// ---- Changes that are asked for -------------------------------------------------------------------------------------

/// A smaller size binds who asks for it at once, and until it is answered otherwise (decision D17).
// spec: xc3-1.3-d, xc3-3.1-h, xc3-3.1-i, xc3-3.1-j, xc3-4.2-a, xc3-4.1-h
// spec: xc2-1.3-d, xc2-3.1-h, xc2-3.1-i, xc2-3.1-j, xc2-4.2-a
#[test]
fn a_smaller_size_binds_who_asks_for_it() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), sized(16_384, server_of(draft)));
        works(&mut client, &mut server);
        client.session.ask(Basic::ReceiveBufferSize(8192)).unwrap();
        assert_eq!(client.session.ask(Basic::ReceiveBufferSize(4096)), Err(SetError::Busy));
        let xid = client.session.call(&call(16_000, 24), None).unwrap();
        let (asked, long) = (client.send().unwrap(), client.send().unwrap());
        assert_eq!(asked.octets, words(&[asked.word(0), 2, 32, 5, CALL, 2, 16, 1, 1, 4, 8192]));
        assert_eq!((long.word(0), long.octets.len()), (xid, 56));
        server.actions.clear();
        server.receive(&asked.octets);
        assert_eq!(server.session.properties().receive_buffer_size, 8192);
        let answer = server.send().unwrap();
        assert_eq!(answer.octets, words(&[asked.word(0), 2, 32, 5, REPLY_DIRECTION, 3, 16, 1, 1, 0, 0]));
        client.receive(&answer.octets);
        let size = Basic::ReceiveBufferSize(8192);
        let told = Event::PropertyAnswered { asked: size, value: Some(size) };
        assert!(client.events.contains(&told));
        server.receive(&long.octets);
        let given = server.arrived()[0];
        server.session.reply(given, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(travels(&mut client, &mut server, 8164, 24).0, 56);
        assert_eq!(travels(&mut client, &mut server, 8160, 24).0, 8192);
        assert!(server.actions.contains(&Action::PostReceives { count: 1, size: 8192 }));
    }
}

/// An update to a larger size that comes before the answer has crossed the request, which may be granted by then: it lifts the limit
/// once that is no longer pending (decision D17).
// spec: xc3-3.1-j
#[test]
fn an_update_to_a_larger_size_lifts_the_limit_when_the_request_is_answered() {
    let (mut client, mut server) = settled(Config::client(), sized(16_384, Config::server()));
    works(&mut client, &mut server);
    client.session.ask(Basic::ReceiveBufferSize(8192)).unwrap();
    let asked = client.send().unwrap().word(0);
    for (size, octets) in [(8192, 56), (12_288, 56)] {
        client.receive(&operation(77, CALL, 4, &[1, 1, 4, size]));
        client.session.call(&call(10_000, 24), None).unwrap();
        assert_eq!(client.send().unwrap().octets.len(), octets, "after an update to {size}");
    }
    client.receive(&operation(asked, REPLY_DIRECTION, 3, &[0, 1, 1, 0]));
    let asked = Basic::ReceiveBufferSize(8192);
    assert!(client.events.contains(&Event::PropertyAnswered { asked, value: None }));
    client.session.call(&call(10_000, 24), None).unwrap();
    assert_eq!(client.send().unwrap().octets.len(), 10_032);
}

/// Below what every receiver takes another value is set, or none; then the old limit holds again.
// spec: xc3-3.1-j, xc3-4.3-a
#[test]
fn a_size_below_the_least_is_not_set() {
    for (size, now) in [(16_384, Some(Basic::ReceiveBufferSize(4096))), (4096, None)] {
        let (mut client, mut server) = settled(Config::client(), sized(size, Config::server()));
        works(&mut client, &mut server);
        client.session.ask(Basic::ReceiveBufferSize(2048)).unwrap();
        let xid = client.session.call(&call(3000, 24), None).unwrap();
        let (asked, long) = (client.send().unwrap(), client.send().unwrap());
        assert_eq!((long.word(0), long.octets.len()), (xid, 56), "2048 until the answer");
        server.receive(&asked.octets);
        server.receive(&long.octets);
        let given = server.arrived()[0];
        server.session.reply(given, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert!(client.events.contains(&Event::PropertyAnswered { asked: Basic::ReceiveBufferSize(2048), value: now }));
        assert_eq!(travels(&mut client, &mut server, 4064, 24).0, 4096);
        assert_eq!(travels(&mut client, &mut server, 4068, 24).0, 56);
    }
}

/// A larger size is rejected at first, and told when the receives of the old one are gone.
// spec: xc3-3.1-g, xc3-3.1-j, xc3-4.2-a
#[test]
fn a_larger_size_follows_by_an_update() {
    let server = Config { receive_size_most: 12_288, ..Config::server() };
    let (mut client, mut server) = settled(Config::client(), server);
    works(&mut client, &mut server);
    client.session.ask(Basic::ReceiveBufferSize(65_536)).unwrap();
    exchange(&mut client, &mut server);
    assert!(client.events.contains(&Event::PropertyAnswered { asked: Basic::ReceiveBufferSize(65_536), value: None }));
    for _ in 0..=server.session.posted() {
        works(&mut client, &mut server);
    }
    assert_eq!(client.session.peer_properties().receive_buffer_size, 12_288, "no more than it has");
    assert_eq!(travels(&mut client, &mut server, 12_256, 24).0, 12_288);
}

/// What the consumer wants to be larger still is not lost by a peer that asks for less.
#[test]
fn a_request_takes_nothing_from_a_larger_size_that_is_on_its_way() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), server_of(draft));
        works(&mut client, &mut server);
        server.session.set(Basic::ReceiveBufferSize(16_384)).unwrap();
        client.session.ask(Basic::ReceiveBufferSize(8192)).unwrap();
        for _ in 0..=2 * server.session.posted() {
            works(&mut client, &mut server);
        }
        assert_eq!(client.session.peer_properties().receive_buffer_size, 16_384);
    }
}

/// Replies that were made for the larger size go before the request for the smaller one.
// spec: xc3-3.1-j
// spec: xc2-3.1-j
#[test]
fn replies_that_wait_go_before_a_request() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(sized(16_384, client_of(draft)), server_of(draft));
        works(&mut client, &mut server);
        let xid = client.session.call(&call(40, 16_000), None).unwrap();
        exchange(&mut client, &mut server);
        let given = server.arrived()[0];
        server.session.reply(given, 16_000, &[]).unwrap();
        server.session.ask(Basic::ReceiveBufferSize(4096)).unwrap();
        let reply = server.send().unwrap();
        assert_eq!((reply.word(0), reply.octets.len()), (xid, 16_032));
        assert_eq!(server.send().unwrap().word(5), 2, "then the ROPT_REQPROP");
    }
}

/// A reply may have to wait until another is released, and the request with it: nothing else goes in its place.
#[test]
fn a_request_waits_with_the_replies() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), Config { serve: 1, ..server_of(draft) });
        works(&mut client, &mut server);
        server.holds.releasing = true;
        let mut given = Vec::new();
        for _ in 0..2 {
            client.session.call(&NULL, None).unwrap();
            exchange(&mut client, &mut server);
            let call = server.arrived()[0];
            given.push(call);
            // So that other calls might go, too.
            assert!(server.session.peer_ready(call));
            server.session.reply(call, REPLY, &[]).unwrap();
            exchange(&mut client, &mut server);
        }
        server.session.ask(Basic::RemoteInvalidation(true)).unwrap();
        assert!(server.send().is_none(), "the second reply waits for the first to be released");
        server.released(Sent::Reply { call: given[0] });
        assert_eq!(server.send().unwrap().what, Sent::Reply { call: given[1] });
        let packet = server.send().unwrap();
        assert_eq!((packet.what, packet.word(5)), (Sent::Header, 2));
    }
}

/// Each of several changes has its answer: made, not made, or made otherwise.
// spec: xc3-4.3-a, xc3-4.3-b, xc3-4.2-a, xc3-4.2-b, xc3-4.2-c, xc3-4-k, xc3-4-l
#[test]
fn every_change_is_answered_by_itself() {
    let client = Config { backward: Bkreqsup::Genl, ..sized(16_384, Config::client()) };
    let (mut client, mut server) = settled(client, Config::server());
    works(&mut client, &mut server);
    // Less support, invalidation that it can't have, no property that it knows, and less than every receiver takes. The XID is
    // that of a call under way: it need not differ.
    let own = client.session.call(&NULL, None).unwrap();
    client.send().unwrap();
    let info = [4, 3, 4, 1, 2, 4, 1, 99, 0, 1, 4, 1024];
    client.receive(&operation(own, CALL, 2, &info));
    let answer = client.send().unwrap();
    assert_eq!(answer.octets, words(&[own, 2, 8, 5, REPLY_DIRECTION, 3, 32, 1, 0b0001, 1, 0b0110, 1, 1, 4, 4096]));
    assert_eq!(
        *client.session.properties(),
        Values { receive_buffer_size: 4096, remote_invalidation: false, backward_support: Bkreqsup::Inline }
    );
    assert_eq!(client.session.open().0, 1, "the call is still to be answered");
}

/// As many requests as were granted are answered, however soon they come.
// spec: xc3-4.3-a, bd-4.1-d
// spec: xc2-4.3-a
#[test]
fn as_many_requests_as_were_granted_are_answered() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), server_of(draft));
        works(&mut client, &mut server);
        for xid in 1..=32 {
            server.receive(&operation(xid, CALL, 2, &[0]));
        }
        assert_eq!(server.closing(), None);
        for xid in 1..=32 {
            let answer = server.send().unwrap();
            assert_eq!((answer.word(0), answer.word(5)), (xid, 3));
        }
    }
}

/// A property that the peer said would not change, or did not name, is not asked for (decision D18).
// spec: xc3-3-h, xc3-3-i
#[test]
fn what_does_not_change_is_not_asked_for() {
    for draft in DRAFTS {
        let (mut client, _) = pair(client_of(draft), server_of(draft));
        let ask = client.send().unwrap();
        client.receive(&operation(7, CALL, 1, &[2, 1, 4, 8192, 2, 4, 0, 1, 0b10]));
        client.receive(&operation(ask.word(0), REPLY_DIRECTION, 3, &[0, 0, 0]));
        assert_eq!(client.session.ask(Basic::RemoteInvalidation(true)), Err(SetError::Fixed));
        assert_eq!(client.session.ask(Basic::BackwardSupport(Bkreqsup::None)), Err(SetError::Fixed));
        assert_eq!(client.session.ask(Basic::ReceiveBufferSize(16_384)), Ok(()));
        // Neither does an update of it count.
        client.receive(&operation(8, CALL, 4, &update(draft, 2, 1)));
        assert!(!client.session.peer_properties().remote_invalidation);
    }
}

/// A peer that answers by an error, wrongly, or not before the connection is gone has rejected.
// spec: xc3-3-m, xc3-3.1-j
#[test]
fn a_request_without_a_good_answer_is_rejected() {
    for answer in ["error", "malformed", "lost"] {
        let (mut client, mut server) = settled(Config::client(), sized(16_384, Config::server()));
        works(&mut client, &mut server);
        client.events.clear();
        client.session.ask(Basic::ReceiveBufferSize(8192)).unwrap();
        let xid = client.send().unwrap().word(0);
        match answer {
            "error" => client.receive(&words(&[xid, 2, 1, 4, 3])),
            "malformed" => client.receive(&operation(xid, REPLY_DIRECTION, 3, &[5])),
            _ => client.lose(1),
        }
        let told =
            |event: &&Event| **event == Event::PropertyAnswered { asked: Basic::ReceiveBufferSize(8192), value: None };
        assert_eq!(client.events.iter().filter(told).count(), 1, "{answer}");
        if answer != "lost" {
            assert_eq!(travels(&mut client, &mut server, 16_352, 24).0, 16_384, "{answer}: the limit is gone");
        }
    }
}

// ---- The properties of rtrext-02 ------------------------------------------------------------------------------------

/// Receive buffers of 4096 octets, and 8192 for bulk data.
fn structured(config: Config) -> Config {
    let head = Segment { length: 4096, align: 8, target: false };
    let structure = Structure::new(&[head, Segment { length: 8192, align: 4096, target: true }]).unwrap();
    let rtr = Rtr { structure: Some(structure), request_limit: 5, response_limit: 6, ..Rtr::ALL };
    let size = structure.length();
    Config { rtr: Some(rtr), receive_size: size, receive_size_most: size, ..config }
}

/// What each end can do of rtrext-02 is told with the others, and known as long as the connection holds.
// spec: rtr-3.3-a, rtr-7.2-m, rtr-8.1-a, rtr-8.1-b, rtr-8.1-c, rtr-8.1-d, rtr-8.3-a, rtr-8.3-b
#[test]
fn abilities_are_told() {
    for draft in DRAFTS {
        let plain = Config { rtr: Some(Rtr { operations: Operations::REQUESTS, ..Rtr::ALL }), ..server_of(draft) };
        let (mut client, mut server) = pair(structured(client_of(draft)), plain);
        assert!(pass(&mut client, &mut server));
        let connprop = server.send().unwrap();
        let values = [6, 1, 4, 4096, 2, 4, 0, 3, 4, 2, 4_294_967_043, 4, 1, 5, 4, 8, 6, 4, 8, 1, 0b11_1000];
        assert_eq!(connprop.octets, words(&[&[connprop.word(0), 2, 8, 5, CALL, 1, 84][..], &values].concat()));
        client.receive(&connprop.octets);
        assert!(client.events.contains(&Event::PropertiesChanged));
        assert!(pass(&mut server, &mut client));
        let connprop = client.send().unwrap();
        let segments = [12_288, 2, 1, 4096, 8, 0, 1, 8192, 4096, 1];
        let values = [7, 1, 4, 12_288, 2, 4, 0, 3, 4, 2, 4_294_967_043, 4, 7, 4, 40];
        let rest = [5, 4, 5, 6, 4, 6, 1, 0b111_1001];
        assert_eq!(connprop.octets[28..], words(&[&values[..], &segments, &rest].concat()));
        server.receive(&connprop.octets);
        for (this, other) in [(&client, &server), (&server, &client)] {
            let theirs = other.session.config().rtr.unwrap().abilities();
            assert_eq!(*this.session.peer_abilities(), theirs);
        }
        assert_eq!(server.session.peer_properties().receive_buffer_size, 12_288);
        works(&mut client, &mut server);
        crate::pair::reconnect(&mut client, &mut server);
        assert_eq!(*server.session.peer_abilities(), Abilities::DEFAULT, "it is another connection");
    }
}

/// Who does not use rtrext-02 passes what is told of it over.
#[test]
fn abilities_are_unknown_without_rtrext() {
    let (mut client, mut server) = settled(structured(Config::client()), Config::server());
    works(&mut client, &mut server);
    assert_eq!(*server.session.peer_abilities(), Abilities::DEFAULT);
    assert_eq!(*client.session.peer_abilities(), Abilities::DEFAULT);
    assert_eq!(server.session.peer_properties().receive_buffer_size, 12_288);
}

/// The abilities of this end do not change, nor does the size of receive buffers that have a structure.
// spec: rtr-8.3-b
#[test]
fn abilities_do_not_change_by_request() {
    let rtr = Config { rtr: Some(Rtr::ALL), ..Config::client() };
    let (mut client, mut server) = settled(structured(Config::client()), Config { role: Role::Server, ..rtr });
    works(&mut client, &mut server);
    assert_eq!(server.session.ask(Basic::ReceiveBufferSize(8192)), Err(SetError::Fixed));
    for size in [0, 4096, 8192, 12_288, 16_384] {
        client.receive(&operation(77, CALL, 2, &[4, 1, 4, size, 5, 4, 1, 6, 0, 4_294_967_043, 4, 0]));
        let answer = client.send().unwrap();
        assert_eq!(answer.octets[20..], words(&[3, 16, 0, 1, 0b1111, 0]), "{size}");
    }
    assert_eq!(client.session.properties().receive_buffer_size, 12_288);
    // A limit of nothing means nothing.
    client.receive(&operation(78, CALL, 2, &[1, 5, 4, 0]));
    assert_eq!(client.send().unwrap().octets[12..20], words(&[4, 2]), "RDMA2_ERROR, RDMA2_ERR_BAD_HEADER");
}

/// What a peer tells later of its abilities is known from then on.
// spec: rtr-8.3-e
#[test]
fn abilities_of_a_peer_may_change() {
    let (mut client, _) = pair(Config { rtr: Some(Rtr::ALL), ..Config::client() }, Config::server());
    client.send().unwrap();
    let segments = |size: u32| [4, 24, size, 1, 1, size, 0, 1];
    client.receive(&operation(7, CALL, 1, &[&[2, 5, 4, 3][..], &segments(8192), &[0]].concat()));
    assert_eq!(client.session.peer_abilities().request_limit, 3);
    client.events.clear();
    client.receive(&operation(8, CALL, 4, &[&[2, 5, 4, 2][..], &segments(16_384)].concat()));
    assert_eq!(client.events, [Event::PropertiesChanged]);
    let abilities = client.session.peer_abilities();
    assert_eq!((abilities.request_limit, abilities.structure.unwrap().target_count()), (2, 1));
    assert_eq!(client.session.peer_properties().receive_buffer_size, 16_384);
}

// ---- Experiments ----------------------------------------------------------------------------------------------------

/// Properties of an experiment are told with the others; who does not know them passes them over.
// spec: xc3-6.1-a, xc3-6.1-c, xc3-6.2-a, xc3-4.1-b, xc3-4.1-f, xc3-4.1-g
// spec: xc2-6.1-a, xc2-6.1-c, xc2-6.2-a, xc2-4.1-b, xc2-4.1-f, xc2-4.1-g
#[test]
fn properties_of_an_experiment_are_told() {
    for draft in DRAFTS {
        // With as much besides as can be told.
        let segments: Vec<_> = (0..16).map(|at| Segment { length: 1024, align: at, target: at > 0 }).collect();
        let rtr = Some(Rtr { structure: Some(Structure::new(&segments).unwrap()), ..Rtr::ALL });
        let most = Config { rtr, ..sized(16_384, client_of(draft)) };
        let most = Config { receive_size_most: 16_384, ..most };
        let (mut client, mut server) = (End::new(most), End::new(server_of(draft)));
        let value = [7; 64];
        assert_eq!(client.session.register_property(4_294_967_043, &[]), Err(RegisterError::Code), "RTR Support");
        for at in 0..8 {
            client.session.register_property(EXPERIMENT + 30 * at, &value).unwrap();
        }
        server.session.register_property(EXPERIMENT + 60, &[1, 2, 3]).unwrap();
        assert_eq!(client.session.register_property(EXPERIMENT, &[]), Err(RegisterError::Code));
        assert_eq!(client.session.register_property(EXPERIMENT - 1, &[]), Err(RegisterError::Code));
        assert_eq!(client.session.register_property(EXPERIMENT + 1, &[0; 65]), Err(RegisterError::Long));
        assert_eq!(client.session.register_property(EXPERIMENT + 1, &[]), Err(RegisterError::Full));
        client.act();
        crate::pair::connect(&mut client, &mut server);
        while let Some(packet) = client.send() {
            assert!(packet.octets.len() <= 1024, "whoever has the default can take it");
            server.receive(&packet.octets);
            while pass(&mut server, &mut client) {}
        }
        assert_eq!(server.session.peer_property(EXPERIMENT + 60), Some(&value[..]));
        assert_eq!(client.session.peer_property(EXPERIMENT + 60), Some(&[1, 2, 3][..]));
        assert_eq!((client.session.peer_property(EXPERIMENT), server.session.peer_property(EXPERIMENT)), (None, None));
        works(&mut client, &mut server);
        crate::pair::reconnect(&mut client, &mut server);
        assert_eq!(server.session.peer_property(EXPERIMENT + 60), None, "it is another connection");
        exchange(&mut client, &mut server);
        assert_eq!(server.session.peer_property(EXPERIMENT + 60), Some(&value[..]));
    }
}

/// Operations of an experiment go to the consumers of both ends; a peer that does not know them says so.
// spec: v2-3.1-a, v2-3.1-b, v2-3.1-d, v2-3.1-f, v2-3.3-a, v2-4.2.1-c, xc3-6.2-a
#[test]
fn operations_of_an_experiment_reach_the_consumer() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    assert_eq!(client.session.register_operation(5), Err(RegisterError::Code));
    assert_eq!(client.session.operate(EXPERIMENT, true, None, b""), Err(RegisterError::Code));
    client.session.register_operation(EXPERIMENT).unwrap();
    assert_eq!(client.session.operate(EXPERIMENT, true, None, &[0; 257]), Err(RegisterError::Long));
    let xid = client.session.operate(EXPERIMENT, true, None, b"hello").unwrap();
    exchange(&mut client, &mut server);
    let refused = |event: &Event| matches!(event, Event::PeerError { xid: named, .. } if *named == xid);
    assert!(client.events.iter().any(refused));
    server.session.register_operation(EXPERIMENT).unwrap();
    let xid = client.session.operate(EXPERIMENT, true, None, b"hello").unwrap();
    let packet = client.send().unwrap();
    server.receive(&packet.octets);
    let told = server.events.iter().find_map(|event| match event {
        Event::Operation { operation } => Some(operation.clone()),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!((told.xid, told.code, told.call), (xid, EXPERIMENT, true));
    assert_eq!(&packet.octets[told.info.start as usize..told.info.end as usize], b"hello");
    assert!(told.payload.is_empty());
    // With part of an RPC message behind it, it is the consumer's to judge.
    let mut octets = operation(77, CALL, EXPERIMENT, &[1]);
    octets.extend(words(&[5, 6]));
    server.receive(&octets);
    let told = server.events.iter().rev().find_map(|event| match event {
        Event::Operation { operation } => Some((operation.info.clone(), operation.payload.clone())),
        _ => None,
    });
    assert_eq!(told, Some((28..32, 32..40)));
    server.session.operate(EXPERIMENT, false, Some(xid), b"and back").unwrap();
    exchange(&mut client, &mut server);
    assert!(
        client
            .events
            .iter()
            .any(|event| matches!(event, Event::Operation { operation } if operation.xid == xid && !operation.call))
    );
}

/// An RPC message behind an operation that nobody here but the consumer knows has the operation's direction, or is refused.
// spec: v2-4.2.2-d
#[test]
fn an_operation_has_the_direction_of_its_rpc_message() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    server.session.register_operation(EXPERIMENT).unwrap();
    for (xid, begin, direction, taken) in [(77, 77, CALL, true), (78, 78, 1, false), (79, 5, 1, true)] {
        let mut octets = operation(xid, CALL, EXPERIMENT, &[1]);
        octets.extend(words(&[begin, direction]));
        server.receive(&octets);
        let mine = |event: &Event| matches!(event, Event::Operation { operation } if operation.xid == xid);
        assert_eq!(server.events.iter().any(mine), taken, "{xid}");
    }
    let refused = server.send().unwrap();
    assert_eq!(refused.octets[..4], 78u32.to_be_bytes());
    assert_eq!(refused.octets[12..20], [0, 0, 0, 4, 0, 0, 0, 2], "RDMA2_ERROR, RDMA2_ERR_BAD_HEADER");
    works(&mut client, &mut server);
}
