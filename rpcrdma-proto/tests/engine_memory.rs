//! A warm session allocates nothing for any operation. Allocations are counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pair;

use allocation_counter::measure;
use pair::{End, NULL, REPLY, both_ways, exchange, one, pass, reconnect};
use rpcrdma_proto::connection::{CallLocation, Config, Event};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{CallSpec, DataItem, ResultItem, ResultSpec};
use rpcrdma_proto::v2::properties::Bkreqsup;

/// RPCs of each kind that are counted.
const RPCS: usize = 10_000;
/// Calls outstanding at once.
const OUTSTANDING: u16 = 1024;

const DATA: DataItem = DataItem {
    position: 120,
    length: 65_535,
};
const ITEMS: CallSpec<'_> = CallSpec {
    length: 65_656,
    items: &[DATA],
    max_reply: 200,
    results: &[],
    reducible: true,
};
const RESULTS: CallSpec<'_> = CallSpec {
    length: 160,
    items: &[],
    max_reply: 65_700,
    results: &[ResultSpec::whole_call(65_536)],
    reducible: true,
};
const LONG_CALL: CallSpec<'_> = CallSpec {
    length: 9_000,
    items: &[],
    max_reply: 200,
    results: &[],
    reducible: true,
};
const LONG_REPLY: CallSpec<'_> = CallSpec {
    length: 160,
    items: &[],
    max_reply: 9_000,
    results: &[],
    reducible: true,
};
/// A call without a transfer method: its header would exceed every Send.
const NO_WAY: CallSpec<'_> = CallSpec {
    length: u32::MAX,
    items: &[],
    max_reply: u32::MAX,
    results: &[],
    reducible: true,
};

fn config() -> (Config, Config) {
    let credits = OUTSTANDING.into();
    let client = Config {
        max_calls: OUTSTANDING,
        credits,
        max_served: OUTSTANDING,
        max_segment_len: u32::MAX,
        ..Config::client()
    };
    let server = Config {
        max_calls: OUTSTANDING,
        credits,
        max_served: OUTSTANDING,
        ..Config::server()
    };
    (client, server)
}

/// Both versions, settled and warm: a client and a server, of which the server may call, too.
fn versions(each: impl Fn(&mut End, &mut End)) {
    let (client, server) = config();
    let backward = |config: Config| Config {
        backward_support: Bkreqsup::Genl,
        backward_v1: true,
        ..config
    };
    for (client, server) in [(client.clone(), server.clone()), (one(client), one(server))] {
        let (mut client, mut server) = both_ways(backward(client), backward(server));
        clear(&mut client, &mut server);
        each(&mut client, &mut server);
    }
}

fn clear(client: &mut End, server: &mut End) {
    for end in [client, server] {
        end.events.clear();
        end.actions.clear();
    }
}

