//! Tests of the checks in `requirements.rs`.

use super::citations::*;
use super::drafts::*;
use super::list::*;

fn requirement(id: &str, status: Status) -> Requirement {
    Requirement {
        id: id.to_owned(),
        section: "1".to_owned(),
        line: 1,
        level: "implied".to_owned(),
        lead: None,
        sentence: "It is so.".to_owned(),
        inferred: false,
        same_as: None,
        decision: None,
        status,
        reason: None,
    }
}

fn citation(id: &str, is_test: bool) -> Citation {
    Citation {
        id: id.to_owned(),
        place: "a.rs:1".to_owned(),
        is_test,
    }
}

#[test]
fn citations_are_found_in_comments() {
    let ids = |line| cited(line).collect::<Vec<_>>();
    assert_eq!(ids("// spec: v2-3.1-a"), ["v2-3.1-a"]);
    assert_eq!(
        ids("    /// spec: v2-3.1-a, rtr-6.2-ab"),
        ["v2-3.1-a", "rtr-6.2-ab"]
    );
    assert_eq!(ids("//! spec:bd-2-a,bd-2-b"), ["bd-2-a", "bd-2-b"]);
    assert_eq!(
        ids("let url = \"http://a\"; // spec: v2-3.1-a"),
        ["v2-3.1-a"]
    );
    assert!(ids("let spec: u32 = 1; // the spec: all of it").is_empty());
    // Words after an id become part of the id, so that no requirement has it.
    assert_eq!(ids("// spec: v2-3.1-a as printed"), ["v2-3.1-a as printed"]);
    assert_eq!(ids("// spec: v2-3.1-a,"), ["v2-3.1-a", ""]);
}

#[test]
fn tests_are_distinguished_from_code() {
    let source = "
// spec: v2-1-a
#[cfg(test)]
mod tests;
#[cfg(test)]
#[allow(unused)]
mod inner {
    fn one() {
    }
    // spec: v2-1-b
}
// spec: v2-1-c
impl A {
    #[cfg(test)]
    fn helper(
        &self,
    ) {
        // spec: v2-1-d
    }
    // spec: v2-1-e
}
";
    let parts = test_parts(source);
    assert_eq!(parts.modules, ["tests"]);
    let found = citations(&[("crate/src/a.rs".into(), source.to_owned())]);
    let places: Vec<_> = found
        .iter()
        .map(|one| (one.id.as_str(), one.place.as_str(), one.is_test))
        .collect();
    assert_eq!(
        places,
        [
            ("v2-1-a", "crate/src/a.rs:2", false),
            ("v2-1-b", "crate/src/a.rs:10", true),
            ("v2-1-c", "crate/src/a.rs:12", false),
            ("v2-1-d", "crate/src/a.rs:18", true),
            ("v2-1-e", "crate/src/a.rs:20", false),
        ]
    );
}

#[test]
fn test_files_are_recognized() {
    let lib = (
        "crate/src/lib.rs",
        "mod a;\n#[cfg(test)]\npub(crate) mod pair;\n",
    );
    let sources = [
        lib,
        (
            "crate/src/a.rs",
            "#[cfg(test)]\nmod simulated;\n// spec: v2-1-a",
        ),
        ("crate/src/a/simulated.rs", "// spec: v2-1-b"),
        ("crate/src/a/tests.rs", "// spec: v2-1-c"),
        ("crate/src/pair/mod.rs", "// spec: v2-1-d"),
        ("crate/src/simulated.rs", "// spec: v2-1-e"),
        ("crate/src/pairs.rs", "// spec: v2-1-f"),
        ("crate/src/b.rs", "#![cfg(test)]\n// spec: v2-1-g"),
        ("crate/tests/b.rs", "// spec: v2-1-h"),
    ];
    let found = citations(&sources.map(|(file, source)| (file.into(), source.to_owned())));
    let tests: Vec<_> = found
        .iter()
        .filter(|one| one.is_test)
        .map(|one| one.id.as_str())
        .collect();
    assert_eq!(tests, ["v2-1-b", "v2-1-c", "v2-1-d", "v2-1-g", "v2-1-h"]);
}

#[test]
fn status_must_match_the_citations() {
    let faults =
        |status, citations: &[Citation]| uncovered(&[requirement("v2-1-a", status)], citations);
    let both = [citation("v2-1-a", false), citation("v2-1-a", true)];
    assert!(faults(Status::Covered, &both).is_empty());
    assert_eq!(
        faults(Status::Covered, &both[..1]),
        ["v2-1-a: covered, but no test cites it"]
    );
    assert_eq!(
        faults(Status::Covered, &both[1..]),
        ["v2-1-a: covered, but no code cites it"]
    );
    assert_eq!(
        faults(Status::Covered, &[]),
        ["v2-1-a: covered, but nothing cites it"]
    );
    assert_eq!(
        faults(Status::Open, &both),
        ["v2-1-a: code and a test cite it: mark it covered"]
    );
    assert!(faults(Status::Open, &both[1..]).is_empty());
    assert!(faults(Status::NotApplicable, &both).is_empty());
    assert_eq!(
        faults(Status::Open, &[citation("v2-1-b", true)]),
        ["a.rs:1: no requirement \"v2-1-b\""]
    );
}

