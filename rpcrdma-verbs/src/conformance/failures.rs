//! Failures that end a connection, and how they are reported.

use std::collections::VecDeque;

use super::TestBed;
use super::fixture::{
    ConnectedEnds, Host, TestEnd, TestEvent, connect_hosts, connected, is_refused, pattern, until,
    whole_range,
};
use crate::memory::PostedBuf;
use crate::provider::{
    Access, Cause, CompletionQueue as _, ConnectionManager as _, Device, Operation, QueuePair as _,
    RemoteMemory, Status,
};
use crate::queue::BufRange;

const SEND: Operation = Operation::Send { invalidate: None };

pub(super) fn a_message_without_a_receive_ends_both<D: Device>(bed: &TestBed<D>) {
    // rfc: 5041-6.2.2-a, 5041-7.1-e
    let ConnectedEnds { mut near, mut far } = connected(bed);
    far.receives(1, 1024);
    near.send(b"first");
    let second = near.send(b"second");
    assert!(is_refused(
        &bed.near,
        near.wait_for(second),
        Status::ReceiverNotReady
    ));
    near.wait_for_end();
    far.wait_for_end();
    assert_eq!(*far.message().expect("it had arrived").0, *b"first");
}

pub(super) fn a_message_longer_than_its_receive_ends_both<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    far.receives(3, 1024);
    let sent = near.send(&pattern(1025));
    assert!(is_refused(
        &bed.near,
        near.wait_for(sent),
        Status::RemoteInvalidRequest
    ));
    // Devices report one or the other.
    let refused = far.message().expect_err("it is too long");
    assert_ne!(refused, Status::Flushed);
    // The rest are flushed.
    for _ in 0..2 {
        assert_eq!(far.message().map(|_| ()), Err(Status::Flushed));
    }
    near.wait_for_end();
    far.wait_for_end();
}

/// Waits for all completions, and compares them with those expected: in this order, each once.
fn all_end<D: Device>(end: &mut TestEnd<D>, requests: &[(u32, Status)], receives: &[*const u8]) {
    let (mut left, mut posted) = (
        requests.iter().collect::<VecDeque<_>>(),
        receives.iter().collect::<VecDeque<_>>(),
    );
    while !(left.is_empty() && posted.is_empty()) {
        match end.next() {
            TestEvent::Request(number, status) => {
                let expected = left.pop_front().expect("no more requests were posted");
                assert_eq!(number, expected.0);
                assert!(is_refused(&end.host.device, status, expected.1), "{status}");
            }
            TestEvent::Receive(buf, status, _) => {
                assert_eq!(
                    Some(&buf.as_ptr()),
                    posted.pop_front(),
                    "in the order of their posting"
                );
                assert_eq!(status, Status::Flushed);
            }
        }
    }
    assert_eq!(end.endpoint.in_flight(), 0);
    end.turn();
    assert!(end.events.is_empty(), "nothing ends twice");
}

/// Posts receives, and returns their addresses.
fn receives<D: Device>(end: &mut TestEnd<D>, count: usize) -> Vec<*const u8> {
    let bufs: Vec<_> = (0..count)
        .map(|_| end.host.pool.take(1024).expect("memory"))
        .collect();
    let places = bufs.iter().map(|buf| buf.as_ptr()).collect();
    bufs.into_iter()
        .for_each(|buf| end.endpoint.push_receive(buf));
    end.post();
    places
}

pub(super) fn what_was_posted_is_flushed_in_order<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.5-k, 5040-6.2.1-b, 5041-3-d, 5041-6.2.2-b
    for signals in [1, 4] {
        let ConnectedEnds { mut near, mut far } = connected(bed);
        let (ours, theirs) = (receives(&mut near, 5), receives(&mut far, 20));
        // The first is rejected; those after it were posted with it.
        let nowhere = RemoteMemory {
            address: 0,
            key: 0xdead_beef,
        };
        let data = whole_range(near.host.buf(b"data"));
        let first = near.push(
            Operation::Write { to: nowhere },
            std::slice::from_ref(&data),
            true,
        );
        let mut expected = vec![(first, Status::RemoteAccess)];
        for number in 1..=20 {
            // A failed request has a completion even if it is unsignaled.
            let number = near.push(SEND, std::slice::from_ref(&data), number % signals == 0);
            expected.push((number, Status::Flushed));
        }
        near.post();
        all_end(&mut near, &expected, &ours);
        all_end(&mut far, &[], &theirs);
        near.wait_for_end();
        far.wait_for_end();
    }
}

