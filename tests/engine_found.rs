//! What the simulator (`simulation.rs`) has found, each as small as it gets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pair;

use pair::{End, NULL, REPLY, connect, exchange, one, pair, pass, settled, works};
use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Action, Config, Event, Reason, Stage};
use rpcrdma_proto::property::Basic;
use rpcrdma_proto::travel::{Answer, Call, Cannot, Link, Wanted, call, reply};
use rpcrdma_proto::v2::properties::{Bkreqsup, ROPT_CONNPROP};
use rpcrdma_proto::version::Version;

/// A client and a server which may call back.
fn ready(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = settled(client, server);
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let said_in = server.take_arrived().unwrap();
    assert!(server.session.peer_ready(said_in));
    server.session.reply(said_in, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    (client, server)
}

/// A call whose reply takes a Reply chunk.
const CHUNKED: Call<'_> = Call { largest_reply: 100_000, ..NULL };

// A call with memory that is exposed was not sent, as the peer took none any more; its fence was not asked for until something else
// came about, which might have been never.
#[test]
fn a_call_that_is_not_sent_asks_for_its_fence_at_once() {
    let (mut client, mut server) = ready(Config { backward: Bkreqsup::Genl, ..Config::client() }, Config::server());
    let xid = server.session.call(&CHUNKED, None).unwrap();
    server.act();
    server.session.peer_unready();
    server.actions.clear();
    assert!(!server.session.has_actions() && server.session.poll_transmit(0, &mut [0; 4096]).is_none());
    assert!(server.session.has_actions());
    assert_eq!(server.session.poll_action(), Some(Action::Fence { xid, invalidated: None }));
    server.session.fenced(xid);
    assert!(client.arrived().is_empty());
}

// Where one message is granted there are never two credits: the question for more was asked again for ever.
#[test]
fn a_change_is_told_where_one_message_is_granted() {
    let client = Config { calls: 1, credits: 1, ..Config::client() };
    let (mut client, mut server) = settled(client, Config::server());
    client.session.set(Basic::BackwardSupport(Bkreqsup::None)).unwrap();
    assert!(exchange(&mut client, &mut server) <= 4);
    assert_eq!(server.session.peer_properties(), client.session.properties());
}

// Calls took every credit that an update needed.
#[test]
fn an_update_is_told_between_calls() {
    let client = Config { calls: 8, credits: 2, ..Config::client() };
    let (mut client, mut server) = settled(client, Config::server());
    for _ in 0..8 {
        client.session.call(&NULL, None).unwrap();
    }
    client.session.set(Basic::RemoteInvalidation(true)).unwrap();
    for _ in 0..4 {
        exchange(&mut client, &mut server);
        let call = server.take_arrived().unwrap();
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert!(server.session.peer_properties().remote_invalidation);
}

// `poll_timeout` told the time of an attempt that `timeout` did not make.
#[test]
fn no_timer_rings_for_a_connection_that_nobody_wants() {
    let (mut client, _) = settled(Config::client(), Config::server());
    client.session.keep(false);
    client.lose(1000);
    assert_eq!(client.session.poll_timeout(), None);
    client.session.call(&NULL, None).unwrap();
    let due = client.session.poll_timeout().unwrap();
    client.session.timeout(due);
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
}

// As long as a Send has memory of the last connection there is none, however often the timer rings.
#[test]
fn no_timer_rings_for_a_connection_that_can_not_be() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    client.holds.releasing = true;
    client.session.call(&NULL, None).unwrap();
    let sent = client.send().unwrap();
    client.lose(1000);
    server.lose(1000);
    assert_eq!(client.session.poll_timeout(), None);
    client.released(sent.what);
    let due = client.session.poll_timeout().unwrap();
    client.session.timeout(due);
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
}

// Each new call made the next attempt at once.
#[test]
fn a_call_does_not_hurry_the_next_attempt() {
    let (mut client, _) = settled(Config::client(), Config::server());
    client.lose(1000);
    let attempts = client.actions.len();
    client.session.call(&NULL, None).unwrap();
    client.session.keep(true);
    client.act();
    assert_eq!((client.actions.len(), client.session.poll_timeout()), (attempts, Some(1000 + Config::client().retry)));
}

// A session that was drained without a connection never made the one that its calls waited for.
#[test]
fn what_was_begun_before_a_drain_is_done() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    client.lose(1000);
    server.lose(1000);
    client.session.drain();
    let due = client.session.poll_timeout().unwrap();
    client.session.timeout(due);
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
    connect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    let call = server.take_arrived().unwrap();
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!((client.replies(xid).len(), client.closing()), (1, Some(Reason::Drained)));
}

