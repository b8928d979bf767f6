use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const LIMITS: ChunkLimits = ChunkLimits {
    max_segments: 512,
    max_bytes: 1 << 20,
};

fn segment(position: u32, handle: u32, offset: u64, length: u32) -> v2::ReadSegment {
    v2::ReadSegment {
        position,
        target: v2::Segment {
            handle,
            length,
            offset,
        },
    }
}

fn inline(list: &[v2::ReadSegment], inline: usize) -> Result<ReadPlan<'_>, ChunkError> {
    ReadPlan::inline(List::from(list).into(), inline, &LIMITS)
}

fn long(list: &[v2::ReadSegment]) -> Result<ReadPlan<'_>, ChunkError> {
    ReadPlan::long(List::from(list).into(), &LIMITS)
}

/// A message put together as the plan says, from the inline stream and the requester's memory.
fn assemble(plan: &ReadPlan<'_>, stream: &[u8], memory: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for piece in plan.pieces() {
        let (at, bytes) = match piece {
            Piece::Inline { at, from, length } => (at, &stream[from as usize..][..length as usize]),
            Piece::Read { at, from } => {
                (at, &memory[from.offset as usize..][..from.length as usize])
            }
            Piece::Padding { at, length } => (at, &[0; 3][..length as usize]),
        };
        assert!(!bytes.is_empty(), "{piece:?}");
        assert_eq!(at as usize, message.len(), "{piece:?}");
        message.extend_from_slice(bytes);
    }
    assert_eq!(message.len(), plan.len() as usize);
    message
}

#[test]
fn call_without_chunks_is_inline() {
    let plan = inline(&[], 40).unwrap();
    assert!(plan.is_inline());
    assert_eq!(
        plan.pieces().collect::<Vec<_>>(),
        [Piece::Inline {
            at: 0,
            from: 0,
            length: 40
        }]
    );
    assert!(inline(&[], 0).unwrap().is_empty());
}

/// As many segments and bytes as the limits allow are taken, and no more.
// spec: v2-2.2-a
#[test]
fn chunks_up_to_the_limits_are_accepted() {
    let list = [segment(0, 1, 0, 40), segment(40, 1, 40, 8)];
    let moved = [segment(8, 1, 0, 4), segment(12, 1, 4, 4)];
    for (max_segments, max_bytes, found) in [
        (2, 48, Ok(48)),
        (1, 48, Err(ChunkError::TooManySegments)),
        (2, 47, Err(ChunkError::TooLong)),
    ] {
        let limits = ChunkLimits {
            max_segments,
            max_bytes,
        };
        let plan = ReadPlan::long(List::from(&list[..]).into(), &limits);
        assert_eq!(plan.map(|plan| plan.len()), found);
        let plan = ReadPlan::inline(List::from(&moved[..]).into(), 40, &limits);
        assert_eq!(
            plan.map(|plan| (plan.len(), plan.is_inline())),
            found.map(|len| (len, false))
        );
    }
}

/// RFC 8166, section 3.4.5: segments of one Position are one item, padded as a whole.
// spec: rfc8166-3.4.5-a
#[test]
fn segments_with_one_position_form_one_item() {
    let list = [
        segment(8, 1, 0, 3),
        segment(8, 1, 10, 0),
        segment(8, 1, 20, 3),
        segment(20, 1, 30, 4),
    ];
    let plan = inline(&list, 16).unwrap();
    let memory: Vec<u8> = (0..40).collect();
    let found = assemble(&plan, &[0xaa; 16], &memory);
    assert_eq!(
        found,
        [
            &[0xaa; 8][..],
            &[0, 1, 2, 20, 21, 22, 0, 0],
            &[0xaa; 4],
            &[30, 31, 32, 33],
            &[0xaa; 4]
        ]
        .concat()
    );
}

