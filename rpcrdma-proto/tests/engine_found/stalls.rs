//! Peers that do not answer: what waits for the credits of calls that were given up.

use rpcrdma_proto::connection::{CloseReason, Config, ConnState, Event};
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::CallSpec;

use crate::pair::{End, NULL, REPLY, exchange, one, reconnect, settled, works};

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

// The credits of calls that were given up come back with their replies alone: a server that never
// answers them kept all others waiting for ever.
#[test]
fn a_connection_whose_credits_all_belong_to_calls_that_were_given_up_is_made_anew() {
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
fn a_peer_that_answers_calls_that_were_given_up_is_waited_for() {
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

// Nobody is kept waiting by them, or the embedder wants to wait.
#[test]
fn a_connection_is_kept_where_no_call_waits_for_those_that_were_given_up() {
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
fn a_message_without_a_reply_hides_no_peer_that_does_not_answer() {
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
fn a_call_that_has_its_credit_is_not_held_back_for_ever() {
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
