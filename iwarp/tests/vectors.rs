//! The example dumps of RFC 5044, section 4.4.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rpcrdma_iwarp::{FpduReceiver, Framer, IwarpEvent, OutgoingKind, OutgoingMessage};
use support::{Memory, feed, send};

const SEND: OutgoingKind = OutgoingKind::Send {
    solicited: false,
    invalidate: None,
};

/// Figure 5: the first FPDU of a stream with markers.
fn figure_5() -> Vec<u8> {
    let mut bytes = vec![
        0, 0, 0, 0, 0, 0x2a, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    ];
    bytes.extend([0; 4 + 24]);
    bytes.extend([0x52, 0x23, 0x99, 0x83]);
    bytes
}

/// Figure 6: the second FPDU of a stream, with a marker inside.
fn figure_6() -> Vec<u8> {
    let mut bytes = vec![
        0, 0x2a, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0,
    ];
    bytes.extend([0, 0, 0, 0x14]);
    bytes.extend([0; 24]);
    bytes.extend([0x84, 0x92, 0x58, 0x98]);
    bytes
}

#[test]
fn a_framer_writes_figure_5() {
    // rfc: 5044-4.1-a, 5044-4.3-e, 5044-4.3-g, 5044-4.4-j
    let mut framer = Framer::new(1448, true, true, false);
    let bytes = send(&mut framer, OutgoingMessage::new(0, SEND, 24), &[0; 24]);
    assert_eq!(bytes, figure_5());
}

#[test]
fn a_framer_writes_figure_6() {
    // rfc: 5044-4.3-a, 5044-4.3-b
    let mut framer = Framer::new(1448, true, true, false);
    // 492 bytes: marker, length field, header, payload and CRC.
    let len = 492 - 4 - 2 - 18 - 4;
    let first = send(
        &mut framer,
        OutgoingMessage::new(0, SEND, len),
        &vec![0; len as usize],
    );
    assert_eq!(first.len(), 492);
    let bytes = send(&mut framer, OutgoingMessage::new(0, SEND, 24), &[0; 24]);
    assert_eq!(bytes, figure_6());
}

#[test]
fn a_framer_without_crc_writes_zeros() {
    // rfc: 5044-4.4-i, 5044-7.1.1-j, 5044-7.1.1-l
    let mut framer = Framer::new(1448, false, false, false);
    let bytes = send(&mut framer, OutgoingMessage::new(0, SEND, 24), &[0; 24]);
    assert_eq!(bytes[..44], figure_5()[4..48]);
    assert_eq!(bytes[44..], [0; 4]);
}

#[test]
fn a_responder_holds_its_first_fpdu() {
    // rfc: 5044-7.1.2-k
    let mut framer = Framer::new(1448, true, false, true);
    assert_eq!(
        framer.push_segment(&mut OutgoingMessage::new(0, SEND, 0), &[]),
        Ok(true)
    );
    assert_eq!(framer.pieces().count(), 0);
    framer.release();
    assert_eq!(framer.pieces().count(), 1);
}

#[test]
fn small_messages_in_one_buffer_are_received() {
    // rfc: 5040-5.3-c, 5040-5.3-j, 5041-5.4-b, 5041-5.4-c
    let mut framer = Framer::new(1448, true, false, false);
    let mut stream = Vec::new();
    for len in [0, 1, 5, 24] {
        stream.extend(send(
            &mut framer,
            OutgoingMessage::new(0, SEND, len),
            &vec![9; len as usize],
        ));
    }
    let mut memory = Memory {
        receives: vec![vec![0; 32]; 4],
        ..Memory::default()
    };
    let events = feed(&mut FpduReceiver::new(true, 0), &mut memory, &stream).unwrap();
    let received = |(msn, len)| IwarpEvent::Received {
        msn,
        len,
        solicited: false,
        invalidate: None,
    };
    assert_eq!(events, [(1, 0), (2, 1), (3, 5), (4, 24)].map(received));
    assert_eq!(memory.receives[3][..24], [9; 24]);
}
