//! Markers by RFC 5044, section 4.3: random messages of a framer with markers, parsed by an
//! independent reader.
//!
//! `RPCRDMA_SEED=n` repeats a run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::hash::{BuildHasher as _, RandomState};

use rpcrdma_iwarp::{
    FpduReceiver, Framer, IwarpEvent, OutgoingKind, OutgoingMessage, ReadRequestHeader,
};
use support::{Memory, drain, feed, send};

/// Returns a number below `end` (splitmix64).
fn below(state: &mut u64, end: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
}

/// Reads FPDUs with markers, and returns them without markers and with new CRCs.
struct Reader<'a> {
    stream: &'a [u8],
    at: usize,
    /// The pointers of the markers within the FPDU, and where they are.
    markers: Vec<(usize, usize)>,
    /// The bytes of the FPDU with its markers.
    covered: Vec<u8>,
}

impl Reader<'_> {
    fn marker(&mut self) {
        if self.at.is_multiple_of(512) && self.at < self.stream.len() {
            let marker = &self.stream[self.at..self.at + 4];
            assert_eq!(marker[..2], [0, 0], "reserved");
            let pointer = usize::from(u16::from_be_bytes([marker[2], marker[3]]));
            assert_eq!(pointer % 4, 0);
            self.markers.push((self.at, pointer));
            self.covered.extend(marker);
            self.at += 4;
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            self.marker();
            bytes.push(self.stream[self.at]);
            self.covered.push(self.stream[self.at]);
            self.at += 1;
        }
        bytes
    }

    fn fpdu(&mut self) -> Vec<u8> {
        // rfc: 5044-4.2-a, 5044-4.2-b, 5044-4.2-c, 5044-4.3-c, 5044-4.3-e, 5044-4.3-g, 5044-4.3-h
        // rfc: 5044-4.3-i, 5044-4.4-k
        self.markers.clear();
        self.covered.clear();
        // A marker between FPDUs belongs to the next one, and has a pointer of 0.
        self.marker();
        assert!(self.markers.iter().all(|(_, pointer)| *pointer == 0));
        let start = self.at;
        self.markers.clear();
        let mut bytes = self.take(2);
        let len = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        let padded = (2 + len).next_multiple_of(4);
        bytes.extend(self.take(padded - 2));
        self.marker();
        let sum = crc32c::crc32c(&self.covered).to_le_bytes();
        assert_eq!(self.stream[self.at..self.at + 4], sum);
        self.at += 4;
        for (at, pointer) in &self.markers {
            assert_eq!(at - pointer, start, "all point to the length field");
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }
}

#[test]
fn markers_have_the_required_positions() {
    // rfc: 5044-4.3-a, 5044-4.3-b, 5044-4.3-d, 5044-7.1.1-f, 5044-7.1.1-g, 5044-7.1.1-h
    // rfc: 5044-7.1.1-i, 5044-7.1.1-k
    let seed = std::env::var("RPCRDMA_SEED").map(|seed| seed.parse().unwrap());
    let mut state: u64 = seed.unwrap_or_else(|_| RandomState::new().hash_one("seed"));
    println!("RPCRDMA_SEED={state}");
    let mut markers = 0;
    for _ in 0..200 {
        let (mut memory, mut framer) = (Memory::default(), Framer::new(1448, true, true, false));
        let stag = memory.expose(70_000, true, true);
        let (mut stream, mut sent) = (Vec::new(), Vec::new());
        for number in 0..20 {
            framer.set_emss([134, 536, 1448, 65_536][below(&mut state, 4)]);
            let most = [1, 8, 600, 70_000][below(&mut state, 4)];
            let payload = vec![number; below(&mut state, most)];
            let len = u32::try_from(payload.len()).unwrap();
            let kind = match below(&mut state, 3) {
                0 => OutgoingKind::Write { stag, offset: 0 },
                _ => OutgoingKind::Send {
                    solicited: false,
                    invalidate: None,
                },
            };
            if matches!(kind, OutgoingKind::Send { .. }) {
                sent.push(payload.clone());
            }
            if below(&mut state, 4) > 0 || !framer.push_copied(kind, &[&payload]) {
                let message = OutgoingMessage::new(0, kind, len);
                stream.extend(send(&mut framer, message, &payload));
            } else {
                stream.extend(drain(&mut framer, &[]));
            }
        }
        framer.push_read_request(&ReadRequestHeader {
            sink_stag: 1,
            sink_offset: 0,
            len: 1,
            source_stag: stag,
            source_offset: 0,
        });
        framer.push_empty();
        stream.extend(drain(&mut framer, &[]));
        memory.receives = vec![vec![0; 70_000]; sent.len()];
        let mut reader = Reader {
            stream: &stream,
            at: 0,
            markers: Vec::new(),
            covered: Vec::new(),
        };
        let mut plain = Vec::new();
        while reader.at < stream.len() {
            plain.extend(reader.fpdu());
            markers += reader.markers.len();
        }
        let events = feed(&mut FpduReceiver::new(true, 1), &mut memory, &plain).unwrap();
        let received = |event: &&IwarpEvent| matches!(event, IwarpEvent::Received { .. });
        assert_eq!(events.iter().filter(received).count(), sent.len());
        for (receive, payload) in memory.receives.iter().zip(&sent) {
            assert!(receive[..payload.len()] == payload[..]);
        }
    }
    assert!(markers > 1000);
}
