//! The input of the grammar: a slice of tokens that implements nom's `Input`, and the sink for
//! diagnostics.
//!
//! [`Tokens`] is a cheap copy, but all copies share one [`Context`]: a diagnostic, a cascade and a
//! defined number remain if a parser backtracks, so a parser reports only after it has recognized
//! its construct. [`Tokens::error`] drops an error within [`CASCADE_TOKENS`] after the previous
//! one; [`Tokens::lint`] drops none. A parser that resumes at a certain place calls
//! [`Tokens::end_cascade`]. The numbers of [`Tokens::define`] serve expressions alone, which are
//! errors; `check` computes the values.

use std::cell::{Cell, RefCell};
use std::iter::{Copied, Enumerate};
use std::slice::Iter;

use nom::error::{ErrorKind, ParseError};
use nom::{IResult, Input, Needed};

use crate::ast::{Ident, ValueExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::lexer::{LexOutput, Token, TokenKind};
use crate::parse::macros::{self, Numbers};
use crate::source::{Span, TextId};

/// The maximum nesting depth of inline bodies.
pub(super) const MAX_DEPTH: u8 = 32;

/// The number of tokens after a syntax error within which another error counts as a cascading
/// error.
const CASCADE_TOKENS: usize = 2;

/// The result of a grammar parser. `Err::Error` means that the construct does not begin here;
/// nothing was reported.
pub(super) type ParseResult<'t, T> = IResult<Tokens<'t>, T, Mismatch>;

/// The error of a parser whose construct does not begin here.
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

/// Returns [`Mismatch`] as a nom error.
pub(super) fn mismatch() -> nom::Err<Mismatch> {
    nom::Err::Error(Mismatch)
}

/// All tokens of a text, and the diagnostics for them.
#[derive(Debug)]
pub(super) struct Context<'t> {
    content: &'t str,
    text: TextId,
    tokens: &'t [Token<'t>],
    /// For each `{`, the index of the token that closes it; for every other token, its own index.
    closing: Vec<usize>,
    /// The token of the last syntax error, while it may cause cascading errors.
    last_error: Cell<Option<usize>>,
    diagnostics: RefCell<Vec<Diagnostic>>,
    /// The constants whose values are numbers, as far as the text was read.
    numbers: RefCell<Numbers>,
    /// The expressions that were reported.
    expressions: RefCell<Vec<Span>>,
    /// Whether the text is in the prose of a document.
    prose: bool,
}

impl<'t> Context<'t> {
    /// Creates a context without diagnostics.
    pub(super) fn new(
        content: &'t str,
        text: TextId,
        output: &'t LexOutput<'t>,
        prose: bool,
    ) -> Self {
        let tokens = &output.tokens;
        let closing = closing(tokens);
        Self {
            content,
            text,
            tokens,
            closing,
            last_error: Cell::new(None),
            diagnostics: RefCell::default(),
            numbers: RefCell::new(output.numbers.clone()),
            expressions: RefCell::default(),
            prose,
        }
    }

    /// Returns the reported expressions, sorted, and the collected diagnostics.
    pub(super) fn into_parts(self) -> (Vec<Span>, Vec<Diagnostic>) {
        let mut expressions = self.expressions.into_inner();
        expressions.sort_unstable();
        (expressions, self.diagnostics.into_inner())
    }
}

/// Returns, for each `{`, the index of the token that closes it, or its own index if none does.
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

/// The tokens that remain to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'t> {
    context: &'t Context<'t>,
    start: usize,
    end: usize,
    depth: u8,
    /// Whether the innermost inline body lacks its `}`: no name follows the brace that appears to
    /// close it.
    unclosed: bool,
}

impl<'t> Tokens<'t> {
    /// Returns all tokens of a context.
    pub(super) fn new(context: &'t Context<'t>) -> Self {
        Self {
            context,
            start: 0,
            end: context.tokens.len(),
            depth: 0,
            unclosed: false,
        }
    }

    /// Returns true if the text is in the prose of a document.
    pub(super) fn is_prose(&self) -> bool {
        self.context.prose
    }

