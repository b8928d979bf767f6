//! Changes of properties that the peer asks for.

use rpcrdma_proto::connection::{Action, BufferId, Config, Event, PropertyError, SendOwner};
use rpcrdma_proto::property::{BasicProperty, PropertyValues};
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::pair::{NULL, REPLY, exchange, pair, settled, words, works};
use crate::properties::{
    CALL, DRAFTS, REPLY_DIRECTION, call, client_of, growing, operation, server_of, sized, travels,
    update,
};

/// A requested smaller size limits the requester's Sends at once, until the answer differs
/// (decision D17).
// spec: xc3-1.3-d, xc3-3.1-h, xc3-3.1-i, xc3-3.1-j, xc3-4.2-a, xc3-4.1-h
// spec: xc2-1.3-d, xc2-3.1-h, xc2-3.1-i, xc2-3.1-j, xc2-4.2-a
#[test]
fn requested_smaller_size_limits_the_requesters_sends() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), sized(16_384, server_of(draft)));
        works(&mut client, &mut server);
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(8192))
            .unwrap();
        assert_eq!(
            client
                .session
                .request_property(BasicProperty::ReceiveBufferSize(4096)),
            Err(PropertyError::Busy)
        );
        let xid = client.session.call(&call(16_000, 24), None).unwrap();
        let (asked, long) = (client.send().unwrap(), client.send().unwrap());
        assert_eq!(
            asked.bytes,
            words(&[asked.word(0), 2, 32, 5, CALL, 2, 16, 1, 1, 4, 8192])
        );
        assert_eq!((long.word(0), long.bytes.len()), (xid, 56));
        server.actions.clear();
        server.receive(&asked.bytes);
        assert_eq!(server.session.properties().receive_buffer_size, 8192);
        let answer = server.send().unwrap();
        assert_eq!(
            answer.bytes,
            words(&[asked.word(0), 2, 32, 5, REPLY_DIRECTION, 3, 16, 1, 1, 0, 0])
        );
        client.receive(&answer.bytes);
        let size = BasicProperty::ReceiveBufferSize(8192);
        let told = Event::PropertyAnswered {
            requested: size,
            value: Some(size),
        };
        assert!(client.events.contains(&told));
        server.receive(&long.bytes);
        let given = server.arrived()[0];
        server.session.reply(given, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(travels(&mut client, &mut server, 8164, 24).0, 56);
        assert_eq!(travels(&mut client, &mut server, 8160, 24).0, 8192);
        assert!(server.actions.contains(&Action::PostReceives {
            count: 1,
            size: 8192
        }));
    }
}

/// An update to a larger size before the answer has crossed the request, which may still be
/// granted. It lifts the limit once the request is answered (decision D17).
// spec: xc3-3.1-j
#[test]
fn an_update_to_a_larger_size_lifts_the_limit_when_the_request_is_answered() {
    let (mut client, mut server) = settled(Config::client(), sized(16_384, Config::server()));
    works(&mut client, &mut server);
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(8192))
        .unwrap();
    let asked = client.send().unwrap().word(0);
    for (size, bytes) in [(8192, 56), (12_288, 56)] {
        client.receive(&operation(77, CALL, 4, &[1, 1, 4, size]));
        client.session.call(&call(10_000, 24), None).unwrap();
        assert_eq!(
            client.send().unwrap().bytes.len(),
            bytes,
            "after an update to {size}"
        );
    }
    client.receive(&operation(asked, REPLY_DIRECTION, 3, &[0, 1, 1, 0]));
    let asked = BasicProperty::ReceiveBufferSize(8192);
    assert!(client.events.contains(&Event::PropertyAnswered {
        requested: asked,
        value: None
    }));
    client.session.call(&call(10_000, 24), None).unwrap();
    assert_eq!(client.send().unwrap().bytes.len(), 10_032);
}

