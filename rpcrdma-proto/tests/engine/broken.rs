//! Broken groups of rtrext-02: their reports, and the fate of their calls and replies.

use rpcrdma_proto::chunk::{ChunkLimits, Segment};
use rpcrdma_proto::connection::{CallFailure, CallRegion, CloseReason, Config, Event, SendOwner};
use rpcrdma_proto::continuation::{GroupError, Mismatch, Reduction, RtrExtConfig};
use rpcrdma_proto::error::{PeerError, RefusalReason};
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultItem, ResultPlacement, ResultSpec,
};
use rpcrdma_proto::v2::properties::{PROP_RBSIZ, PROP_REQREMINV, ROPT_UPDPROP};

use crate::groups::{
    LONG, LONG_REPLY, READ, SHORT, answered, arrived, expected, placing, plain, reports, sent,
    transmissions, warm, whole, write,
};
use crate::pair::{Packet, exchange, pass, reconnect, words, works};

/// The rest of a group that was refused is passed over, but not that of another on the next
/// connection.
// spec: rtr-5.4-d, rtr-9.5-g
#[test]
fn next_connection_skips_no_transmission() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (_, packets) = transmissions(&mut client, &LONG);
    server.receive(&packets[0].bytes);
    server.receive(&packets[0].bytes);
    assert_eq!(reports(&server).len(), 1, "it came twice");
    server.receive(&packets[1].bytes);
    assert_eq!(reports(&server).len(), 1, "the rest says nothing more");
    reconnect(&mut client, &mut server);
    exchange(&mut client, &mut server);
    server.events.clear();
    server.receive(&packets[1].bytes);
    assert_eq!(
        reports(&server),
        [(GroupError::Continuation, false)],
        "it continues nothing here"
    );
}

/// Each broken group is reported, and the call is retransmitted by other means and served once.
// spec: rtr-4.2-d, rtr-5.4-d, rtr-5.4-f, rtr-5.4-g, rtr-5.4-i, rtr-5.4-j, rtr-9.5-g, rtr-9.5-h
// spec: rtr-9.5-i
#[test]
fn call_of_a_broken_group_is_retransmitted_without_rtrext() {
    type Breaks = fn(&mut Vec<Packet>);
    let cases: [(&str, Breaks, usize); 6] = [
        ("one is missing", |packets| drop(packets.remove(2)), 1),
        (
            "one is doubled",
            |packets| packets.insert(2, packets[2].clone()),
            1,
        ),
        ("two are exchanged", |packets| packets.swap(2, 3), 1),
        ("the first is missing", |packets| drop(packets.remove(0)), 4),
        (
            "the last is of another XID",
            |packets| packets[4].bytes[3] ^= 1,
            1,
        ),
        (
            "one says another operation",
            |packets| packets[2].bytes[35] ^= 3,
            1,
        ),
    ];
    for (what, breaks, count) in cases {
        let (mut client, mut server) = warm(
            plain(RtrExtConfig::ALL, Config::client()),
            plain(RtrExtConfig::ALL, Config::server()),
        );
        let (xid, mut packets) = transmissions(&mut client, &LONG);
        assert_eq!(packets.len(), 5);
        breaks(&mut packets);
        for packet in &packets {
            server.receive(&packet.bytes);
        }
        exchange(&mut client, &mut server);
        assert_eq!(reports(&server).len(), count, "{what}");
        assert!(reports(&client).iter().any(|(_, ours)| *ours), "{what}");
        let (call, found, message) = arrived(&mut server);
        assert_eq!((found, message), (xid, None), "{what}");
        assert!(server.arrived().is_empty(), "{what}: it is served once");
        answered(&mut client, &mut server, (call, xid), 200, &[]);
        for _ in 0..40 {
            works(&mut client, &mut server);
        }
        assert_eq!(
            (client.session.outstanding(), server.session.outstanding()),
            ((0, 0), (0, 0)),
            "{what}"
        );
    }
}

