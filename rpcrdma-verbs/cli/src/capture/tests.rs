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

/// Returns a capture as pcapng in either byte order, with nanoseconds.
fn pcapng(file: &[u8], big: bool) -> Vec<u8> {
    let word = |value: u32| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let half = |value: u16| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let block = |kind: u32, body: &[u8]| {
        let length = word(12 + body.len().next_multiple_of(4) as u32);
        let mut block = [&word(kind), &length[..], body].concat();
        block.resize(8 + body.len().next_multiple_of(4), 0);
        [&block, &length[..]].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let resolution = [&half(9)[..], &half(1), &[9, 0, 0, 0], &[0; 4]].concat();
    let interface = [&half(1)[..], &half(0), &word(0), &resolution].concat();
    let mut out = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    // A block of an unknown type.
    out.extend(block(0x1234, &[1, 2, 3]));
    for record in records(file) {
        let field = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        let time = u64::from(field(0)) * 1_000_000_000 + u64::from(field(4)) * 1000;
        let length = word(field(8));
        let (high, low) = (word((time >> 32) as u32), word(time as u32));
        let body = [&word(0)[..], &high, &low, &length, &length, &record[16..]].concat();
        out.extend(block(6, &body));
    }
    out
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
