//! Finds the section headings of plain text.
//!
//! Plain text does not mark its headings. They are recognized by their form and their number, so a
//! change here has to be tried on many documents: the tests below have the forms of RFCs and
//! drafts, and `tests/drafts.rs` has the drafts of `spec/`.

use super::Section;

/// Returns the section headings. [`outline`](super::outline) tells what is a heading.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_start_matches('\u{c}').trim_end())
        .collect();
    let mut found: Vec<(Section, Number)> = Vec::new();
    for at in 0..lines.len() {
        let Some((heading, title)) =
            Heading::read(lines[at]).and_then(|heading| Some((heading, title(&lines, at)?)))
        else {
            continue;
        };
        let after_heading = found.last().is_some_and(|(section, _)| section.line == at);
        if !(after_heading || at == 0 || lines[at - 1].is_empty()) {
            continue;
        }
        let title = format!("{}{}", heading.title, title);
        if found
            .first()
            .is_some_and(|(first, number)| *number == heading.number && first.title == title)
        {
            found.clear();
        }
        if heading.follows(found.last().map(|(_, number)| number)) {
            let number = heading.number.to_string();
            found.push((
                Section {
                    line: at + 1,
                    number,
                    title,
                },
                heading.number,
            ));
        }
    }
    found.into_iter().map(|(section, _)| section).collect()
}

/// The width of a line in a draft.
const WIDTH: usize = 72;

/// Returns the continuation of a heading's title on the lines after `at`, where the next word
/// had no room before. Returns `None` if line `at` begins a paragraph instead, such as an item of a
/// list: it ends with a full stop, or continues for longer.
fn title(lines: &[&str], at: usize) -> Option<String> {
    let mut title = String::new();
    let mut last = lines[at];
    for line in lines.iter().skip(at + 1).take(3) {
        let first_word = line.split_whitespace().next().unwrap_or_default();
        let wrapped = last.chars().count() + 1 + first_word.chars().count() > WIDTH - 4;
        if line.is_empty() || Heading::read(line).is_some() || title.is_empty() && !wrapped {
            return (!last.ends_with('.')).then_some(title);
        }
        if !wrapped {
            return None;
        }
        title.push(' ');
        title.push_str(line.trim());
        last = line;
    }
    let ends_here = lines.len() <= at + 3;
    (ends_here && !last.ends_with('.')).then_some(title)
}

/// A section number: `4.2`, or `A.1` in an appendix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Number {
    appendix: bool,
    /// The parts, with trailing zeros as written. An appendix's letter is its position in the
    /// alphabet, starting at 1.
    parts: Vec<u32>,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            match char::from_u32(u32::from(b'A') + part.saturating_sub(1)) {
                Some(letter) if self.appendix && at == 0 => write!(f, "{letter}")?,
                _ => write!(f, "{dot}{part}")?,
            }
        }
        Ok(())
    }
}

impl Number {
    /// Parses `4.2` or `A.1`.
    fn read(number: &str) -> Option<Self> {
        let letter = number.chars().next().filter(char::is_ascii_uppercase);
        let first = letter.map(|letter| u32::from(letter) - u32::from('A') + 1);
        let digits = match letter {
            Some(_) => number[1..].strip_prefix('.'),
            None => Some(number),
        };
        let mut parts: Vec<u32> = first.into_iter().collect();
        for part in digits.into_iter().flat_map(|digits| digits.split('.')) {
            let plain =
                (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            parts.push(part.parse().ok().filter(|_| plain)?);
        }
        let whole = letter.is_none() || digits.is_some() || number.len() == 1;
        whole.then_some(Self {
            appendix: letter.is_some(),
            parts,
        })
    }

    /// Returns the parts without trailing zeros: `5.0` is `5`.
    fn significant(&self) -> &[u32] {
        let zeros = self
            .parts
            .iter()
            .skip(1)
            .rev()
            .take_while(|part| **part == 0)
            .count();
        &self.parts[..self.parts.len() - zeros]
    }

    /// Returns true if a heading with this number may follow one with `before`: as its first child
    /// (`4.2.1` after `4.2`), its next sibling (`4.3`) or the next sibling of an ancestor (`5`).
    fn succeeds(&self, before: &Self) -> bool {
        if self.appendix != before.appendix {
            return self.appendix && self.parts == [1];
        }
        let (own, other) = (self.significant(), before.significant());
        if own == other {
            return self.parts.len() > before.parts.len();
        }
        let Some((last, ancestors)) = own.split_last() else {
            return false;
        };
        match other.get(ancestors.len()) {
            Some(sibling) => other.starts_with(ancestors) && *last == sibling.saturating_add(1),
            None => other == ancestors && *last == 1,
        }
    }

    /// Returns true if this number is greater than `before`, in the same top-level section or the
    /// next.
    fn is_later(&self, before: &Self) -> bool {
        let step = self.parts[0].checked_sub(before.parts[0]);
        self.appendix == before.appendix
            && step.is_some_and(|step| step < 2)
            && self.parts > before.parts
    }
}

/// A line that has the form of a heading.
struct Heading<'t> {
    indented: bool,
    number: Number,
    title: &'t str,
}

