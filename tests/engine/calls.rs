//! Calls: how they travel, how they end, and who has their memory until then.

use rpcrdma_proto::connection::{
    Action, Buffer, CallError, Config, ConnectError, Event, Exposure, Failure, Held, Reason, Region, ReplyError, Sent,
    Stage,
};
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::private_data::PrivateData;
use rpcrdma_proto::property::Basic;
use rpcrdma_proto::travel::{Call, Cannot, Item, Wanted};

use crate::pair::{
    End, Holds, NULL, OFFSET, REPLY, connect, exchange, key, one, pair, reconnect, settled, words, works,
};
use crate::properties::{DRAFTS, client_of, server_of};

const RESULT: Call<'_> =
    Call { length: 160, items: &[], largest_reply: 65_700, results: &[Wanted::of_call(65_536)], reducible: true };
const LONG_REPLY: Call<'_> = Call { length: 160, items: &[], largest_reply: 9_000, results: &[], reducible: true };

fn warm() -> (End, End) {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    client.actions.clear();
    client.events.clear();
    (client, server)
}

fn fences(end: &End) -> usize {
    end.actions.iter().filter(|action| matches!(action, Action::Fence { .. })).count()
}

// ---- How they travel ------------------------------------------------------------------------------------------------

/// The largest item goes apart, and of two no more than the peer puts together: Linux before 6.12 takes one.
#[test]
fn no_more_read_chunks_than_the_peer_puts_together() {
    let items = [Item { position: 100, length: 8_000 }, Item { position: 8_104, length: 16_000 }];
    let call = Call { length: 24_200, items: &items, largest_reply: 24, results: &[], reducible: true };
    for (read_chunks, regions) in [(2, vec![Region::Item(0), Region::Item(1)]), (1, vec![Region::Call])] {
        let (mut client, mut server) = settled(Config { read_chunks, ..Config::client() }, Config::server());
        client.holds.exposing = true;
        let xid = client.session.call(&call, None).unwrap();
        client.act();
        assert_eq!(client.session.exposures(xid).map(|one| one.region).collect::<Vec<_>>(), regions);
        client.expose(xid);
        exchange(&mut client, &mut server);
        let given = server.arrived()[0];
        assert_eq!(server.session.length(given), Some(24_200));
    }
}

/// What is exposed is what the header needs, and of what the peer writes no more.
// spec: v2-2.2-a, v2-2.1-d, v2-2.1-e
#[test]
fn memory_is_exposed_for_what_does_not_fit() {
    let (mut client, _) = warm();
    client.holds.exposing = true;
    let mut exposed = |call: &Call<'_>| {
        let xid = client.session.call(call, None).unwrap();
        client.act();
        let exposed: Vec<_> =
            client.session.exposures(xid).map(|Exposure { region, length }| (region, length)).collect();
        assert_eq!(client.send().is_some(), exposed.is_empty(), "not sent before its memory is exposed");
        exposed
    };
    assert_eq!(exposed(&NULL), []);
    assert_eq!(exposed(&RESULT), [(Region::Result(0), 65_536)]);
    assert_eq!(exposed(&LONG_REPLY), [(Region::Reply, 9_000)]);
    assert_eq!(exposed(&Call { length: 5_000, ..NULL }), [(Region::Call, 5_000)]);
    // Protected octets can't be moved apart.
    assert_eq!(exposed(&Call { reducible: false, ..RESULT }), [(Region::Reply, 65_700)]);
}

/// A transport may say that memory can't be exposed, or bring more segments than there is room for.
#[test]
fn a_call_whose_memory_is_not_exposed_fails() {
    let (mut client, mut server) = warm();
    client.holds = Holds { exposing: true, fencing: true, ..Holds::default() };
    let [refused, split] = [RESULT, RESULT].map(|call| client.session.call(&call, None).unwrap());
    client.act();
    client.session.unexposable(refused);
    let segment = rpcrdma_proto::chunk::Segment { handle: 1, length: 1, offset: 0 };
    client.session.exposed(split, [&[segment; 65][..]]);
    client.act();
    assert!(client.events.is_empty(), "some of it may be exposed");
    for xid in [refused, split] {
        client.session.fenced(xid);
    }
    client.act();
    assert_eq!(client.failures(refused), [Failure::Memory]);
    assert_eq!(client.failures(split), [Failure::Cannot(Cannot::TooManySegments)]);
    client.holds = Holds::default();
    works(&mut client, &mut server);
}

