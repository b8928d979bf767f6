use super::*;
use crate::header::{Header, HeaderBody};
use crate::transfer::DataItem;
use std::{vec, vec::Vec};

const fn segment(handle: u32, length: u32, offset: u64) -> v2::Segment {
    v2::Segment {
        handle,
        length,
        offset,
    }
}

/// A call of eight bytes that offers these chunks.
fn offering(xid: u32, writes: &[&[v2::Segment]], reply: Option<&[v2::Segment]>) -> Vec<u8> {
    let writes: Vec<_> = writes
        .iter()
        .map(|target| v2::WriteChunk {
            target: (*target).into(),
        })
        .collect();
    let mut bytes = vec![0; 4096];
    let header = OutgoingHeader {
        xid,
        writes: &writes,
        reply,
        ..OutgoingHeader::EMPTY
    }
    .write(&mut bytes)
    .unwrap();
    bytes[header..header + 4].copy_from_slice(&xid.to_be_bytes());
    bytes.truncate(header + 8);
    bytes
}

fn arrive(
    serving: &mut Responder,
    out: &mut OutputQueues,
    bytes: &[u8],
) -> Result<ServedCallId, ServeError> {
    let Header {
        xid,
        version,
        credits,
        body,
    } = Header::parse(bytes, Version::Two).unwrap();
    let HeaderBody::Message { chunks, .. } = body else {
        panic!("a message")
    };
    let inline = Some(bytes.len() as u32 - 8..bytes.len() as u32);
    serving.arrived(
        &IncomingCall {
            xid,
            version,
            requested_credits: credits,
            buffer: BufferId(1),
            inline,
            chunks: chunks.some(),
        },
        out,
    )
}

fn serving() -> (Responder, OutputQueues) {
    (
        Responder::new(4, 2, ChunkLimits::DEFAULT, 7),
        OutputQueues::default(),
    )
}

/// Results go to their Write chunks, the rest to the Reply chunk: into one segment after the other,
/// and the header returns how much is in each.
// spec: xc3-3.1-f
#[test]
fn reply_fills_segments_in_order() {
    let (mut serving, mut out) = serving();
    let (first, second) = (
        [segment(1, 10, 100), segment(2, 20, 200)],
        [segment(3, 5, 300)],
    );
    let rest = [segment(4, 50, 400), segment(5, 100, 500)];
    let bytes = offering(9, &[&first, &second], Some(&rest));
    let call = arrive(&mut serving, &mut out, &bytes).unwrap();
    let results = [
        DataItem {
            position: 20,
            length: 16,
        },
        DataItem {
            position: 40,
            length: 0,
        },
    ]
    .map(ResultItem::from);
    let terms = ReplyLimits {
        threshold: 140,
        invalidate: true,
        groups: None,
    };
    assert_eq!(serving.reply(call, 100, &results, |_| terms), Some(Ok(())));
    let mut header = [0; 512];
    let sent = serving.transmit(&mut header, (0, None), |_| terms).unwrap();
    assert_eq!(
        (sent.invalidate, serving.parts(call).count()),
        (None, 0),
        "many keys, and nothing inline"
    );
    let found: Vec<_> = serving
        .writes(call)
        .map(|write| {
            (
                write.target.handle,
                write.target.offset,
                write.target.length,
                write.range,
            )
        })
        .collect();
    let expected = [
        (1, 100, 10, 20..30),
        (2, 200, 6, 30..36),
        (4, 400, 20, 0..20),
        (4, 420, 30, 36..66),
        (5, 500, 34, 66..100),
    ];
    assert_eq!(found, expected);
    let parsed = Header::parse(&header[..sent.header], Version::Two).unwrap();
    let HeaderBody::Long { chunks, .. } = parsed.body else {
        panic!("a long reply")
    };
    let lengths = |chunk: WriteChunk<'_>| {
        chunk
            .segments()
            .map(|segment| segment.length)
            .collect::<Vec<_>>()
    };
    let writes: Vec<_> = chunks
        .writes(&ChunkLimits::DEFAULT)
        .map(|chunk| lengths(chunk.unwrap()))
        .collect();
    assert_eq!(writes, [vec![10, 6], vec![0]]);
    assert_eq!(
        lengths(chunks.reply(&ChunkLimits::DEFAULT).unwrap().unwrap()),
        [50, 34]
    );
}

/// A reply that fits is inline, and an offered Reply chunk is returned empty.
// spec: xc3-3.1-f
#[test]
fn reply_chunk_is_used_if_the_reply_does_not_fit_inline() {
    let (mut serving, mut out) = serving();
    let bytes = offering(9, &[], Some(&[segment(4, 500, 400)]));
    let call = arrive(&mut serving, &mut out, &bytes).unwrap();
    let terms = ReplyLimits {
        threshold: 1024,
        invalidate: true,
        groups: None,
    };
    assert_eq!(serving.reply(call, 500, &[], |_| terms), Some(Ok(())));
    let sent = serving
        .transmit(&mut [0; 512], (0, None), |_| terms)
        .unwrap();
    assert_eq!(
        (sent.invalidate, serving.writes(call).count()),
        (Some(4), 0)
    );
    assert_eq!(
        (serving.parts(call).next(), serving.parts(call).count()),
        (Some(0..500), 1)
    );
}

