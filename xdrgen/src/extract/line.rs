//! Lines of XDR before they become a text: errata may still change them.

use crate::source::{DocumentId, Text, TextKind};

/// One line of XDR, and where it stands in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The line of the document, counted from one.
    pub(super) number: usize,
    /// The octet of that line at which the content begins.
    pub(super) column: usize,
    /// The XDR. An erratum may have made several lines of it.
    pub(super) content: String,
}

/// What a document holds. The lines of each block have ascending numbers, each number once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    /// The definitions that are compiled.
    pub(super) xdr: Vec<Line>,
    /// The copies in running text.
    pub(super) copies: Vec<Vec<Line>>,
}

/// The text that a block's lines make.
pub(super) fn text(lines: &[Line], document: DocumentId, kind: TextKind) -> Text {
    let mut text = Text::new(document, kind);
    for line in lines {
        for piece in line.content.split('\n') {
            text.push_line(piece, line.number, line.column);
        }
    }
    text
}
