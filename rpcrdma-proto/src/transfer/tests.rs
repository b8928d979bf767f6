use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const LINK: PathLimits<'static> = PathLimits {
    version: Version::Two,
    call_threshold: 4096,
    reply_threshold: 4096,
    chunks: true,
    max_read_chunks: u32::MAX,
    max_segment_len: 1 << 20,
    groups: None,
    available_credits: 32,
};
const SHORT: CallSpec<'_> = CallSpec {
    length: 100,
    items: &[],
    max_reply: 100,
    results: &[],
    reducible: true,
};

fn way(call_: &CallSpec<'_>, link: &PathLimits<'_>) -> TransferMethod {
    plan_call(call_, link).unwrap().method
}

const fn item(position: u32, length: u32) -> DataItem {
    DataItem { position, length }
}

/// The first byte behind a call is in none of its spans.
#[test]
fn a_span_that_begins_where_the_call_ends_is_beyond_it() {
    let span = |begin, end| Span { begin, end };
    assert!(!span(39, 48).is_beyond(40));
    assert!(span(40, 48).is_beyond(40));
    assert!(span(8, 8).is_beyond(40));
}

/// A call whose header and rest fill a Send to its last byte is reduced.
#[test]
fn a_reduced_call_may_fill_its_send() {
    let items = [item(100, 8000)];
    let call_ = CallSpec {
        length: 8100,
        items: &items,
        ..SHORT
    };
    let header = plan_call(&call_, &LINK).unwrap().header;
    for (call_threshold, found) in [
        (header + 100, TransferMethod::Reduced(1)),
        (header + 99, TransferMethod::Long),
    ] {
        let link = PathLimits {
            call_threshold,
            ..LINK
        };
        assert_eq!(way(&call_, &link), found);
    }
}

#[test]
fn fitting_call_is_inline_with_its_items() {
    let call_ = CallSpec {
        length: 4096 - 32,
        items: &[item(100, 3000)],
        ..SHORT
    };
    let travel = TransferPlan {
        method: TransferMethod::Inline,
        write_chunks: false,
        reply_chunk: None,
        header: 32,
    };
    assert_eq!(plan_call(&call_, &LINK), Ok(travel));
    assert_eq!(
        way(
            &CallSpec {
                length: 4096 - 31,
                ..call_
            },
            &LINK
        ),
        TransferMethod::Reduced(1),
        "one byte more"
    );
    let one = PathLimits {
        version: Version::One,
        call_threshold: 1024,
        ..LINK
    };
    assert_eq!(
        way(
            &CallSpec {
                length: 1024 - 28,
                ..SHORT
            },
            &one
        ),
        TransferMethod::Inline
    );
    assert_eq!(
        way(
            &CallSpec {
                length: 1024 - 27,
                ..SHORT
            },
            &one
        ),
        TransferMethod::Long
    );
}

/// As few Read chunks as make the rest fit: the largest first.
// spec: rfc8166-3.4.2-b, rfc8166-3.5.3-a
#[test]
fn minimum_number_of_items_is_reduced() {
    let items = [item(40, 2000), item(2048, 9000), item(12000, 3000)];
    let call_ = CallSpec {
        length: 14200,
        items: &items,
        ..SHORT
    };
    assert_eq!(way(&call_, &LINK), TransferMethod::Reduced(0b110));
    assert_eq!(
        way(
            &CallSpec {
                length: 15100,
                ..call_
            },
            &LINK
        ),
        TransferMethod::Reduced(0b110)
    );
    assert_eq!(
        way(
            &CallSpec {
                length: 17000,
                ..call_
            },
            &LINK
        ),
        TransferMethod::Reduced(0b111)
    );
    assert_eq!(
        way(
            &CallSpec {
                length: 19000,
                ..call_
            },
            &LINK
        ),
        TransferMethod::Long
    );
    // A peer that takes one chunk gets one, or the whole call.
    let linux = PathLimits {
        max_read_chunks: 1,
        ..LINK
    };
    assert_eq!(way(&call_, &linux), TransferMethod::Long);
    assert_eq!(
        way(
            &CallSpec {
                length: 12000,
                ..call_
            },
            &linux
        ),
        TransferMethod::Reduced(0b010)
    );
}

/// It would make nothing shorter, and a Read segment without bytes is more than some peers can
/// take.
#[test]
fn empty_item_is_never_reduced() {
    let items = [item(100, 0), item(104, 3000), item(4000, 0)];
    for length in 4000..9000 {
        match way(
            &CallSpec {
                length,
                items: &items,
                ..SHORT
            },
            &LINK,
        ) {
            TransferMethod::Reduced(moved) => assert_eq!(moved, 0b010, "{length} bytes"),
            TransferMethod::Inline | TransferMethod::Long | TransferMethod::Grouped(_) => {}
        }
    }
}

