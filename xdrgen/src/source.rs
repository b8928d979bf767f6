//! The source map: documents, the XDR texts extracted from them, and positions in both.
//!
//! A [`Document`] is a file as published. A [`Text`] is XDR extracted from it: its lines without
//! their markers, with errata applied. Every token has a [`Span`] in a text. [`SourceMap::locate`]
//! maps a span to the line, column, page and section of the document.
//!
//! Identifiers and spans are valid only in the map that created them, and in its clones. A map only
//! grows, and no content changes, because spans are byte offsets. Diagnostics are sorted by
//! [`DocumentId`], hence in the order in which documents are added. `document_offset` bisects the
//! lines and shifts of a text, so a text is built in ascending order. `report` relies on ranges of
//! [`SourceMap::document_range`] that begin and end between characters.

use std::ops::Range;

use crate::outline::{Section, Syntax};

/// Identifies a [`Document`] of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId(u32);

/// Identifies a [`Text`] of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(u32);

/// A byte range in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The text that contains the range.
    pub text: TextId,
    /// The offset of the first byte.
    pub start: u32,
    /// The offset one past the last byte.
    pub end: u32,
}

impl Span {
    /// Creates a span for the bytes `range` of a text.
    #[must_use]
    pub fn new(text: TextId, range: Range<usize>) -> Self {
        let clip = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            text,
            start: clip(range.start),
            end: clip(range.end),
        }
    }

    /// Returns the smallest span that contains `self` and `other`. Both are in one text.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            text: self.text,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Returns the byte range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A file as published. It is never modified.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    text: String,
    line_starts: Vec<usize>,
    /// The first line and the number of each page, ascending; empty if the file has no page breaks.
    pages: Vec<(usize, u32)>,
    /// The section headings, in document order.
    sections: Vec<Section>,
    /// The sections whose XDR is only in running text, without markers; `None` for a document with
    /// markers. An empty list stands for all sections.
    prose: Option<Vec<String>>,
    /// Whether the document extends definitions of other documents.
    extension: bool,
}

impl Document {
    /// Returns the path or name that the user gave.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file name without folders.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name)
    }

    /// Returns the file name without folders and without a `.txt`, `.x`, `.xml` or `.md` extension.
    #[must_use]
    pub fn title(&self) -> &str {
        let file = self.file_name();
        [".txt", ".x", ".xml", ".md"]
            .iter()
            .find_map(|end| file.strip_suffix(end))
            .unwrap_or(file)
    }

    /// Returns the whole content.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the sections whose definitions are in running text, without markers; `None` for a
    /// document whose XDR has markers. An empty list stands for all sections.
    #[must_use]
    pub fn prose_sections(&self) -> Option<&[String]> {
        self.prose.as_deref()
    }

    /// Returns true if the document extends definitions of other documents.
    #[must_use]
    pub fn is_extension(&self) -> bool {
        self.extension
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// Returns the content of a line without its line end. The first line is 1. Returns an empty
    /// string if there is no such line.
    #[must_use]
    pub fn line(&self, line: usize) -> &str {
        let range = self.line_range(line);
        self.text[range].trim_end_matches(['\n', '\r'])
    }

    /// Returns the byte range of a line, with its line end. The first line is 1.
    #[must_use]
    pub fn line_range(&self, line: usize) -> Range<usize> {
        let end = self.text.len();
        let start = line
            .checked_sub(1)
            .and_then(|at| self.line_starts.get(at))
            .copied()
            .unwrap_or(end);
        start..self.line_starts.get(line).copied().unwrap_or(end)
    }

    /// Returns the page that contains a line, if the file has page breaks.
    #[must_use]
    pub fn page(&self, line: usize) -> Option<u32> {
        let after = self.pages.partition_point(|(first, _)| *first <= line);
        after.checked_sub(1).map(|at| self.pages[at].1)
    }

    /// Returns the section that contains a line.
    #[must_use]
    pub fn section(&self, line: usize) -> Option<&Section> {
        let after = self
            .sections
            .partition_point(|section| section.line <= line);
        after.checked_sub(1).map(|at| &self.sections[at])
    }

    /// Converts a byte offset to a line number, starting at 1, and a byte offset within that line.
    #[must_use]
    pub fn line_of(&self, offset: usize) -> (usize, usize) {
        let line = self
            .line_starts
            .partition_point(|start| *start <= offset)
            .max(1);
        (line, offset - self.line_starts[line - 1])
    }
}

