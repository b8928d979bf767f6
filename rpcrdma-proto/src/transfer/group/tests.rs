mod bounds;

use super::*;
use crate::placement::BufferSegment;
use crate::transfer::{self, Span};
use crate::version::Version;

const SHORT: CallSpec<'_> = CallSpec {
    length: 160,
    items: &[],
    max_reply: 200,
    results: &[],
    reducible: true,
};

/// Receive buffers of 4 KiB and one target of 64 KiB.
fn placing() -> BufferStructure {
    let head = BufferSegment {
        length: 4096,
        align: 8,
        target: false,
    };
    BufferStructure::new(&[
        head,
        BufferSegment {
            length: 65_536,
            align: 4096,
            target: true,
        },
    ])
    .unwrap()
}

fn groups() -> GroupLimits {
    GroupLimits {
        responder_structure: placing(),
        requester_structure: placing(),
        max_request_transmissions: 8,
        max_reply_transmissions: 8,
        min_placed_len: 4096,
        preference: MethodPreference::Groups,
        placement: ResultPlacement::Cheaper,
    }
}

fn way(
    call: &CallSpec<'_>,
    groups: &GroupLimits,
    room: u32,
) -> Result<TransferPlan, TransferError> {
    transfer::plan_call(call, &link(groups, room))
}

fn link(groups: &GroupLimits, room: u32) -> PathLimits<'_> {
    PathLimits {
        version: Version::Two,
        call_threshold: 69_632,
        reply_threshold: 69_632,
        chunks: true,
        max_read_chunks: u32::MAX,
        max_segment_len: 1 << 20,
        groups: Some(groups),
        available_credits: room,
    }
}

fn cost(call: &CallSpec<'_>, groups: &GroupLimits, room: u32) -> Cost {
    Cost::of(call, &way(call, groups, room).unwrap())
}

fn grouped_(call: &CallSpec<'_>, groups: &GroupLimits, room: u32) -> Option<GroupPlan> {
    if let TransferMethod::Grouped(grouped) = way(call, groups, room).unwrap().method {
        Some(grouped)
    } else {
        None
    }
}

/// A call knows how many credits it takes, and does without those that are not there.
// spec: rtr-4.3-a, rtr-4.3-b, rtr-4.3-c, rtr-4.3-d, rtr-5.2-c, rtr-5.3-l, rtr-5.3-m
#[test]
fn call_without_credits_for_a_group_is_read() {
    let items = [DataItem {
        position: 120,
        length: 200_000,
    }];
    let call = CallSpec {
        length: 200_200,
        items: &items,
        ..SHORT
    };
    let placed = grouped_(&call, &groups(), 8).unwrap();
    assert_eq!(
        (
            placed.placed,
            placed.read,
            placed.count,
            cost(&call, &groups(), 8).credits
        ),
        (1, 0, 4, 4)
    );
    for (limit, room) in [(8, 3), (3, 8), (1, 1)] {
        let limited = GroupLimits {
            max_request_transmissions: limit,
            ..groups()
        };
        let read = grouped_(&call, &limited, room).unwrap();
        assert_eq!(
            (
                read.placed,
                read.read,
                read.count,
                cost(&call, &limited, room).credits
            ),
            (0, 1, 1, 1)
        );
    }
    // A call that cannot be reduced takes as many transmissions as it needs, or is read whole.
    let whole = CallSpec { items: &[], ..call };
    assert_eq!(grouped_(&whole, &groups(), 8).unwrap().count, 3);
    assert_eq!(
        way(&whole, &groups(), 2).unwrap().method,
        TransferMethod::Long
    );
}

/// Items and results of a call that is not reducible stay in the stream.
// spec: rtr-3.3-d
#[test]
fn irreducible_calls_place_nothing() {
    let items = [DataItem {
        position: 120,
        length: 65_536,
    }];
    let call = CallSpec {
        length: 65_736,
        items: &items,
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        reducible: false,
    };
    let whole = grouped_(&call, &groups(), 8).unwrap();
    assert_eq!(
        (
            whole.placed | whole.read,
            whole.send | whole.explicit,
            whole.count,
            whole.reply_receives
        ),
        (0, 0, 1, 0)
    );
}

