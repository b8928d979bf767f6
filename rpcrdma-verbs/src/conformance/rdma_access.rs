//! RDMA Reads and Writes: what they can access, and what they must not.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::TestBed;
use super::fixture::{
    ConnectedEnds, Host, TestEnd, connected, is_refused, pattern, until, whole_range,
};
use crate::driver::exposure::ExposedRegion;
use crate::memory::PostedBuf;
use crate::provider::{Access, Device, Operation, RemoteMemory, Status};
use crate::queue::{BufRange, MAX_SGE};

/// The number of exposed bytes.
const EXPOSED: u32 = 4096;

/// A connection whose far end has exposed memory.
struct Scene<D: Device> {
    both: ConnectedEnds<D>,
    exposed: ExposedRegion<D>,
    memory: PostedBuf,
    at: RemoteMemory,
}

fn scene<D: Device>(bed: &TestBed<D>, access: Access) -> Scene<D> {
    let mut both = connected(bed);
    let memory = PostedBuf::from(both.far.host.buf(&pattern(EXPOSED as usize)));
    let (exposed, at) = both.far.expose(&memory, access);
    Scene {
        both,
        exposed,
        memory,
        at,
    }
}

impl<D: Device> Scene<D> {
    /// Waits until the writes of the near end have arrived. A message follows them, since a device
    /// without acknowledgements does not report it.
    fn settle(&mut self) {
        self.both.far.receives(1, 64);
        let sent = self.both.near.send(b"written");
        self.both.far.message().expect("it arrives");
        assert_eq!(self.both.near.wait_for(sent), Status::Success);
    }

    /// Ends the exposure, and returns the memory.
    fn end(self) -> Vec<u8> {
        let Self {
            both,
            exposed,
            memory,
            ..
        } = self;
        drop(both.near);
        drop(both.far.endpoint);
        drop(exposed);
        memory.into_buf().expect("nothing uses it").to_vec()
    }

    /// Checks that a Read or Write is rejected, ends the connection, and changes nothing.
    fn refuses(mut self, write: bool, at: RemoteMemory, length: u32) {
        let near = &mut self.both.near;
        if write {
            let written = near.write(at, &vec![0xbb; length as usize]);
            let status = near.wait_for(written);
            assert!(
                is_refused(&near.host.device, status, Status::RemoteAccess),
                "{status}: {length} bytes to {at:x?}"
            );
        } else {
            let status = near.read(at, length).expect_err("it is refused");
            assert!(
                is_refused(&near.host.device, status, Status::RemoteAccess),
                "{status}: {length} bytes from {at:x?}"
            );
        }
        near.wait_for_end();
        self.both.far.wait_for_end();
        assert_eq!(self.end(), pattern(EXPOSED as usize), "nothing was changed");
    }
}

fn beyond(at: RemoteMemory, bytes: u64) -> RemoteMemory {
    RemoteMemory {
        address: at.address.wrapping_add(bytes),
        ..at
    }
}

pub(super) fn bytes_are_written_and_read<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-4.4-b, 5040-5.2.2-a, 5040-5.2.2-b, 5040-5.2.2-h
    for (from, length) in [(0, 1), (0, 4096), (1, 2), (4095, 1), (100, 1000)] {
        let mut written = scene(bed, Access::REMOTE_WRITE);
        let data = vec![0xcc; length];
        let done = written
            .both
            .near
            .write(beyond(written.at, from as u64), &data);
        assert_eq!(written.both.near.wait_for(done), Status::Success);
        written.settle();
        let mut expected = pattern(EXPOSED as usize);
        expected[from..from + length].copy_from_slice(&data);
        assert_eq!(written.end(), expected, "{length} bytes at {from}");

        let mut read = scene(bed, Access::REMOTE_READ);
        let found = read
            .both
            .near
            .read(beyond(read.at, from as u64), length as u32);
        assert_eq!(
            found.as_deref(),
            Ok(&pattern(EXPOSED as usize)[from..from + length])
        );
    }
}

