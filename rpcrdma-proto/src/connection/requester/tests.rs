use super::*;
use crate::chunk::ChunkLimits;
use crate::connection::output::{CloseReason, Event};
use crate::header::{Header, HeaderBody};
use crate::placement::BufferStructure;
use crate::sizes;
use crate::transfer::{DataItem, GroupLimits, MethodPreference, ResultPlacement, ResultSpec, Span};
use crate::version::Version;
use std::{vec, vec::Vec};

fn link(version: Version) -> PathLimits<'static> {
    PathLimits {
        version,
        call_threshold: 1024,
        reply_threshold: 1024,
        chunks: true,
        max_read_chunks: u32::MAX,
        max_segment_len: 1000,
        groups: None,
        available_credits: 1,
    }
}

/// Regions of a call in segments of a thousand bytes at most.
fn exposed(
    requests: &mut Requester,
    xid: u32,
    link: &PathLimits<'_>,
    out: &mut OutputQueues,
) -> Vec<Vec<Segment>> {
    let mut handle = 0;
    let regions: Vec<Vec<Segment>> = requests
        .exposures(xid)
        .map(|one| {
            let starts = (0..one.length).step_by(1000);
            starts
                .map(|at| {
                    handle += 1;
                    Segment {
                        handle,
                        length: (one.length - at).min(1000),
                        offset: u64::from(at),
                    }
                })
                .collect()
        })
        .collect();
    requests.exposed(xid, regions.iter().map(Vec::as_slice), link, out);
    regions
}

/// The header that is counted is the one that is written, and has the segments of each region at
/// its place.
#[test]
fn header_contains_the_exposed_segments() {
    let items = [
        DataItem {
            position: 100,
            length: 3_001,
        },
        DataItem {
            position: 3_108,
            length: 2_000,
        },
    ];
    let results = [2_500, 1_000].map(ResultSpec::whole_call);
    let calls = [
        CallSpec {
            length: 5_108,
            items: &items,
            max_reply: 24,
            results: &[],
            reducible: true,
        },
        CallSpec {
            length: 40,
            items: &[],
            max_reply: 3_600,
            results: &results,
            reducible: true,
        },
        CallSpec {
            length: 40,
            items: &[],
            max_reply: 9_000,
            results: &results,
            reducible: true,
        },
        CallSpec {
            length: 5_108,
            items: &[],
            max_reply: 9_000,
            results: &[],
            reducible: true,
        },
    ];
    for version in [Version::One, Version::Two] {
        for call in &calls {
            let (mut requests, mut out) = (Requester::new(4, 4, 64, 3), OutputQueues::default());
            let link = link(version);
            let xid = requests
                .call(RequestKind::Rpc, call, NO_DEADLINE, |_| false)
                .unwrap();
            requests.admit(&link, None, &mut out);
            let regions = exposed(&mut requests, xid, &link, &mut out);
            let counted = requests.calls.get(xid).unwrap().header_len(&link);
            let mut bytes = [0; 1024];
            let sent = requests
                .transmit((0, &mut bytes), &link, None, &mut out)
                .unwrap();
            assert_eq!(sent.header, counted as usize);
            let inline: u32 = requests.parts(xid).map(|part| part.end - part.start).sum();
            bytes[sent.header..sent.header + 4].copy_from_slice(&xid.to_be_bytes());
            let length = sent.header + inline as usize;
            assert!(length <= 1024);
            let header = Header::parse(&bytes[..length], version).unwrap();
            let (HeaderBody::Message { chunks, .. } | HeaderBody::Long { chunks, .. }) =
                header.body
            else {
                panic!()
            };
            let reads = chunks.reads().iter().map(|read| read.target);
            let written = chunks
                .writes(&ChunkLimits::DEFAULT)
                .map(Result::unwrap)
                .chain(chunks.reply(&ChunkLimits::DEFAULT).unwrap());
            let found: Vec<Segment> = reads
                .chain(written.flat_map(|chunk| chunk.segments()))
                .collect();
            assert_eq!(found, regions.concat());
        }
    }
}

