//! Transmissions of rtrext-02, word by word, and when they are used: what each end tells of itself decides.

use rpcrdma_proto::connection::{Action, Config, Failure, Region};
use rpcrdma_proto::continuation::{Broken, How, Mismatch, Operations, Rtr, Source};
use rpcrdma_proto::travel::{Call, Direct, Grouped, Item, Prefer, ResultItem, Wanted, Way};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use crate::groups::{
    LONG, LONG_REPLY, READ, SHORT, answered, arrived, expected, exposes, placing, plain, reports, sent, transmissions,
    warm, whole, write,
};
use crate::pair::{End, Packet, REPLY, both_ways, exchange, key, one, settled, words, works};

const CALL: u32 = 0;
pub(crate) const XMTREQ: u32 = 5;
pub(crate) const XMTRESP: u32 = 6;
const XMTCONT: u32 = 7;
const REPTERR: u32 = 8;

/// Whatever is possible goes in transmissions.
const GROUPS: Rtr = Rtr { prefer: Prefer::Groups, ..Rtr::ALL };

/// How a call goes in transmissions, if it does.
fn grouped(end: &End, xid: u32) -> Option<Grouped> {
    match end.session.travel(xid).unwrap().call {
        Way::Grouped(grouped) => Some(grouped),
        _ => None,
    }
}

/// The messages of a reply, not delivered yet.
pub(crate) fn replying(
    server: &mut End,
    call: rpcrdma_proto::connection::Served,
    length: u32,
    results: &[ResultItem],
) -> Vec<Packet> {
    server.session.reply(call, length, results).unwrap();
    std::iter::from_fn(|| server.send()).collect()
}

/// The words of an operation: the fixed ones, the operation, and what it says.
pub(crate) fn operation(xid: u32, credits: u32, direction: u32, code: u32, info: &[&[u32]]) -> Vec<u8> {
    let info = info.concat();
    let octets = u32::try_from(4 * info.len()).unwrap();
    words(&[&[xid, 2, credits, 5, direction, code, octets][..], &info].concat())
}

// ---- Word by word ---------------------------------------------------------------------------------------------------

// spec: rtr-3.3-c, rtr-4.2-b, rtr-6.2-a, rtr-6.2-k, rtr-6.2-l, rtr-6.2-p, rtr-6.2-q, rtr-6.2-r, rtr-6.2-ab, rtr-6.2-ac
// spec: rtr-6.2-ad, rtr-7.1-g, rtr-7.1-h, rtr-7.3-a, rtr-7.3-b, rtr-7.3-g, rtr-7.3-h, rtr-7.3-i, rtr-7.3-j, rtr-7.4-a
// spec: rtr-7.4-b, rtr-7.4-g, rtr-7.4-q, rtr-7.4-t, rtr-7.4-z, rtr-9.1-a, rtr-9.1-b, rtr-9.1-c, rtr-9.1-d, rtr-9.1-e
// spec: rtr-9.1-i, rtr-9.1-j, rtr-9.2-a, rtr-9.2-b, rtr-9.2-c, rtr-9.2-f, rtr-9.2-g
#[test]
fn a_call_says_where_its_items_are_and_where_its_results_belong() {
    let rtr = Rtr { direct: Direct::BySize(32_768), ..GROUPS };
    let (mut client, mut server) = warm(placing(rtr, Config::client()), placing(Rtr::ALL, Config::server()));
    let items = [Item { position: 120, length: 65_536 }, Item { position: 65_660, length: 1_000_000 }];
    let call = Call { largest_reply: 66_000, results: &[Wanted::of_call(65_536)], ..write(&items) };
    let (xid, packets) = transmissions(&mut client, &call);
    let [packet] = packets.as_slice() else { panic!("one transmission") };
    // Position, length, XMPTYPE_TBSN, its offset, and one target; and XMPTYPE_EXRW with one segment.
    let placed = [120, 65_536, 2, 0, 1, 0];
    let read = [65_660, 1_000_000, 1, 1, key(xid, 1), 1_000_000, 0, 4096];
    // A range, one direction: its least length, XMPTYPE_BYSIZE, the size, and one segment.
    let directed = [0, call.length, 1, 1024, 4, 32_768, 1, key(xid, 2), 65_536, 0, 4096];
    let section = call.length - 65_536 - 1_000_000;
    let header = operation(
        xid,
        client.session.config().credits,
        CALL,
        XMTREQ,
        &[&[2], &placed, &read, &[1], &directed, &[1, 0, section]],
    );
    assert_eq!(packet.octets[..packet.header], header);
    let stream = expected(xid, false, 200);
    assert_eq!(packet.octets[packet.header..][..120], stream[..120], "the Payload stream begins right behind");
    assert_eq!(packet.octets.len(), 4096 + 65_536);
    server.receive(&packet.octets);
    exchange(&mut client, &mut server);
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
}

