//! Two ends, with a stream that is split at random and sometimes damaged: messages arrive exactly
//! and in order, or the stream ends with an error.
//!
//! `RPCRDMA_SEED=n` repeats a run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::hash::{BuildHasher as _, RandomState};

use rpcrdma_iwarp::{
    FpduReceiver, Framer, IwarpEvent, MpaInitiator, MpaOptions, MpaResponder, OutgoingKind,
    OutgoingMessage, ReadDepths, RtrTypes, Terminate,
};
use support::{Memory, feed, send};

struct Rng(u64);

impl Rng {
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

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }
}

/// Feeds the stream in parts of random lengths.
fn feed_cut(
    rng: &mut Rng,
    receiver: &mut FpduReceiver,
    memory: &mut Memory,
    mut stream: &[u8],
) -> (Vec<IwarpEvent>, Option<Terminate>) {
    let mut events = Vec::new();
    while !stream.is_empty() {
        let most = [1, 9, 2000][rng.below(3)];
        let (part, rest) = stream.split_at((1 + rng.below(most)).min(stream.len()));
        match feed(receiver, memory, part) {
            Ok(more) => events.extend(more),
            Err(terminate) => return (events, Some(terminate)),
        }
        stream = rest;
    }
    (events, None)
}

/// The sent data: the stream, the Sends, and the bytes written to the peer's memory.
struct Traffic {
    stream: Vec<u8>,
    sends: Vec<Vec<u8>>,
    written: Vec<u8>,
}

const REGION: usize = 5000;

fn traffic(rng: &mut Rng, framer: &mut Framer, stag: u32) -> Traffic {
    let mut traffic = Traffic {
        stream: vec![],
        sends: vec![],
        written: vec![0; REGION],
    };
    for request in 0..1 + rng.below(8) as u64 {
        framer.set_emss([1, 134, 536, 1448, 9000][rng.below(5)]);
        let most = [4, 200, REGION][rng.below(3)];
        let len = rng.below(most);
        let payload = rng.bytes(len);
        let size = u32::try_from(len).unwrap();
        let kind = if rng.below(2) == 0 {
            traffic.sends.push(payload.clone());
            OutgoingKind::Send {
                solicited: rng.below(2) == 0,
                invalidate: None,
            }
        } else {
            let offset = rng.below(REGION - len + 1);
            traffic.written[offset..offset + len].copy_from_slice(&payload);
            OutgoingKind::Write {
                stag,
                offset: offset as u64,
            }
        };
        let message = OutgoingMessage::new(request, kind, size);
        traffic.stream.extend(send(framer, message, &payload));
    }
    traffic
}

fn check_sends(events: &[IwarpEvent], memory: &Memory, sends: &[Vec<u8>]) -> usize {
    let mut received = 0;
    for event in events {
        if let IwarpEvent::Received { msn, len, .. } = event {
            assert_eq!(*msn as usize, received + 1);
            assert_eq!(memory.receives[received][..*len as usize], sends[received]);
            received += 1;
        }
    }
    received
}

#[test]
fn messages_arrive_intact_or_the_stream_ends() {
    // rfc: 5040-5.1-c, 5040-5.1-d, 5040-5.1-e, 5040-5.5-b, 5040-5.5-c, 5041-3-c, 5041-3-e
    // rfc: 5041-3-g, 5041-3-h, 5041-4.1-a, 5041-4.1-b, 5041-4.1-g, 5041-5.2-d, 5041-5.3-f
    // rfc: 5041-5.3-g, 5041-5.4-a, 5044-3-g, 5044-4.3-j, 5044-4.3-k, 5044-4.4-a, 5044-5.1-e
    // rfc: 5044-5.2-a, 5044-6-a, 5044-6-b, 5044-6-c, 5044-6-d, 5044-A.4-a
    let mut rng = Rng::from_environment();
    for _ in 0..1000 {
        let mut memory = Memory::default();
        let stag = memory.expose(REGION, false, true);
        let mut framer = Framer::new(1448, true, false, false);
        let mut traffic = traffic(&mut rng, &mut framer, stag);
        memory.receives = vec![vec![0; REGION]; traffic.sends.len()];
        let damaged = rng.below(2) == 0;
        if damaged {
            let at = rng.below(traffic.stream.len());
            traffic.stream[at] ^= 1 << rng.below(8);
        }
        let mut receiver = FpduReceiver::new(true, 1);
        let (events, end) = feed_cut(&mut rng, &mut receiver, &mut memory, &traffic.stream);
        let received = check_sends(&events, &memory, &traffic.sends);
        if !damaged {
            assert_eq!(end, None);
            assert_eq!(received, traffic.sends.len());
            assert_eq!(memory.regions[&stag], traffic.written);
        } else if let Some(terminate) = end {
            assert_eq!((terminate.code.layer, terminate.code.code), (2, 2));
        }
    }
}

