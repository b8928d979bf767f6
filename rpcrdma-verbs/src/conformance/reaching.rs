//! RDMA Reads and Writes: what they reach, and what they must not.

use super::Bed;
use super::world::{Both, Host, connected, is_refused, octets, until, whole};
use crate::driver::exposure::Exposed;
use crate::memory::Lent;
use crate::provider::{Access, Device, Operation, Remote, Status};
use crate::queue::{Part, SLICES};

/// Octets that are exposed.
const EXPOSED: u32 = 4096;

/// A connection whose far end has exposed memory.
struct Scene<D: Device> {
    both: Both<D>,
    exposed: Exposed<D>,
    memory: Lent,
    at: Remote,
}

fn scene<D: Device>(bed: &Bed<D>, access: Access) -> Scene<D> {
    let mut both = connected(bed);
    let memory = Lent::from(both.far.host.buf(&octets(EXPOSED as usize)));
    let (exposed, at) = both.far.expose(&memory, access);
    Scene { both, exposed, memory, at }
}

impl<D: Device> Scene<D> {
    /// The memory, once nothing reaches it any more.
    fn end(self) -> Vec<u8> {
        let Self { both, exposed, memory, .. } = self;
        drop(both.near);
        drop(both.far.endpoint);
        drop(exposed);
        memory.into_buf().expect("nothing uses it").to_vec()
    }

    /// A Read or Write of so many octets there is refused, ends the connection, and changes nothing.
    fn refuses(mut self, write: bool, at: Remote, length: u32) {
        let near = &mut self.both.near;
        if write {
            let written = near.write(at, &vec![0xbb; length as usize]);
            let status = near.done(written);
            assert!(
                is_refused(&near.host.device, status, Status::RemoteAccess),
                "{status}: {length} octets to {at:x?}"
            );
        } else {
            let status = near.read(at, length).expect_err("it is refused");
            assert!(
                is_refused(&near.host.device, status, Status::RemoteAccess),
                "{status}: {length} octets from {at:x?}"
            );
        }
        near.wait_for_end();
        self.both.far.wait_for_end();
        assert_eq!(self.end(), octets(EXPOSED as usize), "nothing was changed");
    }
}

fn beyond(at: Remote, octets: u64) -> Remote {
    Remote { address: at.address.wrapping_add(octets), ..at }
}

pub(super) fn octets_are_written_and_read<D: Device>(bed: &Bed<D>) {
    for (from, length) in [(0, 1), (0, 4096), (1, 2), (4095, 1), (100, 1000)] {
        let mut written = scene(bed, Access::REMOTE_WRITE);
        let data = vec![0xcc; length];
        let done = written.both.near.write(beyond(written.at, from as u64), &data);
        assert_eq!(written.both.near.done(done), Status::Success);
        let mut expected = octets(EXPOSED as usize);
        expected[from..from + length].copy_from_slice(&data);
        assert_eq!(written.end(), expected, "{length} octets at {from}");

        let mut read = scene(bed, Access::REMOTE_READ);
        let found = read.both.near.read(beyond(read.at, from as u64), length as u32);
        assert_eq!(found.as_deref(), Ok(&octets(EXPOSED as usize)[from..from + length]));
    }
}

pub(super) fn parts_are_gathered_and_scattered<D: Device>(bed: &Bed<D>) {
    let capabilities = bed.near.capabilities();
    for count in 1..=capabilities.slices.min(SLICES) {
        let mut scene = scene(bed, Access::REMOTE_WRITE);
        let near = &mut scene.both.near;
        let parts: Vec<Part> = (0..count).map(|number| whole(near.host.buf(&vec![number as u8; number + 3]))).collect();
        let written = near.request(Operation::Write { to: scene.at }, &parts);
        assert_eq!(near.done(written), Status::Success);
        let expected: Vec<u8> = (0..count).flat_map(|number| vec![number as u8; number + 3]).collect();
        assert_eq!(scene.end()[..expected.len()], expected, "{count} parts");
    }
    for count in 1..=capabilities.read_slices.min(SLICES) {
        let mut scene = scene(bed, Access::REMOTE_READ);
        let near = &mut scene.both.near;
        let sinks: Vec<Lent> = (0..count).map(|number| Lent::from(near.host.buf(&vec![0; number + 3]))).collect();
        let part = |sink: &Lent| Part { buf: sink.clone(), from: 0, length: sink.len() };
        let parts: Vec<Part> = sinks.iter().map(part).collect();
        let read = near.request(Operation::Read { from: scene.at }, &parts);
        assert_eq!(near.done(read), Status::Success);
        drop(parts);
        let found: Vec<u8> = sinks.into_iter().flat_map(|sink| sink.into_buf().expect("it is done").to_vec()).collect();
        assert_eq!(found, octets(found.len()), "{count} parts");
    }
}

