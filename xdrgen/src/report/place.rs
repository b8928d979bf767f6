//! What a report shows of a document: the few lines of a span.

use std::ops::Range;

use crate::source::{Sources, Span};

/// The most lines of one span that are shown.
const MOST_LINES: usize = 12;

/// The lines that a span is on, as they stand in the document, and the span within them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt<'s> {
    /// The document's name.
    pub(super) path: &'s str,
    /// The number of the first line.
    pub(super) first_line: usize,
    /// The lines, without the last one's end.
    pub(super) text: &'s str,
    /// The octets of `text` that the span stands for.
    pub(super) range: Range<usize>,
}

impl<'s> Excerpt<'s> {
    /// The excerpt for a span. A span of very many lines is cut.
    pub(super) fn of(sources: &'s Sources, span: Span) -> Self {
        let document = sources.document_of(span);
        let range = sources.document_range(span);
        let (first_line, _) = document.line_of(range.start);
        let (last_line, octet) = document.line_of(range.end);
        let last_line = if octet == 0 { last_line.saturating_sub(1) } else { last_line };
        let last_line = last_line.clamp(first_line, first_line + MOST_LINES - 1);
        let start = document.line_range(first_line).start;
        let text = document.text().get(start..document.line_range(last_line).end).unwrap_or_default();
        let text = text.trim_end_matches(['\n', '\r']);
        let within = |at: usize| at.saturating_sub(start).min(text.len());
        Self { path: document.name(), first_line, text, range: within(range.start)..within(range.end) }
    }
}

/// The text's line that a span begins on, if an erratum made it differ from what the document's line says.
pub(super) fn changed_line(sources: &Sources, span: Span) -> Option<&str> {
    let content = sources.text(span.text).content();
    let at = (span.start as usize).min(content.len());
    let start = content.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = content.get(start..)?.lines().next()?;
    let document = sources.document_of(span);
    let (number, _) = document.line_of(sources.document_range(span).start);
    (!document.line(number).ends_with(line.trim_end_matches('\r'))).then_some(line)
}

/// The line and column of an octet of a document, both counted from one, the column in characters.
pub(super) fn line_and_column(sources: &Sources, span: Span, offset: usize) -> (usize, usize) {
    let document = sources.document_of(span);
    let (line, octet) = document.line_of(offset);
    let before = document.line(line);
    (line, before.get(..octet).unwrap_or(before).chars().count() + 1)
}