fn options(rng: &mut Rng) -> MpaOptions {
    let mut flip = || rng.below(2) == 0;
    let rtr = RtrTypes {
        send: flip(),
        write: flip(),
        read: true,
    };
    let (crc, enhanced, peers) = (flip(), flip(), flip());
    let depth = |rng: &mut Rng| u16::try_from(rng.below(200)).unwrap();
    let depths = ReadDepths {
        ird: depth(rng),
        ord: depth(rng),
    };
    let len = rng.below(509);
    MpaOptions {
        crc,
        depths: enhanced.then_some(depths),
        rtr: (enhanced && peers).then_some(rtr),
        private_data: rng.bytes(len),
    }
}

#[test]
fn both_ends_agree_on_the_setup() {
    // rfc: 5044-4.4-e, 5044-7.1-a
    let mut rng = Rng::from_environment();
    for _ in 0..1000 {
        let (ours, theirs) = (options(&mut rng), options(&mut rng));
        let (mut initiator, request) = MpaInitiator::new(ours.clone()).unwrap();
        let mut responder = MpaResponder::new();
        let (first, second) = request.split_at(rng.below(request.len()));
        assert!(responder.receive(first).unwrap().is_none());
        let request = responder.receive(second).unwrap().unwrap();
        assert_eq!(request.private_data(), ours.private_data);
        let (mut reply, accepted) = request.accept(&theirs).unwrap();
        let len = reply.len();
        // An FPDU may immediately follow the reply.
        reply.push(0);
        let (first, second) = reply.split_at(rng.below(len));
        assert_eq!(initiator.receive(first), Ok((first.len(), None)));
        let (taken, established) = initiator.receive(second).unwrap();
        assert_eq!(first.len() + taken, len);
        let established = established.unwrap();
        assert_eq!(established.private_data, theirs.private_data);
        assert_eq!(established.crc, ours.crc || theirs.crc);
        assert_eq!(accepted.crc, established.crc);
        assert_eq!(accepted.rtr, established.rtr);
        if let (Some(a), Some(b)) = (established.depths, accepted.depths) {
            assert!(a.ord <= b.ird && b.ord <= a.ird, "{a:?} {b:?}");
        }
    }
}

#[test]
fn random_bytes_cause_no_panic() {
    let mut rng = Rng::from_environment();
    for _ in 0..2000 {
        let len = rng.below(600);
        let mut stream = rng.bytes(len);
        let mut memory = Memory {
            receives: vec![vec![0; 64]],
            ..Memory::default()
        };
        // Half of the frames begin correctly.
        if rng.below(2) == 0 && len > 20 {
            stream[..18].copy_from_slice(b"MPA ID Req Frame\x50\x02");
            stream[18] = 0;
            let _ = MpaResponder::new().receive(&stream);
            stream[..4].copy_from_slice(&[0, 30, 0x41, 0x43]);
        }
        let mut receiver = FpduReceiver::new(rng.below(2) == 0, 1);
        feed_cut(&mut rng, &mut receiver, &mut memory, &stream);
        let _ = Terminate::decode(&stream);
    }
}
