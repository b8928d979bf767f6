//! Memory windows: binding, access and invalidation by either end.

use super::TestBed;
use super::fixture::{
    ConnectedEnds, Host, TestEnd, TestEvent, connect_hosts, connected, is_refused, pattern, until,
    whole_range,
};
use crate::driver::exposure::{ExposedRegion, KeyedWindow};
use crate::memory::PostedBuf;
use crate::provider::{Access, ConnectionManager as _, Device, Operation, RemoteMemory, Status};
use crate::queue::BufRange;

fn memory<D: Device>(end: &TestEnd<D>) -> PostedBuf {
    end.host.buf(&pattern(4096)).into()
}

/// Binds part of a buffer, and returns the status.
fn bind<D: Device>(
    end: &mut TestEnd<D>,
    bound: &mut KeyedWindow<D>,
    part: BufRange,
    access: Access,
) -> (Status, RemoteMemory) {
    let (window, key) = (bound.number(), bound.next_key());
    let address = part
        .buf
        .slice(part.offset, part.length)
        .expect("it is within")
        .address;
    let number = end.request(
        Operation::Bind {
            window,
            key,
            access,
        },
        &[part],
    );
    (end.wait_for(number), RemoteMemory { address, key })
}

fn bound<D: Device>(
    end: &mut TestEnd<D>,
    part: BufRange,
    access: Access,
) -> (KeyedWindow<D>, RemoteMemory) {
    let mut window = KeyedWindow::new(&end.host.device).expect("a window");
    let (status, at) = bind(end, &mut window, part, access);
    assert_eq!(status, Status::Success);
    (window, at)
}

fn all(memory: &PostedBuf) -> BufRange {
    BufRange {
        buf: memory.clone(),
        offset: 0,
        length: memory.len(),
    }
}

/// Checks that a write is rejected.
fn refuses<D: Device>(near: &mut TestEnd<D>, at: RemoteMemory) {
    let written = near.write(at, b"too late");
    let status = near.wait_for(written);
    assert!(
        is_refused(&near.host.device, status, Status::RemoteAccess),
        "{status}"
    );
    near.wait_for_end();
}

fn accepts<D: Device>(near: &mut TestEnd<D>, far: &mut TestEnd<D>, at: RemoteMemory) {
    let written = near.write(at, b"in time!");
    assert_eq!(near.wait_for(written), Status::Success);
    if !near.host.device.capabilities().acknowledges {
        // A message follows the written data.
        far.receives(1, 1024);
        near.send(b"written");
        far.message().expect("it arrives");
    }
}

fn invalidate<D: Device>(end: &mut TestEnd<D>, key: u32) -> Status {
    let number = end.request(Operation::Invalidate { key }, &[]);
    end.wait_for(number)
}

pub(super) fn a_window_exposes_its_range_alone<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-e, 5041-8.3-a, 5041-8.3.1-e
    for (from, refused) in [
        (0, false),
        (992, false),
        (1000, true),
        (999, true),
        (u64::MAX, true),
    ] {
        let ConnectedEnds { mut near, mut far } = connected(bed);
        let memory = memory(&far);
        let part = BufRange {
            buf: memory.clone(),
            offset: 1000,
            length: 1000,
        };
        let (_window, at) = bound(&mut far, part, Access::REMOTE_WRITE);
        let at = RemoteMemory {
            address: at.address.wrapping_add(from),
            ..at
        };
        if refused {
            refuses(&mut near, at)
        } else {
            accepts(&mut near, &mut far, at)
        }
    }
}

pub(super) fn a_key_ends_with_its_invalidation<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-g, 5041-8.3-b, 5041-8.3.1-g
    let ConnectedEnds { mut near, mut far } = connected(bed);
    let memory = memory(&far);
    let (mut window, first) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    accepts(&mut near, &mut far, first);
    assert_eq!(invalidate(&mut far, first.key), Status::Success);
    // All other values of the lowest byte, and then the first again.
    for _ in 0..256 {
        let (status, at) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_WRITE);
        assert_eq!(status, Status::Success);
        assert_eq!(at.key & !0xff, first.key & !0xff);
        accepts(&mut near, &mut far, at);
        assert_eq!(invalidate(&mut far, at.key), Status::Success);
    }
    let (_, at) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_WRITE);
    assert_ne!(at.key, first.key);
    refuses(&mut near, first);
    far.wait_for_end();
}

pub(super) fn a_peer_invalidates<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.3-m
    let ConnectedEnds { mut near, mut far } = connected(bed);
    far.receives(4, 1024);
    let memory = memory(&far);
    let (mut window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    let (data, note) = (
        whole_range(near.host.buf(&[0xaa; 4096])),
        whole_range(near.host.buf(b"done")),
    );
    near.push(Operation::Write { to: at }, &[data], false);
    near.push(
        Operation::Send {
            invalidate: Some(at.key),
        },
        &[note],
        true,
    );
    near.post();
    let (message, invalidated) = far.message().expect("it arrives");
    assert_eq!((&*message, invalidated), (b"done".as_slice(), Some(at.key)));
    // An invalidated window can be bound again.
    let (status, next) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_WRITE);
    assert_eq!(status, Status::Success);
    accepts(&mut near, &mut far, next);
    refuses(&mut near, at);
}

/// Keys that a peer must not invalidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Foreign {
    Nothing,
    Registration,
    Unbound,
    /// The key of a window of another queue pair.
    Others,
}

