//! Reports lines of a draft whose `///` marker is missing: they interrupt a definition, or are a
//! definition.

use std::collections::HashSet;

use crate::ast::Specification;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::extract::{CodeMark, code_mark, has_markers, strip_marker};
use crate::outline::page::header_footer_lines;
use crate::parse;
use crate::source::{Document, DocumentId, SourceMap, Span, Text, TextId, TextKind};

/// The maximum number of lines for which one diagnostic suggests a marker.
const MAX_FIXES: usize = 16;

/// Compares the lines of a draft without a marker with the XDR around them.
pub(crate) fn check(
    sources: &mut SourceMap,
    document: DocumentId,
    (xdr, specification): (TextId, &Specification),
    diagnostics: &mut Diagnostics,
) {
    let text = sources.document(document).text();
    let marked = text.lines().any(|line| strip_marker(line).is_some());
    let plain = !has_markers(sources.document(document));
    if plain || !marked || !diagnostics.is_enabled(Code::UnmarkedLine) {
        return;
    }
    let gaps = gaps(text);
    let opened = interruptions(sources, xdr, &gaps);
    let whole = Lines::new(sources, document);
    let defined: HashSet<&str> = specification
        .definitions
        .iter()
        .map(|definition| definition.name.name.as_str())
        .collect();
    // All following prose interrupts a construct that is never closed: report it once.
    let mut reported = HashSet::new();
    for (gap, open) in gaps.iter().zip(opened) {
        let lines = match open {
            Some((_, span)) => {
                let is_first = !gap.runs.is_empty() && reported.insert(span.range().start);
                gap.interrupting(sources, document, is_first)
            }
            None => gap
                .touching(sources, document)
                .or_else(|| gap.definition(sources, document, &defined)),
        };
        if let Some(lines) = lines {
            diagnostics.report(whole.diagnostic(sources.document(document), lines, open));
        }
    }
}

/// Lines without a marker between two lines that have one, or after the last.
#[derive(Debug, Default)]
struct Gap {
    /// The line before the first; 0 if no line with a marker precedes.
    after: usize,
    /// The paragraphs: the first and the last line of each, without page breaks.
    runs: Vec<(usize, usize)>,
    /// The line after the last, if it has a marker.
    before: Option<usize>,
}

/// Returns the gaps of a draft, with one before the first marker and one after the last.
fn gaps(text: &str) -> Vec<Gap> {
    let page_breaks = header_footer_lines(text);
    let copies = copies(text);
    let mut gaps = vec![Gap::default()];
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let Some(gap) = gaps.last_mut() else { break };
        if strip_marker(line).is_some() {
            gap.before = Some(number);
            gaps.push(Gap {
                after: number,
                ..Gap::default()
            });
        } else if line.trim().is_empty()
            || page_breaks[at]
            || code_mark(line).is_some()
            || copies[at]
        {
            // The line belongs to no paragraph.
        } else if let Some((_, last)) = gap.runs.last_mut().filter(|(_, last)| *last == at) {
            *last = number;
        } else {
            gap.runs.push((number, number));
        }
    }
    gaps
}

/// Returns, for each line, whether it is in a block of code that has no marker.
fn copies(text: &str) -> Vec<bool> {
    let mut copies: Vec<bool> = text.lines().map(|_| false).collect();
    let mut open = None;
    for (at, line) in text.lines().enumerate() {
        match code_mark(line) {
            Some(CodeMark::Begins) => open = Some(at),
            Some(CodeMark::Ends) => {
                if let Some(begin) = open.take() {
                    copies[begin..at].fill(true);
                }
            }
            None if strip_marker(line).is_some() => open = None,
            None => {}
        }
    }
    copies
}

/// A construct that has not ended: a brace, a comment, or a declaration.
#[derive(Clone, Copy, Debug)]
struct Open {
    what: &'static str,
    start: usize,
    length: usize,
}

/// Returns, for each gap, the start of the construct that its lines interrupt.
fn interruptions(
    sources: &SourceMap,
    xdr: TextId,
    gaps: &[Gap],
) -> Vec<Option<(&'static str, Span)>> {
    let mut scan = Scan::default();
    let mut lines = sources.text(xdr).lines().peekable();
    let mut offset = 0;
    let of_gap = |gap: &Gap| {
        while let Some((_, line)) = lines.next_if(|(number, _)| *number <= gap.after) {
            scan.line(line, offset);
            offset += line.len() + 1;
        }
        let open = scan.open()?;
        Some((
            open.what,
            Span::new(xdr, open.start..open.start + open.length),
        ))
    };
    gaps.iter().map(of_gap).collect()
}

/// The constructs that are open in the XDR that was read so far.
#[derive(Debug, Default)]
struct Scan {
    comment: Option<usize>,
    braces: Vec<usize>,
    /// The first word of a definition without its `;`.
    pending: Option<Open>,
}

impl Scan {
    fn open(&self) -> Option<Open> {
        let sign = |what, start, length| Open {
            what,
            start,
            length,
        };
        let comment = self.comment.map(|at| sign("this comment", at, 2));
        let brace = self.braces.last().map(|at| sign("this `{`", *at, 1));
        comment.or(brace).or(self.pending)
    }