/// How one call of a batch ends.
#[derive(Clone, Copy)]
enum Ends {
    Reply(u32, &'static [ResultItem]),
    /// The responder has no transfer method for it, or rejects it.
    Declined,
    /// Cancelled before it is sent, while it is in flight, and after.
    Cancelled,
    /// It has no transfer method to the responder.
    Fails,
}

/// A batch of calls that are all outstanding before the first is answered.
fn batch(caller: &mut End, peer: &mut End, call: &CallSpec<'_>, end: Ends, count: usize) {
    for at in 0..count {
        let xid = caller.session.call(call, None).unwrap();
        if matches!(end, Ends::Cancelled) && at % 2 == 0 {
            caller.act();
            assert!(caller.session.cancel(xid));
        }
    }
    while pass(caller, peer) {}
    if matches!(end, Ends::Cancelled) {
        caller.session.timeout(1);
    }
    for event in 0..peer.events.len() {
        let Event::CallArrived { call, xid, .. } = peer.events[event] else {
            continue;
        };
        match end {
            Ends::Reply(length, results) => peer.session.reply(call, length, results).unwrap(),
            Ends::Declined => peer.session.reject(call).unwrap(),
            Ends::Cancelled => {
                assert!(caller.session.cancel(xid));
                peer.session.reply(call, REPLY, &[]).unwrap();
            }
            Ends::Fails => panic!("it has no way"),
        }
        while pass(peer, caller) {}
    }
    exchange(caller, peer);
    let ends =
        |event: &&Event| matches!(event, Event::ReplyArrived { .. } | Event::CallFailed { .. });
    assert_eq!(
        caller.events.iter().filter(ends).count(),
        count,
        "each call ends once"
    );
    clear(caller, peer);
}

const BATCHES: [(&str, CallSpec<'_>, Ends); 8] = [
    ("null", NULL, Ends::Reply(REPLY, &[])),
    ("items", ITEMS, Ends::Reply(200, &[])),
    (
        "results",
        RESULTS,
        Ends::Reply(
            65_664,
            &[ResultItem {
                item: DataItem {
                    position: 128,
                    length: 65_530,
                },
                answers: None,
            }],
        ),
    ),
    ("long call", LONG_CALL, Ends::Reply(200, &[])),
    ("long reply", LONG_REPLY, Ends::Reply(9_000, &[])),
    ("declined", ITEMS, Ends::Declined),
    ("cancelled", LONG_REPLY, Ends::Cancelled),
    ("failing", NO_WAY, Ends::Fails),
];

/// One batch is not counted: it is the last of the warming up.
fn counted(what: &str, caller: &mut End, peer: &mut End, call: &CallSpec<'_>, end: Ends) {
    let outstanding = usize::from(OUTSTANDING);
    batch(caller, peer, call, end, outstanding);
    let held = measure(|| {
        for _ in 0..RPCS.div_ceil(outstanding) {
            batch(caller, peer, call, end, outstanding);
        }
        for _ in 0..100 {
            batch(caller, peer, call, end, 1);
        }
    });
    assert_eq!(
        held.count_total,
        0,
        "{what}, of {:?}: allocates",
        caller.session.version()
    );
}

#[test]
fn calls_of_every_kind_allocate_nothing() {
    versions(|client, server| {
        for (what, call, end) in BATCHES {
            counted(what, client, server, &call, end);
        }
    });
}

#[test]
fn backward_calls_allocate_nothing() {
    versions(|client, server| {
        let inline = [0, 7].map(|at| BATCHES[at]);
        let general = [1, 2, 3, 4, 5, 6].map(|at| BATCHES[at]);
        let chunks = client.session.version() == Some(rpcrdma_proto::version::Version::Two);
        for (what, call, end) in inline
            .into_iter()
            .chain(general.into_iter().filter(|_| chunks))
        {
            counted(what, server, client, &call, end);
        }
    });
}

/// Messages in several transmissions, which the consumer recycles.
#[test]
fn groups_allocate_nothing() {
    let grouped = |config| Config {
        rtr: Some(RtrExtConfig::ALL),
        ..config
    };
    let (mut client, mut server) = both_ways(grouped(Config::client()), grouped(Config::server()));
    let call = CallSpec {
        max_reply: 9_000,
        ..LONG_CALL
    };
    clear(&mut client, &mut server);
    let mut round = || {
        client.session.call(&call, None).unwrap();
        assert_eq!(exchange(&mut client, &mut server), 3);
        for event in server.events.drain(..) {
            let Event::CallArrived { call, message, .. } = event else {
                continue;
            };
            if let CallLocation::Reassembled(message) = message {
                server.session.recycle(message);
            }
            server.session.reply(call, 9_000, &[]).unwrap();
        }
        assert_eq!(exchange(&mut client, &mut server), 3);
        for event in client.events.drain(..) {
            if let Event::ReplyArrived { reply, .. } = event {
                client.session.recycle(reply.reassembled.unwrap());
            }
        }
        clear(&mut client, &mut server);
    };
    (0..8).for_each(|_| round());
    let held = measure(|| (0..1_000).for_each(|_| round()));
    assert_eq!(held.count_total, 0, "groups allocate");
}

/// Lost with calls of every kind waiting, sent and being served, at both ends; and made again.
#[test]
fn reconnecting_allocates_nothing() {
    versions(|client, server| {
        let lose = |client: &mut End, server: &mut End| {
            for (_, call, _) in &BATCHES[..5] {
                for _ in 0..32 {
                    client.session.call(call, None).unwrap();
                }
            }
            exchange(client, server);
            reconnect(client, server);
            exchange(client, server);
            // Only the first reply grants more than one credit, and an error grants none.
            while let Some(call) = server.take_arrived() {
                // Some are of the connection that is gone.
                let _ = server.session.reject(call);
                exchange(client, server);
            }
            assert_eq!(
                (client.session.outstanding(), server.session.outstanding()),
                ((0, 0), (0, 0))
            );
            clear(client, server);
        };
        // Whichever place a call has, its segments have had memory there.
        (0..32).for_each(|_| lose(client, server));
        let held = measure(|| (0..50).for_each(|_| lose(client, server)));
        assert_eq!(held.count_total, 0, "reconnecting allocates");
    });
}

/// Calls that end before they are sent, while nothing can be sent.
#[test]
fn unsent_calls_allocate_nothing() {
    versions(|client, _| {
        let mut never_sent = |count: usize| {
            for _ in 0..count {
                let xid = client.session.call(&NULL, None).unwrap();
                client.act();
                assert!(client.session.cancel(xid));
                client.act();
                client.events.clear();
            }
        };
        never_sent(1);
        assert_eq!(measure(|| never_sent(RPCS)).count_total, 0);
    });
}

/// A peer that sends nothing right, to an end which can't send its errors, and which then declines
/// all calls.
#[test]
fn queued_errors_allocate_nothing() {
    versions(|client, server| {
        let version = server.session.version().unwrap().number();
        let wrong = pair::words(&[7, version, 1, 99]);
        // Calls that are served have places of their own.
        let config = server.session.config();
        let room = config.credits + config.reserved_receives + u32::from(config.max_served);
        let mut flood = |count: u32| {
            for _ in 0..OUTSTANDING {
                client.session.call(&NULL, None).unwrap();
            }
            while pass(client, server) {}
            let held = measure(|| {
                for _ in 0..count {
                    server.receive(&wrong);
                    server.actions.clear();
                }
                while let Some(call) = server.take_arrived() {
                    server.session.reject(call).unwrap();
                }
            });
            exchange(client, server);
            clear(client, server);
            held.count_total
        };
        // As many errors wait as there is room for: one more would close the connection.
        flood(room);
        assert_eq!(flood(room), 0);
    });
}
