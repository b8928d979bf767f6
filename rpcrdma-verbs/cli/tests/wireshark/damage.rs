//! Captures with missing, truncated and damaged packets.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use serde_json::Value;

use crate::tree::{self, Line, Packet};
use crate::{Fixture, bytes, decoded, events, of_kind, rpcrdma};

/// Returns the records of a capture: its header, and each frame with its header.
pub(crate) fn records(file: &[u8]) -> (&[u8], Vec<Vec<u8>>) {
    let (header, mut rest) = file.split_at(24);
    let mut records = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(16 + length);
        records.push(record.to_vec());
        rest = after;
    }
    (header, records)
}

/// Without a packet in the middle of a Send, both tools report the loss, and show all other
/// messages.
#[test]
fn missing_packets_are_reported() {
    let fixture = Fixture::new();
    let file = fixture.file("demo.pcap");
    rpcrdma(&["demo", "--pcap", file.to_str().unwrap()]);
    let all = decoded(&file);
    let whole = std::fs::read(&file).unwrap();
    let (header, mut records) = records(&whole);
    // The opcode follows the headers of Ethernet, IP and UDP.
    let middle = records
        .iter()
        .position(|record| record[16 + 42] == 1)
        .unwrap();
    records.remove(middle);
    std::fs::write(&file, [header, &records.concat()].concat()).unwrap();
    let events = events(&["decode", "--pcap", file.to_str().unwrap(), "--json"]);
    assert_eq!(of_kind(&events, "lost").len(), 1);
    assert_eq!(of_kind(&events, "message").len(), all.len() - 1);
    let Some(packets) = fixture.packets(&file, &[]) else {
        return;
    };
    let found: usize = packets.iter().map(|packet| packet.messages.len()).sum();
    // Two messages of the demonstration are of Version One.
    assert_eq!(found, all.len() - 2 - 1);
    assert_eq!(packets.iter().filter(|packet| packet.lost > 0).count(), 1);
}

/// Without the last packet of a Send, the next Send of the same end shows that it is incomplete.
#[test]
fn messages_without_their_end_are_reported() {
    let fixture = Fixture::new();
    let file = fixture.file("demo.pcap");
    rpcrdma(&["demo", "--pcap", file.to_str().unwrap()]);
    let whole = std::fs::read(&file).unwrap();
    let (header, mut records) = records(&whole);
    let queue_pair = |record: &[u8]| record[16 + 42 + 4..16 + 42 + 8].to_vec();
    let is_followed = |at: &usize| {
        let begins = |record: &&Vec<u8>| [0, 4].contains(&record[16 + 42]);
        let mut later = records[at + 1..].iter();
        records[*at][16 + 42] == 2
            && later.any(|next| begins(&next) && queue_pair(next) == queue_pair(&records[*at]))
    };
    let last = (0..records.len()).find(is_followed).unwrap();
    records.remove(last);
    std::fs::write(&file, [header, &records.concat()].concat()).unwrap();
    for options in [&[][..], &["-2"]] {
        let Some(packets) = fixture.packets(&file, options) else {
            return;
        };
        assert_eq!(packets.iter().filter(|packet| packet.lost > 0).count(), 1);
    }
}

/// A generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    /// Takes the seed from the variable `RPCRDMA_SEED`, or from the system, and prints it.
    fn from_environment() -> Self {
        let seed = match std::env::var("RPCRDMA_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => RandomState::new().hash_one("seed"),
        };
        println!("RPCRDMA_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ z >> 31) % bound as u64).unwrap()
    }
}