/// Send With Invalidate answers a call whose chunks have one key, where its requester wants it and its responder can.
// spec: xc3-3.2-a, xc3-3.2-b, xc3-3.2-c
// spec: xc2-3.2-a, xc2-3.2-b, xc2-3.2-c
#[test]
fn one_key_is_invalidated_where_both_ends_have_agreed() {
    let both = Call { largest_reply: 140_000, results: &[Wanted::of_call(65_536), Wanted::of_call(65_536)], ..RESULT };
    let item = Call { length: 9_000, items: &[Item { position: 40, length: 8_000 }], ..NULL };
    let mixed = Call { length: 9_000, items: &[Item { position: 40, length: 8_000 }], ..RESULT };
    for (version_one, draft) in [(false, DRAFTS[0]), (false, DRAFTS[1]), (true, DRAFTS[0])] {
        for (wanted, can) in [(true, true), (true, false), (false, true)] {
            let client = Config { remote_invalidation: wanted, ..client_of(draft) };
            let server = Config { invalidates: can, ..server_of(draft) };
            let (client, server) = if version_one { (one(client), one(server)) } else { (client, server) };
            let (mut client, mut server) = settled(client, server);
            works(&mut client, &mut server);
            let calls = [NULL, RESULT, both, item, mixed].map(|call| client.session.call(&call, None).unwrap());
            exchange(&mut client, &mut server);
            let mut found = Vec::new();
            for call in server.arrived() {
                server.session.reply(call, REPLY, &[]).unwrap();
                let packet = server.send().unwrap();
                found.push(packet.invalidate);
                client.receive_with(&packet.octets, packet.invalidate);
            }
            let agreed = (wanted && can).then_some(key(calls[1], 1));
            let of_item = (wanted && can).then_some(key(calls[3], 1));
            assert_eq!(found, [None, agreed, None, of_item, None], "a key where there is one, and not two");
            let told = Action::Fence { xid: calls[1], invalidated: agreed };
            assert!(client.actions.contains(&told), "the fence knows what is done already");
            assert_eq!((client.closing(), client.session.open()), (None, (0, 0)));
        }
    }
}

/// In Version Two the property alone tells whether invalidation is wanted: it may change on a connection (decision D18).
// spec: xc3-3.2-b, xc3-3.2-c
// spec: xc2-3.2-b, xc2-3.2-c
#[test]
fn invalidation_follows_the_property() {
    for draft in DRAFTS {
        let server = Config { invalidates: true, ..server_of(draft) };
        let (mut client, mut server) = settled(Config { remote_invalidation: true, ..client_of(draft) }, server);
        works(&mut client, &mut server);
        for wanted in [false, true] {
            client.session.set(Basic::RemoteInvalidation(wanted)).unwrap();
            exchange(&mut client, &mut server);
            let xid = client.session.call(&RESULT, None).unwrap();
            exchange(&mut client, &mut server);
            let call = server.arrived()[0];
            server.session.reply(call, REPLY, &[]).unwrap();
            let packet = server.send().unwrap();
            assert_eq!(packet.invalidate, wanted.then_some(key(xid, 1)));
            client.receive_with(&packet.octets, packet.invalidate);
        }
    }
}

// ---- How they end ---------------------------------------------------------------------------------------------------

