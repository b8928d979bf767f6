//! Reports lines of a draft whose `///` marker is missing: they interrupt a definition, or are a
//! definition.

mod gaps;
mod scan;

use std::collections::HashSet;
use std::ops::Range;

use crate::ast::Specification;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::extract::{Markers, Place};
use crate::parse;
use crate::source::{Document, DocumentId, SourceMap, Span, Text, TextId, TextKind};
use gaps::{Contents, Gap, Paragraph, gaps};
use scan::interruptions;

/// The maximum number of lines for which one diagnostic suggests a marker.
const MAX_FIXES: usize = 16;

/// Compares the lines of a draft without a marker with the XDR around them.
pub(crate) fn check(
    sources: &mut SourceMap,
    document: DocumentId,
    markers: &Markers,
    (xdr, specification): (TextId, &Specification),
    diagnostics: &mut Diagnostics,
) {
    if !diagnostics.is_enabled(Code::UnmarkedLine) {
        return;
    }
    let gaps = gaps(sources, document, xdr, markers);
    if gaps.len() < 2 {
        return;
    }
    let fragments = sources.document(document).is_extension();
    let opened = interruptions(sources, xdr, &gaps, fragments);
    let lines = Lines::new(sources, document, markers);
    let defined: HashSet<&str> = specification
        .definitions
        .iter()
        .map(|definition| definition.name.name.as_str())
        .collect();
    // All following prose interrupts a construct that is never closed: report it once.
    let mut reported = HashSet::new();
    for (gap, open) in gaps.iter().zip(opened) {
        let is_first = match open {
            Some((_, span)) => !gap.paragraphs.is_empty() && reported.insert(span.range().start),
            None => false,
        };
        for paragraph in lines.lost(sources, gap, (open.is_some(), is_first), &defined) {
            diagnostics.report(lines.diagnostic(sources.document(document), paragraph, open));
        }
    }
}

/// Returns true if a line ends or begins as lines of XDR do.
fn looks_like_xdr(line: &str) -> bool {
    let line = unmark(line).1;
    line.ends_with([';', ',', '{', '}', ':', '*'])
        || line.starts_with(['}', '*'])
        || line.ends_with("*/")
}

/// The keywords that begin a definition.
const KEYWORDS: [&str; 6] = ["typedef", "const", "struct", "enum", "union", "program"];

/// Returns true if a line of a text begins with a keyword.
fn starts_with_word(text: &Text, keyword: &str) -> bool {
    text.lines().any(|(_, line)| {
        let rest = line.trim_start().strip_prefix(keyword);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    })
}

/// Returns the content of a line without a damaged marker (`/` or `//`), and its column. `/*`
/// begins a comment.
fn unmark(line: &str) -> (usize, &str) {
    let line = line.trim_end();
    let content = line.trim_start();
    let bare = content
        .strip_prefix("//")
        .or_else(|| {
            content
                .strip_prefix('/')
                .filter(|rest| !rest.starts_with('*'))
        })
        .map_or(content, str::trim_start);
    (line.len() - bare.len(), bare)
}

/// The lines of a document, and where they start in its text.
struct Lines<'m> {
    document: DocumentId,
    text: TextId,
    starts: Vec<usize>,
    contents: Contents<'m>,
}

impl<'m> Lines<'m> {
    fn new(sources: &mut SourceMap, document: DocumentId, markers: &'m Markers) -> Self {
        let text = sources.add_document_text(document, TextKind::Other);
        let mut start = 0;
        let mut starts = Vec::new();
        for (_, line) in sources.text(text).lines() {
            starts.push(start);
            start += line.len() + 1;
        }
        Self {
            document,
            text,
            starts,
            contents: Contents::of(markers),
        }
    }

    /// Returns the paragraphs of a gap that have lost their markers. `open` says whether they
    /// interrupt a construct, and whether the gap is the first that interrupts it.
    fn lost(
        &self,
        sources: &mut SourceMap,
        gap: &Gap,
        (open, is_first): (bool, bool),
        defined: &HashSet<&str>,
    ) -> Vec<Paragraph> {
        if gap
            .paragraphs
            .iter()
            .any(|paragraph| paragraph.place != Place::Text)
        {
            let paragraphs = gap.paragraphs.iter().copied();
            return paragraphs
                .filter(|paragraph| {
                    let interrupts = match paragraph.place {
                        Place::BesideMarked => true,
                        Place::Copy => return open,
                        Place::Block => open,
                        Place::Unnamed | Place::Untyped | Place::Text => {
                            open && self.looks_like_xdr(sources, *paragraph)
                        }
                    };
                    interrupts || self.is_definition(sources, *paragraph, defined)
                })
                .collect();
        }
        let found = if open {
            self.interrupting(sources, gap, is_first)
        } else {
            self.touching(sources, gap)
                .or_else(|| self.definition(sources, gap, defined))
        };
        found.into_iter().collect()
    }

    /// Returns the first paragraph, which interrupts an open construct. Prose is reported for the
    /// first gap only, and not after the last marker, where the grammar reports the missing end.
    fn interrupting(&self, sources: &SourceMap, gap: &Gap, is_first: bool) -> Option<Paragraph> {
        let paragraph = *gap.paragraphs.first()?;
        let prose = is_first && gap.next_marker.is_some();
        (prose || looks_like_xdr(self.line(sources, paragraph.first))).then_some(paragraph)
    }

