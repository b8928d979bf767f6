//! Replies in transmissions that are kept after they were sent, and what becomes of them when the
//! requester reports them broken.

use rpcrdma_proto::connection::{CloseReason, Config, Event, ReplyError, SendOwner, ServedCallId};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, MethodPreference, ResultItem, ResultPlacement, ResultSpec,
};
use rpcrdma_proto::version::Version;

use crate::groups::{LONG_REPLY, READ, SHORT, arrived, placing, plain, sent, structure, warm};
use crate::pair::{End, Packet, exchange, key, words, works};

/// Microseconds for which replies are kept.
const KEEP: u64 = 500;

/// A call of which the reply takes two transmissions with its result in a target, and fits one
/// buffer as a plain message.
const KEPT: CallSpec<'_> = CallSpec {
    max_reply: 70_000,
    results: &[ResultSpec::whole_call(65_536)],
    ..SHORT
};
const RESULT: DataItem = DataItem {
    position: 4_056,
    length: 65_536,
};

/// The longest reply that fits a buffer of the client as a plain message.
fn largest_plain() -> u32 {
    structure().length() - Version::Two.header_len()
}

fn ends() -> (End, End) {
    let rtr = RtrExtConfig {
        reply_retention: KEEP,
        ..RtrExtConfig::ALL
    };
    warm(
        placing(rtr, Config::client()),
        placing(rtr, Config::server()),
    )
}

/// All messages that an end has.
fn messages(end: &mut End) -> Vec<Packet> {
    std::iter::from_fn(|| end.send()).collect()
}

/// Arrived calls, each answered at its own time, and their retained replies.
fn kept(client: &mut End, server: &mut End, times: &[u64]) -> Vec<(ServedCallId, u32)> {
    let calls: Vec<_> = times
        .iter()
        .map(|_| {
            let (call, xid, _) = sent(client, server, &KEPT);
            (call, xid)
        })
        .collect();
    for ((call, _), now) in calls.iter().zip(times) {
        server.now = *now;
        let result: ResultItem = RESULT.into();
        server
            .session
            .reply(*call, largest_plain(), &[result])
            .unwrap();
        assert_eq!(messages(server).len(), 2);
    }
    let is_end = |event: &Event| matches!(event, Event::CallEnded { .. });
    assert!(!server.events.iter().any(is_end));
    server.events.clear();
    calls
}

/// Nothing is left to be done before the session ends.
fn drains(server: &mut End) {
    server.session.drain();
    server.act();
    assert_eq!(server.closing(), Some(CloseReason::Drained));
}

/// The requester reports the reply to a call as broken.
fn reported(server: &mut End, xid: u32) {
    server.receive(&words(&[xid, 2, 32, 5, 0, 8, 20, xid, 1, 1, 0, 3]));
}

/// The message is a plain reply to this call.
fn is_plain_reply(packet: &Packet, xid: u32) -> bool {
    (packet.word(0), packet.word(3), packet.word(4)) == (xid, 0, 1)
}

/// A reply of threshold length is retransmitted, and then has no timer.
// spec: rtr-5.4-m
#[test]
fn retransmitted_reply_is_not_retained() {
    let (mut client, mut server) = ends();
    let calls = kept(&mut client, &mut server, &[1_000]);
    assert_eq!(server.session.poll_timeout(), Some(1_000 + KEEP));
    reported(&mut server, calls[0].1);
    assert_eq!(server.session.poll_timeout(), None);
    let again = messages(&mut server);
    assert!(again.len() == 1 && is_plain_reply(&again[0], calls[0].1));
    assert_eq!(
        (server.session.poll_timeout(), server.session.outstanding()),
        (None, (0, 0))
    );
    drains(&mut server);
}

