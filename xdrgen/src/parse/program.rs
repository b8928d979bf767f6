//! Programs, versions and procedures: RFC 5531, section 12.2.

use nom::branch::alt;
use nom::combinator::opt;
use nom::multi::separated_list0;
use nom::sequence::{delimited, terminated};
use nom::{Input, Parser};

use crate::ast::{
    DefinitionKind, ProgramBody, ProgramProcedure, ProgramVersion, TypeKind, TypeSpecifier,
    ValueExpr,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::definition::{NameAndKind, end};
use crate::parse::input::{Mismatch, ParseResult, Tokens};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::recovery::{
    close, expect, expect_name, items, repeated, semicolon, skip_invalid, starts_declaration,
    token, word,
};
use crate::parse::structure::stray_semicolon;
use crate::parse::types::type_specifier;
use crate::parse::value::value_or_zero;

/// The maximum number of tokens between a procedure's arguments and their `)` that are skipped as
/// one defect.
const MAX_SKIPPED: usize = 64;

/// Parses `program NAME { version .. } = 1;`.
pub(super) fn program(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    let (rest, _) = (word("program"), repeated_word("program")).parse(input)?;
    program_after_keyword(rest)
}

/// Parses `NAME { version .. } = 1;`.
pub(super) fn program_after_keyword(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    let (rest, name) = expect_name("a name for the program").parse(input)?;
    let item = alt((
        stray_semicolon.map(|()| None),
        version,
        skip_invalid("`version`"),
    ));
    let (rest, versions) = braced(item).parse(rest)?;
    let (rest, number) = number("a program number").parse(rest)?;
    let (rest, ()) = end(rest)?;
    Ok((
        rest,
        name.map(|name| {
            (
                name,
                DefinitionKind::Program(ProgramBody { versions, number }),
            )
        }),
    ))
}

/// Parses `{ .. }`.
fn braced<'t, T>(
    item: impl Parser<Tokens<'t>, Output = Option<T>, Error = Mismatch>,
) -> impl Parser<Tokens<'t>, Output = Vec<T>, Error = Mismatch> {
    let mut items = items(item);
    move |input: Tokens<'t>| {
        let (rest, open) = terminated(expect(TokenKind::BraceOpen), repeated).parse(input)?;
        let (rest, found) = items.parse(rest)?;
        let (rest, ()) = close(open).parse(rest)?;
        Ok((rest, found))
    }
}

/// Parses `= 1`.
fn number<'t>(what: &'static str) -> impl Parser<Tokens<'t>, Output = ValueExpr, Error = Mismatch> {
    (expect(TokenKind::Equal), repeated, value_or_zero(what)).map(|(_, _, value)| value)
}

/// Parses `version NAME { T PROC(U) = 1; } = 1;`.
fn version(input: Tokens<'_>) -> ParseResult<'_, Option<ProgramVersion>> {
    let (rest, _) = alt((word("version").map(|_| ()), missing_version)).parse(input)?;
    let (rest, ()) = repeated_word("version").parse(rest)?;
    let (rest, name) = expect_name("a name for the version").parse(rest)?;
    let item = alt((
        stray_semicolon.map(|()| None),
        procedure,
        skip_invalid("a procedure"),
    ));
    let (rest, procedures) = braced(item).parse(rest)?;
    let (rest, number) = number("a version number").parse(rest)?;
    let (rest, ()) = semicolon(|input| input.peek(0).is_some_and(|token| token.text == "version"))
        .parse(rest)?;
    Ok((
        rest,
        name.map(|name| ProgramVersion {
            name,
            procedures,
            number,
        }),
    ))
}

/// Reports a missing `version` before a name and a body.
fn missing_version(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let (_, _) = (token(TokenKind::Name), token(TokenKind::BraceOpen)).parse(input)?;
    input.error(input.expected_diagnostic("`version`").fix(
        input.start_of_first(),
        "version ",
        "add `version`",
    ));
    Ok((input, ()))
}

/// Skips a second `keyword` before the name, and reports it.
fn repeated_word<'t>(
    keyword: &'static str,
) -> impl Parser<Tokens<'t>, Output = (), Error = Mismatch> {
    move |input: Tokens<'t>| {
        if input.kind(1) != TokenKind::Name {
            return Ok((input, ()));
        }
        let (rest, second) = opt(word(keyword)).parse(input)?;
        if let Some(second) = second {
            let diagnostic = input.expected_diagnostic("a name");
            input.error(diagnostic.fix(second.span, "", format!("remove `{keyword}`")));
        }
        Ok((rest, ()))
    }
}

