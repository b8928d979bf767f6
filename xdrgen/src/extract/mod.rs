//! Takes the XDR out of a document, with errata applied, and finds the document's pages and sections.
//!
//! One file per format: `txt.rs` for drafts and RFCs as published, `x.rs` for plain XDR. The name decides (`.x`,
//! `.txt`), and where it does not, the content. Whatever the format, the result is lines of XDR that remember where
//! they stand in the document.

mod line;
mod patch;
mod txt;
mod x;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::errata::Erratum;
use crate::source::{Document, DocumentId, Sources, TextId, TextKind};
pub(crate) use txt::{CodeMark, code_mark, marked};

/// The texts that were taken out of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// The definitions that are compiled; empty where the document has none.
    pub xdr: TextId,
    /// The copies in running text, one for each block, in their order.
    pub copies: Vec<TextId>,
}

/// How a document holds its XDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A draft or an RFC, whose XDR stands on lines that begin with `///`.
    Txt,
    /// XDR and nothing else.
    X,
}

impl Format {
    fn of(document: &Document) -> Self {
        let ends = |end: &str| document.file_name().to_ascii_lowercase().ends_with(end);
        if ends(".x") {
            return Self::X;
        }
        let text = document.text();
        let plain = !ends(".txt") && !text.lines().any(|line| marked(line).is_some()) && x::looks_like(text);
        if plain { Self::X } else { Self::Txt }
    }
}

/// Takes the XDR out of a document, and applies the errata that name it.
///
/// Reports [`Code::NoXdr`] for a draft without a `///` line, and [`Code::ErratumMismatch`] for each erratum that does
/// not fit. Errata of other documents are passed over.
pub fn extract(
    sources: &mut Sources,
    document: DocumentId,
    errata: &[Erratum],
    diagnostics: &mut Diagnostics,
) -> Extracted {
    let source = sources.document(document);
    let format = Format::of(source);
    let mut blocks = match format {
        Format::X => x::read(source.text()),
        Format::Txt => txt::read(source.text()),
    };
    if format == Format::Txt && blocks.xdr.is_empty() {
        let message = format!("`{}` has no XDR: no line of it begins with `///`", source.name());
        diagnostics.report(Diagnostic::nowhere(Code::NoXdr, message));
    }
    patch::apply(sources, document, &mut blocks, errata, diagnostics);
    let xdr = sources.add_text(line::text(&blocks.xdr, document, TextKind::Xdr));
    let copies = blocks.copies.iter().map(|lines| sources.add_text(line::text(lines, document, TextKind::Copy)));
    Extracted { xdr, copies: copies.collect() }
}

/// The XDR of a text, as the command `xdrgen extract` prints it.
#[must_use]
pub fn xdr_of(sources: &Sources, id: TextId) -> String {
    sources.text(id).content().to_owned()
}

#[cfg(test)]
mod tests;
