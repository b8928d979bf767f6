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
    table("turn", &Life::ALL, &Turn::ALL, Life::next)
}

fn of_service() -> String {
    table("step", &Service::ALL, &Step::ALL, Service::next)
}

fn of_connections() -> String {
    table("change", &Stage::ALL, &Change::ALL, Stage::next)
}

/// What the documentation shows is what the machines do.
#[test]
fn the_tables_are_those_of_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/architecture.md");
    // The published crate has no documentation folder beside it.
    let Ok(text) = std::fs::read_to_string(path) else { return };
    for table in [of_calls(), of_service(), of_connections()] {
        assert!(text.contains(&format!("\n\n{table}\n")), "docs/architecture.md should have this table:\n\n{table}");
    }
}

/// The lists are in the order of the declarations and leave out nothing between: the tables would lack rows without a word.
#[test]
fn the_lists_have_no_gaps() {
    assert!(Life::ALL.iter().enumerate().all(|(at, life)| *life as usize == at));
    assert!(Turn::ALL.iter().enumerate().all(|(at, turn)| *turn as usize == at));
    assert!(Service::ALL.iter().enumerate().all(|(at, service)| *service as usize == at));
    assert!(Step::ALL.iter().enumerate().all(|(at, step)| *step as usize == at));
    assert!(Stage::ALL.iter().enumerate().all(|(at, stage)| *stage as usize == at));
    assert!(Change::ALL.iter().enumerate().all(|(at, change)| *change as usize == at));
}

/// What has ended stays so, and every state leads to its end.
#[test]
fn every_life_can_end_and_no_end_goes_on() {
    assert!(Turn::ALL.iter().all(|turn| Life::Done.next(*turn).is_none()));
    assert!(Step::ALL.iter().all(|step| Service::Done.next(*step).is_none()));
    assert!(Change::ALL.iter().all(|change| Stage::Closed.next(*change).is_none()));
    assert!(Life::ALL.iter().all(|life| reaches(*life, Life::Done, &Turn::ALL, Life::next)));
    assert!(Service::ALL.iter().all(|service| reaches(*service, Service::Done, &Step::ALL, Service::next)));
    assert!(Stage::ALL.iter().all(|stage| reaches(*stage, Stage::Closed, &Change::ALL, Stage::next)));
}

/// Whether some events lead from one state to another: in fewer steps than there are states.
fn reaches<S: Copy + PartialEq, E: Copy>(from: S, to: S, events: &[E], next: fn(S, E) -> Option<S>) -> bool {
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

/// Nothing ends but by way of `Settling`, where its memory comes back: whatever is or was exposed or sent.
#[test]
fn no_call_ends_before_its_memory_is_settled() {
    for life in Life::ALL {
        for turn in Turn::ALL {
            if life.next(turn) == Some(Life::Done) {
                assert!(matches!(life, Life::Settling | Life::Orphaned), "{life:?} ends by {turn:?}");
            }
        }
    }
}