    /// Returns the token at an offset from the first.
    pub(super) fn peek(&self, ahead: usize) -> Option<&'t Token<'t>> {
        let tokens: &'t [Token<'t>] = self.context.tokens;
        tokens
            .get(..self.end)
            .and_then(|tokens| tokens.get(self.start + ahead))
    }

    /// Returns the kind of the token at an offset from the first.
    pub(super) fn kind(&self, ahead: usize) -> TokenKind {
        self.peek(ahead).map_or(TokenKind::End, |token| token.kind)
    }

    /// Returns the tokens after the first `count`.
    pub(super) fn skip(mut self, count: usize) -> Self {
        self.start = (self.start + count).min(self.end);
        self
    }

    /// Returns true if both start at the same token.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.start == other.start
    }

    /// Returns the token before the first.
    pub(super) fn previous(&self) -> Option<&'t Token<'t>> {
        self.back(1)
    }

    /// Returns the token that is `count` before the first.
    pub(super) fn back(&self, count: usize) -> Option<&'t Token<'t>> {
        let tokens: &'t [Token<'t>] = self.context.tokens;
        self.start.checked_sub(count).and_then(|at| tokens.get(at))
    }

    /// Returns the offset, from the first token, of the brace that closes the one at the offset
    /// `ahead`.
    pub(super) fn closing(&self, ahead: usize) -> Option<usize> {
        let at = self.start + ahead;
        self.context
            .closing
            .get(at)
            .filter(|closing| **closing > at)
            .map(|closing| closing - self.start)
    }

    /// Returns the span of the first token, or the end of the text.
    pub(super) fn span(&self) -> Span {
        self.peek(0)
            .map_or_else(|| self.end_of_previous(), |token| token.span)
    }

    /// Returns the empty span after the previous token.
    pub(super) fn end_of_previous(&self) -> Span {
        let end = self.previous().map_or(0, |token| token.span.end as usize);
        Span::new(self.context.text, end..end)
    }

    /// Returns the empty span before the first token.
    pub(super) fn start_of_first(&self) -> Span {
        let start = self.span().range().start;
        Span::new(self.context.text, start..start)
    }

    /// Returns the span from `start` to the end of the previous token.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.end_of_previous())
    }

    /// Returns the tokens before those of `end`, without blanks.
    pub(super) fn text_before(&self, end: Self) -> String {
        let tokens = (self.start..end.start).filter_map(|at| self.context.tokens.get(at));
        tokens.map(|token| token.text).collect()
    }

    /// Returns the text at a span.
    pub(super) fn slice(&self, span: Span) -> &'t str {
        self.context.content.get(span.range()).unwrap_or_default()
    }

    /// Calls `read` with the constants whose values are known.
    pub(super) fn with_numbers<T>(&self, read: impl FnOnce(&Numbers) -> T) -> T {
        read(&self.context.numbers.borrow())
    }

    /// Adds a constant to those whose values are known, and returns its value. That of a constant
    /// without an expression is `implicit`.
    pub(super) fn define(
        &self,
        name: &Ident,
        value: Option<&ValueExpr>,
        implicit: Option<i128>,
    ) -> Option<i128> {
        let mut numbers = self.context.numbers.borrow_mut();
        let number = match value {
            Some(value) => macros::number(&value.kind, &numbers)?,
            None => implicit?,
        };
        numbers.insert(name.name.clone(), number);
        Some(number)
    }

    /// Reports an expression. The lexer's errors within it are not shown.
    pub(super) fn error_in_expression(&self, diagnostic: Diagnostic) {
        self.context
            .expressions
            .borrow_mut()
            .extend(diagnostic.span);
        self.error(diagnostic);
    }

    /// Returns the first token as a message shows it.
    pub(super) fn found(&self) -> String {
        self.peek(0).map_or_else(
            || "the end of the text".to_owned(),
            |token| format!("`{}`", token.text),
        )
    }

    /// Enters an inline body, which may lack its `}`. Returns `None` at the maximum depth.
    pub(super) fn deeper(mut self, unclosed: bool) -> Option<Self> {
        self.unclosed = unclosed;
        self.depth = self
            .depth
            .checked_add(1)
            .filter(|depth| *depth <= MAX_DEPTH)?;
        Some(self)
    }

    /// Returns true if the innermost inline body lacks its `}`.
    pub(super) fn is_unclosed(&self) -> bool {
        self.unclosed
    }

    /// Returns these tokens at the depth of `outer`.
    pub(super) fn at_depth_of(mut self, outer: Self) -> Self {
        self.depth = outer.depth;
        self.unclosed = outer.unclosed;
        self
    }

    /// Reports a lint, or an error that is no consequence of an earlier one.
    pub(super) fn lint(&self, diagnostic: Diagnostic) {
        self.context.diagnostics.borrow_mut().push(diagnostic);
    }

    /// Reports a syntax error at these tokens, unless it is a cascading error.
    pub(super) fn error(&self, diagnostic: Diagnostic) {
        if !self.is_cascading() {
            self.lint(diagnostic);
        }
        self.start_cascade();
    }

    /// Returns true if an error here is likely a consequence of the previous syntax error.
    pub(super) fn is_cascading(&self) -> bool {
        self.context
            .last_error
            .get()
            .is_some_and(|last| (last..=last + CASCADE_TOKENS).contains(&self.start))
    }

    /// Treats errors from here on as consequences of the reported error.
    pub(super) fn start_cascade(&self) {
        self.context.last_error.set(Some(self.start));
    }

    /// Returns true if the first token is the first on its line.
    pub(super) fn on_new_line(&self) -> bool {
        self.peek(0).is_some_and(|token| token.first_on_line)
    }

    /// Reports a syntax error: `expected` is missing at these tokens.
    pub(super) fn report_expected(&self, expected: &str) {
        self.error(self.expected_diagnostic(expected));
    }

    /// Returns the diagnostic of [`Self::report_expected`].
    pub(super) fn expected_diagnostic(&self, expected: &str) -> Diagnostic {
        Diagnostic::new(
            Code::Syntax,
            self.span(),
            format!("expected {expected}, found {}", self.found()),
        )
        .label(format!("expected {expected}"))
    }

    /// Reports a missing sign or keyword. The position is after the previous token for signs that
    /// end or open something, and before the first token otherwise.
    pub(super) fn report_missing(&self, kind: TokenKind) {
        let missing = kind.spelling().unwrap_or_default();
        let (span, place, insertion) = match kind {
            TokenKind::BraceOpen => (
                self.end_of_previous(),
                self.end_of_previous(),
                format!(" {missing}"),
            ),
            TokenKind::Semicolon | TokenKind::Comma => (
                self.end_of_previous(),
                self.end_of_previous(),
                missing.to_owned(),
            ),
            TokenKind::Colon | TokenKind::ParenClose => {
                (self.span(), self.end_of_previous(), missing.to_owned())
            }
            _ => (self.span(), self.start_of_first(), format!("{missing} ")),
        };
        let message = format!("expected `{missing}`, found {}", self.found());
        let diagnostic =
            Diagnostic::new(Code::Syntax, span, message).label(format!("expected `{missing}`"));
        self.error(diagnostic.fix(place, insertion, format!("add `{missing}`")));
    }

    /// Ends the suppression of cascading errors: a separator was found or inserted at its place.
    pub(super) fn end_cascade(&self) {
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
        Self {
            end: (self.start + index).min(self.end),
            ..*self
        }
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
        tokens
            .get(self.start..self.end)
            .unwrap_or_default()
            .iter()
            .copied()
    }

    fn iter_indices(&self) -> Self::IterIndices {
        self.iter_elements().enumerate()
    }

    fn slice_index(&self, count: usize) -> Result<usize, Needed> {
        let missing = count.saturating_sub(self.input_len());
        if missing == 0 {
            Ok(count)
        } else {
            Err(Needed::new(missing))
        }
    }
}
