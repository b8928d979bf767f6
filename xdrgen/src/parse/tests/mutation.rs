//! One token left out, doubled or swapped with the next: each defect must be found, and at its place.

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
 * What a message holds.
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

/// The text with the word `at` mutated; line ends stay where they are.
fn mutated(xdr: &str, words: &[(usize, &str)], at: usize, mutation: Mutation) -> String {
    let (start, word) = words[at];
    let end = start + word.len();
    match mutation {
        Mutation::Delete => format!("{} {}", &xdr[..start], &xdr[end..]),
        Mutation::Double => format!("{} {word}{}", &xdr[..end], &xdr[end..]),
        Mutation::Swap => {
            let (next, other) = words[at + 1];
            format!("{} {other} {} {word} {}", &xdr[..start], &xdr[end..next], &xdr[next + other.len()..])
        }
    }
}

fn line(xdr: &str, at: usize) -> usize {
    xdr[..at].matches('\n').count() + 1
}

/// What is wrong with how a mutation was reported.
fn complaint(xdr: &str, all: &[(usize, &str)], at: usize, mutation: Mutation) -> Option<String> {
    let text = mutated(xdr, all, at, mutation);
    let now: Vec<&str> = words(&text).into_iter().map(|(_, word)| word).collect();
    let (sources, _, _, found) = parsed(&text, TextKind::Xdr, false);
    let lines: Vec<usize> = found.iter().filter_map(|one| Some(sources.locate(one.span?).line)).collect();
    let wanted = [line(xdr, all[at].0), line(xdr, all[at + 1].0)];
    let errors = found.iter().filter(|one| one.is_error()).count();
    let complaint = match is_legal(&now) {
        true if errors > 0 => "is legal, but has errors",
        false if !lines.iter().any(|line| wanted.contains(line)) => "is not reported at its place",
        false if found.len() > std::env::var("MAX").map_or(3, |m| m.parse().unwrap()) => "is reported too often",
        _ => return None,
    };
    let messages: Vec<String> =
        found.iter().zip(&lines).map(|(one, line)| format!("{line} {} {}", one.code, one.message)).collect();
    Some(format!("{mutation:?} `{}` on line {} {complaint}: {messages:?}", all[at].1, wanted[0]))
}

#[test]
fn fixture_is_legal() {
    let all: Vec<&str> = words(DRAFT).into_iter().map(|(_, word)| word).collect();
    assert!(is_legal(&all));
    assert!(parsed(DRAFT, TextKind::Xdr, false).3.is_empty());
}

#[test]
fn each_mutation_is_reported_at_its_place() {
    let all = words(DRAFT);
    let mut complaints = Vec::new();
    for at in 0..all.len() - 1 {
        for mutation in [Mutation::Delete, Mutation::Double, Mutation::Swap] {
            complaints.extend(complaint(DRAFT, &all, at, mutation));
        }
    }
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
#[ignore]
fn tmp_corpus() {
    for path in std::env::var("MUT").unwrap().split_whitespace() {
        let xdr: String = std::fs::read_to_string(path).unwrap().lines().filter(|l| !l.starts_with(['%','#'])).map(|l| format!("{l}\n")).collect();
        let all = words(&xdr);
        let plain: Vec<&str> = all.iter().map(|w| w.1).collect();
        println!("{path} legal {} words {}", is_legal(&plain), all.len());
        if !is_legal(&plain) { continue; }
        let mut n = 0; let mut total = 0;
        for at in 0..all.len() - 1 {
            for mutation in [Mutation::Delete, Mutation::Double, Mutation::Swap] {
                total += 1;
                if let Some(c) = complaint(&xdr, &all, at, mutation) { n += 1; if n < 40 { println!("{c}"); } }
            }
        }
        println!("{path}: {n} complaints of {total}");
    }
}
