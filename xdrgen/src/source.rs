//! Documents, the XDR texts extracted from them, and positions in both.
//!
//! A [`Document`] is a file as published. A [`Text`] is XDR taken out of it: its lines without their markers, with
//! errata applied. Every token is a [`Span`] of a text, and [`Sources::locate`] maps it back to the document's own
//! line, column, page and section.

use std::ops::Range;

use crate::outline::{Section, outline};

/// Identifies a [`Document`] of a [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId(u32);

/// Identifies a [`Text`] of a [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(u32);

/// A range of octets of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The text it is in.
    pub text: TextId,
    /// The first octet.
    pub start: u32,
    /// One past the last octet.
    pub end: u32,
}

impl Span {
    /// The span of a text's octets `range`.
    #[must_use]
    pub fn new(text: TextId, range: Range<usize>) -> Self {
        let clip = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { text, start: clip(range.start), end: clip(range.end) }
    }

    /// From the start of `self` to the end of `other`, both of one text.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { text: self.text, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The octets as a range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A file as published: never changed, only read.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    text: String,
    line_starts: Vec<usize>,
    /// The first line of each page and its number, ascending; empty where the file has no page breaks.
    pages: Vec<(usize, u32)>,
    /// The section headings, in their order.
    sections: Vec<Section>,
}

impl Document {
    /// The name it was given: its path, as the user wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's own name, without folders.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name)
    }

    /// The file name without folders and without a `.txt`, `.x`, `.xml` or `.md` ending.
    #[must_use]
    pub fn title(&self) -> &str {
        let file = self.file_name();
        [".txt", ".x", ".xml", ".md"].iter().find_map(|end| file.strip_suffix(end)).unwrap_or(file)
    }

    /// The whole content.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many lines it has.
    #[must_use]
    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// The content of line `line`, counted from one, without its line end; empty where there is no such line.
    #[must_use]
    pub fn line(&self, line: usize) -> &str {
        let range = self.line_range(line);
        self.text[range].trim_end_matches(['\n', '\r'])
    }

    /// The octets of line `line`, counted from one, with its line end.
    #[must_use]
    pub fn line_range(&self, line: usize) -> Range<usize> {
        let end = self.text.len();
        let start = line.checked_sub(1).and_then(|at| self.line_starts.get(at)).copied().unwrap_or(end);
        start..self.line_starts.get(line).copied().unwrap_or(end)
    }

    /// The page that line `line` is on, where the file has page breaks.
    #[must_use]
    pub fn page(&self, line: usize) -> Option<u32> {
        let after = self.pages.partition_point(|(first, _)| *first <= line);
        after.checked_sub(1).map(|at| self.pages[at].1)
    }

    /// The section that line `line` is in.
    #[must_use]
    pub fn section(&self, line: usize) -> Option<&Section> {
        let after = self.sections.partition_point(|section| section.line <= line);
        after.checked_sub(1).map(|at| &self.sections[at])
    }

    /// The line, counted from one, and the octet within it, for an octet of the document.
    #[must_use]
    pub fn line_of(&self, offset: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset).max(1);
        (line, offset - self.line_starts[line - 1])
    }
}

/// One line of a [`Text`]: where it stands in the text and in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextLine {
    /// The first octet in the text.
    start: usize,
    /// The line of the document, counted from one.
    document_line: usize,
    /// The octet within the document's line at which the content begins.
    column: usize,
}

/// What XDR text is, and so how its defects count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// The definitions that are compiled: the `///` lines of a draft, or a whole `.x` file.
    Xdr,
    /// A copy in running text, between `<CODE BEGINS>` and `<CODE ENDS>`: compared, not compiled.
    Copy,
    /// Not XDR: a manifest, a list of errata.
    Other,
}

/// XDR taken out of a document, line by line.
#[derive(Clone, Debug)]
pub struct Text {
    document: DocumentId,
    kind: TextKind,
    content: String,
    lines: Vec<TextLine>,
}

impl Text {
    /// An empty text of `document`.
    #[must_use]
    pub fn new(document: DocumentId, kind: TextKind) -> Self {
        Self { document, kind, content: String::new(), lines: Vec::new() }
    }

