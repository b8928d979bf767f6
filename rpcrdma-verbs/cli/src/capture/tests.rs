//! Damaged files, and captures in formats other than those that this command writes.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its numbers are small"
)]

use std::hash::{BuildHasher as _, RandomState};

use rpcrdma_proto::connection::Properties;
use rpcrdma_proto::v2::{Body, ChunkLists, MsgType, XprtHdr};
use rpcrdma_proto::xdr::Encode;
use serde_json::Value;

use super::report::Report;
use super::write::{CaptureWriter, Frames};

/// Returns the events of a capture, or the error if it is not a capture.
fn events(file: &[u8]) -> Result<Vec<Value>, String> {
    let mut out = Vec::new();
    let report = Report::new(&mut out, true, Properties::Properties);
    super::analyze(file, report).map_err(|error| error.to_string())?;
    let lines = String::from_utf8(out).unwrap();
    Ok(lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect())
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["event"] == kind)
        .collect()
}

/// Returns a call or a reply with an RPC message of `length` bytes.
fn message(xid: u32, call: bool, length: usize) -> Vec<u8> {
    let rdma_direction = if call { MsgType::Call } else { MsgType::Reply };
    let chunks = ChunkLists {
        direction: rdma_direction,
        reads: Default::default(),
        writes: Default::default(),
        reply: None,
    };
    let header = XprtHdr {
        xid,
        vers: 2,
        credit: 32,
        body: Body::Msg(chunks),
    };
    let mut bytes = header.encode_to_vec().unwrap();
    let rpc: &[u32] = if call {
        &[xid, 0, 2, 100_003, 3, 6, 0, 0, 0, 0]
    } else {
        &[xid, 1, 0, 0, 0, 0]
    };
    let begin = bytes.len();
    bytes.extend(rpc.iter().flat_map(|word| word.to_be_bytes()));
    bytes.resize(begin + length, 0);
    bytes
}

/// Returns a capture of two connections, with messages in one and in several packets.
fn capture(frames: Frames) -> Vec<u8> {
    capture_of(frames, &[7, 70], [60, 2500, 5000, 24])
}

/// Returns a capture of connections with two calls each, and messages of these lengths.
fn capture_of(frames: Frames, xids: &[u32], lengths: [usize; 4]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = CaptureWriter::create(file.path(), frames).unwrap();
    for xid in xids.iter().copied() {
        let messages = [
            (true, message(xid, true, lengths[0])),
            (false, message(xid, false, lengths[1])),
            (true, message(xid + 1, true, lengths[2])),
            (false, message(xid + 1, false, lengths[3])),
        ];
        let messages = messages
            .iter()
            .map(|(client, bytes)| (*client, bytes.as_slice()));
        writer.connection(messages).unwrap();
    }
    std::fs::read(file.path()).unwrap()
}

/// Returns the records of a pcap file: headers and frames.
fn records(file: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut records) = (&file[24..], Vec::new());
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(16 + length);
        records.push(record);
        rest = after;
    }
    records
}

/// A pcapng file that is written in a byte order.
struct NgWriter {
    big: bool,
    out: Vec<u8>,
}

/// The option that sets the time units, and the option that sets the offset in seconds.
const TSRESOL: u16 = 9;
const TSOFFSET: u16 = 14;