pub(super) fn parts_are_gathered_and_scattered<D: Device>(bed: &TestBed<D>) {
    let capabilities = bed.near.capabilities();
    for count in 1..=capabilities.max_sge.min(MAX_SGE) {
        let mut scene = scene(bed, Access::REMOTE_WRITE);
        let near = &mut scene.both.near;
        let parts: Vec<BufRange> = (0..count)
            .map(|number| whole_range(near.host.buf(&vec![number as u8; number + 3])))
            .collect();
        let written = near.request(Operation::Write { to: scene.at }, &parts);
        assert_eq!(near.wait_for(written), Status::Success);
        scene.settle();
        let expected: Vec<u8> = (0..count)
            .flat_map(|number| vec![number as u8; number + 3])
            .collect();
        assert_eq!(scene.end()[..expected.len()], expected, "{count} parts");
    }
    for count in 1..=capabilities.max_read_sge.min(MAX_SGE) {
        let mut scene = scene(bed, Access::REMOTE_READ);
        let near = &mut scene.both.near;
        let sinks: Vec<PostedBuf> = (0..count)
            .map(|number| PostedBuf::from(near.host.buf(&vec![0; number + 3])))
            .collect();
        let part = |sink: &PostedBuf| BufRange {
            buf: sink.clone(),
            offset: 0,
            length: sink.len(),
        };
        let parts: Vec<BufRange> = sinks.iter().map(part).collect();
        let read = near.request(Operation::Read { from: scene.at }, &parts);
        assert_eq!(near.wait_for(read), Status::Success);
        drop(parts);
        let found: Vec<u8> = sinks
            .into_iter()
            .flat_map(|sink| sink.into_buf().expect("it is done").to_vec())
            .collect();
        assert_eq!(found, pattern(found.len()), "{count} parts");
    }
}

/// Creates a scene whose bounds are enforced: by the window, or else by a registration.
fn bounded<D: Device>(bed: &TestBed<D>, access: Access) -> Scene<D> {
    let scene = scene(bed, access);
    if bed.far.capabilities().guards_windows {
        return scene;
    }
    let Scene { both, memory, .. } = scene;
    let slice = memory.slice(0, EXPOSED).expect("it is within");
    let exposed = ExposedRegion::register(&bed.far, memory.clone(), (0, EXPOSED), access)
        .expect("it is exposed");
    let at = RemoteMemory {
        address: slice.address,
        key: exposed.key(),
    };
    Scene {
        both,
        exposed,
        memory,
        at,
    }
}

/// Ranges that are not completely within the exposed memory.
const BEYOND: [(u64, u32); 7] = [
    (EXPOSED as u64, 1),
    (0, EXPOSED + 1),
    (EXPOSED as u64 - 1, 2),
    (1, EXPOSED),
    (u64::MAX, 1),
    (u64::MAX, 2),
    (1 << 63, 1),
];

pub(super) fn reads_stay_within_bounds<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-d, 5041-8.3.1-d
    for (from, length) in BEYOND {
        let scene = bounded(bed, Access::REMOTE_READ);
        let at = beyond(scene.at, from);
        scene.refuses(false, at, length);
    }
    let scene = bounded(bed, Access::REMOTE_READ);
    let at = RemoteMemory {
        address: u64::MAX,
        ..scene.at
    };
    scene.refuses(false, at, 2);
}

pub(super) fn writes_stay_within_bounds<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-d, 5041-8.3.1-d
    for (from, length) in BEYOND {
        let scene = bounded(bed, Access::REMOTE_WRITE);
        let at = beyond(scene.at, from);
        scene.refuses(true, at, length);
    }
}

pub(super) fn rights_are_kept<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-f, 5041-8.3.1-f
    for (access, write) in [(Access::REMOTE_WRITE, false), (Access::REMOTE_READ, true)] {
        if !write && !bed.far.capabilities().guards_reads {
            continue;
        }
        let scene = scene(bed, access);
        let at = scene.at;
        scene.refuses(write, at, 8);
    }
    // A key without remote rights: that for our own work requests.
    for write in [false, true] {
        if !write && !bed.far.capabilities().guards_reads {
            continue;
        }
        let scene = scene(bed, Access::REMOTE_READ);
        let key = scene.memory.slice(0, 1).expect("it is within").key;
        let at = RemoteMemory { key, ..scene.at };
        scene.refuses(write, at, 8);
    }
}

