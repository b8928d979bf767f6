//! Faults of a hostile peer, and the Terminates that they cause.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rpcrdma_iwarp::{
    FpduProgress, FpduReceiver, Framer, IwarpEvent, IwarpStream, MpaEstablished, ReadDepths,
    ReadRequestHeader, ReadSink, StagError, Terminate, TerminateCode as Code,
};
use support::{Memory, drain, feed};

/// Returns an FPDU with this ULPDU and its CRC.
fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(ulpdu);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn untagged(control: [u8; 2], queue: u32, msn: u32, mo: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = control.to_vec();
    for field in [0, queue, msn, mo] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend(payload);
    fpdu(&bytes)
}

fn tagged(control: [u8; 2], stag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = control.to_vec();
    bytes.extend(stag.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(payload);
    fpdu(&bytes)
}

fn read_request(source_stag: u32, source_offset: u64, len: u32) -> Vec<u8> {
    let request = ReadRequestHeader {
        sink_stag: 1,
        sink_offset: 0,
        len,
        source_stag,
        source_offset,
    };
    untagged([0x41, 0x41], 1, 1, 0, &request.encode())
}

/// The peer may use one receive of 8 bytes, and access 8 bytes of each region.
struct Setup {
    memory: Memory,
    readable: u32,
    writable: u32,
    others: u32,
}

impl Setup {
    fn new() -> Self {
        let mut memory = Memory {
            receives: vec![vec![0; 8]],
            ..Memory::default()
        };
        let (readable, writable) = (memory.expose(8, true, false), memory.expose(8, false, true));
        let others = memory.expose(8, true, true);
        let region = memory.table.remove(others).unwrap();
        let others = rpcrdma_iwarp::StagRegion {
            connection: 2,
            ..region
        };
        let others = memory.table.insert(others).unwrap();
        Self {
            memory,
            readable,
            writable,
            others,
        }
    }

    fn run(&mut self, stream: &[u8]) -> Result<Vec<IwarpEvent>, Terminate> {
        feed(&mut FpduReceiver::new(true, 1), &mut self.memory, stream)
    }
}

#[test]
fn each_fault_causes_its_terminate() {
    // rfc: 5040-4.4-c, 5040-4.4-d, 5040-4.8-d, 5040-4.8-e, 5040-4.8-f, 5040-4.8-h, 5040-4.8-i
    // rfc: 5040-4.8-j, 5040-4.8-k, 5040-5.2.1-c, 5040-5.2.1-o, 5040-5.5-g, 5040-5.5-m, 5040-6.1-e
    // rfc: 5040-7.1-b, 5040-7.2-a, 5040-7.2-b, 5040-7.2-c, 5040-7.2-d, 5040-7.2-e, 5040-7.2-f
    // rfc: 5040-7.2-g, 5040-7.2-h, 5040-7.2-i, 5040-7.2-j, 5040-7.2-k, 5040-7.2-l, 5040-7.2-m
    // rfc: 5040-8.1.1-c, 5041-4.2-f, 5041-5.2-b, 5041-7.1-a, 5041-7.1-f, 5041-7.1-h, 5041-7.2-a
    // rfc: 5041-8.2-b, 5041-8.3-d, 5041-8.3.1-c, 5044-8-a
    let mut setup = Setup::new();
    let (readable, writable, others) = (setup.readable, setup.writable, setup.others);
    let write = [0xc1, 0x40];
    let send = [0x41, 0x43];
    let unknown = (1..)
        .find(|stag| ![readable, writable, others].contains(stag))
        .unwrap();
    let mut corrupt = untagged(send, 0, 1, 0, b"abc");
    *corrupt.last_mut().unwrap() ^= 1;
    let two_reads = [read_request(readable, 0, 8), {
        let request = ReadRequestHeader {
            sink_stag: 1,
            sink_offset: 0,
            len: 8,
            source_stag: readable,
            source_offset: 0,
        };
        untagged([0x41, 0x41], 1, 2, 0, &request.encode())
    }]
    .concat();
    let first_half = untagged([0x01, 0x43], 0, 1, 0, b"abcd");
    let cases = [
        // RFC 5044, section 8.
        ("CRC", corrupt, Code::MPA_CRC),
        // RFC 5041, sections 7.1 and 7.2.
        (
            "DDP version",
            untagged([0x42, 0x43], 0, 1, 0, b""),
            Code::DDP_UNTAGGED_VERSION,
        ),
        (
            "tagged version",
            tagged([0xc2, 0x40], writable, 0, b"a"),
            Code::DDP_TAGGED_VERSION,
        ),
        (
            "short header",
            fpdu(&[0x41, 0x43, 0]),
            Code::DDP_LOCAL_CATASTROPHIC,
        ),
        ("queue", untagged(send, 3, 1, 0, b""), Code::DDP_QUEUE),
        ("MSN", untagged(send, 0, 2, 0, b""), Code::DDP_MSN),
        (
            "MSN repeated",
            [untagged(send, 0, 1, 0, b"a"), untagged(send, 0, 1, 0, b"a")].concat(),
            Code::DDP_MSN,
        ),
        (
            "MSN of a Read repeated",
            [read_request(readable, 0, 0), read_request(readable, 0, 0)].concat(),
            Code::DDP_MSN,
        ),
        (
            "no receive",
            [untagged(send, 0, 1, 0, b""), untagged(send, 0, 2, 0, b"a")].concat(),
            Code::DDP_NO_BUFFER,
        ),
        ("MO", untagged(send, 0, 1, 1, b"a"), Code::DDP_MO),
        (
            "MO repeated",
            [first_half.clone(), untagged(send, 0, 1, 0, b"a")].concat(),
            Code::DDP_MO,
        ),
        (
            "too long",
            untagged(send, 0, 1, 0, &[0; 9]),
            Code::DDP_TOO_LONG,
        ),
        (
            "too long in two",
            [first_half.clone(), untagged(send, 0, 1, 4, b"efghi")].concat(),
            Code::DDP_TOO_LONG,
        ),
        (
            "STag",
            tagged(write, unknown, 0, b"a"),
            Code::DDP_INVALID_STAG,
        ),
        ("bounds", tagged(write, writable, 8, b"a"), Code::DDP_BOUNDS),
        (
            "wrap",
            tagged(write, writable, u64::MAX, b"ab"),
            Code::DDP_TO_WRAP,
        ),
        (
            "other stream",
            tagged(write, others, 0, b"a"),
            Code::DDP_STAG_OF_OTHER_STREAM,
        ),
        ("beyond IRD", two_reads, Code::DDP_NO_BUFFER),
        // RFC 5040, sections 4.8 and 7.2.
        (
            "RDMAP version",
            untagged([0x41, 0x83], 0, 1, 0, b""),
            Code::RDMAP_VERSION,
        ),
        (
            "opcode",
            untagged([0x41, 0x48], 0, 1, 0, b""),
            Code::RDMAP_OPCODE,
        ),
        (
            "opcode of queue",
            untagged([0x41, 0x41], 0, 1, 0, b""),
            Code::RDMAP_OPCODE,
        ),
        (
            "opcode changes",
            [first_half, untagged([0x41, 0x45], 0, 1, 4, b"")].concat(),
            Code::RDMAP_OPCODE,
        ),
        (
            "no read",
            tagged([0xc1, 0x42], writable, 0, b"a"),
            Code::RDMAP_OPCODE,
        ),
        (
            "write right",
            tagged(write, readable, 0, b"a"),
            Code::RDMAP_ACCESS,
        ),
        (
            "read STag",
            read_request(unknown, 0, 1),
            Code::RDMAP_INVALID_STAG,
        ),
        (
            "read bounds",
            read_request(readable, 1, 8),
            Code::RDMAP_BOUNDS,
        ),
        (
            "read wrap",
            read_request(readable, u64::MAX, 8),
            Code::RDMAP_TO_WRAP,
        ),
        (
            "read right",
            read_request(writable, 0, 8),
            Code::RDMAP_ACCESS,
        ),
        (
            "read stream",
            read_request(others, 0, 8),
            Code::RDMAP_STAG_OF_OTHER_STREAM,
        ),
        (
            "short read",
            untagged([0x41, 0x41], 1, 1, 0, &[0; 27]),
            Code::RDMAP_UNSPECIFIED,
        ),
        (
            "long read",
            untagged([0x41, 0x41], 1, 1, 0, &[0; 29]),
            Code::DDP_TOO_LONG,
        ),
        (
            "invalidate",
            untagged([0x41, 0x44], 0, 1, 0, b""),
            Code::RDMAP_CANNOT_INVALIDATE,
        ),
    ];
    for (name, stream, code) in cases {
        let terminate = setup.run(&stream).expect_err(name);
        assert_eq!(terminate.code, code, "{name}");
        // RFC 5040, figure 10.
        let with_ddp = (
            code.layer != 2 && code != Code::DDP_LOCAL_CATASTROPHIC,
            name,
        );
        assert_eq!((terminate.segment.is_some(), name), with_ddp);
        let of_read = name.starts_with("read ");
        assert_eq!((terminate.read_request.is_some(), name), (of_read, name));
        assert_eq!(
            Terminate::decode(&terminate.encode()),
            Some(terminate),
            "{name}"
        );
    }
}

#[test]
fn a_corrupt_header_is_a_crc_error() {
    // rfc: 5044-4.4-l, 5044-4.4-m, 5044-8-a
    let mut stream = untagged([0x41, 0x43], 9, 1, 0, b"abc");
    stream[5] ^= 0x10;
    assert_eq!(
        Setup::new().run(&stream).unwrap_err(),
        Terminate::new(Code::MPA_CRC)
    );
}

#[test]
fn input_after_a_fault_is_ignored() {
    // rfc: 5040-7-a, 5040-7.1-c, 5041-3-i, 5041-7.1-g, 5041-7.1-i, 5044-8-g, 5044-8-h
    let mut setup = Setup::new();
    let mut receiver = FpduReceiver::new(true, 1);
    feed(&mut receiver, &mut setup.memory, &fpdu(&[1])).unwrap_err();
    let good = untagged([0x41, 0x43], 0, 1, 0, b"");
    assert_eq!(feed(&mut receiver, &mut setup.memory, &good), Ok(vec![]));
}

#[test]
fn a_terminate_ends_the_stream() {
    // rfc: 5040-4.8-a, 5040-4.8-b, 5040-4.8-c, 5040-4.8-g, 5040-5.4-d, 5040-5.4-e, 5040-5.4-f
    // rfc: 5040-5.4-g
    let mut framer = Framer::new(1448, true, false, false);
    let terminate = Terminate::new(Code::MPA_CRC);
    framer.push_terminate(&terminate);
    let bytes = drain(&mut framer, &[]);
    assert_eq!(bytes[20..24], [0x20, 2, 0, 0]);
    let events = Setup::new().run(&bytes);
    assert_eq!(events, Ok(vec![IwarpEvent::Terminated(terminate)]));
}

/// The Terminate for an RDMA Read whose memory has ended has the headers of its request, with the
/// position of the response: the example of RFC 5040, section 4.8.
#[test]
fn a_terminate_has_the_position_of_a_response() {
    // rfc: 5040-4.8-c, 5040-4.8-d, 5040-4.8-e, 5040-4.8-f, 5040-4.8-h, 5040-4.8-i, 5040-4.8-j
    // rfc: 5040-4.8-k
    let established = MpaEstablished {
        crc: true,
        markers: false,
        depths: None,
        peer_depths: None,
        rtr: None,
        private_data: Vec::new(),
    };
    let depths = ReadDepths { ird: 1, ord: 1 };
    let mut memory = Memory::default();
    let source_stag = memory.expose(10_000, true, false);
    let request = ReadRequestHeader {
        sink_stag: 0xaabb_ccdd,
        sink_offset: 0x1_0000_0000,
        len: 5000,
        source_stag,
        source_offset: 3,
    };
    let input = untagged([0x41, 0x41], 1, 1, 0, &request.encode());
    let mut stream = IwarpStream::responder(&established, depths, 1448);
    let requested = FpduProgress::Event(IwarpEvent::ReadRequested(request));
    let taken = (input.len(), requested);
    assert_eq!(stream.advance(&input, &mut memory), Ok(taken));
    stream.refuse_response(0, 2048, StagError::Bounds);
    assert!(stream.has_ended());
    // RDMAP, a protection error, of bounds; the length, the DDP header and the RDMAP header follow.
    let mut expected = vec![0x01, 1, 0xe0, 0, 0, 46, 0x41, 0x41];
    for field in [0u32, 1, 1, 0, 0xaabb_ccdd, 1, 2048, 5000 - 2048] {
        expected.extend(field.to_be_bytes());
    }
    expected.extend(source_stag.to_be_bytes());
    expected.extend((3u64 + 2048).to_be_bytes());
    let bytes = drain(stream.framer(), &[]);
    assert_eq!(bytes, untagged([0x41, 0x47], 2, 1, 0, &expected));
}

/// A segment whose memory ends while it arrives is refused when its CRC is verified.
#[test]
fn a_placement_is_refused_behind_its_crc() {
    // rfc: 5041-7.1-g, 5041-7.1-h
    let mut setup = Setup::new();
    let mut receiver = FpduReceiver::new(true, 1);
    let mut stream = tagged([0xc1, 0x40], setup.writable, 0, &[7; 8]);
    for is_damaged in [false, true] {
        *stream.last_mut().unwrap() ^= u8::from(is_damaged);
        let (first, rest) = stream.split_at(20);
        assert_eq!(feed(&mut receiver, &mut setup.memory, first), Ok(vec![]));
        receiver.refuse_placement(StagError::Invalid);
        let refused = feed(&mut receiver, &mut setup.memory, rest).unwrap_err();
        let expected = if is_damaged {
            Terminate::new(Code::MPA_CRC)
        } else {
            Terminate {
                code: Code::DDP_INVALID_STAG,
                segment: Some((22, stream[2..16].to_vec())),
                read_request: None,
            }
        };
        assert_eq!(refused, expected);
        receiver = FpduReceiver::new(true, 1);
    }
    let placed = &setup.memory.regions[&setup.writable];
    assert_eq!(placed[..], [7, 7, 7, 7, 0, 0, 0, 0]);
}

/// A segment of a response to an RDMA Read: whether it is the last, its offset and its payload.
type Segment = (bool, u64, &'static [u8]);
/// The events of a response, or the code of the Terminate that answers it.
type Outcome = Result<Vec<IwarpEvent>, Code>;

#[test]
fn a_read_response_is_confined_to_its_sink() {
    // rfc: 5040-5.2.2-e, 5040-5.2.2-g
    let done = Ok(vec![IwarpEvent::ReadDone]);
    let bounds = Err(Code::DDP_BOUNDS);
    let cases: &[(&str, &[Segment], &Outcome)] = &[
        ("one segment", &[(true, 0, &[1; 8])], &done),
        (
            "three segments",
            &[(false, 0, &[1; 3]), (false, 3, &[1; 4]), (true, 7, &[1])],
            &done,
        ),
        ("too short", &[(true, 0, &[1; 7])], &bounds),
        ("too long", &[(true, 0, &[1; 9])], &bounds),
        ("not the last", &[(false, 0, &[1; 8])], &bounds),
        ("offset", &[(true, 1, &[1; 8])], &bounds),
        ("offset that wraps", &[(true, u64::MAX, &[1; 8])], &bounds),
        (
            "a segment repeated",
            &[(false, 0, &[1; 4]), (false, 0, &[1; 4])],
            &bounds,
        ),
        ("a gap", &[(false, 0, &[1; 3]), (true, 4, &[1; 4])], &bounds),
        (
            "too long in two",
            &[(false, 0, &[1; 4]), (true, 4, &[1; 5])],
            &bounds,
        ),
        (
            "too short in two",
            &[(false, 0, &[1; 4]), (true, 4, &[1; 3])],
            &bounds,
        ),
        (
            "a second response",
            &[(true, 0, &[1; 8]), (true, 0, &[1; 8])],
            &Err(Code::RDMAP_OPCODE),
        ),
    ];
    for (name, segments, expected) in cases {
        let (result, memory) = respond(segments, segments.len());
        assert_eq!(&result, *expected, "{name}");
        assert_eq!(memory[8..], [0; 8], "{name}");
    }
    // The STag of other memory that the peer may write.
    let halves: &[Segment] = &[(false, 0, &[1; 4]), (true, 4, &[1; 4])];
    for (right, expected) in [(0, [0; 8]), (1, [1, 1, 1, 1, 0, 0, 0, 0])] {
        let (result, memory) = respond(halves, right);
        assert_eq!(result, Err(Code::DDP_INVALID_STAG));
        assert_eq!(memory[..8], expected);
    }
}

/// Sends the segments of a response to a Read of 8 bytes, the first `right` of them with the STag
/// of the sink. Returns the result, and 16 bytes of memory that begin with the sink.
fn respond(segments: &[Segment], right: usize) -> (Outcome, Vec<u8>) {
    let mut setup = Setup::new();
    // The memory has room for more than the sink.
    let stag = setup.memory.expose(16, false, true);
    setup.memory.sink = stag;
    let mut receiver = FpduReceiver::new(true, 1);
    receiver.read_posted(ReadSink {
        stag,
        offset: 0,
        len: 8,
    });
    let stream: Vec<u8> = segments
        .iter()
        .enumerate()
        .flat_map(|(at, (last, offset, payload))| {
            let control = [if *last { 0xc1 } else { 0x81 }, 0x42];
            let stag = if at < right { stag } else { setup.writable };
            tagged(control, stag, *offset, payload)
        })
        .collect();
    let result = feed(&mut receiver, &mut setup.memory, &stream);
    let sink = setup.memory.regions[&stag].clone();
    (result.map_err(|terminate| terminate.code), sink)
}
