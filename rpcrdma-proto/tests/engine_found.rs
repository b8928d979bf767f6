//! Defects that the simulator (`simulation.rs`) has found, each reduced to a small test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pair;
#[path = "engine_found/stalls.rs"]
mod stalls;

use std::collections::HashSet;

use pair::{End, NULL, REPLY, connect, exchange, one, pair, pass, settled, works};
use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{
    Action, CloseReason, Config, ConnState, Event, PropertyError, Session,
};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::{
    CallSpec, MethodPreference, PathLimits, ReplySpec, ResultPlacement, ResultSpec, TransferError,
    TransferMethod, plan_call, plan_reply,
};
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
const CHUNKED: CallSpec<'_> = CallSpec {
    max_reply: 100_000,
    ..NULL
};

// A call with exposed memory was not sent, because the peer stopped accepting calls. Its fence was
// requested only with the next event, which might never come.
#[test]
fn a_call_that_is_not_sent_asks_for_its_fence_at_once() {
    let (mut client, mut server) = ready(
        Config {
            backward_support: Bkreqsup::Genl,
            ..Config::client()
        },
        Config::server(),
    );
    let xid = server.session.call(&CHUNKED, None).unwrap();
    server.act();
    server.session.peer_unready();
    server.actions.clear();
    assert!(
        !server.session.has_actions() && server.session.poll_transmit(0, &mut [0; 4096]).is_none()
    );
    assert!(server.session.has_actions());
    assert_eq!(
        server.session.poll_action(),
        Some(Action::Fence {
            xid,
            invalidated: None
        })
    );
    server.session.fenced(xid);
    assert!(client.arrived().is_empty());
}

// Where one message is granted there are never two credits: the question for more was asked again
// for ever.
#[test]
fn change_is_announced_if_one_message_is_granted() {
    let client = Config {
        max_calls: 1,
        credits: 1,
        ..Config::client()
    };
    let (mut client, mut server) = settled(client, Config::server());
    client
        .session
        .set_property(BasicProperty::BackwardSupport(Bkreqsup::None))
        .unwrap();
    assert!(exchange(&mut client, &mut server) <= 4);
    assert_eq!(
        server.session.peer_properties(),
        client.session.properties()
    );
}

