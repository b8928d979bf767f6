//! Groups of rtrext-02, word by word, and their use, which the announced capabilities decide.

use rpcrdma_proto::connection::{Action, CallFailure, Config};
use rpcrdma_proto::continuation::{GroupError, Mismatch, Reduction, RtrExtConfig, Source};
use rpcrdma_proto::transfer::{
    CallSpec, DataItem, GroupPlan, MethodPreference, ResultItem, ResultPlacement, ResultSpec,
    TransferMethod,
};
use rpcrdma_proto::v2::properties::Bkreqsup;

use crate::groups::{
    LONG, LONG_REPLY, SHORT, answered, arrived, expected, placing, plain, reports, sent,
    transmissions, warm, whole, write,
};
use crate::pair::{End, Packet, REPLY, exchange, key, words};

const CALL: u32 = 0;
pub(crate) const XMTREQ: u32 = 5;
pub(crate) const XMTRESP: u32 = 6;
const XMTCONT: u32 = 7;
const REPTERR: u32 = 8;

/// Every possible message is sent in transmissions.
pub(crate) const GROUPS: RtrExtConfig = RtrExtConfig {
    preference: MethodPreference::Groups,
    ..RtrExtConfig::ALL
};

/// How a call goes in transmissions, if it does.
pub(crate) fn grouped(end: &End, xid: u32) -> Option<GroupPlan> {
    match end.session.transfer_plan(xid).unwrap().method {
        TransferMethod::Grouped(grouped) => Some(grouped),
        _ => None,
    }
}

/// The messages of a reply, not delivered yet.
pub(crate) fn replying(
    server: &mut End,
    call: rpcrdma_proto::connection::ServedCallId,
    length: u32,
    results: &[ResultItem],
) -> Vec<Packet> {
    server.session.reply(call, length, results).unwrap();
    std::iter::from_fn(|| server.send()).collect()
}

/// The words of an operation: the fixed ones, the operation, and its content.
pub(crate) fn operation(
    xid: u32,
    credits: u32,
    direction: u32,
    code: u32,
    info: &[&[u32]],
) -> Vec<u8> {
    let info = info.concat();
    let bytes = u32::try_from(4 * info.len()).unwrap();
    words(&[&[xid, 2, credits, 5, direction, code, bytes][..], &info].concat())
}

// ---- Word by word
// ---------------------------------------------------------------------------------------------------