    /// Returns the only paragraph between two markers if it touches one and begins like XDR. This
    /// does not require an open brace, which may be missing too.
    fn touching(&self, sources: &SourceMap, gap: &Gap) -> Option<Paragraph> {
        let [paragraph] = gap.paragraphs[..] else {
            return None;
        };
        let next = gap.next_marker.filter(|_| gap.previous_marker > 0)?;
        let touches = paragraph.first == gap.previous_marker + 1 || paragraph.last + 1 == next;
        (touches && looks_like_xdr(self.line(sources, paragraph.first))).then_some(paragraph)
    }

    /// Returns the first paragraph that parses as definitions and defines a new name. Only
    /// paragraphs between markers, or next to one, can have lost their markers.
    fn definition(
        &self,
        sources: &mut SourceMap,
        gap: &Gap,
        defined: &HashSet<&str>,
    ) -> Option<Paragraph> {
        let between = gap.previous_marker > 0 && gap.next_marker.is_some();
        let count = gap.paragraphs.len();
        let beside = |at: usize| {
            at == 0 && gap.previous_marker > 0 || at + 1 == count && gap.next_marker.is_some()
        };
        let mut near = (0..count).filter(|at| between || beside(*at));
        near.find(|at| self.is_definition(sources, gap.paragraphs[*at], defined))
            .map(|at| gap.paragraphs[at])
    }

    /// Returns true if a paragraph parses as definitions and defines a new name.
    fn is_definition(
        &self,
        sources: &mut SourceMap,
        paragraph: Paragraph,
        defined: &HashSet<&str>,
    ) -> bool {
        let mut text = Text::new(self.document, TextKind::Other);
        for number in paragraph.first..=paragraph.last {
            let (column, content) = unmark(self.line(sources, number));
            text.push_line(content, number, column);
        }
        if !KEYWORDS.iter().any(|word| starts_with_word(&text, word)) {
            return false;
        }
        let text = sources.add_text(text);
        let mut found = Diagnostics::default();
        let parsed = parse::parse(sources, text, &mut found);
        let new = |name: &str| !defined.contains(name);
        let lost = parsed.definitions.iter().any(|d| new(&d.name.name));
        lost && !found.has_errors()
    }

    /// Returns true if a line of a paragraph looks like XDR.
    fn looks_like_xdr(&self, sources: &SourceMap, paragraph: Paragraph) -> bool {
        (paragraph.first..=paragraph.last).any(|number| looks_like_xdr(self.line(sources, number)))
    }

    /// Returns the content of a line.
    fn line<'s>(&'s self, sources: &'s SourceMap, number: usize) -> &'s str {
        self.contents.get(number).map_or_else(
            || sources.document(self.document).line(number),
            |line| &line.content,
        )
    }

    fn diagnostic(
        &self,
        document: &Document,
        paragraph: Paragraph,
        open: Option<(&'static str, Span)>,
    ) -> Diagnostic {
        let untyped = paragraph.place == Place::Untyped;
        let label = match untyped {
            true => "its block has no type",
            false => "no `///` at its start",
        };
        let message = match (open, paragraph.place) {
            (_, Place::Untyped) => "XDR in a block without the type `xdr` is not compiled",
            (None, Place::BesideMarked) => "a line without `///` is not compiled",
            (None, _) => "XDR without `///` is not compiled",
            (Some(_), _) => "a line without `///` interrupts the XDR, and is not compiled",
        };
        let span = self.span(document, paragraph.first);
        let mut found = Diagnostic::new(Code::UnmarkedLine, span, message).label(label);
        if let Some((what, span)) = open {
            found = found.note_at(span, format!("{what} has not ended there"));
        }
        match untyped {
            true => found.note("give the block the type `xdr`, or that of its own language"),
            false => self.with_fixes(document, paragraph, found),
        }
    }

    /// Adds the fixes that restore the markers of a paragraph.
    fn with_fixes(
        &self,
        document: &Document,
        paragraph: Paragraph,
        mut found: Diagnostic,
    ) -> Diagnostic {
        for number in paragraph.first..=paragraph.last.min(paragraph.first + MAX_FIXES - 1) {
            let span = self.span(document, number);
            let content = document.line(number).get(self.columns(document, number));
            let content = content.unwrap_or_default();
            let slashes = content.len() - content.trim_start_matches('/').len();
            let damaged = (1..=2).contains(&slashes) && !content.starts_with("/*");
            let from = span.range().start;
            found = if damaged {
                let span = Span::new(self.text, from..from + slashes);
                found.fix(span, "///", "write `///`")
            } else {
                let span = Span::new(self.text, from..from);
                found.fix(span, "/// ", "add the marker `///`")
            };
        }
        found
    }

    /// Returns the span of a line without the blanks around it.
    fn span(&self, document: &Document, number: usize) -> Span {
        let start = self.starts.get(number - 1).copied().unwrap_or(0);
        let columns = self.columns(document, number);
        Span::new(self.text, start + columns.start..start + columns.end)
    }

    /// Returns the bytes of a line without the blanks around it.
    fn columns(&self, document: &Document, number: usize) -> Range<usize> {
        if let Some(line) = self.contents.get(number) {
            return line.columns.clone();
        }
        let line = document.line(number).trim_end();
        line.len() - line.trim_start().len()..line.len()
    }
}