    /// Appends one line of XDR, `content` without line end, which stands on `document_line` (counted from one) from
    /// the octet `column` of that line on. Several lines may stand on one line of the document: an erratum's.
    pub fn push_line(&mut self, content: &str, document_line: usize, column: usize) {
        self.lines.push(TextLine { start: self.content.len(), document_line, column });
        self.content.push_str(content);
        self.content.push('\n');
    }

    /// The document it was taken from.
    #[must_use]
    pub fn document(&self) -> DocumentId {
        self.document
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> TextKind {
        self.kind
    }

    /// The XDR.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Each line as (document line, content).
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().zip(self.content.lines()).map(|(line, content)| (line.document_line, content))
    }

    fn line_at(&self, offset: usize) -> Option<&TextLine> {
        let after = self.lines.partition_point(|line| line.start <= offset);
        after.checked_sub(1).map(|at| &self.lines[at])
    }
}

/// A place in a document, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location<'s> {
    /// The document's name.
    pub document: &'s str,
    /// The line, counted from one.
    pub line: usize,
    /// The column in characters, counted from one.
    pub column: usize,
    /// The page, where the file has page breaks.
    pub page: Option<u32>,
    /// The section's number and title, where the file has headings.
    pub section: Option<&'s Section>,
}

impl std::fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.document, self.line, self.column)
    }
}

/// All documents and texts of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    documents: Vec<Document>,
    texts: Vec<Text>,
}

impl Sources {
    /// No documents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a document. Pages and sections are found here, once: see [`crate::outline`].
    pub fn add_document(&mut self, name: impl Into<String>, text: impl Into<String>) -> DocumentId {
        let text = text.into();
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at < text.len()));
        let outline = outline(&text);
        let document =
            Document { name: name.into(), text, line_starts, pages: outline.pages, sections: outline.sections };
        self.documents.push(document);
        DocumentId(index(self.documents.len() - 1))
    }

    /// Adds a text.
    pub fn add_text(&mut self, text: Text) -> TextId {
        self.texts.push(text);
        TextId(index(self.texts.len() - 1))
    }

    /// Adds a text that is the whole of a document, line by line.
    pub fn add_whole(&mut self, document: DocumentId, kind: TextKind) -> TextId {
        let mut text = Text::new(document, kind);
        for (at, line) in self.document(document).text().lines().enumerate() {
            text.push_line(line, at + 1, 0);
        }
        self.add_text(text)
    }

    /// The document of an identifier that this `Sources` gave.
    #[must_use]
    pub fn document(&self, id: DocumentId) -> &Document {
        &self.documents[id.0 as usize]
    }

    /// All documents.
    pub fn documents(&self) -> impl Iterator<Item = (DocumentId, &Document)> {
        self.documents.iter().enumerate().map(|(at, document)| (DocumentId(index(at)), document))
    }

    /// The text of an identifier that this `Sources` gave.
    #[must_use]
    pub fn text(&self, id: TextId) -> &Text {
        &self.texts[id.0 as usize]
    }

    /// The characters of a span.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.text).content.get(span.range()).unwrap_or_default()
    }

    /// The document a span is in.
    #[must_use]
    pub fn document_of(&self, span: Span) -> &Document {
        self.document(self.text(span.text).document)
    }

    /// Where a span begins, in the document's own terms.
    #[must_use]
    pub fn locate(&self, span: Span) -> Location<'_> {
        let document = self.document_of(span);
        let (line, octet) = document.line_of(self.document_range(span).start);
        let before = document.line(line).get(..octet).unwrap_or_default();
        Location {
            document: document.name(),
            line,
            column: before.chars().count() + 1,
            page: document.page(line),
            section: document.section(line),
        }
    }

    /// The octets of the document that a span stands for. On a line that an erratum changed it is clipped to the line.
    #[must_use]
    pub fn document_range(&self, span: Span) -> Range<usize> {
        let text = self.text(span.text);
        let document = self.document(text.document);
        let start = place(text, document, span.start as usize);
        let end = place(text, document, (span.end as usize).max(span.start as usize));
        start..end.max(start)
    }
}

/// The octet of the document for an octet of the text, clipped to its line and to a character boundary.
fn place(text: &Text, document: &Document, offset: usize) -> usize {
    let Some(line) = text.line_at(offset) else {
        return 0;
    };
    let range = document.line_range(line.document_line);
    let length = document.line(line.document_line).len();
    let mut at = range.start + (line.column + (offset - line.start)).min(length);
    while !document.text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
