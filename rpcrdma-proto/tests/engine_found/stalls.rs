//! Peers that do not answer: calls that wait for the credits of cancelled calls.

use rpcrdma_proto::connection::{BufferId, CloseReason, Config, ConnState, Event};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::CallSpec;
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::pair::{End, NULL, REPLY, both_ways, exchange, one, reconnect, settled, works};

/// A client with two credits, and a server of which the first call was answered.
fn with_two_credits(unresponsive_after: u64) -> (End, End) {
    let client = one(Config {
        max_calls: 8,
        credits: 2,
        unresponsive_timeout: unresponsive_after,
        ..Config::client()
    });
    let (mut client, mut server) = settled(client, one(Config::server()));
    works(&mut client, &mut server);
    (client, server)
}

/// Rings the timer as often as it is due by then.
fn until(end: &mut End, now: u64) {
    for _ in 0..10 {
        let Some(due) = end.session.poll_timeout().filter(|due| *due <= now) else {
            break;
        };
        end.now = due.max(end.now);
        end.session.timeout(end.now);
        end.act();
    }
    assert!(
        end.session.poll_timeout().is_none_or(|due| due > now),
        "it rings for ever"
    );
    end.now = now;
}

// Only their replies return the credits of cancelled calls: a server that never answered them
// blocked all other calls for ever.
#[test]
fn connection_with_all_credits_in_orphans_is_replaced() {
    let (mut client, mut server) = with_two_credits(5_000);
    let cancelled = client.session.call(&NULL, None).unwrap();
    let expired = client.session.call(&NULL, Some(1_000)).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(server.arrived().len(), 2);
    let waits = client.session.call(&NULL, None).unwrap();
    client.session.cancel(cancelled);
    assert_eq!(exchange(&mut client, &mut server), 0);
    // One of the two may still be answered.
    assert_eq!(client.session.poll_timeout(), Some(1_000));
    until(&mut client, 1_000);
    assert_eq!(
        (
            client.failures(cancelled).len(),
            client.failures(expired).len()
        ),
        (1, 1)
    );
    until(&mut client, 5_999);
    assert_eq!(client.closing(), None);
    until(&mut client, 6_000);
    assert_eq!(client.closing(), Some(CloseReason::Unresponsive));
    reconnect(&mut client, &mut server);
    assert!(client.events.iter().any(|event| matches!(
        event,
        Event::Closed {
            reason: CloseReason::Unresponsive,
            is_final: false
        }
    )));
    exchange(&mut client, &mut server);
    let call = server.take_arrived().unwrap();
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.replies(waits).len(), client.session.outstanding()),
        (1, (0, 0))
    );
}