/// The position of one line of a [`Text`] in the text and in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextLine {
    /// The offset of the line's first byte in the text.
    start: usize,
    /// The line number in the document; the first line is 1.
    document_line: usize,
    /// The byte offset, in the document's line, at which the content begins.
    column: usize,
}

/// The role of a text. It decides which diagnostics apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Definitions to compile: the `///` lines of a draft, or a whole `.x` file.
    Xdr,
    /// A copy of definitions in running text, between `<CODE BEGINS>` and `<CODE ENDS>`. It is
    /// compared with the definitions and not compiled.
    Copy,
    /// Text that is not XDR: a manifest or an errata file.
    Other,
}

/// XDR extracted from a document, line by line.
#[derive(Clone, Debug)]
pub struct Text {
    document: DocumentId,
    kind: TextKind,
    content: String,
    lines: Vec<TextLine>,
    /// The offsets at which the text of a line continues at another column: the offset in the text,
    /// and the column.
    shifts: Vec<(usize, usize)>,
}

impl Text {
    /// Creates an empty text of `document`.
    #[must_use]
    pub fn new(document: DocumentId, kind: TextKind) -> Self {
        Self {
            document,
            kind,
            content: String::new(),
            lines: Vec::new(),
            shifts: Vec::new(),
        }
    }

    /// Appends one line of XDR. `content` has no line end. It stands on line `document_line`
    /// (starting at 1) from the byte `column` of that line. Several lines may have one document
    /// line, because an erratum may replace one line by several.
    pub fn push_line(&mut self, content: &str, document_line: usize, column: usize) {
        self.lines.push(TextLine {
            start: self.content.len(),
            document_line,
            column,
        });
        self.content.push_str(content);
        self.content.push('\n');
    }

    /// Records the columns of the document at which the last line continues, because the document
    /// writes characters in another way: each offset in the line, and the byte of the document's
    /// line. The offsets ascend. The call follows the [`Self::push_line`] of the line.
    pub(crate) fn shift_line(&mut self, shifts: &[(usize, usize)]) {
        if let Some(line) = self.lines.last() {
            let shifts = shifts.iter();
            self.shifts
                .extend(shifts.map(|(at, column)| (line.start + at, *column)));
        }
    }

    /// Returns the document that the text was extracted from.
    #[must_use]
    pub fn document(&self) -> DocumentId {
        self.document
    }

    /// Returns the role of the text.
    #[must_use]
    pub fn kind(&self) -> TextKind {
        self.kind
    }

    /// Returns the XDR.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Returns each line as (document line, content).
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines
            .iter()
            .zip(self.content.lines())
            .map(|(line, content)| (line.document_line, content))
    }

    /// Returns the byte of the document's line at which an offset is.
    fn column_at(&self, line: &TextLine, offset: usize) -> usize {
        let after = self.shifts.partition_point(|(at, _)| *at <= offset);
        let shift = after.checked_sub(1).map(|at| self.shifts[at]);
        match shift.filter(|(at, _)| *at >= line.start) {
            Some((at, column)) => column + (offset - at),
            None => line.column + (offset - line.start),
        }
    }

    fn line_at(&self, offset: usize) -> Option<&TextLine> {
        let after = self.lines.partition_point(|line| line.start <= offset);
        after.checked_sub(1).map(|at| &self.lines[at])
    }
}

/// A position in a document, in the terms a person uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location<'s> {
    /// The document's name.
    pub document: &'s str,
    /// The line number, starting at 1.
    pub line: usize,
    /// The column in characters, starting at 1.
    pub column: usize,
    /// The page number, if the file has page breaks.
    pub page: Option<u32>,
    /// The section, if the file has headings.
    pub section: Option<&'s Section>,
}

impl std::fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.document, self.line, self.column)
    }
}

/// The documents and texts of a compilation.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    documents: Vec<Document>,
    texts: Vec<Text>,
}

