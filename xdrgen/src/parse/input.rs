//! What the grammar reads: a slice of tokens that knows its text, as nom's `Input`, and where defects go.

use std::cell::{Cell, RefCell};
use std::iter::{Copied, Enumerate};
use std::slice::Iter;

use nom::error::{ErrorKind, ParseError};
use nom::{IResult, Input, Needed};

use crate::diagnostic::{Code, Diagnostic};
use crate::parse::lexer::{Token, TokenKind};
use crate::source::{Span, TextId};

/// How deep bodies may stand in bodies.
pub(super) const MAX_DEPTH: u8 = 32;

/// How many tokens after a syntax error another one is taken for its consequence.
const SHADOW: usize = 2;

/// What a parser of the grammar gives. `Err::Error`: what it reads does not begin here, and nothing was reported.
pub(super) type Parsed<'t, T> = IResult<Tokens<'t>, T, Mismatch>;

/// Something else stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch;

impl ParseError<Tokens<'_>> for Mismatch {
    fn from_error_kind(_: Tokens<'_>, _: ErrorKind) -> Self {
        Self
    }

    fn append(_: Tokens<'_>, _: ErrorKind, _: Self) -> Self {
        Self
    }
}

/// [`Mismatch`] as nom wants it.
pub(super) fn mismatch() -> nom::Err<Mismatch> {
    nom::Err::Error(Mismatch)
}

/// All tokens of a text, and what was found wrong with them.
#[derive(Debug)]
pub(super) struct Context<'t> {
    text: TextId,
    tokens: &'t [Token<'t>],
    /// For each `{`, the token that closes it; for all others, themselves.
    closing: Vec<usize>,
    /// The last token at which a syntax error was reported, as long as it may cause others.
    last_error: Cell<Option<usize>>,
    diagnostics: RefCell<Vec<Diagnostic>>,
}

impl<'t> Context<'t> {
    /// A context without defects.
    pub(super) fn new(text: TextId, tokens: &'t [Token<'t>]) -> Self {
        let closing = closing(tokens);
        Self { text, tokens, closing, last_error: Cell::new(None), diagnostics: RefCell::default() }
    }

    /// What was found.
    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics.into_inner()
    }
}

/// The token that closes each `{`; itself where none does.
fn closing(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut closing: Vec<usize> = (0..tokens.len()).collect();
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::BraceOpen => open.push(at),
            TokenKind::BraceClose => {
                if let Some(opened) = open.pop() {
                    closing[opened] = at;
                }
            }
            _ => {}
        }
    }
    closing
}

/// Tokens still to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'t> {
    context: &'t Context<'t>,
    start: usize,
    end: usize,
    depth: u8,
    /// Whether the innermost inline body lacks its `}`: no name follows the brace that seems to close it.
    unclosed: bool,
}

impl<'t> Tokens<'t> {
    /// All tokens of a context.
    pub(super) fn new(context: &'t Context<'t>) -> Self {
        Self { context, start: 0, end: context.tokens.len(), depth: 0, unclosed: false }
    }

