//! Both directions of a stream: Sends, RDMA Writes and RDMA Reads of both ends in random segments,
//! late receives, and a cut at a random position.
//!
//! `RPCRDMA_SEED=n` repeats a run; `RPCRDMA_STEPS` sets how many steps it has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use rpcrdma_iwarp::{
    FpduDestination, FpduProgress, FramerPiece, IwarpEvent, IwarpStream, MpaEstablished,
    OutgoingKind, OutgoingMessage, Placement, ReadDepths, ReceiveRoom, RtrTypes, StagAccess,
    StagError, Terminate, TerminateCode,
};

/// The length of each memory region, and the maximum length of a message.
const REGION: usize = 8000;
/// The STags of the memory that the peer may write, and of the memory that it may read.
const WRITABLE: u32 = 0x1234_5600;
const READABLE: u32 = 0x1234_5700;
/// The number that determines the content of the readable memory.
const CONSTANT: u64 = 7;
/// The maximum outstanding RDMA Reads.
const DEPTH: u16 = 4;

struct Random(u64);

impl Random {
    fn from_environment() -> Self {
        let seed = match std::env::var("RPCRDMA_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => RandomState::new().hash_one("seed"),
        };
        println!("RPCRDMA_SEED={seed}");
        Self(seed)
    }

    /// Returns a number below `end` (splitmix64).
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }
}

/// Returns the bytes of the message with this number. Neighbouring bytes differ.
fn content(number: u64, len: usize) -> Vec<u8> {
    let first = number.wrapping_mul(31);
    (0..len as u64)
        .map(|at| (first + at).to_le_bytes()[0])
        .collect()
}

/// The memory of one end.
struct Memory {
    writable: Vec<u8>,
    receive: Vec<u8>,
    /// The number of posted receives.
    receives: usize,
    sinks: VecDeque<Vec<u8>>,
}

impl Placement for Memory {
    fn check(
        &mut self,
        stag: u32,
        offset: u64,
        len: u64,
        access: StagAccess,
    ) -> Result<(), StagError> {
        let known = match access {
            StagAccess::Write => WRITABLE,
            StagAccess::Read => READABLE,
            // The stream has checked that the response fits the request.
            StagAccess::ReadResponse => return Ok(()),
        };
        if stag != known {
            return Err(StagError::Invalid);
        }
        if offset + len > REGION as u64 {
            return Err(StagError::Bounds);
        }
        Ok(())
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        if self.receives == 0 {
            ReceiveRoom::Later
        } else {
            ReceiveRoom::Bytes(REGION as u64)
        }
    }

    fn may_invalidate(&mut self, _: u32) -> bool {
        false
    }
}

impl Memory {
    fn new() -> Self {
        Self {
            writable: vec![0; REGION],
            receive: vec![0; REGION],
            receives: 0,
            sinks: VecDeque::new(),
        }
    }

