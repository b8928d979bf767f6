//! The software fabric with a delay. Lower bounds of times are exact; upper bounds are tested by
//! order only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::TestBed;
use super::fixture::{
    ConnectedEnds, TestEnd, TestEvent, connected, connected_with_retries, pattern, whole_range,
};
use super::wakeups::{LONG, wakes};
use crate::driver::exposure::KeyedWindow;
use crate::memory::PostedBuf;
use crate::provider::software::{Fabric, SoftwareDevice};
use crate::provider::{Access, CompletionQueue as _, Operation, RemoteMemory, Status};
use crate::queue::BufRange;

const DELAY: Duration = Duration::from_millis(2);
const SEND: Operation = Operation::Send { invalidate: None };

fn bed(fabric: &Arc<Fabric>) -> TestBed<SoftwareDevice> {
    let address = ([127, 0, 0, 1], 0).into();
    TestBed {
        near: fabric.device(),
        far: fabric.device(),
        third: fabric.device(),
        address,
    }
}

fn both(delay: Duration) -> ConnectedEnds<SoftwareDevice> {
    connected(&bed(&Fabric::with_delay(delay)))
}

#[test]
fn a_message_takes_one_way_and_its_completion_two() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    far.receives(8, 1024);
    for _ in 0..8 {
        let began = Instant::now();
        let sent = near.send(b"message");
        assert_eq!(*far.message().expect("it arrives").0, *b"message");
        assert!(began.elapsed() >= DELAY);
        assert_eq!(near.wait_for(sent), Status::Success);
        assert!(began.elapsed() >= 2 * DELAY);
    }
}

/// Inline bytes are copied when they are posted, although they arrive later.
#[test]
fn inline_bytes_are_copied_at_the_post() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    far.receives(8, 1024);
    for number in 0..8 {
        near.push_inline(&[number; 100], false);
        near.post();
    }
    for number in 0..8 {
        assert_eq!(*far.message().expect("it arrives").0, [number; 100]);
    }
}

#[test]
fn reads_and_writes_take_both_ways() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    let memory = PostedBuf::from(far.host.buf(&pattern(1024)));
    let (_exposed, at) = far.expose(&memory, Access::REMOTE_READ);
    let target = PostedBuf::from(far.host.buf(&pattern(1024)));
    let (exposed, to) = far.expose(&target, Access::REMOTE_WRITE);
    let began = Instant::now();
    assert_eq!(near.read(at, 1024).as_deref(), Ok(&*pattern(1024)));
    assert!(began.elapsed() >= 2 * DELAY);
    let began = Instant::now();
    let written = near.write(to, &[0xdd; 1024]);
    assert_eq!(near.wait_for(written), Status::Success);
    assert!(began.elapsed() >= 2 * DELAY);
    drop((near, far.endpoint, exposed));
    assert_eq!(*target.into_buf().expect("nothing uses it"), [0xdd; 1024]);
}

/// The bytes are read one delay after the post, and not at the post.
#[test]
fn a_read_takes_what_is_there_when_it_arrives() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    far.receives(1, 1024);
    let memory = PostedBuf::from(far.host.buf(&[1; 64]));
    let (_exposed, at) = far.expose(
        &memory,
        Access {
            remote_read: true,
            ..Access::REMOTE_WRITE
        },
    );
    let written = whole_range(near.host.buf(&[2; 64]));
    near.push(Operation::Write { to: at }, &[written], false);
    // It is queued behind a write in flight, and arrives no later.
    assert_eq!(near.read(at, 64), Ok(vec![2; 64]));
}

#[test]
fn batch_completes_together() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    far.receives(1, 1024);
    let memory = PostedBuf::from(far.host.buf(&pattern(1024)));
    let (exposed, to) = far.expose(&memory, Access::REMOTE_WRITE);
    let mut numbers = Vec::new();
    for number in 0..10 {
        let to = RemoteMemory {
            address: to.address + number * 8,
            ..to
        };
        let data = whole_range(near.host.buf(&[0xd0 + number as u8; 8]));
        numbers.push(near.push(Operation::Write { to }, &[data], true));
    }
    let note = whole_range(near.host.buf(b"written"));
    numbers.push(near.push(SEND, &[note], true));
    near.post();
    far.message().expect("it arrives");
    // One poll returns all of them: none waits for the acknowledgement of another.
    assert!(
        matches!(near.next(), TestEvent::Request(number, Status::Success) if number == numbers[0])
    );
    let rest: Vec<u32> = near
        .events
        .drain(..)
        .filter_map(|events| number_of(&events))
        .collect();
    assert_eq!(rest, numbers[1..]);
    drop((near, far.endpoint, exposed));
    let written: Vec<u8> = (0..80).map(|at| 0xd0 + at / 8).collect();
    assert_eq!(
        memory.into_buf().expect("nothing uses it")[..80],
        written,
        "all, when the message is there"
    );
}

