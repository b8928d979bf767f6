//! Maps spans to lines of the document as published, for all forms of a report: the excerpt for
//! people, and lines and columns for tools.
//!
//! [`changes_one_line`] decides which fixes apply: `fixes`, SARIF, the excerpts and the language
//! server rely on it, so that no fix changes a line whose text differs from the document's. JSON
//! and the commands of GitHub's workflows contain all fixes.

use std::ops::Range;

use crate::diagnostic::Fix;
use crate::source::{SourceMap, Span};

/// The maximum number of lines to show for one span.
const MAX_LINES: usize = 12;

/// The lines of a document that contain a span, and the span within them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt<'s> {
    /// The document's name.
    pub(super) path: &'s str,
    /// The number of the first line.
    pub(super) first_line: usize,
    /// The lines, without the line end of the last.
    pub(super) text: &'s str,
    /// The byte range of the span in `text`.
    pub(super) range: Range<usize>,
}

impl<'s> Excerpt<'s> {
    /// Creates the excerpt for a span. A span of more than [`MAX_LINES`] lines is cut.
    pub(super) fn of(sources: &'s SourceMap, span: Span) -> Self {
        let document = sources.document_of(span);
        let range = sources.document_range(span);
        let (first_line, _) = document.line_of(range.start);
        let (last_line, byte) = document.line_of(range.end);
        let last_line = if byte == 0 {
            last_line.saturating_sub(1)
        } else {
            last_line
        };
        let last_line = last_line.clamp(first_line, first_line + MAX_LINES - 1);
        let start = document.line_range(first_line).start;
        let text = document
            .text()
            .get(start..document.line_range(last_line).end)
            .unwrap_or_default();
        let text = text.trim_end_matches(['\n', '\r']);
        let within = |at: usize| at.saturating_sub(start).min(text.len());
        Self {
            path: document.name(),
            first_line,
            text,
            range: within(range.start)..within(range.end),
        }
    }
}

/// A span in lines and columns of its document. Both start at 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRange<'s> {
    /// The document's name.
    pub(super) file: &'s str,
    pub(super) line: usize,
    pub(super) column: usize,
    /// The line of the first position after the end.
    pub(super) end_line: usize,
    pub(super) end_column: usize,
}

impl<'s> LineRange<'s> {
    pub(super) fn of(sources: &'s SourceMap, span: Span) -> Self {
        let range = sources.document_range(span);
        let (line, column) = line_and_column(sources, span, range.start);
        let (end_line, end_column) = line_and_column(sources, span, range.end);
        Self {
            file: sources.document_of(span).name(),
            line,
            column,
            end_line,
            end_column,
        }
    }
}

/// Returns whether a fix changes one line of the document as published.
pub(super) fn changes_one_line(sources: &SourceMap, fix: &Fix) -> bool {
    let excerpt = Excerpt::of(sources, fix.span);
    let one_line = !fix.replacement.contains('\n') && !excerpt.text.contains('\n');
    let changes = excerpt.text.get(excerpt.range.clone()) != Some(fix.replacement.as_str());
    one_line && changes && changed_line(sources, fix.span).is_none()
}

/// Returns the text's line at the start of a span, if the document's line does not end with it: an
/// erratum changed it, or the document writes it in another way, such as with entities.
pub(super) fn changed_line(sources: &SourceMap, span: Span) -> Option<&str> {
    let content = sources.text(span.text).content();
    let at = (span.start as usize).min(content.len());
    let start = content.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = content.get(start..)?.lines().next()?;
    let document = sources.document_of(span);
    let (number, _) = document.line_of(sources.document_range(span).start);
    let document_line = document.line(number).trim_end();
    (!document_line.ends_with(line.trim_end())).then_some(line)
}

/// Converts a byte offset of a document to a line and a column. Both start at 1; the column counts
/// characters.
fn line_and_column(sources: &SourceMap, span: Span, offset: usize) -> (usize, usize) {
    let document = sources.document_of(span);
    let (line, byte) = document.line_of(offset);
    let before = document.line(line);
    (
        line,
        before.get(..byte).unwrap_or(before).chars().count() + 1,
    )
}
