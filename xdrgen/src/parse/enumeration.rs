//! Enums: RFC 4506, section 6.3, enum-body.
//!
//! A member without a value (an extension) keeps `None`; `check` computes its value. The values
//! that [`enum_body`] gives to `Tokens::define` serve expressions alone. A body in which no member
//! has a value is read by other rules ([`has_values`]): there a name after a name is the next
//! member, whose comma is missing, and not a value.

use std::cell::Cell;

use nom::Input;
use nom::Parser;
use nom::branch::alt;
use nom::sequence::{preceded, terminated};

use crate::ast::{EnumBody, EnumMember, Ident, ValueExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{ParseResult, Tokens};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::recovery::{close, ends_body, expect, ident, is_name, items, repeated, token};
use crate::parse::value::expect_value;

/// Parses `{ A = 1, B = 2 }`.
pub(super) fn enum_body<'t>(input: Tokens<'t>) -> ParseResult<'t, EnumBody> {
    let (body, open) = terminated(expect(TokenKind::BraceOpen), repeated).parse(input)?;
    if body.kind(0) == TokenKind::BraceClose {
        body.report_expected("a name");
    }
    let valued = has_values(body);
    let last = Cell::new(Some(-1));
    let member = |input: Tokens<'t>| {
        let (rest, found) = member(input, valued)?;
        if let Some(member) = &found {
            let next = last.get().and_then(|last: i128| last.checked_add(1));
            last.set(input.define(&member.name, member.value.as_ref(), next));
        }
        Ok((rest, found))
    };
    let (rest, members) = items(alt((member, invalid_member))).parse(body)?;
    let (rest, ()) = close(open).parse(rest)?;
    Ok((rest, EnumBody { members }))
}

/// Parses members without the braces around them: `A = 1, B = 2,`.
pub(super) fn bare_members(input: Tokens<'_>) -> ParseResult<'_, Vec<EnumMember>> {
    let mut members = Vec::new();
    let mut rest = input;
    while is_name(rest.kind(0)) && rest.kind(1) == TokenKind::Equal {
        let (after, name) = ident(rest)?;
        let (after, value) = member_value(&name, after)?;
        input.define(&name, value.as_ref(), None);
        members.push(EnumMember { name, value });
        let more = matches!(after.kind(0), TokenKind::Comma | TokenKind::Semicolon);
        rest = after.skip(usize::from(more));
    }
    Ok((rest, members))
}

/// Returns true if a member of a body has a value.
fn has_values(body: Tokens<'_>) -> bool {
    use TokenKind::{BraceClose, BraceOpen, Equal, Number};
    let ends = |token: Token<'_>| matches!(token.kind, BraceClose | BraceOpen | Equal | Number);
    let end = body.position(ends).map(|at| body.kind(at));
    matches!(end, Some(Equal | Number))
}

/// Parses a member. `valued` is true if a member of the body has a value.
fn member(input: Tokens<'_>, valued: bool) -> ParseResult<'_, Option<EnumMember>> {
    let (rest, name) = ident(input)?;
    if !valued && is_name(rest.kind(0)) && separates(rest.kind(1)) {
        implicit(&name, &rest);
        let (rest, ()) = separator(rest)?;
        return Ok((rest, Some(EnumMember { name, value: None })));
    }
    let (rest, value) = member_value(&name, rest)?;
    let (rest, ()) = separator(rest)?;
    Ok((rest, Some(EnumMember { name, value })))
}

/// Parses `= 1`, or nothing (an extension).
fn member_value<'t>(name: &Ident, input: Tokens<'t>) -> ParseResult<'t, Option<ValueExpr>> {
    let input = match input.peek(0) {
        Some(token) if token.text == name.name => repeated(input)?.0,
        _ => input,
    };
    if let Ok((rest, _)) = terminated(token(TokenKind::Equal), repeated).parse(input) {
        return expect_value("a value").parse(rest);
    }
    if input.kind(0) == TokenKind::Comma && input.kind(1) == TokenKind::Equal {
        input.error(
            input
                .expected_diagnostic("`=`")
                .fix(input.span(), "", "remove the `,`"),
        );
        return expect_value("a value").parse(input.skip(2));
    }
    let new_line = input.on_new_line();
    match (input.kind(0), input.kind(1)) {
        (TokenKind::Number, _) => {
            preceded(expect(TokenKind::Equal), expect_value("a value")).parse(input)
        }
        (kind, next) if is_name(kind) && next != TokenKind::Equal && !new_line => {
            preceded(expect(TokenKind::Equal), expect_value("a value")).parse(input)
        }
        (kind, _) if is_name(kind) || matches!(kind, TokenKind::Comma | TokenKind::BraceClose) => {
            implicit(name, &input);
            Ok((input, None))
        }
        (_, TokenKind::Equal) => {
            preceded(expect(TokenKind::Equal), expect_value("a value")).parse(input)
        }
        _ => {
            input.report_expected("`=`");
            Ok((input, None))
        }
    }
}