// spec: rtr-3.3-c, rtr-4.2-b, rtr-6.2-m, rtr-6.2-n, rtr-6.2-o, rtr-6.2-p, rtr-6.2-w, rtr-6.2-x, rtr-6.2-y, rtr-6.2-ab
// spec: rtr-6.2-ac, rtr-6.2-af, rtr-6.2-ag, rtr-7.1-g, rtr-7.3-c, rtr-7.3-d, rtr-7.4-h, rtr-7.4-j, rtr-7.4-k, rtr-7.4-x
// spec: rtr-9.1-a, rtr-9.1-b, rtr-9.1-c, rtr-9.1-f, rtr-9.3-a, rtr-9.3-b, rtr-9.3-c, rtr-9.3-d
#[test]
fn a_reply_says_what_became_of_each_direction() {
    let rtr = Rtr { direct: Direct::BySize(32_768), ..GROUPS };
    let (mut client, mut server) = warm(placing(rtr, Config::client()), placing(Rtr::ALL, Config::server()));
    let call = Call {
        largest_reply: 200_000,
        results: &[Wanted::of_call(65_536), Wanted::of_call(16_384), Wanted::of_call(8_192), Wanted::of_call(8_192)],
        ..SHORT
    };
    let (served, xid, _) = sent(&mut client, &mut server, &call);
    let results =
        [(100, 40_000), (40_104, 5_001), (45_200, 100)].map(|(position, length)| Item { position, length }.into());
    let packets = replying(&mut server, served, 45_400, &results);
    let [packet] = packets.as_slice() else { panic!("one transmission") };
    let written = [100, 40_000, 1, 1, key(xid, 1), 40_000, 0, 4096];
    let placed = [40_104, 5_001, 2, 0, 1, 0];
    let (short, none) = ([45_200, 100, 5], [0, 0, 6]);
    let section = 45_400 - 40_000 - 5_004;
    let credits = packet.word(2);
    let header = operation(xid, credits, 1, XMTRESP, &[&[4], &written, &placed, &short, &none, &[1, section]]);
    assert_eq!(packet.octets[..packet.header], header);
    assert_eq!(packet.octets[packet.header..][..100], expected(xid, true, 100));
    assert_eq!(packet.octets.len(), 4096 + 5_001);
    client.receive(&packet.octets);
    let reply = client.replies(xid).pop().unwrap();
    let message = reply.gathered.unwrap();
    assert_eq!(reply.results.as_slice(), [40_000, 0, 0, 0]);
    let results: Vec<_> = message.items.iter().map(|item| (item.result, item.how.clone())).collect();
    let hows = [How::Explicit(0..1), How::Placed(0..1), How::TooShort, How::NoItem];
    assert_eq!(results, hows.into_iter().enumerate().map(|(at, how)| (Some(at), how)).collect::<Vec<_>>());
    assert_eq!(whole(&client, &message, xid, true), expected(xid, true, 45_400));
}

// spec: rtr-4.2-a, rtr-4.2-c, rtr-6.1-a, rtr-6.1-b, rtr-6.2-c, rtr-6.2-d, rtr-9.1-g, rtr-9.1-i, rtr-9.1-k, rtr-9.1-l
// spec: rtr-9.4-a, rtr-9.4-b, rtr-9.4-d, rtr-9.4-e, rtr-9.4-g, rtr-9.4-h
#[test]
fn the_transmissions_of_a_message_are_counted_and_numbered() {
    let (mut client, mut server) = warm(plain(Rtr::ALL, Config::client()), plain(Rtr::ALL, Config::server()));
    let (xid, packets) = transmissions(&mut client, &LONG);
    check_group(&packets, xid, (CALL, XMTREQ), &[&[0], &[0], &[5, 0]], LONG.length);
    for packet in &packets {
        server.receive(&packet.octets);
    }
    let (call, ..) = arrived(&mut server);
    answered(&mut client, &mut server, (call, xid), 200, &[]);
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    let packets = replying(&mut server, call, 16_384, &[]);
    check_group(&packets, xid, (1, XMTRESP), &[&[0], &[5]], 16_384);
}