impl NgWriter {
    /// Begins a file.
    fn new(big: bool) -> Self {
        let mut this = Self {
            big,
            out: Vec::new(),
        };
        let version = [this.half(1), this.half(0)].concat();
        let section = [&this.word(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        this.block(0x0a0d_0d0a, &section);
        this
    }

    fn word(&self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn half(&self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = self.word(12 + padded as u32);
        self.out.extend(self.word(kind));
        self.out.extend(length);
        self.out.extend(body);
        self.out.resize(self.out.len() + padded - body.len(), 0);
        self.out.extend(length);
    }

    /// Adds an interface of Ethernet.
    fn interface(&mut self, resolution: u8, offset: i64) {
        let offset = if self.big {
            offset.to_be_bytes()
        } else {
            offset.to_le_bytes()
        };
        let options = [
            &self.half(TSRESOL)[..],
            &self.half(1),
            &[resolution, 0, 0, 0],
            &self.half(TSOFFSET),
            &self.half(8),
            &offset,
            &[0; 4],
        ];
        let fixed = [&self.half(1)[..], &self.half(0), &self.word(0)].concat();
        self.block(1, &[fixed, options.concat()].concat());
    }

    /// Adds a frame that was captured at a time, in units of its interface.
    fn packet(&mut self, interface: u32, time: u64, frame: &[u8]) {
        let length = self.word(frame.len() as u32);
        let time = [self.word((time >> 32) as u32), self.word(time as u32)].concat();
        let body = [&self.word(interface)[..], &time, &length, &length, frame];
        self.block(6, &body.concat());
    }

    /// Adds a frame without a time.
    fn simple_packet(&mut self, frame: &[u8]) {
        let body = [&self.word(frame.len() as u32)[..], frame].concat();
        self.block(3, &body);
    }
}

/// Returns the time of a record in microseconds.
fn micros(record: &[u8]) -> u64 {
    let field = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    u64::from(field(0)) * 1_000_000 + u64::from(field(4))
}

/// Returns a capture as pcapng in either byte order, with nanoseconds.
fn pcapng(file: &[u8], big: bool) -> Vec<u8> {
    let mut ng = NgWriter::new(big);
    ng.interface(9, 0);
    // A block of an unknown type.
    ng.block(0x1234, &[1, 2, 3]);
    for record in records(file) {
        ng.packet(0, micros(record) * 1000, &record[16..]);
    }
    ng.out
}

/// Returns the fields that are equal in all formats of a capture.
fn without_times(events: &[Value]) -> Vec<Value> {
    let mut events = events.to_vec();
    for event in &mut events {
        event.as_object_mut().unwrap().remove("time");
    }
    events
}

#[test]
fn every_message_is_found() {
    for frames in [Frames::Roce, Frames::Iwarp] {
        let events = events(&capture(frames)).unwrap();
        assert_eq!(of_kind(&events, "connection").len(), 2);
        let messages = of_kind(&events, "message");
        let found: Vec<(u64, &str, u64, u64)> = messages
            .iter()
            .map(|event| {
                let number = |key: &str| event[key].as_u64().unwrap();
                let from = event["from"].as_str().unwrap();
                (number("connection"), from, number("xid"), number("inline"))
            })
            .collect();
        let of = |number, xid| {
            [
                (number, "client", xid, 60),
                (number, "server", xid, 2500),
                (number, "client", xid + 1, 5000),
                (number, "server", xid + 1, 24),
            ]
        };
        assert_eq!(found, [of(1, 7), of(2, 70)].concat());
        let rpc: Vec<&Value> = messages.iter().map(|event| &event["rpc"]["name"]).collect();
        assert_eq!(rpc, ["NFS version 3 READ"; 8]);
        assert!(of_kind(&events, "lost").is_empty());
    }
}

#[test]
fn pcapng_in_either_byte_order_is_read() {
    for frames in [Frames::Roce, Frames::Iwarp] {
        let file = capture(frames);
        let of_pcap = without_times(&events(&file).unwrap());
        for big in [false, true] {
            let of_pcapng = without_times(&events(&pcapng(&file, big)).unwrap());
            assert_eq!(of_pcapng, of_pcap, "{frames:?}, big-endian: {big}");
        }
    }
}

/// Without any one frame, each printed message is one that was sent, and each missing message is
/// reported as lost.
#[test]
fn every_missing_frame_is_reported() {
    for frames in [Frames::Roce, Frames::Iwarp] {
        let file = capture(frames);
        let whole = events(&file).unwrap();
        let sent: Vec<&Value> = of_kind(&whole, "message")
            .iter()
            .map(|e| &e["message"])
            .collect();
        let records = records(&file);
        for missing in 0..records.len() {
            let rest = records.iter().enumerate().filter(|(at, _)| *at != missing);
            let rest: Vec<u8> = rest.flat_map(|(_, record)| record.to_vec()).collect();
            let events = events(&[&file[..24], &rest].concat()).unwrap();
            let messages = of_kind(&events, "message");
            assert!(
                messages
                    .iter()
                    .all(|event| sent.contains(&&event["message"]))
            );
            let lost = of_kind(&events, "lost").len();
            // The loss of the last packets of a queue pair cannot be detected.
            let last_of_flow = frames == Frames::Roce
                && messages.len() == sent.len() - 1
                && is_last(&whole, &messages);
            assert!(
                messages.len() == sent.len() || lost > 0 || last_of_flow,
                "{frames:?}, frame {missing}: {} messages, {lost} losses",
                messages.len()
            );
        }
    }
}

/// Returns true if the missing message is the first or the last one of its end.
fn is_last(whole: &[Value], messages: &[&Value]) -> bool {
    let all = of_kind(whole, "message");
    let there = |event: &&&Value| {
        messages
            .iter()
            .any(|other| other["message"] == event["message"])
    };
    let missing = all.iter().find(|event| !there(event)).unwrap();
    let same_end = |event: &&&Value| {
        ["connection", "from"]
            .iter()
            .all(|key| event[key] == missing[key])
    };
    let of_end: Vec<&&Value> = all.iter().filter(same_end).collect();
    of_end.first() == Some(&missing) || of_end.last() == Some(&missing)
}

#[test]
fn every_truncation_is_read_to_its_end() {
    for frames in [Frames::Roce, Frames::Iwarp] {
        let pcap = capture_of(frames, &[7], [60, 24, 1500, 24]);
        for file in [pcapng(&pcap, false), pcap] {
            let all = of_kind(&events(&file).unwrap(), "message").len();
            let mut before = 0;
            for length in 0..file.len() {
                // The first block of the file is incomplete.
                let Ok(events) = events(&file[..length]) else {
                    assert!(length < 28, "{length}");
                    continue;
                };
                let found = of_kind(&events, "message").len();
                assert!(before <= found && found <= all, "{length}");
                before = found;
            }
        }
    }
}

/// A generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ z >> 31) % bound as u64).unwrap()
    }
}

#[test]
fn damage_causes_no_panic() {
    let seed = match std::env::var("RPCRDMA_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => RandomState::new().hash_one("seed"),
    };
    println!("RPCRDMA_SEED={seed}");
    let mut random = Random(seed);
    for frames in [Frames::Roce, Frames::Iwarp] {
        let pcap = capture_of(frames, &[7], [60, 24, 1500, 24]);
        for file in [pcapng(&pcap, false), pcapng(&pcap, true), pcap] {
            for _ in 0..2000 {
                let mut damaged = file.clone();
                for _ in 0..1 + random.below(6) {
                    let at = random.below(damaged.len());
                    // Lengths of zero and all ones are the most interesting ones.
                    let byte = [0, 0xff, 1, 0x7f, 0x80][random.below(5)];
                    match random.below(3) {
                        0 => damaged[at] ^= 1 << random.below(8),
                        1 => damaged[at] = byte,
                        _ => {
                            let end = damaged.len().min(at + 4);
                            damaged[at..end].fill(byte);
                        }
                    }
                }
                if let Ok(events) = events(&damaged) {
                    assert_eq!(of_kind(&events, "summary").len(), 1);
                }
            }
        }
    }
}

fn times(file: &[u8]) -> Vec<f64> {
    let events = events(file).unwrap();
    let messages = of_kind(&events, "message");
    messages
        .iter()
        .map(|event| event["time"].as_f64().unwrap())
        .collect()
}

/// Returns a pcap file with these records, each a millisecond after the one before.
fn pcap_of<'r>(header: &[u8], records: impl IntoIterator<Item = &'r [u8]>) -> Vec<u8> {
    let mut file = header[..24].to_vec();
    for (at, record) in records.into_iter().enumerate() {
        file.extend(0u32.to_le_bytes());
        file.extend((1000 * at as u32).to_le_bytes());
        file.extend(&record[8..]);
    }
    file
}

