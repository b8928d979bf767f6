//! Renders diagnostics: as excerpts for people, as one line for a log, and as JSON, SARIF or
//! commands of GitHub's workflows for tools.
//!
//! This module decides only the form; `check` and `diagnostic` decide what is reported and in which
//! order. The driver of build scripts prints [`short`] in cargo directives, and
//! [`useless_errata`](crate::useless_errata) compares diagnostics by it, so it is one line with the
//! position. `place` maps spans to the document for all forms, and decides whether a fix applies.

mod fixes;
mod github;
mod json;
mod place;
mod sarif;

use std::collections::HashMap;

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level as Heading, Patch, Renderer, Snippet,
};

use crate::diagnostic::{Code, Diagnostic, Fix, Level};
use crate::source::{Location, SourceMap, Span};
pub use fixes::{FixedDocument, fix_range, fixed_documents};
pub use github::github;
pub use json::json;
use place::Excerpt;
pub use sarif::sarif;

/// Whether a report contains colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// No escape sequences: for files, build scripts and tests.
    Plain,
    /// ANSI escape sequences: for terminals.
    Coloured,
}

/// Renders diagnostics in full. Each has an excerpt of the document with a caret, the section and
/// page, the notes and the suggested fixes. The result ends with a line end, unless it is empty.
#[must_use]
pub fn human(sources: &SourceMap, diagnostics: &[Diagnostic], style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let reports = diagnostics
        .iter()
        .map(|diagnostic| renderer.render(&groups(sources, diagnostic)));
    let reports: Vec<String> = reports
        .map(|report| format!("{}\n", report.trim_end_matches('\n')))
        .collect();
    reports.join("\n")
}

/// Folds the diagnostics that follow from one defect: only the first use of an undefined name
/// remains, with the number of the others.
#[must_use]
pub fn folded(diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let is_use =
        |found: &Diagnostic| matches!(found.code, Code::UndefinedType | Code::UndefinedConstant);
    let mut first_of: HashMap<(Code, &str), usize> = HashMap::new();
    let mut folded: Vec<(&Diagnostic, usize)> = Vec::new();
    for found in diagnostics {
        let key = (found.code, found.message.as_str());
        match first_of.get(&key).filter(|_| is_use(found)) {
            Some(first) => folded[*first].1 += 1,
            None => {
                first_of.insert(key, folded.len());
                folded.push((found, 0));
            }
        }
    }
    let folded = folded.into_iter();
    folded
        .map(|(found, others)| match others {
            0 => found.clone(),
            1 => found.clone().note("1 more use is not shown"),
            others => found
                .clone()
                .note(format!("{others} more uses are not shown")),
        })
        .collect()
}

/// The maximum number of errors in a report for people, unless its reader chooses another.
pub const MAX_ERRORS: usize = 20;

/// Removes the errors after the first `max_errors`; with `None` all remain. Warnings remain.
pub fn limit(diagnostics: &mut Vec<Diagnostic>, max_errors: Option<usize>) {
    let mut errors = 0;
    diagnostics.retain(|found| {
        errors += usize::from(found.is_error());
        !found.is_error() || max_errors.is_none_or(|max| errors <= max)
    });
}

/// Renders a diagnostic on one line: `FILE:LINE:COLUMN: error[CODE]: MESSAGE`, without the position
/// if it has no span.
#[must_use]
pub fn short(sources: &SourceMap, diagnostic: &Diagnostic) -> String {
    let place = diagnostic
        .span
        .map(|span| format!("{}: ", sources.locate(span)))
        .unwrap_or_default();
    let Diagnostic { code, message, .. } = diagnostic;
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{place}{}[{code}]: {message}", level_name(diagnostic.level))
}

/// Returns the name of a level in reports.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Allow => "note",
    }
}

/// Returns the parts of a report: the diagnostic, then its notes that have a span, then its fixes.
fn groups<'s>(sources: &'s SourceMap, diagnostic: &'s Diagnostic) -> Vec<Group<'s>> {
    let with_span = diagnostic
        .notes
        .iter()
        .filter_map(|note| Some((note.span?, &note.message)));
    let notes = with_span.map(|(span, message)| {
        let title = Heading::NOTE.secondary_title(message.as_str());
        title.element(snippet(sources, span, ""))
    });
    let fixes = diagnostic.fixes.iter().map(|fix| suggestion(sources, fix));
    std::iter::once(primary(sources, diagnostic))
        .chain(notes)
        .chain(fixes)
        .collect()
}

/// Renders the diagnostic itself, with its notes that have no span.
fn primary<'s>(sources: &'s SourceMap, diagnostic: &'s Diagnostic) -> Group<'s> {
    let heading = match diagnostic.level {
        Level::Deny => Heading::ERROR,
        Level::Warn => Heading::WARNING,
        Level::Allow => Heading::NOTE,
    };
    let mut group = Group::with_title(
        heading
            .primary_title(diagnostic.message.as_str())
            .id(diagnostic.code.name()),
    );
    if let Some(span) = diagnostic.span {
        group = group.element(snippet(sources, span, &diagnostic.label));
        let changed = place::changed_line(sources, span);
        let changed = changed.map(|line| {
            let line = line.trim();
            format!("with errata and markup applied, this line is `{line}`")
        });
        for note in changed
            .into_iter()
            .chain(section_and_page(&sources.locate(span)))
        {
            group = group.element(Heading::NOTE.message(note));
        }
    }
    for note in diagnostic.notes.iter().filter(|note| note.span.is_none()) {
        group = group.element(Heading::NOTE.message(note.message.as_str()));
    }
    group
}

/// Returns `section 5.2 (XDR Proper for Extension), page 18`, as far as the document has sections
/// and pages.
fn section_and_page(location: &Location<'_>) -> Option<String> {
    let section = location.section.map(|section| {
        let kind = if section
            .number
            .starts_with(|c: char| c.is_ascii_alphabetic())
        {
            "appendix"
        } else {
            "section"
        };
        format!("{kind} {} ({})", section.number, section.title)
    });
    let page = location.page.map(|page| format!("page {page}"));
    let parts: Vec<String> = section.into_iter().chain(page).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Renders the lines of a span, with a caret.
fn snippet<'s>(sources: &'s SourceMap, span: Span, label: &'s str) -> Snippet<'s, Annotation<'s>> {
    let Excerpt {
        path,
        first_line,
        text,
        range,
    } = Excerpt::of(sources, span);
    let annotation = AnnotationKind::Primary.span(range);
    let annotation = if label.is_empty() {
        annotation
    } else {
        annotation.label(label)
    };
    Snippet::source(text)
        .path(path)
        .line_start(first_line)
        .annotation(annotation)
}

/// Renders a suggested fix: as a change of the document's line, or in words if the fix does not
/// apply to that line as published.
fn suggestion<'s>(sources: &'s SourceMap, fix: &'s Fix) -> Group<'s> {
    if !place::changes_one_line(sources, fix) {
        let replacement = fix
            .replacement
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        return Group::with_title(
            Heading::HELP.secondary_title(format!("{}: `{replacement}`", fix.message)),
        );
    }
    let Excerpt {
        path,
        first_line,
        text,
        range,
    } = Excerpt::of(sources, fix.span);
    let patch = Patch::new(range, fix.replacement.as_str());
    let snippet = Snippet::source(text)
        .path(path)
        .line_start(first_line)
        .patch(patch);
    Heading::HELP
        .secondary_title(fix.message.as_str())
        .element(snippet)
}

#[cfg(test)]
mod tests;