// spec: rtr-3.3-c, rtr-4.2-b, rtr-6.2-a, rtr-6.2-k, rtr-6.2-l, rtr-6.2-p, rtr-6.2-q, rtr-6.2-r
// spec: rtr-6.2-ab, rtr-6.2-ac
// spec: rtr-6.2-ad, rtr-7.1-g, rtr-7.1-h, rtr-7.3-a, rtr-7.3-b, rtr-7.3-g, rtr-7.3-h, rtr-7.3-i
// spec: rtr-7.3-j, rtr-7.4-a
// spec: rtr-7.4-b, rtr-7.4-g, rtr-7.4-q, rtr-7.4-t, rtr-7.4-z, rtr-9.1-a, rtr-9.1-b, rtr-9.1-c
// spec: rtr-9.1-d, rtr-9.1-e
// spec: rtr-9.1-i, rtr-9.1-j, rtr-9.2-a, rtr-9.2-b, rtr-9.2-c, rtr-9.2-f, rtr-9.2-g
#[test]
fn call_describes_its_items_and_directions() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::BySize(32_768),
        ..GROUPS
    };
    let (mut client, mut server) = warm(
        placing(rtr, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let items = [
        DataItem {
            position: 120,
            length: 65_536,
        },
        DataItem {
            position: 65_660,
            length: 1_000_000,
        },
    ];
    let call = CallSpec {
        max_reply: 66_000,
        results: &[ResultSpec::whole_call(65_536)],
        ..write(&items)
    };
    let (xid, packets) = transmissions(&mut client, &call);
    let [packet] = packets.as_slice() else {
        panic!("one transmission")
    };
    // Position, length, XMPTYPE_TBSN, its offset, and one target; and XMPTYPE_EXRW with one
    // segment.
    let placed = [120, 65_536, 2, 0, 1, 0];
    let read = [65_660, 1_000_000, 1, 1, key(xid, 1), 1_000_000, 0, 4096];
    // A range, one direction: its least length, XMPTYPE_BYSIZE, the size, and one segment.
    let directed = [
        0,
        call.length,
        1,
        1024,
        4,
        32_768,
        1,
        key(xid, 2),
        65_536,
        0,
        4096,
    ];
    let section = call.length - 65_536 - 1_000_000;
    let header = operation(
        xid,
        client.session.config().credits,
        CALL,
        XMTREQ,
        &[&[2], &placed, &read, &[1], &directed, &[1, 0, section]],
    );
    assert_eq!(packet.bytes[..packet.header], header);
    let stream = expected(xid, false, 200);
    assert_eq!(
        packet.bytes[packet.header..][..120],
        stream[..120],
        "the Payload stream begins right behind"
    );
    assert_eq!(packet.bytes.len(), 4096 + 65_536);
    server.receive(&packet.bytes);
    exchange(&mut client, &mut server);
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

// spec: rtr-3.3-c, rtr-4.2-b, rtr-6.2-m, rtr-6.2-n, rtr-6.2-o, rtr-6.2-p, rtr-6.2-w, rtr-6.2-x
// spec: rtr-6.2-y, rtr-6.2-ab
// spec: rtr-6.2-ac, rtr-6.2-af, rtr-6.2-ag, rtr-7.1-g, rtr-7.3-c, rtr-7.3-d, rtr-7.4-h, rtr-7.4-j
// spec: rtr-7.4-k, rtr-7.4-x
// spec: rtr-9.1-a, rtr-9.1-b, rtr-9.1-c, rtr-9.1-f, rtr-9.3-a, rtr-9.3-b, rtr-9.3-c, rtr-9.3-d
#[test]
fn reply_describes_each_direction() {
    let rtr = RtrExtConfig {
        placement: ResultPlacement::BySize(32_768),
        ..GROUPS
    };
    let (mut client, mut server) = warm(
        placing(rtr, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let call = CallSpec {
        max_reply: 200_000,
        results: &[
            ResultSpec::whole_call(65_536),
            ResultSpec::whole_call(16_384),
            ResultSpec::whole_call(8_192),
            ResultSpec::whole_call(8_192),
        ],
        ..SHORT
    };
    let (served, xid, _) = sent(&mut client, &mut server, &call);
    let results = [(100, 40_000), (40_104, 5_001), (45_200, 100)]
        .map(|(position, length)| DataItem { position, length }.into());
    let packets = replying(&mut server, served, 45_400, &results);
    let [packet] = packets.as_slice() else {
        panic!("one transmission")
    };
    let written = [100, 40_000, 1, 1, key(xid, 1), 40_000, 0, 4096];
    let placed = [40_104, 5_001, 2, 0, 1, 0];
    let (short, none) = ([45_200, 100, 5], [0, 0, 6]);
    let section = 45_400 - 40_000 - 5_004;
    let credits = packet.word(2);
    let header = operation(
        xid,
        credits,
        1,
        XMTRESP,
        &[&[4], &written, &placed, &short, &none, &[1, section]],
    );
    assert_eq!(packet.bytes[..packet.header], header);
    assert_eq!(
        packet.bytes[packet.header..][..100],
        expected(xid, true, 100)
    );
    assert_eq!(packet.bytes.len(), 4096 + 5_001);
    client.receive(&packet.bytes);
    let reply = client.replies(xid).pop().unwrap();
    let message = reply.reassembled.unwrap();
    assert_eq!(reply.results.as_slice(), [40_000, 0, 0, 0]);
    let results: Vec<_> = message
        .items
        .iter()
        .map(|item| (item.result, item.reduction.clone()))
        .collect();
    let hows = [
        Reduction::Explicit(0..1),
        Reduction::Placed(0..1),
        Reduction::TooShort,
        Reduction::NoItem,
    ];
    assert_eq!(
        results,
        hows.into_iter()
            .enumerate()
            .map(|(at, how)| (Some(at), how))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        whole(&client, &message, xid, true),
        expected(xid, true, 45_400)
    );
}

// spec: rtr-4.2-a, rtr-4.2-c, rtr-6.1-a, rtr-6.1-b, rtr-6.2-c, rtr-6.2-d, rtr-9.1-g, rtr-9.1-i
// spec: rtr-9.1-k, rtr-9.1-l
// spec: rtr-9.4-a, rtr-9.4-b, rtr-9.4-d, rtr-9.4-e, rtr-9.4-g, rtr-9.4-h
#[test]
fn the_transmissions_of_a_message_are_counted_and_numbered() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (xid, packets) = transmissions(&mut client, &LONG);
    check_group(
        &packets,
        xid,
        (CALL, XMTREQ),
        &[&[0], &[0], &[5, 0]],
        LONG.length,
    );
    for packet in &packets {
        server.receive(&packet.bytes);
    }
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    let packets = replying(&mut server, call, 16_384, &[]);
    check_group(&packets, xid, (1, XMTRESP), &[&[0], &[5]], 16_384);
}

/// A message of five transmissions in plain buffers, whose first operation says this and the length
/// of its section.
fn check_group(
    packets: &[Packet],
    xid: u32,
    (direction, opener): (u32, u32),
    says: &[&[u32]],
    length: u32,
) {
    assert_eq!(packets.len(), 5);
    let mut stream = Vec::new();
    for (number, packet) in (0..).zip(packets) {
        let section = u32::try_from(packet.bytes.len() - packet.header).unwrap();
        let sections = [section];
        let header = match number {
            0 => operation(
                xid,
                packet.word(2),
                direction,
                opener,
                &[says, &[&sections]].concat(),
            ),
            number => operation(
                xid,
                packet.word(2),
                direction,
                XMTCONT,
                &[&[number, opener, section]],
            ),
        };
        assert_eq!(
            packet.bytes[..packet.header],
            header,
            "transmission {number}"
        );
        stream.extend_from_slice(&packet.bytes[packet.header..]);
    }
    assert_eq!(
        stream,
        expected(xid, direction == 1, length),
        "the sections are the whole message"
    );
}

// spec: rtr-5.4-h, rtr-6.1-a, rtr-9.1-a, rtr-9.1-b, rtr-9.1-c, rtr-9.1-d, rtr-9.1-h, rtr-9.5-m
// spec: rtr-9.5-n, rtr-9.5-o
// spec: rtr-9.5-p, rtr-9.5-s, rtr-9.5-t, rtr-9.5-u
#[test]
fn a_report_names_the_bad_transmission_the_first_one_and_the_values() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (xid, packets) = transmissions(&mut client, &LONG);
    server.receive(&packets[0].bytes);
    server.receive(&packets[2].bytes);
    let report = server.send().unwrap();
    // The bad transmission, the one that may have caused it, and OPTRERR_BADSEQ with the expected
    // and the received number.
    let info = [&[xid, CALL, 2][..], &[1, xid, CALL, 0], &[4, 1, 2]];
    assert_eq!(
        report.bytes,
        operation(xid, report.word(2), 1, REPTERR, &info),
        "a responder reports as REPLY"
    );
    assert!(report.word(2) > 0);
    client.receive(&report.bytes);
    assert_eq!(
        reports(&client),
        [(
            GroupError::Sequence(Mismatch {
                expected: 1,
                received: 2
            }),
            true
        )]
    );
    // Without one that led to it, and without values; of a reply it is the requester that reports.
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    let packets = replying(&mut server, call, 16_384, &[]);
    client.receive(&packets[1].bytes);
    let report = client.send().unwrap();
    assert_eq!(
        report.bytes,
        operation(
            xid,
            report.word(2),
            CALL,
            REPTERR,
            &[&[xid, 1, 1], &[0], &[3]]
        )
    );
}

/// All other messages wait: errors, reports, replies and calls.
// spec: rtr-4.2-d
#[test]
fn group_is_never_interrupted() {
    let client = Config {
        backward_support: Bkreqsup::Inline,
        ..plain(RtrExtConfig::ALL, Config::client())
    };
    let (mut client, mut server) = warm(client, plain(RtrExtConfig::ALL, Config::server()));
    let xid = client.session.call(&LONG, None).unwrap();
    let mut packets = vec![client.send().unwrap()];
    // An unknown operation, a continuation without a group, a call, and an operation of the client.
    client.receive(&operation(700, 1, CALL, 77, &[]));
    client.receive(&operation(701, 1, CALL, XMTCONT, &[&[1, XMTREQ, 0]]));
    client.receive(&words(&[702, 2, 1, 0, CALL, 0, 0, 0, 702, CALL, 0, 0]));
    let served = client.arrived()[0];
    client.session.reply(served, REPLY, &[]).unwrap();
    let short = client.session.call(&SHORT, None).unwrap();
    packets.extend(std::iter::from_fn(|| client.send()));
    let found: Vec<_> = packets
        .iter()
        .map(|packet| (packet.word(0), packet.word(3)))
        .collect();
    let group = [(xid, 5); 5];
    assert_eq!(found[..5], group);
    assert_eq!(found[5..], [(700, 4), (701, 5), (702, 0), (short, 0)]);
    packets
        .iter()
        .for_each(|packet| server.receive(&packet.bytes));
    assert_eq!(server.arrived().len(), 2);
}

/// Data begin at their offset in the first target, go on from the beginning of the next, and end
/// with the item.
// spec: rtr-7.1-j, rtr-7.3-e
#[test]
fn data_continue_in_the_next_target() {
    let (mut client, mut server) = warm(
        placing(RtrExtConfig::ALL, Config::client()),
        placing(RtrExtConfig::ALL, Config::server()),
    );
    let items = [DataItem {
        position: 120,
        length: 200_000,
    }];
    let (xid, mut packets) = transmissions(&mut client, &write(&items));
    assert_eq!(packets.len(), 4);
    assert_eq!(
        packets[0].bytes[28..68],
        words(&[1, 120, 200_000, 2, 0, 4, 0, 1, 2, 3])
    );
    // Another item than was sent: a shorter one, which begins later.
    packets[0].bytes[36..48].copy_from_slice(&words(&[100_001, 2, 128]));
    packets
        .iter()
        .for_each(|packet| server.receive(&packet.bytes));
    let (_, found, message) = arrived(&mut server);
    let message = message.unwrap();
    let places: Vec<_> = message
        .places
        .iter()
        .map(|place| (place.range.start, place.range.end))
        .collect();
    let of_it = vec![(4096 + 128, 4096 + 65_536), (4096, 4096 + 34_593)];
    assert_eq!(
        (found, places),
        (xid, of_it),
        "the other targets have nothing of it"
    );
    assert_eq!(message.length, 200 + 100_004);
    let from: Vec<_> = message
        .sources()
        .skip(1)
        .take(2)
        .map(source_length)
        .collect();
    assert_eq!(from, [65_408, 34_593]);
}

fn source_length(source: Source) -> u32 {
    match source {
        Source::Received { from, .. } => from.range.end - from.range.start,
        Source::Read { from, .. } => from.length,
        Source::Padding { length, .. } => length,
    }
}

// ---- What is broken
// -------------------------------------------------------------------------------------------------

/// A call that was reported broken goes by other means; if it is reported again, the consumer
/// learns of it.
// spec: rtr-5.4-k
#[test]
fn a_call_that_is_reported_twice_fails() {
    let (mut client, mut server) = warm(
        plain(RtrExtConfig::ALL, Config::client()),
        plain(RtrExtConfig::ALL, Config::server()),
    );
    let xid = client.session.call(&LONG, None).unwrap();
    exchange(&mut client, &mut server);
    let why = GroupError::HeaderType(Mismatch {
        expected: 5,
        received: 0,
    });
    let report = operation(xid, 8, 1, REPTERR, &[&[xid, CALL, 0], &[0], &[1, 5, 0]]);
    client.receive(&report);
    assert!(
        client.send().is_some_and(|packet| packet.word(3) == 1),
        "it goes as RDMA2_NOMSG"
    );
    client.receive(&report);
    assert_eq!(
        (reports(&client), client.failures(xid)),
        (vec![(why, true); 2], vec![CallFailure::Group(why)])
    );
    assert_eq!(
        client
            .actions
            .iter()
            .filter(|action| matches!(action, Action::Fence { .. }))
            .count(),
        1
    );
}
