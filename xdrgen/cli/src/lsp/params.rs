//! The parameters of requests and notifications, as far as the server reads them. Unknown fields
//! are ignored. Names are those of LSP 3.17 in snake case.

use serde::{Deserialize, Serialize};

/// A position in a document. Both numbers begin at 0; `character` counts UTF-16 code units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) character: u32,
}

/// The characters from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Range {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DocumentUri {
    pub(crate) uri: String,
}

/// `textDocument/didOpen`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidOpen {
    pub(crate) text_document: OpenDocument,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OpenDocument {
    pub(crate) uri: String,
    pub(crate) version: i64,
    pub(crate) text: String,
}

/// `textDocument/didChange`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidChange {
    pub(crate) text_document: VersionedDocument,
    pub(crate) content_changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct VersionedDocument {
    pub(crate) uri: String,
    pub(crate) version: i64,
}

/// A change of a range, or of the whole text if there is no range.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    pub(crate) range: Option<Range>,
    pub(crate) text: String,
}

/// `textDocument/didClose`, `textDocument/didSave`, `textDocument/documentSymbol` and
/// `textDocument/formatting`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentParams {
    pub(crate) text_document: DocumentUri,
}

/// `textDocument/hover` and `textDocument/definition`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PositionParams {
    pub(crate) text_document: DocumentUri,
    pub(crate) position: Position,
}

/// `textDocument/codeAction`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RangeParams {
    pub(crate) text_document: DocumentUri,
    pub(crate) range: Range,
}
