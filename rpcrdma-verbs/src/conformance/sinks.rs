//! The sinks of RDMA Reads. On iWARP the peer learns the key of a sink. A hostile peer then tries
//! to access other memory with it.

use super::TestBed;
use super::fixture::{ConnectedEnds, TestEnd, connected, is_refused, pattern};
use crate::driver::exposure::ExposedRegion;
use crate::memory::{Buf, PostedBuf};
use crate::provider::{Access, Device, Operation, RemoteMemory, Status};
use crate::queue::BufRange;

/// The size of each buffer, and the range of one of them that is the sink.
const SIZE: u32 = 1024;
const FROM: u32 = 256;
const LENGTH: u32 = 512;

/// When the peer writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// Before the completion of the Read is taken.
    During,
    /// After it, when safe code can access the sink.
    After,
    /// During a second Read into the same sink, with the key of the first.
    Again,
}

/// The key with which the peer writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    /// The key of the sink, which the Read Request contains (RFC 5040, section 4.4).
    Sink,
    /// The key of the block that contains the buffers, which the peer guesses.
    Block,
}

/// Offsets from the beginning of the sink, with lengths, that the peer writes.
const BEYOND: [(i64, u32); 9] = [
    (LENGTH as i64, 1),
    (LENGTH as i64 - 1, 2),
    (0, LENGTH + 1),
    (-1, 1),
    (-1, 2),
    // The rest of the buffer, and its neighbours.
    (-(FROM as i64), 8),
    (-(FROM as i64) - SIZE as i64, SIZE),
    (-(FROM as i64) + SIZE as i64, SIZE),
    (-(FROM as i64) + SIZE as i64, 1),
];
const WITHIN: [(i64, u32); 3] = [(0, LENGTH), (0, 1), (LENGTH as i64 - 1, 1)];

/// A connection whose near end reads into a buffer between two others.
struct Scene<D: Device> {
    both: ConnectedEnds<D>,
    source: ExposedRegion<D>,
    from: RemoteMemory,
    neighbours: [Buf; 2],
}

/// The initial bytes of the three buffers.
const BEFORE: [u8; 3] = [0x11, 0x22, 0x33];

fn scene<D: Device>(bed: &TestBed<D>) -> (Scene<D>, Buf) {
    let mut both = connected(bed);
    let data = PostedBuf::from(both.far.host.buf(&pattern(LENGTH as usize)));
    let (source, from) = both.far.expose(&data, Access::REMOTE_READ);
    let bufs = BEFORE.map(|byte| both.near.host.buf(&[byte; SIZE as usize]));
    let [first, sink, last] = bufs;
    let gaps = [(&first, &sink), (&sink, &last)]
        .map(|(one, other)| other.as_ptr().addr() - one.as_ptr().addr());
    assert_eq!(gaps, [SIZE as usize; 2], "they are neighbours in one block");
    (
        Scene {
            both,
            source,
            from,
            neighbours: [first, last],
        },
        sink,
    )
}

/// Posts a Read into the sink. Returns its number, the address of the sink, and the key that the
/// peer learns.
fn read<D: Device>(
    near: &mut TestEnd<D>,
    from: RemoteMemory,
    sink: &PostedBuf,
) -> (u32, RemoteMemory) {
    let pushed = push(near, from, sink);
    near.post();
    pushed
}

/// Adds a Read into the sink to the batch.
fn push<D: Device>(
    near: &mut TestEnd<D>,
    from: RemoteMemory,
    sink: &PostedBuf,
) -> (u32, RemoteMemory) {
    let part = BufRange {
        buf: sink.clone(),
        offset: FROM,
        length: LENGTH,
    };
    let number = near.push(Operation::Read { from }, std::slice::from_ref(&part), true);
    let slice = sink.slice(FROM, LENGTH).expect("it is within");
    // If the peer learns no key, it may guess one.
    let key = near.endpoint.last_sink_key().unwrap_or(slice.key);
    (
        number,
        RemoteMemory {
            address: slice.address,
            key,
        },
    )
}

