use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// RFC 8166, section 3.3.3: one message until the first reply that is no error.
// spec: v2-5-b
// spec: rfc8166-3.3.3-a
#[test]
fn one_message_in_flight_until_the_first_reply() {
    let mut credits = RequesterCredits::new(128);
    let first = credits.take_call().unwrap();
    assert!(credits.take_call().is_none() && !credits.take_one_way());
    credits.on_reply(first, None);
    assert_eq!(
        (credits.granted(), credits.available()),
        (1, 1),
        "an error grants nothing"
    );
    let second = credits.take_call().unwrap();
    credits.on_reply(second, Some(3));
    let taken: Vec<_> = core::iter::from_fn(|| credits.take_call()).collect();
    assert_eq!(
        (taken.len(), credits.used(), credits.available()),
        (3, 3, 0)
    );
}

// spec: rfc8166-3.3.1-a
#[test]
fn grants_rise_and_fall_and_zero_is_one() {
    let mut credits = RequesterCredits::new(0);
    assert_eq!(credits.requested(), 1);
    credits.set_requested(9);
    assert_eq!(credits.requested(), 9);
    let first = credits.take_call().unwrap();
    credits.on_reply(first, Some(4));
    let taken: Vec<_> = core::iter::from_fn(|| credits.take_call()).collect();
    credits.on_reply(taken[0], Some(2));
    assert_eq!(
        (credits.used(), credits.available()),
        (3, 0),
        "more in flight than granted now"
    );
    credits.on_reply(taken[1], None);
    credits.on_reply(taken[2], Some(0));
    assert_eq!(
        (credits.granted(), credits.used(), credits.available()),
        (1, 1, 0)
    );
    credits.on_reply(taken[3], Some(u32::MAX));
    assert_eq!(credits.available(), u32::MAX);
}

/// Decision D9: only the reply to a later call returns the credit of a one-way message.
#[test]
fn one_way_messages_wait_for_a_later_call() {
    let mut credits = RequesterCredits::new(8);
    let first = credits.take_call().unwrap();
    credits.on_reply(first, Some(4));
    let before = credits.take_call().unwrap();
    assert!(credits.take_one_way() && credits.take_one_way());
    assert!(!credits.take_one_way(), "the last credit is a call's");
    credits.on_reply(before, Some(5));
    assert_eq!(
        credits.used(),
        2,
        "a reply to an earlier call says nothing of them"
    );
    let after = credits.take_call().unwrap();
    assert!(credits.take_one_way());
    assert_eq!(credits.available(), 1);
    credits.on_reply(after, Some(5));
    assert_eq!(credits.used(), 1, "the one sent after that call");
}

#[test]
fn a_grant_below_the_one_way_messages_stops_no_call() {
    let mut credits = RequesterCredits::new(8);
    let first = credits.take_call().unwrap();
    credits.on_reply(first, Some(8));
    let before = credits.take_call().unwrap();
    assert!(credits.take_one_way() && credits.take_one_way() && credits.take_one_way());
    credits.on_reply(before, Some(1));
    assert_eq!((credits.used(), credits.available()), (3, 0));
    let only = credits.take_call().unwrap();
    assert!(credits.take_call().is_none());
    credits.on_reply(only, Some(1));
    assert_eq!((credits.used(), credits.available()), (0, 1));
}

// spec: rfc8166-3.3.1-b, rfc8166-3.3.1-c
#[test]
fn grant_is_the_request_up_to_a_limit() {
    let mut credits = ResponderCredits::new(16, 3);
    assert_eq!(
        credits.receives(),
        4,
        "for one call, and what takes no credit"
    );
    credits.on_call().unwrap();
    assert_eq!(credits.receives(), 19, "before the reply can grant as many");
    credits.on_dropped();
    for (wanted, granted) in [(0, 1), (1, 1), (8, 8), (16, 16), (17, 16), (u32::MAX, 16)] {
        credits.on_call().unwrap();
        assert_eq!(credits.grant_with_reply(wanted), granted);
    }
    credits.grant_up_to(4);
    credits.on_call().unwrap();
    assert_eq!(credits.grant_with_reply(32), 4);
    // Calls that were sent before the peer knew of it still find receives.
    assert_eq!(credits.receives(), 19);
    credits.grant_up_to(64);
    assert_eq!(credits.receives(), 67);
    assert_eq!(ResponderCredits::new(0, 0).receives(), 1);
}

