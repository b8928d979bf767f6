use super::*;
use std::fmt::Debug;
use std::{format, string::String};

/// All transitions that there are, as a table of the documentation.
fn table<S: Copy + Debug, E: Copy + Debug>(
    event: &str,
    states: &[S],
    events: &[E],
    next: impl Fn(S, E) -> Option<S>,
) -> String {
    let mut text = format!("| state | {event} | becomes |\n|---|---|---|\n");
    for state in states {
        for event in events {
            if let Some(next) = next(*state, *event) {
                text += &format!("| `{state:?}` | `{event:?}` | `{next:?}` |\n");
            }
        }
    }
    text
}

fn of_calls() -> String {
    table(
        "event",
        &RequestState::ALL,
        &RequestEvent::ALL,
        RequestState::next,
    )
}

fn of_service() -> String {
    table(
        "event",
        &ServedState::ALL,
        &ServedEvent::ALL,
        ServedState::next,
    )
}

fn of_connections() -> String {
    table("event", &ConnState::ALL, &StateChange::ALL, ConnState::next)
}

/// The tables of the documentation are those of the code.
#[test]
fn the_tables_are_those_of_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/state-machines.md");
    for (name, table) in [
        ("requests", of_calls()),
        ("served", of_service()),
        ("connection", of_connections()),
    ] {
        crate::testing::check_table(page, name, &table);
    }
}

/// The lists are in the order of the declarations and leave out nothing between: the tables would
/// lack rows without a word.
#[test]
fn the_lists_have_no_gaps() {
    assert!(
        RequestState::ALL
            .iter()
            .enumerate()
            .all(|(at, state)| *state as usize == at)
    );
    assert!(
        RequestEvent::ALL
            .iter()
            .enumerate()
            .all(|(at, event)| *event as usize == at)
    );
    assert!(
        ServedState::ALL
            .iter()
            .enumerate()
            .all(|(at, state)| *state as usize == at)
    );
    assert!(
        ServedEvent::ALL
            .iter()
            .enumerate()
            .all(|(at, event)| *event as usize == at)
    );
    assert!(
        ConnState::ALL
            .iter()
            .enumerate()
            .all(|(at, state)| *state as usize == at)
    );
    assert!(
        StateChange::ALL
            .iter()
            .enumerate()
            .all(|(at, event)| *event as usize == at)
    );
}

/// A final state has no transition, and every state leads to one.
#[test]
fn every_state_reaches_a_final_state() {
    assert!(
        RequestEvent::ALL
            .iter()
            .all(|turn| RequestState::Done.next(*turn).is_none())
    );
    assert!(
        ServedEvent::ALL
            .iter()
            .all(|step| ServedState::Done.next(*step).is_none())
    );
    assert!(
        StateChange::ALL
            .iter()
            .all(|change| ConnState::Closed.next(*change).is_none())
    );
    assert!(RequestState::ALL.iter().all(|life| reaches(
        *life,
        RequestState::Done,
        &RequestEvent::ALL,
        RequestState::next
    )));
    assert!(ServedState::ALL.iter().all(|service| reaches(
        *service,
        ServedState::Done,
        &ServedEvent::ALL,
        ServedState::next
    )));
    assert!(ConnState::ALL.iter().all(|stage| reaches(
        *stage,
        ConnState::Closed,
        &StateChange::ALL,
        ConnState::next
    )));
}

/// Whether some events lead from one state to another: in fewer steps than there are states.
fn reaches<S: Copy + PartialEq, E: Copy>(
    from: S,
    to: S,
    events: &[E],
    next: fn(S, E) -> Option<S>,
) -> bool {
    let mut found = std::vec![from];
    let mut at = 0;
    while let Some(state) = found.get(at).copied() {
        at += 1;
        let further = events.iter().filter_map(|event| next(state, *event));
        let further: std::vec::Vec<S> = further.filter(|state| !found.contains(state)).collect();
        found.extend(further);
    }
    found.contains(&to)
}

/// Every call ends through `Settling`, where its memory is released.
#[test]
fn no_call_ends_before_its_memory_is_settled() {
    for life in RequestState::ALL {
        for turn in RequestEvent::ALL {
            if life.next(turn) == Some(RequestState::Done) {
                assert!(
                    matches!(life, RequestState::Settling | RequestState::Orphaned),
                    "{life:?} ends by {turn:?}"
                );
            }
        }
    }
}