/// A size that is larger than the current one, and smaller than one that crosses the request, is a
/// smaller size to the peer.
// spec: xc3-3.1-j, xc2-3.1-j
#[test]
fn requested_larger_size_limits_sends() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), growing(server_of(draft)));
        works(&mut client, &mut server);
        let size = BasicProperty::ReceiveBufferSize;
        client.session.request_property(size(5000)).unwrap();
        let asked = client.send().unwrap().word(0);
        client.receive(&operation(77, CALL, 4, &update(draft, 1, 12_288)));
        client.session.call(&call(10_000, 24), None).unwrap();
        let sent = client.send().unwrap().bytes.len();
        assert_eq!(sent, 56, "a larger size holds, and 5000 may by now");
        client.receive(&operation(asked, REPLY_DIRECTION, 3, &[1, 1, 0, 0]));
        client.session.call(&call(10_000, 24), None).unwrap();
        assert_eq!(client.send().unwrap().bytes.len(), 56, "5000 is granted");
    }
}

/// Below what every receiver takes another value is set, or none; then the old limit holds again.
// spec: xc3-3.1-j, xc3-4.3-a
#[test]
fn size_below_the_minimum_is_not_set() {
    for (size, now) in [
        (16_384, Some(BasicProperty::ReceiveBufferSize(4096))),
        (4096, None),
    ] {
        let (mut client, mut server) = settled(Config::client(), sized(size, Config::server()));
        works(&mut client, &mut server);
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(2048))
            .unwrap();
        let xid = client.session.call(&call(3000, 24), None).unwrap();
        let (asked, long) = (client.send().unwrap(), client.send().unwrap());
        assert_eq!(
            (long.word(0), long.bytes.len()),
            (xid, 56),
            "2048 until the answer"
        );
        server.receive(&asked.bytes);
        server.receive(&long.bytes);
        let given = server.arrived()[0];
        server.session.reply(given, REPLY, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert!(client.events.contains(&Event::PropertyAnswered {
            requested: BasicProperty::ReceiveBufferSize(2048),
            value: now
        }));
        assert_eq!(travels(&mut client, &mut server, 4064, 24).0, 4096);
        assert_eq!(travels(&mut client, &mut server, 4068, 24).0, 56);
    }
}

/// A larger size is rejected at first, and announced when the old receives are gone.
// spec: xc3-3.1-g, xc3-3.1-j, xc3-4.2-a
#[test]
fn a_larger_size_follows_by_an_update() {
    let server = Config {
        max_receive_size: 12_288,
        ..Config::server()
    };
    let (mut client, mut server) = settled(Config::client(), server);
    works(&mut client, &mut server);
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(65_536))
        .unwrap();
    exchange(&mut client, &mut server);
    assert!(client.events.contains(&Event::PropertyAnswered {
        requested: BasicProperty::ReceiveBufferSize(65_536),
        value: None
    }));
    for _ in 0..=server.session.posted_receives() {
        works(&mut client, &mut server);
    }
    assert_eq!(
        client.session.peer_properties().receive_buffer_size,
        12_288,
        "no more than it has"
    );
    assert_eq!(travels(&mut client, &mut server, 12_256, 24).0, 12_288);
}

/// A request of the peer for a smaller size does not undo the consumer's larger size.
#[test]
fn request_does_not_reduce_a_pending_larger_size() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), growing(server_of(draft)));
        works(&mut client, &mut server);
        server
            .session
            .set_property(BasicProperty::ReceiveBufferSize(16_384))
            .unwrap();
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(8192))
            .unwrap();
        for _ in 0..=2 * server.session.posted_receives() {
            works(&mut client, &mut server);
        }
        assert_eq!(client.session.peer_properties().receive_buffer_size, 16_384);
    }
}

/// Replies that were made for the larger size go before the request for the smaller one.
// spec: xc3-3.1-j
// spec: xc2-3.1-j
#[test]
fn queued_replies_precede_a_request() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(sized(16_384, client_of(draft)), server_of(draft));
        works(&mut client, &mut server);
        let xid = client.session.call(&call(40, 16_000), None).unwrap();
        exchange(&mut client, &mut server);
        let given = server.arrived()[0];
        server.session.reply(given, 16_000, &[]).unwrap();
        server
            .session
            .request_property(BasicProperty::ReceiveBufferSize(4096))
            .unwrap();
        let reply = server.send().unwrap();
        assert_eq!((reply.word(0), reply.bytes.len()), (xid, 16_032));
        assert_eq!(server.send().unwrap().word(5), 2, "then the ROPT_REQPROP");
    }
}