/// RFC 8166, section 8.2.2.3: protected bytes can't be reduced.
// spec: rfc8166-8.2.2.3-b
#[test]
fn irreducible_call_is_sent_whole() {
    let call_ = CallSpec {
        length: 9000,
        items: &[item(100, 8000)],
        max_reply: 9000,
        results: &[ResultSpec::whole_call(8192)],
        reducible: false,
    };
    let travel = plan_call(&call_, &LINK).unwrap();
    assert_eq!(
        (travel.method, travel.write_chunks, travel.reply_chunk),
        (TransferMethod::Long, false, Some(9000))
    );
}

/// RFC 8166, section 4.3.3: a Reply chunk whenever the largest reply may not fit.
// spec: rfc8166-4.3.3-a
#[test]
fn chunks_are_offered_only_for_a_large_reply() {
    let of = |largest_reply, results: &[u32]| {
        let results: Vec<ResultSpec> = results
            .iter()
            .copied()
            .map(ResultSpec::whole_call)
            .collect();
        let travel = plan_call(
            &CallSpec {
                max_reply: largest_reply,
                results: &results,
                ..SHORT
            },
            &LINK,
        )
        .unwrap();
        (travel.write_chunks, travel.reply_chunk, travel.header)
    };
    assert_eq!(of(4096 - 32, &[]), (false, None, 32));
    assert_eq!(of(4096 - 31, &[]), (false, Some(4065), 32 + 20));
    assert_eq!(
        of(4096 - 32, &[3000]),
        (false, None, 32),
        "what fits inline needs no Write chunk"
    );
    assert_eq!(of(65736, &[65536]), (true, None, 32 + 24), "a READ");
    assert_eq!(
        of(80000, &[65536]),
        (true, Some(14464), 32 + 24 + 20),
        "and what else may be long"
    );
    let three = 3 << 20;
    assert_eq!(
        of(three + 200, &[three]),
        (true, None, 32 + 8 + 3 * 16),
        "of several segments"
    );
}

/// bidirection-04, section 5.3.
#[test]
fn without_chunks_a_large_call_has_no_method() {
    let inline = PathLimits {
        chunks: false,
        ..LINK
    };
    assert_eq!(way(&SHORT, &inline), TransferMethod::Inline);
    let long = CallSpec {
        length: 5000,
        items: &[item(100, 4000)],
        ..SHORT
    };
    assert_eq!(plan_call(&long, &inline), Err(TransferError::CallTooLong));
    assert_eq!(
        plan_call(
            &CallSpec {
                max_reply: 5000,
                ..SHORT
            },
            &inline
        ),
        Err(TransferError::ReplyTooLong)
    );
    let tiny = PathLimits {
        max_segment_len: 16,
        ..LINK
    };
    assert_eq!(
        plan_call(
            &CallSpec {
                length: 1 << 20,
                ..SHORT
            },
            &tiny
        ),
        Err(TransferError::TooManySegments)
    );
}

fn calls() -> impl Strategy<
    Value = (
        u32,
        Vec<DataItem>,
        u32,
        Vec<ResultSpec>,
        bool,
        PathLimits<'static>,
    ),
> {
    let items = proptest::collection::vec((0u32..4000, 0u32..9000), 0..5);
    let results = proptest::collection::vec((0u32..9000).prop_map(ResultSpec::whole_call), 0..4);
    let link = (
        any::<bool>(),
        1024u32..8192,
        1024u32..8192,
        any::<bool>(),
        0u32..5,
        1u32..4000,
    );
    (items, 0u32..4000, results, 0u32..6000, any::<bool>(), link).prop_map(
        |(
            items,
            tail,
            results,
            more,
            reducible,
            (two, call_threshold, reply_threshold, chunks, read_chunks, segment),
        )| {
            let (mut end, mut placed) = (24, Vec::new());
            for (gap, length) in items {
                let position = (end + gap).next_multiple_of(4);
                placed.push(DataItem { position, length });
                end = position + length.next_multiple_of(4);
            }
            let largest = results
                .iter()
                .map(|result: &ResultSpec| result.max_length.next_multiple_of(4))
                .sum::<u32>()
                + more / 4 * 4;
            let version = if two { Version::Two } else { Version::One };
            let link = PathLimits {
                version,
                call_threshold,
                reply_threshold,
                chunks,
                max_read_chunks: read_chunks,
                max_segment_len: segment,
                groups: None,
                available_credits: 1,
            };
            (
                (end + tail).next_multiple_of(4),
                placed,
                largest,
                results,
                reducible,
                link,
            )
        },
    )
}

