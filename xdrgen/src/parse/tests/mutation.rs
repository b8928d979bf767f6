//! Mutation test: one token is deleted, doubled or swapped with the next. Each defect must be
//! reported at its position.

use super::grammar::{is_legal, words};
use super::parsed;
use crate::source::TextKind;

const DRAFT: &str = r#"
/* Copyright (c) nobody */
const uint32 PROP_SIZE = 1;
const LIMIT = 0x40;

typedef uint32 handle;
typedef unsigned hyper offset;
typedef opaque cookie<LIMIT>;
typedef string path<>;
typedef handle handles<8>;
typedef handle quad[4];

enum msg_type {
        CALL = 0,
        REPLY = 1,
        OTHER = -1
};

struct segment {
        uint32 length;
        struct handle which;
        unsigned int flags;
        offset *start;
};

/*
 * The content of a message.
 */
struct message {
        enum msg_type direction;
        opaque data<>;
        string name<255>;
        struct {
                int first;
                bool second;
        } pair;
        union switch (bool more) {
        case TRUE:
                double value;
        default:
                void;
        } rest;
        enum { RED = 1, BLUE = 2 } colour;
};

union body switch (msg_type type) {
    case CALL:
        segment call<>;
    case REPLY:
    case OTHER:
        void;
    default:
        message other;
};

struct last {
        hyper count;
        quad values;

};

program PING_PROG {
        version PING_VERS {
                void
                PING_NULL(void) = 0;
                message PING_CALL(handle, string) = 1;
                int PING_BACK(struct last) = 2;
        } = 1;
        version PING_NEXT {
                void PING_NULL(void) = 0;
        } = 2;
} = 0x20000001;

const END = 07;
"#;

#[derive(Clone, Copy, Debug)]
enum Mutation {
    Delete,
    Double,
    Swap,
}

/// Applies a mutation to the word at index `at`. Line ends keep their positions.
fn mutated(xdr: &str, words: &[(usize, &str)], at: usize, mutation: Mutation) -> String {
    let (start, word) = words[at];
    let end = start + word.len();
    match mutation {
        Mutation::Delete => format!("{} {}", &xdr[..start], &xdr[end..]),
        Mutation::Double => format!("{} {word}{}", &xdr[..end], &xdr[end..]),
        Mutation::Swap => {
            let (next, other) = words[at + 1];
            format!(
                "{} {other} {} {word} {}",
                &xdr[..start],
                &xdr[end..next],
                &xdr[next + other.len()..]
            )
        }
    }
}

fn line(xdr: &str, at: usize) -> usize {
    xdr[..at].matches('\n').count() + 1
}

/// Returns what is wrong with the diagnostics of a mutation, if anything.
fn complaint(xdr: &str, all: &[(usize, &str)], at: usize, mutation: Mutation) -> Option<String> {
    let text = mutated(xdr, all, at, mutation);
    let now: Vec<&str> = words(&text).into_iter().map(|(_, word)| word).collect();
    let (sources, _, _, found) = parsed(&text, TextKind::Xdr, false);
    let lines: Vec<usize> = found
        .iter()
        .filter_map(|one| Some(sources.locate(one.span?).line))
        .collect();
    let lines_of_mutation = [line(xdr, all[at].0), line(xdr, all[at + 1].0)];
    let errors = found.iter().filter(|one| one.is_error()).count();
    let complaint = match is_legal(&now) {
        true if errors > 0 => "is legal, but has errors",
        false if !lines.iter().any(|line| lines_of_mutation.contains(line)) => {
            "is not reported at its position"
        }
        false if found.len() > 2 => "is reported too often",
        _ => return None,
    };
    let messages: Vec<String> = found
        .iter()
        .zip(&lines)
        .map(|(one, line)| format!("{line} {} {}", one.code, one.message))
        .collect();
    Some(format!(
        "{mutation:?} `{}` on line {} {complaint}: {messages:?}",
        all[at].1, lines_of_mutation[0]
    ))
}

#[test]
fn fixture_is_legal() {
    let all: Vec<&str> = words(DRAFT).into_iter().map(|(_, word)| word).collect();
    assert!(is_legal(&all));
    assert!(parsed(DRAFT, TextKind::Xdr, false).3.is_empty());
}

#[test]
fn each_mutation_is_reported_at_its_position() {
    let all = words(DRAFT);
    let mut complaints = Vec::new();
    for at in 0..all.len() - 1 {
        for mutation in [Mutation::Delete, Mutation::Double, Mutation::Swap] {
            complaints.extend(complaint(DRAFT, &all, at, mutation));
        }
    }
    assert!(
        complaints.is_empty(),
        "{} complaints\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

/// A deterministic generator of pseudo-random numbers.
pub(super) struct Xorshift(pub(super) u64);

impl Xorshift {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }
}

/// Two mutations far from each other: the second must be found after the first.
#[test]
fn a_mutation_does_not_hide_another() {
    let seed = 0x5eed_0000_4506;
    println!("seed {seed:#x}");
    let mut random = Xorshift(seed);
    for _ in 0..4000 {
        let kinds = [Mutation::Delete, Mutation::Double, Mutation::Swap];
        let (first, second) = (kinds[random.below(3)], kinds[random.below(3)]);
        let before = words(DRAFT);
        let early = random.below(before.len() / 2);
        let text = mutated(DRAFT, &before, early, first);
        let all = words(&text);
        // The mutations are in different definitions, so that the first error is over.
        let late = all.len() / 2 + 40 + random.below(all.len() / 2 - 41);
        let complaint = complaint_of_last(&text, &all, late, second);
        assert_eq!(
            complaint, None,
            "seed {seed:#x}: {first:?} `{}` before",
            before[early].1
        );
    }
}

/// As [`complaint`], for a second mutation of a text.
fn complaint_of_last(
    xdr: &str,
    all: &[(usize, &str)],
    at: usize,
    mutation: Mutation,
) -> Option<String> {
    let alone = words(DRAFT);
    let offset = all.len() - at;
    let own = (0..alone.len()).rev().nth(offset - 1)?;
    let clean = mutated(DRAFT, &alone, own, mutation);
    let legal = is_legal(
        &words(&clean)
            .into_iter()
            .map(|(_, word)| word)
            .collect::<Vec<_>>(),
    );
    complaint(xdr, all, at, mutation)
        .filter(|complaint| !legal && complaint.contains("not reported"))
}
