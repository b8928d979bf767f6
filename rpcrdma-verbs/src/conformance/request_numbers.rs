//! Request numbers, which wrap: each completion belongs to the right request.

use super::TestBed;
use super::fixture::{ConnectedEnds, TestEvent, connected, pattern, whole_range};
use crate::provider::software::{Fabric, SoftwareDevice};
use crate::provider::{Operation, Status};

const SEND: Operation = Operation::Send { invalidate: None };

fn both() -> ConnectedEnds<SoftwareDevice> {
    let fabric = Fabric::new();
    let address = ([127, 0, 0, 1], 0).into();
    let mut both = connected(&TestBed {
        near: fabric.device(),
        far: fabric.device(),
        third: fabric.device(),
        address,
    });
    // Nothing was sent before.
    both.near.endpoint.set_next_number(u32::MAX / 2 - 2);
    both
}

#[test]
fn numbers_begin_again() {
    let ConnectedEnds { mut near, mut far } = both();
    far.receives(40, 1024);
    for round in 0..10 {
        near.push_inline(b"nobody waits for it", false);
        let part = whole_range(near.host.buf(b"lent"));
        let lent = near.push(SEND, &[part], false);
        near.push_inline(b"nor for this", false);
        let last = near.push_inline(b"last", true);
        near.post();
        assert_eq!(near.endpoint.in_flight(), 4, "round {round}");
        assert!(
            matches!(near.next(), TestEvent::Request(number, Status::Success) if number == lent)
        );
        assert!(
            matches!(near.next(), TestEvent::Request(number, Status::Success) if number == last)
        );
        assert_eq!(
            (near.endpoint.in_flight(), near.events.len()),
            (0, 0),
            "round {round}"
        );
    }
}

#[test]
fn what_is_refused_gives_back_its_numbers() {
    let ConnectedEnds { mut near, mut far } = both();
    far.receives(8, 1024);
    let kept = whole_range(near.host.buf(b"kept"));
    near.push(SEND, &[kept], false);
    near.post();
    for _ in 0..3 {
        near.push_inline(b"fits", true);
        let part = whole_range(near.host.buf(b"lent"));
        near.push(SEND, &[part], true);
        near.push_inline(&pattern(1024), false);
        near.endpoint.post().expect_err("one of them is too long");
        assert_eq!(near.endpoint.in_flight(), 1, "the one before");
    }
    let last = near.send(b"last");
    assert_eq!(near.wait_for(last), Status::Success);
    assert_eq!(near.endpoint.in_flight(), 0);
    // Discarded requests are reported at the end.
    assert_eq!(near.endpoint.close().count(), 6);
}

#[test]
fn a_failure_is_of_the_request_that_failed() {
    let ConnectedEnds { mut near, mut far } = both();
    far.receives(2, 1024);
    let part = whole_range(near.host.buf(b"done"));
    let done = near.push(SEND, &[part], false);
    near.push_inline(b"done", false);
    near.push_inline(b"no receive is left for it", false);
    let flushed = near.push_inline(b"nor for this", true);
    near.post();
    assert_eq!(
        near.wait_for(done),
        Status::Success,
        "it was done before the one that failed"
    );
    assert_eq!(near.wait_for(flushed), Status::Flushed);
    assert_eq!(near.endpoint.in_flight(), 0);
}
