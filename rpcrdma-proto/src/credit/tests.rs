use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// RFC 8166, section 3.3.3: one message until the first reply that is no error.
// spec: v2-5-b
#[test]
fn one_message_until_the_first_reply() {
    let mut credits = Requester::new(128);
    let first = credits.call().unwrap();
    assert!(credits.call().is_none() && !credits.one_way());
    credits.replied(first, None);
    assert_eq!((credits.granted(), credits.available()), (1, 1), "an error grants nothing");
    let second = credits.call().unwrap();
    credits.replied(second, Some(3));
    let taken: Vec<_> = core::iter::from_fn(|| credits.call()).collect();
    assert_eq!((taken.len(), credits.used(), credits.available()), (3, 3, 0));
}

#[test]
fn grants_rise_and_fall_and_zero_is_one() {
    let mut credits = Requester::new(0);
    assert_eq!(credits.wanted(), 1);
    credits.want(9);
    assert_eq!(credits.wanted(), 9);
    let first = credits.call().unwrap();
    credits.replied(first, Some(4));
    let taken: Vec<_> = core::iter::from_fn(|| credits.call()).collect();
    credits.replied(taken[0], Some(2));
    assert_eq!((credits.used(), credits.available()), (3, 0), "more under way than granted now");
    credits.replied(taken[1], None);
    credits.replied(taken[2], Some(0));
    assert_eq!((credits.granted(), credits.used(), credits.available()), (1, 1, 0));
    credits.replied(taken[3], Some(u32::MAX));
    assert_eq!(credits.available(), u32::MAX);
}

/// Decision D9: a one-way message's credit comes back with the reply to a call sent after it, and to no other.
#[test]
fn one_way_messages_wait_for_a_later_call() {
    let mut credits = Requester::new(8);
    let first = credits.call().unwrap();
    credits.replied(first, Some(4));
    let before = credits.call().unwrap();
    assert!(credits.one_way() && credits.one_way());
    assert!(!credits.one_way(), "the last credit is a call's");
    credits.replied(before, Some(5));
    assert_eq!(credits.used(), 2, "a reply to an earlier call says nothing of them");
    let after = credits.call().unwrap();
    assert!(credits.one_way());
    assert_eq!(credits.available(), 1);
    credits.replied(after, Some(5));
    assert_eq!(credits.used(), 1, "the one sent after that call");
}

#[test]
fn a_grant_below_the_one_way_messages_stops_no_call() {
    let mut credits = Requester::new(8);
    let first = credits.call().unwrap();
    credits.replied(first, Some(8));
    let before = credits.call().unwrap();
    assert!(credits.one_way() && credits.one_way() && credits.one_way());
    credits.replied(before, Some(1));
    assert_eq!((credits.used(), credits.available()), (3, 0));
    let only = credits.call().unwrap();
    assert!(credits.call().is_none());
    credits.replied(only, Some(1));
    assert_eq!((credits.used(), credits.available()), (0, 1));
}

#[test]
fn grants_are_what_is_asked_for_up_to_a_limit() {
    let mut credits = Responder::new(16, 3);
    assert_eq!(credits.receives(), 4, "for one call, and what takes no credit");
    credits.received().unwrap();
    assert_eq!(credits.receives(), 19, "before the reply can grant as many");
    credits.dropped();
    for (wanted, granted) in [(0, 1), (1, 1), (8, 8), (16, 16), (17, 16), (u32::MAX, 16)] {
        credits.received().unwrap();
        assert_eq!(credits.reply(wanted), granted);
    }
    credits.grant_up_to(4);
    credits.received().unwrap();
    assert_eq!(credits.reply(32), 4);
    // Calls that were sent before the peer knew of it still find receives.
    assert_eq!(credits.receives(), 19);
    credits.grant_up_to(64);
    assert_eq!(credits.receives(), 67);
    assert_eq!(Responder::new(0, 0).receives(), 1);
}

#[test]
fn overruns_are_told() {
    let mut credits = Responder::new(2, 0);
    assert_eq!(credits.received(), Ok(()));
    assert_eq!(credits.received(), Err(Overrun), "one message until the first reply");
    assert_eq!((credits.reply(9), credits.pending()), (2, 1));
    credits.dropped();
    assert_eq!(credits.pending(), 0);
    assert_eq!((credits.received(), credits.received(), credits.received()), (Ok(()), Ok(()), Err(Overrun)));
}

/// What happens to two ends of a link.
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
    /// The rule of all credits: whatever is sent finds a receive, in every order of events, and nobody is stuck.
    #[test]
    fn whatever_is_sent_finds_a_receive(events in proptest::collection::vec(events(), 0..200)) {
        // One receive beyond the grants, as decision D9 has it: for a one-way message where one message is granted.
        let (mut requester, mut responder) = (Requester::new(10), Responder::new(6, 1));
        // Calls on their way or being processed, with one-way messages among them; replies on their way.
        let (mut under_way, mut one_way, mut heard) = (Vec::new(), 0u32, Vec::new());
        for event in events {
            match event {
                Event::Call => if let Some(credit) = requester.call() {
                    under_way.push(credit);
                    prop_assert_eq!(responder.received(), Ok(()));
                },
                Event::OneWay => one_way += u32::from(requester.one_way()),
                Event::Answer(wanted) if !under_way.is_empty() => {
                    let credit = under_way.remove(0);
                    let grant = match wanted {
                        Some(wanted) => Some(responder.reply(wanted)),
                        None => { responder.dropped(); None }
                    };
                    // A receive of a one-way message is posted again at once.
                    one_way = 0;
                    heard.push((credit, grant));
                }
                Event::Hear if !heard.is_empty() => {
                    let (credit, grant) = heard.remove(0);
                    requester.replied(credit, grant);
                }
                Event::Most(most) => responder.grant_up_to(most),
                Event::Answer(_) | Event::Hear => {}
            }
            let in_receives = under_way.len() as u32 + one_way;
            prop_assert!(in_receives <= responder.receives(), "{} of {}", in_receives, responder.receives());
        }
        for credit in under_way {
            heard.push((credit, Some(responder.reply(10))));
        }
        for (credit, grant) in heard {
            requester.replied(credit, grant);
        }
        prop_assert!(requester.call().is_some(), "with no call under way, one can be sent");
    }
}
