//! Aligns and prints the lines of a formatted text.
//!
//! `super` divides the tokens into lines, and begins another line where
//! [`ends_with_long_comment`](Line::ends_with_long_comment): a token behind such a comment would be
//! lost in it. A formatted text is formatted to itself, which the tests of `xdrgen fmt` check on
//! every schema.

use super::pieces::{Piece, PieceKind, width};
use crate::parse::lexer::TokenKind;

/// The width of one level of indentation.
const INDENT: usize = 4;

/// Comments of neighbouring lines share a column, which is to the right of their code. Code that is
/// wider than this does not move the column.
const ALIGNED: usize = 44;

/// A comment that begins its line or ends it. Comments between tokens are part of the code.
#[derive(Clone, Debug)]
pub(super) struct Remark {
    text: String,
    /// The column at which it began before formatting.
    column: usize,
    /// Whether no token can follow it on its line.
    is_last: bool,
}

/// A line, or several lines if it has a comment of several lines or is verbatim.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) blank_before: bool,
    /// The number of levels.
    pub(super) indent: usize,
    /// The tokens, and the comments between them, with blanks; or the verbatim text.
    pub(super) code: String,
    /// The first token.
    pub(super) first: Option<TokenKind>,
    /// Whether the line begins with `case` or `default`.
    pub(super) is_label: bool,
    /// Whether the line continues the declaration or member of the line before.
    pub(super) continues: bool,
    /// Whether the lines are printed without a change.
    is_verbatim: bool,
    comments: Vec<Remark>,
    /// The offset in `code` of the `=` of an enum's member.
    equal: Option<usize>,
}

impl Line {
    /// Creates lines that are printed without a change.
    pub(super) fn verbatim(text: &str, blank_before: bool) -> Self {
        Self {
            code: text.to_owned(),
            blank_before,
            is_verbatim: true,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.code.is_empty() && self.comments.is_empty()
    }

    /// Adds a token. Comments before it become part of the code.
    pub(super) fn push(&mut self, text: &str, spaced: bool) {
        let after_comment = !self.comments.is_empty();
        for comment in std::mem::take(&mut self.comments) {
            self.add(&comment.text, true);
        }
        self.add(text, spaced || after_comment && text != ";" && text != ",");
    }

    fn add(&mut self, text: &str, spaced: bool) {
        if spaced && !self.code.is_empty() {
            self.code.push(' ');
        }
        self.code.push_str(text);
    }

    pub(super) fn add_comment(&mut self, piece: &Piece<'_>) {
        self.comments.push(Remark {
            text: piece.text.to_owned(),
            column: piece.column,
            is_last: piece.kind == PieceKind::LineComment || piece.text.contains('\n'),
        });
    }

    /// Returns whether no token can follow on this line.
    pub(super) fn ends_with_long_comment(&self) -> bool {
        self.comments.iter().any(|comment| comment.is_last)
    }

    /// Records that the next token is the `=` of an enum's member. It is not aligned behind
    /// comments or in a continued line.
    pub(super) fn mark_equal(&mut self) {
        if self.comments.is_empty() && !self.continues {
            self.equal = Some(self.code.len());
        }
    }

    fn code_width(&self) -> usize {
        self.indent * INDENT + self.code.chars().count()
    }

    /// Returns whether the line has a comment and no code.
    fn is_comment(&self) -> bool {
        self.code.is_empty() && !self.comments.is_empty()
    }

    /// Prints the line, with its comments at a column.
    fn print(&self, column: usize, out: &mut String) {
        if self.blank_before && !out.is_empty() {
            out.push('\n');
        }
        if self.is_verbatim {
            out.push_str(&self.code);
            out.push('\n');
            return;
        }
        let mut line = " ".repeat(self.indent * INDENT);
        line.push_str(&self.code);
        for (at, comment) in self.comments.iter().enumerate() {
            let used = width(line.rsplit('\n').next().unwrap_or_default());
            let target = match (at, self.is_comment()) {
                (0, true) => used,
                (0, false) => column.max(used + 1),
                _ => used + 1,
            };
            line.push_str(&" ".repeat(target - used));
            line.push_str(&shifted(&comment.text, comment.column, target));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Moves the further lines of a comment by the same distance as its first line.
fn shifted(text: &str, old: usize, new: usize) -> String {
    let mut lines = text.split('\n');
    let mut moved = lines.next().unwrap_or_default().trim_end().to_owned();
    for line in lines {
        let content = line.trim();
        let blanks = width(&line[..line.len() - line.trim_start().len()]);
        moved.push('\n');
        if !content.is_empty() {
            moved.push_str(&" ".repeat((blanks + new).saturating_sub(old)));
            moved.push_str(content);
        }
    }
    moved
}

/// Prints lines, aligned.
pub(super) fn print(mut lines: Vec<Line>) -> String {
    align_equals(&mut lines);
    let mut out = String::new();
    let mut rest = lines.as_slice();
    while let Some(first) = rest.first() {
        let is_beside = |line: &Line| !line.comments.is_empty() && !line.is_comment();
        let mut run = 1;
        while is_beside(first)
            && rest.get(run).is_some_and(|next| {
                is_beside(next) && !next.blank_before && next.indent == first.indent
            })
        {
            run += 1;
        }
        let (here, after) = rest.split_at(run);
        let widths = here.iter().map(Line::code_width);
        let column = widths.filter(|width| *width <= ALIGNED).max();
        let column = column.map_or(0, |width| width + 1);
        here.iter().for_each(|line| line.print(column, &mut out));
        rest = after;
    }
    out
}

/// Aligns the `=` of the members of each enum. Comments between members do not interrupt the
/// alignment; blank lines do.
fn align_equals(lines: &mut [Line]) {
    let mut start = 0;
    while start < lines.len() {
        let mut end = start + 1;
        while end < lines.len()
            && !lines[end].blank_before
            && lines[end].indent == lines[start].indent
            && (lines[end].equal.is_some() || lines[end].is_comment())
        {
            end += 1;
        }
        let run = &mut lines[start..end];
        let width = run.iter().filter_map(|line| line.equal).max();
        for line in run {
            if let (Some(at), Some(width)) = (line.equal, width) {
                line.code.insert_str(at, &" ".repeat(width - at));
            }
        }
        start = end;
    }
}
