//! Plans at the limits of lengths, headers and buffers.

use super::*;

/// Bytes of a header for an item in one target.
const PLACED: u32 = 24;

/// A call whose results are placed, of which the stream of the largest reply has `stream` bytes.
fn read<'a>(results: &'a [ResultSpec], stream: u32) -> CallSpec<'a> {
    let placed: u32 = results.iter().map(|result| result.max_length).sum();
    CallSpec {
        max_reply: stream + placed,
        results,
        ..SHORT
    }
}

/// Limits by which the reply is one transmission.
fn one_reply() -> GroupLimits {
    GroupLimits {
        max_reply_transmissions: 1,
        ..groups()
    }
}

/// A result is placed as long as header and stream end before its target, with the least that a
/// result which is written may leave in the stream.
// spec: rtr-4.3-h, rtr-5.3-g
#[test]
fn a_placed_result_leaves_room_for_header_and_stream() {
    let results = [200_000, 65_536].map(ResultSpec::whole_call);
    let one_target = headers::REPLY + 2 * headers::EXPLICIT_ITEM + sizes::SEGMENT + PLACED;
    let room = 4096 - one_target - MIN_PLACED_RESULT;
    for (stream, sets) in [(room, (0b10, 0b01)), (room + 4, (0b00, 0b11))] {
        // The first does not fit one buffer.
        let call = read(&results, stream);
        let plan = grouped_(&call, &one_reply(), 8).unwrap();
        assert_eq!((plan.send, plan.explicit), sets, "{stream}");
    }
}

/// A direction for a result before those that are worth one is in the header, too.
// spec: rtr-7.4-y
#[test]
fn unused_directions_take_room_in_the_header() {
    let results = [100, 65_536].map(ResultSpec::whole_call);
    let header = headers::REPLY + headers::EXPLICIT_ITEM + headers::UNUSED_DIRECTION + PLACED;
    let room = 4096 - header;
    for (stream, sets) in [(room, (0b10, 0b00)), (room + 4, (0b00, 0b10))] {
        let call = read(&results, stream - 100);
        let plan = grouped_(&call, &one_reply(), 8).unwrap();
        assert_eq!((plan.send, plan.explicit), sets, "{stream}");
    }
}

/// Items and results are placed from the least length on that is configured.
// spec: rtr-3.3-d
#[test]
fn item_of_minimum_length_is_placed() {
    for (length, is_placed) in [(4092, 0), (4096, 1)] {
        let items = [DataItem {
            position: 120,
            length,
        }];
        let call = CallSpec {
            length: 160 + length,
            items: &items,
            max_reply: 200 + length,
            results: &[ResultSpec::whole_call(length)],
            ..SHORT
        };
        let plan = grouped_(&call, &groups(), 8).unwrap();
        assert_eq!((plan.placed, plan.send), (is_placed, is_placed), "{length}");
    }
    // One without bytes is never placed.
    let all = GroupLimits {
        min_placed_len: 0,
        ..groups()
    };
    let items = [0, 4].map(|length| DataItem {
        position: 120,
        length,
    });
    let call = CallSpec {
        items: &items,
        ..SHORT
    };
    assert_eq!(grouped_(&call, &all, 8).unwrap().placed, 0b10);
}

/// Without chunks nothing is read or written that the transmissions do not take.
// spec: rtr-5.3-d, rtr-5.3-k
#[test]
fn without_chunks_an_unplaced_result_has_no_method() {
    let items = [DataItem {
        position: 120,
        length: 200_000,
    }];
    let write = CallSpec {
        length: 200_200,
        items: &items,
        ..SHORT
    };
    let results = [ResultSpec::whole_call(200_000)];
    let limits = one_reply();
    for (call, room) in [(write, 1), (read(&results, 200), 8)] {
        let link = PathLimits {
            version: Version::Two,
            call_threshold: 69_632,
            reply_threshold: 69_632,
            chunks: false,
            max_read_chunks: u32::MAX,
            max_segment_len: 1 << 20,
            groups: Some(&limits),
            available_credits: room,
        };
        assert!(transfer::plan_call(&call, &link).is_err());
    }
}

/// As many items as a call may have are placed, each in a target of its own.
#[test]
fn all_items_of_a_call_may_be_placed() {
    let mut segments = [BufferSegment {
        length: 4096,
        align: 4096,
        target: true,
    }; MAX_ITEMS + 1];
    segments[0].target = false;
    let limits = GroupLimits {
        responder_structure: BufferStructure::new(&segments).unwrap(),
        ..groups()
    };
    let items: ArrayVec<DataItem, MAX_ITEMS> = (0..MAX_ITEMS as u32)
        .map(|at| DataItem {
            position: 120 + 4096 * at,
            length: 4096,
        })
        .collect();
    let call = CallSpec {
        length: 160 + 4096 * MAX_ITEMS as u32,
        items: &items,
        ..SHORT
    };
    assert_eq!(grouped_(&call, &limits, 8).unwrap().placed, 0xff);
}

/// An operation may be as long as there is room for it where headers are written.
#[test]
fn header_may_fill_its_buffer() {
    let structure = BufferStructure::plain(1 << 16);
    let most = u32::try_from(headers::MAX_INFO).unwrap();
    let header = |fixed| headers::first_header(&structure, fixed, 8, &[], 1);
    assert_eq!((header(most), header(most + 4)), (Some((most, 1)), None));
}

/// A result that may only be placed stays in the message if the requester's buffers have no
/// targets.
// spec: rtr-7.4-f
#[test]
fn without_targets_a_result_stays_in_the_message() {
    let results = [DataItem {
        position: 100,
        length: 4_000,
    }];
    let direction = ResultDirection {
        of: Span::CALL,
        min_length: 1024,
        memory: None,
        send: true,
        by_size: None,
        segments: 0,
    };
    let plan = plan_group_reply(&GroupReplySpec {
        length: 4_104,
        results: &results,
        directions: &[direction],
        matched: DirectionMatch::IN_ORDER,
        requester_structure: &BufferStructure::plain(8192),
        max_transmissions: 1,
    });
    let plan = plan.unwrap();
    assert_eq!((plan.placed, plan.written, plan.count), (0, 0, 1));
}

#[test]
fn group_plan_has_a_description() {
    let items = [DataItem {
        position: 120,
        length: 65_536,
    }];
    let call = CallSpec {
        length: 65_700,
        items: &items,
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    let limits = GroupLimits {
        placement: ResultPlacement::Choice,
        ..groups()
    };
    assert_eq!(
        std::format!("{}", grouped_(&call, &limits, 8).unwrap()),
        "in 1 transmissions of rtrext-02, items placed by them: 1; the reply in one, results \
        either way: 1; as it costs less"
    );
}
