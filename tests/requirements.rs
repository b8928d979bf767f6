//! `spec/requirements.toml`: each rule stands in its draft where it says, and the sources cite what
//! is marked as covered.
//!
//! `cargo test -p rpcrdma --test requirements -- --nocapture` prints how far each draft is covered,
//! and which rules have a citation in code alone or in a test alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

#[path = "requirements/own.rs"]
mod own;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The prefix of a draft's ids, and its file.
const DRAFTS: [(&str, &str); 4] = [
    ("v2", "draft-cel-nfsv4-rpcrdma-version-two-01.txt"),
    ("xc3", "draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt"),
    ("xc2", "draft-dnoveck-nfsv4-rpcrdma-xcharext-02.txt"),
    ("rtr", "draft-dnoveck-nfsv4-rpcrdma-rtrext-02.txt"),
];

/// The draft whose text is not in the repository: the right column of this diff, where there is
/// one.
const BIDIRECTION: &str = "bd";
const DIFF: &str = "draft-ietf-nfsv4-rpcrdma-bidirection-03.txt";

/// An RFC whose text is not in the repository, and its file in the folder of RFCs, where there is
/// one.
const RFC: (&str, &str) = ("rfc8166", "rfc8166.txt");

/// What is searched for citations. These files are not: they have some that are made up.
const SOURCES: [&str; 5] = [
    "rpcrdma-proto/src",
    "rpcrdma-proto/tests",
    "rpcrdma-verbs",
    "tests",
    "xdrgen",
];
const UNSEARCHED: [&str; 2] = ["tests/requirements.rs", "tests/requirements/own.rs"];

// ---- The file -------------------------------------------------------------------------------------------------------

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    requirement: Vec<Requirement>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Requirement {
    id: String,
    section: String,
    line: usize,
    level: String,
    lead: Option<String>,
    sentence: String,
    #[serde(default)]
    inferred: bool,
    same_as: Option<String>,
    decision: Option<String>,
    status: Status,
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Open,
    Covered,
    NotApplicable,
}

impl Requirement {
    fn draft(&self) -> &str {
        self.id.split('-').next().unwrap()
    }

    /// The rule that it repeats, or itself.
    fn rule(&self) -> &str {
        self.same_as.as_deref().unwrap_or(&self.id)
    }

    /// The rule whose citations are its own: that of the same draft which it repeats. Another
    /// draft's is other code's.
    fn cited_as(&self) -> &str {
        let same = |other: &&str| other.split('-').next() == Some(self.draft());
        self.same_as.as_deref().filter(same).unwrap_or(&self.id)
    }
}

fn requirements() -> Vec<Requirement> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("spec/requirements.toml")).unwrap();
    toml::from_str::<File>(&text).unwrap().requirement
}

/// The numbers of a section, which compare as the sections stand.
fn numbers(section: &str) -> Option<Vec<u32>> {
    section
        .split('.')
        .map(|number| number.parse().ok())
        .collect()
}

/// `a` to `z`, then `aa` to `az`, and so on.
fn letters(index: usize) -> String {
    let last = char::from(b'a' + u8::try_from(index % 26).unwrap());
    if index < 26 {
        last.to_string()
    } else {
        letters(index / 26 - 1) + &last.to_string()
    }
}

/// The key words as printed, each once, but for those in quotation marks and for OPTIONAL as a mere
/// adjective.
fn key_words(text: &str) -> Vec<&'static str> {
    // What begins another word of these stands after it.
    const WORDS: [&str; 9] = [
        "MUST NOT",
        "MUST",
        "SHALL NOT",
        "SHALL",
        "SHOULD NOT",
        "SHOULD",
        "REQUIRED",
        "REQUIRES",
        "MAY",
    ];
    let unquoted: String = text.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    let mut found = Vec::new();
    for (at, _) in unquoted.char_indices() {
        let rest = &unquoted[at..];
        let is_word = |word: &str| {
            let ends = rest
                .strip_prefix(word)
                .is_some_and(|after| !after.starts_with(char::is_alphanumeric));
            ends && !unquoted[..at].ends_with(char::is_alphanumeric)
        };
        let optional = ["is OPTIONAL", "are OPTIONAL"]
            .into_iter()
            .any(is_word)
            .then_some("OPTIONAL");
        let word = WORDS.into_iter().find(|word| is_word(word)).or(optional);
        found.extend(word.filter(|word| !found.contains(word)));
    }
    found
}