/// A message of five transmissions in plain buffers, whose first operation says this and the length of its section.
fn check_group(packets: &[Packet], xid: u32, (direction, opener): (u32, u32), says: &[&[u32]], length: u32) {
    assert_eq!(packets.len(), 5);
    let mut stream = Vec::new();
    for (number, packet) in (0..).zip(packets) {
        let section = u32::try_from(packet.octets.len() - packet.header).unwrap();
        let sections = [section];
        let header = match number {
            0 => operation(xid, packet.word(2), direction, opener, &[says, &[&sections]].concat()),
            number => operation(xid, packet.word(2), direction, XMTCONT, &[&[number, opener, section]]),
        };
        assert_eq!(packet.octets[..packet.header], header, "transmission {number}");
        stream.extend_from_slice(&packet.octets[packet.header..]);
    }
    assert_eq!(stream, expected(xid, direction == 1, length), "the sections are the whole message");
}

// spec: rtr-5.4-h, rtr-6.1-a, rtr-9.1-a, rtr-9.1-b, rtr-9.1-c, rtr-9.1-d, rtr-9.1-h, rtr-9.5-m, rtr-9.5-n, rtr-9.5-o
// spec: rtr-9.5-p, rtr-9.5-s, rtr-9.5-t, rtr-9.5-u
#[test]
fn a_report_names_the_bad_transmission_the_first_one_and_the_values() {
    let (mut client, mut server) = warm(plain(Rtr::ALL, Config::client()), plain(Rtr::ALL, Config::server()));
    let (xid, packets) = transmissions(&mut client, &LONG);
    server.receive(&packets[0].octets);
    server.receive(&packets[2].octets);
    let report = server.send().unwrap();
    // The bad one, the one that may have led to it, and OPTRERR_BADSEQ with what was expected and what came.
    let info = [&[xid, CALL, 2][..], &[1, xid, CALL, 0], &[4, 1, 2]];
    assert_eq!(report.octets, operation(xid, report.word(2), 1, REPTERR, &info), "a responder reports as REPLY");
    assert!(report.word(2) > 0);
    client.receive(&report.octets);
    assert_eq!(reports(&client), [(Broken::Sequence(Mismatch { expected: 1, came: 2 }), true)]);
    // Without one that led to it, and without values; of a reply it is the requester that reports.
    let (mut client, mut server) = warm(plain(Rtr::ALL, Config::client()), plain(Rtr::ALL, Config::server()));
    let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
    let packets = replying(&mut server, call, 16_384, &[]);
    client.receive(&packets[1].octets);
    let report = client.send().unwrap();
    assert_eq!(report.octets, operation(xid, report.word(2), CALL, REPTERR, &[&[xid, 1, 1], &[0], &[3]]));
}

/// Whatever else is to be sent waits: errors, reports, replies and calls.
// spec: rtr-4.2-d
#[test]
fn nothing_goes_between_the_transmissions_of_a_message() {
    let client = Config { backward: Bkreqsup::Inline, ..plain(Rtr::ALL, Config::client()) };
    let (mut client, mut server) = warm(client, plain(Rtr::ALL, Config::server()));
    let xid = client.session.call(&LONG, None).unwrap();
    let mut packets = vec![client.send().unwrap()];
    // An operation that nobody knows, a continuation of nothing, a call, and one of the client's own.
    client.receive(&operation(700, 1, CALL, 77, &[]));
    client.receive(&operation(701, 1, CALL, XMTCONT, &[&[1, XMTREQ, 0]]));
    client.receive(&words(&[702, 2, 1, 0, CALL, 0, 0, 0, 702, CALL, 0, 0]));
    let served = client.arrived()[0];
    client.session.reply(served, REPLY, &[]).unwrap();
    let short = client.session.call(&SHORT, None).unwrap();
    packets.extend(std::iter::from_fn(|| client.send()));
    let found: Vec<_> = packets.iter().map(|packet| (packet.word(0), packet.word(3))).collect();
    let group = [(xid, 5); 5];
    assert_eq!(found[..5], group);
    assert_eq!(found[5..], [(700, 4), (701, 5), (702, 0), (short, 0)]);
    packets.iter().for_each(|packet| server.receive(&packet.octets));
    assert_eq!(server.arrived().len(), 2);
}

