//! Expressions of C in the place of a number, which XDR does not have: each is one error, whose fix
//! is the value.
//!
//! This module decides how many tokens are the expression; `macros` evaluates its text. `value`
//! tries it first: a plain number or name must not match here. The lexer's errors within the
//! expression are dropped (`Tokens::error_in_expression`).

use crate::ast::{ValueExpr, ValueExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{ParseResult, Tokens, mismatch};
use crate::parse::lexer::TokenKind;
use crate::parse::macros;
use crate::parse::recovery::{is_name, starts_type};

/// The label of an expression whose value is not known.
const WRITE_THE_VALUE: &str = "XDR has no expressions: write the value";

/// Parses an expression, and reports it. Returns `Err::Error` if a number, a name or anything else
/// is here.
pub(super) fn expression(input: Tokens<'_>) -> ParseResult<'_, ValueExpr> {
    let length = length(&input).ok_or(mismatch())?;
    let rest = input.skip(length);
    let span = rest.since(input.span());
    let text = input.slice(span);
    let value = input.with_numbers(|numbers| {
        let value = macros::expression(text, span, numbers)?;
        let shown = match &value.kind {
            ValueExprKind::Name(name) => Some(name.clone()),
            kind => macros::number(kind, numbers).map(|number| shown(number, text)),
        };
        Some((value, shown))
    });
    let message = "an expression in the place of a number";
    let found = Diagnostic::new(Code::Syntax, span, message);
    let (value, shown) = value.unzip();
    input.error_in_expression(match shown.flatten() {
        Some(value) => {
            let help = format!("write `{value}`");
            found.label("XDR has no expressions").fix(span, value, help)
        }
        None => found.label(WRITE_THE_VALUE),
    });
    let unknown = || ValueExpr {
        span,
        kind: ValueExprKind::Number(0),
    };
    Ok((rest, value.unwrap_or_else(unknown)))
}

/// Returns a value as the fix writes it: hexadecimal if the expression has a hexadecimal number.
fn shown(number: i128, text: &str) -> String {
    let is_hexadecimal = text.contains("0x") || text.contains("0X");
    match is_hexadecimal && number >= 0 {
        true => format!("{number:#x}"),
        false => number.to_string(),
    }
}

/// Returns the number of tokens of an expression; `None` if none is here that is more than a number
/// or a name.
fn length(input: &Tokens<'_>) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    loop {
        at = operand(input, at, &mut depth)?;
        while depth > 0 && input.kind(at) == TokenKind::ParenClose {
            (at, depth) = (at + 1, depth - 1);
        }
        match operator(input, at) {
            Some(after) => at = after,
            None => break,
        }
    }
    (depth == 0 && (at > 1 || is_joined(input))).then_some(at)
}

/// Returns the offset after an operand with its signs, casts, and opened parentheses.
fn operand(input: &Tokens<'_>, mut at: usize, depth: &mut usize) -> Option<usize> {
    loop {
        at = match input.kind(at) {
            TokenKind::Operator => at + 1,
            TokenKind::ParenOpen => {
                if let Some(after) = cast(input, at) {
                    after
                } else {
                    *depth += 1;
                    at + 1
                }
            }
            TokenKind::Number => return Some(at + 1),
            kind if is_name(kind) => return Some(call(input, at + 1)),
            _ => return None,
        };
    }
}

/// Returns the offset after a cast: `(int)` or `(uint32_t)` before an operand.
fn cast(input: &Tokens<'_>, open: usize) -> Option<usize> {
    let mut at = open + 1;
    while starts_type(input.kind(at)) || input.kind(at) == TokenKind::Name {
        at += 1;
    }
    let is_operand =
        |kind| is_name(kind) || matches!(kind, TokenKind::Number | TokenKind::ParenOpen);
    let follows = input.kind(at) == TokenKind::ParenClose && is_operand(input.kind(at + 1));
    (at > open + 1 && follows).then_some(at + 1)
}

/// Returns the offset after the arguments of a call such as `sizeof(int)`, if one is here.
fn call(input: &Tokens<'_>, open: usize) -> usize {
    use TokenKind::{BraceClose, BraceOpen, End, ParenClose, ParenOpen, Semicolon};
    if input.kind(open) != ParenOpen {
        return open;
    }
    let mut depth = 0;
    let mut at = open;
    loop {
        match input.kind(at) {
            ParenOpen => depth += 1,
            ParenClose => depth -= 1,
            End | Semicolon | BraceOpen | BraceClose => return open,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
}

/// Returns the offset after an operator that another operand follows. That of a difference such as
/// `A -1` is in the number.
fn operator(input: &Tokens<'_>, at: usize) -> Option<usize> {
    use TokenKind::{AngleClose, AngleOpen, Number, Operator, ParenOpen, Star};
    let is_operand = |kind| is_name(kind) || matches!(kind, Number | ParenOpen | Operator);
    let doubled = || match (input.peek(at), input.peek(at + 1)) {
        (Some(first), Some(second)) => first.span.end == second.span.start,
        _ => false,
    };
    match (input.kind(at), input.kind(at + 1)) {
        (Operator, next) if is_operand(next) => Some(at + 1),
        (Star, next) if is_operand(next) => Some(at + 1),
        (AngleOpen, AngleOpen) | (AngleClose, AngleClose)
            if doubled() && is_operand(input.kind(at + 2)) =>
        {
            Some(at + 2)
        }
        (Number, _) if input.peek(at)?.text.starts_with('-') => Some(at),
        _ => None,
    }
}

/// Returns true if one malformed word is an expression: `N-1`, `10-2`, `-N`.
fn is_joined(input: &Tokens<'_>) -> bool {
    let Some(token) = input.peek(0).filter(|it| it.kind == TokenKind::Malformed) else {
        return false;
    };
    let Some((before, after)) = token.text.rsplit_once('-') else {
        return false;
    };
    let starts_with_digit = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_difference = match before {
        "" => !starts_with_digit(after),
        _ => starts_with_digit(before) || starts_with_digit(after),
    };
    let is_expression = || macros::value(token.text, &macros::Numbers::default()).is_some();
    is_difference && is_expression()
}
