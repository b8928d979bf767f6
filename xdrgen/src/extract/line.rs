//! Lines of XDR before they form a text. Errata may still change them.

use crate::source::{DocumentId, Text, TextKind};

/// A line of XDR and its position in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The line number in the document; the first line is 1.
    pub(super) number: usize,
    /// The byte offset, in the document's line, at which the content begins.
    pub(super) column: usize,
    /// The offsets at which the content continues at another column: the offset in the content, and
    /// the byte of the document's line.
    pub(super) shifts: Vec<(usize, usize)>,
    /// The XDR. It contains several lines if an erratum inserted some.
    pub(super) content: String,
}

/// The XDR of a document. The lines of each block have ascending numbers, and each number occurs
/// once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    /// The definitions to compile.
    pub(super) xdr: Vec<Line>,
    /// The copies of definitions in running text.
    pub(super) copies: Vec<Vec<Line>>,
}

/// Joins the lines of a block into a text.
pub(super) fn text(lines: &[Line], document: DocumentId, kind: TextKind) -> Text {
    let mut text = Text::new(document, kind);
    for line in lines {
        for (at, piece) in line.content.split('\n').enumerate() {
            text.push_line(piece, line.number, line.column);
            if at == 0 {
                text.shift_line(&line.shifts);
            }
        }
    }
    text
}