/// Chunks follow each other, without anything between, at the beginning and at the end.
#[test]
fn adjacent_chunks_are_accepted() {
    let list = [segment(4, 1, 0, 5), segment(12, 1, 5, 3)];
    let plan = inline(&list, 4).unwrap();
    assert_eq!(
        assemble(&plan, &[9; 4], &[1; 8]),
        [9, 9, 9, 9, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0]
    );
}

/// RFC 8166, section 3.5.3: the Payload stream may be a chunk itself, with items taken out of it.
// spec: rfc8166-3.5.3-b
#[test]
fn long_call_is_read_with_its_items() {
    let list = [
        segment(0, 1, 0, 6),
        segment(0, 1, 6, 6),
        segment(8, 1, 12, 2),
    ];
    let plan = long(&list).unwrap();
    let read = |at, offset, length| Piece::Read {
        at,
        from: Segment {
            handle: 1,
            length,
            offset,
        },
    };
    let pieces: Vec<_> = plan.pieces().collect();
    assert_eq!(
        pieces,
        [
            read(0, 0, 6),
            read(6, 6, 2),
            read(8, 12, 2),
            Piece::Padding { at: 10, length: 2 },
            read(12, 8, 4)
        ]
    );
    assert!(!plan.is_inline());
    assert_eq!(plan.len(), 16);
}

// spec: rfc8166-3.4.5-b
#[test]
fn invalid_read_lists_are_refused() {
    use ChunkError::*;
    let whole = u64::MAX;
    let inlines: [(&[v2::ReadSegment], ChunkError); 9] = [
        (&[segment(2, 1, 0, 4)], MisalignedPosition),
        (&[segment(0, 1, 0, 4)], PositionZeroInline),
        (
            &[segment(4, 1, 0, 4), segment(0, 1, 0, 4)],
            PositionZeroInline,
        ),
        (&[segment(24, 1, 0, 4)], PositionBeyondMessage),
        (
            &[segment(8, 1, 0, 4), segment(28, 1, 0, 4)],
            PositionBeyondMessage,
        ),
        (
            &[segment(8, 1, 0, 5), segment(12, 1, 0, 4)],
            OverlappingPosition,
        ),
        (
            &[segment(8, 1, 0, 4), segment(4, 1, 0, 4)],
            OverlappingPosition,
        ),
        (&[segment(8, 1, whole, 1)], OffsetOverflow),
        (
            &[segment(8, 1, 0, u32::MAX), segment(8, 1, 0, u32::MAX)],
            TooLong,
        ),
    ];
    for (list, fault) in inlines {
        assert_eq!(inline(list, 20).unwrap_err(), fault, "{list:?}");
    }
    // One that ends with the address space, and one at the message's end.
    assert_eq!(inline(&[segment(8, 1, whole, 0)], 20).unwrap().len(), 20);
    assert_eq!(
        inline(&[segment(8, 1, whole - 4, 4), segment(24, 1, 0, 4)], 20)
            .unwrap()
            .len(),
        28
    );
    let longs: [(&[v2::ReadSegment], ChunkError); 5] = [
        (&[], NoPayload),
        (&[segment(0, 1, 0, 0)], NoPayload),
        (&[segment(4, 1, 0, 4)], NoPayload),
        (
            &[segment(0, 1, 0, 8), segment(12, 1, 0, 4)],
            PositionBeyondMessage,
        ),
        (
            &[
                segment(0, 1, 0, 8),
                segment(4, 1, 0, 4),
                segment(0, 1, 0, 4),
            ],
            OverlappingPosition,
        ),
    ];
    for (list, fault) in longs {
        assert_eq!(long(list).unwrap_err(), fault, "{list:?}");
    }
    let many = [segment(4, 1, 0, 1); 513];
    assert_eq!(inline(&many, 20).unwrap_err(), TooManySegments);
    assert_eq!(long(&many).unwrap_err(), TooManySegments);
    assert_eq!(inline(&[], 1 << 21).unwrap_err(), TooLong);
}