/// Interfaces have units of time and offsets of their own.
#[test]
fn times_have_the_units_and_offsets_of_their_interfaces() {
    let file = capture_of(Frames::Roce, &[7], [60, 24, 60, 24]);
    let file = pcap_of(&file, records(&file));
    let expected = times(&file);
    for big in [false, true] {
        let mut ng = NgWriter::new(big);
        ng.interface(6, 0);
        // Units of 2^-20 seconds, and a clock that is ahead.
        ng.interface(0x80 | 20, -3600);
        for (at, record) in records(&file).into_iter().enumerate() {
            let time = micros(record);
            match at % 2 {
                0 => ng.packet(0, time, &record[16..]),
                _ => {
                    let units = (u128::from(time + 3_600_000_000) << 20) / 1_000_000;
                    ng.packet(1, units as u64, &record[16..]);
                }
            }
        }
        let found = times(&ng.out);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
        }
    }
}

/// A frame without a time is printed with the time of the frame before it.
#[test]
fn frames_without_times_have_the_time_before() {
    const EPOCH: u64 = 1_700_000_000_000_000;
    let file = capture_of(Frames::Roce, &[7], [60, 24, 60, 24]);
    let mut ng = NgWriter::new(false);
    ng.interface(6, 0);
    for (at, record) in records(&file).into_iter().enumerate() {
        match at {
            // The messages of the connection managers, and the first call.
            0..=1 | 3 => ng.simple_packet(&record[16..]),
            _ => ng.packet(0, EPOCH + at as u64 * 1_000_000, &record[16..]),
        }
    }
    assert_eq!(times(&ng.out), [0.0, 0.0, 2.0, 3.0]);
}

