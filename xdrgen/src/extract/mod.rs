//! Extracts the XDR from a document and applies errata to it.
//!
//! `txt.rs` reads drafts and RFCs as published, `markup.rs` the blocks of their RFCXML and
//! markdown, among which `blocks.rs` selects the XDR, and `x.rs` plain XDR. The file extension
//! selects the format; if the extension is unknown, the content does. In documents without markers,
//! `prose.rs` finds definitions in running text, if the configuration selects it. The results are
//! texts in the [`SourceMap`], whose lines know their positions in the document. `compilation`
//! parses them: the copies only to compare them.

mod blocks;
mod line;
mod markup;
mod patch;
mod prose;
mod txt;
mod x;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::errata::Erratum;
use crate::outline::Syntax;
use crate::source::{Document, DocumentId, SourceMap, Span, TextId, TextKind};
use line::{Blocks, Line};
pub(crate) use line::{Markers, Place, UnmarkedLine};
pub use prose::{ProseBlock, ProseBlocks, RejectedBlock};
pub(crate) use txt::{CodeMark, code_mark, strip_marker};
pub(crate) use x::KEYWORDS;

/// The texts extracted from one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extraction {
    /// The definitions to compile; empty if the document has none.
    pub xdr: TextId,
    /// The copies of definitions in running text, one for each block, in document order.
    pub copies: Vec<TextId>,
    /// Which lines of the document have a marker.
    pub(crate) markers: Markers,
}

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A draft or an RFC, whose XDR is on lines that begin with `///`.
    Txt,
    /// RFCXML, whose XDR is code of the type `xdr`, or without a type and with lines that begin
    /// with `///`.
    Xml,
    /// Markdown, whose XDR is between fences with the word `xdr`, or without a word and with lines
    /// that begin with `///`.
    Markdown,
    /// A document without markers, whose XDR is in running text.
    Prose,
    /// Plain XDR.
    X,
}

/// Returns true if the XDR of a document is on lines that begin with `///`.
pub(crate) fn has_markers(document: &Document) -> bool {
    matches!(Format::of(document), Format::Txt)
}

/// Returns the lines with a marker.
fn marked(text: &str) -> Blocks {
    Blocks {
        markers: Markers::Lines,
        ..txt::read(text)
    }
}

impl Format {
    fn of(document: &Document) -> Self {
        if document.prose_sections().is_some() {
            return Self::Prose;
        }
        match Syntax::of(document.file_name()) {
            Syntax::Xml => return Self::Xml,
            Syntax::Markdown => return Self::Markdown,
            Syntax::Text => {}
        }
        let ends = |end: &str| document.file_name().to_ascii_lowercase().ends_with(end);
        if ends(".x") {
            return Self::X;
        }
        let text = document.text();
        let plain = !ends(".txt")
            && !text.lines().any(|line| strip_marker(line).is_some())
            && x::looks_like(text);
        if plain { Self::X } else { Self::Txt }
    }

    /// Returns the lines of a document that are XDR.
    fn read(self, document: &Document) -> Blocks {
        let text = document.text();
        match self {
            Self::X => x::read(text),
            Self::Txt => marked(text),
            Self::Xml => markup::read_xml(text),
            Self::Markdown => markup::read_markdown(text),
            Self::Prose => prose::read(document, document.prose_sections().unwrap_or(&[])).0,
        }
    }

    /// Returns why a document may contain no XDR.
    fn missing(self) -> &'static str {
        match self {
            Self::X | Self::Txt => "no line begins with `///`",
            Self::Xml => "no `<sourcecode>` has the type `xdr`, and no line begins with `///`",
            Self::Markdown => "no fence has the word `xdr`, and no line begins with `///`",
            Self::Prose => "no definition is in its text",
        }
    }
}

/// Extracts the XDR from a document and applies the errata that name it.
///
/// Reports [`Code::NoXdr`] for a draft without a `///` line, and [`Code::ErratumMismatch`] for each
/// erratum whose old text is not found. Errata for other documents are ignored.
pub fn extract(
    sources: &mut SourceMap,
    document: DocumentId,
    errata: &[Erratum],
    diagnostics: &mut Diagnostics,
) -> Extraction {
    let source = sources.document(document);
    let format = Format::of(source);
    let mut blocks = format.read(source);
    if format != Format::X && blocks.xdr.is_empty() {
        let (name, why) = (source.name(), format.missing());
        let message = format!("`{name}` contains no XDR: {why}");
        let found = Diagnostic::without_span(Code::NoXdr, message);
        let found = match format {
            Format::Txt => found.note("`xdrgen extract --prose` finds definitions without markers"),
            _ => found,
        };
        diagnostics.report(found);
    }
    patch::apply(sources, document, &mut blocks, errata, diagnostics);
    let xdr = sources.add_text(line::text(&blocks.xdr, document, TextKind::Xdr));
    if format == Format::Txt && diagnostics.is_enabled(Code::UnspacedMarker) {
        report_unspaced(sources, document, (xdr, &blocks.xdr), diagnostics);
    }
    let copies = blocks
        .copies
        .iter()
        .map(|lines| sources.add_text(line::text(lines, document, TextKind::Copy)));
    Extraction {
        xdr,
        copies: copies.collect(),
        markers: blocks.markers,
    }
}

/// Reports markers that no blank follows. This compiler accepts them, but the scripts that drafts
/// print remove a marker only with its blank.
fn report_unspaced(
    sources: &SourceMap,
    document: DocumentId,
    (xdr, lines): (TextId, &[Line]),
    diagnostics: &mut Diagnostics,
) {
    let mut document_lines = sources.document(document).text().lines().zip(1..);
    let mut start = 0;
    for line in lines {
        let published = document_lines.find(|(_, number)| *number == line.number);
        let marker = published.and_then(|(published, _)| published.get(..line.column));
        let first = line.content.split('\n').next().unwrap_or_default();
        let word = first.split_whitespace().next().unwrap_or_default();
        if marker.is_some_and(|marker| marker.ends_with("///")) && !word.is_empty() {
            let at = start + (first.len() - first.trim_start().len());
            let message = "no blank follows the marker `///`";
            let found = Diagnostic::new(
                Code::UnspacedMarker,
                Span::new(xdr, at..at + word.len()),
                message,
            );
            let before = Span::new(xdr, start..start);
            diagnostics.report(found.fix(before, " ", "insert a blank"));
        }
        start += line.content.len() + 1;
    }
}

/// Returns the definitions in the running text of a document, and text that resembles one: in the
/// named sections, or in all sections if none is named.
#[must_use]
pub fn prose_blocks(document: &Document, sections: &[String]) -> ProseBlocks {
    prose::read(document, sections).1
}

/// Returns the content of a text. The command `xdrgen extract` prints it.
#[must_use]
pub fn xdr_of(sources: &SourceMap, id: TextId) -> String {
    sources.text(id).content().to_owned()
}

#[cfg(test)]
mod tests;