/// Memory that the peer may reach is fenced before the call ends, and what a Send needs is released.
// spec: v2-2.2-b
#[test]
fn a_call_ends_when_its_memory_is_its_own() {
    let (mut client, mut server) = warm();
    client.holds = Holds { fencing: true, releasing: true, ..Holds::default() };
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reply(call, 9_000, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!((fences(&client), client.replies(xid)), (1, vec![]));
    client.session.fenced(xid);
    client.act();
    assert_eq!(client.replies(xid), [], "the Send has its memory");
    client.released(Sent::Call { xid });
    client.act();
    assert_eq!(client.replies(xid).len(), 1);
    // What is told twice changes nothing.
    client.session.fenced(xid);
    client.released(Sent::Call { xid });
    client.act();
    assert_eq!((client.replies(xid).len(), client.session.open()), (1, (0, 0)));
}

/// A call can be given up in each of its states. It fails once, after the fence, and its credit is not lost.
#[test]
fn a_call_can_be_cancelled_at_any_time() {
    for state in ["waiting", "exposing", "ready", "sent", "served"] {
        let (mut client, mut server) = warm();
        let free = client.session.available();
        client.holds = Holds { exposing: state == "exposing", fencing: true, ..Holds::default() };
        let xid = client.session.call(&LONG_REPLY, None).unwrap();
        match state {
            "waiting" => {}
            "exposing" | "ready" => client.act(),
            "sent" => assert!(client.send().is_some()),
            _ => drop(exchange(&mut client, &mut server)),
        }
        assert!(client.session.cancel(xid) && !client.session.cancel(xid), "{state}");
        client.act();
        if state != "waiting" {
            assert_eq!((fences(&client), client.failures(xid)), (1, vec![]), "{state}: not before the fence");
            client.session.fenced(xid);
            client.act();
        }
        assert_eq!(client.failures(xid), [Failure::Cancelled], "{state}");
        client.expose(xid);
        client.act();
        assert_eq!((fences(&client), client.events.len()), (usize::from(state != "waiting"), 1), "{state}");
        // Its credit is back, or comes with its reply.
        let taken = u32::from(matches!(state, "sent" | "served"));
        assert_eq!((client.session.available(), client.session.open().0), (free - taken, taken as usize), "{state}");
        if state == "served" {
            let call = server.arrived()[0];
            server.session.reply(call, 9_000, &[]).unwrap();
            exchange(&mut client, &mut server);
            assert_eq!((client.session.available(), client.session.open().0), (free, 0));
            assert_eq!((client.events.len(), client.session.counters().unexpected), (1, 0), "no second end");
        }
    }
}

/// Of a call that is given up, nothing stays behind when its connection is lost: no reply will come.
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
        assert_eq!((client.failures(xid), client.session.open()), (vec![Failure::Cancelled], (0, 0)));
    }
}

/// A late reply is no second end, and a reply to what was never sent is none at all.
// spec: bd-2-e
#[test]
fn a_reply_to_a_call_that_was_not_sent_is_none() {
    let (mut client, mut server) = warm();
    client.holds.exposing = true;
    let xid = client.session.call(&LONG_REPLY, None).unwrap();
    client.act();
    let before = client.session.available();
    let reply = words(&[xid, 2, 32, 0, 1, 0, 0, 0, xid, 1, 0, 0, 0, 0]);
    client.receive(&reply);
    assert_eq!((client.session.counters().unexpected, client.session.available()), (1, before));
    client.receive(&words(&[xid, 2, 32, 4, 2]));
    assert_eq!((client.session.counters().unexpected, client.session.available()), (2, before));
    // It goes on as if nothing had come.
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
    let [early, late] = [1_000, 2_000].map(|deadline| client.session.call(&NULL, Some(deadline)).unwrap());
    assert_eq!(client.session.poll_timeout(), Some(1_000));
    exchange(&mut client, &mut server);
    client.session.timeout(999);
    client.act();
    assert!(client.events.is_empty());
    client.session.timeout(1_000);
    client.act();
    assert_eq!((client.failures(early), client.failures(late)), (vec![Failure::TimedOut], vec![]));
    assert_eq!(client.session.poll_timeout(), Some(2_000));
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert_eq!((client.replies(early).len(), client.replies(late).len()), (0, 1));
    let waiting = client.session.call(&NULL, Some(3_000)).unwrap();
    client.session.timeout(3_000);
    client.act();
    assert_eq!(client.failures(waiting), [Failure::TimedOut]);
}

/// A reply that has no way ends its call by an error, at both ends.
#[test]
fn a_reply_that_has_no_way_is_an_error() {
    let (mut client, mut server) = warm();
    let calls = [NULL, RESULT].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    let given = server.arrived();
    let too_long = Err(ReplyError::Cannot(Cannot::ReplyTooLong));
    assert_eq!(server.session.reply(given[0], 5_000, &[]), too_long);
    let result = [Item { position: 100, length: 65_537 }.into()];
    assert_eq!(server.session.reply(given[1], 65_700, &result), Err(ReplyError::Cannot(Cannot::ResultTooLong)));
    assert_eq!(server.session.reply(given[0], REPLY, &[]), Err(ReplyError::Ended));
    exchange(&mut client, &mut server);
    for xid in calls {
        assert_eq!(client.failures(xid), [Failure::Peer(PeerError::Header)]);
    }
    let ended = |event: &&Event| matches!(event, Event::CallEnded { answered: true, .. });
    assert_eq!(server.events.iter().filter(ended).count(), 3, "with that of the warming up");
}