/// Checks that the peer's write is rejected and ends the connection, and that only the Read changes
/// bytes.
fn refuses<D: Device>(bed: &TestBed<D>, when: When, key: Key, (offset, length): (i64, u32)) {
    let what = format!("{when:?}, by the key {key:?}, {length} bytes at {offset}");
    let (
        Scene {
            both,
            source,
            from,
            neighbours,
        },
        sink,
    ) = scene(bed);
    let ConnectedEnds { mut near, mut far } = both;
    let block = PostedBuf::from(sink);
    let of_block = block.slice(0, SIZE).expect("it is within").key;
    let (number, at) = read(&mut near, from, &block);
    let mut sink = Sink::Posted(block);
    if when != When::During {
        assert_eq!(near.wait_for(number), Status::Success, "{what}");
        sink = Sink::Ours(sink.into_lent().into_buf().expect("the Read is done"));
    }
    if when == When::Again {
        let again = sink.into_lent();
        read(&mut near, from, &again);
        sink = Sink::Posted(again);
    }
    let key = if key == Key::Sink { at.key } else { of_block };
    let written = far.write(
        RemoteMemory {
            address: at.address.wrapping_add_signed(offset),
            key,
        },
        &vec![0xbb; length as usize],
    );
    let status = far.wait_for(written);
    assert!(
        is_refused(&far.host.device, status, Status::RemoteAccess),
        "{status}: {what}"
    );
    far.wait_for_end();
    near.wait_for_end();
    drop((near.endpoint, far.endpoint, source));
    let sink = sink.into_lent().into_buf().expect("nothing uses it");
    is_as_read(&sink, when != When::During, &what);
    for (buf, byte) in neighbours.iter().zip([BEFORE[0], BEFORE[2]]) {
        assert!(
            buf.iter().all(|found| *found == byte),
            "{what}: a neighbour was written"
        );
    }
}

/// The buffer of the sink, accessible to safe code or not.
enum Sink {
    Posted(PostedBuf),
    Ours(Buf),
}

impl Sink {
    fn into_lent(self) -> PostedBuf {
        match self {
            Self::Posted(buf) => buf,
            Self::Ours(buf) => buf.into(),
        }
    }
}

/// Checks that a buffer has the data of the Read if it is done, and otherwise the initial bytes. A
/// Read that was interrupted may have changed a part.
fn is_as_read(buf: &[u8], done: bool, what: &str) {
    let (from, to) = (FROM as usize, (FROM + LENGTH) as usize);
    let data = pattern(LENGTH as usize);
    assert!(
        buf[..from]
            .iter()
            .chain(&buf[to..])
            .all(|byte| *byte == BEFORE[1]),
        "{what}: beyond the sink"
    );
    let is_expected = |(found, read): (&u8, &u8)| found == read || (!done && *found == BEFORE[1]);
    assert!(
        buf[from..to].iter().zip(&data).all(is_expected),
        "{what}: in the sink"
    );
}

pub(super) fn the_key_of_a_sink_reaches_nothing_beyond_it<D: Device>(bed: &TestBed<D>) {
    for range in BEYOND {
        refuses(bed, When::During, Key::Sink, range);
    }
}

pub(super) fn the_key_of_a_sink_ends_with_its_read<D: Device>(bed: &TestBed<D>) {
    for range in BEYOND.into_iter().chain(WITHIN) {
        refuses(bed, When::After, Key::Sink, range);
    }
    for range in WITHIN {
        refuses(bed, When::Again, Key::Sink, range);
    }
}

pub(super) fn the_key_of_a_block_gives_the_peer_no_right<D: Device>(bed: &TestBed<D>) {
    for when in [When::During, When::After] {
        for range in BEYOND.into_iter().chain(WITHIN) {
            refuses(bed, when, Key::Block, range);
        }
    }
}

pub(super) fn the_key_of_a_sink_ends_with_a_refused_post<D: Device>(bed: &TestBed<D>) {
    let (
        Scene {
            both: ConnectedEnds { mut near, mut far },
            source,
            from,
            ..
        },
        sink,
    ) = scene(bed);
    // On iWARP the initiator sends first.
    far.receives(1, 16);
    near.send(b"first");
    far.message().expect("it arrives");
    let sink = PostedBuf::from(sink);
    let (_, at) = push(&mut near, from, &sink);
    near.push_inline(
        &pattern(bed.near.capabilities().max_inline as usize + 1),
        false,
    );
    near.endpoint.post().expect_err("one of them is too long");
    assert_eq!(near.endpoint.last_sink_key(), None);
    let sink = sink.into_buf().expect("the Read is not posted");
    let written = far.write(at, b"never");
    let status = far.wait_for(written);
    assert!(
        is_refused(&far.host.device, status, Status::RemoteAccess),
        "{status}"
    );
    far.wait_for_end();
    near.wait_for_end();
    drop((near, far, source));
    assert_eq!(*sink, [BEFORE[1]; SIZE as usize]);
}
