//! XIDs of messages that begin no call: they are those of no call that is open.

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::v2::properties::ROPT_UPDPROP;

use crate::pair::{NULL, both_ways, exchange, one, settled, words, works};

/// The peer chooses the XIDs of its calls: they may be those that we would use next.
// spec: bd-2.4-b
#[test]
fn xids_of_operations_differ_from_served_calls() {
    let (mut client, mut server) = both_ways(Config::client(), Config::server());
    let last = server.session.call(&NULL, None).unwrap();
    exchange(&mut server, &mut client);
    let call = client.arrived()[0];
    client.session.reply(call, 24, &[]).unwrap();
    exchange(&mut server, &mut client);
    for xid in [last + 1, last + 3] {
        server.receive(&words(&[
            xid, 2, 1, 0, 0, 0, 0, 0, xid, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ]));
    }
    assert_eq!(server.arrived().len(), 2);
    let mut updates = Vec::new();
    for value in [true, false] {
        server
            .session
            .set_property(BasicProperty::RemoteInvalidation(value))
            .unwrap();
        let update = server.send().unwrap();
        assert_eq!(update.word(5), ROPT_UPDPROP);
        updates.push(update.word(0));
    }
    assert_eq!(updates, [last + 2, last + 4], "those between are served");
}

/// A call does not take the XID of a call that is served, which the peer chose first (decision
/// D12).
// spec: v2-4.2.2-f, bd-2.4-b
#[test]
fn xids_of_calls_differ_from_served_calls() {
    let ends = || both_ways(Config::client(), Config::server());
    let (_, mut server) = ends();
    let first = server.session.call(&NULL, None).unwrap();
    let (_, mut server) = ends();
    server.receive(&words(&[
        first, 2, 1, 0, 0, 0, 0, 0, first, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]));
    assert_eq!(server.arrived().len(), 1);
    assert_ne!(server.session.call(&NULL, None).unwrap(), first);
}

/// An operation has an XID that no call has, or gets while the operation may be answered: an error
/// that answers it is about no call.
#[test]
fn xids_of_operations_differ_from_our_calls() {
    const CODE: u32 = 4_294_967_041;
    for seed in [5, 0x7fff_fffe, u32::MAX - 12] {
        let (mut client, mut server) = settled(
            Config {
                xid_seed: seed,
                ..Config::client()
            },
            Config::server(),
        );
        works(&mut client, &mut server);
        client.session.register_operation(CODE).unwrap();
        let mut calls = Vec::new();
        let mut operations = Vec::new();
        for _ in 0..8 {
            calls.push(client.session.call(&NULL, None).unwrap());
            operations.push(
                client
                    .session
                    .send_operation(CODE, true, None, &[])
                    .unwrap(),
            );
        }
        assert!(operations.iter().all(|xid| !calls.contains(xid)));
        while client.send().is_some() {}
        for xid in operations {
            client.receive(&words(&[xid, 2, 32, 4, 3]));
        }
        assert!(calls.iter().all(|xid| client.failures(*xid).is_empty()));
    }
}

/// A long call of Version One may have the XID of a call that its responder has sent meanwhile: it
/// has a Read list, and so is no reply.
// spec: rfc8166-4.3.1-a, bd-2.4-c
#[test]
fn long_call_is_not_taken_for_a_reply() {
    let config = |config: Config| {
        one(Config {
            backward_v1: true,
            ..config
        })
    };
    let (mut client, mut server) = both_ways(config(Config::client()), config(Config::server()));
    let xid = server.session.call(&NULL, None).unwrap();
    let backward = server.send().unwrap();
    server.receive(&words(&[xid, 1, 8, 1, 1, 0, 9, 9_000, 0, 4_096, 0, 0, 0]));
    assert_eq!(server.failures(xid), []);
    let served = server.arrived()[0];
    assert_eq!(server.session.call_length(served), Some(9_000));
    client.receive(&backward.bytes);
    let call = client.arrived()[0];
    client.session.reply(call, 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(server.replies(xid).len(), 1);
    server.session.reply(served, 24, &[]).unwrap();
    assert_eq!(server.send().unwrap().word(0), xid);
}

/// XIDs go on at zero after the last one: calls are answered across it.
#[test]
fn xids_wrap() {
    let (mut client, mut server) = settled(
        Config {
            xid_seed: u32::MAX - 4,
            ..Config::client()
        },
        Config::server(),
    );
    let xids: Vec<u32> = (0..8)
        .map(|_| client.session.call(&NULL, None).unwrap())
        .collect();
    assert!(xids.contains(&u32::MAX) && xids.contains(&0));
    for _ in 0..8 {
        exchange(&mut client, &mut server);
        for call in server.arrived() {
            server.session.reply(call, 24, &[]).unwrap();
        }
    }
    exchange(&mut client, &mut server);
    assert!(xids.iter().all(|xid| client.replies(*xid).len() == 1));
}
