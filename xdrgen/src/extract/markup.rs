//! Reads the blocks of RFCXML, `<sourcecode>` and `<artwork>`, and of markdown, which are between
//! fences.
//!
//! `outline::xml` and `outline::markdown` recognize tags, entities and fences; `blocks` decides
//! which blocks are XDR. A block of running text becomes a [`Block`] too, so that its `///` lines
//! count. The column and the shifts of each line point to the bytes of the document, past tags and
//! entities: diagnostics and their fixes rely on them. Positions only move forward, which keeps the
//! time linear.

use super::blocks::{Block, Language, select};
use super::line::{Blocks, Line};
use crate::outline::markdown::Fence;
use crate::outline::xml::{Piece, attribute, entity, pieces};

/// Returns the XDR of an RFCXML document.
pub(super) fn read_xml(text: &str) -> Blocks {
    let mut blocks = Vec::new();
    let mut open: Option<Builder<'_>> = None;
    let mut position = Position {
        text,
        line: 1,
        start: 0,
        counted: 0,
    };
    for (at, piece) in pieces(text) {
        match (piece, &mut open) {
            (
                Piece::Start {
                    name: "sourcecode" | "artwork",
                    attributes,
                    empty: false,
                },
                None,
            ) => {
                let language = Language::of_type(attribute(attributes, "type").unwrap_or_default());
                open = Some(Builder::new(position.at(at), language));
            }
            (Piece::End("sourcecode" | "artwork"), Some(_)) => {
                blocks.extend(open.take().map(|builder| builder.block));
            }
            (Piece::Text(range), Some(builder)) => builder.push(range.start, range.end, true),
            (Piece::Verbatim(range), Some(builder)) => builder.push(range.start, range.end, false),
            (Piece::Text(range), None) if text[range.clone()].contains("///") => {
                let mut builder = Builder::new(position.at(at), Language::Text);
                builder.push(range.start, range.end, true);
                position = builder.position;
                blocks.push(builder.block);
            }
            _ => {}
        }
        if let Some(builder) = &open {
            position = builder.position;
        }
    }
    blocks.retain(Block::is_candidate);
    select(blocks)
}

/// Returns the XDR of a markdown document.
pub(super) fn read_markdown(text: &str) -> Blocks {
    let mut blocks = Vec::new();
    let mut block = Block::new(Language::Text);
    let mut open: Option<Fence<'_>> = None;
    for (at, line) in text.lines().enumerate() {
        let begins = match (open, Fence::read(line)) {
            (Some(begin), Some(end)) if end.closes(&begin) => {
                open = None;
                Some(Language::Text)
            }
            (None, Some(fence)) => {
                open = Some(fence);
                Some(language(&fence))
            }
            (None, None) if line.trim().is_empty() => Some(Language::Text),
            _ => None,
        };
        if let Some(language) = begins {
            let ended = std::mem::replace(&mut block, Block::new(language));
            blocks.extend(ended.is_candidate().then_some(ended));
            continue;
        }
        block.lines.push(Line {
            number: at + 1,
            column: 0,
            shifts: Vec::new(),
            content: line.to_owned(),
        });
    }
    blocks.extend(block.is_candidate().then_some(block));
    select(blocks)
}

/// Returns the language of the block that a fence opens.
fn language(fence: &Fence<'_>) -> Language {
    let word = fence.info.trim_start_matches(['{', '.', ' ']);
    Language::of_type(word.split([' ', '}', ',']).next().unwrap_or_default())
}

/// A position in a document, which only moves forward.
#[derive(Clone, Copy)]
struct Position<'t> {
    text: &'t str,
    line: usize,
    /// The offset of the line's first byte.
    start: usize,
    /// The offset up to which lines were counted.
    counted: usize,
}

impl Position<'_> {
    /// Returns the position at an offset that is not before this one.
    fn at(mut self, offset: usize) -> Self {
        let between = &self.text[self.counted..offset];
        self.line += between.matches('\n').count();
        self.start = between
            .rfind('\n')
            .map_or(self.start, |at| self.counted + at + 1);
        self.counted = offset;
        self
    }
}

/// Collects the lines of a block.
struct Builder<'t> {
    position: Position<'t>,
    block: Block,
    /// The offset at which the document's line of the last line begins.
    start: usize,
    /// Whether the next character begins a line.
    fresh: bool,
}

impl<'t> Builder<'t> {
    fn new(position: Position<'t>, language: Language) -> Self {
        Self {
            position,
            block: Block::new(language),
            start: position.start,
            fresh: true,
        }
    }

