//! Constants and the names of constants.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::{map_opt, opt};
use nom::multi::fold_many0;
use nom::sequence::pair;

use crate::ast::{Ident, ValueExpr, ValueExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{Mismatch, ParseResult, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::number;
use crate::parse::recovery::{any, ident, token};
use crate::source::Span;

/// Parses a number or a name.
pub(super) fn value(input: Tokens<'_>) -> ParseResult<'_, ValueExpr> {
    let name = path.map(|name| ValueExpr {
        span: name.span,
        kind: ValueExprKind::Name(name.name),
    });
    alt((constant, name)).parse(input)
}

fn constant(input: Tokens<'_>) -> ParseResult<'_, ValueExpr> {
    let number = |token: &Token<'_>| match token.kind {
        TokenKind::Number => number::value(token.text).ok(),
        TokenKind::Malformed => Some(number::guess(token.text)),
        _ => None,
    };
    map_opt(any, |token| {
        Some(ValueExpr {
            span: token.span,
            kind: ValueExprKind::Number(number(token)?),
        })
    })
    .parse(input)
}

/// Parses a required value. A missing value is reported as a missing `what`; one extra token is
/// skipped.
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

/// Parses a required value, or returns zero in its place.
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

/// Parses a name with an optional path of namespaces or an enum before it (an extension). The last
/// part is the name.
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

/// Parses `::` with a name directly after it.
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
