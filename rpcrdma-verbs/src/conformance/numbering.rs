//! The numbers of requests, which begin again after the last: what became of a request is told of that one.

use super::Bed;
use super::world::{Both, Seen, connected, octets, whole};
use crate::provider::software::{Fabric, SoftwareDevice};
use crate::provider::{Operation, Status};

const SEND: Operation = Operation::Send { invalidate: None };

fn both() -> Both<SoftwareDevice> {
    let fabric = Fabric::new();
    let address = ([127, 0, 0, 1], 0).into();
    let mut both = connected(&Bed { near: fabric.device(), far: fabric.device(), third: fabric.device(), address });
    // Before anything was sent.
    both.near.endpoint.number_from(u32::MAX / 2 - 2);
    both
}

#[test]
fn numbers_begin_again() {
    let Both { mut near, mut far } = both();
    far.receives(40, 1024);
    for round in 0..10 {
        near.push_along(b"nobody waits for it", false);
        let part = whole(near.host.buf(b"lent"));
        let lent = near.push(SEND, &[part], false);
        near.push_along(b"nor for this", false);
        let last = near.push_along(b"last", true);
        near.post();
        assert_eq!(near.endpoint.under_way(), 4, "round {round}");
        assert!(matches!(near.next(), Seen::Request(number, Status::Success) if number == lent));
        assert!(matches!(near.next(), Seen::Request(number, Status::Success) if number == last));
        assert_eq!((near.endpoint.under_way(), near.seen.len()), (0, 0), "round {round}");
    }
}

#[test]
fn what_is_refused_gives_back_its_numbers() {
    let Both { mut near, mut far } = both();
    far.receives(8, 1024);
    let kept = whole(near.host.buf(b"kept"));
    near.push(SEND, &[kept], false);
    near.post();
    for _ in 0..3 {
        near.push_along(b"fits", true);
        let part = whole(near.host.buf(b"lent"));
        near.push(SEND, &[part], true);
        near.push_along(&octets(1024), false);
        near.endpoint.post().expect_err("one of them is too long");
        assert_eq!(near.endpoint.under_way(), 1, "the one before");
    }
    let last = near.send(b"last");
    assert_eq!(near.done(last), Status::Success);
    assert_eq!(near.endpoint.under_way(), 0);
    // What was given up is told at the end.
    assert_eq!(near.endpoint.close().count(), 6);
}

#[test]
fn a_failure_is_of_the_request_that_failed() {
    let Both { mut near, mut far } = both();
    far.receives(2, 1024);
    let part = whole(near.host.buf(b"done"));
    let done = near.push(SEND, &[part], false);
    near.push_along(b"done", false);
    near.push_along(b"no receive is left for it", false);
    let flushed = near.push_along(b"nor for this", true);
    near.post();
    assert_eq!(near.done(done), Status::Success, "it was done before the one that failed");
    assert_eq!(near.done(flushed), Status::Flushed);
    assert_eq!(near.endpoint.under_way(), 0);
}