/// How often key words stand in a text.
fn key_word_count(text: &str) -> usize {
    let is_key = |word: &&str| {
        let word = word.trim_matches(|one: char| !one.is_ascii_alphabetic());
        ["MUST", "SHALL", "SHOULD", "REQUIRED", "MAY", "OPTIONAL"].contains(&word)
    };
    text.split_whitespace().filter(is_key).count()
}

fn level(requirement: &Requirement) -> String {
    let mut words = key_words(&requirement.sentence);
    if let (true, Some(lead)) = (
        words.is_empty(),
        requirement
            .lead
            .as_deref()
            .filter(|lead| lead.ends_with(':')),
    ) {
        words = key_words(lead);
    }
    if words.is_empty() {
        "implied".to_owned()
    } else {
        words.join(", ")
    }
}

/// The ids are as the places of the rules, and each key has what it may have.
fn malformed(requirements: &[Requirement], decisions: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let by_id: BTreeMap<_, _> = requirements
        .iter()
        .map(|one| (one.id.as_str(), one))
        .collect();
    if by_id.len() != requirements.len() {
        faults.push("an id stands twice".to_owned());
    }
    let mut counts = BTreeMap::new();
    for one in requirements {
        let place = (one.draft().to_owned(), one.section.clone());
        let count: &mut usize = counts.entry(place).or_default();
        if one.id != format!("{}-{}-{}", one.draft(), one.section, letters(*count)) {
            faults.push(format!(
                "{}: not the id for its draft, section and order",
                one.id
            ));
        }
        *count += 1;
        if level(one) != one.level {
            faults.push(format!(
                "{}: level is {:?}, not {:?}",
                one.id,
                level(one),
                one.level
            ));
        }
        if (one.status == Status::NotApplicable) != one.reason.is_some() {
            faults.push(format!(
                "{}: a reason goes with not-applicable, and with nothing else",
                one.id
            ));
        }
        for name in one.decision.iter().flat_map(|names| names.split(", ")) {
            if !decisions.contains(&format!("**{name}. "))
                && !decisions.contains(&format!("**{name} "))
            {
                faults.push(format!("{}: README.md has no decision {name}", one.id));
            }
        }
        faults.extend(misdirected(one, &by_id));
    }
    faults.extend(
        requirements
            .windows(2)
            .filter(|pair| pair[0].draft() == pair[1].draft())
            .filter_map(disordered),
    );
    faults
}

fn misdirected(one: &Requirement, by_id: &BTreeMap<&str, &Requirement>) -> Option<String> {
    let fault = match by_id.get(one.rule()) {
        None => "the other rule does not exist",
        Some(other) if other.id == one.id => {
            return one
                .inferred
                .then(|| format!("{}: inferred from nothing", one.id));
        }
        Some(other) if other.same_as.is_some() => "the other rule repeats a third",
        Some(other) if one.inferred && other.sentence != one.sentence => {
            "inferred, but with other words"
        }
        Some(other) if one.cited_as() == other.id && other.status != one.status => {
            "the other rule has another status"
        }
        Some(_) => return None,
    };
    Some(format!("{}: same-as {}: {fault}", one.id, one.rule()))
}

fn disordered(pair: &[Requirement]) -> Option<String> {
    let place = |one: &Requirement| (numbers(&one.section), one.line);
    let (before, after) = (place(&pair[0]), place(&pair[1]));
    let ordered = before.0.is_some() && before.0 <= after.0 && before.1 <= after.1;
    (!ordered).then(|| format!("{} does not stand before {}", pair[0].id, pair[1].id))
}

