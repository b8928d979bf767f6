//! Extracts XDR from drafts and RFCs as published: the definitions are the lines with the marker
//! `///`. Blocks between `<CODE BEGINS>` and `<CODE ENDS>` that repeat definitions without the
//! marker are the copies, which are not compiled but compared with the definitions.
//!
//! The `sed` command that the drafts print for this purpose expects exactly one blank before and
//! after the marker, which not all of their lines have. This module accepts any indentation and
//! removes at most one blank after the marker.
//!
//! [`strip_marker`], [`code_mark`] and [`names_a_file`] are the only definitions of the marker and
//! the code marks. `prose`, `blocks` and the lints of `check` use them, and `extract` takes a file
//! without a known extension for a draft if one line has the marker. `check::unmarked::gaps` finds
//! the blocks between code marks itself: a change to [`copies`] may need one there. Line numbers
//! ascend, because `patch` bisects by them.

use super::line::{Blocks, Line, Markers};
use super::x;
use crate::outline::page::header_footer_lines;

/// Returns the column and the content of the XDR on a line whose first non-blank characters are
/// `///`. The content is the end of the line, and the column its first byte in the line. The first
/// line of a file may have a byte order mark before the marker.
pub(crate) fn strip_marker(line: &str) -> Option<(usize, &str)> {
    let after = line
        .trim_start_matches([' ', '\t', '\u{c}', '\u{feff}'])
        .strip_prefix("///")?;
    let content = after.strip_prefix(' ').unwrap_or(after);
    Some((line.len() - content.len(), content))
}

/// A line that opens or closes a block of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeMark {
    /// `<CODE BEGINS>`, which `file "a.x"` may follow.
    Begins,
    /// `<CODE ENDS>`
    Ends,
}

/// Returns the mark on a line, if there is one.
pub(crate) fn code_mark(line: &str) -> Option<CodeMark> {
    let line = line.trim();
    if line.starts_with("<CODE BEGINS>") {
        return Some(CodeMark::Begins);
    }
    (line == "<CODE ENDS>").then_some(CodeMark::Ends)
}

/// Returns the marked lines of a draft, and the copies of definitions in it.
pub(super) fn read(text: &str) -> Blocks {
    let xdr = text
        .lines()
        .enumerate()
        .filter_map(|(at, line)| xdr_line(at + 1, line));
    Blocks {
        xdr: xdr.collect(),
        copies: copies(text),
        markers: Markers::default(),
    }
}

/// Returns true for the content of a line such as `/// @@FILE a.x`, which names a file.
pub(super) fn names_a_file(content: &str) -> bool {
    content.trim_start().starts_with("@@FILE")
}

/// Returns the XDR of a line. A line that names a file contains none.
fn xdr_line(number: usize, line: &str) -> Option<Line> {
    let (column, content) = strip_marker(line)?;
    (!names_a_file(content)).then(|| Line {
        number,
        column,
        shifts: Vec::new(),
        content: content.to_owned(),
    })
}

/// Returns the blocks between `<CODE BEGINS>` and `<CODE ENDS>` that are copies of definitions,
/// without page breaks. A second `<CODE BEGINS>` discards the open block.
fn copies(text: &str) -> Vec<Vec<Line>> {
    let page_breaks = header_footer_lines(text);
    let mut copies = Vec::new();
    let mut open: Option<Vec<Line>> = None;
    for (at, line) in text.lines().enumerate() {
        match code_mark(line) {
            Some(CodeMark::Begins) => open = Some(Vec::new()),
            Some(CodeMark::Ends) => copies.extend(open.take().filter(|lines| is_copy(lines))),
            None if page_breaks.get(at) == Some(&true) => {}
            None => {
                if let Some(lines) = &mut open {
                    let content = line.trim_start_matches('\u{c}');
                    let column = line.len() - content.len();
                    lines.push(Line {
                        number: at + 1,
                        column,
                        shifts: Vec::new(),
                        content: content.to_owned(),
                    });
                }
            }
        }
    }
    copies
}

/// Returns true if a block of code is a copy of definitions. A block with a marked line contains
/// the definitions themselves.
fn is_copy(lines: &[Line]) -> bool {
    if lines
        .iter()
        .any(|line| strip_marker(&line.content).is_some())
    {
        return false;
    }
    let text: Vec<&str> = lines.iter().map(|line| line.content.as_str()).collect();
    x::looks_like(&text.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_line_loses_its_marker_and_one_blank() {
        let cases = [
            ("/// a", Some((4, "a"))),
            ("   ///typedef int a;", Some((6, "typedef int a;"))),
            ("   ////*", Some((6, "/*"))),
            ("           ///  * b", Some((15, " * b"))),
            ("\t/// \tc", Some((5, "\tc"))),
            ("\u{c}///", Some((4, ""))),
            ("   line, plus a sentinel sequence of \"///\".", None),
            (
                "   grep '^ *///' | sed 's?^ /// ??' | sed 's?^ *///$??'",
                None,
            ),
            ("   <http:///example>", None),
            ("   // a comment", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(strip_marker(line), expected, "{line}");
        }
    }

    #[test]
    fn an_unclosed_block_is_not_a_copy() {
        assert_eq!(read("<CODE BEGINS>\nconst A = 1;\n"), Blocks::default());
        let copies = read(
            "<CODE BEGINS>\nprose\n<CODE BEGINS> file \"a.x\"\n/* a */ const A = 1;\n <CODE \
                ENDS>\n",
        )
        .copies;
        assert_eq!(copies.len(), 1);
        assert_eq!(copies[0].len(), 1);
        assert_eq!(copies[0][0].number, 4);
    }

    #[test]
    fn file_names_are_ignored() {
        let blocks = read("/// @@FILE a.x\n/// const A = 1;\n/// /* FILE ENDS: a.x */\n");
        let lines: Vec<&str> = blocks
            .xdr
            .iter()
            .map(|line| line.content.as_str())
            .collect();
        assert_eq!(lines, ["const A = 1;", "/* FILE ENDS: a.x */"]);
    }
}
