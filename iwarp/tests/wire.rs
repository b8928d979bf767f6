//! The bytes of each message, and the fields that a receiver ignores (RFC 5040, section 4; RFC
//! 5041, sections 4 and 5; RFC 5044, sections 4.1 and 4.5).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rpcrdma_iwarp::{
    FpduProgress, FpduReceiver, Framer, IwarpEvent, IwarpStream, MpaEstablished, OutgoingKind,
    OutgoingMessage, ReadDepths, ReadRequestHeader, ReadSink, RtrTypes, Terminate, TerminateCode,
    mulpdu,
};
use support::{Memory, drain, feed, send};

const SEND: OutgoingKind = OutgoingKind::Send {
    solicited: false,
    invalidate: None,
};

/// Splits a stream without markers into its ULPDUs. Each FPDU has a right CRC and zeros as padding.
fn ulpdus(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut ulpdus = Vec::new();
    while let Some((head, _)) = stream.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*head));
        let covered = (2 + len).next_multiple_of(4);
        let sum = crc32c::crc32c(&stream[..covered]).to_le_bytes();
        assert_eq!(stream[covered..covered + 4], sum);
        assert!(stream[2 + len..covered].iter().all(|byte| *byte == 0));
        ulpdus.push(stream[2..2 + len].to_vec());
        stream = &stream[covered + 4..];
    }
    ulpdus
}