    /// Reads one line at `offset` of the text.
    fn line(&mut self, line: &str, offset: usize) {
        if self.comment.is_none() && line.trim_start().starts_with(['%', '#']) {
            return;
        }
        let mut at = 0;
        while let Some(first) = line[at..].chars().next() {
            let rest = &line[at..];
            if self.comment.is_some() {
                let Some(end) = rest.find("*/") else { return };
                self.comment = None;
                at += end + 2;
            } else if rest.starts_with("/*") {
                self.comment = Some(offset + at);
                at += 2;
            } else if rest.starts_with("//") {
                return;
            } else {
                self.sign(first, rest, offset + at);
                at += first.len_utf8();
            }
        }
    }

    fn sign(&mut self, first: char, rest: &str, start: usize) {
        match first {
            '{' => self.braces.push(start),
            '}' => {
                self.braces.pop();
            }
            ';' if self.braces.is_empty() => self.pending = None,
            _ if first.is_whitespace() || self.pending.is_some() => {}
            _ => {
                let length = rest
                    .find(|c: char| !c.is_alphanumeric())
                    .unwrap_or(rest.len());
                self.pending.get_or_insert(Open {
                    what: "this definition",
                    start,
                    length: length.max(first.len_utf8()),
                });
            }
        }
    }
}

impl Gap {
    /// Returns the lines of the first paragraph, which interrupts an open construct. Prose is
    /// reported for the first gap only, and not after the last marker, where the grammar reports
    /// the missing end.
    fn interrupting(
        &self,
        sources: &SourceMap,
        document: DocumentId,
        is_first: bool,
    ) -> Option<(usize, usize)> {
        let (first, last) = *self.runs.first()?;
        let prose = is_first && self.before.is_some();
        (prose || looks_like_xdr(sources, document, first)).then_some((first, last))
    }

    /// Returns the only paragraph between two markers if it touches one and begins like XDR. This
    /// does not require an open brace, which may be missing too.
    fn touching(&self, sources: &SourceMap, document: DocumentId) -> Option<(usize, usize)> {
        let [(first, last)] = self.runs[..] else {
            return None;
        };
        let before = self.before.filter(|_| self.after > 0)?;
        let touches = first == self.after + 1 || last + 1 == before;
        (touches && looks_like_xdr(sources, document, first)).then_some((first, last))
    }

    /// Returns the lines of the first paragraph that parses as definitions and defines a new name.
    /// Only paragraphs between markers, or next to one, can have lost their markers.
    fn definition(
        &self,
        sources: &mut SourceMap,
        document: DocumentId,
        defined: &HashSet<&str>,
    ) -> Option<(usize, usize)> {
        let between = self.after > 0 && self.before.is_some();
        let count = self.runs.len();
        let beside =
            |at: usize| at == 0 && self.after > 0 || at + 1 == count && self.before.is_some();
        let mut near = (0..count).filter(|at| between || beside(*at));
        near.find_map(|at| {
            let (first, last) = self.runs[at];
            let range = first..=last;
            let mut text = Text::new(document, TextKind::Other);
            let source = sources.document(document);
            for number in range {
                let (column, content) = unmark(source.line(number));
                text.push_line(content, number, column);
            }
            let is_candidate = KEYWORDS.iter().any(|word| starts_with_word(&text, word));
            if !is_candidate {
                return None;
            }
            let text = sources.add_text(text);
            let mut found = Diagnostics::default();
            let parsed = parse::parse(sources, text, &mut found);
            let new = |name: &str| !defined.contains(name);
            let lost = parsed.definitions.iter().any(|d| new(&d.name.name));
            (lost && !found.has_errors()).then_some((first, last))
        })
    }
}

/// Returns true if a line ends or begins as lines of XDR do.
fn looks_like_xdr(sources: &SourceMap, document: DocumentId, number: usize) -> bool {
    let line = unmark(sources.document(document).line(number)).1;
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

/// The lines of a document and where they start in its text.
struct Lines {
    text: TextId,
    starts: Vec<usize>,
}

impl Lines {
    fn new(sources: &mut SourceMap, document: DocumentId) -> Self {
        let text = sources.add_document_text(document, TextKind::Other);
        let mut start = 0;
        let mut starts = Vec::new();
        for (_, line) in sources.text(text).lines() {
            starts.push(start);
            start += line.len() + 1;
        }
        Self { text, starts }
    }

    fn diagnostic(
        &self,
        document: &Document,
        (first, last): (usize, usize),
        open: Option<(&'static str, Span)>,
    ) -> Diagnostic {
        let message = match open {
            Some(_) => "a line without `///` interrupts the XDR, and is not compiled",
            None => "XDR without `///` is not compiled",
        };
        let span = self.span(document, first);
        let mut found =
            Diagnostic::new(Code::UnmarkedLine, span, message).label("no `///` at its start");
        if let Some((what, span)) = open {
            found = found.note_at(span, format!("{what} has not ended there"));
        }
        for number in first..=last.min(first + MAX_FIXES - 1) {
            let span = self.span(document, number);
            let content = document.line(number).trim();
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
        let line = document.line(number).trim_end();
        let indent = line.len() - line.trim_start().len();
        Span::new(self.text, start + indent..start + line.len())
    }
}
