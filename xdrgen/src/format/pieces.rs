//! Splits a text into tokens and the comments and lines between them.
//!
//! The tokens are those of the lexer. This module finds the rest by the lexer's rules: where a `%`
//! or `#` line may begin, and which lines a backslash joins to it. Both change together. Text
//! between tokens that is no comment counts as lines that `#if` excludes.

use super::tokens;
use crate::parse::lexer::TokenKind;

/// The width to which a tab leads.
const TAB: usize = 8;

/// The kind of a [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Token(TokenKind),
    /// `/* .. */`
    Comment,
    /// `// ..`, up to the end of the line.
    LineComment,
    /// Whole lines for other tools: `%` and `#` lines, and lines that `#if` excludes.
    Lines,
}

/// A part of a text that formatting does not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) kind: PieceKind,
    pub(super) text: &'t str,
    /// The number of line ends between the previous piece and this one. The first piece has one.
    pub(super) breaks: usize,
    /// The column at which the piece begins, with tabs expanded.
    pub(super) column: usize,
}

/// Returns the pieces of a text, in order. They contain everything except blanks.
pub(super) fn split(text: &str) -> Vec<Piece<'_>> {
    let mut splitter = Splitter {
        text,
        pieces: Vec::new(),
        end: 0,
        first_on_line: true,
    };
    for token in tokens(text) {
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
    pieces: Vec<Piece<'t>>,
    /// The end of the last piece.
    end: usize,
    /// Whether no token precedes on the line.
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
            let (kind, length) = match next {
                '\n' => {
                    self.first_on_line = true;
                    at += 1;
                    continue;
                }
                _ if next.is_whitespace() => {
                    at += next.len_utf8();
                    continue;
                }
                '%' | '#' if self.first_on_line => (PieceKind::Lines, directive(rest)),
                _ => match comment(rest) {
                    Some(found) => found,
                    None => {
                        // Lines that `#if` excludes are not XDR: they are not changed.
                        at = self
                            .end
                            .max(self.text[..at].rfind('\n').map_or(0, |end| end + 1));
                        (PieceKind::Lines, excluded(&self.text[at..to]))
                    }
                },
            };
            self.push(kind, at, at + length);
            at += length;
        }
    }
}

/// Returns the width of the start of a line.
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
    let line = text.split('\n').next().unwrap_or_default();
    text.starts_with("//")
        .then(|| (PieceKind::LineComment, line.trim_end().len()))
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

/// Returns the length of the lines before the next directive, without the last line end.
fn excluded(text: &str) -> usize {
    let mut length = 0;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if at > 0 && line.trim_start().starts_with(['%', '#']) {
            break;
        }
        length += line.len();
    }
    text[..length].trim_end().len()
}
