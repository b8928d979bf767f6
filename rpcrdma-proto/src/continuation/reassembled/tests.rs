use std::vec;
use std::vec::Vec;

use super::*;

const MEMORY: Segment = Segment {
    handle: 7,
    length: 10,
    offset: 4096,
};

fn bytes(buffer: u64, bytes: Range<u32>) -> BufferRange {
    BufferRange {
        buffer: BufferId(buffer),
        range: bytes,
    }
}

fn item(position: u32, length: u32, how: Reduction) -> ReducedItem {
    ReducedItem {
        position,
        length,
        reduction: how,
        result: None,
    }
}

/// A stream of 100 bytes in two sections, an item of 10 in two targets, and one of 10 to be read.
fn message() -> ReassembledMessage {
    ReassembledMessage {
        length: 0,
        stream: vec![bytes(1, 48..108), bytes(2, 40..80)],
        items: vec![
            item(20, 10, Reduction::Placed(0..2)),
            item(80, 10, Reduction::Explicit(0..1)),
        ],
        places: vec![bytes(1, 4096..4102), bytes(2, 4096..4100)],
        segments: vec![MEMORY],
        buffers: vec![bytes(1, 108..4102), bytes(2, 80..4100)],
    }
}

// spec: rtr-3.3-e, rtr-4.2-e, rtr-6.2-b, rtr-6.2-d, rtr-6.2-e, rtr-6.2-f, rtr-7.3-a, rtr-7.3-c
// spec: rtr-9.4-h
#[test]
fn sections_and_items_make_one_message() {
    let mut message = message();
    assert_eq!(
        (
            message.finish(u32::MAX),
            message.length,
            message.stream_length()
        ),
        (Ok(()), 124, 100)
    );
    let read = Segment {
        length: 10,
        ..MEMORY
    };
    let expected = [
        Source::Received {
            at: 0,
            from: bytes(1, 48..68),
        },
        Source::Received {
            at: 20,
            from: bytes(1, 4096..4102),
        },
        Source::Received {
            at: 26,
            from: bytes(2, 4096..4100),
        },
        Source::Padding { at: 30, length: 2 },
        Source::Received {
            at: 32,
            from: bytes(1, 68..108),
        },
        Source::Received {
            at: 72,
            from: bytes(2, 40..48),
        },
        Source::Read { at: 80, from: read },
        Source::Padding { at: 90, length: 2 },
        Source::Received {
            at: 92,
            from: bytes(2, 48..80),
        },
    ];
    assert_eq!(message.sources().collect::<Vec<_>>(), expected);
}

/// Without items the stream is the message.
// spec: rtr-7.3-k
#[test]
fn message_without_items_is_its_stream() {
    let mut message = ReassembledMessage {
        items: Vec::new(),
        ..message()
    };
    assert_eq!((message.finish(u32::MAX), message.length), (Ok(()), 100));
    let sections = [bytes(1, 48..108), bytes(2, 40..80)];
    let expected = [0, 60]
        .into_iter()
        .zip(sections)
        .map(|(at, from)| Source::Received { at, from });
    assert_eq!(
        message.sources().collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
}

/// Entries for results in the stream, or for missing results, do not change the length.
// spec: rtr-6.2-v, rtr-6.2-x
#[test]
fn items_that_are_not_reduced_are_in_the_stream() {
    let items = vec![
        item(20, 10, Reduction::TooShort),
        item(0, 0, Reduction::NoItem),
    ];
    let mut message = ReassembledMessage { items, ..message() };
    assert_eq!(
        (
            message.finish(u32::MAX),
            message.length,
            message.sources().count()
        ),
        (Ok(()), 100, 2)
    );
}

// spec: rtr-6.2-e, rtr-6.2-f, rtr-7.3-g
#[test]
fn positions_count_in_the_whole_message() {
    let of = |items: &[(u32, u32)], most| {
        let items = items
            .iter()
            .map(|(position, length)| item(*position, *length, Reduction::Placed(0..1)))
            .collect();
        let mut message = ReassembledMessage { items, ..message() };
        message.finish(most).map(|()| message.length)
    };
    assert_eq!(of(&[(100, 8)], 108), Ok(108), "at its very end");
    assert_eq!(of(&[(100, 8)], 107), Err(ChunkError::TooLong));
    assert_eq!(of(&[(104, 8)], 200), Err(ChunkError::PositionBeyondMessage));
    assert_eq!(
        of(&[(8, 96), (104, 8)], 300),
        Ok(204),
        "behind another item"
    );
    assert_eq!(
        of(&[(8, 97), (104, 8)], 300),
        Err(ChunkError::OverlappingPosition)
    );
    assert_eq!(
        of(&[(20, 8), (8, 8)], 300),
        Err(ChunkError::OverlappingPosition)
    );
    assert_eq!(of(&[(10, 8)], 300), Err(ChunkError::MisalignedPosition));
    assert_eq!(of(&[(4, 8)], 300), Err(ChunkError::PositionZeroInline));
    assert_eq!(of(&[(8, u32::MAX)], u32::MAX), Err(ChunkError::TooLong));
}