/// Every damaged message is either shown as the decoder decodes it, or shown as malformed if the
/// decoder finds an error.
#[test]
fn malformed_messages_are_shown_as_such() {
    let mut random = Random::from_environment();
    let fixture = Fixture::new();
    let file = fixture.file("demo.pcap");
    rpcrdma(&["demo", "--pcap", file.to_str().unwrap()]);
    let whole = std::fs::read(&file).unwrap();
    let (header, records) = records(&whole);
    // After the headers of the record, of Ethernet, IP, UDP and BTH.
    const MESSAGE: usize = 16 + 14 + 20 + 8 + 12;
    let only: Vec<&Vec<u8>> = records
        .iter()
        .filter(|record| record[16 + 42] == 4 && record[MESSAGE + 7] == 2)
        .collect();
    let (mut out, mut messages) = (header.to_vec(), Vec::new());
    for _ in 0..1500 {
        let mut record = only[random.below(only.len())].clone();
        let end = record.len() - 4;
        for _ in 0..1 + random.below(3) {
            let at = MESSAGE + 8 + random.below(end - MESSAGE - 8);
            record[at] = [0, 1, 2, 0xff, 0x7f][random.below(5)];
        }
        messages.push(record[MESSAGE..end].to_vec());
        out.extend(record);
    }
    std::fs::write(&file, out).unwrap();
    let Some(packets) = fixture.packets(&file, &["-o", "ip.check_checksum:FALSE"]) else {
        return;
    };
    assert_eq!(packets.len(), messages.len());
    let mut malformed = 0;
    for (packet, message) in packets.iter().zip(&messages) {
        match tree::decode(&fixture.schema, "rpcrdma2_xprt_hdr", message) {
            Ok(_) => {
                assert_eq!(packet.malformed, None, "{message:02x?}");
                assert_eq!(packet.messages, [fixture.expected(message)]);
            }
            Err(error) => {
                malformed += 1;
                let told = packet
                    .malformed
                    .as_ref()
                    .unwrap_or_else(|| panic!("{message:02x?}"));
                let place = format!(" at byte {}", error.offset);
                assert!(told.ends_with(&place), "{told}; {error}");
                assert!(told.starts_with(&error.path), "{told}; {error}");
            }
        }
    }
    assert!(malformed > 300, "{malformed}");
}

/// The offset of TCP's header in a record: after the headers of the record, of Ethernet and of IP.
const TCP: usize = 16 + 14 + 20;

/// The port of the server in the captures of the demonstration.
const SERVICE: [u8; 2] = 20049_u16.to_be_bytes();

/// Returns the offset of the client's port in a record.
fn client_port(record: &[u8]) -> usize {
    let from_client = record[TCP + 2..TCP + 4] == SERVICE;
    if from_client { TCP } else { TCP + 2 }
}

/// Returns a record of another client.
fn with_port(record: &[u8], port: u16) -> Vec<u8> {
    let (mut record, at) = (record.to_vec(), client_port(record));
    record[at..at + 2].copy_from_slice(&port.to_be_bytes());
    record
}

/// The port of a client, and the records of its connection.
type Connection = (u16, Vec<Vec<u8>>);

/// The demonstration over iWARP: the header of its capture, and the connections.
fn demonstration(fixture: &Fixture) -> (Vec<u8>, Vec<Connection>) {
    let file = fixture.file("demo.pcap");
    rpcrdma(&[
        "demo",
        "--frames",
        "iwarp",
        "--pcap",
        file.to_str().unwrap(),
    ]);
    let whole = std::fs::read(&file).unwrap();
    let (header, records) = records(&whole);
    let mut connections = BTreeMap::<_, Vec<Vec<u8>>>::new();
    for record in records {
        let port = client_port(&record);
        let port = u16::from_be_bytes([record[port], record[port + 1]]);
        connections.entry(port).or_default().push(record);
    }
    (header.to_vec(), connections.into_iter().collect())
}

/// A direction of a connection: the client's port, and whether the client sends.
type Flow = (u16, bool);

/// The messages and the number of losses of each flow.
type Found = BTreeMap<Flow, (Vec<Vec<u8>>, usize)>;

/// Returns what `rpcrdma decode` finds.
fn found(file: &Path) -> Found {
    let events = events(&["decode", "--pcap", file.to_str().unwrap(), "--json"]);
    let number = |event: &Value| event["connection"].as_u64().unwrap();
    let clients = of_kind(&events, "connection");
    let ports = clients.iter().map(|event| {
        let port = event["client"].as_str().unwrap().rsplit_once(':');
        (number(event), port.unwrap().1.parse::<u16>().unwrap())
    });
    let ports: BTreeMap<u64, u16> = ports.collect();
    let flow = |event: &Value| (ports[&number(event)], event["from"] == "client");
    let mut found = Found::new();
    for event in of_kind(&events, "message") {
        let (messages, _) = found.entry(flow(event)).or_default();
        messages.push(bytes(event["message"].as_str().unwrap()));
    }
    for event in of_kind(&events, "lost") {
        found.entry(flow(event)).or_default().1 += 1;
    }
    found
}

