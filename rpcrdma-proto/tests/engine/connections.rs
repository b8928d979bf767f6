//! Successive connections: retransmissions on the next one, and the end of a session.

use rpcrdma_proto::connection::{
    Action, BufferId, CallFailure, CloseReason, Config, ConnState, Event, ReplyError,
    SessionCallError, SessionConnectError,
};
use rpcrdma_proto::private_data::PrivateData;
use rpcrdma_proto::property::BasicProperty;

use crate::calls::warm;
use crate::pair::{
    End, LONG_REPLY, NULL, OFFSET, REPLY, RESULT, connect, exchange, pair, reconnect, settled,
    words,
};

/// A call that may not go again fails when its connection is lost, if the server may have it; else
/// it waits for the next connection.
#[test]
fn call_without_a_window_fails_with_its_connection() {
    let (mut client, mut server) = warm();
    let sent = client.session.call_resent_within(&NULL, None, 0).unwrap();
    exchange(&mut client, &mut server);
    let waits = client.session.call_resent_within(&NULL, None, 0).unwrap();
    assert_eq!(server.arrived().len(), 1);
    server.lose(10);
    client.lose(10);
    let failed = |client: &End, wanted: u32| {
        let mut events = client.events.iter();
        events.find_map(|event| match event {
            Event::CallFailed { xid, error, sent } if *xid == wanted => Some((*error, *sent)),
            _ => None,
        })
    };
    let lost = CallFailure::Disconnected(CloseReason::Lost);
    assert_eq!(failed(&client, sent), Some((lost, true)));
    assert_eq!(failed(&client, waits), None);
    reconnect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(waits).len(), 1);
    assert!(client.replies(sent).is_empty());
    let cancelled = client.session.call_resent_within(&NULL, None, 0).unwrap();
    client.session.cancel(cancelled);
    exchange(&mut client, &mut server);
    assert_eq!(
        failed(&client, cancelled),
        Some((CallFailure::Cancelled, false))
    );
}

/// A call with a window is transmitted over further connections until the window ends, counted from
/// its first transmission. Then it fails: when its connection is lost, or while it waits for one.
#[test]
fn call_is_resent_within_its_window() {
    const WINDOW: u64 = 1_000_000;
    let failed = |client: &End, wanted: u32| {
        let mut events = client.events.iter();
        events.find_map(|event| match event {
            Event::CallFailed { xid, error, sent } if *xid == wanted => Some((*error, *sent)),
            _ => None,
        })
    };
    let expired = Some((CallFailure::ResendExpired(CloseReason::Lost), true));
    let (mut client, mut server) = warm();
    let begin = |client: &mut End| {
        let session = &mut client.session;
        session.call_resent_within(&NULL, None, WINDOW).unwrap()
    };
    let (first, begun) = (begin(&mut client), client.now);
    exchange(&mut client, &mut server);
    assert_eq!(server.arrived().len(), 1);
    // Within the window it goes again.
    client.now = begun + WINDOW / 2;
    server.lose(client.now);
    client.lose(client.now);
    reconnect(&mut client, &mut server);
    assert!(client.now < begun + WINDOW);
    exchange(&mut client, &mut server);
    assert_eq!(server.arrived().len(), 1);
    // It waits for its reply as long as its connection lives.
    client.now = begun + 2 * WINDOW;
    client.session.timeout(client.now);
    exchange(&mut client, &mut server);
    assert_eq!(failed(&client, first), None);
    server.lose(client.now);
    client.lose(client.now);
    assert_eq!(failed(&client, first), expired);

    // The window of a call that was not transmitted has not begun.
    let unsent = begin(&mut client);
    client.now += 10 * WINDOW;
    client.session.timeout(client.now);
    reconnect(&mut client, &mut server);
    let begun = client.now;
    exchange(&mut client, &mut server);
    assert_eq!(server.arrived().len(), 1);
    server.lose(client.now);
    client.lose(client.now);
    // Its window ends while there is no connection.
    while client.now < begun + WINDOW {
        assert_eq!(failed(&client, unsent), None);
        client.now = client.session.poll_timeout().unwrap();
        client.session.timeout(client.now);
        client.act();
        if client.session.state() == ConnState::Connecting {
            client.lose(client.now);
        }
    }
    assert_eq!(client.now, begun + WINDOW, "not later");
    assert_eq!(failed(&client, unsent), expired);
    reconnect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    assert!(server.arrived().is_empty());
}

/// A window that ends after the connection is made, and before the call has its turn.
#[test]
fn call_is_not_resent_after_its_window() {
    let (mut client, mut server) = warm();
    let session = &mut client.session;
    let xid = session.call_resent_within(&NULL, None, 1_000_000).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(server.arrived().len(), 1);
    server.lose(client.now);
    client.lose(client.now);
    reconnect(&mut client, &mut server);
    client.now += 1_000_000;
    exchange(&mut client, &mut server);
    client.act();
    let error = CallFailure::ResendExpired(CloseReason::Lost);
    assert_eq!(client.failures(xid), [error]);
    assert!(server.arrived().is_empty());
}