/// Retained transmissions are returned when the rest does not arrive: after a report, after
/// silence, and with the connection.
#[test]
fn buffers_of_an_abandoned_group_are_freed() {
    type Breaks = fn(&mut Vec<Packet>);
    let cases: [(&str, Breaks); 4] = [
        ("one is missing", |packets| drop(packets.remove(2))),
        ("the last is of another XID", |packets| {
            packets[4].bytes[3] ^= 1
        }),
        ("the last is cut off", |packets| {
            packets[4].bytes.truncate(36)
        }),
        ("the last is missing", |packets| drop(packets.pop())),
    ];
    for (what, breaks) in cases {
        let (mut client, mut server) = warm(
            plain(RtrExtConfig::ALL, Config::client()),
            plain(RtrExtConfig::ALL, Config::server()),
        );
        let (_, mut packets) = transmissions(&mut client, &LONG);
        breaks(&mut packets);
        packets
            .iter()
            .for_each(|packet| server.receive(&packet.bytes));
        if what == "the last is missing" {
            assert_eq!(server.forgotten(), 4);
            server.lose(1);
        }
        assert_eq!(server.forgotten(), 0, "{what}");
    }
}

/// A reply to a cancelled call retains no buffers.
#[test]
fn buffers_of_a_late_reply_are_freed() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    server.session.reply(call, 16_384, &[]).unwrap();
    assert!(pass(&mut server, &mut client));
    client.session.cancel(xid);
    assert!(exchange(&mut client, &mut server) > 1);
    assert_eq!(
        (client.failures(xid), client.forgotten()),
        (vec![CallFailure::Cancelled], 0)
    );
}

/// The first transmission is reported to the peer, and the others are not.
#[test]
fn rest_of_a_refused_group_is_not_counted_as_dropped() {
    let limits = ChunkLimits {
        max_bytes: 8_192,
        ..ChunkLimits::DEFAULT
    };
    let server = Config {
        limits,
        ..plain(
            RtrExtConfig {
                request_limit: 3,
                ..RtrExtConfig::ALL
            },
            Config::server(),
        )
    };
    let (mut client, mut server) = warm(plain(RtrExtConfig::ALL, Config::client()), server);
    let (xid, mut packets) = transmissions(
        &mut client,
        &CallSpec {
            length: 9_000,
            ..SHORT
        },
    );
    // It says that there are more than are taken.
    packets[0].bytes[39] = 9;
    packets
        .iter()
        .for_each(|packet| server.receive(&packet.bytes));
    let counters = server.session.counters();
    assert_eq!((counters.refused, counters.dropped), (1, 0));
    exchange(&mut client, &mut server);
    assert_eq!(client.failures(xid), [CallFailure::Peer(PeerError::Header)]);
}

/// Broken groups of a peer are reported while the consumer polls events.
#[test]
fn broken_groups_do_not_suppress_later_reports() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (_, packets) = transmissions(&mut client, &LONG);
    for _ in 0..100 {
        server.receive(&packets[1].bytes);
    }
    assert_eq!(reports(&server).len(), 100);
}

// spec: rtr-4.2-d, rtr-9.5-e
#[test]
fn interleaved_calls_are_both_broken_and_retransmitted() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (long, mut packets) = transmissions(&mut client, &LONG);
    let (short, more) = transmissions(&mut client, &SHORT);
    packets.splice(2..2, more);
    for packet in &packets {
        server.receive(&packet.bytes);
    }
    let mismatch = Mismatch {
        expected: 5,
        received: 0,
    };
    assert_eq!(
        reports(&server),
        [(GroupError::HeaderType(mismatch), false)]
    );
    assert!(server.arrived().is_empty(), "neither was taken");
    let refusal = server.session.take_refusal().unwrap();
    let reason = RefusalReason::Group(GroupError::HeaderType(mismatch));
    assert_eq!((refusal.xid, refusal.reason), (long, reason));
    exchange(&mut client, &mut server);
    let mut found: Vec<_> = (0..2).map(|_| arrived(&mut server).1).collect();
    found.sort_unstable();
    let mut wanted = vec![long, short];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

