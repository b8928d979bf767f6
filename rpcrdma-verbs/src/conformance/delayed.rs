//! What the software fabric does with a delay, beyond the cases: lower bounds of time are exact, and upper ones are told by
//! order alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Bed;
use super::waking::{LONG, wakes};
use super::world::{Both, CONFIG, End, Host, Seen, connected, octets, whole};
use crate::driver::exposure::Bound;
use crate::memory::Lent;
use crate::provider::software::{Fabric, SoftwareDevice};
use crate::provider::{Access, CompletionQueue as _, Manager as _, Operation, QueuePairConfig, Queues, Remote, Status};
use crate::queue::Part;

const DELAY: Duration = Duration::from_millis(2);
const SEND: Operation = Operation::Send { invalidate: None };

fn bed(fabric: &Arc<Fabric>) -> Bed<SoftwareDevice> {
    let address = ([127, 0, 0, 1], 0).into();
    Bed { near: fabric.device(), far: fabric.device(), third: fabric.device(), address }
}

fn both(delay: Duration) -> Both<SoftwareDevice> {
    connected(&bed(&Fabric::with_delay(delay)))
}

#[test]
fn a_message_takes_one_way_and_its_completion_two() {
    let Both { mut near, mut far } = both(DELAY);
    far.receives(8, 1024);
    for _ in 0..8 {
        let began = Instant::now();
        let sent = near.send(b"message");
        assert_eq!(*far.message().expect("it arrives").0, *b"message");
        assert!(began.elapsed() >= DELAY);
        assert_eq!(near.done(sent), Status::Success);
        assert!(began.elapsed() >= 2 * DELAY);
    }
}

/// What goes along is taken when it is posted, though it arrives later.
#[test]
fn a_message_goes_along_on_its_way() {
    let Both { mut near, mut far } = both(DELAY);
    far.receives(8, 1024);
    for number in 0..8 {
        near.push_along(&[number; 100], false);
        near.post();
    }
    for number in 0..8 {
        assert_eq!(*far.message().expect("it arrives").0, [number; 100]);
    }
}

#[test]
fn reads_and_writes_take_both_ways() {
    let Both { mut near, mut far } = both(DELAY);
    let memory = Lent::from(far.host.buf(&octets(1024)));
    let (_exposed, at) = far.expose(&memory, Access::REMOTE_READ);
    let target = Lent::from(far.host.buf(&octets(1024)));
    let (exposed, to) = far.expose(&target, Access::REMOTE_WRITE);
    let began = Instant::now();
    assert_eq!(near.read(at, 1024).as_deref(), Ok(&*octets(1024)));
    assert!(began.elapsed() >= 2 * DELAY);
    let began = Instant::now();
    let written = near.write(to, &[0xdd; 1024]);
    assert_eq!(near.done(written), Status::Success);
    assert!(began.elapsed() >= 2 * DELAY);
    drop((near, far.endpoint, exposed));
    assert_eq!(*target.into_buf().expect("nothing uses it"), [0xdd; 1024]);
}

/// The octets are taken and placed one way from the posting, and not when it is posted.
#[test]
fn a_read_takes_what_is_there_when_it_arrives() {
    let Both { mut near, mut far } = both(DELAY);
    far.receives(1, 1024);
    let memory = Lent::from(far.host.buf(&[1; 64]));
    let (_exposed, at) = far.expose(&memory, Access { remote_read: true, ..Access::REMOTE_WRITE });
    let written = whole(near.host.buf(&[2; 64]));
    near.push(Operation::Write { to: at }, &[written], false);
    // Behind the write on its way, and yet no later than it.
    assert_eq!(near.read(at, 64), Ok(vec![2; 64]));
}