/// Calls go again on the next connection, in their order and with their XIDs, once their memory was
/// fenced.
// spec: bd-4.3.1-c, bd-4.3.1-d, bd-4.3.2-d, bd-4.3.2-e, v2-2.2-b
#[test]
fn unanswered_calls_are_retransmitted() {
    let (mut client, mut server) = warm();
    let calls = [NULL, LONG_REPLY, RESULT].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    client.holds.fencing = true;
    server.lose(10);
    client.lose(10);
    assert_eq!(
        client.session.connected(10, PrivateData::DEFAULT),
        Err(SessionConnectError::Unsettled)
    );
    assert!(!client.session.is_settled() && server.session.is_settled());
    for call in server.arrived() {
        assert_eq!(
            server.session.reply(call, REPLY, &[]),
            Err(ReplyError::Ended)
        );
    }
    client
        .session
        .timeout(client.session.config().reconnect_delay + 10);
    client.act();
    assert_eq!(
        client.session.state(),
        ConnState::Down,
        "it waits for the fences"
    );
    client.session.fenced(calls[2]);
    client.session.fenced(calls[1]);
    client.holds.fencing = false;
    client.now = client.session.poll_timeout().unwrap();
    client.session.timeout(client.now);
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
    connect(&mut client, &mut server);
    assert_eq!(
        client.session.connected(20, PrivateData::DEFAULT),
        Err(SessionConnectError::State)
    );
    exchange(&mut client, &mut server);
    let again = |event: &Event| {
        if let Event::CallArrived { xid, .. } = event {
            Some(*xid)
        } else {
            None
        }
    };
    assert_eq!(
        server.events.iter().filter_map(again).collect::<Vec<_>>(),
        calls,
        "in their order"
    );
    for given in server.arrived() {
        server.session.reply(given, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert!(calls.iter().all(|xid| client.replies(*xid).len() == 1));
    exchange(&mut client, &mut server);
    for session in [&client.session, &server.session] {
        assert_eq!(
            session.posted_receives(),
            session.receives(),
            "all receives are posted anew"
        );
    }
}

/// The wait before a new connection doubles up to its limit, is not cut short by calls, and begins
/// anew after a success.
#[test]
fn attempts_to_connect_back_off() {
    let config = Config {
        reconnect_delay: 100,
        max_reconnect_delay: 350,
        ..Config::client()
    };
    let (mut client, mut server) = settled(config, Config::server());
    let mut now = 1_000;
    client.lose(now);
    server.lose(now);
    for pause in [100, 200, 350, 350] {
        client.session.call(&NULL, None).unwrap();
        client.act();
        assert_eq!(
            (client.session.state(), client.session.poll_timeout()),
            (ConnState::Down, Some(now + pause))
        );
        client.session.timeout(now + pause - 1);
        client.act();
        assert_eq!(client.session.state(), ConnState::Down);
        now += pause;
        client.session.timeout(now);
        client.act();
        assert_eq!(client.session.state(), ConnState::Connecting);
        client.session.lost(now, CloseReason::Unreachable);
        client.act();
        assert_eq!(
            client.events.last(),
            Some(&Event::Closed {
                reason: CloseReason::Unreachable,
                is_final: false
            })
        );
    }
    client.now = now + 350;
    client.session.timeout(client.now);
    client.act();
    connect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    client.lose(client.now);
    assert_eq!(client.session.poll_timeout(), Some(client.now + 100));
}

/// A client that is not to be kept connected waits for a call, and for no time.
// spec: bd-5.4-b
#[test]
fn client_without_calls_does_not_connect() {
    let (mut client, mut server) = warm();
    client.session.keep_connected(false);
    client.lose(10);
    server.lose(10);
    assert_eq!(
        client.session.poll_timeout(),
        None,
        "or it would be called again and again"
    );
    client.session.timeout(10_000_000);
    client.act();
    assert_eq!(client.session.state(), ConnState::Down);
    client.session.call(&NULL, None).unwrap();
    let at = client.session.poll_timeout().unwrap();
    assert!(at <= 10_000_000, "it is time already");
    client.session.timeout(10_000_000);
    client.act();
    assert_eq!(client.session.state(), ConnState::Connecting);
}

/// Draining completes open calls, on another connection if necessary.
#[test]
fn a_session_drains_across_connections() {
    let (mut client, mut server) = warm();
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    client.session.drain();
    reconnect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    let call = *server.arrived().last().unwrap();
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.replies(xid).len(), client.closing()),
        (1, Some(CloseReason::Drained))
    );
    client.lose(client.now + 1);
    assert_eq!(client.session.state(), ConnState::Closed);
    assert_eq!(client.session.poll_timeout(), None);
}

