//! Renders results of a compilation as the JSON of LSP. `symbols` finds definitions, and `lines`
//! converts positions.
//!
//! Positions refer to the text that was compiled, which is that of the buffer if the document is
//! open. URIs of open documents must be those that the editor uses: other spellings are other
//! documents to the editor.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use xdrgen_build::report::fix_range;
use xdrgen_build::source::{Document, DocumentId, SourceMap, Span};
use xdrgen_build::{Compilation, Diagnostic, Level};

use super::buffers::Buffers;
use super::lines::Lines;
use super::params::{Position, Range};
use super::project::{self, document_path};
use super::{symbols, uri};

/// The documents of a compilation, with the line tables that convert their positions.
struct Places<'c> {
    sources: &'c SourceMap,
    buffers: &'c Buffers,
    lines: BTreeMap<DocumentId, (String, Lines)>,
}

impl<'c> Places<'c> {
    fn new(sources: &'c SourceMap, buffers: &'c Buffers) -> Self {
        Self {
            sources,
            buffers,
            lines: BTreeMap::new(),
        }
    }

    /// Returns the URI and the range of a span.
    fn of(&mut self, span: Span) -> (&str, Range) {
        let id = self.sources.text(span.text).document();
        let document = self.sources.document(id);
        let buffers = self.buffers;
        let (uri, lines) = self
            .lines
            .entry(id)
            .or_insert_with(|| (document_uri(document, buffers), Lines::of(document.text())));
        let range = lines.range(document.text(), self.sources.document_range(span));
        (uri, range)
    }
}

/// Returns the URI of a document: the editor's URI if the document is open.
fn document_uri(document: &Document, buffers: &Buffers) -> String {
    let path = document_path(document);
    let open = buffers.get(&path);
    open.map_or_else(|| uri::of(&path), |buffer| buffer.uri.clone())
}

/// Returns the diagnostics of each document that has any, by its URI. A diagnostic without a
/// position, such as that of a document without XDR, is at the start of the document at `path`.
pub(crate) fn diagnostics(
    compilation: &Compilation,
    buffers: &Buffers,
    path: &Path,
) -> BTreeMap<String, Vec<Value>> {
    let mut places = Places::new(compilation.sources(), buffers);
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for diagnostic in compilation.diagnostics() {
        let (uri, range) = match diagnostic.span {
            Some(span) => {
                let (uri, range) = places.of(span);
                (uri.to_owned(), range)
            }
            None => (buffer_uri(buffers, path), START),
        };
        let value = rendered(diagnostic, range, &mut places);
        found.entry(uri).or_default().push(value);
    }
    found
}

const START: Range = Range {
    start: Position {
        line: 0,
        character: 0,
    },
    end: Position {
        line: 0,
        character: 0,
    },
};

fn buffer_uri(buffers: &Buffers, path: &Path) -> String {
    let open = buffers.get(path);
    open.map_or_else(|| uri::of(path), |buffer| buffer.uri.clone())
}

/// Returns an LSP diagnostic. Notes with a position are related information; the message contains
/// the other notes and the text under the caret.
fn rendered(diagnostic: &Diagnostic, range: Range, places: &mut Places<'_>) -> Value {
    let mut message = diagnostic.message.clone();
    if !diagnostic.label.is_empty() {
        message += &format!("\n{}", diagnostic.label);
    }
    let mut related = Vec::new();
    for note in &diagnostic.notes {
        match note.span {
            None => message += &format!("\nnote: {}", note.message),
            Some(span) => {
                let (uri, range) = places.of(span);
                let location = json!({ "uri": uri, "range": range });
                related.push(json!({ "location": location, "message": note.message }));
            }
        }
    }
    let severity = match diagnostic.level {
        Level::Deny => 1,
        Level::Warn => 2,
        Level::Allow => 3,
    };
    json!({
        "range": range,
        "severity": severity,
        "code": diagnostic.code.name(),
        "source": "xdrgen",
        "message": message,
        "relatedInformation": related,
    })
}

/// Returns the quick fixes of the diagnostics that touch a range of a document.
pub(crate) fn code_actions(
    compilation: &Compilation,
    buffers: &Buffers,
    path: &Path,
    range: Range,
) -> Value {
    let sources = compilation.sources();
    let mut places = Places::new(sources, buffers);
    let Some((id, _)) = project::document(compilation, path) else {
        return json!([]);
    };
    let mut actions = Vec::new();
    for diagnostic in compilation.diagnostics() {
        let Some(span) = diagnostic.span else {
            continue;
        };
        let (_, found) = places.of(span);
        let here = sources.text(span.text).document() == id;
        if !here || found.end < range.start || found.start > range.end {
            continue;
        }
        let only = diagnostic.fixes.len() == 1;
        for fix in &diagnostic.fixes {
            if fix_range(sources, fix).is_none() {
                continue;
            }
            let (uri, changed) = places.of(fix.span);
            let edit = json!({ "range": changed, "newText": fix.replacement });
            let changes = json!({ uri: [edit] });
            actions.push(json!({
                "title": fix.message,
                "kind": "quickfix",
                "isPreferred": only,
                "diagnostics": [rendered(diagnostic, found, &mut places)],
                "edit": { "changes": changes },
            }));
        }
    }
    Value::Array(actions)
}

/// Returns the hover text at a byte offset of a document.
pub(crate) fn hover(compilation: &Compilation, path: &Path, offset: usize) -> Option<Value> {
    let (id, document) = project::document(compilation, path)?;
    let symbol = symbols::symbol_at(compilation, (id, document), offset)?;
    let word = symbols::word_at(document.text(), offset)?;
    let range = Lines::of(document.text()).range(document.text(), word);
    let contents = json!({ "kind": "markdown", "value": symbol.hover() });
    Some(json!({ "contents": contents, "range": range }))
}

/// Returns the location of the definition of the name at a byte offset.
pub(crate) fn definition(
    compilation: &Compilation,
    buffers: &Buffers,
    path: &Path,
    offset: usize,
) -> Option<Value> {
    let here = project::document(compilation, path)?;
    let symbol = symbols::symbol_at(compilation, here, offset)?;
    let sources = compilation.sources();
    let document = sources.document_of(symbol.span);
    let range = sources.document_range(symbol.span);
    // The definitions of a prelude are not in a file.
    let path = document_path(document);
    if buffers.get(&path).is_none() && !path.is_file() {
        return None;
    }
    let range = Lines::of(document.text()).range(document.text(), range);
    Some(json!({ "uri": document_uri(document, buffers), "range": range }))
}

/// Returns the definitions of a document.
pub(crate) fn document_symbols(compilation: &Compilation, buffers: &Buffers, path: &Path) -> Value {
    let Some((id, _)) = project::document(compilation, path) else {
        return json!([]);
    };
    let mut places = Places::new(compilation.sources(), buffers);
    let symbols = symbols::of_document(compilation, id).into_iter();
    let symbols = symbols.map(|symbol| {
        let (uri, range) = places.of(symbol.span);
        let location = json!({ "uri": uri, "range": range });
        json!({ "name": symbol.name, "kind": symbol.lsp_kind(), "location": location })
    });
    symbols.collect()
}
