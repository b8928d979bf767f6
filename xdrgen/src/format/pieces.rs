//! Splits a text into tokens, and the comments and lines between them.
//!
//! The tokens and the lines that conditions exclude are those of the lexer. `directive` and
//! `first_on_line` repeat two rules of `parse::lexer`, which change with them: which lines a
//! backslash joins to a `%` or `#` line, and where such a line may begin.
//!
//! [`format`](super::format) compares the pieces of its result with those of its input: every
//! character except blanks and line ends must be in a piece, and other blanks between pieces must
//! give the same pieces. It removes a byte order mark and each CR before LF first, and rejects
//! malformed text, for which it suffices that nothing here panics.

use std::collections::VecDeque;
use std::ops::Range;

use super::lex;
use crate::parse::lexer::TokenKind;

/// The distance of tab stops: a tab ends at the next multiple.
const TAB: usize = 8;

/// The kind of a [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Token(TokenKind),
    /// `/* .. */`
    Comment,
    /// `// ..`, up to the end of the line.
    LineComment,
    /// Text that formatting does not change: a `%` or `#` line, or lines that a condition
    /// excludes, with their indentation.
    Lines,
}

/// A part of a text that stays in one piece. Formatting may only indent the further lines of a
/// comment anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) kind: PieceKind,
    pub(super) text: &'t str,
    /// The number of line ends between the previous piece and this one; 1 for the first piece. From
    /// it `layout` knows comments beside code (0) and blank lines (2 or more).
    pub(super) breaks: usize,
    /// The column at which the piece begins, with tabs expanded.
    pub(super) column: usize,
}

/// Returns the pieces of a text, in order. They contain everything except the blanks and line ends
/// between them.
pub(super) fn split(text: &str) -> Vec<Piece<'_>> {
    let lexed = lex(text);
    let excluded = lexed.inactive.iter().map(|found| found.lines.range());
    let mut splitter = Splitter {
        text,
        excluded: excluded.collect(),
        pieces: Vec::new(),
        end: 0,
        first_on_line: true,
    };
    for token in lexed.tokens {
        let range = token.span.range();
        splitter.gap(range.start);
        splitter.push(PieceKind::Token(token.kind), range.start, range.end);
        splitter.first_on_line = false;
    }
    splitter.gap(text.len());
    splitter.pieces
}

struct Splitter<'t> {
    text: &'t str,
    /// The lines that conditions exclude and that `gap` has not passed.
    excluded: VecDeque<Range<usize>>,
    pieces: Vec<Piece<'t>>,
    /// The end of the last piece.
    end: usize,
    /// Whether no token precedes on the line. Comments do not count.
    first_on_line: bool,
}

impl<'t> Splitter<'t> {
    /// Adds the text between two offsets as a piece.
    fn push(&mut self, kind: PieceKind, start: usize, end: usize) {
        let between = self.text.get(self.end..start).unwrap_or_default();
        let breaks = between.matches('\n').count();
        let line = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let is_first = self.pieces.is_empty();
        self.pieces.push(Piece {
            kind,
            text: &self.text[start..end],
            breaks: if is_first { 1 } else { breaks },
            column: width(&self.text[line..start]),
        });
        self.end = end;
    }

    /// Adds the pieces from the end of the last one to an offset.
    fn gap(&mut self, to: usize) {
        let mut at = self.end;
        while let Some(next) = self.text[at..to].chars().next() {
            let rest = &self.text[at..to];
            let (kind, length) = match (next, self.excluded_until(at)) {
                ('\n', _) => {
                    self.first_on_line = true;
                    at += 1;
                    continue;
                }
                _ if next.is_whitespace() => {
                    at += next.len_utf8();
                    continue;
                }
                (_, Some(end)) => {
                    // These lines are not XDR. They keep their indentation.
                    let line = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
                    at = self.end.max(line);
                    (PieceKind::Lines, self.text[at..end].trim_end().len())
                }
                ('%' | '#', None) if self.first_on_line => (PieceKind::Lines, directive(rest)),
                _ => comment(rest).unwrap_or_else(|| (PieceKind::Lines, first_line(rest).len())),
            };
            self.push(kind, at, at + length);
            at += length;
        }
    }

    /// Returns the end of the lines that a condition excludes, if `at` is in them.
    fn excluded_until(&mut self, at: usize) -> Option<usize> {
        while self.excluded.front().is_some_and(|lines| lines.end <= at) {
            self.excluded.pop_front();
        }
        let lines = self.excluded.front()?;
        lines.contains(&at).then_some(lines.end)
    }
}

/// Returns the column after a text that begins at the start of a line.
pub(super) fn width(text: &str) -> usize {
    text.chars().fold(0, |column, c| match c {
        '\t' => (column / TAB + 1) * TAB,
        _ => column + 1,
    })
}

/// Returns the kind and the length of the comment at the start of a text.
fn comment(text: &str) -> Option<(PieceKind, usize)> {
    if let Some(inner) = text.strip_prefix("/*") {
        let end = inner.find("*/")? + "/**/".len();
        return Some((PieceKind::Comment, end));
    }
    text.starts_with("//")
        .then(|| (PieceKind::LineComment, first_line(text).len()))
}

/// Returns the first line of a text, without blanks at its end.
fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default().trim_end()
}

/// Returns the length of the directive at the start of a text, with the lines that a backslash
/// joins to it.
fn directive(text: &str) -> usize {
    let mut lines = text.split_inclusive('\n').peekable();
    let mut length = 0;
    while let Some(line) = lines.next() {
        let content = line.trim_end_matches(['\n', '\r']);
        let next = lines.peek();
        let joined =
            content.ends_with('\\') && next.is_some_and(|next| !next.trim_start().starts_with('%'));
        if !joined {
            return length + content.len();
        }
        length += line.len();
    }
    length
}