/// The peer's limit may fall while memory is being exposed: the call is planned again.
#[test]
fn call_that_no_longer_fits_changes_its_transfer_method() {
    let (mut requests, mut out) = (Requester::new(4, 4, 64, 3), OutputQueues::default());
    let larger = PathLimits {
        call_threshold: 8192,
        ..link(Version::Two)
    };
    let call = CallSpec {
        length: 5_000,
        items: &[],
        max_reply: 24,
        results: &[],
        reducible: true,
    };
    let xid = requests
        .call(RequestKind::Rpc, &call, NO_DEADLINE, |_| false)
        .unwrap();
    requests.admit(&larger, None, &mut out);
    assert!(requests.has_ready());
    let mut bytes = [0; 1024];
    assert!(
        requests
            .transmit((0, &mut bytes), &link(Version::Two), None, &mut out)
            .is_none()
    );
    assert!(requests.has_waiting() && requests.credits.used() == 0);
    requests.admit(&link(Version::Two), None, &mut out);
    exposed(&mut requests, xid, &link(Version::Two), &mut out);
    let sent = requests
        .transmit((0, &mut bytes), &link(Version::Two), None, &mut out)
        .unwrap();
    assert_eq!(sent.header, 32 + 5 * 24, "a Position-Zero Read chunk");
}

/// The segments of a neighbour are not touched, and none are left over from an earlier call.
#[test]
fn segments_belong_to_one_call() {
    let (mut requests, mut out) = (Requester::new(2, 2, 4, 3), OutputQueues::default());
    requests
        .credits
        .on_reply(requests.credits.clone().take_call().unwrap(), Some(2));
    let link = link(Version::Two);
    let long = CallSpec {
        length: 2_000,
        items: &[],
        max_reply: 24,
        results: &[],
        reducible: true,
    };
    let calls = [long, long].map(|call| {
        requests
            .call(RequestKind::Rpc, &call, NO_DEADLINE, |_| false)
            .unwrap()
    });
    requests.admit(&link, None, &mut out);
    let mine = [
        vec![Segment {
            handle: 7,
            length: 2_000,
            offset: 0,
        }],
        vec![Segment {
            handle: 8,
            length: 2_000,
            offset: 0,
        }],
    ];
    for (xid, region) in calls.iter().zip(&mine) {
        requests.exposed(*xid, core::iter::once(region.as_slice()), &link, &mut out);
    }
    for (xid, region) in calls.iter().zip(&mine) {
        assert_eq!(requests.calls.get(*xid).unwrap().chunks.segments(), region);
    }
}

/// Entries of the queues that are looked at when so many calls wait and all end, in three ways.
fn steps(calls: u16) -> [usize; 3] {
    let ways: [fn(&mut Requester, &[u32], &mut OutputQueues); 3] = [
        |requests, _, out| requests.fail_all(CloseReason::NoVersion, out),
        |requests, _, out| requests.expire(1, out),
        // The youngest first: none of them is at the front.
        |requests, xids, out| assert!(xids.iter().rev().all(|xid| requests.cancel(*xid, out))),
    ];
    ways.map(|end_all| {
        let (mut requests, mut out) = (Requester::new(calls, 1, 64, 3), OutputQueues::default());
        let call = CallSpec {
            length: 40,
            items: &[],
            max_reply: 24,
            results: &[],
            reducible: true,
        };
        let xids: Vec<u32> = (0..calls)
            .map(|_| {
                requests
                    .call(RequestKind::Rpc, &call, 1, |_| false)
                    .unwrap()
            })
            .collect();
        end_all(&mut requests, &xids, &mut out);
        assert!(requests.len() == 0 && !requests.has_waiting());
        requests.waiting.steps
    })
}

/// One message of a peer may end all calls that wait: that takes linear time.
#[test]
fn ending_a_call_takes_constant_time_with_queued_calls() {
    for (few, many) in steps(8_000).into_iter().zip(steps(64_000)) {
        assert!(
            few <= 3 * 8_000 && many <= 3 * 64_000,
            "{few} and {many} entries"
        );
    }
}

