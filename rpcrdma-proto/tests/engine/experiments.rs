//! Properties and operations that the consumer registers.

use rpcrdma_proto::connection::{Config, Event, Properties, RegisterError};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};

use crate::pair::{End, exchange, pass, reconnect, settled, words, works};
use crate::properties::{CALL, DRAFTS, client_of, operation, server_of, sized};

/// The first code for experiments.
const EXPERIMENT: u32 = 4_294_967_040;

/// Properties of an experiment are told with the others; who does not know them passes them over.
// spec: xc3-6.1-a, xc3-6.1-c, xc3-6.2-a, xc3-4.1-b, xc3-4.1-f, xc3-4.1-g
// spec: xc2-6.1-a, xc2-6.1-c, xc2-6.2-a, xc2-4.1-b, xc2-4.1-f, xc2-4.1-g
#[test]
fn experimental_properties_are_announced() {
    for draft in DRAFTS {
        // With as much besides as can be told.
        let segments: Vec<_> = (0..16)
            .map(|at| BufferSegment {
                length: 1024,
                align: at,
                target: at > 0,
            })
            .collect();
        let rtr = Some(RtrExtConfig {
            structure: Some(BufferStructure::new(&segments).unwrap()),
            ..RtrExtConfig::ALL
        });
        let most = Config {
            rtr,
            ..sized(16_384, client_of(draft))
        };
        let most = Config {
            max_receive_size: 16_384,
            ..most
        };
        let (mut client, mut server) = (End::new(most), End::new(server_of(draft)));
        let value = [7; 64];
        assert_eq!(
            client.session.register_property(4_294_967_043, &[]),
            Err(RegisterError::Code),
            "RTR Support"
        );
        for at in 0..8 {
            client
                .session
                .register_property(EXPERIMENT + 30 * at, &value)
                .unwrap();
        }
        server
            .session
            .register_property(EXPERIMENT + 60, &[1, 2, 3])
            .unwrap();
        assert_eq!(
            client.session.register_property(EXPERIMENT, &[]),
            Err(RegisterError::Code)
        );
        assert_eq!(
            client.session.register_property(EXPERIMENT - 1, &[]),
            Err(RegisterError::Code)
        );
        assert_eq!(
            client.session.register_property(EXPERIMENT + 1, &[0; 65]),
            Err(RegisterError::Long)
        );
        assert_eq!(
            client.session.register_property(EXPERIMENT + 1, &[]),
            Err(RegisterError::Full)
        );
        client.act();
        crate::pair::connect(&mut client, &mut server);
        while let Some(packet) = client.send() {
            assert!(
                packet.bytes.len() <= 1024,
                "whoever has the default can take it"
            );
            server.receive(&packet.bytes);
            while pass(&mut server, &mut client) {}
        }
        assert_eq!(
            server.session.peer_property(EXPERIMENT + 60),
            Some(&value[..])
        );
        assert_eq!(
            client.session.peer_property(EXPERIMENT + 60),
            Some(&[1, 2, 3][..])
        );
        assert_eq!(
            (
                client.session.peer_property(EXPERIMENT),
                server.session.peer_property(EXPERIMENT)
            ),
            (None, None)
        );
        works(&mut client, &mut server);
        crate::pair::reconnect(&mut client, &mut server);
        assert_eq!(
            server.session.peer_property(EXPERIMENT + 60),
            None,
            "it is another connection"
        );
        exchange(&mut client, &mut server);
        assert_eq!(
            server.session.peer_property(EXPERIMENT + 60),
            Some(&value[..])
        );
    }
}