/// Where both ways are there, the one of fewer round trips goes, and of those with as many the one
/// that exposes less.
#[test]
fn cheaper_transfer_method_is_chosen() {
    let cheaper = GroupLimits {
        preference: MethodPreference::Cheaper,
        ..groups()
    };
    assert_eq!(grouped_(&SHORT, &cheaper, 8), None, "it costs no less");
    let items = [DataItem {
        position: 120,
        length: 65_536,
    }];
    let write = CallSpec {
        length: 65_736,
        items: &items,
        ..SHORT
    };
    assert!(grouped_(&write, &cheaper, 8).is_some());
    assert_eq!(
        cost(&write, &cheaper, 8),
        Cost {
            round_trips: 1,
            registrations: 0,
            copied: 400,
            credits: 1
        }
    );
    let read = CallSpec {
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    let directed = grouped_(&read, &cheaper, 8).unwrap();
    assert_eq!(
        (
            directed.send,
            directed.explicit,
            cost(&read, &cheaper, 8).registrations
        ),
        (1, 0, 0)
    );
}

/// Directions follow the means: our targets, exposable memory, and replies in transmissions.
// spec: rtr-5.3-g, rtr-5.3-i, rtr-5.3-j
#[test]
fn directions_follow_the_limits_of_the_path() {
    let plain = BufferStructure::plain(4096);
    let read = CallSpec {
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    let of = |direct, ours, replies| {
        grouped_(
            &read,
            &GroupLimits {
                placement: direct,
                requester_structure: ours,
                max_reply_transmissions: replies,
                ..groups()
            },
            8,
        )
        .map(|one| (one.send, one.explicit))
    };
    assert_eq!(of(ResultPlacement::Cheaper, placing(), 8), Some((1, 0)));
    assert_eq!(of(ResultPlacement::Explicit, placing(), 8), Some((0, 1)));
    assert_eq!(of(ResultPlacement::Choice, placing(), 8), Some((1, 1)));
    assert_eq!(
        of(ResultPlacement::BySize(9000), placing(), 8),
        Some((1, 1))
    );
    for direct in [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(9000),
    ] {
        assert_eq!(
            of(direct, plain, 8),
            Some((0, 1)),
            "{direct:?}: nothing can be placed here"
        );
        assert_eq!(
            of(direct, plain, 0),
            None,
            "{direct:?}: the responder sends none of its own"
        );
    }
    // A result of more than the reserved transmissions take is written.
    let large = CallSpec {
        max_reply: 1_000_100,
        results: &[ResultSpec::whole_call(1_000_000)],
        ..SHORT
    };
    let written = grouped_(&large, &groups(), 8).unwrap();
    assert_eq!(
        (written.send, written.explicit, written.reply_receives),
        (0, 1, 0)
    );
}

/// Without chunks no result can be written, and each that may be placed is placed.
// spec: rtr-5.3-g, rtr-5.3-i
#[test]
fn results_are_placed_where_chunks_are_not_allowed() {
    let read = CallSpec {
        max_reply: 65_700,
        results: &[ResultSpec::whole_call(65_536)],
        ..SHORT
    };
    let of = |placement| {
        let groups = GroupLimits {
            placement,
            ..groups()
        };
        let link = PathLimits {
            chunks: false,
            ..link(&groups, 8)
        };
        match transfer::plan_call(&read, &link).map(|plan| plan.method) {
            Ok(TransferMethod::Grouped(plan)) => Some((plan.send, plan.explicit)),
            _ => None,
        }
    };
    for placement in [
        ResultPlacement::Cheaper,
        ResultPlacement::Choice,
        ResultPlacement::BySize(9000),
    ] {
        assert_eq!(of(placement), Some((1, 0)), "{placement:?}");
    }
    assert_eq!(of(ResultPlacement::Explicit), Some((0, 0)));
}

/// As many receives are reserved as the largest reply may take, and none where one is enough.
// spec: rtr-4.3-e, rtr-4.3-f, rtr-4.3-g
#[test]
fn receives_are_reserved_for_the_largest_reply() {
    let reserve = |largest_reply, ours| {
        let call = CallSpec {
            max_reply: largest_reply,
            ..SHORT
        };
        grouped_(
            &call,
            &GroupLimits {
                requester_structure: ours,
                ..groups()
            },
            8,
        )
        .map(|one| one.reply_receives)
    };
    let plain = BufferStructure::plain(4096);
    assert_eq!(
        [200, 4_056, 4_060, 16_384].map(|most| reserve(most, plain).unwrap()),
        [0, 0, 2, 5]
    );
    assert_eq!(reserve(8 * 4_056, plain), Some(8));
    assert_eq!(reserve(8 * 4_056 + 4, plain), None, "it has a Reply chunk");
}

/// The responder may not write a result that it must send because of its size: either all have
/// receives, or they are written.
// spec: rtr-4.3-e, rtr-6.2-t, rtr-6.2-u
#[test]
fn receives_are_reserved_for_results_placed_by_size() {
    let large = [ResultSpec::whole_call(30_000); 3];
    let read = CallSpec {
        max_reply: 90_100,
        results: &large,
        ..SHORT
    };
    let of = |direct, replies| {
        grouped_(
            &read,
            &GroupLimits {
                placement: direct,
                max_reply_transmissions: replies,
                ..groups()
            },
            8,
        )
        .map(|one| (one.send, one.explicit, one.reply_receives))
    };
    assert_eq!(of(ResultPlacement::Cheaper, 8), Some((0b111, 0, 3)));
    assert_eq!(
        of(ResultPlacement::Choice, 8),
        Some((0b111, 0b111, 0)),
        "those that do not fit are written"
    );
    assert_eq!(
        of(ResultPlacement::BySize(25_000), 8),
        Some((0b111, 0b111, 3))
    );
    assert_eq!(
        of(ResultPlacement::BySize(25_000), 2),
        Some((0b011, 0b111, 2))
    );
    assert_eq!(
        of(ResultPlacement::BySize(1), 8),
        Some((0b111, 0b111, 0)),
        "all that has bytes is written"
    );
}

/// Of several results some may be placed, and others be so short that they stay in the stream: that
/// may take more transmissions than if all are placed, or all are short.
// spec: rtr-4.3-e
#[test]
fn receives_are_reserved_for_short_results_beside_placed_ones() {
    let head = BufferSegment {
        length: 1024,
        align: 8,
        target: false,
    };
    let ours = BufferStructure::new(&[
        head,
        BufferSegment {
            length: 4096,
            align: 4096,
            target: true,
        },
    ])
    .unwrap();
    let both = [4_000, 2_000].map(ResultSpec::whole_call);
    for replies in 1..=3 {
        let read = CallSpec {
            max_reply: 6_900,
            results: &both,
            ..SHORT
        };
        let grouped = grouped_(
            &read,
            &GroupLimits {
                requester_structure: ours,
                max_reply_transmissions: replies,
                min_placed_len: 1,
                ..groups()
            },
            8,
        )
        .unwrap();
        let direction = |at: usize| ResultDirection {
            of: Span::CALL,
            min_length: 1024,
            memory: (grouped.explicit >> at & 1 == 1).then_some(both[at].max_length),
            send: grouped.send >> at & 1 == 1,
            by_size: None,
            segments: u32::from(grouped.explicit >> at & 1),
        };
        let directions = [0, 1].map(direction);
        for lengths in [0, 1_023, 1_024, 4_000]
            .into_iter()
            .flat_map(|first| [0, 4, 1_023, 2_000].map(|second| [first, second]))
        {
            let [first, second] = lengths;
            let results = [(100, first), (104 + first, second)];
            let results = results.map(|(at, length): (u32, u32)| DataItem {
                position: at.next_multiple_of(4),
                length,
            });
            let length = 900
                + results
                    .iter()
                    .map(|item| item.length.next_multiple_of(4))
                    .sum::<u32>();
            let (matched, most) = (DirectionMatch::IN_ORDER, grouped.reply_receives.max(1));
            let answer = GroupReplySpec {
                length,
                results: &results,
                directions: &directions,
                matched,
                requester_structure: &ours,
                max_transmissions: most,
            };
            assert!(
                plan_group_reply(&answer).is_ok(),
                "{lengths:?} in {most} transmissions"
            );
        }
    }
}

/// The method for a result of each size, with memory of 50,000 bytes: placed, written, or neither.
// spec: rtr-3.4-c, rtr-3.4-d, rtr-6.2-t, rtr-6.2-u, rtr-7.4-c, rtr-7.4-f, rtr-7.4-g, rtr-7.4-i
// spec: rtr-7.4-u
#[test]
fn result_follows_its_direction() {
    const MEMORY: Option<u32> = Some(50_000);
    let direction = |memory, send, by_size| ResultDirection {
        of: Span::CALL,
        min_length: 1024,
        memory,
        send,
        by_size,
        segments: 1,
    };
    let explicit = direction(MEMORY, false, None);
    let tbsn = direction(None, true, None);
    let choice = direction(MEMORY, true, None);
    let by_size = direction(MEMORY, true, Some(9_000));
    let cases = [
        (
            explicit,
            [Some("stays"), Some("written"), Some("written"), None],
        ),
        (
            tbsn,
            [
                Some("stays"),
                Some("placed"),
                Some("placed"),
                Some("placed"),
            ],
        ),
        (
            choice,
            [
                Some("stays"),
                Some("placed"),
                Some("placed"),
                Some("placed"),
            ],
        ),
        (
            by_size,
            [
                Some("stays"),
                Some("placed"),
                Some("written"),
                Some("stays"),
            ],
        ),
    ];
    for (direction, expected) in cases {
        let found = [1_023, 8_999, 9_000, 50_001].map(|length: u32| {
            let results = [DataItem {
                position: 100,
                length,
            }];
            let (length, directions) = (104 + length.next_multiple_of(4), &[direction]);
            let (matched, theirs) = (DirectionMatch::IN_ORDER, &placing());
            let answer = GroupReplySpec {
                length,
                results: &results,
                directions,
                matched,
                requester_structure: theirs,
                max_transmissions: 1,
            };
            plan_group_reply(&answer)
                .ok()
                .map(|found| match (found.placed, found.written) {
                    (1, 0) => "placed",
                    (0, 1) => "written",
                    _ => "stays",
                })
        });
        assert_eq!(found, expected, "{direction:?}");
    }
}

/// A result with a choice is placed if it fits the maximum number of transmissions, and otherwise
/// written.
// spec: rtr-6.2-t, rtr-7.4-v
#[test]
fn choice_depends_on_the_limit_of_transmissions() {
    let results = [DataItem {
        position: 100,
        length: 100_000,
    }];
    let direction = ResultDirection {
        of: Span::CALL,
        min_length: 0,
        memory: Some(100_000),
        send: true,
        by_size: None,
        segments: 1,
    };
    let theirs = placing();
    let of = |most, direction: ResultDirection| {
        let directions = &[direction];
        let (length, matched) = (100_200, DirectionMatch::IN_ORDER);
        let answer = GroupReplySpec {
            length,
            results: &results,
            directions,
            matched,
            requester_structure: &theirs,
            max_transmissions: most,
        };
        plan_group_reply(&answer).map(|found| (found.placed, found.written, found.count))
    };
    assert_eq!(of(2, direction), Ok((1, 0, 2)));
    assert_eq!(of(1, direction), Ok((0, 1, 1)));
    assert_eq!(
        of(
            1,
            ResultDirection {
                memory: None,
                ..direction
            }
        ),
        Err(TransferError::ReplyTooLong)
    );
    // A direction is used up by a result that is too short for it; the next result has the next
    // direction.
    let short = ResultDirection {
        min_length: 2_001,
        ..direction
    };
    let two = [
        DataItem {
            position: 100,
            length: 2_000,
        },
        DataItem {
            position: 2_100,
            length: 5_000,
        },
    ];
    let answer = GroupReplySpec {
        length: 7_200,
        results: &two,
        directions: &[short, direction],
        matched: DirectionMatch::IN_ORDER,
        requester_structure: &theirs,
        max_transmissions: 2,
    };
    assert_eq!(
        plan_group_reply(&answer).map(|found| (found.placed, found.written)),
        Ok((0b10, 0))
    );
}