impl<'t> Heading<'t> {
    /// Parses `4.2.  Title`, `4.2 Title`, `Appendix A. Title`, `Appendix A: Title` or `A.1. Title`.
    /// Rejects entries of a table of contents.
    fn read(line: &'t str) -> Option<Self> {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let appendix = content
            .strip_prefix("Appendix ")
            .or_else(|| content.strip_prefix("APPENDIX "));
        let (written, title) = appendix.unwrap_or(content).split_once(' ')?;
        let number = Number::read(written.strip_suffix(['.', ':']).unwrap_or(written))?;
        let title = title.trim();
        let dotted = written.ends_with(['.', ':']);
        let form = match (appendix, number.parts.len()) {
            (Some(_), 1) => number.appendix && dotted,
            (Some(_), _) => false,
            (None, 1) => !number.appendix && dotted && indent == 0,
            (None, _) => dotted || indent == 0,
        };
        let valid = form && indent <= 3 && !title.is_empty() && !has_leader(title);
        valid.then_some(Self {
            indented: indent > 0,
            number,
            title,
        })
    }

    /// Returns true if this heading may follow one with the number `before`.
    fn follows(&self, before: Option<&Number>) -> bool {
        match before {
            None => self.number.significant() == [1] && !self.number.appendix && !self.indented,
            Some(before) => {
                let nested = self.number.parts.len() > 1;
                self.number.succeeds(before)
                    || nested && !self.indented && self.number.is_later(before)
            }
        }
    }
}

/// Returns true if dots, or a page number at a distance, follow the title, as in a table of
/// contents.
fn has_leader(title: &str) -> bool {
    let number = title.trim_end_matches(|c: char| c.is_ascii_digit());
    let paged = number.len() < title.len() && number.ends_with("  ");
    paged || title.contains(" . .") || title.contains("....")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String, String)> {
        sections(text)
            .into_iter()
            .map(|section| (section.line, section.number, section.title))
            .collect()
    }

    fn numbers(text: &str) -> Vec<String> {
        sections(text)
            .into_iter()
            .map(|section| section.number)
            .collect()
    }

    #[test]
    fn headings_of_all_forms_are_found() {
        let text = "1. A\n\n1.1.  B\n\n1.2 C d\n\n   1.3. E\n\n\u{c}2.  F\n2.1. G\n\nAppendix A: \
            H\n\nA.1.  I\n\n   Appendix B. J\n";
        let found = found(text);
        let list: Vec<(&str, &str)> = found
            .iter()
            .map(|(_, number, title)| (number.as_str(), title.as_str()))
            .collect();
        let expected = [
            ("1", "A"),
            ("1.1", "B"),
            ("1.2", "C d"),
            ("1.3", "E"),
            ("2", "F"),
            ("2.1", "G"),
        ];
        assert_eq!(list[..6], expected);
        assert_eq!(list[6..], [("A", "H"), ("A.1", "I"), ("B", "J")]);
        assert_eq!(found[5].0, 10);
    }

    #[test]
    fn a_title_may_continue_on_the_next_line() {
        let text = "1. A\n\n1.1. B\n\n   1.2. ROPT_RESPXCH: Respond to Request to Modify \
            Transport\n   Characteristics\n\n   Text";
        assert_eq!(
            found(text)[2],
            (
                5,
                "1.2".into(),
                "ROPT_RESPXCH: Respond to Request to Modify Transport Characteristics".into()
            )
        );
    }

    #[test]
    fn list_items_are_not_headings() {
        let prose = "2. May contain a part of a message payload stream for an RPC which\n   goes \
            on for several lines\n   and more.\n";
        let text = format!(
            "1. A\n\n1. B\n\n{prose}\n   2. C\n\n1.1. D\n\n2. Do it.\n\n2. E\n\ntext\n3. F\n\n   \
            4.1 clients\n"
        );
        assert_eq!(numbers(&text), ["1", "1.1", "2"]);
    }

    #[test]
    fn the_table_of_contents_has_no_headings() {
        let leaders =
            "   1. A . . . 3\n   1.1. B . . . . 3\n2. C ....... 4\n3. D    5\n\n1. A\n\n1.1. B\n";
        assert_eq!(numbers(leaders), ["1", "1.1"]);
        let own_run = "1. A\n1.1. B\n2. C\n\n1. A\n\ntext\n\n1.1. B\n\ntext\n\n2. C\n";
        assert_eq!(
            found(own_run)
                .iter()
                .map(|section| section.0)
                .collect::<Vec<_>>(),
            [5, 9, 13]
        );
    }

    #[test]
    fn numbers_follow_each_other() {
        let succeeds =
            |before: &str, number: &str| match (Number::read(before), Number::read(number)) {
                (Some(before), Some(number)) => number.succeeds(&before),
                _ => panic!("{before} {number}"),
            };
        for (before, number) in [
            ("4", "5"),
            ("4", "4.1"),
            ("4.2", "4.3"),
            ("4.2", "5"),
            ("4.2.1", "4.3"),
            ("4.2", "4.2.1"),
            ("3.2", "3.3.0"),
            ("5.2", "5.2.0"),
            ("4.13", "5.0"),
            ("9", "A"),
            ("A", "A.1"),
            ("A.2", "B"),
        ] {
            assert!(succeeds(before, number), "{number} after {before}");
        }
        for (before, number) in [
            ("4", "4"),
            ("4", "6"),
            ("4", "4.2"),
            ("4.2", "4.1"),
            ("4.2", "1"),
            ("9", "B"),
            ("A", "1"),
            ("C", "X.25"),
        ] {
            assert!(!succeeds(before, number), "{number} after {before}");
        }
        assert!(
            Number::read("4.").is_none()
                && Number::read("AB").is_none()
                && Number::read("").is_none()
        );
        assert!(
            Number::read("1997").is_none()
                && Number::read("A.b").is_none()
                && Number::read("é.1").is_none()
        );
    }
}
