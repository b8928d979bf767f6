//! The actions of a session when nothing is left to wait for, and its state before, between and
//! after connections.

use rpcrdma_proto::connection::{
    Action, BufferDisposition, BufferId, CallFailure, CloseReason, Config, ConnState, Event,
    Properties, PropertyError, SendOwner, SessionCallError,
};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::groups::plain;
use crate::pair::{
    End, Holds, LONG_REPLY, NULL, REPLY, both_ways, exchange, pair, settled, words, works,
};

fn warm(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = settled(client, server);
    works(&mut client, &mut server);
    for end in [&mut client, &mut server] {
        end.events.clear();
        end.actions.clear();
    }
    (client, server)
}

/// The final event of a session that was drained.
const DRAINED: Event = Event::Closed {
    reason: CloseReason::Drained,
    is_final: true,
};

/// A loss that a transport tells of a session without a connection changes nothing.
#[test]
fn losing_no_connection_has_no_effect() {
    let mut server = End::new(Config::server());
    server.lose(5);
    assert_eq!((server.events.len(), server.actions.len()), (0, 0));
    let (mut client, _) = warm(Config::client(), Config::server());
    client.session.abort();
    client.lose(10);
    client.events.clear();
    client.lose(20);
    assert_eq!(client.events, []);
    assert_eq!(client.session.state(), ConnState::Closed);
}

/// A version is of a connection.
#[test]
fn version_is_unknown_without_a_connection() {
    for config in [Config::client(), Config::server()] {
        assert_eq!(End::new(config).session.version(), None);
    }
    let (mut client, mut server) = warm(Config::client(), Config::server());
    for end in [&mut client, &mut server] {
        end.lose(10);
        assert_eq!(end.session.version(), None);
    }
}

/// A session that drains ends with what ends last: here its connection, on which a call was to go
/// once.
#[test]
fn a_session_drains_with_the_loss_of_its_connection() {
    let (mut client, mut server) = warm(Config::client(), Config::server());
    let xid = client.session.call_resent_within(&NULL, None, 0).unwrap();
    exchange(&mut client, &mut server);
    client.session.drain();
    client.lose(10);
    assert_eq!(
        client.failures(xid),
        [CallFailure::Disconnected(CloseReason::Lost)]
    );
    assert_eq!(client.events.last(), Some(&DRAINED));
}

/// Here a call whose time is over, one that is cancelled, one whose Send is done or whose memory is
/// fenced, or one that is answered where rtrext-02 is spoken.
#[test]
fn a_session_drains_with_its_last_call() {
    type Ends = fn(&mut End, &mut End, u32);
    let cases: [(&str, Ends); 5] = [
        ("a deadline", |client, _, _| client.session.timeout(1_000)),
        ("a cancellation", |client, _, xid| {
            assert!(client.session.cancel(xid));
        }),
        ("a Send", |client, server, xid| {
            let call = server.arrived()[0];
            server.session.reply(call, REPLY, &[]).unwrap();
            exchange(client, server);
            assert_eq!(client.closing(), None);
            client.session.released(SendOwner::Call { xid });
        }),
        ("a fence", |client, server, xid| {
            let call = server.arrived()[0];
            server.session.reply(call, REPLY, &[]).unwrap();
            exchange(client, server);
            assert_eq!(client.closing(), None);
            client.session.fenced(xid);
        }),
        ("a reply", |client, server, _| {
            client.holds.fencing = false;
            let call = server.arrived()[0];
            server.session.reply(call, REPLY, &[]).unwrap();
            let reply = server.send().unwrap();
            let disposition = client.session.received(BufferId(900), &reply.bytes, None);
            assert_eq!(disposition, BufferDisposition::Kept);
        }),
    ];
    for (what, ends) in cases {
        let (mut client, mut server) = if what == "a reply" {
            let config = |config| plain(RtrExtConfig::ALL, config);
            warm(config(Config::client()), config(Config::server()))
        } else {
            warm(Config::client(), Config::server())
        };
        client.holds.fencing = true;
        client.holds.releasing = what == "a Send";
        let call = if what == "a fence" { LONG_REPLY } else { NULL };
        let deadline = Some(1_000).filter(|_| what == "a deadline");
        let xid = client.session.call(&call, deadline).unwrap();
        exchange(&mut client, &mut server);
        client.session.drain();
        client.act();
        assert_eq!(client.closing(), None, "{what}");
        ends(&mut client, &mut server, xid);
        client.act();
        assert_eq!(client.closing(), Some(CloseReason::Drained), "{what}");
    }
}

