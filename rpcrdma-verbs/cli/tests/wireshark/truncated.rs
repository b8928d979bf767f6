//! Captures with a snapshot length, by which frames are truncated.

use std::path::Path;

use crate::damage::{records, truncate};
use crate::tree::Line;
use crate::{Fixture, decoded, events, of_kind, rpcrdma};

/// Lengths of frames that end in each header, in headers of messages, and in their data.
const SNAPSHOTS: [usize; 14] = [
    10, 20, 40, 52, 57, 64, 70, 96, 110, 128, 160, 256, 600, 1000,
];

/// Truncates the frames of a capture. Returns the capture, and the number of frames that are
/// shorter than before.
fn cut(file: &[u8], snapshot: usize) -> (Vec<u8>, u64) {
    let (header, mut records) = records(file);
    let mut truncated = 0;
    for record in &mut records {
        let before = record.len();
        truncate(record, 16 + snapshot);
        truncated += u64::from(record.len() < before);
    }
    ([header, &records.concat()].concat(), truncated)
}

/// Every message that `rpcrdma decode` prints was sent, and both forms of its output tell how many
/// frames are truncated.
fn check_decode(file: &Path, truncated: u64, all: &[Vec<u8>]) {
    let name = file.to_str().unwrap();
    let found = events(&["decode", "--pcap", name, "--json"]);
    let [summary] = of_kind(&found, "summary")[..] else {
        panic!("{found:?}");
    };
    assert_eq!(summary["truncated"], truncated);
    for event in of_kind(&found, "message") {
        let message = crate::bytes(event["message"].as_str().unwrap());
        assert!(all.contains(&message), "{event}");
    }
    let text = rpcrdma(&["decode", "--pcap", name]);
    let told = format!("{truncated} frames were not captured to the end\n");
    assert!(text.ends_with(&told), "{text}");
}

/// tshark shows every frame, and only messages that are whole: Wireshark does not pass truncated
/// payloads of RoCE and iWARP to other dissectors. Returns the number of messages.
fn check_tshark(fixture: &Fixture, file: &Path, frames: usize, expected: &[Vec<Line>]) -> usize {
    let mut shown = 0;
    for options in crate::REASSEMBLY {
        let numbers = ["-T", "fields", "-e", "frame.number"];
        let Some(numbers) = fixture.tshark(file, &[options, &numbers].concat()) else {
            return 0;
        };
        assert_eq!(numbers.lines().count(), frames);
        for packet in fixture.packets(file, options).unwrap() {
            assert_eq!(
                (&packet.malformed, packet.truncated),
                (&None, 0),
                "{packet:?}"
            );
            assert!(
                packet
                    .messages
                    .iter()
                    .all(|message| expected.contains(message))
            );
            shown += packet.messages.len();
        }
    }
    shown
}

fn truncated_messages(frames: &str) {
    let fixture = Fixture::new();
    let file = fixture.file("demo.pcap");
    rpcrdma(&["demo", "--frames", frames, "--pcap", file.to_str().unwrap()]);
    let all = decoded(&file);
    let two = all.iter().filter(|message| message[4..8] == [0, 0, 0, 2]);
    let expected: Vec<Vec<Line>> = two.map(|message| fixture.expected(message)).collect();
    let whole = std::fs::read(&file).unwrap();
    let mut shown = Vec::new();
    for snapshot in SNAPSHOTS {
        let (capture, truncated) = cut(&whole, snapshot);
        std::fs::write(&file, capture).unwrap();
        check_decode(&file, truncated, &all);
        if [70, 256].contains(&snapshot) {
            let frames = records(&whole).1.len();
            shown.push(check_tshark(&fixture, &file, frames, &expected));
        }
    }
    assert!(shown.is_sorted(), "{shown:?}");
}

#[test]
fn truncated_messages_over_roce() {
    truncated_messages("roce");
}

#[test]
fn truncated_messages_over_iwarp() {
    truncated_messages("iwarp");
}