/// Calls that were let go before go again by age, before those that never were, and one for the
/// properties before them.
#[test]
fn calls_are_sent_in_order() {
    let (mut requests, mut out) = (Requester::new(8, 8, 64, 3), OutputQueues::default());
    requests
        .credits
        .on_reply(requests.credits.clone().take_call().unwrap(), Some(4));
    let call = CallSpec {
        length: 40,
        items: &[],
        max_reply: 24,
        results: &[],
        reducible: true,
    };
    let begin = |requests: &mut Requester, kind| {
        requests.call(kind, &call, NO_DEADLINE, |_| false).unwrap()
    };
    let xids: Vec<u32> = (0..7)
        .map(|_| begin(&mut requests, RequestKind::Rpc))
        .collect();
    requests.admit(&link(Version::Two), None, &mut out);
    assert!(requests.cancel(xids[1], &mut out) && requests.cancel(xids[5], &mut out));
    requests.lost(0, CloseReason::Lost, &mut out);
    requests.connected();
    let question = begin(&mut requests, RequestKind::Properties);
    let order = core::iter::from_fn(|| {
        let xid = requests.waiting.front()?;
        requests.end(xid, CallOutcome::None, &mut out);
        Some(xid)
    });
    assert_eq!(
        order.collect::<Vec<_>>(),
        [question, xids[0], xids[2], xids[3], xids[4], xids[6]]
    );
}

/// Begins a call of the consumer with this deadline.
fn begin(requests: &mut Requester, deadline: u64) -> u32 {
    let call = CallSpec {
        length: 40,
        items: &[],
        max_reply: 24,
        results: &[],
        reducible: false,
    };
    requests
        .call(RequestKind::Rpc, &call, deadline, |_| false)
        .unwrap()
}