/// A reply may have to wait until another is released, and the request with it: nothing else goes
/// in its place.
#[test]
fn a_request_waits_with_the_replies() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(
            client_of(draft),
            Config {
                max_served: 1,
                ..server_of(draft)
            },
        );
        works(&mut client, &mut server);
        server.holds.releasing = true;
        let mut given = Vec::new();
        for _ in 0..2 {
            client.session.call(&NULL, None).unwrap();
            exchange(&mut client, &mut server);
            let call = server.arrived()[0];
            given.push(call);
            // So that other calls might go, too.
            assert!(server.session.peer_ready(call));
            server.session.reply(call, REPLY, &[]).unwrap();
            exchange(&mut client, &mut server);
        }
        server
            .session
            .request_property(BasicProperty::RemoteInvalidation(true))
            .unwrap();
        assert!(
            server.send().is_none(),
            "the second reply waits for the first to be released"
        );
        server.released(SendOwner::Reply { call: given[0] });
        assert_eq!(
            server.send().unwrap().what,
            SendOwner::Reply { call: given[1] }
        );
        let packet = server.send().unwrap();
        assert_eq!((packet.what, packet.word(5)), (SendOwner::Header, 2));
    }
}

/// Each of several changes has its answer: made, not made, or made otherwise.
// spec: xc3-4.3-a, xc3-4.3-b, xc3-4.2-a, xc3-4.2-b, xc3-4.2-c, xc3-4-k, xc3-4-l
#[test]
fn each_change_is_answered_separately() {
    let client = Config {
        backward_support: Bkreqsup::Genl,
        ..sized(16_384, Config::client())
    };
    let (mut client, mut server) = settled(client, Config::server());
    works(&mut client, &mut server);
    // Less support, impossible invalidation, an unknown property, and a size below the minimum. The
    // XID is that of an open call: it need not differ.
    let own = client.session.call(&NULL, None).unwrap();
    client.send().unwrap();
    let info = [4, 3, 4, 1, 2, 4, 1, 99, 0, 1, 4, 1024];
    client.receive(&operation(own, CALL, 2, &info));
    let answer = client.send().unwrap();
    assert_eq!(
        answer.bytes,
        words(&[
            own,
            2,
            8,
            5,
            REPLY_DIRECTION,
            3,
            32,
            1,
            0b0001,
            1,
            0b0110,
            1,
            1,
            4,
            4096
        ])
    );
    assert_eq!(
        *client.session.properties(),
        PropertyValues {
            receive_buffer_size: 4096,
            remote_invalidation: false,
            backward_support: Bkreqsup::Inline
        }
    );
    assert_eq!(
        client.session.outstanding().0,
        1,
        "the call is still to be answered"
    );
}

/// As many requests as are granted are answered, even in a burst.
// spec: xc3-4.3-a, bd-4.1-d
// spec: xc2-4.3-a
#[test]
fn as_many_requests_as_were_granted_are_answered() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), server_of(draft));
        works(&mut client, &mut server);
        for xid in 1..=32 {
            server.receive(&operation(xid, CALL, 2, &[0]));
        }
        assert_eq!(server.closing(), None);
        for xid in 1..=32 {
            let answer = server.send().unwrap();
            assert_eq!((answer.word(0), answer.word(5)), (xid, 3));
        }
    }
}