pub(super) fn what_is_posted_afterwards_is_flushed<D: Device>(bed: &TestBed<D>) {
    // rfc: 5041-6.2.1-a
    let ConnectedEnds { mut near, mut far } = connected(bed);
    near.endpoint.pair().disconnect();
    near.wait_for_end();
    far.wait_for_end();
    for end in [&mut near, &mut far] {
        let receives = receives(end, 3);
        let data = whole_range(end.host.buf(b"data"));
        let numbers: Vec<u32> = (0..3)
            .map(|_| end.push(SEND, std::slice::from_ref(&data), true))
            .collect();
        end.post();
        let expected: Vec<_> = numbers
            .into_iter()
            .map(|number| (number, Status::Flushed))
            .collect();
        all_end(end, &expected, &receives);
        // A second call has no effect.
        end.endpoint.pair().disconnect();
    }
}

pub(super) fn teardown_under_load_gives_all_back<D: Device>(bed: &TestBed<D>) {
    for posted in 0..30 {
        let ConnectedEnds { mut near, mut far } = connected(bed);
        let (memory, sink) = (
            PostedBuf::from(far.host.buf(&pattern(4096))),
            whole_range(near.host.buf(&[0; 4096])),
        );
        let (exposed, at) = far.expose(&memory, Access::REMOTE_READ);
        far.receives(30, 1024);
        near.receives(10, 1024);
        let note = whole_range(near.host.buf(b"note"));
        for number in 0..posted {
            let part = if number % 3 == 0 { &sink } else { &note };
            let operation = if number % 3 == 0 {
                Operation::Read { from: at }
            } else {
                SEND
            };
            near.push(operation, std::slice::from_ref(part), number % 4 == 0);
        }
        near.post();
        let budgets = [near.host.budget.clone(), far.host.budget.clone()];
        if posted % 2 == 0 {
            drop((near, sink, note));
            drop((exposed, far, memory));
        } else {
            drop((exposed, far, memory));
            drop((near, sink, note));
        }
        assert_eq!(
            budgets.map(|budget| budget.used()),
            [0, 0],
            "{posted} requests"
        );
    }
}

pub(super) fn nothing_of_a_dropped_queue_pair_is_touched<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    let buf = far.host.buf(&[1; 1024]);
    let place = buf.as_ptr();
    far.endpoint.push_receive(buf);
    far.post();
    let TestEnd { endpoint, host, .. } = far;
    assert_eq!(endpoint.close().count(), 0);
    // The buffers are back in their pool, and nothing writes them any more.
    let part = whole_range(near.host.buf(&[2; 1024]));
    near.push(SEND, &[part], true);
    let _ = near.endpoint.post();
    let back = host.pool.take(1024).expect("memory");
    assert_eq!(back.as_ptr(), place);
    near.wait_for_end();
    let mut back = back;
    back.set_len(1024);
    assert_eq!(*back, [1; 1024]);
}

pub(super) fn a_completion_queue_overruns<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-l
    let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 4));
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    let (mut near, mut far) = (TestEnd::new(first, near), TestEnd::new(second, far));
    far.receives(64, 1024);
    let note = BufRange {
        buf: PostedBuf::from(near.host.buf(b"note")),
        offset: 0,
        length: 4,
    };
    for _ in 0..64 {
        near.push(SEND, std::slice::from_ref(&note), true);
    }
    near.post();
    until("the end of all messages", || {
        near.turn();
        // The driver detects the overrun by this, and disconnects.
        far.host.advance();
        (near.endpoint.in_flight() == 0).then_some(())
    });
    // A device may have more entries than requested, but not enough for all of them.
    let overrun = until("the overrun", || {
        far.host.completions.poll(&mut Vec::new(), 1).err()
    });
    assert!(matches!(overrun.cause, Cause::Overrun), "{overrun}");
    assert!(
        far.host.completions.poll(&mut Vec::new(), 1).is_err(),
        "it stays so"
    );
    drop(far);
    near.wait_for_end();
}
