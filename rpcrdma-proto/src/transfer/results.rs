//! Results that may be reduced: the specification of a call, and the match of a reply's results
//! with the directions of the call (rtrext-02, section 7.4).
//!
//! The requester selects directions by `directed`, and the responder matches them by
//! `DirectionMatch::of`. Both count the results of a span in order, or a result takes the direction
//! of another one. `of` relies on ordered spans, which `in_order` and the reassembly check.

use super::cost::chosen;
use super::{DataItem, MAX_RESULTS};

/// A range of a call that has its own results, such as one operation of a COMPOUND (rtrext-02,
/// section 7.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// Where they begin, in bytes from the call's beginning, with everything in place.
    pub begin: u32,
    /// Where they have ended: the first byte that is none of them.
    pub end: u32,
}

impl Span {
    /// The whole of a call of any length.
    pub const CALL: Self = Self {
        begin: 0,
        end: u32::MAX,
    };

    /// Returns whether a position is in the span.
    #[must_use]
    pub const fn contains(self, position: u32) -> bool {
        self.begin <= position && position < self.end
    }

    /// Returns whether no byte of a call of `length` bytes is in the span.
    pub(super) const fn is_beyond(self, length: u32) -> bool {
        self.begin >= self.end || self.begin >= length
    }

    /// Returns whether all bytes of a call of `length` bytes are in the span.
    const fn is_all(self, length: u32) -> bool {
        self.begin == 0 && self.end >= length
    }
}

/// A result that a call expects, and that may be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ResultSpec {
    /// The maximum length in bytes.
    pub max_length: u32,
    /// The part of the call that it answers. The spans of a call's results are in order and do not
    /// overlap.
    pub of: Span,
}

impl ResultSpec {
    /// Creates a result of at most `most` bytes that answers any part of the call.
    #[must_use]
    pub const fn whole_call(most: u32) -> Self {
        Self {
            max_length: most,
            of: Span::CALL,
        }
    }
}

/// Returns whether the spans of results are in order and do not overlap.
// spec: rtr-7.4-aa
#[cfg(feature = "alloc")]
pub(crate) fn in_order(results: &[ResultSpec]) -> bool {
    let follows =
        |one: &ResultSpec, next: &ResultSpec| one.of == next.of || one.of.end <= next.of.begin;
    results.iter().all(|one| one.of.begin <= one.of.end) && results.is_sorted_by(follows)
}

/// Returns the results that need a direction if these are worth one. A direction applies to the
/// next result of its span. So earlier results of the span are directed to stay in the message.
// spec: rtr-7.4-y
pub(super) fn directed(results: &[ResultSpec], worth: u64) -> u64 {
    let mut last: Option<Span> = None;
    let directed = |(at, result): (usize, &ResultSpec)| {
        if worth >> at & 1 == 1 {
            last = Some(result.of);
        }
        u64::from(last == Some(result.of)) << at
    };
    results
        .iter()
        .take(64)
        .enumerate()
        .rev()
        .map(directed)
        .sum()
}

/// Returns the number of sets of directions: one for each span.
pub(crate) fn sets(results: &[ResultSpec], directed: impl Into<u64>) -> u32 {
    let mut before = None;
    let begins = |result: &&ResultSpec| before.replace(result.of) != Some(result.of);
    chosen(results, directed)
        .filter(begins)
        .fold(0, |sets, _| sets + 1)
}

/// A result of a reply that may be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultItem {
    /// Its location in the reply.
    pub item: DataItem,
    /// The offset in bytes of the part of the call that it answers. If it is `None`, only
    /// directions for the whole call apply.
    pub answers: Option<u32>,
}

impl From<DataItem> for ResultItem {
    fn from(item: DataItem) -> Self {
        Self {
            item,
            answers: None,
        }
    }
}

/// The direction of a request about one result of its reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ResultDirection {
    /// The part of the request whose results it concerns.
    pub of: Span,
    /// Results shorter than this stay in the message.
    pub min_length: u32,
    /// Bytes of the memory that it offers; none where there is none.
    pub memory: Option<u32>,
    /// Whether the reply's Sends may place the result.
    pub send: bool,
    /// The size from which on it is written, where it may be either.
    pub by_size: Option<u32>,
    /// Segments of its memory, all of which are returned if it is used.
    pub segments: u32,
}

