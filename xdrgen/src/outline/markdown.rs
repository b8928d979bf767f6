//! Finds headings and fences of markdown documents, as the IETF's tools read them.
//! `extract::markup` recognizes blocks of code by the same [`Fence`], so that a `#` in a block is
//! no heading.

use super::Section;
use super::xml::Counters;

/// A fence that opens or closes a block of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence<'t> {
    mark: char,
    length: usize,
    /// The text after the marks.
    pub(crate) info: &'t str,
}

impl<'t> Fence<'t> {
    /// Reads a line of at least three backquotes or tildes.
    pub(crate) fn read(line: &'t str) -> Option<Self> {
        let line = line.trim();
        let mark = line
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        let info = info.trim();
        // A line with more backquotes is code within a line.
        let valid = length >= 3 && (mark == '~' || !info.contains('`'));
        valid.then_some(Self { mark, length, info })
    }

    /// Returns true if a line with this fence closes the block that `open` begins.
    pub(crate) fn closes(&self, open: &Fence<'_>) -> bool {
        self.mark == open.mark && self.length >= open.length && self.info.is_empty()
    }
}

/// Returns the sections of a document. Headings before the line `--- middle` have no number, and
/// those after `--- back` are appendices.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let has_parts = text.lines().any(|line| line.trim_end() == "--- middle");
    let mut numbered = !has_parts;
    let mut counters = Counters::default();
    let mut open: Option<Fence<'_>> = None;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let fence = Fence::read(line);
        match (open, fence) {
            (Some(begin), Some(end)) if end.closes(&begin) => open = None,
            (None, Some(begin)) => open = Some(begin),
            _ => {}
        }
        if open.is_some() || fence.is_some() {
            continue;
        }
        match line.trim_end() {
            "--- middle" => numbered = true,
            "--- back" => counters.begin_appendices(),
            line if numbered => found.extend(heading(line).map(|(level, title)| Section {
                line: at + 1,
                number: counters.at(level),
                title: title.to_owned(),
            })),
            _ => {}
        }
    }
    found
}

/// Returns the level and the title of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    const MAX_LEVEL: usize = 6;
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let title = title.strip_prefix(' ')?.trim();
    let title = title.trim_end_matches('#').trim_end();
    let title = title.split_once(" {#").map_or(title, |(title, _)| title);
    ((1..=MAX_LEVEL).contains(&level) && !title.is_empty()).then_some((level, title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_numbered_within_their_parts() {
        let text = "---\n# a comment\n--- abstract\n# no\n--- middle\n# A {#a}\n## B ##\n~~~\n\
                    # c\n~~~\n\
                    # D\n#e\n--- back\n# F\n## G\n";
        let found = sections(text);
        let list: Vec<(usize, &str, &str)> = found
            .iter()
            .map(|section| {
                (
                    section.line,
                    section.number.as_str(),
                    section.title.as_str(),
                )
            })
            .collect();
        let expected = [
            (6, "1", "A"),
            (7, "1.1", "B"),
            (11, "2", "D"),
            (14, "A", "F"),
            (15, "A.1", "G"),
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn fences_close_with_as_many_marks() {
        let fence = |line| Fence::read(line);
        let open = fence("~~~~ xdr").expect("a fence");
        assert_eq!(open.info, "xdr");
        assert!(fence("  ~~~~~ ").is_some_and(|end| end.closes(&open)));
        for other in ["~~~", "````", "~~~~ xdr"] {
            assert!(
                !fence(other).is_some_and(|end| end.closes(&open)),
                "{other}"
            );
        }
        assert_eq!(fence("``` a ```"), None);
        assert_eq!(fence("``"), None);
    }
}