    fn put(&mut self, destination: FpduDestination, bytes: &[u8]) {
        let (memory, at) = match destination {
            FpduDestination::Receive { offset, .. } => (&mut self.receive, offset.into()),
            FpduDestination::Tagged { offset, .. } => (&mut self.writable, offset),
            FpduDestination::Sink { offset } => (self.sinks.front_mut().unwrap(), offset),
        };
        let at = usize::try_from(at).unwrap();
        memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// One end.
struct End {
    stream: IwarpStream,
    memory: Memory,
    /// The payload of messages that are not sent completely, by their number.
    payloads: HashMap<u64, Vec<u8>>,
    requests: u64,
    /// The lengths of the Sends in flight, and the number of Sends received from the peer.
    on_their_way: VecDeque<usize>,
    received: u64,
    /// The expected content of the peer's memory after the RDMA Writes.
    written: Vec<u8>,
    /// The expected results of the outstanding RDMA Reads.
    expected: VecDeque<Vec<u8>>,
    /// Received bytes that wait for a receive.
    stalled: Option<Vec<u8>>,
    terminated: Option<Terminate>,
}

impl End {
    fn new(stream: IwarpStream) -> Self {
        Self {
            stream,
            memory: Memory::new(),
            payloads: HashMap::new(),
            requests: 0,
            on_their_way: VecDeque::new(),
            received: 0,
            written: vec![0; REGION],
            expected: VecDeque::new(),
            stalled: None,
            terminated: None,
        }
    }

    /// Frames a message completely.
    fn push(&mut self, kind: OutgoingKind, payload: Vec<u8>) {
        let number = self.requests;
        self.requests += 1;
        let framer = self.stream.framer();
        if payload.len() < 64 && framer.push_copied(kind, &[&payload]) {
            return;
        }
        let len = u32::try_from(payload.len()).unwrap();
        let mut message = OutgoingMessage::new(number, kind, len);
        while framer.push_segment(&mut message, &[&payload]) == Ok(false) {}
        self.payloads.insert(number, payload);
    }

    fn send(&mut self, number: u64, len: usize) {
        let kind = OutgoingKind::Send {
            solicited: len.is_multiple_of(2),
            invalidate: None,
        };
        self.push(kind, content(number, len));
        self.on_their_way.push_back(len);
    }

    fn write(&mut self, offset: usize, len: usize) {
        let payload = content(self.requests, len);
        self.written[offset..offset + len].copy_from_slice(&payload);
        let kind = OutgoingKind::Write {
            stag: WRITABLE,
            offset: offset as u64,
        };
        self.push(kind, payload);
    }

    fn read(&mut self, offset: usize, len: usize) {
        let size = u32::try_from(len).unwrap();
        if self.stream.push_read(99, size, (READABLE, offset as u64)) {
            let all = content(CONSTANT, REGION);
            self.expected.push_back(all[offset..offset + len].to_vec());
            self.memory.sinks.push_back(vec![0; len]);
        }
    }

    /// Sends the response to the oldest RDMA Read of the peer.
    fn answer(&mut self) {
        let Some(request) = self.stream.response().copied() else {
            return;
        };
        let kind = OutgoingKind::ReadResponse {
            stag: request.sink_stag,
            offset: request.sink_offset,
        };
        let from = usize::try_from(request.source_offset).unwrap();
        let all = content(CONSTANT, REGION);
        let payload = match request.len {
            // A Read of 0 bytes is the ready-to-receive message.
            0 => Vec::new(),
            len => all[from..from + len as usize].to_vec(),
        };
        self.push(kind, payload);
        self.stream.answered();
    }

    /// Takes up to `most` bytes of the outgoing stream.
    fn take(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in self.stream.pieces() {
            match piece {
                FramerPiece::Owned(owned) => bytes.extend_from_slice(owned),
                FramerPiece::Payload {
                    message_id,
                    offset,
                    len,
                } => bytes.extend_from_slice(&self.payloads[&message_id][offset as usize..][..len]),
            }
            if bytes.len() >= most {
                break;
            }
        }
        bytes.truncate(most);
        self.stream.framer().sent(bytes.len());
        if !self.stream.framer().has_payload() {
            self.payloads.clear();
        }
        bytes
    }

    /// Receives bytes from the peer, after those that waited for a receive.
    fn receive(&mut self, bytes: &[u8], lengths: &mut VecDeque<usize>) {
        let mut input = self.stalled.take().unwrap_or_default();
        input.extend_from_slice(bytes);
        let mut input = &input[..];
        loop {
            let advanced = self.stream.advance(input, &mut self.memory);
            let (taken, progress) = advanced.expect("the peer breaks no rule");
            input = &input[taken..];
            match progress {
                FpduProgress::NeedInput => return assert!(input.is_empty()),
                FpduProgress::Stalled => {
                    self.stalled = Some(input.to_vec());
                    return;
                }
                FpduProgress::Place { destination, len } => {
                    if input.is_empty() {
                        return;
                    }
                    let (bytes, rest) = input.split_at(len.min(input.len()));
                    self.memory.put(destination, bytes);
                    self.stream.placed(bytes);
                    input = rest;
                }
                FpduProgress::Event(event) => self.handle(event, lengths),
            }
        }
    }

    fn handle(&mut self, event: IwarpEvent, lengths: &mut VecDeque<usize>) {
        match event {
            IwarpEvent::Received { msn, len, .. } => {
                assert_eq!(u64::from(msn), self.received + 1);
                let sent = lengths.pop_front().expect("it was sent");
                assert_eq!(len as usize, sent);
                assert!(self.memory.receive[..sent] == content(self.received, sent));
                self.received += 1;
                self.memory.receives -= 1;
            }
            IwarpEvent::ReadDone => {
                let expected = self.expected.pop_front().expect("it was posted");
                assert!(self.memory.sinks.pop_front() == Some(expected));
            }
            // The ready-to-receive message may be an RDMA Write of 0 bytes.
            IwarpEvent::Written { stag } => assert!(stag == WRITABLE || stag == 0),
            IwarpEvent::ReadRequested(_) => {}
            IwarpEvent::Terminated(terminate) => self.terminated = Some(terminate),
        }
    }
}

/// A connection: both ends, and the bytes in flight to each.
struct Pair {
    ends: [End; 2],
    wire: [VecDeque<u8>; 2],
}

impl Pair {
    fn new(random: &mut Random) -> Self {
        let rtr = RtrTypes {
            send: random.below(2) == 0,
            write: random.below(3) == 0,
            read: true,
        };
        let depths = ReadDepths {
            ird: DEPTH,
            ord: DEPTH,
        };
        let established = MpaEstablished {
            crc: random.below(2) == 0,
            markers: false,
            depths: Some(depths),
            peer_depths: Some(depths),
            rtr: (random.below(3) > 0).then_some(rtr),
            private_data: Vec::new(),
        };
        let mut emss = || [134, 536, 1448, 65_000][random.below(4)];
        let initiator = IwarpStream::initiator(&established, depths, emss());
        let responder = IwarpStream::responder(&established, depths, emss());
        Self {
            ends: [initiator, responder].map(End::new),
            wire: [VecDeque::new(), VecDeque::new()],
        }
    }

    fn step(&mut self, random: &mut Random) {
        let this = random.below(2);
        let most = [4, 200, REGION][random.below(3)];
        let len = random.below(most);
        let offset = random.below(REGION - len);
        let end = &mut self.ends[this];
        match random.below(12) {
            0 => {
                let number = end.on_their_way.len() as u64 + self.ends[1 - this].received;
                self.ends[this].send(number, len);
            }
            1 => end.write(offset, len),
            2 => end.read(offset, len),
            3 => end.memory.receives += 1,
            4 | 5 => end.answer(),
            6..=8 => self.transmit(this, 1 + random.below(2 * most)),
            _ => self.deliver(this, 1 + random.below(2 * most)),
        }
    }

    /// Moves bytes from one end to the wire.
    fn transmit(&mut self, from: usize, most: usize) {
        let bytes = self.ends[from].take(most);
        self.wire[1 - from].extend(bytes);
    }

    /// Moves bytes from the wire to one end.
    fn deliver(&mut self, to: usize, most: usize) {
        let count = most.min(self.wire[to].len());
        let bytes: Vec<u8> = self.wire[to].drain(..count).collect();
        let [first, second] = &mut self.ends;
        let (this, other) = if to == 0 {
            (first, second)
        } else {
            (second, first)
        };
        this.receive(&bytes, &mut other.on_their_way);
    }

    /// Delivers everything.
    fn settle(&mut self) {
        let is_quiet = |end: &End| {
            end.on_their_way.is_empty() && end.expected.is_empty() && end.payloads.is_empty()
        };
        for _ in 0..10_000 {
            for this in [0, 1] {
                self.ends[this].memory.receives += 1;
                self.ends[this].answer();
                self.transmit(this, usize::MAX);
                self.deliver(1 - this, usize::MAX);
            }
            let [first, second] = &self.ends;
            if is_quiet(first) && is_quiet(second) {
                break;
            }
        }
        for this in [0, 1] {
            let (end, other) = (&self.ends[this], &self.ends[1 - this]);
            assert!(end.on_their_way.is_empty() && end.expected.is_empty());
            assert!(end.written == other.memory.writable);
            let (sent, queued) = end.stream.positions();
            assert_eq!(sent, queued);
        }
    }
}

fn steps() -> usize {
    std::env::var("RPCRDMA_STEPS").map_or(200_000, |steps| steps.parse().unwrap())
}

#[test]
fn both_directions_deliver_exact_data() {
    // rfc: 5040-3.1-a, 5040-4.4-b, 5040-4.4-c, 5040-4.4-d, 5040-5.2-a, 5040-5.2.1-d, 5040-5.2.1-e
    // rfc: 5040-5.2.1-i, 5040-5.2.1-l, 5040-5.2.1-m, 5040-5.2.2-a, 5040-5.2.2-b, 5040-5.2.2-d
    // rfc: 5040-5.2.2-f, 5040-5.2.2-h, 5040-5.5-d, 5040-5.5-f, 5040-5.5-h, 5040-5.5-n, 5040-5.5-o
    // rfc: 5040-5.5-p, 5040-5.5-q, 5044-7.1-d
    let mut random = Random::from_environment();
    let mut left = steps();
    while left > 0 {
        let mut pair = Pair::new(&mut random);
        // An initiator sends first, even without a negotiated message.
        pair.ends[0].send(0, 4);
        let count = left.min(random.below(2000) + 1);
        (0..count).for_each(|_| pair.step(&mut random));
        left -= count;
        if random.below(4) == 0 {
            cut(pair, random.below(2), &mut random);
        } else {
            pair.settle();
        }
    }
}

/// One end sends a Terminate while both directions have data in flight, also in the middle of an
/// FPDU. The other end receives it after all earlier data, and nothing follows.
fn cut(mut pair: Pair, by: usize, random: &mut Random) {
    // rfc: 5040-5.4-h, 5040-5.4-i
    let told = 1 - by;
    for this in [0, 1] {
        let sends = pair.ends[1 - this].on_their_way.len();
        pair.ends[this].memory.receives += sends;
    }
    if by == 1 && !pair.ends[by].stream.has_heard() {
        // The responder sends nothing before the initiator's first FPDU.
        pair.transmit(told, usize::MAX);
        pair.deliver(by, usize::MAX);
    }
    pair.transmit(told, 1 + random.below(REGION));
    let terminate = Terminate::new(TerminateCode::DDP_NO_BUFFER);
    pair.ends[by].stream.terminate(&terminate);
    let (_, queued) = pair.ends[by].stream.positions();
    pair.ends[by].stream.terminate(&terminate);
    assert_eq!(pair.ends[by].stream.positions().1, queued);
    pair.transmit(by, usize::MAX);
    assert_eq!(pair.ends[by].stream.positions(), (queued, queued));
    while pair.ends[told].terminated.is_none() {
        assert!(!pair.wire[told].is_empty(), "the Terminate is lost");
        pair.deliver(told, 1 + random.below(REGION));
    }
    assert!(pair.wire[told].is_empty());
    // The other direction is cut where the wire ends. What arrives before it is exact.
    pair.deliver(by, random.below(REGION));
    let (end, other) = (&pair.ends[by], &pair.ends[told]);
    assert!(end.on_their_way.is_empty());
    assert!(end.written == other.memory.writable);
    assert_eq!(
        other.terminated.as_ref().map(|told| told.code),
        Some(terminate.code)
    );
    assert!(other.stream.has_ended());
}