#[test]
fn what_is_posted_together_is_done_together() {
    let Both { mut near, mut far } = both(DELAY);
    far.receives(1, 1024);
    let memory = Lent::from(far.host.buf(&octets(1024)));
    let (exposed, to) = far.expose(&memory, Access::REMOTE_WRITE);
    let mut numbers = Vec::new();
    for number in 0..10 {
        let to = Remote { address: to.address + number * 8, ..to };
        let data = whole(near.host.buf(&[0xd0 + number as u8; 8]));
        numbers.push(near.push(Operation::Write { to }, &[data], true));
    }
    let note = whole(near.host.buf(b"written"));
    numbers.push(near.push(SEND, &[note], true));
    near.post();
    far.message().expect("it arrives");
    // One poll brings all of them: none waits for the acknowledgement of another.
    assert!(matches!(near.next(), Seen::Request(number, Status::Success) if number == numbers[0]));
    let rest: Vec<u32> = near.seen.drain(..).filter_map(|seen| number_of(&seen)).collect();
    assert_eq!(rest, numbers[1..]);
    drop((near, far.endpoint, exposed));
    let written: Vec<u8> = (0..80).map(|at| 0xd0 + at / 8).collect();
    assert_eq!(memory.into_buf().expect("nothing uses it")[..80], written, "all, when the message is there");
}

fn number_of(seen: &Seen) -> Option<u32> {
    if let Seen::Request(number, Status::Success) = seen { Some(*number) } else { None }
}

/// Windows are bound and invalidated here: that takes no time, but has its place.
#[test]
fn what_is_local_takes_no_time() {
    let Both { mut near, mut far } = both(Duration::from_secs(3600));
    far.receives(1, 1024);
    let memory = Lent::from(near.host.buf(&octets(64)));
    let mut window = Bound::new(&near.host.device).expect("a window");
    let all = Part { buf: memory, from: 0, length: 64 };
    let mut bind = |near: &mut End<_>| {
        let key = window.next_key();
        let access = Access::REMOTE_READ;
        let bind = near.request(Operation::Bind { window: window.number(), key, access }, std::slice::from_ref(&all));
        (bind, key)
    };
    let (first, key) = bind(&mut near);
    near.turn();
    assert_eq!(near.done(first), Status::Success);
    let invalidated = near.request(Operation::Invalidate { key }, &[]);
    near.turn();
    assert_eq!(near.done(invalidated), Status::Success);
    near.send(b"an hour");
    bind(&mut near);
    near.turn();
    assert!(near.seen.is_empty(), "not before the message");
}

/// A completion says that all before it are done.
#[test]
fn requests_without_completions_take_as_long() {
    let Both { mut near, mut far } = both(DELAY);
    far.receives(1, 1024);
    let mut window = Bound::new(&near.host.device).expect("a window");
    let parts = [whole(near.host.buf(b"message")), whole(near.host.buf(b"exposed"))];
    let began = Instant::now();
    near.push(SEND, &parts[..1], false);
    near.post();
    far.message().expect("it arrives");
    let bind = Operation::Bind { window: window.number(), key: window.next_key(), access: Access::REMOTE_READ };
    let bound = near.request(bind, &parts[1..]);
    assert_eq!(near.done(bound), Status::Success);
    assert!(began.elapsed() >= 2 * DELAY);
}

#[test]
fn what_is_refused_and_flushed_keeps_its_order() {
    let Both { mut near, mut far } = both(DELAY);
    far.receives(2, 1024);
    let (note, nowhere) = (whole(near.host.buf(b"note")), Remote { address: 0, key: 0xdead_beef });
    let mut expected = vec![(near.push(SEND, std::slice::from_ref(&note), true), Status::Success)];
    let write = near.push(Operation::Write { to: nowhere }, std::slice::from_ref(&note), true);
    expected.push((write, Status::RemoteAccess));
    let began = Instant::now();
    near.post();
    for _ in 0..3 {
        expected.push((near.request(SEND, std::slice::from_ref(&note)), Status::Flushed));
    }
    // Those of the other direction, too.
    let back = whole(far.host.buf(b"back"));
    let lost = far.request(SEND, &[back]);
    assert!(matches!(near.next(), Seen::Request(number, status) if (number, status) == expected[0]));
    assert!(began.elapsed() >= 2 * DELAY);
    for expected in &expected[1..] {
        assert!(matches!(near.next(), Seen::Request(number, status) if (number, status) == *expected));
    }
    far.message().expect("it had arrived");
    assert!(far.message().is_err(), "flushed");
    assert_ne!(far.done(lost), Status::Success);
    near.wait_for_end();
    far.wait_for_end();
}