#[test]
fn a_rule_that_repeats_another_shares_its_citations() {
    let mut second = requirement("v2-1-b", Status::Covered);
    second.same_as = Some("v2-1-a".to_owned());
    let rules = [requirement("v2-1-a", Status::Covered), second];
    assert!(
        uncovered(
            &rules,
            &[citation("v2-1-a", false), citation("v2-1-b", true)]
        )
        .is_empty()
    );
    assert_eq!(uncovered(&rules, &[citation("v2-1-b", true)]).len(), 2);
    assert!(
        report(&rules, &[citation("v2-1-b", true)])
            .ends_with("cited in a test alone: v2-1-a, v2-1-b")
    );
    // Other code implements the rule of another draft.
    let mut other = requirement("xc2-1-a", Status::Open);
    other.same_as = Some("v2-1-a".to_owned());
    let rules = [requirement("v2-1-a", Status::Covered), other];
    assert!(
        uncovered(
            &rules,
            &[citation("v2-1-a", false), citation("v2-1-a", true)]
        )
        .is_empty()
    );
}

#[test]
fn ids_and_levels_must_match_their_place() {
    let rules = [
        requirement("v2-1-a", Status::Open),
        requirement("v2-1-b", Status::Open),
    ];
    assert!(malformed(&rules, "").is_empty());
    let faults = |change: fn(&mut [Requirement; 2])| {
        let mut changed = rules.clone();
        change(&mut changed);
        malformed(&changed, "**D1. A decision**").len()
    };
    assert_eq!(faults(|rules| rules[1].id = "v2-1-c".to_owned()), 1);
    assert_eq!(
        faults(|rules| rules[0].id = "v2-1-b".to_owned()),
        2,
        "twice, and out of order"
    );
    assert_eq!(faults(|rules| rules[0].line = 2), 1);
    assert_eq!(
        faults(|rules| rules[0].sentence = "It MUST be so.".to_owned()),
        1
    );
    assert_eq!(faults(|rules| rules[0].status = Status::NotApplicable), 1);
    assert_eq!(faults(|rules| rules[0].decision = Some("D1".to_owned())), 0);
    assert_eq!(
        faults(|rules| rules[0].decision = Some("D1, D2".to_owned())),
        1
    );
    assert_eq!(
        faults(|rules| rules[0].same_as = Some("v2-2-a".to_owned())),
        1
    );
    assert_eq!(faults(|rules| rules[0].inferred = true), 1);
    assert_eq!(
        [letters(0), letters(25), letters(26), letters(53)],
        ["a", "z", "aa", "bb"]
    );
}

#[test]
fn key_words_are_those_printed() {
    assert_eq!(
        key_words("It MUST do this, MUST NOT do that, and MUST end."),
        ["MUST", "MUST NOT"]
    );
    assert_eq!(
        key_words("Support is OPTIONAL, and it REQUIRES that it SHOULD, or MAY."),
        ["OPTIONAL", "REQUIRES", "SHOULD", "MAY"]
    );
    assert!(key_words("An OPTIONAL feature; the words \"MUST\" and \"MAY\"; DISMAY").is_empty());
}

#[test]
fn sentences_are_found_across_pages_and_bullets() {
    let draft = [
        "1.  Title\n\n   o  A rule of RPC-\n      over-RDMA goes",
        "Noveck  [Page 1]\n\u{c}\nInternet-Draft  May\n\n      on.  It ends.\n\n2.  Next",
    ];
    let text = Text::new(&draft.join("\n"));
    assert!(text.find("A rule of RPC-over-RDMA goes on.", 3).is_some());
    assert!(text.find("A rule of RPC-over-RDMA goes on.", 4).is_none());
    assert!(text.find("It ends.", 9).is_some());
    assert_eq!((text.section(9), text.section(11)), ("1", "2"));
    assert_eq!(heading("3.2.  Title", "3.1.4").as_deref(), Some("3.2"));
    assert_eq!(heading("1. The first of a list", "8.1"), None);
    assert_eq!(heading("   1.1.  Contents . . . . 3", "1"), None);
}

#[test]
fn the_right_column_is_the_end_of_each_line() {
    let lines = [
        "Words that both texts have, of a Words that both texts have, of a",
        "rule as it was before, with so many words to it. rule of today. One",
        "that are gone, and stand alone",
        "more. more.",
    ];
    assert!(in_right_column(
        &lines,
        1,
        "Words that both texts have, of a rule of today."
    ));
    assert!(in_right_column(&lines, 2, "One more."));
    assert!(!in_right_column(&lines, 1, "of today."));
    let long =
        "A line of which the left half has other words, A line of which the right half has, words";
    assert!(in_right_column(
        &[long],
        1,
        "A line of which the right half has, words"
    ));
    assert!(!in_right_column(
        &[long],
        1,
        "A line of which the left half has other words,"
    ));
    assert!(!in_right_column(
        &["a a", "skipping to change at page 1", "b b"],
        1,
        "a b"
    ));
}