/// Data begin at their offset in the first target, go on from the beginning of the next, and end with the item.
// spec: rtr-7.1-j, rtr-7.3-e
#[test]
fn data_begin_at_their_offset_and_go_on_in_the_next_target() {
    let (mut client, mut server) = warm(placing(Rtr::ALL, Config::client()), placing(Rtr::ALL, Config::server()));
    let items = [Item { position: 120, length: 200_000 }];
    let (xid, mut packets) = transmissions(&mut client, &write(&items));
    assert_eq!(packets.len(), 4);
    assert_eq!(packets[0].octets[28..68], words(&[1, 120, 200_000, 2, 0, 4, 0, 1, 2, 3]));
    // Another item than was sent: a shorter one, which begins later.
    packets[0].octets[36..48].copy_from_slice(&words(&[100_001, 2, 128]));
    packets.iter().for_each(|packet| server.receive(&packet.octets));
    let (_, found, message) = arrived(&mut server);
    let message = message.unwrap();
    let places: Vec<_> = message.places.iter().map(|place| (place.octets.start, place.octets.end)).collect();
    let of_it = vec![(4096 + 128, 4096 + 65_536), (4096, 4096 + 34_593)];
    assert_eq!((found, places), (xid, of_it), "the other targets have nothing of it");
    assert_eq!(message.length, 200 + 100_004);
    let from: Vec<_> = message.sources().skip(1).take(2).map(source_length).collect();
    assert_eq!(from, [65_408, 34_593]);
}

fn source_length(source: Source) -> u32 {
    match source {
        Source::Octets { from, .. } => from.octets.end - from.octets.start,
        Source::Read { from, .. } => from.length,
        Source::Padding { length, .. } => length,
    }
}

// ---- Who sends what -------------------------------------------------------------------------------------------------

/// A client that takes calls, none of them with chunks, and its server, which has sent one.
fn backward() -> (End, End) {
    let client = Config { backward: Bkreqsup::Inline, serve: 16, ..plain(Rtr::ALL, Config::client()) };
    let (mut client, mut server) = both_ways(client, plain(Rtr::ALL, Config::server()));
    (client.keeps, server.keeps) = (true, true);
    (client, server)
}

/// A server is a requester, too, and its client a responder: the one has calls and the other replies in transmissions.
// spec: rtr-1.4-a, rtr-1.4-b, rtr-1.4-c, rtr-1.4-d
#[test]
fn backward_calls_and_their_replies_go_in_transmissions() {
    let (mut client, mut server) = backward();
    // Forward calls are under way meanwhile.
    let forward = client.session.call(&LONG_REPLY, None).unwrap();
    let both = Call { largest_reply: 16_384, ..LONG };
    let (back, xid, messages) = sent(&mut server, &mut client, &both);
    assert_eq!(messages, 1 + 5);
    let (call, ..) = arrived(&mut server);
    assert_eq!(answered(&mut server, &mut client, (back, xid), 16_384, &[]), 5);
    answered(&mut client, &mut server, (call, forward), 16_384, &[]);
}

/// Where there are no chunks, a call that has not all its credits waits for them, as long as replies are to come.
// spec: rtr-4.3-a
#[test]
fn without_all_its_credits_a_call_that_has_no_other_way_waits() {
    let (mut client, mut server) = backward();
    let xids: Vec<_> = (0..9).map(|_| server.session.call(&LONG, None).unwrap()).collect();
    exchange(&mut server, &mut client);
    assert!(server.session.available() < 5, "the last of them find no credits");
    for xid in xids {
        let (back, found, message) = arrived(&mut client);
        assert!(found == xid && message.is_some());
        answered(&mut server, &mut client, (back, xid), 200, &[]);
        assert!(xid == found && server.failures(xid).is_empty());
        exchange(&mut server, &mut client);
    }
    assert_eq!(server.session.open().0, 0);
}

