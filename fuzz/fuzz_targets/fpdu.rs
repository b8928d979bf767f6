//! Frames messages that the input describes, with or without markers, in FPDUs of any size, and
//! reads the stream back by RFC 5044 alone: boundaries, markers and CRCs are right, and the
//! segments are the messages. What has no markers is then received, in parts of any length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_iwarp::{
    FpduDestination, FpduProgress, FpduReceiver, Framer, FramerPiece, IwarpEvent, OutgoingKind,
    OutgoingMessage, Placement, ReceiveRoom, StagAccess, StagError, mulpdu,
};

/// The payload of each message is a part of this.
const CONTENT: [u8; 1 << 12] = {
    let mut content = [0; 1 << 12];
    let mut at = 0;
    while at < content.len() {
        content[at] = (at * 7 % 251) as u8;
        at += 1;
    }
    content
};

/// An input describes no more messages after this many bytes: the oracle reads byte by byte.
const MAX_STREAM: u64 = 1 << 14;

struct All;

impl Placement for All {
    fn check(&mut self, _: u32, _: u64, _: u64, _: StagAccess) -> Result<(), StagError> {
        Ok(())
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        ReceiveRoom::Bytes(CONTENT.len() as u64)
    }

    fn may_invalidate(&mut self, _: u32) -> bool {
        true
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, cut], described)) = input.split_first_chunk() else {
        return;
    };
    let (with_crc, markers) = (flags & 1 != 0, flags & 2 != 0);
    let mut framer = Framer::new(1448, with_crc, markers, false);
    let (mut stream, mut messages) = (Vec::new(), Vec::new());
    for &[how, size, low] in described.as_chunks::<3>().0.iter().take(64) {
        let emss = [0, 134, 536, 1448, 9000, 65_536][usize::from(how >> 4) % 6];
        framer.set_emss(emss);
        if framer.position() > MAX_STREAM {
            break;
        }
        let len = usize::from(u16::from_be_bytes([size, low])) % CONTENT.len();
        let kind = match how & 3 {
            0 => OutgoingKind::Write {
                stag: 1,
                offset: low.into(),
            },
            1 => OutgoingKind::Send {
                solicited: how & 4 != 0,
                invalidate: Some(low.into()),
            },
            _ => OutgoingKind::Send {
                solicited: how & 4 != 0,
                invalidate: None,
            },
        };
        let payload = &CONTENT[..len];
        let is_copied = how & 8 != 0 && framer.push_copied(kind, &[payload]);
        let mut message = OutgoingMessage::new(0, kind, len as u32);
        while !is_copied && framer.push_segment(&mut message, &[payload]) == Ok(false) {}
        assert!(mulpdu(emss, markers) >= 128);
        messages.push((kind, len));
        take(&mut framer, &mut stream, usize::from(cut));
    }
    take(&mut framer, &mut stream, usize::MAX);
    assert_eq!(framer.bytes_sent(), framer.position());
    let plain = unmarked(&stream, with_crc, markers);
    receive(&plain, with_crc, usize::from(cut) + 1, &messages);
});

/// Takes bytes from the framer, as a socket does that has room for some.
fn take(framer: &mut Framer, stream: &mut Vec<u8>, most: usize) {
    let mut bytes = Vec::<u8>::new();
    for piece in framer.pieces() {
        match piece {
            FramerPiece::Owned(owned) => bytes.extend(owned),
            FramerPiece::Payload { offset, len, .. } => {
                bytes.extend(&CONTENT[offset as usize..][..len]);
            }
        }
    }
    // Payload is looked up when it is sent: all messages begin with the same bytes.
    bytes.truncate(most);
    framer.sent(bytes.len());
    stream.extend(bytes);
}

/// Removes the markers from a stream, and gives its FPDUs CRCs of their own.
fn unmarked(stream: &[u8], with_crc: bool, markers: bool) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let (mut fpdu, mut covered) = (Vec::new(), Vec::new());
        let (mut start, mut padded) = (None, 2);
        loop {
            if markers && at % 512 == 0 {
                let marker = &stream[at..at + 4];
                let pointer = usize::from(u16::from_be_bytes([marker[2], marker[3]]));
                assert_eq!(pointer, start.map_or(0, |start| at - start));
                covered.extend(marker);
                at += 4;
            }
            if fpdu.len() == 2 {
                padded = (2 + usize::from(u16::from_be_bytes([fpdu[0], fpdu[1]]))).div_ceil(4) * 4;
            }
            if fpdu.len() == padded {
                break;
            }
            start.get_or_insert(at);
            let rest = padded - fpdu.len();
            let until_marker = if markers { 512 - at % 512 } else { rest };
            let part = &stream[at..at + rest.min(until_marker)];
            fpdu.extend(part);
            covered.extend(part);
            at += part.len();
        }
        let sum = if with_crc {
            crc32c::crc32c(&covered)
        } else {
            0
        };
        assert_eq!(stream[at..at + 4], sum.to_le_bytes());
        at += 4;
        let sum = crc32c::crc32c(&fpdu);
        plain.extend(fpdu);
        plain.extend(sum.to_le_bytes());
    }
    plain
}

fn receive(plain: &[u8], with_crc: bool, part: usize, messages: &[(OutgoingKind, usize)]) {
    let mut receiver = FpduReceiver::new(with_crc, 0);
    let (mut expected, mut pending) = (messages.iter(), Vec::new());
    let mut tagged = 0;
    for part in plain.chunks(part) {
        pending.extend_from_slice(part);
        let mut input = &pending[..];
        loop {
            let (taken, progress) = receiver.advance(input, &mut All).expect("it is as framed");
            input = &input[taken..];
            match progress {
                FpduProgress::NeedInput | FpduProgress::Stalled => break,
                FpduProgress::Place { destination, len } => {
                    if input.is_empty() {
                        break;
                    }
                    let (placed, rest) = input.split_at(len.min(input.len()));
                    let at = match destination {
                        FpduDestination::Receive { offset, .. } => offset as usize,
                        // The offset of a Write is less than 256 more.
                        _ => tagged,
                    };
                    assert_eq!(placed, &CONTENT[at..at + placed.len()]);
                    if !matches!(destination, FpduDestination::Receive { .. }) {
                        tagged += placed.len();
                    }
                    receiver.placed(placed);
                    input = rest;
                }
                FpduProgress::Event(event) => {
                    let (kind, len) = expected.next().expect("it was framed");
                    match (event, kind) {
                        (
                            IwarpEvent::Received {
                                len: received,
                                solicited,
                                invalidate,
                                ..
                            },
                            OutgoingKind::Send {
                                solicited: s,
                                invalidate: i,
                            },
                        ) => assert_eq!((received as usize, solicited, invalidate), (*len, *s, *i)),
                        (IwarpEvent::Written { stag: 1 }, OutgoingKind::Write { .. }) => {
                            assert_eq!(std::mem::take(&mut tagged), *len);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        pending = input.to_vec();
    }
    assert!(expected.next().is_none() && pending.is_empty());
}