fn number_of(events: &TestEvent) -> Option<u32> {
    if let TestEvent::Request(number, Status::Success) = events {
        Some(*number)
    } else {
        None
    }
}

/// Binding and invalidating windows takes no time, but happens in order.
#[test]
fn local_requests_have_no_delay() {
    let ConnectedEnds { mut near, mut far } = both(Duration::from_secs(3600));
    far.receives(1, 1024);
    let memory = PostedBuf::from(near.host.buf(&pattern(64)));
    let mut window = KeyedWindow::new(&near.host.device).expect("a window");
    let all = BufRange {
        buf: memory,
        offset: 0,
        length: 64,
    };
    let mut bind = |near: &mut TestEnd<_>| {
        let key = window.next_key();
        let access = Access::REMOTE_READ;
        let bind = near.request(
            Operation::Bind {
                window: window.number(),
                key,
                access,
            },
            std::slice::from_ref(&all),
        );
        (bind, key)
    };
    let (first, key) = bind(&mut near);
    near.turn();
    assert_eq!(near.wait_for(first), Status::Success);
    let invalidated = near.request(Operation::Invalidate { key }, &[]);
    near.turn();
    assert_eq!(near.wait_for(invalidated), Status::Success);
    near.send(b"an hour");
    bind(&mut near);
    near.turn();
    assert!(near.events.is_empty(), "not before the message");
}

/// A completion implies that all earlier requests are done.
#[test]
fn requests_without_completions_take_as_long() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    far.receives(1, 1024);
    let mut window = KeyedWindow::new(&near.host.device).expect("a window");
    let parts = [
        whole_range(near.host.buf(b"message")),
        whole_range(near.host.buf(b"exposed")),
    ];
    let began = Instant::now();
    near.push(SEND, &parts[..1], false);
    near.post();
    far.message().expect("it arrives");
    let bind = Operation::Bind {
        window: window.number(),
        key: window.next_key(),
        access: Access::REMOTE_READ,
    };
    let bound = near.request(bind, &parts[1..]);
    assert_eq!(near.wait_for(bound), Status::Success);
    assert!(began.elapsed() >= 2 * DELAY);
}

#[test]
fn refused_and_flushed_requests_keep_their_order() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    far.receives(2, 1024);
    let (note, nowhere) = (
        whole_range(near.host.buf(b"note")),
        RemoteMemory {
            address: 0,
            key: 0xdead_beef,
        },
    );
    let mut expected = vec![(
        near.push(SEND, std::slice::from_ref(&note), true),
        Status::Success,
    )];
    let write = near.push(
        Operation::Write { to: nowhere },
        std::slice::from_ref(&note),
        true,
    );
    expected.push((write, Status::RemoteAccess));
    let began = Instant::now();
    near.post();
    for _ in 0..3 {
        expected.push((
            near.request(SEND, std::slice::from_ref(&note)),
            Status::Flushed,
        ));
    }
    // Those of the other direction, too.
    let back = whole_range(far.host.buf(b"back"));
    let lost = far.request(SEND, &[back]);
    for (position, expected) in expected.iter().enumerate() {
        let TestEvent::Request(number, status) = near.next() else {
            panic!("not a request");
        };
        assert_eq!((number, status), *expected);
        assert!(position > 0 || began.elapsed() >= 2 * DELAY);
    }
    far.message().expect("it had arrived");
    assert!(far.message().is_err(), "flushed");
    assert_ne!(far.wait_for(lost), Status::Success);
    near.wait_for_end();
    far.wait_for_end();
}

#[test]
fn a_message_that_waits_for_a_receive_is_done_after_it() {
    let ConnectedEnds { mut near, mut far } =
        connected_with_retries(&bed(&Fabric::with_delay(DELAY)));
    let sent = [near.send(b"first"), near.send(b"second")];
    let began = Instant::now();
    while began.elapsed() < 3 * DELAY {
        near.turn();
        far.turn();
    }
    assert!(near.events.is_empty() && far.events.is_empty(), "it waits");
    let began = Instant::now();
    far.receives(2, 1024);
    assert_eq!(*far.message().expect("it arrives").0, *b"first");
    assert_eq!(*far.message().expect("it arrives").0, *b"second");
    assert_eq!(
        sent.map(|number| near.wait_for(number)),
        [Status::Success; 2]
    );
    assert!(
        began.elapsed() >= DELAY,
        "the acknowledgement has its way to go"
    );
}