fn fpdu(ulpdu: &[u8], pad: u8) -> Vec<u8> {
    let mut bytes = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(ulpdu);
    bytes.resize(bytes.len().next_multiple_of(4), pad);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Returns an untagged header: control bytes, 4 bytes for RDMAP, queue, MSN and MO.
fn untagged(control: [u8; 2], fields: [u32; 4]) -> Vec<u8> {
    let fields = fields.iter().flat_map(|field| field.to_be_bytes());
    control.into_iter().chain(fields).collect()
}

fn tagged(control: [u8; 2], stag: u32, offset: u64) -> Vec<u8> {
    let mut bytes = control.to_vec();
    bytes.extend(stag.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes
}

#[test]
fn each_message_has_its_header() {
    // rfc: 5040-4.1-a, 5040-4.1-b, 5040-4.1-c, 5040-4.1-d, 5040-4.1-e, 5040-4.1-f, 5040-4.1-g
    // rfc: 5040-4.1-h, 5040-4.1-j, 5040-4.2-a, 5040-4.4-a, 5040-4.8-a, 5040-4.8-b, 5040-4.8-c
    // rfc: 5040-4.8-g, 5040-5.1-a, 5040-5.1-b, 5040-5.1-h, 5040-5.1-i, 5040-5.2.1-a, 5040-5.2.1-b
    // rfc: 5040-5.2.1-f, 5040-5.2.1-g, 5040-5.2.1-j, 5040-5.2.1-k, 5040-5.3-a, 5040-5.3-b
    // rfc: 5040-5.3-g, 5040-5.3-i, 5040-5.3-k, 5040-5.3-l, 5040-5.4-a, 5040-5.4-b, 5040-5.4-c
    // rfc: 5041-4.1-i, 5041-4.1-j, 5041-4.2-a, 5041-4.3-a, 5041-4.3-c, 5041-4.3-e, 5041-4.3-h
    // rfc: 5041-4.3-i, 5041-4.4-a, 5041-5.2-f, 5044-3-a
    let send = |solicited, invalidate| OutgoingKind::Send {
        solicited,
        invalidate,
    };
    let (stag, offset) = (0x0102_0304, 0x1122_3344_5566_7788);
    let mut framer = Framer::new(1448, true, false, false);
    for kind in [
        SEND,
        send(false, Some(9)),
        send(true, None),
        send(true, Some(9)),
        OutgoingKind::Write { stag, offset },
        OutgoingKind::ReadResponse { stag, offset },
    ] {
        assert!(framer.push_copied(kind, &[]));
    }
    let request = ReadRequestHeader {
        sink_stag: 1,
        sink_offset: 2,
        len: 3,
        source_stag: 4,
        source_offset: 5,
    };
    framer.push_read_request(&request);
    framer.push_read_request(&request);
    framer.push_terminate(&Terminate::new(TerminateCode::RDMAP_OPCODE));
    let mut read = untagged([0x41, 0x41], [0, 1, 1, 0]);
    read.extend([
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5,
    ]);
    let mut second = read.clone();
    second[13] = 2;
    let mut terminate = untagged([0x41, 0x47], [0, 2, 1, 0]);
    terminate.extend([0x02, 6, 0, 0]);
    let expected = [
        untagged([0x41, 0x43], [0, 0, 1, 0]),
        untagged([0x41, 0x44], [9, 0, 2, 0]),
        untagged([0x41, 0x45], [0, 0, 3, 0]),
        untagged([0x41, 0x46], [9, 0, 4, 0]),
        tagged([0xc1, 0x40], stag, offset),
        tagged([0xc1, 0x42], stag, offset),
        read,
        second,
        terminate,
    ];
    assert_eq!(ulpdus(&drain(&mut framer, &[])), expected);
}

#[test]
fn messages_are_segmented_by_mulpdu() {
    // rfc: 5041-4.1-c, 5041-4.1-d, 5041-4.1-e, 5041-4.1-f, 5041-4.2-b, 5041-4.2-d, 5041-4.2-e
    // rfc: 5041-4.2-g, 5041-4.2-i, 5041-4.2-j, 5041-4.2-k, 5041-4.3-b, 5041-4.3-d, 5041-4.3-f
    // rfc: 5041-4.3-g, 5041-4.3-k, 5041-4.3-l, 5041-4.3-m, 5041-5.2-a, 5041-5.2-c, 5041-5.2-e
    // rfc: 5041-5.2-g, 5041-5.2-h, 5041-5.3-c, 5044-3-c, 5044-3-e, 5044-3-f, 5044-4.1-b
    // rfc: 5044-4.5-e
    let payload: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let (stag, offset) = (7, 0xffff);
    for (kind, header) in [
        (SEND, 18),
        (OutgoingKind::Write { stag, offset }, 14),
        (OutgoingKind::ReadResponse { stag, offset }, 14),
    ] {
        let mut framer = Framer::new(200, true, false, false);
        let largest = mulpdu(200, false);
        let stream = send(&mut framer, OutgoingMessage::new(0, kind, 1000), &payload);
        let segments = ulpdus(&stream);
        let mut at = 0;
        for (index, segment) in segments.iter().enumerate() {
            let is_last = index + 1 == segments.len();
            // Each segment has the maximum length, and only the last one has the last flag.
            assert!(segment.len() == largest || is_last && segment.len() < largest);
            assert_eq!(segment[0] & 0x40 != 0, is_last);
            let place = u32::try_from(at).unwrap();
            let last = if is_last { 0x40 } else { 0 };
            let expected = match kind {
                OutgoingKind::Send { .. } => untagged([last | 1, 0x43], [0, 0, 1, place]),
                OutgoingKind::Write { .. } => tagged([last | 0x81, 0x40], stag, offset + at as u64),
                _ => tagged([last | 0x81, 0x42], stag, offset + at as u64),
            };
            assert_eq!(segment[..header], expected);
            assert_eq!(segment[header..], payload[at..at + segment.len() - header]);
            at += segment.len() - header;
        }
        assert_eq!(at, 1000);
        // The next message of the queue has the next number.
        let next = ulpdus(&send(&mut framer, OutgoingMessage::new(0, SEND, 0), &[]));
        assert_eq!(next.len(), 1);
        assert_eq!(next[0][13], if header == 18 { 2 } else { 1 });
    }
}

#[test]
fn mulpdu_follows_rfc_5044() {
    // rfc: 5041-3-b, 5044-3-b, 5044-3-d, 5044-4.5-a, 5044-4.5-b, 5044-4.5-f, 5044-4.5-g
    // rfc: 5044-5.1-a, 5044-5.1-b
    // Section 4.5: EMSS, without markers and with them.
    for (emss, plain, with_markers) in [
        (1460, 1454, 1442),
        (1448, 1442, 1430),
        (1429, 1422, 1410),
        (536, 530, 522),
        (9000, 8994, 8922),
        // From 128 to 64768, section 3.
        (0, 128, 128),
        (100, 128, 128),
        (134, 128, 128),
        (65_536, 64_768, 64_768),
        (1 << 30, 64_768, 64_768),
    ] {
        assert_eq!(mulpdu(emss, false), plain, "{emss}");
        assert_eq!(mulpdu(emss, true), with_markers, "{emss}");
    }
}

fn receives() -> Memory {
    Memory {
        receives: vec![vec![0; 64]; 4],
        ..Memory::default()
    }
}

#[test]
fn reserved_bits_and_padding_are_ignored() {
    // rfc: 5040-4.1-i, 5040-4.1-j, 5041-4.1-h, 5041-4.3-c, 5041-4.3-e, 5044-4.1-b, 5044-4.1-c
    // rfc: 5044-7.1.1-j, 5044-7.1.1-l
    let received = |msn, len, invalidate| IwarpEvent::Received {
        msn,
        len,
        solicited: false,
        invalidate,
    };
    let mut memory = receives();
    let mut stream = Vec::new();
    for (msn, control) in [(1, [0x7d, 0x43]), (2, [0x41, 0x73]), (3, [0x41, 0x43])] {
        // A Send has no STag to invalidate: its field is ignored.
        let mut ulpdu = untagged(control, [0xdead_beef, 0, msn, 0]);
        ulpdu.push(5);
        stream.extend(fpdu(&ulpdu, 0xff));
    }
    let events = feed(&mut FpduReceiver::new(true, 0), &mut memory, &stream).unwrap();
    assert_eq!(events, [1, 2, 3].map(|msn| received(msn, 1, None)));
    // Without CRC, the field can have any value.
    let mut stream = fpdu(&untagged([0x41, 0x43], [0, 0, 1, 0]), 0);
    stream.last_mut().unwrap().clone_from(&0x77);
    let events = feed(&mut FpduReceiver::new(false, 0), &mut receives(), &stream).unwrap();
    assert_eq!(events, [received(1, 0, None)]);
}

#[test]
fn tagged_segments_without_payload_are_not_checked() {
    // rfc: 5041-4.2-c, 5041-4.2-h, 5041-5.2-i, 5041-5.2-j
    let mut memory = receives();
    let mut receiver = FpduReceiver::new(true, 0);
    let stag = 0x5555_5555;
    receiver.read_posted(ReadSink {
        stag,
        offset: 0,
        len: 0,
    });
    let stream = [
        fpdu(&tagged([0xc1, 0x40], 1, u64::MAX), 0),
        fpdu(&tagged([0xc1, 0x42], 2, 3), 0),
    ]
    .concat();
    let events = feed(&mut receiver, &mut memory, &stream).unwrap();
    assert_eq!(
        events,
        [IwarpEvent::Written { stag: 1 }, IwarpEvent::ReadDone]
    );
}

#[test]
fn a_zero_length_read_needs_no_memory() {
    // rfc: 5040-5.2.1-n, 5040-5.2.1-p
    let mut framer = Framer::new(1448, true, false, false);
    let request = ReadRequestHeader {
        sink_stag: 1,
        sink_offset: 2,
        len: 0,
        source_stag: 3,
        source_offset: u64::MAX,
    };
    framer.push_read_request(&request);
    let stream = drain(&mut framer, &[]);
    let events = feed(&mut FpduReceiver::new(true, 1), &mut receives(), &stream);
    assert_eq!(events, Ok(vec![IwarpEvent::ReadRequested(request)]));
}

fn established(rtr: RtrTypes, ord: u16) -> MpaEstablished {
    let depths = ReadDepths { ird: 1, ord };
    MpaEstablished {
        crc: true,
        markers: false,
        depths: Some(depths),
        peer_depths: Some(depths),
        rtr: Some(rtr),
        private_data: Vec::new(),
    }
}

/// The first message of an initiator, by what both ends support (RFC 6581, section 9.2).
#[test]
fn an_initiator_sends_the_negotiated_message_first() {
    // rfc: 6581-5-a, 6581-9.2-i
    let none = RtrTypes::default();
    let send = RtrTypes { send: true, ..none };
    let read = RtrTypes { read: true, ..none };
    let write = RtrTypes {
        write: true,
        ..none
    };
    let depths = ReadDepths { ird: 1, ord: 1 };
    let request = [untagged([0x41, 0x41], [0, 1, 1, 0]), vec![0; 28]].concat();
    for (rtr, ord, first) in [
        (send, 1, vec![]),
        (write, 1, tagged([0xc1, 0x40], 0, 0)),
        (read, 1, request.clone()),
        // The consumer has no Reads, and the responder made room for this one.
        (read, 0, request),
    ] {
        let established = established(rtr, ord);
        let mut initiator = IwarpStream::initiator(&established, depths, 1448);
        assert!(initiator.framer().push_copied(SEND, &[b"next"]));
        assert!(!initiator.push_read(1, 1, (1, 0)) || ord > 0 && rtr != read);
        let stream = drain(initiator.framer(), &[]);
        let sent = ulpdus(&stream);
        assert_eq!(sent[0], first);
        assert_eq!(
            sent[1][..18],
            untagged([0x41, 0x43], [0, 0, 1, 0]),
            "what follows"
        );
        // The responder sends only after this message.
        let mut responder = IwarpStream::responder(&established, depths, 1448);
        assert!(responder.framer().push_copied(SEND, &[b"answer"]));
        assert_eq!(responder.pieces().count(), 0);
        let mut memory = receives();
        let until = stream.len() - fpdu(&sent[1], 0).len();
        let (taken, _) = responder.advance(&stream[..until], &mut memory).unwrap();
        assert!(taken > 0 && responder.has_heard());
        assert_eq!(responder.pieces().count(), 1);
    }
}

/// RFC 5044, section 7.1.2: a responder that has validated no FPDU sends none, not even a
/// Terminate.
#[test]
fn a_responder_without_a_valid_fpdu_is_silent() {
    // rfc: 5044-7.1.2-k
    let depths = ReadDepths { ird: 1, ord: 1 };
    let established = established(RtrTypes::default(), 1);
    let mut wrong = fpdu(&untagged([0x41, 0x43], [0, 0, 1, 0]), 0);
    wrong[3] ^= 1;
    let unknown = fpdu(&untagged([0x41, 0x4f], [0, 0, 1, 0]), 0);
    let valid = fpdu(&tagged([0xc1, 0x40], 0, 0), 0);
    for (stream, code, speaks) in [
        (wrong.clone(), TerminateCode::MPA_CRC, false),
        ([valid, wrong].concat(), TerminateCode::MPA_CRC, true),
        (unknown, TerminateCode::RDMAP_OPCODE, true),
    ] {
        let mut responder = IwarpStream::responder(&established, depths, 1448);
        let (mut at, mut memory) = (0, receives());
        let error = loop {
            match responder.advance(&stream[at..], &mut memory) {
                Ok((taken, progress)) => {
                    assert_ne!(progress, FpduProgress::NeedInput);
                    at += taken;
                }
                Err(error) => break error,
            }
        };
        assert_eq!((error.code, responder.has_ended()), (code, true));
        assert_eq!(responder.pieces().count() > 0, speaks);
    }
}

/// Reads beyond ORD wait at the requester (RFC 5040, section 6.1).
#[test]
fn reads_stay_within_ord() {
    // rfc: 5040-6.1-b, 5040-6.1-c, 5040-6.1-d
    let established = MpaEstablished {
        rtr: None,
        ..established(RtrTypes::default(), 2)
    };
    let depths = ReadDepths { ird: 1, ord: 9 };
    let mut stream = IwarpStream::initiator(&established, depths, 1448);
    assert!(stream.push_read(1, 0, (1, 0)) && stream.push_read(2, 0, (1, 0)));
    assert!(!stream.push_read(3, 0, (1, 0)));
    let response = fpdu(&tagged([0xc1, 0x42], 1, 0), 0);
    let (_, progress) = stream.advance(&response, &mut receives()).unwrap();
    assert_eq!(progress, FpduProgress::Event(IwarpEvent::ReadDone));
    assert!(stream.push_read(3, 0, (1, 0)));
}
