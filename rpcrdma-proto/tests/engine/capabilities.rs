//! The properties of rtrext-02: the capabilities of each end.

use rpcrdma_proto::connection::{Config, Event, PropertyError, Role};
use rpcrdma_proto::continuation::{OperationSet, RtrCapabilities, RtrExtConfig};
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::property::BasicProperty;

use crate::pair::{pair, pass, settled, words, works};
use crate::properties::{CALL, DRAFTS, client_of, operation, server_of};

/// Receive buffers of 4096 bytes, and 8192 for bulk data.
fn structured(config: Config) -> Config {
    let head = BufferSegment {
        length: 4096,
        align: 8,
        target: false,
    };
    let structure = BufferStructure::new(&[
        head,
        BufferSegment {
            length: 8192,
            align: 4096,
            target: true,
        },
    ])
    .unwrap();
    let rtr = RtrExtConfig {
        structure: Some(structure),
        request_limit: 5,
        response_limit: 6,
        ..RtrExtConfig::ALL
    };
    let size = structure.length();
    Config {
        rtr: Some(rtr),
        receive_size: size,
        max_receive_size: size,
        ..config
    }
}

/// The capabilities are announced with the other properties, and hold for the connection.
// spec: rtr-3.3-a, rtr-7.2-m, rtr-8.1-a, rtr-8.1-b, rtr-8.1-c, rtr-8.1-d, rtr-8.3-a, rtr-8.3-b
#[test]
fn capabilities_are_announced() {
    for draft in DRAFTS {
        let plain = Config {
            rtr: Some(RtrExtConfig {
                operations: OperationSet::REQUESTS,
                ..RtrExtConfig::ALL
            }),
            ..server_of(draft)
        };
        let (mut client, mut server) = pair(structured(client_of(draft)), plain);
        assert!(pass(&mut client, &mut server));
        let connprop = server.send().unwrap();
        let values = [
            6,
            1,
            4,
            4096,
            2,
            4,
            0,
            3,
            4,
            2,
            4_294_967_043,
            4,
            1,
            5,
            4,
            8,
            6,
            4,
            8,
            1,
            0b11_1000,
        ];
        assert_eq!(
            connprop.bytes,
            words(&[&[connprop.word(0), 2, 8, 5, CALL, 1, 84][..], &values].concat())
        );
        client.receive(&connprop.bytes);
        assert!(client.events.contains(&Event::PropertiesChanged));
        assert!(pass(&mut server, &mut client));
        let connprop = client.send().unwrap();
        let segments = [12_288, 2, 1, 4096, 8, 0, 1, 8192, 4096, 1];
        let values = [
            7,
            1,
            4,
            12_288,
            2,
            4,
            0,
            3,
            4,
            2,
            4_294_967_043,
            4,
            7,
            4,
            40,
        ];
        let rest = [5, 4, 5, 6, 4, 6, 1, 0b111_1001];
        assert_eq!(
            connprop.bytes[28..],
            words(&[&values[..], &segments, &rest].concat())
        );
        server.receive(&connprop.bytes);
        for (this, other) in [(&client, &server), (&server, &client)] {
            let theirs = other.session.config().rtr.unwrap().capabilities();
            assert_eq!(*this.session.peer_capabilities(), theirs);
        }
        assert_eq!(server.session.peer_properties().receive_buffer_size, 12_288);
        works(&mut client, &mut server);
        crate::pair::reconnect(&mut client, &mut server);
        assert_eq!(
            *server.session.peer_capabilities(),
            RtrCapabilities::DEFAULT,
            "it is another connection"
        );
    }
}

/// An end without rtrext-02 ignores its properties.
#[test]
fn capabilities_are_unknown_without_rtrext() {
    let (mut client, mut server) = settled(structured(Config::client()), Config::server());
    works(&mut client, &mut server);
    assert_eq!(
        *server.session.peer_capabilities(),
        RtrCapabilities::DEFAULT
    );
    assert_eq!(
        *client.session.peer_capabilities(),
        RtrCapabilities::DEFAULT
    );
    assert_eq!(server.session.peer_properties().receive_buffer_size, 12_288);
}

/// The abilities of this end do not change, nor does the size of receive buffers that have a
/// structure.
// spec: rtr-8.3-b
#[test]
fn capabilities_do_not_change_by_request() {
    let rtr = Config {
        rtr: Some(RtrExtConfig::ALL),
        ..Config::client()
    };
    let (mut client, mut server) = settled(
        structured(Config::client()),
        Config {
            role: Role::Server,
            ..rtr
        },
    );
    works(&mut client, &mut server);
    assert_eq!(
        server
            .session
            .request_property(BasicProperty::ReceiveBufferSize(8192)),
        Err(PropertyError::Fixed)
    );
    for size in [0, 4096, 8192, 12_288, 16_384] {
        client.receive(&operation(
            77,
            CALL,
            2,
            &[4, 1, 4, size, 5, 4, 1, 6, 0, 4_294_967_043, 4, 0],
        ));
        let answer = client.send().unwrap();
        assert_eq!(
            answer.bytes[20..],
            words(&[3, 16, 0, 1, 0b1111, 0]),
            "{size}"
        );
    }
    assert_eq!(client.session.properties().receive_buffer_size, 12_288);
    // A limit of nothing means nothing.
    client.receive(&operation(78, CALL, 2, &[1, 5, 4, 0]));
    assert_eq!(
        client.send().unwrap().bytes[12..20],
        words(&[4, 2]),
        "RDMA2_ERROR, RDMA2_ERR_BAD_HEADER"
    );
}

/// A later announcement of a peer's capabilities applies from then on.
// spec: rtr-8.3-e
#[test]
fn capabilities_of_a_peer_may_change() {
    let (mut client, _) = pair(
        Config {
            rtr: Some(RtrExtConfig::ALL),
            ..Config::client()
        },
        Config::server(),
    );
    client.send().unwrap();
    let segments = |size: u32| [4, 24, size, 1, 1, size, 0, 1];
    client.receive(&operation(
        7,
        CALL,
        1,
        &[&[2, 5, 4, 3][..], &segments(8192), &[0]].concat(),
    ));
    assert_eq!(client.session.peer_capabilities().request_limit, 3);
    client.events.clear();
    client.receive(&operation(
        8,
        CALL,
        4,
        &[&[2, 5, 4, 2][..], &segments(16_384)].concat(),
    ));
    assert_eq!(client.events, [Event::PropertiesChanged]);
    let abilities = client.session.peer_capabilities();
    assert_eq!(
        (
            abilities.request_limit,
            abilities.structure.unwrap().target_count()
        ),
        (2, 1)
    );
    assert_eq!(client.session.peer_properties().receive_buffer_size, 16_384);
}