/// Returns the frame of a record with the padding and the ICRC cut off.
fn cut(record: &[u8], bytes: usize) -> Vec<u8> {
    let mut cut = record[..record.len() - bytes].to_vec();
    let captured = (cut.len() - 16) as u32;
    cut[8..12].copy_from_slice(&captured.to_le_bytes());
    cut
}

#[test]
fn a_message_is_whole_without_its_padding() {
    let file = capture_of(Frames::Roce, &[7], [61, 24, 60, 24]);
    for (bytes, lost) in [(7, 0), (8, 1)] {
        let mut records: Vec<Vec<u8>> = records(&file).iter().map(|one| one.to_vec()).collect();
        records[2] = cut(&records[2], bytes);
        // The flow is known before.
        records.insert(2, records[4].clone());
        let set_psn = |record: &mut Vec<u8>, psn: u8| record[16 + 14 + 20 + 8 + 11] = psn;
        set_psn(&mut records[2], 0xff);
        records[2][16 + 14 + 20 + 8 + 9..][..2].fill(0xff);
        let file = pcap_of(&file, records.iter().map(Vec::as_slice));
        let events = events(&file).unwrap();
        assert_eq!(of_kind(&events, "message").len(), 5 - lost, "{bytes}");
        assert_eq!(of_kind(&events, "lost").len(), lost, "{bytes}");
    }
}

/// The number of frames before the first message of an iWARP connection: three of TCP, and the
/// request and the reply of MPA.
const SETUP: usize = 5;
/// The offset of the TCP header in a record.
const TCP: usize = 16 + 14 + 20;

/// Returns the records of an iWARP connection with four messages of one segment each.
fn iwarp_records() -> (Vec<u8>, Vec<Vec<u8>>) {
    let file = capture_of(Frames::Iwarp, &[7], [60, 24, 60, 24]);
    let all: Vec<Vec<u8>> = records(&file).iter().map(|one| one.to_vec()).collect();
    // Then each end sends a FIN.
    assert_eq!(all.len(), SETUP + 4 + 2);
    (file, all)
}

/// Checks that these records are one connection with four messages, or with several connections.
#[track_caller]
fn assert_whole(header: &[u8], records: &[Vec<u8>], lost: usize) {
    let file = pcap_of(header, records.iter().map(Vec::as_slice));
    let events = events(&file).unwrap();
    let xids: Vec<_> = of_kind(&events, "message")
        .iter()
        .map(|event| event["xid"].as_u64().unwrap())
        .collect();
    assert_eq!(xids, [7, 7, 8, 8]);
    assert_eq!(of_kind(&events, "connection").len(), 1);
    assert_eq!(of_kind(&events, "lost").len(), lost, "{events:?}");
}

