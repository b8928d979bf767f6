//! Diagnostics for people, as rustc shows its own; for one line of a log; and as JSON for tools.

mod json;
mod place;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level as Heading, Patch, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Fix, Level};
use crate::source::{Location, Sources, Span};
pub use json::json;
use place::Excerpt;

/// Whether a report is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// No escape sequences: for files, build scripts and tests.
    Plain,
    /// With ANSI escape sequences: for terminals.
    Coloured,
}

/// The diagnostics in full: each with the document's own line, a caret under the place, the section and page, the
/// notes and the likely mends. Ends with a line end, unless there are none.
#[must_use]
pub fn human(sources: &Sources, diagnostics: &[Diagnostic], style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let reports = diagnostics.iter().map(|diagnostic| renderer.render(&groups(sources, diagnostic)));
    let reports: Vec<String> = reports.map(|report| format!("{}\n", report.trim_end_matches('\n'))).collect();
    reports.join("\n")
}

/// A diagnostic in one line: `FILE:LINE:COLUMN: error[CODE]: MESSAGE`, without the place where it has none.
#[must_use]
pub fn short(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let place = diagnostic.span.map(|span| format!("{}: ", sources.locate(span))).unwrap_or_default();
    let Diagnostic { code, message, .. } = diagnostic;
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{place}{}[{code}]: {message}", level_name(diagnostic.level))
}

/// `error` or `warning`, as reports call a level.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Allow => "note",
    }
}

/// What a diagnostic shows: first itself, then its notes with a place, then its mends.
fn groups<'s>(sources: &'s Sources, diagnostic: &'s Diagnostic) -> Vec<Group<'s>> {
    let placed = diagnostic.notes.iter().filter_map(|note| Some((note.span?, &note.message)));
    let notes = placed.map(|(span, message)| {
        let title = Heading::NOTE.secondary_title(message.as_str());
        title.element(snippet(sources, span, ""))
    });
    let mends = diagnostic.fixes.iter().map(|fix| mend(sources, fix));
    std::iter::once(primary(sources, diagnostic)).chain(notes).chain(mends).collect()
}

/// The diagnostic itself, with its notes that have no place.
fn primary<'s>(sources: &'s Sources, diagnostic: &'s Diagnostic) -> Group<'s> {
    let heading = match diagnostic.level {
        Level::Deny => Heading::ERROR,
        Level::Warn => Heading::WARNING,
        Level::Allow => Heading::NOTE,
    };
    let mut group = Group::with_title(heading.primary_title(diagnostic.message.as_str()).id(diagnostic.code.name()));
    if let Some(span) = diagnostic.span {
        group = group.element(snippet(sources, span, &diagnostic.label));
        let changed = place::changed_line(sources, span);
        let changed = changed.map(|line| format!("an erratum makes this line `{}`", line.trim()));
        for note in changed.into_iter().chain(whereabouts(&sources.locate(span))) {
            group = group.element(Heading::NOTE.message(note));
        }
    }
    for note in diagnostic.notes.iter().filter(|note| note.span.is_none()) {
        group = group.element(Heading::NOTE.message(note.message.as_str()));
    }
    group
}

/// `section 5.2 (XDR Proper for Extension), page 18`, as far as the document says.
fn whereabouts(location: &Location<'_>) -> Option<String> {
    let section = location.section.map(|section| {
        let kind = if section.number.starts_with(|c: char| c.is_ascii_alphabetic()) { "appendix" } else { "section" };
        format!("{kind} {} ({})", section.number, section.title)
    });
    let page = location.page.map(|page| format!("page {page}"));
    let parts: Vec<String> = section.into_iter().chain(page).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The lines of a span, with a caret.
fn snippet<'s>(sources: &'s Sources, span: Span, label: &'s str) -> Snippet<'s, Annotation<'s>> {
    let Excerpt { path, first_line, text, range } = Excerpt::of(sources, span);
    let annotation = AnnotationKind::Primary.span(range);
    let annotation = if label.is_empty() { annotation } else { annotation.label(label) };
    Snippet::source(text).path(path).line_start(first_line).annotation(annotation)
}

/// A likely mend: as a change of the document's line, or in words where that line is not what the mend changes.
fn mend<'s>(sources: &'s Sources, fix: &'s Fix) -> Group<'s> {
    let excerpt = Excerpt::of(sources, fix.span);
    let one_line = !fix.replacement.contains('\n') && !excerpt.text.contains('\n');
    let nothing = fix.replacement == excerpt.text[excerpt.range.clone()];
    if nothing || !one_line || place::changed_line(sources, fix.span).is_some() {
        let replacement = fix.replacement.split_whitespace().collect::<Vec<_>>().join(" ");
        return Group::with_title(Heading::HELP.secondary_title(format!("{}: `{replacement}`", fix.message)));
    }
    let Excerpt { path, first_line, text, range } = excerpt;
    let patch = Patch::new(range, fix.replacement.as_str());
    let snippet = Snippet::source(text).path(path).line_start(first_line).patch(patch);
    Heading::HELP.secondary_title(fix.message.as_str()).element(snippet)
}

#[cfg(test)]
mod tests;