fn implicit(name: &Ident, input: &Tokens<'_>) {
    if input.is_cascading() {
        return;
    }
    let message = format!("`{}` has no value", name.name);
    input.lint(
        Diagnostic::new(Code::ImplicitEnumValue, name.span, message)
            .label("one more than the previous member"),
    );
}

/// Parses the separator of members: `,`, or nothing before the `}`.
fn separator(input: Tokens<'_>) -> ParseResult<'_, ()> {
    if let Ok((rest, comma)) = token(TokenKind::Comma).parse(input) {
        if rest.kind(0) == TokenKind::BraceClose {
            input.lint(
                Diagnostic::new(
                    Code::TrailingComma,
                    comma.span,
                    "a comma after the last member",
                )
                .label("extra comma")
                .fix(comma.span, "", "remove it"),
            );
        }
        if rest.on_new_line() {
            rest.end_cascade();
        }
        return Ok((rest, ()));
    }
    let member_follows = |ahead| is_name(input.kind(ahead)) && separates(input.kind(ahead + 1));
    match (input.kind(0), input.kind(1)) {
        _ if ends_body(&input) => Ok((input, ())),
        _ if member_follows(0) => {
            input.report_missing(TokenKind::Comma);
            if input.kind(2) != TokenKind::Equal && !input.is_unclosed() {
                input.end_cascade();
            }
            Ok((input, ()))
        }
        (TokenKind::Semicolon, TokenKind::BraceClose) => Ok((instead_of_comma(input, ""), ())),
        (TokenKind::Semicolon, _) if member_follows(1) => Ok((instead_of_comma(input, ","), ())),
        _ => {
            input.report_expected("`,` or `}`");
            Ok((after_member(input), ()))
        }
    }
}

/// Returns true if `kind`, after a word, shows that the word is a member.
fn separates(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Equal | TokenKind::Comma | TokenKind::BraceClose
    )
}

/// Reports a `;` in place of a comma or of nothing, and skips it.
fn instead_of_comma<'t>(input: Tokens<'t>, right: &str) -> Tokens<'t> {
    let diagnostic = input.expected_diagnostic("`,` or `}`");
    let action = if right.is_empty() {
        "remove it"
    } else {
        "write `,`"
    };
    input.error(diagnostic.fix(input.span(), right, action));
    input.skip(1)
}

/// Reports and skips input that is not a member.
fn invalid_member(input: Tokens<'_>) -> ParseResult<'_, Option<EnumMember>> {
    input.report_expected("a name");
    Ok((after_member(input), None))
}

/// Returns the tokens after an invalid member: past its comma, or before the next line's member or
/// the end of the body.
fn after_member(mut input: Tokens<'_>) -> Tokens<'_> {
    let start = input;
    loop {
        let new_line = input.on_new_line();
        match input.kind(0) {
            TokenKind::Comma => return input.skip(1),
            kind if is_name(kind) && new_line && !input.is_at(&start) => return input,
            _ if ends_body(&input) => return input,
            _ => input = input.skip(1),
        }
    }
}