/// A Write or Read of no bytes needs neither address nor key (InfiniBand's C9-88), so it can be
/// used as a probe.
pub(super) fn no_bytes_ask_for_no_key<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.1-i, 5040-5.2.1-q
    let mut both = connected(bed);
    for key in [0, 1, u32::MAX] {
        let at = RemoteMemory { address: 0, key };
        let written = both.near.request(Operation::Write { to: at }, &[]);
        assert_eq!(both.near.wait_for(written), Status::Success);
        assert_eq!(both.near.read(at, 0), Ok(Vec::new()));
    }
    both.far.receives(1, 16);
    both.near.send(b"still there");
    assert_eq!(*both.far.message().expect("it arrives").0, *b"still there");
}

pub(super) fn wrong_keys_are_refused<D: Device>(bed: &TestBed<D>) {
    for wrong in [1, 0x80, 0xff, 0x100, 1 << 31, u32::MAX] {
        for write in [false, true] {
            let scene = scene(
                bed,
                if write {
                    Access::REMOTE_WRITE
                } else {
                    Access::REMOTE_READ
                },
            );
            let at = RemoteMemory {
                key: scene.at.key ^ wrong,
                ..scene.at
            };
            scene.refuses(write, at, 8);
        }
    }
}

pub(super) fn keys_of_other_devices_are_refused<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-b, 5041-8.2-a, 5041-8.3.1-b
    for write in [false, true] {
        let access = if write {
            Access::REMOTE_WRITE
        } else {
            Access::REMOTE_READ
        };
        let third = Host::new(&bed.third, 16);
        let scene = scene(bed, access);
        // Keys of two devices may coincide: choose one that does not.
        let (foreign, at) = until("a key that is not the peer's", || {
            let memory = PostedBuf::from(third.buf(&pattern(EXPOSED as usize)));
            let slice = memory.slice(0, EXPOSED)?;
            let foreign = ExposedRegion::register(&bed.third, memory, (0, EXPOSED), access)
                .expect("it is exposed");
            let at = RemoteMemory {
                address: slice.address,
                key: foreign.key(),
            };
            (at.key != scene.at.key).then_some((foreign, at))
        });
        scene.refuses(write, at, 8);
        drop(foreign);
    }
}

pub(super) fn keys_end_with_their_registration<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-8.1.1-g, 5041-8.3.1-g
    for write in [false, true] {
        let access = if write {
            Access::REMOTE_WRITE
        } else {
            Access::REMOTE_READ
        };
        let scene = scene(bed, access);
        let slice = scene.memory.slice(0, EXPOSED).expect("it is within");
        let device = &scene.both.far.host.device;
        let register = || {
            ExposedRegion::register(device, scene.memory.clone(), (0, EXPOSED), access)
                .expect("it is exposed")
        };
        let second = register();
        let at = RemoteMemory {
            address: slice.address,
            key: second.key(),
        };
        drop(second);
        // A new registration at the same address has another key.
        let third = register();
        if third.key() != at.key {
            scene.refuses_with(third, write, at);
        }
    }
}

impl<D: Device> Scene<D> {
    fn refuses_with(self, other: ExposedRegion<D>, write: bool, at: RemoteMemory) {
        let Self {
            both,
            exposed,
            memory,
            at: first,
        } = self;
        let mut both = both;
        let near = &mut both.near;
        let status = if write {
            let written = near.write(at, b"too late");
            near.wait_for(written)
        } else {
            near.read(at, 8).expect_err("it has ended")
        };
        assert!(
            is_refused(&near.host.device, status, Status::RemoteAccess),
            "{status}"
        );
        drop(other);
        assert_eq!(
            Self {
                both,
                exposed,
                memory,
                at: first
            }
            .end(),
            pattern(EXPOSED as usize)
        );
    }
}

