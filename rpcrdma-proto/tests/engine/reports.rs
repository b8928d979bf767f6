//! Errors and reports about groups of rtrext-02 that arrive late, twice, or for several
//! transmissions.

use rpcrdma_proto::connection::{Action, CallFailure, CloseReason, Config, SendOwner};
use rpcrdma_proto::continuation::{GroupError, Mismatch, RtrExtConfig};
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::{CallSpec, MethodPreference, ResultPlacement, ResultSpec};

use crate::groups::{
    LONG, LONG_REPLY, SHORT, answered, arrived, plain, reports, sent, transmissions, warm,
};
use crate::pair::{End, exchange, key, words, works};

fn ends() -> (End, End) {
    warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    )
}

/// A number that has 1 in its low byte is not the number one.
// spec: rtr-9.4-b, rtr-9.5-i
#[test]
fn transmission_number_has_32_bits() {
    for number in [257, 0x0001_0001, 0x0100_0001] {
        let (mut client, mut server) = ends();
        let (_, mut packets) = transmissions(&mut client, &LONG);
        // Fixed words, the operation, its length; then the number.
        assert_eq!(packets[1].word(7), 1);
        packets[1].bytes[28..32].copy_from_slice(&u32::to_be_bytes(number));
        for packet in &packets[..2] {
            server.receive(&packet.bytes);
        }
        let mismatch = Mismatch {
            expected: 1,
            received: number,
        };
        assert_eq!(reports(&server), [(GroupError::Sequence(mismatch), false)]);
    }
}

/// A reply may invalidate a key of its call with any of its transmissions, and the fence learns of
/// it.
// spec: v2-2.2-b
#[test]
fn the_first_of_several_transmissions_may_invalidate() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Explicit,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    let call = CallSpec {
        max_reply: 86_000,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    for at in 0..5 {
        let (mut client, mut server) =
            warm(plain(rtr, Config::client()), plain(rtr, Config::server()));
        let (served, xid, _) = sent(&mut client, &mut server, &call);
        server.session.reply(served, 16_384, &[]).unwrap();
        let mut packets = Vec::new();
        while let Some(packet) = server.send() {
            packets.push(packet.bytes);
        }
        assert_eq!(packets.len(), 5);
        let mine = key(xid, 1);
        for (number, packet) in packets.iter().enumerate() {
            client.receive_with(packet, (number == at).then_some(mine));
        }
        let fence = Action::Fence {
            xid,
            invalidated: Some(mine),
        };
        assert!(client.actions.contains(&fence), "the transmission {at}");
        assert_eq!((client.replies(xid).len(), client.closing()), (1, None));
    }
}

/// The owner of a key that an abandoned group invalidated is unknown, so the connection is closed.
#[test]
fn abandoned_group_that_invalidated_closes_the_connection() {
    let (mut client, mut server) = ends();
    let (served, _, _) = sent(&mut client, &mut server, &LONG_REPLY);
    server.session.reply(served, 16_384, &[]).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = server.send() {
        packets.push(packet.bytes);
    }
    client.receive_with(&packets[0], Some(99));
    assert_eq!(client.closing(), None);
    client.receive(&packets[2]);
    assert_eq!(client.closing(), Some(CloseReason::Invalidated));
}

/// The report of the transmission `number` of the reply to a call, which is told as out of order.
fn report_of_reply(xid: u32, number: u32) -> Vec<u8> {
    // The bad transmission: XID, direction, number; no first one; BADSEQ with both numbers.
    let info = [xid, 1, number, 0, 4, 1, number];
    words(&[&[xid, 2, 32, 5, 0, 8, 28][..], &info].concat())
}