/// A message, the items to be taken out of it (where each begins, in words, and its bytes), and
/// where to cut segments.
fn messages() -> impl Strategy<Value = (Vec<(usize, usize)>, usize, Vec<usize>)> {
    let items = proptest::collection::vec((0usize..4, 0usize..23), 0..5);
    (items, 0usize..5, proptest::collection::vec(1usize..9, 1..8))
}

proptest! {
    /// The responder reassembles what the requester reduced, in both forms.
    #[test]
    fn read_plan_reassembles_the_message((items, tail, cuts) in messages()) {
        let mut number = 0u8;
        let mut bytes = |count: usize| -> Vec<u8> {
            (0..count).map(|_| { number = number.wrapping_add(1); number }).collect()
        };
        let (mut message, mut stream, mut memory, mut list) = (bytes(4), Vec::new(), Vec::new(), Vec::new());
        stream.extend_from_slice(&message);
        let mut cut = cuts.iter().cycle();
        let mut place = |position: usize, item: &[u8], memory: &mut Vec<u8>, list: &mut Vec<v2::ReadSegment>| {
            let mut rest = item;
            loop {
                let (now, then) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
                list.push(segment(position as u32, 1, memory.len() as u64, now.len() as u32));
                memory.extend_from_slice(now);
                rest = then;
                if rest.is_empty() { break }
            }
        };
        for (gap, length) in items {
            let between = bytes(4 * gap);
            stream.extend_from_slice(&between);
            message.extend_from_slice(&between);
            let item = bytes(length);
            // Two chunks at one Position would be one chunk.
            if list.last().is_none_or(|last: &v2::ReadSegment| last.position as usize != message.len()) {
                place(message.len(), &item, &mut memory, &mut list);
                message.extend_from_slice(&item);
                message.resize(message.len().next_multiple_of(4), 0);
            }
        }
        let end = bytes(4 * tail);
        stream.extend_from_slice(&end);
        message.extend_from_slice(&end);

        let plan = inline(&list, stream.len()).unwrap();
        prop_assert_eq!(assemble(&plan, &stream, &memory), &message[..]);
        let mut whole = Vec::new();
        place(0, &stream, &mut memory, &mut whole);
        whole.extend_from_slice(&list);
        let plan = long(&whole).unwrap();
        prop_assert_eq!(assemble(&plan, &[], &memory), &message[..]);
        // Version One's list says the same.
        let ones: Vec<_> = list.iter().map(|segment| v1::ReadChunk {
            position: segment.position,
            target: Segment::from(segment.target).into(),
        }).collect();
        let plan = ReadPlan::inline(List::from(&ones[..]).into(), stream.len(), &LIMITS).unwrap();
        prop_assert_eq!(assemble(&plan, &stream, &memory), &message[..]);
    }

    /// Any numbers give an error, or contiguous pieces up to the end of the message.
    #[test]
    fn any_read_list_is_planned_or_refused(
        numbers in proptest::collection::vec((0u32..64, 0u32..40, any::<u64>(), any::<bool>()), 0..8),
        stream in 0usize..100,
    ) {
        let list: Vec<_> = numbers.iter().map(|(position, length, offset, large)| {
            let (position, length) = if *large { (*position, *length << 26) } else { (position & !3, *length) };
            segment(position, 1, *offset, length)
        }).collect();
        for plan in [inline(&list, stream), long(&list)].into_iter().flatten() {
            let mut end = 0;
            for piece in plan.pieces() {
                let (at, length) = match piece {
                    Piece::Inline { at, length, from } => {
                        prop_assert!((from + length) as usize <= stream);
                        (at, length)
                    }
                    Piece::Read { at, from } => (at, from.length),
                    Piece::Padding { at, length } => (at, length),
                };
                prop_assert_eq!((at, length > 0), (end, true));
                end += length;
            }
            prop_assert_eq!(end, plan.len());
        }
    }
}
