//! Lines of XDR before they form a text. Errata may still change them.
//!
//! The readers `txt`, `x`, `markup` and `prose` create the lines and their positions. `patch`
//! bisects the lines of a block by number, and `check::unmarked::gaps` bisects the unmarked lines
//! of [`Markers`], so both must ascend. The columns count bytes of the document's line, also where
//! the document writes an entity for a character.

use std::ops::Range;

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
    /// Which lines of the document have a marker.
    pub(super) markers: Markers,
}

/// Which lines of a document have a marker, and which may have lost theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Markers {
    /// The XDR of the document has no markers.
    #[default]
    None,
    /// Each line that begins with `///` is XDR. Any other line may have lost its marker.
    Lines,
    /// The XDR is in blocks. These lines of them have no marker and belong to no copy; their
    /// numbers ascend.
    Blocks(Vec<UnmarkedLine>),
    /// The XDR is in blocks of the type `xdr`, and has no markers. These lines are in blocks with
    /// no type; their numbers ascend.
    Types(Vec<UnmarkedLine>),
}

/// A line without a marker in a block of XDR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnmarkedLine {
    /// The line number in the document; the first line is 1.
    pub(crate) number: usize,
    /// The bytes of the document's line that are the content.
    pub(crate) columns: Range<usize>,
    /// The XDR without the blanks around it.
    pub(crate) content: String,
    pub(crate) place: Place,
}

/// Where a line without a marker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the running text of a document without blocks.
    Text,
    /// In a block of XDR without markers.
    Block,
    /// In a block of XDR without markers that looks like a copy of definitions.
    Copy,
    /// In a block without markers whose language the document does not name, or in running text
    /// beside a marked line.
    Unnamed,
    /// In a block whose language the document does not name, beside blocks of XDR without markers.
    Untyped,
    /// In a block of XDR whose other lines have markers.
    BesideMarked,
}

impl Line {
    /// Returns the column of an offset in the content.
    pub(super) fn column_at(&self, offset: usize) -> usize {
        let shift = self.shifts.iter().rfind(|(at, _)| *at <= offset);
        let (at, column) = shift.copied().unwrap_or((0, self.column));
        column + (offset - at)
    }

    /// Returns the line as one without a marker; `None` if it is blank.
    pub(super) fn unmarked(&self, place: Place) -> Option<UnmarkedLine> {
        let content = self.content.trim();
        let start = self.content.len() - self.content.trim_start().len();
        (!content.is_empty()).then(|| UnmarkedLine {
            number: self.number,
            columns: self.column_at(start)..self.column_at(start + content.len()),
            content: content.to_owned(),
            place,
        })
    }
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
