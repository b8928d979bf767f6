//! Converts between byte offsets and the positions of LSP, which count UTF-16 code units (`lsp`
//! announces this encoding). A table belongs to one text: each method takes the text that
//! [`Lines::of`] has read. Positions of an editor may be out of range, and are clipped, so that
//! slices do not panic.

use std::ops::Range as Bytes;

use super::params::{Position, Range};

/// The starts of a text's lines. A line ends with `\n`, `\r\n` or `\r` (LSP 3.17, "Text
/// Documents").
#[derive(Clone, Debug)]
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends {
                starts.push(at + 1);
            }
        }
        Self(starts)
    }

    /// Returns the range of a line in `text`, without its end.
    fn content(&self, text: &str, line: usize) -> Bytes<usize> {
        let start = self.0.get(line).copied().unwrap_or(text.len());
        let end = self.0.get(line + 1).copied().unwrap_or(text.len());
        let line = text.get(start..end).unwrap_or_default();
        start..start + line.trim_end_matches(['\r', '\n']).len()
    }

    /// Returns the byte offset of a position. A position beyond the end of its line maps to that
    /// end, and a position within a character to its start.
    pub(crate) fn offset(&self, text: &str, position: Position) -> usize {
        let line = self.content(
            text,
            usize::try_from(position.line).unwrap_or(usize::MAX - 1),
        );
        let mut units = 0;
        for (at, c) in text[line.clone()].char_indices() {
            units += c.len_utf16();
            if units > position.character as usize {
                return line.start + at;
            }
        }
        line.end
    }

    /// Returns the byte range of an LSP range. The end is never before the start.
    pub(crate) fn offsets(&self, text: &str, range: Range) -> Bytes<usize> {
        let start = self.offset(text, range.start);
        start..self.offset(text, range.end).max(start)
    }

    /// Returns the position of a byte offset.
    pub(crate) fn position(&self, text: &str, offset: usize) -> Position {
        let line = self.0.partition_point(|start| *start <= offset).max(1) - 1;
        let start = self.0[line];
        let before = text.get(start..offset).unwrap_or_default();
        let units: usize = before.chars().map(char::len_utf16).sum();
        let clip = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Position {
            line: clip(line),
            character: clip(units),
        }
    }

    /// Returns the LSP range of a byte range.
    pub(crate) fn range(&self, text: &str, bytes: Bytes<usize>) -> Range {
        Range {
            start: self.position(text, bytes.start),
            end: self.position(text, bytes.end),
        }
    }

    /// Returns the range of the whole text.
    pub(crate) fn whole(&self, text: &str) -> Range {
        self.range(text, 0..text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn positions_count_utf_16_code_units() {
        let text = "a\u{e9}\u{1f600}z\nb";
        let lines = Lines::of(text);
        for (offset, position) in [
            (0, at(0, 0)),
            (1, at(0, 1)),
            (3, at(0, 2)),
            (7, at(0, 4)),
            (8, at(0, 5)),
            (9, at(1, 0)),
            (10, at(1, 1)),
        ] {
            assert_eq!(lines.position(text, offset), position);
            assert_eq!(lines.offset(text, position), offset);
        }
        // Between the halves of a surrogate pair, and beyond the ends.
        assert_eq!(lines.offset(text, at(0, 3)), 3);
        assert_eq!(lines.offset(text, at(0, 99)), 8);
        assert_eq!(lines.offset(text, at(9, 9)), 10);
        assert_eq!(lines.offset(text, at(u32::MAX, u32::MAX)), 10);
    }

    #[test]
    fn lines_end_in_three_ways() {
        let text = "a\r\nb\rc\n\nd\r";
        let lines = Lines::of(text);
        let starts: Vec<usize> = (0..6).map(|line| lines.offset(text, at(line, 0))).collect();
        assert_eq!(starts, [0, 3, 5, 7, 8, 10]);
        assert_eq!(lines.offset(text, at(0, 9)), 1);
        assert_eq!(lines.whole(text).end, at(5, 0));
    }
}
