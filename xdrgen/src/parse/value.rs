//! Constants and names that stand for them.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::{map_opt, opt};
use nom::multi::fold_many0;
use nom::sequence::pair;

use crate::ast::{Ident, Value, ValueKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{Mismatch, Parsed, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::number;
use crate::parse::recovery::{any, ident, token};
use crate::source::Span;

/// A number or a name.
pub(super) fn value(input: Tokens<'_>) -> Parsed<'_, Value> {
    let name = path.map(|name| Value { span: name.span, kind: ValueKind::Name(name.name) });
    alt((constant, name)).parse(input)
}

fn constant(input: Tokens<'_>) -> Parsed<'_, Value> {
    let number = |token: &Token<'_>| match token.kind {
        TokenKind::Number => number::value(token.text).ok(),
        TokenKind::Malformed => Some(number::guess(token.text)),
        _ => None,
    };
    map_opt(any, |token| Some(Value { span: token.span, kind: ValueKind::Number(number(token)?) })).parse(input)
}

/// A value that must stand here. Where it is missing, that is reported as no `what`; one token too many is left out.
pub(super) fn expect_value<'t>(
    what: &'static str,
) -> impl Parser<Tokens<'t>, Output = Option<Value>, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, value)) = value(input) {
            return Ok((rest, Some(value)));
        }
        input.expected(what);
        let repeated = input.previous().is_some_and(|previous| previous.kind == input.kind(0));
        let separates = matches!(
            input.kind(0),
            TokenKind::Comma | TokenKind::Semicolon | TokenKind::BraceClose | TokenKind::Case | TokenKind::Default
        );
        if (repeated || !separates)
            && let Ok((rest, value)) = value(input.skip(1))
        {
            return Ok((rest, Some(value)));
        }
        Ok((input, None))
    }
}

/// A value that must stand here, or a stand-in for it.
pub(super) fn value_or_zero<'t>(what: &'static str) -> impl Parser<Tokens<'t>, Output = Value, Error = Mismatch> {
    move |input: Tokens<'t>| {
        let (rest, value) = expect_value(what).parse(input)?;
        Ok((rest, value.unwrap_or(Value { span: input.gap(), kind: ValueKind::Number(0) })))
    }
}

/// A name, and before it, as an extension, the namespaces or the enum it is in: the last part is the name.
pub(super) fn path(input: Tokens<'_>) -> Parsed<'_, Ident> {
    let (rest, leading) = opt(colons).parse(input)?;
    let (rest, first) = ident(rest)?;
    let step = pair(colons, ident);
    let (rest, (name, steps)) =
        fold_many0(step, || (first.clone(), 0), |(_, count), (_, next)| (next, count + 1)).parse(rest)?;
    if leading.is_some() || steps > 0 {
        let span = rest.since(input.span());
        input.lint(
            Diagnostic::new(Code::Namespace, span, format!("`{}` is named by its namespace", name.name))
                .label("XDR has no `::`"),
        );
    }
    Ok((rest, name))
}

/// `::`, with a name right after it.
fn colons(input: Tokens<'_>) -> Parsed<'_, Span> {
    let (rest, (first, second)) = pair(token(TokenKind::Colon), token(TokenKind::Colon)).parse(input)?;
    let touching = first.span.end == second.span.start
        && rest.peek(0).is_some_and(|next| next.kind == TokenKind::Name && next.span.start == second.span.end);
    if touching { Ok((rest, first.span.to(second.span))) } else { Err(mismatch()) }
}