/// Operations of an experiment go to the consumers of both ends; a peer that does not know them
/// says so.
// spec: v2-3.1-a, v2-3.1-b, v2-3.1-d, v2-3.1-f, v2-3.3-a, v2-4.2.1-c, xc3-6.2-a
#[test]
fn experimental_operations_reach_the_consumer() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    assert_eq!(
        client.session.register_operation(5),
        Err(RegisterError::Code)
    );
    assert_eq!(
        client.session.send_operation(EXPERIMENT, true, None, b""),
        Err(RegisterError::Code)
    );
    client.session.register_operation(EXPERIMENT).unwrap();
    assert_eq!(
        client
            .session
            .send_operation(EXPERIMENT, true, None, &[0; 257]),
        Err(RegisterError::Long)
    );
    let xid = client
        .session
        .send_operation(EXPERIMENT, true, None, b"hello")
        .unwrap();
    exchange(&mut client, &mut server);
    let refused =
        |event: &Event| matches!(event, Event::PeerError { xid: named, .. } if *named == xid);
    assert!(client.events.iter().any(refused));
    server.session.register_operation(EXPERIMENT).unwrap();
    let xid = client
        .session
        .send_operation(EXPERIMENT, true, None, b"hello")
        .unwrap();
    let packet = client.send().unwrap();
    server.receive(&packet.bytes);
    let told = server.events.iter().find_map(|event| match event {
        Event::Operation { operation } => Some(operation.clone()),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!((told.xid, told.code, told.is_call), (xid, EXPERIMENT, true));
    assert_eq!(
        &packet.bytes[told.info.start as usize..told.info.end as usize],
        b"hello"
    );
    assert!(told.payload.is_empty());
    // With part of an RPC message behind it, it is the consumer's to judge.
    let mut bytes = operation(77, CALL, EXPERIMENT, &[1]);
    bytes.extend(words(&[5, 6]));
    server.receive(&bytes);
    let told = server.events.iter().rev().find_map(|event| match event {
        Event::Operation { operation } => Some((operation.info.clone(), operation.payload.clone())),
        _ => None,
    });
    assert_eq!(told, Some((28..32, 32..40)));
    server
        .session
        .send_operation(EXPERIMENT, false, Some(xid), b"and back")
        .unwrap();
    exchange(&mut client, &mut server);
    assert!(
        client
            .events
            .iter()
            .any(|event| matches!(event, Event::Operation { operation } if operation.xid == xid && !operation.is_call))
    );
}

/// The consumer's operations need no exchange of properties.
// spec: v2-3.3-a
#[test]
fn experimental_operations_need_no_properties() {
    let without = |config| Config {
        properties: Properties::None,
        ..config
    };
    let (mut client, mut server) = settled(without(Config::client()), without(Config::server()));
    works(&mut client, &mut server);
    for end in [&mut client, &mut server] {
        end.session.register_operation(EXPERIMENT).unwrap();
    }
    let arrived = |end: &End, xid: u32, is_call: bool| {
        end.events.iter().any(|event| match event {
            Event::Operation { operation } => (operation.xid, operation.is_call) == (xid, is_call),
            _ => false,
        })
    };
    let xid = client
        .session
        .send_operation(EXPERIMENT, true, None, b"hello")
        .unwrap();
    exchange(&mut client, &mut server);
    assert!(arrived(&server, xid, true), "the call");
    server
        .session
        .send_operation(EXPERIMENT, false, Some(xid), b"and back")
        .unwrap();
    exchange(&mut client, &mut server);
    assert!(arrived(&client, xid, false), "the answer");
    works(&mut client, &mut server);
}

/// An RPC message behind an operation that nobody here but the consumer knows has the operation's
/// direction, or is refused.
// spec: v2-4.2.2-d
#[test]
fn an_operation_has_the_direction_of_its_rpc_message() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    server.session.register_operation(EXPERIMENT).unwrap();
    for (xid, begin, direction, taken) in
        [(77, 77, CALL, true), (78, 78, 1, false), (79, 5, 1, true)]
    {
        let mut bytes = operation(xid, CALL, EXPERIMENT, &[1]);
        bytes.extend(words(&[begin, direction]));
        server.receive(&bytes);
        let mine =
            |event: &Event| matches!(event, Event::Operation { operation } if operation.xid == xid);
        assert_eq!(server.events.iter().any(mine), taken, "{xid}");
    }
    let refused = server.send().unwrap();
    assert_eq!(refused.bytes[..4], 78u32.to_be_bytes());
    assert_eq!(
        refused.bytes[12..20],
        [0, 0, 0, 4, 0, 0, 0, 2],
        "RDMA2_ERROR, RDMA2_ERR_BAD_HEADER"
    );
    works(&mut client, &mut server);
}

/// An operation that has not gone when its connection is lost does not go over the next one.
#[test]
fn queued_operations_end_with_the_connection() {
    let (mut client, mut server) = settled(Config::client(), Config::server());
    works(&mut client, &mut server);
    for end in [&mut client, &mut server] {
        end.session.register_operation(EXPERIMENT).unwrap();
    }
    client.session.keep_connected(true);
    let arrived = |server: &End| {
        let operations = server.events.iter();
        operations
            .filter(|event| matches!(event, Event::Operation { .. }))
            .count()
    };
    for (loses, count) in [(true, 0), (false, 1)] {
        client
            .session
            .send_operation(EXPERIMENT, true, None, &[1, 2, 3, 4])
            .unwrap();
        if loses {
            reconnect(&mut client, &mut server);
        }
        works(&mut client, &mut server);
        exchange(&mut client, &mut server);
        assert_eq!(arrived(&server), count);
    }
}

/// A value of an experiment may change, and is known from then on.
// spec: xc3-6.1-a, xc3-4.4-b
#[test]
fn experimental_property_may_change() {
    let mut client = End::new(Config::client());
    let code = EXPERIMENT + 60;
    client.session.register_property(code, &[1]).unwrap();
    let mut server = End::new(Config::server());
    server.session.register_property(code, &[2]).unwrap();
    client.act();
    crate::pair::connect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    assert_eq!(client.session.peer_property(code), Some(&[2][..]));
    client.receive(&operation(77, CALL, 4, &[1, code, 4, 0x0304_0506]));
    assert_eq!(client.session.peer_property(code), Some(&[3, 4, 5, 6][..]));
}
