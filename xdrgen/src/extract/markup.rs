//! Reads XDR from RFCXML, where it is the content of `<sourcecode type="xdr">`, and from markdown,
//! where it is between fences with the word `xdr`.

use super::line::{Blocks, Line, Markers};
use super::txt::{code_mark, is_copy, strip_marker};
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
            ) if attribute(attributes, "type").is_some_and(is_xdr) => {
                open = Some(Builder {
                    position: position.at(at),
                    lines: Vec::new(),
                    fresh: true,
                });
            }
            (Piece::End("sourcecode" | "artwork"), Some(_)) => {
                blocks.extend(open.take().map(|builder| builder.lines));
            }
            (Piece::Text(range), Some(builder)) => builder.push(range.start, range.end, true),
            (Piece::Verbatim(range), Some(builder)) => builder.push(range.start, range.end, false),
            _ => {}
        }
        if let Some(builder) = &open {
            position = builder.position;
        }
    }
    blocks_of(blocks)
}

/// Returns the XDR of a markdown document.
pub(super) fn read_markdown(text: &str) -> Blocks {
    let mut blocks: Vec<Vec<Line>> = Vec::new();
    let mut open: Option<(Fence<'_>, Option<Vec<Line>>)> = None;
    for (at, line) in text.lines().enumerate() {
        match (&mut open, Fence::read(line)) {
            (Some((begin, lines)), Some(end)) if end.closes(begin) => {
                blocks.extend(lines.take());
                open = None;
            }
            (Some((_, lines)), _) => {
                if let Some(lines) = lines {
                    lines.push(Line {
                        number: at + 1,
                        column: 0,
                        shifts: Vec::new(),
                        content: line.to_owned(),
                    });
                }
            }
            (None, Some(fence)) => {
                let word = fence.info.trim_start_matches(['{', '.', ' ']);
                let word = word.split([' ', '}', ',']).next().unwrap_or_default();
                open = Some((fence, is_xdr(word).then(Vec::new)));
            }
            (None, None) => {}
        }
    }
    blocks.extend(open.and_then(|(_, lines)| lines));
    blocks_of(blocks)
}

fn is_xdr(word: &str) -> bool {
    word.eq_ignore_ascii_case("xdr")
}

/// Divides blocks of code: if some have the marker `///`, the others are copies.
fn blocks_of(blocks: Vec<Vec<Line>>) -> Blocks {
    let marked = |lines: &[Line]| {
        let mut lines = lines.iter();
        lines.any(|line| strip_marker(&line.content).is_some())
    };
    let has_markers = blocks.iter().any(|lines| marked(lines));
    let mut found = Blocks::default();
    let mut unmarked = Vec::new();
    for lines in blocks {
        if !has_markers {
            found.xdr.extend(lines);
        } else if is_copy(&lines) {
            found.copies.push(lines);
        } else {
            let is_marked = marked(&lines);
            for line in lines {
                match without_marker(&line) {
                    Some(line) => found.xdr.push(line),
                    None if code_mark(&line.content).is_some() => {}
                    None => unmarked.extend(line.unmarked(is_marked)),
                }
            }
        }
    }
    if has_markers {
        found.markers = Markers::Blocks(unmarked);
    }
    found
}

/// Removes the marker of a line; `None` if it has none.
fn without_marker(line: &Line) -> Option<Line> {
    let (removed, content) = strip_marker(&line.content)?;
    let shifts = line.shifts.iter().filter(|(at, _)| *at > removed);
    Some(Line {
        number: line.number,
        column: line.column_at(removed),
        shifts: shifts.map(|(at, column)| (at - removed, *column)).collect(),
        content: content.to_owned(),
    })
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
    lines: Vec<Line>,
    /// Whether the next character begins a line.
    fresh: bool,
}

impl Builder<'_> {
    /// Adds a range of the document, with entities or verbatim.
    fn push(&mut self, start: usize, end: usize, entities: bool) {
        let text = self.position.text;
        let mut at = start;
        // The text after a tag continues its line.
        self.jump(at);
        while let Some(first) = text.get(at..end).and_then(|rest| rest.chars().next()) {
            let decoded = (entities && first == '&')
                .then(|| entity(&text[at..end]))
                .flatten();
            let (next, length) = decoded.unwrap_or((first, first.len_utf8()));
            if first == '\n' {
                self.fresh = true;
            } else if first != '\r' {
                self.jump(at);
                if let Some(line) = self.lines.last_mut() {
                    line.content.push(next);
                }
            }
            at += length;
            if decoded.is_some() {
                self.jump_within(at);
            }
        }
    }

    /// Begins a line at an offset, if the previous line has ended.
    fn jump(&mut self, at: usize) {
        if !self.fresh {
            return self.jump_within(at);
        }
        if self.position.text[at..].starts_with('\n') {
            return;
        }
        self.fresh = false;
        self.position = self.position.at(at);
        self.lines.push(Line {
            number: self.position.line,
            column: at - self.position.start,
            shifts: Vec::new(),
            content: String::new(),
        });
    }

    /// Records that the last line continues at an offset, unless that is the next column.
    fn jump_within(&mut self, at: usize) {
        let start = self.position.start;
        if let Some(line) = self.lines.last_mut() {
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