/// A scene whose bounds are kept: of the window, or else of a registration.
fn bounded<D: Device>(bed: &Bed<D>, access: Access) -> Scene<D> {
    let scene = scene(bed, access);
    if bed.far.capabilities().guards_windows {
        return scene;
    }
    let Scene { both, memory, .. } = scene;
    let slice = memory.slice(0, EXPOSED).expect("it is within");
    let exposed = Exposed::register(&bed.far, &slice, access, memory.clone()).expect("it is exposed");
    let at = Remote { address: slice.address, key: exposed.key() };
    Scene { both, exposed, memory, at }
}

/// Ranges that are not all within what is exposed.
const BEYOND: [(u64, u32); 7] = [
    (EXPOSED as u64, 1),
    (0, EXPOSED + 1),
    (EXPOSED as u64 - 1, 2),
    (1, EXPOSED),
    (u64::MAX, 1),
    (u64::MAX, 2),
    (1 << 63, 1),
];

pub(super) fn reads_stay_within_bounds<D: Device>(bed: &Bed<D>) {
    for (from, length) in BEYOND {
        let scene = bounded(bed, Access::REMOTE_READ);
        let at = beyond(scene.at, from);
        scene.refuses(false, at, length);
    }
    let scene = bounded(bed, Access::REMOTE_READ);
    let at = Remote { address: u64::MAX, ..scene.at };
    scene.refuses(false, at, 2);
}

pub(super) fn writes_stay_within_bounds<D: Device>(bed: &Bed<D>) {
    for (from, length) in BEYOND {
        let scene = bounded(bed, Access::REMOTE_WRITE);
        let at = beyond(scene.at, from);
        scene.refuses(true, at, length);
    }
}

pub(super) fn rights_are_kept<D: Device>(bed: &Bed<D>) {
    for (access, write) in [(Access::REMOTE_WRITE, false), (Access::REMOTE_READ, true)] {
        if !write && !bed.far.capabilities().guards_reads {
            continue;
        }
        let scene = scene(bed, access);
        let at = scene.at;
        scene.refuses(write, at, 8);
    }
    if bed.far.capabilities().read_sink_is_exposed {
        return;
    }
    // Without any right: the key that is for work requests of our own.
    for write in [false, true] {
        let scene = scene(bed, Access::REMOTE_READ);
        let key = scene.memory.slice(0, 1).expect("it is within").key;
        let at = Remote { key, ..scene.at };
        scene.refuses(write, at, 8);
    }
}

/// A Write or Read of no octets needs neither address nor key (InfiniBand's C9-88): so a peer can be asked for a sign of life.
pub(super) fn no_octets_ask_for_no_key<D: Device>(bed: &Bed<D>) {
    let mut both = connected(bed);
    for key in [0, 1, u32::MAX] {
        let at = Remote { address: 0, key };
        let written = both.near.request(Operation::Write { to: at }, &[]);
        assert_eq!(both.near.done(written), Status::Success);
        assert_eq!(both.near.read(at, 0), Ok(Vec::new()));
    }
    both.far.receives(1, 16);
    both.near.send(b"still there");
    assert_eq!(*both.far.message().expect("it arrives").0, *b"still there");
}

pub(super) fn wrong_keys_are_refused<D: Device>(bed: &Bed<D>) {
    for wrong in [1, 0x80, 0xff, 0x100, 1 << 31, u32::MAX] {
        for write in [false, true] {
            let scene = scene(bed, if write { Access::REMOTE_WRITE } else { Access::REMOTE_READ });
            let at = Remote { key: scene.at.key ^ wrong, ..scene.at };
            scene.refuses(write, at, 8);
        }
    }
}