// spec: rtr-2-a
#[test]
fn a_peer_of_version_one_is_spoken_to_without_transmissions() {
    let (mut client, mut server) = settled(placing(GROUPS, Config::client()), one(Config::server()));
    let items = [Item { position: 120, length: 65_536 }];
    for call in [LONG, LONG_REPLY, READ, write(&items)] {
        let xid = client.session.call(&call, None).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!((client.session.version(), grouped(&client, xid)), (Some(Version::One), None));
        let call = server.arrived()[0];
        server.session.reply(call, 200, &[]).unwrap();
        exchange(&mut client, &mut server);
        assert_eq!(client.replies(xid).len(), 1);
    }
    let (mut client, mut server) = settled(one(Config::client()), placing(GROUPS, Config::server()));
    works(&mut client, &mut server);
    assert_eq!(server.session.version(), Some(Version::One));
}

/// A call of five transmissions, where the server takes four, one, or has told nothing but that.
// spec: rtr-5.2-a, rtr-5.2-b, rtr-5.2-c, rtr-8.4-b
#[test]
fn a_call_of_more_transmissions_than_are_taken_is_read() {
    for (limit, goes) in [(5, true), (4, false), (1, false)] {
        let server = plain(Rtr { request_limit: limit, ..Rtr::ALL }, Config::server());
        let (mut client, mut server) = warm(plain(GROUPS, Config::client()), server);
        let (call, xid, messages) = sent(&mut client, &mut server, &LONG);
        let way = client.session.travel(xid).unwrap().call;
        assert_eq!(
            (way == Way::Long, messages, exposes(&client)),
            (!goes, if goes { 5 } else { 1 }, usize::from(!goes))
        );
        answered(&mut client, &mut server, (call, xid), 200, &[]);
    }
}

/// A reply of five transmissions, where the server sends four or one, and where the client has receives for as many.
// spec: rtr-4.3-e, rtr-4.3-f, rtr-4.3-g, rtr-4.3-h, rtr-4.3-i, rtr-5.2-e, rtr-5.2-f, rtr-5.2-g, rtr-5.2-h, rtr-8.5-a
// spec: rtr-9.2-d, rtr-9.4-c
#[test]
fn a_reply_of_more_transmissions_than_are_sent_or_taken_has_a_reply_chunk() {
    let lacking = Rtr { operations: Operations::REQUESTS.and(Operations::RESPONSES), ..GROUPS };
    let cases = [
        (GROUPS, 5, Some(5)),
        (GROUPS, 4, None),
        (GROUPS, 1, None),
        (Rtr { reserve: 5, ..GROUPS }, 8, Some(5)),
        (Rtr { reserve: 4, ..GROUPS }, 8, None),
        (lacking, 8, None),
    ];
    for (ours, limit, reserve) in cases {
        let server = plain(Rtr { response_limit: limit, ..Rtr::ALL }, Config::server());
        let (mut client, mut server) = warm(plain(ours, Config::client()), server);
        let before = client.session.posted();
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        assert_eq!(grouped(&client, xid).map(|grouped| grouped.reserve), reserve, "{limit}");
        let regions: Vec<_> = client.session.exposures(xid).map(|exposure| exposure.region).collect();
        assert_eq!(regions, if reserve.is_some() { vec![] } else { vec![Region::Reply] });
        assert_eq!(client.session.posted(), before + reserve.unwrap_or(0), "beside the one for each reply");
        let messages = answered(&mut client, &mut server, (call, xid), 16_384, &[]);
        assert_eq!(messages, reserve.map_or(1, |_| 5));
    }
}