#[test]
fn a_message_that_waits_for_a_receive_is_done_after_it() {
    let bed = bed(&Fabric::with_delay(DELAY));
    let (mut near, mut far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
    let to = far.manager.listen(bed.address).expect("it listens");
    let config = QueuePairConfig { rnr_retry: true, ..CONFIG };
    let queues = Queues { completions: &near.completions, receives: None };
    let first = near.manager.connect(to, &config, queues, &[]).expect("it begins");
    let (request, _) = far.requested_by(&mut near);
    let queues = Queues { completions: &far.completions, receives: None };
    let second = far.manager.prepare(&request, &config, queues).expect("a queue pair");
    far.manager.accept(request, &second, &[]).expect("it is accepted");
    let (mut near, mut far) = (End::new(first, near), End::new(second, far));
    let sent = [near.send(b"first"), near.send(b"second")];
    let began = Instant::now();
    while began.elapsed() < 3 * DELAY {
        near.turn();
        far.turn();
    }
    assert!(near.seen.is_empty() && far.seen.is_empty(), "it waits");
    let began = Instant::now();
    far.receives(2, 1024);
    assert_eq!(*far.message().expect("it arrives").0, *b"first");
    assert_eq!(*far.message().expect("it arrives").0, *b"second");
    assert_eq!(sent.map(|number| near.done(number)), [Status::Success; 2]);
    assert!(began.elapsed() >= DELAY, "the acknowledgement has its way to go");
}

#[test]
fn who_sleeps_is_woken() {
    let Both { mut near, mut far } = both(DELAY);
    for _ in 0..20 {
        far.receives(1, 1024);
        let sent = near.send(b"wake up");
        for end in [&mut far, &mut near] {
            end.host.completions.arm().expect("it is armed");
            // What came before it was armed is not told.
            end.turn();
            if end.seen.is_empty() {
                assert!(wakes(end, LONG), "nobody polls");
            }
            end.host.completions.acknowledge().expect("it is acknowledged");
        }
        far.message().expect("it arrives");
        assert_eq!(near.done(sent), Status::Success);
    }
}

/// Drops both ends with requests under way, and the fabric with the last of them: which may no longer be anywhere.
fn under_way_is_dropped(fabric: Arc<Fabric>, far_first: bool) {
    let Both { mut near, mut far } = connected(&bed(&fabric));
    drop(fabric);
    far.receives(4, 1024);
    let memory = Lent::from(far.host.buf(&octets(1024)));
    let slice = memory.slice(0, 1024).expect("it is within");
    near.send(b"message");
    near.write(Remote { address: slice.address, key: slice.key }, b"refused, if it arrives");
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
fn what_is_under_way_is_dropped() {
    for far_first in [false, true] {
        let fabric = Fabric::with_delay(Duration::from_secs(3600));
        let left = Arc::downgrade(&fabric);
        under_way_is_dropped(fabric, far_first);
        assert_eq!(left.strong_count(), 0, "nothing holds it");
        // While something is due, perhaps in the hands of the thread.
        for round in 0..100 {
            under_way_is_dropped(Fabric::with_delay(Duration::from_micros(round)), far_first);
        }
    }
}

#[test]
fn no_delay_is_none() {
    let Both { mut near, mut far } = both(Duration::ZERO);
    far.receives(1, 1024);
    near.send(b"at once");
    far.turn();
    near.turn();
    assert_eq!((far.seen.len(), near.seen.len()), (1, 1));
}