/// Each reply is retained for its own time, even if another is retransmitted.
// spec: rtr-5.4-l
#[test]
fn retransmission_keeps_an_earlier_retained_reply() {
    let (mut client, mut server) = ends();
    let calls = kept(&mut client, &mut server, &[1_000, 1_100]);
    reported(&mut server, calls[1].1);
    assert_eq!(messages(&mut server).len(), 1);
    assert_eq!(
        (server.session.poll_timeout(), server.session.outstanding()),
        (Some(1_000 + KEEP), (0, 1))
    );
    server.session.timeout(1_000 + KEEP);
    assert_eq!(
        (server.session.poll_timeout(), server.session.outstanding()),
        (None, (0, 0))
    );
    drains(&mut server);
}

/// The time for which a reply is kept may be over before its Send is: then it ends with that.
#[test]
fn reply_ends_with_a_send_longer_than_its_retention() {
    let (mut client, mut server) = ends();
    server.holds.releasing = true;
    let calls = kept(&mut client, &mut server, &[1_000]);
    server.session.timeout(1_000 + KEEP);
    assert_eq!(server.session.outstanding(), (0, 1));
    let reply = SendOwner::Reply { call: calls[0].0 };
    assert!(server.session.released(reply));
    assert_eq!(server.session.outstanding(), (0, 0));
}

/// The later of two goes first again: nothing is due when the other has gone, too.
#[test]
fn ended_reply_has_no_timer() {
    let (mut client, mut server) = ends();
    let calls = kept(&mut client, &mut server, &[1_000, 1_100]);
    for (_, xid) in calls.iter().rev() {
        reported(&mut server, *xid);
        let again = messages(&mut server);
        assert!(again.len() == 1 && is_plain_reply(&again[0], *xid));
    }
    assert_eq!(
        (server.session.poll_timeout(), server.session.outstanding()),
        (None, (0, 0))
    );
}

/// A reply that waits to go again is sent, although the time is over for which it was kept.
#[test]
fn retransmitted_reply_does_not_expire() {
    let (mut client, mut server) = ends();
    let calls = kept(&mut client, &mut server, &[1_000, 1_100]);
    reported(&mut server, calls[1].1);
    server.session.timeout(1_100 + KEEP);
    server.act();
    let ended = Event::CallEnded {
        call: calls[0].0,
        answered: true,
    };
    assert_eq!(server.events.last(), Some(&ended));
    let again = messages(&mut server);
    assert!(again.len() == 1 && is_plain_reply(&again[0], calls[1].1));
}

/// No reply is kept for another connection, and no timer is due for one.
#[test]
fn no_reply_is_retained_beyond_the_connection() {
    let (mut client, mut server) = ends();
    kept(&mut client, &mut server, &[1_000]);
    server.lose(1_100);
    assert_eq!(
        (server.session.poll_timeout(), server.session.outstanding()),
        (None, (0, 0))
    );
}

/// A reply of which a transmission was not sent was not sent.
#[test]
fn interrupted_reply_is_not_an_answer() {
    for keep in [0, KEEP] {
        let rtr = RtrExtConfig {
            reply_retention: keep,
            ..RtrExtConfig::ALL
        };
        let (mut client, mut server) = warm(
            plain(RtrExtConfig::ALL, Config::client()),
            plain(rtr, Config::server()),
        );
        let (call, ..) = sent(&mut client, &mut server, &LONG_REPLY);
        server.session.reply(call, 16_384, &[]).unwrap();
        assert!(server.send().is_some());
        server.lose(1);
        let ends = server.events.iter().filter_map(|event| match event {
            Event::CallEnded {
                call: ended,
                answered,
            } if *ended == call => Some(*answered),
            _ => None,
        });
        assert_eq!(ends.collect::<Vec<_>>(), [false], "kept for {keep}");
    }
}

