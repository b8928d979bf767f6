use super::*;
use crate::chunk::Limits;
use crate::header::{Body, Header};
use crate::travel::{Item, Wanted};
use crate::version::Version;
use std::{vec, vec::Vec};

fn link(version: Version) -> Link<'static> {
    Link {
        version,
        call_threshold: 1024,
        reply_threshold: 1024,
        chunks: true,
        read_chunks: u32::MAX,
        segment: 1000,
        groups: None,
        room: 1,
    }
}

/// Regions of a call in segments of a thousand octets at most.
fn exposed(requests: &mut Requests, xid: u32, link: &Link<'_>, out: &mut Queues) -> Vec<Vec<Segment>> {
    let mut handle = 0;
    let regions: Vec<Vec<Segment>> = requests
        .exposures(xid)
        .map(|one| {
            let starts = (0..one.length).step_by(1000);
            starts
                .map(|at| {
                    handle += 1;
                    Segment { handle, length: (one.length - at).min(1000), offset: u64::from(at) }
                })
                .collect()
        })
        .collect();
    requests.exposed(xid, regions.iter().map(Vec::as_slice), link, out);
    regions
}

/// The header that is counted is the one that is written, and has the segments of each region at its place.
#[test]
fn a_header_has_what_was_exposed() {
    let items = [Item { position: 100, length: 3_001 }, Item { position: 3_108, length: 2_000 }];
    let results = [2_500, 1_000].map(Wanted::of_call);
    let calls = [
        Call { length: 5_108, items: &items, largest_reply: 24, results: &[], reducible: true },
        Call { length: 40, items: &[], largest_reply: 3_600, results: &results, reducible: true },
        Call { length: 40, items: &[], largest_reply: 9_000, results: &results, reducible: true },
        Call { length: 5_108, items: &[], largest_reply: 9_000, results: &[], reducible: true },
    ];
    for version in [Version::One, Version::Two] {
        for call in &calls {
            let (mut requests, mut out) = (Requests::new(4, 4, 64, 3), Queues::default());
            let link = link(version);
            let xid = requests.call(Kind::Rpc, call, NEVER, |_| false).unwrap();
            requests.admit(&link, None, &mut out);
            let regions = exposed(&mut requests, xid, &link, &mut out);
            let counted = requests.slots.get(xid).unwrap().header(&link);
            let mut octets = [0; 1024];
            let sent = requests.transmit(&mut octets, &link, None, &mut out).unwrap();
            assert_eq!(sent.header, counted as usize);
            let inline: u32 = requests.parts(xid).map(|part| part.end - part.start).sum();
            octets[sent.header..sent.header + 4].copy_from_slice(&xid.to_be_bytes());
            let length = sent.header + inline as usize;
            assert!(length <= 1024);
            let header = Header::parse(&octets[..length], version).unwrap();
            let (Body::Message { chunks, .. } | Body::Long { chunks, .. }) = header.body else { panic!() };
            let reads = chunks.reads().iter().map(|read| read.target);
            let written =
                chunks.writes(&Limits::DEFAULT).map(Result::unwrap).chain(chunks.reply(&Limits::DEFAULT).unwrap());
            let found: Vec<Segment> = reads.chain(written.flat_map(|chunk| chunk.segments())).collect();
            assert_eq!(found, regions.concat());
        }
    }
}

/// What the peer takes may have become less while memory was exposed: the call is put on its way again.
#[test]
fn a_call_that_no_longer_fits_travels_another_way() {
    let (mut requests, mut out) = (Requests::new(4, 4, 64, 3), Queues::default());
    let larger = Link { call_threshold: 8192, ..link(Version::Two) };
    let call = Call { length: 5_000, items: &[], largest_reply: 24, results: &[], reducible: true };
    let xid = requests.call(Kind::Rpc, &call, NEVER, |_| false).unwrap();
    requests.admit(&larger, None, &mut out);
    assert!(requests.has_ready());
    let mut octets = [0; 1024];
    assert!(requests.transmit(&mut octets, &link(Version::Two), None, &mut out).is_none());
    assert!(requests.has_waiting() && requests.credits.used() == 0);
    requests.admit(&link(Version::Two), None, &mut out);
    exposed(&mut requests, xid, &link(Version::Two), &mut out);
    let sent = requests.transmit(&mut octets, &link(Version::Two), None, &mut out).unwrap();
    assert_eq!(sent.header, 32 + 5 * 24, "a Position-Zero Read chunk");
}

/// The segments of a neighbour are not touched, and none are left over from an earlier call.
#[test]
fn segments_are_of_one_call() {
    let (mut requests, mut out) = (Requests::new(2, 2, 4, 3), Queues::default());
    requests.credits.replied(requests.credits.clone().call().unwrap(), Some(2));
    let link = link(Version::Two);
    let long = Call { length: 2_000, items: &[], largest_reply: 24, results: &[], reducible: true };
    let calls = [long, long].map(|call| requests.call(Kind::Rpc, &call, NEVER, |_| false).unwrap());
    requests.admit(&link, None, &mut out);
    let mine =
        [vec![Segment { handle: 7, length: 2_000, offset: 0 }], vec![Segment { handle: 8, length: 2_000, offset: 0 }]];
    for (xid, region) in calls.iter().zip(&mine) {
        requests.exposed(*xid, core::iter::once(region.as_slice()), &link, &mut out);
    }
    for (xid, region) in calls.iter().zip(&mine) {
        assert_eq!(requests.slots.get(*xid).unwrap().apart.segments(), region);
    }
}
