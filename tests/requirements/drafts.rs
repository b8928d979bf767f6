//! The texts of the drafts, and the positions of their sentences.

use std::collections::BTreeSet;
use std::path::Path;

use super::list::{Requirement, key_word_count, numbers, requirements};
use super::{BIDIRECTION, DIFF, DRAFTS, RFC, ROOT, common};

/// The words of a draft on one line, and the line of the file for each byte.
pub(crate) struct Text {
    pub(crate) words: String,
    pub(crate) lines: Vec<usize>,
    /// The line and the section of each heading.
    pub(crate) headings: Vec<(usize, String)>,
}

impl Text {
    pub(crate) fn new(draft: &str) -> Self {
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
                // A hyphen at the end of a line belongs to the word: the drafts do not hyphenate
                // words.
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

    /// Returns the position of a sentence that begins on a line.
    pub(crate) fn find(&self, sentence: &str, line: usize) -> Option<usize> {
        self.words
            .match_indices(sentence)
            .map(|(at, _)| at)
            .find(|&at| self.lines[at] == line)
    }

    /// Returns the words from the first section to the references.
    fn body(&self) -> &str {
        let at = |title: &str| self.words.rfind(title).unwrap();
        &self.words[at("1. Introduction")..at("10. References")]
    }

    pub(crate) fn section(&self, line: usize) -> &str {
        self.headings
            .iter()
            .rev()
            .find(|(at, _)| *at <= line)
            .map_or("", |(_, section)| section)
    }

    pub(crate) fn fault(&self, one: &Requirement) -> Option<String> {
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

/// Returns the section that begins on a line. It must follow the last one, because list items have
/// numbers too.
pub(crate) fn heading(line: &str, last: &str) -> Option<String> {
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

/// Returns the sentences of one draft that are not at their position, as messages.
pub(crate) fn misplaced(requirements: &[Requirement], draft: &str, text: &Text) -> Vec<String> {
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
fn sentences_are_in_their_drafts() {
    let requirements = requirements();
    let mut faults = Vec::new();
    for (draft, file) in DRAFTS {
        let text = std::fs::read_to_string(Path::new(ROOT).join("spec").join(file)).unwrap();
        faults.extend(misplaced(&requirements, draft, &Text::new(&text)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn sentences_are_in_the_rfc() {
    let Some(folder) = common::shared("rfc") else {
        return;
    };
    let text = Text::new(&std::fs::read_to_string(folder.join(RFC.1)).unwrap());
    let requirements = requirements();
    let faults = misplaced(&requirements, RFC.0, &text);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The list contains each key word as often as the draft does. One key word is in the licence of
    // the XDR.
    let listed: usize = requirements
        .iter()
        .filter(|one| one.draft() == RFC.0)
        .map(|one| key_word_count(&one.sentence))
        .sum();
    assert_eq!(listed + 1, key_word_count(text.body()));
}

/// Returns true if a sentence is in the right column of a two-column text, from a line on. The
/// right half is a suffix of the line and at most as long as a line of a draft; only the expected
/// words show where it begins. Lines that have only a left half are skipped.
pub(crate) fn in_right_column(lines: &[&str], line: usize, sentence: &str) -> bool {
    let squeezed: String = sentence.split_whitespace().collect();
    continues(&lines[line - 1..], &squeezed, true)
}

/// The maximum length of a line of a draft, in characters.
pub(crate) const LONGEST: usize = 72;

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
fn bidirection_sentences_are_in_the_right_column() {
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