/// Returns the messages that the dissector shows.
fn shown(packets: &[Packet]) -> BTreeMap<Flow, Vec<&Vec<Line>>> {
    let mut shown = BTreeMap::<_, Vec<_>>::new();
    for packet in packets {
        let [source, destination] = packet.ports.as_slice() else {
            panic!("{packet:?}");
        };
        let from_client = destination == "20049";
        let client = if from_client { source } else { destination };
        let flow = (client.parse().unwrap(), from_client);
        shown.entry(flow).or_default().extend(&packet.messages);
    }
    shown
}

/// Returns what the dissector shows of messages of Version Two.
fn expected(fixture: &Fixture, messages: &[Vec<u8>]) -> Vec<Vec<Line>> {
    let two = messages.iter().filter(|bytes| bytes[4..8] == [0, 0, 0, 2]);
    two.map(|bytes| fixture.expected(bytes)).collect()
}

/// Returns true if the parts are some of the whole, in the same order.
fn is_part_of<T: PartialEq>(parts: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    parts.iter().all(|part| whole.any(|other| other == part))
}

/// Each segment after the setup of TCP is missing once. Both tools show other messages as they are,
/// and neither drops one without a report.
#[test]
fn missing_segments_of_iwarp_are_reported() {
    let fixture = Fixture::new();
    let (header, connections) = demonstration(&fixture);
    let (mut out, mut sent) = (header, Found::new());
    let whole = found(&fixture.file("demo.pcap"));
    let mut free = 20_100..40_000_u16;
    for (original, connection) in &connections {
        for missing in 3..connection.len() {
            let port = free.next().unwrap();
            let rest = connection.iter().enumerate();
            let rest = rest.filter(|(at, _)| *at != missing);
            out.extend(rest.flat_map(|(_, record)| with_port(record, port)));
            for from_client in [false, true] {
                let flow = whole.get(&(*original, from_client));
                sent.insert((port, from_client), flow.cloned().unwrap_or_default());
            }
        }
    }
    let file = fixture.file("missing.pcap");
    std::fs::write(&file, out).unwrap();
    let found = found(&file);
    let mut losses = 0;
    for (flow, (messages, _)) in &sent {
        let (found, lost) = found.get(flow).cloned().unwrap_or_default();
        assert!(is_part_of(&found, messages), "{flow:?}");
        assert!(found == *messages || lost > 0, "{flow:?}");
        losses += lost;
    }
    assert!(losses > 50, "{losses}");
    let Some(packets) = fixture.packets(&file, &[]) else {
        return;
    };
    let shown = shown(&packets);
    let reported = ports_with_reports(&fixture, &file);
    for (flow, (messages, _)) in &sent {
        let expected = expected(&fixture, messages);
        let expected: Vec<&Vec<Line>> = expected.iter().collect();
        let shown = shown.get(flow).cloned().unwrap_or_default();
        assert!(is_part_of(&shown, &expected), "{flow:?}");
        let is_whole = shown.len() == expected.len();
        assert!(is_whole || reported.contains(&flow.0), "{flow:?}");
    }
}

/// Returns the ports of frames about which the dissector or Wireshark itself reports a gap.
fn ports_with_reports(fixture: &Fixture, file: &Path) -> BTreeSet<u16> {
    let filter = "rpcrdma2.lost || tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment";
    let fields = ["-T", "fields", "-e", "tcp.srcport", "-e", "tcp.dstport"];
    let ports = fixture.tshark(file, &[&["-Y", filter], &fields[..]].concat());
    let ports = ports.unwrap_or_default();
    ports.split_whitespace().flat_map(str::parse).collect()
}

/// Truncates a record to this length, if it is longer: the captured length changes, and the length
/// on the wire does not.
pub(crate) fn truncate(record: &mut Vec<u8>, length: usize) {
    if length < record.len() {
        record.truncate(length);
        let captured = u32::try_from(length - 16).unwrap();
        record[8..12].copy_from_slice(&captured.to_le_bytes());
    }
}