/// Parses `T PROC(U, V) = 1;`.
fn procedure(input: Tokens<'_>) -> ParseResult<'_, Option<ProgramProcedure>> {
    let (rest, reply) = alt((
        (token(TokenKind::Void), repeated).map(|_| None),
        type_specifier.map(Some),
    ))
    .parse(input)?;
    check_length(input, reply.as_ref());
    let (rest, name) = expect_name("a name for the procedure").parse(rest)?;
    let open = (expect(TokenKind::ParenOpen), repeated);
    let (rest, arguments) = delimited(open, arguments, end_of_arguments).parse(rest)?;
    let (rest, number) = number("a procedure number").parse(rest)?;
    let (rest, ()) = semicolon(starts_declaration).parse(rest)?;
    let span = rest.since(input.span());
    Ok((
        rest,
        name.map(|name| ProgramProcedure {
            name,
            span,
            reply,
            arguments,
            number,
        }),
    ))
}

/// Parses `void`, or types separated by commas.
fn arguments(input: Tokens<'_>) -> ParseResult<'_, Vec<TypeSpecifier>> {
    if let Ok((rest, _)) = (token(TokenKind::Void), repeated).parse(input) {
        return Ok((rest, Vec::new()));
    }
    let (rest, types) = separated_list0(token(TokenKind::Comma), argument).parse(input)?;
    if types.is_empty() {
        let diagnostic = input.expected_diagnostic("`void` or a type");
        input.error(match input.kind(0) {
            TokenKind::ParenClose => {
                diagnostic.fix(input.end_of_previous(), "void", "write `void`")
            }
            _ => diagnostic,
        });
    }
    let (rest, comma) = opt(token(TokenKind::Comma)).parse(rest)?;
    match comma {
        Some(comma) if !types.is_empty() && rest.kind(0) == TokenKind::ParenClose => input.lint(
            Diagnostic::new(
                Code::TrailingComma,
                comma.span,
                "a comma after the last argument",
            )
            .label("extra comma")
            .fix(comma.span, "", "remove it"),
        ),
        Some(_) => rest.report_expected("a type"),
        None => {}
    }
    Ok((rest, types))
}

/// Parses the `)`, and skips tokens before it that are not arguments.
fn end_of_arguments(input: Tokens<'_>) -> ParseResult<'_, ()> {
    use TokenKind::{BraceClose, BraceOpen, ParenClose, Semicolon};
    let ends =
        |token: Token<'_>| matches!(token.kind, BraceClose | BraceOpen | ParenClose | Semicolon);
    match input.take(MAX_SKIPPED).position(ends) {
        Some(end) if end > 0 && input.kind(end) == ParenClose => {
            input.report_expected("`)`");
            input.skip(end).start_cascade();
            Ok((input.skip(end + 1), ()))
        }
        _ => expect(ParenClose).map(|_| ()).parse(input),
    }
}

fn argument(input: Tokens<'_>) -> ParseResult<'_, TypeSpecifier> {
    let (rest, ty) = type_specifier(input)?;
    check_length(input, Some(&ty));
    Ok((rest, ty))
}

/// Reports `opaque`, which cannot have a length here.
fn check_length(input: Tokens<'_>, ty: Option<&TypeSpecifier>) {
    if ty.is_some_and(|ty| matches!(ty.kind, TypeKind::Opaque)) {
        let diagnostic = Diagnostic::new(Code::Syntax, input.span(), "`opaque` without a length");
        input.error(
            diagnostic
                .label("expected a type with a name")
                .note("define a typedef with a length, and use its name"),
        );
    }
}
