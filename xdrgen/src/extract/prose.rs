//! Finds definitions in documents that have their XDR only in running text, without markers.
//!
//! A definition begins on a line with its keyword and ends at the `;` outside of braces and
//! comments. None of its lines is indented less than the first. Text that does not parse is not a
//! definition. If two blocks define one name, the first is compiled and the second is a copy, which
//! `check` compares with it. No line of a broken definition is read again, which keeps the time
//! linear. Errata apply afterwards, and cannot turn other text into a definition.

use std::collections::HashMap;

use super::line::{Blocks, Line};
use super::txt::strip_marker;
use super::x::KEYWORDS;
use crate::ast::Specification;
use crate::diagnostic::Diagnostics;
use crate::outline::page::header_footer_lines;
use crate::parse;
use crate::source::{Document, SourceMap, Text, TextKind};

/// A definition that was found in the text of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProseBlock {
    /// The first and the last line.
    pub lines: (usize, usize),
    /// The number of the section, if the document has headings.
    pub section: Option<String>,
    /// The names that the block defines.
    pub names: Vec<String>,
    /// The line of an earlier definition of the same names. This definition is compared with the
    /// earlier one, and not compiled.
    pub repeats: Option<usize>,
}

/// Text that begins like a definition and was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedBlock {
    /// The first and the last line.
    pub lines: (usize, usize),
    /// The number of the section, if the document has headings.
    pub section: Option<String>,
    /// The first line without the blanks around it.
    pub begin: String,
    /// Why it is not a definition.
    pub reason: String,
}

/// What was found in the text of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProseBlocks {
    /// The definitions.
    pub taken: Vec<ProseBlock>,
    /// The text that begins like a definition and was not taken.
    pub rejected: Vec<RejectedBlock>,
}

/// Returns the XDR of a document, and the blocks that contain it.
pub(super) fn read(document: &Document, sections: &[String]) -> (Blocks, ProseBlocks) {
    let lines = lines(document, sections);
    let mut blocks = Blocks::default();
    let mut found = ProseBlocks::default();
    let mut first_of: HashMap<String, usize> = HashMap::new();
    let mut at = 0;
    while at < lines.len() {
        let (end, parsed) = match extent(&lines[at..]) {
            Extent::None => {
                at += 1;
                continue;
            }
            Extent::Broken(count, reason) => {
                let end = at + count.max(1);
                let last = lines.get(at + count).or(lines.last());
                let line = last.map_or(0, |line| line.number);
                (end, Err(format!("line {line}: {reason}")))
            }
            Extent::Whole(count) => (at + count, names(&lines[at..at + count])),
        };
        let (block, rest) = (&lines[at..end], &lines[at..]);
        at = end;
        let first = block[0].number;
        let lines = (first, block.last().map_or(first, |line| line.number));
        let section = document
            .section(first)
            .map(|section| section.number.clone());
        let names = match parsed {
            Ok(names) => names,
            Err(reason) => {
                found
                    .rejected
                    .extend(is_like_definition(rest).then(|| RejectedBlock {
                        lines,
                        section,
                        begin: block[0].content.trim().to_owned(),
                        reason,
                    }));
                continue;
            }
        };
        let repeats = names.iter().find_map(|name| first_of.get(name).copied());
        for name in &names {
            first_of.entry(name.clone()).or_insert(first);
        }
        found.taken.push(ProseBlock {
            lines,
            section,
            names,
            repeats,
        });
        match repeats {
            Some(_) => blocks.copies.push(block.to_vec()),
            None => blocks.xdr.extend(block.iter().cloned()),
        }
    }
    (blocks, found)
}

/// The words after `typedef` that no sentence has there.
const TYPE_WORDS: [&str; 6] = ["struct", "enum", "union", "opaque", "string", "unsigned"];

/// Returns true if the first line begins a definition rather than a sentence.
fn is_like_definition(lines: &[Line]) -> bool {
    let Some((first, rest)) = lines.split_first() else {
        return false;
    };
    let code = without_comments(&first.content);
    let mut words = code.split_whitespace();
    let keyword = words.next().unwrap_or_default();
    let name = words.next().unwrap_or_default();
    let mut rest = rest.iter().map(|line| line.content.trim_start());
    let mut follows = |mark| {
        let next = rest.find(|line| !line.is_empty());
        next.is_some_and(|next| next.starts_with(mark))
    };
    match (keyword, words.next()) {
        ("const", _) => code.contains('='),
        ("typedef", _) => code.contains(';') || TYPE_WORDS.contains(&name),
        ("union", Some(word)) => word.starts_with("switch"),
        ("union", None) => follows("switch"),
        (_, Some(word)) => word.starts_with('{') || name.contains('{'),
        (_, None) => name.contains('{') || follows("{"),
    }
}

