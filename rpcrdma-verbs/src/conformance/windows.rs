//! Memory windows: bound, used and invalidated, by either end.

use super::Bed;
use super::world::{Both, End, Host, Seen, connect_hosts, connected, octets, until, whole};
use crate::driver::exposure::{Bound, Exposed};
use crate::memory::Lent;
use crate::provider::{Access, Device, Manager as _, Operation, Remote, Status};
use crate::queue::Part;

fn memory<D: Device>(end: &End<D>) -> Lent {
    end.host.buf(&octets(4096)).into()
}

/// Binds part of a buffer, and tells how that went.
fn bind<D: Device>(end: &mut End<D>, bound: &mut Bound<D>, part: Part, access: Access) -> (Status, Remote) {
    let (window, key) = (bound.number(), bound.next_key());
    let address = part.buf.slice(part.from, part.length).expect("it is within").address;
    let number = end.request(Operation::Bind { window, key, access }, &[part]);
    (end.done(number), Remote { address, key })
}

fn bound<D: Device>(end: &mut End<D>, part: Part, access: Access) -> (Bound<D>, Remote) {
    let mut window = Bound::new(&end.host.device).expect("a window");
    let (status, at) = bind(end, &mut window, part, access);
    assert_eq!(status, Status::Success);
    (window, at)
}

fn all(memory: &Lent) -> Part {
    Part { buf: memory.clone(), from: 0, length: memory.len() }
}

/// A write there is refused.
fn refuses<D: Device>(near: &mut End<D>, at: Remote) {
    let written = near.write(at, b"too late");
    assert_eq!(near.done(written), Status::RemoteAccess);
}

fn accepts<D: Device>(near: &mut End<D>, at: Remote) {
    let written = near.write(at, b"in time!");
    assert_eq!(near.done(written), Status::Success);
}

fn invalidate<D: Device>(end: &mut End<D>, key: u32) -> Status {
    let number = end.request(Operation::Invalidate { key }, &[]);
    end.done(number)
}

pub(super) fn a_window_exposes_its_range_alone<D: Device>(bed: &Bed<D>) {
    for (from, refused) in [(0, false), (992, false), (1000, true), (999, true), (u64::MAX, true)] {
        let Both { mut near, mut far } = connected(bed);
        let memory = memory(&far);
        let part = Part { buf: memory.clone(), from: 1000, length: 1000 };
        let (_window, at) = bound(&mut far, part, Access::REMOTE_WRITE);
        let at = Remote { address: at.address.wrapping_add(from), ..at };
        if refused { refuses(&mut near, at) } else { accepts(&mut near, at) }
    }
}

pub(super) fn a_key_ends_with_its_invalidation<D: Device>(bed: &Bed<D>) {
    let Both { mut near, mut far } = connected(bed);
    let memory = memory(&far);
    let (mut window, first) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    accepts(&mut near, first);
    assert_eq!(invalidate(&mut far, first.key), Status::Success);
    // All other values of its lowest octet, and then the first again.
    for _ in 0..256 {
        let (status, at) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_WRITE);
        assert_eq!(status, Status::Success);
        assert_eq!(at.key & !0xff, first.key & !0xff);
        accepts(&mut near, at);
        assert_eq!(invalidate(&mut far, at.key), Status::Success);
    }
    let (_, at) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_WRITE);
    assert_ne!(at.key, first.key);
    refuses(&mut near, first);
    far.wait_for_end();
}

pub(super) fn a_peer_invalidates<D: Device>(bed: &Bed<D>) {
    let Both { mut near, mut far } = connected(bed);
    far.receives(4, 1024);
    let memory = memory(&far);
    let (mut window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    let (data, note) = (whole(near.host.buf(&[0xaa; 4096])), whole(near.host.buf(b"done")));
    near.push(Operation::Write { to: at }, &[data], false);
    near.push(Operation::Send { invalidate: Some(at.key) }, &[note], true);
    near.post();
    let (message, invalidated) = far.message().expect("it arrives");
    assert_eq!((&*message, invalidated), (b"done".as_slice(), Some(at.key)));
    // What was invalidated can be bound again.
    let (status, next) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_WRITE);
    assert_eq!(status, Status::Success);
    accepts(&mut near, next);
    refuses(&mut near, at);
}

/// Keys that a peer must not invalidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Foreign {
    Nothing,
    Registration,
    Unbound,
    /// Of a window that is another queue pair's.
    Others,
}

pub(super) fn a_peer_invalidates_no_other_key<D: Device>(bed: &Bed<D>) {
    refuses_to_invalidate(bed, &[Foreign::Nothing, Foreign::Registration]);
}

pub(super) fn a_peer_invalidates_no_other_window<D: Device>(bed: &Bed<D>) {
    refuses_to_invalidate(bed, &[Foreign::Unbound, Foreign::Others]);
}