proptest! {
    /// Each chosen plan obeys the limits of both ends, and is the cheapest that does.
    #[test]
    fn chosen_plan_fits_and_is_the_cheapest(
        (length, items, max_reply, results, reducible, link) in calls(),
    ) {
        let call_ = CallSpec { length, items: &items, max_reply, results: &results, reducible };
        let Ok(travel) = plan_call(&call_, &link) else {
            prop_assert!(!link.chunks || link.max_segment_len < 2000, "with chunks of some size \
                there is a way");
            return Ok(());
        };
        let inline = |moved: u64| {
            let moved = items.iter().enumerate().filter(|(at, _)| moved >> at & 1 == 1);
            u64::from(length) - moved.map(|(_, item)| u64::from(item.length.next_multiple_of(4))).sum::<u64>()
        };
        let (header, threshold) = (u64::from(travel.header), u64::from(link.call_threshold));
        match travel.method {
            TransferMethod::Inline => prop_assert!(header + inline(0) <= threshold),
            TransferMethod::Reduced(moved) => {
                prop_assert!(reducible && header + inline(moved) <= threshold);
                prop_assert!(moved.count_ones() <= link.max_read_chunks);
                // Not with one item fewer.
                let smallest = items.iter().enumerate().filter(|(at, _)| moved >> at & 1 == 1).min_by_key(|(_, item)| item.length);
                let (at, item) = smallest.unwrap();
                prop_assert!(header - link.read_chunk(item.length) + inline(moved & !(1 << at)) > threshold);
            }
            TransferMethod::Long => prop_assert!(header <= threshold),
            TransferMethod::Grouped(_) => prop_assert!(false, "there are no groups"),
        }
        prop_assert!(link.chunks || (travel.method == TransferMethod::Inline && !travel.write_chunks && travel.reply_chunk.is_none()));
        // The largest reply fits, one way or the other.
        let moved: u64 = if travel.write_chunks { results.iter().map(|result| u64::from(result.max_length.next_multiple_of(4))).sum() } else { 0 };
        let rest = u64::from(max_reply) - moved;
        match travel.reply_chunk {
            Some(bytes) => prop_assert_eq!(u64::from(bytes), rest),
            None => {
                let returned: u64 = if travel.write_chunks { results.iter().map(|result| link.write_chunk(result.max_length)).sum() } else { 0 };
                prop_assert!(link.base() + returned + rest <= u64::from(link.reply_threshold));
            }
        }
    }
}

#[test]
fn transfer_plan_has_a_description() {
    let data = [DataItem {
        position: 100,
        length: 8000,
    }];
    let write = CallSpec {
        length: 8100,
        items: &data,
        ..SHORT
    };
    assert_eq!(
        std::format!("{}", plan_call(&write, &LINK).unwrap()),
        "items in Read chunks: 1, as the rest fits; the reply inline, as the largest fits"
    );
    let read = CallSpec {
        max_reply: 9000,
        results: &[ResultSpec::whole_call(8192)],
        ..SHORT
    };
    assert_eq!(
        std::format!("{}", plan_call(&read, &LINK).unwrap()),
        "inline, as it fits; results in Write chunks, as the rest of the largest reply fits"
    );
}

/// A long reply may have a header that fills its Send.
#[test]
fn the_header_of_a_long_reply_may_fill_its_send() {
    for (threshold, planned) in [(100, Ok(true)), (99, Err(TransferError::TooManySegments))] {
        let plan = plan_reply(&ReplySpec {
            length: 5_000,
            results: &[],
            write_chunks: &[],
            reply_chunk: Some(5_000),
            header: 100,
            threshold,
        });
        assert_eq!(plan.map(|plan| plan.long), planned);
    }
}

/// An RDMA Read of an item or of the whole call costs a round trip.
#[test]
fn rdma_read_costs_a_round_trip() {
    let items = [item(100, 8000)];
    let long = CallSpec {
        length: 9_000,
        ..SHORT
    };
    let reduced = CallSpec {
        length: 8_100,
        items: &items,
        ..SHORT
    };
    for (call_, round_trips) in [(SHORT, 1), (long, 2), (reduced, 2)] {
        let plan = plan_call(&call_, &LINK).unwrap();
        assert_eq!(Cost::of(&call_, &plan).round_trips, round_trips);
    }
}