/// Returns a line without its comments.
fn without_comments(line: &str) -> String {
    let mut found = String::new();
    let mut rest = line;
    while let Some((code, comment)) = rest.split_once("/*") {
        found += code;
        found.push(' ');
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
    }
    found + rest
}

/// Returns the lines of the sections, without page breaks and lines with a marker.
fn lines(document: &Document, sections: &[String]) -> Vec<Line> {
    let page_breaks = header_footer_lines(document.text());
    let lines = document.text().lines().enumerate();
    let wanted = |number: usize| {
        let section = document.section(number);
        sections.is_empty() || section.is_some_and(|section| is_within(&section.number, sections))
    };
    lines
        .filter(|(at, line)| !page_breaks[*at] && strip_marker(line).is_none() && wanted(at + 1))
        .map(|(at, line)| {
            let content = line.trim_start_matches('\u{c}').trim_end();
            Line {
                number: at + 1,
                column: line.trim_end().len() - content.len(),
                shifts: Vec::new(),
                content: content.to_owned(),
            }
        })
        .collect()
}

/// Returns true for a section that is one of `sections` or a subsection of one.
fn is_within(number: &str, sections: &[String]) -> bool {
    sections.iter().any(|wanted| {
        let rest = number.strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The construct that begins at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    None,
    /// A definition that does not end, with the number of lines up to the one that shows it, and
    /// how that one does.
    Broken(usize, &'static str),
    /// A complete definition, with its number of lines.
    Whole(usize),
}

/// Returns the extent of a definition at the first line. The lines of a broken definition are not
/// read again, so that the search takes linear time.
fn extent(lines: &[Line]) -> Extent {
    let indent = |line: &Line| line.content.len() - line.content.trim_start().len();
    let Some(first) = lines.first().filter(|line| starts(&line.content)) else {
        return Extent::None;
    };
    let (mut depth, mut in_comment) = (0_usize, false);
    for (at, line) in lines.iter().enumerate() {
        let content = line.content.as_str();
        if content.trim().is_empty() {
            if depth == 0 && !in_comment {
                return Extent::Broken(at, "a blank line precedes the `;`");
            }
            continue;
        }
        if indent(line) < indent(first) {
            return Extent::Broken(at, "the line is indented less than the first");
        }
        if at > 0 && depth == 0 && !in_comment && starts(content) {
            return Extent::Broken(at, "a definition begins before the `;`");
        }
        let mut rest = content;
        while let Some(next) = rest.chars().next() {
            if in_comment {
                let Some(end) = rest.find("*/") else { break };
                in_comment = false;
                rest = &rest[end + 2..];
                continue;
            }
            match next {
                '/' if rest.starts_with("/*") => {
                    in_comment = true;
                    rest = &rest[2..];
                    continue;
                }
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => return Extent::Whole(at + 1),
                _ => {}
            }
            rest = &rest[next.len_utf8()..];
        }
    }
    Extent::Broken(lines.len(), "the text ends before the `;`")
}

/// Returns true if a line begins with a keyword and another word.
fn starts(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let keyword = words.next().is_some_and(|word| KEYWORDS.contains(&word));
    keyword && words.next().is_some()
}

/// Returns the names that a block defines, or why it is not XDR.
fn names(block: &[Line]) -> Result<Vec<String>, String> {
    let mut sources = SourceMap::new();
    let document = sources.add_document("", "");
    sources.set_prose(document, Vec::new());
    let mut text = Text::new(document, TextKind::Xdr);
    for line in block {
        text.push_line(&line.content, line.number, 0);
    }
    let text = sources.add_text(text);
    let mut diagnostics = Diagnostics::default();
    let Specification { definitions, .. } = parse::parse(&sources, text, &mut diagnostics);
    let found = diagnostics.into_sorted(&sources);
    if let Some(error) = found.iter().find(|found| found.is_error()) {
        let line = line_at(block, error.span.map_or(0, |span| span.range().start));
        return Err(format!("line {line}: {}", error.message));
    }
    let names = definitions
        .into_iter()
        .map(|definition| definition.name.name);
    let names: Vec<String> = names.collect();
    let is_empty = names.is_empty();
    (!is_empty)
        .then_some(names)
        .ok_or_else(|| "it defines nothing".to_owned())
}

/// Returns the document's line at an offset in the text of a block.
fn line_at(block: &[Line], offset: usize) -> usize {
    let mut end = 0;
    let found = block.iter().find(|line| {
        end += line.content.len() + 1;
        offset < end
    });
    found.or(block.last()).map_or(0, |line| line.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, sections: &[&str]) -> Vec<(usize, usize, String)> {
        let mut sources = SourceMap::new();
        let document = sources.add_document("a.txt", text);
        let sections: Vec<String> = sections.iter().map(|&section| section.to_owned()).collect();
        let (_, blocks) = read(sources.document(document), &sections);
        let blocks = blocks.taken.into_iter();
        blocks
            .map(|block| (block.lines.0, block.lines.1, block.names.join(" ")))
            .collect()
    }

    #[test]
    fn definitions_are_distinguished_from_prose() {
        let text = "1. A\n\n   struct of two; a\n   union\n   const\n\
                    \n      struct a {\n         int b;\n\n\
                    Author     [Page 1]\n\u{c}\nRFC 1    A    1999\n\
                    \n         /* ; */ int c;\n      };\n\n\
                    2. B\n\n      struct open {\n   Prose.\n\n      const C = 1; const\n      \
                    enum d {\n        E = 1 };\n";
        assert_eq!(
            found(text, &[]),
            [(7, 15, "a".to_owned()), (23, 24, "d".to_owned())]
        );
        assert_eq!(found(text, &["1"]).len(), 1);
        assert_eq!(found(text, &["2"])[0].0, 23);
        assert_eq!(found(text, &["3"]), []);
    }

    #[test]
    fn a_second_definition_is_compared_with_the_first() {
        let mut sources = SourceMap::new();
        let text = "  const A = 1;\n\n  const A = 2;\n";
        let document = sources.add_document("a.txt", text);
        let (blocks, found) = read(sources.document(document), &[]);
        assert_eq!((blocks.xdr.len(), blocks.copies.len()), (1, 1));
        assert_eq!(found.taken[1].repeats, Some(1));
    }

    #[test]
    fn text_like_a_definition_that_is_not_taken_is_listed() {
        let text = "1. A\n\n   const A = 1\n\n   struct a {\n      int;\n   };\n\n   struct b\n   \
                    {\n      int x;\n  Prose.\n\n   enum c { C = 1 }\n   const D = 1;\n\n   struct \
                    of two\n   union of them\n\n   union u switch (int a) {\n";
        let mut sources = SourceMap::new();
        let document = sources.add_document("a.txt", text);
        let (_, found) = read(sources.document(document), &[]);
        let rejected = found.rejected.iter().map(|block| {
            let (first, last) = block.lines;
            format!("{first}-{last} {}: {}", block.begin, block.reason)
        });
        let expected = [
            "3-3 const A = 1: line 4: a blank line precedes the `;`",
            "5-7 struct a {: line 6: expected a name, found `;`",
            "9-11 struct b: line 12: the line is indented less than the first",
            "14-14 enum c { C = 1 }: line 15: a definition begins before the `;`",
            "20-20 union u switch (int a) {: line 20: the text ends before the `;`",
        ];
        assert_eq!(rejected.collect::<Vec<_>>(), expected);
        assert_eq!(found.taken.len(), 1);
    }

    #[test]
    fn other_styles_of_definitions_are_listed() {
        for (text, is_listed) in [
            ("  typedef union switch (int a) {\n", true),
            ("  typedef struct\n", true),
            ("  union a\n  switch (int b) {\n", true),
            ("  struct a{ int\n", true),
            ("  struct a{\n", true),
            ("  struct a /* b */ {\n", true),
            ("  typedef a of\n", false),
            ("  union a\n  of b\n", false),
            ("  struct a /* { */\n", false),
        ] {
            let mut sources = SourceMap::new();
            let document = sources.add_document("a.txt", text);
            let (_, found) = read(sources.document(document), &[]);
            assert_eq!(found.rejected.len(), usize::from(is_listed), "{text}");
        }
    }

    /// RFC 5531 ends a union in this way.
    #[test]
    fn a_name_after_the_brace_is_accepted() {
        assert_eq!(
            found("  struct a {\n    int b;\n  } c;\n", &[]),
            [(1, 3, "a".to_owned())]
        );
    }
}