    /// Adds a range of the document, with entities or verbatim.
    fn push(&mut self, start: usize, end: usize, entities: bool) {
        let text = self.position.text;
        let mut at = start;
        self.resume(at);
        while let Some(first) = text.get(at..end).and_then(|rest| rest.chars().next()) {
            let decoded = (entities && first == '&')
                .then(|| entity(&text[at..end]))
                .flatten();
            let (next, length) = decoded.unwrap_or((first, first.len_utf8()));
            if first == '\n' {
                self.fresh = true;
            } else if first != '\r' {
                self.jump(at);
                if let Some(line) = self.block.lines.last_mut() {
                    line.content.push(next);
                }
            }
            at += length;
            if decoded.is_some() {
                self.jump_within(at);
            }
        }
    }

    /// Continues the last line after a tag or a comment, which may have several lines. A line that
    /// is still blank begins there.
    fn resume(&mut self, at: usize) {
        let line = self.position.line;
        self.position = self.position.at(at);
        let lines = &mut self.block.lines;
        let is_blank = |line: &mut Line| line.content.trim().is_empty();
        if self.position.line > line && !self.fresh && lines.pop_if(is_blank).is_some() {
            self.fresh = true;
        }
        self.jump(at);
    }

    /// Begins a line at an offset, if the previous line has ended.
    fn jump(&mut self, at: usize) {
        if !self.fresh {
            return self.jump_within(at);
        }
        if self.position.text[at..].starts_with(['\r', '\n']) {
            return;
        }
        self.fresh = false;
        self.position = self.position.at(at);
        self.start = self.position.start;
        self.block.lines.push(Line {
            number: self.position.line,
            column: at - self.position.start,
            shifts: Vec::new(),
            content: String::new(),
        });
    }

    /// Records that the last line continues at an offset, unless that is the next column.
    fn jump_within(&mut self, at: usize) {
        let start = self.start;
        if let Some(line) = self.block.lines.last_mut() {
            let length = line.content.len();
            let expected = match line.shifts.last() {
                Some((from, column)) => column + (length - from),
                None => line.column + length,
            };
            let column = at.saturating_sub(start);
            if expected != column {
                line.shifts.push((length, column));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(blocks: &Blocks) -> Vec<(usize, usize, &str)> {
        let lines = blocks.xdr.iter();
        lines
            .map(|line| (line.number, line.column, line.content.as_str()))
            .collect()
    }

    #[test]
    fn code_of_type_xdr_is_read_with_entities_and_verbatim() {
        let text = "<rfc>\n<sourcecode type=\"c\">int a;</sourcecode>\n<t>a &lt; b</t>\n\
            <sourcecode name=\"a.x\" type=\"XDR\">\ntypedef int a&lt;&gt;;\n</sourcecode>\n\
            <sourcecode type='xdr'><![CDATA[typedef opaque b<4>;\n]]></sourcecode>";
        let found = read_xml(text);
        let expected = [(5, 0, "typedef int a<>;"), (7, 32, "typedef opaque b<4>;")];
        assert_eq!(lines(&found), expected);
        assert_eq!(found.xdr[0].shifts, [(14, 17), (15, 21)]);
        assert_eq!(found.xdr[1].shifts, []);
    }

    #[test]
    fn unmarked_blocks_are_copies_if_others_are_marked() {
        let text = "``` xdr\n/// const A = 1;\n```\n~~~xdr\nconst A = 1;\n~~~\n```c\n/// no\n```\n";
        let found = read_markdown(text);
        assert_eq!(lines(&found), [(2, 4, "const A = 1;")]);
        assert_eq!(found.copies.len(), 1);
        let xml = "<sourcecode type=\"xdr\" markers=\"true\">\n  /// a&lt;b&gt;\n</sourcecode>";
        let found = read_xml(xml);
        assert_eq!(lines(&found), [(2, 6, "a<b>")]);
        assert_eq!(found.xdr[0].shifts, [(2, 11), (4, 16)]);
    }

    /// The line that follows the comment in the document has the column.
    #[test]
    fn a_comment_of_two_lines_ends_a_blank_line() {
        for end in ["\n", "\r\n"] {
            let text = format!("<artwork>{end}/// a{end}  <!-- c{end} -->  /// b{end}</artwork>");
            assert_eq!(lines(&read_xml(&text)), [(2, 4, "a"), (4, 10, "b")]);
            let text = format!("<artwork>{end}/// a <!-- c{end} --> b{end}/// c</artwork>");
            let found = read_xml(&text);
            assert_eq!(lines(&found), [(2, 4, "a  b"), (4, 4, "c")]);
        }
    }

    #[test]
    fn damaged_documents_are_read() {
        for text in [
            "<sourcecode type=\"xdr\">&",
            "<sourcecode type=\"xdr\"><![CDATA[a",
        ] {
            assert_eq!(read_xml(text).xdr.len(), 0, "{text}");
        }
        assert_eq!(lines(&read_markdown("~~~ xdr\na\n~~\n"))[0], (2, 0, "a"));
    }
}