// spec: rtr-5.4-h, rtr-5.4-l, rtr-5.4-m, rtr-5.4-n
#[test]
fn broken_reply_is_retransmitted_inline_or_ends_its_call() {
    // The second is more than one transmission for its data alone, and would fit one buffer without
    // being placed.
    let result = [DataItem {
        position: 4_056,
        length: 65_536,
    }
    .into()];
    let large = CallSpec {
        max_reply: 70_000,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    type Case<'a> = (
        fn(RtrExtConfig, Config) -> Config,
        CallSpec<'a>,
        u32,
        &'a [ResultItem],
        bool,
    );
    let cases: [Case<'_>; 2] = [
        (plain, LONG_REPLY, 16_384, &[], false),
        (placing, large, 69_596, &result, true),
    ];
    for (config, call, length, results, fits) in cases {
        let (mut client, mut server) = warm(
            config(RtrExtConfig::ALL, Config::client()),
            config(RtrExtConfig::ALL, Config::server()),
        );
        let (served, xid, _) = sent(&mut client, &mut server, &call);
        server.session.reply(served, length, results).unwrap();
        let mut packets = Vec::new();
        while let Some(packet) = server.send() {
            packets.push(packet);
        }
        assert!(packets.len() > 1);
        packets.insert(1, packets[1].clone());
        packets[1].bytes[31] ^= 1;
        packets
            .iter()
            .for_each(|packet| client.receive(&packet.bytes));
        exchange(&mut client, &mut server);
        let found = (client.replies(xid).len(), client.failures(xid));
        let failed = if fits {
            vec![]
        } else {
            vec![CallFailure::Peer(PeerError::Header)]
        };
        assert_eq!(found, (usize::from(fits), failed));
        client.events.clear();
        works(&mut client, &mut server);
        assert_eq!(client.session.outstanding(), (0, 0));
    }
}

/// A retransmission is already counted among the replies in flight.
#[test]
fn retransmitted_reply_passes_the_limit_of_sends() {
    let server = Config {
        max_served: 1,
        ..placing(RtrExtConfig::ALL, Config::server())
    };
    let (mut client, mut server) = warm(placing(RtrExtConfig::ALL, Config::client()), server);
    let call = CallSpec {
        max_reply: 70_000,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    let (served, xid, _) = sent(&mut client, &mut server, &call);
    server
        .session
        .reply(
            served,
            69_596,
            &[DataItem {
                position: 4_056,
                length: 65_536,
            }
            .into()],
        )
        .unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = server.send() {
        packets.push(packet);
    }
    packets.swap(0, 1);
    packets
        .iter()
        .for_each(|packet| client.receive(&packet.bytes));
    exchange(&mut client, &mut server);
    assert_eq!(
        (client.replies(xid).len(), client.failures(xid)),
        (1, vec![])
    );
    client.events.clear();
    works(&mut client, &mut server);
}

/// A key that was not the call's ends the connection, and yet the buffers of its transmissions are
/// free again.
#[test]
fn buffers_of_a_reply_with_a_foreign_key_are_freed() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (call, _, _) = sent(&mut client, &mut server, &LONG_REPLY);
    server.session.reply(call, 16_384, &[]).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = server.send() {
        packets.push(packet.bytes);
    }
    let (last, others) = packets.split_last().unwrap();
    others.iter().for_each(|bytes| client.receive(bytes));
    assert!(client.forgotten() > 0);
    client.receive_with(last, Some(99));
    assert_eq!(client.closing(), Some(CloseReason::Invalidated));
    assert_eq!(client.forgotten(), 0);
}

/// The peer cannot know a call that was not sent.
#[test]
fn unknown_operation_error_ignores_unsent_calls() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let before = client.session.available_credits();
    let xid = client.session.call(&LONG, None).unwrap();
    client.act();
    client.receive(&words(&[xid, 2, 32, 4, 3]));
    assert_eq!(client.session.counters().unexpected, 1);
    exchange(&mut client, &mut server);
    let (call, _, message) = arrived(&mut server);
    assert!(message.is_some(), "it goes in transmissions");
    answered(&mut client, &mut server, (call, xid), 200, &[]);
    assert_eq!(
        (client.session.available_credits(), client.failures(xid)),
        (before, vec![])
    );
}