fn refuses_to_invalidate<D: Device>(bed: &Bed<D>, keys: &[Foreign]) {
    for which in keys.iter().copied() {
        let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 256));
        let to = far.manager.listen(bed.address).expect("it listens");
        let (first, second) = connect_hosts(&mut near, &mut far, to);
        let (mut near, mut far) = (End::new(first, near), End::new(second, far));
        let (mut other_near, mut other_far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
        let to = other_far.manager.listen(bed.address).expect("it listens");
        let (first, second) = connect_hosts(&mut other_near, &mut other_far, to);
        let (mut other_near, mut other_far) = (End::new(first, other_near), End::new(second, other_far));
        far.receives(1, 1024);
        let memory = memory(&far);
        let (window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
        let own = Lent::from(other_far.host.buf(&octets(4096)));
        let (_other, others) = bound(&mut other_far, all(&own), Access::REMOTE_WRITE);
        let slice = memory.slice(0, 4096).expect("it is within");
        let region =
            Exposed::register(&bed.far, &slice, Access::REMOTE_WRITE, memory.clone()).expect("it is registered");
        let key = match which {
            Foreign::Nothing => at.key ^ 0x55,
            Foreign::Registration => region.key(),
            Foreign::Unbound => {
                assert_eq!(invalidate(&mut far, at.key), Status::Success);
                at.key
            }
            Foreign::Others => others.key,
        };
        let note = whole(near.host.buf(b"wrong"));
        let sent = near.request(Operation::Send { invalidate: Some(key) }, &[note]);
        assert_eq!(far.message().map(|_| ()), Err(Status::RemoteInvalidRequest), "{which:?}");
        // Soft-RoCE has acknowledged the message by then.
        let status = near.done(sent);
        assert!(matches!(status, Status::Success | Status::RemoteInvalidRequest), "{status}");
        near.wait_for_end();
        far.wait_for_end();
        accepts(&mut other_near, others);
        drop((window, region));
    }
}

pub(super) fn a_bound_window_is_not_bound_again<D: Device>(bed: &Bed<D>) {
    let Both { mut near, mut far } = connected(bed);
    let memory = memory(&far);
    let (mut window, _) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    let (status, _) = bind(&mut far, &mut window, all(&memory), Access::REMOTE_READ);
    // Soft-RoCE of Linux 6.12 calls it flushed, as what comes after it.
    assert!(matches!(status, Status::Bind | Status::Flushed), "{status}");
    far.wait_for_end();
    near.wait_for_end();
}

pub(super) fn what_is_not_bound_is_not_invalidated<D: Device>(bed: &Bed<D>) {
    for twice in [false, true] {
        let Both { near: _near, mut far } = connected(bed);
        let memory = memory(&far);
        let window;
        let key = if twice {
            let (bound, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
            window = bound;
            assert_eq!(invalidate(&mut far, at.key), Status::Success);
            at.key
        } else {
            window = Bound::new(&far.host.device).expect("a window");
            window.key()
        };
        assert_ne!(invalidate(&mut far, key), Status::Success);
        far.wait_for_end();
        drop(window);
    }
}

pub(super) fn a_window_ends_with_its_owner<D: Device>(bed: &Bed<D>) {
    let Both { mut near, mut far } = connected(bed);
    let memory = memory(&far);
    let (window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    drop(window);
    refuses(&mut near, at);
    drop((near, far));
    assert_eq!(*memory.into_buf().expect("nothing uses it"), *octets(4096));
}

pub(super) fn a_window_serves_its_queue_pair_alone<D: Device>(bed: &Bed<D>) {
    let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 256));
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    // Another connection of the same two devices.
    let (mut other, mut other_far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
    let to = other_far.manager.listen(bed.address).expect("it listens");
    let (third, _fourth) = connect_hosts(&mut other, &mut other_far, to);
    let (mut near, mut far, mut other) = (End::new(first, near), End::new(second, far), End::new(third, other));
    let memory = memory(&far);
    let (window, at) = bound(&mut far, all(&memory), Access::REMOTE_WRITE);
    refuses(&mut other, at);
    accepts(&mut near, at);
    drop(window);
}

pub(super) fn binding_asks_for_memory_of_the_device<D: Device>(bed: &Bed<D>) {
    let Both { near: _near, mut far } = connected(bed);
    let own = memory(&far).slice(0, 1).expect("it is within").key;
    let foreign = until("a key that is not ours", || {
        let foreign = Lent::from(Host::new(&bed.third, 16).buf(&octets(64)));
        (foreign.slice(0, 1)?.key != own).then_some(foreign)
    });
    let mut window = Bound::new(&far.host.device).expect("a window");
    let (status, _) = bind(&mut far, &mut window, all(&foreign), Access::REMOTE_READ);
    assert_ne!(status, Status::Success);
    assert!(far.seen.iter().all(|seen| !matches!(seen, Seen::Request(..))));
    far.wait_for_end();
}