/// A reply of several transmissions that is short enough for one.
fn replied(holds: bool) -> (End, End, u32, Vec<SendOwner>) {
    let (mut client, mut server) = ends();
    server.holds.releasing = holds;
    let call = CallSpec {
        max_reply: 70_000,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    let (served, xid, _) = sent(&mut client, &mut server, &call);
    server.session.reply(served, 3_000, &[]).unwrap();
    let mut owners = Vec::new();
    while let Some(packet) = server.send() {
        owners.push(packet.what);
    }
    (client, server, xid, owners)
}

/// A reply is retransmitted once, for any number of reports. If it is no longer retained, an error
/// ends its call.
// spec: rtr-5.4-m
#[test]
fn reply_is_retransmitted_once() {
    for holds in [false, true] {
        let (mut client, mut server, xid, owners) = replied(holds);
        // Two reports about one group, before the reply could go again.
        for number in [1, 2] {
            server.receive(&report_of_reply(xid, number));
        }
        if holds {
            assert!(server.send().is_none(), "its memory is with its Send");
            server.released(owners[0]);
        }
        let again = server.send().unwrap();
        assert_eq!((again.word(0), again.word(3)), (xid, 0), "inline");
        assert!(server.send().is_none(), "once");
        // Now it is reported once more.
        server.receive(&report_of_reply(xid, 1));
        let error = server.send().unwrap();
        assert_eq!(
            (error.word(0), error.word(3), error.word(4)),
            (xid, 4, 2),
            "an error ends the call"
        );
        assert!(server.send().is_none());
        client.receive(&again.bytes);
        assert_eq!(client.replies(xid).len(), 1);
        if holds {
            server.released(again.what);
        }
        server.holds.releasing = false;
        client.receive(&error.bytes);
        client.events.clear();
        works(&mut client, &mut server);
        assert_eq!(server.session.outstanding(), (0, 0));
    }
}

/// Each transmission of one call causes an error: the first reports the unknown operation, and the
/// call is retransmitted by other means; the others are stale.
// spec: rtr-5.1-b
#[test]
fn errors_of_one_group_count_once() {
    let (mut client, mut server) = ends();
    let (xid, packets) = transmissions(&mut client, &LONG);
    let unknown = words(&[xid, 2, 32, 4, 3]);
    client.receive(&unknown);
    exchange(&mut client, &mut server);
    let (call, _, message) = arrived(&mut server);
    assert!(message.is_none(), "by other means");
    for _ in 1..packets.len() {
        client.receive(&unknown);
    }
    assert_eq!(client.failures(xid), []);
    assert_eq!(client.session.counters().unexpected, 0);
    // One more is about the call as it is now.
    client.receive(&unknown);
    assert_eq!(
        client.failures(xid),
        [CallFailure::Peer(PeerError::Operation)]
    );
    server.session.reply(call, 200, &[]).unwrap();
    exchange(&mut client, &mut server);
    client.events.clear();
    works(&mut client, &mut server);
    // The knowledge holds for the connection.
    let (call, again, messages) = sent(&mut client, &mut server, &LONG);
    assert_eq!(messages, 1);
    answered(&mut client, &mut server, (call, again), 200, &[]);
}

/// A call may have the XID of a reply that interrupted it: the report names both, and the call is
/// retransmitted.
// spec: rtr-5.4-i, rtr-5.4-j
#[test]
fn report_of_two_messages_with_one_xid_concerns_both() {
    let (mut client, mut server) = ends();
    let (xid, _) = transmissions(&mut client, &LONG);
    // The bad transmission, a reply; the first one of the group, a call; BADOMT with both codes.
    let info = [xid, 1, 0, 1, xid, 0, 0, 2, 7, 6];
    client.receive(&words(&[&[xid, 2, 32, 5, 0, 8, 40][..], &info].concat()));
    exchange(&mut client, &mut server);
    let (call, again, message) = arrived(&mut server);
    assert_eq!((again, message.is_none()), (xid, true));
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

/// An undecodable continuation of a reply interrupts a call with its XID: the report names the
/// call, which is retransmitted.
// spec: rtr-5.4-c, rtr-9.5-b
#[test]
fn an_undecodable_reply_breaks_a_call_with_its_xid() {
    let (mut client, mut server) = ends();
    let (xid, packets) = transmissions(&mut client, &LONG);
    server.receive(&packets[0].bytes);
    // ROPT_XMTCONT without its content.
    server.receive(&words(&[xid, 2, 32, 5, 1, 7, 0]));
    let mismatch = Mismatch {
        expected: 5,
        received: 6,
    };
    assert_eq!(reports(&server), [(GroupError::Operation(mismatch), false)]);
    exchange(&mut client, &mut server);
    let (call, again, message) = arrived(&mut server);
    assert_eq!((again, message.is_none()), (xid, true));
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

/// A property request that interrupts a call is no transmission: the peer reports the broken call,
/// and answers the request, which is not retransmitted.
// spec: rtr-5.4-i
#[test]
fn property_request_that_breaks_a_group_is_sent_once() {
    let (mut client, mut server) = ends();
    let (_, packets) = transmissions(&mut client, &LONG);
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(8192))
        .unwrap();
    let request = client.send().unwrap().bytes;
    server.receive(&packets[0].bytes);
    server.receive(&request);
    assert_eq!(reports(&server).len(), 1);
    let mut sent = Vec::new();
    while let Some(packet) = server.send() {
        sent.push(packet.bytes);
    }
    // ROPT_REPTERR is 8, ROPT_RESPROP is 3.
    let code = |message: &Vec<u8>| message[23];
    assert!(sent.iter().any(|message| code(message) == 8));
    assert!(sent.iter().any(|message| code(message) == 3));
    // The report may arrive first or last.
    sent.sort_by_key(|message| code(message) == 3);
    sent.iter().for_each(|message| client.receive(message));
    let mut again = Vec::new();
    while let Some(packet) = client.send() {
        again.push(packet.bytes);
    }
    assert!(
        again.iter().all(|message| message[..24] != request[..24]),
        "{again:?}"
    );
}

/// A complete group is not reported even if its message is invalid: the consumer decodes the
/// message, and an error answers the call.
// spec: rtr-9.5-c
#[test]
fn invalid_message_of_a_group_is_not_reported() {
    let (mut client, mut server) = ends();
    let (xid, packets) = transmissions(&mut client, &LONG);
    for packet in &packets {
        server.receive(&packet.bytes);
    }
    let (call, ..) = arrived(&mut server);
    server.session.reject(call).unwrap();
    let answer = server.send().unwrap();
    assert_eq!((answer.word(0), answer.word(3)), (xid, 4), "RDMA2_ERROR");
    assert_eq!(reports(&server), []);
    client.receive(&answer.bytes);
    assert_eq!(reports(&client), []);
    assert_eq!(client.failures(xid).len(), 1);
}
