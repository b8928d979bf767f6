use super::*;
use std::{format, string::String};

const EVENTS: [NegotiationEvent; 6] = [
    NegotiationEvent::Sent,
    NegotiationEvent::Answered,
    NegotiationEvent::UnknownOperation,
    NegotiationEvent::VersionOneOnly,
    NegotiationEvent::NoCommonVersion,
    NegotiationEvent::Lost,
];

/// All transitions that do something, as the table of the documentation.
fn table() -> String {
    let mut text = String::from("| state | event | becomes | and |\n|---|---|---|---|\n");
    for state in Negotiation::ALL {
        for event in EVENTS {
            let (next, action) = state.next(event);
            if (next, action) != (state, NegotiationAction::Nothing) {
                let action = if action == NegotiationAction::Nothing {
                    String::new()
                } else {
                    format!(" `{action:?}`")
                };
                text += &format!("| `{state:?}` | `{event:?}` | `{next:?}` |{action} |\n");
            }
        }
    }
    text
}

/// The table of the documentation is that of the code.
#[test]
fn the_table_is_that_of_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/state-machines.md");
    crate::testing::check_table(page, "negotiation", &table());
}

/// version-two-01, section 5.1.
// spec: v2-5.1-a
#[test]
fn version_two_responder_is_negotiated() {
    let state = Negotiation::new(Version::Two, false);
    assert_eq!(
        (state.version(), state.is_settled()),
        (Some(Version::Two), false)
    );
    let (state, _) = state.next(NegotiationEvent::Sent);
    assert_eq!(
        (state.version(), state.is_settled()),
        (Some(Version::Two), false)
    );
    for proof in [
        NegotiationEvent::Answered,
        NegotiationEvent::UnknownOperation,
    ] {
        let (state, action) = state.next(proof);
        assert_eq!(
            (state, action),
            (Negotiation::Two, NegotiationAction::Nothing)
        );
        assert_eq!(
            (state.version(), state.is_settled()),
            (Some(Version::Two), true)
        );
    }
}

/// version-two-01, section 5.2.
// spec: v2-5.2-b, v2-5.2-c
#[test]
fn version_one_responder_is_negotiated() {
    let (asked, _) = Negotiation::new(Version::Two, false).next(NegotiationEvent::Sent);
    let (state, action) = asked.next(NegotiationEvent::from_range(1, 1));
    assert_eq!(
        (state, action),
        (Negotiation::Rejected, NegotiationAction::SendAgain)
    );
    assert_eq!(
        (state.version(), state.is_settled()),
        (Some(Version::One), true)
    );
    for (low, high) in [(0, 1), (1, 2), (0, u32::MAX)] {
        assert_eq!(
            asked.next(NegotiationEvent::from_range(low, high)),
            (Negotiation::Rejected, NegotiationAction::SendAgain),
            "{low} to {high}"
        );
    }
    for (low, high) in [(2, 2), (2, 1), (0, 0), (3, 9)] {
        assert_eq!(
            asked.next(NegotiationEvent::from_range(low, high)),
            (Negotiation::Failed, NegotiationAction::Close),
            "{low} to {high}"
        );
    }
    assert_eq!(Negotiation::Failed.version(), None);
}

// spec: v2-5.2-d, v2-5.2-e
#[test]
fn silent_peer_is_remembered_for_a_while() {
    let (asked, _) = Negotiation::new(Version::Two, false).next(NegotiationEvent::Sent);
    let (rejected, _) = asked.next(NegotiationEvent::VersionOneOnly);
    for state in [asked, rejected] {
        assert_eq!(
            state.next(NegotiationEvent::Lost),
            (Negotiation::Failed, NegotiationAction::Remember)
        );
    }
    let mut memory = VersionCache::new();
    assert!(!memory.is_remembered(0));
    memory.remember(1_000, 60_000_000);
    assert!(
        memory.is_remembered(1_000)
            && memory.is_remembered(60_000_999)
            && !memory.is_remembered(60_001_000)
    );
    assert_eq!(
        Negotiation::new(Version::Two, memory.is_remembered(5_000)),
        Negotiation::One
    );
    assert_eq!(Negotiation::new(Version::One, false), Negotiation::One);
    memory.remember(u64::MAX, 9);
    assert!(
        !memory.is_remembered(u64::MAX),
        "the end of time is no time"
    );
}

/// No late or wrong message changes a negotiated version. A peer that rejects the version that it
/// has offered leaves none.
#[test]
fn negotiated_version_is_fixed() {
    for state in [Negotiation::One, Negotiation::Two, Negotiation::Failed] {
        for event in EVENTS {
            assert_eq!(state.next(event), (state, NegotiationAction::Nothing));
        }
    }
    for event in EVENTS {
        let (next, _) = Negotiation::Rejected.next(event);
        let lasts = !matches!(
            event,
            NegotiationEvent::NoCommonVersion | NegotiationEvent::Lost
        );
        assert_eq!(next == Negotiation::Rejected, lasts, "{event:?}");
    }
}