/// A property that the peer announced as fixed, or did not announce, is not requested (decision
/// D18).
// spec: xc3-3-h, xc3-3-i
#[test]
fn fixed_property_is_not_requested() {
    for draft in DRAFTS {
        let (mut client, _) = pair(client_of(draft), server_of(draft));
        let ask = client.send().unwrap();
        client.receive(&operation(7, CALL, 1, &[2, 1, 4, 8192, 2, 4, 0, 1, 0b10]));
        client.receive(&operation(ask.word(0), REPLY_DIRECTION, 3, &[0, 0, 0]));
        assert_eq!(
            client
                .session
                .request_property(BasicProperty::RemoteInvalidation(true)),
            Err(PropertyError::Fixed)
        );
        assert_eq!(
            client
                .session
                .request_property(BasicProperty::BackwardSupport(Bkreqsup::None)),
            Err(PropertyError::Fixed)
        );
        assert_eq!(
            client
                .session
                .request_property(BasicProperty::ReceiveBufferSize(16_384)),
            Ok(())
        );
        // Neither does an update of it count.
        client.receive(&operation(8, CALL, 4, &update(draft, 2, 1)));
        assert!(!client.session.peer_properties().remote_invalidation);
    }
}

/// A peer that answers by an error, wrongly, or not before the connection is gone has rejected.
// spec: xc3-3-m, xc3-3.1-j
#[test]
fn request_with_an_invalid_answer_counts_as_rejected() {
    for answer in ["error", "malformed", "lost"] {
        let (mut client, mut server) = settled(Config::client(), sized(16_384, Config::server()));
        works(&mut client, &mut server);
        client.events.clear();
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(8192))
            .unwrap();
        let xid = client.send().unwrap().word(0);
        match answer {
            "error" => client.receive(&words(&[xid, 2, 1, 4, 3])),
            "malformed" => client.receive(&operation(xid, REPLY_DIRECTION, 3, &[5])),
            _ => client.lose(1),
        }
        let told = |event: &&Event| {
            **event
                == Event::PropertyAnswered {
                    requested: BasicProperty::ReceiveBufferSize(8192),
                    value: None,
                }
        };
        assert_eq!(client.events.iter().filter(told).count(), 1, "{answer}");
        if answer != "lost" {
            assert_eq!(
                travels(&mut client, &mut server, 16_352, 24).0,
                16_384,
                "{answer}: the limit is gone"
            );
        }
    }
}

/// The consumer learns that its receive buffers became smaller because the peer asked for it.
// spec: xc3-3.1-j, xc2-3.1-j
#[test]
fn size_lowered_by_the_peer_is_reported() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), sized(8192, server_of(draft)));
        server.events.clear();
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(4096))
            .unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(server.session.properties().receive_buffer_size, 4096);
        assert_eq!(server.events, [Event::PropertiesChanged]);
    }
}

/// The consumer learns of any property that changes at the peer's request, and of no other request.
// spec: xc3-3.1-j, xc2-3.1-j
#[test]
fn property_changed_by_the_peer_is_reported() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), sized(4096, server_of(draft)));
        let none = BasicProperty::BackwardSupport(Bkreqsup::None);
        for events in [&[Event::PropertiesChanged][..], &[]] {
            client.events.clear();
            server.session.request_property(none).unwrap();
            exchange(&mut client, &mut server);
            let held = client.session.properties().backward_support;
            assert_eq!((held, &*client.events), (Bkreqsup::None, events));
        }
        server.events.clear();
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(4096))
            .unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(server.events, [], "the size is the same");
    }
}

/// A larger size that the peer asks for holds at once where no receive of the old size is posted.
// spec: xc3-3.1-g, xc2-3.1-g
#[test]
fn larger_size_applies_at_once_without_smaller_receives() {
    for draft in DRAFTS {
        let (mut client, mut server) = settled(client_of(draft), growing(server_of(draft)));
        client
            .session
            .request_property(BasicProperty::ReceiveBufferSize(8192))
            .unwrap();
        let request = client.send().unwrap();
        // An error that answers nothing.
        let error = words(&[77, 2, 1, 4, 2]);
        let mut receive = |bytes: &[u8]| {
            let _ = server.session.received(BufferId(900), bytes, None);
            server.session.posted_receives()
        };
        while receive(&error) > 1 {}
        assert_eq!(receive(&request.bytes), 0);
        assert_eq!(server.session.properties().receive_buffer_size, 8192);
    }
}
