//! Calls whose memory is exposed in other segments than were expected, or while the limits fall.

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Action, CallFailure, CallRegion, Config};
use rpcrdma_proto::property::BasicProperty;
use rpcrdma_proto::transfer::{CallSpec, DataItem, TransferError};
use rpcrdma_proto::version::Version;

use crate::pair::{End, NULL, REPLY, exchange, key, settled, works};
use crate::properties::sized;

/// A client that has said all about its properties, whose test exposes its memory.
fn ends(receive_size: u32) -> (End, End) {
    let (mut client, mut server) = settled(Config::client(), sized(receive_size, Config::server()));
    works(&mut client, &mut server);
    client.holds.exposing = true;
    client.actions.clear();
    (client, server)
}

/// Begins a call, which exposes something.
fn begins(client: &mut End, call: &CallSpec<'_>) -> u32 {
    let xid = client.session.call(call, None).unwrap();
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Expose { xid }));
    xid
}

fn regions(client: &End, xid: u32) -> Vec<CallRegion> {
    let exposures = client.session.exposures(xid);
    exposures.map(|one| one.region).collect()
}

/// Exposes each region in so many segments, as far as there are numbers.
fn expose_in(client: &mut End, xid: u32, counts: &[u32]) {
    let lengths: Vec<u32> = client
        .session
        .exposures(xid)
        .map(|one| one.length)
        .collect();
    let regions: Vec<Vec<Segment>> = lengths
        .iter()
        .zip(counts)
        .map(|(length, count)| {
            let segment = |number| Segment {
                handle: key(xid, number),
                length: length.div_ceil(*count),
                offset: 4096,
            };
            (1..=*count).map(segment).collect()
        })
        .collect();
    client
        .session
        .exposed(xid, regions.iter().map(Vec::as_slice));
    client.act();
}

const fn item(position: u32, length: u32) -> DataItem {
    DataItem { position, length }
}

/// A header whose chunks take more segments than expected may fill the Send with what is inline.
// spec: v2-2.1-d
#[test]
fn a_header_of_more_segments_may_fill_a_send() {
    let items = [item(100, 10_000)];
    // A segment of a Read list has six words.
    let room = 4096 - Version::Two.header_len() - 2 * 24;
    for (inline, fits) in [(room, true), (room + 4, false)] {
        let (mut client, _server) = ends(4096);
        let call = CallSpec {
            length: 10_000 + inline,
            items: &items,
            ..NULL
        };
        let xid = begins(&mut client, &call);
        expose_in(&mut client, xid, &[2]);
        let fences = |action: &Action| matches!(action, Action::Fence { .. });
        assert_eq!(client.actions.iter().any(fences), !fits);
        let sent = client.send().map(|packet| packet.bytes.len());
        assert_eq!(sent, Some(4096).filter(|_| fits));
    }
}

/// A region of one segment says nothing of how the others are exposed.
// spec: v2-2.2-b
#[test]
fn segment_length_is_learned_from_large_regions_only() {
    let (mut client, mut server) = ends(4096);
    let items = [item(100, 5_000), item(5_100, 1_000_000)];
    let call = CallSpec {
        length: 1_008_100,
        items: &items,
        ..NULL
    };
    let xid = begins(&mut client, &call);
    assert_eq!(
        regions(&client, xid),
        [CallRegion::Item(0), CallRegion::Item(1)]
    );
    expose_in(&mut client, xid, &[1, 60]);
    assert_eq!(regions(&client, xid), [CallRegion::Call]);
    expose_in(&mut client, xid, &[61]);
    exchange(&mut client, &mut server);
    let calls = server.arrived();
    server.session.reply(calls[0], REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(xid).len(), 1);
}

/// A transport that exposes fewer regions than there are is not asked again.
#[test]
fn a_call_fails_whose_regions_are_not_all_exposed() {
    let (mut client, _server) = ends(4096);
    let items = [item(100, 5_000), item(5_100, 1_000_000)];
    let call = CallSpec {
        length: 1_008_100,
        items: &items,
        ..NULL
    };
    let xid = begins(&mut client, &call);
    expose_in(&mut client, xid, &[1]);
    let failure = CallFailure::Transfer(TransferError::TooManySegments);
    assert_eq!(client.failures(xid), [failure]);
    let exposes = |action: &&Action| matches!(action, Action::Expose { .. });
    assert_eq!(client.actions.iter().filter(exposes).count(), 1);
}

/// A limit that falls while memory is exposed takes nothing from the call but its way.
// spec: xc3-3.1-j
#[test]
fn lower_limit_changes_the_transfer_method() {
    let (mut client, mut server) = ends(8192);
    let items = [item(100, 10_000)];
    let call = CallSpec {
        length: 10_000 + 6_000,
        items: &items,
        ..NULL
    };
    let xid = begins(&mut client, &call);
    assert_eq!(regions(&client, xid), [CallRegion::Item(0)]);
    client
        .session
        .request_property(BasicProperty::ReceiveBufferSize(4096))
        .unwrap();
    expose_in(&mut client, xid, &[1]);
    assert_eq!(client.failures(xid), []);
    assert_eq!(regions(&client, xid), [CallRegion::Call]);
    expose_in(&mut client, xid, &[1]);
    exchange(&mut client, &mut server);
    let calls = server.arrived();
    server.session.reply(calls[0], REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.replies(xid).len(), 1);
}