/// Who waits for no time before another attempt makes it at once.
#[test]
fn a_client_without_a_delay_connects_at_once() {
    let config = Config {
        reconnect_delay: 0,
        ..Config::client()
    };
    let (mut client, _) = warm(config, Config::server());
    client.lose(10);
    assert_eq!(client.actions.last(), Some(&Action::Connect));
}

/// What is aborted takes no call, and sends nothing more, though its connection is not lost yet.
#[test]
fn a_session_that_is_aborted_is_silent() {
    let (mut client, mut server) = warm(Config::client(), Config::server());
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reply(call, REPLY, &[]).unwrap();
    server.act();
    for end in [&mut client, &mut server] {
        end.session.abort();
        let refused = end.session.call(&NULL, None);
        assert_eq!(refused, Err(SessionCallError::Closing));
        assert!(end.send().is_none());
        assert_eq!(end.session.state(), ConnState::Closing);
    }
}

/// A peer that refuses the only version that it has offered gets no call again.
// spec: v2-5.2-c
#[test]
fn a_call_ends_where_no_version_is_left() {
    let config = Config {
        properties: Properties::None,
        ..Config::client()
    };
    let (mut client, _) = pair(config, Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    client.send().unwrap();
    client.receive(&words(&[xid, 1, 64, 4, 2]));
    assert_eq!(client.send().unwrap().word(1), 1);
    client.receive(&words(&[xid, 1, 64, 4, 1, 1, 1]));
    assert_eq!(client.closing(), Some(CloseReason::NoVersion));
    let versions = PeerError::Versions { low: 1, high: 1 };
    assert_eq!(client.failures(xid), [CallFailure::Peer(versions)]);
}

/// The end of a Send completes a served call with its reply alone.
#[test]
fn the_send_of_a_call_completes_nothing() {
    let (mut client, mut server) = warm(Config::client(), Config::server());
    client.holds.releasing = true;
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    assert!(!client.session.released(SendOwner::Call { xid }));
    assert!(!client.session.released(SendOwner::Header));
}

/// A call has a cost as soon as it is known how it goes.
#[test]
fn a_call_that_waits_has_no_cost() {
    let (mut client, mut server) = warm(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    assert_eq!(client.session.cost(xid), None);
    exchange(&mut client, &mut server);
    assert_eq!(client.session.cost(xid).unwrap().credits, 1);
}

#[test]
fn events_stay_until_polled() {
    let (mut client, _) = warm(Config::client(), Config::server());
    assert!(!client.session.has_events());
    client.session.lost(10, CloseReason::Lost);
    assert!(client.session.has_events());
    client.act();
    assert!(!client.session.has_events());
}

/// Receive buffers may be made as large as the configuration says.
#[test]
fn the_largest_size_can_be_set() {
    let config = Config {
        max_receive_size: 8192,
        ..Config::client()
    };
    let (mut client, _) = warm(config, Config::server());
    let size = BasicProperty::ReceiveBufferSize;
    assert_eq!(
        client.session.set_property(size(8196)),
        Err(PropertyError::Larger)
    );
    assert_eq!(client.session.set_property(size(8192)), Ok(()));
}

/// A peer is ready for backward calls as long as its consumer takes them, and it supports them.
// spec: bd-6-a, bd-6-e
#[test]
fn a_peer_is_ready_as_long_as_it_takes_calls() {
    let client = Config {
        backward_support: Bkreqsup::Genl,
        ..Config::client()
    };
    let (mut client, mut server) = settled(client, Config::server());
    assert!(!server.session.is_peer_ready());
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let said_in = server.arrived()[0];
    assert!(server.session.peer_ready(said_in) && server.session.is_peer_ready());
    for (support, is_ready) in [(Bkreqsup::None, false), (Bkreqsup::Genl, true)] {
        let value = BasicProperty::BackwardSupport(support);
        client.session.set_property(value).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(server.session.is_peer_ready(), is_ready);
    }
    server.session.peer_unready();
    assert!(!server.session.is_peer_ready());
}

/// The memory of a call that is not taken any more is fenced as soon as it is exposed.
// spec: bd-6-e
#[test]
fn memory_that_is_exposed_too_late_is_fenced_at_once() {
    let client = Config {
        backward_support: Bkreqsup::Genl,
        ..Config::client()
    };
    let (_client, mut server) = both_ways(client, Config::server());
    server.holds = Holds {
        exposing: true,
        fencing: true,
        ..server.holds
    };
    let xid = server.session.call(&LONG_REPLY, None).unwrap();
    server.act();
    assert_eq!(server.actions.last(), Some(&Action::Expose { xid }));
    server.session.peer_unready();
    server.expose(xid);
    server.act();
    let fence = Action::Fence {
        xid,
        invalidated: None,
    };
    assert_eq!(server.actions.last(), Some(&fence));
    assert_eq!(server.failures(xid), []);
}