// A late reply shows that the peer answers.
#[test]
fn peer_that_answers_orphans_keeps_its_connection() {
    let (mut client, mut server) = with_two_credits(5_000);
    let given_up: Vec<u32> = (0..4)
        .map(|_| client.session.call(&NULL, None).unwrap())
        .collect();
    exchange(&mut client, &mut server);
    for xid in &given_up[..2] {
        client.session.cancel(*xid);
    }
    exchange(&mut client, &mut server);
    until(&mut client, 4_000);
    let late = server.take_arrived().unwrap();
    server.session.reply(late, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    // The third has gone; when it is given up, too, the time begins anew.
    client.session.cancel(given_up[2]);
    exchange(&mut client, &mut server);
    until(&mut client, 8_999);
    assert_eq!(client.closing(), None);
    until(&mut client, 9_000);
    assert_eq!(client.closing(), Some(CloseReason::Unresponsive));
}

// No call waits for them, or the user has disabled the timeout.
#[test]
fn connection_is_kept_if_no_call_waits_for_orphans() {
    for (after, waits) in [(5_000, false), (u64::MAX, true)] {
        let (mut client, mut server) = with_two_credits(after);
        let given_up: Vec<u32> = (0..2)
            .map(|_| client.session.call(&NULL, None).unwrap())
            .collect();
        exchange(&mut client, &mut server);
        given_up
            .iter()
            .for_each(|xid| assert!(client.session.cancel(*xid)));
        if waits {
            client.session.call(&NULL, None).unwrap();
        }
        exchange(&mut client, &mut server);
        until(&mut client, 1_000_000_000);
        assert_eq!(
            (client.closing(), client.session.state()),
            (None, ConnState::Up)
        );
    }
}

// A message without a reply, which waits for the credits of calls that were given up, waited for
// ever; and so did the calls behind it.
#[test]
fn one_way_message_does_not_hide_a_silent_peer() {
    for waits in [false, true] {
        let client = Config {
            max_calls: 8,
            credits: 2,
            unresponsive_timeout: 5_000,
            ..Config::client()
        };
        let (mut client, mut server) = settled(client, Config::server());
        works(&mut client, &mut server);
        let given_up = client.session.call(&NULL, None).unwrap();
        exchange(&mut client, &mut server);
        client.session.cancel(given_up);
        client
            .session
            .set_property(BasicProperty::RemoteInvalidation(true))
            .unwrap();
        if waits {
            client.session.call(&NULL, None).unwrap();
        }
        exchange(&mut client, &mut server);
        until(&mut client, 4_999);
        assert_eq!(client.closing(), None);
        until(&mut client, 5_000);
        assert_eq!(client.closing(), Some(CloseReason::Unresponsive));
    }
}

// A call had its credit while its memory was exposed, and the grant fell meanwhile: it waited for
// ever for calls that were given up.
#[test]
fn call_with_a_credit_is_not_blocked_for_ever() {
    for waits in [false, true] {
        let client = one(Config {
            max_calls: 8,
            credits: 4,
            unresponsive_timeout: 5_000,
            ..Config::client()
        });
        let (mut client, mut server) = settled(client, one(Config::server()));
        works(&mut client, &mut server);
        client.session.call(&NULL, None).unwrap();
        let given_up = client.session.call(&NULL, None).unwrap();
        exchange(&mut client, &mut server);
        // Memory is exposed for the reply.
        client.holds.exposing = true;
        let long = CallSpec {
            max_reply: 16_384,
            ..NULL
        };
        let held_back = client.session.call(&long, None).unwrap();
        assert_eq!(exchange(&mut client, &mut server), 0);
        let answered = server.take_arrived().unwrap();
        server.session.grant_up_to(1);
        server.session.reply(answered, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
        client.session.cancel(given_up);
        client.expose(held_back);
        if waits {
            client.session.call(&NULL, None).unwrap();
        }
        assert_eq!(exchange(&mut client, &mut server), 0);
        until(&mut client, 4_999);
        assert_eq!(client.closing(), None);
        until(&mut client, 5_000);
        assert_eq!(client.closing(), Some(CloseReason::Unresponsive));
    }
}

/// Fires the timer for any reason, at the beginning and long after.
fn rings(end: &mut End) {
    for now in [end.now + 1, end.now + 1_000_000_000] {
        end.session.timeout(now);
        end.act();
    }
}

// A call that takes its time is no reason to give a connection up, though others wait for its
// credit.
#[test]
fn slow_responder_keeps_its_connection() {
    let (mut client, mut server) = with_two_credits(5_000);
    for _ in 0..3 {
        client.session.call(&NULL, None).unwrap();
    }
    exchange(&mut client, &mut server);
    assert_eq!(server.arrived().len(), 2);
    assert_eq!(client.session.poll_timeout(), None);
    rings(&mut client);
    assert_eq!(client.closing(), None);
}

/// A client with one credit, which speaks of properties.
fn with_one_credit() -> (End, End) {
    let client = Config {
        max_calls: 8,
        credits: 1,
        unresponsive_timeout: 5_000,
        ..Config::client()
    };
    let (mut client, mut server) = settled(client, Config::server());
    works(&mut client, &mut server);
    (client, server)
}

const SIZE: BasicProperty = BasicProperty::ReceiveBufferSize(4096);

// Nor where a question about properties waits for its credit.
#[test]
fn waiting_property_request_does_not_close_the_connection() {
    let (mut client, mut server) = with_one_credit();
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    client.session.request_property(SIZE).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 0);
    assert_eq!(client.session.poll_timeout(), None);
    rings(&mut client);
    assert_eq!(client.closing(), None);
}

// A question that is not answered holds its credit like a call that was given up.
#[test]
fn unanswered_property_request_does_not_block_calls_for_ever() {
    let (mut client, _server) = with_one_credit();
    client.session.request_property(SIZE).unwrap();
    client.send().unwrap();
    client.session.call(&NULL, None).unwrap();
    assert!(client.send().is_none());
    until(&mut client, 4_999);
    assert_eq!(client.closing(), None);
    until(&mut client, 5_000);
    assert_eq!(client.closing(), Some(CloseReason::Unresponsive));
}

// A call that is held back waits for one that the consumer waits for, too.
#[test]
fn blocked_call_waits_for_a_slow_responder() {
    let client = one(Config {
        max_calls: 8,
        credits: 4,
        unresponsive_timeout: 5_000,
        ..Config::client()
    });
    let (mut client, mut server) = settled(client, one(Config::server()));
    works(&mut client, &mut server);
    let calls = [NULL; 2].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    client.holds.exposing = true;
    let long = CallSpec {
        max_reply: 16_384,
        ..NULL
    };
    let held_back = client.session.call(&long, None).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 0);
    let answered = server.take_arrived().unwrap();
    server.session.grant_up_to(1);
    server.session.reply(answered, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(calls[0]).len(), 1);
    client.expose(held_back);
    assert_eq!(exchange(&mut client, &mut server), 0);
    assert_eq!(client.session.poll_timeout(), None);
    rings(&mut client);
    assert_eq!(client.closing(), None);
}