pub(super) fn a_peer_invalidates_no_other_key<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-h
    refuses_to_invalidate(bed, &[Foreign::Nothing, Foreign::Registration]);
}

pub(super) fn a_peer_invalidates_no_other_window<D: Device>(bed: &TestBed<D>) {
    refuses_to_invalidate(bed, &[Foreign::Unbound, Foreign::Others]);
}

fn refuses_to_invalidate<D: Device>(bed: &TestBed<D>, keys: &[Foreign]) {
    for which in keys.iter().copied() {
        let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 256));
        let to = far.manager.listen(bed.address).expect("it listens");
        let (first, second) = connect_hosts(&mut near, &mut far, to);
        let (mut near, mut far) = (TestEnd::new(first, near), TestEnd::new(second, far));
        let (mut other_near, mut other_far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
        let to = other_far.manager.listen(bed.address).expect("it listens");
        let (first, second) = connect_hosts(&mut other_near, &mut other_far, to);
        let (mut other_near, mut other_far) = (
            TestEnd::new(first, other_near),
            TestEnd::new(second, other_far),
        );
        far.receives(1, 1024);
        let memory = memory(&far);
        let (window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
        let own = PostedBuf::from(other_far.host.buf(&pattern(4096)));
        let (_other, others) = bound(&mut other_far, all(&own), Access::REMOTE_WRITE);
        let region =
            ExposedRegion::register(&bed.far, memory.clone(), (0, 4096), Access::REMOTE_WRITE);
        let region = region.expect("it is registered");
        let key = match which {
            Foreign::Nothing => at.key ^ 0x55,
            Foreign::Registration => region.key(),
            Foreign::Unbound => {
                assert_eq!(invalidate(&mut far, at.key), Status::Success);
                at.key
            }
            Foreign::Others => others.key,
        };
        let note = whole_range(near.host.buf(b"wrong"));
        let sent = near.request(
            Operation::Send {
                invalidate: Some(key),
            },
            &[note],
        );
        assert_eq!(
            far.message().map(|_| ()),
            Err(Status::RemoteInvalidRequest),
            "{which:?}"
        );
        // Soft-RoCE has acknowledged the message by then.
        let status = near.wait_for(sent);
        assert!(
            matches!(status, Status::Success | Status::RemoteInvalidRequest),
            "{status}"
        );
        near.wait_for_end();
        far.wait_for_end();
        accepts(&mut other_near, &mut other_far, others);
        drop((window, region));
    }
}

pub(super) fn a_bound_window_is_not_bound_again<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    let memory = memory(&far);
    let (mut window, _) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    let (status, _) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_READ);
    // Soft-RoCE of Linux 6.12 reports it as flushed, like the requests after it.
    assert!(matches!(status, Status::Bind | Status::Flushed), "{status}");
    far.wait_for_end();
    near.wait_for_end();
}

pub(super) fn what_is_not_bound_is_not_invalidated<D: Device>(bed: &TestBed<D>) {
    for twice in [false, true] {
        let ConnectedEnds {
            near: _near,
            mut far,
        } = connected(bed);
        let memory = memory(&far);
        let window;
        let key = if twice {
            let (bound, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
            window = bound;
            assert_eq!(invalidate(&mut far, at.key), Status::Success);
            at.key
        } else {
            window = KeyedWindow::new(&far.host.device).expect("a window");
            window.key()
        };
        assert_ne!(invalidate(&mut far, key), Status::Success);
        far.wait_for_end();
        drop(window);
    }
}

pub(super) fn a_window_ends_with_its_owner<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    let memory = memory(&far);
    let (window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    drop(window);
    refuses(&mut near, at);
    drop((near, far));
    assert_eq!(*memory.into_buf().expect("nothing uses it"), *pattern(4096));
}

pub(super) fn a_window_serves_its_queue_pair_alone<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-7.2-e, 5040-8.1.1-c, 5041-8.2-b, 5041-8.2-c, 5041-8.2-d, 5041-8.3-c, 5041-8.3.1-c
    let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 256));
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    // Another connection of the same two devices.
    let (mut other, mut other_far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
    let to = other_far.manager.listen(bed.address).expect("it listens");
    let (third, _fourth) = connect_hosts(&mut other, &mut other_far, to);
    let (mut near, mut far, mut other) = (
        TestEnd::new(first, near),
        TestEnd::new(second, far),
        TestEnd::new(third, other),
    );
    let memory = memory(&far);
    let (window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    refuses(&mut other, at);
    accepts(&mut near, &mut far, at);
    drop(window);
}

pub(super) fn binding_asks_for_memory_of_the_device<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds {
        near: _near,
        mut far,
    } = connected(bed);
    let own = memory(&far).slice(0, 1).expect("it is within").key;
    let foreign = until("a key that is not ours", || {
        let foreign = PostedBuf::from(Host::new(&bed.third, 16).buf(&pattern(64)));
        (foreign.slice(0, 1)?.key != own).then_some(foreign)
    });
    let mut window = KeyedWindow::new(&far.host.device).expect("a window");
    let (status, _) = bind(&mut far, &mut window, all(&foreign), Access::REMOTE_READ);
    assert_ne!(status, Status::Success);
    assert!(
        far.events
            .iter()
            .all(|events| !matches!(events, TestEvent::Request(..)))
    );
    far.wait_for_end();
}
