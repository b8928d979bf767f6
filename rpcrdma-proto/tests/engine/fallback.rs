//! Messages that were to go in transmissions of rtrext-02, and go otherwise or not at all; and what
//! an end learns of its peer meanwhile.

use rpcrdma_proto::connection::{CallFailure, Config, Event, PayloadPiece, Properties, SendOwner};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultPlacement, TransferError, TransferMethod,
};
use rpcrdma_proto::v2::properties::{
    Bkreqsup, PROP_RBSIZ, PROP_REQREMINV, ROPT_CONNPROP, ROPT_UPDPROP,
};
use rpcrdma_proto::version::Version;

use crate::groups::{
    LONG, LONG_REPLY, READ, SHORT, answered, arrived, placing, plain, sent, transmissions, warm,
    write,
};
use crate::pair::{
    End, NULL, Packet, REPLY, both_ways, exchange, one, pair, reconnect, settled, words, works,
};
use crate::transmissions::{GROUPS, XMTREQ, grouped, operation};

fn messages(end: &mut End) -> Vec<Packet> {
    std::iter::from_fn(|| end.send()).collect()
}

fn ends() -> (End, End) {
    warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    )
}

/// A call that was to go in transmissions goes at once as a plain message where the peer has
/// meanwhile told of larger buffers, which it fits.
#[test]
fn call_with_a_stale_plan_is_replanned_at_once() {
    let (mut client, _server) = ends();
    let xid = client.session.call(&LONG, None).unwrap();
    client.act();
    assert!(grouped(&client, xid).is_some());
    client.receive(&words(&[
        77,
        2,
        1,
        5,
        0,
        ROPT_UPDPROP,
        16,
        1,
        PROP_RBSIZ,
        4,
        32_768,
    ]));
    let before = client.session.counters().sent;
    let mut buffer = vec![0; 1 << 16];
    let transmit = client.session.poll_transmit(0, &mut buffer).unwrap();
    assert_eq!(transmit.owner, SendOwner::Call { xid });
    assert_eq!(
        (transmit.transmission, transmit.inline),
        (None, LONG.length)
    );
    assert_eq!(client.session.counters().sent, before + 1);
}

/// A call that has its credits, and of which the grant has fallen below them meanwhile, takes no
/// transmissions: where nothing is in flight, nothing else would bring them back.
// spec: rtr-4.3-c
#[test]
fn call_does_not_wait_for_credits_that_nothing_returns() {
    let (mut client, mut server) = ends();
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let xid = client.session.call(&LONG, None).unwrap();
    client.act();
    assert_eq!(grouped(&client, xid).unwrap().count, 5);
    server.session.grant_up_to(1);
    let call = server.arrived()[0];
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut server, &mut client);
    assert_eq!(
        client.session.transfer_plan(xid).unwrap().method,
        TransferMethod::Long
    );
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