/// Results that were written by RDMA are inline in the retransmission.
#[test]
fn retransmitted_reply_has_no_rdma_writes() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Explicit,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    let (mut client, mut server) = warm(
        placing(rtr, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let (call, xid, _) = sent(&mut client, &mut server, &READ);
    let result = DataItem {
        position: 100,
        length: 60_000,
    };
    server
        .session
        .reply(call, 60_200, &[result.into()])
        .unwrap();
    assert_eq!(server.session.writes(call).count(), 1);
    messages(&mut server);
    reported(&mut server, xid);
    assert_eq!(server.session.writes(call).count(), 0);
    let again = messages(&mut server);
    assert!(again.len() == 1 && is_plain_reply(&again[0], xid));
}

/// Further reports before the retransmission are stale.
// spec: rtr-5.4-n
#[test]
fn repeated_report_retransmits_a_reply_once() {
    let (mut client, mut server) = ends();
    let calls = kept(&mut client, &mut server, &[1_000]);
    reported(&mut server, calls[0].1);
    reported(&mut server, calls[0].1);
    let sent = messages(&mut server);
    assert!(sent.len() == 1 && is_plain_reply(&sent[0], calls[0].1));
    assert_eq!(server.session.counters().unexpected, 0);
}

/// A reply to a call without directions goes as a plain message as long as it fits one.
// spec: rtr-5.2-d
#[test]
fn reply_of_threshold_length_is_inline() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let fits = 4_096 - Version::Two.header_len();
    for (length, messages) in [(fits, 1), (fits + 4, 2)] {
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        server.session.reply(call, length, &[]).unwrap();
        assert_eq!(exchange(&mut client, &mut server), messages);
        let reply = client.replies(xid).pop().unwrap();
        assert_eq!(reply.reassembled.is_some(), messages > 1);
    }
}

/// A Send that invalidates is the only one of its reply.
// spec: xc3-3.2-a
#[test]
fn a_reply_in_one_transmission_may_invalidate() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::Explicit,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    };
    let client = Config {
        remote_invalidation: true,
        ..plain(rtr, Config::client())
    };
    let server = Config {
        send_with_invalidate: true,
        ..plain(RtrExtConfig::ALL, Config::server())
    };
    let (mut client, mut server) = warm(client, server);
    let call = CallSpec {
        max_reply: 65_700 + 8_000,
        ..READ
    };
    let result = DataItem {
        position: 100,
        length: 65_536,
    };
    for (length, count) in [(65_700, 1), (65_700 + 8_000, 3)] {
        let (served, xid, _) = sent(&mut client, &mut server, &call);
        server
            .session
            .reply(served, length, &[result.into()])
            .unwrap();
        let packets = messages(&mut server);
        let keys: Vec<_> = packets.iter().map(|packet| packet.invalidate).collect();
        let wanted = Some(key(xid, 1)).filter(|_| count == 1);
        assert_eq!(keys, vec![wanted; count]);
        for packet in packets {
            client.receive_with(&packet.bytes, packet.invalidate);
        }
        assert_eq!(client.replies(xid).len(), 1);
    }
}

/// Replies that wait go one after the other, without anything between.
#[test]
fn each_poll_has_the_next_reply() {
    let (mut client, mut server) = ends();
    let calls: Vec<_> = (0..2)
        .map(|_| sent(&mut client, &mut server, &READ).0)
        .collect();
    let result = DataItem {
        position: 100,
        length: 65_536,
    };
    for call in &calls {
        server
            .session
            .reply(*call, 65_640, &[result.into()])
            .unwrap();
    }
    server.act();
    let mut buffer = vec![0; 1 << 17];
    for call in calls {
        let transmit = server.session.poll_transmit(0, &mut buffer).unwrap();
        assert_eq!(transmit.owner, SendOwner::Reply { call });
        assert!(transmit.is_last() && transmit.transmission.is_some());
    }
}

/// A call that has ended has no memory, no Sends and no answer.
#[test]
fn ended_call_leaves_no_state() {
    let (mut client, mut server) = ends();
    let xid = client.session.call(&SHORT, None).unwrap();
    exchange(&mut client, &mut server);
    let (call, ..) = arrived(&mut server);
    server.session.reply(call, 200, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(xid).len(), 1);
    assert!(!server.session.has_writes(call));
    assert!(!server.session.released(SendOwner::Reply { call }));
    assert_eq!(server.session.reject(call), Err(ReplyError::Ended));
    works(&mut client, &mut server);
}