/// What was reserved and not used serves whatever comes next.
// spec: rtr-4.3-j, rtr-4.3-k, rtr-4.3-l, rtr-4.3-m, rtr-4.3-n
#[test]
fn receives_that_a_short_reply_has_left_are_there_for_others() {
    let (mut client, mut server) = warm(plain(Rtr::ALL, Config::client()), plain(Rtr::ALL, Config::server()));
    let before = client.session.posted();
    for length in [100, 4_000, 8_000, 16_384] {
        let (call, xid, _) = sent(&mut client, &mut server, &LONG_REPLY);
        assert!(client.session.posted() >= before + 5);
        let messages = answered(&mut client, &mut server, (call, xid), length, &[]);
        assert_eq!(messages, length.div_ceil(4_056) as usize);
        assert!(client.session.posted() >= before, "{length}");
    }
    client.actions.clear();
    works(&mut client, &mut server);
    let posts = client.actions.iter().any(|action| matches!(action, Action::PostReceives { .. }));
    assert!(!posts, "those that are left are enough");
}

/// Where there is no target data are read and written, and other directions are as good as before.
// spec: rtr-5.3-a, rtr-5.3-b, rtr-5.3-c, rtr-5.3-d, rtr-5.3-f, rtr-5.3-g, rtr-5.3-i, rtr-5.3-k
#[test]
fn data_are_placed_where_the_receiver_has_targets() {
    let items = [Item { position: 120, length: 65_536 }];
    let both = Call { largest_reply: 65_700, results: &[Wanted::of_call(65_536)], ..write(&items) };
    type Ends = fn(Rtr, Config) -> Config;
    let ends: [Ends; 2] = [plain, placing];
    for (at, bt) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        // Each end may send what the other's buffers take.
        let [client, server] = [Config::client(), Config::server()].map(|end| Config { send_size: 1 << 17, ..end });
        let (client, server) = (ends[at](GROUPS, client), ends[bt](Rtr::ALL, server));
        let (mut client, mut server) = warm(client, server);
        let (call, xid, messages) = sent_reading(&mut client, &mut server, &both);
        assert_eq!(messages, 1);
        match client.session.travel(xid).unwrap().call {
            Way::Grouped(travel) => {
                assert_eq!((bt, travel.placed, travel.read), (1, 1, 0));
                assert_eq!((travel.send, travel.explicit), if at == 1 { (1, 0) } else { (0, 1) });
            }
            way => assert_eq!((bt, way), (0, Way::Reduced(1))),
        }
        let result = [Item { position: 100, length: 65_536 }.into()];
        answered(&mut client, &mut server, (call, xid), 65_700, &result);
    }
}

/// Sends a call which the server may have to put together.
fn sent_reading(
    client: &mut End,
    server: &mut End,
    call: &Call<'_>,
) -> (rpcrdma_proto::connection::Served, u32, usize) {
    let xid = client.session.call(call, None).unwrap();
    let messages = exchange(client, server);
    let (served, found, _) = arrived(server);
    assert_eq!(found, xid);
    (served, xid, messages)
}

/// None of this needs continuations or targets: directions alone are of use.
// spec: rtr-3.4-e, rtr-5.1-a, rtr-5.3-h
#[test]
fn directions_serve_those_who_place_and_continue_nothing() {
    let operations = Operations::REQUESTS.and(Operations::RESPONSES);
    let rtr = Rtr { operations, ..GROUPS };
    let (mut client, mut server) = warm(plain(rtr, Config::client()), plain(rtr, Config::server()));
    let two = Call { largest_reply: 127_000, results: &[Wanted::of_call(65_536), Wanted::of_call(60_000)], ..SHORT };
    let (call, xid, _) = sent(&mut client, &mut server, &two);
    assert_eq!(grouped(&client, xid).unwrap().explicit, 0b11);
    let results = [Item { position: 100, length: 500 }, Item { position: 600, length: 60_000 }].map(ResultItem::from);
    server.session.reply(call, 60_700, &results).unwrap();
    exchange(&mut client, &mut server);
    let reply = client.replies(xid).pop().unwrap();
    let hows: Vec<_> = reply.gathered.unwrap().items.iter().map(|item| item.how.clone()).collect();
    assert_eq!((hows, reply.results.as_slice()), (vec![How::TooShort, How::Explicit(0..1)], [0, 60_000].as_slice()));
}