pub(super) fn keys_of_other_devices_are_refused<D: Device>(bed: &Bed<D>) {
    for write in [false, true] {
        let access = if write { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
        let third = Host::new(&bed.third, 16);
        let scene = scene(bed, access);
        // Keys of two devices may happen to be alike: one that is not.
        let (foreign, at) = until("a key that is not the peer's", || {
            let memory = Lent::from(third.buf(&octets(EXPOSED as usize)));
            let slice = memory.slice(0, EXPOSED)?;
            let foreign = Exposed::register(&bed.third, &slice, access, memory).expect("it is exposed");
            let at = Remote { address: slice.address, key: foreign.key() };
            (at.key != scene.at.key).then_some((foreign, at))
        });
        scene.refuses(write, at, 8);
        drop(foreign);
    }
}

pub(super) fn keys_end_with_their_registration<D: Device>(bed: &Bed<D>) {
    for write in [false, true] {
        let access = if write { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
        let scene = scene(bed, access);
        let slice = scene.memory.slice(0, EXPOSED).expect("it is within");
        let device = &scene.both.far.host.device;
        let second = Exposed::register(device, &slice, access, scene.memory.clone()).expect("it is exposed");
        let at = Remote { address: slice.address, key: second.key() };
        drop(second);
        // Another registration in its place has another key.
        let third = Exposed::register(device, &slice, access, scene.memory.clone()).expect("it is exposed");
        if third.key() != at.key {
            scene.refuses_with(third, write, at);
        }
    }
}

impl<D: Device> Scene<D> {
    fn refuses_with(self, other: Exposed<D>, write: bool, at: Remote) {
        let Self { both, exposed, memory, at: first } = self;
        let mut both = both;
        let near = &mut both.near;
        let status = if write {
            let written = near.write(at, b"too late");
            near.done(written)
        } else {
            near.read(at, 8).expect_err("it has ended")
        };
        assert!(is_refused(&near.host.device, status, Status::RemoteAccess), "{status}");
        drop(other);
        assert_eq!(Self { both, exposed, memory, at: first }.end(), octets(EXPOSED as usize));
    }
}

pub(super) fn a_write_is_there_before_a_later_message<D: Device>(bed: &Bed<D>) {
    let Scene { mut both, exposed, memory, at } = scene(bed, Access::REMOTE_WRITE);
    both.far.receives(1, 1024);
    let (data, note) = (whole(both.near.host.buf(&[0xdd; 4096])), whole(both.near.host.buf(b"written")));
    both.near.push(Operation::Write { to: at }, &[data], false);
    both.near.push(Operation::Send { invalidate: None }, &[note], true);
    both.near.post();
    both.far.message().expect("it arrives");
    drop((both, exposed));
    assert_eq!(*memory.into_buf().expect("nothing uses it"), [0xdd; 4096]);
}

/// Requests are done in their order: when a message that was posted after a Read is, what was read is there.
pub(super) fn a_read_is_done_before_a_later_message<D: Device>(bed: &Bed<D>) {
    const ROUNDS: u32 = 32;
    let Scene { mut both, exposed, memory, at } = scene(bed, Access::REMOTE_READ);
    both.far.receives(ROUNDS, 1024);
    let mut posted = Vec::new();
    for _ in 0..ROUNDS / 2 {
        // The one Read has a completion of its own, the other has none.
        for signaled in [false, true] {
            let mut sink = both.near.host.buf(&[0xee; EXPOSED as usize]);
            sink.set_len(EXPOSED);
            let (sink, note) = (Lent::from(sink), whole(both.near.host.buf(b"read")));
            let part = Part { buf: sink.clone(), from: 0, length: EXPOSED };
            both.near.push(Operation::Read { from: at }, &[part], signaled);
            let sent = both.near.push(Operation::Send { invalidate: None }, &[note], true);
            posted.push((sent, sink));
        }
        both.near.post();
    }
    for (sent, sink) in posted {
        assert_eq!(both.near.done(sent), Status::Success);
        assert_eq!(*sink.into_buf().expect("the read is done"), octets(EXPOSED as usize), "what was read is there");
    }
    drop((both, exposed, memory));
}