/// The direction that each result of a reply takes. Directions are taken in order, each at most
/// once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectionMatch([u8; MAX_RESULTS]);

/// No direction.
const NONE: u8 = u8::MAX;

impl DirectionMatch {
    /// The first result takes the first direction, and so on: as with Write chunks.
    pub const IN_ORDER: Self = Self([0, 1, 2, 3, 4, 5, 6, 7]);

    /// Matches the results of the reply to a call of `length` bytes with directions. Each result
    /// takes the next direction for its part of the call, if there is one.
    // spec: rtr-3.4-b, rtr-7.4-r, rtr-7.4-s, rtr-7.4-v, rtr-7.4-y
    #[must_use]
    pub fn of(results: &[ResultItem], directions: &[ResultDirection], length: u32) -> Self {
        let mut matched = [NONE; MAX_RESULTS];
        let mut left = directions.iter().zip(0u8..NONE);
        for (place, result) in matched.iter_mut().zip(results) {
            let concerns = |(direction, _): &(&ResultDirection, u8)| {
                direction.of.is_all(length)
                    || result
                        .answers
                        .is_some_and(|position| direction.of.contains(position))
            };
            // Earlier directions apply to no later result, since both are in order.
            if let Some((_, number)) = left.clone().find(concerns) {
                *place = number;
                left.by_ref().find(|(_, passed)| *passed == number);
            }
        }
        Self(matched)
    }

    /// Returns the number of the direction of a result.
    #[must_use]
    pub fn direction(&self, result: usize) -> Option<usize> {
        self.0
            .get(result)
            .filter(|number| **number != NONE)
            .map(|number| usize::from(*number))
    }