#[test]
fn requirements_are_well_formed() {
    let decisions = std::fs::read_to_string(Path::new(ROOT).join("spec/README.md")).unwrap();
    let faults = malformed(&requirements(), &decisions);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

// ---- The drafts -----------------------------------------------------------------------------------------------------

/// A draft's words on one line, and the line of the file that each byte is from.
struct Text {
    words: String,
    lines: Vec<usize>,
    /// The line of each heading, and its section.
    headings: Vec<(usize, String)>,
}

impl Text {
    fn new(draft: &str) -> Self {
        let mut text = Self {
            words: String::new(),
            lines: Vec::new(),
            headings: Vec::new(),
        };
        for (index, line) in draft
            .lines()
            .enumerate()
            .filter(|(_, line)| !is_page_break(line))
        {
            if let Some(section) = heading(
                line,
                text.headings.last().map_or("", |(_, section)| section),
            ) {
                text.headings.push((index + 1, section));
            }
            let line = line.trim();
            let unmarked = ["o ", "• "]
                .iter()
                .find_map(|bullet| line.strip_prefix(bullet))
                .unwrap_or(line);
            for (place, word) in unmarked.split_whitespace().enumerate() {
                // A hyphen at the end of a line is one of the word's own: the drafts divide no
                // others.
                let is_joined = place == 0 && text.words.ends_with('-');
                if !text.words.is_empty() && !is_joined {
                    text.words.push(' ');
                }
                text.words.push_str(word);
                text.lines.resize(text.words.len(), index + 1);
            }
        }
        text
    }

    /// Where a sentence stands that begins on a line.
    fn find(&self, sentence: &str, line: usize) -> Option<usize> {
        self.words
            .match_indices(sentence)
            .map(|(at, _)| at)
            .find(|&at| self.lines[at] == line)
    }

    /// The words from the first section to the references.
    fn body(&self) -> &str {
        let at = |title: &str| self.words.rfind(title).unwrap();
        &self.words[at("1. Introduction")..at("10. References")]
    }

    fn section(&self, line: usize) -> &str {
        self.headings
            .iter()
            .rev()
            .find(|(at, _)| *at <= line)
            .map_or("", |(_, section)| section)
    }

    fn fault(&self, one: &Requirement) -> Option<String> {
        let place = if one.inferred {
            self.lines.iter().rposition(|&line| line == one.line)
        } else {
            None
        };
        let Some(place) = place.or_else(|| self.find(&one.sentence, one.line)) else {
            let lines: BTreeSet<_> = self
                .words
                .match_indices(&one.sentence)
                .map(|(at, _)| self.lines[at])
                .collect();
            return Some(format!(
                "{}: not at line {}, but at {lines:?}: {}",
                one.id, one.line, one.sentence
            ));
        };
        if self.section(one.line) != one.section {
            return Some(format!(
                "{}: line {} is in section {}",
                one.id,
                one.line,
                self.section(one.line)
            ));
        }
        let lead = one.lead.as_deref()?;
        let before = self.words[..=place]
            .match_indices(lead)
            .any(|(at, _)| self.section(self.lines[at]) == one.section);
        (!before).then(|| format!("{}: its lead does not stand before it", one.id))
    }
}

fn is_page_break(line: &str) -> bool {
    let is_header = line.starts_with("Internet-Draft ") || line.starts_with("RFC ");
    is_header || line.contains("[Page ") || line.starts_with('\u{c}')
}

/// The section that a line begins. It is the next after the last one: lists have numbers too.
fn heading(line: &str, last: &str) -> Option<String> {
    let (number, title) = line.trim_start().split_once(". ")?;
    if title.contains(". .") || !title.trim_start().starts_with(char::is_uppercase) {
        return None;
    }
    let (number, last) = (numbers(number)?, numbers(last).unwrap_or_default());
    let first_below = [last.as_slice(), &[1]].concat();
    let next = |depth: usize| [&last[..depth], &[last[depth] + 1]].concat();
    let follows = number == first_below || (0..last.len()).any(|depth| number == next(depth));
    follows.then(|| {
        number
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(".")
    })
}

/// The faults of the sentences of one draft.
fn misplaced(requirements: &[Requirement], draft: &str, text: &Text) -> Vec<String> {
    let ours: Vec<_> = requirements
        .iter()
        .filter(|one| one.draft() == draft)
        .collect();
    assert!(!ours.is_empty(), "{draft} has no requirement");
    let mut faults: Vec<_> = ours.iter().filter_map(|one| text.fault(one)).collect();
    let places: Vec<_> = ours
        .iter()
        .filter_map(|one| text.find(&one.sentence, one.line))
        .collect();
    if !places.is_sorted() {
        faults.push(format!(
            "{draft}: two rules of one line are not in its order"
        ));
    }
    faults
}

#[test]
fn sentences_stand_in_their_drafts() {
    let requirements = requirements();
    let mut faults = Vec::new();
    for (draft, file) in DRAFTS {
        let text = std::fs::read_to_string(Path::new(ROOT).join("spec").join(file)).unwrap();
        faults.extend(misplaced(&requirements, draft, &Text::new(&text)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn sentences_stand_in_the_rfc() {
    let Some(folder) = common::shared("rfc") else {
        return;
    };
    let text = Text::new(&std::fs::read_to_string(folder.join(RFC.1)).unwrap());
    let requirements = requirements();
    let faults = misplaced(&requirements, RFC.0, &text);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Each sentence that has a key word is there: as often as it is printed. One is in the licence
    // of the XDR.
    let listed: usize = requirements
        .iter()
        .filter(|one| one.draft() == RFC.0)
        .map(|one| key_word_count(&one.sentence))
        .sum();
    assert_eq!(listed + 1, key_word_count(text.body()));
}

/// Whether a sentence stands in the right column of a two-column text, from a line on. The right
/// half of a line is its end, and no longer than a line of a draft; where it begins is known only
/// by what is to stand there. Lines that have a left half alone are passed over.
fn in_right_column(lines: &[&str], line: usize, sentence: &str) -> bool {
    let squeezed: String = sentence.split_whitespace().collect();
    continues(&lines[line - 1..], &squeezed, true)
}

/// The characters that a line of a draft has at most.
const LONGEST: usize = 72;

fn continues(lines: &[&str], rest: &str, first: bool) -> bool {
    let Some((line, below)) = lines.split_first() else {
        return false;
    };
    if line.starts_with("skipping to change") {
        return false;
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let goes_on = |from: usize| {
        if words[from..].join(" ").len() > LONGEST {
            return false;
        }
        let end = words[from..].concat();
        end.starts_with(rest)
            || rest
                .strip_prefix(&end)
                .is_some_and(|rest| continues(below, rest, false))
    };
    (0..words.len()).any(goes_on) || (!first && continues(below, rest, false))
}

#[test]
fn sentences_of_bidirection_stand_in_the_right_column() {
    let Some(seeds) = common::shared("seeds") else {
        return;
    };
    let files = std::fs::read_dir(seeds)
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
    let Some(diff) = files.into_iter().find(|text| text.starts_with(DIFF)) else {
        return;
    };
    let lines: Vec<_> = diff.lines().collect();
    let found = |one: &Requirement, words: &str, line: usize| {
        assert!(
            in_right_column(&lines, line, words),
            "{}: not at line {line}: {words}",
            one.id
        );
    };
    for one in requirements()
        .iter()
        .filter(|one| one.draft() == BIDIRECTION)
    {
        found(one, &one.sentence, one.line);
        if let Some(lead) = &one.lead {
            let line = (1..=one.line)
                .rev()
                .find(|&line| in_right_column(&lines, line, lead));
            found(one, lead, line.unwrap_or(one.line));
        }
    }
}

// ---- The citations --------------------------------------------------------------------------------------------------

#[derive(Debug, PartialEq)]
struct Citation {
    id: String,
    /// File and line.
    place: String,
    is_test: bool,
}

/// The ids in a comment of citations, which has nothing else.
fn cited(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.match_indices("//").find_map(|(at, _)| {
        let text = line[at..].trim_start_matches(['/', '!']).trim_start();
        text.strip_prefix("spec:")
    });
    comment
        .into_iter()
        .flat_map(|ids| ids.split(',').map(str::trim))
}

/// Which lines are compiled for tests alone, and the modules in other files that are.
#[derive(Default)]
struct TestParts {
    lines: Vec<bool>,
    modules: Vec<String>,
}

/// An item ends where its indentation comes back with a closing brace, as rustfmt has it.
fn test_parts(source: &str) -> TestParts {
    let mut parts = TestParts::default();
    let (mut whole_file, mut attributed, mut within) = (false, false, None);
    for line in source.lines() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        whole_file |= code.starts_with("#![cfg(test)]");
        let is_attribute = code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test,");
        parts
            .lines
            .push(whole_file || attributed || is_attribute || within.is_some());
        if within == Some(indent) && code.starts_with('}') {
            within = None;
        } else if within.is_none() && is_attribute {
            attributed = true;
        } else if attributed && !code.starts_with('#') && !code.starts_with("//") {
            attributed = false;
            let ends_here = code.ends_with(';') || code.ends_with('}');
            within = (!ends_here).then_some(indent);
            let module = code
                .strip_suffix(';')
                .and_then(|code| code.rsplit_once("mod "));
            parts
                .modules
                .extend(module.map(|(_, name)| name.to_owned()));
        }
    }
    parts
}

/// Where the modules of a source file are.
fn modules_folder(file: &Path) -> PathBuf {
    let is_root = ["lib.rs", "main.rs", "mod.rs"]
        .iter()
        .any(|root| file.ends_with(root));
    if is_root {
        file.parent().unwrap().to_owned()
    } else {
        file.with_extension("")
    }
}

/// By its name alone: in a folder of tests, or a file of them.
fn is_test_file(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.components().any(|part| part.as_os_str() == "tests")
}

fn citations(sources: &[(PathBuf, String)]) -> Vec<Citation> {
    let parts: Vec<_> = sources
        .iter()
        .map(|(_, source)| test_parts(source))
        .collect();
    let test_modules: Vec<_> = sources
        .iter()
        .zip(&parts)
        .flat_map(|((file, _), parts)| {
            parts
                .modules
                .iter()
                .map(|module| modules_folder(file).join(module))
        })
        .collect();
    let mut citations = Vec::new();
    for ((file, source), parts) in sources.iter().zip(&parts) {
        let gated = test_modules
            .iter()
            .any(|module| file.starts_with(module) || *file == module.with_extension("rs"));
        for (index, line) in source.lines().enumerate() {
            let is_test = is_test_file(file) || gated || parts.lines[index];
            let place = format!("{}:{}", file.display(), index + 1);
            citations.extend(cited(line).map(|id| Citation {
                id: id.to_owned(),
                place: place.clone(),
                is_test,
            }));
        }
    }
    citations
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    for folder in SOURCES {
        read_sources(&Path::new(ROOT).join(folder), &mut sources);
    }
    sources.retain(|(file, _)| UNSEARCHED.iter().all(|other| file != Path::new(other)));
    sources
}

fn read_sources(folder: &Path, sources: &mut Vec<(PathBuf, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            sources.push((path.strip_prefix(ROOT).unwrap().to_owned(), source));
        }
    }
}

/// Where each rule is cited: in code, in a test. A rule that repeats another shares its citations.
struct Coverage<'a> {
    code: BTreeSet<&'a str>,
    tests: BTreeSet<&'a str>,
}

impl<'a> Coverage<'a> {
    fn new(requirements: &'a [Requirement], citations: &[Citation]) -> Self {
        let rules: BTreeMap<_, _> = requirements
            .iter()
            .map(|one| (one.id.as_str(), one.cited_as()))
            .collect();
        let in_place = |is_test: bool| {
            let ours = citations
                .iter()
                .filter(|citation| citation.is_test == is_test);
            ours.filter_map(|citation| rules.get(citation.id.as_str()).copied())
                .collect()
        };
        Self {
            code: in_place(false),
            tests: in_place(true),
        }
    }

    fn of(&self, one: &Requirement) -> (bool, bool) {
        (
            self.code.contains(one.cited_as()),
            self.tests.contains(one.cited_as()),
        )
    }
}

fn uncovered(requirements: &[Requirement], citations: &[Citation]) -> Vec<String> {
    let ids: BTreeSet<_> = requirements.iter().map(|one| one.id.as_str()).collect();
    let unknown = citations
        .iter()
        .filter(|citation| !ids.contains(citation.id.as_str()));
    let mut faults: Vec<_> = unknown
        .map(|citation| format!("{}: no requirement {:?}", citation.place, citation.id))
        .collect();
    let coverage = Coverage::new(requirements, citations);
    for one in requirements {
        let fault = match (one.status, coverage.of(one)) {
            (Status::Covered, (false, false)) => "covered, but nothing cites it",
            (Status::Covered, (false, true)) => "covered, but no code cites it",
            (Status::Covered, (true, false)) => "covered, but no test cites it",
            (Status::Open, (true, true)) => "code and a test cite it: mark it covered",
            _ => continue,
        };
        faults.push(format!("{}: {fault}", one.id));
    }
    faults
}

fn report(requirements: &[Requirement], citations: &[Citation]) -> String {
    let mut lines = vec![format!(
        "{:8}{:>6}{:>9}{:>6}{:>16}",
        "draft", "total", "covered", "open", "not applicable"
    )];
    let drafts = DRAFTS.iter().map(|(draft, _)| *draft);
    let drafts = drafts.chain([BIDIRECTION, RFC.0]);
    for draft in drafts {
        let ours: Vec<_> = requirements
            .iter()
            .filter(|one| one.draft() == draft)
            .collect();
        let count = |status| ours.iter().filter(|one| one.status == status).count();
        let [covered, open, not] =
            [Status::Covered, Status::Open, Status::NotApplicable].map(count);
        lines.push(format!(
            "{draft:8}{:>6}{covered:>9}{open:>6}{not:>16}",
            ours.len()
        ));
    }
    let coverage = Coverage::new(requirements, citations);
    for (title, half) in [
        ("code alone", (true, false)),
        ("a test alone", (false, true)),
    ] {
        let ours = requirements
            .iter()
            .filter(|one| one.status != Status::NotApplicable && coverage.of(one) == half);
        let ids: Vec<_> = ours.map(|one| one.id.as_str()).collect();
        lines.push(format!(
            "cited in {title}: {}",
            if ids.is_empty() {
                "none".to_owned()
            } else {
                ids.join(", ")
            }
        ));
    }
    lines.join("\n")
}

#[test]
fn requirements_are_covered_as_marked() {
    let (requirements, citations) = (requirements(), citations(&sources()));
    println!("{}", report(&requirements, &citations));
    let faults = uncovered(&requirements, &citations);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
