//! Applies errata to lines of XDR.
//!
//! An erratum changes the content of lines and never their number or position, so that spans still
//! map to the published line. All pieces of the old text must match before anything changes. An
//! erratum applies to the definitions, or else to a copy that contains the line. `crate::errata`
//! reads the files and documents the rules.

use super::line::{Blocks, Line};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::errata::Erratum;
use crate::source::{DocumentId, SourceMap, Span, Text, TextKind};

/// Applies, in order, each erratum that names the document. Reports errata whose old text is not
/// found.
pub(super) fn apply(
    sources: &mut SourceMap,
    document: DocumentId,
    blocks: &mut Blocks,
    errata: &[Erratum],
    diagnostics: &mut Diagnostics,
) {
    for erratum in errata {
        if erratum.document == sources.document(document).file_name()
            && let Err(mismatch) = apply_one(blocks, erratum)
        {
            diagnostics.report(mismatch.diagnostic(sources, document, erratum));
        }
    }
}

/// An erratum that cannot be applied: the line of the document and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mismatch {
    line: usize,
    reason: MismatchReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MismatchReason {
    /// The line contains no XDR.
    NoXdr,
    /// The line has this XDR, which does not contain the old text.
    Absent(String),
    /// The line has this XDR, which contains the old text more than once.
    Ambiguous(String),
}

/// Replaces the old text by the new text. Changes nothing on failure.
fn apply_one(blocks: &mut Blocks, erratum: &Erratum) -> Result<(), Mismatch> {
    let missing = |line| Mismatch {
        line,
        reason: MismatchReason::NoXdr,
    };
    let (lines, first) = find_line(blocks, erratum.line).ok_or_else(|| missing(erratum.line))?;
    let pieces = pieces(&erratum.old);
    let mut ranges = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let line = lines
            .get(first + at)
            .ok_or_else(|| missing(erratum.line + at))?;
        ranges.push(find_once(line, piece)?);
    }
    for (at, range) in ranges.into_iter().enumerate() {
        let new = if at == 0 {
            erratum.new.trim_end_matches('\n')
        } else {
            ""
        };
        lines[first + at].content.replace_range(range, new);
    }
    Ok(())
}

/// Splits the old text into lines and trims each except the first.
fn pieces(old: &str) -> Vec<&str> {
    let mut pieces: Vec<&str> = old.trim_end_matches('\n').split('\n').collect();
    for piece in pieces.iter_mut().skip(1) {
        *piece = piece.trim();
    }
    pieces
}

/// Finds the block that contains a line of the document, and the index of the line in the block.
fn find_line(blocks: &mut Blocks, number: usize) -> Option<(&mut [Line], usize)> {
    std::iter::once(&mut blocks.xdr)
        .chain(&mut blocks.copies)
        .find_map(|lines| {
            let at = lines
                .binary_search_by_key(&number, |line| line.number)
                .ok()?;
            Some((lines.as_mut_slice(), at))
        })
}

/// Finds the range of a piece in a line; the piece must occur once. An empty piece is at the start.
fn find_once(line: &Line, piece: &str) -> Result<std::ops::Range<usize>, Mismatch> {
    if piece.is_empty() {
        return Ok(0..0);
    }
    let mut found = line.content.match_indices(piece);
    let reason = match (found.next(), found.next()) {
        (Some((at, _)), None) => return Ok(at..at + piece.len()),
        (Some(_), Some(_)) => MismatchReason::Ambiguous(line.content.clone()),
        (None, _) => MismatchReason::Absent(line.content.clone()),
    };
    Err(Mismatch {
        line: line.number,
        reason,
    })
}

impl Mismatch {
    fn diagnostic(
        &self,
        sources: &mut SourceMap,
        document: DocumentId,
        erratum: &Erratum,
    ) -> Diagnostic {
        let (message, note) =
            self.message_and_note(sources.document(document).line_count(), &erratum.document);
        let diagnostic = match erratum.span {
            Some(span) => Diagnostic::new(Code::ErratumMismatch, span, message),
            None => Diagnostic::without_span(Code::ErratumMismatch, message),
        };
        match line_span(sources, document, self.line) {
            Some(span) => diagnostic.note_at(span, note),
            None => diagnostic.note(note),
        }
    }

    /// Returns the message, and the note for the line.
    fn message_and_note(&self, line_count: usize, document: &str) -> (String, String) {
        let line = self.line;
        match &self.reason {
            MismatchReason::NoXdr if line == 0 || line > line_count => (
                format!("`{document}` has no line {line}"),
                format!("it has {line_count} lines"),
            ),
            MismatchReason::NoXdr => (
                format!("line {line} of `{document}` contains no XDR"),
                format!("line {line} is not part of the XDR"),
            ),
            MismatchReason::Absent(content) => (
                format!("the erratum's old text is not on line {line} of `{document}`"),
                format!("line {line} contains `{}`", content.trim()),
            ),
            MismatchReason::Ambiguous(content) => (
                format!("the erratum's old text is on line {line} of `{document}` more than once"),
                format!("line {line} contains `{}`", content.trim()),
            ),
        }
    }
}

/// Returns the span of a line of the document, in a text created for it.
fn line_span(sources: &mut SourceMap, document: DocumentId, line: usize) -> Option<Span> {
    let source = sources.document(document);
    if line == 0 || line > source.line_count() {
        return None;
    }
    let content = source.line(line).trim_end();
    let start = content.len() - content.trim_start().len();
    let range = start..content.len();
    let mut text = Text::new(document, TextKind::Other);
    text.push_line(content, line, 0);
    Some(Span::new(sources.add_text(text), range))
}