/// A connection of the same ports follows one without messages.
#[test]
fn ports_are_used_again() {
    let (header, records) = iwarp_records();
    let mut next = records.clone();
    for record in &mut next {
        // Both numbers begin elsewhere.
        for at in [TCP + 5, TCP + 9] {
            record[at] ^= 0x80;
        }
    }
    for before in [3, SETUP] {
        assert_whole(&header, &[&records[..before], &next].concat(), 0);
        // Without the SYN of the client.
        assert_whole(&header, &[&records[..1], &next[1..]].concat(), 0);
    }
}

#[test]
fn segments_may_follow_the_end() {
    let (header, records) = iwarp_records();
    // The last message is retransmitted after the FINs, which do not wait for it.
    let mut late = records.clone();
    let last = late.remove(SETUP + 3);
    late.push(last.clone());
    assert_whole(&header, &late, 0);
    // It comes again, although the connection has ended.
    assert_whole(&header, &[&records[..], &[last]].concat(), 0);
    // It crosses a RST of the client, which does not acknowledge it.
    let mut reset = records.clone();
    let acknowledged = records[SETUP + 2][TCP + 8..TCP + 12].to_vec();
    reset[SETUP + 4][TCP + 8..TCP + 12].copy_from_slice(&acknowledged);
    reset[SETUP + 4][TCP + 13] |= 4;
    reset.swap(SETUP + 3, SETUP + 4);
    assert_whole(&header, &reset, 0);
}

/// The peer of an end whose setup is known does not wait for a setup that the capture lacks.
#[test]
fn a_capture_without_the_setup_of_one_end_is_read() {
    let (header, records) = iwarp_records();
    let without = |missing: &[usize]| {
        let rest = records.iter().enumerate();
        let rest = rest.filter(|(at, _)| !missing.contains(at));
        rest.map(|(_, record)| record.clone()).collect::<Vec<_>>()
    };
    // Frames of the server: SYN, reply.
    assert_whole(&header, &without(&[1, 4]), 0);
    // Frames of the client: SYN, ACK, request.
    assert_whole(&header, &without(&[0, 2, 3]), 0);
}

