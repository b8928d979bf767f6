//! Two connected sessions (`pair`): the engine from the view of its user. The simulator
//! (`simulation.rs`) injects faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pair;

#[path = "engine/backward.rs"]
mod backward;
#[path = "engine/bounds.rs"]
mod bounds;
#[path = "engine/broken.rs"]
mod broken;
#[path = "engine/calls.rs"]
mod calls;
#[path = "engine/capabilities.rs"]
mod capabilities;
#[path = "engine/characteristics.rs"]
mod characteristics;
#[path = "engine/choices.rs"]
mod choices;
#[path = "engine/chunks.rs"]
mod chunks;
#[path = "engine/connections.rs"]
mod connections;
#[path = "engine/ends.rs"]
mod ends;
#[path = "engine/experiments.rs"]
mod experiments;
#[path = "engine/exposures.rs"]
mod exposures;
#[path = "engine/fallback.rs"]
mod fallback;
#[path = "engine/groups.rs"]
mod groups;
#[path = "engine/placed.rs"]
mod placed;
#[path = "engine/properties.rs"]
mod properties;
#[path = "engine/ranges.rs"]
mod ranges;
#[path = "engine/receives.rs"]
mod receives;
#[path = "engine/reports.rs"]
mod reports;
#[path = "engine/requests.rs"]
mod requests;
#[path = "engine/retained.rs"]
mod retained;
#[path = "engine/transmissions.rs"]
mod transmissions;
#[path = "engine/versions.rs"]
mod versions;
#[path = "engine/xids.rs"]
mod xids;

use pair::{NULL, exchange, pair};
use rpcrdma_proto::connection::{Action, CloseReason, Config, Event, Properties};
use rpcrdma_proto::transfer::{CallSpec, DataItem, ResultSpec};
use rpcrdma_proto::version::Version;

#[test]
fn version_two_is_negotiated_and_a_call_answered() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    // ROPT_REQPROP, ROPT_RESPROP, both ROPT_CONNPROP, and the call.
    assert_eq!(exchange(&mut client, &mut server), 5);
    assert_eq!(client.session.version(), Some(Version::Two));
    let calls = server.arrived();
    server.session.reply(calls[0], 24, &[]).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 1);
    assert!(client.events.iter().any(
        |event| matches!(event, Event::ReplyArrived { xid: answered, .. } if *answered == xid)
    ));
    assert_eq!(client.session.outstanding(), (0, 0));
    assert_eq!(server.session.outstanding(), (0, 0));
}

#[test]
fn version_one_server_gets_version_one() {
    let server = Config {
        max_version: Version::One,
        ..Config::server()
    };
    for properties in [
        Properties::Properties,
        Properties::Characteristics,
        Properties::None,
    ] {
        let (mut client, mut server) = pair(
            Config {
                properties,
                ..Config::client()
            },
            server.clone(),
        );
        let xid = client.session.call(&NULL, None).unwrap();
        // The question, ERR_VERS, and the call in Version One.
        assert_eq!(exchange(&mut client, &mut server), 3);
        assert_eq!(client.session.version(), Some(Version::One));
        let calls = server.arrived();
        server.session.reply(calls[0], 24, &[]).unwrap();
        exchange(&mut client, &mut server);
        let answered = |event: &Event| matches!(event, Event::ReplyArrived { xid: answered, .. } if *answered == xid);
        assert_eq!(
            client.events.iter().filter(|event| answered(event)).count(),
            1
        );
    }
}

#[test]
fn items_and_results_are_reduced() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    let data = DataItem {
        position: 120,
        length: 65_535,
    };
    let write = CallSpec {
        length: 65_656,
        items: &[data],
        max_reply: 200,
        results: &[],
        reducible: true,
    };
    let read = CallSpec {
        length: 160,
        items: &[],
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        reducible: true,
    };
    let long = CallSpec {
        length: 9_000,
        items: &[],
        max_reply: 9_000,
        results: &[],
        reducible: true,
    };
    for call in [write, read, long] {
        client.session.call(&call, None).unwrap();
    }
    exchange(&mut client, &mut server);
    let calls = server.arrived();
    let lengths: Vec<_> = calls
        .iter()
        .map(|call| server.session.call_length(*call).unwrap())
        .collect();
    assert_eq!(lengths, [65_656, 160, 9_000]);
    server.session.reply(calls[0], 200, &[]).unwrap();
    server
        .session
        .reply(
            calls[1],
            65_664,
            &[DataItem {
                position: 128,
                length: 65_530,
            }
            .into()],
        )
        .unwrap();
    server.session.reply(calls[2], 9_000, &[]).unwrap();
    exchange(&mut client, &mut server);
    let replies = client.events.iter().filter_map(|event| match event {
        Event::ReplyArrived { reply, .. } => {
            Some((reply.inline.len(), reply.long, reply.results.to_vec()))
        }
        _ => None,
    });
    let replies: Vec<_> = replies.collect();
    assert_eq!(
        replies,
        [
            (200, None, vec![]),
            (132, None, vec![65_530]),
            (0, Some(9_000), vec![])
        ]
    );
}

#[test]
fn a_server_calls_back_once_its_peer_is_ready() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    client.session.call(&NULL, None).unwrap();
    server.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    assert!(
        client.arrived().is_empty(),
        "not before the peer's consumer has said so"
    );
    let said_in = server.arrived()[0];
    assert!(server.session.peer_ready(said_in));
    server.session.reply(said_in, 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    let back = client.arrived();
    client.session.reply(back[0], 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert!(
        server
            .events
            .iter()
            .any(|event| matches!(event, Event::ReplyArrived { .. }))
    );
}

#[test]
fn calls_outlive_a_connection() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    server.session.lost(10, CloseReason::Lost);
    client.session.lost(10, CloseReason::Lost);
    client.act();
    server.act();
    let late = server.arrived()[0];
    assert!(
        server.session.reply(late, 24, &[]).is_err(),
        "the connection of the call is gone"
    );
    client
        .session
        .timeout(client.session.poll_timeout().unwrap());
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
    client
        .session
        .connected(200_000, server.session.config().private_data())
        .unwrap();
    server
        .session
        .connected(200_000, client.session.config().private_data())
        .unwrap();
    exchange(&mut client, &mut server);
    let again = server.arrived();
    server.session.reply(again[0], 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    let ends = |event: &&Event| matches!(event, Event::ReplyArrived { xid: answered, .. } if *answered == xid);
    assert_eq!(client.events.iter().filter(ends).count(), 1);
}

#[test]
fn a_session_that_drains_ends_with_a_reason() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    client.session.drain();
    assert!(client.session.call(&NULL, None).is_err());
    let calls = server.arrived();
    server.session.reply(calls[0], 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(
        client.actions.last(),
        Some(&Action::Close {
            reason: CloseReason::Drained
        })
    );
    client.session.lost(20, CloseReason::Lost);
    client.act();
    assert_eq!(
        client.events.last(),
        Some(&Event::Closed {
            reason: CloseReason::Drained,
            is_final: true
        })
    );
}
