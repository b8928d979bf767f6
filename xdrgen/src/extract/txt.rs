//! Drafts and RFCs as published: the XDR stands on lines that begin with `///`.
//!
//! The shell script that the drafts print for this fails on their own text, as it expects one blank before the marker
//! and one after. Here any indentation will do, and at most one blank after the marker is left out.

use super::line::{Blocks, Line};
use super::x;
use crate::outline::page::furniture;

/// Where XDR begins on a line whose first non-blank characters are `///`, and the XDR.
pub(crate) fn marked(line: &str) -> Option<(usize, &str)> {
    let after = line.trim_start_matches([' ', '\t', '\u{c}', '\u{feff}']).strip_prefix("///")?;
    let content = after.strip_prefix(' ').unwrap_or(after);
    Some((line.len() - content.len(), content))
}

/// A line that opens or closes a block of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeMark {
    /// `<CODE BEGINS>`, which may be followed by `file "a.x"`.
    Begins,
    /// `<CODE ENDS>`
    Ends,
}

/// What mark a line is, if any.
pub(crate) fn code_mark(line: &str) -> Option<CodeMark> {
    let line = line.trim();
    if line.starts_with("<CODE BEGINS>") {
        return Some(CodeMark::Begins);
    }
    (line == "<CODE ENDS>").then_some(CodeMark::Ends)
}

/// The XDR of a draft, and its copies.
pub(super) fn read(text: &str) -> Blocks {
    let xdr = text.lines().enumerate().filter_map(|(at, line)| marked_line(at + 1, line));
    Blocks { xdr: xdr.collect(), copies: copies(text) }
}

/// The XDR of a line, unless it only says which file follows, as `/// @@FILE a.x`.
fn marked_line(number: usize, line: &str) -> Option<Line> {
    let (column, content) = marked(line)?;
    let names_a_file = content.trim_start().starts_with("@@FILE");
    (!names_a_file).then(|| Line { number, column, content: content.to_owned() })
}

/// The blocks between `<CODE BEGINS>` and `<CODE ENDS>` that hold definitions, without what page breaks put there.
fn copies(text: &str) -> Vec<Vec<Line>> {
    let furniture = furniture(text);
    let mut copies = Vec::new();
    let mut open: Option<Vec<Line>> = None;
    for (at, line) in text.lines().enumerate() {
        match code_mark(line) {
            Some(CodeMark::Begins) => open = Some(Vec::new()),
            Some(CodeMark::Ends) => copies.extend(open.take().filter(|lines| is_copy(lines))),
            None if furniture.get(at) == Some(&true) => {}
            None => {
                if let Some(lines) = &mut open {
                    let content = line.trim_start_matches('\u{c}');
                    let column = line.len() - content.len();
                    lines.push(Line { number: at + 1, column, content: content.to_owned() });
                }
            }
        }
    }
    copies
}

/// Whether the lines of a block of code are a copy of definitions, and not the definitions or something else.
fn is_copy(lines: &[Line]) -> bool {
    if lines.iter().any(|line| marked(&line.content).is_some()) {
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
            ("   grep '^ *///' | sed 's?^ /// ??' | sed 's?^ *///$??'", None),
            ("   <http:///example>", None),
            ("   // a comment", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(marked(line), expected, "{line}");
        }
    }

    #[test]
    fn a_block_without_its_end_is_no_copy() {
        assert_eq!(read("<CODE BEGINS>\nconst A = 1;\n"), Blocks::default());
        let copies =
            read("<CODE BEGINS>\nprose\n<CODE BEGINS> file \"a.x\"\n/* a */ const A = 1;\n <CODE ENDS>\n").copies;
        assert_eq!(copies.len(), 1);
        assert_eq!(copies[0].len(), 1);
        assert_eq!(copies[0][0].number, 4);
    }

    #[test]
    fn names_of_files_are_left_out() {
        let blocks = read("/// @@FILE a.x\n/// const A = 1;\n/// /* FILE ENDS: a.x */\n");
        let lines: Vec<&str> = blocks.xdr.iter().map(|line| line.content.as_str()).collect();
        assert_eq!(lines, ["const A = 1;", "/* FILE ENDS: a.x */"]);
    }
}