/// Returns the XIDs of the calls that have failed.
fn failed(out: &mut OutputQueues) -> Vec<u32> {
    core::iter::from_fn(|| out.next_event())
        .map(|event| match event {
            Event::CallFailed {
                xid,
                error: CallFailure::TimedOut,
                ..
            } => xid,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Each deadline ends its call alone, and none is looked at again: one step for each call, however
/// many others are open.
#[test]
fn expiring_calls_takes_linear_time() {
    const CALLS: u16 = 1000;
    let (mut requests, mut out) = (Requester::new(CALLS, 32, 16, 1), OutputQueues::default());
    let deadline = |at: u64| 1 + at * 7919 % u64::from(CALLS);
    let mut calls: Vec<(u64, u32)> = (0..CALLS.into())
        .map(|at| (deadline(at), begin(&mut requests, deadline(at))))
        .collect();
    calls.sort_unstable();
    let before = requests.deadlines.steps;
    for (deadline, xid) in calls {
        assert_eq!(requests.earliest_deadline(), deadline);
        requests.expire(deadline - 1, &mut out);
        assert_eq!(failed(&mut out), []);
        requests.expire(deadline, &mut out);
        assert_eq!(failed(&mut out), [xid]);
    }
    assert_eq!(requests.earliest_deadline(), NO_DEADLINE);
    assert_eq!(requests.deadlines.steps - before, CALLS.into());
}

/// Deadlines of calls that ended before they passed take no room for long, and few steps.
#[test]
fn deadlines_of_ended_calls_are_removed() {
    const CALLS: u64 = 10_000;
    let (mut requests, mut out) = (Requester::new(64, 32, 16, 1), OutputQueues::default());
    let open: Vec<u32> = (0..32)
        .map(|at| begin(&mut requests, 1_000_000 + at))
        .collect();
    for at in 0..CALLS {
        let xid = begin(&mut requests, 2_000_000 - at);
        assert!(requests.cancel(xid, &mut out) && out.next_event().is_some());
        assert_eq!(requests.earliest_deadline(), 1_000_000);
    }
    assert!(requests.deadlines.capacity() <= 4 * 33);
    assert!(requests.deadlines.steps as u64 <= 3 * CALLS);
    requests.expire(1_000_031, &mut out);
    assert_eq!(failed(&mut out), open);
    assert_eq!(requests.earliest_deadline(), NO_DEADLINE);
}

/// The rest of a reply beside its Write chunk must fit with the header, which returns all segments
/// of the chunk. If it does not, the call is planned once more for as many segments.
#[test]
fn reply_header_fits_with_the_exposed_segments() {
    let link = link(Version::Two);
    let results = [ResultSpec {
        max_length: 2000,
        of: Span::CALL,
    }];
    let mut call = CallSpec {
        length: 40,
        items: &[],
        max_reply: 2000,
        results: &results,
        reducible: true,
    };
    // The longest rest that fits with two segments, as many as are planned.
    let header = link.version.header_len() + sizes::WRITE_CHUNK + 2 * sizes::SEGMENT;
    call.max_reply += link.reply_threshold - header;
    for (bytes, fits) in [(1000, true), (500, false)] {
        let (mut requests, mut out) = (Requester::new(2, 2, 64, 3), OutputQueues::default());
        let xid = requests
            .call(RequestKind::Rpc, &call, NO_DEADLINE, |_| false)
            .unwrap();
        requests.admit(&link, None, &mut out);
        let segments: Vec<Segment> = (0..2000 / bytes)
            .map(|number| Segment {
                handle: number,
                length: bytes,
                offset: u64::from(number * bytes),
            })
            .collect();
        requests.exposed(xid, [&segments[..]].into_iter(), &link, &mut out);
        assert_eq!(requests.ready.front() == Some(xid), fits, "{bytes}");
        if fits {
            continue;
        }
        requests.fenced(xid, &mut out);
        requests.admit(&link, None, &mut out);
        let plan = requests.plan(xid).unwrap();
        assert!(plan.write_chunks && plan.reply_chunk.is_some());
        // A Write chunk of four segments, and a Reply chunk of two.
        let chunks = sizes::WRITE_CHUNK + sizes::REPLY_CHUNK + 6 * sizes::SEGMENT;
        assert_eq!(plan.header, link.version.header_len() + chunks);
    }
}

/// A requester, and a call in the first of its states.
fn with_call(kind: RequestKind, call: &CallSpec<'_>) -> (Requester, OutputQueues, u32) {
    let (mut requests, mut out) = (Requester::new(4, 4, 64, 3), OutputQueues::default());
    let xid = requests.call(kind, call, NO_DEADLINE, |_| false).unwrap();
    requests.admit(&link(Version::Two), None, &mut out);
    (requests, out, xid)
}

const READ: CallSpec<'_> = CallSpec {
    length: 4_508,
    items: &[
        DataItem {
            position: 100,
            length: 2_000,
        },
        DataItem {
            position: 2_108,
            length: 2_000,
        },
    ],
    max_reply: 24,
    results: &[],
    reducible: true,
};

const SMALL: CallSpec<'_> = CallSpec {
    length: 40,
    items: &[],
    max_reply: 24,
    results: &[],
    reducible: true,
};

/// A message that was sent is no longer one that waits with its credit: a grant that falls counts
/// it.
// spec: rfc8166-3.3.1-a
#[test]
fn sent_property_request_is_not_counted_as_unsent() {
    let (mut requests, _, xid) = with_call(RequestKind::Properties, &SMALL);
    assert_eq!(requests.unsent, 1);
    assert_eq!(requests.transmit_properties(), Some(xid));
    assert_eq!(requests.unsent, 0);
}

/// The peer may access the memory of a call until the fence that its end asked for: one that
/// nothing has asked for is of no effect.
// spec: v2-2.2-b
#[test]
fn a_fence_releases_no_memory_of_a_call_that_has_not_ended() {
    let link = link(Version::Two);
    let (mut requests, mut out, xid) = with_call(RequestKind::Rpc, &READ);
    exposed(&mut requests, xid, &link, &mut out);
    let sent = requests.transmit((0, &mut [0; 1024]), &link, None, &mut out);
    assert!(sent.is_some());
    requests.released(xid, &mut out);
    requests.fenced(xid, &mut out);
    requests.cancel(xid, &mut out);
    assert_eq!(out.next_event(), None, "its memory is still exposed");
    requests.fenced(xid, &mut out);
    let failed = Event::CallFailed {
        xid,
        error: CallFailure::Cancelled,
        sent: true,
    };
    assert_eq!(out.next_event(), Some(failed));
}

/// A header names all memory that its call needs: with a region missing, the call is not sent.
// spec: rfc8166-3.4.5.2-a
#[test]
fn a_call_without_all_its_regions_is_not_sent() {
    let link = link(Version::Two);
    let (mut requests, mut out, xid) = with_call(RequestKind::Rpc, &READ);
    assert!(requests.exposures(xid).count() > 1);
    let one = [Segment {
        handle: 1,
        length: 2_000,
        offset: 0,
    }];
    requests.exposed(xid, [&one[..]].into_iter(), &link, &mut out);
    let sent = requests.transmit((0, &mut [0; 1024]), &link, None, &mut out);
    assert!(sent.is_none());
    requests.fenced(xid, &mut out);
    let failed = Event::CallFailed {
        xid,
        error: CallFailure::Transfer(TransferError::TooManySegments),
        sent: false,
    };
    assert_eq!(out.next_event(), Some(failed));
}

/// A reply arrives in a Reply chunk only if its call has offered one.
#[test]
fn long_reply_needs_an_offered_reply_chunk() {
    let link = link(Version::Two);
    let long = CallSpec {
        max_reply: 9_000,
        ..SMALL
    };
    for (call, takes) in [(&SMALL, false), (&long, true)] {
        let (mut requests, mut out, xid) = with_call(RequestKind::Rpc, call);
        assert!(!requests.takes_long_reply(xid), "it is not sent yet");
        if takes {
            exposed(&mut requests, xid, &link, &mut out);
        }
        let sent = requests.transmit((0, &mut [0; 1024]), &link, None, &mut out);
        assert!(sent.is_some());
        assert_eq!(requests.takes_long_reply(xid), takes);
        assert!(!requests.takes_long_reply(xid + 1), "there is no such call");
    }
}

/// Receives that are reserved for the reply of a call that was not sent, and its place among those
/// that wait to be sent, are free again with its end.
// spec: rtr-5.3-g
#[test]
fn receives_reserved_for_a_call_are_returned() {
    let groups = GroupLimits {
        responder_structure: BufferStructure::plain(4096),
        requester_structure: BufferStructure::plain(4096),
        max_request_transmissions: 8,
        max_reply_transmissions: 8,
        min_placed_len: 4096,
        preference: MethodPreference::Groups,
        placement: ResultPlacement::Cheaper,
    };
    let link = PathLimits {
        groups: Some(&groups),
        ..link(Version::Two)
    };
    let call = CallSpec {
        max_reply: 16_384,
        ..SMALL
    };
    let (mut requests, mut out) = (Requester::new(4, 4, 64, 3), OutputQueues::default());
    requests.enable_groups();
    let reserved = |requests: &Requester| requests.groups.as_ref().map(|groups| groups.reserved());
    for is_begun in [false, true] {
        let xid = requests
            .call(RequestKind::Rpc, &call, NO_DEADLINE, |_| false)
            .unwrap();
        requests.admit(&link, None, &mut out);
        assert!(requests.unsent == 1 && reserved(&requests) > Some(1));
        if is_begun {
            requests.mark_begun(xid, 0);
            assert!(requests.unsent == 0 && reserved(&requests) > Some(1));
        } else {
            requests.cancel(xid, &mut out);
            assert_eq!((requests.unsent, reserved(&requests)), (0, Some(0)));
        }
    }
}

/// The entries of calls that have ended are dropped at some time, and never hide one that waits:
/// neither among those with a rank nor among the others.
#[test]
fn ended_calls_do_not_hide_queued_ones() {
    let mut queue = CallQueue::default();
    for xid in 0..200u32 {
        if xid < 100 {
            let rank = Rank {
                is_rpc: true,
                sequence: xid.into(),
            };
            queue.push_ranked(rank, xid);
        } else {
            queue.push(xid);
        }
    }
    let stays = |xid: u32| xid % 7 == 6;
    let mut ended = Vec::new();
    // The youngest first, so that none of them is at the front.
    for xid in (0..200).rev().filter(|xid| !stays(*xid)) {
        ended.push(xid);
        queue.note_ended(|one| !ended.contains(&one));
    }
    for xid in (0..200).filter(|xid| stays(*xid)) {
        assert_eq!(queue.front(), Some(xid));
        ended.push(xid);
        queue.pop(|one| !ended.contains(&one));
    }
    assert!(queue.is_empty());
}