    /// Returns the number of the result that has a direction.
    #[must_use]
    pub fn result(&self, direction: usize) -> Option<usize> {
        self.0
            .iter()
            .position(|number| *number != NONE && usize::from(*number) == direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const FIRST: Span = Span { begin: 40, end: 60 };
    const SECOND: Span = Span { begin: 60, end: 80 };
    const LATER: Span = Span {
        begin: 100,
        end: 120,
    };

    fn matched(of: &[Span], asked: &[Option<u32>]) -> Vec<Option<usize>> {
        let direction = |of: &Span| ResultDirection {
            of: *of,
            min_length: 0,
            memory: None,
            send: true,
            by_size: None,
            segments: 0,
        };
        let directions: Vec<ResultDirection> = of.iter().map(direction).collect();
        let item = DataItem {
            position: 100,
            length: 10,
        };
        let results: Vec<ResultItem> = asked
            .iter()
            .map(|asked| ResultItem {
                item,
                answers: *asked,
            })
            .collect();
        let found = DirectionMatch::of(&results, &directions, 120);
        let back = |direction: usize| found.result(direction);
        let directions: Vec<Option<usize>> = (0..asked.len())
            .map(|result| found.direction(result))
            .collect();
        for (result, direction) in directions
            .iter()
            .enumerate()
            .filter_map(|(at, one)| one.map(|one| (at, one)))
        {
            assert_eq!(back(direction), Some(result));
        }
        directions
    }

    /// A result takes the next direction of its own operation only.
    // spec: rtr-3.4-b, rtr-7.4-r, rtr-7.4-s, rtr-7.4-v, rtr-7.4-y
    #[test]
    fn result_takes_the_next_direction_of_its_span() {
        let all = [FIRST, SECOND, SECOND, LATER];
        type Case<'a> = (&'a [Option<u32>], &'a [Option<usize>]);
        let cases: [Case<'_>; 8] = [
            (
                &[Some(40), Some(60), Some(79), Some(100)],
                &[Some(0), Some(1), Some(2), Some(3)],
            ),
            // The first operation has had no result, and the second only one.
            (&[Some(60), Some(119)], &[Some(1), Some(3)]),
            // One has more than were expected.
            (&[Some(59), Some(59), Some(60)], &[Some(0), None, Some(1)]),
            // Before, between and behind them.
            (&[Some(39), Some(80), Some(120)], &[None, None, None]),
            // A result of an earlier operation follows one of a later operation, which breaks the
            // order.
            (&[Some(100), Some(40)], &[Some(3), None]),
            // The operation of the result is unknown.
            (&[None, Some(60)], &[None, Some(1)]),
            (&[], &[]),
            (&[Some(u32::MAX)], &[None]),
        ];
        for (asked, expected) in cases {
            assert_eq!(matched(&all, asked), expected, "{asked:?}");
        }
    }

    /// Directions for the whole call concern every result, even one that answers its end: a
    /// procedure without arguments.
    #[test]
    fn whole_call_direction_matches_any_result() {
        let first = Span { begin: 0, end: 120 };
        for of in [Span::CALL, first] {
            assert_eq!(
                matched(&[of, of, of], &[None, Some(40), Some(120), None]),
                [Some(0), Some(1), Some(2), None]
            );
        }
    }

    /// With one span, a result of an unknown operation may belong to an operation without
    /// directions.
    #[test]
    fn single_span_does_not_match_results_of_unknown_operations() {
        let part = Span {
            begin: 40,
            end: 119,
        };
        assert_eq!(
            matched(&[part, part], &[None, Some(119), Some(40)]),
            [None, None, Some(0)]
        );
    }

    /// The maximum number of directions over several spans, and more results than are matched.
    #[test]
    fn directions_of_another_requester_are_matched() {
        let span = |at: usize| Span {
            begin: 40 + 4 * at as u32,
            end: 44 + 4 * at as u32,
        };
        let all: Vec<Span> = (0..16).map(|at| span(at / 2)).collect();
        let asked: Vec<Option<u32>> = (0..10).map(|at| Some(span(at).begin)).collect();
        let expected: Vec<Option<usize>> = (0..10)
            .map(|at| (at < MAX_RESULTS).then_some(2 * at))
            .collect();
        assert_eq!(matched(&all, &asked), expected);
        let empty = Span { begin: 44, end: 44 };
        assert_eq!(
            matched(&[empty, SECOND], &[Some(44), Some(60)]),
            [None, Some(1)]
        );
    }

    #[test]
    fn directions_outside_the_list_match_nothing() {
        for at in 0..MAX_RESULTS {
            assert_eq!(
                (
                    DirectionMatch::IN_ORDER.direction(at),
                    DirectionMatch::IN_ORDER.result(at)
                ),
                (Some(at), Some(at))
            );
        }
        assert_eq!(
            (
                DirectionMatch::IN_ORDER.direction(MAX_RESULTS),
                DirectionMatch::IN_ORDER.result(MAX_RESULTS)
            ),
            (None, None)
        );
        assert_eq!(
            DirectionMatch::of(&[], &[], 0).result(usize::from(NONE)),
            None
        );
    }

    /// Spans that overlap or go back are no directions.
    // spec: rtr-7.4-aa
    #[test]
    fn spans_are_in_order() {
        let wanted = |spans: &[Span]| {
            in_order(
                &spans
                    .iter()
                    .map(|of| ResultSpec {
                        max_length: 9,
                        of: *of,
                    })
                    .collect::<Vec<_>>(),
            )
        };
        assert!(wanted(&[]) && wanted(&[Span::CALL; 3]) && wanted(&[FIRST, FIRST, SECOND, LATER]));
        assert!(
            wanted(&[Span { begin: 40, end: 40 }, FIRST]),
            "one of no bytes"
        );
        assert!(!wanted(&[SECOND, FIRST]) && !wanted(&[FIRST, Span { begin: 59, end: 60 }]));
        assert!(!wanted(&[FIRST, Span::CALL]) && !wanted(&[Span::CALL, LATER]));
        assert!(!wanted(&[FIRST, SECOND, FIRST]) && !wanted(&[Span { begin: 60, end: 40 }]));
    }
}