/// Of an item without bytes there is nothing in its target, where another may be.
#[test]
fn an_item_of_no_bytes_takes_no_target() {
    let (mut client, mut server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let (xid, mut packets) = transmissions(
        &mut client,
        &write(&[DataItem {
            position: 120,
            length: 65_536,
        }]),
    );
    let [mut packet] = <[Packet; 1]>::try_from(packets.split_off(0)).unwrap();
    // One more item before the one that there is, of 24 bytes, in place of as many zeros before
    // the target.
    let word = |at: usize| u32::from_be_bytes(packet.bytes[at..at + 4].try_into().unwrap());
    let (info, count) = (word(24), word(28));
    assert_eq!((count, word(32), word(36)), (1, 120, 65_536));
    let item: Vec<u8> = words(&[120, 0])
        .into_iter()
        .chain(packet.bytes[40..56].iter().copied())
        .collect();
    assert_eq!(item.len(), 24);
    packet.bytes.splice(32..32, item);
    packet.bytes[24..28].copy_from_slice(&(info + 24).to_be_bytes());
    packet.bytes[28..32].copy_from_slice(&2u32.to_be_bytes());
    let zeros = 4096;
    packet.bytes.drain(zeros..zeros + 24);
    server.receive(&packet.bytes);
    let (_, found, message) = arrived(&mut server);
    let message = message.unwrap();
    assert_eq!(
        (found, message.items.len(), message.places.len()),
        (xid, 2, 1)
    );
    assert_eq!(message.items[0].reduction, Reduction::Placed(0..0));
    assert_eq!(
        whole(&server, &message, xid, false),
        expected(xid, false, message.length)
    );
}

#[test]
fn interrupted_group_is_retransmitted_on_the_next_connection() {
    for cut in 0..5 {
        let (mut client, mut server) = warm(
            plain(RtrExtConfig::ALL, Config::client()),
            plain(RtrExtConfig::ALL, Config::server()),
        );
        let xid = client.session.call(&LONG, None).unwrap();
        for _ in 0..cut {
            assert!(pass(&mut client, &mut server));
        }
        crate::pair::reconnect(&mut client, &mut server);
        exchange(&mut client, &mut server);
        let (call, found, _) = arrived(&mut server);
        assert_eq!(found, xid);
        answered(&mut client, &mut server, (call, xid), 200, &[]);
        assert_eq!(
            (client.session.outstanding(), server.session.outstanding()),
            ((0, 0), (0, 0))
        );
    }
}

#[test]
fn interrupted_reply_is_dropped_and_its_memory_freed() {
    for cut in 0..5 {
        let (mut client, mut server) = warm(
            plain(RtrExtConfig::ALL, Config::client()),
            plain(RtrExtConfig::ALL, Config::server()),
        );
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        server.session.reply(call, 16_384, &[]).unwrap();
        for _ in 0..cut {
            assert!(pass(&mut server, &mut client));
        }
        crate::pair::reconnect(&mut client, &mut server);
        assert!(server.session.is_settled());
        exchange(&mut client, &mut server);
        let (call, found, _) = arrived(&mut server);
        assert_eq!(found, xid);
        answered(&mut client, &mut server, (call, xid), 16_384, &[]);
        assert_eq!(client.session.outstanding(), (0, 0));
    }
}

/// A reply in several transmissions is kept until a later call arrives, or for the time that was
/// set.
// spec: rtr-5.4-l
#[test]
fn reply_is_retained_for_its_time() {
    let keep = 500;
    let rtr = RtrExtConfig {
        reply_retention: keep,
        ..RtrExtConfig::ALL
    };
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(rtr, Config::server()),
    );
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    answered(&mut client, &mut server, (call, xid), 16_384, &[]);
    assert_eq!(
        (server.session.outstanding(), server.session.poll_timeout()),
        ((0, 1), Some(server.now + keep))
    );
    server.session.timeout(server.now + keep);
    server.act();
    assert_eq!(
        (server.session.outstanding(), server.session.poll_timeout()),
        ((0, 0), None)
    );
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    answered(&mut client, &mut server, (call, xid), 16_384, &[]);
    works(&mut client, &mut server);
    assert_eq!(server.session.outstanding(), (0, 0));
}