/// XIDs are found until their calls are answered, for any choice of the peer.
#[test]
fn xid_is_free_after_the_reply() {
    let (mut serving, mut out) = serving();
    let terms = ReplyLimits {
        threshold: 1024,
        invalidate: false,
        groups: None,
    };
    for xid in [0, 1, u32::MAX, 0x8000_0000, 0, 0] {
        let bytes = offering(xid, &[], None);
        let call = arrive(&mut serving, &mut out, &bytes).unwrap();
        assert!(serving.is_open(xid) && !serving.is_open(xid ^ 2));
        assert_eq!(
            arrive(&mut serving, &mut out, &bytes),
            Err(ServeError::DuplicateXid)
        );
        assert_eq!(serving.reply(call, 8, &[], |_| terms), Some(Ok(())));
        assert!(serving.is_open(xid), "it is not sent yet");
        assert!(
            serving
                .transmit(&mut [0; 64], (0, None), |_| terms)
                .is_some()
        );
        assert!(!serving.is_open(xid));
        assert!(serving.released(call));
        assert_eq!((serving.len(), serving.length(call)), (0, None));
    }
}

/// No more replies are with their Sends than calls are served at once.
#[test]
fn replies_wait_for_unreleased_sends() {
    let (mut serving, mut out) = serving();
    let terms = ReplyLimits {
        threshold: 1024,
        invalidate: false,
        groups: None,
    };
    let mut answered = |serving: &mut Responder, xid| {
        let call = arrive(serving, &mut out, &offering(xid, &[], None)).unwrap();
        assert_eq!(serving.reply(call, 8, &[], |_| terms), Some(Ok(())));
        (
            call,
            serving
                .transmit(&mut [0; 64], (0, None), |_| terms)
                .is_some(),
        )
    };
    let sent: Vec<_> = (0..5).map(|xid| answered(&mut serving, xid)).collect();
    assert_eq!(
        sent.iter().map(|(_, sent)| *sent).collect::<Vec<_>>(),
        [true, true, true, true, false]
    );
    assert!(serving.released(sent[0].0));
    assert!(
        serving
            .transmit(&mut [0; 64], (0, None), |_| terms)
            .is_some()
    );
}

/// A report of a broken reply is a message of the peer's, as many as it likes: none of them goes
/// through all calls.
#[test]
fn error_report_takes_constant_time() {
    let (mut serving, mut out) = (
        Responder::new(2_000, 2, ChunkLimits::DEFAULT, 7),
        OutputQueues::default(),
    );
    serving.credits.grant_with_reply(2_000);
    let steps = [500, 2_000].map(|calls| {
        for xid in serving.len() as u32..calls {
            arrive(&mut serving, &mut out, &offering(xid, &[], None)).unwrap();
        }
        let before = serving.calls.steps.get();
        assert!((0..calls).all(|xid| !serving.on_error_report(xid, 1024)));
        serving.calls.steps.get() - before
    });
    assert!(steps[1] <= 4 * steps[0].max(500), "{steps:?} places");
}

/// A reply returns the credit of its own call and no other: else the peer could send more calls
/// than there are receives for.
// spec: rfc8166-3.3.1-b
#[test]
fn a_reply_returns_the_credit_of_its_call_alone() {
    let (mut serving, mut out) = serving();
    let terms = ReplyLimits {
        threshold: 1024,
        invalidate: false,
        groups: None,
    };
    serving.credits.grant_with_reply(3);
    let calls = [1, 2, 3].map(|xid| {
        let call = offering(xid, &[], None);
        arrive(&mut serving, &mut out, &call).unwrap()
    });
    for (call, left) in calls.into_iter().zip([2, 1, 0]) {
        assert_eq!(serving.reply(call, 8, &[], |_| terms), Some(Ok(())));
        let sent = serving.transmit(&mut [0; 64], (0, None), |_| terms);
        assert!(sent.is_some());
        assert_eq!(serving.credits.pending(), left);
    }
}

/// A refused call does not change the credits of served calls.
// spec: rfc8166-3.3.1-b
#[test]
fn calls_that_are_not_served_take_no_credit_and_return_none() {
    let (mut serving, mut out) = serving();
    let call = arrive(&mut serving, &mut out, &offering(1, &[], None)).unwrap();
    let overrun = arrive(&mut serving, &mut out, &offering(2, &[], None));
    assert_eq!(overrun, Err(ServeError::Overrun));
    assert_eq!(serving.credits.pending(), 1);
    let beyond = segment(1, 2, u64::MAX);
    let fault = arrive(&mut serving, &mut out, &offering(3, &[&[beyond]], None));
    assert!(matches!(fault, Err(ServeError::Fault(_))), "{fault:?}");
    assert_eq!(serving.credits.pending(), 1);
    assert!(serving.is_delivered(call) && serving.len() == 1);
}

/// A call without chunks is as long as what follows its header.
#[test]
fn a_call_without_chunks_has_the_length_of_its_payload() {
    let (mut serving, mut out) = serving();
    let arrival = IncomingCall {
        xid: 1,
        version: Version::Two,
        requested_credits: 1,
        buffer: BufferId(1),
        inline: Some(32..72),
        chunks: None,
    };
    let call = serving.arrived(&arrival, &mut out).unwrap();
    assert_eq!(serving.length(call), Some(40));
}