impl SourceMap {
    /// Creates an empty source map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a document and computes its [`crate::outline`].
    pub fn add_document(&mut self, name: impl Into<String>, text: impl Into<String>) -> DocumentId {
        let (name, text) = (name.into(), text.into());
        let mut line_starts = vec![0];
        line_starts.extend(
            text.match_indices('\n')
                .map(|(at, _)| at + 1)
                .filter(|at| *at < text.len()),
        );
        let outline = Syntax::of(&name).outline(&text);
        let document = Document {
            name,
            text,
            line_starts,
            pages: outline.pages,
            sections: outline.sections,
            prose: None,
            extension: false,
        };
        self.documents.push(document);
        DocumentId(index(self.documents.len() - 1))
    }

    /// Marks a document whose XDR is only in running text: in these sections, or in all sections if
    /// the list is empty. The call precedes extraction and parsing, which read the mark.
    ///
    /// # Panics
    /// Panics if `id` is from another source map and out of range here.
    pub fn set_prose(&mut self, id: DocumentId, sections: Vec<String>) {
        self.documents[id.0 as usize].prose = Some(sections);
    }

    /// Marks a document that extends definitions of other documents. The call precedes parsing,
    /// which accepts members and arms outside of a definition only in such a document.
    ///
    /// # Panics
    /// Panics if `id` is from another source map and out of range here.
    pub fn set_extension(&mut self, id: DocumentId) {
        self.documents[id.0 as usize].extension = true;
    }

    /// Adds a text.
    pub fn add_text(&mut self, text: Text) -> TextId {
        self.texts.push(text);
        TextId(index(self.texts.len() - 1))
    }

    /// Adds a text that consists of all lines of a document.
    pub fn add_document_text(&mut self, document: DocumentId, kind: TextKind) -> TextId {
        let mut text = Text::new(document, kind);
        for (at, line) in self.document(document).text().lines().enumerate() {
            text.push_line(line, at + 1, 0);
        }
        self.add_text(text)
    }

    /// Returns the document with an identifier from this source map.
    ///
    /// # Panics
    /// Panics if `id` is from another source map and out of range here.
    #[must_use]
    pub fn document(&self, id: DocumentId) -> &Document {
        &self.documents[id.0 as usize]
    }

    /// Returns all documents.
    pub fn documents(&self) -> impl Iterator<Item = (DocumentId, &Document)> {
        self.documents
            .iter()
            .enumerate()
            .map(|(at, document)| (DocumentId(index(at)), document))
    }

    /// Returns the text with an identifier from this source map.
    ///
    /// # Panics
    /// Panics if `id` is from another source map and out of range here.
    #[must_use]
    pub fn text(&self, id: TextId) -> &Text {
        &self.texts[id.0 as usize]
    }

    /// Returns the characters of a span; empty if the span is out of range.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.text)
            .content
            .get(span.range())
            .unwrap_or_default()
    }

    /// Returns the document that contains a span.
    #[must_use]
    pub fn document_of(&self, span: Span) -> &Document {
        self.document(self.text(span.text).document)
    }

    /// Returns the position in the document at which a span begins.
    #[must_use]
    pub fn locate(&self, span: Span) -> Location<'_> {
        let document = self.document_of(span);
        let (line, byte) = document.line_of(self.document_range(span).start);
        let before = document.line(line).get(..byte).unwrap_or_default();
        Location {
            document: document.name(),
            line,
            column: before.chars().count() + 1,
            page: document.page(line),
            section: document.section(line),
        }
    }

    /// Maps a span to a byte range of the document. On a line that an erratum changed, the range is
    /// clipped to the line.
    #[must_use]
    pub fn document_range(&self, span: Span) -> Range<usize> {
        let text = self.text(span.text);
        let document = self.document(text.document);
        let start = document_offset(text, document, span.start as usize);
        let end = document_offset(text, document, (span.end as usize).max(span.start as usize));
        start..end.max(start)
    }
}

/// Maps a byte offset of the text to one of the document, clipped to the line and to a character
/// boundary.
fn document_offset(text: &Text, document: &Document, offset: usize) -> usize {
    let Some(line) = text.line_at(offset) else {
        return 0;
    };
    let range = document.line_range(line.document_line);
    let length = document.line(line.document_line).len();
    let mut at = range.start + text.column_at(line, offset).min(length);
    while !document.text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
