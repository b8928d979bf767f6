//! Renders diagnostics as JSON, one object per line.

use serde::Serialize;

use super::level_name;
use super::place::LineRange;
use crate::diagnostic::{Diagnostic, Fix, Note};
use crate::source::{SourceMap, Span};

/// Renders diagnostics as JSON: one object per line, each line ended. Every object has these keys,
/// in this order:
///
/// - `code`: the name of the defect, such as `swapped-typedef`
/// - `level`: `error` or `warning`
/// - `message`: the defect
/// - `file`, `line`, `column`: the start; lines and columns start at 1, columns count characters
/// - `end_line`, `end_column`: the first position after the end
/// - `page`: the page number, if the file has page breaks
/// - `section`: the section number, such as `5.2` or `A.1`, if the file has headings
/// - `label`: the text under the caret; may be empty
/// - `notes`: objects with `file`, `line`, `column`, `message`
/// - `fixes`: objects with `file`, `line`, `column`, `end_line`, `end_column`, `replacement`,
///   `message`
///
/// An unknown value is `null`. A diagnostic or a note without a span has `null` from `file` to
/// `section`.
#[must_use]
pub fn json(sources: &SourceMap, diagnostics: &[Diagnostic]) -> String {
    let lines = diagnostics.iter().filter_map(|diagnostic| {
        // Serialization cannot fail: the object contains no maps and no custom serializers.
        let line = serde_json::to_string(&Json::of(sources, diagnostic)).ok()?;
        Some(line + "\n")
    });
    lines.collect()
}

#[derive(Serialize)]
struct Json<'s> {
    code: &'static str,
    level: &'static str,
    message: &'s str,
    #[serde(flatten)]
    range: JsonRange<'s>,
    page: Option<u32>,
    section: Option<&'s str>,
    label: &'s str,
    notes: Vec<JsonNote<'s>>,
    fixes: Vec<JsonFix<'s>>,
}

#[derive(Default, Serialize)]
struct JsonRange<'s> {
    file: Option<&'s str>,
    line: Option<usize>,
    column: Option<usize>,
    end_line: Option<usize>,
    end_column: Option<usize>,
}

#[derive(Serialize)]
struct JsonNote<'s> {
    file: Option<&'s str>,
    line: Option<usize>,
    column: Option<usize>,
    message: &'s str,
}

#[derive(Serialize)]
struct JsonFix<'s> {
    #[serde(flatten)]
    range: JsonRange<'s>,
    replacement: &'s str,
    message: &'s str,
}

impl<'s> Json<'s> {
    fn of(sources: &'s SourceMap, diagnostic: &'s Diagnostic) -> Self {
        let location = diagnostic.span.map(|span| sources.locate(span));
        let section = location.as_ref().and_then(|location| location.section);
        Self {
            code: diagnostic.code.name(),
            level: level_name(diagnostic.level),
            message: &diagnostic.message,
            range: diagnostic
                .span
                .map(|span| JsonRange::of(sources, span))
                .unwrap_or_default(),
            page: location.as_ref().and_then(|location| location.page),
            section: section.map(|section| section.number.as_str()),
            label: &diagnostic.label,
            notes: diagnostic
                .notes
                .iter()
                .map(|note| JsonNote::of(sources, note))
                .collect(),
            fixes: diagnostic
                .fixes
                .iter()
                .map(|fix| JsonFix::of(sources, fix))
                .collect(),
        }
    }
}

impl<'s> JsonRange<'s> {
    fn of(sources: &'s SourceMap, span: Span) -> Self {
        let range = LineRange::of(sources, span);
        Self {
            file: Some(range.file),
            line: Some(range.line),
            column: Some(range.column),
            end_line: Some(range.end_line),
            end_column: Some(range.end_column),
        }
    }
}

impl<'s> JsonNote<'s> {
    fn of(sources: &'s SourceMap, note: &'s Note) -> Self {
        let JsonRange {
            file, line, column, ..
        } = note
            .span
            .map(|span| JsonRange::of(sources, span))
            .unwrap_or_default();
        Self {
            file,
            line,
            column,
            message: &note.message,
        }
    }
}

impl<'s> JsonFix<'s> {
    fn of(sources: &'s SourceMap, fix: &'s Fix) -> Self {
        let range = JsonRange::of(sources, fix.span);
        Self {
            range,
            replacement: &fix.replacement,
            message: &fix.message,
        }
    }
}