/// The consumer may decline a call; it can answer none twice.
// spec: bd-2-e
#[test]
fn a_call_is_answered_once() {
    let (mut client, mut server) = warm();
    let [declined, answered] = [NULL, NULL].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    let given = server.arrived();
    server.session.decline(given[0]).unwrap();
    server.session.reply(given[1], REPLY, &[]).unwrap();
    for call in given {
        assert_eq!(server.session.reply(call, REPLY, &[]), Err(ReplyError::Ended));
        assert_eq!(server.session.decline(call), Err(ReplyError::Ended));
    }
    exchange(&mut client, &mut server);
    assert_eq!(client.failures(declined), [Failure::Peer(PeerError::Header)]);
    assert_eq!(client.replies(answered).len(), 1);
}

/// Whoever gets a reply may call again at once: there is a receive by then, and they are posted together.
// spec: bd-4.3.2-a
#[test]
fn a_receive_is_posted_for_the_next_call_before_the_reply() {
    let (mut client, mut server) = warm();
    let _ = [NULL; 3].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    let (posted, mut out) = (server.session.posted(), [0; 4096]);
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    assert!(server.session.poll_transmit(0, &mut out).is_none(), "before they are posted");
    assert!(matches!(server.session.poll_action(), Some(Action::PostReceives { count: 3, .. })));
    assert_eq!((server.session.poll_action(), server.session.posted()), (None, posted + 3));
    (0..3).for_each(|_| assert!(server.session.poll_transmit(0, &mut out).is_some(), "nothing is asked for between"));
}

/// Nothing comes in place of a reply before the next call goes: its receive can wait for that, and is there by then.
// spec: bd-4.3.1-b
#[test]
fn receives_of_replies_wait_for_the_next_call() {
    let (mut client, mut server) = warm();
    let _ = [NULL; 2].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    let (posted, mut out) = (client.session.posted(), [0; 4096]);
    for number in 0..2 {
        let reply = server.send().unwrap();
        assert_eq!(client.session.received(Buffer(1000 + number), &reply.octets, None), Held::Kept);
    }
    assert!(client.session.is_at_rest() && client.session.posted() == posted - 2);
    client.session.call(&NULL, None).unwrap();
    assert!(client.session.poll_transmit(0, &mut out).is_none(), "before they are posted");
    assert!(client.session.has_actions(), "that is what it waits for");
    assert!(matches!(client.session.poll_action(), Some(Action::PostReceives { count: 2, .. })));
    assert!(client.session.poll_transmit(0, &mut out).is_some());
}

/// The responder's Sends may stay with their transport: the next calls that it granted have room all the same.
#[test]
fn replies_that_are_not_released_take_no_room_of_calls() {
    let (mut client, mut server) = settled(Config::client(), Config { serve: 4, ..Config::server() });
    works(&mut client, &mut server);
    server.holds.releasing = true;
    for _ in 0..4 {
        let calls: Vec<_> = (0..4).map(|_| client.session.call(&NULL, None).unwrap()).collect();
        exchange(&mut client, &mut server);
        let mut sent = Vec::new();
        for call in server.arrived() {
            server.session.reply(call, REPLY, &[]).unwrap();
            sent.push(Sent::Reply { call });
        }
        exchange(&mut client, &mut server);
        // The next four come before the first of these is released.
        for xid in calls {
            assert_eq!((client.replies(xid).len(), server.closing()), (1, None));
        }
        let more: Vec<_> = (0..4).map(|_| client.session.call(&NULL, None).unwrap()).collect();
        exchange(&mut client, &mut server);
        assert_eq!(server.closing(), None, "the peer has kept to its grant");
        sent.into_iter().for_each(|what| server.released(what));
        let given = server.arrived();
        assert_eq!(given.len(), 4);
        for call in given {
            server.session.reply(call, REPLY, &[]).unwrap();
            exchange(&mut client, &mut server);
            server.released(Sent::Reply { call });
        }
        exchange(&mut client, &mut server);
        assert!(more.iter().all(|xid| client.replies(*xid).len() == 1));
    }
}