#[test]
fn credit_overruns_are_reported() {
    let mut credits = ResponderCredits::new(2, 0);
    assert_eq!(credits.on_call(), Ok(()));
    assert_eq!(
        credits.on_call(),
        Err(CreditOverrun),
        "one message until the first reply"
    );
    assert_eq!((credits.grant_with_reply(9), credits.pending()), (2, 1));
    credits.on_dropped();
    assert_eq!(credits.pending(), 0);
    assert_eq!(
        (credits.on_call(), credits.on_call(), credits.on_call()),
        (Ok(()), Ok(()), Err(CreditOverrun))
    );
}

/// The events of two ends of a link.
#[derive(Clone, Copy, Debug)]
enum Event {
    Call,
    OneWay,
    /// The responder answers, by a grant or an error.
    Answer(Option<u32>),
    /// The requester hears the oldest answer.
    Hear,
    Most(u32),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Call),
        1 => Just(Event::OneWay),
        3 => proptest::option::weighted(0.9, 0u32..12).prop_map(Event::Answer),
        3 => Just(Event::Hear),
        1 => (0u32..12).prop_map(Event::Most),
    ]
}

proptest! {
    /// The invariant of credits: every message finds a receive, in every order of events, and no
    /// end blocks for ever.
    #[test]
    fn every_message_finds_a_receive(events in proptest::collection::vec(events(), 0..200)) {
        // One receive beyond the grants, as decision D9 has it: for a one-way message where one
        // message is granted.
        let (mut requester, mut responder) = (RequesterCredits::new(10), ResponderCredits::new(6, 1));
        // Calls on their way or being processed, with one-way messages among them; replies on their
        // way.
        let (mut under_way, mut one_way, mut heard) = (Vec::new(), 0u32, Vec::new());
        for event in events {
            match event {
                Event::Call => if let Some(credit) = requester.take_call() {
                    under_way.push(credit);
                    prop_assert_eq!(responder.on_call(), Ok(()));
                },
                Event::OneWay => one_way += u32::from(requester.take_one_way()),
                Event::Answer(wanted) if !under_way.is_empty() => {
                    let credit = under_way.remove(0);
                    let grant = match wanted {
                        Some(wanted) => Some(responder.grant_with_reply(wanted)),
                        None => { responder.on_dropped(); None }
                    };
                    // A receive of a one-way message is posted again at once.
                    one_way = 0;
                    heard.push((credit, grant));
                }
                Event::Hear if !heard.is_empty() => {
                    let (credit, grant) = heard.remove(0);
                    requester.on_reply(credit, grant);
                }
                Event::Most(most) => responder.grant_up_to(most),
                Event::Answer(_) | Event::Hear => {}
            }
            let in_receives = under_way.len() as u32 + one_way;
            prop_assert!(in_receives <= responder.receives(), "{} of {}", in_receives, responder.receives());
        }
        for credit in under_way {
            heard.push((credit, Some(responder.grant_with_reply(10))));
        }
        for (credit, grant) in heard {
            requester.on_reply(credit, grant);
        }
        prop_assert!(requester.take_call().is_some(), "with no call in flight, one can be sent");
    }
}

/// A receive is posted for the answer to each message of any kind.
// spec: bd-4.3.1-b, bd-4.3.2-c
#[test]
fn receives_are_counted_for_each_kind_of_message() {
    let granted = || {
        let mut credits = RequesterCredits::new(8);
        let first = credits.take_call().unwrap();
        credits.on_reply(first, Some(8));
        credits
    };
    let mut credits = granted();
    credits.on_first_sent();
    credits.on_first_sent();
    assert_eq!(credits.receives(), 2);
    let mut credits = granted();
    assert!(credits.take_one_way() && credits.take_one_way());
    assert_eq!(credits.receives(), 2);
    let mut credits = granted();
    let group = credits.take_group(3).unwrap();
    assert_eq!((credits.receives(), group.messages()), (3, 3));
}

/// The receives of a grant that the peer has seen stay posted after later grants.
// spec: rfc8166-3.3.1-d
#[test]
fn a_grant_has_its_receives() {
    let mut credits = ResponderCredits::new(16, 2);
    assert_eq!(credits.grant_with_reply(8), 8);
    assert_eq!(credits.receives(), 10);
    credits.grant_up_to(4);
    assert_eq!(credits.receives(), 10);
}