/// A reply whose Send is not released when the connection is lost is dropped.
#[test]
fn reply_is_not_retained_beyond_its_connection() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    server.holds.releasing = true;
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    answered(&mut client, &mut server, (call, xid), 16_384, &[]);
    server.lose(1);
    assert!(!server.session.is_settled());
    server.released(SendOwner::Reply { call });
    server.act();
    assert!(server.session.is_settled());
    assert!(server.events.contains(&Event::CallEnded {
        call,
        answered: true
    }));
}

/// That it was kept when the connection was lost does not make it unsent.
#[test]
fn retained_reply_counts_as_answered() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    answered(&mut client, &mut server, (call, xid), 16_384, &[]);
    server.lose(1);
    assert!(server.events.contains(&Event::CallEnded {
        call,
        answered: true
    }));
}

/// With a retention of zero no reply is retained, and no timer is due.
#[test]
fn reply_is_not_retained_for_zero_time() {
    let rtr = RtrExtConfig {
        reply_retention: 0,
        ..RtrExtConfig::ALL
    };
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(rtr, Config::server()),
    );
    server.now = 5;
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    answered(&mut client, &mut server, (call, xid), 16_384, &[]);
    assert_eq!(
        (server.session.outstanding(), server.session.poll_timeout()),
        ((0, 0), None)
    );
}

/// A ROPT_UPDPROP of one property, with a word.
fn update(which: u32, value: u32) -> Vec<u8> {
    words(&[77, 2, 1, 5, 0, ROPT_UPDPROP, 16, 1, which, 4, value])
}

/// A message that breaks a group and is processed is not what is refused.
// spec: rtr-4.2-d, rtr-9.5-e
#[test]
fn a_property_that_interrupts_a_group_is_applied() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (long, packets) = transmissions(&mut client, &LONG);
    server.receive(&packets[0].bytes);
    assert_eq!(server.session.take_refusal(), None);
    server.receive(&update(PROP_RBSIZ, 16_000));
    let refusal = server.session.take_refusal().unwrap();
    assert_eq!(refusal.xid, long);
    assert!(matches!(refusal.reason, RefusalReason::Group(_)));
    assert_eq!(server.session.counters().dropped, 0);
}

/// The layout of a reply is planned when the consumer answers, and the requester's buffers may
/// change before it is sent.
#[test]
fn reply_uses_the_current_buffer_structure() {
    let sizes = |config| Config {
        receive_size: 8_192,
        ..plain(RtrExtConfig::ALL, config)
    };
    for lowers in [false, true] {
        let (mut client, mut server) = warm(
            sizes(Config::client()),
            plain(RtrExtConfig::ALL, Config::server()),
        );
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        server.session.reply(call, 16_384, &[]).unwrap();
        if lowers {
            server
                .session
                .request_property(BasicProperty::ReceiveBufferSize(5_000))
                .unwrap();
            server.receive(&update(PROP_REQREMINV, 1));
        } else {
            server.receive(&update(PROP_RBSIZ, 16_000));
        }
        exchange(&mut client, &mut server);
        // If it takes more transmissions than were reserved, the call ends by an error.
        let found = (client.replies(xid), client.failures(xid));
        match (
            found.0.first().and_then(|reply| reply.reassembled.as_ref()),
            found.1.as_slice(),
        ) {
            (Some(message), []) => assert_eq!(
                whole(&client, message, xid, true),
                expected(xid, true, 16_384)
            ),
            (None, [CallFailure::Peer(PeerError::Header)]) if lowers => {}
            other => panic!("{lowers}: {other:?}"),
        }
        client.events.clear();
        works(&mut client, &mut server);
    }
}

/// A call in transmissions exposes only the memory of its directions.
#[test]
fn only_read_or_written_regions_are_exposed() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Explicit,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    let (mut client, _server) = warm(
        placing(rtr, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    client.holds.exposing = true;
    let xid = client.session.call(&READ, None).unwrap();
    client.act();
    assert_eq!(
        client
            .session
            .exposures(xid)
            .map(|one| one.region)
            .collect::<Vec<_>>(),
        [CallRegion::Result(0)]
    );
    let none: [&[Segment]; 0] = [];
    client.session.exposed(xid, none);
    assert!(matches!(
        client.failures(xid).as_slice(),
        [] | [CallFailure::Transfer(_)]
    ));
}
