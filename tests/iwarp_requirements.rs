//! Tests `iwarp/spec/requirements.toml`: each rule is in its RFC at the given line, no rule is
//! missing, and the sources cite each rule that is marked as covered.
//!
//! `cargo test -p rpcrdma --test iwarp_requirements -- --nocapture` prints the coverage of each
//! RFC.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const RFCS: [&str; 4] = ["5040", "5041", "5044", "6581"];

/// The folders that are searched for citations.
const SOURCES: [&str; 4] = [
    "iwarp/src",
    "iwarp/tests",
    "rpcrdma-verbs/src",
    "tests/transport/tests",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    requirement: Vec<Requirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    id: String,
    section: String,
    line: usize,
    level: String,
    sentence: String,
    status: Status,
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Covered,
    NotApplicable,
}

impl Requirement {
    fn rfc(&self) -> &str {
        self.id.split('-').next().unwrap()
    }
}

fn requirements() -> Vec<Requirement> {
    let path = Path::new(ROOT).join("iwarp/spec/requirements.toml");
    let text = std::fs::read_to_string(path).unwrap();
    toml::from_str::<File>(&text).unwrap().requirement
}

/// `a` to `z`, then `aa` to `az`.
fn letters(index: usize) -> String {
    let last = char::from(b'a' + u8::try_from(index % 26).unwrap());
    match index / 26 {
        0 => last.to_string(),
        more => letters(more - 1) + &last.to_string(),
    }
}

/// Returns the words of a text, without punctuation.
fn bare_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|one: char| !one.is_ascii_alphanumeric() && one != '-')
        .filter(|word| !word.is_empty())
}

/// Returns every occurrence of the key words of RFC 2119, as printed. NOT belongs to the key word
/// before it.
fn key_words(text: &str) -> Vec<String> {
    const WORDS: [&str; 7] = [
        "MUST",
        "SHALL",
        "SHOULD",
        "REQUIRED",
        "RECOMMENDED",
        "MAY",
        "OPTIONAL",
    ];
    let words: Vec<_> = bare_words(text).collect();
    let found = words.iter().enumerate().filter(|(_, w)| WORDS.contains(w));
    found
        .map(|(at, word)| {
            let negated = matches!(*word, "MUST" | "SHALL" | "SHOULD")
                && words.get(at + 1).is_some_and(|next| *next == "NOT");
            format!("{word}{}", if negated { " NOT" } else { "" })
        })
        .collect()
}

#[test]
fn requirements_are_well_formed() {
    let mut counts = BTreeMap::<(String, String), usize>::new();
    let mut faults = Vec::new();
    for one in requirements() {
        let place = (one.rfc().to_owned(), one.section.clone());
        let count = counts.entry(place).or_default();
        let expected = format!("{}-{}-{}", one.rfc(), one.section, letters(*count));
        *count += 1;
        let mut words = Vec::new();
        for word in key_words(&one.sentence) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        if one.id != expected {
            faults.push(format!("{}: should be {expected}", one.id));
        }
        if !RFCS.contains(&one.rfc()) {
            faults.push(format!("{}: of no RFC of iWARP", one.id));
        }
        if words.is_empty() || words.join(", ") != one.level {
            faults.push(format!("{}: level {:?} and {words:?}", one.id, one.level));
        }
        if (one.status == Status::NotApplicable) != one.reason.is_some() {
            faults.push(format!("{}: a reason goes with not-applicable", one.id));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The words of an RFC on one line, and the line of the file for each byte.
struct Text {
    words: String,
    lines: Vec<usize>,
}

impl Text {
    /// Reads an RFC from its first section on.
    fn new(rfc: &str) -> Self {
        let (mut words, mut lines) = (String::new(), Vec::new());
        let is_body = |line: &&str| !line.starts_with("1.  Introduction");
        let first = rfc.lines().take_while(is_body).count();
        for (index, line) in rfc.lines().enumerate().skip(first) {
            let is_break = line.contains("[Page ") || line.starts_with("RFC ");
            let line = if is_break { "" } else { line.trim() };
            let unmarked = ["* ", "o ", "- "]
                .iter()
                .find_map(|mark| line.strip_prefix(mark));
            for word in unmarked.unwrap_or(line).split_whitespace() {
                if !words.is_empty() {
                    words.push(' ');
                }
                words.push_str(word);
                lines.resize(words.len(), index + 1);
            }
        }
        Self { words, lines }
    }

    fn has(&self, sentence: &str, line: usize) -> bool {
        self.words
            .match_indices(sentence)
            .any(|(at, _)| self.lines[at] == line)
    }
}

#[test]
fn sentences_are_in_their_rfcs() {
    let Some(folder) = common::shared("rfc") else {
        return;
    };
    let requirements = requirements();
    for rfc in RFCS {
        let file = std::fs::read_to_string(folder.join(format!("rfc{rfc}.txt"))).unwrap();
        let text = Text::new(&file);
        let ours = requirements.iter().filter(|one| one.rfc() == rfc);
        let mut listed = 0;
        for one in ours {
            assert!(text.has(&one.sentence, one.line), "{} is not there", one.id);
            listed += key_words(&one.sentence).len();
        }
        // The list contains each sentence with a key word.
        assert_eq!(listed, key_words(&text.words).len(), "RFC {rfc}");
    }
}

/// Returns the ids that comments cite: in code, and in tests.
fn citations() -> [BTreeSet<String>; 2] {
    let mut cited = [BTreeSet::new(), BTreeSet::new()];
    for folder in SOURCES {
        read(&Path::new(ROOT).join(folder), &mut cited);
    }
    cited
}

fn read(folder: &Path, cited: &mut [BTreeSet<String>; 2]) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, cited);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let relative = path.strip_prefix(ROOT).unwrap();
            let names = relative.iter().map(|part| part.to_str().unwrap());
            // The conformance suite is a module of its crate.
            let is_file_of_tests = names
                .map(|name| name.trim_end_matches(".rs"))
                .any(|name| name == "tests" || name == "conformance");
            let mut is_test = is_file_of_tests;
            for line in source.lines() {
                // The tests of a source file are at its end.
                let is_gate = ["#[cfg(test)]", "#[cfg(all(test,"];
                let begins = is_gate.iter().any(|gate| line.starts_with(gate));
                is_test |= begins && !source.contains("mod tests;");
                let ids = line.trim_start().strip_prefix("// rfc: ");
                let ids = ids.into_iter().flat_map(|ids| ids.split(", "));
                cited[usize::from(is_test)].extend(ids.map(str::to_owned));
            }
        }
    }
}

#[test]
fn requirements_are_covered_as_marked() {
    let requirements = requirements();
    let [code, tests] = citations();
    println!("RFC      total  covered  not applicable");
    for rfc in RFCS {
        let ours = requirements.iter().filter(|one| one.rfc() == rfc);
        let (covered, not): (Vec<_>, Vec<_>) = ours.partition(|one| one.status == Status::Covered);
        let (covered, not) = (covered.len(), not.len());
        println!("{rfc}{:>10}{covered:>9}{not:>16}", covered + not);
    }
    let mut faults = Vec::new();
    for one in &requirements {
        let found = (code.contains(&one.id), tests.contains(&one.id));
        if one.status == Status::Covered && found != (true, true) {
            faults.push(format!("{}: cited in code, in a test: {found:?}", one.id));
        }
    }
    let known: BTreeSet<_> = requirements.iter().map(|one| &one.id).collect();
    let unknown = code.union(&tests).filter(|id| !known.contains(id));
    faults.extend(unknown.map(|id| format!("{id} is cited and not listed")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