/// A session that drains while it is down and has nothing to do ends at once.
#[test]
fn session_without_connection_drains_when_idle() {
    let (mut client, mut server) = warm();
    for end in [&mut client, &mut server] {
        end.lose(10);
        end.session.drain();
        end.act();
        assert_eq!(
            end.events.last(),
            Some(&Event::Closed {
                reason: CloseReason::Drained,
                is_final: true
            })
        );
        assert_eq!(
            (end.session.state(), end.session.poll_timeout()),
            (ConnState::Closed, None)
        );
    }
}

/// A drain waits neither for the reply to a cancelled call nor for an answer about properties,
/// which may never arrive.
#[test]
fn draining_session_does_not_wait_for_late_replies() {
    let (mut client, mut server) = warm();
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    assert!(client.session.cancel(xid));
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(4096))
        .unwrap();
    client.send().unwrap();
    client.session.drain();
    client.act();
    assert_eq!(client.closing(), Some(CloseReason::Drained));
}

/// Aborting fails open calls after their fences, and answers no further call.
#[test]
fn a_session_that_is_aborted_fails_its_calls() {
    let (mut client, mut server) = warm();
    client.holds.fencing = true;
    let calls = [NULL, LONG_REPLY].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    client.session.abort();
    client.act();
    assert_eq!(client.closing(), Some(CloseReason::Aborted));
    client.lose(20);
    let why = CallFailure::Closed(CloseReason::Aborted);
    assert_eq!(
        (client.failures(calls[0]), client.failures(calls[1])),
        (vec![why], vec![])
    );
    client.session.fenced(calls[1]);
    client.act();
    assert_eq!(client.failures(calls[1]), [why]);
    assert!(client.events.contains(&Event::Closed {
        reason: CloseReason::Aborted,
        is_final: true
    }));
    assert_eq!(
        client.session.connected(30, PrivateData::DEFAULT),
        Err(SessionConnectError::State)
    );
    assert_eq!(
        client.session.call(&NULL, None),
        Err(SessionCallError::Ended(CloseReason::Aborted))
    );
    let _ = client.session.received(BufferId(1), &words(&[0; 9]), None);
    assert_eq!(OFFSET, 4096);
}

/// A session whose connection is being made can be aborted, too.
#[test]
fn pending_connection_is_closed() {
    let (mut client, _) = (End::new(Config::client()), ());
    client.act();
    client.session.abort();
    client.act();
    assert_eq!(
        client.actions,
        [
            Action::Connect,
            Action::Close {
                reason: CloseReason::Aborted
            }
        ]
    );
    client.lose(1);
    assert_eq!(
        client.events,
        [Event::Closed {
            reason: CloseReason::Aborted,
            is_final: true
        }]
    );
    let (client, server) = pair(Config::client(), Config::server());
    assert_eq!(
        (client.session.state(), server.session.state()),
        (ConnState::Up, ConnState::Up)
    );
}

/// The end of the session counts for more than the end of a connection that is being closed; and
/// what closes a connection afterwards takes nothing from it.
#[test]
fn a_final_reason_takes_precedence_while_a_connection_is_closed() {
    // An RPC call. More of them arrive than are granted.
    let overrun = |end: &mut End| {
        for xid in 1_000..1_040 {
            end.receive(&words(&[
                xid, 2, 1, 0, 0, 0, 0, 0, xid, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ]));
        }
    };
    for aborted_first in [false, true] {
        let (_, mut server) = warm();
        if aborted_first {
            server.session.abort();
            server.act();
            overrun(&mut server);
        } else {
            overrun(&mut server);
            assert_eq!(server.closing(), Some(CloseReason::CreditOverrun));
            server.session.abort();
        }
        server.lose(20);
        assert!(server.events.contains(&Event::Closed {
            reason: CloseReason::Aborted,
            is_final: true
        }));
        assert_eq!(server.session.state(), ConnState::Closed);
    }
    // Unanswered calls of a closed connection have no deadline.
    let (mut client, _server) = pair(Config::client(), Config::server());
    client.send().unwrap();
    client.session.abort();
    client
        .session
        .timeout(client.session.config().negotiation_timeout);
    client.lose(20_000_000);
    assert!(client.events.contains(&Event::Closed {
        reason: CloseReason::Aborted,
        is_final: true
    }));
    // Without a final reason another connection follows.
    let (mut client, mut server) = warm();
    overrun(&mut server);
    overrun(&mut server);
    reconnect(&mut client, &mut server);
    assert!(server.events.contains(&Event::Closed {
        reason: CloseReason::CreditOverrun,
        is_final: false
    }));
}
