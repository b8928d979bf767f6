//! The chunk lists of Version One, word by word (RFC 8166): the offers of a requester, and their
//! use by a responder.

use rpcrdma_proto::chunk::{ChunkError, Piece, Segment};
use rpcrdma_proto::connection::{Action, CallFailure, CallRegion, Config, RdmaWrite, ServedCallId};
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::transfer::{CallSpec, DataItem, ResultItem, ResultSpec, TransferError};

use crate::pair::{End, NULL, exchange, key, one, settled, word, words, works};

fn ends() -> (End, End) {
    let (mut client, mut server) = settled(one(Config::client()), one(Config::server()));
    works(&mut client, &mut server);
    (client, server)
}

/// The low word of the offset that every exposed segment has here (`pair::OFFSET`).
const OFFSET_WORD: u32 = 4096;

/// The words of a message from one on.
fn rest(message: &[u8], from: usize, count: usize) -> Vec<u32> {
    (from..from + count).map(|at| word(message, at)).collect()
}

/// The first words of a call that offers chunks, and 40 bytes of an RPC message.
fn offering(xid: u32, procedure: u32, lists: &[u32]) -> Vec<u8> {
    let mut message = vec![xid, 1, 8, procedure];
    message.extend(lists);
    if procedure == 0 {
        message.extend([xid, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    words(&message)
}

/// A Read list, a Write list, and a Reply chunk.
const EMPTY: [u32; 3] = [0, 0, 0];

// ---- Calls --------------------------------------------------------------------------------------

/// An item that is reduced is one Read chunk of its own bytes: its padding is neither in the chunk
/// nor inline. Its Position is that in the whole message.
// spec: rfc8166-3.4.4.4-a, rfc8166-3.4.4.4-b, rfc8166-3.4.5-a, rfc8166-3.4.5.2-a
// spec: rfc8166-3.4.5.2-c, rfc8166-3.5.2-a, rfc8166-4.2.4-a
#[test]
fn a_reduced_item_is_a_read_chunk_without_padding() {
    let (mut client, mut server) = ends();
    let items = [
        DataItem {
            position: 120,
            length: 5_001,
        },
        DataItem {
            position: 5_200,
            length: 4_002,
        },
    ];
    let call = CallSpec {
        length: 9_404,
        items: &items,
        max_reply: 200,
        results: &[],
        reducible: true,
    };
    let xid = client.session.call(&call, None).unwrap();
    let packet = client.send().unwrap();
    let lists = [
        [1, 120, key(xid, 1), 5_001, 0, OFFSET_WORD],
        [1, 5_200, key(xid, 2), 4_002, 0, OFFSET_WORD],
    ]
    .concat();
    assert_eq!(rest(&packet.bytes, 0, 4), [xid, 1, 32, 0]);
    assert_eq!(rest(&packet.bytes, 4, 12), lists);
    assert_eq!(rest(&packet.bytes, 16, 3), EMPTY);
    assert_eq!(packet.header, 19 * 4);
    assert_eq!(
        packet.bytes.len() - packet.header,
        9_404 - 5_004 - 4_004,
        "the items have gone with their padding"
    );
    server.receive(&packet.bytes);
    let call = server.arrived()[0];
    assert_eq!(server.session.call_length(call), Some(9_404));
}

/// A call without items that does not fit is a Read chunk at Position zero, of all its bytes.
// spec: rfc8166-3.5.3-a, rfc8166-3.5.3-b, rfc8166-3.5.3-e, rfc8166-4.2.2-a, rfc8166-6.1-b
#[test]
fn a_long_call_is_a_read_chunk_at_position_zero() {
    let (mut client, mut server) = ends();
    let item = [DataItem {
        position: 120,
        length: 4_001,
    }];
    // The second has an item that stays in the message: its padding does, too.
    for (items, reducible) in [(&[][..], true), (&item, false)] {
        let call = CallSpec {
            length: 9_000,
            items,
            reducible,
            ..NULL
        };
        let xid = client.session.call(&call, None).unwrap();
        let packet = client.send().unwrap();
        let segment = [1, 0, key(xid, 1), 9_000, 0, OFFSET_WORD];
        let message = [&[xid, 1, 32, 1][..], &segment, &EMPTY].concat();
        assert_eq!(packet.bytes, words(&message));
        server.receive(&packet.bytes);
        let call = server.arrived()[0];
        assert_eq!(server.session.call_length(call), Some(9_000));
        server.session.reply(call, 24, &[]).unwrap();
        exchange(&mut client, &mut server);
    }
}

/// A requester offers as much as the largest result takes, without its padding, and a Reply chunk
/// for the largest reply that may not fit.
// spec: rfc8166-3.4.6-a, rfc8166-3.4.6.2-a, rfc8166-4.3.3-a
#[test]
fn offered_chunks_have_the_maximum_length_of_results() {
    let (mut client, _) = ends();
    // The rest of the reply beside its result fits, or does not.
    for (max_reply, reply) in [(10_100, None), (20_000, Some(20_000 - 10_004))] {
        let call = CallSpec {
            max_reply,
            results: &[ResultSpec::whole_call(10_001)],
            ..NULL
        };
        let xid = client.session.call(&call, None).unwrap();
        let packet = client.send().unwrap();
        let mut lists = vec![0, 1, 1, key(xid, 1), 10_001, 0, OFFSET_WORD, 0];
        lists.extend(match reply {
            None => vec![0],
            Some(length) => vec![1, 1, key(xid, 2), length, 0, OFFSET_WORD],
        });
        assert_eq!(rest(&packet.bytes, 4, lists.len()), lists);
        assert_eq!(packet.header, 4 * (4 + lists.len()));
    }
    // The largest reply that fits needs none.
    let fits = 4096 - 28;
    for (max_reply, offers) in [(fits, false), (fits + 1, true)] {
        let call = CallSpec { max_reply, ..NULL };
        client.session.call(&call, None).unwrap();
        assert_eq!(client.send().unwrap().word(6), u32::from(offers));
    }
}

/// Exposes the memory of a call, its result in so many segments.
fn expose_in(client: &mut End, xid: u32, count: u32) {
    let exposures: Vec<_> = client.session.exposures(xid).collect();
    let regions: Vec<Vec<Segment>> = exposures
        .iter()
        .map(|one| {
            let count = if let CallRegion::Result(_) = one.region {
                count
            } else {
                1
            };
            let segment = |number| Segment {
                handle: key(xid, number),
                length: one.length / count,
                offset: 4096,
            };
            (1..=count).map(segment).collect()
        })
        .collect();
    client
        .session
        .exposed(xid, regions.iter().map(Vec::as_slice));
}

/// A reply that was to have its rest inline gets a Reply chunk where its Write chunk has taken more
/// segments than its length lets expect: its header returns them all. It is exposed a second time,
/// and not a third.
// spec: rfc8166-4.3.3-a, v2-2.2-b
#[test]
fn a_result_in_more_segments_than_expected_takes_a_reply_chunk() {
    // A header with a Write chunk of one segment, and the rest of 4096 bytes.
    let rest_of_reply = 4096 - 28 - 8 - 16;
    let call = CallSpec {
        max_reply: 10_000 + rest_of_reply,
        results: &[ResultSpec::whole_call(10_000)],
        ..NULL
    };
    for (second, is_sent) in [(1, true), (4, true), (200, false)] {
        let (mut client, mut server) = ends();
        client.holds.exposing = true;
        let xid = client.session.call(&call, None).unwrap();
        client.act();
        client.actions.clear();
        expose_in(&mut client, xid, 4);
        let next = client.session.poll_action();
        assert!(
            matches!(next, Some(Action::Fence { xid: of, .. }) if of == xid),
            "{next:?}"
        );
        assert_eq!(client.session.exposures(xid).count(), 1);
        client.session.fenced(xid);
        assert!(client.send().is_none());
        assert_eq!(client.actions, [Action::Expose { xid }]);
        let exposed: Vec<_> = client.session.exposures(xid).collect();
        let lengths: Vec<_> = exposed.iter().map(|one| (one.region, one.length)).collect();
        assert_eq!(
            lengths,
            [
                (CallRegion::Result(0), 10_000),
                (CallRegion::Reply, rest_of_reply)
            ]
        );
        expose_in(&mut client, xid, second);
        let Some(packet) = client.send() else {
            assert!(!is_sent, "{second} segments");
            assert_eq!(
                client.failures(xid),
                [CallFailure::Transfer(TransferError::TooManySegments)]
            );
            continue;
        };
        assert!(is_sent, "{second} segments");
        let reply_chunk = 7 + 4 * second as usize + 1;
        assert_eq!(rest(&packet.bytes, 4, 3), [0, 1, second]);
        assert_eq!(
            rest(&packet.bytes, reply_chunk, 4),
            [1, 1, key(xid, 1), rest_of_reply]
        );
        server.receive(&packet.bytes);
        let served = server.arrived()[0];
        let result = ResultItem::from(DataItem {
            position: 100,
            length: 10_000,
        });
        server
            .session
            .reply(served, call.max_reply, &[result])
            .unwrap();
        exchange(&mut server, &mut client);
        let reply = &client.replies(xid)[0];
        assert_eq!(
            (reply.results.as_slice(), reply.long),
            (&[10_000][..], Some(rest_of_reply))
        );
    }
}

/// A Read list may have any order: a chunk is the segments of one Position, in list order, wherever
/// they are in the list. The Position-Zero chunk need not be the first.
// spec: rfc8166-3.4.5-a
#[test]
fn read_segments_are_grouped_by_position() {
    let (_, mut server) = ends();
    let segment = |position, handle, length| [1, position, handle, length, 0, 4096];
    let read = |at, handle, length| Piece::Read {
        at,
        from: Segment {
            handle,
            length,
            offset: 4096,
        },
    };
    let inline = |at, from, length| Piece::Inline { at, from, length };
    let first = [segment(8, 1, 4), segment(24, 2, 8), segment(8, 3, 3)].concat();
    let last = [segment(24, 2, 8), segment(8, 1, 4), segment(8, 3, 3)].concat();
    for lists in [first, last] {
        server.receive(&offering(77, 0, &[&lists[..], &EMPTY].concat()));
        let call = server.arrived()[0];
        let pieces: Vec<_> = server.session.pieces(call).unwrap().collect();
        let padding = Piece::Padding { at: 15, length: 1 };
        assert_eq!(
            pieces,
            [
                inline(0, 0, 8),
                read(8, 1, 4),
                read(12, 3, 3),
                padding,
                inline(16, 8, 8),
                read(24, 2, 8),
                inline(32, 16, 24),
            ]
        );
        server.session.reply(call, 24, &[]).unwrap();
        assert_eq!(server.send().unwrap().word(3), 0);
    }
    let long = [segment(0, 1, 20), segment(20, 2, 8), segment(0, 3, 12)].concat();
    server.receive(&offering(78, 1, &[&long[..], &EMPTY].concat()));
    let call = server.arrived()[0];
    let pieces: Vec<_> = server.session.pieces(call).unwrap().collect();
    assert_eq!(pieces, [read(0, 1, 20), read(20, 2, 8), read(28, 3, 12)]);
}

// ---- Replies ------------------------------------------------------------------------------------

/// A Write chunk of two segments, one of one, and one of none; each of 100 bytes.
const WRITES: [u32; 18] = [
    1, 2, 71, 60, 0, 4096, 72, 40, 0, 4096, // two segments
    1, 1, 73, 100, 0, 4096, // one
    1, 0, // none
];

/// Serves a call with these lists, and answers it. Returns the RDMA Writes and the reply.
fn answered(lists: &[u32], length: u32, results: &[ResultItem]) -> (Vec<RdmaWrite>, Vec<u8>) {
    let (_, mut server) = ends();
    server.receive(&offering(77, 0, lists));
    let call: ServedCallId = server.arrived()[0];
    server.session.reply(call, length, results).unwrap();
    server.holds.releasing = true;
    let reply = server.send().unwrap();
    let writes: Vec<_> = server.session.writes(call).collect();
    assert!(server.send().is_none());
    (writes, reply.bytes)
}

fn written(writes: &[RdmaWrite]) -> Vec<(u32, u32, u32)> {
    writes
        .iter()
        .map(|write| (write.target.handle, write.range.start, write.range.end))
        .collect()
}

fn item(position: u32, length: u32) -> ResultItem {
    DataItem { position, length }.into()
}

/// Each result fills its chunk one segment after the other, without its padding; all chunks are
/// returned with as many segments as were offered, and with the bytes that each holds.
// spec: rfc8166-3.4.6-b, rfc8166-3.4.6.2-b, rfc8166-3.4.6.2-c, rfc8166-4.3.1-a, rfc8166-4.3.2-a
// spec: rfc8166-4.3.2.2-a, rfc8166-4.3.2.2-c, rfc8166-4.3.2.3-a
#[test]
fn a_reply_returns_every_write_chunk() {
    let lists = [&[0][..], &WRITES, &[0, 0]].concat();
    let returned = |one, two, three| {
        let mut returned = lists.clone();
        (returned[4], returned[8], returned[14]) = (one, two, three);
        returned
    };
    // The result of 61 bytes has three of padding, which are nowhere.
    let (writes, reply) = answered(&lists, 300, &[item(40, 61)]);
    assert_eq!(written(&writes), [(71, 40, 100), (72, 100, 101)]);
    assert_eq!(
        rest(&reply, 4, 21),
        returned(60, 1, 0),
        "the second is unused"
    );
    assert_eq!(reply.len(), 4 * 25 + 300 - 64);
    // A first result that is not there leaves its chunk to the next: the consumer names the others.
    let (writes, reply) = answered(&lists, 300, &[item(40, 8), item(60, 99)]);
    assert_eq!(written(&writes), [(71, 40, 48), (73, 60, 159)]);
    assert_eq!(rest(&reply, 4, 21), returned(8, 0, 99));
    assert_eq!(reply.len(), 4 * 25 + 300 - 108);
    // Without a result all are unused.
    let (writes, reply) = answered(&lists, 300, &[]);
    assert_eq!(written(&writes), []);
    assert_eq!(rest(&reply, 4, 21), returned(0, 0, 0));
    // The result of a chunk without segments stays inline, and its chunk is returned so.
    let (writes, reply) = answered(&lists, 300, &[item(40, 8), item(60, 8), item(80, 100)]);
    assert_eq!(written(&writes), [(71, 40, 48), (73, 60, 68)]);
    assert_eq!(rest(&reply, 4, 21), returned(8, 0, 8));
    assert_eq!(reply.len(), 4 * 25 + 300 - 16);
}

/// A reply that does not fit goes into the Reply chunk, with all padding but that of the results
/// which are written; one that fits goes inline. The chunk is returned in either case.
// spec: rfc8166-3.5.3-d, rfc8166-3.5.3-e, rfc8166-4.3.1-a, rfc8166-4.3.3-b, rfc8166-4.3.3-c
// spec: rfc8166-4.2.4-a
#[test]
fn a_reply_chunk_is_returned() {
    let reply = |length| vec![0, 0, 1, 1, 79, length, 0, 4096];
    let lists = reply(10_000);
    let (writes, message) = answered(&lists, 9_000, &[]);
    assert_eq!(written(&writes), [(79, 0, 9_000)]);
    assert_eq!(message, offering(77, 1, &reply(9_000)));
    let (writes, message) = answered(&lists, 3_000, &[]);
    assert_eq!(written(&writes), []);
    assert_eq!(rest(&message, 4, 8), reply(0));
    assert_eq!(message.len(), 4 * 12 + 3_000);
    // As much as fits, and a word more.
    let fits = 4096 - 4 * 12;
    assert_eq!(word(&answered(&lists, fits, &[]).1, 3), 0);
    assert_eq!(word(&answered(&lists, fits + 4, &[]).1, 3), 1);
    let both = [
        &[0, 1, 1, 71, 64, 0, 4096, 0][..],
        &[1, 1, 79, 10_000, 0, 4096],
    ]
    .concat();
    let (writes, message) = answered(&both, 9_000, &[item(40, 61)]);
    assert_eq!(
        written(&writes),
        [(71, 40, 101), (79, 0, 40), (79, 104, 9_000)]
    );
    assert_eq!((word(&message, 8), word(&message, 15)), (61, 9_000 - 64));
}

/// A reply with a Read list, or with chunks that were not offered, ends its call with an error for
/// the consumer.
// spec: rfc8166-4.3.1-a, rfc8166-6.1-d
#[test]
fn a_reply_that_breaks_a_rule_ends_its_call() {
    let read = [1, 40, 9, 64, 0, 4096, 0, 0, 0];
    let write = [0, 1, 1, 9, 64, 0, 4096, 0, 0];
    let long = [0, 0, 1, 1, 9, 64, 0, 4096];
    for (lists, error) in [
        (&read[..], CallFailure::ReplyReadList),
        (&write, CallFailure::Reply(ChunkError::NotAsOffered)),
        (&long, CallFailure::Reply(ChunkError::NotAsOffered)),
    ] {
        let (mut client, _) = ends();
        let xid = client.session.call(&NULL, None).unwrap();
        client.send().unwrap();
        let reply = [&[xid, 1, 8, 0][..], lists, &[xid, 1, 0, 0, 0, 0]].concat();
        client.receive(&words(&reply));
        assert_eq!(client.failures(xid), [error]);
    }
}

/// A Read chunk may contain its padding, in its own segment or at the end of the last one. The data
/// after it do not move.
// spec: rfc8166-3.4.5.2-b, rfc8166-3.4.4-a, rfc8166-3.5.3-c
#[test]
fn a_read_chunk_may_have_its_padding() {
    let segments = |lengths: &[u32]| {
        let mut lists = Vec::new();
        for (at, length) in (0..).zip(lengths) {
            lists.extend([1, 20, 9, *length, 0, 4096 * at]);
        }
        lists.extend(EMPTY);
        lists
    };
    for lengths in [&[61][..], &[64], &[61, 3], &[1, 60], &[60, 1, 3]] {
        let (_, mut server) = ends();
        server.receive(&offering(77, 0, &segments(lengths)));
        let call = server.arrived()[0];
        assert_eq!(
            server.session.call_length(call),
            Some(40 + 64),
            "{lengths:?}"
        );
    }
    // A short call may be a Read chunk, too.
    let (_, mut server) = ends();
    server.receive(&offering(77, 1, &[1, 0, 9, 40, 0, 4096, 0, 0, 0]));
    let call = server.arrived()[0];
    assert_eq!(server.session.call_length(call), Some(40));
    assert!(
        server
            .actions
            .iter()
            .any(|action| matches!(action, Action::Read { .. }))
    );
}

/// A responder that takes a call for one that it may not process says so.
// spec: rfc8166-6.1-c
#[test]
fn a_call_that_the_consumer_rejects_is_not_processed() {
    let (mut client, mut server) = ends();
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    server.session.reject(call).unwrap();
    assert_eq!(server.send().unwrap().bytes, words(&[xid, 1, 32, 4, 2]));
    assert!(server.session.reply(call, 24, &[]).is_err());
    client.receive(&words(&[xid, 1, 8, 4, 2]));
    assert_eq!(client.failures(xid), [CallFailure::Peer(PeerError::Header)]);
}

/// A client that serves no backward calls is a requester alone, and sends no error: it drops what
/// it cannot read. A call says that it is one, and is refused.
// spec: rfc8166-4.2.4-c, rfc8166-4.5-c, rfc8166-4.6.1-b
#[test]
fn a_requester_sends_no_errors() {
    let malformed = [
        words(&[77, 1, 8, 2, 4, 64, 0, 0, 0, 77, 1]),
        words(&[77, 1, 8, 99, 0, 0, 0]),
        words(&[77, 2, 8, 0, 0, 0, 0, 0, 77, 1]),
        words(&[77, 1, 8, 0, 0, 0, 0, 78, 1]),
        words(&[77, 1, 8, 0, 2, 0, 0, 77, 1]),
    ];
    for (backward_v1, max_served, answers) in [(false, 8, 0), (true, 0, 0), (true, 8, 5)] {
        let config = Config {
            backward_v1,
            max_served,
            ..one(Config::client())
        };
        let (mut client, mut server) = settled(config, one(Config::server()));
        works(&mut client, &mut server);
        for message in &malformed {
            client.receive(message);
        }
        let mut errors = 0;
        while let Some(error) = client.send() {
            assert_eq!((error.word(0), error.word(3)), (77, 4));
            errors += 1;
        }
        assert_eq!(errors, answers, "{backward_v1}, {max_served}");
        assert_eq!(client.session.counters().dropped, 5 - answers);
        if answers == 0 {
            client.receive(&offering(79, 0, &EMPTY));
            let error = client.send().unwrap();
            assert_eq!((error.word(0), error.word(3), error.word(4)), (79, 4, 2));
        }
    }
}
