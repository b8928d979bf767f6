//! Parsers of values: numbers, and the names of constants, with an optional path.
//!
//! The parsers of declarations, definitions, enums, programs, types and unions use them.
//! [`expect_value`] and [`value_or_zero`] never fail: they report a missing value, and the caller
//! goes on without it or with zero, so that one mistake leads to one error. A number that the lexer
//! could not read ([`TokenKind::Malformed`]) has been reported there, and gets a value silently.
//! Quoted text ([`TokenKind::Text`]) is reported, and gets a value too.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::{map_opt, opt};
use nom::multi::fold_many0;
use nom::sequence::pair;

use crate::ast::{Ident, ValueExpr, ValueExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::expression::expression;
use crate::parse::input::{Mismatch, ParseResult, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::number;
use crate::parse::recovery::{any, ident, token};
use crate::source::Span;

/// Parses a number or a name. An expression is reported, and gets its value if it is known.
pub(super) fn value(input: Tokens<'_>) -> ParseResult<'_, ValueExpr> {
    let name = path.map(|name| ValueExpr {
        span: name.span,
        kind: ValueExprKind::Name(name.name),
    });
    alt((expression, constant, name, quoted)).parse(input)
}

/// Reports quoted text in the place of a number.
fn quoted(input: Tokens<'_>) -> ParseResult<'_, ValueExpr> {
    let (rest, text) = token(TokenKind::Text).parse(input)?;
    let found = Diagnostic::new(Code::InvalidToken, text.span, "quoted text is not a number");
    input.error(found.label("expected a number or a name"));
    let kind = ValueExprKind::Number(0);
    Ok((
        rest,
        ValueExpr {
            span: text.span,
            kind,
        },
    ))
}

fn constant(input: Tokens<'_>) -> ParseResult<'_, ValueExpr> {
    let read = |token: &Token<'_>| match token.kind {
        TokenKind::Number => number::value(token.text).ok(),
        // The lexer has reported it.
        TokenKind::Malformed => Some(number::guess(token.text)),
        _ => None,
    };
    map_opt(any, |token| {
        Some(ValueExpr {
            span: token.span,
            kind: ValueExprKind::Number(read(token)?),
        })
    })
    .parse(input)
}

/// Parses a required value. If it is missing, reports that `what` is missing.
///
/// One token before a value is skipped, unless it may end the declaration or begin the next one
/// (`,`, `;`, `}`, `case`, `default`). Even these are skipped if they repeat the previous token.
pub(super) fn expect_value<'t>(
    what: &'static str,
) -> impl Parser<Tokens<'t>, Output = Option<ValueExpr>, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, value)) = value(input) {
            return Ok((rest, Some(value)));
        }
        input.report_expected(what);
        let repeated = input
            .previous()
            .is_some_and(|previous| previous.kind == input.kind(0));
        let separates = matches!(
            input.kind(0),
            TokenKind::Comma
                | TokenKind::Semicolon
                | TokenKind::BraceClose
                | TokenKind::Case
                | TokenKind::Default
        );
        if (repeated || !separates)
            && let Ok((rest, value)) = value(input.skip(1))
        {
            return Ok((rest, Some(value)));
        }
        Ok((input, None))
    }
}

/// Parses a required value. If it is missing, reports that `what` is missing, and returns zero.
pub(super) fn value_or_zero<'t>(
    what: &'static str,
) -> impl Parser<Tokens<'t>, Output = ValueExpr, Error = Mismatch> {
    move |input: Tokens<'t>| {
        let (rest, value) = expect_value(what).parse(input)?;
        Ok((
            rest,
            value.unwrap_or(ValueExpr {
                span: input.end_of_previous(),
                kind: ValueExprKind::Number(0),
            }),
        ))
    }
}

/// Parses a name, and returns its last part. A path such as `ns::name` is an extension of xdrpp:
/// the lint `namespace` reports it.
///
/// A caller that backtracks and parses the name again does not report it twice: of diagnostics with
/// one code, place and message, [`Diagnostics`](crate::diagnostic::Diagnostics) keeps the first.
pub(super) fn path(input: Tokens<'_>) -> ParseResult<'_, Ident> {
    let (rest, leading) = opt(colons).parse(input)?;
    let (rest, first) = ident(rest)?;
    let step = pair(colons, ident);
    let (rest, (name, steps)) = fold_many0(
        step,
        || (first.clone(), 0),
        |(_, count), (_, next)| (next, count + 1),
    )
    .parse(rest)?;
    if leading.is_some() || steps > 0 {
        let span = rest.since(input.span());
        input.lint(
            Diagnostic::new(
                Code::Namespace,
                span,
                format!("`{}` is qualified by a namespace", name.name),
            )
            .label("XDR has no `::`"),
        );
    }
    Ok((rest, name))
}

/// Parses `::` if a name follows it directly. The name is not consumed.
fn colons(input: Tokens<'_>) -> ParseResult<'_, Span> {
    let (rest, (first, second)) =
        pair(token(TokenKind::Colon), token(TokenKind::Colon)).parse(input)?;
    let touching = first.span.end == second.span.start
        && rest
            .peek(0)
            .is_some_and(|next| next.kind == TokenKind::Name && next.span.start == second.span.end);
    if touching {
        Ok((rest, first.span.to(second.span)))
    } else {
        Err(mismatch())
    }
}
