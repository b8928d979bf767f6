//! Tests that would take 2^32 messages through the public API.

use super::*;
use crate::{
    FpduProgress, FpduReceiver, IwarpEvent, Placement, ReceiveRoom, StagAccess, StagError,
};

struct OneReceive;

impl Placement for OneReceive {
    fn check(&mut self, _: u32, _: u64, _: u64, _: StagAccess) -> Result<(), StagError> {
        Err(StagError::Invalid)
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        ReceiveRoom::Bytes(8)
    }

    fn may_invalidate(&mut self, _: u32) -> bool {
        false
    }
}

#[test]
fn message_sequence_numbers_wrap() {
    // rfc: 5041-4.3-j
    let kind = OutgoingKind::Send {
        solicited: false,
        invalidate: None,
    };
    let mut framer = Framer::new(1448, true, false, false);
    framer.msn[0] = u32::MAX;
    let mut receiver = FpduReceiver::new(true, 0);
    receiver.set_next_send(u32::MAX);
    assert!(framer.push_copied(kind, &[]));
    let mut message = OutgoingMessage::new(0, kind, 0);
    assert_eq!(framer.push_segment(&mut message, &[]), Ok(true));
    assert!(framer.push_copied(kind, &[]));
    let pieces = framer.pieces().map(|piece| match piece {
        FramerPiece::Owned(bytes) => bytes,
        FramerPiece::Payload { .. } => &[],
    });
    let stream = pieces.collect::<Vec<_>>().concat();
    let (mut at, mut numbers) = (0, Vec::new());
    while let Ok((taken, FpduProgress::Event(event))) =
        receiver.advance(&stream[at..], &mut OneReceive)
    {
        at += taken;
        if let IwarpEvent::Received { msn, .. } = event {
            numbers.push(msn);
        }
    }
    assert_eq!(numbers, [u32::MAX, 0, 1]);
}