#[test]
fn sleeping_thread_is_woken() {
    let ConnectedEnds { mut near, mut far } = both(DELAY);
    for _ in 0..20 {
        far.receives(1, 1024);
        let sent = near.send(b"wake up");
        for end in [&mut far, &mut near] {
            end.host.completions.arm().expect("it is armed");
            // Earlier completions are not reported after arming.
            end.turn();
            if end.events.is_empty() {
                assert!(wakes(end, LONG), "nobody polls");
            }
            let acknowledged = end.host.completions.acknowledge();
            acknowledged.expect("it is acknowledged");
        }
        far.message().expect("it arrives");
        assert_eq!(near.wait_for(sent), Status::Success);
    }
}

/// The time is exact: nothing arrives before the user has moved the clock to it.
#[test]
fn a_manual_clock_moves_to_the_next_due_work() {
    let fabric = Fabric::with_manual_delay(DELAY);
    let ConnectedEnds { mut near, mut far } = connected(&bed(&fabric));
    far.receives(8, 1024);
    for round in 0..3 {
        let sent = near.send(b"message");
        far.turn();
        assert!(far.events.is_empty());
        assert_eq!(fabric.advance(), Some(DELAY * (2 * round + 1)));
        assert_eq!(*far.message().expect("it arrives").0, *b"message");
        near.turn();
        assert!(near.events.is_empty());
        assert_eq!(fabric.advance(), Some(DELAY * (2 * round + 2)));
        assert_eq!(near.wait_for(sent), Status::Success);
        assert_eq!(fabric.advance(), None);
    }
    for other in [Fabric::new(), Fabric::with_delay(DELAY)] {
        let ConnectedEnds { mut near, mut far } = connected(&bed(&other));
        far.receives(1, 1024);
        near.send(b"message");
        assert_eq!(other.advance(), None);
    }
}

#[test]
fn a_manual_clock_wakes_a_sleeping_thread() {
    let fabric = Fabric::with_manual_delay(DELAY);
    let ConnectedEnds { mut near, mut far } = connected(&bed(&fabric));
    for _ in 0..20 {
        far.receives(1, 1024);
        let sent = near.send(b"wake up");
        for end in [&mut far, &mut near] {
            end.host.completions.arm().expect("it is armed");
            end.turn();
            assert!(end.events.is_empty());
            fabric.advance().expect("a message or its completion");
            assert!(wakes(end, LONG), "nobody polls");
            let acknowledged = end.host.completions.acknowledge();
            acknowledged.expect("it is acknowledged");
        }
        far.message().expect("it arrives");
        assert_eq!(near.wait_for(sent), Status::Success);
    }
}

/// Drops both ends with requests in flight, and the fabric with the last of them. The fabric must
/// then be gone.
fn under_way_is_dropped(fabric: Arc<Fabric>, far_first: bool) {
    let ConnectedEnds { mut near, mut far } = connected(&bed(&fabric));
    drop(fabric);
    far.receives(4, 1024);
    let memory = PostedBuf::from(far.host.buf(&pattern(1024)));
    let slice = memory.slice(0, 1024).expect("it is within");
    near.send(b"message");
    near.write(
        RemoteMemory {
            address: slice.address,
            key: slice.key,
        },
        b"refused, if it arrives",
    );
    far.send(b"back");
    for end in [&near, &far] {
        end.host.completions.arm().expect("it is armed");
    }
    let budgets = [near.host.budget.clone(), far.host.budget.clone()];
    if far_first {
        drop((far, memory));
        near.wait_for_end();
        drop(near);
    } else {
        drop(near);
        far.wait_for_end();
        drop((far, memory));
    }
    assert_eq!(budgets.map(|budget| budget.used()), [0, 0]);
}

#[test]
fn requests_in_flight_are_dropped() {
    for far_first in [false, true] {
        let fabric = Fabric::with_delay(Duration::from_secs(3600));
        let left = Arc::downgrade(&fabric);
        under_way_is_dropped(fabric, far_first);
        assert_eq!(left.strong_count(), 0, "nothing holds it");
        // At this time something is due, and the thread may be executing it.
        for round in 0..100 {
            under_way_is_dropped(Fabric::with_delay(Duration::from_micros(round)), far_first);
        }
    }
}

#[test]
fn no_delay_is_none() {
    let ConnectedEnds { mut near, mut far } = both(Duration::ZERO);
    far.receives(1, 1024);
    near.send(b"at once");
    far.turn();
    near.turn();
    assert_eq!((far.events.len(), near.events.len()), (1, 1));
}