/// Returns the text of the report about a capture.
fn text(file: &[u8]) -> String {
    let mut out = Vec::new();
    let report = Report::new(&mut out, false, Properties::Properties);
    super::analyze(file, report).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns a record with these bytes in place of its frame.
fn record_of(record: &[u8], frame: &[u8]) -> Vec<u8> {
    let length = (frame.len() as u32).to_le_bytes();
    [&record[..8], &length, &length, frame].concat()
}

/// Returns the record with an IPv6 packet, whose payload follows a fragment header with this offset
/// and flag (RFC 8200, section 4.5).
fn as_v6_fragment(record: &[u8], offset_and_flag: u16) -> Vec<u8> {
    let (ethernet, packet) = record[16..].split_at(14);
    let (header, payload) = packet.split_at(20);
    let address = |at: usize| [&[0x20, 1, 0xd, 0xb8][..], &[0; 8], &header[at..at + 4]].concat();
    let length = (payload.len() as u16 + 8).to_be_bytes();
    let fragment = [
        &[header[9], 0],
        &offset_and_flag.to_be_bytes()[..],
        &[0, 0, 0, 1],
    ]
    .concat();
    let frame = [
        &ethernet[..12],
        &[0x86, 0xdd, 0x60, 0, 0, 0],
        &length,
        &[44, 64],
        &address(12),
        &address(16),
        &fragment,
        payload,
    ];
    record_of(record, &frame.concat())
}

/// Fragments are counted, since their messages are missing. A packet of IPv6 with a fragment header
/// that is no fragment (RFC 6946) is whole.
#[test]
fn fragments_are_counted() {
    /// The offset of the flags of IPv4, and of the protocol, in a record.
    const FLAGS: usize = 16 + 14 + 6;
    const PROTOCOL: usize = 16 + 14 + 9;
    let file = capture_of(Frames::Roce, &[7], [60, 24, 60, 24]);
    let original: Vec<Vec<u8>> = records(&file).iter().map(|one| one.to_vec()).collect();
    let mut v4 = original.clone();
    // More fragments follow, and one at an offset.
    (v4[3][FLAGS], v4[4][FLAGS + 1]) = (0x20, 5);
    let v6 = |flags: [u16; 2]| {
        let records = original.iter().enumerate();
        let records = records.map(|(at, record)| match at {
            3 => as_v6_fragment(record, flags[0]),
            4 => as_v6_fragment(record, flags[1]),
            _ => as_v6_fragment(record, 0),
        });
        records.collect::<Vec<_>>()
    };
    for (records, fragments) in [(v4, 2), (v6([1, 40]), 2), (v6([0, 0]), 0)] {
        let file = pcap_of(&file, records.iter().map(Vec::as_slice));
        let events = events(&file).unwrap();
        let [summary] = of_kind(&events, "summary")[..] else {
            panic!("{events:?}")
        };
        assert_eq!(summary["fragments"], fragments);
        assert_eq!(summary["messages"], 4 - fragments);
        let line = "2 fragments of IP packets were not decoded\n";
        assert_eq!(text(&file).contains(line), fragments > 0);
    }
    // No protocol that can carry RDMA.
    let mut other = original;
    (other[3][FLAGS], other[3][PROTOCOL]) = (0x20, 1);
    let file = pcap_of(&file, other.iter().map(Vec::as_slice));
    assert_eq!(events(&file).unwrap().last().unwrap()["fragments"], 0);
}

/// A capture that ends within a Send says so.
#[test]
fn an_incomplete_send_at_the_end_is_reported() {
    for (frames, of_reply) in [(Frames::Roce, 3), (Frames::Iwarp, 2)] {
        let file = capture_of(frames, &[7], [60, 2500, 60, 24]);
        let setup = if frames == Frames::Roce { 2 } else { SETUP };
        let all = records(&file);
        for packets in 0..=of_reply {
            let file = pcap_of(&file, all[..setup + 1 + packets].iter().copied());
            let events = events(&file).unwrap();
            let lost: Vec<_> = of_kind(&events, "lost")
                .iter()
                .map(|event| (event["from"].clone(), event["what"].clone()))
                .collect();
            let end: (Value, Value) = ("server".into(), "the end of a Send".into());
            let expected = if (1..of_reply).contains(&packets) {
                vec![end]
            } else {
                vec![]
            };
            assert_eq!(lost, expected, "{frames:?}, {packets}");
        }
    }
}

/// A capture that ends within an FPDU says so, unless the connection ended there.
#[test]
fn an_incomplete_fpdu_at_the_end_is_reported() {
    let (header, records) = iwarp_records();
    let last = &records[SETUP + 3];
    let mut frame = last[16..last.len() - 10].to_vec();
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    let mut records = records[..SETUP + 3].to_vec();
    records.push(record_of(last, &frame));
    let lost = |records: &[Vec<u8>]| {
        let file = pcap_of(&header, records.iter().map(Vec::as_slice));
        let events = events(&file).unwrap();
        assert_eq!(of_kind(&events, "message").len(), 3);
        let lost = of_kind(&events, "lost");
        lost.iter()
            .map(|event| event["what"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(&records), ["the end of an FPDU"]);
    // The server resets the connection.
    let mut reset = record_of(last, &frame[..14 + 20 + 20]);
    let sent = u32::from_be_bytes(frame[38..42].try_into().unwrap()) + u32::from(length) - 40;
    reset[TCP + 4..TCP + 8].copy_from_slice(&sent.to_be_bytes());
    reset[TCP - 18..TCP - 16].copy_from_slice(&40u16.to_be_bytes());
    reset[TCP + 13] |= 4;
    records.push(reset);
    assert!(lost(&records).is_empty());
}