#[test]
fn no_more_calls_than_were_configured() {
    let config = Config { calls: 2, credits: 2, ..Config::client() };
    let (mut client, mut server) = settled(config, Config::server());
    client.session.call(&NULL, None).unwrap();
    client.session.call(&NULL, None).unwrap();
    assert_eq!(client.session.call(&NULL, None), Err(CallError::Full));
    client.session.drain();
    assert_eq!(client.session.call(&NULL, None), Err(CallError::Closed));
    exchange(&mut client, &mut server);
}

// ---- Connections ----------------------------------------------------------------------------------------------------

/// Calls go again on the next connection, in their order and with their XIDs, once their memory was fenced.
// spec: bd-4.3.1-c, bd-4.3.1-d, bd-4.3.2-d, bd-4.3.2-e, v2-2.2-b
#[test]
fn what_is_not_answered_goes_again() {
    let (mut client, mut server) = warm();
    let calls = [NULL, LONG_REPLY, RESULT].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    client.holds.fencing = true;
    server.lose(10);
    client.lose(10);
    assert_eq!(client.session.connected(10, PrivateData::DEFAULT), Err(ConnectError::Unsettled));
    assert!(!client.session.is_settled() && server.session.is_settled());
    for call in server.arrived() {
        assert_eq!(server.session.reply(call, REPLY, &[]), Err(ReplyError::Ended));
    }
    client.session.timeout(client.session.config().retry + 10);
    client.act();
    assert_eq!(client.session.stage(), Stage::Down, "it waits for the fences");
    client.session.fenced(calls[2]);
    client.session.fenced(calls[1]);
    client.holds.fencing = false;
    client.now = client.session.poll_timeout().unwrap();
    client.session.timeout(client.now);
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
    connect(&mut client, &mut server);
    assert_eq!(client.session.connected(20, PrivateData::DEFAULT), Err(ConnectError::Stage));
    exchange(&mut client, &mut server);
    let again = |event: &Event| if let Event::CallArrived { xid, .. } = event { Some(*xid) } else { None };
    assert_eq!(server.events.iter().filter_map(again).collect::<Vec<_>>(), calls, "in their order");
    for given in server.arrived() {
        server.session.reply(given, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert!(calls.iter().all(|xid| client.replies(*xid).len() == 1));
    exchange(&mut client, &mut server);
    for session in [&client.session, &server.session] {
        assert_eq!(session.posted(), session.receives(), "all receives are posted anew");
    }
}

/// The wait before a new connection doubles up to its limit, is not cut short by calls, and begins anew after a success.
#[test]
fn attempts_to_connect_have_longer_and_longer_pauses() {
    let config = Config { retry: 100, retry_most: 350, ..Config::client() };
    let (mut client, mut server) = settled(config, Config::server());
    let mut now = 1_000;
    client.lose(now);
    server.lose(now);
    for pause in [100, 200, 350, 350] {
        client.session.call(&NULL, None).unwrap();
        client.act();
        assert_eq!((client.session.stage(), client.session.poll_timeout()), (Stage::Down, Some(now + pause)));
        client.session.timeout(now + pause - 1);
        client.act();
        assert_eq!(client.session.stage(), Stage::Down);
        now += pause;
        client.session.timeout(now);
        client.act();
        assert_eq!(client.session.stage(), Stage::Connecting);
        client.session.lost(now, Reason::Unreachable);
        client.act();
        assert_eq!(client.events.last(), Some(&Event::Closed { why: Reason::Unreachable, last: false }));
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
fn a_client_rests_without_calls() {
    let (mut client, mut server) = warm();
    client.session.keep(false);
    client.lose(10);
    server.lose(10);
    assert_eq!(client.session.poll_timeout(), None, "or it would be called again and again");
    client.session.timeout(10_000_000);
    client.act();
    assert_eq!(client.session.stage(), Stage::Down);
    client.session.call(&NULL, None).unwrap();
    let at = client.session.poll_timeout().unwrap();
    assert!(at <= 10_000_000, "it is time already");
    client.session.timeout(10_000_000);
    client.act();
    assert_eq!(client.session.stage(), Stage::Connecting);
}

/// Draining lets end what was begun, on another connection if need be.
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
    assert_eq!((client.replies(xid).len(), client.closing()), (1, Some(Reason::Drained)));
    client.lose(client.now + 1);
    assert_eq!(client.session.stage(), Stage::Closed);
    assert_eq!(client.session.poll_timeout(), None);
}

/// A session that drains while it is down and has nothing to do ends at once.
#[test]
fn a_session_that_is_down_ends_when_it_has_nothing_to_do() {
    let (mut client, mut server) = warm();
    for end in [&mut client, &mut server] {
        end.lose(10);
        end.session.drain();
        end.act();
        assert_eq!(end.events.last(), Some(&Event::Closed { why: Reason::Drained, last: true }));
        assert_eq!((end.session.stage(), end.session.poll_timeout()), (Stage::Closed, None));
    }
}

/// Nobody waits for the reply to a call that was given up, nor for an answer about properties: a peer may never send them.
#[test]
fn a_session_that_drains_waits_for_no_late_reply() {
    let (mut client, mut server) = warm();
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    assert!(client.session.cancel(xid));
    client.session.ask(Basic::ReceiveBufferSize(4096)).unwrap();
    client.send().unwrap();
    client.session.drain();
    client.act();
    assert_eq!(client.closing(), Some(Reason::Drained));
}

/// Aborting fails what is open, after its fence; nothing is answered any more.
#[test]
fn a_session_that_is_aborted_fails_its_calls() {
    let (mut client, mut server) = warm();
    client.holds.fencing = true;
    let calls = [NULL, LONG_REPLY].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    client.session.abort();
    client.act();
    assert_eq!(client.closing(), Some(Reason::Aborted));
    client.lose(20);
    let why = Failure::Closed(Reason::Aborted);
    assert_eq!((client.failures(calls[0]), client.failures(calls[1])), (vec![why], vec![]));
    client.session.fenced(calls[1]);
    client.act();
    assert_eq!(client.failures(calls[1]), [why]);
    assert!(client.events.contains(&Event::Closed { why: Reason::Aborted, last: true }));
    assert_eq!(client.session.connected(30, PrivateData::DEFAULT), Err(ConnectError::Stage));
    assert_eq!(client.session.call(&NULL, None), Err(CallError::Closed));
    let _ = client.session.received(Buffer(1), &words(&[0; 9]), None);
    assert_eq!(OFFSET, 4096);
}

/// A session whose connection is being made can be aborted, too.
#[test]
fn a_connection_that_is_being_made_is_closed() {
    let (mut client, _) = (End::new(Config::client()), ());
    client.act();
    client.session.abort();
    client.act();
    assert_eq!(client.actions, [Action::Connect, Action::Close { why: Reason::Aborted }]);
    client.lose(1);
    assert_eq!(client.events, [Event::Closed { why: Reason::Aborted, last: true }]);
    let (client, server) = pair(Config::client(), Config::server());
    assert_eq!((client.session.stage(), server.session.stage()), (Stage::Up, Stage::Up));
}

/// Actions first, then messages, once: that sends all that can go, however many calls were begun, each with its receive before it.
// spec: bd-4.3.1-b, bd-4.3.2-c
#[test]
fn receives_are_there_before_the_calls_that_need_them() {
    let mut place = [0; 4096];
    for count in [1, 5, 20] {
        let (mut client, _server) = warm();
        for _ in 0..count {
            client.session.call(&NULL, None).unwrap();
        }
        while let Some(action) = client.session.poll_action() {
            assert!(matches!(action, Action::PostReceives { .. }), "{action:?}");
        }
        let mut sent = 0;
        while client.session.poll_transmit(0, &mut place).is_some() {
            assert!(client.session.posted() >= client.session.receives(), "{sent} went before");
            sent += 1;
        }
        assert_eq!(sent, count);
    }
}

/// The same of operations that were registered: each may have an answer, and takes its credit as it is sent.
#[test]
fn receives_are_there_before_the_operations_that_need_them() {
    let (mut client, _server) = warm();
    let mut place = [0; 4096];
    client.session.register_operation(u32::MAX).unwrap();
    for _ in 0..5 {
        client.session.operate(u32::MAX, true, None, &[]).unwrap();
        client.session.call(&NULL, None).unwrap();
    }
    // One for a backward call, and those for what takes no credit.
    let others = 1 + client.session.config().reserve;
    let mut sent = 0;
    loop {
        while client.session.poll_action().is_some() {}
        let posted = client.session.posted();
        if client.session.poll_transmit(0, &mut place).is_none() {
            break;
        }
        sent += 1;
        assert!(posted >= others + sent, "{posted} for {sent} under way");
    }
    assert_eq!(sent, 10);
}