/// Without credits for all of a group, its data are read, or all of it is.
// spec: rtr-4.3-d, rtr-5.3-e, rtr-5.3-m
#[test]
fn without_credits_data_are_read() {
    let server = Config { serve: 3, ..Config::server() };
    let (mut client, mut server) = warm(placing(GROUPS, Config::client()), placing(Rtr::ALL, server));
    let items = [Item { position: 120, length: 200_000 }];
    let (_, xid, messages) = sent_reading(&mut client, &mut server, &write(&items));
    let travel = grouped(&client, xid).unwrap();
    assert_eq!((travel.read, travel.count, messages), (1, 1, 1), "it would take four, and there are three");
    let long = Call { length: 300_000, ..SHORT };
    let (_, xid, _) = sent_reading(&mut client, &mut server, &long);
    assert_eq!(client.session.travel(xid).unwrap().call, Way::Long);
}

/// Whatever was directed may come to nothing: what was registered is not any more then.
// spec: rtr-6.2-v, rtr-6.2-w, rtr-7.4-l, rtr-7.4-m, rtr-7.4-n, rtr-7.4-o, rtr-7.4-p, rtr-7.4-w
#[test]
fn every_direction_may_come_to_nothing() {
    for direct in [Direct::Explicit, Direct::Cheaper, Direct::Choice, Direct::BySize(32_768)] {
        for results in [&[Item { position: 100, length: 96 }.into()][..], &[]] {
            let rtr = Rtr { direct, ..GROUPS };
            let (mut client, mut server) = warm(placing(rtr, Config::client()), placing(Rtr::ALL, Config::server()));
            let (call, xid, _) = sent(&mut client, &mut server, &READ);
            let exposed = exposes(&client);
            assert_eq!(exposed, usize::from(direct != Direct::Cheaper));
            server.session.reply(call, 200, results).unwrap();
            assert_eq!(server.session.writes(call).count(), 0);
            exchange(&mut client, &mut server);
            let reply = client.replies(xid).pop().unwrap();
            let how = if results.is_empty() { How::NoItem } else { How::TooShort };
            let message = reply.gathered.unwrap();
            assert_eq!((message.items[0].how.clone(), reply.results.as_slice()), (how, [0].as_slice()), "{direct:?}");
            assert_eq!(whole(&client, &message, xid, true), expected(xid, true, 200));
            let fences = client.actions.iter().filter(|action| matches!(action, Action::Fence { .. })).count();
            assert_eq!(fences, exposed, "{direct:?}");
        }
    }
}

/// What the responder may choose it writes if it can't place it.
// spec: rtr-6.2-t, rtr-7.4-d, rtr-7.4-e, rtr-7.4-o
#[test]
fn a_choice_is_the_responders() {
    let rtr = Rtr { direct: Direct::Choice, reserve: 1, ..GROUPS };
    let (mut client, mut server) = warm(placing(rtr, Config::client()), placing(Rtr::ALL, Config::server()));
    let large = Call { largest_reply: 200_100, results: &[Wanted::of_call(200_000)], ..SHORT };
    for (length, written) in [(65_536, false), (200_000, true)] {
        let (call, xid, _) = sent(&mut client, &mut server, &large);
        server.session.reply(call, 100 + length, &[Item { position: 100, length }.into()]).unwrap();
        exchange(&mut client, &mut server);
        let reply = client.replies(xid).pop().unwrap();
        assert_eq!(matches!(reply.gathered.unwrap().items[0].how, How::Explicit(_)), written, "{length}");
    }
}

// ---- What is broken -------------------------------------------------------------------------------------------------

/// A call that was reported broken goes by other means; if it is reported again, the consumer learns of it.
// spec: rtr-5.4-k
#[test]
fn a_call_that_is_reported_twice_fails() {
    let (mut client, mut server) = warm(plain(Rtr::ALL, Config::client()), plain(Rtr::ALL, Config::server()));
    let xid = client.session.call(&LONG, None).unwrap();
    exchange(&mut client, &mut server);
    let why = Broken::HeaderType(Mismatch { expected: 5, came: 0 });
    let report = operation(xid, 8, 1, REPTERR, &[&[xid, CALL, 0], &[0], &[1, 5, 0]]);
    client.receive(&report);
    assert!(client.send().is_some_and(|packet| packet.word(3) == 1), "it goes as RDMA2_NOMSG");
    client.receive(&report);
    assert_eq!((reports(&client), client.failures(xid)), (vec![(why, true); 2], vec![Failure::Broken(why)]));
    assert_eq!(client.actions.iter().filter(|action| matches!(action, Action::Fence { .. })).count(), 1);
}
