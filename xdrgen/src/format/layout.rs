//! Arranges pieces in lines.
//!
//! This module decides line breaks, blank lines, indentation and the blanks between tokens; `lines`
//! aligns and prints. This module reads the kinds of tokens and no syntax tree, so that comments
//! keep their place. The order of pieces must not change: `super` compares the result with the
//! input and rejects a difference. The printed text must lead to the same lines again, because
//! `super` promises a stable result.

use super::lines::Line;
use super::pieces::{Piece, PieceKind};
use crate::parse::lexer::TokenKind;

/// The kind of a body in braces. The text outside of all bodies counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// Its members end with a comma.
    Enum,
    /// No semicolon separates its brace from the next definition.
    Namespace,
    /// Its items end with a semicolon.
    Other,
}

/// Returns the lines of a formatted text.
pub(super) fn arrange(pieces: &[Piece<'_>]) -> Vec<Line> {
    let mut layout = Layout::default();
    for (at, piece) in pieces.iter().enumerate() {
        match piece.kind {
            PieceKind::Token(kind) => layout.token(kind, piece, next_token(&pieces[at + 1..])),
            PieceKind::Lines => layout.verbatim(piece),
            PieceKind::Comment | PieceKind::LineComment => {
                layout.comment(piece, next_token(&pieces[at..]));
            }
        }
    }
    layout.end_line();
    layout.lines
}

/// Returns the first token.
fn next_token(pieces: &[Piece<'_>]) -> Option<TokenKind> {
    pieces.iter().find_map(|piece| match piece.kind {
        PieceKind::Token(kind) => Some(kind),
        _ => None,
    })
}

#[derive(Default)]
struct Layout {
    lines: Vec<Line>,
    /// The current line.
    line: Line,
    bodies: Vec<Body>,
    /// The number of open parentheses.
    parentheses: usize,
    /// The last two tokens, the last one first.
    previous: [Option<TokenKind>; 2],
    /// The kind of body that the next brace of the current item opens; `None` for [`Body::Other`].
    opens: Option<Body>,
    /// Whether the current item is complete, so that the next token begins another one.
    item_ended: bool,
    /// Whether the next token continues an item on a new line.
    line_ended: bool,
    /// Whether the last line opens a body.
    after_open: bool,
}

impl Layout {
    fn token(&mut self, kind: TokenKind, piece: &Piece<'_>, next: Option<TokenKind>) {
        let closes = kind == TokenKind::BraceClose;
        // A semicolon may follow the brace of a namespace.
        let ends_namespace =
            kind == TokenKind::Semicolon && self.previous[0] == Some(TokenKind::BraceClose);
        if (self.item_ended || closes) && !ends_namespace {
            self.begin_item(piece, closes);
        } else if self.line_ended || self.line.ends_with_long_comment() {
            self.continue_line();
        }
        self.line_ended = false;
        let closed = if closes { self.bodies.pop() } else { None };
        if self.line.first.is_none() {
            self.line.first = Some(kind);
            if !self.line.continues {
                self.line.indent = self.indent(Some(kind));
                self.line.is_label = is_label(kind);
            }
        }
        if kind == TokenKind::Equal && self.bodies.last() == Some(&Body::Enum) {
            self.line.mark_equal();
        }
        self.line.push(piece.text, needs_space(self.previous, kind));
        self.after_open = kind == TokenKind::BraceOpen;
        // Two colons separate the parts of a name.
        let colons = [self.previous[0], next].contains(&Some(TokenKind::Colon));
        let is_scope = kind == TokenKind::Colon && colons;
        self.item_ended =
            closed == Some(Body::Namespace) || !is_scope && self.ends_item(kind, piece.text);
        self.previous = [Some(kind), self.previous[0]];
    }

    /// Begins a line for the next item, or for the brace that closes a body.
    fn begin_item(&mut self, piece: &Piece<'_>, closes: bool) {
        self.end_line();
        self.line.blank_before = piece.breaks > 1 && !closes && !self.after_open;
        self.parentheses = 0;
        self.opens = None;
    }

    /// Updates the state for a token, and returns whether an item ends with it.
    fn ends_item(&mut self, kind: TokenKind, text: &str) -> bool {
        let is_outside = self.parentheses == 0;
        match kind {
            TokenKind::Enum => self.opens = Some(Body::Enum),
            TokenKind::Struct | TokenKind::Union => self.opens = None,
            TokenKind::Name if text == "namespace" && self.line.code == text => {
                self.opens = Some(Body::Namespace);
            }
            TokenKind::ParenOpen => self.parentheses += 1,
            TokenKind::ParenClose => self.parentheses = self.parentheses.saturating_sub(1),
            TokenKind::BraceOpen => {
                self.bodies.push(self.opens.take().unwrap_or(Body::Other));
                return true;
            }
            TokenKind::Semicolon => return is_outside,
            TokenKind::Comma => return is_outside && self.bodies.last() == Some(&Body::Enum),
            TokenKind::Colon => return is_outside && self.line.is_label,
            _ => {}
        }
        false
    }

    /// Returns the indentation of a line that begins with a token. Cases are indented as their
    /// union.
    fn indent(&self, first: Option<TokenKind>) -> usize {
        let bodies = self.bodies.iter().filter(|body| **body != Body::Namespace);
        let label = usize::from(first.is_some_and(is_label));
        bodies.count().saturating_sub(label)
    }

    /// Moves the current line to the lines, unless it is empty.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.lines.push(line);
        }
    }

    /// Begins a line on which the current item continues.
    fn continue_line(&mut self) {
        let (label, indent) = (self.line.is_label, self.indent(None) + 1);
        self.end_line();
        self.line.continues = true;
        self.line.is_label = label;
        self.line.indent = indent;
    }

    fn comment(&mut self, piece: &Piece<'_>, next: Option<TokenKind>) {
        if piece.breaks == 0 && !self.line.is_empty() {
            return self.line.add_comment(piece);
        }
        if self.item_ended || self.line.is_empty() && !self.line.continues {
            self.end_line();
            self.line.blank_before = piece.breaks > 1 && !self.after_open;
            self.line.indent = self.indent(next);
            self.item_ended = true;
        } else {
            self.continue_line();
            self.line_ended = true;
        }
        self.after_open = false;
        self.line.add_comment(piece);
    }

    /// Adds lines for other tools without a change, between lines of the current item if it is not
    /// complete.
    fn verbatim(&mut self, piece: &Piece<'_>) {
        let continues = !self.item_ended && !self.line.is_empty();
        self.end_line();
        self.line_ended |= continues;
        let blank_before = piece.breaks > 1 && !self.after_open;
        self.lines.push(Line::verbatim(piece.text, blank_before));
        self.after_open = false;
    }
}

fn is_label(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Case | TokenKind::Default)
}

/// Returns whether a blank separates a token from the two before it.
fn needs_space([previous, before]: [Option<TokenKind>; 2], kind: TokenKind) -> bool {
    use TokenKind::{
        AngleClose, AngleOpen, BracketClose, BracketOpen, Colon, Comma, Name, ParenClose,
        ParenOpen, Semicolon, Star, Switch,
    };
    match (previous, kind) {
        (None | Some(ParenOpen | BracketOpen | AngleOpen | Star), _) => false,
        (_, Semicolon | Comma | ParenClose | BracketClose | AngleClose | Colon) => false,
        (_, BracketOpen | AngleOpen) => false,
        (Some(previous), ParenOpen) => previous == Switch,
        // `a::b`
        (Some(Colon), Name) => before != Some(Colon),
        _ => true,
    }
}