// ROPT_CONNPROP went on top of calls that had all the credits.
#[test]
fn properties_are_told_before_calls_take_the_credits() {
    let client = Config { calls: 4, credits: 2, ..Config::client() };
    let (mut client, mut server) = pair(client, Config::server());
    for _ in 0..4 {
        client.session.call(&NULL, None).unwrap();
    }
    while pass(&mut client, &mut server) || pass(&mut server, &mut client) {
        if client.session.version().is_some() {
            break;
        }
    }
    let sent: Vec<_> = std::iter::from_fn(|| client.send()).collect();
    assert_eq!((sent.len(), sent[0].word(5)), (2, ROPT_CONNPROP));
}

// An action for the last connection, polled late, closed the next one.
#[test]
fn a_connection_that_is_gone_is_not_closed() {
    let (mut client, mut server) = settled(one(Config::client()), one(Config::server()));
    // More calls than were granted: the server closes the connection.
    let calls: Vec<_> = (0..3).map(|xid: u32| pair::words(&[xid, 1, 1, 0, 0, 0, 0, xid, 0])).collect();
    for message in &calls {
        let _ = server.session.received(rpcrdma_proto::connection::Buffer(0), message, None);
    }
    assert_eq!(server.session.stage(), Stage::Closing);
    server.session.lost(1000, Reason::Lost);
    client.lose(1000);
    client.session.timeout(client.session.poll_timeout().unwrap());
    client.act();
    connect(&mut client, &mut server);
    server.act();
    assert_eq!(server.closing(), None);
    assert!(server.events.iter().any(|event| matches!(event, Event::Closed { why: Reason::Overrun, .. })));
}

// Calls that had a credit already went all the same.
#[test]
fn no_call_goes_back_after_the_peer_is_unready() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    server.session.call(&NULL, None).unwrap();
    server.act();
    server.session.peer_unready();
    assert!(server.send().is_none());
    server.holds.exposing = true;
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let said_in = server.take_arrived().unwrap();
    server.session.peer_ready(said_in);
    let exposed = server.session.call(&CHUNKED, None).unwrap();
    exchange(&mut client, &mut server);
    server.session.peer_unready();
    server.expose(exposed);
    assert!(server.send().is_none());
    assert_eq!(server.session.open().0, 2, "they wait");
}

// Calls stayed ready for ever, and no question about properties went any more.
#[test]
fn a_peer_that_takes_no_calls_is_asked_and_told() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    server.session.call(&NULL, None).unwrap();
    server.act();
    client.session.set(Basic::BackwardSupport(Bkreqsup::None)).unwrap();
    exchange(&mut client, &mut server);
    server.session.call(&NULL, None).unwrap();
    server.act();
    server.session.ask(Basic::RemoteInvalidation(false)).unwrap();
    server.session.set(Basic::RemoteInvalidation(true)).unwrap();
    exchange(&mut client, &mut server);
    let answered = |event: &Event| matches!(event, Event::PropertyAnswered { .. });
    assert!(server.events.iter().any(answered));
    assert!(client.session.peer_properties().remote_invalidation);
}

// Calls that had a credit of a larger grant were sent under the lower one.
#[test]
fn a_lower_grant_holds_for_calls_that_are_not_sent() {
    let (mut client, mut server) = settled(one(Config::client()), one(Config::server()));
    works(&mut client, &mut server);
    let first = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let first_call = server.take_arrived().unwrap();
    client.holds.exposing = true;
    let chunked: Vec<_> = (0..3).map(|_| client.session.call(&CHUNKED, None).unwrap()).collect();
    client.act();
    server.session.grant_up_to(1);
    server.session.reply(first_call, REPLY, &[]).unwrap();
    pass(&mut server, &mut client);
    assert_eq!(client.replies(first).len(), 1);
    chunked.iter().for_each(|xid| client.expose(*xid));
    assert!(client.send().is_some() && client.send().is_none());
}

// The update told the value that was set, and not the one that the peer had asked for since.
#[test]
fn an_update_tells_what_holds_when_it_is_sent() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    // The server can't tell at once: its only credits are taken.
    for _ in 0..8 {
        server.session.call(&NULL, None).unwrap();
    }
    exchange(&mut client, &mut server);
    server.session.set(Basic::BackwardSupport(Bkreqsup::Inline)).unwrap();
    exchange(&mut client, &mut server);
    client.session.ask(Basic::BackwardSupport(Bkreqsup::None)).unwrap();
    exchange(&mut client, &mut server);
    for call in client.arrived() {
        client.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert_eq!(server.session.properties().backward_support, Bkreqsup::None);
    assert_eq!(client.session.peer_properties(), server.session.properties());
}