// With the reply to a call that was given up its credit is there: there is nothing to wait for.
#[test]
fn no_stall_timer_with_available_credits() {
    let (mut client, mut server) = with_two_credits(5_000);
    let given_up = [NULL; 2].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    client.session.call(&NULL, None).unwrap();
    given_up
        .iter()
        .for_each(|xid| assert!(client.session.cancel(*xid)));
    client.act();
    assert!(client.session.poll_timeout().is_some());
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
        let reply = server.send().unwrap();
        let _ = client.session.received(BufferId(900), &reply.bytes, None);
    }
    assert_eq!(client.session.poll_timeout(), None);
}

// A cancelled call that waited for credits of cancelled calls blocks no other.
#[test]
fn connection_is_kept_when_waiting_calls_are_cancelled() {
    let (mut client, mut server) = with_two_credits(5_000);
    let calls = [NULL; 3].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    calls
        .iter()
        .for_each(|xid| assert!(client.session.cancel(*xid)));
    assert_eq!(client.session.poll_timeout(), None);
    rings(&mut client);
    assert_eq!(client.closing(), None);
}

/// A server whose client has announced that it accepts calls without chunks.
fn calling_back(rtr: Option<RtrExtConfig>) -> (End, End) {
    let client = Config {
        backward_support: Bkreqsup::Inline,
        rtr,
        ..Config::client()
    };
    let server = Config {
        rtr,
        unresponsive_timeout: 5_000,
        ..Config::server()
    };
    both_ways(client, server)
}

// Calls that the peer does not accept wait for no credits.
#[test]
fn connection_is_kept_if_calls_wait_for_support() {
    let (mut client, mut server) = calling_back(None);
    let none = BasicProperty::BackwardSupport(Bkreqsup::None);
    client.session.set_property(none).unwrap();
    exchange(&mut client, &mut server);
    server.session.request_property(SIZE).unwrap();
    server.send().unwrap();
    server.session.call(&NULL, None).unwrap();
    assert!(server.send().is_none());
    assert_eq!(server.session.poll_timeout(), None);
    rings(&mut server);
    assert_eq!(server.closing(), None);
}

// A call that takes more credits than there are, and has no other way, waits for those of calls
// that were given up.
#[test]
fn group_without_credits_does_not_wait_for_ever() {
    let (mut client, mut server) = calling_back(Some(RtrExtConfig::ALL));
    let given_up = [NULL; 6].map(|call| server.session.call(&call, None).unwrap());
    exchange(&mut server, &mut client);
    assert_eq!(client.arrived().len(), 6);
    given_up
        .iter()
        .for_each(|xid| assert!(server.session.cancel(*xid)));
    let long = CallSpec {
        length: 16_384,
        ..NULL
    };
    let xid = server.session.call(&long, None).unwrap();
    assert_eq!(exchange(&mut server, &mut client), 0);
    assert_eq!(server.failures(xid), []);
    until(&mut server, 4_999);
    assert_eq!(server.closing(), None);
    until(&mut server, 5_000);
    assert_eq!(server.closing(), Some(CloseReason::Unresponsive));
}