/// Each transmission of a group that was broken may be reported: all but the first report say
/// nothing new, and are expected.
// spec: rtr-5.4-i
#[test]
fn further_reports_of_a_call_are_expected() {
    let (mut client, mut server) = ends();
    let (xid, packets) = transmissions(&mut client, &LONG);
    packets[1..]
        .iter()
        .for_each(|packet| server.receive(&packet.bytes));
    let reports = messages(&mut server);
    assert_eq!(reports.len(), 4);
    for report in reports {
        client.receive(&report.bytes);
    }
    assert_eq!(client.session.counters().unexpected, 0);
    exchange(&mut client, &mut server);
    let (call, found, message) = arrived(&mut server);
    assert_eq!((found, message), (xid, None));
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

/// A question about properties between the transmissions of a call breaks that alone: the report
/// names a message that was sent.
// spec: rtr-5.4-i
#[test]
fn error_report_may_name_a_property_request() {
    let (mut client, mut server) = ends();
    let (xid, packets) = transmissions(&mut client, &LONG);
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(4096))
        .unwrap();
    let question = client.send().unwrap();
    server.receive(&packets[0].bytes);
    server.receive(&question.bytes);
    exchange(&mut client, &mut server);
    let reported = client.events.iter().find_map(|event| match event {
        Event::GroupFailed { report, .. } => Some((report.bad.xid, report.lead.unwrap().xid)),
        _ => None,
    });
    assert_eq!(reported, Some((question.word(0), xid)));
    assert_eq!(client.session.counters().unexpected, 0);
    let (call, found, message) = arrived(&mut server);
    assert_eq!((found, message), (xid, None));
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

/// A call whose operation was not known goes without rtrext-02 from then on, also to an end that
/// knows it.
// spec: rtr-5.1-b
#[test]
fn call_of_an_unknown_operation_is_retransmitted_without_rtrext() {
    let tries = RtrExtConfig {
        probe: true,
        ..GROUPS
    };
    let (mut client, mut server) = settled(plain(tries, Config::client()), Config::server());
    let xid = client.session.call(&SHORT, None).unwrap();
    let attempt = client.send().unwrap();
    assert_eq!((attempt.word(3), attempt.word(5)), (5, XMTREQ));
    server.receive(&attempt.bytes);
    client.receive(&server.send().unwrap().bytes);
    let mut other = End::new(plain(GROUPS, Config::server()));
    other.keeps = true;
    reconnect(&mut client, &mut other);
    exchange(&mut client, &mut other);
    let (call, found, message) = arrived(&mut other);
    assert_eq!((found, message), (xid, None));
    answered(&mut client, &mut other, (call, xid), 200, &[]);
    let (_, xid, _) = sent(&mut client, &mut other, &SHORT);
    assert!(grouped(&client, xid).is_some(), "another call does");
}

/// A server whose client takes calls without chunks, in transmissions.
fn calling_back() -> (End, End) {
    let client = Config {
        backward_support: Bkreqsup::Inline,
        ..plain(GROUPS, Config::client())
    };
    let (mut client, mut server) = both_ways(client, plain(GROUPS, Config::server()));
    (client.keeps, server.keeps) = (true, true);
    (client, server)
}

/// A call that no number of credits allows fails at once, even with calls in flight.
// spec: rtr-4.3-c
#[test]
fn call_without_a_transfer_method_does_not_wait_for_credits() {
    let (mut client, mut server) = calling_back();
    server.session.call(&NULL, None).unwrap();
    exchange(&mut server, &mut client);
    let call = CallSpec {
        length: 1_000_000,
        ..SHORT
    };
    let xid = server.session.call(&call, None).unwrap();
    exchange(&mut server, &mut client);
    assert_eq!(
        server.failures(xid),
        [CallFailure::Transfer(TransferError::CallTooLong)]
    );
}

/// Where a call in one transmission is not known, replies may take several all the same.
// spec: rtr-5.1-b, rtr-5.1-c
#[test]
fn unknown_request_operation_does_not_refute_replies() {
    let (mut client, mut server) = calling_back();
    server.session.call(&SHORT, None).unwrap();
    let attempt = server.send().unwrap();
    assert_eq!((attempt.word(3), attempt.word(5)), (5, XMTREQ));
    server.receive(&words(&[attempt.word(0), 2, 8, 4, 3]));
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    server.session.reply(call, 16_384, &[]).unwrap();
    exchange(&mut client, &mut server);
    let reply = client.replies(xid).pop().unwrap();
    assert_eq!(reply.reassembled.unwrap().buffers.len(), 5);
}

/// A report that answers a call grants credits like any message of a responder; one about a reply
/// is a requester's, which asks for them.
// spec: v2-4.2.2-g, rtr-5.4-h
#[test]
fn error_report_of_a_responder_grants_credits() {
    let (mut client, mut server) = both_ways(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (xid, packets) = transmissions(&mut client, &LONG);
    assert_eq!((packets.len(), client.session.available_credits()), (5, 27));
    let report = |direction: u32, xid| {
        let bad = [xid, 1 - direction, 0, 0, 3];
        operation(xid, 6, direction, 8, &[&bad])
    };
    client.receive(&report(1, xid));
    // The call may still be in four buffers of its responder, and takes a credit to go again.
    assert_eq!(client.session.available_credits(), 6 - 4 - 1);
    exchange(&mut client, &mut server);
    let before = server.session.available_credits();
    server.receive(&report(0, xid));
    assert_eq!(server.session.available_credits(), before);
    works(&mut server, &mut client);
}

/// Reports wait in a number that a peer cannot raise.
// spec: rtr-5.4-h
#[test]
fn reports_to_one_peer_are_bounded() {
    let (mut client, mut server) = ends();
    let (_, packets) = transmissions(&mut client, &LONG);
    for _ in 0..20 {
        server.receive(&packets[1].bytes);
    }
    assert_eq!(server.session.counters().refused, 20);
    assert_eq!(messages(&mut server).len(), 8);
}

/// A call in one transmission settles the version like any other.
// spec: v2-5.3-a
#[test]
fn call_in_a_group_settles_the_version() {
    let (_, mut server) = pair(Config::client(), plain(RtrExtConfig::ALL, Config::server()));
    let xid = 0x0bad_cafe;
    let payload = words(&[xid, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let call = [operation(xid, 1, 0, XMTREQ, &[&[0, 0, 1, 0, 40]]), payload].concat();
    server.receive(&call);
    assert_eq!(server.session.version(), Some(Version::Two));
    assert_eq!(server.arrived().len(), 1);
}

/// Capabilities of a peer are ignored if it turns out to support only Version One.
// spec: v2-5.2-c
#[test]
fn no_groups_in_version_one() {
    let (mut other, mut server) = pair(
        plain(GROUPS, Config::client()),
        plain(GROUPS, Config::server()),
    );
    server.receive(&other.send().unwrap().bytes);
    let told = messages(&mut server)
        .into_iter()
        .find(|packet| packet.word(5) == ROPT_CONNPROP)
        .unwrap();
    let (mut client, mut old) = pair(plain(GROUPS, Config::client()), one(Config::server()));
    let question = client.send().unwrap();
    client.receive(&told.bytes);
    old.receive(&question.bytes);
    let xid = client.session.call(&SHORT, None).unwrap();
    exchange(&mut old, &mut client);
    assert_eq!(client.session.version(), Some(Version::One));
    assert_eq!(grouped(&client, xid), None);
    assert_eq!(old.arrived().len(), 1);
}

/// rtrext-02 needs Version Two and properties.
// spec: rtr-2-a
#[test]
fn the_extension_needs_version_two_and_properties() {
    let call = operation(7, 1, 0, XMTREQ, &[&[0, 0, 1, 0, 40]]);
    let with_rtr = plain(RtrExtConfig::ALL, Config::server());
    assert!(End::new(with_rtr.clone()).session.is_fragment(&call));
    let without = Config {
        properties: Properties::None,
        ..with_rtr.clone()
    };
    for config in [without, one(with_rtr)] {
        assert!(!End::new(config).session.is_fragment(&call));
    }
}

/// The header of a call has the planned length, for any directions.
// spec: rtr-9.2-c
#[test]
fn a_header_is_as_long_as_planned() {
    let placements = [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(32_768),
    ];
    for placement in placements {
        let rtr = RtrExtConfig {
            placement,
            preference: MethodPreference::Groups,
            ..RtrExtConfig::ALL
        };
        let (mut client, _server) = warm(
            placing(rtr, Config::client()),
            placing(RtrExtConfig::ALL, Config::server()),
        );
        let xid = client.session.call(&READ, None).unwrap();
        let packet = client.send().unwrap();
        let plan = client.session.transfer_plan(xid).unwrap();
        assert_eq!(plan.header as usize, packet.header, "{placement:?}");
        assert!(!plan.write_chunks && plan.reply_chunk.is_none());
    }
}

/// No piece of a message is empty: not where data follow the stream without a gap, either.
// spec: rtr-7.2-c
#[test]
fn a_transmission_has_no_empty_piece() {
    let (mut client, _server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let mut pieces = |position, length| {
        let items = [DataItem {
            position,
            length: 65_536,
        }];
        let call = CallSpec {
            length,
            ..write(&items)
        };
        client.session.call(&call, None).unwrap();
        client.act();
        let mut buffer = vec![0; 1 << 20];
        let transmit = client.session.poll_transmit(0, &mut buffer).unwrap();
        let pieces: Vec<_> = client.session.payload_pieces(&transmit).collect();
        let header = u32::try_from(transmit.header).unwrap();
        // Those that follow go before another call.
        while client.send().is_some() {}
        (header, pieces)
    };
    let (header, _) = pieces(120, 65_536 + 200);
    let stream = 4096 - header;
    // The stream ends where the item begins that is in its place.
    let (_, found) = pieces(stream, 65_536 + stream + 400);
    assert_eq!(
        found,
        [
            PayloadPiece::Bytes(0..stream),
            PayloadPiece::Data(stream..65_536 + stream)
        ]
    );
    let (_, found) = pieces(120, 65_536 + stream);
    assert_eq!(
        found,
        [
            PayloadPiece::Bytes(0..120),
            PayloadPiece::Bytes(65_656..65_536 + stream),
            PayloadPiece::Data(120..65_656)
        ]
    );
}

/// A reply that lost its transfer method returns its share of the receives.
#[test]
fn reply_without_a_transfer_method_keeps_the_receives() {
    let client = Config {
        receive_size: 8_192,
        ..plain(RtrExtConfig::ALL, Config::client())
    };
    let (mut client, mut server) = warm(client, plain(RtrExtConfig::ALL, Config::server()));
    // While a call is served.
    let posted = |client: &mut End, server: &mut End| {
        let (call, xid, _) = sent(client, server, &NULL);
        let posted = server.session.posted_receives();
        answered(client, server, (call, xid), REPLY, &[]);
        posted
    };
    let lower = |server: &mut End, size| {
        let size = BasicProperty::ReceiveBufferSize(size);
        server.session.request_property(size).unwrap();
    };
    // A question of its own takes a receive for its answer from then on.
    lower(&mut server, 8_000);
    exchange(&mut client, &mut server);
    let before = posted(&mut client, &mut server);
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    server.session.reply(call, 16_384, &[]).unwrap();
    lower(&mut server, 5_000);
    server.receive(&words(&[
        77,
        2,
        1,
        5,
        0,
        ROPT_UPDPROP,
        16,
        1,
        PROP_REQREMINV,
        4,
        1,
    ]));
    exchange(&mut client, &mut server);
    let error = CallFailure::Peer(PeerError::Header);
    assert_eq!(client.failures(xid), [error]);
    client.events.clear();
    assert_eq!(posted(&mut client, &mut server), before);
}