pub(super) fn a_write_is_there_before_a_later_message<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.1-f, 5040-5.1-g
    let Scene {
        mut both,
        exposed,
        memory,
        at,
    } = scene(bed, Access::REMOTE_WRITE);
    both.far.receives(1, 1024);
    let (data, note) = (
        whole_range(both.near.host.buf(&[0xdd; 4096])),
        whole_range(both.near.host.buf(b"written")),
    );
    both.near.push(Operation::Write { to: at }, &[data], false);
    both.near
        .push(Operation::Send { invalidate: None }, &[note], true);
    both.near.post();
    both.far.message().expect("it arrives");
    drop((both, exposed));
    assert_eq!(*memory.into_buf().expect("nothing uses it"), [0xdd; 4096]);
}

/// Requests complete in order: after the completion of a message that was posted after a Read, the
/// data of the Read are there.
pub(super) fn a_read_is_done_before_a_later_message<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.2.1-h, 5040-5.5-k
    const ROUNDS: u32 = 32;
    let Scene {
        mut both,
        exposed,
        memory,
        at,
    } = scene(bed, Access::REMOTE_READ);
    both.far.receives(ROUNDS, 1024);
    let mut posted = Vec::new();
    for _ in 0..ROUNDS / 2 {
        // One Read is signaled, the other is not.
        for signaled in [false, true] {
            let mut sink = both.near.host.buf(&[0xee; EXPOSED as usize]);
            sink.set_len(EXPOSED);
            let (sink, note) = (
                PostedBuf::from(sink),
                whole_range(both.near.host.buf(b"read")),
            );
            let part = BufRange {
                buf: sink.clone(),
                offset: 0,
                length: EXPOSED,
            };
            both.near
                .push(Operation::Read { from: at }, &[part], signaled);
            let sent = both
                .near
                .push(Operation::Send { invalidate: None }, &[note], true);
            posted.push((sent, sink));
        }
        both.near.post();
    }
    for (sent, sink) in posted {
        assert_eq!(both.near.wait_for(sent), Status::Success);
        assert_eq!(
            *sink.into_buf().expect("the read is done"),
            pattern(EXPOSED as usize),
            "what was read is there"
        );
    }
    drop((both, exposed, memory));
}

/// More Reads than can be outstanding, from both ends, each in its own thread: each end answers the
/// other one while its own Reads wait.
pub(super) fn both_ends_read_at_once<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.2.1-m
    const READS: usize = 40;
    for _ in 0..20 {
        let ConnectedEnds { mut near, mut far } = connected(bed);
        let [of_near, of_far] = [&mut near, &mut far].map(|end| {
            let memory = PostedBuf::from(end.host.buf(&pattern(EXPOSED as usize)));
            end.expose(&memory, Access::REMOTE_READ)
        });
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for (mut end, from) in [(near, of_far.1), (far, of_near.1)] {
                let done = &done;
                scope.spawn(move || {
                    read_often(&mut end, from, READS);
                    done.fetch_add(1, Ordering::SeqCst);
                    // The other end still reads.
                    until("the Reads of the other end", || {
                        end.turn();
                        (done.load(Ordering::SeqCst) == 2).then_some(())
                    });
                });
            }
        });
        drop((of_near, of_far));
    }
}

/// Posts Reads at once, and checks what they bring.
fn read_often<D: Device>(end: &mut TestEnd<D>, from: RemoteMemory, count: usize) {
    let sinks: Vec<_> = (0..count)
        .map(|_| whole_range(end.host.buf(&[0xee; EXPOSED as usize])))
        .collect();
    let posted: Vec<_> = sinks
        .iter()
        .map(|sink| end.push(Operation::Read { from }, std::slice::from_ref(sink), true))
        .collect();
    end.post();
    for number in posted {
        assert_eq!(end.wait_for(number), Status::Success);
    }
    for sink in sinks {
        let bytes = sink.buf.into_buf().expect("nothing uses it").to_vec();
        assert_eq!(bytes, pattern(EXPOSED as usize));
    }
}