    /// The token that is `ahead` of the first.
    pub(super) fn peek(&self, ahead: usize) -> Option<&'t Token<'t>> {
        let tokens: &'t [Token<'t>] = self.context.tokens;
        tokens.get(..self.end).and_then(|tokens| tokens.get(self.start + ahead))
    }

    /// What the token that is `ahead` of the first is.
    pub(super) fn kind(&self, ahead: usize) -> TokenKind {
        self.peek(ahead).map_or(TokenKind::End, |token| token.kind)
    }

    /// The tokens after the first `count`.
    pub(super) fn skip(mut self, count: usize) -> Self {
        self.start = (self.start + count).min(self.end);
        self
    }

    /// Whether these tokens begin where those do.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.start == other.start
    }

    /// The token before the first.
    pub(super) fn previous(&self) -> Option<&'t Token<'t>> {
        let tokens: &'t [Token<'t>] = self.context.tokens;
        self.start.checked_sub(1).and_then(|at| tokens.get(at))
    }

    /// How many tokens ahead the brace closes that is `ahead` of the first.
    pub(super) fn closing(&self, ahead: usize) -> Option<usize> {
        let at = self.start + ahead;
        self.context.closing.get(at).filter(|closing| **closing > at).map(|closing| closing - self.start)
    }

    /// The span of the first token, or the end of the text.
    pub(super) fn span(&self) -> Span {
        self.peek(0).map_or_else(|| self.gap(), |token| token.span)
    }

    /// The empty span right after the token before the first.
    pub(super) fn gap(&self) -> Span {
        let end = self.previous().map_or(0, |token| token.span.end as usize);
        Span::new(self.context.text, end..end)
    }

    /// The empty span right before the first token.
    pub(super) fn here(&self) -> Span {
        let start = self.span().range().start;
        Span::new(self.context.text, start..start)
    }

    /// From `start` to the end of the token before the first.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.gap())
    }

    /// How the first token reads in a message.
    pub(super) fn found(&self) -> String {
        self.peek(0).map_or_else(|| "the end of the text".to_owned(), |token| format!("`{}`", token.text))
    }

    /// The same tokens, one inline body deeper, which may lack its `}`; `None` at the limit.
    pub(super) fn deeper(mut self, unclosed: bool) -> Option<Self> {
        self.unclosed = unclosed;
        self.depth = self.depth.checked_add(1).filter(|depth| *depth <= MAX_DEPTH)?;
        Some(self)
    }

    /// Whether the innermost inline body lacks its `}`.
    pub(super) fn is_unclosed(&self) -> bool {
        self.unclosed
    }

    /// The same tokens, as deep as `outer`.
    pub(super) fn at_depth_of(mut self, outer: Self) -> Self {
        self.depth = outer.depth;
        self.unclosed = outer.unclosed;
        self
    }

    /// Reports a lint.
    pub(super) fn lint(&self, diagnostic: Diagnostic) {
        self.context.diagnostics.borrow_mut().push(diagnostic);
    }

    /// Reports a syntax error at these tokens, unless it is likely the consequence of the one before.
    pub(super) fn error(&self, diagnostic: Diagnostic) {
        if !self.in_shadow() {
            self.lint(diagnostic);
        }
        self.cast_shadow();
    }

    /// Whether what is wrong here is likely a consequence of the syntax error before.
    pub(super) fn in_shadow(&self) -> bool {
        self.context.last_error.get().is_some_and(|last| (last..=last + SHADOW).contains(&self.start))
    }

    /// Takes what is wrong from here on for a consequence of what was reported.
    pub(super) fn cast_shadow(&self) {
        self.context.last_error.set(Some(self.start));
    }

    /// Whether the first token is the first of its line.
    pub(super) fn on_new_line(&self) -> bool {
        self.peek(0).is_some_and(|token| token.first_on_line)
    }

    /// Reports that `expected` does not stand at these tokens.
    pub(super) fn expected(&self, expected: &str) {
        self.error(self.unexpected(expected));
    }

    /// The diagnostic of [`Self::expected`].
    pub(super) fn unexpected(&self, expected: &str) -> Diagnostic {
        Diagnostic::new(Code::Syntax, self.span(), format!("expected {expected}, found {}", self.found()))
            .label(format!("expected {expected}"))
    }

    /// Reports that the sign or keyword `kind` is missing: what ends or opens something after the token before, all
    /// else before the first.
    pub(super) fn missing(&self, kind: TokenKind) {
        let missing = kind.spelling().unwrap_or_default();
        let (span, place, insertion) = match kind {
            TokenKind::BraceOpen => (self.gap(), self.gap(), format!(" {missing}")),
            TokenKind::Semicolon | TokenKind::Comma => (self.gap(), self.gap(), missing.to_owned()),
            TokenKind::Colon | TokenKind::ParenClose => (self.span(), self.gap(), missing.to_owned()),
            _ => (self.span(), self.here(), format!("{missing} ")),
        };
        let message = format!("expected `{missing}`, found {}", self.found());
        let diagnostic = Diagnostic::new(Code::Syntax, span, message).label(format!("expected `{missing}`"));
        self.error(diagnostic.fix(place, insertion, format!("add `{missing}`")));
    }

    /// A sign that separates items stood or was put where it belongs: what follows is no consequence of errors before.
    pub(super) fn recovered(&self) {
        self.context.last_error.set(None);
    }
}

impl<'t> Input for Tokens<'t> {
    type Item = Token<'t>;
    type Iter = Copied<Iter<'t, Token<'t>>>;
    type IterIndices = Enumerate<Self::Iter>;

    fn input_len(&self) -> usize {
        self.end - self.start
    }

    fn take(&self, index: usize) -> Self {
        Self { end: (self.start + index).min(self.end), ..*self }
    }

    fn take_from(&self, index: usize) -> Self {
        self.skip(index)
    }

    fn take_split(&self, index: usize) -> (Self, Self) {
        (self.take_from(index), self.take(index))
    }

    fn position<P: Fn(Self::Item) -> bool>(&self, predicate: P) -> Option<usize> {
        self.iter_elements().position(predicate)
    }

    fn iter_elements(&self) -> Self::Iter {
        let tokens: &'t [Token<'t>] = self.context.tokens;
        tokens.get(self.start..self.end).unwrap_or_default().iter().copied()
    }

    fn iter_indices(&self) -> Self::IterIndices {
        self.iter_elements().enumerate()
    }

    fn slice_index(&self, count: usize) -> Result<usize, Needed> {
        let missing = count.saturating_sub(self.input_len());
        if missing == 0 { Ok(count) } else { Err(Needed::new(missing)) }
    }
}