// The header of a long reply, which returns all that was offered, was larger than the requester takes.
#[test]
fn the_header_of_a_reply_fits() {
    let writes = [Some(0); 8];
    let answer =
        Answer { length: 5000, results: &[], writes: &writes, reply_chunk: Some(6000), header: 1040, threshold: 1024 };
    assert_eq!(reply(&answer), Err(Cannot::TooManySegments));
    let link = Link {
        version: Version::One,
        call_threshold: 8192,
        reply_threshold: 1024,
        chunks: true,
        read_chunks: 1,
        segment: 512,
        groups: None,
        room: 32,
    };
    let read =
        Call { length: 132, items: &[], largest_reply: 40_000, results: &[Wanted::of_call(39_900)], reducible: true };
    assert_eq!(call(&read, &link), Err(Cannot::TooManySegments));
    let read = Call {
        length: 132,
        items: &[],
        largest_reply: 30_000,
        results: &[Wanted::of_call(14_000), Wanted::of_call(14_000)],
        reducible: true,
    };
    let read = Call { largest_reply: 31_000, results: &[Wanted::of_call(14_500), Wanted::of_call(14_500)], ..read };
    let travel = call(&read, &link).unwrap();
    assert_eq!((travel.writes, travel.reply_chunk), (false, Some(31_000)), "a Reply chunk has the smaller header");
}

// The transport may take more segments for it than was planned.
#[test]
fn what_is_exposed_leaves_room_for_the_reply() {
    let client = Config { receive_size: 1024, ..one(Config::client()) };
    let server = Config { receive_size: 8192, ..one(Config::server()) };
    let (mut client, _) = settled(client, server);
    client.holds.exposing = true;
    let xid = client.session.call(&CHUNKED, None).unwrap();
    client.act();
    let segments: Vec<_> =
        (0..64).map(|at| Segment { handle: 7, length: 1600, offset: 1600 * u64::from(at as u32) }).collect();
    client.session.exposed(xid, [segments.as_slice()]);
    client.act();
    assert_eq!(client.failures(xid).len(), 1);
}

// A client that serves no calls had no receive for a question about properties.
#[test]
fn there_is_a_receive_for_a_question() {
    let client = Config { serve: 0, reserve: 1, calls: 1, credits: 1, ..Config::client() };
    let (mut client, _) = pair(client, Config::server());
    client.act();
    assert_eq!(client.session.posted(), 3, "a reply, a question, and what takes no credit");
}

// A grant beyond what was asked for let more calls go than there were receives for their replies.
#[test]
fn no_grant_lets_more_calls_go_than_there_are_receives_for() {
    let (mut client, mut server) =
        settled(one(Config { calls: 64, credits: 4, ..Config::client() }), one(Config::server()));
    let xid = client.session.call(&NULL, None).unwrap();
    pass(&mut client, &mut server);
    client.receive(&pair::words(&[xid, 1, 1000, 0, 0, 0, 0, xid, 1]));
    assert_eq!(client.replies(xid).len(), 1);
    for _ in 0..20 {
        client.session.call(&NULL, None).unwrap();
    }
    assert_eq!(std::iter::from_fn(|| client.send()).count(), 4);
}

// An answer to an operation waited behind operations that had no credit, until the peer had no receive for it.
#[test]
fn answers_to_operations_do_not_wait_for_credits() {
    const CODE: u32 = 4_294_967_041;
    let client = Config { calls: 1, credits: 1, ..Config::client() };
    let (mut client, mut server) = pair(client, Config::server());
    for end in [&mut client, &mut server] {
        end.session.register_operation(CODE).unwrap();
    }
    exchange(&mut client, &mut server);
    for _ in 0..3 {
        client.session.operate(CODE, true, None, &[]).unwrap();
    }
    client.session.operate(CODE, false, Some(77), &[]).unwrap();
    let first = client.send().unwrap();
    assert_eq!((first.word(0), first.word(4), first.word(5)), (77, 1, CODE));
    assert_eq!(first.word(2), 1, "its credits grant no more than any answer without a call does");
}

// Where one message is granted, an operation and a call are under way at once, and there was one receive for both answers.
#[test]
fn there_are_receives_for_the_answers_to_a_call_and_an_operation() {
    let config = Config { serve: 0, reserve: 1, calls: 1, credits: 1, ..Config::client() };
    let mut client = End::new(config);
    client.session.register_operation(4_294_967_041).unwrap();
    client.session.connected(0, Config::server().private_data()).unwrap();
    client.act();
    assert_eq!(client.session.posted(), 4);
}

// An update of any property ended what was asked for, as if it had told a size.
#[test]
fn an_update_of_something_else_does_not_lift_the_limit() {
    let server = Config { receive_size: 16_384, ..Config::server() };
    let (mut client, mut server) = settled(Config::client(), server);
    works(&mut client, &mut server);
    client.session.ask(Basic::ReceiveBufferSize(4096)).unwrap();
    client.send().unwrap();
    // ROPT_UPDPROP with Requester Remote Invalidation.
    client.receive(&pair::words(&[77, 2, 1, 5, 0, 4, 16, 1, 2, 4, 1]));
    client.session.call(&Call { length: 10_000, ..NULL }, None).unwrap();
    assert!(client.send().unwrap().octets.len() < 4096);
}