// Calls took every credit that an update needed.
#[test]
fn update_is_announced_between_calls() {
    let client = Config {
        max_calls: 8,
        credits: 2,
        ..Config::client()
    };
    let (mut client, mut server) = settled(client, Config::server());
    for _ in 0..8 {
        client.session.call(&NULL, None).unwrap();
    }
    client
        .session
        .set_property(BasicProperty::RemoteInvalidation(true))
        .unwrap();
    for _ in 0..4 {
        exchange(&mut client, &mut server);
        let call = server.take_arrived().unwrap();
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert!(server.session.peer_properties().remote_invalidation);
}

// `poll_timeout` returned the time of an attempt that `timeout` did not make.
#[test]
fn unneeded_connection_has_no_timer() {
    let (mut client, _) = settled(Config::client(), Config::server());
    client.session.keep_connected(false);
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
fn impossible_connection_has_no_timer() {
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
fn new_call_does_not_shorten_the_reconnect_delay() {
    let (mut client, _) = settled(Config::client(), Config::server());
    client.lose(1000);
    let attempts = client.actions.len();
    client.session.call(&NULL, None).unwrap();
    client.session.keep_connected(true);
    client.act();
    assert_eq!(
        (client.actions.len(), client.session.poll_timeout()),
        (attempts, Some(1000 + Config::client().reconnect_delay))
    );
}

// A session that was drained without a connection never made the one that its calls waited for.
#[test]
fn calls_begun_before_a_drain_complete() {
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
    assert_eq!(
        (client.replies(xid).len(), client.closing()),
        (1, Some(CloseReason::Drained))
    );
}

// ROPT_CONNPROP went on top of calls that had all the credits.
#[test]
fn properties_are_announced_before_calls_take_the_credits() {
    let client = Config {
        max_calls: 4,
        credits: 2,
        ..Config::client()
    };
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
fn lost_connection_is_not_closed_again() {
    let (mut client, mut server) = settled(one(Config::client()), one(Config::server()));
    // More calls than were granted: the server closes the connection.
    let calls: Vec<_> = (0..3)
        .map(|xid: u32| pair::words(&[xid, 1, 1, 0, 0, 0, 0, xid, 0]))
        .collect();
    for message in &calls {
        let _ = server
            .session
            .received(rpcrdma_proto::connection::BufferId(0), message, None);
    }
    assert_eq!(server.session.state(), ConnState::Closing);
    server.session.lost(1000, CloseReason::Lost);
    client.lose(1000);
    client
        .session
        .timeout(client.session.poll_timeout().unwrap());
    client.act();
    connect(&mut client, &mut server);
    server.act();
    assert_eq!(server.closing(), None);
    assert!(server.events.iter().any(|event| matches!(
        event,
        Event::Closed {
            reason: CloseReason::CreditOverrun,
            ..
        }
    )));
}

// Calls that had a credit already went all the same.
#[test]
fn no_backward_call_after_the_peer_is_unready() {
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
    assert_eq!(server.session.outstanding().0, 2, "they wait");
}

// Calls stayed ready for ever, and no question about properties went any more.
#[test]
fn peer_without_calls_gets_requests_and_updates() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    server.session.call(&NULL, None).unwrap();
    server.act();
    client
        .session
        .set_property(BasicProperty::BackwardSupport(Bkreqsup::None))
        .unwrap();
    exchange(&mut client, &mut server);
    server.session.call(&NULL, None).unwrap();
    server.act();
    server
        .session
        .request_property(BasicProperty::RemoteInvalidation(false))
        .unwrap();
    server
        .session
        .set_property(BasicProperty::RemoteInvalidation(true))
        .unwrap();
    exchange(&mut client, &mut server);
    let answered = |event: &Event| matches!(event, Event::PropertyAnswered { .. });
    assert!(server.events.iter().any(answered));
    assert!(client.session.peer_properties().remote_invalidation);
}

// Calls that had a credit of a larger grant were sent under the lower one.
// spec: rfc8166-3.3.1-a
#[test]
fn lower_grant_limits_unsent_calls() {
    let (mut client, mut server) = settled(one(Config::client()), one(Config::server()));
    works(&mut client, &mut server);
    let first = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let first_call = server.take_arrived().unwrap();
    client.holds.exposing = true;
    let chunked: Vec<_> = (0..3)
        .map(|_| client.session.call(&CHUNKED, None).unwrap())
        .collect();
    client.act();
    server.session.grant_up_to(1);
    server.session.reply(first_call, REPLY, &[]).unwrap();
    pass(&mut server, &mut client);
    assert_eq!(client.replies(first).len(), 1);
    chunked.iter().for_each(|xid| client.expose(*xid));
    assert!(client.send().is_some() && client.send().is_none());
}

// The update contained the value that was set, and not the one that the peer had requested since.
#[test]
fn update_has_the_current_value() {
    let (mut client, mut server) = ready(Config::client(), Config::server());
    // The server cannot announce it at once, since its credits are in use.
    for _ in 0..8 {
        server.session.call(&NULL, None).unwrap();
    }
    exchange(&mut client, &mut server);
    server
        .session
        .set_property(BasicProperty::BackwardSupport(Bkreqsup::Inline))
        .unwrap();
    exchange(&mut client, &mut server);
    client
        .session
        .request_property(BasicProperty::BackwardSupport(Bkreqsup::None))
        .unwrap();
    exchange(&mut client, &mut server);
    for call in client.arrived() {
        client.session.reply(call, REPLY, &[]).unwrap();
    }
    exchange(&mut client, &mut server);
    assert_eq!(server.session.properties().backward_support, Bkreqsup::None);
    assert_eq!(
        client.session.peer_properties(),
        server.session.properties()
    );
}

// The header of a long reply, which returns all that was offered, was larger than the requester
// takes.
#[test]
fn the_header_of_a_reply_fits() {
    let writes = [Some(0); 8];
    let answer = ReplySpec {
        length: 5000,
        results: &[],
        write_chunks: &writes,
        reply_chunk: Some(6000),
        header: 1040,
        threshold: 1024,
    };
    assert_eq!(plan_reply(&answer), Err(TransferError::TooManySegments));
    let link = PathLimits {
        version: Version::One,
        call_threshold: 8192,
        reply_threshold: 1024,
        chunks: true,
        max_read_chunks: 1,
        max_segment_len: 512,
        groups: None,
        available_credits: 32,
    };
    let read = CallSpec {
        length: 132,
        items: &[],
        max_reply: 40_000,
        results: &[ResultSpec::whole_call(39_900)],
        reducible: true,
    };
    assert_eq!(plan_call(&read, &link), Err(TransferError::TooManySegments));
    let read = CallSpec {
        length: 132,
        items: &[],
        max_reply: 30_000,
        results: &[
            ResultSpec::whole_call(14_000),
            ResultSpec::whole_call(14_000),
        ],
        reducible: true,
    };
    let read = CallSpec {
        max_reply: 31_000,
        results: &[
            ResultSpec::whole_call(14_500),
            ResultSpec::whole_call(14_500),
        ],
        ..read
    };
    let travel = plan_call(&read, &link).unwrap();
    assert_eq!(
        (travel.write_chunks, travel.reply_chunk),
        (false, Some(31_000)),
        "a Reply chunk has the smaller header"
    );
}

// The transport may take more segments for it than was planned.
#[test]
fn exposed_segments_leave_room_for_the_reply() {
    let client = Config {
        receive_size: 1024,
        ..one(Config::client())
    };
    let server = Config {
        receive_size: 8192,
        ..one(Config::server())
    };
    let (mut client, _) = settled(client, server);
    client.holds.exposing = true;
    let xid = client.session.call(&CHUNKED, None).unwrap();
    client.act();
    let segments: Vec<_> = (0..64)
        .map(|at| Segment {
            handle: 7,
            length: 1600,
            offset: 1600 * u64::from(at as u32),
        })
        .collect();
    client.session.exposed(xid, [segments.as_slice()]);
    client.act();
    assert_eq!(client.failures(xid).len(), 1);
}

// A client that serves no calls had no receive for a question about properties.
#[test]
fn receive_is_posted_for_a_property_request() {
    let client = Config {
        max_served: 0,
        reserved_receives: 1,
        max_calls: 1,
        credits: 1,
        ..Config::client()
    };
    let (mut client, _) = pair(client, Config::server());
    client.act();
    assert_eq!(
        client.session.posted_receives(),
        3,
        "a reply, a question, and what takes no credit"
    );
}

// A grant beyond the request let the requester send more calls than it had receives for replies.
#[test]
fn grants_never_exceed_the_receives() {
    let (mut client, mut server) = settled(
        one(Config {
            max_calls: 64,
            credits: 4,
            ..Config::client()
        }),
        one(Config::server()),
    );
    let xid = client.session.call(&NULL, None).unwrap();
    pass(&mut client, &mut server);
    client.receive(&pair::words(&[xid, 1, 1000, 0, 0, 0, 0, xid, 1]));
    assert_eq!(client.replies(xid).len(), 1);
    for _ in 0..20 {
        client.session.call(&NULL, None).unwrap();
    }
    assert_eq!(std::iter::from_fn(|| client.send()).count(), 4);
}

// An answer to an operation waited behind operations that had no credit, until the peer had no
// receive for it.
#[test]
fn answers_to_operations_do_not_wait_for_credits() {
    const CODE: u32 = 4_294_967_041;
    let client = Config {
        max_calls: 1,
        credits: 1,
        ..Config::client()
    };
    let (mut client, mut server) = pair(client, Config::server());
    for end in [&mut client, &mut server] {
        end.session.register_operation(CODE).unwrap();
    }
    exchange(&mut client, &mut server);
    for _ in 0..3 {
        client
            .session
            .send_operation(CODE, true, None, &[])
            .unwrap();
    }
    client
        .session
        .send_operation(CODE, false, Some(77), &[])
        .unwrap();
    let first = client.send().unwrap();
    assert_eq!((first.word(0), first.word(4), first.word(5)), (77, 1, CODE));
    assert_eq!(
        first.word(2),
        1,
        "its credits grant no more than any answer without a call does"
    );
}

// With a grant of one message, an operation and a call are in flight at once, and there was one
// receive for both answers.
#[test]
fn receives_are_posted_for_answers_to_a_call_and_an_operation() {
    let config = Config {
        max_served: 0,
        reserved_receives: 1,
        max_calls: 1,
        credits: 1,
        ..Config::client()
    };
    let mut client = End::new(config);
    client.session.register_operation(4_294_967_041).unwrap();
    client
        .session
        .connected(0, Config::server().private_data())
        .unwrap();
    client.act();
    assert_eq!(client.session.posted_receives(), 4);
}

// An update of any property ended the request, as if it contained a size.
#[test]
fn update_of_another_property_does_not_lift_the_limit() {
    let server = Config {
        receive_size: 16_384,
        ..Config::server()
    };
    let (mut client, mut server) = settled(Config::client(), server);
    works(&mut client, &mut server);
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(4096))
        .unwrap();
    client.send().unwrap();
    // ROPT_UPDPROP with Requester Remote Invalidation.
    client.receive(&pair::words(&[77, 2, 1, 5, 0, 4, 16, 1, 2, 4, 1]));
    client
        .session
        .call(
            &CallSpec {
                length: 10_000,
                ..NULL
            },
            None,
        )
        .unwrap();
    assert!(client.send().unwrap().bytes.len() < 4096);
}

// A question of 36 bytes made 38 receives of 4 KiB those of 64 KiB.
#[test]
fn requests_of_a_peer_are_bounded_by_the_settings() {
    for (receive_size, max_receive_size, largest) in
        [(4096, 0, 4096), (8192, 0, 8192), (4096, 12_288, 12_288)]
    {
        let server = Config {
            receive_size,
            max_receive_size,
            ..Config::server()
        };
        assert!(
            max_receive_size > 0 || server.max_receive_size == Config::server().max_receive_size,
            "the default"
        );
        let (mut client, mut server) = settled(Config::client(), server);
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(1 << 16))
            .unwrap();
        exchange(&mut client, &mut server);
        for _ in 0..200 {
            works(&mut client, &mut server);
        }
        let sizes = server.actions.iter().filter_map(|action| match action {
            Action::PostReceives { size, .. } => Some(*size),
            _ => None,
        });
        assert_eq!(sizes.max(), Some(largest));
        assert_eq!(
            client.session.peer_properties().receive_buffer_size,
            largest
        );
        assert_eq!(
            server
                .session
                .set_property(BasicProperty::ReceiveBufferSize(largest + 4)),
            Err(PropertyError::Larger)
        );
    }
}

// XIDs were those of 65,536 calls, again and again. A server that keeps replies for two minutes
// takes one of them for a call that was sent again.
#[test]
fn xids_do_not_repeat_early() {
    let mut session = Session::new(Config {
        max_calls: u16::MAX,
        xid_seed: 7,
        ..Config::client()
    })
    .unwrap();
    let open: Vec<u32> = (0..1_000)
        .map(|_| session.call(&NULL, None).unwrap())
        .collect();
    let mut seen: HashSet<u32> = open.iter().copied().collect();
    for _ in 0..300_000 {
        let xid = session.call(&NULL, None).unwrap();
        assert!(seen.insert(xid), "{xid:#x} was used before");
        assert!(session.cancel(xid));
        while session.poll_event().is_some() {}
    }
    assert!(open.iter().all(|xid| session.cancel(*xid)));
}

// The memory for a result was exposed in more segments than planned, and the call was sent although
// its reply, whose header returns all of them, no longer fit.
#[test]
fn reply_to_a_group_fits_with_the_exposed_segments() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Explicit,
        preference: MethodPreference::Groups,
        reply_receives: 1,
        ..RtrExtConfig::ALL
    };
    let read = CallSpec {
        max_reply: 72_900,
        results: &[ResultSpec::whole_call(70_000)],
        ..NULL
    };
    for (segments, fits) in [(1, true), (60, false)] {
        let (mut client, mut server) = settled(
            Config::client().with_rtr(rtr),
            Config::server().with_rtr(rtr),
        );
        works(&mut client, &mut server);
        client.holds.exposing = true;
        let xid = client.session.call(&read, None).unwrap();
        client.act();
        assert!(matches!(
            client.session.transfer_plan(xid).unwrap().method,
            TransferMethod::Grouped(_)
        ));
        let length = 70_000 / segments + 4;
        let segments: Vec<_> = (0..segments)
            .map(|at| Segment {
                handle: 7,
                length,
                offset: u64::from(at * length),
            })
            .collect();
        client.session.exposed(xid, [segments.as_slice()]);
        client.act();
        assert!(client.failures(xid).is_empty());
        assert_eq!(client.send().is_some(), fits);
        if fits {
            continue;
        }
        // It is exposed again, for a message that has room for as many segments.
        let plan = client.session.transfer_plan(xid).unwrap();
        assert!(plan.method == TransferMethod::Inline && plan.write_chunks);
        client.session.exposed(xid, [segments.as_slice()]);
        assert!(client.send().is_some());
        assert_eq!(client.failures(xid), []);
    }
}
